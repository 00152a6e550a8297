//! How many cases tests try, and which: `NANOPLANE_TEST_EFFORT` and `NANOPLANE_TEST_SEED`.
#![allow(dead_code)] // Each test uses some of it.

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {text:?}, and not a number")))
}

/// How many times as many random cases as usual to try.
pub fn effort() -> u64 {
    variable("NANOPLANE_TEST_EFFORT").unwrap_or(1)
}

/// What selects other random cases than the usual ones, if it is set.
pub fn seed() -> Option<u64> {
    variable("NANOPLANE_TEST_SEED")
}

/// A third of cases that are the same in each run, which the [`seed`] selects. All of them without
/// a seed, or if the [`effort`] is more than one.
pub fn sampled<T>(cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let (first, step) = match seed() {
        Some(seed) if effort() == 1 => (seed % 3, 3),
        _ => (0, 1),
    };
    cases.into_iter().skip(first as usize).step_by(step)
}
