//! Attachment of the network interface and the cluster around it to a server's fabric.

use crate::backend::{Backend, Dispatcher, Neighbours};
use crate::cluster::{Cluster, ClusterDomain, ClusterSetup};
use crate::context::{ContextTable, SharedContexts};
use crate::domain::{Domain, QueuePairs};
use crate::frontend::Frontend;
use crate::link::Link;
use crate::spec::{DomainPlan, Mode, RpcValetSpec};
use crate::{BackendStatistics, DomainStatistics, Statistics};
use fabric::{AddressRange, Agent, AgentId, Attachment, Fabric, Time};
use queues::{IoSetup, Ledger, SharedLedger};
use spec::SpecError;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use workload::{Random, Stream};

/// The agents of the network interface.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The agent outside the chip: the cluster or the gateway.
    pub cluster: AgentId,
    /// A frontend for each core.
    pub frontends: Vec<AgentId>,
    /// The backends.
    pub backends: Vec<AgentId>,
    contexts: SharedContexts,
}

/// Attaches everything. `cluster` makes the cluster from its setup; `registers` are the addresses
/// of the first backend's registers.
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
    let domains = spec.plan(place.nodes, place.cores)?;
    let domains = domains.iter().map(|domain| ClusterDomain {
        nodes: domain.nodes,
        slots: domain.slots,
        max_message_bytes: domain.max_message_bytes,
        share: domain.share,
    });
    attach_behind(fabric, spec, place, ledger, |backends, contexts| {
        let cluster = cluster(ClusterSetup {
            io: *setup,
            domains: domains.collect(),
            backends,
            contexts: contexts.clone(),
            network: spec.network.clone(),
        });
        let attachment = Cluster::attachment(setup, columns * rows - 1);
        (Box::new(cluster), attachment)
    })
}

/// The location and the parameters of the network interface.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Nodes that send messages.
    pub nodes: u32,
    /// Number of cores, from the first on, that have queue pairs.
    pub cores: usize,
    /// Columns and rows of the mesh.
    pub mesh: (usize, usize),
    /// The addresses of the first backend's registers.
    pub registers: AddressRange,
    /// The addresses of the queue pairs.
    pub queue_pairs: QueuePairs,
    /// Latency between a backend and the agent outside.
    pub network_latency: Time,
    /// The seed of random choices.
    pub seed: u64,
}

/// Attaches the network interface, and the agent outside, which `outside` makes from the numbers of
/// the backends and the context table.
pub fn attach_behind(
    fabric: &mut Fabric,
    spec: &RpcValetSpec,
    place: Place,
    ledger: &SharedLedger,
    outside: impl FnOnce(Vec<AgentId>, &SharedContexts) -> (Box<dyn Agent>, Attachment),
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
    let domains = spec.plan(nodes, cores)?;
    let queues = queues(spec, &domains, (columns, rows));
    let neighbours = Neighbours {
        cluster: AgentId(first),
        frontends: frontends.collect(),
        backends: (0..spec.backends as u16)
            .map(|place| AgentId(behind + place))
            .collect(),
        homes: queues.iter().map(|queue| queue.home).collect(),
    };
    let contexts = context_table(spec, &domains, place);

    let (agent, attachment) = outside(neighbours.backends.clone(), &contexts);
    fabric.attach(agent, attachment)?;
    for core in 0..cores {
        let of_row = spec.backend_of_core(core, columns, rows);
        let queue = queues.iter().find(|queue| queue.cores.contains(&core));
        let home = queue.map_or(of_row, |queue| queue.home);
        let frontend = Frontend::new(
            core,
            queue_pairs,
            latencies,
            neighbours.backends[of_row],
            neighbours.backends[home],
            contexts.clone(),
            ledger.clone(),
        );
        fabric.attach(Box::new(frontend), Frontend::attachment(core))?;
    }
    for number in 0..spec.backends {
        let own = queues.iter().enumerate();
        let own = own.filter(|(_, queue)| queue.home == number);
        let dispatchers = own.map(|(place, queue)| {
            // Each draws its own numbers.
            let random = Random::new(own_seed(seed, place), Stream::Dispatch);
            let dispatch = &queue.domain.dispatch;
            let latency = fabric.clock().time(dispatch.latency_cycles);
            let cores = queue.cores.clone();
            Dispatcher::new((place, queue.context), cores, dispatch, latency, random)
        });
        let dispatchers = dispatchers.collect();
        let backend = Backend {
            number,
            registers,
            queue_pairs,
            latencies,
            network_latency,
            // Each draws its own numbers, after those of the dispatchers.
            chance: Random::new(own_seed(seed, queues.len() + number), Stream::Dispatch),
            neighbours: neighbours.clone(),
            contexts: contexts.clone(),
            ledger: ledger.clone(),
            link: Link::new(spec.network.link_gb_per_s),
            processing: VecDeque::new(),
            dispatchers,
            transfers: Vec::new(),
            statistics: BackendStatistics::default(),
        };
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
        contexts,
    })
}

/// A shared completion queue.
struct Queue<'a> {
    domain: &'a DomainPlan,
    context: u8,
    /// The cores that it serves.
    cores: Vec<usize>,
    /// The backend that dispatches its messages.
    home: usize,
}

/// The queues of all domains.
fn queues<'a>(
    spec: &RpcValetSpec,
    domains: &'a [DomainPlan],
    (columns, rows): (usize, usize),
) -> Vec<Queue<'a>> {
    let of_domains = domains.iter().enumerate().map(|(context, domain)| {
        let queues = spec.cores_of_queues(domain, (columns, rows));
        let queues = queues.into_iter().enumerate();
        queues.map(move |(number, cores)| Queue {
            domain,
            context: context as u8,
            home: match domain.dispatch.mode {
                // In the middle of the column, where the paths of messages to it are short. Queues
                // of further domains are in the backends after it.
                Mode::OneQueue | Mode::Software => (spec.backends / 2 + context) % spec.backends,
                Mode::QueuePerBackend => number,
                Mode::QueuePerCore => spec.backend_of_core(cores[0], columns, rows),
            },
            cores,
        })
    });
    of_domains.flatten().collect()
}

/// The context table, without open contexts.
fn context_table(spec: &RpcValetSpec, plan: &[DomainPlan], place: Place) -> SharedContexts {
    let (mut domains, mut first_queue, mut first_place) = (Vec::new(), 0, 0);
    for plan in plan {
        let queues = first_queue..first_queue + spec.cores_of_queues(plan, place.mesh).len();
        first_queue = queues.end;
        domains.push(Domain::new(plan, queues, first_place));
        first_place += u64::from(plan.nodes) * u64::from(plan.slots);
    }
    let table = ContextTable::new(domains, place.nodes);
    Rc::new(RefCell::new(table))
}

fn own_seed(seed: u64, number: usize) -> u64 {
    seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Attached {
    /// Counts of all backends together.
    pub fn backends(&self, fabric: &mut Fabric) -> BackendStatistics {
        let mut sum = BackendStatistics::default();
        for &id in &self.backends {
            if let Some(backend) = fabric.agent_mut::<Backend>(id) {
                sum = sum.plus(backend.statistics());
            }
        }
        sum
    }

    /// All counts up to `now`. The ledger has the requests of each domain.
    pub fn statistics(&self, fabric: &mut Fabric, now: Time, ledger: &Ledger) -> Statistics {
        let mut statistics = Statistics {
            backends: self.backends(fabric),
            domain_state_bits: Domain::STATE_BITS,
            ..Statistics::default()
        };
        if let Some(cluster) = fabric.agent_mut::<Cluster>(self.cluster) {
            statistics.cluster = cluster.statistics(now);
        }
        for &id in &self.frontends {
            if let Some(frontend) = fabric.agent_mut::<Frontend>(id) {
                statistics.work_queue_entries += frontend.work_queue_entries();
                statistics.completion_queue_entries += frontend.completion_queue_entries();
            }
        }
        let contexts = self.contexts.borrow();
        for (context, domain) in contexts.domains() {
            statistics.domain_bytes += domain.bytes();
            let of = DomainStatistics::of(context, domain, ledger);
            statistics.domains.push(of);
        }
        statistics
    }
}
