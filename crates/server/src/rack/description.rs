//! The description of a rack.

use crate::description::{ServerSpec, SimulatorSpec, written};
use crate::hardware::Wanted;
use crate::notify::InterfaceKind;
use crate::registry::SYSTEMS;
use network::LoadGeneratorSpec;
use network::rack::{LinkSpec, SwitchSpec};
use network::transport::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use system::Setting;
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
    /// If given, each client goes on until its p99 is this precise: until half of its 95 %
    /// confidence interval is at most this part of it. It ends at 100 times `requests` at the
    /// latest.
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

/// Servers, clients, and the network between them. The addresses are 10.0.0.1 and those that
/// follow, in the order of the servers, and then of the clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackSpec {
    /// The links between servers, clients and the switch.
    #[serde(default)]
    pub link: LinkSpec,
    /// The switch, to which all are connected. Without one there are two of them, with a link in
    /// between.
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
    /// The systems that it has beside its interface, by their keys in `server`, such as
    /// "hyperplane".
    #[serde(default)]
    pub systems: Vec<String>,
    /// The machine.
    pub server: ServerSpec,
}

fn default_name() -> String {
    "server".to_string()
}

fn default_count() -> u32 {
    1
}

/// A load generator, or several that are alike: a host of which only the network's side is
/// simulated. It measures as many requests as `measure.requests` says.
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
    /// The names of the servers, as in `rack.servers`, that it sends requests to. Without any: all
    /// that serve.
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
    pub fn check(&self) -> Result<(), SpecError> {
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
        for (place, key) in self.systems.iter().enumerate() {
            let known = SYSTEMS.iter().filter(|kind| kind.interface.is_none());
            let known: Vec<&str> = known.map(|kind| kind.key).collect();
            require(
                known.contains(&&**key) && !self.systems[..place].contains(key),
                &format!("systems.{place}"),
                written(key),
                format!("each of {} can be in it once", written(&known)),
            )?;
        }
        self.wanted().check(&self.server, &Setting::Rack, "systems")
    }

    /// Its interface, and the systems beside that.
    pub(crate) fn wanted(&self) -> Wanted {
        let interface = self.interface.system().key;
        let systems = self.systems.iter().map(String::as_str);
        Wanted::of(&self.server, [interface].into_iter().chain(systems))
    }

    /// What its interface speaks.
    fn protocol(&self) -> Protocol {
        let system = self.server.system(self.interface.system().key);
        system.map_or(Protocol::Datagrams, |system| system.protocol())
    }
}

/// The JSON schema of a [`RackDescription`].
pub fn rack_schema() -> schemars::Schema {
    schemars::schema_for!(RackDescription)
}
