//! The reservations of a resource that carries one message at a time, arbitrarily far ahead.

use crate::Time;

/// A reserved interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
struct Taken {
    start: Time,
    /// Its end, exclusive.
    end: Time,
}

/// The reservations of a link.
///
/// It records every gap. A link of a server with one socket needs less, since its reservations are
/// near in time. Messages from another socket are reserved hundreds of cycles ahead, and must not
/// delay a message that passes before them.
#[derive(Clone, Debug, Default, state::State)]
pub(crate) struct Calendar {
    /// In order of time, without adjacent intervals.
    taken: Vec<Taken>,
}

impl Calendar {
    /// Reserves `length` contiguously, at `earliest` or as soon as possible after it. No
    /// reservation will be requested before `now`.
    pub(crate) fn reserve(&mut self, now: Time, earliest: Time, length: Time) -> Time {
        self.settle(now);
        let mut place = self.taken.partition_point(|taken| taken.end <= earliest);
        let mut start = earliest;
        while let Some(taken) = self.taken.get(place)
            && taken.start < start + length
        {
            start = taken.end;
            place += 1;
        }
        let end = start + length;
        let touches_before = place > 0 && self.taken[place - 1].end == start;
        let touches_behind = self.taken.get(place).is_some_and(|next| next.start == end);
        match (touches_before, touches_behind) {
            (true, true) => {
                self.taken[place - 1].end = self.taken[place].end;
                self.taken.remove(place);
            }
            (true, false) => self.taken[place - 1].end = end,
            (false, true) => self.taken[place].start = start,
            (false, false) => self.taken.insert(place, Taken { start, end }),
        }
        start
    }

    /// Removes reservations that have ended at `now`.
    pub(crate) fn settle(&mut self, now: Time) {
        let passed = self.taken.partition_point(|taken| taken.end <= now);
        self.taken.drain(..passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    fn reserve(calendar: &mut Calendar, now: u64, earliest: u64, length: u64) -> u64 {
        let [now, earliest, length] = [now, earliest, length].map(Time::from_fs);
        calendar.reserve(now, earliest, length).as_fs()
    }

    #[test]
    fn gaps_are_kept_however_far_ahead() {
        let mut calendar = Calendar::default();
        assert_eq!(reserve(&mut calendar, 0, 1000, 5), 1000);
        assert_eq!(reserve(&mut calendar, 0, 998, 3), 1005);
        assert_eq!(reserve(&mut calendar, 0, 998, 2), 998);
        assert_eq!(reserve(&mut calendar, 0, 0, 998), 0);
        let [start, end] = [0, 1008].map(Time::from_fs);
        assert_eq!(calendar.taken, [Taken { start, end }]);
        assert_eq!(reserve(&mut calendar, 1008, 1008, 1), 1008);
        assert_eq!(calendar.taken.len(), 1);
    }

    /// Each reservation is the first one possible given those before it: a bit for each instant.
    #[test]
    fn reservations_are_the_first_possible() {
        let mut random = Random(1);
        for _ in 0..200 {
            let mut calendar = Calendar::default();
            let mut taken = vec![false; 20_000];
            let mut now = 0;
            for _ in 0..200 {
                now += random.below(8);
                let earliest = now + random.below(300);
                let length = 1 + random.below(12);
                let mut expected = earliest as usize;
                while taken[expected..expected + length as usize].contains(&true) {
                    expected += 1;
                }
                taken[expected..expected + length as usize].fill(true);
                let start = reserve(&mut calendar, now, earliest, length);
                assert_eq!(start, expected as u64);
                let touch = |pair: &[Taken]| pair[0].end >= pair[1].start;
                assert!(!calendar.taken.windows(2).any(touch));
            }
        }
    }
}
