//! The description of a load generator.

use crate::transport::{MAX_MESSAGE_BYTES, Protocol, TransportSpec};
use ::spec::{SpecError, Under, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::{Arrivals, OperationsSpec, ServiceTimes};

/// Bytes of the words with which requests and responses begin, unless they are left out.
pub(super) const LOAD_BYTES: u32 = 16;
/// Kinds of requests are numbered in a byte.
const MAX_KINDS: usize = 256;

/// The times at which requests are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Offer {
    /// Independently of earlier requests: an open loop.
    Open {
        /// The arrival process.
        #[serde(default)]
        arrivals: Arrivals,
        /// Millions a second.
        #[schemars(range(min = 1e-6, max = 1e4))]
        rate_mrps: f64,
        /// Mean number of requests in a burst, for bursty arrivals.
        #[serde(default = "one")]
        #[schemars(range(min = 1.0, max = 1e6))]
        burst_length: f64,
    },
    /// Bursts of requests at regular times: with many load generators, an incast.
    Simultaneous {
        /// Requests in a burst.
        #[serde(default = "one_request")]
        #[schemars(range(min = 1, max = 1000000))]
        requests_per_burst: u32,
        /// Nanoseconds from one burst to the next.
        #[schemars(range(min = 1.0, max = 1e12))]
        every_ns: f64,
    },
    /// Clients with one outstanding request each: a closed loop.
    Closed {
        /// How many.
        #[schemars(range(min = 1, max = 1000000))]
        clients: u32,
        /// Nanoseconds from a response until the same client sends its next request.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1e12))]
        think_ns: f64,
    },
}

fn one() -> f64 {
    1.0
}

fn one_request() -> u32 {
    1
}

/// A word of a request, after the first two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Word {
    /// Always the same.
    Constant(u64),
    /// A number of a range, all equally likely.
    Uniform {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of a sequence of numbers, the k-th with a probability in proportion to
    /// `k^-zipf_exponent`.
    Zipf {
        /// The first number.
        #[serde(default)]
        #[schemars(range(max = u64::MAX - (1 << 28)))]
        zipf_min: u64,
        /// The number of them.
        #[schemars(range(min = 1, max = 1 << 28))]
        zipf_items: u64,
        /// The exponent.
        #[schemars(range(min = 0.01, max = 10.0))]
        zipf_exponent: f64,
    },
}

/// One kind of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestSpec {
    /// The name of the kind in results.
    pub name: String,
    /// The rate of this kind relative to the others.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight: f64,
    /// The destination port, which nanoPU calls context.
    pub port: u16,
    /// The mean of the first word, in the program's unit: nanoPU's programs count cycles.
    #[schemars(range(min = 0.0, max = 1e12))]
    pub service: f64,
    /// The distribution of the first word.
    pub service_times: ServiceTimes,
    /// Bytes of the whole message, if it is longer than its words: the rest are zeros.
    #[schemars(range(max = MAX_MESSAGE_BYTES))]
    pub bytes: u32,
    /// The words after the first two, or all words without those two.
    pub words: Vec<Word>,
    /// A trace: lists of equally many words, one of which follows `words`, chosen at random.
    pub rows: Vec<Vec<u64>>,
}

impl Default for RequestSpec {
    fn default() -> RequestSpec {
        RequestSpec {
            name: "request".to_string(),
            weight: 1.0,
            port: 0,
            service: 0.0,
            service_times: ServiceTimes::Fixed,
            bytes: 0,
            words: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl RequestSpec {
    /// Checks requests of at most `most` bytes, of which the first words take `load_bytes`.
    fn check(&self, load_bytes: u32, most: u64) -> Result<(), SpecError> {
        self.service_times.check().under("service_times")?;
        let lengths = || self.rows.iter().map(Vec::len);
        let (shortest, longest) = (lengths().min(), lengths().max());
        require(
            shortest == longest && shortest != Some(0),
            "rows",
            format!(
                "from {} to {} words",
                shortest.unwrap_or(0),
                longest.unwrap_or(0)
            ),
            "all rows must have as many words, and at least one",
        )?;
        let bytes = self.message_bytes(load_bytes);
        let accepted = "a message without words must have at least 1";
        require(bytes > 0, "bytes", bytes, accepted)?;
        let accepted = format!(
            "with its words the message must have at most transport.largest_message_bytes, {most}"
        );
        require(bytes <= most, "bytes", bytes, accepted)?;
        self.words.iter().enumerate().try_for_each(|(place, word)| {
            let Word::Uniform { min, max } = *word else {
                return Ok(());
            };
            let accepted = format!("it must be max, {max}, or less");
            require(min <= max, &format!("words.{place}.min"), min, accepted)
        })
    }

    /// Bytes of the whole message, of which the first words take `load_bytes`.
    pub(super) fn message_bytes(&self, load_bytes: u32) -> u64 {
        let words = self.words.len() + self.rows.first().map_or(0, Vec::len);
        let words_bytes = u64::from(load_bytes) + 8 * words as u64;
        words_bytes.max(u64::from(self.bytes))
    }
}

/// A message that each server receives once, before the first request: for programs that need
/// information before they serve. An answer is not required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpeningSpec {
    /// The destination port.
    #[serde(default)]
    pub port: u16,
    /// All its words: at least one.
    pub words: Vec<u64>,
    /// Nanoseconds until the next one is sent, or the first request; they include the start of the
    /// servers.
    #[serde(default = "opening_ns")]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub then_ns: f64,
}

/// Ten timeouts of the transport.
fn opening_ns() -> f64 {
    100_000.0
}

/// A load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadGeneratorSpec {
    /// The times at which it sends requests.
    pub offer: Offer,
    /// Messages that it sends before the first request; by default none.
    #[serde(default)]
    pub opening: Vec<OpeningSpec>,
    /// The kinds of its requests, from 1 to 256.
    #[serde(default = "one_kind")]
    #[schemars(length(min = 1, max = MAX_KINDS))]
    pub requests: Vec<RequestSpec>,
    /// Operations on the keys of a store, or TPC-C's transactions, in place of `requests`. Each is
    /// behind the first two words of a message. The servers' programs know what their stores have
    /// from here, as they do of `traffic.operations`. Replies are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<OperationsSpec>,
    /// Whether requests begin with their service time and the time of their creation, which
    /// identify their responses. Without these words a response answers the oldest request to its
    /// sender and port that has not been answered.
    #[serde(default = "yes")]
    pub stamped: bool,
    /// The number of ports from which it sends, all equally likely: the flows that receive-side
    /// scaling distinguishes.
    #[serde(default = "one_port")]
    #[schemars(range(min = 1, max = 65536))]
    pub ports: u32,
    /// IPv4 destinations of its packets, all equally likely, for a server that is a router.
    /// Without, packets go to the server's own address.
    #[serde(default)]
    pub destinations: Option<AddressSpan>,
    /// The number of requests that it sends; without it, as many as the measurement needs.
    #[serde(default)]
    #[schemars(range(max = 100_000_000_000_u64))]
    pub max_requests: Option<u64>,
    /// Its transport. It must be that of the servers.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Nanoseconds from the creation of a request until the transport has it: the time of the
    /// host's software and network interface, which are not simulated. None in nanoPU's load
    /// generator.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub send_latency_ns: f64,
    /// Nanoseconds from a response's completion in the transport until the host has it.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub receive_latency_ns: f64,
}

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSpan {
    /// The first.
    pub first: std::net::Ipv4Addr,
    /// The last.
    pub last: std::net::Ipv4Addr,
}

fn one_port() -> u32 {
    1
}

fn yes() -> bool {
    true
}

pub(super) fn one_kind() -> Vec<RequestSpec> {
    vec![RequestSpec::default()]
}

impl LoadGeneratorSpec {
    /// Bytes of the words with which each request begins.
    pub(super) fn load_bytes(&self) -> u32 {
        if self.stamped { LOAD_BYTES } else { 0 }
    }

    /// Checks the description.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.transport.check().under("transport")?;
        if let Some(AddressSpan { first, last }) = self.destinations {
            let accepted = format!("it must be destinations.first, {first}, or more");
            require(first <= last, "destinations.last", last, accepted)?;
        }
        let most = u64::from(self.transport.largest_message_bytes);
        for (place, message) in self.opening.iter().enumerate() {
            let words = message.words.len() as u64;
            require(
                (1..=most / 8).contains(&words),
                &format!("opening.{place}.words"),
                format!("a list of {words}"),
                format!(
                    "there must be from 1 to {}, so that they are a message of at most \
                     transport.largest_message_bytes",
                    most / 8
                ),
            )?;
        }
        self.check_operations(most)?;
        for (place, request) in self.requests.iter().enumerate() {
            let is_new = |other: &RequestSpec| other.name != request.name;
            require(
                self.requests[..place].iter().all(is_new),
                &format!("requests.{place}.name"),
                format_args!("{:?}", request.name),
                "each kind must have a name of its own",
            )?;
            let checked = request.check(self.load_bytes(), most);
            checked.under(format_args!("requests.{place}"))?;
        }
        require(
            self.requests.iter().any(|request| request.weight > 0.0),
            "requests.*.weight",
            0,
            "at least one weight must be above 0",
        )
    }
    /// Checks that operations fit into messages of at most `most` bytes.
    fn check_operations(&self, most: u64) -> Result<(), SpecError> {
        let Some(operations) = &self.operations else {
            return Ok(());
        };
        operations.check().under("operations")?;
        require(
            self.requests == one_kind(),
            "requests",
            "given",
            "operations are all that is sent: leave one of the two out",
        )?;
        require(
            self.stamped,
            "stamped",
            false,
            "a store answers operations in any order, so they must have the words by which their \
             replies are known",
        )?;
        let longest = operations.longest_request_bytes();
        let longest = longest.max(operations.longest_reply_bytes()) + LOAD_BYTES;
        let accepted = format!(
            "with operations and the words in front of them the longest request or reply has \
             {longest} bytes"
        );
        let key = "transport.largest_message_bytes";
        require(u64::from(longest) <= most, key, most, &accepted)?;
        let packet = self.transport.packet_bytes;
        let is_one = self.transport.protocol != Protocol::Datagrams || longest <= packet;
        require(is_one, "transport.packet_bytes", packet, accepted)
    }
}
