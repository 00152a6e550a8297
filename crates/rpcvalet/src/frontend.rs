//! The frontend beside a core: it polls the core's work queue and fills its completion queue.

use crate::context::SharedContexts;
use crate::domain::QueuePairs;
use crate::header::{Header, Kind, WORK_HEADER_AT};
use crate::spec::Latencies;
use fabric::{
    Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheSpec, LineAddress, LineData,
    MemoryAccess,
};
use queues::SharedLedger;
use std::collections::VecDeque;

/// Bytes of a request to a backend: its header, and the address of the data.
pub(crate) const REQUEST_BYTES: u64 = 32;

/// The purpose of an access or a timer.
mod purpose {
    pub const POLL: u64 = 1;
    pub const HEAD: u64 = 2;
    pub const COMPLETE: u64 = 3;
    pub const GENERATE: u64 = 4;
}

/// A frontend.
#[derive(state::State)]
pub struct Frontend {
    #[state(fixed)]
    core: usize,
    #[state(fixed)]
    queue_pairs: QueuePairs,
    #[state(fixed)]
    latencies: Latencies,
    /// The backend of the core's row, and the one that dispatches to the core.
    #[state(fixed)]
    backend: AgentId,
    #[state(fixed)]
    dispatcher: AgentId,
    is_open: bool,
    /// Number of work-queue entries that have been read.
    head: u64,
    is_reading: bool,
    /// Whether the core has taken the line meanwhile.
    read_again: bool,
    /// Number of completion-queue entries that have been written.
    completed: u64,
    /// Requests in the pipeline, oldest first.
    generating: VecDeque<(u64, LineData)>,
    /// Completions in the pipeline, oldest first.
    completing: VecDeque<(u64, u64)>,
    #[state(fixed)]
    contexts: SharedContexts,
    #[state(fixed)]
    ledger: SharedLedger,
}

impl Frontend {
    pub(crate) fn new(
        core: usize,
        queue_pairs: QueuePairs,
        latencies: Latencies,
        backend: AgentId,
        dispatcher: AgentId,
        contexts: SharedContexts,
        ledger: SharedLedger,
    ) -> Frontend {
        Frontend {
            core,
            queue_pairs,
            latencies,
            backend,
            dispatcher,
            is_open: false,
            head: 0,
            is_reading: false,
            read_again: false,
            completed: 0,
            generating: VecDeque::new(),
            completing: VecDeque::new(),
            contexts,
            ledger,
        }
    }

    /// Its attachment to the fabric: beside its core, with a cache for the lines of its queues in
    /// use.
    pub(crate) fn attachment(core: usize) -> Attachment {
        Attachment {
            tile: core,
            cache: Some(CacheSpec {
                size_bytes: 2048,
                ways: 32,
                hit_latency_cycles: 2,
                mshrs: 8,
                ..CacheSpec::default()
            }),
            ..Attachment::default()
        }
    }

    /// Number of entries read from the work queue.
    pub fn work_queue_entries(&self) -> u64 {
        self.head
    }

    /// Number of entries written to the completion queue.
    pub fn completion_queue_entries(&self) -> u64 {
        self.completed
    }

    fn next_entry(&self) -> u64 {
        self.queue_pairs.work_entry(self.core, self.head)
    }

    /// Reads the next entry.
    fn poll(&mut self, context: &mut AgentContext<'_>) {
        self.is_reading = true;
        self.read_again = false;
        let address = self.next_entry();
        context.access(MemoryAccess::Read { address }, purpose::POLL);
    }

    /// Handles the line of the next entry.
    fn polled(&mut self, context: &mut AgentContext<'_>, line: LineData) {
        self.is_reading = false;
        let word = line.read(WORK_HEADER_AT as usize, 8);
        let phase = QueuePairs::phase(self.head, QueuePairs::WORK_ENTRIES);
        let is_new = Header::decode(word).is_some_and(|header| header.index & 1 == phase);
        if !is_new {
            if self.read_again {
                self.poll(context);
            }
            return;
        }
        self.head += 1;
        self.generating.push_back((word, line));
        let at = context.now() + self.latencies.request_generation;
        context.wake(at, purpose::GENERATE);
        if self.head.is_multiple_of(QueuePairs::HEAD_EVERY) {
            let mut data = LineData::ZERO;
            data.write(0, 8, self.head);
            let write = MemoryAccess::Write {
                address: self.queue_pairs.head(self.core),
                bytes: 8,
                data,
            };
            context.access(write, purpose::HEAD);
        }
        self.poll(context);
    }

    /// Handles a request that leaves the pipeline.
    fn generate(&mut self, context: &mut AgentContext<'_>) {
        let Some((word, line)) = self.generating.pop_front() else {
            return;
        };
        let Some(header) = Header::decode(word) else {
            return;
        };
        let to = match header.kind {
            Kind::PostReplenish => self.dispatcher,
            _ => self.backend,
        };
        let mut data = LineData::ZERO;
        data.write(0, 8, line.read(0, 8));
        data.write(8, 8, line.read(8, 8));
        data.write(16, 8, self.core as u64);
        let header = word;
        context.send(to, REQUEST_BYTES, AgentMessage { header, data });
    }

    /// Handles a completion that leaves the pipeline.
    fn complete(&mut self, context: &mut AgentContext<'_>) {
        let Some((word, value)) = self.completing.pop_front() else {
            return;
        };
        let Some(header) = Header::decode(word) else {
            return;
        };
        let index = QueuePairs::phase(self.completed, QueuePairs::COMPLETION_ENTRIES);
        let mut data = LineData::ZERO;
        data.write(0, 8, Header { index, ..header }.encode());
        data.write(8, 8, value);
        let address = self.queue_pairs.completion_entry(self.core, self.completed);
        self.completed += 1;
        let bytes = 16;
        context.access(
            MemoryAccess::Write {
                address,
                bytes,
                data,
            },
            purpose::COMPLETE,
        );
    }
}

impl Agent for Frontend {
    fn name(&self) -> String {
        format!("frontend {}", self.core)
    }

    fn message(&mut self, context: &mut AgentContext<'_>, _from: AgentId, message: AgentMessage) {
        let Some(header) = Header::decode(message.header) else {
            return;
        };
        if header.kind == Kind::Open {
            if !self.is_open {
                self.is_open = true;
                self.poll(context);
            }
            return;
        }
        self.completing
            .push_back((message.header, message.data.read(0, 8)));
        let at = context.now() + self.latencies.request_completion;
        context.wake(at, purpose::COMPLETE);
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        if token == purpose::POLL {
            self.polled(context, data);
        } else if token == purpose::COMPLETE
            && let Some(header) = Header::decode(data.read(0, 8))
            && header.kind == Kind::Dispatch
            && let Some(place) = self.contexts.borrow().place(header)
        {
            let now = context.now();
            self.ledger.borrow_mut().given(place as usize, now);
        }
    }

    /// The core posts: until then, polling hits in the frontend's own cache.
    fn line_lost(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        if !self.is_open || line != LineAddress::of(self.next_entry()) {
            return;
        }
        if self.is_reading {
            self.read_again = true;
        } else {
            self.poll(context);
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token == purpose::GENERATE {
            self.generate(context);
        } else {
            self.complete(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ContextTable;
    use crate::spec::RpcValetSpec;
    use fabric::{AddressRange, Fabric, FabricSpec, Inbox, Ram, Time};
    use queues::Ledger;
    use std::cell::RefCell;
    use std::rc::Rc;
    use workload::{Recorder, Warmup};

    const PAIRS: u64 = 0x8000_0000;

    /// A backend that sends the frontend one completion, and then reads the entry.
    struct Backend {
        frontend: AgentId,
        completion: Option<AgentMessage>,
        entry: u64,
        found: Option<LineData>,
    }

    state::unsaved!(Backend);

    impl Agent for Backend {
        fn name(&self) -> String {
            "backend".to_string()
        }

        fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
            match self.completion.take() {
                Some(completion) => context.send(self.frontend, REQUEST_BYTES, completion),
                None => {
                    let address = self.entry;
                    context.access(MemoryAccess::Read { address }, 0);
                }
            }
        }

        fn access_done(
            &mut self,
            _context: &mut AgentContext<'_>,
            _token: u64,
            _access: MemoryAccess,
            data: LineData,
        ) {
            self.found = Some(data);
        }
    }

    /// An entry is the header, whose index is the phase of the first lap, and a value of 8 bytes.
    /// The rest of the line keeps what it has had.
    #[test]
    fn a_completion_writes_sixteen_bytes() {
        let pairs = QueuePairs::new(PAIRS, 16);
        let range = AddressRange {
            start: PAIRS,
            length: pairs.bytes(),
        };
        let fabric = FabricSpec::default();
        let mut inboxes: Vec<Inbox> = (0..fabric.cores).map(|_| Inbox::default()).collect();
        let mut fabric = Fabric::new(&fabric, Ram::new(vec![range]).unwrap()).unwrap();
        let entry = pairs.completion_entry(2, 0);
        fabric.ram_mut().load(entry, &[0xee; 64]).unwrap();

        let (frontend, backend) = (fabric.next_agent(), AgentId(fabric.next_agent().0 + 1));
        let agent = Frontend::new(
            2,
            pairs,
            RpcValetSpec::default().latencies(fabric.clock()),
            backend,
            backend,
            Rc::new(RefCell::new(ContextTable::new(Vec::new(), 1))),
            Ledger::shared(Recorder::new(1, Warmup::Requests(0))),
        );
        fabric
            .attach(Box::new(agent), Frontend::attachment(2))
            .unwrap();
        let header = Header {
            kind: Kind::Completed,
            node: 7,
            slot: 5,
            index: 0,
            context: 3,
            bytes: 0,
        };
        let mut data = LineData::ZERO;
        data.write(0, 8, 0x0123_4567_89ab_cdef);
        let agent = Backend {
            frontend,
            completion: Some(AgentMessage {
                header: header.encode(),
                data,
            }),
            entry,
            found: None,
        };
        let attachment = Attachment {
            tile: 9,
            cache: Some(CacheSpec::default()),
            ..Attachment::default()
        };
        assert_eq!(fabric.attach(Box::new(agent), attachment).unwrap(), backend);
        fabric.wake_agent(backend, Time::ZERO, 0);
        fabric.wake_agent(backend, Time::from_ns(5000.0), 0);
        fabric.run_until(Time::from_ns(10_000.0), &mut inboxes);

        assert_eq!(fabric.errors(), [""; 0]);
        let backend: &mut Backend = fabric.agent_mut(backend).unwrap();
        let found = backend.found.expect("the entry has been read");
        assert_eq!(
            Header::decode(found.read(0, 8)),
            Some(Header { index: 1, ..header })
        );
        assert_eq!(found.read(8, 8), 0x0123_4567_89ab_cdef);
        assert_eq!(found.0[16..], [0xee; 48]);
        let frontend: &mut Frontend = fabric.agent_mut(frontend).unwrap();
        assert_eq!(frontend.completion_queue_entries(), 1);
    }
}
