//! Whole programs of a few instructions.

use riscv::interpreter::{FlatMemory, Machine, Memory, Step};
use riscv::{Cause, Trap};

const BASE: u64 = 0x8000_0000;
const HANDLER: u64 = BASE + 0x800;

fn machine(program: &[u32]) -> Machine<FlatMemory> {
    let mut memory = FlatMemory::new(BASE, 0x1000);
    for (index, &word) in program.iter().enumerate() {
        assert!(memory.write(BASE + 4 * index as u64, 4, word.into()));
    }
    let mut machine = Machine::new(memory, BASE);
    machine.hart.csrs.mtvec = HANDLER;
    machine
}

fn trap(machine: &mut Machine<FlatMemory>) -> Trap {
    match machine.step() {
        Step::Trapped(trap) => {
            assert_eq!(machine.pc, HANDLER);
            trap
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn adds_up_to_ten() {
    let mut machine = machine(&[
        0x0000_0513, // li a0, 0
        0x00a0_0593, // li a1, 10
        0x00b5_0533, // 1: add a0, a0, a1
        0xfff5_8593, // addi a1, a1, -1
        0xfe05_9ce3, // bnez a1, 1b
        0x0000_0073, // ecall
    ]);
    let stop = machine.run(1000);
    assert_eq!(
        stop,
        Some(Step::Trapped(Trap {
            cause: Cause::EcallMachine,
            value: 0
        }))
    );
    assert_eq!(machine.registers[10], 55);
    assert_eq!(machine.retired, 2 + 3 * 10);
    assert_eq!(machine.hart.csrs.mepc, BASE + 20);
}

#[test]
fn x0_stays_zero() {
    let mut machine = machine(&[0x0010_0013]); // addi zero, zero, 1
    machine.step();
    assert_eq!(machine.registers[0], 0);
}

#[test]
fn nothing_at_the_address() {
    let mut machine = machine(&[0x0000_3003, 0x0000_3023]); // ld zero, 0(zero); sd zero, 0(zero)
    assert_eq!(
        trap(&mut machine),
        Trap {
            cause: Cause::LoadAccess,
            value: 0
        }
    );
    assert_eq!(
        (machine.hart.csrs.mepc, machine.hart.csrs.mcause),
        (BASE, 5)
    );
    machine.pc = BASE + 4;
    assert_eq!(
        trap(&mut machine),
        Trap {
            cause: Cause::StoreAccess,
            value: 0
        }
    );
    machine.pc = 0x10;
    assert_eq!(
        trap(&mut machine),
        Trap {
            cause: Cause::InstructionAccess,
            value: 0x10
        }
    );
    // Half an instruction at the end of memory.
    machine.memory.write(BASE + 0xffe, 2, 3);
    machine.pc = BASE + 0xffe;
    let missing = Trap {
        cause: Cause::InstructionAccess,
        value: BASE + 0x1000,
    };
    assert_eq!(trap(&mut machine), missing);
}

#[test]
fn loads_may_be_misaligned_but_atomics_may_not() {
    let mut machine = machine(&[
        0x0015_3583, // ld a1, 1(a0)
        0x1005_a5af, // lr.w a1, (a1)
        0x00c5_a5af, // amoadd.w a1, a2, (a1)
        0x18c5_a5af, // sc.w a1, a2, (a1)
    ]);
    machine.registers[10] = BASE + 0x100;
    machine.memory.write(BASE + 0x101, 8, BASE + 0x102);
    assert!(matches!(machine.step(), Step::Retired(_)));
    assert_eq!(machine.registers[11], BASE + 0x102);
    for (index, cause) in [
        Cause::LoadMisaligned,
        Cause::StoreMisaligned,
        Cause::StoreMisaligned,
    ]
    .iter()
    .enumerate()
    {
        machine.pc = BASE + 4 * (index as u64 + 1);
        assert_eq!(
            trap(&mut machine),
            Trap {
                cause: *cause,
                value: BASE + 0x102
            }
        );
    }
}

#[test]
fn a_store_conditional_needs_its_reservation() {
    let mut machine = machine(&[
        0x1005_362f, // lr.d a2, (a0)
        0x18b5_36af, // sc.d a3, a1, (a0)
        0x18b5_372f, // sc.d a4, a1, (a0)
    ]);
    machine.registers[10] = BASE + 0x100;
    machine.registers[11] = 7;
    for _ in 0..3 {
        machine.step();
    }
    assert_eq!(machine.registers[12..15], [0, 0, 1]);
    assert_eq!(machine.memory.read(BASE + 0x100, 8), Some(7));
}

#[test]
fn floating_point_must_be_on() {
    let mut machine = machine(&[0x0000_0053]); // fadd.s ft0, ft0, ft0, rne
    let off = Trap {
        cause: Cause::IllegalInstruction,
        value: 0x53,
    };
    assert_eq!(trap(&mut machine), off);
    machine.pc = BASE;
    machine.hart.csrs.mstatus |= 1 << 13; // Initial
    assert!(matches!(machine.step(), Step::Retired(_)));
    assert_eq!(machine.hart.csrs.mstatus >> 13 & 3, 3, "dirty");
}

#[test]
fn a_dynamic_rounding_mode_must_exist() {
    let mut machine = machine(&[0x0000_7053]); // fadd.s ft0, ft0, ft0, dyn
    machine.hart.set_float_dirty();
    machine.hart.csrs.fcsr = 5 << 5;
    let reserved = Trap {
        cause: Cause::IllegalInstruction,
        value: 0x7053,
    };
    assert_eq!(trap(&mut machine), reserved);
}

#[test]
fn waits_for_an_interrupt_and_takes_it() {
    let mut machine = machine(&[0x1050_0073, 0x0000_0013]); // wfi; nop
    machine.hart.csrs.mie = 1 << 7;
    machine.hart.csrs.mstatus |= 1 << 3;
    assert!(matches!(machine.step(), Step::Retired(_)));
    assert_eq!(machine.step(), Step::Waiting);
    machine.hart.set_interrupt(7, true);
    assert_eq!(trap(&mut machine).cause, Cause::Interrupt(7));
    assert_eq!(
        machine.hart.csrs.mepc,
        BASE + 4,
        "the instruction after wfi comes next"
    );
}

/// `wrs.nto` and `wrs.sto` may end at any time; here they end at once, and keep the reservation.
#[test]
fn does_not_wait_on_a_reservation() {
    let mut machine = machine(&[
        0x1005_362f, // lr.d a2, (a0)
        0x00d0_0073, // wrs.nto
        0x01d0_0073, // wrs.sto
        0x18b5_36af, // sc.d a3, a1, (a0)
    ]);
    machine.registers[10] = BASE + 0x100;
    machine.registers[13] = 7;
    for _ in 0..4 {
        assert!(matches!(machine.step(), Step::Retired(_)));
    }
    assert_eq!(machine.registers[13], 0);
}

#[test]
fn programs_that_do_not_fit_are_not_loaded() {
    let segment = riscv::elf::Segment {
        address: BASE + 0xff0,
        virtual_address: BASE + 0xff0,
        bytes: vec![1; 8],
        memory_bytes: 0x10,
        executable: true,
        writable: true,
    };
    let mut image = riscv::elf::Image {
        entry: BASE,
        segments: vec![segment],
        symbols: Vec::new(),
        tohost: None,
        fromhost: None,
        headers: riscv::elf::Headers::default(),
    };
    let mut memory = FlatMemory::new(BASE, 0x1000);
    memory.write(BASE + 0xff8, 8, u64::MAX);
    assert!(memory.load(&image));
    assert_eq!(
        memory.read(BASE + 0xff8, 8),
        Some(0),
        "what the file does not give is zero"
    );
    image.segments[0].memory_bytes += 1;
    assert!(!memory.load(&image));
}
