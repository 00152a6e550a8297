//! Memory controllers: their places, requests and answers. Each model of a controller has its own
//! file.
//!
//! A controller receives each read and write when it arrives, and determines when the answers of
//! reads leave: at once, or later, when it is woken at a time that it has requested. It can
//! therefore queue requests, and serve them out of order.

mod dram;
mod fixed;
mod side_cache;

use crate::home::TransactionId;
use crate::{FabricSpec, LineAddress, Time};
use dram::Dram;
pub use dram::{
    DramCommandTimes, DramDevice, DramSpec, DramStatistics, DramTimingSpec, PagePolicy,
};
use fixed::Fixed;
use side_cache::{Behind, SideCache};
pub use side_cache::{MemoryCacheSpec, MemoryCacheStatistics};
use state::{State, Walker};

/// The unit that waits for the answer of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Ticket {
    pub(crate) bank: u32,
    pub(crate) transaction: TransactionId,
}

impl Ticket {
    /// For lines that a cache in front of memory fetches for itself.
    const NOBODY: Ticket = Ticket {
        bank: u32::MAX,
        transaction: TransactionId::MAX,
    };

    /// For the read ahead of this number.
    pub(crate) fn ahead(number: u32) -> Ticket {
        Ticket {
            bank: u32::MAX - 1,
            transaction: number,
        }
    }

    /// The number of the read ahead that it is for, if it is for one.
    pub(crate) fn number_ahead(&self) -> Option<u32> {
        (self.bank == u32::MAX - 1).then_some(self.transaction)
    }
}

/// A line that is to be read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryRequest {
    pub(crate) line: LineAddress,
    /// For a read, its ticket. Nothing waits for a write.
    pub(crate) read: Option<Ticket>,
}

/// The decisions of a controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decisions {
    /// The departure times of answers, not before now.
    pub(crate) answers: Vec<(Time, LineAddress, Ticket)>,
    /// The time at which the controller is to be woken.
    pub(crate) wake: Option<Time>,
    /// The queueing time of the served requests.
    queueing: Time,
}

/// A memory controller with its channel. Every read is answered once, at a time that depends only
/// on the requests and their times.
trait Controller {
    /// Handles a request that arrives at `now`, in order of time.
    fn ask(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions);

    /// Handles a requested wake-up at `now`.
    fn wake(&mut self, now: Time, decisions: &mut Decisions);
}

#[derive(Clone, Debug)]
enum Model {
    Fixed(Fixed),
    Dram(Box<Dram>),
}

impl State for Model {
    fn walk(&mut self, walker: &mut dyn Walker) {
        match self {
            Model::Fixed(one) => one.walk(walker),
            Model::Dram(one) => one.walk(walker),
        }
    }
}

impl Controller for Model {
    fn ask(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions) {
        match self {
            Model::Fixed(one) => one.ask(now, request, decisions),
            Model::Dram(one) => one.ask(now, request, decisions),
        }
    }

    fn wake(&mut self, now: Time, decisions: &mut Decisions) {
        match self {
            Model::Fixed(one) => one.wake(now, decisions),
            Model::Dram(one) => one.wake(now, decisions),
        }
    }
}

/// All memory controllers of a server.
#[derive(Clone, Debug, state::State)]
pub(crate) struct Memory {
    /// The tile of each controller; the second socket's follow the first's.
    #[state(fixed)]
    tiles: Vec<usize>,
    /// Number of controllers of a socket.
    #[state(fixed)]
    of_socket: usize,
    #[state(slice)]
    controllers: Vec<Model>,
    /// The caches in front of the controllers, if any.
    #[state(slice)]
    caches: Vec<SideCache>,
    /// A buffer, empty between events.
    #[state(fixed)]
    pub(crate) decisions: Decisions,
    #[state(count)]
    pub(crate) reads: u64,
    #[state(count)]
    pub(crate) writes: u64,
    #[state(count)]
    pub(crate) queueing: Time,
}

impl Memory {
    pub(crate) fn new(fabric: &FabricSpec) -> Memory {
        let (spec, mesh) = (&fabric.memory, &fabric.mesh);
        let edge = crate::mesh::edge_tiles(mesh.columns, mesh.rows);
        let place = |controller| edge[controller * edge.len() / spec.controllers];
        let tiles: Vec<usize> = (0..fabric.sockets)
            .flat_map(|socket| {
                let first = socket * mesh.columns * mesh.rows;
                (0..spec.controllers).map(move |controller| first + place(controller))
            })
            .collect();
        let controller = match &spec.dram {
            None => Model::Fixed(Fixed::new(spec)),
            Some(dram) => Model::Dram(Box::new(Dram::new(dram, spec.controllers))),
        };
        let cache = spec.cache.as_ref();
        let cache = cache.map(|cache| SideCache::new(cache, spec.controllers, fabric.clock()));
        Memory {
            controllers: vec![controller; tiles.len()],
            caches: cache.map_or_else(Vec::new, |cache| vec![cache; tiles.len()]),
            tiles,
            of_socket: spec.controllers,
            decisions: Decisions::default(),
            reads: 0,
            writes: 0,
            queueing: Time::ZERO,
        }
    }

    /// The counts of the DRAM channels, if they are modelled.
    pub(crate) fn dram(&self) -> Option<DramStatistics> {
        let mut sum = None;
        for controller in &self.controllers {
            if let Model::Dram(one) = controller {
                *sum.get_or_insert_default() += one.statistics();
            }
        }
        sum
    }

    /// The counts of the caches in front of the controllers, if there are any.
    pub(crate) fn cache(&self) -> Option<MemoryCacheStatistics> {
        let mut sum = None;
        for cache in &self.caches {
            *sum.get_or_insert_default() += cache.statistics;
        }
        sum
    }

    /// The controller of a line of `socket`.
    #[inline]
    pub(crate) fn controller(&self, line: LineAddress, socket: usize) -> usize {
        socket * self.of_socket + (line.0 % self.of_socket as u64) as usize
    }

    #[inline]
    pub(crate) fn tile(&self, controller: usize) -> usize {
        self.tiles[controller]
    }

    /// Number of controllers.
    pub(crate) fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// Handles a request; the controller's decisions are in [`Memory::decisions`].
    pub(crate) fn ask(&mut self, controller: usize, now: Time, request: MemoryRequest) {
        let decisions = &mut self.decisions;
        let mut behind = Behind {
            controller: &mut self.controllers[controller],
            reads: &mut self.reads,
            writes: &mut self.writes,
        };
        match self.caches.get_mut(controller) {
            None => behind.ask(now, request, decisions),
            Some(cache) => cache.ask(now, request, &mut behind, decisions),
        }
        self.queueing += std::mem::take(&mut self.decisions.queueing);
    }

    /// Handles a wake-up that the controller has requested at this time.
    pub(crate) fn wake(&mut self, controller: usize, now: Time) {
        let decisions = &mut self.decisions;
        self.controllers[controller].wake(now, decisions);
        if let Some(cache) = self.caches.get_mut(controller) {
            cache.decided(decisions);
        }
        self.queueing += std::mem::take(&mut self.decisions.queueing);
    }
}
