//! The receive path: frames from the link, or from the firmware of a programmable interface, into
//! the buffers that the program has posted.

use super::DmaNic;
use super::purpose;
use super::ring::{DONE, ERROR, STATUS_OFFSET, upper_half};
use crate::express;
use crate::frames::is_memory;
use crate::processors::{Crossing, Fate, Frame};
use crate::rss;
use fabric::{AgentContext, AgentMessage, LineData};
use network::packet::Packet;

impl DmaNic {
    /// Handles a frame from the network.
    pub(super) fn frame_came(&mut self, context: &mut AgentContext<'_>, packet: &Packet) {
        self.statistics.frames_received += 1;
        let hash = rss::hash(&rss::MICROSOFT_KEY, packet);
        let queue = rss::queue(hash, self.spec.queues) as usize;
        let frame = packet.to_bytes();
        let bytes = frame.len() as u32;
        if bytes > self.spec.max_frame_bytes {
            self.statistics.dropped_too_long += 1;
        } else if self.processors.is_none() && !self.has_buffer(queue) {
            self.statistics.dropped_no_descriptor += 1;
        } else if bytes > self.spec.input_buffer_bytes - self.input_bytes {
            self.statistics.dropped_buffer_full += 1;
        } else {
            self.input_bytes += bytes;
            self.take_in(context, queue, hash, frame);
        }
    }

    /// Passes a frame in the input buffer to the cores, or to the ring of its queue.
    fn take_in(&mut self, context: &mut AgentContext<'_>, queue: usize, hash: u32, bytes: Vec<u8>) {
        let frame = Frame {
            hash,
            room: bytes.len() as u32,
            bytes,
            notes: Vec::new(),
        };
        if let Some(processors) = &mut self.processors {
            processors.give(context.now(), frame);
            return self.wake_processors(context);
        }
        if let Some(input) = self.input.get_mut(queue) {
            input.push_back(frame);
            self.deliver(context, queue);
        }
    }

    /// Whether a queue has a buffer for one more frame.
    fn has_buffer(&self, queue: usize) -> bool {
        let (ring, input) = (self.rings.get(2 * queue), self.input.get(queue));
        ring.zip(input)
            .is_some_and(|(ring, input)| input.len() < ring.given.wrapping_sub(ring.used) as usize)
    }

    /// Schedules a timer for the next cycle in which a core issues.
    fn wake_processors(&mut self, context: &mut AgentContext<'_>) {
        let next = self.processors.as_mut().and_then(|of| of.next_wake());
        if let Some((at, cycle)) = next {
            context.wake(at, purpose::CYCLE | cycle);
        }
    }

    /// Lets cores issue in this cycle, and handles the frames and loads that leave them.
    pub(super) fn step_processors(&mut self, context: &mut AgentContext<'_>, cycle: u64) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        processors.step(cycle);
        for load in processors.take_loads() {
            let range = (load.address, u32::from(load.bytes));
            let token = purpose::HOST_LOAD | load.number;
            self.express
                .read_for_program(context, token, range, load.steer);
            processors.crossed(Crossing::Request, express::READ_BYTES);
        }
        for (fate, frame) in processors.take_left() {
            self.frame_left(context, fate, frame);
        }
        self.wake_processors(context);
    }

    /// Handles the data of a core's load of host memory; `None` if there is no memory.
    pub(super) fn host_loaded(
        &mut self,
        context: &mut AgentContext<'_>,
        number: u64,
        bytes: &[u8],
    ) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        let digits = bytes.iter().rev();
        let raw = digits.fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        processors.loaded(context.now(), number, (!bytes.is_empty()).then_some(raw));
        processors.crossed(Crossing::Data, express::completion_bytes(bytes.len()));
        self.wake_processors(context);
    }

    /// Handles a frame that has left the cores.
    fn frame_left(&mut self, context: &mut AgentContext<'_>, fate: Fate, frame: Frame) {
        match fate {
            Fate::Delivered(queue) if self.has_buffer(queue as usize) => {
                self.input[queue as usize].push_back(frame);
                self.deliver(context, queue as usize);
            }
            Fate::Delivered(_) => {
                self.statistics.dropped_no_descriptor += 1;
                self.input_bytes -= frame.room;
            }
            Fate::Sent(_) => {
                // The frame stays in the input buffer until its last bit has left.
                let left = purpose::SENT | u64::from(frame.room);
                match self.port.send(context, context.now(), &frame.bytes, left) {
                    Ok(()) => self.statistics.frames_sent += 1,
                    Err(_) => {
                        self.statistics.not_sent += 1;
                        self.input_bytes -= frame.room;
                    }
                }
            }
            Fate::Dropped => self.input_bytes -= frame.room,
        }
    }

    /// Writes frames into available buffers.
    pub(super) fn deliver(&mut self, context: &mut AgentContext<'_>, queue: usize) {
        let (Some(ring), Some(input)) = (self.rings.get_mut(2 * queue), self.input.get_mut(queue))
        else {
            return;
        };
        while !ring.ahead.is_empty()
            && let Some(Frame {
                hash,
                bytes: frame,
                notes,
                ..
            }) = input.pop_front()
            && let Some(descriptor) = ring.ahead.pop_front()
        {
            ring.used = ring.used.wrapping_add(1);
            self.input_bytes -= frame.len() as u32;
            let fits = frame.len() <= usize::from(descriptor.bytes)
                && is_memory(context, descriptor.address, frame.len());
            let (status, content) = match fits {
                true => (DONE, &frame[..]),
                false => (DONE | ERROR, &[][..]),
            };
            let token = match fits {
                true => purpose::DELIVERED,
                false => purpose::TOLD,
            };
            self.statistics.dropped_bad_descriptor += u64::from(!fits);
            let number = ring.used.wrapping_sub(1);
            let half = upper_half(frame.len() as u16, status, hash);
            let reports_to = self.reports_to.get(queue).copied().flatten();
            let completions = reports_to.and_then(|to| self.completions.get_mut(to as usize));
            let behind = match completions {
                Some(completions) => completions.report(half, queue as u32, number),
                None => (descriptor.at + STATUS_OFFSET, half),
            };
            if fits && let Some(to) = self.listener.filter(|_| !notes.is_empty()) {
                let mut message = AgentMessage {
                    header: descriptor.address,
                    data: LineData::ZERO,
                };
                let size = frame.len() as u64 | (notes.len() as u64) << 32;
                message.data.write(0, 8, size);
                for (place, &note) in notes.iter().enumerate() {
                    message.data.write(8 * (1 + place), 8, note);
                }
                let words = 1 + notes.len() as u64;
                let bytes = self.express.note(context, to, words, message);
                if let Some(processors) = &mut self.processors {
                    processors.crossed(Crossing::Note, bytes);
                }
            }
            let write = (descriptor.address, content);
            let doorbell = self.doorbells.get(queue).copied().unwrap_or(0);
            self.express.write(context, token, write, behind, doorbell);
        }
        self.interrupt(context, queue);
        self.read_descriptors(context, 2 * queue);
    }

    /// Interrupts if a queue is armed and has frames that its program has not taken.
    pub(super) fn interrupt(&mut self, context: &mut AgentContext<'_>, queue: usize) {
        let (Some(ring), Some(armed)) = (self.rings.get(2 * queue), self.armed.get_mut(queue))
        else {
            return;
        };
        if armed.take_if(|taken| *taken != ring.used).is_some() {
            self.express.interrupt(context, queue as u64);
        }
    }
}
