//! Random cases.

use crate::selection::{effort, seed};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test`; a panic in it is a failure like any other, and is not printed for each of the
/// many values tried while shrinking.
fn quietly(test: impl FnOnce() -> Result<(), TestCaseError>) -> Result<(), TestCaseError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                print(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(test));
    QUIET.set(false);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(TestCaseError::fail(format!(
            "panic: {}",
            text.unwrap_or_default()
        )))
    })
}

/// Runs `test` on `cases` values of `strategy`, times the [`effort`].
///
/// The values are the same each time, so that a failure can be reproduced; `NANOPLANE_TEST_SEED`
/// selects others. A failure is shrunk before it is reported.
pub fn check<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let cases = cases * effort() as u32;
    let seed = seed().unwrap_or(1);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // A guest that never ends takes seconds each time.
        max_shrink_time: 120_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    match TestRunner::new_with_rng(config, random).run(strategy, |value| quietly(|| test(value))) {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => {
            panic!("{reason}\nfor {value:?}\n(NANOPLANE_TEST_SEED={seed})")
        }
        Err(error) => panic!("{error}"),
    }
}
