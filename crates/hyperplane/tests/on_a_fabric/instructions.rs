//! Each instruction on a real fabric: what it gives, how long it takes, what it refuses.

use crate::machine::{DOORBELLS, Do, MEMORY, Machine, Script, clock};
use fabric::*;
use hyperplane::{ErrorCode, HyperPlaneSpec, NO_QID, Operation, PARTITIONS, ReadySets, Stealing};
use std::collections::VecDeque;

/// Does one thing after the other and writes down what came of it.
struct List {
    to_do: VecDeque<Do>,
    begun: Time,
    /// Result, beginning and end of each.
    done: Vec<(Result<u64, ()>, Time, Time)>,
}

impl Script for List {
    fn next(&mut self, result: Result<u64, ()>, now: Time) -> Do {
        self.done.push((result, self.begun, now));
        self.begun = now;
        self.to_do.pop_front().unwrap_or(Do::Stop)
    }
}

/// Increments the doorbell whose address is the token when it is woken, and writes down when
/// ownership was granted.
#[derive(Default)]
struct Device {
    /// When ownership of which line was granted.
    grants: Vec<(Time, LineAddress)>,
}

state::unsaved!(Device);

impl Agent for Device {
    fn name(&self) -> String {
        "device".to_owned()
    }

    fn ownership_granted(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        self.grants.push((context.now(), line));
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, address: u64) {
        // An odd address: a write of the line that leaves the counter as it is.
        let addend = u64::from(address.is_multiple_of(8));
        let address = address - address % 8;
        context.access(MemoryAccess::FetchAdd { address, addend }, 0);
    }
}

const fn doorbell(queue: u64) -> u64 {
    DOORBELLS.start + queue * 64
}

const ROUND_ROBIN: u64 = 0;
const WEIGHTED: u64 = 1;
const ACTIVATION_ORDER: u64 = 3;

fn init(policy: u64) -> Do {
    Do::Instruction(Operation::Init, DOORBELLS.start, DOORBELLS.length | policy)
}

fn add(qid: u64) -> Do {
    Do::Instruction(Operation::Add, qid, doorbell(qid))
}

fn on(operation: Operation, qid: u64) -> Do {
    Do::Instruction(operation, qid, 0)
}

const QWAIT: Do = Do::Instruction(Operation::Qwait, 0, 0);
const QWAIT_NB: Do = Do::Instruction(Operation::QwaitNonBlocking, 0, 0);

fn verify(qid: u64) -> Do {
    Do::Instruction(Operation::Verify, doorbell(qid), 0)
}

fn reconsider(qid: u64) -> Do {
    Do::Instruction(Operation::Reconsider, qid, doorbell(qid))
}

fn enqueue(qid: u64) -> Do {
    Do::FetchAdd(doorbell(qid), 1)
}

fn dequeue(qid: u64) -> Do {
    Do::FetchAdd(doorbell(qid), u64::MAX)
}

struct Test {
    machine: Machine<List>,
    device: AgentId,
}

impl Test {
    /// Cores with these scripts, and a device that does what `events` say: at which cycle, and at
    /// which address.
    fn run(scripts: &[&[Do]], events: &[(u64, u64)]) -> Test {
        Test::run_with(&HyperPlaneSpec::default(), scripts, events)
    }

    fn run_with(spec: &HyperPlaneSpec, scripts: &[&[Do]], events: &[(u64, u64)]) -> Test {
        Test::run_on(spec, 1, scripts, events)
    }

    /// The same on so many sockets. A word takes 27 ns from one ready set to the other: half a
    /// nanosecond to the link and from it, one for its 16 bytes, and 25.
    fn run_on(
        spec: &HyperPlaneSpec,
        sockets: usize,
        scripts: &[&[Do]],
        events: &[(u64, u64)],
    ) -> Test {
        let link = SocketLinkSpec {
            latency_ns: 25.0,
            bandwidth_gb_per_s: 16.0,
        };
        let list = |script: &&[Do]| List {
            to_do: script.iter().copied().collect(),
            begun: Time::ZERO,
            done: Vec::new(),
        };
        let scripts = scripts.iter().map(list).collect();
        let mut machine = Machine::on_sockets(spec, sockets, link, scripts);
        let attachment = Attachment {
            snoops: Some(DOORBELLS),
            cache: Some(CacheSpec::default()),
            on_each_socket: true,
            ..Attachment::default()
        };
        let device = machine
            .fabric
            .attach(Box::new(Device::default()), attachment)
            .unwrap();
        for &(cycle, address) in events {
            machine
                .fabric
                .wake_agent(device, clock().time(cycle), address);
        }
        machine.run(Time::NEVER);
        Test { machine, device }
    }

    /// The results of what core `core` did.
    fn results(&self, core: usize) -> Vec<Result<u64, ()>> {
        // The first entry is the beginning.
        let done = &self.machine.cores[core].script.done[1..];
        done.iter().map(|&(result, ..)| result).collect()
    }

    /// When number `index` of what core `core` did began and ended.
    fn times(&self, core: usize, index: usize) -> (Time, Time) {
        let (_, begin, end) = self.machine.cores[core].script.done[index + 1];
        (begin, end)
    }

    fn cycles(&self, core: usize, index: usize) -> f64 {
        let (begin, end) = self.times(core, index);
        (end - begin).as_fs() as f64 / clock().time(1).as_fs() as f64
    }

    fn statistics(&mut self) -> hyperplane::Statistics {
        let now = self.machine.now;
        self.machine.hyperplane().statistics(now)
    }
}

fn ok(values: &[u64]) -> Vec<Result<u64, ()>> {
    values.iter().map(|&value| Ok(value)).collect()
}

#[test]
fn qwait_takes_50_cycles() {
    let test = Test::run(
        &[&[
            init(ROUND_ROBIN),
            add(3),
            enqueue(3),
            Do::Wait(100),
            QWAIT,
            QWAIT_NB,
        ]],
        &[],
    );
    assert_eq!(test.results(0), ok(&[0, 0, 0, 0, 3, NO_QID]));
    assert_eq!(test.cycles(0, 4), 50.0);
    assert_eq!(test.cycles(0, 5), 50.0);
}

/// Two harts ask at the same time, and a third one cycle later; a `QWAIT` takes 25 ns, of which the
/// selection is 12.25: the second has its answer one selection later, and the third two selections
/// after the first, of which one cycle is over when it asks.
#[test]
fn selections_are_made_one_after_the_other() {
    let control = [
        init(ROUND_ROBIN),
        add(0),
        add(1),
        add(2),
        enqueue(0),
        enqueue(1),
        enqueue(2),
    ];
    let at = |cycle| [Do::Wait(cycle), QWAIT];
    let scripts: [&[Do]; 4] = [&control, &at(9000), &at(9000), &at(9001)];
    let mut test = Test::run(&scripts, &[]);
    let answered = |core| test.times(core, 1).1;
    let selection = Time::from_ns(12.25);
    assert_eq!(test.cycles(1, 1), 50.0);
    assert_eq!(answered(2) - answered(1), selection);
    assert_eq!(answered(3) - answered(2), selection);
    let statistics = test.statistics();
    assert_eq!(statistics.selecting_fs, 3 * selection.as_fs());
    let waited = selection + selection + selection - clock().time(1);
    assert_eq!(statistics.selections_waited_fs, waited.as_fs());
}

#[test]
fn halted_hart_resumes_55_cycles_after_the_grant() {
    let mut test = Test::run(
        &[&[init(ROUND_ROBIN), add(3), QWAIT]],
        &[(5000, doorbell(3))],
    );
    assert_eq!(test.results(0), ok(&[0, 0, 3]));
    let device: &mut Device = test.machine.fabric.agent_mut(test.device).unwrap();
    let &(grant, line) = device.grants.last().unwrap();
    assert_eq!(line, LineAddress::of(doorbell(3)));
    let (begin, end) = test.times(0, 2);
    assert_eq!(end - grant, clock().time(55));
    let statistics = test.statistics();
    assert_eq!((statistics.halts, statistics.wake_ups), (1, 1));
    assert_eq!(statistics.activations_by_grant, 1);
    assert_eq!(
        statistics.halted_fs,
        (grant + clock().time(5) - begin).as_fs()
    );
}

/// The time of a hart that waits counts while it passes: two of them for 1000 cycles.
#[test]
fn the_time_of_harts_that_still_wait_counts() {
    let mut test = Test::run(
        &[
            &[init(ROUND_ROBIN), add(3), QWAIT],
            &[Do::Wait(2000), QWAIT],
        ],
        &[],
    );
    let at = |test: &mut Test, cycle| test.machine.hyperplane().statistics(clock().time(cycle));
    let (before, after) = (at(&mut test, 5000), at(&mut test, 6000));
    assert_eq!((after.halts, after.wake_ups), (2, 0));
    assert_eq!(
        after.halted_fs - before.halted_fs,
        2 * clock().time(1000).as_fs()
    );
}

/// In the power-optimised mode a hart that waits is in C1 from the moment that the ready set has
/// nothing for it to the moment that a queue is ready, and then takes 0.5 us to wake up. One that
/// finds work does not go there.
#[test]
fn a_hart_wakes_up_out_of_c1() {
    let spec = HyperPlaneSpec {
        power_optimised: true,
        ..HyperPlaneSpec::default()
    };
    let script = [
        init(ROUND_ROBIN),
        add(3),
        QWAIT,
        enqueue(3),
        reconsider(3),
        QWAIT,
        QWAIT,
    ];
    let mut test = Test::run_with(&spec, &[&script], &[(5000, doorbell(3))]);
    let device: &mut Device = test.machine.fabric.agent_mut(test.device).unwrap();
    let (grant, _) = *device
        .grants
        .iter()
        .find(|(at, _)| *at >= clock().time(5000))
        .unwrap();
    let (begin, end) = test.times(0, 2);
    let half_a_microsecond = Time::from_ns(500.0);
    assert_eq!(end - grant, clock().time(55) + half_a_microsecond);
    assert_eq!(test.cycles(0, 5), 50.0);
    let statistics = test.statistics();
    assert_eq!((statistics.halts, statistics.power_ups), (2, 1));
    // `QWAIT` was asked for three times, and the ready set once more after the first wait.
    assert_eq!(statistics.selections(), 4);
    // The third `QWAIT` still waits.
    let first_wait = grant + clock().time(5) - begin;
    let (_, third) = test.times(0, 5);
    let now = test.machine.now.max(third + clock().time(10_000));
    let down = test.machine.hyperplane().powered_down(CoreId(0), now);
    assert_eq!(down, first_wait + (now - third));
    assert_eq!(
        test.machine.hyperplane().powered_down(CoreId(1), now),
        Time::ZERO
    );
}

/// The same program in the ordinary mode.
#[test]
fn without_the_power_optimised_mode_nobody_is_in_c1() {
    let spec = HyperPlaneSpec {
        wake_up_latency_ns: 1e6,
        ..HyperPlaneSpec::default()
    };
    let script = [init(ROUND_ROBIN), add(3), QWAIT, QWAIT];
    let mut test = Test::run_with(&spec, &[&script], &[(5000, doorbell(3))]);
    assert_eq!(test.statistics().power_ups, 0);
    let now = test.machine.now;
    let down = test.machine.hyperplane().powered_down(CoreId(0), now);
    assert_eq!(down, Time::ZERO);
}

#[test]
fn updates_of_the_ready_set_take_the_wires_alone() {
    // 50 cycles of 0.5 ns without the 12.25 ns of a selection.
    let weight = Do::Instruction(Operation::Weight, 1, 7);
    let script = [
        init(WEIGHTED),
        on(Operation::Enable, 1),
        on(Operation::Disable, 1),
        weight,
    ];
    let test = Test::run(&[&script], &[]);
    for index in 0..script.len() {
        assert_eq!(test.cycles(0, index), 25.5);
    }
}

#[test]
fn without_a_selection_qwait_takes_the_wires_alone() {
    // As above, for the order of activation needs no arbiter.
    let test = Test::run(
        &[&[
            init(ACTIVATION_ORDER),
            add(3),
            enqueue(3),
            Do::Wait(100),
            QWAIT,
        ]],
        &[],
    );
    assert_eq!(test.results(0)[4], Ok(3));
    assert_eq!(test.cycles(0, 4), 25.5);
}

#[test]
fn a_hart_gets_queues_of_its_partition_alone() {
    let partition = |qid, partition| Do::Instruction(Operation::Partition, qid, partition);
    let qwait = |partition| Do::Instruction(Operation::Qwait, partition, 0);
    let control = [
        init(ROUND_ROBIN),
        add(0),
        add(1),
        add(2),
        partition(1, 5),
        partition(2, 5),
        Do::Wait(2000),
        qwait(0),
    ];
    // It has waited longer than the other, whose queue comes first.
    let other = [Do::Wait(1500), qwait(5), qwait(5)];
    let events = [
        (5000, doorbell(0)),
        (6000, doorbell(2)),
        (7000, doorbell(1)),
    ];
    let test = Test::run(&[&control, &other], &events);
    assert_eq!(test.results(0)[7], Ok(0));
    assert_eq!(test.results(1), ok(&[0, 2, 1]));
    assert!(test.times(0, 7).1 < test.times(1, 1).1);
}

#[test]
fn the_hart_that_has_waited_longest_goes_first() {
    let control = [init(ROUND_ROBIN), add(0), add(1), Do::Wait(2000), QWAIT];
    let first = [Do::Wait(1000), QWAIT];
    let second = [Do::Wait(1500), QWAIT];
    let events = [(5000, doorbell(1)), (6000, doorbell(0))];
    let test = Test::run(&[&control, &second, &first], &events);
    assert_eq!(test.results(2)[1], Ok(1));
    assert_eq!(test.results(1)[1], Ok(0));
    assert!(test.machine.cores[0].is_halted());
    assert_eq!(
        test.machine.fabric.waiting_for(),
        [
            "HyperPlane: a hart of core 0 waits in QWAIT: no enabled queue is ready (2 queues \
             monitored, 0 armed, 0 ready but disabled)"
        ]
    );
}

#[test]
fn writes_that_are_not_items_are_found_out_by_verify() {
    let script = [
        init(ROUND_ROBIN),
        add(0),
        QWAIT,
        verify(0),
        QWAIT,
        verify(0),
    ];
    // The first write leaves the counter as it is.
    let events = [(5000, doorbell(0) + 1), (10000, doorbell(0))];
    let mut test = Test::run(&[&script], &events);
    assert_eq!(test.results(0), ok(&[0, 0, 0, 0, 0, 1]));
    let statistics = test.statistics();
    assert_eq!((statistics.wake_ups, statistics.spurious_wake_ups), (2, 1));
    assert_eq!(statistics.arms, 2);
}

#[test]
fn a_queue_that_has_items_when_added_is_ready() {
    let script = [init(ROUND_ROBIN), enqueue(2), add(2), QWAIT, verify(2)];
    let mut test = Test::run(&[&script], &[]);
    assert_eq!(test.results(0), ok(&[0, 0, 0, 2, 1]));
    assert_eq!(test.statistics().armed, 0);
}

#[test]
fn reconsider_activates_or_arms() {
    let mut script = vec![init(ROUND_ROBIN), add(2), enqueue(2), enqueue(2), QWAIT];
    script.extend([verify(2), dequeue(2), reconsider(2), QWAIT_NB]);
    script.extend([verify(2), dequeue(2), reconsider(2), QWAIT_NB]);
    let mut test = Test::run(&[&script], &[]);
    assert_eq!(test.results(0)[4..], ok(&[2, 1, 2, 0, 2, 1, 1, 0, NO_QID]));
    // The first went to the ready set alone.
    let load = 4.0;
    assert_eq!(test.cycles(0, 7), load + 25.5);
    let statistics = test.statistics();
    assert_eq!((statistics.armed, statistics.arms), (1, 2));
    assert_eq!(statistics.activations_by_reconsider, 1);
    assert_eq!(statistics.not_ready, 1);
}

#[test]
fn enabling_a_ready_queue_resumes_a_halted_hart() {
    let control = [
        init(ROUND_ROBIN),
        add(0),
        on(Operation::Disable, 0),
        enqueue(0),
        Do::Wait(5000),
        on(Operation::Enable, 0),
    ];
    let test = Test::run(&[&control, &[Do::Wait(1000), QWAIT]], &[]);
    assert_eq!(test.results(1)[1], Ok(0));
    let (enable, _) = test.times(0, 5);
    assert_eq!(test.times(1, 1).1 - enable, clock().time(50));
}

#[test]
fn a_ready_but_disabled_queue_is_reported() {
    let script = [
        init(ROUND_ROBIN),
        add(0),
        add(1),
        on(Operation::Disable, 1),
        QWAIT,
    ];
    let test = Test::run(&[&script], &[(5000, doorbell(1))]);
    assert_eq!(
        test.machine.fabric.waiting_for(),
        [
            "HyperPlane: a hart of core 0 waits in QWAIT: no enabled queue is ready (2 queues \
             monitored, 1 armed, 1 ready but disabled)"
        ]
    );
}

#[test]
fn a_removed_queue_leaves_nothing_behind() {
    let remove = on(Operation::Remove, 0);
    let mut script = vec![
        init(ROUND_ROBIN),
        add(0),
        on(Operation::Disable, 0),
        enqueue(0),
    ];
    // While it is ready; its consumer's instructions may still come.
    script.extend([Do::Wait(100), remove, remove, reconsider(0), QWAIT_NB]);
    script.extend([
        dequeue(0),
        verify(0),
        reconsider(0),
        enqueue(0),
        QWAIT_NB,
        dequeue(0),
    ]);
    // Added again, it is enabled.
    script.extend([add(0), enqueue(0), QWAIT]);
    let mut test = Test::run(&[&script], &[]);
    let unknown = ErrorCode::UnknownQid.value();
    assert_eq!(test.results(0)[5..9], ok(&[0, unknown, 0, NO_QID]));
    assert_eq!(test.results(0)[9..15], ok(&[1, 0, 0, 0, NO_QID, 1]));
    assert_eq!(test.results(0)[15..], ok(&[0, 0, 0]));
    assert_eq!(test.statistics().monitored, 1);
}

#[test]
fn weights_count_consecutive_services() {
    let weight = Do::Instruction(Operation::Weight, 0, 3);
    let mut script = vec![
        init(WEIGHTED),
        enqueue(0),
        enqueue(1),
        add(0),
        add(1),
        weight,
    ];
    for qid in [0, 0, 0, 1, 0, 0, 0, 1] {
        script.extend([QWAIT, reconsider(qid)]);
    }
    let test = Test::run(&[&script], &[]);
    let qids: Vec<_> = test.results(0)[6..].iter().step_by(2).copied().collect();
    assert_eq!(qids, ok(&[0, 0, 0, 1, 0, 0, 0, 1]));
}

#[test]
fn control_plane_errors_have_codes() {
    use ErrorCode::*;
    let add = |qid, doorbell| Do::Instruction(Operation::Add, qid, doorbell);
    let init = |start, length| Do::Instruction(Operation::Init, start, length);
    let half = DOORBELLS.length / 2;
    let cases = [
        (add(0, doorbell(0)), DoorbellOutsideRange.value()),
        (
            init(DOORBELLS.start, DOORBELLS.length | 4),
            UnknownPolicy.value(),
        ),
        (init(DOORBELLS.start, 0), RangeNotSnooped.value()),
        (init(DOORBELLS.start + 8, 64), RangeNotSnooped.value()),
        (init(DOORBELLS.start - 64, 128), RangeNotSnooped.value()),
        (
            init(DOORBELLS.start + 64, DOORBELLS.length),
            RangeNotSnooped.value(),
        ),
        (init(DOORBELLS.start + 64, !63), RangeNotSnooped.value()),
        (init(u64::MAX - 63, 64), RangeNotSnooped.value()),
        (init(DOORBELLS.start, half), 0),
        (add(0, doorbell(0)), 0),
        (add(0, doorbell(1)), DuplicateQid.value()),
        (add(1, doorbell(0)), DuplicateLine.value()),
        (add(1, doorbell(0) + 8), DuplicateLine.value()),
        (add(1, doorbell(1) + 4), DoorbellMisaligned.value()),
        (add(1, DOORBELLS.start + half), DoorbellOutsideRange.value()),
        (add(1, DOORBELLS.start - 64), DoorbellOutsideRange.value()),
        (add(1024, doorbell(1)), QidOutOfRange.value()),
        (add(u64::MAX, doorbell(1)), QidOutOfRange.value()),
        (on(Operation::Remove, 1024), QidOutOfRange.value()),
        (on(Operation::Remove, 1 << 32), QidOutOfRange.value()),
        (on(Operation::Remove, 1), UnknownQid.value()),
        (add(1023, doorbell(1) + 56), 0),
    ];
    let script: Vec<Do> = cases.iter().map(|&(operation, _)| operation).collect();
    let expected: Vec<u64> = cases.iter().map(|&(_, value)| value).collect();
    let test = Test::run(&[&script], &[]);
    assert_eq!(test.results(0), ok(&expected));
}

#[test]
fn what_cannot_be_done_is_an_access_fault() {
    let script = [
        verify(0),
        init(ROUND_ROBIN),
        Do::Instruction(Operation::Verify, MEMORY.start, 0),
        Do::Instruction(Operation::Reconsider, 0, MEMORY.start),
        Do::Instruction(Operation::Reconsider, 1024, doorbell(0)),
        on(Operation::Enable, 1024),
        on(Operation::Disable, 1 << 40),
        Do::Instruction(Operation::Weight, 1024, 1),
        Do::Instruction(Operation::Weight, 0, 0),
        Do::Instruction(Operation::Weight, 0, 1 << 32),
        enqueue(0),
        Do::Instruction(Operation::Partition, 1024, 0),
        Do::Instruction(Operation::Partition, 0, PARTITIONS as u64),
        Do::Instruction(Operation::Qwait, PARTITIONS as u64, 0),
        Do::Instruction(Operation::QwaitNonBlocking, 1 << 40, 0),
        Do::Instruction(Operation::Reconsider, 1024, doorbell(0)),
    ];
    let test = Test::run(&[&script], &[]);
    let mut expected = vec![Err(()); script.len()];
    expected[1] = Ok(0);
    expected[10] = Ok(0);
    assert_eq!(test.results(0), expected);
}

#[test]
fn conflicts_are_counted_and_another_doorbell_helps() {
    // Each of the 4 banks has 16 places; 17 doorbells want bank 0.
    let spec = HyperPlaneSpec {
        entries: 64,
        ..HyperPlaneSpec::default()
    };
    let mut to_do: VecDeque<Do> = [init(ROUND_ROBIN)].into();
    to_do.extend((0..17).map(|qid| Do::Instruction(Operation::Add, qid, doorbell(qid * 4))));
    to_do.push_back(Do::Instruction(Operation::Add, 16, doorbell(1)));
    let list = List {
        to_do,
        begun: Time::ZERO,
        done: Vec::new(),
    };
    let mut machine = Machine::new(&spec, vec![list]);
    machine.run(Time::NEVER);
    let results: Vec<_> = machine.cores[0]
        .script
        .done
        .iter()
        .map(|done| done.0)
        .collect();
    assert!(results[..18].iter().all(|&result| result == Ok(0)));
    assert_eq!(results[18..], ok(&[ErrorCode::Conflict.value(), 0]));
    let statistics = machine.hyperplane().statistics(Time::ZERO);
    assert_eq!((statistics.conflicts, statistics.monitored), (1, 17));
}

/// Doorbells 0 to 2 are in the memory of the first socket, 3 to 5 in that of the second.
fn stealing() -> HyperPlaneSpec {
    HyperPlaneSpec {
        stealing: Stealing::WhenIdle,
        ..HyperPlaneSpec::default()
    }
}

fn grant_of(test: &mut Test, qid: u64) -> Time {
    let device: &mut Device = test.machine.fabric.agent_mut(test.device).unwrap();
    let grants = device.grants.iter().rev();
    let mut of_queue = grants.filter(|(_, line)| *line == LineAddress::of(doorbell(qid)));
    of_queue.next().unwrap().0
}

#[test]
fn a_hart_of_the_other_socket_gets_a_queue_a_message_later() {
    // Core 1 is on the second socket and waits; nobody waits on the first.
    let control = [init(ROUND_ROBIN), add(0), add(3)];
    let other = [Do::Wait(2000), QWAIT, QWAIT];
    let events = [(5000, doorbell(0)), (9000, doorbell(3))];
    let mut test = Test::run_on(&stealing(), 2, &[&control, &other], &events);
    assert_eq!(test.results(1)[1..], ok(&[0, 3]));
    // 5 cycles of look-up and 12.25 ns of selection are 14.75 ns, and 15 to the next cycle of the
    // mesh; a message; and what is left of QWAIT, 12.75.
    let stolen = test.times(1, 1).1 - grant_of(&mut test, 0);
    assert_eq!(stolen, Time::from_ns(15.0 + 27.0 + 12.75));
    // Its own queue comes as on one socket.
    let own = test.times(1, 2).1 - grant_of(&mut test, 3);
    assert_eq!(own, clock().time(55));
    let statistics = test.statistics();
    assert_eq!((statistics.wake_ups, statistics.steals), (2, 1));
    assert_eq!(statistics.offers_returned, 0);
}

#[test]
fn a_ready_queue_of_the_other_socket_comes_two_messages_later() {
    // Nobody waits when queue 0 becomes ready.
    let control = [init(ROUND_ROBIN), add(0)];
    let other = [Do::Wait(8000), QWAIT];
    let events = [(5000, doorbell(0))];
    let mut test = Test::run_on(&stealing(), 2, &[&control, &other], &events);
    assert_eq!(test.results(1)[1], Ok(0));
    // Two selections, to the next cycle of the mesh each; a message each; and what is left.
    let (begin, end) = test.times(1, 1);
    assert_eq!(end - begin, Time::from_ns((12.5 + 27.0) * 2.0 + 12.75));
    assert_eq!(test.statistics().steals, 1);
    // Without stealing it waits for ever.
    let apart = HyperPlaneSpec {
        stealing: Stealing::None,
        ..stealing()
    };
    let test = Test::run_on(&apart, 2, &[&control, &other], &events);
    assert!(test.machine.cores[1].is_halted());
    assert_eq!(test.results(1).len(), 1);
}

#[test]
fn an_offer_that_finds_nobody_comes_back() {
    // Core 1 waits on the second socket. Its own queue 3 is ready 10 cycles after queue 0, which is
    // on its way to it by then: it goes back, and core 0 gets it.
    let control = [init(ROUND_ROBIN), add(0), add(3), Do::Wait(6000), QWAIT];
    let other = [Do::Wait(2000), QWAIT];
    let events = [(5000, doorbell(0)), (5010, doorbell(3))];
    let mut test = Test::run_on(&stealing(), 2, &[&control, &other], &events);
    assert_eq!(test.results(1)[1], Ok(3));
    assert_eq!(test.results(0)[4], Ok(0));
    let statistics = test.statistics();
    assert_eq!((statistics.steals, statistics.offers_returned), (0, 1));
}

#[test]
fn a_stolen_queue_goes_back_to_its_own_ready_set() {
    let control = [init(ROUND_ROBIN), add(0), Do::Wait(9000), QWAIT];
    let mut other = vec![Do::Wait(2000), QWAIT, verify(0), dequeue(0)];
    other.extend([reconsider(0), Do::Stop]);
    // A second item comes before the queue is reconsidered.
    let events = [(5000, doorbell(0)), (5001, doorbell(0))];
    let test = Test::run_on(&stealing(), 2, &[&control, &other], &events);
    assert_eq!(test.results(1)[1..], ok(&[0, 1, 2, 0]));
    assert_eq!(test.results(0)[3], Ok(0));
    // The load, a message, its acknowledgement, and the wires at the core's end.
    let (begin, end) = test.times(1, 4);
    assert_eq!(end - begin, Time::from_ns(2.0 + 27.0 + 27.0 + 12.75));
}

#[test]
fn one_ready_set_serves_both_sockets() {
    let one = HyperPlaneSpec {
        ready_sets: ReadySets::One,
        stealing: Stealing::None,
        ..stealing()
    };
    let control = [init(ROUND_ROBIN), add(0), add(3), Do::Wait(6000), QWAIT];
    let other = [Do::Wait(8000), QWAIT, QWAIT];
    let events = [
        (5000, doorbell(0)),
        (5000, doorbell(3)),
        (9000, doorbell(0)),
    ];
    let mut test = Test::run_on(&one, 2, &[&control, &other], &events);
    assert_eq!(test.results(0)[4], Ok(0));
    // It has 2048 entries: 21 levels instead of 19, 13.54 ns.
    let selection = Time::from_ns(12.25 * 21.0 / 19.0);
    let (begin, end) = test.times(0, 4);
    assert_eq!(end - begin, selection + Time::from_ns(12.75));
    // From the other socket a message there, the selection, to the next cycle of the mesh, and one
    // back.
    assert_eq!(test.results(1)[1], Ok(3));
    let (begin, end) = test.times(1, 1);
    assert_eq!(end - begin, Time::from_ns(27.0 + 14.0 + 27.0 + 12.75));
    // Nobody has armed queue 0 again.
    assert!(test.machine.cores[1].is_halted());
    assert_eq!(test.statistics().wake_ups, 2);
}

#[test]
fn qids_are_of_both_sockets() {
    // 2 x 1024 QIDs, and a doorbell for each once.
    let control = [
        init(ROUND_ROBIN),
        Do::Instruction(Operation::Add, 2047, doorbell(3)),
        Do::Instruction(Operation::Add, 2047, doorbell(0)),
        Do::Instruction(Operation::Add, 2048, doorbell(0)),
        on(Operation::Remove, 2047),
        Do::Instruction(Operation::Add, 2047, doorbell(0)),
    ];
    let test = Test::run_on(&stealing(), 2, &[&control, &[]], &[]);
    let (twice, beyond) = (ErrorCode::DuplicateQid, ErrorCode::QidOutOfRange);
    let expected = ok(&[0, 0, twice.value(), beyond.value(), 0, 0]);
    assert_eq!(test.results(0), expected);
}
