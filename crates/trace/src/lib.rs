//! Records of a run, besides its results, for existing viewers: where the cycles went
//! ([`Profile`]), how instructions passed through a core ([`PipelineLog`]), what they changed
//! ([`CommitLog`]), and what happened when ([`Timeline`]).
//!
//! They are probes of cores ([`pipeline::Probe`]): instruments without influence on the simulation.

mod calls;
mod commit_log;
mod misses;
mod pipeline_log;
mod profile;
mod program;
mod timeline;

pub use commit_log::{CommitLog, HartLog, Retired, SharedLog};
pub use misses::{Miss, Misses};
pub use pipeline_log::PipelineLog;
pub use profile::{Profile, folded};
pub use program::{Place, Program, SharedProgram};
pub use timeline::{CoreTimeline, Request, Ring, SharedTimeline, Shown, Timeline};
