//! Arithmetic on all counts of a component: the values that its walk passes to [`Walker::count`].

use crate::{Purpose, State, Walker};

/// Passes each count to a closure.
struct Counts<F>(F);

impl<F: FnMut(&mut u64)> Walker for Counts<F> {
    fn number(&mut self, _value: &mut u64) {}

    fn numbers(&mut self, _values: &mut [u64]) {}

    fn bytes(&mut self, _bytes: &mut [u8]) {}

    fn count(&mut self, count: &mut u64) {
        (self.0)(count);
    }

    fn purpose(&self) -> Purpose {
        Purpose::MoveOn
    }

    fn refuse(&mut self, _sentence: String) {}
}

/// Replaces each count of `one` by `merge` of it and of the same count of `other`, which has as
/// many.
fn merge<S: State + Clone>(one: &mut S, other: &S, merge: impl Fn(u64, u64) -> u64) {
    let mut counts = Vec::with_capacity(size_of::<S>() / size_of::<u64>());
    other
        .clone()
        .walk(&mut Counts(|count: &mut u64| counts.push(*count)));
    let mut counts = counts.into_iter();
    one.walk(&mut Counts(|count: &mut u64| {
        *count = merge(*count, counts.next().unwrap_or_default());
    }));
}

/// Adds the counts of `other`.
pub fn add_counts<S: State + Clone>(one: &mut S, other: &S) {
    merge(one, other, |one, other| one + other);
}

/// Adds the counts since `before`, another `times` times.
pub fn repeat_counts<S: State + Clone>(now: &mut S, before: &S, times: u64) {
    merge(now, before, |now, before| now + (now - before) * times);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, crate::State)]
    struct Inner {
        #[state(count)]
        hits: u64,
        level: u64,
    }

    #[derive(Clone, Debug, PartialEq, crate::State)]
    struct Outer {
        #[state(count)]
        misses: u64,
        inner: Inner,
    }

    fn outer(misses: u64, hits: u64, level: u64) -> Outer {
        let inner = Inner { hits, level };
        Outer { misses, inner }
    }

    #[test]
    fn counts_are_added_and_nothing_else() {
        let mut one = outer(1, 2, 3);
        add_counts(&mut one, &outer(10, 20, 30));
        assert_eq!(one, outer(11, 22, 3));
    }

    #[test]
    fn what_has_come_is_repeated() {
        let mut now = outer(11, 22, 3);
        repeat_counts(&mut now, &outer(10, 20, 30), 5);
        assert_eq!(now, outer(16, 32, 3));
    }
}
