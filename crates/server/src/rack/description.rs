//! The description of a rack.

use crate::data_plane::DataPlanePlan;
use crate::description::{
    DataPlaneSpec, MeasureSpec, ServerSpec, SimulatorSpec, check_parameters, written,
};
use crate::hosts::{Given, HostSpec, Runs};
use crate::notify::InterfaceKind;
use network::LoadGeneratorSpec;
use network::rack::{LinkSpec, SwitchSpec};
use network::transport::Protocol;
use queues::RingsAtStart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::LazyLock;
use workload::{OperationsSpec, TrafficSpec};

/// Maximum number of servers and clients in a rack.
const MAX_HOSTS: usize = 1000;

/// The address of the first server, unless described.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Several servers, what runs on them, and the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackDescription {
    /// Servers and network.
    pub rack: RackSpec,
    /// What is measured: by each client, and of each data plane.
    #[serde(default)]
    pub measure: MeasureSpec,
    /// Options of the simulator.
    #[serde(default)]
    pub simulator: SimulatorSpec,
}

/// Servers, clients, and the network between them. The addresses are 10.0.0.1 and those that
/// follow, in the order of the servers, and then of the clients, unless they are described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackSpec {
    /// The links between servers, clients and the switch.
    #[serde(default)]
    pub link: LinkSpec,
    /// The switch, to which all hosts are connected. Without a switch there are two hosts and one
    /// link.
    #[serde(default)]
    pub switch: Option<SwitchSpec>,
    /// The servers.
    pub servers: Vec<RackServerSpec>,
    /// The load generators.
    #[serde(default)]
    pub clients: Vec<RackClientSpec>,
}

/// A server of a rack, or several that are alike. The only server of a description has the same
/// keys at the top level, beside those of `rack`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackServerSpec {
    /// The name in results and messages; of several, with a number appended.
    #[serde(default = "default_name")]
    pub name: String,
    /// The number of them.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = MAX_HOSTS))]
    pub count: u32,
    /// The IPv4 address; of several, the address of the first, which the others follow. By default
    /// the one behind the address before it in the rack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The program: a built-in one by its name, or the path of a `.c` or `.elf` file. A server with
    /// a data plane has that program instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The arguments of the program's `main()` after its name: `argv[1]` and the following.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Numbers by name that the program reads in `prepare()` with `io_parameter()`. A server with a
    /// data plane has `data_plane.parameters` instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, f64>,
    /// The software data plane that runs on it, beside the program's own use of a network. It is
    /// measured, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<DataPlaneSpec>,
    /// The incoming traffic of the data plane's I/O device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficSpec>,
    /// Whether its program only serves others, so that the run does not wait until it exits.
    #[serde(default)]
    pub serves: bool,
    /// Its network interface. A server alone without one has no network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceKind>,
    /// The conventional network interface that shares the link of `interface` and has the packets
    /// that this one does not take: the DMA path of nanoPU. Absent: such packets are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma_path: Option<InterfaceKind>,
    /// The systems that it has beside its interface, by their keys in `server`, such as
    /// "hyperplane".
    #[serde(default)]
    pub systems: Vec<String>,
    /// The machine.
    pub server: ServerSpec,
}

/// The traffic of a data plane whose entry has none.
static DEFAULT_TRAFFIC: LazyLock<TrafficSpec> = LazyLock::new(TrafficSpec::default);

fn default_name() -> String {
    "server".to_string()
}

fn default_count() -> u32 {
    1
}

/// A load generator, or several that are alike: a host whose network side alone is simulated. It
/// measures as many requests as `measure.requests` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RackClientSpec {
    /// The name in results and messages; of several, with a number appended.
    #[serde(default = "default_client_name")]
    pub name: String,
    /// The number of them.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = MAX_HOSTS))]
    pub count: u32,
    /// The IPv4 address; of several, the address of the first, which the others follow. By default
    /// the one behind the address before it in the rack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The names of the servers, as in `rack.servers`, that it sends requests to. Without any: all
    /// that serve.
    #[serde(default)]
    pub servers: Vec<String>,
    /// The time at which it begins. Servers need some time until they take requests.
    #[serde(default = "default_begin_ns")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub begin_ns: f64,
    /// The load that it offers.
    pub load: LoadGeneratorSpec,
}

fn default_client_name() -> String {
    "client".to_string()
}

fn default_begin_ns() -> f64 {
    10_000.0
}

impl RackDescription {
    /// Checks everything that does not depend on the machines' clocks. `has_network`: the servers
    /// are connected.
    pub(crate) fn check(&self, has_network: bool) -> Result<(), SpecError> {
        let of_data_planes = [
            ("precision_of", self.measure.precision_of.is_some()),
            ("warm_start", self.measure.warm_start.is_some()),
            ("rings", self.measure.rings != RingsAtStart::New),
        ];
        let mut servers = self.rack.servers.iter();
        if !servers.any(|server| server.data_plane.is_some())
            && let Some((key, _)) = of_data_planes.iter().find(|(_, is_given)| *is_given)
        {
            let why = "it is for data planes, and no server has one";
            return Err(SpecError::new(*key, "given", why)).under("measure");
        }
        self.rack.check(has_network)
    }
}

impl RackSpec {
    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.servers
            .iter()
            .map(|server| server.count as usize)
            .sum()
    }

    /// Number of links between two hosts: the first server's ports, or one to a switch.
    pub(crate) fn ports(&self) -> usize {
        match (&self.switch, self.servers.first()) {
            (None, Some(server)) => server.host().ports(),
            _ => 1,
        }
    }

    /// Number of servers and clients.
    pub fn hosts(&self) -> usize {
        let clients = self.clients.iter().map(|client| client.count as usize);
        self.servers() + clients.sum::<usize>()
    }

    /// The addresses of all servers, followed by those of all clients.
    pub(crate) fn addresses(&self) -> Result<Vec<u32>, SpecError> {
        let servers = self.servers.iter().enumerate().map(|(place, server)| {
            let key = format!("rack.servers.{place}.address");
            (key, &server.address, server.count)
        });
        let clients = self.clients.iter().enumerate().map(|(place, client)| {
            let key = format!("rack.clients.{place}.address");
            (key, &client.address, client.count)
        });
        let mut all: Vec<u32> = Vec::new();
        for (key, first, count) in servers.chain(clients) {
            let first = match (first, all.last()) {
                (Some(text), _) => text.parse().map_err(|_| {
                    SpecError::new(&key, written(text), "an IPv4 address, such as \"10.0.0.1\"")
                })?,
                (None, Some(last)) => Ipv4Addr::from(last.wrapping_add(1)),
                (None, None) => FIRST_ADDRESS,
            };
            for number in 0..count {
                let address = u32::from(first).wrapping_add(number);
                let shown = Ipv4Addr::from(address);
                // Elsewhere 0.0.0.0 is no host's, but published programs send to it.
                let is_host = !shown.is_multicast() && !shown.is_broadcast();
                let accepted = "no host can have it; take one of 10.0.0.1 to 10.255.255.254";
                let found = written(&shown);
                require(is_host, &key, &found, accepted)?;
                let accepted = "another host of the rack has it, and each has one of its own";
                require(!all.contains(&address), &key, &found, accepted)?;
                all.push(address);
            }
        }
        Ok(all)
    }

    /// The numbers of the servers to which a client sends requests.
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

    /// The clients' operations on the stores of the entry `place` of `servers`, which determine the
    /// store that its program builds; `None` if no client has operations for it.
    pub(crate) fn operations_of(&self, place: usize) -> Option<&OperationsSpec> {
        let mut of_clients = self.operations_for(place);
        of_clients.next().map(|(_, operations)| operations)
    }

    /// The clients with operations for the entry `place` of `servers`, by their places.
    fn operations_for(&self, place: usize) -> impl Iterator<Item = (usize, &OperationsSpec)> {
        let before = self.servers[..place].iter();
        let first = before.map(|server| server.count as usize).sum::<usize>();
        let clients = self.clients.iter().enumerate();
        let asks = move |client| self.servers_of(client).contains(&first);
        clients.filter_map(move |(number, client)| {
            let operations = client.load.operations.as_ref()?;
            asks(client).then_some((number, operations))
        })
    }

    /// Checks that clients agree on the contents of each store.
    fn check_operations(&self) -> Result<(), SpecError> {
        for (place, server) in self.servers.iter().enumerate() {
            let Some(first) = self.operations_of(place) else {
                continue;
            };
            let of_others = self.operations_for(place);
            let mut others = of_others.filter(|(_, other)| !first.has_the_same_store(other));
            if let Some((client, _)) = others.next() {
                return Err(SpecError::new(
                    format!("rack.clients.{client}.load.operations"),
                    "another store",
                    format!(
                        "keys, sizes, value_bytes and warehouses must be those that the client \
                         before it has for {}",
                        server.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks whether such a rack, or a server without a network, is possible.
    fn check(&self, has_network: bool) -> Result<(), SpecError> {
        match has_network {
            true => self.check_hosts()?,
            false => self.check_without_network()?,
        }
        for (place, server) in self.servers.iter().enumerate() {
            let checked = server.check();
            checked.under(format_args!("rack.servers.{place}"))?;
            let (ports, expected) = (server.host().ports(), self.ports());
            let accepted = match self.switch {
                Some(_) => "the switch has one link to each server".to_string(),
                None => format!("the other server has {expected}, and each has a link"),
            };
            let key = format!("rack.servers.{place}.interface");
            let found = format!("one with {ports} ports");
            require(ports == expected, &key, found, accepted)?;
        }
        self.addresses()?;
        for (place, client) in self.clients.iter().enumerate() {
            let checked = self.check_client(client);
            checked.under(format_args!("rack.clients.{place}"))?;
        }
        self.check_operations()
    }

    /// Checks the number of hosts that are connected, and that the run of these ends.
    fn check_hosts(&self) -> Result<(), SpecError> {
        let hosts = self.hosts();
        let accepted = match self.switch {
            Some(_) => format!("there must be from 2 to {MAX_HOSTS}"),
            None => "a link connects two; describe a switch for more".to_string(),
        };
        require(
            hosts == 2 || self.switch.is_some() && (2..=MAX_HOSTS).contains(&hosts),
            "rack.clients",
            match hosts {
                1 => "a list with which there is one host".to_string(),
                _ => format!("a list with which there are {hosts} hosts"),
            },
            accepted,
        )?;
        require(
            !self.clients.is_empty() || self.servers.iter().any(|server| !server.serves),
            "rack.clients",
            "a list of 0",
            "all servers serve, so that the run would never end; there must be a client that \
             measures, or a server whose program exits",
        )?;
        let mut servers = self.servers.iter();
        match servers.position(|server| server.interface.is_none()) {
            None => Ok(()),
            Some(place) => Err(SpecError::new(
                format!("rack.servers.{place}.interface"),
                "absent",
                "each server of a rack has a network interface",
            )),
        }
    }

    /// Checks that a server without a network has no keys of one.
    fn check_without_network(&self) -> Result<(), SpecError> {
        for server in &self.servers {
            let given = [
                ("rack.clients", !self.clients.is_empty()),
                ("rack.switch", self.switch.is_some()),
                ("rack.link", self.link != LinkSpec::default()),
                ("rack.servers.0.count", server.count > 1),
                ("rack.servers.0.address", server.address.is_some()),
                ("rack.servers.0.serves", server.serves),
            ];
            if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
                let accepted = "the server has no network: leave it out, or name its network \
                                interface (interface)";
                return Err(SpecError::new(*key, "given", accepted));
            }
            let Some(program) = &server.program else {
                continue;
            };
            let accepted = "a program needs a network interface (interface) or a data plane \
                            (data_plane.program); `nanoplane exec` runs it without either";
            return Err(SpecError::new(
                "rack.servers.0.program",
                written(program),
                accepted,
            ));
        }
        Ok(())
    }

    fn check_client(&self, client: &RackClientSpec) -> Result<(), SpecError> {
        client.load.check().under("load")?;
        let is_known = |name: &String| self.servers.iter().any(|server| server.name == *name);
        if let Some(unknown) = client.servers.iter().find(|name| !is_known(name)) {
            let mut known = Vec::from_iter(self.servers.iter().map(|server| &server.name));
            known.dedup();
            let accepted = format!("the servers are {}", written(&known));
            return Err(SpecError::new("servers", written(unknown), accepted));
        }
        require(
            !self.servers_of(client).is_empty(),
            "servers",
            "a list of 0",
            "there is no server to send requests to; name some, or let a server serve",
        )?;
        let is_meant = |server: &&RackServerSpec| {
            client.servers.is_empty() && server.serves || client.servers.contains(&server.name)
        };
        let program = &client.load.transport.program;
        let protocol = client.load.transport.protocol;
        // A conventional interface leaves the transport to the program.
        let is_conventional = |server: &RackServerSpec| {
            let is_datagram = program.is_none() && protocol == Protocol::Datagrams;
            is_datagram && server.dma_path.is_some()
        };
        let is_meant = |server: &&RackServerSpec| is_meant(server) && !is_conventional(server);
        let mut meant = self.servers.iter().filter(is_meant);
        if let Some(server) = meant.find(|server| server.host().transport_program() != *program) {
            let found = match program {
                None => "missing",
                Some(_) => "another program",
            };
            let accepted = format!("it must be that of {}, if one has a program", server.name);
            return Err(SpecError::new("load.transport.program", found, accepted));
        }
        let mut meant = self.servers.iter().filter(is_meant);
        let other = meant.find(|server| server.host().protocol() != protocol);
        let Some(server) = other.filter(|_| program.is_none()) else {
            return Ok(());
        };
        Err(SpecError::new(
            "load.transport.protocol",
            written(&protocol),
            format!(
                "that of {} is {}",
                server.name,
                written(&server.host().protocol())
            ),
        ))
    }
}

impl RackServerSpec {
    /// The server as a host of a run, without clients' operations.
    pub(crate) fn host(&self) -> HostSpec<'_> {
        self.host_with(None)
    }

    /// The server as a host of a run. Its program receives `operations`, if a client has some for
    /// it.
    pub(crate) fn host_with<'a>(&'a self, operations: Option<&'a OperationsSpec>) -> HostSpec<'a> {
        HostSpec {
            name: self.interface.map(|_| self.name.as_str()),
            count: self.count,
            server: &self.server,
            runs: match &self.data_plane {
                Some(spec) => Runs::DataPlane(DataPlanePlan {
                    spec,
                    traffic: self.traffic.as_ref().unwrap_or(&DEFAULT_TRAFFIC),
                    server: &self.server,
                }),
                None => Runs::Networked(Given {
                    program: self.program.as_deref().unwrap_or_default(),
                    arguments: &self.arguments,
                    parameters: &self.parameters,
                    operations,
                }),
            },
            serves: self.serves,
            interface: self.interface,
            dma_path: self.dma_path,
            systems: &self.systems,
        }
    }

    /// Checks whether such a server is possible, with its network interface.
    fn check(&self) -> Result<(), SpecError> {
        require(
            self.program.is_some() != self.data_plane.is_some(),
            "program",
            self.program.as_ref().map_or("absent".to_string(), written),
            "a server has either a program or a data plane (data_plane), which names its program",
        )?;
        let of_program = [
            ("parameters", !self.parameters.is_empty()),
            ("arguments", !self.arguments.is_empty()),
        ];
        let mut given = of_program.iter().filter(|(_, is_given)| *is_given);
        if let (Some((key, _)), true) = (given.next(), self.data_plane.is_some()) {
            let accepted = "it is for a program; a data plane has data_plane.parameters";
            return Err(SpecError::new(*key, "given", accepted));
        }
        if let Some(argument) = self.arguments.iter().find(|one| one.contains('\0')) {
            let accepted = "an argument ends where its first zero byte is";
            return Err(SpecError::new("arguments", written(argument), accepted));
        }
        check_parameters(&self.parameters)?;
        require(
            self.traffic.is_none() || self.data_plane.is_some(),
            "traffic",
            "given",
            "it comes to a data plane, and there is no data_plane",
        )?;
        self.host().check()
    }
}
