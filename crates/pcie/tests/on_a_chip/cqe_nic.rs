//! The network interface with completion queues, and the latency of its parts.
//!
//! PCI Express carries 8 bytes a nanosecond here, with a latency of 250.

use crate::chip::*;
use network::packet::{Endpoint, Packet};
use network::rack::Interface;
use pcie::{
    CQE_NIC_INDIRECTION_ENTRIES, CqeNic, CqeNicSpec, CqeNicStatistics, ExpressSpec, MICROSOFT_KEY,
    toeplitz,
};
use std::collections::VecDeque;

const PAGE: u64 = 0x1000;
const RECEIVE: u64 = 0x00;
const SEND: u64 = 0x40;
const RING: u64 = 0x00;
const STRIDES: u64 = 0x08;
const RECORD: u64 = 0x10;
const COMPLETIONS: u64 = 0x18;
const COMPLETIONS_RECORD: u64 = 0x20;
const COMPLETION_ENTRIES: u64 = 0x28;
const ENTRIES: u64 = 0x30;
const COMPRESSION: u64 = 0x38;
const DOORBELL: u64 = 0x800;
const COUNTER: u64 = 0x808;
const ARM: u64 = 0x810;
const BLUE_FLAME: u64 = 0x900;
const KEY: u64 = 0x20;
const INDIRECTION: u64 = 0x48;

const QUEUES: u64 = 3;
const SLOT: u64 = 2048;
/// Frames to send, and buffers.
const FRAMES: u64 = MEMORY + 0x8_0000;

fn spec() -> CqeNicSpec {
    CqeNicSpec {
        queues: QUEUES as u32,
        express: ExpressSpec {
            rate_gbit_per_s: 64.0,
            ..CqeNicSpec::default().express
        },
        // Faster than anything else, unless a test sets it.
        receive_mpps: 1e4,
        send_mpps: 1e4,
        ..CqeNicSpec::default()
    }
}

fn bench(spec: &CqeNicSpec) -> Bench {
    let nic = CqeNic::new(spec, REGISTERS).unwrap();
    let attachment = nic.attachment(0);
    Bench::new(nic, attachment)
}

fn statistics(bench: &mut Bench) -> CqeNicStatistics {
    bench.nic::<CqeNic>().statistics()
}

/// A queue from its program's point of view: each has 16 KiB of memory.
#[derive(Clone)]
struct Queue {
    /// Its number; those of the second port follow those of the first.
    number: u64,
    is_send: bool,
    entries: u64,
    /// Number of entries of its completion queue.
    completions: u64,
    /// Number of completions taken.
    taken: u64,
    /// Number of buffers or blocks posted.
    given: u64,
    /// Whether its completions are compressed, and the completions of a title that have not been
    /// returned.
    compresses: bool,
    minis: VecDeque<Completion>,
}

impl Queue {
    fn new(number: u64, is_send: bool, entries: u64, completions: u64) -> Queue {
        Queue {
            number,
            is_send,
            entries,
            completions,
            taken: 0,
            given: 0,
            compresses: false,
            minis: VecDeque::new(),
        }
    }

    fn compressed(self) -> Queue {
        Queue {
            compresses: true,
            ..self
        }
    }

    fn memory(&self) -> u64 {
        MEMORY + 0x8000 * self.number + if self.is_send { 0x4000 } else { 0 }
    }

    fn completions_at(&self) -> u64 {
        self.memory() + 0x1000
    }

    fn record_at(&self) -> u64 {
        self.memory() + 0x3f00
    }

    fn completions_record_at(&self) -> u64 {
        self.memory() + 0x3f40
    }

    fn page(&self) -> u64 {
        PAGE * (1 + self.number)
    }

    fn begin(&self, bench: &mut Bench, strides: u64) {
        for entry in 0..self.completions {
            let mut invalid = vec![0; 64];
            invalid[63] = 0xf1;
            bench.store::<CqeNic>(self.completions_at() + 64 * entry, &invalid);
        }
        let half = self.page() + if self.is_send { SEND } else { RECEIVE };
        for (register, value) in [
            (RING, self.memory()),
            (RECORD, self.record_at()),
            (COMPLETIONS, self.completions_at()),
            (COMPLETIONS_RECORD, self.completions_record_at()),
            (COMPLETION_ENTRIES, self.completions),
            (STRIDES, strides),
            (COMPRESSION, u64::from(self.compresses)),
            (ENTRIES, self.entries),
        ] {
            if value != 0 || ![STRIDES, COMPRESSION].contains(&register) {
                bench.write(half + register, 8, value);
                bench.run_for::<CqeNic>(500.0);
            }
        }
        bench.run_for::<CqeNic>(3000.0);
        assert_eq!(bench.nic::<CqeNic>().fault(), None);
    }

    /// Posts a buffer.
    fn give(&mut self, bench: &mut Bench, address: u64, bytes: u32) {
        let at = self.memory() + 16 * (self.given % self.entries);
        bench.store::<CqeNic>(at, &segment(address, bytes));
        self.given += 1;
        let record = (self.given as u32).to_be_bytes();
        bench.store::<CqeNic>(self.record_at(), &record);
    }

    /// Writes a work request, and returns its first bytes: a doorbell.
    fn post(&mut self, bench: &mut Bench, request: &[u8]) -> u64 {
        let at = self.memory() + 64 * (self.given % self.entries);
        bench.store::<CqeNic>(at, request);
        self.given += request.len().div_ceil(64) as u64;
        u64::from_le_bytes(request[..8].try_into().unwrap())
    }

    /// The next completion, if available.
    fn completion(&mut self, bench: &mut Bench) -> Option<Completion> {
        if let Some(completion) = self.minis.pop_front() {
            return Some(completion);
        }
        let first = self.taken;
        let at = self.completions_at() + 64 * (self.taken % self.completions);
        let bytes = bench.load::<CqeNic>(at, 64);
        let owner = (self.taken / self.completions % 2) as u8;
        if bytes[63] >> 4 == 0xf || bytes[63] & 1 != owner {
            return None;
        }
        self.taken += 1;
        let array = bytes[63] & 0x0c == 0x0c;
        if array {
            self.taken += u64::from(bytes[47]) - 1;
        }
        for slot in first + 1..self.taken {
            let at = self.completions_at() + 64 * (slot % self.completions);
            if slot == first + 1 {
                self.read_array(bench, &bytes, at);
            }
            bench.store::<CqeNic>(at + 63, &[0xf1]);
        }
        let record = (self.taken as u32).to_be_bytes();
        bench.store::<CqeNic>(self.completions_record_at(), &record);
        if array {
            return self.minis.pop_front();
        }
        Some(Completion::of(&bytes))
    }

    /// Reads the completions that a title represents: their counters follow the title's.
    fn read_array(&mut self, bench: &mut Bench, title: &[u8], at: u64) {
        let array = bench.load::<CqeNic>(at, 64);
        let title = Completion::of(title);
        for (number, mini) in (0..).zip(array.chunks(8).take(title.byte_count as usize)) {
            self.minis.push_back(Completion {
                hash: u32::from_be_bytes(mini[..4].try_into().unwrap()),
                byte_count: u32::from_be_bytes(mini[4..].try_into().unwrap()),
                buffer: title.buffer + number,
                counter: title.counter + number,
                ..title
            });
        }
    }
}

impl Completion {
    fn of(bytes: &[u8]) -> Completion {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        Completion {
            kind: bytes[63] >> 4,
            buffer: u64::from(word(0) & 0xffff),
            counter: u64::from(word(60) >> 16),
            byte_count: word(44),
            hash: word(12),
            queue: word(56) & 0xff_ffff,
            syndrome: if bytes[63] >> 4 < 0xd { 0 } else { bytes[55] },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Completion {
    kind: u8,
    buffer: u64,
    counter: u64,
    byte_count: u32,
    hash: u32,
    queue: u32,
    syndrome: u8,
}

fn segment(address: u64, bytes: u32) -> Vec<u8> {
    let mut segment = bytes.to_be_bytes().to_vec();
    segment.extend([0; 4]);
    segment.extend(address.to_be_bytes());
    segment
}

/// A send request: the segments of control and Ethernet, and then `rest`.
fn request_of(operation: u8, block: u64, completes: bool, rest: &[u8]) -> Vec<u8> {
    let segments = 2 + rest.len().div_ceil(16) as u8;
    let number = (block as u16).to_be_bytes();
    let mut bytes = vec![0, number[0], number[1], operation, 0, 0, 0, segments];
    bytes.extend([0, 0, 0, if completes { 8 } else { 0 }, 0, 0, 0, 0]);
    bytes.extend([0; 16]);
    bytes.extend(rest);
    let blocks = bytes.len().div_ceil(64);
    bytes.resize(64 * blocks, 0);
    bytes
}

const SEND_ONE: u8 = 0x0a;
const SEND_PACKETS: u8 = 0x29;

fn inline(data: &[u8]) -> Vec<u8> {
    let mut bytes = (1u32 << 31 | data.len() as u32).to_be_bytes().to_vec();
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes
}

/// The doorbell: 1 to the root port, and 24 + 8 bytes down. The block: 24 bytes up, 12 at its home,
/// 20 + 64 bytes down. The frame, 72 bytes in one read: 24 up, 20 + 72 down, and between them two
/// lines, of which the bank takes the second one a cycle after the first; an arrival within a cycle
/// is handled at the next one. The MAC: 26.
#[test]
fn a_frame_out() {
    let mut bench = bench(&spec());
    let packet = answer(1, 8);
    bench.store::<CqeNic>(FRAMES, &packet.to_bytes());
    let mut queue = Queue::new(0, true, 16, 16);
    queue.begin(&mut bench, 0);
    let request = request_of(SEND_ONE, 0, true, &segment(FRAMES, 72));
    let doorbell = queue.post(&mut bench, &request);
    let start = bench.now;
    bench.write(queue.page() + DOORBELL, 8, doorbell);
    bench.run_for::<CqeNic>(4000.0);
    let up = 24.0 / 8.0 + 250.0;
    let down = |bytes: f64| (20.0 + bytes) / 8.0 + 250.0;
    let doorbell = 1.0 + 32.0 / 8.0 + 250.0;
    // The block arrives half a nanosecond after the start of a cycle.
    let leaves = doorbell + up + 12.0 + down(64.0) + up + 0.5 + 13.0 + down(72.0) + 26.0;
    assert_eq!(bench.sent, [(start + ns(leaves), packet)]);
    let done = queue.completion(&mut bench).unwrap();
    assert_eq!((done.kind, done.counter, done.queue), (0, 0, 0));
    assert_eq!(queue.completion(&mut bench), None);
}

/// The work request comes with its doorbell and contains the frame: eight stores to the root port,
/// of which the last one takes 1, and 24 + 128 bytes down in two writes. The first one's stores are
/// done when the others begin.
#[test]
fn a_frame_out_that_is_inline_and_comes_with_its_doorbell() {
    let mut bench = bench(&spec());
    let packet = answer(1, 8);
    let mut queue = Queue::new(1, true, 16, 16);
    queue.begin(&mut bench, 0);
    let request = request_of(SEND_ONE, 0, true, &inline(&packet.to_bytes()));
    assert_eq!(request.len(), 128);
    queue.post(&mut bench, &request);
    let before = statistics(&mut bench);
    let start = bench.now;
    for (place, word) in request.chunks(8).enumerate() {
        let value = u64::from_le_bytes(word.try_into().unwrap());
        bench.write(queue.page() + BLUE_FLAME + 8 * place as u64, 8, value);
    }
    bench.run_for::<CqeNic>(4000.0);
    // All stores have arrived after 1; two writes of 24 + 64 bytes follow each other.
    let leaves = 1.0 + 2.0 * (24.0 + 64.0) / 8.0 + 250.0 + 26.0;
    assert_eq!(bench.sent, [(start + ns(leaves), packet)]);
    let after = statistics(&mut bench);
    assert_eq!((after.blue_flames, after.doorbells), (1, 0));
    assert_eq!(after.block_reads, before.block_reads);
    // Down: the writes. Up: 24 and the completion's 64.
    let bytes = after.frames.express_bytes - before.frames.express_bytes;
    assert_eq!(bytes, 2 * 88 + 88);
    assert_eq!(queue.completion(&mut bench).unwrap().queue, 1);
}

/// Four parts of a frame of 364 bytes: 20 and 10 bytes in the work request, and 100 and 234 in
/// memory. The latter begin 50 bytes before a page's end, so that they come in several reads.
#[test]
fn a_frame_out_of_several_parts() {
    let mut bench = bench(&spec());
    let packet = answer(1, 300);
    let bytes = packet.to_bytes();
    assert_eq!(bytes.len(), 364);
    let (second, fourth) = (FRAMES + 3, FRAMES + 0x2000 - 50);
    bench.store::<CqeNic>(second, &bytes[20..120]);
    bench.store::<CqeNic>(fourth, &bytes[130..]);
    let mut queue = Queue::new(0, true, 16, 16);
    queue.begin(&mut bench, 0);
    let parts = [
        inline(&bytes[..20]),
        segment(second, 100),
        inline(&bytes[120..130]),
        segment(fourth, 234),
    ];
    let request = request_of(SEND_ONE, 0, true, &parts.concat());
    let doorbell = queue.post(&mut bench, &request);
    bench.write(queue.page() + DOORBELL, 8, doorbell);
    bench.run_for::<CqeNic>(4000.0);
    let sent: Vec<&Packet> = bench.sent.iter().map(|(_, packet)| packet).collect();
    assert_eq!(sent, [&packet]);
}

/// The MAC: 26. The frame: 24 + 72 bytes up, and 12 for its first line and one more for its second.
/// Its completion, 24 + 64 bytes, comes 11 ns behind it, waits until the frame is written, and is
/// written then: 12.
#[test]
fn a_frame_in() {
    let mut bench = bench(&spec());
    let mut queue = Queue::new(0, false, 16, 16);
    bench.load::<CqeNic>(FRAMES, 72);
    bench.load::<CqeNic>(queue.completions_at(), 64);
    for place in 0..8 {
        queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
    }
    queue.begin(&mut bench, 0);
    let start = bench.now;
    bench.give::<CqeNic>(0.0, &request(1, 8));
    let done = 26.0 + 96.0 / 8.0 + 250.0 + 13.0 + 12.0;
    bench.run_until::<CqeNic>(start + ns(done));
    assert_eq!(statistics(&mut bench).frames.frames_delivered, 0);
    bench.run_until::<CqeNic>(start + ns(done) + fabric::Time::from_fs(1));
    assert_eq!(statistics(&mut bench).frames.frames_delivered, 1);
    let completion = queue.completion(&mut bench).unwrap();
    let input = [10, 0, 0, 3, 10, 0, 0, 2, 0, 1, 0, 1];
    let expected = Completion {
        kind: 2,
        buffer: 0,
        counter: 0,
        byte_count: 72,
        hash: toeplitz(&MICROSOFT_KEY, &input),
        queue: 0,
        syndrome: 0,
    };
    assert_eq!(completion, expected);
    let found = bench.load::<CqeNic>(FRAMES, 72);
    assert_eq!(Packet::from_bytes(&found), Ok(request(1, 8)));
    assert_eq!(queue.completion(&mut bench), None);
}

/// Eleven frames at once: eight completions become a title and an array, and three more another
/// pair, 250 ns after the first of them. Each pair has 2 x (24 + 64) bytes on PCI Express, in place
/// of 8 and of 3 such packets. Their contents are the same.
#[test]
fn completions_are_compressed() {
    let run = |compresses: bool| {
        let mut bench = bench(&spec());
        let mut queue = Queue::new(0, false, 16, 16);
        queue.compresses = compresses;
        for place in 0..16 {
            queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
        }
        queue.begin(&mut bench, 0);
        for number in 0..11 {
            bench.give::<CqeNic>(0.0, &request(number, 8 + number as usize));
        }
        bench.run_for::<CqeNic>(3000.0);
        let slots: Vec<_> = (0..11)
            .map(|slot| bench.load::<CqeNic>(queue.completions_at() + 64 * slot, 64)[63])
            .collect();
        let completions: Vec<_> = std::iter::from_fn(|| queue.completion(&mut bench)).collect();
        (slots, completions, statistics(&mut bench))
    };
    let (plain, compressed) = (run(false), run(true));
    assert_eq!(plain.0, [0x20; 11]);
    assert_eq!((compressed.0[0], compressed.0[8]), (0x2c, 0x2c));
    assert_eq!(compressed.0[2..8], [0xf1; 6]);
    assert_eq!(plain.1.len(), 11);
    assert_eq!(compressed.1, plain.1);
    let bytes = |counted: &CqeNicStatistics| counted.frames.express_bytes;
    // Enabling compression takes a store to a register, 24 + 8 bytes.
    let saved = (8 + 3 - 2 * 2) * 88 - 32;
    assert_eq!(bytes(&plain.2) - bytes(&compressed.2), saved);
    let counts = |counted: &CqeNicStatistics| {
        let frames = counted.frames.frames_delivered;
        (frames, counted.completions, counted.compressed_completions)
    };
    assert_eq!(counts(&plain.2), (11, 11, 0));
    assert_eq!(counts(&compressed.2), (11, 11, 11));
}

/// A completion that remains alone waits for 250 ns, and is written with its 64 bytes.
#[test]
fn a_completion_waits_for_others() {
    let mut bench = bench(&spec());
    let mut queue = Queue::new(0, false, 16, 16).compressed();
    for place in 0..8 {
        queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
    }
    queue.begin(&mut bench, 0);
    bench.load::<CqeNic>(FRAMES, 72);
    bench.load::<CqeNic>(queue.completions_at(), 64);
    let start = bench.now;
    bench.give::<CqeNic>(0.0, &request(1, 8));
    // The MAC, the timeout, 24 + 64 bytes on the link, and a line at its home.
    let done = 26.0 + 250.0 + 88.0 / 8.0 + 250.0 + 12.0;
    bench.run_until::<CqeNic>(start + ns(done));
    assert_eq!(statistics(&mut bench).frames.frames_delivered, 0);
    bench.run_until::<CqeNic>(start + ns(done) + fabric::Time::from_fs(1));
    assert_eq!(statistics(&mut bench).frames.frames_delivered, 1);
    assert_eq!(queue.completion(&mut bench).unwrap().byte_count, 72);
    assert_eq!(statistics(&mut bench).compressed_completions, 0);
}

/// Frames arrive at once, at a queue with buffers for them; returns when the last one is delivered.
fn receive_span(spec: &CqeNicSpec, frames: u64, payload_bytes: usize) -> f64 {
    let mut bench = bench(spec);
    let mut queue = Queue::new(0, false, 128, 128);
    for number in 0..128 {
        queue.give(&mut bench, FRAMES + SLOT * number, SLOT as u32);
    }
    queue.begin(&mut bench, 0);
    bench.load::<CqeNic>(FRAMES, (SLOT * frames) as usize);
    bench.load::<CqeNic>(queue.completions_at(), 64 * frames as usize);
    let start = bench.now;
    for number in 0..frames {
        bench.give::<CqeNic>(0.0, &request(number, payload_bytes));
    }
    while statistics(&mut bench).frames.frames_delivered < frames {
        assert!(bench.now < start + ns(100_000.0), "frames are missing");
        bench.run_for::<CqeNic>(1.0);
    }
    (bench.now - start).as_ns()
}

/// Each limit of the rate of received frames, in isolation:
///
/// - the receive pipeline, one a microsecond: the last of 20 begins 19 later;
/// - PCI Express: 24 + 72 bytes for a frame of 72, and 24 + 64 for its completion: 23 ns, and 24
///   more bytes for each of a few reads of buffers and of the record;
/// - the root port's credits: if it takes one packet at a time, a frame and its completion cross
///   one after the other, and are written: 12 + 250 + 13 and 11 + 250 + 12.
#[test]
fn each_limit_of_what_comes_in_holds() {
    let one = receive_span(&spec(), 1, 8);
    let pipeline = CqeNicSpec {
        receive_mpps: 1.0,
        ..spec()
    };
    assert_eq!(receive_span(&pipeline, 20, 8), one + 19.0 * 1000.0);
    let span = receive_span(&spec(), 60, 8) - one;
    let least = 59.0 * 23.0;
    assert!((least..least + 16.0 * 3.0).contains(&span), "{span}");
    let mut credits = spec();
    credits.express.posted_bytes = 72;
    let span = receive_span(&credits, 20, 8) - one;
    let each = (12.0 + 250.0 + 13.0) + (11.0 + 250.0 + 12.0);
    assert!(
        (19.0 * each..20.0 * each + 30.0).contains(&span),
        "{span} {each}"
    );
}

/// Credits are bytes, and a written line returns its own. A frame has 72 bytes and its completion 64:
///
/// - with fewer than 72, the frame goes alone all the same, and the completion when both lines of
///   the frame have been written;
/// - with 72, the completion goes when the first line has been written, a nanosecond earlier;
/// - with 136, the completion follows at once, and the next frame when this one has been written.
#[test]
fn credits_are_counted_in_bytes() {
    let span = |posted_bytes| {
        let mut spec = spec();
        spec.express.posted_bytes = posted_bytes;
        receive_span(&spec, 20, 8)
    };
    let (none, line) = (span(71), span(72));
    assert_eq!(span(1), none);
    assert_eq!(none - line, 20.0);
    assert_eq!(span(135), line);
    let one = receive_span(&spec(), 1, 8);
    let both = span(136) - one;
    let frame = 12.0 + 250.0 + 13.0;
    assert!(
        (19.0 * frame..20.0 * frame).contains(&both),
        "{both} {frame}"
    );
}

/// The time to send frames of 72 bytes; with 32 of them in a request of a block, the first read of
/// blocks supplies work for long.
fn send_span(spec: &CqeNicSpec, operation: u8, frames: u64) -> f64 {
    let mut bench = bench(spec);
    bench.store::<CqeNic>(FRAMES, &answer(1, 8).to_bytes());
    let mut queue = Queue::new(0, true, 64, 16);
    queue.begin(&mut bench, 0);
    let mut doorbell = 0;
    let per_request = if operation == SEND_ONE { 1 } else { 2 };
    for _ in 0..frames / per_request {
        let mut parts = Vec::new();
        for _ in 0..per_request {
            parts.extend(segment(FRAMES, 72));
        }
        let request = request_of(operation, queue.given, false, &parts);
        doorbell = queue.post(&mut bench, &request);
    }
    bench.write(queue.page() + DOORBELL, 8, doorbell);
    bench.run_for::<CqeNic>(60_000.0);
    assert_eq!(bench.sent.len(), frames as usize);
    (bench.sent[frames as usize - 1].0 - bench.sent[7].0).as_ns()
}

/// - the send pipeline, one a microsecond;
/// - the link of 64 Gb/s: 9 ns for 72 bytes. PCI Express takes (20 + 72)/8 = 11.5 for each, and for
///   each block 84/8, for one frame or for two;
/// - reads under way: one at a time takes 3 + 250 up, 13, 11.5 + 250 down, of a frame, and is
///   handled half a cycle later; of four blocks 15 and 34.5.
#[test]
fn each_limit_of_what_goes_out_holds() {
    let pipeline = CqeNicSpec {
        send_mpps: 1.0,
        ..spec()
    };
    assert_eq!(send_span(&pipeline, SEND_ONE, 16), 8.0 * 1000.0);
    let frame = 11.5;
    let block = 84.0 / 8.0;
    for (operation, each) in [
        (SEND_ONE, frame + block),
        (SEND_PACKETS, frame + block / 2.0),
    ] {
        let span = send_span(&spec(), operation, 60);
        // The blocks that are read ahead precede the frames.
        let (least, most) = (52.0 * frame, 60.0 * each);
        assert!(
            (least..=most).contains(&span),
            "{operation} {span} {least} {most}"
        );
    }
    let mut tags = spec();
    tags.express.reads = 1;
    let each = 3.0 + 250.0 + 13.0 + 11.5 + 250.0 + 0.5;
    // No block is read between frames 8 and 16: earlier ones were requested first.
    assert_eq!(send_span(&tags, SEND_ONE, 16), 8.0 * each);
}

/// The program's key and table spread flows, and each port has its own table.
#[test]
fn the_programs_key_and_table_choose_the_queue() {
    let mut bench = bench(&spec());
    let key: [u8; 40] = std::array::from_fn(|place| (place * 37 + 11) as u8);
    for (place, word) in key.chunks(8).enumerate() {
        let value = u64::from_le_bytes(word.try_into().unwrap());
        bench.write(KEY + 8 * place as u64, 8, value);
        bench.run_for::<CqeNic>(500.0);
    }
    let table = |port: u64, entry: u64| (entry * 7 + entry / 5 + port) % QUEUES;
    for port in 0..2 {
        for entry in 0..CQE_NIC_INDIRECTION_ENTRIES as u64 {
            let value = port << 32 | entry << 16 | table(port, entry);
            bench.write(INDIRECTION, 8, value);
            bench.run_for::<CqeNic>(20.0);
        }
    }
    let mut queues: Vec<_> = (0..2 * QUEUES)
        .map(|number| {
            let mut queue = Queue::new(number, false, 16, 16);
            for place in 0..16 {
                queue.give(
                    &mut bench,
                    FRAMES + SLOT * (16 * number + place),
                    SLOT as u32,
                );
            }
            queue.begin(&mut bench, 0);
            queue
        })
        .collect();
    let mut expected = vec![Vec::new(); queues.len()];
    for number in 0..40u64 {
        let port = number % 2;
        let mut packet = request(number, 8);
        packet.from = Endpoint {
            address: CLIENT,
            port: 1000 + (number * 17) as u16,
        };
        packet.routed_to = (number % 3 == 0).then_some(0xc612_0000 + number as u32);
        let mut input = vec![10, 0, 0, 3];
        input.extend(packet.ipv4_destination().to_be_bytes());
        input.extend(packet.from.port.to_be_bytes());
        input.extend(packet.to.port.to_be_bytes());
        let entry = u64::from(toeplitz(&key, &input)) % CQE_NIC_INDIRECTION_ENTRIES as u64;
        expected[(port * QUEUES + table(port, entry)) as usize].push(number);
        bench.give_at::<CqeNic>(port as usize, 100.0, &packet);
        bench.run_for::<CqeNic>(500.0);
    }
    bench.run_for::<CqeNic>(4000.0);
    for (number, queue) in queues.iter_mut().enumerate() {
        let mut found = Vec::new();
        while let Some(completion) = queue.completion(&mut bench) {
            let slot = FRAMES + SLOT * (16 * number as u64 + completion.counter);
            let frame = bench.load::<CqeNic>(slot, 72);
            found.push(Packet::from_bytes(&frame).unwrap().tag);
        }
        assert_eq!(found, expected[number], "{number}");
    }
    assert!(expected.iter().all(|packets| !packets.is_empty()));
}

/// A buffer of four strides of 256 bytes: frames of 72, 364, 72 and 364 bytes take 1, 2, 1 and 2
/// strides. The third one ends the first buffer.
#[test]
fn a_buffer_takes_several_packets() {
    let mut bench = bench(&spec());
    let mut queue = Queue::new(0, false, 16, 16);
    for place in 0..4 {
        queue.give(&mut bench, FRAMES + 1024 * place, 1024);
    }
    queue.begin(&mut bench, 2 | 8 << 8);
    // The last two frames leave a stride empty.
    let payloads = [8, 300, 8, 300, 8, 300, 8];
    for (number, &bytes) in payloads.iter().enumerate() {
        bench.give::<CqeNic>(100.0 * number as f64, &request(number as u64, bytes));
    }
    bench.run_for::<CqeNic>(6000.0);
    let mut found = Vec::new();
    while let Some(completion) = queue.completion(&mut bench) {
        let strides = completion.byte_count >> 16;
        found.push((completion.buffer, completion.counter, strides));
        let bytes = (completion.byte_count & 0xffff) as usize;
        if bytes > 0 {
            let at = FRAMES + 1024 * completion.buffer + 256 * completion.counter;
            let frame = bench.load::<CqeNic>(at, bytes);
            let packet = Packet::from_bytes(&frame).unwrap();
            assert_eq!(packet, request(packet.tag, payloads[packet.tag as usize]));
        }
    }
    let filler = 1 << 15;
    let expected = [
        (0, 0, 1),
        (0, 1, 2),
        (0, 3, 1),
        (1, 0, 2),
        (1, 2, 1),
        // One stride is left, and the next frame needs two.
        (1, 3, filler | 1),
        (2, 0, 2),
        (2, 2, 1),
    ];
    assert_eq!(found, expected);
}

/// A frame that arrives when there is no buffer waits for the record, 3 + 250 up, 12, 3 + 250 down:
/// if the program has posted buffers since, it is delivered, and otherwise dropped.
#[test]
fn a_frame_waits_for_the_doorbell_record() {
    for gives in [false, true] {
        let mut bench = bench(&spec());
        let mut queue = Queue::new(0, false, 16, 16);
        queue.begin(&mut bench, 0);
        if gives {
            queue.give(&mut bench, FRAMES, SLOT as u32);
        }
        bench.give::<CqeNic>(0.0, &request(1, 8));
        // A frame for a queue that has not started is dropped at once.
        bench.give_at::<CqeNic>(1, 0.0, &request(1, 8));
        bench.run_for::<CqeNic>(26.0 + 518.0 - 10.0);
        assert_eq!(statistics(&mut bench).frames.dropped_no_descriptor, 1);
        bench.run_for::<CqeNic>(4000.0);
        let frames = statistics(&mut bench).frames;
        let found = (frames.frames_delivered, frames.dropped_no_descriptor);
        assert_eq!(found, if gives { (1, 1) } else { (0, 2) });
        assert_eq!(queue.completion(&mut bench).is_some(), gives);
    }
}

/// 40 buffers, of which the interface holds 32 at most: it reads 16 in each 256 bytes. When it has
/// used half of the first two reads, it reads the last eight. Each frame is in its own buffer.
#[test]
fn buffers_are_read_ahead() {
    let spec = CqeNicSpec {
        buffers_ahead: 32,
        ..spec()
    };
    assert_eq!(spec.express.payload_bytes, 256);
    let mut bench = bench(&spec);
    let mut queue = Queue::new(0, false, 64, 64);
    for place in 0..40 {
        queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
    }
    queue.begin(&mut bench, 0);
    for number in 0..40 {
        let before = [number, number + 1].map(|used| if used < 16 { 2 } else { 3 });
        assert_eq!(statistics(&mut bench).buffer_reads, before[0], "{number}");
        bench.give::<CqeNic>(0.0, &request(number, 8));
        bench.run_for::<CqeNic>(3000.0);
        assert_eq!(statistics(&mut bench).buffer_reads, before[1], "{number}");
        let completion = queue.completion(&mut bench).unwrap();
        assert_eq!(completion.counter, number);
        let frame = bench.load::<CqeNic>(FRAMES + SLOT * number, 72);
        assert_eq!(Packet::from_bytes(&frame), Ok(request(number, 8)));
    }
}

/// The completions of eight frames in a ring of four: the interface reads the number that the
/// program has taken. If it has taken none, they overrun.
#[test]
fn completions_do_not_overrun_what_is_taken() {
    for takes in [true, false] {
        let mut bench = bench(&spec());
        let mut queue = Queue::new(0, false, 16, 4);
        for place in 0..8 {
            queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
        }
        queue.begin(&mut bench, 0);
        let mut taken = 0;
        for number in 0..8u64 {
            bench.give::<CqeNic>(0.0, &request(number, 8));
            bench.run_for::<CqeNic>(2000.0);
            if takes {
                taken += u64::from(queue.completion(&mut bench).is_some());
            }
        }
        bench.run_for::<CqeNic>(4000.0);
        let counted = statistics(&mut bench);
        if takes {
            assert_eq!((taken, counted.frames.frames_delivered), (8, 8));
            assert_eq!(bench.nic::<CqeNic>().fault(), None);
        } else {
            assert_eq!(counted.frames.frames_delivered, 4);
            assert_eq!(counted.dropped_overrun, 4);
            assert_eq!(
                bench.nic::<CqeNic>().fault(),
                Some(
                    "the completions of the receive queue 0 of port 0 overran: all 4 entries are \
                     full, and according to the consumer's record it has taken none of them"
                )
            );
        }
    }
}

/// An interface that counts completions, with a receive queue and its counter.
fn counting() -> (Bench, Queue, u64) {
    let spec = CqeNicSpec {
        counters: true,
        ..spec()
    };
    let mut bench = bench(&spec);
    let mut queue = Queue::new(0, false, 16, 16);
    let counter = MEMORY + 0x7_0000;
    bench.load::<CqeNic>(FRAMES, 72);
    bench.load::<CqeNic>(queue.completions_at(), 64);
    for place in 0..8 {
        queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
    }
    bench.write(queue.page() + COUNTER, 8, counter);
    queue.begin(&mut bench, 0);
    (bench, queue, counter)
}

/// The counter counts completions, ordered after each, for 24 + 8 bytes more on PCI Express.
#[test]
fn completions_are_counted_in_memory() {
    let (mut bench, mut queue, counter) = counting();
    let (start, before) = (bench.now, statistics(&mut bench).frames.express_bytes);
    bench.give::<CqeNic>(0.0, &request(1, 8));
    // As for a received frame; delivery is not reported when its completion is written, because the
    // counter's line then moves to the root port.
    let written = 26.0 + 96.0 / 8.0 + 250.0 + 13.0 + 12.0;
    bench.run_until::<CqeNic>(start + ns(written + 1.0));
    assert_eq!(statistics(&mut bench).frames.frames_delivered, 0);
    bench.run_for::<CqeNic>(200.0);
    assert_eq!(statistics(&mut bench).frames.frames_delivered, 1);
    let bytes = statistics(&mut bench).frames.express_bytes - before;
    // The interface has also read the number of buffers.
    assert_eq!(bytes, (24 + 72) + (24 + 64) + (24 + 8) + (24 + 20 + 4));
    assert!(queue.completion(&mut bench).is_some());
    assert_eq!(bench.load::<CqeNic>(counter, 8), 1u64.to_le_bytes());
    // The program may change the counter.
    bench.store::<CqeNic>(counter, &100u64.to_le_bytes());
    for number in 0..3 {
        bench.give::<CqeNic>(10.0 * number as f64, &request(1, 8));
    }
    bench.run_for::<CqeNic>(4000.0);
    assert_eq!(bench.load::<CqeNic>(counter, 8), 103u64.to_le_bytes());
}

/// An armed queue interrupts once, after the frame and its completion, and at once if the program
/// has not taken all completions: 1 to the root port, 24 + 8 bytes down, 24 + 4 up, and 1 on the
/// mesh from the next cycle on.
#[test]
fn an_armed_queue_interrupts_once() {
    let mut bench = bench(&spec());
    let listener = bench.memory;
    bench.nic::<CqeNic>().connect_interrupts(listener);
    let mut queue = Queue::new(0, false, 16, 16);
    bench.load::<CqeNic>(FRAMES, 72);
    bench.load::<CqeNic>(queue.completions_at(), 64);
    for place in 0..8 {
        queue.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
    }
    queue.begin(&mut bench, 0);
    bench.write(queue.page() + ARM, 8, 0);
    bench.run_for::<CqeNic>(4000.0);
    assert_eq!(bench.take_heard(), []);
    let start = bench.now;
    bench.give::<CqeNic>(0.0, &request(1, 8));
    bench.run_for::<CqeNic>(4000.0);
    let written = 26.0 + 96.0 / 8.0 + 250.0 + 13.0 + 12.0;
    assert_eq!(bench.take_heard(), [(start + ns(written + 1.0), 0)]);
    bench.give::<CqeNic>(0.0, &request(1, 8));
    bench.run_for::<CqeNic>(4000.0);
    assert_eq!(bench.take_heard(), []);
    // The program has taken one of two.
    let start = bench.now;
    bench.write(queue.page() + ARM, 8, 1);
    bench.run_for::<CqeNic>(4000.0);
    let crossing = 1.0 + (32.0 / 8.0 + 250.0) + (28.0_f64 / 8.0 + 250.0).ceil() + 1.0;
    assert_eq!(bench.take_heard(), [(start + ns(crossing), 0)]);
    bench.write(queue.page() + ARM, 8, 2);
    bench.run_for::<CqeNic>(4000.0);
    assert_eq!(bench.take_heard(), []);
}

#[test]
fn wrong_counters_are_told() {
    let spec = CqeNicSpec {
        counters: true,
        ..spec()
    };
    let mut told = Vec::new();
    for writes in [
        vec![(COUNTER, MEMORY + 4)],
        vec![
            (COUNTER, MEMORY),
            (RECORD, MEMORY),
            (COMPRESSION, 1),
            (COMPLETION_ENTRIES, 16),
            (ENTRIES, 16),
        ],
    ] {
        let mut bench = bench(&spec);
        for (register, value) in writes {
            bench.write(PAGE + register, 8, value);
            bench.run_for::<CqeNic>(1000.0);
        }
        told.push(bench.nic::<CqeNic>().fault().unwrap().to_string());
    }
    let (mut bench, queue, counter) = counting();
    bench.write(queue.page() + COUNTER, 8, counter);
    bench.run_for::<CqeNic>(1000.0);
    told.push(bench.nic::<CqeNic>().fault().unwrap().to_string());
    assert_eq!(
        told,
        [
            "the counter of the receive queue 0 of port 0 was to be at 0x80000004; it must be in memory, at \
             a multiple of 8",
            "the receive queue 0 of port 0 was to count its completions, but compresses them",
            "the receive queue 0 of port 0 was changed after it had begun",
        ]
    );
}

/// A program's errors are reported in a sentence and, if possible, in a completion with an error.
#[test]
fn wrong_work_requests_are_told() {
    let nowhere = segment(0x1000, 72);
    for (request, sentence, syndrome) in [
        (
            request_of(0x0b, 0, true, &nowhere),
            "the work request at block 0 of the send queue 0 of port 0 has the operation 0x0b; it must be \
             0x0a (send), 0x29 (send packets) or 0x00",
            2,
        ),
        (
            request_of(SEND_ONE, 0, true, &nowhere),
            "the work request at block 0 of the send queue 0 of port 0 has a frame of 72 bytes; it must be \
             in memory and have from 1 to 1520",
            4,
        ),
        (
            request_of(SEND_ONE, 0, true, &segment(FRAMES, 1521)),
            "the work request at block 0 of the send queue 0 of port 0 has a frame of 1521 bytes; it must \
             be in memory and have from 1 to 1520",
            1,
        ),
        (
            request_of(SEND_ONE, 0, true, &segment(FRAMES, u32::MAX >> 1)),
            "the work request at block 0 of the send queue 0 of port 0 has a frame of 2147483647 bytes; it \
             must be in memory and have from 1 to 1520",
            1,
        ),
    ] {
        let mut bench = bench(&spec());
        let mut queue = Queue::new(0, true, 16, 16);
        queue.begin(&mut bench, 0);
        let doorbell = queue.post(&mut bench, &request);
        bench.write(queue.page() + DOORBELL, 8, doorbell);
        bench.run_for::<CqeNic>(4000.0);
        assert_eq!(bench.nic::<CqeNic>().fault(), Some(sentence));
        let done = queue.completion(&mut bench).unwrap();
        assert_eq!((done.kind, done.syndrome), (0xd, syndrome));
        assert_eq!(statistics(&mut bench).frames.not_sent, 1);
        assert_eq!(bench.sent, []);
        let waits = bench.fabric.waiting_for();
        assert!(waits.iter().any(|one| one.ends_with(sentence)), "{waits:?}");
    }
}

#[test]
fn wrong_buffers_are_told() {
    for (address, bytes, syndrome) in [(0x1000, 2048, 4), (FRAMES, 64, 1)] {
        let mut bench = bench(&spec());
        let mut queue = Queue::new(0, false, 16, 16);
        queue.give(&mut bench, address, bytes);
        queue.begin(&mut bench, 0);
        bench.give::<CqeNic>(0.0, &request(1, 8));
        bench.run_for::<CqeNic>(4000.0);
        let sentence = format!(
            "buffer 0 of the receive queue 0 of port 0 has {bytes} bytes at {address:#x}; a frame of 72 \
             bytes came, and it must be in memory"
        );
        assert_eq!(bench.nic::<CqeNic>().fault(), Some(&*sentence));
        let done = queue.completion(&mut bench).unwrap();
        assert_eq!((done.kind, done.syndrome), (0xe, syndrome));
        assert_eq!(statistics(&mut bench).frames.dropped_bad_descriptor, 1);
    }
}

#[test]
fn wrong_registers_are_told() {
    for (offset, value, sentence) in [
        (
            PAGE + ENTRIES,
            3,
            "the receive queue 0 of port 0 was to have 3 entries; it must be a power of two from 4 to 32768",
        ),
        (
            PAGE + ENTRIES,
            16,
            "the receive queue 0 of port 0 was to have its ring, 256 bytes, at 0x0; it must begin at a \
             multiple of 64 and be in memory",
        ),
        (
            PAGE + DOORBELL,
            0,
            "the doorbell of the send queue 0 of port 0 was rung before the queue had begun",
        ),
        (
            PAGE + 0x200,
            7,
            "0x7 was written to 0x1200, which is not a writable register",
        ),
        (
            0x00,
            7,
            "0x7 was written to 0x0, which is not a writable register",
        ),
        (
            INDIRECTION,
            3,
            "entry 0 of the indirection table of port 0 was to be queue 3; there are 2 ports of 3 queues, \
             and tables of 512 entries",
        ),
        (
            PAGE + COUNTER,
            MEMORY,
            "the receive queue 0 of port 0 was to count its completions, which this interface is \
             not configured for (server.cqe_nic.counters)",
        ),
        (
            PAGE + ARM,
            0,
            "the receive queue 0 of port 0 was to interrupt, but nothing in this server takes \
             interrupts",
        ),
        (
            PAGE + BLUE_FLAME + 8,
            0,
            "the send queue 0 of port 0 was written at 0x8 of its combining registers, after 0 \
             bytes of a block; stores to a block must be in order and fill it",
        ),
    ] {
        let mut bench = bench(&spec());
        bench.write(offset, 8, value);
        bench.run_for::<CqeNic>(1000.0);
        assert_eq!(bench.nic::<CqeNic>().fault(), Some(sentence));
    }
    let mut bench = bench(&spec());
    assert_eq!(bench.answer::<CqeNic>(|bench| bench.read(0x00, 8)), Ok(2));
    assert_eq!(
        bench.answer::<CqeNic>(|bench| bench.read(0x08, 8)),
        Ok(QUEUES)
    );
    assert_eq!(
        bench.answer::<CqeNic>(|bench| bench.read(0x18, 8)),
        Ok(1520)
    );
    assert_eq!(bench.answer::<CqeNic>(|bench| bench.read(0x48, 8)), Err(()));
}

/// Frames that arrive at either port at these times are returned unchanged from the other one.
/// Delivery is in order within each queue. The server reposts each buffer when its frame is sent.
fn forward(
    bench: &mut Bench,
    frames: &[(usize, f64, Packet)],
    strides: u64,
    compresses: bool,
) -> ForwardedFrames {
    let mut receive: Vec<_> = [0, QUEUES]
        .iter()
        .map(|&number| Queue {
            compresses,
            ..Queue::new(number, false, 8, if strides == 0 { 8 } else { 32 })
        })
        .collect();
    let mut send: Vec<_> = [0, QUEUES]
        .iter()
        .map(|&number| Queue::new(number, true, 8, 4))
        .collect();
    let slot = |port: u64, place: u64| FRAMES + SLOT * (8 * port + place % 8);
    for port in 0..2 {
        for place in 0..8 {
            receive[port].give(bench, slot(port as u64, place), SLOT as u32);
        }
        receive[port].begin(bench, strides);
        send[port].begin(bench, 0);
    }
    for (port, at, packet) in frames {
        bench.give_at::<CqeNic>(*port, *at, packet);
    }
    let mut found = [Vec::new(), Vec::new()];
    let mut quiet = 0;
    while quiet < 4 {
        bench.run_for::<CqeNic>(2000.0);
        quiet += 1;
        for port in 0..2 {
            while let Some(completion) = receive[port].completion(bench) {
                quiet = 0;
                assert_eq!(completion.kind, 2);
                let bytes = completion.byte_count & 0xffff;
                if bytes == 0 {
                    continue;
                }
                let at = match strides {
                    0 => slot(port as u64, completion.counter),
                    _ => {
                        let stride = completion.counter << (strides >> 8);
                        slot(port as u64, completion.buffer) + stride
                    }
                };
                let frame = bench.load::<CqeNic>(at, bytes as usize);
                found[port].push(Packet::from_bytes(&frame).unwrap());
                let queue = &mut send[1 - port];
                let request = request_of(SEND_ONE, queue.given, true, &segment(at, bytes));
                let doorbell = queue.post(bench, &request);
                bench.write(queue.page() + DOORBELL, 8, doorbell);
                // With one tag and parts of 64 bytes, these are ten reads of half a microsecond,
                // among those for received frames.
                let sent = (0..50).find_map(|_| {
                    bench.run_for::<CqeNic>(2000.0);
                    queue.completion(bench)
                });
                assert_eq!(sent.unwrap().kind, 0);
                if strides == 0 {
                    let place = receive[port].given;
                    receive[port].give(bench, slot(port as u64, place), SLOT as u32);
                }
            }
        }
    }
    found
}

type ForwardedFrames = [Vec<Packet>; 2];

/// A run that is saved half-way and restored in another server continues identically.
#[test]
fn a_saved_run_goes_on() {
    let prepare = || {
        let mut bench = bench(&spec());
        let mut receive = Queue::new(0, false, 16, 16);
        for place in 0..16 {
            receive.give(&mut bench, FRAMES + SLOT * place, SLOT as u32);
        }
        receive.begin(&mut bench, 0);
        let mut send = Queue::new(0, true, 16, 16);
        send.begin(&mut bench, 0);
        let frame = answer(1, 1024).to_bytes();
        bench.store::<CqeNic>(FRAMES + SLOT * 20, &frame);
        let mut doorbell = 0;
        for _ in 0..12 {
            let parts = segment(FRAMES + SLOT * 20, 1088);
            let request = request_of(SEND_ONE, send.given, true, &parts);
            doorbell = send.post(&mut bench, &request);
        }
        (bench, receive, send, doorbell)
    };
    let finish = |bench: &mut Bench, mut receive: Queue| {
        bench.run_for::<CqeNic>(10_000.0);
        let mut completions = Vec::new();
        while let Some(completion) = receive.completion(bench) {
            completions.push(completion);
        }
        (bench.sent.clone(), completions, statistics(bench))
    };
    let (mut first, receive, send, doorbell) = prepare();
    first.write(send.page() + DOORBELL, 8, doorbell);
    for number in 0..8 {
        first.give::<CqeNic>(1100.0, &request(number, 1024));
    }
    // Now frames are in every stage of both paths.
    first.run_for::<CqeNic>(1400.0);
    let saved = state::Writer::write(&mut first.fabric).unwrap();
    let (mut second, ..) = prepare();
    second.sent = first.sent.clone();
    state::Reader::read(&mut second.fabric, &saved).unwrap();
    second.now = first.now;
    let found = finish(&mut second, receive.clone());
    assert_eq!(found, finish(&mut first, receive));
    let (sent, completions, _) = found;
    assert_eq!((sent.len(), completions.len()), (12, 8));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]
    /// Frames of any length at either port: each is delivered in order, or counted, and is
    /// forwarded unchanged to the other port.
    #[test]
    fn nothing_is_lost_silently(
        frames in proptest::collection::vec((0usize..2, 0usize..600, 0u32..400), 1..20),
        (reads, buffers_ahead, payload_bits) in (1u32..6, 1u32..6, 6u32..9),
        (posted_bytes, output_buffer_bytes) in (0u32..400, 1520u32..4000),
        stride_bits in 0u64..12,
        is_compressed in proptest::bool::ANY,
    ) {
        let spec = CqeNicSpec {
            buffers_ahead,
            output_buffer_bytes,
            express: ExpressSpec {
                reads,
                posted_bytes,
                payload_bytes: 1 << payload_bits,
                ..spec().express
            },
            ..spec()
        };
        // One packet for each buffer, or strides of 1024 bytes, two per buffer.
        let strides = if stride_bits < 6 { 0 } else { 1 | 10 << 8 };
        let compresses = is_compressed && strides == 0;
        let mut bench = bench(&spec);
        let mut at = 0.0;
        let given: Vec<_> = frames.iter().enumerate().map(|(number, &(port, bytes, gap))| {
            at += f64::from(gap);
            (port, at, request(number as u64, bytes))
        }).collect();
        let found = forward(&mut bench, &given, strides, compresses);
        let counted = statistics(&mut bench).frames;
        proptest::prop_assert_eq!(bench.nic::<CqeNic>().fault(), None);
        proptest::prop_assert_eq!(counted.frames_received, given.len() as u64);
        let delivered = found.iter().map(Vec::len).sum::<usize>() as u64;
        proptest::prop_assert_eq!(counted.frames_delivered, delivered);
        proptest::prop_assert_eq!(
            counted.frames_delivered + counted.dropped_no_descriptor,
            counted.frames_received
        );
        for (port, packets) in found.iter().enumerate() {
            for packet in packets {
                let (came, _, expected) = &given[packet.tag as usize];
                proptest::prop_assert_eq!((*came, expected), (port, packet));
            }
            proptest::prop_assert!(packets.is_sorted_by_key(|packet| packet.tag));
        }
        // The bench has collected what the first port sent.
        let sent: Vec<_> = bench.sent.iter().map(|(_, packet)| packet.clone()).collect();
        proptest::prop_assert_eq!(&sent, &found[1]);
        let mut other = Vec::new();
        bench.nic::<CqeNic>().take_sent(1, &mut other);
        let other: Vec<_> = other.into_iter().map(|(_, packet)| packet).collect();
        proptest::prop_assert_eq!(&other, &found[0]);
    }
}
