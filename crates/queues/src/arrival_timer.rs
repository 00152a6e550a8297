//! When an agent's requests come.

use crate::SharedLedger;
use fabric::{AgentContext, Time};
use workload::{Arrival, ArrivalProcess, TrafficSpec};

/// The timer by which requests come to an agent: those of a warm start first, if there is one, until
/// the agent's timer is set to [`ArrivalTimer::CHANGE`]; none after [`ArrivalTimer::STOP`].
#[derive(Debug, state::State)]
pub struct ArrivalTimer {
    arrivals: ArrivalProcess,
    #[state(inside)]
    warm_arrivals: Option<ArrivalProcess>,
    /// The warm start is over, or there is none.
    is_warm: bool,
    /// Nothing arrives any more.
    #[state(fixed)]
    is_stopped: bool,
    next: Arrival,
}

impl ArrivalTimer {
    /// The token of the next arrival; the lowest bit says whether it is one after the warm start.
    const ARRIVAL: u64 = 5 << 56;
    /// The token of the timer at which the warm start is over: the arrivals change, and what is
    /// delivered from then on is measured.
    pub const CHANGE: u64 = 9 << 56;
    /// The token of the timer after which nothing arrives.
    pub const STOP: u64 = 14 << 56;

    /// That of `traffic`. `warm_start_mrps` is the rate of the warm start, if there is one; see
    /// [`TrafficSpec::warm_arrivals`].
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

    /// Draws the next arrival, and sets the agent's timer to it.
    pub fn await_arrival(&mut self, context: &mut AgentContext<'_>) {
        let arrivals = match &mut self.warm_arrivals {
            Some(arrivals) if !self.is_warm => arrivals,
            _ => &mut self.arrivals,
        };
        self.next = arrivals.next_arrival();
        let token = ArrivalTimer::ARRIVAL | u64::from(self.is_warm);
        context.wake(context.now() + self.next.gap, token);
    }

    /// The agent's timer has this token: returns how many requests come now, if any do. The agent
    /// then awaits the next arrival.
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
        // The next arrival of a warm start that is over has another token.
        let is_arrival = token == ArrivalTimer::ARRIVAL | u64::from(self.is_warm);
        (is_arrival && !self.is_stopped).then_some(self.next.items)
    }
}
