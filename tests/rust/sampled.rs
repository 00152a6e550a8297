//! Cases that are the same in each run, and of which `make test` tries a third.

/// A third of the cases, which `NANOPLANE_TEST_SEED` selects. All of them without it, or if
/// `NANOPLANE_TEST_EFFORT` is more than one.
pub fn sampled<T>(cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let variable = |name: &str| -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().expect("a number is expected"))
    };
    let effort = variable("NANOPLANE_TEST_EFFORT").unwrap_or(1);
    let (first, step) = match variable("NANOPLANE_TEST_SEED") {
        Some(seed) if effort == 1 => (seed % 3, 3),
        _ => (0, 1),
    };
    cases.into_iter().skip(first as usize).step_by(step)
}
