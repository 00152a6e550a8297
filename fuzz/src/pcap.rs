use std::path::Path;
use workload::{ItemKind, Packets};

/// Any bytes: they are refused in a sentence, or they are packets that fit, and so are the payloads
/// in them.
pub fn pcap(file: &[u8]) {
    const MAXIMUM_BYTES: u32 = 1500;
    match Packets::from_pcap(Path::new("file"), file, MAXIMUM_BYTES) {
        Ok(mut packets) => {
            for _ in 0..3 {
                let mut packet = Vec::new();
                packets.append_next(&mut packet, false);
                assert!((20..=MAXIMUM_BYTES as usize).contains(&packet.len()));
                assert_eq!(packet[0] >> 4, 4);
            }
            match packets.set_kind(ItemKind::Requests) {
                Ok(()) => {
                    let mut payload = Vec::new();
                    packets.append_next(&mut payload, false);
                    assert!(payload.len() <= MAXIMUM_BYTES as usize - 28);
                }
                Err(error) => assert!(error.to_string().starts_with("file: ")),
            }
        }
        Err(error) => assert!(error.to_string().starts_with("file: ")),
    }
}
