//! The report of a load generator.

use crate::packet::TransportStatistics;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use workload::{KindMeasurement, Measurement, ReplyCounts};

/// Messages that answer no request, by the first reason that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct UnexpectedMessages {
    /// The message ends before the two words that identify a response.
    pub too_short: u64,
    /// No request was created at the time in the second word of the message.
    pub wrong_time: u64,
    /// The request is over: it has been answered, or the transport has given it up.
    pub over: u64,
    /// No outstanding request was sent to the server from which the message comes.
    pub other_server: u64,
    /// A request was sent to that server, but to another port.
    pub other_port: u64,
    /// No request waits for an answer.
    pub none_waits: u64,
}

impl UnexpectedMessages {
    /// Lists the number of messages for each reason that occurred.
    pub(super) fn describe(&self) -> String {
        let told = [
            (
                self.too_short,
                "shorter than the 16 bytes with which a response begins",
            ),
            (
                self.wrong_time,
                "with a second word that is not the one of a request (a response begins with the \
                 first two words of its request; `stamped = false` is for programs whose messages \
                 have none)",
            ),
            (
                self.over,
                "to requests that had been answered or given up before",
            ),
            (
                self.other_server,
                "from a server that had no outstanding request",
            ),
            (
                self.other_port,
                "from another port than that of the request",
            ),
            (self.none_waits, "when no request was outstanding"),
        ];
        let told = told.iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = told
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        told.join(", ")
    }
}

/// Counts of a load generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
pub struct LoadGeneratorStatistics {
    /// Requests made.
    #[state(count)]
    pub requests: u64,
    /// Requests answered.
    #[state(count)]
    pub responses: u64,
    /// Requests that the transport has given up.
    #[state(count)]
    pub given_up: u64,
    /// Messages that answer no request.
    #[state(count)]
    pub unexpected: u64,
    /// The reasons why messages answer no request.
    pub unexpected_because: UnexpectedMessages,
    /// The maximum number of requests in flight.
    #[state(count)]
    pub max_under_way: u64,
    /// Requests that found no room in the transport, and waited for it.
    #[state(count)]
    pub waits: u64,
}

/// The report of a load generator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadGeneratorReport {
    /// Response times, from the creation of a request until the host has the response; `None` if
    /// there was no response.
    pub measurement: Option<Measurement>,
    /// Throughput and response times of the requests of each kind, by its name.
    pub by_kind: BTreeMap<String, KindMeasurement>,
    /// Counts of the client.
    pub statistics: LoadGeneratorStatistics,
    /// Replies to operations, by status; absent if the client sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replies: Option<ReplyCounts>,
    /// Counts of the client's transport.
    pub transport: TransportStatistics,
    /// The reason why the first request was given up, if one was.
    pub first_given_up: Option<String>,
}
