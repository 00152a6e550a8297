//! Replies, and accesses of the server's cores to the nodes' memories.

use super::{Cluster, FLAG_ERROR, FLAG_RENDEZVOUS, LINE, WINDOW};
use crate::header::{Header, Kind, MAX_BLOCK, MAX_CONTEXTS, Status};
use fabric::{AgentContext, AgentId, LINE_BYTES, LineData};
use queues::DeliveredPacket;
use workload::SLOT_HEADER_BYTES;

impl Cluster {
    /// Handles a block of a reply.
    pub(super) fn reply_block(
        &mut self,
        context: &mut AgentContext<'_>,
        header: Header,
        data: &LineData,
    ) {
        let Some(place) = self.place(header) else {
            return;
        };
        let keeps = self.kept.len() < self.keep;
        let slot = &mut self.slots[place];
        if slot.reply_blocks == 0 {
            slot.reply.clear();
        }
        slot.reply_blocks += 1;
        if header.index == 0 {
            slot.reply_item = data.read(8, 8);
            slot.reply_flags = data.read(4, 4);
            slot.reply_offset = data.read(16, 8);
            slot.reply_to_read = 0;
            if slot.reply_flags & FLAG_RENDEZVOUS != 0 {
                slot.reply_to_read = (data.read(24, 4) as u32).div_ceil(LINE_BYTES as u32);
            }
        }
        if keeps {
            let start = usize::from(header.index) * LINE_BYTES;
            let bytes = header.blocks() as usize * LINE_BYTES;
            slot.reply.resize(bytes, 0);
            slot.reply[start..start + LINE_BYTES].copy_from_slice(&data.0);
        }
        if slot.reply_blocks < header.blocks() {
            return;
        }
        slot.reply_blocks = 0;
        let (blocks, offset) = (slot.reply_to_read, slot.reply_offset);
        if blocks == 0 {
            self.replied(context, header);
            return;
        }
        let backend = header.backend(self.links.len());
        if keeps {
            let slot = &mut self.slots[place];
            slot.reply.resize(blocks as usize * LINE_BYTES, 0);
        }
        let header = header.of_kind(Kind::Read);
        for block in 0..u64::from(blocks) {
            // The program's offset may be beyond all segments.
            let block = (offset / LINE).saturating_add(block);
            let header = header.at_block(block.min(u64::from(MAX_BLOCK)) as u32);
            self.send_packet(context, header, LineData::ZERO, backend);
        }
    }

    /// Handles a block of a reply that was too large for a message: it has been read, or the server
    /// has refused the read.
    pub(super) fn reply_read(
        &mut self,
        context: &mut AgentContext<'_>,
        header: Header,
        data: &LineData,
    ) {
        let Some(place) = self.place(header) else {
            return;
        };
        let slot = &mut self.slots[place];
        if header.kind == Kind::Fault {
            self.statistics.faults_of_reads += 1;
            slot.reply_flags |= FLAG_ERROR;
        } else {
            let first = slot.reply_offset / LINE;
            let index = u64::from(header.block()).saturating_sub(first) as usize;
            let start = index * LINE_BYTES;
            if let Some(bytes) = slot.reply.get_mut(start..start + LINE_BYTES) {
                bytes.copy_from_slice(&data.0);
            }
        }
        slot.reply_to_read = slot.reply_to_read.saturating_sub(1);
        if slot.reply_to_read == 0 {
            self.replied(context, header);
        }
    }

    /// Handles a complete reply: its node replenishes it.
    fn replied(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let Some(place) = self.place(header) else {
            return;
        };
        let queue = self.queue(header) as u32;
        self.statistics.replies += 1;
        let slot = &mut self.slots[place];
        let (item, is_error) = (slot.reply_item, slot.reply_flags & FLAG_ERROR != 0);
        if self.unanswered.get(&item) == Some(&queue) {
            self.unanswered.remove(&item);
        } else {
            self.statistics.unexpected_replies += 1;
        }
        if is_error {
            self.ledger.borrow_mut().has_failed();
        }
        let start = SLOT_HEADER_BYTES as usize;
        if self.kept.len() < self.keep && slot.reply.len() >= start {
            let reply = std::mem::take(&mut slot.reply);
            let length = u32::from_le_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize;
            let end = (start + length).min(reply.len());
            self.kept.push(DeliveredPacket {
                queue,
                item,
                is_error,
                bytes: reply[start..end].to_vec(),
            });
        }
        if queue >= self.setup.network.silent_nodes {
            let header = Header {
                kind: Kind::Replenish,
                index: 0,
                bytes: 0,
                ..header
            };
            let backend = header.backend(self.links.len());
            self.send_packet(context, header, LineData::ZERO, backend);
        }
    }

    /// Handles a read or write of a block of a node's memory by the server.
    pub(super) fn one_sided(
        &mut self,
        context: &mut AgentContext<'_>,
        from: AgentId,
        header: Header,
        data: LineData,
    ) {
        let Some(backend) = self.setup.backends.iter().position(|&one| one == from) else {
            return;
        };
        let answer = match self.access(header, data) {
            Ok(answer) => answer,
            Err(status) => {
                self.statistics.faults_of_nodes += 1;
                let bytes = status as u32;
                let header = header.of_kind(Kind::Fault);
                let header = Header { bytes, ..header };
                self.send_packet(context, header, LineData::ZERO, backend);
                return;
            }
        };
        let kind = match header.kind {
            Kind::Read => Kind::ReadReply,
            _ => Kind::WriteReply,
        };
        self.send_packet(context, header.of_kind(kind), answer, backend);
    }

    /// Reads or writes a block of a node's segment of a context.
    fn access(&mut self, header: Header, data: LineData) -> Result<LineData, Status> {
        let context = usize::from(header.context);
        let network = &self.setup.network;
        let contexts = self.domains.len() + network.one_sided_contexts as usize;
        let windows = self.domains.get(context).map_or(0, |of| of.domain.slots);
        let place = ((header.context, header.node), header.block());
        let offset = u64::from(header.block()) * LINE;
        if context >= contexts.min(MAX_CONTEXTS) {
            return Err(Status::NoContext);
        }
        let Some(in_windows) = offset.checked_sub(network.segment_bytes) else {
            if header.kind == Kind::Write {
                self.memory.insert(place, data);
                return Ok(LineData::ZERO);
            }
            let known = self.memory.get(&place);
            return Ok(known.copied().unwrap_or(LineData::ZERO));
        };
        let (window, start) = (in_windows / WINDOW, (in_windows % WINDOW) as usize);
        if window >= u64::from(windows) || header.kind == Kind::Write {
            return Err(Status::OutsideSegment);
        }
        let slot = window as u16;
        let place = self.place(Header { slot, ..header });
        let window = place.map_or(&[][..], |place| &self.slots[place].window);
        let bytes = window.get(start..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(LINE_BYTES)];
        let mut data = LineData::ZERO;
        data.0[..bytes.len()].copy_from_slice(bytes);
        Ok(data)
    }
}
