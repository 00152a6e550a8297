//! The IOMMU at the root port: it translates the addresses of a device's reads, writes and
//! doorbells.
//!
//! Recently used pages are in its IOTLB. A hit takes no additional time. A miss waits for a page
//! walk, which reads the tables entry by entry at their homes, as the device reads memory; requests
//! to other pages proceed. The number of walkers limits concurrent walks; further walks wait for a
//! walker in order of arrival.
//!
//! The tables are those of Sv48 (RISC-V IOMMU Architecture Specification, "first-stage"). They are
//! in memory and map every address to itself, so only times change.

use crate::spec::IommuSpec;
use crate::system::IO_PAGE_TABLES;
use fabric::{AgentContext, LINE_BYTES, LineData, MemoryAccess, Ram};
use riscv::paging::{IdentityTables, Mode, Step, Walk};
use schemars::JsonSchema;
use serde::Serialize;
use spec::SpecError;
use std::collections::VecDeque;

/// Four levels, as those of Intel's VT-d.
const MODE: Mode = Mode::Sv48;

/// Counts of an IOMMU.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[state(all(count))]
pub struct IommuStatistics {
    /// Requests whose page was in the IOTLB.
    pub iotlb_hits: u64,
    /// Requests whose page was not in the IOTLB, including those that joined a page walk in
    /// progress.
    pub iotlb_misses: u64,
    /// Page walks that have ended.
    pub page_walks: u64,
    /// Page-table entries that page walks have read.
    pub page_walk_loads: u64,
    /// Time of page walks, each from the time at which it got a walker, in femtoseconds.
    pub page_walk_fs: u64,
}

/// A page in the IOTLB.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Page {
    number: u64,
    bits: u32,
}

/// A page walk in progress.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct PageWalk {
    walk: Walk,
    since: fabric::Time,
}

/// Writes page tables for all of memory, which is all that a device can reach.
pub(crate) fn write_tables(spec: &IommuSpec, start: u64, ram: &mut Ram) -> Result<(), SpecError> {
    let mut tables = IdentityTables::new(start, MODE, spec.page_bits());
    for range in ram.ranges() {
        tables.map(range.start..=range.end() - 1);
    }
    for (at, bytes) in tables.content() {
        ram.load(at, &bytes)?;
    }
    Ok(())
}

#[derive(Debug, state::State)]
pub(crate) struct Iommu {
    /// The physical address of the first table.
    #[state(fixed)]
    root: u64,
    #[state(fixed)]
    entries: usize,
    /// The IOTLB in LRU order, the most recently used page last.
    iotlb: Vec<Page>,
    #[state(slice)]
    walkers: Vec<Option<PageWalk>>,
    /// Addresses that wait for a walker, one per page.
    queue: VecDeque<u64>,
    #[state(fixed)]
    page_bits: u32,
    statistics: IommuStatistics,
    fault: Option<String>,
}

impl Iommu {
    /// An IOMMU whose tables are at [`IO_PAGE_TABLES`].
    pub fn new(spec: &IommuSpec) -> Iommu {
        Iommu {
            root: IO_PAGE_TABLES.start,
            entries: spec.iotlb_entries as usize,
            iotlb: Vec::new(),
            walkers: vec![None; spec.page_walkers as usize],
            queue: VecDeque::new(),
            page_bits: spec.page_bits(),
            statistics: IommuStatistics::default(),
            fault: None,
        }
    }

    /// Sets the address of its tables.
    pub fn set_root(&mut self, root: u64) {
        self.root = root;
    }

    pub fn statistics(&self) -> IommuStatistics {
        self.statistics
    }

    /// The reason that an address has no page.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The number of the page of `address`, in the page size of the tables.
    pub fn page(&self, address: u64) -> u64 {
        address >> self.page_bits
    }

    /// Whether the page of `address` is translated. Otherwise requests a page walk.
    pub fn translates(&mut self, context: &mut AgentContext<'_>, address: u64) -> bool {
        let is_here = |page: &Page| address >> page.bits == page.number;
        if let Some(place) = self.iotlb.iter().position(is_here) {
            let page = self.iotlb.remove(place);
            self.iotlb.push(page);
            self.statistics.iotlb_hits += 1;
            return true;
        }
        self.statistics.iotlb_misses += 1;
        let page = self.page(address);
        let is_it = |other: u64| other >> self.page_bits == page;
        let mut under_way = self.walkers.iter().flatten();
        let is_under_way = under_way.any(|one| is_it(one.walk.address()))
            || self.queue.iter().any(|&other| is_it(other));
        if !is_under_way {
            self.queue.push_back(address);
            self.begin_walks(context);
        }
        false
    }

    /// Assigns waiting walks to free walkers.
    fn begin_walks(&mut self, context: &mut AgentContext<'_>) {
        while let Some(number) = self.walkers.iter().position(Option::is_none)
            && let Some(address) = self.queue.pop_front()
        {
            let Some(walk) = Walk::new(MODE, self.root, address) else {
                self.blame(address);
                continue;
            };
            let since = context.now();
            self.walkers[number] = Some(PageWalk { walk, since });
            self.read_entry(context, number);
        }
    }

    fn read_entry(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let Some(PageWalk { walk, .. }) = self.walkers[number] else {
            return;
        };
        let address = walk.entry_address();
        if !context.in_memory(address) {
            self.walkers[number] = None;
            return self.blame(walk.address());
        }
        self.statistics.page_walk_loads += 1;
        let token = crate::express::purpose::ENTRY_READ | number as u64;
        context.access(MemoryAccess::DmaRead { address }, token);
    }

    /// Handles the line of an entry; returns the page's number, if the walk has ended.
    pub fn entry_read(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        line: &LineData,
    ) -> Option<u64> {
        let walk = self.walkers.get_mut(number)?.as_mut()?;
        let offset = walk.walk.entry_address() as usize % LINE_BYTES;
        let mut entry = [0; 8];
        entry.copy_from_slice(&line.0[offset..offset + 8]);
        let (address, since) = (walk.walk.address(), walk.since);
        match walk.walk.step(u64::from_le_bytes(entry)) {
            Step::Next => {
                self.read_entry(context, number);
                None
            }
            Step::Page(page) => {
                self.statistics.page_walks += 1;
                self.statistics.page_walk_fs += (context.now() - since).as_fs();
                if self.iotlb.len() == self.entries {
                    self.iotlb.remove(0);
                }
                self.iotlb.push(Page {
                    number: address >> page.bits,
                    bits: page.bits,
                });
                self.walkers[number] = None;
                self.begin_walks(context);
                Some(self.page(address))
            }
            Step::Fault => {
                self.walkers[number] = None;
                self.blame(address);
                self.begin_walks(context);
                None
            }
        }
    }

    fn blame(&mut self, address: u64) {
        self.fault.get_or_insert(format!(
            "the IOMMU found no page for address {address:#x} of the device: its page tables, at \
             {:#x}, have been written",
            self.root
        ));
    }
}
