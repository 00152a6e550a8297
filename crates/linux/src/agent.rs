//! The agent on the fabric that answers the calls of all harts.

use crate::kernel::{Call, Effect, Ending, Kernel};
use crate::layout;
use crate::space::Pages;
use crate::stub::{self, Answer};
use crate::user::{Outcome, Pause, Write};
use fabric::{
    Agent, AgentContext, Attachment, CacheSpec, LINE_BYTES, LineAddress, LineData, MemoryAccess,
    ReplyTo, Request, RequestKind, Time,
};
use std::any::Any;
use std::collections::VecDeque;

/// The interrupt that ends a hart's wait.
const WAKE_INTERRUPT: u8 = 3;
pub(crate) const FEMTOSECONDS_PER_NANOSECOND: u64 = 1_000_000;
/// Marks the tokens of the process's alarm; others are those of waits.
const ALARM: u64 = 1 << 63;
/// Marks the tokens of reads of lines that are to be copied.
const COPY: u64 = 1 << 32;
/// Accesses that the agent has under way for one hart.
const ACCESSES_AT_ONCE: usize = 16;

/// What a hart is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// It runs the program, or has nothing to run.
    Away,
    /// Its arguments are being read.
    Arguments,
    /// A handler waits for bytes.
    Reading(Job),
    /// What a handler wrote is being written; then this is the answer.
    Writing(u64),
    /// The call waits for something.
    Blocked,
}

/// What a handler is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// A call of the program.
    Call,
    /// A trap that is no call.
    Fault,
    /// A signal is to be delivered; without it the answer would have been this.
    Signal(u64),
}

struct Hart {
    activity: Activity,
    call: Call,
    /// Which wait this is, if the call has to; so that the alarm of an older one is known.
    wait: Option<u64>,
    /// The load that waits for an answer.
    asked: Option<ReplyTo>,
    /// The answer for a hart that was told to wait.
    answer: Option<u64>,
    /// Whether its interrupt line is raised.
    raised: bool,
    /// Lines to read, and what to write after them.
    reads: VecDeque<u64>,
    writes: VecDeque<Write>,
    /// Lines that have been read and are to be written: to which address, and what.
    copied: VecDeque<(u64, LineData)>,
    /// From a line that is copied to its copy.
    copy_offset: u64,
    under_way: usize,
    /// What is done when everything has been written.
    effects: Vec<Effect>,
}

/// The Linux personality of a server.
pub struct Linux {
    kernel: Kernel,
    harts: Vec<Hart>,
    /// Calls that wait, in the order in which they began to.
    blocked: Vec<usize>,
    waits: u64,
}

impl Linux {
    pub(crate) fn new(kernel: Kernel, harts: usize) -> Linux {
        let hart = || Hart {
            activity: Activity::Away,
            call: Call::default(),
            wait: None,
            asked: None,
            answer: None,
            raised: false,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            copied: VecDeque::new(),
            copy_offset: 0,
            under_way: 0,
            effects: Vec::new(),
        };
        let mut harts: Vec<Hart> = std::iter::repeat_with(hart).take(harts).collect();
        if let Some(first) = harts.first_mut() {
            first.answer = Some(Answer::RELOAD);
        }
        Linux {
            kernel,
            harts,
            blocked: Vec::new(),
            waits: 0,
        }
    }

    /// How it is attached.
    pub fn attachment() -> Attachment {
        Attachment {
            owns: Some(layout::DEVICE_RANGE),
            cache: Some(CacheSpec {
                size_bytes: 4096,
                ways: 4,
                hit_latency_cycles: 4,
                mshrs: ACCESSES_AT_ONCE as u32,
                ..CacheSpec::default()
            }),
            ..Attachment::default()
        }
    }

    /// How and when the program ended, if it has.
    pub fn ending(&self) -> Option<(Time, &Ending)> {
        self.kernel.ending.as_ref().map(|(at, how)| (*at, how))
    }

    /// Which pages of memory hold something for the program now.
    pub fn pages(&self) -> Pages {
        self.kernel.space.pages()
    }

    /// Whether the program wanted to write more to files of the host than it may.
    pub fn exceeds_output(&self) -> bool {
        self.kernel.output.is_exceeded()
    }

    /// The process must stop what it does because of a signal of the host.
    pub fn take_interrupted(&mut self) -> bool {
        std::mem::take(&mut self.kernel.host_interrupted)
    }

    /// A hart asks something new.
    fn begin(&mut self, hart: usize) {
        self.harts[hart].call = Call {
            begin_ns: self.kernel.now_ns(),
            ..Call::default()
        };
    }

    /// Begins accesses, as many as may be under way; when none is left, does what they were for.
    fn go_on(&mut self, context: &mut AgentContext<'_>, hart: usize) {
        let one = &mut self.harts[hart];
        while one.under_way < ACCESSES_AT_ONCE
            && let Some((access, mark)) = one.next_access()
        {
            one.under_way += 1;
            context.access(access, mark | hart as u64);
        }
        if one.under_way > 0 {
            return;
        }
        match one.activity {
            Activity::Away | Activity::Blocked => {}
            Activity::Arguments => {
                let saved = one
                    .call
                    .user
                    .saved(stub::save_area(hart) + stub::ARGUMENTS, 64);
                let mut words = [0; 8];
                for (word, bytes) in words.iter_mut().zip(saved.unwrap_or_default().chunks(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                }
                one.call.arguments.copy_from_slice(&words[..6]);
                one.call.number = words[7];
                one.call.user.clear();
                self.handle(context, hart, Job::Call);
            }
            Activity::Reading(job) => self.handle(context, hart, job),
            Activity::Writing(answer) => {
                one.activity = Activity::Away;
                let effects = std::mem::take(&mut one.effects);
                self.answer(context, hart, answer);
                self.carry_out(context, effects);
            }
        }
    }

    /// Runs the handler of what `hart` asks.
    fn handle(&mut self, context: &mut AgentContext<'_>, hart: usize, job: Job) {
        if self.kernel.ending.is_some() {
            return;
        }
        let mut call = std::mem::take(&mut self.harts[hart].call);
        let outcome = match job {
            Job::Call => self.kernel.call(hart, &mut call),
            Job::Fault => self.kernel.fault(hart, &mut call),
            Job::Signal(answer) => self.kernel.deliver_signal(hart, &mut call, answer),
        };
        self.harts[hart].call = call;
        self.after(context, hart, job, outcome);
        if std::mem::take(&mut self.kernel.changed) {
            self.retry_blocked(context);
        }
    }

    fn after(&mut self, context: &mut AgentContext<'_>, hart: usize, job: Job, outcome: Outcome) {
        let one = &mut self.harts[hart];
        let answer = match outcome {
            Ok(value) => value,
            Err(Pause::Error(errno)) => {
                one.call.user.forget_writes();
                errno.result()
            }
            Err(Pause::Memory) => {
                one.call.user.forget_writes();
                let wanted = one.call.user.take_wanted();
                one.reads.extend(wanted);
                one.activity = Activity::Reading(job);
                self.kernel.effects.clear();
                return self.go_on(context, hart);
            }
            Err(Pause::Block { deadline_ns }) => {
                one.call.user.forget_writes();
                self.block(context, hart, deadline_ns);
                let effects = std::mem::take(&mut self.kernel.effects);
                return self.carry_out(context, effects);
            }
        };
        if one.wait.take().is_some() {
            self.blocked.retain(|&other| other != hart);
            self.kernel.has_run_again(hart);
        }
        let effects = std::mem::take(&mut self.kernel.effects);
        let one = &mut self.harts[hart];
        one.effects.extend(effects);
        let goes_on = answer != Answer::WAIT;
        if goes_on && !matches!(job, Job::Signal(_)) && self.kernel.wants_signal(hart) {
            // What the call has written is in memory before the delivery reads there.
            let one = &mut self.harts[hart];
            one.writes.extend(one.call.user.take_writes());
            one.call.user.clear();
            one.activity = Activity::Reading(Job::Signal(answer));
            return self.go_on(context, hart);
        }
        let one = &mut self.harts[hart];
        one.writes.extend(one.call.user.take_writes());
        one.activity = Activity::Writing(answer);
        self.go_on(context, hart);
    }

    fn block(&mut self, context: &mut AgentContext<'_>, hart: usize, deadline_ns: Option<u64>) {
        let one = &mut self.harts[hart];
        one.activity = Activity::Blocked;
        let is_new = one.wait.is_none();
        // One that has looked again in vain goes on waiting; its alarm is set, unless it has rung.
        if !is_new && !std::mem::take(&mut one.call.timed_out) {
            return;
        }
        self.waits += 1;
        let wait = self.waits;
        one.wait = Some(wait);
        if let Some(asked) = one.asked.take() {
            context.reply(asked, Answer::WAIT, Time::ZERO);
        }
        if let Some(at) = deadline_ns.and_then(|ns| ns.checked_mul(FEMTOSECONDS_PER_NANOSECOND)) {
            let token = wait << 8 | hart as u64;
            context.wake(Time::from_fs(at), token);
        }
        if is_new {
            self.blocked.push(hart);
            self.kernel.begins_to_wait(hart);
        }
        if self.kernel.wants_signal(hart) {
            self.harts[hart].call.interrupted = true;
            self.look_again(context, hart);
        }
    }

    /// Lets each call that waits look whether it still has to.
    fn retry_blocked(&mut self, context: &mut AgentContext<'_>) {
        for hart in self.blocked.clone() {
            if !self.harts[hart].call.only_woken {
                self.look_again(context, hart);
            }
        }
    }

    /// Runs the handler of a call that waits. One that is under way will see for itself.
    fn look_again(&mut self, context: &mut AgentContext<'_>, hart: usize) {
        if self.harts[hart].activity == Activity::Blocked {
            self.handle(context, hart, Job::Call);
        }
    }

    fn carry_out(&mut self, context: &mut AgentContext<'_>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(hart) => self.answer(context, hart, Answer::RELOAD),
                Effect::Woken(hart) => self.look_again(context, hart),
                Effect::ThreadEnded(hart) => {
                    for woken in self.kernel.thread_ended(hart) {
                        self.look_again(context, woken);
                    }
                }
                Effect::Alarm { at_ns, number } => {
                    let at = at_ns.saturating_mul(FEMTOSECONDS_PER_NANOSECOND);
                    context.wake(Time::from_fs(at), ALARM | number);
                }
                Effect::Unmap { start, end } => self.kernel.space.forget(start, end),
                // What is under way sees a signal when it is answered.
                Effect::Signal(hart) if self.kernel.wants_signal(hart) => {
                    if self.harts[hart].wait.is_some() {
                        self.harts[hart].call.interrupted = true;
                        self.look_again(context, hart);
                    } else if self.harts[hart].activity == Activity::Away {
                        self.raise(context, hart);
                    }
                }
                Effect::Signal(_) => {}
            }
        }
    }

    fn raise(&mut self, context: &mut AgentContext<'_>, hart: usize) {
        let one = &mut self.harts[hart];
        if !one.raised {
            one.raised = true;
            context.interrupt(hart as u16, WAKE_INTERRUPT, true, Time::ZERO);
        }
    }

    /// Answers the load that waits, or wakes the hart so that it asks again.
    fn answer(&mut self, context: &mut AgentContext<'_>, hart: usize, answer: u64) {
        match self.harts[hart].asked.take() {
            Some(asked) => context.reply(asked, answer, Time::ZERO),
            None => {
                self.harts[hart].answer = Some(answer);
                self.raise(context, hart);
            }
        }
    }
}

impl Hart {
    /// The next access that the call needs, and the mark of its token.
    fn next_access(&mut self) -> Option<(MemoryAccess, u64)> {
        if let Some(address) = self.reads.pop_front() {
            return Some((MemoryAccess::ReadAtHome { address }, 0));
        }
        if let Some((address, data)) = self.copied.pop_front() {
            let bytes = LINE_BYTES as u8;
            let write = MemoryAccess::Write {
                address,
                bytes,
                data,
            };
            return Some((write, 0));
        }
        let write = self.writes.front_mut()?;
        let address = write.address;
        if let Some(source) = write.take_source() {
            self.copy_offset = address.wrapping_sub(source);
            if write.left() == 0 {
                self.writes.pop_front();
            }
            return Some((MemoryAccess::ReadAtHome { address: source }, COPY));
        }
        let in_line = LINE_BYTES as u64 - address % LINE_BYTES as u64;
        let bytes = in_line.min(write.left());
        let data = write.take(bytes);
        if write.left() == 0 {
            self.writes.pop_front();
        }
        let write = MemoryAccess::Write {
            address,
            bytes: bytes as u8,
            data,
        };
        Some((write, 0))
    }
}

impl Agent for Linux {
    fn name(&self) -> String {
        "Linux".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        self.kernel.now = context.now();
        let hart = usize::from(request.reply_to.hart);
        let RequestKind::Read { address, .. } = request.kind else {
            return context.refuse(request.reply_to);
        };
        if std::mem::take(&mut self.harts[hart].raised) {
            context.interrupt(hart as u16, WAKE_INTERRUPT, false, Time::ZERO);
        }
        self.harts[hart].asked = Some(request.reply_to);
        match address - layout::DEVICE {
            stub::CALL => {
                self.begin(hart);
                let address = stub::save_area(hart) + stub::ARGUMENTS;
                self.harts[hart].reads.push_back(address);
                self.harts[hart].activity = Activity::Arguments;
                self.go_on(context, hart);
            }
            stub::FAULT => {
                self.begin(hart);
                self.handle(context, hart, Job::Fault);
            }
            stub::READY => {
                let answer = self.harts[hart].answer.take().unwrap_or(Answer::WAIT);
                self.answer(context, hart, answer);
            }
            // The program itself has read here.
            _ => {
                self.harts[hart].asked = None;
                context.refuse(request.reply_to);
            }
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        self.kernel.now = context.now();
        let hart = (token & !COPY) as usize;
        let one = &mut self.harts[hart];
        one.under_way -= 1;
        if let MemoryAccess::ReadAtHome { address } = access {
            if token & COPY != 0 {
                let to = address.wrapping_add(one.copy_offset);
                one.copied.push_back((to, data));
            } else {
                one.call.user.provide(LineAddress::of(address), data);
            }
        }
        self.go_on(context, hart);
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        self.kernel.now = context.now();
        if token & ALARM != 0 {
            self.kernel.alarm_rings(token & !ALARM);
            let effects = std::mem::take(&mut self.kernel.effects);
            self.carry_out(context, effects);
            if std::mem::take(&mut self.kernel.changed) {
                self.retry_blocked(context);
            }
            return;
        }
        let (wait, hart) = (token >> 8, (token & 0xff) as usize);
        if self.harts[hart].wait == Some(wait) {
            self.harts[hart].call.timed_out = true;
            self.look_again(context, hart);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        self.blocked
            .iter()
            .map(|&hart| self.kernel.describe_wait(hart, &self.harts[hart].call))
            .collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
