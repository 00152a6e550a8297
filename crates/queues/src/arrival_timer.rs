//! The arrival times of an agent's requests.

use crate::SharedLedger;
use fabric::{AgentContext, Time};
use workload::{Arrival, ArrivalProcess, TrafficSpec};

/// The timer for arrivals of requests at an agent: first those of a warm start, if there is one,
/// until the agent's timer for [`ArrivalTimer::CHANGE`]; none after [`ArrivalTimer::STOP`].
#[derive(Debug, state::State)]
pub struct ArrivalTimer {
    arrivals: ArrivalProcess,
    #[state(inside)]
    warm_arrivals: Option<ArrivalProcess>,
    /// Whether the warm start is over, or there is none.
    is_warm: bool,
    /// Whether arrivals have stopped.
    #[state(fixed)]
    is_stopped: bool,
    next: Arrival,
}

impl ArrivalTimer {
    /// The token of the next arrival; the lowest bit is set for an arrival of the warm start.
    const ARRIVAL: u64 = 5 << 56;
    /// The token of the timer for the end of the warm start: the arrival process changes, and later
    /// deliveries are measured.
    pub const CHANGE: u64 = 9 << 56;
    /// The token of the timer for the end of arrivals.
    pub const STOP: u64 = 14 << 56;

    /// The timer for `traffic`. `warm_start_mrps` is the rate of the warm start, if there is one;
    /// see [`TrafficSpec::warm_arrivals`].
    pub fn new(
        traffic: &TrafficSpec,
        warm_start_mrps: Option<Option<f64>>,
        seed: u64,
    ) -> ArrivalTimer {
        ArrivalTimer {
            arrivals: traffic.arrival_process(seed),
            warm_arrivals: warm_start_mrps.map(|rate| traffic.warm_arrivals(rate, seed)),
            is_warm: warm_start_mrps.is_none(),
            is_stopped: false,
            next: Arrival {
                gap: Time::ZERO,
                items: 0,
            },
        }
    }

    /// Draws the next arrival, and sets the agent's timer for it.
    pub fn await_arrival(&mut self, context: &mut AgentContext<'_>) {
        let arrivals = match &mut self.warm_arrivals {
            Some(arrivals) if !self.is_warm => arrivals,
            _ => &mut self.arrivals,
        };
        self.next = arrivals.next_arrival();
        let token = ArrivalTimer::ARRIVAL | u64::from(self.is_warm);
        context.wake(context.now() + self.next.gap, token);
    }

    /// Handles an expired timer with this token: returns the number of requests that arrive now, if
    /// any. The agent then awaits the next arrival.
    pub fn due(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        ledger: &SharedLedger,
    ) -> Option<u64> {
        if token == ArrivalTimer::CHANGE {
            self.is_warm = true;
            ledger.borrow_mut().measure();
            self.await_arrival(context);
        }
        self.is_stopped |= token == ArrivalTimer::STOP;
        // A pending arrival of a warm start that is over has another token.
        let is_arrival = token == ArrivalTimer::ARRIVAL | u64::from(self.is_warm);
        (is_arrival && !self.is_stopped).then_some(self.next.items)
    }
}
