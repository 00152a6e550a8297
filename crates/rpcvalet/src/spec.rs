//! The description of the network interface.

use fabric::{Clock, SpecError, Time};
use network::NetworkSpec;
use network::header::{MOST_BYTES, MOST_NODES, MOST_SLOTS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The network interface of Scale-Out NUMA with RPCValet's messages, for data planes with
/// `notify = "rpcvalet"`. The defaults are RPCValet's where it gives a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RpcValetSpec {
    /// Backends, one each in so many rows of the mesh's first column (4 in Figure 4).
    #[schemars(range(min = 1, max = 16))]
    pub backends: usize,
    /// Send slots, and receive slots, for each node: S. "A few tens" (Section 4.2).
    #[schemars(range(min = 1, max = 4096))]
    pub slots: u32,
    /// Bytes of the largest message, a multiple of 64: `max_msg_size`. What is larger goes by
    /// rendezvous. 90 % of the packets in Facebook's data centres are smaller than 1 KB (Section 4.2).
    #[schemars(range(min = 64, max = 65536))]
    pub max_message_bytes: u32,
    /// Which core gets which message.
    pub dispatch: DispatchSpec,
    /// Cycles from an entry of a work queue, once its line is read, to the request on its way. The
    /// papers give none for any pipeline: a cycle for each of the steps that they name.
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
}

impl Default for RpcValetSpec {
    fn default() -> RpcValetSpec {
        RpcValetSpec {
            backends: 4,
            slots: 32,
            max_message_bytes: 1152,
            dispatch: DispatchSpec::default(),
            request_generation_cycles: 4,
            request_completion_cycles: 3,
            remote_processing_cycles: 4,
            network: NetworkSpec::default(),
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
    /// Each core has a queue, and a message is given to one when it arrives, as receive-side scaling
    /// does: 16x1.
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
    /// Where messages wait.
    pub mode: Mode,
    /// Who gets them.
    pub policy: PolicySpec,
    /// Messages that a core may have, with the one that it processes (2 in Section 4.4).
    #[schemars(range(min = 1, max = 16))]
    pub threshold: u32,
    /// Cycles of a decision, one after the other.
    #[schemars(range(max = 1000))]
    pub latency_cycles: u64,
    /// For `type-aware`: where in a message's first 64 bytes its type is, a number of four bytes, most
    /// significant first. 48 is where the program `synthetic` finds its nanoseconds.
    #[schemars(range(max = 60))]
    pub type_offset: u32,
    /// For `type-aware`: from this number on a type is a long one.
    pub long_from: u32,
    /// For `type-aware`: cores of each queue that long requests do not get.
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

/// The latencies as times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub request_generation: Time,
    pub request_completion: Time,
    pub remote_processing: Time,
    pub dispatch: Time,
}

impl RpcValetSpec {
    /// Whether it can be built for `nodes` nodes on a mesh of so many rows and columns, for so many
    /// cores.
    pub fn check(
        &self,
        nodes: u32,
        (columns, rows): (usize, usize),
        cores: usize,
    ) -> Result<(), SpecError> {
        let wrong = |key: &str, found: &dyn ToString, accepted: String| {
            Err(SpecError::new(
                format!("rpcvalet.{key}"),
                found.to_string(),
                accepted,
            ))
        };
        let dispatch = &self.dispatch;
        if !(1..=rows.min(16)).contains(&self.backends) {
            return wrong(
                "backends",
                &self.backends,
                format!(
                    "each has a row of the mesh, so that it must be from 1 to {}",
                    rows.min(16)
                ),
            );
        }
        if !(1..=MOST_SLOTS).contains(&self.slots) {
            return wrong(
                "slots",
                &self.slots,
                format!("it must be from 1 to {MOST_SLOTS}"),
            );
        }
        if !(64..=65536).contains(&self.max_message_bytes)
            || !self.max_message_bytes.is_multiple_of(64)
        {
            return wrong(
                "max_message_bytes",
                &self.max_message_bytes,
                "it must be a multiple of 64 from 64 to 65536".to_string(),
            );
        }
        debug_assert!(self.max_message_bytes < MOST_BYTES && nodes <= MOST_NODES);
        let memory = crate::footprint_bytes(nodes, self.slots, self.max_message_bytes);
        if memory > 1 << 32 {
            return wrong(
                "slots",
                &self.slots,
                format!(
                    "{nodes} nodes with as many slots of {} bytes take {memory} bytes of memory, \
                         and 4 GiB are the most",
                    self.max_message_bytes
                ),
            );
        }
        if !(1..=16).contains(&dispatch.threshold) {
            return wrong(
                "dispatch.threshold",
                &dispatch.threshold,
                "it must be from 1 to 16".to_string(),
            );
        }
        if dispatch.type_offset > 60 {
            return wrong(
                "dispatch.type_offset",
                &dispatch.type_offset,
                "it must be 60 or less, for the type is in a message's first 64 bytes".to_string(),
            );
        }
        for (key, cycles) in [
            ("request_generation_cycles", self.request_generation_cycles),
            ("request_completion_cycles", self.request_completion_cycles),
            ("remote_processing_cycles", self.remote_processing_cycles),
            ("dispatch.latency_cycles", dispatch.latency_cycles),
        ] {
            if cycles > 1000 {
                return wrong(key, &cycles, "it must be 1000 or less".to_string());
            }
        }
        if let Some((name, value, accepted)) = self.network.check() {
            return wrong(&format!("network.{name}"), &value, accepted.to_string());
        }
        let queues = self.cores_of_queues(columns, rows, cores);
        if let Some(empty) = queues.iter().position(Vec::is_empty) {
            return wrong(
                "dispatch.mode",
                &"queue-per-backend",
                format!(
                    "backend {empty} has no data plane core in its rows: all must have some \
                         (server.data_plane_cores)"
                ),
            );
        }
        if dispatch.policy == PolicySpec::TypeAware
            && let Some(fewest) = queues.iter().map(Vec::len).min()
            && dispatch.short_cores as usize >= fewest
        {
            return wrong(
                "dispatch.short_cores",
                &dispatch.short_cores,
                format!("a queue has {fewest} cores, and one at least must take long requests"),
            );
        }
        Ok(())
    }

    /// The row of a backend, at whose first tile it is.
    pub(crate) fn row(&self, backend: usize, rows: usize) -> usize {
        backend * rows / self.backends
    }

    /// The backend of a core: the last one that is not below its row.
    pub(crate) fn backend_of_core(&self, core: usize, columns: usize, rows: usize) -> usize {
        let row = core / columns;
        let is_above = |&backend: &usize| self.row(backend, rows) <= row;
        (0..self.backends).rfind(is_above).unwrap_or(0)
    }

    /// The cores of each queue.
    pub(crate) fn cores_of_queues(
        &self,
        columns: usize,
        rows: usize,
        cores: usize,
    ) -> Vec<Vec<usize>> {
        match self.dispatch.mode {
            Mode::OneQueue | Mode::Software => vec![(0..cores).collect()],
            Mode::QueuePerCore => (0..cores).map(|core| vec![core]).collect(),
            Mode::QueuePerBackend => (0..self.backends)
                .map(|backend| {
                    let own = |&core: &usize| self.backend_of_core(core, columns, rows) == backend;
                    (0..cores).filter(own).collect()
                })
                .collect(),
        }
    }

    pub(crate) fn latencies(&self, clock: Clock) -> Latencies {
        Latencies {
            request_generation: clock.time(self.request_generation_cycles),
            request_completion: clock.time(self.request_completion_cycles),
            remote_processing: clock.time(self.remote_processing_cycles),
            dispatch: clock.time(self.dispatch.latency_cycles),
        }
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
            spec.cores_of_queues(MESH.0, MESH.1, cores)
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
                "from 1 to 4",
            ),
            (RpcValetSpec { slots: 0, ..spec() }, "rpcvalet.slots = 0"),
            (
                RpcValetSpec {
                    max_message_bytes: 100,
                    ..spec()
                },
                "a multiple of 64",
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
                    threshold: 0,
                    ..DispatchSpec::default()
                }),
                "from 1 to 16",
            ),
            (
                with(DispatchSpec {
                    type_offset: 61,
                    ..DispatchSpec::default()
                }),
                "60 or less",
            ),
            (
                with(DispatchSpec {
                    policy: PolicySpec::TypeAware,
                    short_cores: 16,
                    ..DispatchSpec::default()
                }),
                "a queue has 16 cores",
            ),
            (
                RpcValetSpec {
                    network: NetworkSpec {
                        latency_ns: f64::NAN,
                        ..NetworkSpec::default()
                    },
                    ..spec()
                },
                "rpcvalet.network.latency_ns",
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
    fn unknown_keys_are_refused_and_missing_ones_have_defaults() {
        let spec: RpcValetSpec = serde_json::from_str(r#"{"dispatch": {"threshold": 1}}"#).unwrap();
        assert_eq!((spec.dispatch.threshold, spec.slots), (1, 32));
        assert!(serde_json::from_str::<RpcValetSpec>(r#"{"slot": 1}"#).is_err());
    }
}
