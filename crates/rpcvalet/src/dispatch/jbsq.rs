//! Join-bounded-shortest-queue (Kogias et al., R2P2, USENIX ATC 2019): the shortest of the cores'
//! queues, if it is shorter than the bound, which is the threshold.

use super::Load;

/// Join-bounded-shortest-queue.
#[derive(Clone, Debug, Default, state::State)]
pub struct Jbsq {
    /// The first core among equals.
    first: usize,
}

impl Jbsq {
    /// The core that gets the next message.
    pub fn choose(&mut self, load: &Load) -> Option<usize> {
        let shortest = load.outstanding.iter().copied().min()?;
        let core = load.next(self.first, |core| load.outstanding[core] == shortest)?;
        load.is_available(core).then(|| {
            self.first = core + 1;
            core
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::load;

    #[test]
    fn the_shortest_queue_is_joined_up_to_the_bound() {
        let mut policy = Jbsq::default();
        assert_eq!(policy.choose(&load(&[3, 1, 2], 4)), Some(1));
        assert_eq!(policy.choose(&load(&[3, 2, 2], 4)), Some(2));
        assert_eq!(policy.choose(&load(&[3, 3, 3], 4)), Some(0));
        assert_eq!(policy.choose(&load(&[4, 4, 4], 4)), None);
    }
}
