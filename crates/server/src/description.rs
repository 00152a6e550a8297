//! Descriptions of runs. The doc comment of a field is its help text, wherever that is shown.

use crate::error::RunError;
use crate::hosts::HostSpec;
use crate::machine::Machine;
use crate::memory_map::MAX_HARTS;
pub use crate::notify::Notify;
use crate::rack::RackDescription;
pub use crate::registry::ServerSpec;
use crate::registry::mechanisms;
use queues::{MAX_NAME_BYTES, RingsAtStart, TRAFFIC_PARAMETERS, WarmStartLength};
use schemars::{JsonSchema, Schema};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use spec::{SpecError, Under, require};
use std::collections::BTreeMap;
use workload::{OperationKind, Warmup};

/// What is simulated, and what is measured of it.
///
/// A server alone is a rack of one: its tables are those of an entry of `rack.servers`, beside the
/// other tables of `rack`, at the top level.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its tables, as of a rack.
    pub tables: RackDescription,
    /// Whether they are written at the top level.
    pub is_alone: bool,
}

/// The keys of a rack beside its servers.
const NETWORK: &[&str] = &["clients", "link", "switch"];
/// The keys of a description beside its servers and network.
const OF_RUN: &[&str] = &["measure", "simulator"];

/// Removes those of the keys that a table has, with their values.
fn taken(table: &mut Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    let entries = keys.iter().filter_map(|key| table.remove_entry(*key));
    entries.collect()
}

impl<'de> Deserialize<'de> for Description {
    /// A description with the table `rack` has its servers there.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Description, D::Error> {
        Description::of_table(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = self.to_table().map_err(S::Error::custom)?;
        table.serialize(serializer)
    }
}

/// These are not generic, so that the code for the tables of all systems is compiled in this crate
/// alone, and not again in each crate that reads or writes a description.
impl Description {
    fn of_table(mut table: Map<String, Value>) -> serde_json::Result<Description> {
        let is_alone = !table.contains_key("rack");
        if is_alone {
            let mut whole = taken(&mut table, OF_RUN);
            let mut rack = taken(&mut table, NETWORK);
            rack.insert("servers".to_string(), json!([table]));
            whole.insert("rack".to_string(), Value::Object(rack));
            table = whole;
        }
        let tables = serde_json::from_value(Value::Object(table))?;
        Ok(Description { tables, is_alone })
    }

    fn to_table(&self) -> serde_json::Result<Value> {
        if !self.is_alone {
            return serde_json::to_value(&self.tables);
        }
        let RackDescription {
            rack,
            measure,
            simulator,
        } = &self.tables;
        let mut table = json!({"measure": measure, "simulator": simulator});
        let network = json!({"clients": rack.clients, "link": rack.link, "switch": rack.switch});
        let of_server = rack.servers.first().map(|server| json!(server));
        let parts = [Some(network), of_server].into_iter().flatten();
        for (key, value) in parts.filter_map(|part| part.as_object().cloned()).flatten() {
            table[key] = value;
        }
        Ok(table)
    }
}

impl Description {
    /// Checks the description as far as possible without its programs.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_tables().map_err(|mut error| {
            let mut outer = ["rack.servers.0.", "rack."].into_iter();
            let inner = outer.find_map(|outer| error.key.strip_prefix(outer));
            if let Some(inner) = inner.filter(|_| self.is_alone) {
                error.key = inner.to_string();
            }
            error
        })
    }

    /// Checks that each number is in its declared range; keys are those of a rack.
    pub fn check_ranges(&self) -> Result<(), SpecError> {
        spec::check(&self.tables)
    }

    fn check_tables(&self) -> Result<(), SpecError> {
        self.check_ranges()?;
        self.tables.check(self.network().is_some())?;
        let hosts = self.hosts();
        self.tables.measure.check_warm_start(&hosts)?;
        self.tables.measure.check_rings(&hosts)
    }

    /// The rack, unless it is a server without a network.
    pub(crate) fn network(&self) -> Option<&RackDescription> {
        let servers = &self.tables.rack.servers;
        let is_there = !self.is_alone || servers.iter().any(|server| server.interface.is_some());
        is_there.then_some(&self.tables)
    }

    /// The only server, if it is written at the top level.
    pub(crate) fn only(&self) -> Result<&ServerSpec, RunError> {
        let mut servers = self.tables.rack.servers.iter().filter(|_| self.is_alone);
        let only = servers.next().map(|server| &server.server);
        only.ok_or_else(|| RunError::Description("it describes a rack".to_string()))
    }
}

impl ServerSpec {
    /// The server as a table of a description. Not generic, so that the code is compiled in this
    /// crate alone.
    pub fn table(&self) -> Value {
        json!(self)
    }

    /// Checks whether such a server is possible.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.fabric.check().under("fabric")?;
        self.core.check().under("core")?;
        self.core
            .as_built(self.fabric.perfect_cache)
            .under("core")?;
        require(
            self.harts() as u64 <= MAX_HARTS,
            "core.threads",
            self.core.threads,
            format!(
                "with fabric.cores = {} there are {} harts, and the memory map has stacks of \
                 {MAX_HARTS}",
                self.fabric.cores,
                self.harts()
            ),
        )
    }

    /// Number of harts. The first ones are the first hardware threads of the cores, in the order of
    /// the cores; if cores have more hardware threads, the second ones follow, and so on.
    pub fn harts(&self) -> usize {
        self.fabric.cores * usize::from(self.core.threads)
    }

    /// Number of harts that run the data plane: the first ones.
    pub fn data_plane_harts(&self) -> usize {
        self.data_plane_cores * self.data_plane_threads
    }
}

/// The order in which ready queues are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// One after the other, each as often in a row as its weight says.
    WeightedRoundRobin,
    /// The queue with the lowest number first.
    StrictPriority,
}

/// Which cores share queues. A cluster's cores share its queues; the queues are divided between the
/// clusters, each of which has consecutive ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Organisation {
    /// By its name.
    Named(NamedOrganisation),
    /// The number of cores in a cluster.
    ClusterCores(#[schemars(range(min = 1, max = 32))] u32),
}

/// The organisations that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedOrganisation {
    /// Each core has queues of its own.
    ScaleOut,
    /// Two cores share queues.
    #[serde(rename = "scale-up-2")]
    ScaleUp2,
    /// Four cores share queues.
    #[serde(rename = "scale-up-4")]
    ScaleUp4,
    /// All cores share all queues.
    ScaleUp,
}

/// The software data plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataPlaneSpec {
    /// The program: a built-in one by its name, or the path of a `.c` or `.elf` file.
    #[serde(default = "default_program")]
    pub program: String,
    /// The notification mechanism.
    pub notify: Notify,
    /// The order in which ready queues are served.
    #[serde(default)]
    pub policy: Policy,
    /// The number of consecutive items that `weighted-round-robin` grants each queue. Queue 0 has
    /// the first weight, and so on; behind the last one it begins again. Without, all are 1.
    #[serde(default)]
    #[schemars(inner(range(min = 1, max = 65535)))]
    pub weights: Vec<u32>,
    /// The program that runs on the second hardware thread of each data plane core, if
    /// `server.core.threads` is 2 or more: a built-in one by its name, or the path of a `.c` file.
    /// Without it, that thread is halted; those behind it always are, unless the data plane uses
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub co_runner: Option<String>,
    /// Queues between the I/O sources and the data plane; each has a tenant of its own.
    #[schemars(range(min = 1, max = 8192))]
    pub queues: u32,
    /// Numbers for the program, by names that the program defines.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// The cores that share queues: a name, or a number of cores. Without it the mechanism's own:
    /// with HyperPlane all cores share all queues, otherwise each has queues of its own.
    #[serde(default)]
    pub organisation: Option<Organisation>,
    /// The maximum number of items that a visit takes from a queue. Without it the mechanism's own:
    /// 32 for `spin-poll-mode`, 1 for the others.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub batch: Option<u32>,
    /// Whether the items of a queue are processed one after the other. If not, cores that share
    /// the queue process them at the same time, and they leave in the order in which they are done.
    #[serde(default = "default_in_order")]
    pub in_order: bool,
}

impl DataPlaneSpec {
    /// Checks that policy, weights and parameters are consistent.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let is_weighted = self.policy == Policy::WeightedRoundRobin;
        require(
            !is_weighted || self.notify.mechanism().has_weights,
            "policy",
            written(&self.policy),
            format!(
                "weights are kept by hardware; with data_plane.notify = {} it is possible, \
                 otherwise take \"round-robin\" or \"strict-priority\"",
                with_weights()
            ),
        )?;
        let weights = self.weights.len();
        require(
            weights == 0 || is_weighted,
            "weights",
            format!("a list of {weights}"),
            format!(
                "it has no meaning with data_plane.policy = {}; it belongs to \
                 \"weighted-round-robin\"",
                written(&self.policy)
            ),
        )?;
        require(
            weights <= self.queues as usize,
            "weights",
            format!("a list of {weights}"),
            format!("there are {} queues", self.queues),
        )?;
        check_parameters(&self.parameters)
    }

    /// Number of cores, of `cores`, that share queues.
    pub fn cluster_cores(&self, cores: u32) -> u32 {
        match self.organisation {
            None if self.notify.mechanism().shares_queues => cores,
            None | Some(Organisation::Named(NamedOrganisation::ScaleOut)) => 1,
            Some(Organisation::Named(NamedOrganisation::ScaleUp2)) => 2,
            Some(Organisation::Named(NamedOrganisation::ScaleUp4)) => 4,
            Some(Organisation::Named(NamedOrganisation::ScaleUp)) => cores,
            Some(Organisation::ClusterCores(number)) => number,
        }
    }

    /// The maximum number of items that a visit takes from a queue.
    pub fn batch(&self) -> u32 {
        self.batch.unwrap_or(self.notify.mechanism().usual_batch)
    }
}

/// The mechanisms that support weights, as written in descriptions.
fn with_weights() -> String {
    let able = mechanisms().filter(|(mechanism, _)| mechanism.has_weights);
    let names: Vec<String> = able
        .map(|(mechanism, _)| written(&mechanism.name))
        .collect();
    names.join(" or ")
}

fn default_in_order() -> bool {
    true
}

fn default_program() -> String {
    "packet-encapsulation".to_string()
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeasureSpec {
    /// Requests to measure, without the warm-up, of each data plane and by each client of a rack:
    /// the minimum, and with `precision` the maximum, apart from whole laps or rounds of full rings.
    #[schemars(range(min = 100, max = 1_000_000_000))]
    pub requests: u64,
    /// If given, each of them ends as soon as its result is this precise: half of the 95 %
    /// confidence interval is at most this fraction of the result, such as 0.05. That is the
    /// throughput of a data plane if `traffic.load = "saturate"`, and of a closed loop of
    /// clients that do not think; otherwise it is the p99. Without, or if that takes more than
    /// `requests`, these are measured; the result says whether it is `precise`.
    #[schemars(range(min = 0.001, max = 1.0))]
    pub precision: Option<f64>,
    /// If given, `precision` applies to the p99 of this kind of requests alone, for programs that
    /// take operations; `requests` still counts all kinds.
    pub precision_of: Option<OperationKind>,
    /// The rule that ends the warm-up: "auto", or a number of requests. With "auto" and
    /// `traffic.load = "saturate"` it ends when slots of the rings are no longer used for the first
    /// time and the times between completions have settled; then whole laps of the rings are
    /// measured, or whole rounds over the queues with a precision of 2 % or more.
    pub warmup: Warmup,
    /// If given, a warm-up with its own traffic precedes the run, and is not measured. Runs that
    /// differ only in their later traffic share it.
    pub warm_start: Option<WarmStartSpec>,
    /// The initial state of the rings of a data plane's queues: "new", or the state after a lap of
    /// requests, which takes no time: "used", or "full" for `traffic.load = "saturate"`. Each slot
    /// has been used once then, and the last-level cache has what that leaves. Private caches and
    /// branch predictors have not: `warm_start` settles them. RPCValet's receive slots can be
    /// "used".
    pub rings: RingsAtStart,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// A warm-up before measurement, by requests at a given rate. It ends some 1000 cycles after the
/// last of them has been delivered, and changes nothing in queues and caches. The traffic then
/// changes to `traffic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmStartSpec {
    /// The end: "auto", or the number of delivered requests after which it ends. With "auto" it
    /// ends when few queues and cache lines are used for the first time: 98 % of the queues with
    /// traffic have had a request (of new rings, 98 % of the slots), and the cores' data caches
    /// have filled: a quarter more requests bring at most 2 % more lines. It does not wait for
    /// queues without requests. Requests of "auto" go to the queues in turn, if there are rings.
    #[serde(default)]
    pub requests: WarmStartLength,
    /// The offered load, in millions of items a second over all queues; without it,
    /// `traffic.saturation_rate_mrps`.
    #[serde(default)]
    #[schemars(range(min = 1e-6, max = 1e4))]
    pub rate_mrps: Option<f64>,
    /// The work of each item in nanoseconds, instead of `traffic.work`: runs that differ in that
    /// work, too, then share the warm start.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub work_ns: Option<f64>,
}

impl MeasureSpec {
    /// Checks that a warm start only replaces the work of items that have some.
    pub(crate) fn check_warm_start(&self, hosts: &[HostSpec<'_>]) -> Result<(), SpecError> {
        let work_ns = self.warm_start.as_ref().and_then(|warm| warm.work_ns);
        require(
            work_ns.is_none() || hosts.iter().all(HostSpec::has_work),
            "measure.warm_start.work_ns",
            "given",
            "it replaces the times of traffic.work, and there is none: leave it out",
        )
    }

    /// Checks that rings can begin in their prescribed state: at a rate, full rings would drain at
    /// the beginning, and the measurement would include their initial items.
    pub(crate) fn check_rings(&self, hosts: &[HostSpec<'_>]) -> Result<(), SpecError> {
        require(
            self.rings != RingsAtStart::Full || hosts.iter().all(HostSpec::fills_its_rings),
            "measure.rings",
            "\"full\"",
            "rings stay full with traffic.load = \"saturate\" alone: set that, or take \"used\"",
        )
    }
}

impl Default for MeasureSpec {
    fn default() -> MeasureSpec {
        MeasureSpec {
            requests: 20_000,
            precision: None,
            precision_of: None,
            warmup: Warmup::Auto,
            warm_start: None,
            rings: RingsAtStart::New,
            seed: 1,
        }
    }
}

/// Options of the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatorSpec {
    /// The maximum number of cycles that a core may run ahead of the others; 0 selects the largest
    /// number that is exact. Smaller ones are slower and give the same results.
    #[schemars(range(max = 1_000_000))]
    pub lookahead_cycles: u64,
    /// Whether to skip periods of loops that provably only spin.
    pub skip_spinning: bool,
}

impl Default for SimulatorSpec {
    fn default() -> SimulatorSpec {
        SimulatorSpec {
            lookahead_cycles: 0,
            skip_spinning: true,
        }
    }
}

impl SimulatorSpec {
    /// Applies the options to `machine`.
    pub(crate) fn apply(&self, machine: &mut Machine) {
        let engine = &mut machine.engine;
        engine.set_speed(self.lookahead_cycles, self.skip_spinning);
    }
}

/// A value as written in a description.
pub(crate) fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The JSON schema of a [`Description`] of a server alone, or of one with a network.
pub fn server_schema() -> Schema {
    let mut schema = rack_schema().to_value();
    let mut of_server = schema["$defs"]["RackServerSpec"].clone();
    let mut of_rack = schema["$defs"]["RackSpec"]["properties"].clone();
    of_rack["servers"].take();
    let parts = [of_rack, schema["properties"].take()];
    for (key, value) in parts.iter().filter_map(Value::as_object).flatten() {
        if !["rack", "servers"].contains(&key.as_str()) {
            of_server["properties"][key] = value.clone();
        }
    }
    of_server["title"] = json!("RackServerSpec");
    for (key, value) in of_server.as_object_mut().into_iter().flatten() {
        schema[key] = value.take();
    }
    Schema::try_from(schema).unwrap_or_default()
}

/// The JSON schema of a [`Description`] of a rack.
pub fn rack_schema() -> Schema {
    schemars::schema_for!(RackDescription)
}

/// Checks that these numbers have names which a program can read.
pub(crate) fn check_parameters(parameters: &BTreeMap<String, f64>) -> Result<(), SpecError> {
    for name in parameters.keys() {
        require(
            (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains('\0'),
            "parameters",
            format!("a table with the name {name:?}"),
            format!("a name must have 1 to {MAX_NAME_BYTES} bytes, and none of them zero"),
        )?;
        require(
            !name.starts_with(TRAFFIC_PARAMETERS),
            "parameters",
            format!("a table with the name {name:?}"),
            "what the program knows of the traffic is described under traffic.operations",
        )?;
    }
    Ok(())
}
