//! The dispatcher (Section 4.3): shared completion queues in memory, and the assignment of their
//! messages to cores.

use super::{Backend, LINE, NOTICE_BYTES, QUEUE_AT, at_length, in_short, purpose};
use crate::dispatch::{Load, Policy};
use crate::domain::{CLASSES, QueuePairs, SHARED_ENTRY_BYTES};
use crate::header::{Header, Kind};
use crate::spec::{DispatchSpec, Mode};
use fabric::{AgentContext, AgentMessage, LineData, MemoryAccess, Observation, Time};
use std::collections::VecDeque;
use workload::Random;

/// A shared completion queue of one class of messages.
#[derive(Clone, Debug, Default, state::State)]
struct SharedQueue {
    /// Total messages put in, and total messages taken out.
    tail: u64,
    head: u64,
    /// For each message in it, its arrival time and whether a core was available then: an
    /// instrument.
    since: VecDeque<(Time, bool)>,
}

/// The dispatcher of the messages of one shared queue.
#[derive(Clone, Debug, state::State)]
pub(crate) struct Dispatcher {
    /// Its number on the chip.
    #[state(fixed)]
    pub queue: usize,
    /// The context of the messaging domain that it belongs to.
    #[state(fixed)]
    pub context: u8,
    /// Its cores' numbers.
    #[state(fixed)]
    pub cores: Vec<usize>,
    /// Numbers of messages at each core.
    pub load: Load,
    pub policy: Policy,
    /// The latency of a decision.
    #[state(fixed)]
    latency: Time,
    /// Whether cores take messages from the queue themselves.
    #[state(fixed)]
    is_software: bool,
    /// In that case, the place of each message in the shared queue, by its entry. An instrument.
    places: Vec<u64>,
    classes: [SharedQueue; CLASSES],
    /// The core for which it is reading the entry.
    reading: Option<u64>,
    /// The time at which the next decision can begin.
    free_at: Time,
    /// Decisions in progress, oldest first: header and core.
    decided: VecDeque<(u64, u64)>,
}

impl Dispatcher {
    /// A dispatcher for the messages of this shared queue of a domain, to `cores`.
    pub(crate) fn new(
        (queue, context): (usize, u8),
        cores: Vec<usize>,
        spec: &DispatchSpec,
        latency: Time,
        random: Random,
    ) -> Dispatcher {
        Dispatcher {
            queue,
            context,
            load: Load {
                outstanding: vec![0; cores.len()],
                threshold: spec.threshold,
            },
            cores,
            policy: Policy::new(spec, random),
            is_software: spec.mode == Mode::Software,
            latency,
            places: Vec::new(),
            classes: Default::default(),
            reading: None,
            free_at: Time::ZERO,
            decided: VecDeque::new(),
        }
    }

    /// The index of one of its cores.
    fn place_of(&self, core: u64) -> Option<usize> {
        self.cores.iter().position(|&one| one as u64 == core)
    }

    /// A sentence about the cores that it waits for, if messages wait in its queue, one of `queues`
    /// on the chip.
    pub(super) fn waiting_for(&self, queues: usize) -> Option<String> {
        let waiting: u64 = self.classes.iter().map(|one| one.tail - one.head).sum();
        if waiting == 0 || self.is_software {
            return None;
        }
        let counts = self.cores.iter().zip(&self.load.outstanding);
        let counts: Vec<_> = counts
            .map(|(core, messages)| format!("core {core} has {messages}"))
            .collect();
        Some(format!(
            "{waiting} messages wait in shared queue {} of {queues} for a core with fewer than \
             {}: {}.",
            self.queue,
            self.load.threshold,
            counts.join(", ")
        ))
    }
}

impl Backend {
    fn dispatcher(&mut self, queue: usize) -> Option<usize> {
        self.dispatchers.iter().position(|one| one.queue == queue)
    }

    /// Handles the notice of a message.
    pub(super) fn notified(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let Some(index) = self.dispatcher(usize::from(header.index)) else {
            return;
        };
        if self.dispatchers[index].policy.looks_inside() {
            let contexts = self.contexts.borrow();
            if let Some(domain) = contexts.domain(header.context)
                && let Some(place) = domain.place(header.node, header.slot)
            {
                let address = domain.receive_payload(place);
                let queue = u64::from(header.index) << QUEUE_AT;
                let token = purpose::LOOK_INSIDE | queue | in_short(header);
                context.access(MemoryAccess::DmaRead { address }, token);
            }
        } else {
            self.enqueue(context, index, header, 0);
        }
    }

    /// Handles the first block of a message whose type was needed.
    pub(super) fn looked_inside(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        first_block: &LineData,
    ) {
        if let Some(index) = self.dispatcher((token >> QUEUE_AT) as usize) {
            let class = self.dispatchers[index].policy.class(first_block);
            self.enqueue(context, index, at_length(token), class);
        }
    }

    /// Puts a message into a shared queue.
    fn enqueue(
        &mut self,
        context: &mut AgentContext<'_>,
        index: usize,
        header: Header,
        class: usize,
    ) {
        let contexts = self.contexts.borrow();
        let Some(domain) = contexts.domain(header.context) else {
            return;
        };
        let now = context.now();
        let dispatcher = &mut self.dispatchers[index];
        let load = &dispatcher.load;
        let can_go = dispatcher.classes[class].tail == dispatcher.classes[class].head
            && (0..load.outstanding.len()).any(|core| load.is_available(core));
        let queue = &mut dispatcher.classes[class];
        let entry = Header {
            index: QueuePairs::phase(queue.tail, domain.shared_entries()),
            ..header
        };
        let mut data = LineData::ZERO;
        data.write(0, 8, entry.encode());
        let address = domain.shared_entry(dispatcher.queue, class, queue.tail);
        queue.tail += 1;
        if !dispatcher.is_software {
            queue.since.push_back((now, can_go));
        } else if let Some(place) = domain.place(header.node, header.slot) {
            let entries = domain.shared_entries() as usize;
            let place = domain.first_place + place;
            dispatcher.places.resize(entries, 0);
            dispatcher.places[(queue.tail - 1) as usize % entries] = place;
        }
        let length = queue.tail - queue.head;
        let bytes = 8;
        drop(contexts);
        context.access(
            MemoryAccess::Write {
                address,
                bytes,
                data,
            },
            purpose::ENQUEUE,
        );
        if !self.dispatchers[index].is_software {
            let longest = &mut self.statistics.longest_queue;
            *longest = (*longest).max(length);
            self.dispatch(context, index);
        }
    }

    /// Assigns the head of a queue to a core, if one is available: reads the entry.
    fn dispatch(&mut self, context: &mut AgentContext<'_>, index: usize) {
        let dispatcher = &mut self.dispatchers[index];
        if dispatcher.reading.is_some() || dispatcher.is_software {
            return;
        }
        for class in 0..CLASSES {
            let queue = &dispatcher.classes[class];
            if queue.head == queue.tail {
                continue;
            }
            let Some(core) = dispatcher.policy.choose(class, &dispatcher.load) else {
                continue;
            };
            let contexts = self.contexts.borrow();
            let Some(domain) = contexts.domain(dispatcher.context) else {
                return;
            };
            dispatcher.load.outstanding[core] += 1;
            let most = &mut self.statistics.max_outstanding;
            *most = (*most).max(u64::from(dispatcher.load.outstanding[core]));
            dispatcher.reading = Some(core as u64);
            let address = domain.shared_entry(dispatcher.queue, class, queue.head);
            let token = purpose::DEQUEUE | (index * CLASSES + class) as u64;
            context.access(MemoryAccess::Read { address }, token);
            return;
        }
    }

    /// Handles the entry at the head of a queue.
    pub(super) fn dequeued(&mut self, context: &mut AgentContext<'_>, token: u64, line: &LineData) {
        let (index, class) = ((token as u32) as usize / CLASSES, token as usize % CLASSES);
        let now = context.now();
        let dispatcher = &mut self.dispatchers[index];
        let Some(core) = dispatcher.reading.take() else {
            return;
        };
        let queue = &mut dispatcher.classes[class];
        let contexts = self.contexts.borrow();
        let Some(domain) = contexts.domain(dispatcher.context) else {
            return;
        };
        let address = domain.shared_entry(dispatcher.queue, class, queue.head);
        drop(contexts);
        queue.head += 1;
        let word = line.read((address % LINE) as usize, 8);
        let Some(header) = Header::decode(word).filter(|one| one.kind == Kind::Received) else {
            self.ledger.borrow_mut().set_fault(format!(
                "The entry of the shared completion queue at {address:#x} is {word:#x}, which the \
                 network interface has not written."
            ));
            return;
        };
        let at = now.max(dispatcher.free_at) + dispatcher.latency;
        dispatcher.free_at = at;
        if let Some((since, could_go)) = queue.since.pop_front() {
            let waited = (at - since).as_fs();
            self.statistics.queued_fs += waited;
            if could_go {
                self.statistics.unhindered += 1;
                self.statistics.unhindered_fs += waited;
            }
        }
        self.statistics.dispatched += 1;
        let core = dispatcher.cores[core as usize] as u64;
        let word = header.of_kind(Kind::Dispatch).encode();
        dispatcher.decided.push_back((word, core));
        context.wake(at, purpose::DISPATCH | index as u64);
        self.dispatch(context, index);
    }

    /// Handles the end of a decision's latency.
    pub(super) fn decided(&mut self, context: &mut AgentContext<'_>, index: usize) {
        let decided = self.dispatchers.get_mut(index).map(|one| &mut one.decided);
        if let Some((header, core)) = decided.and_then(VecDeque::pop_front)
            && let Some(&frontend) = self.neighbours.frontends.get(core as usize)
        {
            let data = LineData::ZERO;
            context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
        }
    }

    /// Handles a core's report that a message has been processed.
    pub(super) fn replenish(&mut self, context: &mut AgentContext<'_>, header: Header, core: u64) {
        let mut contexts = self.contexts.borrow_mut();
        let guard = contexts.domain_mut(header.context).and_then(|domain| {
            let place = domain.place(header.node, header.slot)?;
            domain.guard.get_mut(place as usize)
        });
        let Some(guard) = guard.filter(|guard| **guard > 0) else {
            self.statistics.unexpected_replenishes += 1;
            return;
        };
        *guard = 0;
        drop(contexts);
        self.statistics.replenished += 1;
        let found = self
            .dispatchers
            .iter_mut()
            .enumerate()
            .filter(|(_, one)| one.context == header.context)
            .find_map(|(index, one)| {
                let place = one.place_of(core)?;
                Some((index, &mut one.load.outstanding[place]))
            });
        if let Some((index, outstanding)) = found {
            *outstanding = outstanding.saturating_sub(1);
            self.dispatch(context, index);
        }
        let header = Header {
            kind: Kind::Replenish,
            index: 0,
            bytes: 0,
            ..header
        };
        self.inject(context, header, LineData::ZERO);
    }

    /// Handles a core's advance of the head of a shared queue that cores empty themselves.
    pub(super) fn head_moved(&self, observation: &Observation) {
        let is_its = |one: &&Dispatcher| {
            let head = self.queue_pairs.shared_head(usize::from(one.context));
            one.is_software && observation.address == head
        };
        let Some(dispatcher) = self.dispatchers.iter().find(is_its) else {
            return;
        };
        let contexts = self.contexts.borrow();
        let Some(domain) = contexts.domain(dispatcher.context) else {
            return;
        };
        let first = domain.shared_entry(dispatcher.queue, 0, 0);
        // The program wrote it: it may have any value.
        let entry = observation.before.wrapping_sub(first) / SHARED_ENTRY_BYTES;
        if let Some(&place) = dispatcher.places.get(entry as usize) {
            self.ledger
                .borrow_mut()
                .given(place as usize, observation.at);
        }
    }
}
