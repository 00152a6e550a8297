//! Millions of requests per second of processor time (Linux): `cargo run --release -p queueing
//! --example speed`.

use queueing::QueueingSystem;
use workload::{Files, ServiceTimes};

/// Processor time of this process, which other work on the host does not affect.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|field| field.parse().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

/// The extreme values of RPCValet (Section 5).
fn extreme_values() -> ServiceTimes {
    ServiceTimes::GeneralizedExtremeValue {
        location: 363.0,
        scale: 100.0,
        shape: 0.65,
    }
}

fn main() {
    let distributions = [
        ServiceTimes::Fixed,
        ServiceTimes::Uniform,
        ServiceTimes::Exponential,
        extreme_values(),
    ];
    for (queues, units) in [(1, 16), (4, 4), (16, 1)] {
        for service_times in distributions.clone() {
            let system = QueueingSystem {
                queues,
                units,
                service_times: service_times.clone(),
                fixed_part: 0.0,
                load: 0.8,
                requests: 10_000_000,
                seed: 1,
            };
            let begin = processor_seconds();
            let measured = system.simulate(&Files::default(), |_| true);
            let rate = 11.0 / (processor_seconds() - begin);
            match measured {
                Ok(Some(measured)) => println!(
                    "{queues} x {units}, {service_times:?}: {rate:.1} million a second, p99 {:.2}",
                    measured.latency_service_times.p99
                ),
                other => println!("{other:?}"),
            }
        }
    }
}
