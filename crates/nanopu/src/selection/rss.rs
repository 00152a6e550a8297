//! Receive-side scaling: a hash of sender and receiver tells the core.

use super::{Cores, flow};
use network::packet::{Endpoint, Message};
use std::collections::VecDeque;

/// The key of Microsoft's verification suite, "Verifying the RSS Hash Calculation"; as many bytes
/// as 96 bits of input need.
const KEY: [u8; 16] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
];

/// The Toeplitz hash.
fn hash(bytes: [u8; 12]) -> u32 {
    let key = u128::from_be_bytes(KEY);
    let mut hash = 0;
    for (place, byte) in bytes.into_iter().enumerate() {
        for bit in 0..8 {
            if byte >> (7 - bit) & 1 != 0 {
                hash ^= (key << (8 * place + bit) >> 96) as u32;
            }
        }
    }
    hash
}

/// The core, of those that are bound, that a flow belongs to; the first of all if none is.
pub fn core(bound: &[bool], from: Endpoint, to: Endpoint) -> usize {
    let count = bound.iter().filter(|&&bound| bound).count().max(1);
    let cores = bound.iter().enumerate().filter(|(_, bound)| **bound);
    let mut cores = cores.map(|(core, _)| core);
    cores
        .nth(hash(flow(from, to)) as usize % count)
        .unwrap_or(0)
}

/// The first core that has messages waiting and room for one of them: its queue, and the core.
pub fn next(cores: &Cores, most: u32, queues: &[VecDeque<Message>]) -> Option<(usize, usize)> {
    let waiting = queues
        .iter()
        .enumerate()
        .filter(|(_, queue)| !queue.is_empty());
    let mut waiting = waiting.map(|(core, _)| core);
    let core = waiting.find(|&core| cores.bound[core] && cores.outstanding[core] < most)?;
    Some((core, core))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint([a, b, c, d]: [u8; 4], port: u16) -> Endpoint {
        Endpoint {
            address: u32::from_be_bytes([a, b, c, d]),
            port,
        }
    }

    #[test]
    fn the_hash_is_microsofts() {
        // "Verifying the RSS Hash Calculation", IPv4 with TCP: the first two rows.
        let first = flow(
            endpoint([66, 9, 149, 187], 2794),
            endpoint([161, 142, 100, 80], 1766),
        );
        assert_eq!(hash(first), 0x51cc_c178);
        let second = flow(
            endpoint([199, 92, 111, 2], 14230),
            endpoint([65, 69, 140, 83], 4739),
        );
        assert_eq!(hash(second), 0xc626_b0ea);
    }

    #[test]
    fn a_flow_stays_on_its_core_and_flows_are_on_all() {
        let bound = [true, false, true, true];
        let to = endpoint([10, 0, 0, 1], 0);
        let of = |port| core(&bound, endpoint([10, 0, 0, 2], port), to);
        let mut flows = [0; 4];
        for port in 0..300 {
            assert_eq!(of(port), of(port));
            flows[of(port)] += 1;
        }
        assert_eq!(flows[1], 0);
        // 100 each, by four deviations of a binomial: 100 ± 4 * sqrt(300 * 1/3 * 2/3).
        for core in [0, 2, 3] {
            assert!((67..=133).contains(&flows[core]), "{flows:?}");
        }
    }
}
