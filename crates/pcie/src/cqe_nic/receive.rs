//! From the port to memory.
//!
//! A frame passes the receive pipeline, which takes so many a second; the hash and the indirection
//! table give its queue, where it waits for a buffer. The interface reads buffers ahead. The
//! queue's doorbell record in memory has their number. The interface reads it again when it knows
//! of few: when a frame arrives and none is known, or fewer than twice as many as it reads ahead.
//! The rule of the real interface is not published. Frames that wait when a record says that there
//! is no buffer are dropped.

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
    /// How many buffers the program has given, as far as it is known, modulo 2^32, ...
    given: u32,
    /// ... of how many the interface has asked for, ...
    asked: u32,
    /// ... how many it has used, ...
    used: u32,
    /// ... and those that it has and has not used, in order.
    ahead: VecDeque<Segment>,
    /// Reads of buffers that are under way: how many each has, and what has come of those that were
    /// overtaken.
    reading: VecDeque<(u32, Vec<u8>)>,
    is_reading_record: bool,
    /// Strides of the first buffer that are used.
    strides_used: u32,
    pub session: Session,
    /// The word in which its completions are counted; 0: none.
    pub counter: u64,
    /// If it is to interrupt: how many completions its program has taken.
    pub armed: Option<u32>,
    /// Frames that wait for a buffer, with their hashes.
    pub input: VecDeque<(u32, Vec<u8>)>,
}

impl ReceiveQueue {
    /// Where buffer `number` is in the ring.
    fn place(&self, number: u32) -> u64 {
        let index = number & self.setup.entries.wrapping_sub(1);
        self.setup.ring + u64::from(index) * SEGMENT_BYTES as u64
    }

    /// Which buffers are to be read now: the first one's number, and how many.
    fn next_read(&self, ahead: u32, room: u64) -> Option<(u32, u32)> {
        let held = self.asked.wrapping_sub(self.used);
        let window = (self.given, self.asked, held);
        super::next_read(window, &self.setup, SEGMENT_BYTES as u64, (ahead, room))
    }

    /// A place for a frame of so many bytes in the oldest buffer.
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
        // What does not fit behind the others ends the buffer.
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

    /// Whether a frame of so many bytes has to leave the rest of the oldest buffer empty: how many
    /// strides that are.
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

/// Where a frame goes.
struct Place {
    buffer: Segment,
    /// The buffer's number, ...
    number: u32,
    /// ... and the completion's counter: the same, or the stride.
    counter: u16,
    /// Strides that it takes; 0 if buffers have none.
    strides: u32,
}

impl CqeNic {
    /// A frame has come from the network.
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

    /// The oldest frame in the pipeline has passed it.
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

    /// Writes frames into the buffers that are there for them.
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

    /// Reads the doorbell record of a receive queue, unless that is under way.
    pub(super) fn read_record(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let queue = &mut self.receive[number];
        if !std::mem::replace(&mut queue.is_reading_record, true) {
            self.statistics.record_reads += 1;
            let token = purpose::RECORD | number as u64;
            self.express.read(context, token, (queue.setup.record, 4));
        }
    }

    /// The record has come.
    pub(super) fn record_read(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        record: u32,
    ) {
        let queue = &mut self.receive[number];
        queue.is_reading_record = false;
        // Its lower 16 bits count.
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

    /// Reads buffers of a queue as far ahead as it may, if half of these are used.
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

    /// Buffers have come, perhaps before some that were asked for sooner.
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

/// The time of one frame of so many millions a second.
pub(super) fn period(mpps: f64) -> Time {
    Time::from_ns(1e3 / mpps)
}
