//! An ideal queue: some units that serve requests first come, first served, with nothing between
//! arrival, queue and unit.

/// The units of one queue: when each is free, the first one first.
#[derive(Clone, Debug)]
pub struct Units(Vec<f64>);

impl Units {
    /// So many units, all free at time 0.
    pub fn new(units: usize) -> Units {
        Units(vec![0.0; units.max(1)])
    }

    /// Serves a request that arrives at `now`, and returns when that ends.
    #[inline]
    pub fn serve(&mut self, now: f64, service: f64) -> f64 {
        let free = &mut self.0[..];
        let end = free[0].max(now) + service;
        // Takes the first out, and puts the end into its place from the first on.
        let mut place = 0;
        while place + 1 < free.len() && free[place + 1] < end {
            free[place] = free[place + 1];
            place += 1;
        }
        free[place] = end;
        end
    }
}
