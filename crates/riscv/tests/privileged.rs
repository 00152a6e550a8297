//! CSRs, traps and interrupts.

use riscv::paging::{Accessor, Space};
use riscv::{
    Cause, Counters, Hart, Instruction, Privilege, SystemOutcome, TimeOut, Trap, csr_update, decode,
};

/// There are two events.
const EVENTS: fn(u8) -> Option<u64> = |event| match event {
    1 => Some(10),
    2 => Some(100),
    _ => None,
};

const COUNTERS: Counters = Counters {
    cycle: 1000,
    time: 2000,
    instret: 3000,
};

const FCSR: u32 = 0x003;
const MSTATUS: u32 = 0x300;
const MISA: u32 = 0x301;
const MIE: u32 = 0x304;
const MTVEC: u32 = 0x305;
const MEDELEG: u32 = 0x302;
const MIDELEG: u32 = 0x303;
const SSTATUS: u32 = 0x100;
const SIE: u32 = 0x104;
const STVEC: u32 = 0x105;
const SEPC: u32 = 0x141;
const SCAUSE: u32 = 0x142;
const STVAL: u32 = 0x143;
const SIP: u32 = 0x144;
const SATP: u32 = 0x180;
const MCOUNTEREN: u32 = 0x306;
const MEPC: u32 = 0x341;
const MIP: u32 = 0x344;
const FS_DIRTY: u64 = 3 << 13;
const MPP: u64 = 3 << 11;

/// `csrrw` (1), `csrrs` (2), `csrrc` (3), and 4 more for the immediate forms.
fn csr(funct3: u32, number: u32, source: u32) -> Instruction {
    decode(0x73 | 10 << 7 | funct3 << 12 | source << 15 | number << 20)
}

fn write(hart: &mut Hart, number: u32, value: u64) -> Result<u64, Trap> {
    hart.csr(&csr(1, number, 11), value, COUNTERS, &EVENTS)
}

fn read(hart: &mut Hart, number: u32) -> Result<u64, Trap> {
    hart.csr(&csr(2, number, 0), 0, COUNTERS, &EVENTS)
}

/// The value read back after a write.
fn legal(hart: &mut Hart, number: u32, value: u64) -> u64 {
    write(hart, number, value).unwrap();
    read(hart, number).unwrap()
}

fn illegal(i: &Instruction) -> Trap {
    Trap {
        cause: Cause::IllegalInstruction,
        value: i.bits.into(),
    }
}

const ECALL: u32 = 0x0000_0073;
const EBREAK: u32 = 0x0010_0073;
const MRET: u32 = 0x3020_0073;
const SRET: u32 = 0x1020_0073;
const SFENCE_VMA: u32 = 0x1200_0073;
const WFI: u32 = 0x1050_0073;
const WRS_NTO: u32 = 0x00d0_0073;
const WRS_STO: u32 = 0x01d0_0073;

/// A program that looks for triggers finds none, whatever it selects.
#[test]
fn there_are_no_triggers() {
    const TSELECT: u32 = 0x7a0;
    const TDATA1: u32 = 0x7a1;
    let mut hart = Hart::new(0);
    assert_eq!(legal(&mut hart, TSELECT, 1 << 63), 0);
    // Type 0: no trigger here.
    assert_eq!(legal(&mut hart, TDATA1, u64::MAX), 0);
}

#[test]
fn six_ways_to_write() {
    const MSCRATCH: u32 = 0x340;
    let mut hart = Hart::new(0);
    let mut run = |funct3, source, value| {
        let old = hart
            .csr(&csr(funct3, MSCRATCH, source), value, COUNTERS, &EVENTS)
            .unwrap();
        (old, hart.csrs.mscratch)
    };
    assert_eq!(run(1, 11, 0xf0), (0, 0xf0));
    assert_eq!(run(2, 11, 0x0f), (0xf0, 0xff));
    assert_eq!(run(3, 11, 0x3c), (0xff, 0xc3));
    assert_eq!(run(5, 0x15, 99), (0xc3, 0x15));
    assert_eq!(run(6, 0x0a, 99), (0x15, 0x1f));
    assert_eq!(run(7, 0x11, 99), (0x1f, 0x0e));
    // From x0: csrrw writes zero, the others write nothing.
    assert_eq!(run(2, 0, 0), (0x0e, 0x0e));
    assert_eq!(run(3, 0, 0), (0x0e, 0x0e));
    assert_eq!(run(1, 0, 0), (0x0e, 0));
}

#[test]
fn update_says_when_nothing_is_written() {
    for funct3 in [2, 3, 6, 7] {
        assert_eq!(csr_update(&csr(funct3, 0, 0), 5, 0), None);
        assert!(csr_update(&csr(funct3, 0, 1), 5, 0).is_some());
    }
    assert_eq!(csr_update(&csr(1, 0, 0), 5, 0), Some(0));
    assert_eq!(csr_update(&csr(5, 0, 0), 5, 0), Some(0));
}

/// "Upon reset, a hart's privilege mode is set to M. The mstatus fields MIE and MPRV are reset to
/// 0", "writable PMP registers' A and L fields are set to 0", and "the value 0 should be returned"
/// in `mcause` without causes to distinguish; "all other hart state is UNSPECIFIED" (Privileged
/// Architecture, "Reset"). Here that is zero, too, except for `scounteren`, constants, and
/// counters, which count from the start.
#[test]
fn csrs_at_reset() {
    let mut hart = Hart::new(42);
    assert_eq!(hart.privilege, Privilege::Machine);
    assert_eq!(hart.csrs.fcsr, 0);
    // UXL and SXL, the widths of registers, are 2: 64 bits.
    let widths = [(SSTATUS, 2 << 32), (MSTATUS, 2 << 34 | 2 << 32)];
    // MXL is 2, and there is a bit for each of the extensions A to U.
    let extensions = "ABCDFIMSU".bytes().map(|letter| 1 << (letter - b'A'));
    let misa = (MISA, extensions.sum::<u64>() | 2 << 62);
    // Cycles, time, instructions and eight event counters.
    let other = [misa, (0x106, 0x7ff), (0xf14, 42)];
    let counted = [
        (0xb00, COUNTERS.cycle),
        (0xc00, COUNTERS.cycle),
        (0xc01, COUNTERS.time),
        (0xb02, COUNTERS.instret),
        (0xc02, COUNTERS.instret),
    ];
    let expected = [&widths[..], &other, &counted].concat();
    let mut zero = 0;
    for number in 0..0x1000 {
        match expected.iter().find(|(one, _)| *one == number) {
            Some(&(_, value)) => assert_eq!(read(&mut hart, number), Ok(value), "{number:#x}"),
            None => match read(&mut hart, number) {
                Ok(value) => {
                    assert_eq!(value, 0, "{number:#x}");
                    zero += 1;
                }
                Err(trap) => assert_eq!(trap.cause, Cause::IllegalInstruction, "{number:#x}"),
            },
        }
    }
    // Supervisor mode: sie, stvec, senvcfg, five for traps, and satp. Machine mode: six of 0x302 to
    // 0x30a, mcountinhibit, 29 events, five for traps, two pmpcfg, 16 pmpaddr, four for triggers,
    // mvendorid, marchid, mimpid and mconfigptr. Twice 29 event counters.
    assert_eq!(zero, 9 + (6 + 1 + 29 + 5 + 2 + 16 + 4 + 4) + 2 * 29);
    // The float registers' CSRs exist with floating point on.
    hart.set_float_dirty();
    for number in [0x001, 0x002, FCSR] {
        assert_eq!(read(&mut hart, number), Ok(0));
    }
}

#[test]
fn read_only_csrs_can_be_read() {
    let mut hart = Hart::new(42);
    assert_eq!(read(&mut hart, 0xf14), Ok(42));
    let attempt = csr(1, 0xf14, 0);
    assert_eq!(
        hart.csr(&attempt, 0, COUNTERS, &EVENTS),
        Err(illegal(&attempt))
    );
    let attempt = csr(6, 0xc00, 1);
    assert_eq!(
        hart.csr(&attempt, 0, COUNTERS, &EVENTS),
        Err(illegal(&attempt))
    );
    for zero in [0xf11, 0xf12, 0xf13, 0xf15] {
        assert_eq!(read(&mut hart, zero), Ok(0));
    }
}

#[test]
fn csrs_that_do_not_exist_trap() {
    let mut hart = Hart::new(0);
    hart.set_float_dirty();
    // Hypervisor CSRs, odd pmpcfg (RV32's), custom, debug.
    for number in [
        0x200, 0x280, 0x14d, 0x310, 0x3a1, 0x3a3, 0x3c0, 0x600, 0x7c0, 0x7b0, 0xc80,
    ] {
        let attempt = csr(2, number, 0);
        assert_eq!(
            hart.csr(&attempt, 0, COUNTERS, &EVENTS),
            Err(illegal(&attempt)),
            "{number:#x}"
        );
    }
}

#[test]
fn user_mode_reaches_user_csrs_only() {
    let mut hart = Hart::new(0);
    hart.set_float_dirty();
    hart.privilege = Privilege::User;
    assert!(read(&mut hart, MSTATUS).is_err());
    assert!(read(&mut hart, 0xf14).is_err());
    assert!(write(&mut hart, FCSR, 0).is_ok());
    for (bit, number) in [0xc00, 0xc01, 0xc02].into_iter().enumerate() {
        hart.csrs.mcounteren = 0;
        assert!(read(&mut hart, number).is_err());
        hart.csrs.mcounteren = 1 << bit;
        hart.csrs.scounteren = 0;
        assert!(read(&mut hart, number).is_err());
        hart.csrs.scounteren = 1 << bit;
        assert_eq!(read(&mut hart, number), Ok(1000 * (bit as u64 + 1)));
    }
    assert!(read(&mut hart, 0xc03).is_err());
}

#[test]
fn illegal_values_become_legal_ones() {
    let mut hart = Hart::new(0);
    let uxl = 2 << 34 | 2 << 32; // And SXL.
    let sd = 1 << 63;
    assert_eq!(legal(&mut hart, MSTATUS, 0), uxl);
    let all = 0x1aa | MPP | FS_DIRTY | 0x7e_0000;
    assert_eq!(legal(&mut hart, MSTATUS, u64::MAX), all | uxl | sd);
    assert_eq!(
        legal(&mut hart, MSTATUS, 2 << 11),
        MPP | uxl,
        "there is no such mode"
    );
    assert_eq!(
        legal(&mut hart, MSTATUS, 1 << 13),
        1 << 13 | uxl,
        "not dirty, no SD"
    );
    assert_eq!(legal(&mut hart, MISA, 0), 0x8000_0000_0014_112f);
    assert_eq!(legal(&mut hart, MIE, u64::MAX), 0xffff_ffff_ffff_0aaa);
    assert_eq!(legal(&mut hart, MIP, u64::MAX), 0x222);
    assert_eq!(legal(&mut hart, MIP, 0), 0);
    assert_eq!(legal(&mut hart, MEDELEG, u64::MAX), 0xff00_b3ff);
    assert_eq!(legal(&mut hart, MIDELEG, u64::MAX), 0xffff_ffff_ffff_0222);
    assert_eq!(legal(&mut hart, STVEC, 0x8000_0003), 0x8000_0001);
    assert_eq!(legal(&mut hart, SEPC, 0x8000_0003), 0x8000_0002);
    assert_eq!(legal(&mut hart, MTVEC, 0x8000_0003), 0x8000_0001);
    assert_eq!(legal(&mut hart, MCOUNTEREN, u64::MAX), 0x7ff);
    assert_eq!(legal(&mut hart, MEPC, 0x8000_0003), 0x8000_0002);
    assert_eq!(legal(&mut hart, 0x30a, u64::MAX), 1);
    assert_eq!(legal(&mut hart, 0x320, u64::MAX), 0);
    // There are two events, and eight counters of them.
    for (event, selected) in [(0, 0), (1, 1), (2, 2), (3, 0), (257, 0), (u64::MAX, 0)] {
        assert_eq!(legal(&mut hart, 0x323, event), selected);
    }
    assert_eq!(legal(&mut hart, 0xb0a, u64::MAX), u64::MAX);
    assert_eq!(legal(&mut hart, 0x32b, 1), 0);
    assert_eq!(legal(&mut hart, 0xb0b, u64::MAX), 0);
    assert_eq!(legal(&mut hart, 0x3a0, u64::MAX), 0x1f1f_1f1f_1f1f_1f1f);
    assert_eq!(
        legal(&mut hart, 0x3a2, 0x1a1b),
        0x181b,
        "W without R is reserved"
    );
    assert_eq!(legal(&mut hart, 0x3bf, u64::MAX), (1 << 54) - 1);
    assert_eq!(read(&mut hart, 0x3be), Ok(0));
    // mcause and mtval keep any value.
    assert_eq!(legal(&mut hart, 0x342, u64::MAX), u64::MAX);
    assert_eq!(legal(&mut hart, 0x343, u64::MAX), u64::MAX);
}

/// A counter keeps its value when it is given another event, and counts on from a written value.
#[test]
fn counters_count_the_events_that_were_selected() {
    let mut hart = Hart::new(0);
    let reads = |hart: &mut Hart, times: u64| {
        let events = |event: u8| match event {
            1 => Some(10 * times),
            2 => Some(100 * times),
            _ => None,
        };
        hart.csr(&csr(2, 0xb04, 0), 0, COUNTERS, &events).unwrap()
    };
    assert_eq!(reads(&mut hart, 5), 0);
    write(&mut hart, 0x324, 1).unwrap(); // Each has happened once by now.
    assert_eq!(reads(&mut hart, 5), 40);
    write(&mut hart, 0xb04, 3).unwrap();
    assert_eq!(reads(&mut hart, 5), 43);
    write(&mut hart, 0x324, 2).unwrap();
    assert_eq!(reads(&mut hart, 2), 103);
    write(&mut hart, 0x324, 9).unwrap();
    assert_eq!(reads(&mut hart, 7), 3);
}

#[test]
fn counters_can_be_set() {
    let mut hart = Hart::new(0);
    let later = Counters {
        cycle: 1010,
        time: 2010,
        instret: 3001,
    };
    write(&mut hart, 0xb00, 5).unwrap();
    write(&mut hart, 0xb02, 7).unwrap();
    assert_eq!(hart.csr(&csr(2, 0xb00, 0), 0, later, &EVENTS), Ok(15));
    assert_eq!(hart.csr(&csr(2, 0xc00, 0), 0, later, &EVENTS), Ok(15));
    // The next instruction reads the written value: the writing instruction does not count.
    assert_eq!(hart.csr(&csr(2, 0xb02, 0), 0, later, &EVENTS), Ok(7));
    assert_eq!(hart.csr(&csr(2, 0xc01, 0), 0, later, &EVENTS), Ok(2010));
}

#[test]
fn floating_point_state() {
    let mut hart = Hart::new(0);
    assert!(!hart.float_enabled());
    assert!(read(&mut hart, FCSR).is_err());
    write(&mut hart, MSTATUS, 1 << 13).unwrap();
    assert!(hart.float_enabled());
    assert_eq!(read(&mut hart, FCSR), Ok(0));
    hart.add_flags(0);
    assert_eq!(hart.csrs.mstatus & FS_DIRTY, 1 << 13);
    hart.add_flags(1);
    assert_eq!(hart.csrs.mstatus & FS_DIRTY, FS_DIRTY);
    hart.add_flags(16);
    assert_eq!(hart.float_flags(), 17);
    assert_eq!(legal(&mut hart, 0x002, 0xff), 7);
    assert_eq!(hart.rounding_mode(), 7);
    assert_eq!(read(&mut hart, FCSR), Ok(0xf1));
    assert_eq!(legal(&mut hart, 0x001, 0xff), 0x1f);
    assert_eq!(legal(&mut hart, FCSR, 0x1234), 0x34);
    assert_eq!(hart.rounding_mode(), 1);
    assert_eq!(hart.float_flags(), 0x14);
}

#[test]
fn trap_and_return() {
    let mut hart = Hart::new(0);
    write(&mut hart, MTVEC, 0x8000_0101).unwrap();
    hart.csrs.mstatus = 1 << 3;
    hart.privilege = Privilege::User;
    let trap = hart.system(&decode(ECALL), 0x1234).unwrap_err();
    assert_eq!(
        trap,
        Trap {
            cause: Cause::EcallUser,
            value: 0
        }
    );
    assert_eq!(
        hart.take_trap(trap, 0x1234),
        0x8000_0100,
        "exceptions are not vectored"
    );
    assert_eq!(hart.privilege, Privilege::Machine);
    assert_eq!(
        (hart.csrs.mepc, hart.csrs.mcause, hart.csrs.mtval),
        (0x1234, 8, 0)
    );
    assert_eq!(hart.csrs.mstatus, 1 << 7, "MIE moved to MPIE, MPP is user");

    hart.csrs.mstatus |= 1 << 17;
    assert_eq!(
        hart.system(&decode(MRET), 0),
        Ok(SystemOutcome::Jump(0x1234))
    );
    assert_eq!(hart.privilege, Privilege::User);
    assert_eq!(
        hart.csrs.mstatus,
        1 << 7 | 1 << 3,
        "MPRV is cleared, MPIE set"
    );

    let mret = decode(MRET);
    assert_eq!(hart.system(&mret, 0), Err(illegal(&mret)));
    hart.privilege = Privilege::Machine;
    let trap = hart.system(&decode(ECALL), 0).unwrap_err();
    assert_eq!(trap.cause.code(), 11);
    hart.take_trap(trap, 0x5678);
    assert_eq!(hart.csrs.mstatus & MPP, MPP);
    hart.system(&mret, 0).unwrap();
    assert_eq!(hart.privilege, Privilege::Machine);
    assert_eq!(
        hart.csrs.mstatus & MPP,
        0,
        "the next return goes to user mode"
    );
    let trap = hart.system(&decode(EBREAK), 0x42).unwrap_err();
    assert_eq!(
        trap,
        Trap {
            cause: Cause::Breakpoint,
            value: 0x42
        }
    );
}

#[test]
fn waiting() {
    let mut hart = Hart::new(0);
    let wfi = decode(WFI);
    assert_eq!(hart.system(&wfi, 0), Ok(SystemOutcome::WaitForInterrupt));
    hart.privilege = Privilege::User;
    assert_eq!(hart.system(&wfi, 0), Ok(SystemOutcome::WaitForInterrupt));
    hart.csrs.mstatus |= 1 << 21;
    assert_eq!(hart.system(&wfi, 0), Err(illegal(&wfi)));
    hart.privilege = Privilege::Machine;
    assert_eq!(hart.system(&wfi, 0), Ok(SystemOutcome::WaitForInterrupt));

    hart.set_interrupt(7, true);
    assert!(!hart.wakes_from_wait());
    hart.csrs.mie = 1 << 7;
    assert!(hart.wakes_from_wait(), "even with mstatus.MIE clear");
    assert_eq!(hart.pending_interrupt(), None);
    hart.set_interrupt(7, false);
    assert!(!hart.wakes_from_wait());
}

/// User mode may wait, but not for ever if `mstatus.TW` is set.
#[test]
fn waiting_on_a_reservation() {
    let mut hart = Hart::new(0);
    let mut waits = |privilege, wait_is_bounded| {
        hart.privilege = privilege;
        hart.csrs.mstatus = u64::from(wait_is_bounded) << 21;
        [WRS_NTO, WRS_STO].map(|bits| match hart.system(&decode(bits), 0) {
            Ok(SystemOutcome::WaitOnReservation(time_out)) => time_out,
            other => panic!("{other:?}"),
        })
    };
    let usual = [TimeOut::Never, TimeOut::Done];
    assert_eq!(waits(Privilege::Machine, false), usual);
    assert_eq!(waits(Privilege::Machine, true), usual);
    assert_eq!(waits(Privilege::User, false), usual);
    let bounded = [TimeOut::Illegal, TimeOut::Done];
    assert_eq!(waits(Privilege::User, true), bounded);
}

#[test]
fn interrupts_have_an_order() {
    let mut hart = Hart::new(0);
    write(&mut hart, MTVEC, 0x8000_0001).unwrap();
    write(&mut hart, MIE, u64::MAX).unwrap();
    for bit in 0..=255 {
        hart.set_interrupt(bit, true);
    }
    assert_eq!(read(&mut hart, MIP), Ok(0xffff_ffff_ffff_0888));
    assert_eq!(
        hart.pending_interrupt(),
        None,
        "machine mode, mstatus.MIE clear"
    );
    hart.csrs.mstatus = 1 << 3;
    for expected in [11, 3, 7, 16, 17] {
        let interrupt = hart.pending_interrupt().unwrap();
        assert_eq!(
            interrupt,
            Trap {
                cause: Cause::Interrupt(expected),
                value: 0
            }
        );
        assert_eq!(interrupt.cause.code(), 1 << 63 | u64::from(expected));
        let handler = hart.clone().take_trap(interrupt, 0);
        assert_eq!(handler, 0x8000_0000 + 4 * u64::from(expected));
        hart.set_interrupt(expected, false);
    }
    // User mode cannot disable machine interrupts.
    hart.csrs.mstatus = 0;
    hart.privilege = Privilege::User;
    assert_eq!(
        hart.pending_interrupt().unwrap().cause,
        Cause::Interrupt(18)
    );
}

/// `satp` keeps its value when it is given a mode that does not exist.
#[test]
fn satp_takes_modes_that_exist() {
    let mut hart = Hart::new(0);
    let (sv39, sv48) = (8 << 60 | 5 << 44 | 0x8_0000, 9 << 60 | 0xffff << 44 | 7);
    for (written, read) in [
        (sv39, sv39),
        (10 << 60, sv39),
        (sv48, sv48),
        (1 << 60, sv48),
        (0, 0),
    ] {
        assert_eq!(legal(&mut hart, SATP, written), read, "{written:#x}");
    }
}

/// Machine mode does not translate addresses, unless `MPRV` selects another mode for data.
#[test]
fn the_mode_decides_whether_addresses_are_translated() {
    let mut hart = Hart::new(0);
    let satp = 8 << 60 | 5 << 44 | 0x8_0000;
    assert_eq!(legal(&mut hart, SATP, satp), satp);
    assert_eq!((hart.fetch_space(), hart.data_space()), (None, None));
    let user = Space::of(
        satp,
        Accessor::User {
            executable_is_readable: false,
        },
    );
    assert_eq!(
        user.map(|space| (space.root, space.asid)),
        Some((0x8000_0000, 5))
    );
    hart.csrs.mstatus = 1 << 17; // MPRV, and MPP is user
    assert_eq!((hart.fetch_space(), hart.data_space()), (None, user));
    hart.csrs.mstatus = 1 << 17 | MPP;
    assert_eq!((hart.fetch_space(), hart.data_space()), (None, None));
    hart.csrs.mstatus = 3 << 18; // SUM, MXR
    hart.privilege = Privilege::Supervisor;
    let supervisor = Space::of(
        satp,
        Accessor::Supervisor {
            reaches_user: true,
            executable_is_readable: true,
        },
    );
    assert_eq!(
        (hart.fetch_space(), hart.data_space()),
        (supervisor, supervisor)
    );
    hart.csrs.satp = 0;
    assert_eq!((hart.fetch_space(), hart.data_space()), (None, None));
}

/// `sstatus`, `sie` and `sip` are views of the supervisor's part of `mstatus`, `mie` and `mip`.
#[test]
fn supervisor_csrs_are_parts_of_machine_csrs() {
    let mut hart = Hart::new(0);
    let visible = 1 << 63 | 2 << 32;
    hart.csrs.mstatus = 1 << 7 | MPP;
    assert_eq!(legal(&mut hart, SSTATUS, u64::MAX), 0xc_6122 | visible);
    assert_eq!(hart.csrs.mstatus, 0xc_6122 | 1 << 7 | MPP);
    assert_eq!(legal(&mut hart, SSTATUS, 0), 2 << 32);
    assert_eq!(hart.csrs.mstatus, 1 << 7 | MPP);
    // Interrupts that are not delegated are hidden.
    write(&mut hart, MIE, 1 << 7).unwrap();
    assert_eq!(legal(&mut hart, SIE, u64::MAX), 0);
    write(&mut hart, MIDELEG, 1 << 5 | 1 << 1 | 1 << 20).unwrap();
    assert_eq!(legal(&mut hart, SIE, u64::MAX), 1 << 5 | 1 << 1 | 1 << 20);
    assert_eq!(read(&mut hart, MIE), Ok(1 << 7 | 1 << 5 | 1 << 1 | 1 << 20));
    // The supervisor can only make its software interrupt pending.
    assert_eq!(legal(&mut hart, SIP, u64::MAX), 1 << 1);
    write(&mut hart, MIP, 1 << 9 | 1 << 5).unwrap();
    assert_eq!(read(&mut hart, SIP), Ok(1 << 5));
    assert_eq!(read(&mut hart, MIP), Ok(1 << 9 | 1 << 5));
}

#[test]
fn delegated_traps_go_to_supervisor_mode() {
    let mut hart = Hart::new(0);
    write(&mut hart, MTVEC, 0x1000).unwrap();
    write(&mut hart, STVEC, 0x2000).unwrap();
    write(&mut hart, MEDELEG, 1 << 13 | 1 << 8).unwrap();
    let fault = Trap {
        cause: Cause::LoadPage,
        value: 0x77,
    };
    // Traps from machine mode are never delegated.
    assert_eq!(hart.take_trap(fault, 0x10), 0x1000);
    for (mode, spp) in [(Privilege::User, 0), (Privilege::Supervisor, 1 << 8)] {
        hart.privilege = mode;
        hart.csrs.mstatus = 1 << 3 | 1 << 1;
        assert_eq!(hart.take_trap(fault, 0x1234), 0x2000);
        assert_eq!(hart.privilege, Privilege::Supervisor);
        let told = [SEPC, SCAUSE, STVAL].map(|number| read(&mut hart, number).unwrap());
        assert_eq!(told, [0x1234, 13, 0x77]);
        assert_eq!(
            hart.csrs.mstatus,
            1 << 3 | 1 << 5 | spp,
            "SIE moved to SPIE"
        );
        hart.csrs.mstatus |= 1 << 17;
        let back = hart.system(&decode(SRET), 0);
        assert_eq!(back, Ok(SystemOutcome::Jump(0x1234)));
        assert_eq!(hart.privilege, mode);
        assert_eq!(
            hart.csrs.mstatus,
            1 << 5 | 1 << 3 | 1 << 1,
            "MPRV is cleared"
        );
    }
    // Store faults are not delegated.
    let fault = Trap {
        cause: Cause::StorePage,
        value: 0,
    };
    assert_eq!(hart.take_trap(fault, 0x20), 0x1000);
    assert_eq!(hart.csrs.mstatus & MPP, 1 << 11, "from supervisor mode");
    assert_eq!(hart.system(&decode(MRET), 0), Ok(SystemOutcome::Jump(0x20)));
    assert_eq!(hart.privilege, Privilege::Supervisor);
    let call = hart.system(&decode(ECALL), 0).unwrap_err();
    assert_eq!(call.cause.code(), 9);
}

#[test]
fn delegated_interrupts_wait_for_supervisor_mode() {
    let mut hart = Hart::new(0);
    write(&mut hart, STVEC, 0x2001).unwrap();
    write(&mut hart, MIDELEG, 0x222 | 1 << 20).unwrap();
    write(&mut hart, MIE, u64::MAX).unwrap();
    write(&mut hart, MIP, 0x222).unwrap();
    hart.set_interrupt(20, true);
    let due = |hart: &Hart| hart.pending_interrupt().map(|trap| trap.cause);
    hart.csrs.mstatus = 1 << 3 | 1 << 1;
    assert_eq!(due(&hart), None, "machine mode");
    hart.privilege = Privilege::Supervisor;
    hart.csrs.mstatus = 0;
    assert_eq!(due(&hart), None, "sstatus.SIE is clear");
    hart.set_interrupt(7, true);
    assert_eq!(due(&hart), Some(Cause::Interrupt(7)), "machine mode's");
    hart.set_interrupt(7, false);
    hart.csrs.mstatus = 1 << 1;
    for expected in [9, 1, 5, 20] {
        let interrupt = hart.pending_interrupt().unwrap();
        assert_eq!(interrupt.cause, Cause::Interrupt(expected));
        let handler = hart.clone().take_trap(interrupt, 0);
        assert_eq!(handler, 0x2000 + 4 * u64::from(expected));
        hart.csrs.mip &= !(1 << expected);
    }
    // User mode cannot disable supervisor interrupts.
    hart.csrs.mip = 1 << 1;
    hart.csrs.mstatus = 0;
    hart.privilege = Privilege::User;
    assert_eq!(due(&hart), Some(Cause::Interrupt(1)));
}

/// TVM, TW and TSR trap operations of the supervisor that a machine-mode monitor wants to handle
/// itself.
#[test]
fn the_supervisor_can_be_trapped() {
    let mut hart = Hart::new(0);
    let (satp, sret, flush) = (csr(2, SATP, 0), decode(SRET), decode(SFENCE_VMA));
    let (wfi, mret) = (decode(WFI), decode(MRET));
    let mut allowed = |mode, status| {
        hart.privilege = mode;
        hart.csrs.mstatus = status;
        let reads = hart.clone().csr(&satp, 0, COUNTERS, &EVENTS).is_ok();
        let executes = [&flush, &sret, &wfi, &mret].map(|i| hart.clone().system(i, 0).is_ok());
        (reads, executes)
    };
    let all = 7 << 20;
    assert_eq!(allowed(Privilege::Machine, all), (true, [true; 4]));
    let supervisor = Privilege::Supervisor;
    assert_eq!(allowed(supervisor, 0), (true, [true, true, true, false]));
    assert_eq!(
        allowed(supervisor, 1 << 20),
        (false, [false, true, true, false])
    );
    assert_eq!(
        allowed(supervisor, 1 << 21),
        (true, [true, true, false, false])
    );
    assert_eq!(
        allowed(supervisor, 1 << 22),
        (true, [true, false, true, false])
    );
    assert_eq!(
        allowed(Privilege::User, 0),
        (false, [false, false, true, false])
    );
}

#[test]
fn traps_read_well() {
    let trap = |cause, value| Trap { cause, value }.to_string();
    assert_eq!(trap(Cause::LoadAccess, 0x10), "load access fault at 0x10");
    assert_eq!(trap(Cause::LoadAccess, 0), "load access fault at 0x0");
    assert_eq!(
        trap(Cause::IllegalInstruction, 0x1234),
        "illegal instruction 0x00001234"
    );
    assert_eq!(trap(Cause::EcallUser, 0), "environment call from user mode");
    assert_eq!(trap(Cause::Interrupt(7), 0), "machine timer interrupt");
    assert_eq!(trap(Cause::Interrupt(20), 0), "platform interrupt 20");
}
