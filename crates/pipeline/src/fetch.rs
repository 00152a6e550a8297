//! Fetch: the block of instructions at the program counter is found, or waited for.

use crate::core::Core;
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::serializing::Serializing;
use crate::stack::Stall;
use crate::translation::FetchedPage;
use crate::window::UNKNOWN;
use fabric::{LINE_BYTES, LineAddress, Outbox, Region, RequestOutcome, Side};
use riscv::is_compressed;
use riscv::paging::{Access, TABLE_BYTES};

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// Finds the block at `pc`. Returns false if that has to wait.
    pub(crate) fn fetch(&mut self, outbox: &mut Outbox) -> bool {
        if self.hart.observes && self.translates() {
            return self.fetch_from_page(outbox);
        }
        self.fetch_block(outbox)
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
        let Some(slot) = self.shared.instruction_cache.find_and_touch(line) else {
            return self.fetch_line(line, pc, outbox);
        };
        self.hart.cursor = match self.shared.blocks.find(pc) {
            Some(start) => start,
            None => {
                let next_line = LineAddress(line.0 + 1);
                let next = self.shared.instruction_cache.find(next_line);
                let before = self.shared.blocks.length();
                let decoded = self.shared.blocks.decode(
                    pc,
                    self.shared.instruction_cache.line(slot),
                    next.map(|slot| self.shared.instruction_cache.line(slot)),
                    &self.shared.calendar,
                );
                if self.shared.blocks.length() < before {
                    self.forget_cursors();
                }
                match decoded {
                    Some(start) => start,
                    None => return self.fetch_line(next_line, next_line.base(), outbox),
                }
            }
        };
        true
    }

    /// The same where the addresses of instructions are translated.
    #[inline(never)]
    fn fetch_translated(&mut self, outbox: &mut Outbox) -> bool {
        let pc = self.hart.pc;
        let Some(physical) = self.page_of_fetch(0, pc, outbox) else {
            return false;
        };
        let line = LineAddress::of(physical);
        let Some(slot) = self.shared.instruction_cache.find_and_touch(line) else {
            return self.fetch_line(line, pc, outbox);
        };
        if let Some(start) = self.shared.blocks.find_translated(pc, physical) {
            self.hart.cursor = start;
            return true;
        }
        let behind = (pc | (LINE_BYTES as u64 - 1)).wrapping_add(1);
        let first = self.shared.instruction_cache.line(slot);
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
        let Some(slot) = self.shared.instruction_cache.find(line) else {
            return false;
        };
        let next = self.shared.instruction_cache.find(next_line);
        let before = self.shared.blocks.length();
        let decoded = self.shared.blocks.decode(
            pc,
            self.shared.instruction_cache.line(slot),
            next.map(|slot| self.shared.instruction_cache.line(slot)),
            &self.shared.calendar,
        );
        if self.shared.blocks.length() < before {
            self.forget_cursors();
        }
        let Some(start) = decoded else {
            return self.fetch_line(next_line, behind, outbox);
        };
        let place = (!crosses).then_some(physical);
        self.shared.blocks.translate(pc, place);
        self.hart.cursor = start;
        true
    }

    /// The physical address of an instruction at `address`, if its page is known; `which` tells
    /// whether it is that of `pc` or that behind. If not, dispatch waits, or there is a trap.
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
                    // It is looked for again if the handler comes back.
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

    /// Asks for a line of instructions. `address`, by which the program knows it, is that of the
    /// first byte that it needs.
    fn fetch_line(&mut self, line: LineAddress, address: u64, outbox: &mut Outbox) -> bool {
        // What user mode may not write it may still execute.
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
        if self.request_line(wanted, at, outbox) == RequestOutcome::Sent {
            self.hart.statistics.instruction_misses += 1;
            self.expect_answer(at);
        }
        self.held_up(Stall::Fetch);
        self.hart.blocked = true;
        false
    }
}
