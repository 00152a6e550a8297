//! Walks and permissions, against the text of the Privileged Architecture.

use super::*;
use std::collections::BTreeMap;

const ROOT: u64 = 0x8000_1000;
const R: u64 = Entry::READ;
const W: u64 = Entry::WRITE;
const X: u64 = Entry::EXECUTE;
const U: u64 = Entry::USER;
const A: u64 = Entry::ACCESSED;
const D: u64 = Entry::DIRTY;
const V: u64 = Entry::VALID;
const ALL: u64 = V | R | W | X | A | D;

const SUPERVISOR: Accessor = Accessor::Supervisor {
    reaches_user: false,
    executable_is_readable: false,
};

/// Tables in which `leaf`, in the table of `level`, maps `address`; the tables above it follow the
/// root consecutively.
fn tables(mode: Mode, address: u64, level: u32, leaf: u64) -> BTreeMap<u64, u64> {
    let mut memory = BTreeMap::new();
    let mut table = ROOT;
    for above in (level + 1..mode.levels()).rev() {
        let next = table + TABLE_BYTES;
        memory.insert(place(table, address, above), Entry::new(next, V).0);
        table = next;
    }
    memory.insert(place(table, address, level), leaf);
    memory
}

/// The position of the entry for `address` in a table: "a.pte at address a + va.vpn[i] x PTESIZE".
fn place(table: u64, address: u64, level: u32) -> u64 {
    table + (address >> (12 + 9 * level) & 0x1ff) * 8
}

fn look(
    mode: Mode,
    memory: &BTreeMap<u64, u64>,
    address: u64,
    access: Access,
    accessor: Accessor,
) -> Result<Page, Trap> {
    translate(mode, ROOT, address, access, accessor, |at| {
        // Only the tables are memory.
        let is_table = (ROOT..ROOT + 8 * TABLE_BYTES).contains(&at);
        is_table.then(|| memory.get(&at).copied().unwrap_or(0))
    })
}

#[test]
fn pages_of_each_size_lead_to_their_bytes() {
    for (mode, addresses) in [
        (
            Mode::Sv39,
            [0x3f_ffff_f123, 0xffff_ffc0_1234_5678, 0x8000_0000],
        ),
        (
            Mode::Sv48,
            [0x7fff_ffff_f123, 0xffff_8000_1234_5678, 0x8000_0000],
        ),
    ] {
        for (address, level) in addresses.into_iter().flat_map(|a| {
            let levels = 0..mode.levels();
            levels.map(move |level| (a, level))
        }) {
            let bits = 12 + 9 * level;
            let base = 0x2a_5555_5555_5000 >> bits << bits & ((1 << 56) - 1);
            let memory = tables(mode, address, level, Entry::new(base, ALL).0);
            let page = look(mode, &memory, address, Access::Load, SUPERVISOR).unwrap();
            assert_eq!(page.bits, bits);
            let offset = address & ((1 << bits) - 1);
            assert_eq!(
                page.physical(address),
                base + offset,
                "{address:#x} at {level}"
            );
        }
    }
}

/// Section "Virtual Address Translation Process": one entry is read in each level, from the root
/// to the leaf.
#[test]
fn a_walk_reads_one_entry_in_each_level() {
    let address = 0x12_3456_7000;
    let memory = tables(Mode::Sv39, address, 0, Entry::new(address, ALL).0);
    let mut read = Vec::new();
    let page = translate(Mode::Sv39, ROOT, address, Access::Fetch, SUPERVISOR, |at| {
        read.push(at);
        memory.get(&at).copied()
    });
    assert!(page.is_ok());
    // Bits 38:30 are 0x48, bits 29:21 are 0x1a2, bits 20:12 are 0x167.
    let expected = [
        ROOT + 0x48 * 8,
        ROOT + TABLE_BYTES + 0x1a2 * 8,
        ROOT + 2 * TABLE_BYTES + 0x167 * 8,
    ];
    assert_eq!(read, expected);
}

/// All permissions for all accesses of all accessors: 2^6 entries, 3 accesses, 6 accessors.
#[test]
fn permissions_are_those_of_the_specification() {
    let mut allowed = 0;
    for bits in 0..64u64 {
        // R, W, X and U are bits 1 to 4, A and D bits 6 and 7.
        let leaf = V | (bits & 15) << 1 | (bits >> 4) << 6;
        for access in [Access::Fetch, Access::Load, Access::Store] {
            for (user, sum, mxr) in [
                (true, false, false),
                (true, false, true),
                (false, false, false),
                (false, false, true),
                (false, true, false),
                (false, true, true),
            ] {
                let accessor = match user {
                    true => Accessor::User {
                        executable_is_readable: mxr,
                    },
                    false => Accessor::Supervisor {
                        reaches_user: sum,
                        executable_is_readable: mxr,
                    },
                };
                let has = |bit: u64| leaf & bit != 0;
                // Table "Encoding of PTE R/W/X fields": these are reserved, or point to a table,
                // which in the last level is a fault.
                let is_page = has(R) || has(X) && !has(W);
                let may = match access {
                    Access::Fetch => has(X),
                    Access::Load => has(R) || mxr && has(X),
                    Access::Store => has(W),
                };
                let reaches = match (user, has(U)) {
                    (true, user_page) => user_page,
                    (false, false) => true,
                    // "Irrespective of SUM, the supervisor may not execute code on pages with U=1."
                    (false, true) => sum && access != Access::Fetch,
                };
                let recorded = has(A) && (access != Access::Store || has(D));
                let memory = tables(Mode::Sv39, 0x1000, 0, Entry::new(0x5000, leaf).0);
                let found = look(Mode::Sv39, &memory, 0x1234, access, accessor);
                let expected = is_page && may && reaches && recorded;
                assert_eq!(found.is_ok(), expected, "{leaf:#x} {access:?} {accessor:?}");
                if let Err(trap) = found {
                    let code = [12, 13, 15][access as usize];
                    assert_eq!((trap.cause.code(), trap.value), (code, 0x1234));
                }
                allowed += u32::from(expected);
            }
        }
    }
    // With A, of two D's: fetches of X pages (X, RX, RWX) by user mode twice with U and by the
    // supervisor four times without: 3 * 6 * 2. Loads of R, RX, RW, RWX: by user mode twice with
    // U, by the supervisor four times without U and twice with it: 4 * 8 * 2; of X alone with MXR
    // half of that: 4 * 2. Stores to RW and RWX with D: 2 * 8.
    assert_eq!(allowed, 36 + 64 + 8 + 16);
}

#[test]
fn what_is_reserved_is_a_page_fault() {
    let faults = |level: u32, leaf: u64| {
        let memory = tables(Mode::Sv39, 0x1000, level, leaf);
        let found = look(Mode::Sv39, &memory, 0x1000, Access::Load, SUPERVISOR);
        found == Err(Access::Load.page_fault(0x1000))
    };
    assert!(!faults(0, Entry::new(0x1000, ALL).0));
    // Invalid, whatever the other bits.
    assert!(faults(0, Entry::new(0x1000, ALL & !V).0));
    for level in 0..3 {
        // Writable but not readable.
        assert!(faults(level, V | W | A | D) && faults(level, V | W | X | A | D));
        // Reserved bits, and those of Svpbmt and Svnapot.
        for bit in 54..64 {
            assert!(faults(level, Entry::new(0, ALL).0 | 1 << bit), "{bit}");
        }
        // A superpage must begin at a multiple of its size.
        for bit in 12..12 + 9 * level {
            assert!(faults(level, Entry::new(1 << bit, ALL).0), "{level} {bit}");
        }
        assert!(!faults(level, Entry::new(1 << (12 + 9 * level), ALL).0));
    }
    // A table below the last level, and A, D or U in an entry that points to a table.
    assert!(faults(0, Entry::new(ROOT, V).0));
    for bit in [A, D, U] {
        let mut memory = tables(Mode::Sv39, 0x1000, 0, Entry::new(0x1000, ALL).0);
        *memory.get_mut(&ROOT).unwrap() |= bit;
        assert!(look(Mode::Sv39, &memory, 0x1000, Access::Load, SUPERVISOR).is_err());
    }
}

/// Section "Addressing and Memory Protection" of Sv39: bits 63 to 39 must all be equal to bit 38.
#[test]
fn addresses_that_are_not_canonical_are_page_faults() {
    for (mode, bits) in [(Mode::Sv39, 39), (Mode::Sv48, 48)] {
        let top = 1u64 << (bits - 1);
        assert!(mode.is_canonical(top - 1) && !mode.is_canonical(top));
        assert!(
            mode.is_canonical(top.wrapping_neg()) && !mode.is_canonical(top.wrapping_neg() - 1)
        );
        for bit in bits..64 {
            let address = 1 << bit;
            // The tables would map it.
            let memory = tables(mode, address, 0, Entry::new(0, ALL).0);
            let found = look(mode, &memory, address, Access::Store, SUPERVISOR);
            assert_eq!(found, Err(Access::Store.page_fault(address)));
        }
    }
}

/// "If accessing pte violates a PMA or PMP check, raise an access-fault exception corresponding to
/// the original access type."
#[test]
fn tables_outside_of_memory_are_access_faults() {
    let mut memory = tables(Mode::Sv39, 0, 0, Entry::new(0, ALL).0);
    memory.insert(ROOT, Entry::new(0x1000, V).0);
    for (access, code) in [(Access::Fetch, 1), (Access::Load, 5), (Access::Store, 7)] {
        let trap = look(Mode::Sv39, &memory, 0x10, access, SUPERVISOR).unwrap_err();
        assert_eq!((trap.cause.code(), trap.value), (code, 0x10));
    }
}
