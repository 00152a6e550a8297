//! The description of a rack.

use crate::description::{ServerSpec, SimulatorSpec, written};
use network::LoadGeneratorSpec;
use network::rack::{LinkSpec, SwitchSpec};
use network::transport::Protocol;
use pcie::{DmaNicSpec, IceNicSpec};
use rpcvalet::GatewaySpec;
use rpcvalet::NetworkSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use workload::Warmup;

/// Servers and clients that can be in a rack, at most.
const MAX_HOSTS: usize = 1000;

/// Several servers, what runs on them, and the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackDescription {
    /// Servers and network.
    pub rack: RackSpec,
    /// What each client measures.
    #[serde(default)]
    pub measure: RackMeasureSpec,
    /// How the simulator goes about it.
    #[serde(default)]
    pub simulator: SimulatorSpec,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RackMeasureSpec {
    /// Requests that each client measures, at least, beside those that are cut as warm-up.
    #[schemars(range(min = 100, max = 1_000_000_000))]
    pub requests: u64,
    /// If given, each client goes on until its p99 is this precise: until half of its 95 % confidence
    /// interval is at most this part of it. It ends at 100 times `requests` at the latest.
    #[schemars(range(min = 0.001, max = 1.0))]
    pub precision: Option<f64>,
    /// How the beginning is cut: "auto", or a number of requests.
    pub warmup: Warmup,
    /// All randomness comes from this number.
    pub seed: u64,
}

impl Default for RackMeasureSpec {
    fn default() -> RackMeasureSpec {
        RackMeasureSpec {
            requests: 20_000,
            precision: None,
            warmup: Warmup::Auto,
            seed: 1,
        }
    }
}

/// Servers, clients, and the network between them. The addresses are 10.0.0.1 and those that follow, in the
/// order of the servers, and then of the clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackSpec {
    /// The links between servers, clients and the switch.
    #[serde(default)]
    pub link: LinkSpec,
    /// The switch, to which all are connected. Without one there are two of them, with a link in between.
    #[serde(default)]
    pub switch: Option<SwitchSpec>,
    /// The servers.
    pub servers: Vec<RackServerSpec>,
    /// The load generators.
    #[serde(default)]
    pub clients: Vec<RackClientSpec>,
}

/// A server of a rack, or several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackServerSpec {
    /// What results and messages call it; of several, with a number behind it.
    #[serde(default = "default_name")]
    pub name: String,
    /// How many there are.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = MAX_HOSTS))]
    pub count: u32,
    /// The program: a built-in one by its name, or the path of a `.c` or `.elf` file.
    pub program: String,
    /// Whether its program only serves others, so that the run does not wait until it exits.
    #[serde(default)]
    pub serves: bool,
    /// Its network interface.
    pub interface: InterfaceKind,
    /// The network interface of kind `ice-nic`.
    #[serde(default)]
    pub ice_nic: IceNicSpec,
    /// The network interface of kind `dma-nic`.
    #[serde(default)]
    pub dma_nic: DmaNicSpec,
    /// The edge of the chip, with an interface of kind `rpcvalet`.
    #[serde(default)]
    pub gateway: GatewaySpec,
    /// Whether it has HyperPlane's hardware (`server.hyperplane`), beside an interface that writes to memory.
    #[serde(default)]
    pub has_hyperplane: bool,
    /// The machine.
    pub server: ServerSpec,
}

fn default_name() -> String {
    "server".to_string()
}

fn default_count() -> u32 {
    1
}

/// A network interface of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceKind {
    /// On the chip, with registers for requests and completions, as FireSim's IceNIC.
    IceNic,
    /// Behind PCI Express, with rings of descriptors in memory.
    DmaNic,
    /// nanoPU's, which gives messages to registers: the machine must have `server.nanopu`.
    Nanopu,
    /// RPCValet's (`server.rpcvalet`), which writes messages to memory and gives them to cores.
    Rpcvalet,
}

/// A load generator, or several that are alike: a host of which only the network's side is simulated. It
/// measures as many requests as `measure.requests` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackClientSpec {
    /// What results and messages call it; of several, with a number behind it.
    #[serde(default = "default_client_name")]
    pub name: String,
    /// How many there are.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = MAX_HOSTS))]
    pub count: u32,
    /// The names of the servers, as in `rack.servers`, that it sends requests to. Without any: all that
    /// serve.
    #[serde(default)]
    pub servers: Vec<String>,
    /// When it begins. Servers need some time until they take requests.
    #[serde(default = "default_begin_ns")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub begin_ns: f64,
    /// What it sends, and when.
    pub load: LoadGeneratorSpec,
}

fn default_client_name() -> String {
    "client".to_string()
}

fn default_begin_ns() -> f64 {
    10_000.0
}

impl RackDescription {
    /// Whether a run can be made of it, but for what depends on the machines' clocks.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.rack.check()
    }
}

impl RackSpec {
    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.servers
            .iter()
            .map(|server| server.count as usize)
            .sum()
    }

    /// How many servers and clients there are.
    pub fn hosts(&self) -> usize {
        let clients = self.clients.iter().map(|client| client.count as usize);
        self.servers() + clients.sum::<usize>()
    }

    /// The numbers of the servers that a client sends requests to.
    pub(crate) fn servers_of(&self, client: &RackClientSpec) -> Vec<usize> {
        let mut first = 0;
        let mut found = Vec::new();
        for server in &self.servers {
            let is_meant = match client.servers.is_empty() {
                true => server.serves,
                false => client.servers.contains(&server.name),
            };
            let next = first + server.count as usize;
            if is_meant {
                found.extend(first..next);
            }
            first = next;
        }
        found
    }

    /// Whether there can be such a rack.
    fn check(&self) -> Result<(), SpecError> {
        let hosts = self.hosts();
        let accepted = match self.switch {
            Some(_) => format!("there must be from 2 to {MAX_HOSTS}"),
            None => "a link connects two; describe a switch for more, in rack.switch".to_string(),
        };
        require(
            hosts == 2 || self.switch.is_some() && (2..=MAX_HOSTS).contains(&hosts),
            "rack",
            format!("{hosts} servers and clients together"),
            accepted,
        )?;
        require(
            !self.clients.is_empty() || self.servers.iter().any(|server| !server.serves),
            "rack.clients",
            "a list of 0",
            "all servers serve, so that the run would never end; there must be a client that \
             measures, or a server whose program exits",
        )?;
        for (place, server) in self.servers.iter().enumerate() {
            let checked = server.check();
            checked.under(format_args!("rack.servers.{place}"))?;
        }
        for (place, client) in self.clients.iter().enumerate() {
            let checked = self.check_client(client);
            checked.under(format_args!("rack.clients.{place}"))?;
        }
        Ok(())
    }

    fn check_client(&self, client: &RackClientSpec) -> Result<(), SpecError> {
        client.load.check().under("load")?;
        let is_known = |name: &String| self.servers.iter().any(|server| server.name == *name);
        if let Some(unknown) = client.servers.iter().find(|name| !is_known(name)) {
            let mut known = Vec::from_iter(self.servers.iter().map(|server| &server.name));
            known.dedup();
            let accepted = format!("rack.servers has {}", written(&known));
            return Err(SpecError::new("servers", written(unknown), accepted));
        }
        require(
            !self.servers_of(client).is_empty(),
            "servers",
            "a list of 0",
            "there is no server to send requests to; name some, or let a server serve",
        )?;
        let protocol = client.load.transport.protocol;
        let other = self.servers.iter().find(|server| {
            let is_meant =
                client.servers.is_empty() && server.serves || client.servers.contains(&server.name);
            is_meant && server.protocol() != protocol
        });
        let Some(server) = other else {
            return Ok(());
        };
        Err(SpecError::new(
            "load.transport.protocol",
            written(&protocol),
            format!("that of {} is {}", server.name, written(&server.protocol())),
        ))
    }
}

impl RackServerSpec {
    /// Whether there can be such a server, with its network interface.
    fn check(&self) -> Result<(), SpecError> {
        self.server.check().under("server")?;
        let is = |kind| self.interface == kind;
        require(
            !is(InterfaceKind::Nanopu) || self.server.nanopu.is_some(),
            "interface",
            written(&self.interface),
            "the machine has no server.nanopu; the preset nanopu-prototype has it",
        )?;
        require(
            !is(InterfaceKind::Nanopu) || !self.has_hyperplane,
            "has_hyperplane",
            true,
            "it must be false with interface = \"nanopu\", whose messages are not in queues in memory",
        )?;
        if self.has_hyperplane {
            let hyperplane = self.server.hyperplane.check(&self.server.fabric);
            hyperplane.under("server.hyperplane")?;
        }
        self.ice_nic.check().under("ice_nic")?;
        self.dma_nic.check().under("dma_nic")?;
        if !is(InterfaceKind::Rpcvalet) {
            return Ok(());
        }
        require(
            self.server.fabric.sockets == 1,
            "server.fabric.sockets",
            self.server.fabric.sockets,
            "it must be 1 with interface = \"rpcvalet\", which is part of one mesh",
        )?;
        let (rpcvalet, fabric) = (&self.server.rpcvalet, &self.server.fabric);
        let mesh = (fabric.mesh.columns, fabric.mesh.rows);
        let checked = rpcvalet.check(self.gateway.nodes, mesh, fabric.cores);
        checked.under("server.rpcvalet")?;
        require(
            rpcvalet.domains.is_empty(),
            "server.rpcvalet.domains",
            format!("a list of {}", rpcvalet.domains.len()),
            "it is for a server that is in no rack; here the edge of the chip (gateway) has one \
             domain, so leave them out",
        )?;
        let as_usual = NetworkSpec {
            link_gb_per_s: rpcvalet.network.link_gb_per_s,
            ..NetworkSpec::default()
        };
        require(
            rpcvalet.network == as_usual,
            "server.rpcvalet.network",
            "the cluster of a server that is in no rack",
            "here rack.link describes the network, and only link_gb_per_s, of the backends' links, \
             can be set",
        )
    }

    /// What it speaks: a conventional interface leaves a transport to the program.
    fn protocol(&self) -> Protocol {
        match (self.interface, &self.server.nanopu) {
            (InterfaceKind::Nanopu, Some(nanopu)) => nanopu.transport.protocol,
            _ => Protocol::Datagrams,
        }
    }
}

/// The JSON schema of a [`RackDescription`].
pub fn rack_schema() -> schemars::Schema {
    schemars::schema_for!(RackDescription)
}
