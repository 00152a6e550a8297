//! The network interface on the chip: registers, four queues, and DMA to the last-level cache.
//!
//! Lines to and from the cache share one path of 8 bytes a cycle. The published prototypes have
//! SiFive's inclusive cache in one bank, whose answering stage serves one request at a time and
//! takes a cycle for each 8 bytes, of a read and of a write (`SourceD.scala`).
//!
//! The registers, at an address that the server chooses (0x1001_6000 in the published prototypes):
//!
//! | offset | bytes | name | |
//! | --- | --- | --- | --- |
//! | 0 | 8 | `SEND_REQ` | write: sends from memory: the address in bits 47 to 0, the bytes in 62 to 48; bit 63: the frame continues with the next request |
//! | 8 | 8 | `RECV_REQ` | write: the address of a buffer for a frame, a multiple of 8 |
//! | 16 | 2 | `SEND_COMP` | read: takes one completion |
//! | 18 | 2 | `RECV_COMP` | read: takes one completion: the frame's bytes, a multiple of 8 |
//! | 20 | 4 | `COUNTS` | read, a byte each: room for requests to send and to receive, completions of sent and received ones |
//! | 24 | 8 | `MACADDR` | read: the Ethernet address, its first byte lowest |
//! | 32 | 4 | `INTMASK` | bit 0: interrupt for completions of sent frames, bit 1: of received ones |
//!
//! A write to a full queue, and a read of an empty one, stall until the queue has room or an entry,
//! as in the published registers; the core stalls with them.

use crate::frames::{Piece, is_memory, lines};
use crate::port::{self, NicStatistics, Port};
use crate::spec::IceNicSpec;
use fabric::{
    AddressRange, Agent, AgentContext, Attachment, Clock, CoreId, LineAddress, LineData,
    MemoryAccess, ReplyTo, Request, RequestKind, Time,
};
use network::packet::{Packet, hardware_address};
use network::rack::{Interface, LineRate, SecondPath};
use spec::SpecError;
use std::collections::VecDeque;

/// Bytes that it moves to or from the chip in a cycle: `NET_IF_WIDTH`, 64 bits.
const WORD_BYTES: u64 = 8;
/// Its bytes of registers.
const REGISTER_BYTES: u64 = 0x1000;
/// The bit of the machine's external interrupt in `mip`.
const EXTERNAL_INTERRUPT: u8 = 11;

/// Offsets of the registers: `SIMPLENIC_...` in `guest/include/ice_nic.h`.
pub(crate) mod register {
    fabric::registers! { u64:
        SEND_REQ = 0;
        RECV_REQ = 8;
        SEND_COMP = 16;
        RECV_COMP = 18;
        COUNTS = 20;
        MACADDR = 24;
        INTMASK = 32;
    }
}

/// The purpose of an access or a timer: the upper 8 bits of its token. The rest is an index.
mod purpose {
    /// A line of a frame has been read.
    pub const READ: u64 = 1 << 56;
    /// A line of a frame has been written.
    pub const WRITE: u64 = 2 << 56;
    /// All words of a line are on their way to memory.
    pub const WORDS_OUT: u64 = 3 << 56;
    /// All words of a frame have come from memory.
    pub const WORDS_IN: u64 = 4 << 56;
    /// A frame has left the output buffer.
    pub const LEFT: u64 = 5 << 56;
    /// The index.
    pub const INDEX: u64 = !(0xff << 56);
}

/// A send request whose data are being read.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Segment {
    address: u64,
    /// Whether the frame continues with the next request.
    is_part: bool,
    content: Vec<u8>,
    /// Number of bytes requested so far.
    asked: usize,
    /// Number of bytes not yet received.
    missing: usize,
    /// The time at which all of it has arrived, once known.
    here_at: Option<Time>,
}

/// A frame that is being written to memory.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Writing {
    address: u64,
    content: Vec<u8>,
    /// Number of bytes in flight or written.
    given: usize,
    /// Number of outstanding writes.
    under_way: u32,
    /// Whether a line is being transferred to the chip, word by word.
    is_busy: bool,
}

/// The interface.
#[derive(state::State)]
pub struct IceNic {
    #[state(fixed)]
    spec: IceNicSpec,
    #[state(fixed)]
    registers: AddressRange,
    #[state(fixed)]
    clock: Clock,
    port: Port,
    /// Requests, and the replies and values of cores that wait for room.
    send_requests: VecDeque<u64>,
    waiting_to_send: VecDeque<(ReplyTo, u64)>,
    receive_requests: VecDeque<u64>,
    waiting_to_receive: VecDeque<(ReplyTo, u64)>,
    /// Completions, and cores that wait for one.
    sends_completed: u32,
    waiting_for_sends: VecDeque<ReplyTo>,
    receives_completed: VecDeque<u16>,
    waiting_for_receives: VecDeque<ReplyTo>,
    /// Segments that are being read, in order; the first is number `first_segment`.
    segments: VecDeque<Segment>,
    first_segment: u64,
    reads: u32,
    /// The time until which words are on their way, to memory or from it.
    words_until: Time,
    /// The frame that is being assembled from segments.
    frame: Vec<u8>,
    is_too_long: bool,
    /// Bytes in the output buffer, and those of the frames that are leaving it, in order.
    output_bytes: u32,
    leaving: VecDeque<u32>,
    input: VecDeque<Vec<u8>>,
    input_bytes: u32,
    writing: Option<Writing>,
    interrupt_mask: u8,
    is_interrupting: bool,
    statistics: NicStatistics,
    fault: Option<String>,
}

impl IceNic {
    /// An interface described by `spec`, with its registers at `registers`, on a chip with this
    /// clock.
    pub fn new(spec: &IceNicSpec, registers: u64, clock: Clock) -> Result<IceNic, SpecError> {
        spec.check()?;
        Ok(IceNic {
            spec: spec.clone(),
            registers: AddressRange {
                start: registers,
                length: REGISTER_BYTES,
            },
            clock,
            port: Port::new(spec.mac_latency_ns),
            send_requests: VecDeque::new(),
            waiting_to_send: VecDeque::new(),
            receive_requests: VecDeque::new(),
            waiting_to_receive: VecDeque::new(),
            sends_completed: 0,
            waiting_for_sends: VecDeque::new(),
            receives_completed: VecDeque::new(),
            waiting_for_receives: VecDeque::new(),
            segments: VecDeque::new(),
            first_segment: 0,
            reads: 0,
            words_until: Time::ZERO,
            frame: Vec::new(),
            is_too_long: false,
            output_bytes: 0,
            leaving: VecDeque::new(),
            input: VecDeque::new(),
            input_bytes: 0,
            writing: None,
            interrupt_mask: 0,
            is_interrupting: false,
            statistics: NicStatistics::default(),
            fault: None,
        })
    }

    /// Its attachment to the fabric: its requests enter the mesh at this tile.
    pub fn attachment(&self, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(self.registers),
            ..Attachment::default()
        }
    }

    /// Its counts.
    pub fn statistics(&self) -> NicStatistics {
        NicStatistics {
            link_bytes: self.port.bytes(),
            ..self.statistics.clone()
        }
    }

    /// The rate of its link.
    pub(crate) fn rate(&self) -> LineRate {
        self.port.rate()
    }

    /// The number of links that it has itself.
    pub(crate) fn links(&self) -> u32 {
        self.port.links()
    }

    /// The program's first error, as a sentence.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Records an error if it is the first.
    fn blame(&mut self, sentence: String) {
        self.fault.get_or_insert(sentence);
    }

    fn is_full(&self, requests: &VecDeque<u64>) -> bool {
        requests.len() >= self.spec.queue_entries as usize
    }

    /// Begins to transfer `bytes` bytes between the interface and the chip at `now`, or when the
    /// path is free; returns the end.
    fn transfer(&mut self, now: Time, bytes: usize) -> Time {
        let words = (bytes as u64).div_ceil(WORD_BYTES);
        self.words_until = self.words_until.max(now) + self.clock.time(words);
        self.words_until
    }

    fn read_register(&mut self, context: &mut AgentContext<'_>, reply_to: ReplyTo, offset: u64) {
        let value = match offset {
            register::SEND_COMP => return self.waiting_for_sends.push_back(reply_to),
            register::RECV_COMP => return self.waiting_for_receives.push_back(reply_to),
            register::COUNTS => {
                let entries = self.spec.queue_entries as usize;
                let counts = [
                    entries - self.send_requests.len(),
                    entries - self.receive_requests.len(),
                    self.sends_completed as usize,
                    self.receives_completed.len(),
                ];
                // Each is at most 255, like the number of entries.
                let shifted = counts.iter().enumerate();
                shifted.fold(0, |all, (place, &count)| {
                    all | (count as u64) << (8 * place)
                })
            }
            register::MACADDR => hardware_address(self.port.address()).swap_bytes() >> 16,
            _ => u64::from(self.interrupt_mask),
        };
        context.reply(reply_to, value, Time::ZERO);
    }

    /// The error of a send request, if any.
    fn wrong_send(&self, context: &AgentContext<'_>, request: u64) -> Option<String> {
        let (address, bytes, _) = send_request(request);
        let most = self.spec.max_frame_bytes as usize;
        if bytes == 0 {
            return Some("an empty frame was to be sent".to_string());
        }
        if bytes > most {
            return Some(format!(
                "a frame of {bytes} bytes was to be sent; the most is {most}"
            ));
        }
        (!is_memory(context, address, bytes)).then(|| {
            format!("a frame of {bytes} bytes at {address:#x} was to be sent, which is not memory")
        })
    }

    /// The error of a buffer, if any.
    fn wrong_buffer(&self, context: &AgentContext<'_>, address: u64) -> Option<String> {
        let most = self.spec.max_frame_bytes as usize;
        if !address.is_multiple_of(WORD_BYTES) {
            return Some(format!(
                "a frame was to be received at {address:#x}, which is not a multiple of \
                 {WORD_BYTES}"
            ));
        }
        (!is_memory(context, address, most)).then(|| {
            format!(
                "a frame of up to {most} bytes was to be received at {address:#x}, and part of \
                 that is not memory"
            )
        })
    }

    fn write_register(
        &mut self,
        context: &mut AgentContext<'_>,
        reply_to: ReplyTo,
        offset: u64,
        value: u64,
    ) {
        let wrong = match offset {
            register::SEND_REQ => self.wrong_send(context, value),
            register::RECV_REQ => self.wrong_buffer(context, value),
            _ => {
                self.interrupt_mask = value as u8 & 3;
                context.reply(reply_to, 0, Time::ZERO);
                return self.set_interrupt(context);
            }
        };
        match wrong {
            Some(sentence) => {
                self.statistics.not_sent += u64::from(offset == register::SEND_REQ);
                self.blame(sentence);
                context.refuse(reply_to);
            }
            None if offset == register::SEND_REQ => {
                self.waiting_to_send.push_back((reply_to, value));
            }
            None => self.waiting_to_receive.push_back((reply_to, value)),
        }
    }

    /// Advances everything that can proceed.
    fn go_on(&mut self, context: &mut AgentContext<'_>) {
        while self.sends_completed > 0
            && let Some(reply_to) = self.waiting_for_sends.pop_front()
        {
            self.sends_completed -= 1;
            context.reply(reply_to, 1, Time::ZERO);
        }
        while !self.waiting_for_receives.is_empty()
            && let Some(bytes) = self.receives_completed.pop_front()
        {
            if let Some(reply_to) = self.waiting_for_receives.pop_front() {
                context.reply(reply_to, u64::from(bytes), Time::ZERO);
            }
        }
        // Each accepted request makes room for one of a waiting core.
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            self.read_segments(context);
            self.write_frame(context);
            while !self.is_full(&self.send_requests)
                && let Some((reply_to, request)) = self.waiting_to_send.pop_front()
            {
                self.send_requests.push_back(request);
                context.reply(reply_to, 0, Time::ZERO);
                goes_on = true;
            }
            while !self.is_full(&self.receive_requests)
                && let Some((reply_to, request)) = self.waiting_to_receive.pop_front()
            {
                self.receive_requests.push_back(request);
                context.reply(reply_to, 0, Time::ZERO);
                goes_on = true;
            }
        }
        self.set_interrupt(context);
    }

    fn set_interrupt(&mut self, context: &mut AgentContext<'_>) {
        let sent = self.sends_completed > 0 && self.interrupt_mask & 1 != 0;
        let received = !self.receives_completed.is_empty() && self.interrupt_mask & 2 != 0;
        if (sent || received) != self.is_interrupting {
            self.is_interrupting = !self.is_interrupting;
            let level = self.is_interrupting;
            context.interrupt(0, EXTERNAL_INTERRUPT, level, Time::ZERO);
        }
    }

    /// Accepts send requests as far as there is room, and reads their lines.
    fn read_segments(&mut self, context: &mut AgentContext<'_>) {
        loop {
            let is_asked = |segment: &Segment| segment.asked == segment.content.len();
            if self.segments.back().is_none_or(is_asked) {
                let Some(&request) = self.send_requests.front() else {
                    return;
                };
                let (address, bytes, is_part) = send_request(request);
                let completions = self.segments.len() as u32 + self.sends_completed;
                let has_room = self.output_bytes == 0
                    || self.output_bytes + bytes as u32 <= self.spec.output_buffer_bytes;
                if completions >= self.spec.queue_entries || !has_room {
                    return;
                }
                self.send_requests.pop_front();
                self.output_bytes += bytes as u32;
                self.segments.push_back(Segment {
                    address,
                    is_part,
                    content: vec![0; bytes],
                    asked: 0,
                    missing: bytes,
                    here_at: None,
                });
            }
            if self.reads >= self.spec.transactions {
                return;
            }
            let number = self.first_segment + self.segments.len() as u64 - 1;
            if let Some(segment) = self.segments.back_mut() {
                let rest = segment.content.len() - segment.asked;
                let address = segment.address + segment.asked as u64;
                if let Some(piece) = lines(address, rest).next() {
                    segment.asked += piece.bytes;
                    self.reads += 1;
                    context.access(MemoryAccess::DmaRead { address }, purpose::READ | number);
                }
            }
        }
    }

    /// Handles a returned line of segment `number`.
    fn line_read(
        &mut self,
        context: &mut AgentContext<'_>,
        number: u64,
        address: u64,
        line: &LineData,
    ) {
        self.reads -= 1;
        let place = number.wrapping_sub(self.first_segment) as usize;
        let Some(segment) = self.segments.get_mut(place) else {
            return;
        };
        let offset = (address - segment.address) as usize;
        let rest = segment.content.len() - offset;
        let Some(piece) = lines(address, rest).next() else {
            return;
        };
        Piece { offset, ..piece }.read(line, &mut segment.content);
        segment.missing -= piece.bytes;
        let is_whole = segment.missing == 0;
        let end = self.transfer(context.now(), piece.bytes);
        if is_whole {
            segment_here(&mut self.segments, place, end);
            context.wake(end, purpose::WORDS_IN);
        }
        self.go_on(context);
    }

    /// Sends complete frames, in order.
    fn send(&mut self, context: &mut AgentContext<'_>) {
        let now = context.now();
        let most = self.spec.max_frame_bytes as usize;
        let is_here = |segment: &mut Segment| segment.here_at.is_some_and(|at| at <= now);
        while let Some(segment) = self.segments.pop_front_if(is_here) {
            self.first_segment += 1;
            self.sends_completed += 1;
            self.frame.extend(&segment.content);
            if self.is_too_long || self.frame.len() > most {
                // The part already read makes room; otherwise the rest might wait for it for ever.
                self.is_too_long = true;
                self.output_bytes -= self.frame.len() as u32;
                self.frame.clear();
            }
            if segment.is_part {
                continue;
            }
            let frame = std::mem::take(&mut self.frame);
            let sent = match std::mem::take(&mut self.is_too_long) {
                false => {
                    let sent = self.port.send(context, now, &frame, purpose::LEFT);
                    sent.map_err(|error| error.to_string())
                }
                true => Err(format!(
                    "a frame in parts was to be sent, of more than {most} bytes"
                )),
            };
            match sent {
                Ok(()) => {
                    self.statistics.frames_sent += 1;
                    self.leaving.push_back(frame.len() as u32);
                }
                Err(sentence) => {
                    self.statistics.not_sent += 1;
                    self.output_bytes -= frame.len() as u32;
                    self.blame(sentence);
                }
            }
        }
        self.go_on(context);
    }

    /// Handles a frame from the network.
    fn frame_came(&mut self, context: &mut AgentContext<'_>, packet: &Packet) {
        self.statistics.frames_received += 1;
        let mut frame = packet.to_bytes();
        let room = self.spec.input_buffer_bytes - self.input_bytes;
        frame.resize(frame.len().next_multiple_of(WORD_BYTES as usize), 0);
        if frame.len() > self.spec.max_frame_bytes as usize {
            self.statistics.dropped_too_long += 1;
        } else if frame.len() > room as usize {
            self.statistics.dropped_buffer_full += 1;
        } else {
            self.input_bytes += frame.len() as u32;
            self.input.push_back(frame);
            self.go_on(context);
        }
    }

    /// Transfers the next line of a frame to the chip, if there is a frame, a buffer for it, and
    /// room for its completion.
    fn write_frame(&mut self, context: &mut AgentContext<'_>) {
        let has_room = self.receives_completed.len() < self.spec.queue_entries as usize;
        if self.writing.is_none()
            && has_room
            && !self.receive_requests.is_empty()
            && let Some(content) = self.input.pop_front()
        {
            self.writing = Some(Writing {
                address: self.receive_requests.pop_front().unwrap_or_default(),
                content,
                ..Writing::default()
            });
        }
        let transactions = self.spec.transactions;
        if let Some(writing) = &mut self.writing
            && !writing.is_busy
            && writing.under_way < transactions
            && let Some(piece) = next_line(writing)
        {
            writing.is_busy = true;
            let bytes = piece.bytes;
            let end = self.transfer(context.now(), bytes);
            context.wake(end, purpose::WORDS_OUT);
        }
    }

    /// Handles the end of a line's transfer.
    fn words_out(&mut self, context: &mut AgentContext<'_>) {
        if let Some(writing) = &mut self.writing
            && let Some(piece) = next_line(writing)
        {
            writing.is_busy = false;
            writing.given += piece.bytes;
            writing.under_way += 1;
            context.access(piece.write(&writing.content, true), purpose::WRITE);
            if writing.given == writing.content.len() {
                self.input_bytes -= writing.given as u32;
            }
        }
        self.go_on(context);
    }

    /// Handles a completed write of a line.
    fn line_written(&mut self, context: &mut AgentContext<'_>) {
        if let Some(writing) = &mut self.writing {
            writing.under_way -= 1;
            if writing.under_way == 0 && writing.given == writing.content.len() {
                let bytes = writing.given as u16;
                self.writing = None;
                self.receives_completed.push_back(bytes);
                self.statistics.frames_delivered += 1;
            }
        }
        self.go_on(context);
    }
}

/// The address and bytes of a send request, and whether the frame continues with the next one.
fn send_request(request: u64) -> (u64, usize, bool) {
    let bytes = (request >> 48 & 0x7fff) as usize;
    (request & ((1 << 48) - 1), bytes, request >> 63 != 0)
}

fn segment_here(segments: &mut VecDeque<Segment>, place: usize, at: Time) {
    if let Some(segment) = segments.get_mut(place) {
        segment.here_at = Some(at);
    }
}

/// The next line of a frame to write.
fn next_line(writing: &Writing) -> Option<Piece> {
    let offset = writing.given;
    let address = writing.address + offset as u64;
    let piece = lines(address, writing.content.len() - offset).next()?;
    Some(Piece { offset, ..piece })
}

impl Agent for IceNic {
    fn name(&self) -> String {
        "the network interface".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let start = self.registers.start;
        let reply_to = request.reply_to;
        match request.kind {
            RequestKind::Read { address, bytes } => match (address - start, bytes) {
                (register::SEND_COMP | register::RECV_COMP, 2)
                | (register::COUNTS, 4)
                | (register::MACADDR, 8)
                | (register::INTMASK, 4) => {
                    self.read_register(context, reply_to, address - start);
                }
                _ => context.refuse(reply_to),
            },
            RequestKind::Write {
                address,
                bytes,
                value,
            } => match (address - start, bytes) {
                (register::SEND_REQ | register::RECV_REQ, 8) | (register::INTMASK, 4) => {
                    self.write_register(context, reply_to, address - start, value);
                }
                _ => context.refuse(reply_to),
            },
            RequestKind::Custom { .. } => context.refuse(reply_to),
        }
        self.go_on(context);
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        match access {
            MemoryAccess::DmaRead { address } => {
                self.line_read(context, token & purpose::INDEX, address, &data);
            }
            MemoryAccess::DmaWrite { address, .. } => {
                if self.spec.first_level {
                    context.stash(CoreId(0), LineAddress::of(address));
                }
                self.line_written(context);
            }
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        match token {
            port::purpose::ARRIVED | port::purpose::PASSED => {
                if let Some(packet) = self.port.timer(context, token) {
                    self.frame_came(context, &packet);
                }
            }
            purpose::WORDS_OUT => self.words_out(context),
            purpose::WORDS_IN => self.send(context),
            purpose::LEFT => {
                self.output_bytes -= self.leaving.pop_front().unwrap_or_default();
                self.go_on(context);
            }
            _ => {}
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let mut sentences: Vec<_> = self.fault.clone().into_iter().collect();
        let cores = |waiting: usize, what: &str| {
            (waiting > 0).then(|| format!("{waiting} loads or stores wait for {what}."))
        };
        sentences.extend(cores(
            self.waiting_to_send.len(),
            "room in the queue of requests to send",
        ));
        sentences.extend(cores(
            self.waiting_to_receive.len(),
            "room in the queue of buffers",
        ));
        sentences.extend(cores(
            self.waiting_for_sends.len(),
            "the completion of a send",
        ));
        sentences.extend(cores(self.waiting_for_receives.len(), "a frame"));
        sentences
    }
}

impl Interface for IceNic {
    fn connect(&mut self, address: u32, rate: LineRate) {
        self.port.connect(address, rate);
    }

    fn receive(&mut self, _port: usize, _at: Time, packet: Packet) -> u64 {
        self.port.receive(packet)
    }

    fn take_sent(&mut self, _port: usize, sent: &mut Vec<(Time, Packet)>) {
        self.port.take_sent(sent);
    }

    fn follow(&mut self, path: &SecondPath) -> bool {
        self.port.follow(path);
        true
    }
}
