//! Lines that agents have read from memory before their homes have asked for them.
//!
//! Such a read takes the channel's time as any other. If the home asks for the line, the answer
//! leaves when both are there, the question and the line. If the home has the line, or the line is
//! written to memory meanwhile, what was read is dropped.

use super::{Event, Fabric};
use crate::memory::Ticket;
use crate::mesh::{CONTROL_BYTES, Order};
use crate::{LineAddress, Time};

/// Reads ahead that the home has not asked for, or that memory has not answered.
#[derive(Debug, Default)]
pub(crate) struct ReadsAhead {
    reads: Vec<ReadAhead>,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    line: LineAddress,
    number: u32,
    /// Memory has answered.
    is_here: bool,
    /// The home has asked.
    asked: Option<Ticket>,
}

impl ReadsAhead {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }
}

impl Fabric {
    /// An agent on the tile `from` reads a line from memory ahead of the home.
    #[inline(never)]
    pub(crate) fn read_ahead(&mut self, now: Time, from: usize, line: LineAddress) {
        let reads = &mut self.reads_ahead;
        if reads.reads.iter().any(|one| one.line == line) {
            return;
        }
        let number = reads.next;
        reads.next = reads.next.wrapping_add(1);
        reads.reads.push(ReadAhead {
            line,
            number,
            is_here: false,
            asked: None,
        });
        let controller = self.memory.controller(line, self.ram.socket_of(line));
        let to = self.memory.tile(controller);
        let arrival = match to == from {
            true => now,
            false => self
                .mesh
                .send(now, now, from, to, CONTROL_BYTES, Order::Free),
        };
        let read = Event::MemoryRead {
            controller: controller as u32,
            ticket: Ticket::ahead(number),
            line,
        };
        self.push(arrival, read);
    }

    /// The line is not wanted ahead any more, unless the home has asked for it.
    #[inline(never)]
    pub(crate) fn end_read_ahead(&mut self, line: LineAddress) {
        let reads = &mut self.reads_ahead.reads;
        reads.retain(|one| one.line != line || one.asked.is_some());
    }

    /// The home asks memory for a line: whether that has been read ahead.
    #[inline(never)]
    pub(super) fn is_read_ahead(
        &mut self,
        now: Time,
        controller: u32,
        ticket: Ticket,
        line: LineAddress,
    ) -> bool {
        let reads = &mut self.reads_ahead.reads;
        let is_it = |one: &ReadAhead| one.line == line && one.asked.is_none();
        let place = reads.iter().position(is_it);
        let Some(place) = place.filter(|_| ticket.number_ahead().is_none()) else {
            return false;
        };
        if !reads[place].is_here {
            reads[place].asked = Some(ticket);
            return true;
        }
        reads.swap_remove(place);
        let answer = Event::MemoryAnswer {
            controller,
            ticket,
            line,
        };
        self.push(now, answer);
        true
    }

    /// Memory answers: for whom that is, if anybody waits.
    #[inline]
    pub(super) fn is_for(&mut self, ticket: Ticket, line: LineAddress) -> Option<Ticket> {
        match ticket.number_ahead() {
            None => Some(ticket),
            Some(number) => self.is_for_home(number, line),
        }
    }

    #[inline(never)]
    fn is_for_home(&mut self, number: u32, line: LineAddress) -> Option<Ticket> {
        let reads = &mut self.reads_ahead.reads;
        let is_it = |one: &ReadAhead| one.line == line && one.number == number;
        let place = reads.iter().position(is_it)?;
        if reads[place].asked.is_none() {
            reads[place].is_here = true;
            return None;
        }
        reads.swap_remove(place).asked
    }

    /// The tile of a memory controller.
    pub fn memory_tile(&self, controller: usize) -> usize {
        self.memory.tile(controller)
    }

    /// Number of memory controllers.
    pub fn memory_controllers(&self) -> usize {
        self.memory.controllers()
    }

    /// The number of the next agent's private cache.
    pub fn next_cache(&self) -> u16 {
        self.caches.len() as u16
    }
}
