//! Loads of a hart that waited for a line.

use fabric::Source;
use pipeline::{Executed, Found, Probe};
use riscv::Class;

/// A load that waited for a line, and was not undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The cycle in which it was issued.
    pub from: u64,
    /// The cycle in which its value was available.
    pub until: u64,
    /// Where the line was.
    pub source: Source,
}

impl Miss {
    /// The miss of `executed`, if it is a load that missed.
    pub(crate) fn of(executed: &Executed) -> Option<Miss> {
        let (Some(Found::Line(source) | Found::Awaited(source)), Class::Load, false) =
            (executed.found, executed.instruction.class, executed.undone)
        else {
            return None;
        };
        let (from, until) = executed.issued.zip(executed.completed)?;
        Some(Miss {
            from,
            until,
            source,
        })
    }
}

/// The misses of a hart's loads while it is attached as a probe.
#[derive(Clone, Debug, Default)]
pub struct Misses(Vec<Miss>);

impl Misses {
    /// All of them, in the order of the program.
    pub fn all(&self) -> &[Miss] {
        &self.0
    }
}

impl Probe for Misses {
    fn executed(&mut self, executed: &Executed) {
        self.0.extend(Miss::of(executed));
    }
}
