//! The description of the network interface.

use crate::cluster::NetworkSpec;
use crate::gateway::GatewaySpec;
use crate::header::{MAX_BYTES, MAX_CONTEXTS, MAX_NODES, MAX_SLOTS};
use fabric::{Clock, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::ops::Range;

/// The network interface of Scale-Out NUMA with RPCValet's messages, for data planes with
/// `notify = "rpcvalet"`.
///
/// Defaults: RPCValet (ASPLOS 2019), where it gives a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RpcValetSpec {
    /// The number of backends, each in a row of its own in the mesh's first column (4 in Figure 4).
    #[schemars(range(min = 1, max = 16))]
    pub backends: usize,
    /// Send slots, and receive slots, for each node: S. "A few tens" (Section 4.2).
    #[schemars(range(min = 1, max = MAX_SLOTS))]
    pub slots: u32,
    /// Bytes of the largest message, a multiple of 64: `max_msg_size`. What is larger goes by
    /// rendezvous. 90 % of the packets in Facebook's data centres are smaller than 1 KB (Section
    /// 4.2).
    #[schemars(range(min = 64, max = 65536), extend("multipleOf" = 64))]
    pub max_message_bytes: u32,
    /// The dispatch of messages to cores.
    pub dispatch: DispatchSpec,
    /// The messaging domains, each of a context of its own: domain 0 of context 0, and so on. None:
    /// one of all nodes and all cores.
    #[schemars(length(max = 16))]
    pub domains: Vec<DomainSpec>,
    /// Cycles from the read of a work queue entry to the departure of the request. The papers give
    /// none for any pipeline: a cycle for each of the steps that they name.
    #[schemars(range(max = 1000))]
    pub request_generation_cycles: u64,
    /// Cycles from a request's end at a frontend to the write of the completion queue.
    #[schemars(range(max = 1000))]
    pub request_completion_cycles: u64,
    /// Cycles from a packet's arrival at a backend to its access of memory.
    #[schemars(range(max = 1000))]
    pub remote_processing_cycles: u64,
    /// The network.
    pub network: NetworkSpec,
    /// The edge of the chip, in a rack.
    pub gateway: GatewaySpec,
}

impl Default for RpcValetSpec {
    fn default() -> RpcValetSpec {
        RpcValetSpec {
            backends: 4,
            slots: 32,
            max_message_bytes: 1152,
            dispatch: DispatchSpec::default(),
            domains: Vec::new(),
            request_generation_cycles: 4,
            request_completion_cycles: 3,
            remote_processing_cycles: 4,
            network: NetworkSpec::default(),
            gateway: GatewaySpec::default(),
        }
    }
}

/// Where messages wait for cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One queue, from which one dispatcher serves all cores: 1x16.
    #[default]
    OneQueue,
    /// Each backend has a queue for the cores of its rows, and dispatches what it receives: 4x4.
    QueuePerBackend,
    /// Each core has a queue, and a message is given to one when it arrives, as receive-side
    /// scaling does: 16x1.
    QueuePerCore,
    /// One queue, from which the cores take messages themselves, under a lock.
    Software,
}

/// How the messages of a queue are given to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicySpec {
    /// To an idle core, or else to any with fewer messages than the threshold.
    #[default]
    Greedy,
    /// Join-bounded-shortest-queue: to a core with the fewest messages, if they are fewer than the
    /// threshold.
    Jbsq,
    /// To the one of two random cores that has fewer messages; it waits while both have as many as
    /// the threshold.
    PowerOfTwo,
    /// As `greedy`, but long requests are kept away from some cores.
    TypeAware,
}

/// How messages are dispatched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DispatchSpec {
    /// The place where messages wait.
    pub mode: Mode,
    /// The policy that selects the core.
    pub policy: PolicySpec,
    /// The maximum number of messages of a core, including the one that it processes (2 in Section
    /// 4.4).
    #[schemars(range(min = 1, max = 16))]
    pub threshold: u32,
    /// Cycles of a decision; decisions are made one at a time.
    #[schemars(range(max = 1000))]
    pub latency_cycles: u64,
    /// For `type-aware`: where in a message's first 64 bytes its type is, a number of four bytes,
    /// most significant first. 48 is where the program `synthetic` finds its nanoseconds.
    #[schemars(range(max = 60))]
    pub type_offset: u32,
    /// For `type-aware`: the first number of a long type.
    pub long_from: u32,
    /// For `type-aware`: cores of each queue that long requests do not get.
    #[schemars(range(max = 32))]
    pub short_cores: u32,
}

impl Default for DispatchSpec {
    fn default() -> DispatchSpec {
        DispatchSpec {
            mode: Mode::default(),
            policy: PolicySpec::default(),
            threshold: 2,
            latency_cycles: 1,
            type_offset: 48,
            long_from: 10_000,
            short_cores: 2,
        }
    }
}

/// A messaging domain: nodes that send each other messages, slots for them, and the cores that get
/// them. Domains have nothing in common but caches, mesh, memory and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DomainSpec {
    /// Its nodes, N. Those of all domains are `data_plane.queues`: the first domain's first, and so
    /// on. If left out, an equal part of those that no other domain has.
    #[schemars(range(min = 1, max = MAX_NODES))]
    pub nodes: Option<u32>,
    /// Cores that get its messages. All domains together have `server.data_plane_cores`: the first
    /// domain the first ones, and so on. If left out, an equal part of those that no other domain
    /// has.
    #[schemars(range(min = 1, max = 32))]
    pub cores: Option<usize>,
    /// Send slots, and receive slots, for each node: S. As `slots` of the network interface if left
    /// out.
    #[schemars(range(min = 1, max = MAX_SLOTS))]
    pub slots: Option<u32>,
    /// Bytes of its largest message. As `max_message_bytes` of the network interface if left out.
    #[schemars(range(min = 64, max = 65536), extend("multipleOf" = 64))]
    pub max_message_bytes: Option<u32>,
    /// The dispatch of messages to cores. As `dispatch` of the network interface if left out.
    pub dispatch: Option<DispatchSpec>,
    /// Its part of the requests, relative to the other domains' shares.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub share: f64,
}

impl Default for DomainSpec {
    fn default() -> DomainSpec {
        DomainSpec {
            nodes: None,
            cores: None,
            slots: None,
            max_message_bytes: None,
            dispatch: None,
            share: 1.0,
        }
    }
}

/// A messaging domain with all its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainPlan {
    /// Its nodes.
    pub nodes: u32,
    /// The number of its first node among the nodes of all domains: their queues.
    pub first_node: u32,
    /// Its cores.
    pub cores: Range<usize>,
    /// Slots of each node.
    pub slots: u32,
    /// Bytes of the largest message.
    pub max_message_bytes: u32,
    /// The dispatch of messages to cores.
    pub dispatch: DispatchSpec,
    /// Its share of the requests.
    pub share: f64,
}

impl DomainPlan {
    /// The queues of its nodes.
    pub fn queues(&self) -> Range<u32> {
        self.first_node..self.first_node + self.nodes
    }
}

/// Divides `total`: entries that state a number get it, the others share the rest equally, and the
/// first of these get one more until nothing is left. `None` if an entry would get nothing or a
/// remainder would be unassigned.
fn divided(total: usize, wanted: &[Option<usize>]) -> Option<Vec<usize>> {
    let taken = wanted.iter().flatten().sum::<usize>();
    let sharers = wanted.iter().filter(|one| one.is_none()).count();
    let rest = total.checked_sub(taken)?;
    if sharers == 0 && rest > 0 {
        return None;
    }
    let mut more = rest % sharers.max(1);
    let parts = wanted.iter().map(|one| {
        one.unwrap_or_else(|| {
            let one_more = usize::from(more > 0);
            more -= one_more;
            rest / sharers + one_more
        })
    });
    let parts: Vec<_> = parts.collect();
    parts.iter().all(|&part| part > 0).then_some(parts)
}

/// The latencies as times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub request_generation: Time,
    pub request_completion: Time,
    pub remote_processing: Time,
}

impl RpcValetSpec {
    /// Checks whether it can be built for `nodes` nodes on a mesh with these rows and columns, for
    /// `cores` cores.
    pub fn check(
        &self,
        nodes: u32,
        (columns, rows): (usize, usize),
        cores: usize,
    ) -> Result<(), SpecError> {
        spec::check(self)?;
        require(
            self.backends <= rows,
            "backends",
            self.backends,
            format!("each has a row of the mesh, so that it must be {rows} or less"),
        )?;
        let contexts = self.domains.len().max(1) + self.network.one_sided_contexts as usize;
        require(
            contexts <= MAX_CONTEXTS,
            "domains",
            format!("a list of {}", self.domains.len()),
            format!(
                "with network.one_sided_contexts these are {contexts} contexts, and \
                 {MAX_CONTEXTS} are the most"
            ),
        )?;
        for (number, domain) in self.plan(nodes, cores)?.iter().enumerate() {
            // Prefix the key of the domain if it sets the value itself, otherwise that of the
            // interface.
            let of = self.domains.get(number);
            let key = |key: &str, is_own: fn(&DomainSpec) -> bool| match of {
                Some(of) if is_own(of) => format!("domains.{number}.{key}"),
                _ => key.to_string(),
            };
            domain.check_slots(&key("slots", |of| of.slots.is_some()))?;
            let dispatch = key("dispatch", |of| of.dispatch.is_some());
            self.check_dispatch(domain, (columns, rows))
                .under(dispatch)?;
        }
        Ok(())
    }

    /// The domains for these numbers of nodes and cores.
    pub fn plan(&self, nodes: u32, cores: usize) -> Result<Vec<DomainPlan>, SpecError> {
        let one = [DomainSpec::default()];
        let domains = match &self.domains[..] {
            [] => &one,
            domains => domains,
        };
        let listed = |wanted: &[Option<usize>]| {
            let shown = wanted
                .iter()
                .map(|one| one.map_or("-".to_string(), |one| one.to_string()));
            shown.collect::<Vec<_>>().join(", ")
        };
        let divided = |key: &str, total: usize, of: &str, wanted: Vec<Option<usize>>| {
            divided(total, &wanted).ok_or_else(|| {
                SpecError::new(
                    format!("domains.*.{key}"),
                    listed(&wanted),
                    format!("each must be 1 or more, and all together {total}, which is {of}"),
                )
            })
        };
        let of_nodes = domains.iter().map(|one| one.nodes.map(|one| one as usize));
        let of_nodes = of_nodes.collect();
        let of_nodes = divided("nodes", nodes as usize, "data_plane.queues", of_nodes)?;
        let of_cores = domains.iter().map(|one| one.cores).collect();
        let of_cores = divided("cores", cores, "server.data_plane_cores", of_cores)?;
        let shares = || domains.iter().map(|one| one.share);
        require(
            shares().sum::<f64>() > 0.0,
            "domains.*.share",
            Vec::from_iter(shares().map(|share| share.to_string())).join(", "),
            "one at least must be above 0",
        )?;
        let (mut first_node, mut first_core) = (0, 0);
        let parts = domains.iter().zip(of_nodes.into_iter().zip(of_cores));
        let plan = parts.map(|(one, (nodes, cores))| {
            let plan = DomainPlan {
                nodes: nodes as u32,
                first_node,
                cores: first_core..first_core + cores,
                slots: one.slots.unwrap_or(self.slots),
                max_message_bytes: one.max_message_bytes.unwrap_or(self.max_message_bytes),
                dispatch: one.dispatch.as_ref().unwrap_or(&self.dispatch).clone(),
                share: one.share,
            };
            first_node += nodes as u32;
            first_core += cores;
            plan
        });
        Ok(plan.collect())
    }

    /// Checks whether a domain's messages can be dispatched as described.
    fn check_dispatch(&self, domain: &DomainPlan, mesh: (usize, usize)) -> Result<(), SpecError> {
        let dispatch = &domain.dispatch;
        let queues = self.cores_of_queues(domain, mesh);
        if let Some(empty) = queues.iter().position(Vec::is_empty) {
            return Err(SpecError::new(
                "mode",
                "\"queue-per-backend\"",
                format!(
                    "backend {empty} has no data plane core in its rows: all must have some of \
                     each domain's (server.data_plane_cores)"
                ),
            ));
        }
        let fewest = queues.iter().map(Vec::len).min().unwrap_or(0);
        require(
            dispatch.policy != PolicySpec::TypeAware || (dispatch.short_cores as usize) < fewest,
            "short_cores",
            dispatch.short_cores,
            format!("a queue has {fewest} cores, and one at least must take long requests"),
        )
    }

    /// The row of a backend, which is at the row's first tile.
    pub(crate) fn row(&self, backend: usize, rows: usize) -> usize {
        backend * rows / self.backends
    }

    /// The backend of a core: the last one at or above its row.
    pub(crate) fn backend_of_core(&self, core: usize, columns: usize, rows: usize) -> usize {
        let row = core / columns;
        let is_above = |&backend: &usize| self.row(backend, rows) <= row;
        (0..self.backends).rfind(is_above).unwrap_or(0)
    }

    /// The cores of each queue of a domain.
    pub(crate) fn cores_of_queues(
        &self,
        domain: &DomainPlan,
        (columns, rows): (usize, usize),
    ) -> Vec<Vec<usize>> {
        let cores = domain.cores.clone();
        match domain.dispatch.mode {
            Mode::OneQueue | Mode::Software => vec![cores.collect()],
            Mode::QueuePerCore => cores.map(|core| vec![core]).collect(),
            Mode::QueuePerBackend => (0..self.backends)
                .map(|backend| {
                    let own = |&core: &usize| self.backend_of_core(core, columns, rows) == backend;
                    cores.clone().filter(own).collect()
                })
                .collect(),
        }
    }

    pub(crate) fn latencies(&self, clock: Clock) -> Latencies {
        Latencies {
            request_generation: clock.time(self.request_generation_cycles),
            request_completion: clock.time(self.request_completion_cycles),
            remote_processing: clock.time(self.remote_processing_cycles),
        }
    }
}

impl DomainPlan {
    /// Checks whether this number of slots, which `key` describes, is possible.
    fn check_slots(&self, key: &str) -> Result<(), SpecError> {
        let (nodes, bytes) = (self.nodes, self.max_message_bytes);
        debug_assert!(bytes < MAX_BYTES && nodes <= MAX_NODES);
        let memory = crate::footprint_bytes(nodes, self.slots, bytes);
        require(
            memory <= 1 << 32,
            key,
            self.slots,
            format!(
                "{nodes} nodes with as many slots of {bytes} bytes take {memory} bytes of memory, \
                 and 4 GiB are the most"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESH: (usize, usize) = (4, 4);

    #[test]
    fn queues_have_the_cores_of_the_paper_s_systems() {
        let queues = |mode, cores| {
            let spec = RpcValetSpec {
                dispatch: DispatchSpec {
                    mode,
                    ..DispatchSpec::default()
                },
                ..RpcValetSpec::default()
            };
            let domain = &spec.plan(200, cores).unwrap()[0];
            spec.cores_of_queues(domain, MESH)
        };
        assert_eq!(queues(Mode::OneQueue, 16), [Vec::from_iter(0..16)]);
        // "The four cores corresponding to its on-chip network row" (Section 5).
        let rows = queues(Mode::QueuePerBackend, 16);
        assert_eq!(
            rows,
            [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
        );
        assert_eq!(queues(Mode::QueuePerCore, 3), [[0], [1], [2]]);
    }

    #[test]
    fn what_cannot_be_built_gets_a_sentence() {
        let spec = RpcValetSpec::default;
        let with = |dispatch| RpcValetSpec { dispatch, ..spec() };
        assert_eq!(spec().check(200, MESH, 16), Ok(()));
        for (spec, part) in [
            (
                RpcValetSpec {
                    backends: 5,
                    ..spec()
                },
                "it must be 4 or less",
            ),
            (
                RpcValetSpec {
                    slots: 4096,
                    max_message_bytes: 65536,
                    ..spec()
                },
                "4 GiB",
            ),
            (
                with(DispatchSpec {
                    policy: PolicySpec::TypeAware,
                    short_cores: 16,
                    ..DispatchSpec::default()
                }),
                "a queue has 16 cores",
            ),
        ] {
            let message = spec.check(200, MESH, 16).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        let rows = with(DispatchSpec {
            mode: Mode::QueuePerBackend,
            ..DispatchSpec::default()
        });
        let message = rows.check(200, MESH, 8).unwrap_err().to_string();
        assert!(
            message.contains("backend 2 has no data plane core"),
            "{message}"
        );
    }

    #[test]
    fn domains_divide_nodes_and_cores() {
        let of = |nodes, cores, share| DomainSpec {
            nodes,
            cores,
            share,
            ..DomainSpec::default()
        };
        let with = |domains| RpcValetSpec {
            domains,
            ..RpcValetSpec::default()
        };
        let parts = |spec: &RpcValetSpec| {
            let plan = spec.plan(200, 16).unwrap();
            let parts = plan.into_iter().map(|one| (one.queues(), one.cores));
            parts.collect::<Vec<_>>()
        };
        let none = with(Vec::new());
        assert_eq!(parts(&none), [(0..200, 0..16)]);
        let one = with(vec![DomainSpec::default()]);
        assert_eq!(one.plan(200, 16), none.plan(200, 16));
        // 150 of 200 nodes are left for two; of 15 cores the first of them gets 8.
        let three = with(vec![
            of(None, None, 1.0),
            of(Some(50), Some(1), 0.0),
            of(None, None, 3.0),
        ]);
        let expected = [(0..75, 0..8), (75..125, 8..9), (125..200, 9..16)];
        assert_eq!(parts(&three), expected);
        for (domains, part) in [
            (
                vec![of(Some(50), None, 1.0); 3],
                "domains.*.nodes is 50, 50, 50",
            ),
            (vec![of(None, Some(16), 1.0), of(None, None, 1.0)], "16, -"),
            (vec![of(None, None, 0.0)], "one at least must be above 0"),
            (vec![DomainSpec::default(); 17], "a list of 17"),
        ] {
            let error = with(domains).check(200, MESH, 16).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_have_defaults() {
        let spec: RpcValetSpec = serde_json::from_str(r#"{"dispatch": {"threshold": 1}}"#).unwrap();
        assert_eq!((spec.dispatch.threshold, spec.slots), (1, 32));
        assert!(serde_json::from_str::<RpcValetSpec>(r#"{"slot": 1}"#).is_err());
    }
}
