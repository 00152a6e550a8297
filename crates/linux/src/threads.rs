//! Threads, each on a hart of its own, and futexes.

use crate::errno::Errno;
use crate::kernel::{Call, Effect, Kernel, PROCESS_ID};
use crate::stub::{self, Answer};
use crate::time::read_timespec;
use crate::user::{Outcome, Pause};

/// A thread of the process.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    /// Its number.
    pub id: u32,
    /// A word that is cleared, and whose waiters are woken, when it ends; or 0.
    pub clear_at_end: u64,
    /// Signals that it does not take now, as bits from 1 on.
    pub mask: u64,
    /// The mask that comes back after `rt_sigsuspend`.
    pub saved_mask: Option<u64>,
    /// Signals that have been sent to it.
    pub pending: u64,
    /// Address, flags and size of its stack for signals.
    pub signal_stack: [u64; 3],
    /// When it began, and for how long it has waited in calls since then.
    pub began_ns: u64,
    pub waited_ns: u64,
    pub waits_since_ns: Option<u64>,
}

impl Thread {
    pub fn new(id: u32, mask: u64, began_ns: u64) -> Thread {
        const SS_DISABLE: u64 = 2;
        Thread {
            id,
            clear_at_end: 0,
            mask,
            saved_mask: None,
            pending: 0,
            signal_stack: [0, SS_DISABLE, 0],
            began_ns,
            waited_ns: 0,
            waits_since_ns: None,
        }
    }

    /// How long it has run.
    pub fn cpu_ns(&self, now_ns: u64) -> u64 {
        let waits = self.waits_since_ns.map_or(0, |since| now_ns - since);
        now_ns - self.began_ns - self.waited_ns - waits
    }
}

/// Who waits on which word, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Futexes {
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    address: u64,
    bits: u32,
    hart: usize,
}

impl Futexes {
    fn add(&mut self, address: u64, bits: u32, hart: usize) {
        self.waiters.push(Waiter {
            address,
            bits,
            hart,
        });
    }

    fn is_waiting(&self, hart: usize) -> bool {
        self.waiters.iter().any(|waiter| waiter.hart == hart)
    }

    fn remove(&mut self, hart: usize) {
        self.waiters.retain(|waiter| waiter.hart != hart);
    }

    /// Takes at most `count` waiters out whose bits are among `bits`: their harts.
    pub fn wake(&mut self, address: u64, count: u64, bits: u32) -> Vec<usize> {
        let mut woken = Vec::new();
        self.waiters.retain(|waiter| {
            let takes = (woken.len() as u64) < count
                && waiter.address == address
                && waiter.bits & bits != 0;
            if takes {
                woken.push(waiter.hart);
            }
            !takes
        });
        woken
    }

    /// Lets at most `count` waiters wait on another word: how many.
    fn requeue(&mut self, from: u64, to: u64, count: u64) -> u64 {
        let mut moved = Vec::new();
        self.waiters.retain(|waiter| {
            let takes = (moved.len() as u64) < count && waiter.address == from;
            if takes {
                moved.push(Waiter {
                    address: to,
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
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

impl Kernel {
    /// The thread of a hart that makes a call.
    pub fn thread(&mut self, hart: usize) -> &mut Thread {
        let now = self.now_ns();
        self.threads[hart].get_or_insert_with(|| Thread::new(PROCESS_ID, 0, now))
    }

    /// The hart that a thread runs on.
    pub fn hart_of(&self, id: u64) -> Option<usize> {
        self.threads
            .iter()
            .position(|thread| thread.as_ref().is_some_and(|one| u64::from(one.id) == id))
    }

    pub fn begins_to_wait(&mut self, hart: usize) {
        let now = self.now_ns();
        self.thread(hart).waits_since_ns = Some(now);
    }

    pub fn has_run_again(&mut self, hart: usize) {
        let now = self.now_ns();
        let thread = self.thread(hart);
        if let Some(since) = thread.waits_since_ns.take() {
            thread.waited_ns += now - since;
        }
    }

    /// `clone`: flags, stack, where the parent wants the number, where the child wants it, the
    /// thread pointer.
    pub fn clone_thread(
        &mut self,
        hart: usize,
        call: &mut Call,
        [flags, stack, parent, child, tls, _]: [u64; 6],
    ) -> Outcome {
        if flags & CLONE_VM == 0 || flags & CLONE_THREAD == 0 {
            self.tell_once(
                "the program wants a second process (fork), which it cannot have: there is one \
                 address space; the call answers ENOSYS"
                    .to_string(),
            );
            return Err(Errno::NOSYS.into());
        }
        let Some(free) = self.threads.iter().position(Option::is_none) else {
            let harts = self.threads.len();
            self.tell_once(format!(
                "the program wants more than {harts} threads at once: each is a hart of its own \
                 (server.fabric.cores); the call answers EAGAIN"
            ));
            return Err(Errno::AGAIN.into());
        };
        let mut area = call.user.saved(stub::save_area(hart), stub::SAVED_BYTES)?;
        let mut put = |at: u64, value: u64| {
            area[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(stub::register(10), 0);
        if stack != 0 {
            put(stub::register(2), stack);
        }
        if flags & CLONE_SETTLS != 0 {
            put(stub::register(4), tls);
        }
        let id = self.next_thread_id;
        if flags & CLONE_PARENT_SETTID != 0 {
            call.user.write_u32(parent, id)?;
        }
        if flags & CLONE_CHILD_SETTID != 0 {
            call.user.write_u32(child, id)?;
        }
        call.user.write_saved(stub::save_area(free), area);
        self.next_thread_id += 1;
        let mut thread = Thread::new(id, self.thread(hart).mask, self.now_ns());
        if flags & CLONE_CHILD_CLEARTID != 0 {
            thread.clear_at_end = child;
        }
        self.threads[free] = Some(thread);
        self.effects.push(Effect::Start(free));
        Ok(u64::from(id))
    }

    /// `clone3`: the arguments are in memory.
    pub fn clone3(&mut self, hart: usize, call: &mut Call, address: u64, size: u64) -> Outcome {
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
        self.clone_thread(hart, call, [flags, top, parent, child, tls, 0])
    }

    pub fn set_tid_address(&mut self, hart: usize, address: u64) -> Outcome {
        let thread = self.thread(hart);
        thread.clear_at_end = address;
        Ok(u64::from(thread.id))
    }

    /// The end of one thread, which is that of the process if it is the last.
    pub fn exit_thread(&mut self, hart: usize, call: &mut Call, status: u64) -> Outcome {
        if self.threads.iter().flatten().count() == 1 {
            return Ok(self.end(crate::Ending::Exit(status as u8)));
        }
        let clear = self.thread(hart).clear_at_end;
        if clear != 0 && call.user.write_u32(clear, 0).is_err() {
            self.thread(hart).clear_at_end = 0;
        }
        self.effects.push(Effect::ThreadEnded(hart));
        Ok(Answer::WAIT)
    }

    /// What is left to do when its last word has been written: whom to wake.
    pub fn thread_ended(&mut self, hart: usize) -> Vec<usize> {
        let now = self.now_ns();
        let Some(thread) = self.threads[hart].take() else {
            return Vec::new();
        };
        self.ended_cpu_ns += thread.cpu_ns(now);
        if thread.clear_at_end == 0 {
            return Vec::new();
        }
        self.futexes.wake(thread.clear_at_end, 1, u32::MAX)
    }

    /// `futex`: address, operation, value, time or second value, second address, third value.
    pub fn futex(
        &mut self,
        hart: usize,
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
                    if !self.futexes.is_waiting(hart) {
                        return Ok(0); // Somebody has woken it.
                    }
                    if call.timed_out || call.interrupted {
                        self.futexes.remove(hart);
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
                // The word is read last: who changes it later also wakes later.
                if call.user.u32(address)? != value as u32 {
                    return Err(Errno::AGAIN.into());
                }
                self.futexes.add(address, bits, hart);
                call.only_woken = true;
                Err(Pause::Block { deadline_ns })
            }
            WAKE | WAKE_BITS => Ok(self.wake(address, count, bits)),
            REQUEUE | COMPARE_REQUEUE => {
                if command == COMPARE_REQUEUE && call.user.u32(address)? != third as u32 {
                    return Err(Errno::AGAIN.into());
                }
                let woken = self.wake(address, count, u32::MAX);
                let moved = self.futexes.requeue(address, second, extra as u32 as u64);
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
                    "the program uses futex operation {command}, which is not there; it answers \
                     ENOSYS"
                ));
                Err(Errno::NOSYS.into())
            }
        }
    }

    fn wake(&mut self, address: u64, count: u64, bits: u32) -> u64 {
        let woken = self.futexes.wake(address, count, bits);
        self.effects
            .extend(woken.iter().map(|&hart| Effect::Woken(hart)));
        woken.len() as u64
    }

    pub fn sched_getaffinity(&mut self, call: &mut Call, size: u64, address: u64) -> Outcome {
        let harts = self.threads.len();
        if size < 8 || !size.is_multiple_of(8) {
            return Err(Errno::INVAL.into());
        }
        call.user
            .write_words(address, &[u64::MAX >> (64 - harts)])?;
        Ok(8)
    }

    pub fn getcpu(&mut self, hart: usize, call: &mut Call, cpu: u64, node: u64) -> Outcome {
        if cpu != 0 {
            call.user.write_u32(cpu, hart as u32)?;
        }
        if node != 0 {
            call.user.write_u32(node, 0)?;
        }
        Ok(0)
    }

    /// Harts perform their stores in order, and a call is a full barrier for its own; the
    /// expedited kinds need more, and are not offered.
    pub fn membarrier(&mut self, command: u64) -> Outcome {
        if command == 0 {
            Ok(0)
        } else {
            Err(Errno::INVAL.into())
        }
    }

    /// `riscv_flush_icache`, for the hart that asks.
    pub fn flush_instructions(&mut self, hart: usize, call: &mut Call) -> Outcome {
        let address = stub::save_area(hart) + stub::register(10);
        call.user.write_saved(address, vec![0; 8]);
        Ok(Answer::RELOAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_woken_in_the_order_in_which_they_came() {
        let mut futexes = Futexes::default();
        for hart in [3, 1, 2] {
            futexes.add(0x1000, u32::MAX, hart);
        }
        futexes.add(0x2000, u32::MAX, 4);
        assert_eq!(futexes.wake(0x1000, 2, u32::MAX), [3, 1]);
        assert!(futexes.is_waiting(2));
        assert_eq!(futexes.wake(0x1000, 2, u32::MAX), [2]);
        assert_eq!(futexes.wake(0x1000, 2, u32::MAX), [0; 0]);
        assert!(futexes.is_waiting(4));
    }

    #[test]
    fn bits_choose_among_waiters() {
        let mut futexes = Futexes::default();
        futexes.add(0x1000, 1, 1);
        futexes.add(0x1000, 2, 2);
        assert_eq!(futexes.wake(0x1000, 9, 2), [2]);
        assert!(futexes.is_waiting(1));
    }

    #[test]
    fn those_who_are_requeued_wait_behind_others() {
        let mut futexes = Futexes::default();
        futexes.add(0x1000, u32::MAX, 1);
        futexes.add(0x1000, u32::MAX, 2);
        futexes.add(0x2000, u32::MAX, 3);
        assert_eq!(futexes.requeue(0x1000, 0x2000, 1), 1);
        assert_eq!(futexes.wake(0x2000, 9, u32::MAX), [3, 1]);
        assert_eq!(futexes.wake(0x1000, 9, u32::MAX), [2]);
    }
}
