//! Threads and futexes.

use crate::errno::Errno;
use crate::kernel::{Call, Effect, Kernel};
use crate::process::Status;
use crate::space::SharedSpace;
use crate::stub::{self, Answer};
use crate::time::read_timespec;
use crate::user::{Outcome, Pause};
use riscv::paging::Access;

/// A thread of a process.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    /// Its number.
    pub id: u32,
    /// The number of its process.
    pub process: u32,
    /// The address space that its harts use, which lives as long as the thread.
    pub space: SharedSpace,
    /// The hart that it runs on, or last ran on.
    pub hart: usize,
    /// A word that is cleared when the thread ends, and whose waiters are woken; or 0.
    pub clear_at_end: u64,
    /// Blocked signals, as bits from 1 on.
    pub mask: u64,
    /// The mask to restore after `rt_sigsuspend`.
    pub saved_mask: Option<u64>,
    /// Pending signals sent to this thread.
    pub pending: u64,
    /// Address, flags and size of its signal stack.
    pub signal_stack: [u64; 3],
    /// Its start time, and its total time blocked in calls since then.
    pub began_ns: u64,
    pub waited_ns: u64,
    pub waits_since_ns: Option<u64>,
}

/// Address, flags and size of a signal stack that is disabled.
pub(crate) const NO_STACK: [u64; 3] = [0, 2, 0];

impl Thread {
    pub fn new(id: u32, process: u32, space: SharedSpace, mask: u64, began_ns: u64) -> Thread {
        Thread {
            id,
            process,
            space,
            hart: 0,
            clear_at_end: 0,
            mask,
            saved_mask: None,
            pending: 0,
            signal_stack: NO_STACK,
            began_ns,
            waited_ns: 0,
            waits_since_ns: None,
        }
    }

    /// Its CPU time.
    pub fn cpu_ns(&self, now_ns: u64) -> u64 {
        let waits = self.waits_since_ns.map_or(0, |since| now_ns - since);
        now_ns - self.began_ns - self.waited_ns - waits
    }
}

/// A word that threads wait on: the number of its address space and its virtual address. If several
/// spaces share it: 0 and its physical address.
pub(crate) type Word = (u16, u64);

/// The waiters on each word, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Futexes {
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    word: Word,
    bits: u32,
    slot: usize,
}

impl Futexes {
    fn add(&mut self, word: Word, bits: u32, slot: usize) {
        self.waiters.push(Waiter { word, bits, slot });
    }

    fn is_waiting(&self, slot: usize) -> bool {
        self.waiters.iter().any(|waiter| waiter.slot == slot)
    }

    /// Removes a waiting thread.
    pub fn remove(&mut self, slot: usize) {
        self.waiters.retain(|waiter| waiter.slot != slot);
    }

    /// Removes at most `count` waiters whose bits are among `bits`; returns them.
    pub fn wake(&mut self, word: Word, count: u64, bits: u32) -> Vec<usize> {
        let mut woken = Vec::new();
        self.waiters.retain(|waiter| {
            let takes =
                (woken.len() as u64) < count && waiter.word == word && waiter.bits & bits != 0;
            if takes {
                woken.push(waiter.slot);
            }
            !takes
        });
        woken
    }

    /// Moves at most `count` waiters to another word; returns their number.
    fn requeue(&mut self, from: Word, to: Word, count: u64) -> u64 {
        let mut moved = Vec::new();
        self.waiters.retain(|waiter| {
            let takes = (moved.len() as u64) < count && waiter.word == from;
            if takes {
                moved.push(Waiter {
                    word: to,
                    ..*waiter
                });
            }
            !takes
        });
        let count = moved.len() as u64;
        self.waiters.extend(moved);
        count
    }
}

const CLONE_VM: u64 = 0x100;
const CLONE_FILES: u64 = 0x400;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

impl Kernel {
    /// The thread that makes a call.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn thread(&mut self, slot: usize) -> &mut Thread {
        self.threads[slot].as_mut().expect("it makes a call")
    }

    /// The slot of a thread.
    pub fn slot_of(&self, id: u64) -> Option<usize> {
        self.threads
            .iter()
            .position(|thread| thread.as_ref().is_some_and(|one| u64::from(one.id) == id))
    }

    /// The threads of a process, in slot order.
    pub fn threads_of(&self, process: u32) -> Vec<usize> {
        let is_one = |slot: &usize| {
            let thread = self.threads[*slot].as_ref();
            thread.is_some_and(|one| one.process == process)
        };
        (0..self.threads.len()).filter(is_one).collect()
    }

    pub fn begins_to_wait(&mut self, slot: usize) {
        let now = self.now_ns();
        if let Some(thread) = &mut self.threads[slot] {
            thread.waits_since_ns.get_or_insert(now);
        }
    }

    pub fn has_run_again(&mut self, slot: usize) {
        let now = self.now_ns();
        if let Some(thread) = &mut self.threads[slot]
            && let Some(since) = thread.waits_since_ns.take()
        {
            thread.waited_ns += now - since;
        }
    }

    /// `clone`: flags, stack, addresses for the number in the parent and in the child, the thread
    /// pointer.
    pub fn clone_thread(
        &mut self,
        slot: usize,
        call: &mut Call,
        [flags, stack, parent, child, tls]: [u64; 5],
    ) -> Outcome {
        if call.only_woken {
            return self.wait_for_memory(call);
        }
        let is_thread = flags & CLONE_THREAD != 0;
        if is_thread && flags & CLONE_VM == 0 {
            return Err(Errno::INVAL.into());
        }
        if !is_thread && flags & CLONE_FILES != 0 {
            self.tell_once(
                "the program wants a process that shares its open files (clone with CLONE_FILES), \
                 which is not implemented; the call returns EINVAL"
                    .to_string(),
            );
            return Err(Errno::INVAL.into());
        }
        let most = self.threads.len();
        let is_crowded = self.threads.iter().flatten().count() + self.dead.len() >= most;
        let free = self.threads.iter().position(Option::is_none);
        let Some(free) = free.filter(|_| !is_crowded) else {
            self.tell_once(format!(
                "the program wants more than {most} threads and processes at once, including ended \
                 processes that no wait4 has asked for; the call returns EAGAIN"
            ));
            return Err(Errno::AGAIN.into());
        };
        if !is_thread && !call.has_all_registers {
            return Err(Pause::Registers);
        }
        let wanted = if is_thread {
            stub::SAVED_BYTES
        } else {
            stub::CONTEXT_BYTES
        };
        let mut area = call.user.saved(stub::save_area(slot), wanted)?;
        area.resize(stub::CONTEXT_BYTES as usize, 0);
        let id = self.next_id;
        if flags & CLONE_CHILD_SETTID != 0 {
            call.user.check_write(child, 4)?;
        }
        if flags & CLONE_PARENT_SETTID != 0 {
            call.user.write_u32(parent, id)?;
        }
        let space = match flags & CLONE_VM {
            0 => self.fork_space(call)?,
            _ => self.process.space.clone(),
        };
        if flags & CLONE_CHILD_SETTID != 0 {
            if flags & CLONE_VM == 0 {
                let physical = space.borrow_mut().reach(child, Access::Store)?;
                call.jobs.extend(space.borrow_mut().jobs());
                call.user.write_saved(physical, id.to_le_bytes().to_vec());
            } else {
                call.user.write_u32(child, id)?;
            }
        }
        let mut put = |at: u64, value: u64| {
            area[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(stub::register(10), 0);
        put(stub::SATP, space.borrow().satp());
        if stack != 0 {
            put(stub::register(2), stack);
        }
        if flags & CLONE_SETTLS != 0 {
            put(stub::register(4), tls);
        }
        call.user.write_saved(stub::save_area(free), area);
        self.next_id += 1;
        let now = self.now_ns();
        let process = if is_thread { self.process.id } else { id };
        let mut thread = Thread::new(id, process, space.clone(), self.thread(slot).mask, now);
        thread.signal_stack = match is_thread {
            true => thread.signal_stack,
            false => self.thread(slot).signal_stack,
        };
        if flags & CLONE_CHILD_CLEARTID != 0 {
            thread.clear_at_end = child;
        }
        self.threads[free] = Some(thread);
        self.effects.push(Effect::Start(free));
        if is_thread {
            return Ok(u64::from(id));
        }
        let mut process = self.process.child(id, space);
        if flags & CLONE_VFORK != 0 {
            process.has_memory_of = Some(slot);
            call.progress = id as usize;
            call.only_woken = true;
        }
        self.processes.insert(id, Box::new(process));
        Ok(match flags & CLONE_VFORK {
            0 => u64::from(id),
            _ => Answer::SUSPEND,
        })
    }

    /// A parent whose memory a child uses (`vfork`) waits until the child ends or executes another
    /// program.
    fn wait_for_memory(&self, call: &Call) -> Outcome {
        let child = call.progress as u32;
        let still = self.processes.get(&child);
        if still.is_some_and(|one| one.has_memory_of.is_some()) {
            return Err(Pause::Block { deadline_ns: None });
        }
        Ok(u64::from(child))
    }

    /// `clone3`: the arguments are in memory.
    pub fn clone3(&mut self, slot: usize, call: &mut Call, address: u64, size: u64) -> Outcome {
        const SMALLEST: u64 = 64;
        if size < SMALLEST {
            return Err(Errno::INVAL.into());
        }
        let [flags, _, child, parent, _, stack, stack_bytes, tls] = call.user.words(address)?;
        let top = if stack == 0 {
            0
        } else {
            stack.wrapping_add(stack_bytes)
        };
        self.clone_thread(slot, call, [flags, top, parent, child, tls])
    }

    pub fn set_tid_address(&mut self, slot: usize, address: u64) -> Outcome {
        let thread = self.thread(slot);
        thread.clear_at_end = address;
        Ok(u64::from(thread.id))
    }

    /// Ends a thread; ends the process if it is the last one.
    pub fn exit_thread(&mut self, slot: usize, call: &mut Call, status: u64) -> Outcome {
        if self.threads_of(self.process.id).len() == 1 {
            return Ok(self.end_process(slot, Status::exit(status)));
        }
        let clear = self.thread(slot).clear_at_end;
        if clear != 0 && call.user.write_u32(clear, 0).is_err() {
            self.thread(slot).clear_at_end = 0;
        }
        self.effects.push(Effect::ThreadEnded(slot));
        Ok(Answer::WAIT)
    }

    /// The remaining work once the ended thread's last word has been written; returns the threads
    /// to wake.
    pub fn thread_ended(&mut self, slot: usize) -> Vec<usize> {
        self.enter_process(slot);
        let now = self.now_ns();
        self.futexes.remove(slot);
        let Some(thread) = self.threads[slot].take() else {
            return Vec::new();
        };
        self.process.ended_cpu_ns += thread.cpu_ns(now);
        let mut woken = match thread.clear_at_end {
            0 => Vec::new(),
            clear => {
                let word = self.word(clear);
                self.futexes.wake(word, 1, u32::MAX)
            }
        };
        if self.threads_of(self.process.id).is_empty() {
            woken.extend(self.process_ended());
        }
        woken
    }

    /// The futex word at an address of the process.
    fn word(&self, address: u64) -> Word {
        let space = self.process.space.borrow();
        match space.shared_word(address) {
            Some(physical) => (0, physical),
            None => (space.number(), address),
        }
    }

    /// `futex`: address, operation, value, time or second value, second address, third value.
    pub fn futex(
        &mut self,
        slot: usize,
        call: &mut Call,
        [address, operation, value, extra, second, third]: [u64; 6],
    ) -> Outcome {
        const WAIT: u64 = 0;
        const WAKE: u64 = 1;
        const REQUEUE: u64 = 3;
        const COMPARE_REQUEUE: u64 = 4;
        const WAKE_OPERATION: u64 = 5;
        const WAIT_BITS: u64 = 9;
        const WAKE_BITS: u64 = 10;
        const REALTIME: u64 = 256;
        let command = operation & 127;
        let bits = match command {
            WAIT_BITS | WAKE_BITS => third as u32,
            _ => u32::MAX,
        };
        if bits == 0 || !address.is_multiple_of(4) {
            return Err(Errno::INVAL.into());
        }
        let count = value as u32 as u64;
        match command {
            WAIT | WAIT_BITS => {
                if call.only_woken {
                    if !self.futexes.is_waiting(slot) {
                        return Ok(0); // it has been woken
                    }
                    if call.timed_out || call.interrupted {
                        self.futexes.remove(slot);
                        let errno = if call.timed_out {
                            Errno::TIMEDOUT
                        } else {
                            Errno::INTR
                        };
                        return Err(errno.into());
                    }
                    return Err(Pause::Block { deadline_ns: None });
                }
                let deadline_ns = match extra {
                    0 => None,
                    _ => {
                        let time = read_timespec(&mut call.user, extra)?;
                        Some(if command == WAIT {
                            call.begin_ns.saturating_add(time)
                        } else if operation & REALTIME != 0 {
                            time.saturating_sub(crate::kernel::EPOCH_NS)
                        } else {
                            time
                        })
                    }
                };
                // The word is read last: a thread that changes it later also wakes later.
                if call.user.u32(address)? != value as u32 {
                    return Err(Errno::AGAIN.into());
                }
                self.futexes.add(self.word(address), bits, slot);
                call.only_woken = true;
                Err(Pause::Block { deadline_ns })
            }
            WAKE | WAKE_BITS => Ok(self.wake(address, count, bits)),
            REQUEUE | COMPARE_REQUEUE => {
                if command == COMPARE_REQUEUE && call.user.u32(address)? != third as u32 {
                    return Err(Errno::AGAIN.into());
                }
                let woken = self.wake(address, count, u32::MAX);
                let (from, to) = (self.word(address), self.word(second));
                let moved = self.futexes.requeue(from, to, extra as u32 as u64);
                Ok(if command == REQUEUE {
                    woken
                } else {
                    woken + moved
                })
            }
            WAKE_OPERATION => {
                let old = call.user.u32(second)?;
                let (operation, comparison) = (third >> 28 & 7, third >> 24 & 15);
                let sign = |field: u64| ((field as i32) << 20) >> 20;
                let (mut operand, compared) = (sign(third >> 12), sign(third));
                if third >> 31 & 1 != 0 {
                    operand = 1 << (operand & 31);
                }
                let new = match operation {
                    0 => operand as u32,
                    1 => old.wrapping_add(operand as u32),
                    2 => old | operand as u32,
                    3 => old & !(operand as u32),
                    4 => old ^ operand as u32,
                    _ => return Err(Errno::NOSYS.into()),
                };
                let old = old as i32;
                let holds = match comparison {
                    0 => old == compared,
                    1 => old != compared,
                    2 => old < compared,
                    3 => old <= compared,
                    4 => old > compared,
                    5 => old >= compared,
                    _ => return Err(Errno::NOSYS.into()),
                };
                call.user.write_u32(second, new)?;
                let mut woken = self.wake(address, count, u32::MAX);
                if holds {
                    woken += self.wake(second, extra as u32 as u64, u32::MAX);
                }
                Ok(woken)
            }
            _ => {
                self.tell_once(format!(
                    "the program uses futex operation {command}, which is not implemented; it \
                     returns ENOSYS"
                ));
                Err(Errno::NOSYS.into())
            }
        }
    }

    fn wake(&mut self, address: u64, count: u64, bits: u32) -> u64 {
        let word = self.word(address);
        let woken = self.futexes.wake(word, count, bits);
        self.effects
            .extend(woken.iter().map(|&slot| Effect::Woken(slot)));
        woken.len() as u64
    }

    pub fn sched_getaffinity(&mut self, call: &mut Call, size: u64, address: u64) -> Outcome {
        let harts = self.harts as u64;
        let set_bytes = 8 * harts.div_ceil(64);
        if size < set_bytes || !size.is_multiple_of(8) {
            return Err(Errno::INVAL.into());
        }
        let word = |first: u64| u64::MAX >> (64 - (harts - first).min(64));
        let words: Vec<u64> = (0..harts).step_by(64).map(word).collect();
        call.user.write_words(address, &words)?;
        Ok(set_bytes)
    }

    pub fn getcpu(&mut self, slot: usize, call: &mut Call, cpu: u64, node: u64) -> Outcome {
        if cpu != 0 {
            let hart = self.thread(slot).hart;
            call.user.write_u32(cpu, hart as u32)?;
        }
        if node != 0 {
            call.user.write_u32(node, 0)?;
        }
        Ok(0)
    }

    /// Harts perform their stores in order, and a call is a full barrier for its own hart. The
    /// expedited kinds need more, and are not offered.
    pub fn membarrier(&mut self, command: u64) -> Outcome {
        if command == 0 {
            Ok(0)
        } else {
            Err(Errno::INVAL.into())
        }
    }

    /// `riscv_flush_icache`, for the calling slot.
    pub fn flush_instructions(&mut self, slot: usize, call: &mut Call) -> Outcome {
        let address = stub::save_area(slot) + stub::register(10);
        call.user.write_saved(address, vec![0; 8]);
        Ok(Answer::RELOAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD_1: Word = (1, 0x1000);
    const WORD_2: Word = (1, 0x2000);

    #[test]
    fn waiters_are_woken_in_the_order_in_which_they_came() {
        let mut futexes = Futexes::default();
        for slot in [3, 1, 2] {
            futexes.add(WORD_1, u32::MAX, slot);
        }
        futexes.add(WORD_2, u32::MAX, 4);
        assert_eq!(futexes.wake(WORD_1, 2, u32::MAX), [3, 1]);
        assert!(futexes.is_waiting(2));
        assert_eq!(futexes.wake(WORD_1, 2, u32::MAX), [2]);
        assert_eq!(futexes.wake(WORD_1, 2, u32::MAX), [0; 0]);
        assert!(futexes.is_waiting(4));
    }

    #[test]
    fn bits_choose_among_waiters() {
        let mut futexes = Futexes::default();
        futexes.add(WORD_1, 1, 1);
        futexes.add(WORD_1, 2, 2);
        assert_eq!(futexes.wake(WORD_1, 9, 2), [2]);
        assert!(futexes.is_waiting(1));
    }

    #[test]
    fn those_who_are_requeued_wait_behind_others() {
        let mut futexes = Futexes::default();
        futexes.add(WORD_1, u32::MAX, 1);
        futexes.add(WORD_1, u32::MAX, 2);
        futexes.add(WORD_2, u32::MAX, 3);
        assert_eq!(futexes.requeue(WORD_1, WORD_2, 1), 1);
        assert_eq!(futexes.wake(WORD_2, 9, u32::MAX), [3, 1]);
        assert_eq!(futexes.wake(WORD_1, 9, u32::MAX), [2]);
    }
}
