//! What the targets do with their input, a file each.
//! `crates/server/tests/on_a_server/fuzz_targets.rs` includes this file, so that it is compiled and
//! tried with everything else.

mod checkpoint;
mod decode;
mod description;
mod devices;
mod elf;
mod guest;
mod input;
mod linux;
mod pcap;
mod program;
mod queueing;
mod rack;
mod servers;

pub use checkpoint::checkpoint;
pub use decode::decode;
pub use description::description;
pub use devices::devices;
pub use elf::elf;
pub use guest::guest;
pub use linux::{linux, sandbox};
pub use pcap::pcap;
pub use queueing::queueing;
pub use rack::rack;
pub use servers::EXITS;
