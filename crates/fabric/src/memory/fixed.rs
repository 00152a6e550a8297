//! Every read takes the same time from the start of its service. Requests are served in the order
//! of arrival, at intervals given by the bandwidth, so all times are known when a request arrives.

use super::{Controller, Decisions, MemoryRequest};
use crate::{LINE_BYTES, MemorySpec, Time};

#[derive(Clone, Debug, state::State)]
pub(super) struct Fixed {
    /// The time at which the channel has carried all requests so far.
    free: Time,
    #[state(fixed)]
    latency: Time,
    #[state(fixed)]
    occupancy: Time,
}

impl Fixed {
    pub(super) fn new(spec: &MemorySpec) -> Fixed {
        Fixed {
            free: Time::ZERO,
            latency: Time::from_ns(spec.latency_ns),
            occupancy: Time::from_ns(LINE_BYTES as f64 / spec.bandwidth_gb_per_s),
        }
    }
}

impl Controller for Fixed {
    fn ask(&mut self, now: Time, request: MemoryRequest, decisions: &mut Decisions) {
        let start = self.free.max(now);
        self.free = start + self.occupancy;
        decisions.queueing += start - now;
        if let Some(ticket) = request.read {
            let answer = (start + self.latency, request.line, ticket);
            decisions.answers.push(answer);
        }
    }

    fn wake(&mut self, _now: Time, _decisions: &mut Decisions) {}
}
