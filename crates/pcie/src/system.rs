//! Conventional network interfaces as parts of a server.

use crate::{
    CqeNic, CqeNicSpec, CqeNicStatistics, DmaNic, DmaNicSpec, ExpressSpec, IceNic, IceNicSpec,
    NicStatistics, ProcessorsSpec, iommu, processors,
};
use energy::{Split, leaked, spent};
use fabric::{AddressRange, Agent, AgentId, Attachment, Fabric, Time};
use network::rack::{Interface, LineRate};
use queues::Ledger;
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use spec::{SpecError, Under};
use system::{
    Attached, Hardware, Host, Kind, PortEnergySpec, Refusal, Sharing, Site, System, Wire,
};

fabric::named_ranges! {
    /// [`IceNic`]'s part of the memory map.
    ICE_NIC_MAP:

    /// Registers of a network interface on the chip, at the address of the published prototypes.
    /// Its server has no I/O device.
    ICE_NIC_REGISTERS: Device = 0x1001_6000, 0x1000,
        "racks with `ice-nic`", "pcie/src/ice_nic.rs";
}

fabric::named_ranges! {
    /// [`DmaNic`]'s part of the memory map.
    DMA_NIC_MAP:

    /// Registers of a network interface behind PCI Express: a common page, and one for each queue.
    DMA_NIC_REGISTERS: Device = 0x1030_0000, 0x40_1000,
        "racks with `dma-nic`", "pcie/src/dma_nic/mod.rs";

    /// The scratchpad of a programmable interface, as seen by the host, if
    /// `server.dma_nic.processors` is given.
    DMA_NIC_SCRATCHPAD: Device = 0x1074_0000, 0x8_0000,
        "racks with a programmable `dma-nic`", "pcie/src/processors/scratchpad.rs";

    /// Page tables of the IOMMU, if `server.dma_nic.express.iommu` is given.
    IO_PAGE_TABLES: Memory = 0x6900_0000, 0x300_0000,
        "racks with `dma-nic` and an IOMMU", "pcie/src/iommu.rs";
}

fabric::named_ranges! {
    /// [`CqeNic`]'s part of the memory map.
    CQE_NIC_MAP:

    /// Registers of a network interface with completion queues: a common page, and one for each
    /// pair of queues.
    CQE_NIC_REGISTERS: Device = 0x1080_0000, 0x80_1000,
        "racks with `cqe-nic`", "pcie/src/cqe_nic/mod.rs";
}

/// The description of [`IceNic`] to a server.
pub const ICE_NIC: Kind = Kind {
    interface: Some(system::Interface {
        name: "ice-nic",
        help: "On the chip, with registers for requests and completions, as FireSim's IceNIC.",
        statistics: SchemaGenerator::subschema_for::<NicStatistics>,
        sharing: Sharing::Follows,
    }),
    components: &[PortEnergySpec::COMPONENT],
    memory_map: ICE_NIC_MAP,
    ..Kind::new("ice_nic")
};

/// The description of [`DmaNic`] to a server.
pub const DMA_NIC: Kind = Kind {
    interface: Some(system::Interface {
        name: "dma-nic",
        help: "Behind PCI Express, with rings of descriptors in memory.",
        statistics: SchemaGenerator::subschema_for::<NicStatistics>,
        sharing: Sharing::Follows,
    }),
    components: &[
        PortEnergySpec::COMPONENT,
        (
            "pci_express",
            "PCI Express, with the controllers of both ends, and the IOTLB of an IOMMU.",
        ),
        (
            "interface_cores",
            "The cores of a programmable network interface, with their caches and scratchpad.",
        ),
    ],
    memory_map: DMA_NIC_MAP,
    headers: &[processors::HEADER],
    ..Kind::new("dma_nic")
};

/// The description of [`CqeNic`] to a server.
pub const CQE_NIC: Kind = Kind {
    interface: Some(system::Interface {
        name: "cqe-nic",
        help: "Behind PCI Express, with completion queues and two ports, in the manner of ConnectX-5.",
        statistics: SchemaGenerator::subschema_for::<CqeNicStatistics>,
        sharing: Sharing::Follows,
    }),
    components: &[DMA_NIC.components[0], DMA_NIC.components[1]],
    memory_map: CQE_NIC_MAP,
    ..Kind::new("cqe_nic")
};

impl System for IceNicSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        IceNicSpec::check(self).under("server.ice_nic")
    }

    fn attach(&self, fabric: &mut Fabric, _site: Site<'_>) -> Result<Attached, Refusal> {
        let nic = IceNic::new(self, ICE_NIC_REGISTERS.start, fabric.clock())?;
        let attachment = nic.attachment(0);
        let part = Part::of::<IceNic>(self.energy, None);
        Ok(attach(fabric, nic, attachment, part)?)
    }
}

impl System for DmaNicSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        DmaNicSpec::check(self).under("server.dma_nic")
    }

    fn memory(&self, _host: &Host<'_>) -> Vec<AddressRange> {
        self.express.iommu.iter().map(|_| IO_PAGE_TABLES).collect()
    }

    fn firmware(&self) -> Option<&str> {
        let processors = self.processors.as_ref()?;
        Some(&processors.firmware)
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        if let Some(iommu) = &self.express.iommu {
            iommu::write_tables(iommu, IO_PAGE_TABLES.start, fabric.ram_mut())?;
        }
        let mut nic = DmaNic::new(self, DMA_NIC_REGISTERS.start)?;
        if let Some(processors) = &self.processors {
            let firmware = site.files.get(&processors.firmware).map_err(Refusal)?;
            let host_cores = site.host.fabric.cores;
            nic.program(firmware, host_cores, DMA_NIC_SCRATCHPAD.start)
                .under("server.dma_nic")?;
        }
        let begins = nic.begins();
        let attachment = nic.attachment(0);
        let mut part = Part::of::<DmaNic>(self.energy, Some(self.express.clone()));
        part.processors = self.processors.clone();
        let attached = attach(fabric, nic, attachment, part)?;
        if let (Some(token), Some(wire)) = (begins, &attached.wire) {
            fabric.wake_agent(wire.agent, Time::ZERO, token);
        }
        Ok(attached)
    }
}

impl System for CqeNicSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        CqeNicSpec::check(self).under("server.cqe_nic")
    }

    fn ports(&self) -> usize {
        self.ports as usize
    }

    fn attach(&self, fabric: &mut Fabric, _site: Site<'_>) -> Result<Attached, Refusal> {
        let nic = CqeNic::new(self, CQE_NIC_REGISTERS.start)?;
        let attachment = nic.attachment(0);
        let part = Part::of::<CqeNic>(self.energy, Some(self.express.clone()));
        Ok(attach(fabric, nic, attachment, part)?)
    }
}

/// Attaches an interface, behind PCI Express or on the chip.
fn attach<N: Conventional>(
    fabric: &mut Fabric,
    nic: N,
    attachment: Attachment,
    part: Part,
) -> Result<Attached, SpecError> {
    let agent = fabric.attach(Box::new(nic), attachment)?;
    Ok(Attached {
        wire: Some(Wire::of::<N>(agent)),
        ..Attached::new(Part { agent, ..part })
    })
}

/// An interface that moves frames to and from memory.
trait Conventional: Agent + Interface + 'static {
    fn told(&self) -> Told;

    /// Directs its interrupts to this agent, if they are messages.
    fn connect_interrupts(&mut self, _to: AgentId) {}

    /// Directs firmware's notes about frames to this agent, if it is programmable.
    fn connect_listener(&mut self, _to: AgentId) {}
}

impl Conventional for IceNic {
    fn told(&self) -> Told {
        Told {
            statistics: self.statistics(),
            report: json!(self.statistics()),
            links: self.links(),
            dropped: 0,
            rate: self.rate(),
            fault: self.fault().map(str::to_string),
        }
    }
}

impl Conventional for DmaNic {
    fn told(&self) -> Told {
        Told {
            statistics: self.statistics(),
            report: json!(self.statistics()),
            links: self.links(),
            dropped: 0,
            rate: self.rate(),
            fault: self.fault().map(str::to_string),
        }
    }

    fn connect_interrupts(&mut self, to: AgentId) {
        DmaNic::connect_interrupts(self, to);
    }

    fn connect_listener(&mut self, to: AgentId) {
        DmaNic::connect_listener(self, to);
    }
}

impl Conventional for CqeNic {
    fn told(&self) -> Told {
        let counted = CqeNic::statistics(self);
        Told {
            report: json!(counted),
            statistics: counted.frames,
            links: self.links(),
            dropped: counted.dropped_overrun,
            rate: self.rate(),
            fault: self.fault().map(str::to_string),
        }
    }

    fn connect_interrupts(&mut self, to: AgentId) {
        CqeNic::connect_interrupts(self, to);
    }
}

/// An interface's results.
struct Told {
    statistics: NicStatistics,
    /// Its part of the results.
    report: Value,
    /// The number of links that it has itself.
    links: u32,
    /// Dropped frames that `statistics` does not count.
    dropped: u64,
    rate: LineRate,
    /// The program's first error, if any.
    fault: Option<String>,
}

/// An interface in a server.
struct Part {
    find: fn(&mut Fabric, AgentId) -> Option<&mut dyn Conventional>,
    agent: AgentId,
    energy: PortEnergySpec,
    /// The link to the chip, unless it is on the chip.
    express: Option<ExpressSpec>,
    /// Its cores, if it is programmable.
    processors: Option<ProcessorsSpec>,
}

impl Part {
    /// An interface that is about to be attached.
    fn of<N: Conventional>(energy: PortEnergySpec, express: Option<ExpressSpec>) -> Part {
        Part {
            find: |fabric, agent| {
                let nic = fabric.agent_mut::<N>(agent)?;
                Some(nic)
            },
            agent: AgentId(0),
            energy,
            express,
            processors: None,
        }
    }

    fn told(&self, fabric: &mut Fabric) -> Option<Told> {
        Some((self.find)(fabric, self.agent)?.told())
    }
}

impl Hardware for Part {
    fn connect_signal(&self, fabric: &mut Fabric, to: AgentId) {
        if let Some(nic) = (self.find)(fabric, self.agent) {
            nic.connect_interrupts(to);
        }
    }

    fn connect_listener(&self, fabric: &mut Fabric, to: AgentId) {
        if let Some(nic) = (self.find)(fabric, self.agent) {
            nic.connect_listener(to);
        }
    }

    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        json!(self.told(fabric).map(|told| told.report))
    }

    fn fault(&self, fabric: &mut Fabric) -> Option<String> {
        self.told(fabric)?.fault
    }

    fn dropped_packets(&self, fabric: &mut Fabric) -> u64 {
        self.told(fabric).map_or(0, |told| {
            let counts = told.statistics;
            counts.dropped_buffer_full
                + counts.dropped_too_long
                + counts.dropped_no_descriptor
                + counts.dropped_bad_descriptor
                + told.dropped
        })
    }

    fn events(&self, fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        let counts = self.told(fabric).map(|told| told.statistics);
        let counts = counts.unwrap_or_default();
        let iommu = counts.iommu.unwrap_or_default();
        // The result of a page walk is filled into the IOTLB.
        let iotlb = iommu.iotlb_hits + iommu.iotlb_misses + iommu.page_walks;
        let processors = counts.processors.unwrap_or_default();
        let words = processors.scratchpad_words + processors.frame_words;
        let instructions = processors.instructions;
        vec![
            counts.link_bytes,
            counts.express_bytes,
            iotlb,
            instructions,
            words,
        ]
    }

    fn energy(&self, fabric: &mut Fabric, events: &[u64], seconds: f64, _: bool) -> Vec<Split> {
        let (&[link_bytes, express_bytes, iotlb, instructions, words], Some(told)) =
            (events, self.told(fabric))
        else {
            return Vec::new();
        };
        let mut port = self.energy.spent(link_bytes, told.rate, seconds);
        port.leakage *= f64::from(told.links);
        let mut components = vec![port];
        if let Some(express) = &self.express {
            let costs = &express.energy;
            let milliwatts = costs.static_mw_per_gb_per_s * express.rate_gbit_per_s / 8.0;
            let iommu = express.iommu.as_ref().map(|iommu| iommu.energy);
            let (iotlb_pj, iotlb_mw) =
                iommu.map_or((0.0, 0.0), |costs| (costs.iotlb_pj, costs.iotlb_static_mw));
            let split = Split {
                dynamic: spent(costs.byte_pj, express_bytes) + spent(iotlb_pj, iotlb),
                leakage: leaked(milliwatts + iotlb_mw, seconds),
            };
            components.push(split);
        }
        if let Some(of) = &self.processors {
            let costs = &of.energy;
            let scratchpad_kib = f64::from(of.scratchpad_bytes) / 1024.0;
            let milliwatts = costs.core_static_mw * f64::from(of.cores)
                + costs.scratchpad_static_mw_per_kib * scratchpad_kib;
            components.push(Split {
                dynamic: spent(costs.instruction_pj, instructions) + spent(costs.word_pj, words),
                leakage: leaked(milliwatts, seconds),
            });
        }
        components
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
        // A common page, and one for each queue.
        assert_eq!(DMA_NIC_REGISTERS.length, 0x1000 * (1 + queues));
        let schema = schemars::schema_for!(ProcessorsSpec);
        let bytes = schema.pointer("/properties/scratchpad_bytes/maximum");
        let bytes = bytes.and_then(Value::as_f64).unwrap() as u64;
        assert_eq!(DMA_NIC_SCRATCHPAD.length, bytes);
        let schema = schemars::schema_for!(CqeNicSpec);
        let most = |key: &str| {
            let maximum = schema.pointer(&format!("/properties/{key}/maximum"));
            maximum.and_then(Value::as_f64).unwrap() as u64
        };
        let pairs = most("ports") * most("queues");
        assert_eq!(CQE_NIC_REGISTERS.length, 0x1000 * (1 + pairs));
    }
}
