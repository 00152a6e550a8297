//! Algorithm 1 of the paper, on a real fabric, under random timings: no wake-up is ever lost.

use crate::machine::{DOORBELLS, Do, MEMORY, Machine, Script, clock};
use crate::random::Random;
use fabric::*;
use hyperplane::{HyperPlaneSpec, NO_QID, Operation, ReadySets, Statistics, Stealing};

/// Increments doorbells at random times, and disturbs their lines.
struct Producer {
    random: Random,
    doorbells: Vec<u64>,
    items: u64,
    longest_gap_cycles: u64,
    /// One out of so many accesses is not an item: a write beside the counter, or a read.
    disturbance: u64,
}

state::unsaved!(Producer);

impl Agent for Producer {
    fn name(&self) -> String {
        "producer".to_owned()
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        if self.items == 0 {
            return;
        }
        let count = self.doorbells.len() as u64;
        let address = self.doorbells[self.random.below(count) as usize];
        let access = if self.random.below(self.disturbance) > 0 {
            self.items -= 1;
            MemoryAccess::FetchAdd { address, addend: 1 }
        } else if self.random.below(2) == 0 {
            MemoryAccess::Read { address }
        } else {
            // False sharing.
            MemoryAccess::Write {
                address: address ^ 8,
                bytes: 8,
                data: LineData([self.items as u8; 64]),
            }
        };
        context.access(access, 0);
        let gap = clock().time(self.random.below(self.longest_gap_cycles + 1));
        context.wake(context.now() + gap, 0);
    }
}

/// What a consumer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Adding(usize),
    Qwait,
    Verify,
    Dequeue,
    Reconsider,
    Disabled,
    Process,
}

/// A core that runs Algorithm 1; the first of them is also the control plane.
struct Consumer {
    random: Random,
    doorbells: Vec<u64>,
    control: bool,
    policy: u64,
    longest_work_cycles: u64,
    /// How many more `QWAIT`s may be non-blocking: one that never halts would never end.
    non_blocking: u64,
    phase: Phase,
    qid: u64,
    consumed: u64,
    finished: Time,
}

impl Consumer {
    fn qwait(&mut self) -> Do {
        self.phase = Phase::Qwait;
        if self.non_blocking > 0 && self.random.below(3) == 0 {
            self.non_blocking -= 1;
            Do::Instruction(Operation::QwaitNonBlocking, 0, 0)
        } else {
            Do::Instruction(Operation::Qwait, 0, 0)
        }
    }
}

impl Script for Consumer {
    fn next(&mut self, result: Result<u64, ()>, now: Time) -> Do {
        let result = result.expect("an access fault");
        self.finished = now;
        let doorbell = self.doorbells[self.qid as usize];
        match self.phase {
            Phase::Start if self.control => {
                self.phase = Phase::Adding(0);
                Do::Instruction(
                    Operation::Init,
                    DOORBELLS.start,
                    DOORBELLS.length | self.policy,
                )
            }
            Phase::Adding(qid) => {
                assert_eq!(result, 0);
                if qid == self.doorbells.len() {
                    return self.qwait();
                }
                self.phase = Phase::Adding(qid + 1);
                Do::Instruction(Operation::Add, qid as u64, self.doorbells[qid])
            }
            Phase::Start | Phase::Process => self.qwait(),
            Phase::Qwait if result == NO_QID => {
                self.phase = Phase::Process;
                Do::Wait(self.random.below(100))
            }
            Phase::Qwait => {
                self.qid = result;
                self.phase = Phase::Verify;
                Do::Instruction(Operation::Verify, self.doorbells[result as usize], 0)
            }
            Phase::Verify if result == 0 => self.qwait(),
            Phase::Verify => {
                self.phase = Phase::Dequeue;
                Do::FetchAdd(doorbell, u64::MAX)
            }
            Phase::Dequeue => {
                assert!(result > 0, "a queue was given to two harts at a time");
                self.consumed += 1;
                self.phase = Phase::Reconsider;
                Do::Instruction(Operation::Reconsider, self.qid, doorbell)
            }
            Phase::Reconsider => {
                self.phase = Phase::Process;
                match self.random.below(8) {
                    0 => {
                        self.phase = Phase::Disabled;
                        Do::Instruction(Operation::Disable, self.qid, 0)
                    }
                    1..=3 => Do::Load(MEMORY.start + self.random.below(MEMORY.length / 8) * 8),
                    _ => Do::Wait(self.random.below(self.longest_work_cycles + 1)),
                }
            }
            Phase::Disabled => {
                self.phase = Phase::Process;
                Do::Instruction(Operation::Enable, self.qid, 0)
            }
        }
    }
}

/// What a run ends with.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    statistics: Statistics,
    consumed: Vec<u64>,
    finished: Vec<Time>,
}

/// What there is of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hardware {
    OneSocket,
    /// Two sockets with a ready set each, whose queues are their own cores'.
    Apart,
    Stealing,
    /// Two sockets with one ready set.
    OneReadySet,
}

impl Hardware {
    fn sockets(self) -> u64 {
        match self {
            Hardware::OneSocket => 1,
            _ => 2,
        }
    }
}

fn run(seed: u64, window: Time, hardware: Hardware) -> Outcome {
    let mut random = Random(seed);
    let queues = 1 + random.below(12);
    let stride = [64, 64, 192, 1024][random.below(4) as usize];
    let doorbells: Vec<u64> = (0..queues)
        .map(|queue| DOORBELLS.start + queue * stride + random.below(8) * 8)
        .collect();
    let consumers = (1 + random.below(4)).next_multiple_of(hardware.sockets());
    let policy = random.below(3);
    let longest_work_cycles = [0, 100, 1000][random.below(3) as usize];
    let consumer = |core| Consumer {
        random: Random(seed ^ (core + 1) << 32),
        doorbells: doorbells.clone(),
        control: core == 0,
        policy,
        longest_work_cycles,
        non_blocking: if core % 2 == 0 { 20 } else { 0 },
        phase: Phase::Start,
        qid: 0,
        consumed: 0,
        finished: Time::ZERO,
    };
    let scripts = (0..consumers).map(consumer).collect();
    let spec = HyperPlaneSpec {
        power_optimised: seed.is_multiple_of(3),
        ready_sets: match hardware {
            Hardware::OneReadySet => ReadySets::One,
            _ => ReadySets::PerSocket,
        },
        stealing: match hardware {
            Hardware::Stealing => Stealing::WhenIdle,
            _ => Stealing::None,
        },
        ..HyperPlaneSpec::default()
    };
    // From faster than the hart's own work to slower than most of what happens here.
    let link = SocketLinkSpec {
        latency_ns: [0.0, 5.0, 40.0, 500.0][(seed % 4) as usize],
        bandwidth_gb_per_s: [0.5, 40.0][(seed / 4 % 2) as usize],
    };
    let mut machine = Machine::on_sockets(&spec, hardware.sockets() as usize, link, scripts);
    let producers = 1 + random.below(3);
    let items = 1 + random.below(60);
    let longest_gap_cycles = [0, 30, 200, 2000][random.below(4) as usize];
    for producer in 0..producers {
        let producer = Producer {
            random: Random(seed ^ (producer + 1) << 48),
            doorbells: doorbells.clone(),
            items,
            longest_gap_cycles,
            disturbance: 2 + random.below(8),
        };
        let attachment = Attachment {
            tile: random.below(4) as usize,
            cache: Some(CacheSpec::default()),
            on_each_socket: seed.is_multiple_of(2),
            ..Attachment::default()
        };
        let id = machine
            .fabric
            .attach(Box::new(producer), attachment)
            .unwrap();
        // Some items are there before the queue is added.
        let begin = clock().time(random.below(3000));
        machine.fabric.wake_agent(id, begin, 0);
    }
    machine.run(window);
    let halted = machine.cores.iter().filter(|core| core.is_halted()).count();
    assert_eq!(
        halted,
        machine.cores.len(),
        "seed {seed}: every hart waits in the end"
    );
    let consumed: Vec<u64> = machine
        .cores
        .iter()
        .map(|core| core.script.consumed)
        .collect();
    assert_eq!(
        consumed.iter().sum::<u64>(),
        producers * items,
        "seed {seed}: {:?}",
        machine.fabric.waiting_for()
    );
    let now = machine.now;
    let statistics = machine.hyperplane().statistics(now);
    assert_eq!(statistics.monitored, queues as usize, "seed {seed}");
    assert_eq!(
        statistics.armed, queues as usize,
        "seed {seed}: {statistics:?}"
    );
    assert!(statistics.halts >= consumers, "seed {seed}");
    Outcome {
        statistics: Statistics {
            // Counts up to the end of the last window.
            halted_fs: 0,
            ..statistics
        },
        finished: machine
            .cores
            .iter()
            .map(|core| core.script.finished)
            .collect(),
        consumed,
    }
}

#[test]
fn every_item_is_consumed() {
    let mut spurious = 0;
    let mut not_ready = 0;
    let mut reconsidered = 0;
    for seed in 0..4000 {
        let statistics = run(seed, Time::NEVER, Hardware::OneSocket).statistics;
        spurious += statistics.spurious_wake_ups;
        not_ready += statistics.not_ready;
        reconsidered += statistics.activations_by_reconsider;
    }
    // The runs did meet what they are to meet.
    assert!(spurious > 1000 && not_ready > 1000 && reconsidered > 1000);
}

/// On two sockets nothing waits in one ready set while a hart waits that may have it, whatever
/// crosses whatever on the link.
#[test]
fn every_item_is_consumed_on_two_sockets() {
    for hardware in [Hardware::Apart, Hardware::Stealing, Hardware::OneReadySet] {
        let (mut steals, mut returned, mut spurious) = (0, 0, 0);
        for seed in 0..1000 {
            let statistics = run(seed, Time::NEVER, hardware).statistics;
            steals += statistics.steals;
            returned += statistics.offers_returned;
            spurious += statistics.spurious_wake_ups;
        }
        assert!(spurious > 200);
        if hardware == Hardware::Stealing {
            assert!(steals > 1000 && returned > 100, "{steals} {returned}");
        } else {
            assert_eq!((steals, returned), (0, 0));
        }
    }
}

#[test]
fn the_window_does_not_matter() {
    for seed in 0..100 {
        let hardware = match seed % 5 {
            0 => Hardware::Apart,
            1 => Hardware::Stealing,
            2 => Hardware::OneReadySet,
            _ => Hardware::OneSocket,
        };
        assert_eq!(
            run(seed, Time::NEVER, hardware),
            run(seed, Time::from_fs(1), hardware),
            "seed {seed}"
        );
    }
}
