//! Signals: actions, masks, delivery to handlers.

use crate::errno::Errno;
use crate::kernel::{Call, Effect, Ending, Fault, Kernel, PROCESS_ID};
use crate::layout;
use crate::stub::{self, Answer};
use crate::time::read_timespec;
use crate::user::{Outcome, Pause};
use riscv::{Cause, Trap};

const SIGILL: u64 = 4;
const SIGTRAP: u64 = 5;
const SIGBUS: u64 = 7;
const SIGKILL: u64 = 9;
const SIGSEGV: u64 = 11;
pub(crate) const SIGPIPE: u64 = 13;
pub(crate) const SIGALRM: u64 = 14;
const SIGSTOP: u64 = 19;

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
/// Where the double-precision registers' union has `fcsr`.
const CONTEXT_FLOAT_STATUS: u64 = CONTEXT_FLOAT + 256;
/// The union is as large as that of quadruple precision.
const FRAME_BYTES: u64 = CONTEXT_FLOAT + 528;

/// Signals whose default action is to do nothing, or to stop a process, which has nobody to let it
/// go on.
fn ignored_by_default(signal: u64) -> bool {
    matches!(signal, 17..=23 | 28)
}

fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

/// What a shell would call it.
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

impl Kernel {
    fn handler(&self, signal: u64) -> u64 {
        self.actions[signal as usize][0]
    }

    /// Whether a signal that comes now would do anything.
    fn has_effect(&self, signal: u64) -> bool {
        match self.handler(signal) {
            SIG_DEFAULT => !ignored_by_default(signal),
            SIG_IGNORE => false,
            _ => true,
        }
    }

    /// The signal that the thread of a hart takes next.
    fn next_signal(&self, hart: usize) -> Option<u64> {
        let thread = self.threads[hart].as_ref()?;
        let pending = (thread.pending | self.pending) & !thread.mask;
        (pending != 0).then(|| u64::from(pending.trailing_zeros()) + 1)
    }

    /// Whether the thread of a hart has a signal to take.
    pub fn wants_signal(&self, hart: usize) -> bool {
        self.next_signal(hart).is_some()
    }

    /// Sends a signal to the thread of a hart, or to whoever takes it.
    pub fn send_signal(&mut self, hart: Option<usize>, signal: u64) {
        let blocked = |thread: &crate::threads::Thread| thread.mask & bit(signal) != 0;
        // One that is blocked stays, whatever its action, for those who wait for it.
        let all_block = match hart {
            Some(hart) => self.threads[hart].as_ref().is_some_and(blocked),
            None => self.threads.iter().flatten().all(blocked),
        };
        if !all_block && !self.has_effect(signal) {
            return;
        }
        let to = match hart {
            Some(hart) => {
                self.thread(hart).pending |= bit(signal);
                Some(hart)
            }
            None => {
                self.pending |= bit(signal);
                self.threads
                    .iter()
                    .position(|thread| thread.as_ref().is_some_and(|one| !blocked(one)))
            }
        };
        self.changed = true;
        if let Some(to) = to {
            self.effects.push(Effect::Signal(to));
        }
    }

    fn check_signal(signal: u64) -> Result<(), Errno> {
        if signal <= 64 {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    pub fn kill(&mut self, hart: usize, process: i32, signal: u64) -> Outcome {
        Self::check_signal(signal)?;
        if !(process == PROCESS_ID as i32 || process == 0 || process == -(PROCESS_ID as i32)) {
            return Err(Errno::SRCH.into());
        }
        if signal != 0 {
            // The one that sends it takes it first, if it can.
            let own = self.thread(hart).mask & bit(signal) == 0;
            self.send_signal(own.then_some(hart), signal);
        }
        Ok(0)
    }

    pub fn tgkill(&mut self, thread: u64, signal: u64) -> Outcome {
        Self::check_signal(signal)?;
        let hart = self.hart_of(thread).ok_or(Errno::SRCH)?;
        if signal != 0 {
            self.send_signal(Some(hart), signal);
        }
        Ok(0)
    }

    /// Delivers the next signal to the thread of a hart, whose registers are in its save area.
    /// `answer` is what its call would have been answered.
    pub fn deliver_signal(&mut self, hart: usize, call: &mut Call, answer: u64) -> Outcome {
        let area = stub::save_area(hart);
        let Some(signal) = self.next_signal(hart) else {
            self.restore_mask(hart);
            return Ok(answer);
        };
        let [handler, flags, mask] = self.actions[signal as usize];
        if handler == SIG_DEFAULT || handler == SIG_IGNORE {
            self.forget_signal(hart, signal);
            if self.has_effect(signal) {
                return Ok(self.end(Ending::Signal(signal as u8)));
            }
            return self.deliver_signal(hart, call, answer);
        }
        let mut saved = call.user.saved(area, stub::SAVED_BYTES)?;
        if answer != Answer::RELOAD {
            put(&mut saved, stub::register(10), answer);
            let interrupted = answer == Errno::INTR.result();
            // Such a call is made again, with the arguments that it had.
            if interrupted && flags & SA_RESTART != 0 && restarts(call.number) {
                put(&mut saved, stub::register(10), call.arguments[0]);
                let pc = get(&saved, stub::PC) - 4;
                put(&mut saved, stub::PC, pc);
            }
        }
        self.frame(hart, call, signal, saved, [0, 0], (handler, flags, mask))?;
        self.forget_signal(hart, signal);
        Ok(Answer::RELOAD)
    }

    fn forget_signal(&mut self, hart: usize, signal: u64) {
        let thread = self.thread(hart);
        if thread.pending & bit(signal) != 0 {
            thread.pending &= !bit(signal);
        } else {
            self.pending &= !bit(signal);
        }
    }

    /// Writes the frame of a handler and lets the hart go on there. `about`: code and address of
    /// what happened.
    fn frame(
        &mut self,
        hart: usize,
        call: &mut Call,
        signal: u64,
        mut saved: Vec<u8>,
        about: [u64; 2],
        (handler, flags, mask): (u64, u64, u64),
    ) -> Outcome<()> {
        let area = stub::save_area(hart);
        let thread = self.thread(hart).clone();
        let stack = get(&saved, stub::register(2));
        let [base, _, size] = thread.signal_stack;
        let on_other = stack.wrapping_sub(base) < size;
        let top = if flags & SA_ON_STACK != 0 && size > 0 && !on_other {
            base + size
        } else {
            stack
        };
        let at = top.wrapping_sub(FRAME_BYTES) & !15;
        let mut frame = vec![0; FRAME_BYTES as usize];
        put(&mut frame, 0, signal);
        put(&mut frame, 8, about[0]);
        if about[0] != 0 {
            put(&mut frame, 16, about[1]);
        } else {
            // Sent by the process itself: its number and its user's.
            let user = u64::from(rustix::process::getuid().as_raw());
            put(&mut frame, 8, -6_i64 as u32 as u64);
            put(&mut frame, 16, u64::from(PROCESS_ID) | user << 32);
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
            self.end(Ending::Signal(SIGSEGV as u8));
            return Ok(());
        }
        put(&mut saved, stub::PC, layout::SIGNAL_STUB);
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
        let thread = self.thread(hart);
        thread.saved_mask = None;
        thread.mask |= mask | own;
        if flags & SA_RESET != 0 {
            self.actions[signal as usize][0] = SIG_DEFAULT;
        }
        Ok(())
    }

    /// The end of a handler: everything is as its frame says.
    pub fn sigreturn(&mut self, hart: usize, call: &mut Call) -> Outcome {
        let area = stub::save_area(hart);
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
        self.set_mask(hart, get(&frame, CONTEXT_MASK));
        Ok(Answer::RELOAD)
    }

    /// A trap that is no call: an interrupt, a signal with a handler, or a crash.
    pub fn fault(&mut self, hart: usize, call: &mut Call) -> Outcome {
        let saved = call.user.saved(stub::save_area(hart), stub::SAVED_BYTES)?;
        let code = get(&saved, stub::CAUSE);
        let causes = [
            (Cause::InstructionMisaligned, SIGBUS, 1),
            (Cause::InstructionAccess, SIGSEGV, 1),
            (Cause::IllegalInstruction, SIGILL, 1),
            (Cause::Breakpoint, SIGTRAP, 1),
            (Cause::LoadMisaligned, SIGBUS, 1),
            (Cause::LoadAccess, SIGSEGV, 1),
            (Cause::StoreMisaligned, SIGBUS, 1),
            (Cause::StoreAccess, SIGSEGV, 1),
        ];
        let Some(&(cause, signal, about)) = causes.iter().find(|(cause, ..)| cause.code() == code)
        else {
            return Ok(Answer::RELOAD); // Woken, to see a signal.
        };
        let (pc, value) = (get(&saved, stub::PC), get(&saved, stub::VALUE));
        let [handler, flags, mask] = self.actions[signal as usize];
        let blocked = self.thread(hart).mask & bit(signal) != 0;
        if handler > SIG_IGNORE && !blocked {
            let address = if signal == SIGILL { pc } else { value };
            self.frame(
                hart,
                call,
                signal,
                saved,
                [about, address],
                (handler, flags, mask),
            )?;
            return Ok(Answer::RELOAD);
        }
        let instruction = if cause == Cause::InstructionAccess {
            None
        } else {
            Some(self.instruction_at(call, pc)?)
        };
        let mut registers = [0; 32];
        for (number, register) in registers.iter_mut().enumerate().skip(1) {
            *register = get(&saved, stub::register(number as u8));
        }
        let fault = Fault {
            hart,
            trap: Trap { cause, value },
            pc,
            registers,
            instruction,
        };
        Ok(self.end(Ending::Fault(Box::new(fault))))
    }

    fn instruction_at(&mut self, call: &mut Call, pc: u64) -> Outcome<u32> {
        let half = |bytes: Vec<u8>| u16::from_le_bytes(bytes.try_into().unwrap_or_default());
        let low = half(call.user.saved(pc, 2)?);
        if riscv::is_compressed(low) {
            return Ok(u32::from(low));
        }
        let high = half(call.user.saved(pc.wrapping_add(2), 2)?);
        Ok(u32::from(low) | u32::from(high) << 16)
    }

    fn set_mask(&mut self, hart: usize, mask: u64) {
        self.thread(hart).mask = mask & !(bit(SIGKILL) | bit(SIGSTOP));
    }

    /// A call waits with the mask at `address`, if that is not 0.
    pub fn wait_mask(&mut self, hart: usize, call: &mut Call, address: u64) -> Outcome<()> {
        if address != 0 && self.thread(hart).saved_mask.is_none() {
            let [mask] = call.user.words(address)?;
            self.thread(hart).saved_mask = Some(self.thread(hart).mask);
            self.set_mask(hart, mask);
        }
        Ok(())
    }

    /// A wait with a mask of its own has ended.
    pub fn restore_mask(&mut self, hart: usize) {
        if let Some(thread) = &mut self.threads[hart]
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
            call.user.write_words(old, &self.actions[signal as usize])?;
        }
        if let Some(action) = action {
            self.actions[signal as usize] = action;
            if !self.has_effect(signal) {
                self.pending &= !bit(signal);
                for thread in self.threads.iter_mut().flatten() {
                    thread.pending &= !bit(signal);
                }
            }
        }
        Ok(0)
    }

    pub fn sigprocmask(
        &mut self,
        hart: usize,
        call: &mut Call,
        how: u64,
        new: u64,
        old: u64,
        set_bytes: u64,
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        let before = self.thread(hart).mask;
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
        self.set_mask(hart, after);
        Ok(0)
    }

    pub fn sigpending(
        &mut self,
        hart: usize,
        call: &mut Call,
        set: u64,
        set_bytes: u64,
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        let pending = self.pending;
        let thread = self.thread(hart);
        let pending = (thread.pending | pending) & thread.mask;
        call.user.write_words(set, &[pending])?;
        Ok(0)
    }

    pub fn sigsuspend(
        &mut self,
        hart: usize,
        call: &mut Call,
        set: u64,
        set_bytes: u64,
    ) -> Outcome {
        if set_bytes != 8 {
            return Err(Errno::INVAL.into());
        }
        self.wait_mask(hart, call, set)?;
        if self.wants_signal(hart) {
            return Err(Errno::INTR.into());
        }
        Err(Pause::Block { deadline_ns: None })
    }

    /// `rt_sigtimedwait`: set, where the information goes, time, size of the set.
    pub fn sigtimedwait(
        &mut self,
        hart: usize,
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
        let pending = (self.pending | self.thread(hart).pending) & wanted;
        if pending != 0 {
            let signal = u64::from(pending.trailing_zeros()) + 1;
            if information != 0 {
                let mut bytes = vec![0; 128];
                put(&mut bytes, 0, signal);
                call.user.write(information, bytes)?;
            }
            self.forget_signal(hart, signal);
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

    pub fn sigaltstack(&mut self, hart: usize, call: &mut Call, new: u64, old: u64) -> Outcome {
        let stack = match new {
            0 => None,
            _ => Some(call.user.words::<3>(new)?),
        };
        if old != 0 {
            let now = self.thread(hart).signal_stack;
            call.user.write_words(old, &now)?;
        }
        if let Some([base, flags, size]) = stack {
            const SS_DISABLE: u64 = 2;
            let flags = flags as u32 as u64;
            self.thread(hart).signal_stack = if flags & SS_DISABLE != 0 {
                [0, SS_DISABLE, 0]
            } else {
                [base, 0, size]
            };
        }
        Ok(0)
    }
}

/// Whether a call that a handler interrupted is made again if the handler's flags say so:
/// signal(7), "Interruption of system calls and library functions by signal handlers".
fn restarts(number: u64) -> bool {
    matches!(
        number,
        63..=66 | 98 | 202 | 203 | 206 | 207 | 211 | 212 | 242
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
