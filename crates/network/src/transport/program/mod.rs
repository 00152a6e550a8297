//! A programmable transport: rules of match and action with state for each message.
//!
//! nanoPU's pipelines are programmable (OSDI 2021, Section 2.3): packet, message and timer events
//! pass through a match-action pipeline beside the packetization and reassembly buffers. Here the
//! [buffers](super::buffers), the [message numbers](super::peers) and the counters are fixed, and
//! a [program](ProgramSpec), which is data, defines the reaction to each event.
//!
//! A program is compiled when a host is built. The work for each packet is bounded: the only loops
//! are over the words of a bitmap and over the entries of a priority queue, which hardware
//! processes in parallel.

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

/// A program that comes with the simulator, or with a test.
///
/// Its tables are read as those of a description are: serde's code for a [`ProgramSpec`] is long,
/// and would be compiled a second time for TOML.
pub(crate) fn parsed(text: &str) -> ProgramSpec {
    let table: serde_json::Value = toml::from_str(text).expect("the file is valid TOML");
    serde_json::from_value(table).expect("its tables are those of a program")
}
