//! Posted operations of cores in progress: messages, and one-sided operations; and accesses of
//! other nodes to this server's memory.

use super::{Backend, LINE, NOTICE_BYTES, at_length, in_short, purpose};
use crate::context::MAX_SEGMENT_BYTES;
use crate::header::{Header, Kind, Status};
use fabric::{AgentContext, AgentMessage, LINE_BYTES, LineData, MemoryAccess};
use state::{State, Walker};

/// A message or a one-sided operation of a core in progress.
#[derive(Clone, Copy, Debug, state::State)]
#[state(fields)]
pub(crate) struct Transfer {
    #[state(fixed)]
    header: Header,
    core: u64,
    local: u64,
    /// The offset in the node's segment; 0 for a message.
    remote: u64,
    left: u32,
    /// The first error of one of its blocks: a [`Status`].
    status: u32,
}

impl State for Transfer {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        let mut word = self.header.encode();
        word.walk(walker);
        match Header::decode(word) {
            Some(header) => self.header = header,
            None => walker.refuse("there is no such packet".to_string()),
        }
    }
}

impl state::Plain for Transfer {
    fn blank() -> Transfer {
        let header = at_length(0);
        Transfer {
            header,
            core: 0,
            local: 0,
            remote: 0,
            left: 0,
            status: 0,
        }
    }
}

impl Backend {
    /// The error of an operation that a core has posted.
    fn problem(
        &self,
        context: &AgentContext<'_>,
        header: Header,
        (local, remote): (u64, u64),
    ) -> Option<String> {
        let contexts = self.contexts.borrow();
        let of = contexts.get(usize::from(header.context))?;
        let domain = of.domain.as_ref().filter(|domain| domain.is_open);
        let bytes = u64::from(header.bytes);
        let last = local.saturating_add(bytes.max(1) - 1);
        let (most, slots, is_open) = match header.kind {
            Kind::PostSend => (
                domain.map_or(0, |domain| domain.max_message_bytes),
                domain.map_or(0, |domain| domain.slots),
                domain.is_some(),
            ),
            _ => (u32::MAX, u32::MAX, of.is_open),
        };
        if !is_open {
            let what = match header.kind {
                Kind::PostSend => "whose messaging domain is not open",
                _ => "that is not open",
            };
            Some(format!("context {}, {what}", header.context))
        } else if u32::from(header.node) >= of.nodes {
            Some(format!("node {}, and there are {}", header.node, of.nodes))
        } else if u32::from(header.slot) >= slots {
            Some(format!("slot {}, and each node has {slots}", header.slot))
        } else if header.bytes == 0 || header.bytes > most {
            Some(format!(
                "{} bytes, and 1 to {most} are possible",
                header.bytes
            ))
        } else if !remote.is_multiple_of(LINE) || remote.saturating_add(bytes) > MAX_SEGMENT_BYTES {
            // A send has no offset.
            Some(format!(
                "an offset of {remote:#x}, and there are multiples of 64 up to 16 GiB"
            ))
        } else if !local.is_multiple_of(LINE) {
            Some(format!(
                "a buffer at {local:#x}, which is not a multiple of 64"
            ))
        } else if !context.in_memory(local) || !context.in_memory(last) {
            Some(format!(
                "{} bytes at {local:#x}, which are not in memory",
                header.bytes
            ))
        } else {
            None
        }
    }

    /// Handles a message or a one-sided operation posted by a core.
    pub(super) fn post(&mut self, context: &mut AgentContext<'_>, header: Header, data: &LineData) {
        let (local, remote, core) = (data.read(0, 8), data.read(8, 8), data.read(16, 8));
        if let Some(problem) = self.problem(context, header, (local, remote)) {
            self.ledger.borrow_mut().set_fault(format!(
                "Core {core} has posted something to the network interface that has {problem}."
            ));
            return;
        }
        let transfer = Transfer {
            header,
            core,
            local,
            remote,
            left: header.blocks(),
            status: Status::Done as u32,
        };
        let free = self.transfers.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() - 1
        });
        self.transfers[place] = Some(transfer);
        match header.kind {
            Kind::PostSend => self.statistics.messages_sent += 1,
            _ => self.statistics.one_sided += 1,
        }
        if header.kind == Kind::PostRead {
            let first = (remote / LINE) as u32;
            let header = Header {
                kind: Kind::Read,
                slot: place as u16,
                ..header
            };
            for block in 0..transfer.left {
                self.inject(context, header.at_block(first + block), LineData::ZERO);
            }
            return;
        }
        for block in 0..u64::from(transfer.left) {
            let address = local + block * LINE;
            let token = purpose::READ_OUT | (place as u64) << 32 | block;
            context.access(MemoryAccess::DmaRead { address }, token);
        }
    }

    /// Handles a block, read from memory, that a core sends or writes to a node.
    pub(super) fn read_out(&mut self, context: &mut AgentContext<'_>, token: u64, data: LineData) {
        let place = ((token & !purpose::MASK) >> 32) as usize;
        let block = token as u32;
        let Some(Some(transfer)) = self.transfers.get_mut(place) else {
            return;
        };
        let header = transfer.header;
        if header.kind == Kind::PostWrite {
            let first = (transfer.remote / LINE) as u32;
            let header = Header {
                kind: Kind::Write,
                slot: place as u16,
                ..header
            };
            self.inject(context, header.at_block(first + block), data);
            return;
        }
        transfer.left -= 1;
        if transfer.left == 0 {
            self.transfers[place] = None;
        }
        let header = Header {
            kind: Kind::Send,
            index: block as u16,
            ..header
        };
        self.inject(context, header, data);
    }

    /// Handles a node's answer to a one-sided operation.
    pub(super) fn answered(
        &mut self,
        context: &mut AgentContext<'_>,
        header: Header,
        data: LineData,
    ) {
        let place = usize::from(header.slot);
        let Some(Some(transfer)) = self.transfers.get(place) else {
            return;
        };
        if header.kind == Kind::WriteReply {
            self.one_less(context, place);
            return;
        }
        let first = (transfer.remote / LINE) as u32;
        let block = u64::from(header.block().saturating_sub(first));
        let rest = u64::from(transfer.header.bytes).saturating_sub(block * LINE);
        let write = MemoryAccess::DmaWrite {
            address: transfer.local + block * LINE,
            bytes: rest.clamp(1, LINE) as u8,
            data,
            allocate: true,
        };
        context.access(write, purpose::LANDED | place as u64);
    }

    /// Handles a node's refusal of a block of a one-sided operation.
    pub(super) fn fault(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let place = usize::from(header.slot);
        let Some(Some(transfer)) = self.transfers.get_mut(place) else {
            return;
        };
        if transfer.status == Status::Done as u32 {
            transfer.status = header.bytes;
        }
        self.statistics.faults += 1;
        self.one_less(context, place);
    }

    /// Completes a block of a one-sided operation.
    pub(super) fn one_less(&mut self, context: &mut AgentContext<'_>, place: usize) {
        let Some(Some(transfer)) = self.transfers.get_mut(place) else {
            return;
        };
        transfer.left -= 1;
        if transfer.left > 0 {
            return;
        }
        let Transfer {
            header,
            core,
            status,
            ..
        } = *transfer;
        self.transfers[place] = None;
        if let Some(&frontend) = self.neighbours.frontends.get(core as usize) {
            let header = header.of_kind(Kind::Completed);
            let bytes = status;
            let header = Header { bytes, ..header }.encode();
            let data = LineData::ZERO;
            context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
        }
    }

    /// Handles a node's replenish of a message of this server: the send slot is free.
    pub(super) fn replenished_by_node(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let contexts = self.contexts.borrow();
        let Some(domain) = contexts.domain(header.context) else {
            return;
        };
        let Some(place) = domain.place(header.node, header.slot) else {
            return;
        };
        let write = MemoryAccess::DmaWrite {
            address: domain.send_slot(place),
            bytes: 8,
            data: LineData::ZERO,
            allocate: true,
        };
        context.access(write, purpose::FREE);
    }

    /// Handles a node's read or write of this server's segment of a context.
    pub(super) fn serve(&mut self, context: &mut AgentContext<'_>, header: Header, data: LineData) {
        let found = self.contexts.borrow().address(header);
        // A segment may contain addresses without memory.
        let found = found.and_then(|address| {
            let is_memory = context.in_memory(address);
            is_memory.then_some(address).ok_or(Status::OutsideSegment)
        });
        let address = match found {
            Ok(address) => address,
            Err(status) => {
                self.statistics.refused_one_sided += 1;
                let bytes = status as u32;
                let header = header.of_kind(Kind::Fault);
                self.inject(context, Header { bytes, ..header }, LineData::ZERO);
                return;
            }
        };
        let access = match header.kind {
            Kind::Read => MemoryAccess::DmaRead { address },
            _ => MemoryAccess::DmaWrite {
                address,
                bytes: LINE_BYTES as u8,
                data,
                allocate: true,
            },
        };
        let token = in_short(Header { bytes: 0, ..header });
        context.access(access, purpose::SERVED | token);
    }

    /// Completes a node's read or write.
    pub(super) fn served(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        let (kind, address, data) = match access {
            MemoryAccess::DmaRead { address } => (Kind::ReadReply, address, data),
            MemoryAccess::DmaWrite { address, .. } => (Kind::WriteReply, address, LineData::ZERO),
            _ => return,
        };
        let header = at_length(token).of_kind(kind);
        let block = self.contexts.borrow().block(header.context, address);
        self.inject(context, header.at_block(block), data);
    }
}
