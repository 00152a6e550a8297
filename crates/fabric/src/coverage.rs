//! The tables of states and events for the tests, and the coverage of their cells.
//!
//! A message that meets a state for which the table has no cell fails the test that sent it.

use crate::{CacheId, LineAddress};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// A table of states (columns) and events (rows): the reachable cells.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    cells: &'static [(&'static str, &'static [&'static str])],
}

/// The directory in the tags of an inclusive last-level cache, without the cells that are empty or
/// "error".
pub(crate) static INCLUSIVE_HOME: &Table = &Table {
    name: "home, inclusive",
    cells: &[
        ("GetS", IN_TAGS),
        ("GetM", IN_TAGS),
        ("ReadAtHome", IN_TAGS),
        ("WriteAtHome, whole line", IN_TAGS),
        ("WriteAtHome, part of a line", IN_TAGS),
        ("WriteAtHome, to memory", IN_TAGS),
        ("Prefetch", IN_TAGS),
        ("Put from the owner", &["owner", "busy"]),
        // The other cells are noted when the Put is served, after it has waited, with `reached!`.
        ("Put from another", &["busy"]),
        ("InvalidateAck", &["busy"]),
        ("ForwardAck", &["busy"]),
    ],
};

const IN_TAGS: &[&str] = &["absent", "no holder", "sharers", "owner", "busy"];

/// The directory beside a non-inclusive last-level cache.
pub(crate) static NON_INCLUSIVE_HOME: &Table = &Table {
    name: "home, non-inclusive",
    cells: &[
        ("GetS", BESIDE),
        ("GetM", BESIDE),
        ("ReadAtHome", BESIDE),
        ("WriteAtHome, whole line", BESIDE),
        ("WriteAtHome, part of a line", BESIDE),
        ("WriteAtHome, to memory", BESIDE),
        ("Prefetch", BESIDE),
        (
            "Put from the owner",
            &["owner", "owner, not in LLC", "busy"],
        ),
        ("Put from another", &["busy"]),
        ("InvalidateAck", &["busy"]),
        ("ForwardAck", &["busy"]),
        (
            "loses its place in the LLC",
            &["absent", "sharers, not in LLC", "owner, not in LLC", "busy"],
        ),
    ],
};

const BESIDE: &[&str] = &[
    "absent",
    "in LLC",
    "sharers",
    "sharers, not in LLC",
    "owner",
    "owner, not in LLC",
    "busy",
];

/// The private cache, without the cells that are empty, "error" or "never".
pub(crate) static PRIVATE_CACHE: &Table = &Table {
    name: "private cache",
    cells: &[
        (
            "Data",
            &["buffer", "S, GetM sent", "I, GetM sent", "I, GetS sent"],
        ),
        (
            "Invalidate",
            &["S", "S, GetM sent", "I, GetM sent", "I, GetS sent", "I"],
        ),
        ("ForwardGetS", &["buffer", "E or M", "I, GetM sent"]),
        ("ForwardGetM", &["buffer", "E or M", "I, GetM sent"]),
        ("PutAck", &["buffer"]),
        ("replacement", &["buffer", "E or M", "S", "S, GetM sent"]),
    ],
};

/// The second-level cache, without the cells that are empty, "error" or "never".
pub(crate) static SECOND_LEVEL: &Table = &Table {
    name: "second-level cache",
    cells: &[
        (
            "fetch",
            &[
                "not here",
                "to read",
                "owned",
                "owned, L1 reads",
                "owned, L1D writes",
            ],
        ),
        ("load", &["not here", "to read", "owned", "owned, L1 reads"]),
        (
            "store",
            &["not here", "to read", "owned", "owned, L1 reads"],
        ),
        ("Invalidate", &["not here", "to read"]),
        ("ForwardGetS", ANY_OWNED),
        ("ForwardGetM", ANY_OWNED),
        (
            "replacement",
            &["to read", "owned", "owned, L1 reads", "owned, L1D writes"],
        ),
    ],
};

const ANY_OWNED: &[&str] = &["not here", "owned", "owned, L1 reads", "owned, L1D writes"];

type Place = (&'static str, &'static str, &'static str);

thread_local! {
    static TRACED: Cell<bool> = const { Cell::new(false) };
    static REACHED: RefCell<BTreeSet<Place>> = const { RefCell::new(BTreeSet::new()) };
}

/// Starts or stops printing the cells that this thread reaches.
pub(crate) fn trace(on: bool) {
    TRACED.set(on);
}

/// Notes the event `row` for `who`'s `line`, which is in the state `column`. Fails if the table has
/// no such cell.
pub(crate) fn note(
    table: &Table,
    who: Option<CacheId>,
    line: LineAddress,
    row: &'static str,
    column: &'static str,
) {
    if TRACED.get() {
        let who = who.map_or_else(String::new, |cache| format!(" {}", cache.0));
        println!(
            "    {}{who}, line {:#x}: {row} with {column}",
            table.name,
            line.base()
        );
    }
    if REACHED.with_borrow_mut(|reached| reached.insert((table.name, row, column))) {
        let known = table
            .cells
            .iter()
            .any(|&(other, columns)| other == row && columns.contains(&column));
        if !known {
            REACHED.with_borrow_mut(|reached| reached.remove(&(table.name, row, column)));
        }
        assert!(
            known,
            "{}, line {:#x}: {row} with {column} is an error",
            table.name,
            line.base()
        );
    }
}

/// Prints the tables with the cells that this thread has reached, and returns the others.
pub(crate) fn report(tables: &[&Table]) -> Vec<String> {
    let mut missing = Vec::new();
    for table in tables {
        println!("{}:", table.name);
        for (row, columns) in table.cells {
            let of_row: Vec<String> = columns
                .iter()
                .map(|column| {
                    let cell = (table.name, *row, *column);
                    if REACHED.with_borrow(|reached| reached.contains(&cell)) {
                        format!("{column}: yes")
                    } else {
                        missing.push(format!("{}: {row} with {column}", table.name));
                        format!("{column}: NO")
                    }
                })
                .collect();
            println!("  {row} | {}", of_row.join(" | "));
        }
    }
    missing
}
