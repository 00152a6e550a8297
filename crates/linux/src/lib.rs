//! The Linux personality: static RV64 Linux programs run on a server's harts in user mode, and an
//! agent on the fabric answers their system calls.
//!
//! A call traps to a few instructions in machine mode (`stub.rs`), which save the registers and
//! load from the agent's address; the agent's answer is the call's result. The agent reads and
//! writes the program's memory through the fabric, as any device does, so races between harts and
//! calls have realistic outcomes, and a call takes the time of its accesses. Each process has page
//! tables (`space.rs`), and threads share the harts if there are more threads than harts
//! (`schedule.rs`).
//!
//! `docs/linux-programs.md` lists the differences from Linux.

mod agent;
mod errno;
mod execute;
mod files;
mod frames;
mod intervals;
mod kernel;
mod layout;
mod load;
mod memory;
mod output;
mod poll;
mod process;
mod schedule;
mod signals;
mod sockets;
mod space;
mod streams;
mod stub;
mod system;
mod threads;
mod time;
mod user;

pub use agent::Linux;
pub use files::{Access, FilesError, Reach};
pub use frames::Pages;
pub use kernel::{Ending, Fault};
pub use layout::{MAP, STACK, memory, protected};
pub use load::{ENTRY, LoadError, Prepared, Setup, is_linux, prepare};
pub use output::Allowance;
pub use signals::signal_name;
pub use stub::Saved;
