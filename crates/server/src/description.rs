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
use serde::de::Error;
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
        let mut table = Map::deserialize(deserializer)?;
        let is_alone = !table.contains_key("rack");
        if is_alone {
            let mut whole = taken(&mut table, OF_RUN);
            let mut rack = taken(&mut table, NETWORK);
            rack.insert("servers".to_string(), json!([table]));
            whole.insert("rack".to_string(), Value::Object(rack));
            table = whole;
        }
        let tables = serde_json::from_value(Value::Object(table)).map_err(D::Error::custom)?;
        Ok(Description { tables, is_alone })
    }
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_alone {
            return self.tables.serialize(serializer);
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
        table.serialize(serializer)
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

    fn check_tables(&self) -> Result<(), SpecError> {
        spec::check(&self.tables)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SYSTEMS;
    use crate::{Preset, presets};
    use std::collections::BTreeSet;

    fn preset(name: &str) -> Preset {
        let mut presets = presets().into_iter();
        presets.find(|preset| preset.name == name).unwrap()
    }

    /// Descriptions of racks, with a value for each possible parameter.
    fn complete() -> [Value; 3] {
        let preset = preset("nanopu-prototype");
        let service_times = json!({"distribution": "generalized-extreme-value"});
        let mut server = json!(preset.server);
        server["core"]["l2"] = json!(fabric::SecondLevelSpec::default());
        server["core"]["translation"] = json!({"structure_caches": {}});
        server["core"]["commit_width"] = json!(1);
        let mut timings = json!(fabric::DramTimingSpec::default());
        let all = timings.as_object_mut().unwrap().values_mut();
        all.for_each(|cycles| *cycles = json!(4));
        server["fabric"]["memory"]["dram"] = json!({
            "bank_groups": 4, "banks_per_group": 4, "clock_ns": 0.75, "timings": timings,
        });
        server["fabric"]["memory"]["cache"] = json!({});
        server["fabric"]["last_level"]["directory"] = json!(fabric::DirectorySpec::default());
        server["fabric"]["last_level"]["io_ways"] = json!(2);
        for kind in SYSTEMS {
            server[kind.key] = json!({});
        }
        let processors = json!({"firmware": "critical-regions"});
        server["dma_nic"] = json!({"express": {"iommu": {}}, "processors": processors});
        server["critical_region"] = json!({"offload": {}});
        server["hyperplane"]["walk_places"] = json!(52);
        server["rpcvalet"]["domains"] = json!([{
            "nodes": 1, "cores": 1, "slots": 1, "max_message_bytes": 64, "dispatch": {}, "share": 1.0,
        }]);
        let data_plane = json!({
            "interface": "dma-nic",
            "server": server,
            "data_plane": {
                "notify": "spin", "queues": 1, "weights": [1], "organisation": 1, "batch": 1,
                "parameters": {"size": 1.0},
            },
            "traffic": {
                "rate_mrps": 1.0,
                "work": {"mean_ns": 1.0, "long_ns": 1.0, "service_times": service_times},
                "operations": {"warehouses": 1}, "sources": "cores", "source_cores": 1,
            },
        });
        let rack = |offer: Value| {
            json!({
                "rack": {
                    "switch": {"ecn_threshold_bytes": 1000},
                    "servers": [
                        {"program": "", "interface": "nanopu", "server": server}, data_plane,
                    ],
                    "clients": [{"load": {
                        "offer": offer,
                        "opening": [{"words": [1]}],
                        "requests": [{
                            "service_times": service_times,
                            "words": [
                                1, {"min": 1, "max": 2}, {"zipf_items": 1, "zipf_exponent": 0.99},
                            ],
                            "rows": [[1]],
                        }],
                        "max_requests": 1,
                        "transport": {
                            "homa": {"unscheduled_up_to_bytes": [1024]},
                            "program": {"constants": {"window": 1}, "tables": {"sizes": [1]}},
                        },
                    }}],
                },
                "measure": {
                    "precision": 0.05, "warmup": 10, "rings": "used",
                    "warm_start": {"requests": 1, "rate_mrps": 1.0, "work_ns": 1.0},
                },
            })
        };
        let offers = [
            json!({"mode": "open", "rate_mrps": 1.0}),
            json!({"mode": "simultaneous", "every_ns": 1.0}),
            json!({"mode": "closed", "clients": 1}),
        ];
        offers.map(rack)
    }

    /// Numbers without a range, and the reason.
    const UNRANGED: [(&str, &str); 11] = [
        (
            "DataPlaneSpec.parameters",
            "the program knows what it takes",
        ),
        (
            "DispatchSpec.long_from",
            "a type is any number in a message",
        ),
        ("Formula", "the rules know what they take"),
        ("MeasureSpec.seed", "each is as random as the others"),
        ("OpeningSpec.words", "a message has any words"),
        ("ProgramSpec.tables", "the rules know what they take"),
        (
            "RackServerSpec.parameters",
            "the program knows what it takes",
        ),
        ("RequestSpec.rows", "a message has any words"),
        ("Word", "a message has any words"),
        ("Word.min", "a message has any words"),
        ("Word.max", "a message has any words"),
    ];

    #[test]
    fn every_number_has_a_declared_range() {
        let schemas = [server_schema(), rack_schema()].map(|schema| schema.to_value());
        let found = schemas.iter().flat_map(spec::without_range);
        let known = UNRANGED.iter().map(|(key, _)| key.to_string());
        assert_eq!(
            BTreeSet::from_iter(found),
            known.collect(),
            "declare `#[schemars(range(min = .., max = ..))]` at the field, or say why not"
        );
    }

    /// Values at and beyond each bound of a number, at a distance of 1 or more.
    fn at_and_beyond(range: &spec::Range<'_>, is_whole: bool) -> Vec<(Value, bool)> {
        let step = range.multiple_of.unwrap_or(1) as i128;
        let mut tried = Vec::new();
        for (bound, is_open, side) in [(range.least, range.above, -1), (range.most, range.below, 1)]
        {
            let Some(bound) = bound else { continue };
            tried.push((json!(bound), !is_open));
            if !is_whole {
                let bound = bound.as_f64().unwrap();
                let next = [bound.next_down(), bound.next_up()][usize::from(side > 0)];
                tried.push((json!(next), false));
            } else if let Ok(next) = u64::try_from(bound.as_i128().unwrap() + side * step) {
                tried.push((json!(next), false));
            }
        }
        tried
    }

    /// Tries each bound of each number in a description; returns the declarations that it has
    /// found.
    fn try_bounds(description: &Value) -> BTreeSet<String> {
        let read = |value: &Value| serde_json::from_value::<Description>(value.clone());
        let full = json!(read(description).unwrap());
        let schema = rack_schema().to_value();
        let (mut met, mut count) = (BTreeSet::new(), 0);
        let walked = spec::walk(&schema, &full, &mut |key, value, declared| {
            if !value.is_number() {
                return Ok(());
            }
            met.insert(declared.to_string());
            let range = spec::Range::of(declared);
            for (tried, is_accepted) in at_and_beyond(&range, !value.is_f64()) {
                let mut changed = full.clone();
                *changed
                    .pointer_mut(&format!("/{}", key.replace('.', "/")))
                    .unwrap() = tried;
                // Values that the type cannot represent are refused before.
                let Ok(changed) = read(&changed) else {
                    assert!(!is_accepted, "{key}");
                    continue;
                };
                count += 1;
                match is_accepted {
                    true => assert_eq!(spec::check(&changed.tables), Ok(()), "{key}"),
                    false => assert_eq!(changed.check().unwrap_err().key, key),
                }
            }
            Ok(())
        });
        walked.unwrap();
        assert!(count > 400, "only {count} values have been tried");
        met
    }

    /// All declarations of numbers in a schema.
    fn declarations(schema: &Value, found: &mut BTreeSet<String>) {
        let is = |name: &str| schema["type"] == name || schema["type"][0] == name;
        if is("integer") || is("number") {
            found.insert(schema.to_string());
        }
        match schema {
            Value::Array(list) => list.iter().for_each(|one| declarations(one, found)),
            Value::Object(table) => table.values().for_each(|one| declarations(one, found)),
            _ => {}
        }
    }

    /// A value at each declared bound is accepted, and one beyond it is refused with the key's full
    /// path.
    #[test]
    fn ranges_are_checked_as_they_are_declared() {
        let met: BTreeSet<String> = complete().iter().flat_map(try_bounds).collect();
        let mut declared = BTreeSet::new();
        declarations(&rack_schema().to_value(), &mut declared);
        assert_eq!(
            declared.difference(&met).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
    }

    /// A server alone, which offers `rate_mrps`.
    fn alone(rate_mrps: f64) -> Description {
        let table = json!({
            "server": preset("hyperplane-table1").server,
            "data_plane": {"notify": "spin", "queues": 1},
            "traffic": {"rate_mrps": rate_mrps},
        });
        serde_json::from_value(table).unwrap()
    }

    /// A description that is written and read again is the same, to the last bit of every number;
    /// otherwise the same run would not be found among the results.
    #[test]
    fn numbers_survive_being_written_and_read() {
        // Neighbours of numbers with few digits, which a slightly inexact reader would confuse.
        let mut rates: Vec<f64> = (1..2000).map(|step| f64::from(step) / 997.0).collect();
        rates.push(-9.828413039546409e-234);
        let mut description = alone(1.0);
        for rate in rates {
            let server = &mut description.tables.rack.servers[0];
            server.traffic.as_mut().unwrap().rate_mrps = Some(rate);
            let text = serde_json::to_string(&description).unwrap();
            let again: Description = serde_json::from_str(&text).unwrap();
            assert_eq!(again, description, "{rate:?}");
        }
    }

    /// The tables of a server alone are at the top level, and so are the keys of errors.
    #[test]
    fn a_server_alone_has_its_keys_at_the_top_level() {
        let of = |tables: Value| {
            let mut value = json!(alone(1.0));
            for (key, table) in tables.as_object().unwrap() {
                value[key] = table.clone();
            }
            let read: Description = serde_json::from_value(value).unwrap();
            read.check().map_err(|error| error.to_string())
        };
        assert_eq!(of(json!({})), Ok(()));
        let client = json!({"load": {
            "offer": {"mode": "open", "rate_mrps": 1.0}, "transport": {"protocol": "datagrams"},
        }});
        let clients = json!([client]);
        let served = json!({"interface": "dma-nic", "serves": true, "clients": clients});
        assert_eq!(of(served), Ok(()));
        let refused = |tables: Value| of(tables).unwrap_err();
        assert_eq!(
            refused(json!({"link": {"latency_ns": -1.0}})),
            "link.latency_ns is -1; it must be from 2 to 1000000000"
        );
        assert!(refused(json!({"clients": clients})).starts_with("clients is given; the server"));
        assert!(refused(json!({"count": 2})).starts_with("count is given; the server has no"));
        let many = json!({"interface": "dma-nic", "clients": [client, client]});
        assert_eq!(
            refused(many),
            "clients is a list with which there are 3 hosts; a link connects two; describe a switch \
             for more"
        );
        let both = json!({"interface": "dma-nic", "clients": clients, "program": "echo"});
        assert_eq!(
            refused(both),
            "program is \"echo\"; a server has either a program or a data plane (data_plane), \
             which names its program"
        );
    }
}
