//! A device that lists the queues with items, and whose register has the next one.
//!
//! The I/O device tells the list of each queue that was empty and has an item. A hart reads a
//! register, which takes a queue off the list; if there is none, the read waits, and the hart with
//! it. A hart that leaves items in a queue puts the queue back.
//!
//! `spec.rs` is the description, `list.rs` the hardware, and `system.rs` attaches it to a server.
//! The program's side is `guest/include/notify/more/ready-list.h`.

mod list;
mod spec;
mod system;

pub use crate::spec::ReadyListSpec;
pub use list::{ReadyList, Statistics};
pub use system::{KIND, MEMORY_MAP, READY_LIST_REGISTERS};
