//! The send path, from memory to the port.
//!
//! A doorbell gives the block up to which the program has written work requests. The interface
//! reads blocks ahead, unless a work request came with its doorbell and everything before it has
//! been read. Then it reads the frames, round-robin over the queues, as far as the output buffer
//! has room, and sends those of a port in that order. The send pipeline has a maximum rate of
//! frames.

use super::format::{BLOCK_BYTES, Completion, Control, Part, Syndrome, completion, send_request};
use super::queue::{Completing, Completions, Setup};
use super::receive::period;
use super::{CqeNic, kind, purpose, queue};
use crate::frames::is_memory;
use fabric::AgentContext;
use std::collections::VecDeque;

/// A send queue.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct SendQueue {
    pub setup: Setup,
    pub completions: Completions,
    /// The block, modulo 2^32, up to which work requests have been written.
    given: u32,
    /// The block up to which the interface has requested them.
    asked: u32,
    /// The block up to which they have been turned into frames.
    taken: u32,
    /// The block up to which the reads of all frames have begun.
    begun: u32,
    /// Outstanding reads of blocks: the number of blocks of each, and the data of those that
    /// returned out of order.
    reading: VecDeque<(u32, Vec<u8>)>,
    /// Blocks that have been read and not yet turned into frames.
    blocks: Vec<u8>,
    frames: VecDeque<Frame>,
    /// Whether it is among the queues that are ready.
    is_ready: bool,
    /// Whether a work request was invalid: nothing more is sent.
    has_failed: bool,
    /// The stored part of a block in its combining registers.
    pub combining: Vec<u8>,
    /// Blocks that were written there.
    came: Vec<u8>,
}

/// A frame to read.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Frame {
    parts: Vec<Part>,
    /// The first block of its work request.
    block: u16,
    /// The number of blocks of its work request, if it is the request's last frame.
    blocks: u32,
    /// Whether it is the last frame of a work request that requests a completion.
    completes: bool,
}

/// A frame that is being read.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Sending {
    queue: u32,
    content: Vec<u8>,
    missing: usize,
    block: u16,
    completes: bool,
}

/// The frames of a port that are being read, in sending order.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct Sender {
    sending: VecDeque<Sending>,
    /// The number of the first of these.
    first: u64,
    bytes: u32,
    leaving: VecDeque<u32>,
}

impl Sender {
    /// Removes the oldest sent frame from the buffer.
    pub fn left(&mut self) {
        self.bytes -= self.leaving.pop_front().unwrap_or_default();
    }
}

/// The position of the port in the token of a part of a frame.
const PORT_SHIFT: u32 = 55;

impl SendQueue {
    fn place(&self, block: u32) -> u64 {
        let index = block & self.setup.entries.wrapping_sub(1);
        self.setup.ring + u64::from(index) * BLOCK_BYTES as u64
    }

    /// The blocks to read now: the first number and the count.
    fn next_read(&self, ahead: u32, room: u64) -> Option<(u32, u32)> {
        let held = self.asked.wrapping_sub(self.begun);
        let window = (self.given, self.asked, held);
        super::next_read(window, &self.setup, BLOCK_BYTES as u64, (ahead, room))
    }
}

impl CqeNic {
    /// Handles a doorbell: the first bytes of the last work request.
    pub(super) fn ring(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        bytes: [u8; 8],
    ) -> Result<(), String> {
        let control = Control::of(bytes);
        let name = self.name_of(number);
        let queue = &mut self.send[number];
        if queue.setup.entries == 0 {
            return Err(format!(
                "the doorbell of the send {name} was rung before the queue had begun"
            ));
        }
        let end = control.block.wrapping_add(control.blocks() as u16);
        let more = end.wrapping_sub(queue.given as u16);
        let given = queue.given.wrapping_add(u32::from(more));
        let held = given.wrapping_sub(queue.begun);
        if held > queue.setup.entries {
            return Err(format!(
                "the doorbell of the send {name} says that it holds {held} blocks; it has {}",
                queue.setup.entries
            ));
        }
        queue.given = given;
        self.read_blocks(context, number);
        Ok(())
    }

    /// Handles a block of a work request that came with its doorbell.
    pub(super) fn block_came(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        block: Vec<u8>,
    ) {
        let queue = &mut self.send[number];
        queue.came.extend(block);
        let mut first = [0; 8];
        first.copy_from_slice(&queue.came[..8]);
        let control = Control::of(first);
        if queue.came.len() < control.blocks() * BLOCK_BYTES {
            return;
        }
        let came = std::mem::take(&mut queue.came);
        self.statistics.blue_flames += 1;
        let is_next = queue.setup.entries > 0
            && queue.asked == queue.given
            && queue.given as u16 == control.block;
        if is_next {
            let blocks = control.blocks() as u32;
            queue.given = queue.given.wrapping_add(blocks);
            let first = queue.asked;
            queue.asked = queue.given;
            queue.reading.push_back((blocks, Vec::new()));
            let index = (number as u64) << 32 | u64::from(first);
            self.blocks_read(context, index, came);
        } else if let Err(sentence) = self.ring(context, number, first) {
            self.blame(|| sentence);
        }
    }

    /// Reads blocks of a queue as far ahead as allowed, if half of those are used.
    fn read_blocks(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let room = u64::from(self.spec.express.payload_bytes);
        let queue = &mut self.send[number];
        if queue.asked.wrapping_sub(queue.begun) > self.spec.blocks_ahead / 2 {
            return;
        }
        while let Some((first, count)) = queue.next_read(self.spec.blocks_ahead, room) {
            queue.asked = first.wrapping_add(count);
            queue.reading.push_back((count, Vec::new()));
            self.statistics.block_reads += 1;
            let range = (queue.place(first), count * BLOCK_BYTES as u32);
            let token = purpose::BLOCKS | (number as u64) << 32 | u64::from(first);
            self.express.read(context, token, range);
        }
    }

    /// Handles returned blocks, whose reads may have overtaken earlier ones.
    pub(super) fn blocks_read(
        &mut self,
        context: &mut AgentContext<'_>,
        index: u64,
        data: Vec<u8>,
    ) {
        let number = (index >> 32) as usize;
        let queue = &mut self.send[number];
        let here = (queue.blocks.len() / BLOCK_BYTES) as u32;
        let next = queue.taken.wrapping_add(here);
        super::put_in_order(&mut queue.reading, next, index as u32, data);
        while let Some((_, came)) = queue.reading.pop_front_if(|(_, came)| !came.is_empty()) {
            queue.blocks.extend(came);
        }
        self.take_requests(number);
        self.read_blocks(context, number);
        self.read_frames(context);
    }

    /// Turns complete work requests into frames.
    fn take_requests(&mut self, number: usize) {
        let mut fault = None;
        let queue = &mut self.send[number];
        let mut at = 0;
        while at < queue.blocks.len() && !queue.has_failed {
            let mut first = [0; 8];
            first.copy_from_slice(&queue.blocks[at..at + 8]);
            let bytes = Control::of(first).blocks() * BLOCK_BYTES;
            let Some(request) = queue.blocks.get(at..at + bytes) else {
                break;
            };
            let block = queue.taken as u16;
            let blocks = (bytes / BLOCK_BYTES) as u32;
            match send_request(request) {
                Ok(mut request) => {
                    let last = request.frames.pop();
                    let others = request.frames.into_iter().map(|parts| Frame {
                        parts,
                        block,
                        ..Frame::default()
                    });
                    queue.frames.extend(others);
                    match last {
                        Some(parts) => queue.frames.push_back(Frame {
                            parts,
                            block,
                            blocks,
                            completes: request.completes,
                        }),
                        None => queue.begun = queue.begun.wrapping_add(blocks),
                    }
                }
                Err(why) => {
                    queue.has_failed = true;
                    // A frame without parts cannot be sent and completes with an error.
                    queue.frames.push_back(Frame {
                        parts: Vec::new(),
                        block,
                        blocks,
                        completes: true,
                    });
                    fault = Some((block, why));
                }
            }
            at += bytes;
            queue.taken = queue.taken.wrapping_add(blocks);
        }
        queue.blocks.drain(..at);
        if !queue.frames.is_empty() && !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(number as u32);
        }
        if let Some((block, why)) = fault {
            let name = self.name_of(number);
            self.blame(|| format!("the work request at block {block} of the send {name} {why}"));
        }
    }

    /// Begins to read frames, round-robin over the queues, as far as there is room.
    pub(super) fn read_frames(&mut self, context: &mut AgentContext<'_>) {
        // Until every remaining queue belongs to a port without room.
        let mut blocked = 0;
        while blocked < self.ready.len()
            && let Some(number) = self.ready.pop_front()
        {
            let port = self.port_of(number as usize);
            blocked = match self.read_frame(context, number as usize, port) {
                true => 0,
                false => blocked + 1,
            };
            let queue = &mut self.send[number as usize];
            queue.is_ready = !queue.frames.is_empty();
            if queue.is_ready {
                self.ready.push_back(number);
            }
            self.read_blocks(context, number as usize);
        }
        for port in 0..self.senders.len() {
            self.send_frames(context, port);
        }
    }

    /// Begins to read the first frame of a queue, if there is room.
    fn read_frame(&mut self, context: &mut AgentContext<'_>, number: usize, port: usize) -> bool {
        let (queue, sender) = (&mut self.send[number], &mut self.senders[port]);
        let Some(frame) = queue.frames.front() else {
            return false;
        };
        let bytes_of = |part: &Part| match part {
            Part::Inline(bytes) => bytes.len(),
            Part::InMemory(segment) => segment.bytes as usize,
        };
        let bytes: usize = frame.parts.iter().map(bytes_of).sum();
        let is_there = |part: &Part| match part {
            Part::InMemory(segment) => is_memory(context, segment.address, segment.bytes as usize),
            Part::Inline(_) => true,
        };
        // Check the length first: checking gigabytes takes long.
        let wrong = if frame.parts.is_empty() {
            Some(Syndrome::Operation)
        } else if !(1..=self.spec.max_frame_bytes as usize).contains(&bytes) {
            Some(Syndrome::Length)
        } else if !frame.parts.iter().all(is_there) {
            Some(Syndrome::Protection)
        } else {
            None
        };
        let has_room = sender.bytes == 0
            || sender.bytes as usize + bytes <= self.spec.output_buffer_bytes as usize;
        if wrong.is_none() && !has_room {
            return false;
        }
        let Some(frame) = queue.frames.pop_front() else {
            return false;
        };
        queue.begun = queue.begun.wrapping_add(frame.blocks);
        if let Some(syndrome) = wrong {
            queue.frames.clear();
            queue.has_failed = true;
            self.fail(context, number, (frame.block, bytes), syndrome);
            return true;
        }
        sender.bytes += bytes as u32;
        let place = sender.first + sender.sending.len() as u64;
        let mut content = vec![0; bytes];
        let mut missing = 0;
        let mut at = 0;
        for part in &frame.parts {
            match part {
                Part::Inline(data) => content[at..at + data.len()].copy_from_slice(data),
                Part::InMemory(segment) => {
                    missing += segment.bytes as usize;
                    for piece in self.express.parts(segment.address, segment.bytes as usize) {
                        let token = purpose::FRAME
                            | (port as u64) << PORT_SHIFT
                            | place << 16
                            | (at + piece.offset) as u64;
                        let range = (piece.address, piece.bytes as u32);
                        self.express.read(context, token, range);
                    }
                }
            }
            at += bytes_of(part);
        }
        sender.sending.push_back(Sending {
            queue: number as u32,
            content,
            missing,
            block: frame.block,
            completes: frame.completes,
        });
        true
    }

    /// Handles a work request that cannot be carried out.
    fn fail(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        (block, bytes): (u16, usize),
        syndrome: Syndrome,
    ) {
        self.statistics.frames.not_sent += 1;
        let name = self.name_of(number);
        let most = self.spec.max_frame_bytes;
        self.blame(|| {
            format!(
                "the work request at block {block} of the send {name} has a frame of {bytes} bytes; it must \
                 be in memory and have from 1 to {most}"
            )
        });
        let completion = Completion {
            kind: completion::SEND_ERROR,
            counter: block,
            syndrome: Some(syndrome),
            ..queue::completion(context.now(), number)
        };
        self.complete_send(context, number, completion);
    }

    fn complete_send(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        completion: Completion,
    ) {
        let completing = Completing {
            token: purpose::COMPLETED,
            completion: completion.to_bytes(),
            ..Completing::default()
        };
        self.complete(context, 2 * number + 1, completing);
    }

    /// Handles a returned part of a frame.
    pub(super) fn part_read(&mut self, context: &mut AgentContext<'_>, index: u64, data: &[u8]) {
        let port = (index >> PORT_SHIFT & 1) as usize;
        let number = (index & !(1 << PORT_SHIFT)) >> 16;
        let sender = &mut self.senders[port];
        let place = number.wrapping_sub(sender.first) as usize;
        let offset = (index & 0xffff) as usize;
        if let Some(sending) = sender.sending.get_mut(place)
            && let Some(part) = sending.content.get_mut(offset..offset + data.len())
        {
            part.copy_from_slice(data);
            sending.missing -= data.len();
        }
        self.send_frames(context, port);
    }

    /// Sends complete frames, in order.
    fn send_frames(&mut self, context: &mut AgentContext<'_>, port: usize) {
        loop {
            let sender = &mut self.senders[port];
            let Some(sending) = sender.sending.pop_front_if(|sending| sending.missing == 0) else {
                return;
            };
            sender.first += 1;
            let bytes = sending.content.len() as u32;
            let start = self.send_free_at.max(context.now());
            self.send_free_at = start + period(self.spec.send_mpps);
            let number = sending.queue as usize;
            let left = purpose::LEFT | port as u64;
            match self.ports[port].send(context, start, &sending.content, left) {
                Ok(()) => {
                    self.statistics.frames.frames_sent += 1;
                    sender.leaving.push_back(bytes);
                }
                Err(error) => {
                    self.statistics.frames.not_sent += 1;
                    sender.bytes -= bytes;
                    let name = self.name_of(number);
                    self.blame(|| format!("the {} {name} was to send: {error}", kind(true)));
                }
            }
            if sending.completes {
                let completion = Completion {
                    kind: completion::SENT,
                    counter: sending.block,
                    ..queue::completion(context.now(), number)
                };
                self.complete_send(context, number, completion);
            }
        }
    }
}
