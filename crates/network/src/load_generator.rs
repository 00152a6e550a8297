//! A host that sends requests to servers and measures their response times: nanoPU's load generator
//! (OSDI 2021, Section 5.2.2), as a node of a network.
//!
//! A request is a message of big-endian words: a service time, the time at which it was sent, and
//! the program's arguments. A response begins with the same two words, which identify its request.
//! They can be left out for programs whose messages do not have them.

mod report;
mod spec;

use crate::packet::{Endpoint, Message, Packet, Transport, TransportAction};
use crate::rack::{LineRate, MessageName, Node, NodeContext, Step};
use crate::transport::Protocol;
use fabric::Time;
use state::Walker;
use std::collections::VecDeque;
use workload::Zipf;
use workload::{
    ArrivalProcess, Asked, Distribution, Files, Operations, Random, Recorder, Replies, Sample,
    Stream, lost_requests,
};

pub use self::report::{LoadGeneratorReport, LoadGeneratorStatistics, UnexpectedMessages};
use self::spec::LOAD_BYTES;
pub use self::spec::{AddressSpan, LoadGeneratorSpec, Offer, RequestSpec, Word};

/// The tag of opening messages; that of a request is its number.
const OPENING_TAG: u64 = u64::MAX;

/// A source of a word's values.
#[derive(Clone, Debug)]
enum WordSource {
    Constant(u64),
    Uniform(u64, u64),
    Zipf(u64, Zipf),
}

/// A source of requests of one kind.
#[derive(Clone, Debug)]
struct Kind {
    /// The cumulative probability of the kinds up to this one.
    up_to: f64,
    port: u16,
    bytes: usize,
    service: Distribution,
    scale: f64,
    words: Vec<WordSource>,
    rows: Vec<Vec<u64>>,
}

/// A request that is outstanding, or was sent after an outstanding one.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Request {
    sent_at: Time,
    server: u32,
    kind: u8,
    /// The number of requests in flight when it was made, including itself.
    under_way: u64,
    is_over: bool,
    /// The expected reply, if it is an operation of a store.
    asked: Asked,
}

/// The counter of a reason for which a message answers no request.
type Reason = fn(&mut UnexpectedMessages) -> &mut u64;

/// The purpose of a timer, in the upper bits of its token.
mod purpose {
    /// Make requests.
    pub const REQUEST: u64 = 0;
    /// Hand the oldest message over to the transport.
    pub const HAND_OVER: u64 = 1 << 62;
    /// The transport's timer; the remaining bits are the transport's token.
    pub const TRANSPORT: u64 = 2 << 62;
    pub const MASK: u64 = 3 << 62;
}

/// A load generator in a network. It sends from its first port, and receives from all ports.
#[derive(state::State)]
#[state(fields)]
pub struct LoadGenerator {
    #[state(fixed)]
    name: String,
    #[state(fixed)]
    spec: LoadGeneratorSpec,
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    servers: Vec<u32>,
    #[state(fixed)]
    kinds: Vec<Kind>,
    /// The source of requests for stores, in place of `kinds`.
    #[state(fixed)]
    operations: Option<Operations>,
    /// Checks the stores' replies.
    #[state(inside)]
    replies: Option<Replies>,
    /// The first wrong reply.
    wrong: Option<String>,
    /// It makes no more requests.
    #[state(fixed)]
    is_stopped: bool,
    #[state(fixed)]
    transport: Box<dyn Transport>,
    #[state(inside)]
    arrivals: Option<ArrivalProcess>,
    /// The number of requests at the next request timer.
    next_items: u64,
    choice: Random,
    contents: Random,
    service: Random,
    #[state(fixed)]
    send_latency: Time,
    #[state(fixed)]
    receive_latency: Time,
    /// Messages between the host and the transport, with the times at which they reach the
    /// transport.
    on_the_way: VecDeque<(Time, Message)>,
    /// Messages that wait for a buffer of the transport.
    waiting: VecDeque<Message>,
    /// Requests in order of time, from the first outstanding one.
    requests: VecDeque<Request>,
    /// The number of the first of these requests.
    first_request: u64,
    under_way: u64,
    /// The times at which the first and the last request were made.
    made_between: Option<(Time, Time)>,
    /// The number of opening messages that have been sent to each server.
    opened: u64,
    recorder: Recorder,
    statistics: LoadGeneratorStatistics,
    first_given_up: Option<String>,
    #[state(fixed)]
    actions: Vec<TransportAction>,
}

impl LoadGenerator {
    /// The token of the timer call that starts a load generator.
    pub const BEGIN: u64 = purpose::REQUEST;

    /// A load generator called `name`, with this address and a link of this rate. It sends requests
    /// to the servers with these addresses, at least one, with equal probability, and starts at
    /// [`LoadGenerator::BEGIN`]. `is_alone`: no other host sends requests to these servers. The
    /// description must have passed [`LoadGeneratorSpec::check`]. The error is a sentence about a
    /// file that is not among `files` or cannot be used.
    pub fn new(
        name: String,
        spec: LoadGeneratorSpec,
        (address, rate): (u32, LineRate),
        (servers, is_alone): (Vec<u32>, bool),
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
        let operations = spec.operations.as_ref();
        let replies = operations.map(|spec| Replies::new(spec, is_alone));
        let operations = operations.map(Operations::new);
        Ok(LoadGenerator {
            transport: spec.transport.open(address, rate),
            send_latency: Time::from_ns(spec.send_latency_ns),
            receive_latency: Time::from_ns(spec.receive_latency_ns),
            name,
            spec,
            address,
            servers,
            kinds,
            operations,
            replies,
            wrong: None,
            is_stopped: false,
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

    /// Whether the measurement is complete, or all requests have been sent and none is outstanding.
    pub fn is_done(&self) -> bool {
        self.recorder.is_done() || (self.is_exhausted() && self.under_way == 0)
    }

    /// Whether all requests have been sent.
    fn is_exhausted(&self) -> bool {
        let most = self.spec.max_requests;
        self.is_stopped || most.is_some_and(|most| self.statistics.requests >= most)
    }

    /// Stops making requests. Its measurement must be read before.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Whether its transport retransmits lost packets.
    pub fn sends_again(&self) -> bool {
        self.spec.transport.protocol != Protocol::Datagrams
    }

    /// The first wrong reply, in a sentence.
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// The completed fraction of its measurement, from 0 to 1.
    pub fn progress(&self) -> f64 {
        match self.is_done() {
            true => 1.0,
            // All samples may be there before the warm-up is over.
            false => self.recorder.progress().min(1.0 - f64::EPSILON),
        }
    }

    /// The number of answered requests.
    pub fn responses(&self) -> u64 {
        self.statistics.responses
    }

    /// Its measurement.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The number of requests in flight, neither answered nor given up.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// The names of its kinds of requests, by their numbers in its recorder.
    pub fn kind_names(&self) -> Vec<String> {
        if self.operations.is_some() {
            return Operations::kind_names();
        }
        let requests = self.spec.requests.iter();
        requests.map(|request| request.name.clone()).collect()
    }

    /// Its report.
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
            replies: self.replies.as_ref().map(Replies::counts),
            transport: self.transport.statistics(),
            first_given_up: self.first_given_up.clone(),
        }
    }

    /// Requests that have not been served: a sentence for each reason.
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

    /// Its counters.
    pub fn statistics(&self) -> LoadGeneratorStatistics {
        self.statistics
    }

    /// Describes the fate of its requests in a sentence without the full stop.
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

    /// Sends each server the next opening message; returns whether there was one.
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

    /// Makes the requests whose time has come.
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
                requests_per_burst,
                every_ns,
            } => {
                for _ in 0..requests_per_burst {
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

    /// Draws a request made at `now`: its kind, which is `kind` unless `operations` replaces kinds,
    /// its port and its bytes.
    fn draw(&mut self, kind: usize, now: Time) -> (u8, u16, Vec<u8>) {
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
        if let Some(operations) = &self.operations {
            let head = payload.len();
            operations.append_next(&mut self.contents, &mut payload);
            return (Operations::kind(&payload[head..]), port, payload);
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
        (kind as u8, port, payload)
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
        let (kind, port, payload) = self.draw(kind, now);
        let mut asked = Asked::default();
        if let Some(replies) = &mut self.replies {
            let request = payload.get(LOAD_BYTES as usize..).unwrap_or_default();
            asked = replies.ask(request, self.servers[server], now);
        }
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
            kind,
            under_way: self.under_way + 1,
            is_over: false,
            asked,
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

    /// Hands waiting messages over to the transport until it refuses one.
    fn send_waiting(&mut self, now: Time) {
        while let Some(message) = self.waiting.pop_front() {
            // The transport consumes a message even if it refuses it, so it gets a copy.
            if !self.transport.send(now, message.clone(), &mut self.actions) {
                self.waiting.push_front(message);
                break;
            }
        }
    }

    /// Performs the transport's actions.
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
        // Performing actions may have produced further ones.
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
            asked,
            ..
        } = self.requests[place];
        self.statistics.responses += 1;
        if let Some(replies) = &mut self.replies {
            let reply = message.payload.get(LOAD_BYTES as usize..);
            let oldest = self.requests.front().map_or(sent_at, |one| one.sent_at);
            let times = [sent_at, context.now(), oldest];
            let checked = replies.check(&asked, server, reply.unwrap_or_default(), times);
            if let Err(what) = checked
                && self.wrong.is_none()
            {
                let from = std::net::Ipv4Addr::from(server);
                let number = self.first_request + place as u64;
                self.wrong = Some(format!(
                    "{} has got a wrong reply from {from} to request {number}, which is a {}: \
                     {what}",
                    self.name,
                    self.kind_names()[usize::from(kind)]
                ));
            }
        }
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

    /// The index of a server, in the order in which they were given.
    fn server(&self, address: u32) -> u32 {
        let place = self.servers.iter().position(|&server| server == address);
        place.unwrap_or(0) as u32
    }

    /// The index of the request that a message answers: the first outstanding one that was sent to
    /// the message's sender, at the time in the message if requests are stamped. The sender's port
    /// must be the request's, unless the server has left source and destination ports unchanged, as
    /// programs without a transport do. The error is the counter of the reason if there is no such
    /// request.
    fn find(&self, message: &Message) -> Result<usize, Reason> {
        let Message {
            from, to, payload, ..
        } = message;
        let is_server = |request: &Request| request.server == from.address;
        let fits = |request: &Request| {
            let kind = self.kinds.get(usize::from(request.kind));
            // Operations go to the port of the only kind of requests.
            let port = kind.unwrap_or(&self.kinds[0]).port;
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
                // Requests before the first outstanding one have been removed.
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
        // The reply identifies its operation among those that were sent at the same time.
        let reply = payload.get(LOAD_BYTES as usize..).unwrap_or_default();
        let is_its_own = |request: &Request| fits(request) && request.asked.is_answered_by(reply);
        let of_operation = match self.operations {
            Some(_) => candidates().position(is_its_own),
            None => None,
        };
        if let Some(place) = of_operation.or_else(|| candidates().position(fits)) {
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

    /// The client of a finished request continues.
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

    fn packet(&mut self, context: &mut NodeContext<'_>, _port: usize, mut packet: Packet) {
        // A forwarder that does not modify frames has returned one unchanged: it is an answer.
        if packet.from.address == self.address {
            std::mem::swap(&mut packet.from, &mut packet.to);
        }
        self.transport
            .arrived(context.now(), packet, &mut self.actions);
        self.act(context);
    }

    fn timer(&mut self, context: &mut NodeContext<'_>, token: u64) {
        match token & purpose::MASK {
            purpose::REQUEST => self.request_timer(context),
            purpose::HAND_OVER => {
                // They are in order of time.
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
        let mut packet = self.transport.next_packet(context.now());
        if let (Some(packet), Some(span)) = (&mut packet, self.spec.destinations) {
            let [first, last] = [span.first, span.last].map(u32::from);
            let place = self.contents.below(u64::from(last - first) + 1) as u32;
            packet.routed_to = Some(first + place);
        }
        // A datagram that has left frees its buffer.
        if packet.is_some() && !self.waiting.is_empty() {
            self.act(context);
        }
        packet
    }
}

impl state::State for LoadGenerator {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.transport.walk(walker);
        self.walk_fields(walker);
    }
}

#[cfg(test)]
mod tests;
