//! The core-local interruptor: software and timer interrupts (SiFive's CLINT, as on the platforms
//! of the published programs).

use crate::memory_map::CLINT;
use fabric::{Agent, AgentContext, Request, RequestKind, Time};

/// Offsets of the registers; each hart has one of the first two.
pub(crate) mod register {
    fabric::registers! { u64:
        MSIP = 0;
        MTIMECMP = 0x4000;
        MTIME = 0xbff8;
    }
}

/// `mtime` counts microseconds.
pub(crate) const TICK: Time = Time::from_fs(1_000_000_000);
const SOFTWARE_INTERRUPT: u8 = 3;
const TIMER_INTERRUPT: u8 = 7;

#[derive(state::State)]
struct HartTimer {
    software: bool,
    compare: u64,
    pending: bool,
    /// Counts writes of `mtimecmp`, so that an alarm set for an older value is ignored.
    generation: u64,
}

/// The device.
#[derive(state::State)]
pub struct Clint {
    #[state(slice)]
    harts: Vec<HartTimer>,
}

impl Clint {
    /// A CLINT for `harts` harts, without pending interrupts.
    pub fn new(harts: usize) -> Clint {
        Clint {
            harts: (0..harts)
                .map(|_| HartTimer {
                    software: false,
                    compare: u64::MAX,
                    pending: false,
                    generation: 0,
                })
                .collect(),
        }
    }

    fn timer_value(context: &AgentContext<'_>) -> u64 {
        context.now().as_fs() / TICK.as_fs()
    }

    fn read(&self, context: &AgentContext<'_>, offset: u64) -> Option<u64> {
        if offset == register::MTIME {
            Some(Self::timer_value(context))
        } else if offset >= register::MTIMECMP {
            let hart = self
                .harts
                .get(((offset - register::MTIMECMP) / 8) as usize)?;
            Some(hart.compare)
        } else {
            let hart = self.harts.get((offset / 4) as usize)?;
            Some(u64::from(hart.software))
        }
    }

    fn write(
        &mut self,
        context: &mut AgentContext<'_>,
        offset: u64,
        bytes: u8,
        value: u64,
    ) -> Option<()> {
        if (register::MTIMECMP..register::MTIME).contains(&offset) {
            let index = ((offset - register::MTIMECMP) / 8) as usize;
            let hart = self.harts.get_mut(index)?;
            hart.compare = match (bytes, offset % 8) {
                (8, _) => value,
                (_, 0) => hart.compare & !0xffff_ffff | value,
                _ => hart.compare & 0xffff_ffff | value << 32,
            };
            hart.generation += 1;
            self.update_timer(context, index);
        } else if offset < register::MTIMECMP {
            let index = (offset / 4) as usize;
            let hart = self.harts.get_mut(index)?;
            hart.software = value & 1 != 0;
            let level = hart.software;
            context.interrupt(index as u16, SOFTWARE_INTERRUPT, level, Time::ZERO);
        } else {
            // `mtime` is not writable: it is the simulated time.
            return None;
        }
        Some(())
    }

    fn update_timer(&mut self, context: &mut AgentContext<'_>, index: usize) {
        let now = Self::timer_value(context);
        let hart = &mut self.harts[index];
        let pending = now >= hart.compare;
        if pending != hart.pending {
            hart.pending = pending;
            context.interrupt(index as u16, TIMER_INTERRUPT, pending, Time::ZERO);
        }
        if !pending && let Some(due) = hart.compare.checked_mul(TICK.as_fs()) {
            let token = hart.generation * self.harts.len() as u64 + index as u64;
            context.wake(Time::from_fs(due), token);
        }
    }
}

impl Agent for Clint {
    fn name(&self) -> String {
        "CLINT".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let answer = match request.kind {
            RequestKind::Read { address, .. } => self.read(context, address - CLINT.start),
            RequestKind::Write {
                address,
                bytes,
                value,
            } => self
                .write(context, address - CLINT.start, bytes, value)
                .map(|()| 0),
            RequestKind::Custom { .. } => None,
        };
        match answer {
            Some(value) => context.reply(request.reply_to, value, Time::ZERO),
            None => context.refuse(request.reply_to),
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        let index = (token % self.harts.len() as u64) as usize;
        if self.harts[index].generation == token / self.harts.len() as u64 {
            self.update_timer(context, index);
        }
    }
}
