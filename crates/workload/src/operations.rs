//! Requests for key-value stores: which operations, on which keys.
//!
//! The format is that of `guest/include/operations.h`: a head of eight bytes, the key, and for a
//! put the value. Numbers have the hart's byte order, the least significant byte first.

use crate::Random;
use crate::elementary::{exp, ln};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Bytes before the key of a request and before what follows in a reply.
const HEAD_BYTES: u32 = 8;
/// Bytes of a generated key, as in HERD (Kalia et al., SIGCOMM 2014).
const KEY_BYTES: u32 = 16;
/// Bytes before each key and value in the reply to a scan.
const PAIR_HEAD_BYTES: u32 = 8;

/// The kinds of operations, by the number in the first byte of a request.
const KINDS: [&str; 3] = ["get", "put", "scan"];
const GET: u8 = 0;
const PUT: u8 = 1;
const SCAN: u8 = 2;

/// A kind of operations, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// Reads one value.
    Get = GET as isize,
    /// Writes one value.
    Put = PUT as isize,
    /// Reads several consecutive keys with their values.
    Scan = SCAN as isize,
}

/// How often each key is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Popularity {
    /// All alike.
    #[default]
    Uniform,
    /// The k-th key in proportion to `k^-zipf_exponent`.
    Zipf,
}

/// The requests that a key-value store gets, and what it has from the beginning. Programs of other
/// kinds do not look at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OperationsSpec {
    /// Keys in the store, of 16 bytes each; all requests are for these.
    #[schemars(range(min = 1, max = 268_435_456))]
    pub keys: u64,
    /// Bytes of a value. HERD's are 32.
    #[schemars(range(min = 1, max = 1024))]
    pub value_bytes: u32,
    /// The part of the requests that read one value. What is neither a get nor a scan is a put, of
    /// a new value of the same length. 0.95 for HERD and 0.99 for Masstree in Daglis et al. (ASPLOS
    /// 2019).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gets: f64,
    /// The part of the requests that read several consecutive keys with their values.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub scans: f64,
    /// Keys that a scan reads; 100 in Daglis et al. (ASPLOS 2019).
    #[schemars(range(min = 1, max = 1000))]
    pub scan_keys: u32,
    /// How often each key is asked for; where a scan begins, too.
    pub popularity: Popularity,
    /// The exponent of `zipf`. 0.99 is that of YCSB (Cooper et al., SoCC 2010).
    #[schemars(range(min = 0.01, max = 10.0))]
    pub zipf_exponent: f64,
}

impl Default for OperationsSpec {
    fn default() -> OperationsSpec {
        OperationsSpec {
            keys: 1_000_000,
            value_bytes: 32,
            gets: 0.95,
            scans: 0.0,
            scan_keys: 100,
            popularity: Popularity::Uniform,
            zipf_exponent: 0.99,
        }
    }
}

impl OperationsSpec {
    /// Whether the parts are of one whole.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let accepted = "with gets it must be at most 1; what is left are puts";
        require(
            self.gets + self.scans <= 1.0 + 1e-9,
            "scans",
            self.scans,
            accepted,
        )
    }

    /// The number that a program knows by a name, as `io_parameter("traffic.keys")`.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        Some(match name.strip_prefix("traffic.")? {
            "keys" => self.keys as f64,
            "value_bytes" => f64::from(self.value_bytes),
            "scans" => self.scans,
            _ => return None,
        })
    }

    /// Bytes of the longest request.
    pub fn longest_request_bytes(&self) -> u32 {
        HEAD_BYTES + KEY_BYTES + self.value_bytes
    }

    /// Bytes of the longest reply to what is generated.
    pub fn longest_reply_bytes(&self) -> u32 {
        let pair = (PAIR_HEAD_BYTES + KEY_BYTES + self.value_bytes).next_multiple_of(8);
        let scanned = if self.scans > 0.0 {
            self.scan_keys * pair
        } else {
            0
        };
        HEAD_BYTES + scanned.max(self.value_bytes)
    }
}

/// The name of the kind with a number.
pub(crate) fn kind_name(kind: u8) -> Option<&'static str> {
    KINDS.get(usize::from(kind)).copied()
}

/// The kind of a request.
pub(crate) fn kind_of(request: &[u8]) -> u8 {
    request.first().copied().unwrap_or(u8::MAX)
}

/// Draws requests.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    spec: OperationsSpec,
    zipf: Zipf,
}

impl Operations {
    pub fn new(spec: &OperationsSpec) -> Operations {
        Operations {
            zipf: Zipf::new(spec.keys, spec.zipf_exponent),
            spec: spec.clone(),
        }
    }

    /// Appends a request to `to`.
    pub fn append_next(&self, random: &mut Random, to: &mut Vec<u8>) {
        let spec = &self.spec;
        let choice = random.unit();
        let (kind, more) = if choice < spec.gets {
            (GET, 0)
        } else if choice < spec.gets + spec.scans {
            (SCAN, spec.scan_keys)
        } else {
            (PUT, spec.value_bytes)
        };
        let key = match spec.popularity {
            Popularity::Uniform => random.below(spec.keys),
            Popularity::Zipf => self.zipf.draw(random) - 1,
        };
        let number = random.bits() as u32;
        to.extend([kind, KEY_BYTES as u8]);
        to.extend((more as u16).to_le_bytes());
        to.extend(number.to_le_bytes());
        to.extend(key_of(key));
        if kind == PUT {
            let end = to.len() + spec.value_bytes as usize;
            while to.len() < end {
                to.extend(random.bits().to_le_bytes());
            }
            to.truncate(end);
        }
    }
}

/// The key with a number: 16 bytes that look random, as the hashes do that HERD has for keys. No
/// two numbers have the same.
fn key_of(number: u64) -> [u8; KEY_BYTES as usize] {
    let first = mix(number);
    let mut key = [0; KEY_BYTES as usize];
    key[..8].copy_from_slice(&first.to_le_bytes());
    key[8..].copy_from_slice(&mix(first).to_le_bytes());
    key
}

/// One step of SplitMix64 (Steele, Lea and Flood 2014): one to one, and never 0 for 0.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Draws numbers from 1 to `count`, k in proportion to `k^-exponent`, by rejection-inversion
/// (Hörmann and Derflinger, ACM TOMACS 6(3), 1996): exact, and without a table.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the density's hat up to the first and behind the last number.
    integral_first: f64,
    integral_last: f64,
    /// What is this near to a whole number below is accepted at once.
    near: f64,
}

impl Zipf {
    /// The distribution over so many numbers, with this exponent.
    pub fn new(count: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf {
            count: count as f64,
            exponent,
            integral_first: 0.0,
            integral_last: 0.0,
            near: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    /// The next number, from 1 on.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let place =
                self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(place);
            let k = (x + 0.5).floor().clamp(1.0, self.count);
            if k - x <= self.near || place >= self.integral(k + 0.5) - self.hat(k) {
                return k as u64;
            }
        }
    }

    fn hat(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// `(x^(1 - exponent) - 1) / (1 - exponent)`, and ln x where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        let power = (1.0 - self.exponent) * log;
        let ratio = if power.abs() > 1e-4 {
            (exp(power) - 1.0) / power
        } else {
            1.0 + power / 2.0 * (1.0 + power / 3.0 * (1.0 + power / 4.0))
        };
        ratio * log
    }

    fn inverse(&self, integral: f64) -> f64 {
        // Rounding may take it to the pole.
        let power = (integral * (1.0 - self.exponent)).max(-1.0 + 1e-15);
        let ratio = if power.abs() > 1e-4 {
            ln(1.0 + power) / power
        } else {
            1.0 - power * (0.5 - power * (1.0 / 3.0 - power * 0.25))
        };
        exp(ratio * integral)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    fn draw(spec: &OperationsSpec, count: usize) -> Vec<Vec<u8>> {
        let operations = Operations::new(spec);
        let mut random = Random::new(1, Stream::Packets);
        let next = |_| {
            let mut request = Vec::new();
            operations.append_next(&mut random, &mut request);
            request
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn the_mix_is_as_described() {
        let spec = OperationsSpec {
            keys: 1000,
            gets: 0.9,
            scans: 0.04,
            value_bytes: 13,
            ..OperationsSpec::default()
        };
        let requests = draw(&spec, 20_000);
        let of = |kind| {
            let mut these = requests.iter().filter(|request| kind_of(request) == kind);
            let bytes: usize = match kind {
                PUT => 24 + 13,
                _ => 24,
            };
            assert!(these.clone().all(|request| request.len() == bytes));
            let more = [these.next().unwrap()[2], 0];
            (these.count() + 1, u16::from_le_bytes(more))
        };
        // Four standard deviations of a binomial: 4 sqrt(20000 p (1 - p)).
        let ((gets, _), (puts, value_bytes), (scans, scanned)) = (of(GET), of(PUT), of(SCAN));
        assert!((18_000 - 170..18_000 + 170).contains(&gets), "{gets}");
        assert!((1200 - 135..1200 + 135).contains(&puts), "{puts}");
        assert!((800 - 111..800 + 111).contains(&scans), "{scans}");
        assert_eq!((value_bytes, scanned), (13, 100));
        let keys: std::collections::BTreeSet<&[u8]> =
            requests.iter().map(|request| &request[8..24]).collect();
        // Each of 1000 is missed with a chance of exp(-20).
        assert_eq!(keys.len(), 1000);
    }

    #[test]
    fn keys_are_those_of_splitmix64() {
        // The first output of SplitMix64 for the seed 0 (Vigna's reference).
        assert_eq!(key_of(0)[..8], 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
    }

    /// Each of the ten most popular of 1000 keys as often as the formula says, within four standard
    /// deviations; for an exponent of 1, which is a case of its own, too.
    #[test]
    fn zipf_draws_obey_the_formula() {
        for exponent in [0.5, 0.99, 1.0, 2.5] {
            let zipf = Zipf::new(1000, exponent);
            let mut random = Random::new(7, Stream::Packets);
            let (draws, mut counts) = (200_000, [0u32; 1001]);
            for _ in 0..draws {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let sum: f64 = (1..=1000).map(|k| f64::from(k).powf(-exponent)).sum();
            for k in 1..=10 {
                let share = f64::from(k).powf(-exponent) / sum;
                let expected = f64::from(draws) * share;
                let deviation = (expected * (1.0 - share)).sqrt();
                let found = f64::from(counts[k as usize]);
                assert!(
                    (found - expected).abs() < 4.0 * deviation + 1.0,
                    "{exponent} {k}: {found} {expected}"
                );
            }
            assert_eq!(counts[0], 0);
        }
    }

    #[test]
    fn one_key_is_always_drawn() {
        let mut random = Random::new(7, Stream::Packets);
        let zipf = Zipf::new(1, 0.99);
        assert!((0..100).all(|_| zipf.draw(&mut random) == 1));
    }

    #[test]
    fn replies_are_at_most_as_long_as_said() {
        let spec = OperationsSpec::default();
        assert_eq!(spec.longest_request_bytes(), 8 + 16 + 32);
        assert_eq!(spec.longest_reply_bytes(), 8 + 32);
        let scanning = OperationsSpec {
            gets: 0.99,
            scans: 0.01,
            ..spec
        };
        assert_eq!(scanning.longest_reply_bytes(), 8 + 100 * (8 + 16 + 32));
        scanning.check().unwrap();
    }
}
