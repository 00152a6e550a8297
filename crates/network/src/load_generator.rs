//! A host that sends requests to servers and measures how long their responses take: nanoPU's load
//! generator (OSDI 2021, Section 5.2.2), as a node of a network.
//!
//! A request is a message of big-endian words: a service time, the time at which it was sent, and
//! what the program wants to know. A response begins with the same two words, which is how it is
//! known to which request it belongs. For programs whose messages have no such words they can be
//! left out.

use crate::packet::{Endpoint, Message, Packet, Transport, TransportAction, TransportStatistics};
use crate::rack::{LineRate, MessageName, Node, NodeContext, Step};
use crate::transport::{MAX_MESSAGE_BYTES, TransportSpec};
use fabric::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use state::Walker;
use std::collections::{BTreeMap, VecDeque};
use workload::Zipf;
use workload::{
    ArrivalProcess, Arrivals, Distribution, Files, KindMeasurement, Measurement, Random, Recorder,
    Sample, ServiceTimes, Stream, lost_requests,
};

/// Bytes of the words that each request and each response begins with, if they are not left out.
const LOAD_BYTES: u32 = 16;
/// Kinds of requests are numbered in a byte.
const MAX_KINDS: usize = 256;
/// The tag of messages that are no requests; those have their numbers.
const OPENING_TAG: u64 = u64::MAX;

/// When requests are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Offer {
    /// Whatever becomes of those before: an open loop.
    Open {
        /// When they come.
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
    /// Several at once, and again after a while: with many load generators, an incast.
    Simultaneous {
        /// How many at once.
        #[serde(default = "one_request")]
        #[schemars(range(min = 1, max = 1000000))]
        requests_at_once: u32,
        /// Nanoseconds from one time to the next.
        #[schemars(range(min = 1.0, max = 1e12))]
        every_ns: f64,
    },
    /// Clients of which each has one request under way: a closed loop.
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

/// A word of a request, behind the first two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Word {
    /// Always the same.
    Constant(u64),
    /// Any number from one to another, each as likely.
    Uniform {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of some numbers, of which the k-th comes in proportion to `k^-zipf_exponent`.
    Zipf {
        /// The first number.
        #[serde(default)]
        #[schemars(range(max = u64::MAX - (1 << 28)))]
        zipf_min: u64,
        /// How many there are.
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
    /// What it is called in results.
    pub name: String,
    /// How many of these there are in proportion to the others'.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight: f64,
    /// To which port they go; nanoPU's name for it is context.
    pub port: u16,
    /// The mean of the first word, in what the program takes it for: nanoPU's programs count
    /// cycles.
    #[schemars(range(min = 0.0, max = 1e12))]
    pub service: f64,
    /// How the first word is distributed.
    pub service_times: ServiceTimes,
    /// Bytes of the whole message, if it has more than its words: the rest are zeros.
    #[schemars(range(max = MAX_MESSAGE_BYTES))]
    pub bytes: u32,
    /// The words behind the first two, or all if the load generator leaves these out.
    pub words: Vec<Word>,
    /// A trace: lists of as many words each, of which any one comes behind `words`.
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
    /// Whether there can be such requests, of `most` bytes at most, of which the first words take
    /// `load_bytes`.
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
    fn message_bytes(&self, load_bytes: u32) -> u64 {
        let words = self.words.len() + self.rows.first().map_or(0, Vec::len);
        let words_bytes = u64::from(load_bytes) + 8 * words as u64;
        words_bytes.max(u64::from(self.bytes))
    }
}

/// A message that each server is sent once, before the first request: for programs that have to be
/// told something before they serve. Whether it is answered does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpeningSpec {
    /// To which port it goes.
    #[serde(default)]
    pub port: u16,
    /// All its words: at least one.
    pub words: Vec<u64>,
    /// Nanoseconds until the next one is sent, or the first request: the servers' start is in it.
    #[serde(default = "opening_ns")]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub then_ns: f64,
}

/// As long as ten timeouts of the transport.
fn opening_ns() -> f64 {
    100_000.0
}

/// A load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadGeneratorSpec {
    /// When it sends requests.
    pub offer: Offer,
    /// What it sends before: nothing as a rule.
    #[serde(default)]
    pub opening: Vec<OpeningSpec>,
    /// What it sends: kinds of requests, from 1 to 256.
    #[serde(default = "one_kind")]
    #[schemars(length(min = 1, max = MAX_KINDS))]
    pub requests: Vec<RequestSpec>,
    /// Whether requests begin with their service time and the time at which they were made, by
    /// which their responses are known. Without these words a response answers the oldest request
    /// to its sender and port that has not been answered.
    #[serde(default = "yes")]
    pub stamped: bool,
    /// From how many ports it sends, each as likely: the flows that receive-side scaling tells
    /// apart.
    #[serde(default = "one_port")]
    #[schemars(range(min = 1, max = 65536))]
    pub ports: u32,
    /// How many requests it sends; without it, as many as the measurement needs.
    #[serde(default)]
    #[schemars(range(max = 100_000_000_000_u64))]
    pub max_requests: Option<u64>,
    /// Its transport. It must be that of the servers.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Nanoseconds from when a request is made until the transport has it: of the host's software
    /// and network interface, which are not simulated. None in nanoPU's load generator.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub send_latency_ns: f64,
    /// Nanoseconds from when the transport has all of a response until the host has it.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub receive_latency_ns: f64,
}

fn one_port() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn one_kind() -> Vec<RequestSpec> {
    vec![RequestSpec::default()]
}

impl LoadGeneratorSpec {
    /// Bytes of the words that each request begins with.
    fn load_bytes(&self) -> u32 {
        if self.stamped { LOAD_BYTES } else { 0 }
    }

    /// Whether there can be such a load generator.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.transport.check().under("transport")?;
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
}

/// Draws a word.
#[derive(Clone, Debug)]
enum WordSource {
    Constant(u64),
    Uniform(u64, u64),
    Zipf(u64, Zipf),
}

/// Draws requests of one kind.
#[derive(Clone, Debug)]
struct Kind {
    /// What a random number from 0 to 1 must be below for it to be this kind, if it is none before.
    up_to: f64,
    port: u16,
    bytes: usize,
    service: Distribution,
    scale: f64,
    words: Vec<WordSource>,
    rows: Vec<Vec<u64>>,
}

/// A request that has not been answered, or is among others that have not.
#[derive(Clone, Debug, Default)]
struct Request {
    sent_at: Time,
    server: u32,
    kind: u8,
    /// How many requests were under way when it was made, itself included.
    under_way: u64,
    is_over: bool,
}

state::plain!(Request {
    sent_at,
    server,
    kind,
    under_way,
    is_over
});

/// Messages that answer no request, by the first reason that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnexpectedMessages {
    /// The message ends before the two words by which a response is known.
    pub too_short: u64,
    /// No request was made at the time that is the second word of the message.
    pub wrong_time: u64,
    /// The request is over: it has been answered, or the transport has given it up.
    pub over: u64,
    /// No request that waits for an answer was sent to the server from which the message comes.
    pub other_server: u64,
    /// A request was sent to that server, but to another port.
    pub other_port: u64,
    /// No request waits for an answer.
    pub none_waits: u64,
}

state::component!(UnexpectedMessages {
    too_short: count,
    wrong_time: count,
    over: count,
    other_server: count,
    other_port: count,
    none_waits: count
});

impl UnexpectedMessages {
    /// Says how many there were of each kind, if there were any.
    fn describe(&self) -> String {
        let told = [
            (
                self.too_short,
                "shorter than the 16 bytes with which a response begins",
            ),
            (
                self.wrong_time,
                "with a second word that is not the one of a request (a response begins with the first two \
                 words of its request; `stamped = false` is for programs whose messages have none)",
            ),
            (
                self.over,
                "to requests that had been answered or given up before",
            ),
            (self.other_server, "from a server that was not asked"),
            (
                self.other_port,
                "from another port than the one that was asked",
            ),
            (self.none_waits, "when no request waited for an answer"),
        ];
        let told = told.iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = told
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        told.join(", ")
    }
}

/// What a load generator has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoadGeneratorStatistics {
    /// Requests made.
    pub requests: u64,
    /// Requests answered.
    pub responses: u64,
    /// Requests that the transport has given up.
    pub given_up: u64,
    /// Messages that answer no request.
    pub unexpected: u64,
    /// Why messages answer no request.
    pub unexpected_because: UnexpectedMessages,
    /// The largest number of requests that were under way at one time.
    pub max_under_way: u64,
    /// Requests that found no room in the transport, and waited for it.
    pub waits: u64,
}

state::component!(LoadGeneratorStatistics {
    requests: count,
    responses: count,
    given_up: count,
    unexpected: count,
    unexpected_because,
    max_under_way: count,
    waits: count
});

/// What a load generator has to report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadGeneratorReport {
    /// Response times, from when a request was made until the host has the response; `None` if
    /// there was no response.
    pub measurement: Option<Measurement>,
    /// Throughput and response times of the requests of each kind, by its name.
    pub by_kind: BTreeMap<String, KindMeasurement>,
    /// What the client has counted.
    pub statistics: LoadGeneratorStatistics,
    /// What the client's transport has counted.
    pub transport: TransportStatistics,
    /// Why the first request was given up, if one was.
    pub first_given_up: Option<String>,
}

/// Where a message that answers no request is counted.
type Reason = fn(&mut UnexpectedMessages) -> &mut u64;

/// What a timer is for: the upper bits of its token.
mod purpose {
    /// To make requests.
    pub const REQUEST: u64 = 0;
    /// To hand the oldest message over to the transport.
    pub const HAND_OVER: u64 = 1 << 62;
    /// What the transport has asked for; the rest is its token.
    pub const TRANSPORT: u64 = 2 << 62;
    pub const MASK: u64 = 3 << 62;
}

/// A load generator in a network, with one link.
pub struct LoadGenerator {
    name: String,
    spec: LoadGeneratorSpec,
    address: u32,
    servers: Vec<u32>,
    kinds: Vec<Kind>,
    transport: Box<dyn Transport>,
    arrivals: Option<ArrivalProcess>,
    /// How many requests come next, at a time that is in the calendar.
    next_items: u64,
    choice: Random,
    contents: Random,
    service: Random,
    send_latency: Time,
    receive_latency: Time,
    /// Messages on their way to the transport, and when they are there.
    on_the_way: VecDeque<(Time, Message)>,
    /// Messages that the transport has no room for.
    waiting: VecDeque<Message>,
    /// Requests in the order of time, from the first one that is not over.
    requests: VecDeque<Request>,
    /// How many came before these.
    first_request: u64,
    under_way: u64,
    /// When the first and the last request were made.
    made_between: Option<(Time, Time)>,
    /// How many messages of the opening have been sent to each server.
    opened: u64,
    recorder: Recorder,
    statistics: LoadGeneratorStatistics,
    first_given_up: Option<String>,
    actions: Vec<TransportAction>,
}

impl LoadGenerator {
    /// The token with which the timer of a load generator is to be called when it shall begin.
    pub const BEGIN: u64 = purpose::REQUEST;

    /// A load generator that is called `name`, has this address and a link of this rate, and sends
    /// requests to servers with these addresses, each as likely: at least one. It waits for
    /// [`LoadGenerator::BEGIN`]. The description must have passed [`LoadGeneratorSpec::check`]; a
    /// sentence, if a file that it names is not among `files` or cannot be used.
    pub fn new(
        name: String,
        spec: LoadGeneratorSpec,
        (address, rate): (u32, LineRate),
        servers: Vec<u32>,
        recorder: Recorder,
        seed: u64,
        files: &Files,
    ) -> Result<LoadGenerator, String> {
        let sum: f64 = spec.requests.iter().map(|request| request.weight).sum();
        let mut up_to = 0.0;
        let mut kinds = Vec::new();
        for request in &spec.requests {
            up_to += request.weight / sum;
            let service = request.service_times.open(files)?;
            let words = request.words.iter().map(|word| match *word {
                Word::Constant(word) => WordSource::Constant(word),
                Word::Uniform { min, max } => WordSource::Uniform(min, max),
                Word::Zipf {
                    zipf_min,
                    zipf_items,
                    zipf_exponent,
                } => WordSource::Zipf(zipf_min, Zipf::new(zipf_items, zipf_exponent)),
            });
            kinds.push(Kind {
                up_to,
                port: request.port,
                bytes: request.message_bytes(spec.load_bytes()) as usize,
                scale: request.service / service.mean(),
                service,
                words: words.collect(),
                rows: request.rows.clone(),
            });
        }
        let random = |stream| Random::new(seed, stream);
        let arrivals = match spec.offer {
            Offer::Open {
                arrivals,
                rate_mrps,
                burst_length,
            } => Some(ArrivalProcess::new(
                arrivals,
                rate_mrps,
                burst_length,
                random(Stream::Arrivals),
            )),
            Offer::Simultaneous { .. } | Offer::Closed { .. } => None,
        };
        Ok(LoadGenerator {
            transport: spec.transport.open(address, rate),
            send_latency: Time::from_ns(spec.send_latency_ns),
            receive_latency: Time::from_ns(spec.receive_latency_ns),
            name,
            spec,
            address,
            servers,
            kinds,
            arrivals,
            next_items: 0,
            choice: random(Stream::Queues),
            contents: random(Stream::Packets),
            service: random(Stream::ServiceTimes),
            on_the_way: VecDeque::new(),
            waiting: VecDeque::new(),
            requests: VecDeque::new(),
            first_request: 0,
            under_way: 0,
            made_between: None,
            opened: 0,
            recorder,
            statistics: LoadGeneratorStatistics::default(),
            first_given_up: None,
            actions: Vec::new(),
        })
    }

    /// Whether it has measured what it should, or has sent all that it should and waits for
    /// nothing.
    pub fn is_done(&self) -> bool {
        self.recorder.is_done() || (self.is_exhausted() && self.under_way == 0)
    }

    /// Whether it has sent all that it should.
    fn is_exhausted(&self) -> bool {
        self.spec
            .max_requests
            .is_some_and(|most| self.statistics.requests >= most)
    }

    /// The part of its measurement that is done, from 0 to 1; 1 when all is.
    pub fn progress(&self) -> f64 {
        match self.is_done() {
            true => 1.0,
            // There may be as many samples as are wanted, and the warm-up not be over yet.
            false => self.recorder.progress().min(1.0 - f64::EPSILON),
        }
    }

    /// How many requests have been answered.
    pub fn responses(&self) -> u64 {
        self.statistics.responses
    }

    /// What it has measured.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// How many requests have not been answered or given up.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// What its kinds of requests are called, by their numbers in its recorder.
    pub fn kind_names(&self) -> Vec<String> {
        let requests = self.spec.requests.iter();
        requests.map(|request| request.name.clone()).collect()
    }

    /// What there is to report.
    pub fn report(&self) -> LoadGeneratorReport {
        let names = self.kind_names();
        let by_kind = Recorder::by_kind_together(&[&self.recorder], |_, kind| {
            names[usize::from(kind)].clone()
        });
        let measurement = self.recorder.measurement().map(|mut measurement| {
            measurement.add_overload(self.lost());
            measurement
        });
        LoadGeneratorReport {
            measurement,
            by_kind,
            statistics: self.statistics,
            transport: self.transport.statistics(),
            first_given_up: self.first_given_up.clone(),
        }
    }

    /// Requests that have not been served, a sentence for each reason.
    fn lost(&self) -> impl Iterator<Item = String> {
        let since = self.recorder.measures_since();
        let is_old = |request: &&Request| {
            !request.is_over && since.is_some_and(|since| request.sent_at < since)
        };
        let old = self.requests.iter().filter(is_old).count() as u64;
        let lost = [
            lost_requests(self.statistics.given_up, "given up by the transport"),
            lost_requests(old, "made before the measured ones and never answered"),
        ];
        lost.into_iter().flatten()
    }

    /// What it has counted.
    pub fn statistics(&self) -> LoadGeneratorStatistics {
        self.statistics
    }

    /// Says what has become of its requests, in a sentence without its full stop.
    pub fn describe(&self) -> String {
        let LoadGeneratorStatistics {
            requests,
            responses,
            given_up,
            unexpected,
            unexpected_because,
            ..
        } = self.statistics;
        let mut text = format!(
            "{}: {responses} of {requests} requests have been answered, and {} wait",
            self.name, self.under_way
        );
        if given_up > 0 {
            let why = self.first_given_up.as_deref().unwrap_or_default();
            text += &format!("; {given_up} were given up: {why}");
        }
        if unexpected > 0 {
            let why = unexpected_because.describe();
            text += &format!("; messages that answered no request: {unexpected} ({why})");
        }
        text
    }

    /// Sends each server the next message of the opening; whether there was one.
    fn open(&mut self, context: &mut NodeContext<'_>) -> bool {
        let Some(opening) = self.spec.opening.get(self.opened as usize) else {
            return false;
        };
        let payload: Vec<u8> = opening
            .words
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        for &address in &self.servers {
            let port = opening.port;
            self.waiting.push_back(Message {
                from: Endpoint {
                    address: self.address,
                    port: 0,
                },
                to: Endpoint { address, port },
                payload: payload.clone(),
                tag: OPENING_TAG,
            });
        }
        let then = Time::from_ns(opening.then_ns);
        self.opened += 1;
        self.act(context);
        context.wake(context.now() + then, purpose::REQUEST);
        true
    }

    /// It is time for requests.
    fn request_timer(&mut self, context: &mut NodeContext<'_>) {
        if self.open(context) {
            return;
        }
        let has_begun = self.statistics.requests > 0 || self.next_items > 0;
        match self.spec.offer {
            Offer::Open { .. } => {
                for _ in 0..self.next_items {
                    self.make_request(context);
                }
                if let Some(arrivals) = &mut self.arrivals {
                    let arrival = arrivals.next_arrival();
                    self.next_items = arrival.items;
                    self.ask_for_requests(context, arrival.gap);
                }
            }
            Offer::Simultaneous {
                requests_at_once,
                every_ns,
            } => {
                for _ in 0..requests_at_once {
                    self.make_request(context);
                }
                self.ask_for_requests(context, Time::from_ns(every_ns));
            }
            Offer::Closed { clients, .. } => {
                let requests = if has_begun { 1 } else { clients };
                for _ in 0..requests {
                    self.make_request(context);
                }
            }
        }
    }

    fn ask_for_requests(&mut self, context: &mut NodeContext<'_>, after: Time) {
        if !self.is_exhausted() {
            context.wake(context.now() + after, purpose::REQUEST);
        }
    }

    fn make_request(&mut self, context: &mut NodeContext<'_>) {
        if self.is_exhausted() {
            return;
        }
        let now = context.now();
        let kind = match self.kinds.len() {
            1 => 0,
            kinds => {
                let number = self.choice.unit();
                let found = self.kinds.iter().position(|kind| number < kind.up_to);
                found.unwrap_or(kinds - 1)
            }
        };
        let server = match self.servers.len() {
            1 => 0,
            servers => self.choice.below(servers as u64) as usize,
        };
        let from_port = match self.spec.ports {
            1 => 0,
            ports => self.choice.below(u64::from(ports)) as u16,
        };
        let Kind {
            port,
            bytes,
            ref service,
            scale,
            ref words,
            ref rows,
            ..
        } = self.kinds[kind];
        let service = (service.draw(&mut self.service) * scale).round() as u64;
        let mut payload = Vec::with_capacity(bytes);
        if self.spec.stamped {
            payload.extend(service.to_be_bytes());
            payload.extend(now.as_fs().to_be_bytes());
        }
        for word in words {
            let word = match *word {
                WordSource::Constant(word) => word,
                WordSource::Uniform(0, u64::MAX) => self.contents.bits(),
                WordSource::Uniform(least, most) => least + self.contents.below(most - least + 1),
                WordSource::Zipf(least, ref zipf) => {
                    least.wrapping_add(zipf.draw(&mut self.contents) - 1)
                }
            };
            payload.extend(word.to_be_bytes());
        }
        if !rows.is_empty() {
            let row = match rows.len() {
                1 => 0,
                rows => self.contents.below(rows as u64) as usize,
            };
            payload.extend(rows[row].iter().flat_map(|word| word.to_be_bytes()));
        }
        payload.resize(bytes, 0);
        let message = Message {
            from: Endpoint {
                address: self.address,
                port: from_port,
            },
            to: Endpoint {
                address: self.servers[server],
                port,
            },
            payload,
            tag: self.statistics.requests,
        };
        self.requests.push_back(Request {
            sent_at: now,
            server: message.to.address,
            kind: kind as u8,
            under_way: self.under_way + 1,
            is_over: false,
        });
        let (first, _) = self.made_between.unwrap_or((now, now));
        self.made_between = Some((first, now));
        self.statistics.requests += 1;
        self.under_way += 1;
        self.statistics.max_under_way = self.statistics.max_under_way.max(self.under_way);
        if self.send_latency == Time::ZERO {
            self.hand_over(context, message);
        } else {
            let at = now + self.send_latency;
            self.on_the_way.push_back((at, message));
            context.wake(at, purpose::HAND_OVER);
        }
    }

    fn hand_over(&mut self, context: &mut NodeContext<'_>, message: Message) {
        self.waiting.push_back(message);
        self.send_waiting(context.now());
        self.statistics.waits += u64::from(!self.waiting.is_empty());
        self.act(context);
    }

    /// Gives the transport what it has room for.
    fn send_waiting(&mut self, now: Time) {
        while let Some(message) = self.waiting.pop_front() {
            // The transport says of a message whether it takes it, but keeps it only if it does.
            if !self.transport.send(now, message.clone(), &mut self.actions) {
                self.waiting.push_front(message);
                break;
            }
        }
    }

    /// Does what the transport wants.
    fn act(&mut self, context: &mut NodeContext<'_>) {
        self.send_waiting(context.now());
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                TransportAction::Wake(at, token) => {
                    context.wake(at, purpose::TRANSPORT | token);
                }
                TransportAction::GiveUp(tag, why) => {
                    self.statistics.given_up += 1;
                    self.first_given_up.get_or_insert(why);
                    if tag == OPENING_TAG {
                        continue;
                    }
                    self.over((tag - self.first_request) as usize);
                    self.next_of_client(context);
                }
                TransportAction::Deliver(message) => {
                    self.transport.taken(context.now(), &message);
                    self.response(context, &message);
                }
            }
        }
        // What is sent or done above may have asked for more.
        let more = std::mem::replace(&mut self.actions, actions);
        if !more.is_empty() {
            self.actions = more;
            self.act(context);
        }
        context.offer(0);
    }

    fn response(&mut self, context: &mut NodeContext<'_>, message: &Message) {
        if self.statistics.requests == 0 {
            return; // An answer to the opening.
        }
        let place = match self.find(message) {
            Ok(place) => place,
            Err(reason) => {
                self.statistics.unexpected += 1;
                *reason(&mut self.statistics.unexpected_because) += 1;
                return;
            }
        };
        let Request {
            sent_at,
            kind,
            server,
            under_way,
            ..
        } = self.requests[place];
        self.statistics.responses += 1;
        let completed_at = context.now() + self.receive_latency;
        context.note(message, || Step::Answers {
            request: MessageName {
                from: self.address,
                to: server,
                tag: self.first_request + place as u64,
            },
            made_at: sent_at,
            done_at: completed_at,
        });
        self.recorder.add(Sample {
            completed_at,
            latency: completed_at - sent_at,
            service: None,
            queue: self.server(message.from.address),
            kind,
            is_cold: false,
            offered: self.first_request + place as u64 + 1,
            under_way,
        });
        self.over(place);
        self.next_of_client(context);
    }

    /// The number of a server, in the order in which they were given.
    fn server(&self, address: u32) -> u32 {
        let place = self.servers.iter().position(|&server| server == address);
        place.unwrap_or(0) as u32
    }

    /// The place of the request that a message answers: of those that its sender was sent at the
    /// time in it, or at any time, the first that has not been answered. The port is that of the
    /// server, if it has not left the ports as they were, as programs without a transport do. Or
    /// what to count if there is none.
    fn find(&self, message: &Message) -> Result<usize, Reason> {
        let Message {
            from, to, payload, ..
        } = message;
        let is_server = |request: &Request| request.server == from.address;
        let fits = |request: &Request| {
            let port = self.kinds[usize::from(request.kind)].port;
            let is_port = port == from.port || port == to.port;
            !request.is_over && is_server(request) && is_port
        };
        let mut candidates = 0..self.requests.len();
        if self.spec.stamped {
            let Some(word) = payload.get(8..16).and_then(|word| word.try_into().ok()) else {
                return Err(|counts| &mut counts.too_short);
            };
            let sent_at = Time::from_fs(u64::from_be_bytes(word));
            let before = |request: &Request| request.sent_at < sent_at;
            let up_to = |request: &Request| request.sent_at <= sent_at;
            candidates =
                self.requests.partition_point(before)..self.requests.partition_point(up_to);
            if candidates.is_empty() {
                // Those before the first that is not over have been forgotten.
                let first = self.requests.front().map(|request| request.sent_at);
                let was_made = self.made_between.is_some_and(|(least, most)| {
                    (least..=most).contains(&sent_at) && first.is_none_or(|first| sent_at < first)
                });
                return Err(match was_made {
                    true => |counts| &mut counts.over,
                    false => |counts| &mut counts.wrong_time,
                });
            }
        }
        let first = candidates.start;
        let candidates = || self.requests.range(candidates.clone());
        if let Some(place) = candidates().position(fits) {
            return Ok(first + place);
        }
        let waits = |request: &&Request| !request.is_over;
        let mut waiting = candidates().filter(waits);
        Err(match (waiting.clone().next(), self.spec.stamped) {
            (None, true) => |counts| &mut counts.over,
            (None, false) => |counts| &mut counts.none_waits,
            (Some(_), _) if waiting.any(is_server) => |counts| &mut counts.other_port,
            (Some(_), _) => |counts| &mut counts.other_server,
        })
    }

    fn over(&mut self, place: usize) {
        self.requests[place].is_over = true;
        self.under_way -= 1;
        while self.requests.front().is_some_and(|request| request.is_over) {
            self.requests.pop_front();
            self.first_request += 1;
        }
    }

    /// The client of a request that is over goes on.
    fn next_of_client(&mut self, context: &mut NodeContext<'_>) {
        if let Offer::Closed { think_ns, .. } = self.spec.offer {
            self.ask_for_requests(context, self.receive_latency + Time::from_ns(think_ns));
        }
    }
}

impl Node for LoadGenerator {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn packet(&mut self, context: &mut NodeContext<'_>, _port: usize, packet: Packet) {
        self.transport
            .arrived(context.now(), packet, &mut self.actions);
        self.act(context);
    }

    fn timer(&mut self, context: &mut NodeContext<'_>, token: u64) {
        match token & purpose::MASK {
            purpose::REQUEST => self.request_timer(context),
            purpose::HAND_OVER => {
                // Their times are in the order in which they were made.
                if let Some((_, message)) = self.on_the_way.pop_front() {
                    self.hand_over(context, message);
                }
            }
            _ => {
                let token = token & !purpose::MASK;
                self.transport
                    .timer(context.now(), token, &mut self.actions);
                self.act(context);
            }
        }
    }

    fn next_packet(&mut self, context: &mut NodeContext<'_>, _port: usize) -> Option<Packet> {
        let packet = self.transport.next_packet(context.now());
        // A datagram that has left makes room for another one.
        if packet.is_some() && !self.waiting.is_empty() {
            self.act(context);
        }
        packet
    }

    fn walk(&mut self, walker: &mut dyn Walker) {
        self.transport.walk(walker);
        state::fields!(
            self,
            walker,
            LoadGenerator {
                name: fixed,
                spec: fixed,
                address: fixed,
                servers: fixed,
                kinds: fixed,
                transport: fixed,
                arrivals: inside,
                next_items,
                choice,
                contents,
                service,
                send_latency: fixed,
                receive_latency: fixed,
                on_the_way,
                waiting,
                requests,
                first_request,
                under_way,
                made_between,
                opened,
                recorder,
                statistics,
                first_given_up,
                actions: fixed,
            }
        );
    }
}

#[cfg(test)]
mod tests;
