//! The network interface on the chip, and the latency of its parts.

use crate::chip::*;
use fabric::{Clock, Time};
use network::packet::Packet;
use pcie::{IceNic, IceNicSpec, NicStatistics};

const SEND_REQ: u64 = 0;
const RECV_REQ: u64 = 8;
const SEND_COMP: u64 = 16;
const RECV_COMP: u64 = 18;
const COUNTS: u64 = 20;
const INTMASK: u64 = 32;
const BUFFER: u64 = MEMORY + 0x4000;

fn bench(spec: &IceNicSpec) -> Bench {
    let nic = IceNic::new(spec, REGISTERS, Clock::from_ghz(1.0)).unwrap();
    let attachment = nic.attachment(0);
    Bench::new(nic, attachment)
}

fn send_request(address: u64, bytes: usize) -> u64 {
    (bytes as u64) << 48 | address
}

fn statistics(bench: &mut Bench) -> NicStatistics {
    bench.nic::<IceNic>().statistics()
}

fn counts(bench: &mut Bench) -> [u64; 4] {
    let counts = bench.answer::<IceNic>(|bench| bench.read(COUNTS, 4));
    let counts = counts.unwrap();
    [0, 8, 16, 24].map(|shift| counts >> shift & 0xff)
}

/// A load or a store of a register: 1 to it, 4 before the answer enters the mesh (the fabric's
/// `forward_latency_cycles`), 1 back.
#[test]
fn registers_take_their_time() {
    let mut bench = bench(&IceNicSpec::default());
    let start = bench.now;
    bench.read(COUNTS, 4);
    bench.run_for::<IceNic>(100.0);
    let (at, _, value) = bench.answers[0];
    assert_eq!((at - start, value), (ns(6.0), Ok(64 | 64 << 8)));
    let mac = bench.answer::<IceNic>(|bench| bench.read(24, 8));
    // 02:00:0a:00:00:02, in memory order.
    assert_eq!(
        mac.unwrap().to_le_bytes(),
        [0x02, 0x00, 0x0a, 0x00, 0x00, 0x02, 0, 0]
    );
}

/// The request takes 1 to the interface. Both lines are requested there: 1, 10 in the bank, and 1
/// back. The words of the first, 8, and the one of the second follow each other: 1 + 12 + 9. Then
/// the frame is in the interface, and its completion is available.
#[test]
fn a_frame_out() {
    let mut bench = bench(&IceNicSpec::default());
    let packet = answer(1, 8);
    bench.store::<IceNic>(BUFFER, &packet.to_bytes());
    let start = bench.now;
    bench.write(SEND_REQ, 8, send_request(BUFFER, 72));
    bench.read(SEND_COMP, 2);
    bench.run_for::<IceNic>(100.0);
    assert_eq!(bench.sent, [(start + ns(22.0), packet)]);
    let times: Vec<_> = bench.answers.iter().map(|&(at, ..)| at - start).collect();
    // The write is answered when there is room, the read when there is a completion: 4 before the
    // answer leaves, 1 back.
    assert_eq!(times, [ns(6.0), ns(22.0 + 5.0)]);
    assert_eq!(statistics(&mut bench).frames_sent, 1);
    assert_eq!(counts(&mut bench), [64, 64, 0, 0]);
}

/// MAC and serial I/O delay the departure of the first bit, and the arrival of frames, by their
/// latency.
#[test]
fn the_mac_adds_its_latency() {
    let spec = IceNicSpec {
        mac_latency_ns: 26.0,
        ..IceNicSpec::default()
    };
    let mut bench = bench(&spec);
    let packet = answer(1, 8);
    bench.store::<IceNic>(BUFFER, &packet.to_bytes());
    let start = bench.now;
    bench.write(SEND_REQ, 8, send_request(BUFFER, 72));
    bench.run_for::<IceNic>(100.0);
    assert_eq!(bench.sent[0].0, start + ns(22.0 + 26.0));
    assert_eq!(arrival_to_completion(&spec), ns(26.0 + 26.0));
}

/// From the arrival of a frame of 72 bytes to the answer of a load that waits for it.
fn arrival_to_completion(spec: &IceNicSpec) -> Time {
    let mut bench = bench(spec);
    bench.load::<IceNic>(BUFFER, 128);
    bench.write(RECV_REQ, 8, BUFFER);
    bench.run_for::<IceNic>(100.0);
    bench.answers.clear();
    bench.read(RECV_COMP, 2);
    let start = bench.now + ns(50.0);
    bench.give::<IceNic>(50.0, &request(1, 8));
    bench.run_for::<IceNic>(200.0);
    let (at, _, bytes) = bench.answers[0];
    assert_eq!(bytes, Ok(72));
    let found = bench.load::<IceNic>(BUFFER, 72);
    assert_eq!(Packet::from_bytes(&found), Ok(request(1, 8)));
    at - start
}

/// 9 words: the first line's are transferred after 8 cycles and the second one's after 9; it is
/// written 12 later; and then 4 and 1 for the answer.
#[test]
fn a_frame_in() {
    assert_eq!(
        arrival_to_completion(&IceNicSpec::default()),
        ns(9.0 + 12.0 + 5.0)
    );
}

/// Each line is hinted to the core when it has been written: after 8 words, and after 9, plus 12
/// for the write.
#[test]
fn lines_are_hinted_to_the_core() {
    use fabric::{DeliveryKind, LineAddress};
    let spec = IceNicSpec {
        first_level: true,
        ..IceNicSpec::default()
    };
    let mut bench = bench(&spec);
    bench.load::<IceNic>(BUFFER, 128);
    bench.write(RECV_REQ, 8, BUFFER);
    bench.run_for::<IceNic>(100.0);
    let start = bench.now + ns(50.0);
    bench.give::<IceNic>(50.0, &request(1, 8));
    let until = bench.now + ns(300.0);
    bench.fabric.run_until(until, &mut bench.inboxes);
    let least = bench.fabric.minimum_delivery_latency();
    let mut hints = Vec::new();
    while let Some(delivery) = bench.inboxes[0].pop() {
        if let DeliveryKind::Stash { line, .. } = delivery.kind {
            hints.push((delivery.at - start, line));
        }
    }
    let line = LineAddress::of(BUFFER);
    let next = LineAddress(line.0 + 1);
    assert_eq!(hints, [(ns(20.0) + least, line), (ns(21.0) + least, next)]);
}

/// 1088 bytes are 136 words and 17 lines. A line is done 12 cycles after its last word, so that at
/// most two writes are outstanding; the next frame begins when the previous one is complete: 136 +
/// 12.
#[test]
fn frames_in_follow_each_other() {
    let mut bench = bench(&IceNicSpec::default());
    for number in 0..4 {
        let address = BUFFER + 2048 * number;
        bench.load::<IceNic>(address, 1088);
        bench.write(RECV_REQ, 8, address);
        bench.run_for::<IceNic>(20.0);
    }
    bench.answers.clear();
    for _ in 0..4 {
        bench.read(RECV_COMP, 2);
    }
    for number in 0..4 {
        bench.give::<IceNic>(100.0, &request(number, 1024));
    }
    bench.run_for::<IceNic>(2000.0);
    let times: Vec<_> = bench.answers.iter().map(|&(at, ..)| at).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [ns(148.0); 3]);
    for number in 0..4 {
        let found = bench.load::<IceNic>(BUFFER + 2048 * number, 1088);
        assert_eq!(Packet::from_bytes(&found), Ok(request(number, 1024)));
    }
}

/// Frames leave one after the other: 1088 bytes take 136 ns on a link of 64 Gb/s, and as long from
/// memory, which overlaps.
#[test]
fn frames_out_follow_each_other() {
    let mut bench = bench(&IceNicSpec::default());
    let packet = answer(1, 1024);
    bench.store::<IceNic>(BUFFER, &packet.to_bytes());
    for _ in 0..8 {
        bench.write(SEND_REQ, 8, send_request(BUFFER, 1088));
    }
    bench.run_for::<IceNic>(5000.0);
    let gaps: Vec<_> = bench
        .sent
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    // The buffer holds two frames: the frame on the link leaves it with its last bit. So the third
    // one is requested at the end of the first, while the second one is sent.
    assert_eq!(gaps[0], ns(136.0));
    assert!(gaps.iter().all(|&gap| gap >= ns(136.0)), "{gaps:?}");
    assert_eq!(bench.sent.len(), 8);
    assert_eq!(counts(&mut bench), [64, 64, 8, 0]);
}

/// Up to the depth of the queue a write is answered at once; then the core waits until frames have
/// used buffers.
#[test]
fn a_full_queue_holds_the_core() {
    let spec = IceNicSpec {
        queue_entries: 4,
        ..IceNicSpec::default()
    };
    let mut bench = bench(&spec);
    for _ in 0..6 {
        bench.write(RECV_REQ, 8, BUFFER);
    }
    bench.run_for::<IceNic>(100.0);
    assert_eq!(bench.answers.len(), 4);
    let waits = bench.fabric.waiting_for();
    let sentence = "2 loads or stores wait for room in the queue of buffers.";
    assert!(waits.iter().any(|one| one.ends_with(sentence)), "{waits:?}");
    bench.give::<IceNic>(0.0, &request(1, 8));
    bench.run_for::<IceNic>(100.0);
    assert_eq!(bench.answers.len(), 5);
    // There are four completions at most: the fifth and the sixth buffer then stay empty.
    for number in 2..7 {
        bench.give::<IceNic>(0.0, &request(number, 8));
    }
    bench.run_for::<IceNic>(1000.0);
    assert_eq!(bench.answers.len(), 6);
    assert_eq!(counts(&mut bench), [4, 2, 0, 4]);
    assert_eq!(statistics(&mut bench).frames_delivered, 4);
}

/// An impossible request of the program causes an access fault and a message; nothing is sent or
/// received.
#[test]
fn wrong_requests_are_refused() {
    let end = MEMORY + MEMORY_BYTES;
    for (offset, value, sentence) in [
        (
            SEND_REQ,
            send_request(BUFFER, 0),
            "an empty frame was to be sent",
        ),
        (
            SEND_REQ,
            send_request(BUFFER, 1521),
            "a frame of 1521 bytes was to be sent; the most is 1520",
        ),
        (
            SEND_REQ,
            send_request(end - 64, 72),
            "a frame of 72 bytes at 0x807fffc0 was to be sent, which is not memory",
        ),
        (
            RECV_REQ,
            BUFFER + 4,
            "a frame was to be received at 0x80004004, which is not a multiple of 8",
        ),
        (
            RECV_REQ,
            end - 1512,
            "a frame of up to 1520 bytes was to be received at 0x807ffa18, and part of that is not \
             memory",
        ),
        (
            RECV_REQ,
            u64::MAX - 7,
            "a frame of up to 1520 bytes was to be received at 0xfffffffffffffff8, and part of \
             that is not memory",
        ),
    ] {
        let mut bench = bench(&IceNicSpec::default());
        let answer = bench.answer::<IceNic>(|bench| bench.write(offset, 8, value));
        assert_eq!(answer, Err(()), "{sentence}");
        assert_eq!(bench.nic::<IceNic>().fault(), Some(sentence));
        assert_eq!(counts(&mut bench), [64, 64, 0, 0]);
        let not_sent = u64::from(offset == SEND_REQ);
        assert_eq!(statistics(&mut bench).not_sent, not_sent);
    }
    let mut bench = bench(&IceNicSpec::default());
    for (offset, bytes) in [(COUNTS, 8), (RECV_COMP, 4), (40, 8), (SEND_REQ, 8)] {
        let answer = bench.answer::<IceNic>(|bench| bench.read(offset, bytes));
        assert_eq!(answer, Err(()), "{bytes} bytes at {offset}");
    }
}

/// A frame that is not a packet of this network completes like any other, and is counted.
#[test]
fn what_is_no_packet_is_counted() {
    let mut bench = bench(&IceNicSpec::default());
    bench.store::<IceNic>(BUFFER, &[0xff; 72]);
    bench.write(SEND_REQ, 8, send_request(BUFFER, 72));
    bench.run_for::<IceNic>(100.0);
    assert_eq!(bench.sent, []);
    assert_eq!(counts(&mut bench)[2], 1);
    assert_eq!(statistics(&mut bench).not_sent, 1);
    let fault = bench.nic::<IceNic>().fault().unwrap();
    assert!(fault.starts_with("0xffffffffffff is no host's"), "{fault}");
}

/// A frame in two parts, of which the first has the headers; and one that is too long, whose parts
/// complete and make room.
#[test]
fn frames_in_parts() {
    let mut bench = bench(&IceNicSpec::default());
    let packet = answer(1, 200);
    let bytes = packet.to_bytes();
    bench.store::<IceNic>(BUFFER, &bytes[..64]);
    bench.store::<IceNic>(BUFFER + 1001, &bytes[64..]);
    bench.write(SEND_REQ, 8, send_request(BUFFER, 64) | 1 << 63);
    bench.write(SEND_REQ, 8, send_request(BUFFER + 1001, 200));
    for part in 0..4 {
        let more = u64::from(part < 3) << 63;
        bench.write(SEND_REQ, 8, send_request(BUFFER, 1500) | more);
    }
    bench.write(SEND_REQ, 8, send_request(BUFFER, 64) | 1 << 63);
    bench.write(SEND_REQ, 8, send_request(BUFFER + 1001, 200));
    bench.run_for::<IceNic>(8000.0);
    let sent: Vec<_> = bench.sent.iter().map(|(_, packet)| packet).collect();
    assert_eq!(sent, [&packet; 2]);
    assert_eq!(counts(&mut bench)[2], 8);
    assert_eq!(statistics(&mut bench).not_sent, 1);
}

/// 65536 bytes hold 60 frames of 1088 and nothing more; a frame beyond the maximum length is
/// rejected.
#[test]
fn frames_without_room_are_counted() {
    let mut bench = bench(&IceNicSpec::default());
    for number in 0..65 {
        bench.give::<IceNic>(1.0, &request(number, 1024));
    }
    bench.give::<IceNic>(2.0, &request(99, 1457));
    bench.run_for::<IceNic>(100.0);
    let found = statistics(&mut bench);
    assert_eq!(
        found,
        NicStatistics {
            frames_received: 66,
            link_bytes: 65 * 1088 + 1521,
            dropped_buffer_full: 5,
            dropped_too_long: 1,
            ..NicStatistics::default()
        }
    );
    for number in 0..60 {
        bench.write(RECV_REQ, 8, BUFFER + 2048 * number);
        bench.run_for::<IceNic>(400.0);
    }
    assert_eq!(statistics(&mut bench).frames_delivered, 60);
}

/// The interrupt line is up as long as there is a completion that the mask selects. It is delivered
/// to the core.
#[test]
fn interrupts_follow_the_mask() {
    use fabric::DeliveryKind;
    let mut bench = bench(&IceNicSpec::default());
    let mut levels = Vec::new();
    let mut run = |bench: &mut Bench| {
        let until = bench.now + ns(200.0);
        bench.fabric.run_until(until, &mut bench.inboxes);
        bench.now = until;
        while let Some(delivery) = bench.inboxes[0].pop() {
            if let DeliveryKind::Interrupt { bit, level, .. } = delivery.kind {
                levels.push((bit, level));
            }
        }
    };
    bench.write(RECV_REQ, 8, BUFFER);
    bench.give::<IceNic>(10.0, &request(1, 8));
    run(&mut bench);
    bench.write(INTMASK, 4, 2);
    run(&mut bench);
    bench.read(RECV_COMP, 2);
    run(&mut bench);
    assert_eq!(levels, [(11, true), (11, false)]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]
    /// Frames of any length, buffers posted early or late, queues of any depth: each frame that is
    /// not counted as dropped is delivered, in order, and returned unchanged.
    #[test]
    fn nothing_is_lost_silently(
        frames in proptest::collection::vec((0usize..300, 0u32..200), 1..30),
        queue_entries in 1u32..8,
        transactions in 1u32..5,
        input_buffer_bytes in 1520u32..4000,
    ) {
        let spec = IceNicSpec { queue_entries, transactions, input_buffer_bytes, ..IceNicSpec::default() };
        let mut bench = bench(&spec);
        let mut at = 0.0;
        for (number, &(bytes, gap)) in frames.iter().enumerate() {
            at += f64::from(gap);
            bench.give::<IceNic>(at, &request(number as u64, bytes));
        }
        let mut expected = Vec::new();
        loop {
            bench.answers.clear();
            bench.write(RECV_REQ, 8, BUFFER);
            bench.read(RECV_COMP, 2);
            bench.run_for::<IceNic>(7000.0);
            let Some(&(_, _, Ok(length))) = bench.answers.get(1) else { break };
            let found = bench.load::<IceNic>(BUFFER, length as usize);
            let packet = Packet::from_bytes(&found).unwrap();
            let sent = request(packet.tag, frames[packet.tag as usize].0);
            // The bytes after the payload, up to a multiple of 8, are zeros.
            let (payload, rest) = packet.payload.split_at(sent.payload.len());
            proptest::prop_assert_eq!(payload, &sent.payload[..]);
            proptest::prop_assert!(rest.len() < 8 && rest.iter().all(|&byte| byte == 0));
            expected.push(packet.tag);
            bench.write(SEND_REQ, 8, send_request(BUFFER, length as usize));
            bench.read(SEND_COMP, 2);
            bench.run_for::<IceNic>(2000.0);
        }
        let counted = statistics(&mut bench);
        let dropped = counted.dropped_buffer_full;
        proptest::prop_assert_eq!(counted.frames_received, frames.len() as u64);
        proptest::prop_assert_eq!(counted.frames_delivered + dropped, counted.frames_received);
        let sent: Vec<_> = bench.sent.iter().map(|(_, packet)| packet.tag).collect();
        proptest::prop_assert!(expected.is_sorted());
        proptest::prop_assert_eq!(sent, expected);
    }
}
