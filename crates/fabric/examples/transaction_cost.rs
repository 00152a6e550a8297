//! The host's cost of simulating a miss that hits in the last-level cache: `cargo run --release -p
//! fabric --example transaction_cost`.

use fabric::{
    AddressRange, CacheId, CacheNotice, CacheSpec, CoreId, DeliveryKind, Fabric, FabricSpec, Inbox,
    LineAddress, Outbox, PrivateCache, Ram, RequestOutcome, Time,
};
use std::time::Instant;

/// Twice the number of lines of a private cache.
const LINES: u64 = 1 << 10;

/// Lets each core miss on one line after another, with `overlap` misses outstanding.
fn run(cores: usize, overlap: usize, write: bool, accesses: u64) -> (f64, f64) {
    let range = AddressRange {
        start: 0,
        length: 1 << 30,
    };
    let ram = Ram::new(vec![range]).expect("the range is valid");
    let mut fabric = Fabric::new(&FabricSpec::default(), ram).expect("the default is valid");
    let mut caches: Vec<PrivateCache> = (0..cores)
        .map(|core| PrivateCache::new(&CacheSpec::default(), CacheId::data(CoreId(core as u16))))
        .collect();
    let mut inboxes: Vec<Inbox> = (0..16).map(|_| Inbox::default()).collect();
    let mut next: Vec<u64> = vec![0; cores];
    let mut out = Outbox::default();
    // Writing cores have lines of their own; readers share lines, at different times.
    let line = |core: usize, number: u64| {
        let own = if write { core as u64 * LINES } else { 0 };
        LineAddress(own + (number + core as u64 * 251) % LINES)
    };
    let window = fabric.minimum_delivery_latency();
    let mut done = 0;
    let mut begin = Instant::now();
    let mut events = 0;
    // The first rounds bring the lines to the last-level cache and make them shared.
    let warm_up = LINES * 3 * cores as u64;
    for (core, cache) in caches.iter_mut().enumerate() {
        for _ in 0..overlap {
            cache.request(line(core, next[core]), write, Time::ZERO, &mut out);
            next[core] += 1;
        }
        fabric.send(CoreId(core as u16), &mut out);
    }
    while done < warm_up + accesses {
        let deliveries = inboxes
            .iter()
            .map(Inbox::next_at)
            .min()
            .unwrap_or(Time::NEVER);
        let end = deliveries.min(fabric.next_event()) + window;
        for core in 0..cores {
            while inboxes[core].next_at() < end {
                let Some(delivery) = inboxes[core].pop() else {
                    break;
                };
                let DeliveryKind::Cache {
                    line: at, message, ..
                } = delivery.kind
                else {
                    continue;
                };
                let cache = &mut caches[core];
                let notice = cache.receive(at, &message, delivery.at, &mut out);
                if let CacheNotice::Filled { .. } = notice {
                    cache.finish_fill(at, delivery.at, &mut out);
                    done += 1;
                    if done == warm_up {
                        begin = Instant::now();
                        events = fabric.statistics().events;
                    }
                    loop {
                        let wanted = line(core, next[core]);
                        next[core] += 1;
                        if cache.find(wanted).is_none() {
                            let sent = cache.request(wanted, write, delivery.at, &mut out);
                            assert_eq!(sent, RequestOutcome::Sent);
                            break;
                        }
                    }
                }
            }
            fabric.send(CoreId(core as u16), &mut out);
        }
        fabric.run_until(end, &mut inboxes);
    }
    let events = fabric.statistics().events - events;
    (
        begin.elapsed().as_nanos() as f64 / accesses as f64,
        events as f64 / accesses as f64,
    )
}

fn main() {
    for (cores, overlap, write) in [(1, 1, false), (16, 1, false), (16, 4, false), (16, 4, true)] {
        // The minimum of several, because other work on the host only adds time.
        let (ns, events) = (0..5)
            .map(|_| run(cores, overlap, write, 500_000))
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .expect("there are five");
        let what = if write { "writes (with PutM)" } else { "reads" };
        println!("{cores} cores, {overlap} at a time, {what}: {ns:.0} ns, {events:.2} events");
    }
}
