//! The cost of a run on the host.

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The cost of a run on the host. Only these fields of a result may differ between runs, between
/// hosts, and with the table `simulator` of the description; the name of each begins with `host_`,
/// so that one rule excludes them from comparisons.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostCost {
    /// Processor time of the run's thread, in seconds; other work of the host is not included.
    pub host_seconds: f64,
    /// Wall-clock time, in seconds.
    pub host_wall_seconds: f64,
    /// Millions of simulated instructions per second of processor time, without those before a
    /// checkpoint. Absent without instructions to execute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_mips: Option<f64>,
    /// For each core, of a rack server by server: cycles that were not simulated one by one because
    /// the core provably only spun. The number depends on how far cores run ahead of each other.
    /// Absent in functional runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_skipped_cycles: Vec<u64>,
}

/// Measures the cost of a run on the host; the thread that started the measurement must make the
/// run.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    wall: Instant,
    processor: Duration,
}

/// Processor time used by this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is negative; the nanoseconds are always below a second.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl HostClock {
    /// Starts the measurement.
    pub fn start() -> HostClock {
        HostClock {
            wall: Instant::now(),
            processor: processor_time(),
        }
    }

    /// The cost since the start, for `instructions` simulated instructions, if there are any to
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

/// Bytes of memory available to this process on this host; `None` if unknown.
pub(crate) fn available_bytes() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    let of_host = read("/proc/meminfo").and_then(|text| available_of(&text));
    let number = |path| read(path)?.trim().parse::<u64>().ok();
    // A container's limit; "max" means none.
    let most = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current");
    let of_container = most.zip(used).map(|(most, used)| most.saturating_sub(used));
    [of_host, of_container].into_iter().flatten().min()
}

/// `MemAvailable` of Linux's `/proc/meminfo`, which is in KiB.
fn available_of(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_memory_is_read() {
        let text = "MemTotal:  100 kB\nMemFree:  7 kB\nMemAvailable:       42 kB\n";
        assert_eq!(available_of(text), Some(42 * 1024));
        assert_eq!(available_of("MemTotal: 100 kB"), None);
    }

    /// A sleeping thread uses no processor time, while wall-clock time passes.
    #[test]
    fn what_waits_is_not_charged() {
        let clock = HostClock::start();
        std::thread::sleep(Duration::from_millis(50));
        let cost = clock.cost(Some(1_000_000));
        assert!(cost.host_wall_seconds >= 0.05, "{cost:?}");
        assert!(cost.host_seconds < 0.025, "{cost:?}");
        // A million instructions in this number of seconds.
        let mips = cost.host_mips.expect("there were instructions");
        assert!((mips * cost.host_seconds - 1.0).abs() < 1e-9, "{cost:?}");
    }
}
