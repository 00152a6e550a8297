//! nanoPU (Ibanez et al., "The nanoPU: A Nanosecond Network Stack for Datacenters", OSDI 2021):
//! messages go from the network into a core's registers.
//!
//! - [`NetworkRegisters`], the extension of a core: `netRX`, `netTX`, the queues of each context,
//!   the CSRs, and the hardware thread scheduler;
//! - [`Nic`], the agent: pipelines for packets that come and go, the transport, the choice of a
//!   core, and the link that it may share with a conventional interface, the DMA path;
//! - [`Mailbox`], what is on the wires between them;
//! - [`Clients`], the agent that sends a data plane its requests as messages.

mod cable;
mod clients;
mod context;
mod extension;
mod mailbox;
mod nic;
mod scheduler;
mod selection;
mod spec;
mod system;

pub use crate::spec::{CoreSelection, NanoPuSpec, SchedulerKind, TransmitOrder};
pub use clients::{ClientStatistics, Clients, DATA_PLANE_CONTEXT};
pub use extension::{NetworkRegisters, cause};
pub use mailbox::{Mailbox, SharedMailbox};
pub use nic::{DmaPathStatistics, Nic, Statistics};
pub use system::KIND;

use ::spec::SpecError;
use fabric::{AgentId, Attachment, Fabric};
use network::rack::LineRate;

/// The numbers of the CSRs, by their names in `guest/include/lnic.h`.
pub const CSRS: &[(&str, u16)] = extension::csr::ALL;

/// The address of a server that is in no network: 10.0.0.1.
pub const ADDRESS_ALONE: u32 = 0x0a00_0001;

/// The rate of the published interface's link: 64 bits in each cycle of 3.2 GHz.
pub fn published_rate() -> LineRate {
    LineRate::from_gbit_per_s(64.0 * 3.2)
}

/// Puts the network interface of a server with so many cores on its fabric, with the transport that
/// is described; the extension is for all of its cores. The server has this address, and a link of
/// this rate.
pub fn attach(
    fabric: &mut Fabric,
    spec: &NanoPuSpec,
    cores: usize,
    link: (u32, LineRate),
) -> Result<(AgentId, NetworkRegisters), SpecError> {
    attach_nic(fabric, spec, cores, link, |nic| nic)
}

/// The same, with an interface that `finish` completes.
fn attach_nic(
    fabric: &mut Fabric,
    spec: &NanoPuSpec,
    cores: usize,
    link: (u32, LineRate),
    finish: impl FnOnce(Nic) -> Nic,
) -> Result<(AgentId, NetworkRegisters), SpecError> {
    spec.check(fabric.clock(), fabric.minimum_delivery_latency())?;
    let clock = fabric.clock();
    let mailbox = Mailbox::shared(cores);
    let agent = fabric.next_agent();
    let extension = NetworkRegisters::new(spec, clock, agent, mailbox.clone());
    let nic = finish(Nic::new(spec, clock, cores, link, mailbox));
    let agent = fabric.attach(Box::new(nic), Attachment::default())?;
    Ok((agent, extension))
}
