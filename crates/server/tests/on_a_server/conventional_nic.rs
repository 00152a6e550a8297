//! Programs on simulated cores behind conventional network interfaces: the cost of register
//! accesses, and the independence of sent frames and their times from lookahead and skipped
//! spinning.

use crate::common::assembler::*;
use crate::common::interfaces::*;
use crate::common::servers::{Ending, models, read, run, server};
use fabric::{AgentId, Time};
use network::packet::{DATA, Endpoint, Packet, TransportHeader};
use network::rack::{Interface, LineRate};
use pcie::{
    DmaNic, DmaNicSpec, INTERFACE_MAP, INTERFACE_REGISTERS, IceNic, IceNicSpec, ProcessorsSpec,
};
use pipeline::{CoreSpec, NoExtension};
use riscv::elf::Image;
use server::{Machine, ServerSpec};

const RESULTS: u64 = 0x8010_0000;

fn request(number: u64) -> Packet {
    let host = |address| Endpoint { address, port: 0 };
    Packet {
        from: host(CLIENT),
        to: host(SERVER),
        routed_to: None,
        padding: 0,
        ecn: 0,
        header: TransportHeader {
            flags: DATA,
            ..TransportHeader::default()
        },
        priority: 0,
        payload: number.to_be_bytes().to_vec(),
        tag: number,
    }
}

/// A machine whose interface receives frames at these times, in nanoseconds.
fn machine<N: fabric::Agent + Interface + 'static>(
    spec: &ServerSpec,
    image: Image,
    times_ns: &[f64],
    make: impl FnOnce(&mut fabric::Fabric) -> (N, fabric::Attachment),
) -> (Machine, AgentId) {
    let mut id = AgentId(0);
    let machine = Machine::new(spec, image, &[], false, |fabric| {
        let (nic, attachment) = make(fabric);
        id = fabric.attach(Box::new(nic), attachment)?;
        Ok(Box::new(NoExtension))
    });
    let mut machine = machine.expect("the machine can be built");
    let fabric = &mut machine.engine.fabric;
    let nic: &mut N = fabric.agent_mut(id).unwrap();
    nic.connect(SERVER, LineRate::from_gbit_per_s(200.0));
    for (number, &at_ns) in times_ns.iter().enumerate() {
        let at = Time::from_ns(at_ns);
        let nic: &mut N = fabric.agent_mut(id).unwrap();
        let token = nic.receive(0, at, request(number as u64));
        fabric.wake_agent(id, at, token);
    }
    (machine, id)
}

fn with_ice_nic(spec: &ServerSpec, image: Image, times_ns: &[f64]) -> (Machine, AgentId) {
    machine(spec, image, times_ns, |fabric| {
        let nic = IceNic::new(&IceNicSpec::default(), REGISTERS, fabric.clock()).unwrap();
        let attachment = nic.attachment(0);
        (nic, attachment)
    })
}

fn with_hints(spec: &ServerSpec, image: Image, times_ns: &[f64]) -> (Machine, AgentId) {
    machine(spec, image, times_ns, |fabric| {
        let hinting = IceNicSpec {
            first_level: true,
            ..IceNicSpec::default()
        };
        let nic = IceNic::new(&hinting, REGISTERS, fabric.clock()).unwrap();
        let attachment = nic.attachment(0);
        (nic, attachment)
    })
}

fn with_dma_nic(spec: &ServerSpec, image: Image, times_ns: &[f64]) -> (Machine, AgentId) {
    machine(spec, image, times_ns, |_| {
        let nic = DmaNic::new(&DmaNicSpec::default(), REGISTERS).unwrap();
        let attachment = nic.attachment(0);
        (nic, attachment)
    })
}

fn sent<N: Interface + 'static>((machine, id): &mut (Machine, AgentId)) -> Vec<(Time, Packet)> {
    let mut sent = Vec::new();
    let nic: &mut N = machine.engine.fabric.agent_mut(*id).unwrap();
    nic.take_sent(0, &mut sent);
    sent
}

/// The cycles of each of a series of consecutive accesses to a register.
fn cycles_of(spec: &ServerSpec, access: impl Fn(&mut Assembler)) -> u64 {
    let cycles = |accesses: usize| {
        let mut asm = Assembler::new();
        asm.load_immediate(S0, REGISTERS);
        asm.load_immediate(S6, RESULTS);
        asm.load_immediate(S5, 2);
        asm.align(64);
        // The second pass is measured: its code is in the instruction cache.
        let pass = asm.label_here();
        asm.csr_read(S10, CYCLE);
        for _ in 0..accesses {
            access(&mut asm);
        }
        asm.csr_read(S11, CYCLE);
        asm.add_immediate(S5, S5, -1);
        asm.branch(When::NotEqual, S5, ZERO, pass);
        asm.operate(SUB, S11, S11, S10);
        asm.store_double(S11, S6, 0);
        asm.halt();
        let (mut machine, _) = with_ice_nic(spec, asm.finish(&[]), &[]);
        assert_eq!(run(&mut machine), Ending::Halted);
        read(&machine, RESULTS)
    };
    let (short, long) = (cycles(4), cycles(14));
    assert_eq!((long - short) % 10, 0, "accesses differ");
    (long - short) / 10
}

/// Cycles from the start of a device access to its answer: the shorter look-up of both caches
/// before the request leaves, 1 to the interface on the same tile, the fabric's
/// `forward_latency_cycles` before the answer enters the mesh, and 1 back.
fn answer_cycles(spec: &ServerSpec) -> u64 {
    let core = &spec.core;
    let look_up = core.l1_instruction.hit_latency_cycles;
    look_up.min(core.l1_data.hit_latency_cycles) + 1 + spec.fabric.forward_latency_cycles + 1
}

/// A load, and a store that is not posted, followed by the next instruction: in the cycle after the
/// answer.
#[test]
fn what_a_register_costs() {
    for core in models() {
        let core = CoreSpec {
            posted_device_stores: 0,
            ..core
        };
        let spec = server(1, &core);
        let cycles = answer_cycles(&spec) + 1;
        let load = cycles_of(&spec, |asm| asm.load(4, false, T0, S0, 20));
        let store = cycles_of(&spec, |asm| asm.store(4, ZERO, S0, 32));
        assert_eq!((load, store), (cycles, cycles));
    }
}

/// A posted store takes a cycle, like a CSR read. A following load from a device, a fence that
/// orders output, or a store without room waits for its answer; and begins in the cycle of the
/// answer.
#[test]
fn what_a_posted_store_costs() {
    let store = |asm: &mut Assembler| asm.store(4, ZERO, S0, 32);
    let load = |asm: &mut Assembler| asm.load(4, false, T0, S0, 20);
    // One addition more than the cycles of an answer.
    let work = |asm: &mut Assembler| (0..40).for_each(|_| asm.add_immediate(T1, T1, 1));
    let little = |asm: &mut Assembler| asm.add_immediate(T1, T1, 1);
    for core in models() {
        let spec = |posted_device_stores| {
            let core = CoreSpec {
                posted_device_stores,
                ..core.clone()
            };
            server(1, &core)
        };
        let (one, three) = (spec(1), spec(3));
        let answer = answer_cycles(&one);
        let after_store = |spec, next: &dyn Fn(&mut Assembler)| {
            cycles_of(spec, |asm| {
                store(asm);
                next(asm);
            })
        };
        // Instructions that execute alone do not wait either.
        let nothing = |asm: &mut Assembler| asm.fence(RW, RW);
        assert_eq!(
            after_store(&one, &work),
            cycles_of(&one, |asm| {
                nothing(asm);
                work(asm);
            })
        );
        // The accesses of the next iteration wait: store to store,
        assert_eq!(cycles_of(&one, store), answer);
        assert_eq!(
            cycles_of(&one, |asm| (0..3).for_each(|_| store(asm))),
            3 * answer
        );
        // with room for three, they overlap in groups of three, a cycle apart,
        assert_eq!(
            cycles_of(&three, |asm| (0..3).for_each(|_| store(asm))),
            answer.max(3)
        );
        // a load, which is itself waited for,
        assert_eq!(after_store(&one, &load), answer + answer + 1);
        let some_work = after_store(&one, &|asm: &mut Assembler| {
            little(asm);
            load(asm);
        });
        assert_eq!(some_work, answer + answer + 1);
        // and fences of output, but no others.
        let fence = |before, after| after_store(&one, &move |asm| asm.fence(before, after));
        assert_eq!(fence(RW | O, RW | O), answer + 1);
        assert_eq!(fence(O, W), answer + 1);
        let other = |asm: &mut Assembler| {
            asm.fence(RW, RW);
            work(asm);
        };
        assert_eq!(
            after_store(&one, &other),
            cycles_of(&one, |asm| {
                nothing(asm);
                other(asm);
            })
        );
    }
}

/// The interface refuses a store of 4 bytes to a register of 8. The core learns of it after it has
/// continued: the report names the store, and a handler sees the core's current position.
#[test]
fn a_posted_store_is_refused() {
    for core in models() {
        for posted_device_stores in [0, 2] {
            let core = CoreSpec {
                posted_device_stores,
                ..core.clone()
            };
            let program = |handled: bool| {
                let mut asm = Assembler::new();
                let main = asm.label();
                asm.jump(main);
                asm.align(4);
                let handler = asm.here();
                for (place, csr) in [MCAUSE, MTVAL, MEPC].into_iter().enumerate() {
                    asm.csr_read(T0, csr);
                    asm.store_double(T0, S6, 8 * place as i64);
                }
                asm.halt();
                asm.bind(main);
                asm.load_immediate(S0, REGISTERS);
                asm.load_immediate(S6, RESULTS);
                if handled {
                    asm.load_immediate(T0, handler);
                    asm.csr_write(MTVEC, T0);
                }
                let store = asm.here();
                asm.store(4, ZERO, S0, 8);
                let after = asm.here();
                let wait = asm.label_here();
                asm.add_immediate(T1, T1, 1);
                asm.jump(wait);
                (asm.finish(&[]), store, after)
            };
            let spec = server(1, &core);
            let (image, store, after) = program(true);
            let (mut machine, _) = with_ice_nic(&spec, image, &[]);
            assert_eq!(run(&mut machine), Ending::Halted);
            let found = [0, 8, 16].map(|offset| read(&machine, RESULTS + offset));
            // An access fault of a store, at RECV_REQ.
            assert_eq!(found[..2], [7, REGISTERS + 8]);
            let expected = if posted_device_stores == 0 {
                store..=store
            } else {
                after..=after + 4
            };
            assert!(expected.contains(&found[2]), "{:#x}", found[2]);
            let (image, store, _) = program(false);
            let (mut machine, _) = with_ice_nic(&spec, image, &[]);
            let Ending::Failed(text) = run(&mut machine) else {
                panic!("the guest goes on");
            };
            assert!(text.contains(&format!("{store:#x}")), "{text}");
        }
    }
}

/// Stores for which the interface has no room stall the core at the next device access, and the
/// report of waiting units names the cause.
#[test]
fn a_posted_store_waits_for_room() {
    let entries = IceNicSpec::default().queue_entries;
    for core in models() {
        let core = CoreSpec {
            posted_device_stores: 1,
            ..core
        };
        let mut asm = Assembler::new();
        asm.load_immediate(S0, REGISTERS);
        asm.load_immediate(S1, BUFFERS);
        asm.load_immediate(S6, RESULTS);
        for _ in 0..=entries {
            asm.store_double(S1, S0, 8);
        }
        asm.store_double(S0, S6, 0);
        asm.load(4, false, T0, S0, 20);
        asm.halt();
        let (mut machine, _) = with_ice_nic(&server(1, &core), asm.finish(&[]), &[]);
        let Ending::Failed(text) = run(&mut machine) else {
            panic!("there is room");
        };
        assert!(
            text.contains("a device to take its store to 0x10016008"),
            "{text}"
        );
        assert_eq!(read(&machine, RESULTS), REGISTERS);
    }
}

/// Returns `frames` frames, one after the other, with the Ethernet addresses swapped.
fn ice_loopback(frames: u64) -> Image {
    let mut asm = Assembler::new();
    asm.load_immediate(S0, REGISTERS);
    asm.load_immediate(S1, BUFFERS);
    asm.load_immediate(S2, frames);
    let again = asm.label_here();
    asm.store_double(S1, S0, 8);
    // The last byte of COUNTS is the number of received frames.
    let wait = asm.label_here();
    asm.load(4, false, T0, S0, 20);
    asm.shift_right(T0, T0, 24);
    asm.branch(When::Equal, T0, ZERO, wait);
    asm.load(2, false, T0, S0, 18);
    swap_addresses(&mut asm, S1);
    asm.fence(RW, RW);
    asm.shift_left(T0, T0, 48);
    asm.add(T0, T0, S1);
    asm.store_double(T0, S0, 0);
    asm.load(2, false, T0, S0, 16);
    asm.add_immediate(S2, S2, -1);
    asm.branch(When::NotEqual, S2, ZERO, again);
    asm.halt();
    asm.finish(&[])
}

/// Returns `frames` frames through rings of four descriptors with a buffer each, by polling memory.
fn dma_loopback(frames: u64) -> Image {
    let (receive, send) = (RINGS, RINGS + 0x1000);
    let mut descriptors = Vec::new();
    for place in 0..4 {
        descriptors.extend((BUFFERS + 2048 * place).to_le_bytes());
        descriptors.extend(2048u64.to_le_bytes());
    }
    let mut asm = Assembler::new();
    asm.load_immediate(S0, REGISTERS + 0x1000);
    asm.load_immediate(S1, receive);
    asm.load_immediate(S2, frames);
    asm.load_immediate(S3, send);
    asm.load_immediate(S4, 4);
    asm.store_double(S1, S0, 0x00);
    asm.store_double(S4, S0, 0x08);
    asm.store_double(S3, S0, 0x20);
    asm.store_double(S4, S0, 0x28);
    asm.store_double(S4, S0, 0x10);
    asm.load_immediate(S5, 0);
    asm.load_immediate(S7, 1);
    asm.shift_left(S7, S7, 16);
    let again = asm.label_here();
    // The descriptors with number S5.
    asm.shift_left(S8, S5, 62);
    asm.shift_right(S8, S8, 58);
    asm.add(S9, S8, S3);
    asm.add(S8, S8, S1);
    let wait = asm.label_here();
    asm.load(2, false, T0, S8, 10);
    asm.branch(When::Equal, T0, ZERO, wait);
    asm.fence(RW, RW);
    asm.load_double(S6, S8, 0);
    asm.load(2, false, A0, S8, 8);
    swap_addresses(&mut asm, S6);
    asm.store_double(S6, S9, 0);
    asm.store_double(A0, S9, 8);
    asm.fence(RW, RW);
    asm.add_immediate(S5, S5, 1);
    asm.store_double(S5, S0, 0x30);
    let sending = asm.label_here();
    asm.load(2, false, T0, S9, 10);
    asm.branch(When::Equal, T0, ZERO, sending);
    // The buffer is reposted.
    asm.load_immediate(T1, 2048);
    asm.store_double(T1, S8, 8);
    asm.fence(RW, RW);
    asm.add_immediate(T1, S5, 4);
    asm.store_double(T1, S0, 0x10);
    asm.branch(When::NotEqual, S5, S2, again);
    asm.halt();
    asm.finish(&[(receive, descriptors)])
}

/// Whatever the core is doing when frames arrive, they are returned in order, at times that do not
/// depend on the progress of the simulation on the host.
fn check<N: Interface + 'static>(
    make: fn(&ServerSpec, Image, &[f64]) -> (Machine, AgentId),
    program: fn(u64) -> Image,
    times_ns: &[f64],
) {
    for core in models() {
        let spec = server(1, &core);
        let outcome = |lookahead_cycles, skip_spinning| {
            let mut made = make(&spec, program(times_ns.len() as u64), times_ns);
            made.0.engine.set_speed(lookahead_cycles, skip_spinning);
            assert_eq!(run(&mut made.0), Ending::Halted);
            let counted = made.0.engine.cores[0].statistics(made.0.end());
            let counted = [
                counted.instructions,
                counted.mispredictions,
                counted.data_hits,
                counted.data_misses,
            ];
            (sent::<N>(&mut made), counted)
        };
        let plain = outcome(1, false);
        let tags: Vec<u64> = plain.0.iter().map(|(_, packet)| packet.tag).collect();
        assert_eq!(tags, (0..times_ns.len() as u64).collect::<Vec<_>>());
        for (_, packet) in &plain.0 {
            assert_eq!((packet.from.address, packet.to.address), (SERVER, CLIENT));
            assert_eq!(packet.payload, packet.tag.to_be_bytes());
        }
        for (lookahead_cycles, skip_spinning) in [(0, true), (0, false), (3, true)] {
            assert_eq!(outcome(lookahead_cycles, skip_spinning), plain);
        }
    }
}

/// Arrival times of single frames and of bursts.
const TIMES_NS: [f64; 8] = [
    5000.0, 9000.3, 9001.0, 9001.0, 12_000.7, 30_000.1, 30_500.9, 30_501.0,
];

#[test]
fn a_loopback_on_the_chip() {
    check::<IceNic>(with_ice_nic, ice_loopback, &TIMES_NS);
}

#[test]
fn a_loopback_with_hints() {
    check::<IceNic>(with_hints, ice_loopback, &TIMES_NS);
}

/// Without hints, at least the first load of each frame misses. With hints, its line is present and
/// writable when the core is notified of the frame.
#[test]
fn hints_bring_lines_before_they_are_wanted() {
    for core in models() {
        let spec = server(1, &core);
        let outcome = |make: fn(&ServerSpec, Image, &[f64]) -> (Machine, AgentId)| {
            let times_ns = [5000.0, 9000.0, 13_000.0, 17_000.0];
            let mut made = make(&spec, ice_loopback(times_ns.len() as u64), &times_ns);
            assert_eq!(run(&mut made.0), Ending::Halted);
            let misses = made.0.engine.cores[0].statistics(made.0.end()).data_misses;
            let packets = sent::<IceNic>(&mut made).into_iter();
            (
                misses,
                packets.map(|(_, packet)| packet).collect::<Vec<_>>(),
            )
        };
        let (plain, hinted) = (outcome(with_ice_nic), outcome(with_hints));
        assert_eq!(hinted.0, 0);
        assert!(plain.0 >= 4);
        assert_eq!(plain.1, hinted.1);
    }
}

#[test]
fn a_loopback_behind_pci_express() {
    // Four descriptors: at most four frames at a time.
    check::<DmaNic>(with_dma_nic, dma_loopback, &TIMES_NS);
}

/// A line of host memory that only the cores of the interface request.
const STEERED: u64 = 0x8040_0000;

/// Firmware that loads a line of host memory for each frame, steered to core 0 or to none, and then
/// delivers the frame.
fn firmware(steer: u64) -> Vec<u8> {
    let register = |name: &str| {
        let found = INTERFACE_REGISTERS.iter().find(|(one, _)| *one == name);
        found.unwrap().1 as i64
    };
    let [(_, scratchpad), (_, registers), _] = INTERFACE_MAP;
    let mut asm = Assembler::new();
    asm.load_immediate(S0, registers);
    asm.load_immediate(S1, STEERED);
    asm.load_immediate(T0, steer);
    asm.store_double(T0, S0, register("STEER"));
    let next = asm.label_here();
    asm.load_double(ZERO, S0, register("NEXT"));
    asm.load_double(T1, S1, 0);
    asm.load_double(ZERO, S0, register("DRAIN"));
    asm.store_double(ZERO, S0, register("DELIVER"));
    asm.jump(next);
    let mut image = asm.finish(&[]);
    image.entry = scratchpad;
    for segment in &mut image.segments {
        (segment.address, segment.virtual_address) = (scratchpad, scratchpad);
    }
    elf(&image)
}

fn programmed(spec: &ServerSpec, image: Image, times_ns: &[f64], steer: u64) -> (Machine, AgentId) {
    let (mut machine, id) = machine(spec, image, times_ns, |_| {
        let described = DmaNicSpec {
            processors: Some(ProcessorsSpec::default()),
            ..DmaNicSpec::default()
        };
        let mut nic = DmaNic::new(&described, REGISTERS).unwrap();
        nic.program(&firmware(steer), 1, REGISTERS + 0x10_0000)
            .unwrap();
        let attachment = nic.attachment(0);
        (nic, attachment)
    });
    let fabric = &mut machine.engine.fabric;
    let nic: &mut DmaNic = fabric.agent_mut(id).unwrap();
    let begins = nic.begins().unwrap();
    fabric.wake_agent(id, Time::ZERO, begins);
    (machine, id)
}

fn with_steering(spec: &ServerSpec, image: Image, times_ns: &[f64]) -> (Machine, AgentId) {
    programmed(spec, image, times_ns, 0)
}

fn without_steering(spec: &ServerSpec, image: Image, times_ns: &[f64]) -> (Machine, AgentId) {
    programmed(spec, image, times_ns, u64::MAX)
}

/// Frames leave the cores of the interface in order, and at times that do not depend on the
/// lookahead of the server's core.
#[test]
fn a_loopback_behind_firmware() {
    check::<DmaNic>(without_steering, dma_loopback, &TIMES_NS);
    check::<DmaNic>(with_steering, dma_loopback, &TIMES_NS);
}

/// When a load with a steering tag has returned to the core of the interface, the server's core has
/// the line in its first level: its first load of it takes as long as the next one. Without a tag
/// the line goes to the last-level cache.
#[test]
fn steering_brings_the_line_into_the_first_level() {
    let elsewhere = STEERED + 0x1000;
    // Loads from elsewhere twice, to bring the code into the instruction cache, and then from the
    // line, long after the frame has arrived.
    let program = || {
        let mut asm = Assembler::new();
        asm.load_immediate(S0, elsewhere);
        asm.load_immediate(S1, RESULTS);
        asm.load_immediate(S2, 4);
        asm.load_immediate(S3, 0);
        asm.load_immediate(S4, 30_000);
        asm.align(64);
        let pass = asm.label_here();
        asm.csr_read(S10, CYCLE);
        asm.load_double(T0, S0, 0);
        asm.operate(ADD, T1, T0, T0);
        asm.csr_read(S11, CYCLE);
        asm.operate(SUB, S11, S11, S10);
        asm.store_double(S11, S1, 0);
        asm.add_immediate(S1, S1, 8);
        asm.add_immediate(S3, S3, 1);
        asm.load_immediate(T2, 2);
        let same = asm.label();
        asm.branch(When::NotEqual, S3, T2, same);
        asm.load_immediate(S0, STEERED);
        let wait = asm.label_here();
        asm.csr_read(T3, CYCLE);
        asm.branch(When::LessUnsigned, T3, S4, wait);
        asm.bind(same);
        asm.branch(When::NotEqual, S3, S2, pass);
        asm.halt();
        asm.finish(&[])
    };
    for core in models() {
        let spec = server(1, &core);
        let outcome = |make: fn(&ServerSpec, Image, &[f64]) -> (Machine, AgentId)| {
            let mut made = make(&spec, program(), &[2000.0]);
            assert_eq!(run(&mut made.0), Ending::Halted);
            [2, 3].map(|pass| read(&made.0, RESULTS + 8 * pass))
        };
        let [first, again] = outcome(with_steering);
        assert_eq!(first, again);
        let [first, again] = outcome(without_steering);
        assert!(first > again, "{first} {again}");
    }
}
