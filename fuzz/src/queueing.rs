use super::input::replace_numbers;
use queueing::Description;
use serde_json::{Value, json};
use workload::Files;

/// Looks at the progress after which nobody waits for the result.
const MAX_LOOKS: u32 = 100;

/// Any text, and any numbers for the queueing model: they are refused in a sentence, or what comes
/// out has its quantiles in order and serves no more than there are units.
pub fn queueing(bytes: &[u8]) {
    if let Ok(description) = serde_json::from_slice::<Description>(bytes) {
        return simulated(&description);
    }
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    let service_times: Value = match kind % 5 {
        0 => json!({"distribution": "fixed"}),
        1 => json!({"distribution": "uniform"}),
        2 => json!({"distribution": "exponential"}),
        3 => json!({
            "distribution": "generalized-extreme-value", "location": 363.0, "scale": 100.0, "shape": 0.65,
        }),
        _ => json!({"distribution": "recorded", "file": "times"}),
    };
    let mut value = json!({"queueing": {
        "queues": 4, "units": 2, "service_times": service_times, "fixed_part": 0.5, "load": 0.5,
        "requests": 3000, "seed": 1,
    }});
    replace_numbers(&mut value, &mut bytes.iter().copied());
    if let Ok(description) = serde_json::from_value::<Description>(value) {
        simulated(&description);
    }
}

fn simulated(description: &Description) {
    let times = b"service_time_ns,count\n100,3\n250.5,1\n".to_vec();
    let files = Files::new([("times".to_string(), times)].into());
    let mut looks = 0;
    let measured = description.queueing.simulate(&files, |_| {
        looks += 1;
        looks < MAX_LOOKS
    });
    match measured {
        Ok(None) => {}
        Ok(Some(measured)) => {
            let latencies = &measured.latency_service_times;
            let quantiles = [latencies.p50, latencies.p90, latencies.p99, latencies.p999];
            assert!(quantiles.is_sorted(), "{quantiles:?}");
            assert!(latencies.mean.is_finite() && latencies.mean >= 0.0);
            assert!(measured.throughput.is_finite() && measured.throughput > 0.0);
            assert_eq!(measured.keeps_up, measured.overload.is_empty());
        }
        Err(sentence) => assert!(!sentence.is_empty()),
    }
}
