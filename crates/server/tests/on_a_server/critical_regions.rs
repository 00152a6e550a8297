//! Random programs that get packets, with and without critical regions on the interface: what is
//! executed there changes nothing in memory.

use crate::common::assembler::*;
use crate::common::cases::check;
use crate::common::servers::{
    Ending, run, server, with_second_level, with_small_caches, with_threads,
};
use critical_region::{HartProbe, Listener, Observer, OffloadSpec, SharedObserver, Sizes};
use fabric::{AgentId, Attachment, LineAddress, LineData, Time};
use network::packet::{DATA, Endpoint, Packet, TransportHeader};
use network::rack::{Interface, LineRate};
use pcie::{
    DmaNic, DmaNicSpec, INTERFACE_MAP, INTERFACE_REGISTERS, ProcessorsSpec, ProcessorsStatistics,
};
use pipeline::{CoreSpec, NoExtension};
use proptest::prelude::*;
use riscv::elf::Image;
use server::{Machine, ServerSpec};
use std::cell::Cell;

const REGISTERS: u64 = 0x1001_6000;
const BUFFERS: u64 = 0x8020_0000;
const BUFFER_BYTES: u64 = 2048;
const RING: u64 = 0x8030_0000;
/// Words with addresses of the table: chains lead through it.
const TABLE: u64 = 0x8040_0000;
const TABLE_BYTES: u64 = 0x4000;
const RESULTS: u64 = 0x8050_0000;
/// Where the payload begins in a frame.
const PAYLOAD: i64 = 64;
/// As many as there are buffers, which the ring has a power of two of.
const FRAMES: u64 = 32;
/// Blocks and code of a core of the host, as the listener writes them.
const SLOT_BYTES: u64 = 64 + 16 * 512;

fn packet(number: u64) -> Packet {
    let host = |address| Endpoint { address, port: 0 };
    Packet {
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
        payload: number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes()
            .to_vec(),
        tag: number,
    }
}

/// Firmware that notes each frame's word, delivers the frame, and runs the regions of core 0 with
/// that word as what a user routine returns, as guest/firmware/critical-regions.c does.
fn firmware() -> Vec<u8> {
    let register = |name: &str| {
        let found = INTERFACE_REGISTERS.iter().find(|(one, _)| *one == name);
        found.unwrap().1 as i64
    };
    let [(_, scratchpad), (_, registers), (_, frame)] = INTERFACE_MAP;
    let mut asm = Assembler::new();
    let write = |asm: &mut Assembler, name: &str, from| asm.store_double(from, S0, register(name));
    asm.load_immediate(S0, registers);
    asm.load_immediate(S1, scratchpad + 0x8000);
    asm.load_immediate(S2, frame);
    asm.load_double(S3, S0, register("CORE"));
    asm.shift_left(S3, S3, 6);
    asm.load_immediate(S4, scratchpad + 0x2_0000);
    asm.add(S4, S4, S3);
    asm.load_immediate(T0, SLOT_BYTES);
    write(&mut asm, "WINDOW", S1);
    write(&mut asm, "WINDOW_BYTES", T0);
    write(&mut asm, "STEER", ZERO);
    let next = asm.label_here();
    asm.load_double(ZERO, S0, register("NEXT"));
    asm.load_double(T0, S2, PAYLOAD);
    asm.store_double(T0, S4, 0);
    write(&mut asm, "NOTE", ZERO);
    write(&mut asm, "NOTE", T0);
    write(&mut asm, "DELIVER", ZERO);
    asm.load_double(S5, S1, 0);
    asm.and_immediate(S6, S5, 0xff);
    let regions = asm.label_here();
    asm.branch(When::Equal, S6, ZERO, next);
    asm.add_immediate(S6, S6, -1);
    asm.shift_right(S5, S5, 8);
    asm.and_immediate(T0, S5, 0xff);
    asm.shift_left(T0, T0, 9);
    asm.add(T0, T0, S1);
    asm.add_immediate(T0, T0, 64);
    write(&mut asm, "RUN_ARGUMENT", S4);
    asm.load_double(T1, S1, 8);
    write(&mut asm, "RUN_BUDGET", T1);
    write(&mut asm, "RUN", T0);
    asm.load_double(ZERO, S0, register("RUN_ENDED"));
    asm.jump(regions);
    let mut image = asm.finish(&[]);
    image.entry = scratchpad;
    for segment in &mut image.segments {
        (segment.address, segment.virtual_address) = (scratchpad, scratchpad);
    }
    elf(&image)
}

/// What a procedure does. Registers are some of [`USED`].
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A load of the table, from where a register points to, modulo its size.
    Load(usize, usize),
    /// A load of a chain: a register has an address of the table, or the step does nothing.
    Follow(usize, i64),
    /// A store to the table.
    Store(usize, usize),
    Add(usize, usize, usize),
    Xor(usize, usize, usize),
    Shift(usize, usize, i64),
    Immediate(usize, usize, i64),
    /// The next so many steps are passed over if two registers are not equal.
    Skip(usize, usize, usize),
    /// The last so many steps are done again, a few times.
    Repeat(usize),
    /// The inner procedure.
    Call,
}

const USED: [Register; 8] = [A0, A1, A2, T1, T2, S2, S3, T3];

fn any_step() -> impl Strategy<Value = Step> {
    let register = || 0..USED.len();
    prop_oneof![
        4 => (register(), register()).prop_map(|(to, from)| Step::Load(to, from)),
        4 => (register(), 0..8i64).prop_map(|(of, word)| Step::Follow(of, 8 * word)),
        2 => (register(), register()).prop_map(|(what, at)| Step::Store(what, at)),
        2 => (register(), register(), register()).prop_map(|(to, a, b)| Step::Add(to, a, b)),
        1 => (register(), register(), register()).prop_map(|(to, a, b)| Step::Xor(to, a, b)),
        1 => (register(), register(), 1..8i64).prop_map(|(to, of, by)| Step::Shift(to, of, by)),
        1 => (register(), register(), -64..64i64)
            .prop_map(|(to, of, with)| Step::Immediate(to, of, with)),
        2 => (register(), register(), 1..4usize).prop_map(|(a, b, steps)| Step::Skip(a, b, steps)),
        1 => (1..5usize).prop_map(Step::Repeat),
        1 => Just(Step::Call),
    ]
}

/// The code of a procedure; `T6` is scratch, `S8` and `S9` are the table and the mask of its
/// offsets, `S10` counts repetitions.
fn procedure(asm: &mut Assembler, steps: &[Step], inner: Option<Label>) {
    let register = |number: usize| USED[number];
    let point = |asm: &mut Assembler, from: usize| {
        asm.operate(AND, T6, register(from), S9);
        asm.add(T6, T6, S8);
    };
    let starts: Vec<Label> = steps.iter().map(|_| asm.label()).collect();
    let end = asm.label();
    asm.load_immediate(S10, 12);
    // All that a region reads begins in the procedure: with constants, or with arguments.
    asm.load_immediate(S8, TABLE);
    asm.load_immediate(S9, TABLE_BYTES - 64);
    for (to, argument) in [(T1, A0), (T2, A1), (S2, A2), (S3, A0), (T3, A1)] {
        asm.copy(to, argument);
    }
    for (place, &step) in steps.iter().enumerate() {
        asm.bind(starts[place]);
        match step {
            Step::Load(to, from) => {
                point(asm, from);
                asm.load_double(register(to), T6, 0);
            }
            Step::Follow(of, offset) => {
                // An address of the table is one of its lines.
                let other = asm.label();
                asm.operate(XOR, T6, register(of), S8);
                asm.operate(AND, T5, T6, S9);
                asm.branch(When::NotEqual, T5, T6, other);
                asm.load_double(register(of), register(of), offset);
                asm.bind(other);
            }
            Step::Store(what, at) => {
                point(asm, at);
                asm.store_double(register(what), T6, 0);
            }
            Step::Add(to, a, b) => asm.add(register(to), register(a), register(b)),
            Step::Xor(to, a, b) => asm.operate(XOR, register(to), register(a), register(b)),
            Step::Shift(to, of, by) => asm.shift_right(register(to), register(of), by),
            Step::Immediate(to, of, with) => asm.add_immediate(register(to), register(of), with),
            Step::Skip(a, b, steps) => {
                let to = starts.get(place + 1 + steps).copied().unwrap_or(end);
                asm.branch(When::NotEqual, register(a), register(b), to);
            }
            Step::Repeat(back) => {
                let over = asm.label();
                asm.branch(When::Equal, S10, ZERO, over);
                asm.add_immediate(S10, S10, -1);
                asm.jump(starts[place.saturating_sub(back)]);
                asm.bind(over);
            }
            Step::Call => {
                if let Some(inner) = inner {
                    asm.copy(S11, S10);
                    asm.call(RA, inner);
                    asm.copy(S10, S11);
                }
            }
        }
    }
    asm.bind(end);
}

/// A program that waits for each frame and calls a procedure with its word, some times. What the
/// registers have in the end is in memory.
fn program((outer, inner): &(Vec<Step>, Vec<Step>)) -> Image {
    let mut asm = Assembler::new();
    let (of_outer, of_inner) = (asm.label(), asm.label());
    asm.harts(1, |asm, _| {
        asm.load_immediate(S0, REGISTERS + 0x1000);
        asm.load_immediate(S1, RING);
        asm.load_immediate(T0, FRAMES);
        asm.store_double(S1, S0, 0x00);
        asm.store_double(T0, S0, 0x08);
        asm.store_double(T0, S0, 0x10);
        asm.load_immediate(S8, TABLE);
        asm.load_immediate(S9, TABLE_BYTES - 64);
        asm.load_immediate(S4, 0);
        asm.load_immediate(S5, BUFFERS);
        asm.load_immediate(S6, RESULTS);
        for register in USED {
            asm.copy(register, S8);
        }
        let next = asm.label_here();
        // The word of the descriptor that says that it is done.
        let wait = asm.label_here();
        asm.load(2, false, T0, S1, 10);
        asm.branch(When::Equal, T0, ZERO, wait);
        asm.fence(RW, RW);
        asm.load_immediate(S7, 6);
        let again = asm.label_here();
        asm.load_double(A0, S5, PAYLOAD);
        asm.call(RA, of_outer);
        asm.add_immediate(S7, S7, -1);
        asm.branch(When::NotEqual, S7, ZERO, again);
        for register in USED {
            asm.store_double(register, S6, 0);
            asm.add_immediate(S6, S6, 8);
        }
        asm.add_immediate(S1, S1, 16);
        asm.load_immediate(T0, BUFFER_BYTES);
        asm.add(S5, S5, T0);
        asm.add_immediate(S4, S4, 1);
        asm.load_immediate(T0, FRAMES);
        asm.branch(When::NotEqual, S4, T0, next);
        asm.halt();
    });
    asm.align(64);
    asm.bind(of_outer);
    asm.copy(S0, RA);
    procedure(&mut asm, outer, Some(of_inner));
    asm.jump_register(ZERO, S0, 0);
    asm.align(64);
    asm.bind(of_inner);
    procedure(&mut asm, inner, None);
    asm.jump_register(ZERO, RA, 0);
    let mut ring = Vec::new();
    for place in 0..FRAMES {
        ring.extend((BUFFERS + BUFFER_BYTES * place).to_le_bytes());
        ring.extend(BUFFER_BYTES.to_le_bytes());
    }
    // Each word leads to some line: 37 is odd, so that the lines are all of them.
    let lines = TABLE_BYTES / 64;
    let table = (0..TABLE_BYTES / 8).map(|word| TABLE + (37 * word + word / 8 + 11) % lines * 64);
    let table = table.flat_map(u64::to_le_bytes).collect();
    asm.finish(&[(RING, ring), (TABLE, table)])
}

/// A machine with the interface and its firmware, and, if they are `offloaded`, what finds regions.
fn machine(spec: &ServerSpec, image: Image, offload: Option<&OffloadSpec>) -> (Machine, AgentId) {
    let threads = usize::from(spec.core.threads);
    let sizes = Sizes {
        epoch_misses: 24,
        ..Sizes::default()
    };
    let mut observer: Option<SharedObserver> = None;
    let mut ids = (AgentId(0), None);
    let machine = Machine::new(spec, image, &[], false, |fabric| {
        let described = DmaNicSpec {
            processors: Some(ProcessorsSpec {
                clock_mhz: 1000.0,
                ..ProcessorsSpec::default()
            }),
            ..DmaNicSpec::default()
        };
        let mut nic = DmaNic::new(&described, REGISTERS).unwrap();
        nic.program(&firmware(), 1, REGISTERS + 0x10_0000).unwrap();
        let attachment = nic.attachment(0);
        ids.0 = fabric.attach(Box::new(nic), attachment)?;
        if let Some(offload) = offload {
            let clock = fabric.clock();
            let of_core =
                Observer::shared(sizes, threads, (offload.packets, offload.regions), clock);
            let listener = Listener::new(std::slice::from_ref(&of_core), offload);
            ids.1 = Some(fabric.attach(Box::new(listener), Attachment::default())?);
            observer = Some(of_core);
        }
        Ok(Box::new(NoExtension))
    });
    let mut machine = machine.expect("the machine can be built");
    if let Some(observer) = &observer {
        for thread in 0..threads {
            let probe = HartProbe::new(observer, thread);
            machine.engine.cores[0].set_probe(thread as u8, Box::new(probe));
        }
    }
    let (id, listener) = ids;
    let fabric = &mut machine.engine.fabric;
    let nic: &mut DmaNic = fabric.agent_mut(id).unwrap();
    if let Some(listener) = listener {
        nic.connect_listener(listener);
    }
    nic.connect(0x0a00_0001, LineRate::from_gbit_per_s(200.0));
    let begins = nic.begins().unwrap();
    fabric.wake_agent(id, Time::ZERO, begins);
    for number in 0..FRAMES {
        let at = Time::from_ns(2000.0 + 3000.0 * number as f64);
        let nic: &mut DmaNic = fabric.agent_mut(id).unwrap();
        let token = nic.receive(0, at, packet(number));
        fabric.wake_agent(id, at, token);
    }
    (machine, id)
}

/// A line as a core would read it now that nothing is under way.
fn line(machine: &Machine, line: LineAddress) -> LineData {
    let mut cores = machine.engine.cores.iter();
    let copy = cores.find_map(|core| core.copy_of(line));
    copy.map_or_else(
        || machine.engine.fabric.ram().read_line(line),
        |(_, data)| data,
    )
}

/// The first address at which the memories of two machines differ.
fn difference(spec: &ServerSpec, one: &Machine, other: &Machine) -> Option<u64> {
    let lines = spec.memory_mib << 20 >> 6;
    let addresses = (0..lines).map(|number| CODE + 64 * number);
    let mut addresses = addresses.filter(|&at| {
        let at = LineAddress::of(at);
        line(one, at).0 != line(other, at).0
    });
    addresses.next()
}

fn of_interface((machine, id): &mut (Machine, AgentId)) -> ProcessorsStatistics {
    let nic: &mut DmaNic = machine.engine.fabric.agent_mut(*id).unwrap();
    assert_eq!(nic.fault(), None);
    nic.statistics().processors.unwrap()
}

/// Runs the same program with and without regions on the interface, which change nothing in
/// memory. What the interface has executed is the result.
fn compare(
    work: &(Vec<Step>, Vec<Step>),
    budget: u64,
    has_second_level: bool,
    threads: u8,
) -> Result<ProcessorsStatistics, TestCaseError> {
    let core = with_small_caches(CoreSpec::hyperplane_table1());
    let core = match has_second_level {
        true => with_second_level(core),
        false => core,
    };
    let spec = server(usize::from(threads), &with_threads(threads, core));
    let offload = OffloadSpec {
        budget,
        ..OffloadSpec::default()
    };
    let mut plain = machine(&spec, program(work), None);
    let mut with_regions = machine(&spec, program(work), Some(&offload));
    for one in [&mut plain, &mut with_regions] {
        prop_assert_eq!(run(&mut one.0), Ending::Halted);
    }
    prop_assert_eq!(difference(&spec, &plain.0, &with_regions.0), None);
    let [without, with] = [plain, with_regions].map(|mut one| of_interface(&mut one));
    prop_assert_eq!((without.runs, without.frames_to_host), (0, FRAMES));
    prop_assert_eq!(with.frames_to_host, FRAMES);
    Ok(with)
}

#[test]
fn regions_on_the_interface_change_nothing_in_memory() {
    let counts = Cell::new([0; 2]);
    let steps = || prop::collection::vec(any_step(), 4..24);
    // A procedure that ends has fewer than 2000 instructions; a region whose loop has lost its end
    // takes the whole budget for each frame.
    let budget = prop_oneof![1..200u64, Just(2_000)];
    let strategy = ((steps(), steps()), budget, any::<bool>(), 1..3u8);
    check(
        20,
        &strategy,
        |(work, budget, has_second_level, threads)| {
            let with = compare(&work, budget, has_second_level, threads)?;
            let [runs, loads] = counts.get();
            counts.set([runs + with.runs, loads + with.run_host_loads]);
            Ok(())
        },
    );
    // It would be no test if nothing were executed.
    let counted = counts.get();
    assert!(counted.iter().all(|&count| count > 0), "{counted:?}");
}

/// The procedure follows a chain a dozen times, which takes more instructions than these budgets.
/// Random procedures exceed theirs with some seeds only.
#[test]
fn regions_over_budget_change_nothing_in_memory() {
    let chain = || vec![Step::Load(0, 0), Step::Follow(0, 0), Step::Repeat(1)];
    for budget in [1, 10, 30] {
        let with = compare(&(chain(), chain()), budget, false, 1).unwrap();
        assert!(with.runs_over_budget > 0, "{budget}: {with:?}");
    }
}
