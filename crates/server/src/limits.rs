//! Limits on a run's use of the host.

use crate::error::RunError;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// A week: longer than any reasonable run.
const SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// More than the functional interpreter executes in two days at 500 million a second.
const INSTRUCTIONS: u64 = 100_000_000_000_000;
/// More than a simulated program writes in a day, and less than the capacity of a disk.
const OUTPUT_BYTES: u64 = 16 << 30;

/// Limits on a run's use of the host; `None` is the default, which no reasonable program reaches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds of the host's wall clock from the beginning of the run, checked at intervals.
    pub seconds: Option<f64>,
    /// Retired instructions of all harts. Those of `prepare()` are counted separately.
    pub instructions: Option<u64>,
    /// Bytes that the guest writes to its standard output and error and to files, or reserves in
    /// files.
    pub output_bytes: Option<u64>,
}

/// A run's use of the host so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Instructions that are certain to retire.
    pub instructions: u64,
    /// Whether the guest tried to write more than it may.
    pub exceeds_output: bool,
}

impl Spent {
    /// The sum for two servers.
    pub fn and(self, other: Spent) -> Spent {
        Spent {
            instructions: self.instructions + other.instructions,
            exceeds_output: self.exceeds_output || other.exceeds_output,
        }
    }
}

/// Ends a run that exceeds its limits, or that the caller stops.
pub(crate) struct Guard<'a> {
    limits: Limits,
    begin: Instant,
    /// Receives the completed fraction, and returns whether to continue.
    progress: &'a mut dyn FnMut(f64) -> bool,
}

impl<'a> Guard<'a> {
    /// A guard for a run that starts now.
    pub fn new(limits: &Limits, progress: &'a mut dyn FnMut(f64) -> bool) -> Guard<'a> {
        Guard {
            limits: limits.clone(),
            begin: Instant::now(),
            progress,
        }
    }

    /// Bytes that the guest may write.
    pub fn output_bytes(&self) -> u64 {
        self.limits.output_bytes.unwrap_or(OUTPUT_BYTES)
    }

    /// Checks whether the run, of which the fraction `done` is done, may continue.
    pub fn check(&mut self, done: f64, spent: Spent) -> Result<(), RunError> {
        self.check_amount(spent)?;
        let limit = self.limits.seconds.unwrap_or(SECONDS);
        if self.begin.elapsed().as_secs_f64() > limit {
            return Err(RunError::Limit(format!(
                "--max-time ended the run: it has taken {limit} s of the host's time and is not \
                 done; a larger --max-time gives it more"
            )));
        }
        match (self.progress)(done) {
            true => Ok(()),
            false => Err(RunError::Interrupted),
        }
    }

    /// Checks whether the guest has stayed within its limits, even if it has ended.
    pub fn check_amount(&self, spent: Spent) -> Result<(), RunError> {
        let limit = self.limits.instructions.unwrap_or(INSTRUCTIONS);
        if spent.instructions > limit {
            return Err(RunError::Limit(format!(
                "--max-instructions ended the run: the guest executes more than {limit} \
                 instructions; a larger --max-instructions gives it more"
            )));
        }
        if spent.exceeds_output {
            return Err(RunError::Limit(format!(
                "--max-output ended the run: the guest writes more than {} bytes; a larger \
                 --max-output gives it more",
                self.output_bytes()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a guard with these limits for a run with this many instructions.
    fn verdict(limits: &Limits, instructions: u64) -> Result<(), String> {
        let spent = Spent {
            instructions,
            exceeds_output: false,
        };
        let mut progress = |_| true;
        let mut guard = Guard::new(limits, &mut progress);
        guard.check(0.5, spent).map_err(|error| error.to_string())
    }

    #[test]
    fn a_limit_may_be_reached_and_not_passed() {
        let limits = Limits {
            instructions: Some(1000),
            ..Limits::default()
        };
        assert_eq!(verdict(&limits, 1000), Ok(()));
        assert_eq!(
            verdict(&limits, 1001),
            Err(
                "--max-instructions ended the run: the guest executes more than 1000 instructions; \
                 a larger --max-instructions gives it more"
                    .to_string()
            )
        );
        // A run of a whole day at full speed is not cut off.
        assert_eq!(verdict(&Limits::default(), 400_000_000 * 86_400), Ok(()));
        let no_time = Limits {
            seconds: Some(0.0),
            ..Limits::default()
        };
        let error = verdict(&no_time, 0).unwrap_err();
        assert!(error.starts_with("--max-time ended the run"), "{error}");
    }
}
