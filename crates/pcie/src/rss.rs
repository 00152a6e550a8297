//! Receive-side scaling: the choice of a frame's queue.

use network::packet::Packet;

/// The key in Microsoft's specification of receive-side scaling, which is the default of drivers.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Entries of the indirection table: 128, the maximum in the specification. Entry `n` is queue `n`
/// modulo the number of queues, as drivers set it.
pub const INDIRECTION_ENTRIES: u32 = 128;

/// The Toeplitz hash of `input`, at most 36 bytes: the exclusive or, over all set bits, of the 32
/// bits of the key that begin at the same position.
pub fn toeplitz(key: &[u8; 40], input: &[u8]) -> u32 {
    let mut hash = 0;
    for (at, &byte) in input.iter().enumerate() {
        // The 32 bits from here on, and the next 8.
        let window = key[at..at + 5].iter();
        let window = window.fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        for bit in 0..8 {
            if byte << bit & 0x80 != 0 {
                hash ^= (window >> (8 - bit)) as u32;
            }
        }
    }
    hash
}

/// The queue, out of `queues`, that the indirection table has for a hash.
pub(crate) fn queue(hash: u32, queues: u32) -> u32 {
    hash % INDIRECTION_ENTRIES % queues
}

/// The hash of a packet's addresses and ports.
pub(crate) fn hash(key: &[u8; 40], packet: &Packet) -> u32 {
    let mut input = [0; 12];
    input[..4].copy_from_slice(&packet.from.address.to_be_bytes());
    input[4..8].copy_from_slice(&packet.ipv4_destination().to_be_bytes());
    input[8..10].copy_from_slice(&packet.from.port.to_be_bytes());
    input[10..].copy_from_slice(&packet.to.port.to_be_bytes());
    toeplitz(key, &input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::packet::Endpoint;

    /// "Verifying the RSS Hash Calculation" in Microsoft's specification.
    #[test]
    fn hashes_are_the_specifications() {
        let endpoint = |parts: [u8; 4], port| Endpoint {
            address: u32::from_be_bytes(parts),
            port,
        };
        for (to, from, addresses_alone, with_ports) in [
            (
                endpoint([161, 142, 100, 80], 1766),
                endpoint([66, 9, 149, 187], 2794),
                0x323e_8fc2,
                0x51cc_c178,
            ),
            (
                endpoint([65, 69, 140, 83], 4739),
                endpoint([199, 92, 111, 2], 14230),
                0xd718_262a,
                0xc626_b0ea,
            ),
            (
                endpoint([12, 22, 207, 184], 38024),
                endpoint([24, 19, 198, 95], 12898),
                0xd2d0_a5de,
                0x5c2b_394a,
            ),
        ] {
            let packet = Packet {
                from,
                to,
                ..Packet::default()
            };
            assert_eq!(hash(&MICROSOFT_KEY, &packet), with_ports);
            let addresses = [from.address.to_be_bytes(), to.address.to_be_bytes()].concat();
            assert_eq!(toeplitz(&MICROSOFT_KEY, &addresses), addresses_alone);
        }
    }
}
