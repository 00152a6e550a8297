//! Requests for stores: operations on keys, or TPC-C's transactions.
//!
//! The format is that of `guest/include/operations.h`: a head of eight bytes, the key, and for a
//! put the value. Numbers have the hart's byte order, the least significant byte first.

use crate::Random;
use crate::elementary::{exp, ln};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Bytes before the key of a request, and before the body of a reply.
pub(crate) const HEAD_BYTES: u32 = 8;
/// Bytes of a generated key, as in HERD (Kalia et al., SIGCOMM 2014), if sizes are fixed.
const KEY_BYTES: u32 = 16;
/// Bytes before each key and value in the reply to a scan.
const PAIR_HEAD_BYTES: u32 = 8;

/// The kinds of operations, by the number in the first byte of a request.
const KINDS: [&str; 8] = [
    "get",
    "put",
    "scan",
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
];
pub(crate) const GET: u8 = 0;
pub(crate) const PUT: u8 = 1;
pub(crate) const SCAN: u8 = 2;
/// The first of TPC-C's transactions, in the order of the specification's clause 2.
pub(crate) const NEW_ORDER: u8 = 3;
/// The mix of TPC-C's transactions in percent: the minimum of clause 5.2.3, and New-Orders for the
/// rest, as in Silo (Tu et al., SOSP 2013).
const MIX: [u64; 5] = [45, 43, 4, 4, 4];
/// Bytes of the random number from which a transaction draws its input.
const SEED_BYTES: u32 = 8;
/// Bytes of its output: four numbers.
pub(crate) const OUTPUT_BYTES: u32 = 32;
/// The first byte of a reply: `enum operation_status` of the guest's `operations.h`.
pub(crate) const DONE: u8 = 0;
pub(crate) const NOT_FOUND: u8 = 1;
pub(crate) const NO_ROOM: u8 = 2;

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
    /// TPC-C: enters an order of 5 to 15 items.
    NewOrder = NEW_ORDER as isize,
    /// TPC-C: updates a customer's balance.
    Payment,
    /// TPC-C: reads a customer's last order.
    OrderStatus,
    /// TPC-C: delivers the oldest order of each district.
    Delivery,
    /// TPC-C: counts recently sold items of which there are few left.
    StockLevel,
}

/// The lengths of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// Keys of 16 bytes, and values of `value_bytes`.
    #[default]
    Fixed,
    /// Those of Facebook's pool ETC (Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value
    /// Store", SIGMETRICS 2012): keys by a generalized extreme-value distribution, 36 bytes in the
    /// mean, values by a generalized Pareto distribution, 320 bytes.
    FacebookEtc,
}

/// Keys and values each have one of this many lengths, with equal frequency: the quantiles of their
/// distributions.
const QUANTILES: u64 = 256;

/// The quantiles of a key's and its value's lengths, from the third word of the key.
fn key_place(sizes: u64) -> u64 {
    sizes % QUANTILES
}

fn value_place(sizes: u64) -> u64 {
    sizes / QUANTILES % QUANTILES
}

/// The middle of a 256th of a distribution.
fn middle(quantile: u64) -> f64 {
    (quantile as f64 + 0.5) / QUANTILES as f64
}

/// Bytes of keys: their distribution's location, scale and shape are 30.7984, 8.20449 and 0.078688.
fn etc_key_bytes(quantile: u64) -> u32 {
    let shape = 0.078688;
    let power = exp(-shape * ln(-ln(middle(quantile))));
    (30.7984 + 8.20449 / shape * (power - 1.0)).round() as u32
}

/// Bytes of values: scale and shape are 214.476 and 0.348238. (The paper's separate table for those
/// below 15 bytes is omitted.)
fn etc_value_bytes(quantile: u64) -> u32 {
    let shape = 0.348238;
    let power = exp(-shape * ln(1.0 - middle(quantile)));
    (214.476 / shape * (power - 1.0)).round().max(1.0) as u32
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

/// The requests that a store receives, and its initial contents. Other programs ignore it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OperationsSpec {
    /// Keys in the store; all requests are for these.
    #[schemars(range(min = 1, max = 268_435_456))]
    pub keys: u64,
    /// The lengths of keys and values.
    pub sizes: Sizes,
    /// Bytes of a value, if sizes are fixed. HERD's are 32.
    #[schemars(range(min = 1, max = 1024))]
    pub value_bytes: u32,
    /// The fraction of requests that read one value. What is neither a get nor a scan is a put, of
    /// a new value of the same length. 0.95 for HERD and 0.99 for Masstree in Daglis et al. (ASPLOS
    /// 2019).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gets: f64,
    /// The fraction of requests that read several consecutive keys with their values.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub scans: f64,
    /// Keys that a scan reads; 100 in Daglis et al. (ASPLOS 2019).
    #[schemars(range(min = 1, max = 1000))]
    pub scan_keys: u32,
    /// The distribution of requests over keys, and of the keys at which scans begin.
    pub popularity: Popularity,
    /// The exponent of `zipf`. 0.99 is that of YCSB (Cooper et al., SoCC 2010).
    #[schemars(range(min = 0.01, max = 10.0))]
    pub zipf_exponent: f64,
    /// If given, requests are TPC-C's transactions in its standard mix, each for one of so many
    /// warehouses, instead of operations on keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub warehouses: Option<u32>,
}

impl Default for OperationsSpec {
    fn default() -> OperationsSpec {
        OperationsSpec {
            keys: 1_000_000,
            sizes: Sizes::Fixed,
            value_bytes: 32,
            gets: 0.95,
            scans: 0.0,
            scan_keys: 100,
            popularity: Popularity::Uniform,
            zipf_exponent: 0.99,
            warehouses: None,
        }
    }
}

impl OperationsSpec {
    /// Checks that the fractions are consistent.
    pub fn check(&self) -> Result<(), SpecError> {
        let accepted = "with gets it must be at most 1; what is left are puts";
        require(
            self.gets + self.scans <= 1.0 + 1e-9,
            "scans",
            self.scans,
            accepted,
        )
    }

    /// The value of a parameter that programs read, as in `io_parameter("traffic.keys")`.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        let name = name.strip_prefix("traffic.")?;
        Some(match name {
            "keys" => self.keys as f64,
            "value_bytes" => f64::from(self.value_bytes),
            "scans" => self.scans,
            "warehouses" => f64::from(self.warehouses.unwrap_or(0)),
            _ => {
                let (of, quantile) = name.split_once('.')?;
                let quantile: u64 = quantile.parse().ok().filter(|&one| one < QUANTILES)?;
                match of {
                    "key_quantile" => f64::from(self.key_quantile(quantile)),
                    "value_quantile" => f64::from(self.value_quantile(quantile)),
                    _ => return None,
                }
            }
        })
    }

    fn key_quantile(&self, quantile: u64) -> u32 {
        match self.sizes {
            Sizes::Fixed => KEY_BYTES,
            Sizes::FacebookEtc => etc_key_bytes(quantile),
        }
    }

    fn value_quantile(&self, quantile: u64) -> u32 {
        match self.sizes {
            Sizes::Fixed => self.value_bytes,
            Sizes::FacebookEtc => etc_value_bytes(quantile),
        }
    }

    /// Bytes of the value of a key with this second word.
    pub(crate) fn value_bytes_of(&self, second: u64) -> u32 {
        self.value_quantile(value_place(mix(second)))
    }

    /// Whether the two descriptions have the same store: the same keys with values of the same
    /// lengths, or the same tables.
    pub fn has_the_same_store(&self, other: &OperationsSpec) -> bool {
        let store = |spec: &OperationsSpec| {
            let OperationsSpec {
                keys,
                sizes,
                value_bytes,
                warehouses,
                ..
            } = *spec;
            (keys, sizes, value_bytes, warehouses)
        };
        store(self) == store(other)
    }

    /// Bytes of the longest value.
    fn longest_value_bytes(&self) -> u32 {
        self.value_quantile(QUANTILES - 1)
    }

    /// Bytes of the longest request.
    pub fn longest_request_bytes(&self) -> u32 {
        if self.warehouses.is_some() {
            return HEAD_BYTES + SEED_BYTES;
        }
        HEAD_BYTES + self.key_quantile(QUANTILES - 1) + self.longest_value_bytes()
    }

    /// Bytes of the longest reply to a generated request.
    pub fn longest_reply_bytes(&self) -> u32 {
        if self.warehouses.is_some() {
            return HEAD_BYTES + OUTPUT_BYTES;
        }
        let key_bytes = self.key_quantile(QUANTILES - 1);
        let pair = (PAIR_HEAD_BYTES + key_bytes + self.longest_value_bytes()).next_multiple_of(8);
        let scanned = if self.scans > 0.0 {
            self.scan_keys * pair
        } else {
            0
        };
        HEAD_BYTES + scanned.max(self.longest_value_bytes())
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
pub struct Operations {
    spec: OperationsSpec,
    zipf: Zipf,
    key_bytes: Vec<u32>,
    value_bytes: Vec<u32>,
}

impl Operations {
    /// Draws the requests described by `spec`.
    pub fn new(spec: &OperationsSpec) -> Operations {
        Operations {
            zipf: Zipf::new(spec.keys, spec.zipf_exponent),
            key_bytes: (0..QUANTILES).map(|at| spec.key_quantile(at)).collect(),
            value_bytes: (0..QUANTILES).map(|at| spec.value_quantile(at)).collect(),
            spec: spec.clone(),
        }
    }

    /// The names of the kinds of requests, by their numbers.
    pub fn kind_names() -> Vec<String> {
        KINDS.map(str::to_string).to_vec()
    }

    /// The number of a request's kind.
    pub fn kind(request: &[u8]) -> u8 {
        kind_of(request)
    }

    /// Appends a request to `to`.
    pub fn append_next(&self, random: &mut Random, to: &mut Vec<u8>) {
        let spec = &self.spec;
        if let Some(warehouses) = spec.warehouses {
            return append_transaction(warehouses, random, to);
        }
        let choice = random.unit();
        let kind = if choice < spec.gets {
            GET
        } else if choice < spec.gets + spec.scans {
            SCAN
        } else {
            PUT
        };
        let key = match spec.popularity {
            Popularity::Uniform => random.below(spec.keys),
            Popularity::Zipf => self.zipf.draw(random) - 1,
        };
        let number = random.bits() as u32;
        let words = words_of(key);
        let sizes = mix(words[1]);
        let key_bytes = self.key_bytes[key_place(sizes) as usize];
        let value_bytes = self.value_bytes[value_place(sizes) as usize];
        let more = match kind {
            SCAN => spec.scan_keys,
            PUT => value_bytes,
            _ => 0,
        };
        to.extend([kind, key_bytes as u8]);
        to.extend((more as u16).to_le_bytes());
        to.extend(number.to_le_bytes());
        append_key(words, key_bytes as usize, to);
        if kind == PUT {
            let end = to.len() + value_bytes as usize;
            while to.len() < end {
                to.extend(random.bits().to_le_bytes());
            }
            to.truncate(end);
        }
    }
}

/// Appends a transaction: its kind, the warehouse from 1 on, and the seed of its input.
fn append_transaction(warehouses: u32, random: &mut Random, to: &mut Vec<u8>) {
    let mut choice = random.below(100);
    let mut kind = NEW_ORDER;
    for part in MIX {
        if choice < part {
            break;
        }
        choice -= part;
        kind += 1;
    }
    let warehouse = 1 + random.below(warehouses.into());
    let (number, seed) = (random.bits() as u32, random.bits());
    to.extend([kind, SEED_BYTES as u8]);
    to.extend((warehouse as u16).to_le_bytes());
    to.extend(number.to_le_bytes());
    to.extend(seed.to_le_bytes());
}

/// The first 16 bytes of the key with a number. They look random, like the hashes that are HERD's
/// keys, and differ between numbers.
fn words_of(number: u64) -> [u64; 2] {
    let first = mix(number);
    [first, mix(first)]
}

/// Appends `bytes` bytes of the key that begins with `words`; each further word is one more step.
fn append_key(words: [u64; 2], bytes: usize, to: &mut Vec<u8>) {
    let end = to.len() + bytes;
    let mut next = words[0];
    while to.len() < end {
        to.extend(next.to_le_bytes());
        next = mix(next);
    }
    to.truncate(end);
}

/// One step of SplitMix64 (Steele, Lea and Flood 2014): a bijection.
pub(crate) fn mix(number: u64) -> u64 {
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
    /// The integral of the density's hat up to the first and after the last number.
    integral_first: f64,
    integral_last: f64,
    /// Values within this distance above a whole number are accepted at once.
    near: f64,
}

impl Zipf {
    /// The distribution over `count` numbers, with this exponent.
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

    /// `(x^(1 - exponent) - 1) / (1 - exponent)`, and ln x if the exponent is 1.
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
        // Rounding may move it to the pole.
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
        // Each of 1000 is missed with a probability of exp(-20).
        assert_eq!(keys.len(), 1000);
    }

    #[test]
    fn keys_are_those_of_splitmix64() {
        // The first output of SplitMix64 for the seed 0 (Vigna's reference).
        assert_eq!(words_of(0)[0], 0xe220_a839_7b1d_cdaf);
    }

    /// Means over the quantiles: 36 bytes of keys, mu + sigma (Gamma(1 - k) - 1) / k = 36.0, and of
    /// values sigma / (1 - k) = 329.1, without the tail above the last quantile.
    #[test]
    fn sizes_are_those_of_the_pool() {
        let mean = |bytes: fn(u64) -> u32| {
            let sum: u32 = (0..QUANTILES).map(bytes).sum();
            f64::from(sum) / QUANTILES as f64
        };
        assert!((mean(etc_key_bytes) - 36.0).abs() < 0.3);
        assert!((315.0..329.0).contains(&mean(etc_value_bytes)));
        assert!((0..QUANTILES).all(|at| (KEY_BYTES..=255).contains(&etc_key_bytes(at))));
        let spec = OperationsSpec {
            sizes: Sizes::FacebookEtc,
            gets: 0.0,
            ..OperationsSpec::default()
        };
        let requests = draw(&spec, 20_000);
        let longest = requests.iter().map(Vec::len).max();
        assert!(longest <= Some(spec.longest_request_bytes() as usize));
        // A key has the same length at each occurrence, so a value belongs to its key.
        let value_bytes = |request: &Vec<u8>| u16::from_le_bytes([request[2], request[3]]);
        for request in &requests {
            let bytes = HEAD_BYTES as usize + usize::from(request[1]);
            assert_eq!(request.len(), bytes + usize::from(value_bytes(request)));
        }
        assert_eq!(spec.parameter("traffic.key_quantile.0"), Some(17.0));
        assert_eq!(spec.parameter("traffic.key_quantile.256"), None);
    }

    /// Each transaction has its share, within four standard deviations.
    #[test]
    fn transactions_have_the_standard_mix() {
        let spec = OperationsSpec {
            warehouses: Some(3),
            ..OperationsSpec::default()
        };
        let requests = draw(&spec, 20_000);
        for (part, kind) in MIX.iter().zip(NEW_ORDER..) {
            let found = requests.iter().filter(|one| one[0] == kind).count() as f64;
            let share = *part as f64 / 100.0;
            let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
            assert!((found - 20_000.0 * share).abs() < 4.0 * deviation, "{kind}");
        }
        assert!(requests.iter().all(|one| one.len() == 16));
        let warehouses: std::collections::BTreeSet<u8> =
            requests.iter().map(|one| one[2]).collect();
        assert_eq!(warehouses, [1, 2, 3].into());
    }

    /// Each of the ten most popular of 1000 keys has the frequency of the formula, within four
    /// standard deviations; also for the special case of an exponent of 1.
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
