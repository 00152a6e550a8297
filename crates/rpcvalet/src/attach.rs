//! Puts the network interface and the cluster around it on a server's fabric.

use crate::Statistics;
use crate::backend::{Backend, Dispatcher, Neighbours, Parts};
use crate::dispatch::Policy;
use crate::domain::{Domain, QueuePairs};
use crate::frontend::Frontend;
use crate::spec::{Mode, RpcValetSpec};
use fabric::{AddressRange, Agent, AgentId, Attachment, Fabric, SpecError, Time};
use network::header::DOMAIN_BITS;
use network::{Cluster, ClusterSetup, IoSetup, Link, Random, SharedLedger, Stream};
use std::cell::RefCell;
use std::rc::Rc;

/// The agents of the network interface.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The cluster, or who else is outside.
    pub cluster: AgentId,
    /// A frontend for each core.
    pub frontends: Vec<AgentId>,
    /// The backends.
    pub backends: Vec<AgentId>,
}

/// Attaches everything. `cluster` makes the cluster out of what it has to know; `registers` is where
/// the first backend has its registers.
#[allow(clippy::too_many_arguments)]
pub fn attach(
    fabric: &mut Fabric,
    spec: &RpcValetSpec,
    setup: &IoSetup,
    (columns, rows): (usize, usize),
    registers: AddressRange,
    queue_pairs: QueuePairs,
    seed: u64,
    ledger: &SharedLedger,
    cluster: impl FnOnce(ClusterSetup) -> Cluster,
) -> Result<Attached, SpecError> {
    let place = Place {
        nodes: setup.queues,
        cores: setup.data_plane_cores as usize,
        mesh: (columns, rows),
        registers,
        queue_pairs,
        network_latency: Time::from_ns(spec.network.latency_ns),
        seed,
    };
    attach_behind(fabric, spec, place, ledger, |backends| {
        let cluster = cluster(ClusterSetup {
            io: *setup,
            slots: spec.slots,
            max_message_bytes: spec.max_message_bytes,
            backends,
            network: spec.network.clone(),
        });
        let attachment = Cluster::attachment(setup, columns * rows - 1);
        (Box::new(cluster), attachment)
    })
}

/// Where the network interface is, and what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Nodes that send messages.
    pub nodes: u32,
    /// The first so many cores have queue pairs.
    pub cores: usize,
    /// Columns and rows of the mesh.
    pub mesh: (usize, usize),
    /// Where the first backend has its registers.
    pub registers: AddressRange,
    /// Where the queue pairs are.
    pub queue_pairs: QueuePairs,
    /// From a backend to who is outside.
    pub network_latency: Time,
    /// Of random choices.
    pub seed: u64,
}

/// Attaches the network interface, and who is outside: the agent that `outside` makes of the numbers of the
/// backends.
pub fn attach_behind(
    fabric: &mut Fabric,
    spec: &RpcValetSpec,
    place: Place,
    ledger: &SharedLedger,
    outside: impl FnOnce(Vec<AgentId>) -> (Box<dyn Agent>, Attachment),
) -> Result<Attached, SpecError> {
    let Place {
        nodes,
        cores,
        mesh: (columns, rows),
        registers,
        queue_pairs,
        network_latency,
        seed,
    } = place;
    spec.check(nodes, (columns, rows), cores)?;
    let latencies = spec.latencies(fabric.clock());
    let first = fabric.next_agent().0;
    let frontends = (1..).take(cores).map(|place| AgentId(first + place));
    let behind = first + 1 + cores as u16;
    let neighbours = Neighbours {
        cluster: AgentId(first),
        frontends: frontends.collect(),
        backends: (0..spec.backends as u16)
            .map(|place| AgentId(behind + place))
            .collect(),
        homes: spec
            .cores_of_queues(columns, rows, cores)
            .iter()
            .enumerate()
            .map(|(queue, cores)| match spec.dispatch.mode {
                // In the middle of the column: the ways of the messages to it are short.
                Mode::OneQueue | Mode::Software => spec.backends / 2,
                Mode::QueuePerBackend => queue,
                Mode::QueuePerCore => spec.backend_of_core(cores[0], columns, rows),
            })
            .collect(),
    };
    let queues = spec.cores_of_queues(columns, rows, cores);
    let is_software = spec.dispatch.mode == Mode::Software;
    let mut domain = Domain::new(nodes, spec.slots, spec.max_message_bytes, queues.len());
    domain.is_software = is_software;
    let domain = Rc::new(RefCell::new(domain));

    let (agent, attachment) = outside(neighbours.backends.clone());
    fabric.attach(agent, attachment)?;
    for core in 0..cores {
        let of_row = spec.backend_of_core(core, columns, rows);
        let queue = queues.iter().position(|cores| cores.contains(&core));
        let home = queue.map_or(of_row, |queue| neighbours.homes[queue]);
        let frontend = Frontend::new(
            core,
            queue_pairs,
            latencies,
            neighbours.backends[of_row],
            neighbours.backends[home],
            domain.clone(),
            ledger.clone(),
        );
        fabric.attach(Box::new(frontend), Frontend::attachment(core))?;
    }
    for number in 0..spec.backends {
        let dispatchers = queues.iter().enumerate();
        let dispatchers = dispatchers.filter(|&(queue, _)| neighbours.homes[queue] == number);
        let dispatchers = dispatchers.map(|(queue, cores)| {
            // Each draws its own numbers.
            let random = Random::new(own_seed(seed, queue), Stream::Dispatch);
            let policy = Policy::new(&spec.dispatch, random);
            let mut dispatcher =
                Dispatcher::new(queue, cores.clone(), spec.dispatch.threshold, policy);
            dispatcher.is_software = is_software;
            dispatcher
        });
        let backend = Backend::new(Parts {
            number,
            registers,
            queue_pairs,
            latencies,
            network_latency,
            is_static: spec.dispatch.mode == Mode::QueuePerCore,
            // Each draws its own numbers, behind those of the dispatchers.
            chance: Random::new(own_seed(seed, queues.len() + number), Stream::Dispatch),
            neighbours: neighbours.clone(),
            domain: domain.clone(),
            ledger: ledger.clone(),
            link: Link::new(spec.network.link_gb_per_s),
            dispatchers: dispatchers.collect(),
        });
        let tile = spec.row(number, rows) * columns;
        fabric.attach(
            Box::new(backend),
            Backend::attachment(number, tile, registers),
        )?;
    }
    Ok(Attached {
        cluster: neighbours.cluster,
        frontends: neighbours.frontends,
        backends: neighbours.backends,
    })
}

fn own_seed(seed: u64, number: usize) -> u64 {
    seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Attached {
    /// What all of it has counted up to `now`.
    pub fn statistics(&self, fabric: &mut Fabric, now: Time) -> Statistics {
        let mut statistics = Statistics {
            domain_state_bits: 2 * u64::BITS + DOMAIN_BITS,
            ..Statistics::default()
        };
        if let Some(cluster) = fabric.agent_mut::<Cluster>(self.cluster) {
            statistics.cluster = cluster.statistics(now);
        }
        for &id in &self.backends {
            if let Some(backend) = fabric.agent_mut::<Backend>(id) {
                statistics.backends = statistics.backends.plus(backend.statistics());
                statistics.domain_bytes = backend.domain_bytes();
            }
        }
        for &id in &self.frontends {
            if let Some(frontend) = fabric.agent_mut::<Frontend>(id) {
                statistics.work_queue_entries += frontend.work_queue_entries();
                statistics.completion_queue_entries += frontend.completion_queue_entries();
            }
        }
        statistics
    }
}
