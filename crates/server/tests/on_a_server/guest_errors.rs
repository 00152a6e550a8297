//! The error messages about guests that crash, deadlock or run for ever.

use crate::common::assembler::*;
use crate::common::servers::{models, server, with_total_store_order};
use crate::selection::effort;
use riscv::paging::{Entry, TABLE_BYTES};
use server::{
    Description, ExecuteOptions, ExecuteResult, FunctionalOptions, Program, RunError,
    SimulatorSpec, execute, execute_functionally,
};
use std::sync::mpsc;
use std::time::Duration;

/// The host-target interface.
const HOST: u64 = 0x8010_0000;
/// An unmapped address.
const NOTHING: u64 = 0x4000_0040;

fn description(harts: usize, core: &pipeline::CoreSpec, simulator: SimulatorSpec) -> Description {
    let table = serde_json::json!({"server": server(harts, core).table(), "simulator": simulator});
    serde_json::from_value(table).expect("it is a description")
}

fn file(asm: Assembler) -> Vec<u8> {
    elf(&with_host(asm.finish(&[]), HOST))
}

fn executed(harts: usize, program: &[u8]) -> Vec<Result<ExecuteResult, RunError>> {
    executed_on(harts, &models(), program)
}

fn executed_on(
    harts: usize,
    cores: &[pipeline::CoreSpec],
    program: &[u8],
) -> Vec<Result<ExecuteResult, RunError>> {
    cores
        .iter()
        .map(|core| {
            let description = description(harts, core, SimulatorSpec::default());
            execute(
                &description,
                &Program {
                    elf: program.to_vec(),
                    ..Program::default()
                },
                &ExecuteOptions::default(),
                || true,
            )
        })
        .collect()
}

/// Runs a guest that fails, on both models, and checks the kind of error and that its text contains
/// all of `parts`.
fn assert_error(harts: usize, asm: Assembler, kind: &str, parts: &[&str]) {
    let program = file(asm);
    for result in executed(harts, &program) {
        let error = result.expect_err("the guest fails");
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }
}

/// Supervisor mode executes a forbidden instruction, at an address that only its page table maps.
#[test]
fn a_crash_shows_the_instruction_at_its_virtual_address() {
    const TABLE: u64 = 0x8020_0000;
    const SUPERVISOR: u64 = 1 << 11;
    // 1 GB at 4 GB maps to 2 GB, which begins with the program.
    let entry = Entry::READ | Entry::EXECUTE | Entry::VALID | Entry::ACCESSED | Entry::DIRTY;
    let mut table = vec![0; TABLE_BYTES as usize];
    table[4 * 8..5 * 8].copy_from_slice(&Entry::new(CODE, entry).0.to_le_bytes());
    let mut asm = Assembler::new();
    for (csr, value) in [
        (SATP, (8 << 60) | (TABLE / TABLE_BYTES)),
        (MSTATUS, SUPERVISOR),
        (MEPC, (4 << 30) + 0x1000),
    ] {
        asm.load_immediate(T0, value);
        asm.csr_write(csr, T0);
    }
    asm.mret();
    asm.align(0x1000);
    asm.csr_read(S3, MHARTID);
    let program = Program {
        elf: elf(&with_host(asm.finish(&[(TABLE, table)]), HOST)),
        ..Program::default()
    };
    let mut errors: Vec<RunError> = executed(1, &program.elf)
        .into_iter()
        .filter_map(Result::err)
        .collect();
    let description = description(1, &models()[0], SimulatorSpec::default());
    let options = FunctionalOptions::default();
    let functional = execute_functionally(&description, &program, &options, || true);
    errors.extend(functional.err());
    assert_eq!(errors.len(), 3);
    for error in errors {
        let text = error.to_string();
        for part in [
            "illegal instruction at pc 0x100001000",
            "csrrs s3, mhartid, zero",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }
}

/// A guest in a function `main`, whose registers s0 and t6 have known values.
fn guest() -> Assembler {
    let mut asm = Assembler::new();
    asm.name("_start");
    asm.nop();
    asm.name("main");
    asm.load_immediate(S0, 0x1234_5678_9abc_def0);
    asm.load_immediate(T6, 0xfeed);
    asm
}

const REGISTERS: [&str; 2] = ["  s0 123456789abcdef0", " t6 000000000000feed"];

fn with_registers<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    [parts, &REGISTERS].concat()
}

#[test]
fn a_jump_to_nowhere() {
    let mut asm = guest();
    asm.load_immediate(T0, NOTHING);
    asm.jump_register(RA, T0, 0);
    assert_error(
        1,
        asm,
        "guest",
        &with_registers(&[
            "hart 0, instruction access fault at pc 0x40000040",
            "no memory to execute",
        ]),
    );
}

#[test]
fn an_illegal_instruction() {
    let mut asm = guest();
    let pc = format!("illegal instruction at pc {:#x} (main+", asm.here());
    asm.emit(0xffff_ffff);
    assert_error(1, asm, "guest", &with_registers(&[&pc, "ffffffff"]));
}

/// An instruction of another machine: the required extension is named, if the encoding identifies
/// it.
#[test]
fn an_instruction_of_an_absent_extension() {
    for (bits, name) in [
        (0x0d05_7557, "which needs the V extension (vectors)"), // vsetvli
        (0x0eb5_5533, "which needs the Zicond extension"),      // czero.eqz
        (0x16b5_0073, "which needs the Svinval extension"),     // sinval.vma a0, a1
        (0x7c00_1073, "whose register does not exist"),         // csrw 0x7c0, zero
        (0xc000_1073, "or not for this access"),                // csrw cycle, zero
        (0x02b5_7553, "floating point is off (mstatus.FS)"),    // fadd.d, before it is turned on
    ] {
        let mut asm = guest();
        let pc = format!("illegal instruction at pc {:#x} (main+", asm.here());
        asm.emit(bits);
        let encoding = format!("{bits:08x}");
        assert_error(1, asm, "guest", &with_registers(&[&pc, &encoding, name]));
    }
}

#[test]
fn a_misaligned_atomic() {
    let mut asm = guest();
    asm.load_immediate(A0, 0x8020_0004);
    let pc = format!("misaligned store or atomic address at pc {:#x}", asm.here());
    asm.amo(AMO_ADD, RELAXED, 8, A1, A2, A0);
    assert_error(
        1,
        asm,
        "guest",
        &with_registers(&[&pc, "value 0x80200004", "amoadd.d a1, a2, (a0)"]),
    );
}

/// The server has 16 MiB: the second half of a four-byte instruction is beyond them.
#[test]
fn an_instruction_that_runs_out_of_memory() {
    const LAST: u64 = 0x8100_0000 - 2;
    let mut asm = guest();
    asm.load_immediate(T0, LAST);
    asm.load_immediate(T1, 0x13); // addi
    asm.store(2, T1, T0, 0);
    asm.fence_instructions();
    asm.jump_register(ZERO, T0, 0);
    assert_error(
        1,
        asm,
        "guest",
        &with_registers(&[
            "instruction access fault at pc 0x80fffffe",
            "the instruction goes on at 0x81000000, where there is no memory",
        ]),
    );
}

#[test]
fn a_store_to_unmapped_memory() {
    let mut asm = guest();
    asm.load_immediate(A0, NOTHING);
    let pc = format!("store or atomic access fault at pc {:#x}", asm.here());
    asm.store(4, T6, A0, 8);
    assert_error(
        1,
        asm,
        "guest",
        &with_registers(&[&pc, "value 0x40000048", "01f52423", "sw t6, 8(a0)"]),
    );
}

/// The last bytes of the address space: their end overflows 64 bits.
#[test]
fn a_load_at_the_end_of_all_addresses() {
    for (bytes, address) in [(8, u64::MAX - 7), (1, u64::MAX), (8, u64::MAX - 2)] {
        let mut asm = guest();
        asm.load_immediate(A0, address);
        let pc = format!("load access fault at pc {:#x}", asm.here());
        asm.load(bytes, true, A1, A0, 0);
        let value = format!("value {address:#x}");
        assert_error(1, asm, "guest", &with_registers(&[&pc, &value]));
    }
}

/// The load's address comes from a miss, so that the core has run ahead in the meantime.
#[test]
fn a_load_through_a_pointer_to_nothing() {
    let mut asm = guest();
    asm.load_immediate(A0, 0x8020_0000);
    asm.load_double(A0, A0, 0);
    let pc = format!("load access fault at pc {:#x}", asm.here());
    asm.load_double(A1, A0, 16);
    asm.load_immediate(T6, 1);
    assert_error(
        1,
        asm,
        "guest",
        &with_registers(&[&pc, "value 0x10", "ld a1, 16(a0)"]),
    );
}

#[test]
fn an_overrun_stack() {
    let mut asm = guest();
    // The upper 256 KiB of the first hart's mebibyte are memory.
    asm.load_immediate(SP, 0x7000_0000 + 0xc_0000 - 16);
    asm.store_double(RA, SP, 8);
    assert_error(
        1,
        asm,
        "guest",
        &with_registers(&["0x700bfff8 is below the stack of 256 KiB", "sd ra, 8(sp)"]),
    );
}

#[test]
fn a_call_to_an_environment_that_is_not_there() {
    let mut asm = guest();
    let pc = format!("environment call from machine mode at pc {:#x}", asm.here());
    asm.ecall();
    assert_error(1, asm, "guest", &with_registers(&[&pc, "ecall"]));
}

#[test]
fn another_hart_crashes() {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        if hart == 1 {
            asm.ebreak();
        }
        asm.halt();
    });
    assert_error(
        2,
        asm,
        "guest",
        &["hart 1, breakpoint at pc 0x800000", "ebreak"],
    );
}

#[test]
fn everybody_waits_for_ever() {
    let mut asm = Assembler::new();
    asm.name("main");
    asm.halt();
    assert_error(
        3,
        asm,
        "deadlock",
        &[
            "nothing will ever happen again",
            "hart 0 at 0x80000000 (main) waits for an interrupt (WFI)",
            "2 harts wait for an interrupt (WFI)",
        ],
    );
}

#[test]
fn a_program_that_exits_and_halts_has_ended() {
    for status in [0, 7] {
        let mut asm = Assembler::new();
        asm.load_immediate(T0, HOST);
        asm.load_immediate(T1, status << 1 | 1);
        asm.store_double(T1, T0, 0);
        asm.halt();
        let program = file(asm);
        for result in executed(2, &program) {
            match result {
                Ok(result) => assert_eq!(result.exit_status, status),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_program_that_exits_and_goes_on_has_ended() {
    let mut asm = Assembler::new();
    asm.load_immediate(T0, HOST);
    asm.add_immediate(T1, ZERO, 1);
    asm.store_double(T1, T0, 0);
    let again = asm.label_here();
    asm.load_double(T2, T0, 128);
    asm.jump(again);
    let program = file(asm);
    for result in executed(1, &program) {
        match result {
            Ok(result) => assert_eq!(result.exit_status, 0),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The caller can interrupt an endless loop, although no event ever occurs outside the core, and
/// however fast its iterations are skipped.
#[test]
fn a_loop_without_end_can_be_interrupted() {
    type Body = fn(&mut Assembler);
    let bodies: [Body; 4] = [
        |asm| {
            let again = asm.label_here();
            asm.jump(again);
        },
        |asm| {
            let again = asm.label_here();
            asm.branch(When::Equal, ZERO, ZERO, again);
        },
        |asm| {
            asm.load_immediate(T0, 0x8020_0000);
            let again = asm.label_here();
            asm.load_double(T1, T0, 0);
            asm.branch(When::Equal, T1, ZERO, again);
        },
        |asm| {
            let again = asm.label_here();
            asm.csr_read(T0, CYCLE);
            asm.branch(When::NotEqual, T0, ZERO, again);
        },
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        for core in models() {
            for skip_spinning in [false, true] {
                // Without skipping, all loops end in the same way, and each takes a second.
                if !skip_spinning && number > 0 && effort() == 1 {
                    continue;
                }
                let mut asm = Assembler::new();
                body(&mut asm);
                let program = file(asm);
                let description = description(
                    1,
                    &core,
                    SimulatorSpec {
                        skip_spinning,
                        ..SimulatorSpec::default()
                    },
                );
                let (sender, receiver) = mpsc::channel();
                // If it hangs, the thread ends with the process.
                std::thread::spawn(move || {
                    let program = Program {
                        elf: program,
                        ..Program::default()
                    };
                    let result =
                        execute(&description, &program, &ExecuteOptions::default(), || false);
                    sender.send(result.map(|_| ()).map_err(|error| error.kind()))
                });
                let result = receiver.recv_timeout(Duration::from_secs(100));
                // Polling of a location that is never written is detected, if it may be skipped.
                let never_ends = skip_spinning && number < 3;
                assert_eq!(
                    result,
                    Ok(Err(if never_ends {
                        "deadlock"
                    } else {
                        "interrupted"
                    })),
                    "loop {number}, {:?}, skipping {skip_spinning}",
                    core.model
                );
            }
        }
    }
}

/// A program whose `e_flags` require total store order (EF_RISCV_TSO, 0x10) needs cores that have
/// it.
#[test]
fn a_program_for_another_memory_model() {
    let mut asm = guest();
    asm.load_immediate(T0, HOST);
    asm.load_immediate(T1, 1); // exit with 0
    asm.store_double(T1, T0, 0);
    asm.halt();
    let mut program = file(asm);
    program[48] |= 0x10;
    for result in executed(1, &program) {
        let error = result.expect_err("the cores have RVWMO");
        assert_eq!(error.kind(), "program", "{error}");
        let text = error.to_string();
        assert!(
            text.contains("set server.core.memory_model to \"tso\""),
            "{text}"
        );
    }
    for result in executed_on(1, &models().map(with_total_store_order), &program) {
        assert_eq!(result.expect("the cores have TSO").exit_status, 0);
    }
}
