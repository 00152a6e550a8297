//! User-level interrupts: posted in memory or sent by a timer, and delivered without a trap.

use crate::common::assembler::*;
use crate::common::cases::check;
use crate::common::servers::{self, Ending, models, read};
use fabric::{
    Agent, AgentContext, AgentId, AgentMessage, Attachment, LineData, Replacement, Request,
    RequestKind, Time,
};
use network::packet::{DATA, Endpoint, Packet, TransportHeader};
use network::rack::{Interface, LineRate};
use pcie::{DmaNic, DmaNicSpec, ExpressSpec};
use pipeline::{CoreSpec, Executed, Probe};
use proptest::prelude::*;
use riscv::elf::Image;
use server::{Machine, Resumable, ServerSpec};
use std::cell::RefCell;
use std::rc::Rc;
use user_interrupts::{
    DeliveryKind, InterruptController, Operation, SAFEPOINT, Statistics, UserInterruptSpec, csr,
};

/// The receiver's descriptor; its second word has the posted vectors.
const DESCRIPTOR: u64 = 0x8010_0000;
/// The senders' table.
const TARGETS: u64 = 0x8010_1000;
/// The handler's results: 8 bytes each.
const RESULTS: u64 = 0x8010_2000;
/// The counters that senders increment before they send.
const SENT: u64 = 0x8010_3000;
/// Lines that have never been accessed.
const COLD: u64 = 0x8020_0000;
const NOTIFICATION: u64 = 0xec;
const PERIODIC: u64 = 256;

const KINDS: [DeliveryKind; 2] = [DeliveryKind::Flushing, DeliveryKind::Tracked];

fn operation(
    asm: &mut Assembler,
    operation: Operation,
    rd: Register,
    rs1: Register,
    rs2: Register,
) {
    asm.emit(r_type((0x2b, 0, operation as u32), rd, rs1, rs2));
}

fn plain(asm: &mut Assembler, which: Operation) {
    operation(asm, which, ZERO, ZERO, ZERO);
}

fn set_csr(asm: &mut Assembler, number: u16, value: u64) {
    asm.load_immediate(T0, value);
    asm.csr_write(number.into(), T0);
}

/// Emits a handler outside the main path, and sets it for the hart. It may use `gp` and `tp`.
fn handler(asm: &mut Assembler, body: impl FnOnce(&mut Assembler)) {
    let over = asm.label();
    asm.jump(over);
    asm.align(64);
    let address = asm.here();
    body(asm);
    plain(asm, Operation::Return);
    asm.align(64);
    asm.bind(over);
    set_csr(asm, csr::UI_HANDLER, address);
}

/// Adds 1 to the 8 bytes at `address`.
fn count(asm: &mut Assembler, address: u64) {
    asm.load_immediate(GP, address);
    asm.add_immediate(TP, ZERO, 1);
    asm.amo(AMO_ADD, RELAXED, 8, ZERO, TP, GP);
}

fn set_timer(asm: &mut Assembler, cycles: u64, how: u64) {
    asm.load_immediate(T0, cycles);
    asm.load_immediate(T1, how);
    operation(asm, Operation::Timer, ZERO, T0, T1);
}

/// Spins for some cycles.
fn delay(asm: &mut Assembler, iterations: u64) {
    asm.load_immediate(T6, iterations + 1);
    let again = asm.label_here();
    asm.add_immediate(T6, T6, -1);
    asm.branch(When::NotEqual, T6, ZERO, again);
}

/// Sets the hart's descriptor, which names the hart.
fn receive(asm: &mut Assembler, hart: u64) {
    asm.load_immediate(T1, DESCRIPTOR);
    asm.load_immediate(T0, hart << 32 | NOTIFICATION << 16);
    asm.store_double(T0, T1, 0);
    asm.csr_write(csr::UI_DESCRIPTOR.into(), T1);
    set_csr(asm, csr::UI_NOTIFICATION, NOTIFICATION);
}

/// Sets the hart's table, with one entry for each of these vectors.
fn send_to(asm: &mut Assembler, vectors: &[u64]) {
    asm.load_immediate(T1, TARGETS);
    asm.load_immediate(T2, DESCRIPTOR);
    for (place, vector) in vectors.iter().enumerate() {
        asm.load_immediate(T0, vector << 8 | 1);
        asm.store_double(T0, T1, 16 * place as i64);
        asm.store_double(T2, T1, 16 * place as i64 + 8);
    }
    asm.csr_write(csr::UI_TARGETS.into(), T1);
    set_csr(asm, csr::UI_TARGET_COUNT, vectors.len() as u64);
}

fn send(asm: &mut Assembler, index: u64) {
    asm.load_immediate(T0, index);
    operation(asm, Operation::Send, ZERO, T0, ZERO);
}

fn machine(spec: &ServerSpec, delivery: DeliveryKind, image: Image) -> Machine {
    let interrupts = UserInterruptSpec {
        delivery,
        ..UserInterruptSpec::default()
    };
    Machine::new(spec, image, &[], false, |fabric| {
        let extension = user_interrupts::attach(fabric, &spec.fabric, &interrupts)?.1;
        Ok(Box::new(extension))
    })
    .expect("the machine can be built")
}

fn statistics(machine: &mut Machine) -> Statistics {
    // The agent after the CLINT.
    let controller = machine
        .engine
        .fabric
        .agent_mut::<InterruptController>(AgentId(1));
    controller.expect("it is attached").statistics()
}

fn halted(spec: &ServerSpec, delivery: DeliveryKind, image: Image) -> Machine {
    let mut machine = machine(spec, delivery, image);
    assert_eq!(servers::run(&mut machine), Ending::Halted);
    machine
}

/// The times at which instructions at certain addresses were dispatched and committed.
struct Times {
    of: [u64; 2],
    seen: Rc<RefCell<Vec<Executed>>>,
}

impl Probe for Times {
    fn executed(&mut self, executed: &Executed) {
        if self.of.contains(&executed.pc) && !executed.undone {
            self.seen.borrow_mut().push(*executed);
        }
    }
}

/// The time from the timer's expiry to the dispatch of the handler's first instruction, in a loop
/// in which nothing waits; and the number of squashed instructions. The handler is in the
/// instruction cache.
fn delivery_cycles(core: &CoreSpec, delivery: DeliveryKind) -> (u64, u64) {
    const TIMER: u64 = 400;
    let mut asm = Assembler::new();
    let mut first = 0;
    handler(&mut asm, |asm| {
        first = asm.here();
        count(asm, RESULTS);
    });
    plain(&mut asm, Operation::Set);
    // Two identical passes: the first brings everything into the caches.
    asm.add_immediate(S2, ZERO, 2);
    let again = asm.label_here();
    asm.align(64);
    asm.load_immediate(T0, TIMER);
    let timer = asm.here();
    operation(&mut asm, Operation::Timer, ZERO, T0, ZERO);
    delay(&mut asm, 2 * TIMER);
    asm.add_immediate(S2, S2, -1);
    asm.branch(When::NotEqual, S2, ZERO, again);
    asm.halt();
    let mut machine = machine(&servers::server(1, core), delivery, asm.finish(&[]));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let times = Times {
        of: [timer, first],
        seen: seen.clone(),
    };
    machine.engine.cores[0].set_probe(0, Box::new(times));
    assert_eq!(servers::run(&mut machine), Ending::Halted);
    machine.engine.cores[0].remove_probes(1 << 40);
    assert_eq!(read(&machine, RESULTS), 2);
    let seen = seen.borrow();
    let [.., set, handled] = seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((set.pc, handled.pc), (timer, first));
    let undone = machine.engine.cores[0].statistics(0).squashed_instructions;
    (handled.dispatched - (set.ended + TIMER), undone)
}

/// With tracking, the handler is fetched at once, and its first instruction is dispatched a front
/// end's length later. With flushing, the delivery begins after that time, and the handler is
/// dispatched after the same time again.
#[test]
fn a_delivery_takes_as_long_as_the_front_end() {
    for core in models() {
        let front_end = u64::from(core.front_end_cycles);
        let (tracked, undone) = delivery_cycles(&core, DeliveryKind::Tracked);
        assert_eq!((tracked, undone), (front_end, 0));
        let (flushing, undone) = delivery_cycles(&core, DeliveryKind::Flushing);
        assert_eq!(flushing, 2 * front_end);
        assert!(undone > 0);
    }
}

/// The address at which the program is interrupted while a load misses: flushing squashes the load,
/// tracked delivery lets it complete.
#[test]
fn flushing_undoes_a_load_that_has_missed() {
    let core = CoreSpec::hyperplane_table1();
    for delivery in KINDS {
        let mut asm = Assembler::new();
        handler(&mut asm, |asm| {
            asm.csr_read(TP, csr::UI_PC.into());
            asm.load_immediate(GP, RESULTS);
            asm.store_double(TP, GP, 0);
        });
        asm.load_immediate(S2, COLD);
        // One line of code, so that fetch does not wait.
        asm.align(64);
        plain(&mut asm, Operation::Set);
        // The load takes more than 100 cycles, and is dispatched some cycles after the timer is
        // set.
        set_timer(&mut asm, 40, 0);
        let load = asm.here();
        asm.load_double(S3, S2, 0);
        asm.add(S4, S3, S3);
        for _ in 0..6 {
            asm.add_immediate(T4, T4, 1);
        }
        asm.fence(RW, RW);
        let fence = asm.here() - 4;
        asm.halt();
        let mut machine = halted(&servers::server(1, &core), delivery, asm.finish(&[]));
        let left_at = match delivery {
            DeliveryKind::Flushing => load,
            // The program has come as far as the fence, which waits for the load.
            DeliveryKind::Tracked => fence,
        };
        assert_eq!(read(&machine, RESULTS), left_at, "{delivery:?}");
        assert_eq!(statistics(&mut machine).delivered, 1);
    }
}

/// A tracked delivery after a mispredicted branch is squashed with the wrong path, and repeated on
/// the right one: once.
#[test]
fn a_delivery_on_a_wrong_path_comes_again() {
    let core = CoreSpec::hyperplane_table1();
    let mut asm = Assembler::new();
    handler(&mut asm, |asm| {
        asm.csr_read(TP, csr::UI_PC.into());
        asm.load_immediate(GP, RESULTS);
        asm.store_double(TP, GP, 8);
        count(asm, RESULTS);
    });
    asm.load_immediate(S2, COLD);
    plain(&mut asm, Operation::Set);
    set_timer(&mut asm, 40, 0);
    asm.load_double(S3, S2, 0);
    // The load gives 0: taken, which the untrained predictor does not expect.
    let right = asm.label();
    asm.branch(When::Equal, S3, ZERO, right);
    for _ in 0..100 {
        asm.add_immediate(T4, T4, 1);
    }
    asm.bind(right);
    let right_path = asm.here();
    for _ in 0..100 {
        asm.add_immediate(T5, T5, 1);
    }
    let end = asm.here();
    asm.halt();
    let spec = servers::server(1, &core);
    let mut machine = halted(&spec, DeliveryKind::Tracked, asm.finish(&[]));
    let statistics = statistics(&mut machine);
    assert_eq!((statistics.delivered, statistics.redelivered), (1, 1));
    assert_eq!(read(&machine, RESULTS), 1);
    let left_at = read(&machine, RESULTS + 8);
    assert!((right_path..end).contains(&left_at), "{left_at:#x}");
}

/// A branch that waits for a load miss is mispredicted. Until it is resolved the timer expires
/// repeatedly, and the program leaves for the handler and returns: all of that is squashed,
/// youngest first. Afterwards the handler has run as often as interrupts were delivered, and the
/// program has lost none of its instructions.
#[test]
fn deliveries_and_returns_on_a_wrong_path_are_undone() {
    const PERIOD: u64 = 29;
    let core = CoreSpec::hyperplane_table1();
    let mut asm = Assembler::new();
    // No CSR access, which would wait for the load.
    handler(&mut asm, |asm| asm.add_immediate(T3, T3, 1));
    asm.load_immediate(S2, COLD);
    plain(&mut asm, Operation::Set);
    // This brings the handler into the instruction cache.
    set_timer(&mut asm, PERIOD, 0);
    delay(&mut asm, 1000);
    asm.align(64);
    set_timer(&mut asm, PERIOD, PERIODIC);
    asm.load_double(S3, S2, 0);
    // The load gives 0: taken, which the untrained predictor does not expect.
    let right = asm.label();
    asm.branch(When::Equal, S3, ZERO, right);
    let wrong = asm.label_here();
    asm.add_immediate(T4, T4, 1);
    asm.jump(wrong);
    asm.bind(right);
    for _ in 0..100 {
        asm.add_immediate(T5, T5, 1);
    }
    plain(&mut asm, Operation::Clear);
    set_timer(&mut asm, 0, 0);
    asm.load_immediate(S4, RESULTS);
    for (place, register) in [T3, T4, T5].into_iter().enumerate() {
        asm.store_double(register, S4, 8 * place as i64);
    }
    asm.halt();
    let spec = servers::server(1, &core);
    let mut machine = halted(&spec, DeliveryKind::Tracked, asm.finish(&[]));
    let results = [0, 8, 16].map(|offset| read(&machine, RESULTS + offset));
    let statistics = statistics(&mut machine);
    assert_eq!(results, [statistics.delivered, 0, 100]);
    // A miss takes longer than three periods.
    assert!(statistics.redelivered >= 3, "{statistics:?}");
}

/// The time from setting the timer to the dispatch of the safepoint after a loop or, if the timer
/// expires in the loop, of the handler's first instruction. Measured the second time, with
/// everything in the caches.
fn reaches_safepoint(core: &CoreSpec, expires: bool) -> u64 {
    let mut asm = Assembler::new();
    let mut first = 0;
    handler(&mut asm, |asm| {
        first = asm.here();
        asm.csr_read(TP, csr::UI_PC.into());
        asm.load_immediate(GP, RESULTS);
        asm.store_double(TP, GP, 0);
    });
    set_csr(&mut asm, csr::UI_SAFEPOINTS, 1);
    plain(&mut asm, Operation::Set);
    asm.add_immediate(S2, ZERO, 2);
    asm.align(64);
    let again = asm.label_here();
    asm.load_immediate(T0, if expires { 100 } else { 0 });
    let timer = asm.here();
    operation(&mut asm, Operation::Timer, ZERO, T0, ZERO);
    // At least a cycle each.
    delay(&mut asm, 400);
    let safepoint = asm.here();
    asm.emit(SAFEPOINT);
    asm.add_immediate(S2, S2, -1);
    asm.branch(When::NotEqual, S2, ZERO, again);
    asm.halt();
    let spec = servers::server(1, core);
    let mut machine = machine(&spec, DeliveryKind::Tracked, asm.finish(&[]));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let times = Times {
        of: [timer, if expires { first } else { safepoint }],
        seen: seen.clone(),
    };
    machine.engine.cores[0].set_probe(0, Box::new(times));
    assert_eq!(servers::run(&mut machine), Ending::Halted);
    machine.engine.cores[0].remove_probes(1 << 40);
    let seen = seen.borrow();
    let [_, _, set, came] = seen[..] else {
        panic!("{seen:?}");
    };
    let left_at = read(&machine, RESULTS);
    assert_eq!(left_at, if expires { safepoint } else { 0 });
    let delivered = statistics(&mut machine).delivered;
    assert_eq!(delivered, if expires { 2 } else { 0 });
    came.dispatched - set.ended
}

/// The program continues until it reaches a safepoint, however long the interrupt has been pending.
/// From the cycle in which that would have been dispatched it takes the front end's length to the
/// handler's first instruction, as for each tracked delivery.
#[test]
fn a_safepoint_is_where_the_program_is_left() {
    for core in models() {
        let reached = reaches_safepoint(&core, false);
        let handled = reaches_safepoint(&core, true);
        assert!(reached > 400, "{reached}");
        assert_eq!(handled, reached + u64::from(core.front_end_cycles));
    }
}

/// A safepoint on a wrong path does not count: the program is interrupted at the next one on the
/// right path. Without the mode a safepoint is an ordinary instruction.
#[test]
fn a_safepoint_on_a_wrong_path_does_not_count() {
    let core = CoreSpec::hyperplane_table1();
    for with_safepoints in [false, true] {
        let mut asm = Assembler::new();
        handler(&mut asm, |asm| {
            asm.csr_read(TP, csr::UI_PC.into());
            asm.load_immediate(GP, RESULTS);
            asm.store_double(TP, GP, 8);
            count(asm, RESULTS);
        });
        asm.load_immediate(S2, COLD);
        set_csr(&mut asm, csr::UI_SAFEPOINTS, with_safepoints.into());
        plain(&mut asm, Operation::Set);
        // Twice: the first time nothing expires and the branch is not taken, which brings the code
        // into the cache and trains the predictor.
        asm.add_immediate(S4, ZERO, 1);
        asm.load_immediate(T0, 0);
        asm.align(64);
        let again = asm.label_here();
        operation(&mut asm, Operation::Timer, ZERO, T0, ZERO);
        asm.load_double(S3, S2, 0);
        let right = asm.label();
        // The load gives 0.
        asm.branch(When::Equal, S3, S4, right);
        // At least 13 cycles of dispatch: the timer expires, and then comes a safepoint, both
        // during the load's miss, which takes more than 100 cycles.
        for _ in 0..100 {
            asm.add_immediate(T4, T4, 1);
        }
        asm.emit(SAFEPOINT);
        asm.bind(right);
        for _ in 0..40 {
            asm.add_immediate(T5, T5, 1);
        }
        let safepoint = asm.here();
        asm.emit(SAFEPOINT);
        asm.load_immediate(T0, 8);
        asm.add_immediate(S2, S2, 64);
        asm.add_immediate(S4, S4, -1);
        asm.branch(When::Equal, S4, ZERO, again);
        let end = asm.here();
        asm.halt();
        let spec = servers::server(1, &core);
        let mut machine = halted(&spec, DeliveryKind::Tracked, asm.finish(&[]));
        assert_eq!(read(&machine, RESULTS), 1);
        let statistics = statistics(&mut machine);
        assert_eq!((statistics.delivered, statistics.redelivered), (1, 1));
        let left_at = read(&machine, RESULTS + 8);
        if with_safepoints {
            assert_eq!(left_at, safepoint);
        } else {
            assert!(left_at < end, "{left_at:#x}");
        }
    }
}

/// A pending interrupt waits for a safepoint and ends a `WFI`, even if the program never reaches
/// one. With flushing delivery there is no such mode.
#[test]
fn without_a_safepoint_nothing_is_delivered() {
    for core in models() {
        for delivery in KINDS {
            let mut asm = Assembler::new();
            handler(&mut asm, |asm| count(asm, RESULTS));
            set_csr(&mut asm, csr::UI_SAFEPOINTS, u64::MAX);
            asm.csr_read(S2, csr::UI_SAFEPOINTS.into());
            plain(&mut asm, Operation::Set);
            set_timer(&mut asm, 100, 5);
            asm.wait_for_interrupt();
            delay(&mut asm, 100);
            asm.csr_read(S3, csr::UI_REQUESTS.into());
            asm.load_immediate(T3, RESULTS);
            asm.store_double(S2, T3, 64);
            asm.store_double(S3, T3, 72);
            // A pending interrupt would keep the hart from halting.
            set_csr(&mut asm, csr::UI_REQUESTS, 0);
            asm.halt();
            let machine = halted(&servers::server(1, &core), delivery, asm.finish(&[]));
            let results = [0, 64, 72].map(|at| read(&machine, RESULTS + at));
            let expected = match delivery {
                DeliveryKind::Flushing => [1, 0, 0],
                DeliveryKind::Tracked => [0, 1, 1 << 5],
            };
            assert_eq!(results, expected, "{delivery:?}");
        }
    }
}

/// The cost per iteration, in cycles, of a place where a program can be interrupted, beside three
/// instructions.
fn place_costs(core: &CoreSpec, body: impl Fn(&mut Assembler)) -> f64 {
    const ITERATIONS: u64 = 1000;
    let run = |body: &dyn Fn(&mut Assembler)| {
        let mut asm = Assembler::new();
        asm.load_immediate(S2, SENT);
        asm.load_double(T0, S2, 0);
        asm.load_immediate(T6, ITERATIONS);
        asm.align(64);
        asm.csr_read(S5, CYCLE);
        let again = asm.label_here();
        body(&mut asm);
        asm.add_immediate(A0, A0, 3);
        asm.add_immediate(T6, T6, -1);
        asm.branch(When::NotEqual, T6, ZERO, again);
        asm.csr_read(S6, CYCLE);
        asm.operate(SUB, S6, S6, S5);
        asm.load_immediate(T1, RESULTS);
        asm.store_double(S6, T1, 0);
        asm.halt();
        let spec = servers::server(1, core);
        read(
            &halted(&spec, DeliveryKind::Tracked, asm.finish(&[])),
            RESULTS,
        )
    };
    (run(&body) as f64 - run(&|_| ()) as f64) / ITERATIONS as f64
}

/// xUI's comparison: a safepoint, a check of a flag in memory, and interrupts that are enabled for
/// a moment. On an in-order core of width 1 a safepoint takes the cycle of an instruction.
#[test]
fn a_safepoint_is_cheaper_than_a_poll() {
    for core in models() {
        let safepoint = place_costs(&core, |asm| asm.emit(SAFEPOINT));
        let poll = place_costs(&core, |asm| {
            let none = asm.label();
            asm.load_double(T0, S2, 0);
            asm.branch(When::Equal, T0, ZERO, none);
            asm.add_immediate(S3, S3, 1);
            asm.bind(none);
        });
        let on_and_off = place_costs(&core, |asm| {
            plain(asm, Operation::Set);
            plain(asm, Operation::Clear);
        });
        // The numbers in docs/user-interrupts.md.
        let costs = [safepoint, poll, on_and_off].map(f64::round);
        let expected = match core.width {
            1 => [1.0, 3.0, 5.0],
            _ => [0.0, 1.0, 6.0],
        };
        assert_eq!(costs, expected);
    }
}

/// While interrupts are disabled they stay pending, and still wake a waiting hart.
#[test]
fn what_is_off_stays_pending() {
    for core in models() {
        for delivery in KINDS {
            let mut asm = Assembler::new();
            handler(&mut asm, |asm| count(asm, RESULTS));
            set_timer(&mut asm, 100, 5);
            asm.wait_for_interrupt();
            asm.load_immediate(T3, RESULTS);
            asm.load_double(S2, T3, 0);
            asm.csr_read(S3, csr::UI_REQUESTS.into());
            operation(&mut asm, Operation::Test, S4, ZERO, ZERO);
            plain(&mut asm, Operation::Set);
            asm.load_double(S5, T3, 0);
            operation(&mut asm, Operation::Test, S6, ZERO, ZERO);
            plain(&mut asm, Operation::Clear);
            operation(&mut asm, Operation::Test, S7, ZERO, ZERO);
            for (place, register) in [S2, S3, S4, S5, S6, S7].into_iter().enumerate() {
                asm.store_double(register, T3, 64 + 8 * place as i64);
            }
            asm.halt();
            let machine = halted(&servers::server(1, &core), delivery, asm.finish(&[]));
            let result = |place: u64| read(&machine, RESULTS + 64 + 8 * place);
            let all: Vec<u64> = (0..6).map(result).collect();
            assert_eq!(all, [0, 1 << 5, 0, 1, 1, 0], "{delivery:?}");
        }
    }
}

/// A handler is not interrupted before `uiret`, and interrupts that arrive meanwhile are delivered
/// once.
#[test]
fn handlers_do_not_nest() {
    for core in models() {
        for delivery in KINDS {
            let mut asm = Assembler::new();
            handler(&mut asm, |asm| {
                // The current depth and the maximum depth; the handler stays for four periods. The
                // third one stops the timer.
                asm.load_immediate(GP, RESULTS);
                asm.load_double(TP, GP, 0);
                asm.add_immediate(TP, TP, 1);
                asm.store_double(TP, GP, 0);
                asm.load_double(A0, GP, 8);
                asm.operate(OR, A0, A0, TP);
                asm.store_double(A0, GP, 8);
                delay(asm, 1200);
                asm.load_double(TP, GP, 0);
                asm.add_immediate(TP, TP, -1);
                asm.store_double(TP, GP, 0);
                count(asm, RESULTS + 16);
                asm.load_double(TP, GP, 0);
                asm.add_immediate(TP, TP, -3);
                let goes_on = asm.label();
                asm.branch(When::Less, TP, ZERO, goes_on);
                operation(asm, Operation::Timer, ZERO, ZERO, ZERO);
                asm.bind(goes_on);
            });
            plain(&mut asm, Operation::Set);
            set_timer(&mut asm, 300, PERIODIC | 63);
            asm.load_immediate(S2, RESULTS);
            asm.add_immediate(S3, ZERO, 3);
            let again = asm.label_here();
            asm.load_double(S4, S2, 16);
            asm.branch(When::Less, S4, S3, again);
            asm.halt();
            let mut machine = halted(&servers::server(1, &core), delivery, asm.finish(&[]));
            assert_eq!(read(&machine, RESULTS), 0);
            assert_eq!(read(&machine, RESULTS + 8), 1);
            let statistics = statistics(&mut machine);
            assert_eq!(statistics.delivered, read(&machine, RESULTS + 16));
            // An iteration of `delay` takes at least a cycle: four periods and more pass in a
            // handler.
            assert!(
                statistics.timers >= 4 * statistics.delivered - 4,
                "{statistics:?}"
            );
        }
    }
}

/// Hart 1 posts vectors 3, 7, 3 and 3 while hart 0 takes no interrupts: one notification, and two
/// deliveries, the higher vector first.
#[test]
fn vectors_that_are_pending_are_one() {
    for core in models() {
        for delivery in KINDS {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(S2, SENT);
                if hart == 0 {
                    handler(asm, |asm| {
                        // Appends the vector, as eight bits.
                        asm.load_immediate(GP, RESULTS);
                        asm.load_double(TP, GP, 0);
                        asm.shift_left(TP, TP, 8);
                        asm.csr_read(A0, csr::UI_VECTOR.into());
                        asm.add(TP, TP, A0);
                        asm.store_double(TP, GP, 0);
                    });
                    receive(asm, 0);
                    asm.add_immediate(T0, ZERO, 1);
                    asm.fence(RW, RW);
                    asm.store_double(T0, S2, 0);
                    let again = asm.label_here();
                    asm.load_double(T0, S2, 64);
                    asm.branch(When::Equal, T0, ZERO, again);
                    plain(asm, Operation::Set);
                    delay(asm, 10);
                } else {
                    send_to(asm, &[3, 7]);
                    let again = asm.label_here();
                    asm.load_double(T0, S2, 0);
                    asm.branch(When::Equal, T0, ZERO, again);
                    for index in [0, 1, 0, 0] {
                        send(asm, index);
                    }
                    delay(asm, 500);
                    asm.add_immediate(T0, ZERO, 1);
                    asm.store_double(T0, S2, 64);
                }
                asm.halt();
            });
            let mut machine = halted(&servers::server(2, &core), delivery, asm.finish(&[]));
            assert_eq!(read(&machine, RESULTS), 7 << 8 | 3);
            let expected = Statistics {
                sent: 4,
                notifications: 1,
                delivered: 2,
                ..Statistics::default()
            };
            assert_eq!(statistics(&mut machine), expected);
            // No notification is outstanding, and no vector is posted.
            assert_eq!(read(&machine, DESCRIPTOR), NOTIFICATION << 16);
            assert_eq!(read(&machine, DESCRIPTOR + 8), 0);
        }
    }
}

/// Hart 1 and the others count, and send an interrupt, after delays with these numbers of
/// iterations; hart 0 sleeps whenever it has seen all counts so far, and ends when it has seen the
/// final ones. A lost interrupt would let it sleep for ever. In addition it computes for a while
/// between interrupts, with misses and mispredictions.
fn waits_for_all(senders: &[Vec<u16>], work: u64) -> Image {
    let all: usize = senders.iter().map(Vec::len).sum();
    let mut asm = Assembler::new();
    asm.harts(1 + senders.len(), |asm, hart| {
        asm.load_immediate(S2, SENT);
        if hart == 0 {
            handler(asm, |asm| count(asm, RESULTS));
            receive(asm, 0);
            asm.add_immediate(T0, ZERO, 1);
            asm.fence(RW, RW);
            asm.store_double(T0, S2, 64);
            asm.load_immediate(S3, all as u64);
            asm.load_immediate(S5, COLD);
            let again = asm.label_here();
            let done = asm.label();
            plain(asm, Operation::Set);
            // Work that can be interrupted.
            asm.load_immediate(T6, work + 1);
            let working = asm.label_here();
            asm.load_double(T0, S5, 0);
            asm.add_immediate(S5, S5, 64);
            asm.add(T0, T0, T6);
            asm.and_immediate(T0, T0, 4);
            let skip = asm.label();
            asm.branch(When::Equal, T0, ZERO, skip);
            asm.add_immediate(S6, S6, 1);
            asm.bind(skip);
            asm.add_immediate(T6, T6, -1);
            asm.branch(When::NotEqual, T6, ZERO, working);
            plain(asm, Operation::Clear);
            asm.load_double(T0, S2, 0);
            asm.branch(When::Equal, T0, S3, done);
            // It sleeps if it has slept at this count before, otherwise it checks again.
            let awake = asm.label();
            asm.branch(When::NotEqual, T0, S4, awake);
            asm.wait_for_interrupt();
            asm.bind(awake);
            asm.copy(S4, T0);
            asm.jump(again);
            asm.bind(done);
            // Interrupts still in flight.
            plain(asm, Operation::Set);
            delay(asm, 2000);
            asm.halt();
        } else {
            send_to(asm, &[hart as u64]);
            let ready = asm.label_here();
            asm.load_double(T0, S2, 64);
            asm.branch(When::Equal, T0, ZERO, ready);
            for &iterations in &senders[hart - 1] {
                delay(asm, iterations.into());
                asm.add_immediate(T0, ZERO, 1);
                asm.amo(AMO_ADD, RELAXED, 8, ZERO, T0, S2);
                send(asm, 0);
            }
            asm.halt();
        }
    });
    asm.finish(&[])
}

/// Whatever the timing, no interrupt is lost; and the run is the same however it is simulated.
fn nothing_is_lost(core: &CoreSpec, cases: u32) {
    let delays = || prop::collection::vec(prop_oneof![0u16..8, 0u16..400], 0..12);
    let senders = prop::collection::vec(delays(), 1..4);
    let strategy = (
        senders,
        0u64..12,
        prop::sample::select(KINDS.to_vec()),
        1u64..60,
        (any::<bool>(), any::<bool>()),
    );
    check(cases, &strategy, |(senders, work, delivery, step, how)| {
        let (fast, two_sockets) = how;
        let mut spec = servers::server(1 + senders.len(), core);
        if two_sockets && spec.fabric.cores.is_multiple_of(2) {
            spec.fabric.sockets = 2;
        }
        if fast {
            // Notifications arrive as early as possible.
            spec.fabric.mesh.hop_latency_cycles = 1;
            spec.fabric.last_level.latency_cycles = 1;
            spec.fabric.forward_latency_cycles = 1;
            spec.core.l1_data.hit_latency_cycles = 1;
            spec.core.l1_instruction.hit_latency_cycles = 1;
        }
        let image = waits_for_all(&senders, work);
        let sent: u64 = senders.iter().map(|sender| sender.len() as u64).sum();
        let end = |machine: &mut Machine| {
            let cores = machine.engine.cores.iter();
            let cores: Vec<_> = cores.map(|core| core.statistics(1 << 40)).collect();
            (statistics(machine), cores, read(machine, RESULTS))
        };
        let mut outcomes = Vec::new();
        for (lookahead_cycles, skip_spinning) in [(1, false), (0, true)] {
            let mut machine = machine(&spec, delivery, image.clone());
            machine.engine.set_speed(lookahead_cycles, skip_spinning);
            let ending = servers::run(&mut machine);
            prop_assert_eq!(&ending, &Ending::Halted);
            prop_assert_eq!(read(&machine, SENT), sent);
            prop_assert_eq!(read(&machine, DESCRIPTOR + 8), 0);
            outcomes.push(end(&mut machine));
        }
        // Saved and restored every few steps.
        let mut saving = machine(&spec, delivery, image.clone());
        let ending = servers::run_with(&mut saving, |one, number| {
            if number % step == step - 1 {
                let saved = one.save().expect("the state can be written down");
                let mut other = machine(&spec, delivery, image.clone());
                other.restore(&saved).expect("the state fits");
                *one = other;
            }
        });
        prop_assert_eq!(&ending, &Ending::Halted);
        outcomes.push(end(&mut saving));
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
        prop_assert_eq!(&outcomes[0], &outcomes[2]);
        let (statistics, _, handled) = &outcomes[0];
        prop_assert_eq!(statistics.sent, sent);
        prop_assert_eq!(statistics.delivered, *handled);
        prop_assert!(statistics.delivered <= sent);
        Ok(())
    });
}

#[test]
fn nothing_is_lost_on_out_of_order_cores() {
    nothing_is_lost(&CoreSpec::hyperplane_table1(), 40);
}

#[test]
fn nothing_is_lost_on_in_order_cores() {
    nothing_is_lost(&CoreSpec::five_stage(), 40);
}

#[test]
fn nothing_is_lost_on_cores_with_two_harts() {
    nothing_is_lost(&servers::with_threads(2, CoreSpec::hyperplane_table1()), 40);
}

/// A device that interrupts at fixed times, from its source 9.
struct Bell {
    controller: AgentId,
    times: Vec<Time>,
}

state::unsaved!(Bell);

impl Agent for Bell {
    fn name(&self) -> String {
        "bell".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        if let RequestKind::Write { .. } = request.kind {
            for &time in &self.times {
                context.wake(context.now() + time, 0);
            }
        }
        context.reply(request.reply_to, 0, Time::ZERO);
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        let message = AgentMessage {
            header: 9,
            data: LineData::ZERO,
        };
        context.send(self.controller, 4, message);
    }
}

const BELL: u64 = 0x4000_0000;

/// A device's interrupt arrives through memory or directly at the hart.
#[test]
fn devices_interrupt() {
    for core in models() {
        for forwarding in [false, true] {
            let mut asm = Assembler::new();
            handler(&mut asm, |asm| {
                asm.load_immediate(GP, RESULTS);
                asm.csr_read(TP, csr::UI_VECTOR.into());
                asm.store_double(TP, GP, 64);
                count(asm, RESULTS);
            });
            receive(&mut asm, 0);
            send_to(&mut asm, &[11]);
            asm.add_immediate(T0, ZERO, 9);
            operation(&mut asm, Operation::Route, ZERO, T0, ZERO);
            plain(&mut asm, Operation::Set);
            asm.load_immediate(T0, BELL);
            asm.store_double(ZERO, T0, 0);
            asm.halt();
            let spec = servers::server(1, &core);
            let interrupts = UserInterruptSpec {
                forwarding,
                ..UserInterruptSpec::default()
            };
            let built = Machine::new(&spec, asm.finish(&[]), &[], false, |fabric| {
                let (controller, extension) =
                    user_interrupts::attach(fabric, &spec.fabric, &interrupts)?;
                let bell = Bell {
                    controller,
                    times: [2000.0, 3000.0, 3001.0].map(Time::from_ns).to_vec(),
                };
                let owns = Some(fabric::AddressRange {
                    start: BELL,
                    length: 64,
                });
                fabric.attach(
                    Box::new(bell),
                    Attachment {
                        owns,
                        ..Attachment::default()
                    },
                )?;
                Ok(Box::new(extension))
            });
            let mut machine = built.expect("the machine can be built");
            assert_eq!(servers::run(&mut machine), Ending::Halted);
            assert_eq!(read(&machine, RESULTS + 64), 11);
            let statistics = statistics(&mut machine);
            // The two interrupts within a nanosecond are merged, or are handled one after the
            // other.
            let handled = read(&machine, RESULTS);
            assert!((2..=3).contains(&handled), "{handled}");
            assert_eq!(statistics.delivered, handled);
            let (forwarded, posted) = (statistics.forwarded, statistics.posted);
            assert_eq!(
                (forwarded, posted),
                if forwarding { (3, 0) } else { (0, 3) }
            );
        }
    }
}

const NIC: u64 = 0x1030_0000;
const RING: u64 = 0x8010_4040;
const BUFFER: u64 = 0x8010_5080;

/// The time, in nanoseconds (which are cycles), from the arrival of a frame of 72 bytes at a
/// network interface behind PCI Express to the dispatch of the handler's first instruction.
///
/// The last hart sleeps. The second frame is measured: the first one has brought handler, buffer
/// and descriptor to where they are used.
fn interrupted_by_a_frame_after(spec: &ServerSpec, interrupts: &UserInterruptSpec) -> f64 {
    let hart = spec.fabric.cores - 1;
    const FRAMES_NS: [u64; 2] = [20_000, 40_000];
    let mut asm = Assembler::new();
    let mut first = 0;
    asm.harts(spec.fabric.cores, |asm, number| {
        if number < hart {
            return asm.halt();
        }
        handler(asm, |asm| {
            first = asm.here();
            count(asm, RESULTS);
        });
        receive(asm, hart as u64);
        send_to(asm, &[11]);
        operation(asm, Operation::Route, ZERO, ZERO, ZERO);
        // Four descriptors of one buffer.
        asm.load_immediate(S0, NIC + 0x1000);
        asm.load_immediate(S1, RING);
        asm.load_immediate(S2, BUFFER);
        asm.load_immediate(S3, 2048);
        for place in 0..4 {
            asm.store_double(S2, S1, 16 * place);
            asm.store_double(S3, S1, 16 * place + 8);
        }
        asm.fence(RW | O, RW | O);
        asm.add_immediate(T0, ZERO, 4);
        asm.store_double(S1, S0, 0x00);
        asm.store_double(T0, S0, 0x08);
        asm.store_double(T0, S0, 0x10);
        plain(asm, Operation::Set);
        asm.align(64);
        for taken in 0..2 {
            asm.add_immediate(T0, ZERO, taken);
            asm.store_double(T0, S0, 0x48);
            asm.wait_for_interrupt();
        }
        asm.halt();
    });
    let mut nic = AgentId(0);
    let built = Machine::new(spec, asm.finish(&[]), &[], false, |fabric| {
        let (controller, extension) = user_interrupts::attach(fabric, &spec.fabric, interrupts)?;
        let described = DmaNicSpec {
            express: ExpressSpec {
                rate_gbit_per_s: 64.0,
                ..ExpressSpec::default()
            },
            ..DmaNicSpec::default()
        };
        let mut one = DmaNic::new(&described, NIC)?;
        one.connect(0x0a00_0001, LineRate::from_gbit_per_s(200.0));
        one.connect_interrupts(controller);
        let attachment = one.attachment(0);
        nic = fabric.attach(Box::new(one), attachment)?;
        Ok(Box::new(extension))
    });
    let mut machine = built.expect("the machine can be built");
    let fabric = &mut machine.engine.fabric;
    for number in FRAMES_NS {
        let host = |address| Endpoint { address, port: 0 };
        let packet = Packet {
            from: host(0x0a00_0002),
            to: host(0x0a00_0001),
            routed_to: None,
            padding: 0,
            ecn: 0,
            header: TransportHeader {
                flags: DATA,
                ..TransportHeader::default()
            },
            priority: 0,
            payload: vec![0; 8],
            tag: number,
        };
        let at = Time::from_ns(number as f64);
        let one: &mut DmaNic = fabric.agent_mut(nic).unwrap();
        let token = one.receive(0, at, packet);
        fabric.wake_agent(nic, at, token);
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let times = Times {
        of: [first; 2],
        seen: seen.clone(),
    };
    machine.engine.cores[hart].set_probe(0, Box::new(times));
    assert_eq!(servers::run(&mut machine), Ending::Halted);
    machine.engine.cores[hart].remove_probes(1 << 40);
    assert_eq!(read(&machine, RESULTS), 2);
    assert_eq!(statistics(&mut machine).delivered, 2);
    let seen = seen.borrow();
    (seen[1].dispatched - FRAMES_NS[1]) as f64
}

/// The MAC takes 26; 24 + 72 bytes go up at 8 bytes in a nanosecond, and take 250. The first line
/// of the frame is written in the bank's time and two hops on the tile, and the second one a cycle
/// later; then the descriptor, which has arrived meanwhile, and the interrupt after it. The
/// interrupt takes a hop to the controller, and from there the time of a notice, the minimum for a
/// delivery to a core: the latency of an answer, and a hop. WFI ends, the delivery begins in the
/// next cycle, and the handler is dispatched a front end's length later.
#[test]
fn an_interface_behind_pci_express_interrupts() {
    for mut core in models() {
        // The lines that the hart used last stay in its cache.
        core.l1_data.replacement = Replacement::Lru;
        let mut spec = servers::server(1, &core);
        spec.fabric.clock_ghz = 1.0;
        let fabric = &spec.fabric;
        let way = fabric.mesh.local_latency_cycles as f64;
        let write = fabric.last_level.latency_cycles as f64 + 2.0 * way;
        let answer = fabric
            .last_level
            .latency_cycles
            .min(fabric.forward_latency_cycles) as f64;
        let up = 26.0 + (24.0 + 72.0) / 8.0 + 250.0;
        let raised = up + (write + 1.0) + write + way;
        let delivered = answer + way + 1.0 + f64::from(core.front_end_cycles);
        let interrupts = UserInterruptSpec::default();
        let one_socket = interrupted_by_a_frame_after(&spec, &interrupts);
        assert_eq!(one_socket, raised + delivered);
        // To the other socket: a hop on the tile of the link, 16 bytes over it and its latency, up
        // to the next cycle, and a hop on the tile at its other end.
        spec.fabric.cores = 2;
        spec.fabric.sockets = 2;
        let link = &spec.fabric.socket_link;
        // Up to the next cycle of the other socket's mesh.
        let over = |bytes: f64| (bytes / link.bandwidth_gb_per_s + link.latency_ns).ceil();
        let crossing = over(16.0) + 2.0 * way;
        // A hop on the tile within a socket becomes one on the tile at either end of the link.
        let (request, data) = (over(8.0) + way, over(72.0) + way);
        let two_sockets = interrupted_by_a_frame_after(&spec, &interrupts);
        assert_eq!(two_sockets, one_socket + crossing);
        // A posted interrupt crosses five times: the controller requests the descriptor, which the
        // hart used last, and gets it; the notice; the hart requests it, and gets it.
        let posting = UserInterruptSpec {
            forwarding: false,
            ..interrupts
        };
        let posted = interrupted_by_a_frame_after(&spec, &posting);
        spec.fabric.cores = 1;
        spec.fabric.sockets = 1;
        let near = interrupted_by_a_frame_after(&spec, &posting);
        assert!(near > one_socket, "{near} {one_socket}");
        assert_eq!(posted - near, 2.0 * (request + data) + crossing);
    }
}

#[test]
fn instructions_that_make_no_sense_are_illegal() {
    let core = CoreSpec::five_stage();
    let spec = servers::server(1, &core);
    // No table; and an operation that does not exist.
    for bits in [
        r_type((0x2b, 0, Operation::Send as u32), ZERO, ZERO, ZERO),
        r_type((0x2b, 0, 127), ZERO, ZERO, ZERO),
        r_type((0x2b, 1, 0), ZERO, ZERO, ZERO),
    ] {
        let mut asm = Assembler::new();
        asm.emit(bits);
        let mut machine = machine(&spec, DeliveryKind::Tracked, asm.finish(&[]));
        let Ending::Failed(text) = servers::run(&mut machine) else {
            panic!("it does not crash");
        };
        assert!(text.contains("llegal"), "{text}");
    }
}

/// The source of the interrupts of [`cost_cycles`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    None,
    /// The hart's own timer.
    Timer,
    /// `senduipi` of another hart.
    Hart,
}

/// Cycles that an interrupt costs a program that computes, or that waits for one miss after the
/// other (`misses`), with an empty handler: the mean of some 40 on a chip of 16 cores.
fn cost_cycles(delivery: DeliveryKind, source: Source, misses: bool) -> f64 {
    const PERIOD: u64 = 2003;
    let run = |source: Source| {
        let mut asm = Assembler::new();
        asm.harts(16, |asm, hart| {
            asm.load_immediate(S2, SENT);
            if hart == 0 {
                handler(asm, |_| {});
                receive(asm, 0);
                plain(asm, Operation::Set);
                asm.load_immediate(S3, COLD);
                asm.add_immediate(T0, ZERO, 1);
                asm.store_double(T0, S2, 0);
                // By then the other hart has begun.
                delay(asm, 20_000);
                if source == Source::Timer {
                    set_timer(asm, PERIOD, PERIODIC);
                }
                asm.csr_read(S5, CYCLE);
                asm.load_immediate(T6, if misses { 700 } else { 20_000 });
                let again = asm.label_here();
                if misses {
                    // The next address depends on the loaded value, which is 0.
                    asm.load_double(T0, S3, 0);
                    asm.add(S3, S3, T0);
                    asm.add_immediate(S3, S3, 64);
                } else {
                    for register in [A0, A1, A2, A3] {
                        asm.operate(MUL, register, register, T6);
                        asm.add_immediate(register, register, 3);
                    }
                }
                asm.add_immediate(T6, T6, -1);
                asm.branch(When::NotEqual, T6, ZERO, again);
                asm.csr_read(S6, CYCLE);
                // Interrupts stay enabled: a pending one would keep the hart from halting.
                set_timer(asm, 0, 0);
                asm.add_immediate(T0, ZERO, 2);
                asm.store_double(T0, S2, 0);
                asm.operate(SUB, S6, S6, S5);
                asm.load_immediate(T1, RESULTS);
                asm.store_double(S6, T1, 0);
            } else if hart == 15 && source == Source::Hart {
                send_to(asm, &[1]);
                let ready = asm.label_here();
                asm.load_double(T0, S2, 0);
                asm.branch(When::Equal, T0, ZERO, ready);
                asm.add_immediate(S4, ZERO, 2);
                let again = asm.label_here();
                asm.csr_read(S5, CYCLE);
                send(asm, 0);
                asm.csr_read(S6, CYCLE);
                delay(asm, PERIOD - 200);
                asm.load_double(T0, S2, 0);
                asm.branch(When::NotEqual, T0, S4, again);
                asm.operate(SUB, S6, S6, S5);
                asm.load_immediate(T1, RESULTS);
                asm.store_double(S6, T1, 64);
            }
            asm.halt();
        });
        let spec = servers::server(16, &CoreSpec::hyperplane_table1());
        let mut spec = spec;
        spec.fabric.mesh.columns = 4;
        spec.fabric.mesh.rows = 4;
        let mut machine = halted(&spec, delivery, asm.finish(&[]));
        let sending = read(&machine, RESULTS + 64);
        (read(&machine, RESULTS), statistics(&mut machine), sending)
    };
    let (without, _, _) = run(Source::None);
    let (with, statistics, sending) = run(source);
    // Those of hart 15 begin before the clock is read.
    let before = if source == Source::Hart {
        20_000 / PERIOD
    } else {
        0
    };
    let counted = statistics.delivered - before;
    let cost = (with - without) as f64 / counted as f64;
    eprintln!(
        "{delivery:?} {source:?} misses {misses}: {cost:.1} cycles each of {counted}, \
         {without} without; the last senduipi took {sending} cycles"
    );
    cost
}

/// Tracked delivery costs a computing program less than flushing does, and a few tens of cycles
/// without a descriptor. If all instructions wait for a miss, both cost less than the miss, which
/// proceeds meanwhile.
#[test]
fn tracked_delivery_costs_less() {
    for source in [Source::Timer, Source::Hart] {
        let [flushing, tracked] = KINDS.map(|kind| cost_cycles(kind, source, false));
        assert!(tracked < flushing, "{source:?}");
        assert!(source == Source::Hart || tracked < 40.0, "{tracked}");
        for kind in KINDS {
            let cost = cost_cycles(kind, source, true);
            assert!(cost < 200.0, "{kind:?}: {cost}");
        }
    }
}
