//! Errors, as sentences.

use spec::SpecError;
use thiserror::Error;

/// The reason why a run failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// The description is invalid.
    #[error("{0}")]
    Description(String),
    /// The program is unusable.
    #[error("{0}")]
    Program(String),
    /// The guest performed an invalid operation, or gave up.
    #[error("{0}")]
    Guest(String),
    /// No event remains, or there is no progress.
    #[error("{0}")]
    Deadlock(String),
    /// The requested output cannot be written.
    #[error("{0}")]
    Output(String),
    /// The run has reached a limit on its use of the host.
    #[error("{0}")]
    Limit(String),
    /// The caller asked to stop.
    #[error("the run was interrupted")]
    Interrupted,
}

impl RunError {
    /// The same error, for the server with this name.
    pub(crate) fn of(self, name: &str) -> RunError {
        let told = |sentence: String| format!("{name}: {sentence}");
        match self {
            RunError::Description(sentence) => RunError::Description(told(sentence)),
            RunError::Program(sentence) => RunError::Program(told(sentence)),
            RunError::Guest(sentence) => RunError::Guest(told(sentence)),
            RunError::Deadlock(sentence) => RunError::Deadlock(told(sentence)),
            RunError::Output(sentence) => RunError::Output(told(sentence)),
            RunError::Limit(sentence) => RunError::Limit(told(sentence)),
            RunError::Interrupted => RunError::Interrupted,
        }
    }

    /// A word for the kind of error: "description", "program", "guest", "deadlock", "output",
    /// "limit" or "interrupted".
    pub fn kind(&self) -> &'static str {
        match self {
            RunError::Description(_) => "description",
            RunError::Program(_) => "program",
            RunError::Guest(_) => "guest",
            RunError::Deadlock(_) => "deadlock",
            RunError::Output(_) => "output",
            RunError::Limit(_) => "limit",
            RunError::Interrupted => "interrupted",
        }
    }
}

impl From<SpecError> for RunError {
    fn from(error: SpecError) -> RunError {
        RunError::Description(error.to_string())
    }
}
