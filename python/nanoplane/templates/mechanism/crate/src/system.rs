//! The hardware as a part of a server.

use crate::list::BYTES;
use crate::{ReadyList, ReadyListSpec, Statistics};
use fabric::{AgentId, Attachment, Fabric, Time};
use queues::Ledger;
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use spec::SpecError;
use system::{Attached, Hardware, Host, Kind, Mechanism, Refusal, Setting, Site, System};

fabric::named_ranges! {
    /// What the hardware has in the memory map.
    MEMORY_MAP:

    /// Registers of the list of ready queues.
    READY_LIST_REGISTERS: Device = 0x1200_0000, BYTES, "`run`", "ready_list/src/list.rs";
}

/// The hardware's description to a server.
pub const KIND: Kind = Kind {
    mechanisms: &[Mechanism {
        // A hart without work waits in a read.
        sleeps: true,
        needs_device: Some("the I/O device tells the list of queues"),
        ..Mechanism::new(
            "ready-list",
            0,
            "a list of ready queues",
            "It takes the next queue from a register, and waits in the read if there is none.",
        )
    }],
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    memory_map: MEMORY_MAP,
    ..Kind::new("ready_list")
};

impl System for ReadyListSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        // Ranges are checked already. Here belongs what depends on the rest of the server.
        Ok(())
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let is_strict = match site.host.setting {
            Setting::DataPlane(data_plane) => data_plane.policy == "\"strict-priority\"",
            Setting::Rack | Setting::Alone => false,
        };
        let lookup = fabric.clock().time(self.lookup_cycles);
        let list = ReadyList::new(READY_LIST_REGISTERS.start, lookup, is_strict);
        let attachment = Attachment {
            owns: Some(READY_LIST_REGISTERS),
            ..Attachment::default()
        };
        let agent = fabric.attach(Box::new(list), attachment)?;
        Ok(Attached {
            // The I/O device's messages go to it.
            signal: Some(agent),
            ..Attached::new(Part { agent })
        })
    }
}

/// The hardware in a server.
struct Part {
    agent: AgentId,
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let list = fabric.agent_mut::<ReadyList>(self.agent);
        json!(list.map_or_else(Statistics::default, |list| list.statistics()))
    }
}
