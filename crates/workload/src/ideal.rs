//! An ideal queue: units that serve requests first come, first served, without delays between
//! arrival, queue and unit.

/// The times at which the units of one queue become free, in ascending order.
#[derive(Clone, Debug)]
pub struct Units {
    /// A ring whose length is a power of two, so that no unit moves when the first one leaves.
    times: Box<[f64]>,
    first: usize,
    count: usize,
}

impl Units {
    /// `units` units, all free at time 0.
    pub fn new(units: usize) -> Units {
        let count = units.max(1);
        Units {
            times: vec![0.0; count.next_power_of_two()].into(),
            first: 0,
            count,
        }
    }

    /// Serves a request that arrives at `now`; returns the end of its service.
    #[inline]
    pub fn serve(&mut self, now: f64, service: f64) -> f64 {
        let times = &mut self.times[..];
        let mask = times.len() - 1;
        let end = times[self.first & mask].max(now) + service;
        // Removes the first time, and inserts the end of the service in order, from the back:
        // services of similar length end in their order.
        let mut place = self.first + self.count;
        self.first += 1;
        while place > self.first && times[(place - 1) & mask] > end {
            times[place & mask] = times[(place - 1) & mask];
            place -= 1;
        }
        times[place & mask] = end;
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Stream};

    #[test]
    fn requests_go_to_the_unit_that_becomes_free_first() {
        let mut random = Random::new(1, Stream::ControlVariates);
        for count in [1, 2, 3, 16, 17] {
            let mut units = Units::new(count);
            let mut free = vec![0.0_f64; count];
            let mut now = 0.0;
            for _ in 0..1000 {
                now += random.exponential();
                let service = count as f64 * random.exponential();
                free.sort_unstable_by(f64::total_cmp);
                free[0] = free[0].max(now) + service;
                assert_eq!(units.serve(now, service), free[0]);
            }
        }
    }
}
