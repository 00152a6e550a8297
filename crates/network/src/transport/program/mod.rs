//! A programmable transport: rules of match and action with state for each message.
//!
//! nanoPU's pipelines are programmable (OSDI 2021, Section 2.3): events of packets, messages and
//! timers pass a pipeline of match and action, beside the buffers for packetization and reassembly.
//! Here the [buffers](super::buffers), the [numbers of messages](super::peers) and the counters are
//! fixed, and what follows from an event is a [program](ProgramSpec) in data.
//!
//! A program is compiled when a host is built. What it does with a packet is bounded: there are no
//! loops but those over the words of a bitmap and over the places of a priority queue, which
//! hardware does at once.

mod compile;
mod parse;
mod run;
mod spec;

pub use compile::{Program, compile};
pub use run::Programmed;
pub use spec::{
    Beginning, DataSpec, Formula, Formulas, ProgramSource, ProgramSpec, RegistersSpec, RuleSpec,
    SelectionSpec,
};

use std::sync::OnceLock;

/// NDP: `programs/ndp.toml`.
pub fn ndp() -> &'static ProgramSpec {
    static PROGRAM: OnceLock<ProgramSpec> = OnceLock::new();
    PROGRAM.get_or_init(|| parsed(include_str!("../programs/ndp.toml")))
}

/// Homa: `programs/homa.toml`.
pub fn homa() -> &'static ProgramSpec {
    static PROGRAM: OnceLock<ProgramSpec> = OnceLock::new();
    PROGRAM.get_or_init(|| parsed(include_str!("../programs/homa.toml")))
}

fn parsed(text: &str) -> ProgramSpec {
    toml::from_str(text).expect("a program that comes with the simulator is right")
}
