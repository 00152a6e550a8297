//! Notices that a rack will never be done.

use fabric::Time;
use network::LoadGenerator;
use network::rack::Node;

/// After this long without a recognised response, a waiting client is stuck; after this long
/// without a packet from anyone, the rack is stuck.
const PATIENCE_NS: f64 = 50e6;
/// A client is also stuck after this many failures in a row: a message that answers none of its
/// requests, or a request that its transport gave up.
const MAX_FAILURES: u64 = 1000;

/// What is known of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Responses that it has got.
    responses: u64,
    /// Failures before the last of them.
    failures: u64,
    /// For how long it has waited since, as far as it was waiting at two looks one after the other.
    waited: Time,
    /// Whether it was at the last one: what lies between two looks may be long, if nothing happens
    /// in it.
    was_waiting: bool,
}

/// Looks at a rack now and then. What it says depends only on what has happened in it by then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchdog {
    looked_at: Time,
    clients: Vec<Waiting>,
    packets: u64,
    /// For how long nobody has sent a packet.
    quiet: Time,
}

impl Watchdog {
    /// Of a rack with so many clients, which is at `now`.
    pub(crate) fn new(now: Time, clients: usize) -> Watchdog {
        Watchdog {
            looked_at: now,
            clients: vec![Waiting::default(); clients],
            ..Watchdog::default()
        }
    }

    /// Looks at the clients `at` a time, up to which so many packets have been sent: a sentence
    /// without its full stop, if the rack will never be done.
    pub(crate) fn look<'a>(
        &mut self,
        at: Time,
        packets: u64,
        clients: impl Iterator<Item = &'a LoadGenerator>,
    ) -> Option<String> {
        let since = at.saturating_sub(std::mem::replace(&mut self.looked_at, at));
        let patience = Time::from_ns(PATIENCE_NS);
        let milliseconds = PATIENCE_NS / 1e6;
        let mut will_send = false;
        for (client, waiting) in clients.zip(&mut self.clients) {
            let counted = client.statistics();
            let failures = counted.unexpected + counted.given_up;
            if client.is_done() || counted.responses > waiting.responses {
                *waiting = Waiting {
                    responses: counted.responses,
                    failures,
                    ..Waiting::default()
                };
            } else if waiting.was_waiting && client.under_way() > 0 {
                waiting.waited = waiting.waited.saturating_add(since);
            }
            waiting.was_waiting = client.under_way() > 0;
            will_send |= !client.is_done() && client.under_way() == 0;
            let name = client.name();
            if waiting.waited > patience {
                return Some(format!(
                    "{name} has waited for {milliseconds} ms of simulated time for a response \
                     that it recognises"
                ));
            }
            if failures - waiting.failures >= MAX_FAILURES {
                return Some(format!(
                    "{name} has failed {MAX_FAILURES} times, one after the other, to get a \
                     response that it recognises"
                ));
            }
        }
        // A client that waits for nothing is between two requests.
        let is_quiet = packets == std::mem::replace(&mut self.packets, packets) && !will_send;
        self.quiet = match is_quiet {
            true => self.quiet.saturating_add(since),
            false => Time::ZERO,
        };
        (self.quiet > patience)
            .then(|| format!("nobody has sent a packet for {milliseconds} ms of simulated time"))
    }
}
