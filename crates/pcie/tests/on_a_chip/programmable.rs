//! The cores of a programmable interface: the cost of instructions, and the fate of frames.
//!
//! Their clock is one gigahertz here, as the chip's, so that a cycle is a nanosecond; PCI Express
//! carries 8 bytes a nanosecond, with a latency of 250.

#[allow(dead_code)]
#[path = "../../../server/tests/on_a_server/common/assembler.rs"]
mod assembler;
use crate::chip::*;
use assembler::*;
use network::packet::Packet;
use pcie::{
    DmaNic, DmaNicSpec, ExpressSpec, INTERFACE_REGISTERS, MICROSOFT_KEY, NicStatistics,
    ProcessorsSpec, ProcessorsStatistics, toeplitz,
};

const SCRATCHPAD: u64 = 0x1000_0000;
const INTERFACE: u64 = 0x1100_0000;
const FRAME: u64 = 0x1200_0000;
/// Firmware stores its results there, a word for each core; data are below.
const RESULTS: u64 = 0x8000;
/// The scratchpad as seen by the host, after the registers.
const WINDOW: u64 = 0x10_0000;

fn interface(name: &str) -> u64 {
    let found = INTERFACE_REGISTERS.iter().find(|(one, _)| *one == name);
    found.expect("there is such a register").1
}

fn spec(cores: u32) -> DmaNicSpec {
    DmaNicSpec {
        express: ExpressSpec {
            rate_gbit_per_s: 64.0,
            ..ExpressSpec::default()
        },
        processors: Some(ProcessorsSpec {
            cores,
            clock_mhz: 1000.0,
            ..ProcessorsSpec::default()
        }),
        ..DmaNicSpec::default()
    }
}

/// Firmware that begins with the registers in `S0`, the scratchpad in `S1`, its frame in `S2`, and
/// the core's number in `S3`.
fn firmware(code: impl FnOnce(&mut Assembler)) -> Vec<u8> {
    let mut asm = Assembler::new();
    asm.name("firmware");
    asm.load_immediate(S0, INTERFACE);
    asm.load_immediate(S1, SCRATCHPAD);
    asm.load_immediate(S2, FRAME);
    asm.load_double(S3, S0, interface("CORE") as i64);
    code(&mut asm);
    let mut image = asm.finish(&[]);
    let moved = |address: u64| address - CODE + SCRATCHPAD;
    image.entry = moved(image.entry);
    for segment in &mut image.segments {
        segment.address = moved(segment.address);
        segment.virtual_address = segment.address;
    }
    for symbol in &mut image.symbols {
        symbol.address = moved(symbol.address);
    }
    elf(&image)
}

fn read_register(asm: &mut Assembler, to: Register, name: &str) {
    asm.load_double(to, S0, interface(name) as i64);
}

fn write_register(asm: &mut Assembler, name: &str, from: Register) {
    asm.store_double(from, S0, interface(name) as i64);
}

/// Waits for a frame for ever.
fn park(asm: &mut Assembler) {
    let again = asm.label_here();
    read_register(asm, ZERO, "NEXT");
    write_register(asm, "DROP", ZERO);
    asm.jump(again);
}

fn bench(spec: &DmaNicSpec, firmware: &[u8]) -> Bench {
    let mut nic = DmaNic::new(spec, REGISTERS).unwrap();
    nic.program(firmware, 2, REGISTERS + WINDOW).unwrap();
    let begins = nic.begins().unwrap();
    let attachment = nic.attachment(0);
    let mut bench = Bench::new(nic, attachment);
    bench.wake(begins);
    bench
}

fn statistics(bench: &mut Bench) -> NicStatistics {
    bench.nic::<DmaNic>().statistics()
}

fn of_cores(bench: &mut Bench) -> ProcessorsStatistics {
    statistics(bench).processors.unwrap()
}

/// The word of the scratchpad that the host reads at this offset.
fn word(bench: &mut Bench, offset: u64) -> u64 {
    bench
        .answer::<DmaNic>(|bench| bench.read(WINDOW + offset, 8))
        .unwrap()
}

/// Cycles between two reads of the clock, on each of `cores` cores, with `count` copies of `code`
/// in between whose instructions are cached.
fn measured(cores: u32, count: usize, code: impl Fn(&mut Assembler)) -> Vec<u64> {
    let firmware = firmware(|asm| {
        // Addresses a word apart on each core, and 32 bytes apart.
        asm.shift_left(T1, S3, 3);
        asm.add(S5, T1, S1);
        asm.shift_left(T1, S3, 5);
        asm.add(S6, T1, S1);
        asm.load_immediate(S4, 3);
        let pass = asm.label_here();
        read_register(asm, S10, "CYCLE");
        (0..count).for_each(|_| code(asm));
        read_register(asm, S11, "CYCLE");
        asm.operate(SUB, S11, S11, S10);
        asm.add_immediate(S4, S4, -1);
        asm.branch(When::NotEqual, S4, ZERO, pass);
        asm.load_immediate(T0, RESULTS);
        asm.add(T0, T0, S1);
        asm.shift_left(T1, S3, 3);
        asm.add(T0, T0, T1);
        asm.store_double(S11, T0, 0);
        park(asm);
    });
    let mut bench = bench(&spec(cores), &firmware);
    bench.run_for::<DmaNic>(20_000.0);
    assert_eq!(bench.nic::<DmaNic>().fault(), None);
    (0..u64::from(cores))
        .map(|core| word(&mut bench, RESULTS + 8 * core))
        .collect()
}

/// Cycles that each copy takes, one after the other.
fn cycles_of(cores: u32, code: impl Fn(&mut Assembler)) -> Vec<u64> {
    let (short, long) = (measured(cores, 5, &code), measured(cores, 25, &code));
    let pairs = short.into_iter().zip(long);
    pairs
        .map(|(short, long)| {
            assert_eq!((long - short) % 20, 0, "they differ: {short} and {long}");
            (long - short) / 20
        })
        .collect()
}

/// A load from the scratchpad takes a cycle through the crossbar and one in its bank; instructions
/// that do not need its value continue a cycle later.
#[test]
fn what_instructions_cost() {
    let one = |code: &dyn Fn(&mut Assembler)| cycles_of(1, code)[0];
    assert_eq!(one(&|asm| asm.nop()), 1);
    assert_eq!(one(&|asm| asm.load_double(T0, S1, 0)), 1);
    assert_eq!(
        one(&|asm| asm.store_double(T0, S1, 2047)),
        2,
        "in two words"
    );
    assert_eq!(one(&|asm| asm.store_double(T0, S1, 2040)), 1);
    let use_it = |asm: &mut Assembler| asm.add(T1, T0, T0);
    let used = |code: &dyn Fn(&mut Assembler)| {
        one(&|asm| {
            code(asm);
            use_it(asm);
        })
    };
    assert_eq!(used(&|asm| asm.load_double(T0, S1, 0)), 2 + 1);
    assert_eq!(used(&|asm| read_register(asm, T0, "CORES")), 2 + 1);
    assert_eq!(used(&|asm| asm.operate(MUL, T0, S1, S1)), 3 + 1);
    assert_eq!(used(&|asm| asm.operate(DIVU, T0, S1, S1)), 34 + 1);
    // The bank is occupied for the read and the write.
    let atomic = |asm: &mut Assembler| asm.amo(AMO_ADD, RELAXED, 8, T0, ZERO, S1);
    assert_eq!(one(&atomic), 2);
    assert_eq!(used(&atomic), 2 + 1);
    // Two more are lost after a jump.
    let jump = |asm: &mut Assembler| {
        let next = asm.label();
        asm.jump(next);
        asm.bind(next);
    };
    assert_eq!(one(&jump), 1 + 2);
    let not_taken = |asm: &mut Assembler| {
        let next = asm.label();
        asm.branch(When::NotEqual, ZERO, ZERO, next);
        asm.bind(next);
    };
    assert_eq!(one(&not_taken), 1);
}

/// Two cores that access one bank in every cycle alternate; cores that access different banks do
/// not conflict. Consecutive words are in different banks.
#[test]
fn banks_take_one_access_a_cycle() {
    let load = |base: Register| {
        move |asm: &mut Assembler| (0..8).for_each(|_| asm.load_double(T0, base, 0))
    };
    // A word apart, or 32 bytes: four banks of 8.
    assert_eq!(cycles_of(2, load(S5)), [8, 8]);
    assert_eq!(cycles_of(2, load(S6)), [16, 16]);
    assert_eq!(cycles_of(4, load(S5)), [8; 4]);
    assert_eq!(cycles_of(4, load(S6)), [32; 4]);
}

/// A line of 32 bytes is four words of 8 that come through the crossbar one after the other, the
/// first after two cycles: the instruction is issued 5 cycles later.
#[test]
fn what_a_line_of_instructions_costs() {
    let firmware = firmware(|asm| {
        asm.align(32);
        asm.load_immediate(S4, 2);
        asm.load_immediate(T2, RESULTS);
        asm.add(T2, T2, S1);
        asm.align(32);
        let pass = asm.label_here();
        read_register(asm, S10, "CYCLE");
        (0..8 * 10).for_each(|_| asm.nop());
        read_register(asm, S11, "CYCLE");
        asm.operate(SUB, S11, S11, S10);
        asm.store_double(S11, T2, 0);
        asm.add_immediate(T2, T2, 8);
        asm.add_immediate(S4, S4, -1);
        asm.branch(When::NotEqual, S4, ZERO, pass);
        park(asm);
    });
    let mut bench = bench(&spec(1), &firmware);
    bench.run_for::<DmaNic>(4000.0);
    let (cold, warm) = (word(&mut bench, RESULTS), word(&mut bench, RESULTS + 8));
    assert_eq!(warm, 81);
    // The first line is present when the clock is read.
    assert_eq!(cold, 81 + 10 * 5);
}

/// A request of 24 bytes up, 12 cycles at the line's home, 20 + 8 bytes down, and up to the next
/// cycle: 3 + 250 + 12 + 3.5 + 250 = 518.5. The load issues a cycle after the clock is read, and
/// the instruction that needs the value in the cycle of its arrival.
#[test]
fn what_a_load_of_host_memory_costs() {
    let at = MEMORY + 0x4000;
    let run = |loads: i64, host_loads: u32| {
        let firmware = firmware(|asm| {
            asm.load_immediate(S5, at);
            // After the host has brought its line into the last-level cache, with cached
            // instructions.
            asm.load_immediate(S4, 2);
            let pass = asm.label_here();
            read_register(asm, ZERO, "NEXT");
            write_register(asm, "DROP", ZERO);
            read_register(asm, S10, "CYCLE");
            for load in 0..loads {
                asm.load_double(A0 + load as Register, S5, 8 * load);
            }
            asm.add(T0, A0, A0);
            read_register(asm, S11, "CYCLE");
            read_register(asm, ZERO, "DRAIN");
            read_register(asm, S6, "CYCLE");
            asm.add_immediate(S4, S4, -1);
            asm.branch(When::NotEqual, S4, ZERO, pass);
            asm.operate(SUB, S11, S11, S10);
            asm.operate(SUB, S6, S6, S10);
            asm.load_immediate(T1, RESULTS);
            asm.add(T1, T1, S1);
            for (place, register) in [S11, S6, A0].into_iter().enumerate() {
                asm.store_double(register, T1, 8 * place as i64);
            }
            park(asm);
        });
        let mut spec = spec(1);
        spec.processors.as_mut().unwrap().host_loads = host_loads;
        let mut bench = bench(&spec, &firmware);
        bench.store::<DmaNic>(at, &7u64.to_le_bytes());
        for _ in 0..2 {
            bench.give::<DmaNic>(0.0, &request(1, 8));
            bench.run_for::<DmaNic>(6000.0);
        }
        assert_eq!(word(&mut bench, RESULTS + 16), 7);
        assert_eq!(of_cores(&mut bench).host_loads, 2 * loads as u64);
        [0, 8].map(|offset| word(&mut bench, RESULTS + offset))
    };
    let one = 519;
    assert_eq!(run(1, 8), [1 + one + 1, 1 + one + 3]);
    // The second load reaches the line's home when the 12 cycles of the first one there are over,
    // and takes as long.
    assert_eq!(run(2, 8), [1 + one + 1, 1 + one + 12 + 1]);
    // With room for one, the second begins when the first has returned.
    assert_eq!(run(2, 1), [1 + one + 2, 1 + 2 * one + 1]);
}

/// A load without memory returns 0 and is counted, whatever its address.
#[test]
fn a_load_of_no_memory_brings_nothing() {
    let addresses = [
        0,
        0x10,
        MEMORY - 1,
        MEMORY + MEMORY_BYTES,
        u64::MAX - 3,
        1 << 63,
    ];
    let firmware = firmware(|asm| {
        for (place, address) in addresses.into_iter().enumerate() {
            asm.load_immediate(T1, address);
            asm.load_immediate(A0 + place as Register, 1);
            asm.load(8, false, A0 + place as Register, T1, 0);
        }
        read_register(asm, ZERO, "DRAIN");
        read_register(asm, T2, "FAULTS");
        for place in 0..addresses.len() {
            asm.operate(OR, T1, T1, A0 + place as Register);
            asm.operate(OR, S7, S7, A0 + place as Register);
        }
        read_register(asm, T3, "FAULTS");
        asm.load_immediate(T4, RESULTS);
        asm.add(T4, T4, S1);
        asm.store_double(T2, T4, 0);
        asm.store_double(T3, T4, 8);
        asm.store_double(S7, T4, 16);
        park(asm);
    });
    let mut bench = bench(&spec(1), &firmware);
    bench.run_for::<DmaNic>(6000.0);
    assert_eq!(bench.nic::<DmaNic>().fault(), None);
    let found = [0, 8, 16].map(|offset| word(&mut bench, RESULTS + offset));
    assert_eq!(found, [addresses.len() as u64, 0, 0]);
    assert_eq!(
        of_cores(&mut bench).host_load_faults,
        addresses.len() as u64
    );
}

/// Each frame goes into the ring that receive-side scaling chooses. Every second core is slower.
fn forwarding() -> Vec<u8> {
    firmware(|asm| {
        asm.and_immediate(S4, S3, 1);
        let next = asm.label_here();
        read_register(asm, ZERO, "NEXT");
        read_register(asm, T0, "QUEUE");
        let (quick, slow) = (asm.label(), asm.label());
        asm.branch(When::Equal, S4, ZERO, quick);
        asm.load_immediate(T1, 100);
        asm.bind(slow);
        asm.add_immediate(T1, T1, -1);
        asm.branch(When::NotEqual, T1, ZERO, slow);
        asm.bind(quick);
        write_register(asm, "DELIVER", T0);
        asm.jump(next);
    })
}

const RING: u64 = MEMORY + 0x1_0000;
const BUFFERS: u64 = MEMORY + 0x10_0000;

/// Posts `count` buffers to ring `queue`.
fn give_buffers(bench: &mut Bench, queue: u64, count: u64) {
    let page = 0x1000 * (1 + queue);
    let ring = RING + 0x1000 * queue;
    for number in 0..count {
        let buffer = BUFFERS + 0x8_0000 * queue + 2048 * number;
        let mut descriptor = buffer.to_le_bytes().to_vec();
        descriptor.extend(2048u64.to_le_bytes());
        bench.store::<DmaNic>(ring + 16 * number, &descriptor);
    }
    for (register, value) in [(0x00, ring), (0x08, 64), (0x10, count)] {
        bench.write(page + register, 8, value);
        bench.run_for::<DmaNic>(500.0);
    }
    bench.run_for::<DmaNic>(2000.0);
}

/// The frames in ring `queue`, in order.
fn delivered(bench: &mut Bench, queue: u64, count: u64) -> Vec<Packet> {
    let mut found = Vec::new();
    for number in 0..count {
        let half = bench.load::<DmaNic>(RING + 0x1000 * queue + 16 * number + 8, 8);
        if half[2] & 1 == 0 {
            break;
        }
        let bytes = usize::from(u16::from_le_bytes([half[0], half[1]]));
        let frame = bench.load::<DmaNic>(BUFFERS + 0x8_0000 * queue + 2048 * number, bytes);
        found.push(Packet::from_bytes(&frame).unwrap());
    }
    found
}

/// With forwarding firmware, every frame reaches the same ring as without cores, once, and those of
/// a flow in order, although some cores overtake others.
#[test]
fn forwarding_is_as_without_cores() {
    let queues = 2;
    let with_cores = DmaNicSpec { queues, ..spec(6) };
    let without = DmaNicSpec {
        processors: None,
        ..with_cores.clone()
    };
    let run = |bench: &mut Bench| {
        (0..2).for_each(|queue| give_buffers(bench, queue, 40));
        for number in 0..40 {
            // Eight flows.
            let packet = Packet {
                tag: number,
                ..request(1 + number % 8, 8 + number as usize)
            };
            bench.give::<DmaNic>(number as f64 * 7.0, &packet);
        }
        bench.run_for::<DmaNic>(20_000.0);
        assert_eq!(bench.nic::<DmaNic>().fault(), None);
        [0, 1].map(|queue| delivered(bench, queue, 40))
    };
    let mut plain = {
        let nic = DmaNic::new(&without, REGISTERS).unwrap();
        let attachment = nic.attachment(0);
        Bench::new(nic, attachment)
    };
    let mut programmed = bench(&with_cores, &forwarding());
    let (expected, found) = (run(&mut plain), run(&mut programmed));
    for (expected, found) in expected.into_iter().zip(found) {
        let of_flow = |frames: &[Packet], port: u16| -> Vec<Packet> {
            let of_it = frames.iter().filter(|one| one.from.port == port);
            of_it.cloned().collect()
        };
        assert_eq!(expected.len(), found.len());
        for port in 1..=8 {
            assert_eq!(
                of_flow(&expected, port),
                of_flow(&found, port),
                "port {port}"
            );
        }
    }
    let (counts, cores) = (statistics(&mut programmed), of_cores(&mut programmed));
    assert_eq!((counts.frames_delivered, cores.frames_to_host), (40, 40));
    assert_eq!(statistics(&mut plain).processors, None);
}

/// Firmware that answers: it swaps the addresses in place, and sends the frame. The host does
/// nothing. The time is 26 in the MAC each way, and the cycles of the cores.
#[test]
fn a_frame_is_answered_without_the_host() {
    let firmware = firmware(|asm| {
        let next = asm.label_here();
        read_register(asm, T0, "NEXT");
        // Endpoints: the last four bytes of the Ethernet addresses differ.
        for (offset, register) in [(2, T1), (4, T2), (8, T3), (10, T4)] {
            asm.load(2, false, register, S2, offset);
        }
        for (offset, register) in [(8, T1), (10, T2), (2, T3), (4, T4)] {
            asm.store(2, register, S2, offset);
        }
        write_register(asm, "SEND", T0);
        asm.jump(next);
    });
    let mut bench = bench(&spec(2), &firmware);
    bench.run_for::<DmaNic>(1000.0);
    let start = bench.now;
    bench.give::<DmaNic>(0.0, &request(1, 8));
    bench.run_for::<DmaNic>(1000.0);
    bench.give::<DmaNic>(0.0, &request(2, 64));
    bench.run_for::<DmaNic>(1000.0);
    let sent = std::mem::take(&mut bench.sent);
    for (number, (_, packet)) in (1..).zip(&sent) {
        let (came, went) = (request(number, 8).to_bytes(), packet.to_bytes());
        assert_eq!((&went[..6], &went[6..12]), (&came[6..12], &came[..6]));
    }
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].1.payload, request(2, 64).payload);
    // In cycles: 0 NEXT, which waits, and executes when the frame arrives; 2 instructions later the
    // loads, a cycle each, of which the first store does not need the last ones; the stores; SEND.
    // For the first frame some lines of instructions were missing.
    let took = sent[1].0 - (start + ns(1000.0));
    assert_eq!(took, ns(26.0 + 9.0 + 26.0));
    let counts = of_cores(&mut bench);
    assert_eq!((counts.frames, counts.frames_sent), (2, 2));
    assert_eq!(statistics(&mut bench).frames_sent, 2);
    assert_eq!(statistics(&mut bench).express_bytes, 0);
}

/// The host's stores reach the scratchpad over PCI Express, and firmware sees them.
#[test]
fn the_host_writes_the_scratchpad() {
    let firmware = firmware(|asm| {
        asm.load_immediate(T0, RESULTS);
        asm.add(T0, T0, S1);
        let wait = asm.label_here();
        asm.load_double(T1, T0, 0);
        asm.branch(When::Equal, T1, ZERO, wait);
        asm.add_immediate(T1, T1, 1);
        asm.store_double(T1, T0, 8);
        park(asm);
    });
    let mut bench = bench(&spec(1), &firmware);
    bench.run_for::<DmaNic>(100.0);
    bench.write(WINDOW + RESULTS, 8, 41);
    bench.run_for::<DmaNic>(1000.0);
    assert_eq!(word(&mut bench, RESULTS + 8), 42);
    // There is nothing beyond its end, or between it and the registers.
    let end = bench.answer::<DmaNic>(|bench| bench.read(WINDOW + 256 * 1024 - 8, 8));
    assert_eq!(end, Ok(0));
    let between = bench.answer::<DmaNic>(|bench| bench.read(WINDOW - 8, 8));
    assert_eq!(between, Err(()));
}

/// The error message of one core's firmware.
fn fault(code: impl Fn(&mut Assembler)) -> String {
    let firmware = firmware(|asm| {
        asm.name("bad");
        code(asm);
        park(asm);
    });
    let mut spec = spec(1);
    spec.processors.as_mut().unwrap().max_instructions = 1000;
    let mut bench = bench(&spec, &firmware);
    bench.run_for::<DmaNic>(100.0);
    bench.give::<DmaNic>(0.0, &request(1, 8));
    bench.run_for::<DmaNic>(20_000.0);
    bench
        .nic::<DmaNic>()
        .fault()
        .unwrap_or("nothing")
        .to_string()
}

#[test]
fn what_firmware_does_wrong_is_named() {
    let begins = "the firmware of the network interface fails on its core 0 at 0x10000";
    type Code = fn(&mut Assembler);
    let cases: [(Code, &str); 13] = [
        (
            |asm| {
                asm.load_immediate(T0, SCRATCHPAD + 256 * 1024 - 4);
                asm.store_double(T0, T0, 0);
            },
            "an access of 8 bytes to 0x1003fffc, but the scratchpad of 262144 bytes ends at \
             0x10040000",
        ),
        (
            |asm| {
                read_register(asm, SP, "STACK");
                asm.add_immediate(SP, SP, -2047);
                asm.store_double(T0, SP, -8);
            },
            "the stack of 2048 bytes begins at 0x1003f800: it is overrun \
             (server.dma_nic.processors.stack_bytes)",
        ),
        (
            |asm| {
                let again = asm.label_here();
                asm.jump(again);
            },
            "1001 instructions without requesting a frame, which suggests an endless loop \
             (server.dma_nic.processors.max_instructions)",
        ),
        (|asm| asm.emit(0), ".word 0x0000"),
        (|asm| asm.csr_read(T0, CYCLE), "csrrs"),
        (|asm| asm.operate(FADD_D, 1, 2, 3), "fadd.d"),
        (
            |asm| {
                asm.load_immediate(T0, 2);
                write_register(asm, "STEER", T0);
            },
            "a steering tag for core 2 of the host, which has 2: it must be one of them, or -1 for \
             none",
        ),
        (
            |asm| {
                read_register(asm, ZERO, "NEXT");
                asm.load_immediate(T0, 1);
                write_register(asm, "DELIVER", T0);
            },
            "a frame for receive ring 1, but the host has 1 (server.dma_nic.queues)",
        ),
        (
            |asm| {
                read_register(asm, ZERO, "NEXT");
                read_register(asm, ZERO, "NEXT");
            },
            "it requests another frame before it has delivered, sent or dropped its own",
        ),
        (
            |asm| asm.load_double(T0, S2, 0),
            "an access to a frame, but the core has none",
        ),
        (
            |asm| {
                asm.load_immediate(T0, MEMORY);
                asm.store_double(T0, T0, 0);
            },
            "a store to 0x80000000: host memory can only be loaded from, data for it must go \
             through a receive ring",
        ),
        (
            |asm| asm.jump_register(ZERO, S0, 0),
            "there is no instruction: firmware is in the scratchpad",
        ),
        (
            |asm| {
                read_register(asm, ZERO, "NEXT");
                asm.load_immediate(T0, 1521);
                write_register(asm, "SEND", T0);
            },
            "a frame of 1521 bytes to send; it must have 1 to 1520",
        ),
    ];
    for (code, expected) in cases {
        let found = fault(code);
        assert!(found.contains(expected), "{found}");
        if !expected.starts_with("there is no instruction") {
            assert!(
                found.starts_with(begins) && found.contains(" (bad+0x"),
                "{found}"
            );
        }
    }
}

#[test]
fn firmware_that_cannot_be_is_refused() {
    let mut nic = DmaNic::new(&spec(6), REGISTERS).unwrap();
    let mut refused = |firmware: &[u8]| {
        let error = nic.program(firmware, 2, REGISTERS + WINDOW).unwrap_err();
        assert_eq!(error.key, "processors.firmware");
        error.to_string()
    };
    let found = refused(b"no ELF file");
    assert!(found.contains("this is not an ELF file"), "{found}");
    // 256 KB, less 6 stacks of 2048 bytes, are 249,856.
    let large = firmware(|asm| (0..249_856 / 4).for_each(|_| asm.nop()));
    let found = refused(&large);
    assert!(
        found.contains(
            "it takes addresses from 0x10000000 to 0x1003d0"
        ) && found.contains(
            "but firmware has 249856 bytes from 0x10000000 on: the scratchpad's 262144, less 12288 \
             for the stacks of 6 cores"
        ),
        "{found}"
    );
    // Linked for the host.
    let mut asm = Assembler::new();
    asm.nop();
    let found = refused(&elf(&asm.finish(&[])));
    assert!(
        found.contains("it takes addresses from 0x80000000"),
        "{found}"
    );
}

/// The hash and the ring of receive-side scaling are the interface's.
#[test]
fn registers_tell_of_the_frame() {
    let firmware = firmware(|asm| {
        read_register(asm, T0, "NEXT");
        read_register(asm, T1, "HASH");
        read_register(asm, T2, "QUEUE");
        read_register(asm, T3, "QUEUES");
        asm.load_immediate(T4, RESULTS);
        asm.add(T4, T4, S1);
        for (place, register) in [T0, T1, T2, T3].into_iter().enumerate() {
            asm.store_double(register, T4, 8 * place as i64);
        }
        write_register(asm, "DROP", ZERO);
        park(asm);
    });
    let spec = DmaNicSpec {
        queues: 3,
        ..spec(1)
    };
    let mut bench = bench(&spec, &firmware);
    bench.give::<DmaNic>(0.0, &request(5, 8));
    bench.run_for::<DmaNic>(2000.0);
    let hash = u64::from(toeplitz(
        &MICROSOFT_KEY,
        &[10, 0, 0, 3, 10, 0, 0, 2, 0, 5, 0, 1],
    ));
    let found = [0, 8, 16, 24].map(|offset| word(&mut bench, RESULTS + offset));
    assert_eq!(found, [72, hash, hash % 128 % 3, 3]);
    assert_eq!(of_cores(&mut bench).frames_dropped, 1);
}

/// A checkpoint at any time continues like the original.
#[test]
fn a_checkpoint_goes_on() {
    let firmware = forwarding();
    let begin = || {
        let mut bench = bench(&spec(6), &firmware);
        give_buffers(&mut bench, 0, 40);
        for number in 0..20 {
            bench.give::<DmaNic>(number as f64 * 9.0, &request(number % 4, 16));
        }
        bench
    };
    let mut original = begin();
    original.run_for::<DmaNic>(120.0);
    let saved = state::Writer::write(&mut original.fabric).unwrap();
    let mut restored = begin();
    state::Reader::read(&mut restored.fabric, &saved).unwrap();
    restored.now = original.now;
    for bench in [&mut original, &mut restored] {
        bench.run_for::<DmaNic>(10_000.0);
    }
    assert_eq!(
        delivered(&mut original, 0, 40),
        delivered(&mut restored, 0, 40)
    );
    assert_eq!(statistics(&mut original), statistics(&mut restored));
    assert_eq!(of_cores(&mut original).frames_to_host, 20);
}

/// Untrusted code ends by itself, at the end of its budget, or with a forbidden operation. In each
/// case firmware continues with its own registers, and nothing in the scratchpad or in memory has
/// changed.
#[test]
fn code_that_is_run_changes_nothing() {
    let kept = SCRATCHPAD + RESULTS + 0x100;
    let loop_forever = |asm: &mut Assembler| {
        let again = asm.label_here();
        asm.add_immediate(A1, A1, 1);
        asm.jump(again);
    };
    // The code, its `a0`, and the reason that it ends.
    type Code<'a> = &'a dyn Fn(&mut Assembler);
    let codes: [(Code<'_>, u64, u64); 9] = [
        (&|asm| asm.ebreak(), 0, 0),
        (
            &|asm| {
                // Its registers are initially 0, and it can load from the scratchpad and from host
                // memory.
                let wrong = asm.label();
                asm.branch(When::NotEqual, S0, ZERO, wrong);
                asm.load_double(A1, A0, 0);
                asm.load_immediate(A2, 77);
                asm.branch(When::NotEqual, A1, A2, wrong);
                asm.load_immediate(A3, MEMORY);
                asm.load_double(S0, A3, 0);
                asm.branch(When::Equal, S0, ZERO, wrong);
                asm.load_double(S0, A3, 64);
                asm.ebreak();
                asm.bind(wrong);
                loop_forever(asm);
            },
            kept,
            0,
        ),
        (&loop_forever, 0, 1),
        (&|asm| asm.store_double(ZERO, A0, 0), kept, 2),
        (&|asm| asm.store_double(ZERO, A0, 0), MEMORY, 2),
        (&|asm| asm.amo(0, 0, 8, A1, A0, ZERO), kept, 2),
        (
            &|asm| asm.load_double(A1, A0, interface("NEXT") as i64),
            INTERFACE,
            2,
        ),
        (&|asm| asm.jump_register(ZERO, A0, 0), MEMORY, 2),
        (&|asm| asm.load_double(A1, A0, 0), FRAME, 2),
    ];
    let firmware = firmware(|asm| {
        let start = asm.label();
        asm.jump(start);
        let places: Vec<u64> = codes
            .iter()
            .map(|(code, ..)| {
                let place = asm.here() - CODE + SCRATCHPAD;
                code(asm);
                place
            })
            .collect();
        asm.bind(start);
        asm.load_immediate(S4, kept);
        asm.load_immediate(T0, 77);
        asm.store_double(T0, S4, 0);
        for (number, (&place, (_, argument, _))) in places.iter().zip(&codes).enumerate() {
            asm.load_immediate(A0, *argument);
            write_register(asm, "RUN_ARGUMENT", A0);
            asm.load_immediate(T0, 40);
            write_register(asm, "RUN_BUDGET", T0);
            asm.load_immediate(T0, place);
            asm.load_immediate(S0, INTERFACE);
            write_register(asm, "RUN", T0);
            read_register(asm, T1, "RUN_ENDED");
            asm.store_double(T1, S4, 8 * (1 + number) as i64);
        }
        read_register(asm, ZERO, "DRAIN");
        park(asm);
    });
    let mut bench = bench(&spec(1), &firmware);
    bench.store::<DmaNic>(MEMORY, &5u64.to_le_bytes());
    bench.run_for::<DmaNic>(8000.0);
    assert_eq!(bench.nic::<DmaNic>().fault(), None);
    let found: Vec<u64> = (0..=codes.len() as u64)
        .map(|number| word(&mut bench, RESULTS + 0x100 + 8 * number))
        .collect();
    let expected: Vec<u64> = codes.iter().map(|(.., why)| *why).collect();
    assert_eq!((found[0], &found[1..]), (77, &expected[..]));
    assert_eq!(bench.load::<DmaNic>(MEMORY, 8), 5u64.to_le_bytes());
    let counts = of_cores(&mut bench);
    assert_eq!((counts.runs, counts.runs_over_budget), (9, 1));
    assert_eq!((counts.runs_refused, counts.run_host_loads), (6, 2));
    let refused = bench.nic::<DmaNic>().statistics().refused_run;
    let refused = refused.expect("a forbidden operation");
    assert!(
        refused.starts_with("untrusted code on core 0 at 0x1000")
            && refused.ends_with(
                ": sd zero, 0(a0), but such code only has integer arithmetic, jumps and loads"
            ),
        "{refused}"
    );
    assert!(counts.run_instructions >= 40 && counts.run_instructions < 60);
    // Two requests, and two words.
    assert_eq!(counts.host_load_request_bytes, 2 * 24);
    assert_eq!(counts.host_load_data_bytes, 2 * (20 + 8));
}

/// The listener receives a frame's notes, with the buffer's address, and its blocks are written
/// into the firmware's window, and nowhere else.
#[test]
fn notes_and_the_window() {
    let window = SCRATCHPAD + RESULTS;
    let firmware = firmware(|asm| {
        asm.load_immediate(T0, window);
        write_register(asm, "WINDOW", T0);
        asm.load_immediate(T0, 128);
        write_register(asm, "WINDOW_BYTES", T0);
        let next = asm.label_here();
        read_register(asm, T0, "NEXT");
        asm.load_immediate(T1, 3);
        write_register(asm, "NOTE", T1);
        write_register(asm, "NOTE", T0);
        write_register(asm, "DELIVER", ZERO);
        asm.jump(next);
    });
    let mut bench = bench(&spec(1), &firmware);
    let listener = bench.memory;
    bench.nic::<DmaNic>().connect_listener(listener);
    give_buffers(&mut bench, 0, 4);
    let block = |header, word: u64| {
        let mut data = fabric::LineData::ZERO;
        data.write(8, 8, word);
        fabric::AgentMessage { header, data }
    };
    bench.told.borrow_mut().1 = vec![block(0, 11), block(64, 22), block(128, 33), block(!0, 44)];
    bench.give::<DmaNic>(0.0, &request(1, 8));
    bench.run_for::<DmaNic>(4000.0);
    assert_eq!(bench.nic::<DmaNic>().fault(), None);
    assert_eq!(delivered(&mut bench, 0, 1).len(), 1);
    let bytes = request(1, 8).to_bytes().len() as u64;
    let heard = bench.told.borrow().0.clone();
    let words: Vec<u64> = (0..3).map(|place| heard[0].read(8 * place, 8)).collect();
    assert_eq!(
        (heard.len(), &words[..]),
        (1, &[2 << 32 | bytes, 3, bytes][..])
    );
    let found = [8, 72, 136].map(|offset| word(&mut bench, RESULTS + offset));
    assert_eq!(found, [11, 22, 0]);
    let counts = of_cores(&mut bench);
    assert_eq!(counts.window_blocks_refused, 2);
    assert_eq!(counts.window_bytes, 4 * (24 + 64));
    assert_eq!(counts.note_bytes, 24 + 8 * 4);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    /// Whatever code is run, with any `a0`: firmware continues, and neither the scratchpad nor
    /// memory nor the frames have changed.
    #[test]
    fn any_code_can_be_run(
        code in proptest::collection::vec(
            (proptest::prelude::any::<u32>(), 0..8usize), 1..20,
        ),
        place in 0..4usize,
        budget in 1..200u64,
    ) {
        let argument = [MEMORY, SCRATCHPAD, INTERFACE, FRAME][place];
        let kept = SCRATCHPAD + RESULTS + 0x100;
        // Random words, which are seldom instructions, and instructions with random operands.
        let opcodes = [0x03, 0x13, 0x33, 0x23, 0x63, 0x6f, 0x2f];
        let words: Vec<u32> = code
            .iter()
            .map(|&(word, kind)| match opcodes.get(kind) {
                // Operands are `a0` and its neighbours, and small offsets.
                Some(opcode) => word & 0x01f1_f000 & !(1 << 19) | 10 << 15 | (word >> 7 & 3 | 8) << 7 | opcode,
                None => word,
            })
            .collect();
        let firmware = firmware(|asm| {
            let start = asm.label();
            asm.jump(start);
            let code = asm.here() - CODE + SCRATCHPAD;
            words.iter().for_each(|&word| asm.emit(word));
            asm.ebreak();
            asm.bind(start);
            asm.load_immediate(S4, kept);
            for (register, value) in [("RUN_ARGUMENT", argument), ("RUN_BUDGET", budget), ("RUN", code)] {
                asm.load_immediate(T0, value);
                write_register(asm, register, T0);
            }
            read_register(asm, T1, "RUN_ENDED");
            asm.store_double(T1, S4, 0);
            asm.add_immediate(T1, S3, 99);
            asm.store_double(T1, S4, 8);
            read_register(asm, ZERO, "DRAIN");
            park(asm);
        });
        let mut bench = bench(&spec(1), &firmware);
        bench.store::<DmaNic>(MEMORY, &[7; 64]);
        bench.run_for::<DmaNic>(1000.0);
        let before: Vec<u64> = (0..16).map(|at| word(&mut bench, 8 * at)).collect();
        bench.give::<DmaNic>(0.0, &request(1, 8));
        bench.run_for::<DmaNic>(200_000.0);
        proptest::prop_assert_eq!(bench.nic::<DmaNic>().fault(), None);
        let after: Vec<u64> = (0..16).map(|at| word(&mut bench, 8 * at)).collect();
        proptest::prop_assert_eq!(before, after);
        proptest::prop_assert_eq!(bench.load::<DmaNic>(MEMORY, 64), [7; 64]);
        let found = [0, 8, 16].map(|at| word(&mut bench, RESULTS + 0x100 + at));
        let counts = of_cores(&mut bench);
        let why = counts.runs_over_budget
            + 2 * counts.runs_refused
            + 3 * counts.runs_without_memory;
        proptest::prop_assert_eq!(found, [why, 99, 0]);
        proptest::prop_assert!(counts.run_instructions <= budget);
        // The frame was left to firmware.
        proptest::prop_assert_eq!((counts.frames, counts.frames_dropped), (1, 1));
    }
}
