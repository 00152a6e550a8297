//! The send path: frames are read from memory and sent in the order of their descriptors.

use super::ring::{DONE, Descriptor, ERROR, STATUS_OFFSET, upper_half};
use super::{DmaNic, purpose};
use crate::frames::is_memory;
use fabric::AgentContext;

/// A frame that is being read for sending.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct Sending {
    pub(super) descriptor: Descriptor,
    pub(super) content: Vec<u8>,
    pub(super) missing: usize,
    /// Whether it cannot be sent.
    pub(super) is_wrong: bool,
}

impl DmaNic {
    /// Begins to read frames, round-robin over the queues, as far as there is room for them.
    pub(super) fn read_frames(&mut self, context: &mut AgentContext<'_>) {
        let queues = self.spec.queues as usize;
        let mut empty = 0;
        while empty < queues {
            let number = 2 * self.next_queue + 1;
            let Some(ring) = self.rings.get_mut(number) else {
                return;
            };
            let Some(&descriptor) = ring.ahead.front() else {
                self.next_queue = (self.next_queue + 1) % queues;
                empty += 1;
                continue;
            };
            let bytes = usize::from(descriptor.bytes);
            let is_wrong = bytes == 0
                || bytes > self.spec.max_frame_bytes as usize
                || !is_memory(context, descriptor.address, bytes);
            let content = vec![0; if is_wrong { 0 } else { bytes }];
            let has_room = self.output_bytes == 0
                || self.output_bytes + content.len() as u32 <= self.spec.output_buffer_bytes;
            if !has_room {
                return;
            }
            empty = 0;
            ring.ahead.pop_front();
            ring.used = ring.used.wrapping_add(1);
            self.next_queue = (self.next_queue + 1) % queues;
            self.output_bytes += content.len() as u32;
            let frame = self.first_sending + self.sending.len() as u64;
            for piece in self.express.parts(descriptor.address, content.len()) {
                let token = purpose::FRAME | frame << 16 | piece.offset as u64;
                let range = (piece.address, piece.bytes as u32);
                self.express.read(context, token, range);
            }
            self.sending.push_back(Sending {
                descriptor,
                missing: content.len(),
                content,
                is_wrong,
            });
            self.read_descriptors(context, number);
        }
        self.send(context);
    }

    /// Handles a returned part of a frame.
    pub(super) fn part_read(&mut self, context: &mut AgentContext<'_>, index: u64, data: &[u8]) {
        let place = (index >> 16).wrapping_sub(self.first_sending) as usize;
        let offset = (index & 0xffff) as usize;
        if let Some(sending) = self.sending.get_mut(place)
            && let Some(part) = sending.content.get_mut(offset..offset + data.len())
        {
            part.copy_from_slice(data);
            sending.missing -= data.len();
        }
        self.send(context);
    }

    /// Sends complete frames, in order, and updates their descriptors.
    pub(super) fn send(&mut self, context: &mut AgentContext<'_>) {
        while let Some(sending) = self.sending.pop_front_if(|sending| sending.missing == 0) {
            self.first_sending += 1;
            let bytes = sending.content.len() as u32;
            let sent = match sending.is_wrong {
                true => None,
                false => {
                    let (now, frame) = (context.now(), &sending.content);
                    self.port.send(context, now, frame, purpose::LEFT).ok()
                }
            };
            let status = match sent {
                Some(()) => {
                    self.statistics.frames_sent += 1;
                    self.leaving.push_back(bytes);
                    DONE
                }
                None => {
                    self.statistics.not_sent += 1;
                    self.output_bytes -= bytes;
                    DONE | ERROR
                }
            };
            let descriptor = sending.descriptor;
            let behind = (
                descriptor.at + STATUS_OFFSET,
                upper_half(descriptor.bytes, status, 0),
            );
            let nothing = (descriptor.address, &[][..]);
            self.express
                .write(context, purpose::TOLD, nothing, behind, 0);
        }
    }
}
