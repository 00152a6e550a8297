//! A policy that knows request types: some cores are reserved for short requests, so that these
//! never find all cores busy with long ones. Each type is served in order; short ones go first.

use super::{Greedy, Load};
use crate::spec::DispatchSpec;
use fabric::LineData;

/// Short requests.
const SHORT: usize = 0;
/// Long requests.
const LONG: usize = 1;

/// Type-aware dispatch.
#[derive(Clone, Debug, state::State)]
pub struct TypeAware {
    #[state(fixed)]
    type_offset: usize,
    #[state(fixed)]
    long_from: u32,
    #[state(fixed)]
    short_cores: usize,
    any: Greedy,
    /// The core that is considered first for long requests.
    first: usize,
}

impl TypeAware {
    /// The policy described by `spec`.
    pub fn new(spec: &DispatchSpec) -> TypeAware {
        TypeAware {
            type_offset: spec.type_offset as usize,
            long_from: spec.long_from,
            short_cores: spec.short_cores as usize,
            any: Greedy::default(),
            first: 0,
        }
    }

    /// The class of the request with this first block: short or long.
    pub fn class(&self, first_block: &LineData) -> usize {
        let number = first_block.read(self.type_offset, 4) as u32;
        if number.swap_bytes() < self.long_from {
            SHORT
        } else {
            LONG
        }
    }

    /// The core for the next message of a class. A long message is not queued at a core, where it
    /// would delay short ones.
    pub fn choose(&mut self, class: usize, load: &Load) -> Option<usize> {
        if class == SHORT {
            return self.any.choose(load);
        }
        let first = self.short_cores;
        let is_idle = |core: usize| core >= first && load.outstanding[core] == 0;
        let core = load.next(self.first, is_idle)?;
        self.first = core + 1;
        Some(core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::load;

    #[test]
    fn long_requests_leave_some_cores_alone() {
        let mut policy = TypeAware::new(&DispatchSpec {
            short_cores: 2,
            long_from: 1000,
            type_offset: 48,
            ..DispatchSpec::default()
        });
        let of = |number: u32| {
            let mut block = LineData::ZERO;
            block.0[48..52].copy_from_slice(&number.to_be_bytes());
            block
        };
        assert_eq!(
            (policy.class(&of(999)), policy.class(&of(1000))),
            (SHORT, LONG)
        );
        assert_eq!(policy.choose(LONG, &load(&[0, 0, 0, 0], 2)), Some(2));
        assert_eq!(policy.choose(LONG, &load(&[0, 0, 1, 0], 2)), Some(3));
        assert_eq!(policy.choose(LONG, &load(&[0, 0, 1, 1], 2)), None);
        assert_eq!(policy.choose(SHORT, &load(&[0, 0, 1, 1], 2)), Some(0));
        assert_eq!(policy.choose(SHORT, &load(&[2, 2, 1, 2], 2)), Some(2));
    }
}
