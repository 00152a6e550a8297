//! The systems of a server, and their combined results.

use crate::description::ServerSpec;
use crate::error::RunError;
use crate::registry::SYSTEMS;
use energy::{EnergySpec, Split};
use fabric::{AddressRange, AgentId, CoreId, Fabric, Time};
use network::rack::SecondPath;
use pipeline::{Extension, NoExtension};
use queues::{DeliveredPacket, Ledger};
use riscv::elf::Image;
use serde_json::Value;
use spec::{SpecError, require};
use std::collections::BTreeMap;
use system::{Attached, Host, Kind, Probes, Refusal, Setting, Site, Suppliers, System, Wire};

/// The results of systems, by key.
pub type SystemResults = BTreeMap<&'static str, Value>;

/// The systems selected for a server.
pub(crate) struct Wanted<'a> {
    server: &'a ServerSpec,
    /// The purpose of the server.
    setting: Setting<'a>,
    /// Each with the setting in which it takes part.
    systems: Vec<(&'static Kind, Box<dyn System>, Setting<'a>)>,
}

impl<'a> Wanted<'a> {
    /// A selection without systems, for a server with this `setting`.
    pub fn none(server: &'a ServerSpec, setting: Setting<'a>) -> Wanted<'a> {
        Wanted {
            server,
            setting,
            systems: Vec::new(),
        }
    }

    /// Adds the system with this key, which takes part for `setting`.
    pub fn and(mut self, key: &str, setting: &Setting<'a>) -> Wanted<'a> {
        let kind = SYSTEMS.iter().find(|kind| kind.key == key);
        let system = self.server.system(key);
        let found = kind.zip(system);
        let with_setting = found.map(|(kind, system)| (kind, system, setting.clone()));
        self.systems.extend(with_setting);
        self
    }

    /// The systems that `server` describes and that need no network, which a program alone can use.
    pub fn described(server: &'a ServerSpec, setting: Setting<'a>) -> Wanted<'a> {
        let kinds = SYSTEMS.iter().filter(|kind| {
            // A network interface that is not also a part of the cores has no use without a link.
            (kind.extends_cores || kind.observes_cores) && server.describes(kind.key)
        });
        let none = Wanted::none(server, setting.clone());
        kinds.fold(none, |wanted, kind| wanted.and(kind.key, &setting))
    }

    /// Adds the systems that observe the cores, if the server describes them.
    pub fn and_observers(self, setting: &Setting<'a>) -> Wanted<'a> {
        let server = self.server;
        let observers = SYSTEMS
            .iter()
            .filter(|kind| kind.observes_cores && server.describes(kind.key));
        observers.fold(self, |wanted, kind| wanted.and(kind.key, setting))
    }

    /// Checks whether they can be part of the server, and whether it can have the others that it
    /// describes. `key`: the key of the description that selects them.
    pub fn check(&self, key: &str) -> Result<(), SpecError> {
        for kind in SYSTEMS {
            let used = self.systems.iter().find(|(used, ..)| used.key == kind.key);
            if used.is_some() || self.server.describes(kind.key) {
                let setting = used.map_or(&self.setting, |(.., setting)| setting);
                let host = self.host(setting, used.is_some());
                let system = self.server.system(kind.key);
                system.map_or(Ok(()), |system| system.check(&host))?;
            }
        }
        let extending = self.systems.iter().filter(|(kind, ..)| kind.extends_cores);
        let extending: Vec<&str> = extending.map(|(kind, ..)| kind.key).collect();
        require(
            extending.len() <= 1,
            key,
            extending.join(" with "),
            "each of them has instructions or registers of its own for the cores, which can have \
             those of one; leave all but one of them out",
        )
    }

    /// The memory they need besides the main memory.
    pub fn memory(&self) -> Vec<AddressRange> {
        let systems = self.systems.iter();
        systems
            .flat_map(|(_, system, setting)| system.memory(&self.host(setting, true)))
            .collect()
    }

    /// Attaches them, each at the site that `site` makes for a host.
    pub fn attach<'s>(
        &'s self,
        fabric: &mut Fabric,
        mut site: impl FnMut(Host<'s>) -> Site<'s>,
    ) -> Result<Hardware, RunError> {
        let mut hardware = Hardware::default();
        for (kind, system, setting) in &self.systems {
            let attached = system.attach(fabric, site(self.host(setting, true)));
            let attached = attached.map_err(|Refusal(why)| RunError::Description(why))?;
            hardware.systems.push((kind, attached));
        }
        if let Some(to) = hardware.signal() {
            for (_, attached) in &hardware.systems {
                attached.hardware.connect_signal(fabric, to);
            }
        }
        let mut listeners = hardware.systems.iter();
        if let Some(to) = listeners.find_map(|(_, attached)| attached.listener) {
            for (_, attached) in &hardware.systems {
                attached.hardware.connect_listener(fabric, to);
            }
        }
        hardware.share_link(fabric)?;
        Ok(hardware)
    }

    /// The properties of the server that systems receive.
    fn host<'s>(&'s self, setting: &'s Setting<'a>, is_used: bool) -> Host<'s> {
        let mut systems = self.systems.iter();
        Host {
            core: &self.server.core,
            fabric: &self.server.fabric,
            data_plane_cores: self.server.data_plane_cores,
            setting,
            is_used,
            firmware: systems.find_map(|(_, system, _)| system.firmware()),
        }
    }
}

/// The systems that are part of a server.
#[derive(Default)]
pub(crate) struct Hardware {
    systems: Vec<(&'static Kind, Attached)>,
}

impl Hardware {
    /// Their extension of the cores.
    pub fn take_extension(&mut self) -> Box<dyn Extension> {
        let mut systems = self.systems.iter_mut();
        let extension = systems.find_map(|(_, attached)| attached.extension.take());
        extension.unwrap_or_else(|| Box::new(NoExtension))
    }

    /// Tells all systems of the program.
    pub fn connect_program(&self, program: &Image) -> Result<(), RunError> {
        for (_, attached) in &self.systems {
            let connected = attached.hardware.connect_program(program);
            connected.map_err(|Refusal(why)| RunError::Description(why))?;
        }
        Ok(())
    }

    /// The systems that observe the cores: the key of each, and its probes.
    pub fn take_probes(&mut self) -> Vec<(&'static str, Probes)> {
        let systems = self.systems.iter_mut();
        systems
            .filter_map(|(kind, attached)| Some((kind.key, attached.probes.take()?)))
            .collect()
    }

    /// The systems that get values of loads of the cores.
    pub fn take_suppliers(&mut self) -> Vec<(&'static str, Suppliers)> {
        let systems = self.systems.iter_mut();
        systems
            .filter_map(|(kind, attached)| Some((kind.key, attached.suppliers.take()?)))
            .collect()
    }

    fn find<T>(&self, of: impl Fn(&Attached) -> Option<T>) -> Option<T> {
        self.systems.iter().find_map(|(_, attached)| of(attached))
    }

    /// The link of the server.
    pub fn wire(&self) -> Option<Wire> {
        self.wires().next()
    }

    /// The network interface that shares the link of the first one.
    pub fn second_wire(&self) -> Option<Wire> {
        self.wires().nth(1)
    }

    fn wires(&self) -> impl Iterator<Item = Wire> {
        let systems = self.systems.iter();
        systems.filter_map(|(_, attached)| attached.wire)
    }

    /// Puts the second network interface, if there is one, behind the first.
    fn share_link(&self, fabric: &mut Fabric) -> Result<(), RunError> {
        let (Some(first), Some(second)) = (self.wire(), self.second_wire()) else {
            return Ok(());
        };
        let path = SecondPath::new(first.agent, second.agent);
        let leads = first.interface(fabric).map(|one| one.lead(&path));
        let follows = second.interface(fabric).map(|one| one.follow(&path));
        match (leads, follows) {
            (Some(true), Some(true)) => Ok(()),
            _ => {
                let sentence = "its two network interfaces cannot share a link";
                Err(RunError::Description(sentence.to_string()))
            }
        }
    }

    /// The agent that brings the requests, if one of them does.
    pub fn source(&self) -> Option<AgentId> {
        self.find(|attached| attached.source)
    }

    /// The agent that takes the interrupts of devices.
    pub fn signal(&self) -> Option<AgentId> {
        self.find(|attached| attached.signal)
    }

    /// The addresses whose stores start and end a request, unless these are doorbells.
    pub fn watched(&self) -> Option<AddressRange> {
        self.find(|attached| attached.watched)
    }

    /// Their counts until `now`.
    pub fn statistics(
        &self,
        fabric: &mut Fabric,
        now: Time,
        ledger: Option<&Ledger>,
    ) -> SystemResults {
        let systems = self.systems.iter();
        systems
            .map(|(kind, attached)| (kind.key, attached.hardware.statistics(fabric, now, ledger)))
            .collect()
    }

    /// The counts until `now` of those that observe the cores.
    pub fn observed(&self, fabric: &mut Fabric, now: Time) -> SystemResults {
        let observers = self.systems.iter().filter(|(kind, _)| kind.observes_cores);
        observers
            .map(|(kind, attached)| (kind.key, attached.hardware.statistics(fabric, now, None)))
            .collect()
    }

    /// The program's first error in the use of one of them.
    pub fn fault(&self, fabric: &mut Fabric) -> Option<String> {
        let mut systems = self.systems.iter();
        systems.find_map(|(_, attached)| attached.hardware.fault(fabric))
    }

    /// Packets that they have dropped.
    pub fn dropped_packets(&self, fabric: &mut Fabric) -> u64 {
        let systems = self.systems.iter();
        systems
            .map(|(_, attached)| attached.hardware.dropped_packets(fabric))
            .sum()
    }

    /// The kept replies.
    pub fn replies(&self, fabric: &mut Fabric) -> Vec<DeliveredPacket> {
        let systems = self.systems.iter();
        systems
            .flat_map(|(_, attached)| attached.hardware.replies(fabric))
            .collect()
    }

    /// The time that the clock of a core has been stopped until `now`.
    pub fn powered_down(&self, fabric: &mut Fabric, core: CoreId, now: Time) -> Time {
        let systems = self.systems.iter();
        systems.fold(Time::ZERO, |sum, (_, attached)| {
            sum + attached.hardware.powered_down(fabric, core, now)
        })
    }

    /// The counts of each until `now` of the events that consume energy.
    pub fn events(&self, fabric: &mut Fabric, now: Time) -> Vec<Vec<u64>> {
        let systems = self.systems.iter();
        systems
            .map(|(_, attached)| attached.hardware.events(fabric, now))
            .collect()
    }

    /// The energy of their components for `seconds` with `events`, in nanojoules.
    pub fn energy(
        &self,
        fabric: &mut Fabric,
        costs: &EnergySpec,
        events: &[Vec<u64>],
        seconds: f64,
    ) -> BTreeMap<&'static str, Split> {
        let systems = self.systems.iter().zip(events);
        let components = systems.flat_map(|((kind, attached), events)| {
            let hardware = &attached.hardware;
            let spent = hardware.energy(fabric, events, seconds, costs.follow_sizes);
            let names = kind.components.iter().map(|(name, _)| *name);
            names.zip(spent)
        });
        let mut all: BTreeMap<&'static str, Split> = BTreeMap::new();
        for (name, split) in components {
            // Two network interfaces on one link have the same component.
            let sum = all.entry(name).or_default();
            *sum = sum.sum(split);
        }
        all
    }
}
