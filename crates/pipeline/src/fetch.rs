//! Fetch: finds the block of instructions at the program counter, or waits for it.

use crate::core::{Core, Shared};
use crate::kind::CoreKind;
use crate::serializing::Serializing;
use crate::stack::Stall;
use crate::translation::FetchedPage;
use crate::window::UNKNOWN;
use fabric::{FirstFill, LINE_BYTES, LineAddress, LineData, Outbox, Region, RequestOutcome, Side};
use riscv::is_compressed;
use riscv::paging::{Access, TABLE_BYTES};
use state::{Plain, State};

/// The line of the program counter, and the following one if the instruction crosses into it.
#[derive(Clone, Copy)]
enum Which {
    First,
    Next,
}

/// The lines that a waiting fetch has requested and received. A line may be recalled in the cycle
/// of its arrival, before its hart can fetch from it: if the code of several harts competes for one
/// set of the last-level cache, all of them could miss for ever. A fetch that finds its lines here
/// continues without the cache, so each miss yields at least one instruction.
#[derive(Clone, Copy, Debug, Default, State, Plain)]
pub(crate) struct FetchBuffer {
    /// It is valid for one instruction only: the program counter and the window's tail at the time
    /// of the request.
    pc: u64,
    #[state(exact)]
    tail: u64,
    lines: [Option<LineAddress>; 2],
    data: [Option<LineData>; 2],
    /// The fetch has requested a line and is not complete.
    waits: bool,
}

impl FetchBuffer {
    /// Records a request; returns whether it is the first one for the line.
    fn ask(&mut self, (pc, tail): (u64, u64), which: Which, line: LineAddress) -> bool {
        if (self.pc, self.tail) != (pc, tail) {
            *self = FetchBuffer {
                pc,
                tail,
                ..FetchBuffer::default()
            };
        }
        self.waits = true;
        let which = which as usize;
        let is_new = self.lines[which] != Some(line);
        if is_new {
            self.lines[which] = Some(line);
            self.data[which] = None;
        }
        is_new
    }

    fn fill(&mut self, line: LineAddress, data: &LineData) {
        for (asked, kept) in self.lines.iter().zip(&mut self.data) {
            if *asked == Some(line) {
                *kept = Some(*data);
            }
        }
    }

    /// Whether a fetch has requested a line and is not complete.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// The next fetch is of a different instruction than the waiting one.
    pub(crate) fn give_up(&mut self) {
        self.waits = false;
    }

    /// Completes the fetch of the next instruction. Returns whether it has waited for a line.
    fn end(&mut self, next: (u64, u64)) -> bool {
        std::mem::take(&mut self.waits) && (self.pc, self.tail) == next
    }

    fn find(&self, next: (u64, u64), line: LineAddress) -> Option<&LineData> {
        if (self.pc, self.tail) != next {
            return None;
        }
        let which = self.lines.iter().position(|asked| *asked == Some(line))?;
        self.data[which].as_ref()
    }
}

impl<K: CoreKind> Core<K> {
    /// Finds the block at `pc`. Returns false if fetch must wait.
    pub(crate) fn fetch(&mut self, outbox: &mut Outbox) -> bool {
        let is_fetched = match self.hart.observes && self.translates() {
            true => self.fetch_from_page(outbox),
            false => self.fetch_block(outbox),
        };
        if is_fetched {
            let next = self.next_to_fetch();
            let has_waited = self.hart.fetch_buffer.end(next);
            self.hart.statistics.instruction_hits += u64::from(!has_waited);
        }
        is_fetched
    }

    /// Whether the first line of a fetch is there, in the instruction cache or the fetch buffer. It
    /// is touched when the fetch is complete: a fetch that waits for the rest of its instruction is
    /// repeated as often as its hart happens to run.
    fn has_first(&self, line: LineAddress) -> bool {
        self.shared.instruction_cache.find(line).is_some() || self.is_kept(line)
    }

    /// The same if the hart's accesses are translated.
    #[inline(never)]
    fn fetch_from_page(&mut self, outbox: &mut Outbox) -> bool {
        let is_fetched = match self.hart.privileged.fetch_space() {
            Some(_) => self.fetch_translated(outbox),
            None => self.fetch_block(outbox),
        };
        if is_fetched && self.translates_fetches() {
            self.note_fetch();
        }
        is_fetched
    }

    #[inline(always)]
    fn fetch_block(&mut self, outbox: &mut Outbox) -> bool {
        let pc = self.hart.pc;
        let line = LineAddress::of(pc);
        if self.hart.observes && self.page_of_fetch(0, pc, outbox).is_none() {
            return false;
        }
        if !self.has_first(line) {
            return self.fetch_line((Which::First, line), pc, outbox);
        }
        if self.hart.observes {
            self.note_fetched_line(line, self.hart.dispatch_cycle, outbox);
        }
        self.hart.cursor = match self.shared.blocks.find(pc) {
            Some(start) => start,
            None => {
                let next_line = LineAddress(line.0 + 1);
                match self.decode_block(line, next_line) {
                    Some(start) => start,
                    None => {
                        let wanted = (Which::Next, next_line);
                        return self.fetch_line(wanted, next_line.base(), outbox);
                    }
                }
            }
        };
        self.shared.instruction_cache.find_and_touch(line);
        true
    }

    /// The same if instruction addresses are translated.
    #[inline(never)]
    fn fetch_translated(&mut self, outbox: &mut Outbox) -> bool {
        let pc = self.hart.pc;
        let Some(physical) = self.page_of_fetch(0, pc, outbox) else {
            return false;
        };
        let line = LineAddress::of(physical);
        if !self.has_first(line) {
            return self.fetch_line((Which::First, line), pc, outbox);
        }
        self.note_fetched_line(line, self.hart.dispatch_cycle, outbox);
        if let Some(start) = self.shared.blocks.find_translated(pc, physical) {
            self.shared.instruction_cache.find_and_touch(line);
            self.hart.cursor = start;
            return true;
        }
        let behind = (pc | (LINE_BYTES as u64 - 1)).wrapping_add(1);
        let Some(first) = self.instructions_of(line) else {
            return false;
        };
        let is_cut =
            pc.wrapping_add(2) == behind && !is_compressed(first.read(LINE_BYTES - 2, 2) as u16);
        let crosses = is_cut && behind.is_multiple_of(TABLE_BYTES);
        let next_line = match crosses {
            false => LineAddress(line.0 + 1),
            true => match self.page_of_fetch(1, behind, outbox) {
                Some(next) => LineAddress::of(next),
                None => return false,
            },
        };
        let Some(start) = self.decode_block(line, next_line) else {
            return self.fetch_line((Which::Next, next_line), behind, outbox);
        };
        let place = (!crosses).then_some(physical);
        self.shared.blocks.translate(pc, place);
        self.shared.instruction_cache.find_and_touch(line);
        self.hart.cursor = start;
        true
    }

    /// Decodes the block at `pc`, which is in `line`, and returns its index. `None`: its first
    /// instruction continues in `next_line`, which is missing.
    fn decode_block(&mut self, line: LineAddress, next_line: LineAddress) -> Option<u32> {
        let first = self.instructions_of(line)?;
        let next_data = self.instructions_of(next_line);
        let before = self.shared.blocks.length();
        let Shared {
            blocks, calendar, ..
        } = &mut self.shared;
        let decoded = blocks.decode(self.hart.pc, &first, next_data.as_ref(), calendar);
        if self.shared.blocks.length() < before {
            self.forget_cursors();
        }
        if decoded.is_none() {
            // The first line may be evicted when the next one arrives.
            let next = self.next_to_fetch();
            self.hart.fetch_buffer.ask(next, Which::First, line);
            self.hart.fetch_buffer.fill(line, &first);
        }
        decoded
    }

    /// The key with which the fetch buffer's lines must have been requested.
    fn next_to_fetch(&self) -> (u64, u64) {
        (self.hart.pc, self.hart.window.tail)
    }

    /// Whether the fetch buffer holds this line for the present fetch.
    #[inline(never)]
    fn is_kept(&self, line: LineAddress) -> bool {
        let next = self.next_to_fetch();
        self.hart.fetch_buffer.find(next, line).is_some()
    }

    /// A line of instructions from the cache or the fetch buffer.
    fn instructions_of(&self, line: LineAddress) -> Option<LineData> {
        let cache = &self.shared.instruction_cache;
        match cache.find(line) {
            Some(slot) => Some(*cache.line(slot)),
            None => self
                .hart
                .fetch_buffer
                .find(self.next_to_fetch(), line)
                .copied(),
        }
    }

    /// A line has arrived in the instruction cache: harts that wait for it keep it in their fetch
    /// buffers.
    pub(crate) fn instructions_filled(&mut self, fill: FirstFill) {
        let FirstFill {
            line,
            slot,
            evicted,
        } = fill;
        if let Some(prefetching) = &mut self.shared.instruction_prefetching {
            prefetching.filled(line, slot, evicted);
        }
        let data = self.shared.instruction_cache.line(slot);
        for hart in std::iter::once(&mut self.hart).chain(self.others.iter_mut().flatten()) {
            hart.fetch_buffer.fill(line, data);
        }
    }

    /// The physical address of an instruction at `address`, if its page is known; `which` selects
    /// the page of `pc` or the following one. If not, dispatch waits, or there is a trap.
    #[inline(never)]
    fn page_of_fetch(&mut self, which: usize, address: u64, outbox: &mut Outbox) -> Option<u64> {
        if !self.translates() {
            return Some(address);
        }
        let page = self.look_for_fetched_page(which, address, outbox);
        if page.from <= self.hart.dispatch_cycle {
            return match page.frame.physical(address) {
                Ok(physical) => Some(physical),
                Err(fault) => {
                    // It is looked up again if the handler returns.
                    self.hart.fetched[which] = FetchedPage::NONE;
                    let trap = fault.trap(Access::Fetch, address);
                    self.begin_serial(Serializing::exception(trap));
                    None
                }
            };
        }
        self.held_up(Stall::Fetch);
        if page.from < UNKNOWN {
            self.hart.dispatch_cycle = page.from;
            self.hart.dispatch_left = self.shared.spec.width;
        } else {
            self.hart.blocked = true;
        }
        None
    }

    /// Requests a line of instructions. `address` is the virtual address of the first byte that is
    /// needed.
    fn fetch_line(
        &mut self,
        (which, line): (Which, LineAddress),
        address: u64,
        outbox: &mut Outbox,
    ) -> bool {
        // User mode may be allowed to execute but not to write this line.
        if !self.is_plain(line.base(), 64)
            && self.shared.memory_map.classify(line.base()) != Region::Ram
        {
            self.begin_serial(Serializing::fetch_fault(self.hart.pc, address));
            return false;
        }
        let at = self.departure(
            self.hart.dispatch_cycle,
            self.shared.spec.l1_instruction.hit_latency_cycles,
        );
        let wanted = (Side::Instruction, line, false);
        let next = self.next_to_fetch();
        let is_new = self.hart.fetch_buffer.ask(next, which, line);
        if self.request_line(wanted, at, outbox) == RequestOutcome::Sent {
            self.hart.statistics.instruction_misses += 1;
            self.expect_answer(at);
        }
        if is_new && self.shared.instruction_prefetching.is_some() {
            self.tell_instruction_prefetcher(line, self.hart.dispatch_cycle, outbox);
        }
        self.held_up(Stall::Fetch);
        self.hart.blocked = true;
        false
    }
}
