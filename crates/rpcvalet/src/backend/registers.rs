//! The registers: a block for each context.

use super::{Backend, LINE, NOTICE_BYTES, at_length};
use crate::domain::{Domain, QueuePairs};
use crate::header::Kind;
use fabric::{AgentContext, AgentMessage, LineData};

/// Bytes of a context's block of registers. Context k has the k-th block.
pub(crate) const BLOCK_BYTES: u64 = 0x100;

/// Offsets of the registers: `struct sonuma_registers` in `guest/include/sonuma.h`.
pub(crate) mod register {
    fabric::registers! { u64:
        /// Number of nodes: N.
        NODES = 0x00;
        /// Slots of each node: S.
        SLOTS = 0x08;
        /// Bytes of the largest message.
        MAX_MESSAGE_BYTES = 0x10;
        /// The address of the queue pairs.
        QUEUE_PAIRS = 0x18;
        /// Lines between two entries of a queue.
        STRIDE_LINES = 0x20;
        /// Entries of a work queue.
        WORK_ENTRIES = 0x28;
        /// Entries of a completion queue.
        COMPLETION_ENTRIES = 0x30;
        /// Bytes of the shared completion queues.
        SHARED_BYTES = 0x38;
        /// Entries of each shared completion queue.
        SHARED_ENTRIES = 0x40;
        /// 1: harts take messages from the shared queue themselves.
        IS_SOFTWARE = 0x48;
        /// Number of harts with a queue pair.
        HARTS = 0x50;
        /// The address where harts then keep its head.
        SHARED_HEAD = 0x58;
        /// The address of the send slots.
        SEND_BUFFER = 0x60;
        /// The address of the receive slots.
        RECEIVE_BUFFER = 0x68;
        /// The address of the shared queues.
        SHARED_QUEUES = 0x70;
        /// 1: the domain is open.
        OPEN = 0x78;
        /// The start of the segment.
        SEGMENT = 0x80;
        /// The bytes of the segment.
        SEGMENT_BYTES = 0x88;
        /// 1: the context is open.
        OPEN_CONTEXT = 0x90;
        /// The result of opening it: [`crate::Registered`].
        REGISTERED = 0x98;
        /// Number of contexts with a domain.
        DOMAINS = 0xa0;
        /// The first hart that receives the domain's messages.
        DOMAIN_FIRST_HART = 0xa8;
        /// Number of harts that receive them.
        DOMAIN_HARTS = 0xb0;
        /// The number of its node 0 among the nodes of all domains.
        DOMAIN_FIRST_NODE = 0xb8;
    }
}

impl Backend {
    pub(super) fn read_register(&self, offset: u64) -> Option<u64> {
        let contexts = self.contexts.borrow();
        let number = (offset / BLOCK_BYTES) as usize;
        let context = contexts.get(number)?;
        let of_all = match offset % BLOCK_BYTES {
            register::NODES => u64::from(context.nodes),
            register::QUEUE_PAIRS => self.queue_pairs.start,
            register::STRIDE_LINES => self.queue_pairs.stride_lines,
            register::WORK_ENTRIES => QueuePairs::WORK_ENTRIES,
            register::COMPLETION_ENTRIES => QueuePairs::COMPLETION_ENTRIES,
            register::HARTS => self.neighbours.frontends.len() as u64,
            register::SHARED_HEAD => self.queue_pairs.shared_head(number),
            register::SEGMENT => context.segment.start,
            register::SEGMENT_BYTES => context.segment.bytes,
            register::OPEN_CONTEXT => u64::from(context.is_open),
            register::REGISTERED => context.registered,
            register::DOMAINS => contexts.domains().count() as u64,
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
            register::SLOTS => |domain| u64::from(domain.slots),
            register::MAX_MESSAGE_BYTES => |domain| u64::from(domain.max_message_bytes),
            register::SHARED_BYTES => Domain::shared_bytes,
            register::SHARED_ENTRIES => Domain::shared_entries,
            register::IS_SOFTWARE => |domain| u64::from(domain.is_software()),
            register::SEND_BUFFER => |domain| domain.send_buffer,
            register::RECEIVE_BUFFER => |domain| domain.receive_buffer,
            register::SHARED_QUEUES => |domain| domain.shared_queues,
            register::OPEN => |domain| u64::from(domain.is_open),
            register::DOMAIN_FIRST_HART => |domain| domain.cores.start as u64,
            register::DOMAIN_HARTS => |domain| domain.cores.len() as u64,
            register::DOMAIN_FIRST_NODE => |domain| u64::from(domain.first_node),
            _ => return None,
        };
        Some(domain.map_or(0, of))
    }

    /// Writes a register; returns whether it is writable with this value.
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
            // A registered segment does not change.
            (register::SEGMENT | register::SEGMENT_BYTES, _) if of.is_open => true,
            (register::SEGMENT, _) => {
                of.segment.start = value;
                true
            }
            (register::SEGMENT_BYTES, _) => {
                of.segment.bytes = value;
                true
            }
            (register::OPEN_CONTEXT, _) if value == 1 => {
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
                            "The messaging domain's {name} of {bytes} bytes at {start:#x} is not \
                             in memory."
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

    /// Notifies the frontends of possible work, unless they know of it.
    fn open_queue_pairs(&self, context: &mut AgentContext<'_>) {
        for &frontend in &self.neighbours.frontends {
            let header = at_length(0).of_kind(Kind::Open).encode();
            let data = LineData::ZERO;
            context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
        }
    }
}
