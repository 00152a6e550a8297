//! What a run has cost the host.

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What a run has cost the host. Of a result this is all that may differ from one run to the next,
/// from host to host, and with the table `simulator` of the description; the name of each field
/// begins with `host_`, so that one rule leaves it out of comparisons.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostCost {
    /// Processor time of the thread that has made the run, in seconds: what else the host does is
    /// not in it.
    pub host_seconds: f64,
    /// Seconds on the wall clock.
    pub host_wall_seconds: f64,
    /// Millions of simulated instructions in a second of processor time, without those that a
    /// checkpoint has brought. Absent without instructions to execute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_mips: Option<f64>,
    /// For each core, of a rack server by server: cycles that were not simulated one by one because
    /// the core provably only spun. How many depends on how far cores run ahead of each other.
    /// Absent without cores that have times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_skipped_cycles: Vec<u64>,
}

/// Measures what a run costs the host, which the thread that has started it must make.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    wall: Instant,
    processor: Duration,
}

/// Processor time that this thread has had.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is negative; a nanosecond is always below a second.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl HostClock {
    /// Begins to measure.
    pub fn start() -> HostClock {
        HostClock {
            wall: Instant::now(),
            processor: processor_time(),
        }
    }

    /// What has been spent since then, on `instructions` that were simulated, if there are any to
    /// simulate.
    pub fn cost(&self, instructions: Option<u64>) -> HostCost {
        let seconds = (processor_time() - self.processor).as_secs_f64();
        HostCost {
            host_seconds: seconds,
            host_wall_seconds: self.wall.elapsed().as_secs_f64(),
            host_mips: instructions.map(|instructions| instructions as f64 / seconds / 1e6),
            host_skipped_cycles: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that sleeps has no processor time, and the clock on the wall goes on.
    #[test]
    fn what_waits_is_not_charged() {
        let clock = HostClock::start();
        std::thread::sleep(Duration::from_millis(50));
        let cost = clock.cost(Some(1_000_000));
        assert!(cost.host_wall_seconds >= 0.05, "{cost:?}");
        assert!(cost.host_seconds < 0.025, "{cost:?}");
        // A million instructions in so many seconds.
        let mips = cost.host_mips.expect("there were instructions");
        assert!((mips * cost.host_seconds - 1.0).abs() < 1e-9, "{cost:?}");
    }
}
