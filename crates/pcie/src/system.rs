//! Conventional network interfaces as parts of a server.

use crate::{DmaNic, DmaNicSpec, IceNic, IceNicSpec, NicStatistics};
use fabric::{AgentId, Fabric, Time};
use queues::Ledger;
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use spec::{SpecError, Under};
use system::{Attached, Hardware, Host, Interface, Kind, Refusal, Site, System, Wire};

fabric::named_ranges! {
    /// What [`IceNic`] has in the memory map.
    ICE_NIC_MAP:

    /// Registers of a network interface on the chip, at the address of the published prototypes.
    /// Its server has no I/O device.
    ICE_NIC_REGISTERS: Device = 0x1001_6000, 0x1000,
        "racks with `ice-nic`", "pcie/src/ice_nic.rs";
}

fabric::named_ranges! {
    /// What [`DmaNic`] has in the memory map.
    DMA_NIC_MAP:

    /// Registers of a network interface behind PCI Express: a page for all of it, and one for each
    /// queue.
    DMA_NIC_REGISTERS: Device = 0x1030_0000, 0x4_1000,
        "racks with `dma-nic`", "pcie/src/dma_nic.rs";
}

/// What [`IceNic`] is to a server.
pub const ICE_NIC: Kind = Kind {
    key: "ice_nic",
    mechanisms: &[],
    interface: Some(Interface {
        name: "ice-nic",
        help: "On the chip, with registers for requests and completions, as FireSim's IceNIC.",
        statistics: SchemaGenerator::subschema_for::<NicStatistics>,
    }),
    statistics: None,
    components: &[],
    extends_cores: false,
    memory_map: ICE_NIC_MAP,
};

/// What [`DmaNic`] is to a server.
pub const DMA_NIC: Kind = Kind {
    key: "dma_nic",
    mechanisms: &[],
    interface: Some(Interface {
        name: "dma-nic",
        help: "Behind PCI Express, with rings of descriptors in memory.",
        statistics: SchemaGenerator::subschema_for::<NicStatistics>,
    }),
    statistics: None,
    components: &[],
    extends_cores: false,
    memory_map: DMA_NIC_MAP,
};

impl System for IceNicSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        IceNicSpec::check(self).under("server.ice_nic")
    }

    fn attach(&self, fabric: &mut Fabric, _site: Site<'_>) -> Result<Attached, Refusal> {
        let nic = IceNic::new(self, ICE_NIC_REGISTERS.start, fabric.clock())?;
        let attachment = nic.attachment(0);
        let agent = fabric.attach(Box::new(nic), attachment)?;
        Ok(Attached {
            wire: Some(Wire::of::<IceNic>(agent)),
            ..Attached::new(Part {
                told: |fabric, agent| {
                    let nic = fabric.agent_mut::<IceNic>(agent)?;
                    Some((nic.statistics(), nic.fault().map(str::to_string)))
                },
                agent,
            })
        })
    }
}

impl System for DmaNicSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        DmaNicSpec::check(self).under("server.dma_nic")
    }

    fn attach(&self, fabric: &mut Fabric, _site: Site<'_>) -> Result<Attached, Refusal> {
        let nic = DmaNic::new(self, DMA_NIC_REGISTERS.start)?;
        let attachment = nic.attachment(0);
        let agent = fabric.attach(Box::new(nic), attachment)?;
        Ok(Attached {
            wire: Some(Wire::of::<DmaNic>(agent)),
            ..Attached::new(Part {
                told: |fabric, agent| {
                    let nic = fabric.agent_mut::<DmaNic>(agent)?;
                    Some((nic.statistics(), nic.fault().map(str::to_string)))
                },
                agent,
            })
        })
    }
}

/// What an interface has counted, and what the program has done first with it that cannot be.
type Told = (NicStatistics, Option<String>);

/// An interface in a server.
struct Part {
    told: fn(&mut Fabric, AgentId) -> Option<Told>,
    agent: AgentId,
}

impl Part {
    fn told(&self, fabric: &mut Fabric) -> Told {
        (self.told)(fabric, self.agent).unwrap_or_default()
    }
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        json!(self.told(fabric).0)
    }

    fn fault(&self, fabric: &mut Fabric) -> Option<String> {
        self.told(fabric).1
    }

    fn dropped_packets(&self, fabric: &mut Fabric) -> u64 {
        let counts = self.told(fabric).0;
        counts.dropped_buffer_full
            + counts.dropped_too_long
            + counts.dropped_no_descriptor
            + counts.dropped_bad_descriptor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_room_for_the_most_queues() {
        let schema = schemars::schema_for!(DmaNicSpec);
        let queues = schema.pointer("/properties/queues/maximum");
        let queues = queues.and_then(Value::as_f64).unwrap() as u64;
        // A page for all, and one for each queue.
        assert_eq!(DMA_NIC_REGISTERS.length, 0x1000 * (1 + queues));
    }
}
