//! The receive path, from the port to memory.
//!
//! A frame passes through the receive pipeline, which has a maximum rate; the hash and the
//! indirection table give its queue, where it waits for a buffer. The interface reads buffers
//! ahead. Their number is in the queue's doorbell record in memory. The interface reads the record
//! again when few buffers are left: when a frame arrives and none is known, or fewer than twice the
//! number that it reads ahead. The rule of the real interface is not published. If the record shows
//! that there is no buffer, waiting frames are dropped.

use super::compression::Session;
use super::format::{Completion, SEGMENT_BYTES, Segment, Syndrome, completion};
use super::queue::{Completing, Completions, Setup};
use super::{CQE_NIC_INDIRECTION_ENTRIES, CqeNic, purpose, queue};
use crate::frames::is_memory;
use crate::rss;
use fabric::{AgentContext, Time};
use network::packet::Packet;
use std::collections::VecDeque;

/// A receive queue.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct ReceiveQueue {
    pub setup: Setup,
    pub completions: Completions,
    /// Number of buffers that the program is known to have posted, modulo 2^32.
    given: u32,
    /// Number of buffers that the interface has requested.
    asked: u32,
    /// Number of buffers that it has used.
    used: u32,
    /// Buffers that it has read but not used, in order.
    ahead: VecDeque<Segment>,
    /// Outstanding reads of buffers: the number of buffers of each, and the data of those that
    /// returned out of order.
    reading: VecDeque<(u32, Vec<u8>)>,
    is_reading_record: bool,
    /// Number of used strides in the first buffer.
    strides_used: u32,
    pub session: Session,
    /// The address of the word that counts its completions; 0: none.
    pub counter: u64,
    /// If it is armed, the number of completions that its program has taken.
    pub armed: Option<u32>,
    /// Frames that wait for a buffer, with their hashes.
    pub input: VecDeque<(u32, Vec<u8>)>,
}

impl ReceiveQueue {
    /// The address of buffer `number` in the ring.
    fn place(&self, number: u32) -> u64 {
        let index = number & self.setup.entries.wrapping_sub(1);
        self.setup.ring + u64::from(index) * SEGMENT_BYTES as u64
    }

    /// The buffers to read now: the first number and the count.
    fn next_read(&self, ahead: u32, room: u64) -> Option<(u32, u32)> {
        let held = self.asked.wrapping_sub(self.used);
        let window = (self.given, self.asked, held);
        super::next_read(window, &self.setup, SEGMENT_BYTES as u64, (ahead, room))
    }

    /// Allocates a place for a frame of `bytes` bytes in the oldest buffer.
    fn next_place(&mut self, bytes: usize) -> Option<Place> {
        let &buffer = self.ahead.front()?;
        let number = self.used;
        let (strides, stride_bytes) = (self.setup.strides & 0xff, self.setup.strides >> 8);
        if self.setup.strides == 0 {
            self.ahead.pop_front();
            self.used = self.used.wrapping_add(1);
            return Some(Place {
                buffer,
                number,
                counter: number as u16,
                strides: 0,
            });
        }
        let (strides, stride_bytes) = (1u32 << strides, 1u32 << stride_bytes);
        let first = self.strides_used;
        let wanted = (bytes as u32).div_ceil(stride_bytes);
        // A frame that does not fit after the others ends the buffer.
        let taken = wanted.min(strides - first);
        self.strides_used += taken;
        if self.strides_used == strides {
            self.ahead.pop_front();
            self.used = self.used.wrapping_add(1);
            self.strides_used = 0;
        }
        let part = Segment {
            address: buffer.address.wrapping_add(u64::from(first * stride_bytes)),
            bytes: buffer
                .bytes
                .saturating_sub(first * stride_bytes)
                .min(taken * stride_bytes),
        };
        Some(Place {
            buffer: part,
            number,
            counter: first as u16,
            strides: taken,
        })
    }

    /// The number of strides at the end of the oldest buffer that must stay empty because a frame
    /// of `bytes` bytes does not fit, if any.
    fn filler(&mut self, bytes: usize) -> Option<u32> {
        let (strides, stride_bytes) = (self.setup.strides & 0xff, self.setup.strides >> 8);
        if self.setup.strides == 0 || self.strides_used == 0 {
            return None;
        }
        let left = (1u32 << strides) - self.strides_used;
        let wanted = (bytes as u32).div_ceil(1 << stride_bytes);
        (wanted > left).then_some(left)
    }
}

/// The destination of a frame.
struct Place {
    buffer: Segment,
    /// The buffer's number.
    number: u32,
    /// The completion's counter: the buffer's number, or the stride.
    counter: u16,
    /// Number of strides that it takes; 0 if buffers have none.
    strides: u32,
}

impl CqeNic {
    /// Handles a frame from the network.
    pub(super) fn frame_came(
        &mut self,
        context: &mut AgentContext<'_>,
        port: usize,
        packet: &Packet,
    ) {
        self.statistics.frames.frames_received += 1;
        let frame = packet.to_bytes();
        let bytes = frame.len() as u32;
        if bytes > self.spec.max_frame_bytes {
            self.statistics.frames.dropped_too_long += 1;
            return;
        }
        if bytes > self.spec.input_buffer_bytes - self.input_bytes[port] {
            self.statistics.frames.dropped_buffer_full += 1;
            return;
        }
        self.input_bytes[port] += bytes;
        let hash = rss::hash(&self.key, packet);
        let start = self.receive_free_at.max(context.now());
        self.receive_free_at = start + period(self.spec.receive_mpps);
        self.pipeline.push_back((port as u32, frame, hash));
        context.wake(start, purpose::PROCESSED);
    }

    /// Handles the oldest frame in the pipeline, which has passed through it.
    pub(super) fn frame_processed(&mut self, context: &mut AgentContext<'_>) {
        let Some((port, frame, hash)) = self.pipeline.pop_front() else {
            return;
        };
        let port = port as usize;
        let entry = hash as usize % CQE_NIC_INDIRECTION_ENTRIES;
        let queue = self.indirection[port * CQE_NIC_INDIRECTION_ENTRIES + entry];
        let queue = port * self.spec.queues as usize + usize::from(queue);
        if self.receive[queue].setup.entries == 0 {
            self.input_bytes[port] -= frame.len() as u32;
            self.statistics.frames.dropped_no_descriptor += 1;
            return;
        }
        self.receive[queue].input.push_back((hash, frame));
        self.deliver(context, queue);
    }

    /// Writes frames into available buffers.
    fn deliver(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let port = self.port_of(number);
        loop {
            let queue = &mut self.receive[number];
            let Some((_, frame)) = queue.input.front() else {
                break;
            };
            let bytes = frame.len();
            if let Some(left) = queue.filler(bytes) {
                let place = queue.next_place((left as usize) << (queue.setup.strides >> 8));
                if let Some(place) = place {
                    let filler = Completion {
                        kind: completion::RECEIVED,
                        byte_count: 1 << 31 | left << 16,
                        buffer: place.number as u16,
                        counter: place.counter,
                        ..queue::completion(context.now(), number)
                    };
                    let completing = Completing {
                        token: purpose::COMPLETED,
                        address: 0,
                        content: Vec::new(),
                        completion: filler.to_bytes(),
                    };
                    self.complete(context, 2 * number, completing);
                }
                continue;
            }
            let Some(place) = queue.next_place(bytes) else {
                break;
            };
            let Some((hash, frame)) = queue.input.pop_front() else {
                break;
            };
            self.input_bytes[port] -= bytes as u32;
            let syndrome = if place.buffer.bytes < bytes as u32 {
                Some(Syndrome::Length)
            } else if !is_memory(context, place.buffer.address, bytes) {
                Some(Syndrome::Protection)
            } else {
                None
            };
            let mut completion = Completion {
                kind: completion::RECEIVED,
                hash,
                byte_count: place.strides << 16 | bytes as u32,
                buffer: place.number as u16,
                counter: place.counter,
                syndrome,
                ..queue::completion(context.now(), number)
            };
            let mut completing = Completing {
                token: purpose::DELIVERED,
                address: place.buffer.address,
                content: frame,
                ..Completing::default()
            };
            if syndrome.is_some() {
                completion.kind = completion::RECEIVE_ERROR;
                completing.token = purpose::COMPLETED;
                completing.content = Vec::new();
                self.statistics.frames.dropped_bad_descriptor += 1;
                let name = self.name_of(number);
                self.blame(|| {
                    format!(
                        "buffer {} of the receive {name} has {} bytes at {:#x}; a frame of {bytes} bytes came, \
                         and it must be in memory",
                        place.number, place.buffer.bytes, place.buffer.address
                    )
                });
            }
            completing.completion = completion.to_bytes();
            if self.receive[number].setup.compresses && syndrome.is_none() {
                self.compress(context, number, completing, completion);
                continue;
            }
            self.end_session(context, number);
            self.complete(context, 2 * number, completing);
        }
        self.read_buffers(context, number);
        let queue = &self.receive[number];
        let known = queue.given.wrapping_sub(queue.used);
        if known < 2 * self.spec.buffers_ahead {
            self.read_record(context, number);
        }
    }

    /// Reads the doorbell record of a receive queue, unless a read is outstanding.
    pub(super) fn read_record(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let queue = &mut self.receive[number];
        if !std::mem::replace(&mut queue.is_reading_record, true) {
            self.statistics.record_reads += 1;
            let token = purpose::RECORD | number as u64;
            self.express.read(context, token, (queue.setup.record, 4));
        }
    }

    /// Handles the value of the record.
    pub(super) fn record_read(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        record: u32,
    ) {
        let queue = &mut self.receive[number];
        queue.is_reading_record = false;
        // Only its lower 16 bits are significant.
        let more = record.wrapping_sub(queue.given) & 0xffff;
        let given = queue.given.wrapping_add(more);
        let held = given.wrapping_sub(queue.used);
        let entries = queue.setup.entries;
        if held > entries {
            let name = self.name_of(number);
            return self.blame(|| {
                format!(
                    "the doorbell record of the receive {name} says that it holds {held} buffers; it has \
                     {entries} entries"
                )
            });
        }
        queue.given = given;
        if held == 0 {
            let lost = std::mem::take(&mut queue.input);
            let bytes: usize = lost.iter().map(|(_, frame)| frame.len()).sum();
            let port = self.port_of(number);
            self.input_bytes[port] -= bytes as u32;
            self.statistics.frames.dropped_no_descriptor += lost.len() as u64;
        }
        self.read_buffers(context, number);
    }

    /// Reads buffers of a queue as far ahead as allowed, if half of those are used.
    fn read_buffers(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let room = u64::from(self.spec.express.payload_bytes);
        let queue = &mut self.receive[number];
        if queue.asked.wrapping_sub(queue.used) > self.spec.buffers_ahead / 2 {
            return;
        }
        while let Some((first, count)) = queue.next_read(self.spec.buffers_ahead, room) {
            queue.asked = first.wrapping_add(count);
            queue.reading.push_back((count, Vec::new()));
            self.statistics.buffer_reads += 1;
            let range = (queue.place(first), count * SEGMENT_BYTES as u32);
            let token = purpose::BUFFERS | (number as u64) << 32 | u64::from(first);
            self.express.read(context, token, range);
        }
    }

    /// Handles returned buffers, whose reads may have overtaken earlier ones.
    pub(super) fn buffers_read(
        &mut self,
        context: &mut AgentContext<'_>,
        index: u64,
        data: Vec<u8>,
    ) {
        let number = (index >> 32) as usize;
        let queue = &mut self.receive[number];
        let next = queue.used.wrapping_add(queue.ahead.len() as u32);
        super::put_in_order(&mut queue.reading, next, index as u32, data);
        while let Some((_, came)) = queue.reading.pop_front_if(|(_, came)| !came.is_empty()) {
            let segments = came.chunks_exact(SEGMENT_BYTES);
            queue.ahead.extend(segments.map(Segment::of));
        }
        self.deliver(context, number);
    }
}

/// The time per frame at a rate in millions a second.
pub(super) fn period(mpps: f64) -> Time {
    Time::from_ns(1e3 / mpps)
}
