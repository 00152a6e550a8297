//! Runs of a description: data planes or a rack, and their measurements.

use crate::checkpoint::{CheckpointOptions, Kind};
use crate::debugger::{Debuggee, debug};
use crate::description::Description;
use crate::error::RunError;
use crate::host::HostClock;
use crate::hosts::Common;
use crate::limits::{Guard, Limits};
use crate::prepared::{Prepared, Wanted};
use crate::results::Outcome;
use crate::traces::{LookedAt, Slow, TraceOptions, run_traced};
use serde::{Deserialize, Serialize};
use std::path::Path;
use workload::{Files, Recorder};

/// The caller's options besides the description.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Number of delivered packets of each data plane whose bytes are kept.
    pub capture_packets: usize,
    /// Traces to write.
    pub trace: TraceOptions,
    /// Checkpoints to save and to start from.
    pub checkpoint: CheckpointOptions,
    /// The contents of the data files named by the description.
    #[serde(skip)]
    pub files: Files,
    /// Limits on the run's use of the host.
    pub limits: Limits,
    /// Wait for a debugger.
    pub gdb: Option<Gdb>,
}

/// A debugger to wait for before the first instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gdb {
    /// The port of 127.0.0.1; 0 selects a free one.
    pub port: u16,
    /// The server of a rack whose program is debugged; none if the server is alone.
    #[serde(default)]
    pub server: Option<String>,
}

/// Builds the servers of `description` and their network.
fn prepare<'a>(
    description: &'a Description,
    programs: &[Vec<u8>],
    options: &'a Options,
    looked_at: LookedAt,
    guard: &mut Guard<'_>,
) -> Result<Prepared<'a>, RunError> {
    let rack = description.network();
    let kind = rack.map_or(Kind::DataPlane, |_| Kind::Rack);
    let wanted = Wanted {
        hosts: description.hosts(),
        programs: programs.iter().map(Vec::as_slice).collect(),
        rack,
        common: Common {
            measure: &description.tables.measure,
            simulator: &description.tables.simulator,
            files: &options.files,
            capture_packets: options.capture_packets,
            is_restored: options.checkpoint.from.is_some(),
        },
    };
    let traces = (&options.trace, looked_at);
    Prepared::of(
        wanted,
        (kind, description),
        &options.checkpoint,
        traces,
        guard,
    )
}

/// Runs `programs`, an ELF file for each entry of a rack's servers or one for a server alone,
/// according to `description`. `progress` receives the fraction done at intervals, and may stop the
/// run by returning false.
pub fn run(
    description: &Description,
    programs: &[Vec<u8>],
    options: &Options,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<Outcome, RunError> {
    description.check()?;
    let once = |options: &Options, looked_at, progress: &mut dyn FnMut(f64) -> bool| {
        let begin = HostClock::start();
        let mut guard = Guard::new(&options.limits, progress);
        let mut prepared = prepare(description, programs, options, looked_at, &mut guard)?;
        let debugged = options.gdb.as_ref().map_or(Ok(()), |gdb| {
            let server = prepared.server_named(gdb.server.as_deref())?;
            let elf = prepared.entry_of(server).and_then(|at| programs.get(at));
            let elf = elf.map_or(&[][..], Vec::as_slice);
            debug(
                &mut prepared,
                Debuggee { server, elf },
                gdb.port,
                &mut guard,
            )
        });
        let simulated = debugged.and_then(|()| prepared.simulate(&mut guard));
        let traces = prepared.finish_traces();
        simulated?;
        prepared.check_amount(&guard)?;
        let recorders = prepared.recorders();
        let services = prepared.slowest_services();
        let outcome = match description.network() {
            None => {
                let mut result = prepared.server(begin, traces)?;
                result.check = prepared.check_after_run(&mut guard)?.pop().flatten();
                Outcome::Server(Box::new(result))
            }
            Some(rack) => {
                let mut result = prepared.rack(rack, &recorders, begin, traces)?;
                let said = prepared.check_after_run(&mut guard)?;
                for (server, said) in result.servers.iter_mut().zip(said) {
                    server.check = said;
                }
                Outcome::Rack(Box::new(result))
            }
        };
        Ok((outcome, (recorders, services)))
    };
    run_traced(
        options,
        &mut progress,
        once,
        |(recorders, services), slow| {
            let recorders: Vec<&Recorder> = recorders.iter().collect();
            LookedAt {
                shown: match slow {
                    Some(Slow::Above(part)) => Recorder::slower_than_together(&recorders, part),
                    Some(Slow::Count(count)) => Recorder::slowest_together(&recorders, count),
                    None => Vec::new(),
                },
                services: services.clone(),
            }
        },
    )
}

/// Runs the warm start of `description` alone, and saves a checkpoint of its end.
pub fn warm_up(
    description: &Description,
    programs: &[Vec<u8>],
    checkpoint: &Path,
    files: Files,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<(), RunError> {
    description.check()?;
    let options = Options {
        checkpoint: CheckpointOptions {
            save: Some(checkpoint.to_path_buf()),
            ..CheckpointOptions::default()
        },
        files,
        ..Options::default()
    };
    let mut guard = Guard::new(&options.limits, &mut progress);
    let mut prepared = prepare(
        description,
        programs,
        &options,
        LookedAt::default(),
        &mut guard,
    )?;
    prepared.stop_after_checkpoint();
    prepared.simulate(&mut guard)
}
