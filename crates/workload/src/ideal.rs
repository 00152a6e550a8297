//! An ideal queue: units that serve requests first come, first served, without delays between
//! arrival, queue and unit.

/// The times at which the units of one queue become free, in ascending order.
#[derive(Clone, Debug)]
pub struct Units(Vec<f64>);

impl Units {
    /// `units` units, all free at time 0.
    pub fn new(units: usize) -> Units {
        Units(vec![0.0; units.max(1)])
    }

    /// Serves a request that arrives at `now`; returns the end of its service.
    #[inline]
    pub fn serve(&mut self, now: f64, service: f64) -> f64 {
        let free = &mut self.0[..];
        let end = free[0].max(now) + service;
        // Removes the first time, and inserts the end of the service in order.
        let mut place = 0;
        while place + 1 < free.len() && free[place + 1] < end {
            free[place] = free[place + 1];
            place += 1;
        }
        free[place] = end;
        end
    }
}
