//! The registers: a block for each context.

use super::{Backend, LINE, NOTICE_BYTES, at_length};
use crate::domain::{Domain, QueuePairs};
use crate::header::Kind;
use fabric::{AgentContext, AgentMessage, LineData};

/// Bytes of a context's block of registers. That of context k is the k-th.
const BLOCK_BYTES: u64 = 0x100;

/// Offsets of the registers: `struct sonuma_registers` in `guest/include/sonuma.h`.
mod register {
    pub const SEND_BUFFER: u64 = 0x60;
    pub const RECEIVE_BUFFER: u64 = 0x68;
    pub const SHARED_QUEUES: u64 = 0x70;
    pub const OPEN: u64 = 0x78;
    pub const SEGMENT_START: u64 = 0x80;
    pub const SEGMENT_BYTES: u64 = 0x88;
    pub const REGISTER_SEGMENT: u64 = 0x90;
}

impl Backend {
    pub(super) fn read_register(&self, offset: u64) -> Option<u64> {
        let contexts = self.contexts.borrow();
        let number = (offset / BLOCK_BYTES) as usize;
        let context = contexts.get(number)?;
        let of_all = match offset % BLOCK_BYTES {
            0x00 => u64::from(context.nodes),
            0x18 => self.queue_pairs.start,
            0x20 => self.queue_pairs.stride_lines,
            0x28 => QueuePairs::WORK_ENTRIES,
            0x30 => QueuePairs::COMPLETION_ENTRIES,
            0x50 => self.neighbours.frontends.len() as u64,
            0x58 => self.queue_pairs.shared_head(number),
            register::SEGMENT_START => context.segment.start,
            register::SEGMENT_BYTES => context.segment.bytes,
            register::REGISTER_SEGMENT => u64::from(context.is_open),
            0x98 => context.registered,
            0xa0 => contexts.domains().count() as u64,
            _ => {
                let domain = context.domain.as_ref();
                return self.read_register_of(domain, offset % BLOCK_BYTES);
            }
        };
        Some(of_all)
    }

    /// Reads a register that is 0 in a context without messages.
    fn read_register_of(&self, domain: Option<&Domain>, offset: u64) -> Option<u64> {
        let of: fn(&Domain) -> u64 = match offset {
            0x08 => |domain| u64::from(domain.slots),
            0x10 => |domain| u64::from(domain.max_message_bytes),
            0x38 => Domain::shared_bytes,
            0x40 => Domain::shared_entries,
            0x48 => |domain| u64::from(domain.is_software()),
            register::SEND_BUFFER => |domain| domain.send_buffer,
            register::RECEIVE_BUFFER => |domain| domain.receive_buffer,
            register::SHARED_QUEUES => |domain| domain.shared_queues,
            register::OPEN => |domain| u64::from(domain.is_open),
            0xa8 => |domain| domain.cores.start as u64,
            0xb0 => |domain| domain.cores.len() as u64,
            0xb8 => |domain| u64::from(domain.first_node),
            _ => return None,
        };
        Some(domain.map_or(0, of))
    }

    /// Whether the register can be written, with this value.
    pub(super) fn write_register(
        &mut self,
        context: &mut AgentContext<'_>,
        offset: u64,
        value: u64,
    ) -> bool {
        let number = (offset / BLOCK_BYTES) as usize;
        let mut contexts = self.contexts.borrow_mut();
        let Some(of) = contexts.get_mut(number) else {
            return false;
        };
        match (offset % BLOCK_BYTES, of.domain.as_mut()) {
            // What is registered stays as it is.
            (register::SEGMENT_START | register::SEGMENT_BYTES, _) if of.is_open => true,
            (register::SEGMENT_START, _) => {
                of.segment.start = value;
                true
            }
            (register::SEGMENT_BYTES, _) => {
                of.segment.bytes = value;
                true
            }
            (register::REGISTER_SEGMENT, _) if value == 1 => {
                contexts.register(number, |address| context.in_memory(address));
                drop(contexts);
                self.open_queue_pairs(context);
                true
            }
            (register::OPEN, Some(domain)) if value == 1 && !domain.is_open => {
                for (name, start, bytes) in domain.ranges() {
                    let last = start.checked_add(bytes - 1);
                    let is_memory = last.is_some_and(|last| context.in_memory(last));
                    if !context.in_memory(start) || !is_memory {
                        self.ledger.borrow_mut().set_fault(format!(
                            "The messaging domain's {name} of {bytes} bytes at {start:#x} is not in \
                             memory."
                        ));
                        return true;
                    }
                }
                domain.is_open = true;
                drop(contexts);
                self.open_queue_pairs(context);
                true
            }
            (offset, Some(domain)) if !domain.is_open && value.is_multiple_of(LINE) => {
                match offset {
                    register::SEND_BUFFER => domain.send_buffer = value,
                    register::RECEIVE_BUFFER => domain.receive_buffer = value,
                    register::SHARED_QUEUES => domain.shared_queues = value,
                    _ => return false,
                }
                true
            }
            _ => false,
        }
    }

    /// Tells the frontends that there is something to do for them, if they do not know.
    fn open_queue_pairs(&self, context: &mut AgentContext<'_>) {
        for &frontend in &self.neighbours.frontends {
            let header = at_length(0).of_kind(Kind::Open).encode();
            let data = LineData::ZERO;
            context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
        }
    }
}
