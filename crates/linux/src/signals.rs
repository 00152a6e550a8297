//! Signals: actions, masks, delivery to handlers.

use crate::errno::Errno;
use crate::kernel::{Call, Effect, Ending, Fault, Kernel, PROCESS_ID};
use crate::layout;
use crate::process::{Process, Status};
use crate::space::Denial;
use crate::stub::{self, Answer};
use crate::threads::NO_STACK;
use crate::time::read_timespec;
use crate::user::{Outcome, Pause};
use riscv::paging::Access;
use riscv::{Cause, Trap};

const SIGILL: u64 = 4;
const SIGTRAP: u64 = 5;
const SIGBUS: u64 = 7;
const SIGKILL: u64 = 9;
const SIGSEGV: u64 = 11;
pub(crate) const SIGPIPE: u64 = 13;
pub(crate) const SIGALRM: u64 = 14;
pub(crate) const SIGCHLD: u64 = 17;
const SIGSTOP: u64 = 19;

/// `si_code` of SIGSEGV: the address is unmapped, or its mapping forbids the access.
const SEGV_MAPERR: u64 = 1;
const SEGV_ACCERR: u64 = 2;

const SIG_DEFAULT: u64 = 0;
const SIG_IGNORE: u64 = 1;
const SA_ON_STACK: u64 = 0x0800_0000;
const SA_NO_DEFER: u64 = 0x4000_0000;
const SA_RESET: u64 = 0x8000_0000;
const SA_RESTART: u64 = 0x1000_0000;

// The frame of a handler, as in the kernel's `struct rt_sigframe`: `siginfo`, then `ucontext`.
const CONTEXT: u64 = 128;
const CONTEXT_STACK: u64 = CONTEXT + 16;
const CONTEXT_MASK: u64 = CONTEXT + 40;
const CONTEXT_REGISTERS: u64 = CONTEXT + 176;
const CONTEXT_FLOAT: u64 = CONTEXT_REGISTERS + 256;
/// The position of `fcsr` in the union for double precision.
const CONTEXT_FLOAT_STATUS: u64 = CONTEXT_FLOAT + 256;
/// The union has the size of its quadruple-precision member.
const FRAME_BYTES: u64 = CONTEXT_FLOAT + 528;

/// Signals whose default action is to do nothing, or to stop a process; a stopped process could
/// never be continued.
fn ignored_by_default(signal: u64) -> bool {
    matches!(signal, 17..=23 | 28)
}

fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

/// The name of a signal, as a shell prints it.
pub fn signal_name(signal: u8) -> &'static str {
    const NAMES: [&str; 32] = [
        "?",
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    NAMES
        .get(usize::from(signal))
        .unwrap_or(&"a real-time signal")
}

/// The sender of a signal, and the status of a child that it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// `si_code`.
    pub code: i32,
    pub process: u32,
    /// The status of a child.
    pub value: u32,
}

/// Whether a signal that arrives now has any effect.
fn has_effect(process: &Process, signal: u64) -> bool {
    match process.actions[signal as usize][0] {
        SIG_DEFAULT => !ignored_by_default(signal),
        SIG_IGNORE => false,
        _ => true,
    }
}

impl Kernel {
    /// The signal that a thread takes next.
    fn next_signal(&self, slot: usize) -> Option<u64> {
        let thread = self.threads[slot].as_ref()?;
        let of_process = match self.processes.get(&thread.process) {
            Some(process) => process.pending,
            None => self.process.pending,
        };
        let pending = (thread.pending | of_process) & !thread.mask;
        (pending != 0).then(|| u64::from(pending.trailing_zeros()) + 1)
    }

    /// Whether a thread has a signal to take.
    pub fn wants_signal(&self, slot: usize) -> bool {
        self.next_signal(slot).is_some()
    }

    /// The information in a signal that the process sends.
    fn sent_by_itself(&self) -> Sent {
        const SI_USER: i32 = 0;
        Sent {
            code: SI_USER,
            process: self.process.id,
            value: 0,
        }
    }

    /// Sends a signal to a thread.
    pub fn send_signal(&mut self, slot: usize, signal: u64) {
        const SI_TKILL: i32 = -6;
        let sent = Sent {
            code: SI_TKILL,
            ..self.sent_by_itself()
        };
        let Some(thread) = &self.threads[slot] else {
            return;
        };
        let (id, is_blocked) = (thread.process, thread.mask & bit(signal) != 0);
        let Some(process) = self.process_mut(id) else {
            return;
        };
        // A blocked signal stays pending whatever its action, for threads that wait for it.
        if !is_blocked && !has_effect(process, signal) {
            return;
        }
        process.sent.insert(signal, sent);
        self.thread(slot).pending |= bit(signal);
        self.changed = true;
        self.effects.push(Effect::Signal(slot));
    }

    /// Sends a signal to a process, for any thread that takes it.
    pub fn send_to_process(&mut self, id: u32, signal: u64, sent: Sent) {
        let threads = self.threads_of(id);
        let takes = |slot: &&usize| {
            let thread = self.threads[**slot].as_ref();
            thread.is_some_and(|one| one.mask & bit(signal) == 0)
        };
        let taker = threads.iter().find(takes).copied();
        let Some(process) = self.process_mut(id) else {
            return;
        };
        if taker.is_some() && !has_effect(process, signal) {
            return;
        }
        process.pending |= bit(signal);
        process.sent.insert(signal, sent);
        self.changed = true;
        self.effects.extend(taker.map(Effect::Signal));
    }

    fn check_signal(signal: u64) -> Result<(), Errno> {
        if signal <= 64 {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    /// `kill`: to a process, to a group, or to all except the caller and the first process.
    pub fn kill(&mut self, slot: usize, to: i32, signal: u64) -> Outcome {
        Self::check_signal(signal)?;
        let (own, own_group) = (self.process.id, self.process.group);
        let mut ids = self.process_ids();
        match to {
            -1 => ids.retain(|&id| id != own && id != PROCESS_ID),
            1.. => ids.retain(|&id| id == to as u32),
            _ => {
                let wanted = match to {
                    0 => own_group,
                    group => group.unsigned_abs(),
                };
                ids.retain(|&id| self.process_mut(id).is_some_and(|one| one.group == wanted));
            }
        }
        // An ended process accepts signals until its parent has waited for it.
        if ids.is_empty() && !self.dead.contains_key(&(to as u32)) {
            return Err(Errno::SRCH.into());
        }
        if signal == 0 {
            return Ok(0);
        }
        let sent = self.sent_by_itself();
        for id in ids {
            // The sending thread takes the signal first, if it can.
            if id == own && self.thread(slot).mask & bit(signal) == 0 {
                self.send_signal(slot, signal);
                self.process.sent.insert(signal, sent);
            } else {
                self.send_to_process(id, signal, sent);
            }
        }
        Ok(0)
    }

    /// `tgkill`; without a process, `tkill`.
    pub fn tgkill(&mut self, process: Option<u64>, thread: u64, signal: u64) -> Outcome {
        Self::check_signal(signal)?;
        let slot = self.slot_of(thread).ok_or(Errno::SRCH)?;
        let of = u64::from(self.thread(slot).process);
        if process.is_some_and(|process| process != of) {
            return Err(Errno::SRCH.into());
        }
        if signal != 0 {
            self.send_signal(slot, signal);
        }
        Ok(0)
    }

    /// Delivers the next signal to a thread, whose registers are in its save area.
    /// `answer` is the result that its call would have had.
    pub fn deliver_signal(&mut self, slot: usize, call: &mut Call, answer: u64) -> Outcome {
        self.enter_process(slot);
        let area = stub::save_area(slot);
        let Some(signal) = self.next_signal(slot) else {
            self.restore_mask(slot);
            return Ok(answer);
        };
        let [handler, flags, mask] = self.process.actions[signal as usize];
        if handler == SIG_DEFAULT || handler == SIG_IGNORE {
            self.forget_signal(slot, signal);
            if has_effect(&self.process, signal) {
                return Ok(self.end_process(slot, Status::signal(signal)));
            }
            return self.deliver_signal(slot, call, answer);
        }
        let mut saved = call.user.saved(area, stub::SAVED_BYTES)?;
        if answer != Answer::RELOAD {
            put(&mut saved, stub::register(10), answer);
            let interrupted = answer == Errno::INTR.result();
            // The call restarts with its original arguments.
            if interrupted && flags & SA_RESTART != 0 && restarts(call.number) {
                put(&mut saved, stub::register(10), call.arguments[0]);
                let pc = get(&saved, stub::PC) - 4;
                put(&mut saved, stub::PC, pc);
            }
        }
        let sent = self.process.sent.get(&signal).copied();
        let sent = sent.unwrap_or_else(|| self.sent_by_itself());
        let user = u64::from(rustix::process::getuid().as_raw());
        let about = [
            u64::from(sent.code as u32),
            u64::from(sent.process) | user << 32,
            u64::from(sent.value),
        ];
        self.frame(slot, call, signal, saved, about, (handler, flags, mask))?;
        self.forget_signal(slot, signal);
        Ok(Answer::RELOAD)
    }

    fn forget_signal(&mut self, slot: usize, signal: u64) {
        let thread = self.thread(slot);
        if thread.pending & bit(signal) != 0 {
            thread.pending &= !bit(signal);
        } else {
            self.process.pending &= !bit(signal);
        }
    }

    /// Writes the frame of a handler and resumes the thread there. `about` has the code of the
    /// event, and the two words after it.
    fn frame(
        &mut self,
        slot: usize,
        call: &mut Call,
        signal: u64,
        mut saved: Vec<u8>,
        about: [u64; 3],
        (handler, flags, mask): (u64, u64, u64),
    ) -> Outcome<()> {
        let area = stub::save_area(slot);
        let thread = self.thread(slot).clone();
        let stack = get(&saved, stub::register(2));
        let [base, _, size] = thread.signal_stack;
        let on_other = stack.wrapping_sub(base) < size;
        let top = if flags & SA_ON_STACK != 0 && size > 0 && !on_other {
            base.wrapping_add(size)
        } else {
            stack
        };
        let at = top.wrapping_sub(FRAME_BYTES) & !15;
        let mut frame = vec![0; FRAME_BYTES as usize];
        put(&mut frame, 0, signal);
        for (at, word) in [8, 16, 24].into_iter().zip(about) {
            put(&mut frame, at, word);
        }
        for (index, word) in thread.signal_stack.iter().enumerate() {
            put(&mut frame, CONTEXT_STACK + 8 * index as u64, *word);
        }
        let old_mask = thread.saved_mask.unwrap_or(thread.mask);
        put(&mut frame, CONTEXT_MASK, old_mask);
        put(&mut frame, CONTEXT_REGISTERS, get(&saved, stub::PC));
        for number in 1..32 {
            let value = get(&saved, stub::register(number));
            put(&mut frame, CONTEXT_REGISTERS + 8 * u64::from(number), value);
        }
        put(
            &mut frame,
            CONTEXT_FLOAT_STATUS,
            get(&saved, stub::FLOAT_STATUS),
        );
        if call.user.write(at, frame).is_err() {
            // The caller answers with a reload for a thread that has ended.
            self.end_process(slot, Status::signal(SIGSEGV));
            return Ok(());
        }
        put(&mut saved, stub::PC, layout::SIGNAL_PAGE.start);
        put(&mut saved, stub::register(5), handler);
        put(&mut saved, stub::register(2), at);
        put(&mut saved, stub::register(10), signal);
        put(&mut saved, stub::register(11), at);
        put(&mut saved, stub::register(12), at + CONTEXT);
        call.user.write_saved(area, saved);
        let own = if flags & SA_NO_DEFER == 0 {
            bit(signal)
        } else {
            0
        };
        let thread = self.thread(slot);
        thread.saved_mask = None;
        thread.mask |= mask | own;
        if flags & SA_RESET != 0 {
            self.process.actions[signal as usize][0] = SIG_DEFAULT;
        }
        Ok(())
    }

    /// The end of a handler: restores the state in its frame.
    pub fn sigreturn(&mut self, slot: usize, call: &mut Call) -> Outcome {
        let area = stub::save_area(slot);
        let mut saved = call.user.saved(area, stub::SAVED_BYTES)?;
        let at = get(&saved, stub::register(2));
        let frame = call.user.bytes(at, FRAME_BYTES)?;
        put(&mut saved, stub::PC, get(&frame, CONTEXT_REGISTERS));
        for number in 1..32 {
            let value = get(&frame, CONTEXT_REGISTERS + 8 * u64::from(number));
            put(&mut saved, stub::register(number), value);
        }
        let status = get(&frame, CONTEXT_FLOAT_STATUS) & 0xff;
        put(&mut saved, stub::FLOAT_STATUS, status);
        call.user.write_saved(area, saved);
        self.set_mask(slot, get(&frame, CONTEXT_MASK));
        Ok(Answer::RELOAD)
    }

    /// Handles a trap that is not a call: an interrupt, a copy-on-write, a signal with a handler,
    /// or a crash.
    pub fn fault(&mut self, slot: usize, call: &mut Call) -> Outcome {
        self.enter_process(slot);
        let saved = call.user.saved(stub::save_area(slot), stub::SAVED_BYTES)?;
        let code = get(&saved, stub::CAUSE);
        let causes = [
            (Cause::InstructionMisaligned, SIGBUS, 1),
            (Cause::InstructionAccess, SIGSEGV, SEGV_MAPERR),
            (Cause::IllegalInstruction, SIGILL, 1),
            (Cause::Breakpoint, SIGTRAP, 1),
            (Cause::LoadMisaligned, SIGBUS, 1),
            (Cause::LoadAccess, SIGSEGV, SEGV_MAPERR),
            (Cause::StoreMisaligned, SIGBUS, 1),
            (Cause::StoreAccess, SIGSEGV, SEGV_MAPERR),
            (Cause::InstructionPage, SIGSEGV, SEGV_MAPERR),
            (Cause::LoadPage, SIGSEGV, SEGV_MAPERR),
            (Cause::StorePage, SIGSEGV, SEGV_MAPERR),
        ];
        let Some(&(cause, signal, about)) = causes.iter().find(|(cause, ..)| cause.code() == code)
        else {
            return Ok(Answer::RELOAD); // woken to take a signal or to make room for another thread
        };
        let (pc, value) = (get(&saved, stub::PC), get(&saved, stub::VALUE));
        let mut about = about;
        let access = match cause {
            Cause::InstructionPage => Some(Access::Fetch),
            Cause::LoadPage => Some(Access::Load),
            Cause::StorePage => Some(Access::Store),
            _ => None,
        };
        if let Some(access) = access {
            let mut space = self.process.space.borrow_mut();
            match space.access(value, access) {
                Ok(_) => {
                    // The hart may hold a translation from when the page was unmapped.
                    space.is_outdated();
                    return Ok(Answer::RELOAD);
                }
                Err(Denial::Unmapped) => {}
                Err(Denial::Forbidden) => about = SEGV_ACCERR,
            }
        }
        let [handler, flags, mask] = self.process.actions[signal as usize];
        let blocked = self.thread(slot).mask & bit(signal) != 0;
        if handler > SIG_IGNORE && !blocked {
            let address = if signal == SIGILL { pc } else { value };
            self.frame(
                slot,
                call,
                signal,
                saved,
                [about, address, 0],
                (handler, flags, mask),
            )?;
            return Ok(Answer::RELOAD);
        }
        if self.process.id != PROCESS_ID {
            let name = String::from_utf8_lossy(&self.process.name).into_owned();
            self.tell_once(format!(
                "process {} ({}) was ended by {}: {cause} at pc {pc:#x}, value {value:#x}",
                self.process.id,
                name.trim_end_matches('\0'),
                signal_name(signal as u8),
            ));
            return Ok(self.end_process(slot, Status::signal(signal)));
        }
        let instruction = if matches!(cause, Cause::InstructionAccess | Cause::InstructionPage) {
            None
        } else {
            match self.instruction_at(call, pc) {
                Err(Pause::Error(_)) => None,
                other => Some(other?),
            }
        };
        let mut registers = [0; 32];
        for (number, register) in registers.iter_mut().enumerate().skip(1) {
            *register = get(&saved, stub::register(number as u8));
        }
        let fault = Fault {
            hart: self.thread(slot).hart,
            trap: Trap { cause, value },
            pc,
            registers,
            instruction,
        };
        Ok(self.end(Ending::Fault(Box::new(fault))))
    }

    fn instruction_at(&mut self, call: &mut Call, pc: u64) -> Outcome<u32> {
        let half = |bytes: Vec<u8>| u16::from_le_bytes(bytes.try_into().unwrap_or_default());
        let low = half(call.user.code(pc)?);
        if riscv::is_compressed(low) {
            return Ok(u32::from(low));
        }
        let high = half(call.user.code(pc.wrapping_add(2))?);
        Ok(u32::from(low) | u32::from(high) << 16)
    }

    fn set_mask(&mut self, slot: usize, mask: u64) {
        self.thread(slot).mask = mask & !(bit(SIGKILL) | bit(SIGSTOP));
    }

    /// A call waits with the signal mask at `address`, unless that is 0.
    pub fn wait_mask(&mut self, slot: usize, call: &mut Call, address: u64) -> Outcome<()> {
        if address != 0 && self.thread(slot).saved_mask.is_none() {
            let [mask] = call.user.words(address)?;
            self.thread(slot).saved_mask = Some(self.thread(slot).mask);
            self.set_mask(slot, mask);
        }
        Ok(())
    }

    /// Restores the mask after a wait with its own mask.
    pub fn restore_mask(&mut self, slot: usize) {
        if let Some(thread) = &mut self.threads[slot]
            && let Some(mask) = thread.saved_mask.take()
        {
            thread.mask = mask;
        }
    }

    pub fn sigaction(
        &mut self,
        call: &mut Call,
        signal: u64,
        new: u64,
        old: u64,
        set_bytes: u64,
    ) -> Outcome {
        if !(1..=64).contains(&signal) || set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        if new != 0 && (signal == SIGKILL || signal == SIGSTOP) {
            return Err(Errno::INVAL.into());
        }
        let action = match new {
            0 => None,
            _ => Some(call.user.words::<3>(new)?),
        };
        if old != 0 {
            call.user
                .write_words(old, &self.process.actions[signal as usize])?;
        }
        if let Some(action) = action {
            self.process.actions[signal as usize] = action;
            if !has_effect(&self.process, signal) {
                self.process.pending &= !bit(signal);
                let id = self.process.id;
                let threads = self.threads.iter_mut().flatten();
                for thread in threads.filter(|thread| thread.process == id) {
                    thread.pending &= !bit(signal);
                }
            }
        }
        Ok(0)
    }

    pub fn sigprocmask(
        &mut self,
        slot: usize,
        call: &mut Call,
        how: u64,
        new: u64,
        old: u64,
        set_bytes: u64,
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        let before = self.thread(slot).mask;
        let after = match new {
            0 => before,
            _ => {
                let [set] = call.user.words(new)?;
                match how {
                    0 => before | set,
                    1 => before & !set,
                    2 => set,
                    _ => return Err(Errno::INVAL.into()),
                }
            }
        };
        if old != 0 {
            call.user.write_words(old, &[before])?;
        }
        self.set_mask(slot, after);
        Ok(0)
    }

    pub fn sigpending(
        &mut self,
        slot: usize,
        call: &mut Call,
        set: u64,
        set_bytes: u64,
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        let pending = self.process.pending;
        let thread = self.thread(slot);
        let pending = (thread.pending | pending) & thread.mask;
        call.user.write_words(set, &[pending])?;
        Ok(0)
    }

    pub fn sigsuspend(
        &mut self,
        slot: usize,
        call: &mut Call,
        set: u64,
        set_bytes: u64,
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        self.wait_mask(slot, call, set)?;
        if self.wants_signal(slot) {
            return Err(Errno::INTR.into());
        }
        Err(Pause::Block { deadline_ns: None })
    }

    /// `rt_sigtimedwait`: set, address for the information, time, size of the set.
    pub fn sigtimedwait(
        &mut self,
        slot: usize,
        call: &mut Call,
        [set, information, time, set_bytes]: [u64; 4],
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        let [wanted] = call.user.words(set)?;
        let deadline_ns = match time {
            0 => None,
            _ => {
                let time = read_timespec(&mut call.user, time)?;
                Some(call.begin_ns.saturating_add(time))
            }
        };
        let pending = (self.process.pending | self.thread(slot).pending) & wanted;
        if pending != 0 {
            let signal = u64::from(pending.trailing_zeros()) + 1;
            if information != 0 {
                let mut bytes = vec![0; 128];
                put(&mut bytes, 0, signal);
                call.user.write(information, bytes)?;
            }
            self.forget_signal(slot, signal);
            return Ok(signal);
        }
        if call.interrupted {
            return Err(Errno::INTR.into());
        }
        if call.timed_out || deadline_ns.is_some_and(|at| at <= self.now_ns()) {
            return Err(Errno::AGAIN.into());
        }
        Err(Pause::Block { deadline_ns })
    }

    pub fn sigaltstack(&mut self, slot: usize, call: &mut Call, new: u64, old: u64) -> Outcome {
        let stack = match new {
            0 => None,
            _ => Some(call.user.words::<3>(new)?),
        };
        if old != 0 {
            let now = self.thread(slot).signal_stack;
            call.user.write_words(old, &now)?;
        }
        if let Some([base, flags, size]) = stack {
            const SS_DISABLE: u64 = 2;
            const SMALLEST: u64 = 2048;
            let flags = flags as u32 as u64;
            self.thread(slot).signal_stack = if flags & SS_DISABLE != 0 {
                NO_STACK
            } else if size < SMALLEST {
                return Err(Errno::NOMEM.into());
            } else {
                [base, 0, size]
            };
        }
        Ok(0)
    }
}

/// Whether an interrupted call restarts if the handler's flags request it: signal(7), "Interruption
/// of system calls and library functions by signal handlers".
fn restarts(number: u64) -> bool {
    matches!(
        number,
        63..=66 | 95 | 98 | 202 | 203 | 206 | 207 | 211 | 212 | 242 | 260
    )
}

fn get(bytes: &[u8], at: u64) -> u64 {
    let at = at as usize;
    bytes
        .get(at..at + 8)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

fn put(bytes: &mut [u8], at: u64, value: u64) {
    let at = at as usize;
    if let Some(word) = bytes.get_mut(at..at + 8) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}
