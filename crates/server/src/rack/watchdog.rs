//! Detection of a rack that will never be done.

use fabric::Time;
use network::LoadGenerator;
use network::rack::Node;

/// After this long without a recognised response, a waiting client is stuck; after this long
/// without a packet from anyone, the rack is stuck.
const PATIENCE_NS: f64 = 50e6;
/// A client is also stuck after this many failures in a row: a message that answers none of its
/// requests, or a request that its transport gave up.
const MAX_FAILURES: u64 = 1000;

/// The state of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Number of responses received.
    responses: u64,
    /// Number of failures before the last of them.
    failures: u64,
    /// Its waiting time since then, over the intervals at both ends of which it was waiting.
    waited: Time,
    /// Whether it was waiting at the last check: an interval without events may be long.
    was_waiting: bool,
}

/// Checks a rack at intervals. The result depends only on the rack's past events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchdog {
    looked_at: Time,
    clients: Vec<Waiting>,
    packets: u64,
    /// The time since the last packet.
    quiet: Time,
}

impl Watchdog {
    /// A watchdog for a rack with `clients` clients, starting at `now`.
    pub(crate) fn new(now: Time, clients: usize) -> Watchdog {
        Watchdog {
            looked_at: now,
            clients: vec![Waiting::default(); clients],
            ..Watchdog::default()
        }
    }

    /// Checks the clients at time `at`, by which `packets` packets have been sent: a sentence
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
