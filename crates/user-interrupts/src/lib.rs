//! User-level interrupts: posted to a hart's program and delivered to it without its kernel.
//!
//! The model follows Intel's user interrupts (*Intel 64 and IA-32 Architectures Software
//! Developer's Manual*, Volume 3, chapter "User Interrupts", and the page of `SENDUIPI` in Volume
//! 2), and the additions of Aydogmus et al., "Extended User Interrupts (xUI): Fast and Flexible
//! Notification without Polling" (ASPLOS 2025): tracked delivery, hardware safepoints, forwarding
//! of devices' interrupts, and a timer for each hart. The path of an interrupt:
//!
//! 1. It is sent. A hart executes `senduipi`, which finds the receiver's [descriptor] in a table
//!    and posts the vector there; a device sends a message to the [`InterruptController`], which
//!    posts for it, or forwards the vector to the hart; a hart's own timer expires.
//! 2. The sender of the first posted vector notifies the hart's [`UserInterrupts`].
//! 3. At a boundary between instructions the hart takes the posted vectors over into a register,
//!    leaves the program for its handler, and returns with `uiret`.
//!
//! The instructions and CSRs are those of `guest/include/user_interrupt.h`. As in RISC-V's traps,
//! the program counter and the vector are saved in CSRs; Intel's processors push them onto a stack
//! in memory.

mod controller;
pub mod descriptor;
mod extension;
mod instruction;
mod spec;
mod system;
mod ways;

pub use crate::spec::{DeliveryKind, UserInterruptEnergySpec, UserInterruptSpec};
pub use controller::InterruptController;
pub use extension::{Statistics, UserInterrupts, csr};
pub use instruction::{Operation, SAFEPOINT};
pub use system::KIND;

use ::spec::SpecError;
use extension::SharedCounts;
use fabric::{AgentId, Attachment, CacheSpec, Fabric, FabricSpec};
use ways::Ways;

/// The numbers of the CSRs, by their names in `guest/include/user_interrupt.h`.
pub const CSRS: &[(&str, u16)] = csr::ALL;

/// Attaches the interrupt controller to a fabric described by `described`, on the first tile, which
/// is on the socket of the devices; the extension is for all harts.
pub fn attach(
    fabric: &mut Fabric,
    described: &FabricSpec,
    spec: &UserInterruptSpec,
) -> Result<(AgentId, UserInterrupts), SpecError> {
    let counts = SharedCounts::default();
    let agent = fabric.next_agent();
    let extension = UserInterrupts::new(spec, agent, counts.clone());
    let ways = Ways::of(fabric, described);
    let controller = InterruptController::new(spec, ways, counts);
    let attachment = Attachment {
        cache: Some(CacheSpec::default()),
        ..Attachment::default()
    };
    let agent = fabric.attach(Box::new(controller), attachment)?;
    Ok((agent, extension))
}
