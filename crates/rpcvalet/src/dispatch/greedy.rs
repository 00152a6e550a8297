//! The paper's policy: an available core always gets the head of the queue.
//!
//! The paper does not specify which of several. An idle core comes first, so that no message waits
//! behind another needlessly; equal cores take turns.

use super::Load;

/// Greedy dispatch.
#[derive(Clone, Debug, Default, state::State)]
pub struct Greedy {
    /// The core that is considered first.
    first: usize,
}

impl Greedy {
    /// The core that gets the next message.
    pub fn choose(&mut self, load: &Load) -> Option<usize> {
        let idle = load.next(self.first, |core| load.outstanding[core] == 0);
        let core = idle.or_else(|| load.next(self.first, |core| load.is_available(core)))?;
        self.first = core + 1;
        Some(core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::load;

    #[test]
    fn idle_cores_come_first_and_take_turns() {
        let mut policy = Greedy::default();
        assert_eq!(policy.choose(&load(&[0, 0, 0], 2)), Some(0));
        assert_eq!(policy.choose(&load(&[1, 0, 0], 2)), Some(1));
        assert_eq!(policy.choose(&load(&[0, 1, 1], 2)), Some(0));
        assert_eq!(policy.choose(&load(&[1, 1, 1], 2)), Some(1));
        assert_eq!(policy.choose(&load(&[1, 2, 1], 2)), Some(2));
        assert_eq!(policy.choose(&load(&[2, 2, 2], 2)), None);
        // With a threshold of one, only idle cores are available.
        assert_eq!(policy.choose(&load(&[1, 1, 1], 1)), None);
    }
}
