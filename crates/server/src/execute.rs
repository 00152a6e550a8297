//! Programs on a server without a data plane: bare-metal, or for Linux.

use crate::checkpoint::{CheckpointOptions, Kind};
use crate::debugger::{Debuggee, debug};
use crate::description::Description;
use crate::error::RunError;
use crate::functional::FunctionalMachine;
use crate::host::{HostClock, HostCost};
use crate::hosts::{Common, HostSpec, is_linux, prepare_linux};
use crate::limits::{Guard, Limits};
use crate::machine::{NO_CHECKPOINTS_OF_LINUX, UntimedServer};
use crate::plan::program_doorbells;
use crate::preparation::{main_behind_prepare, run_to};
use crate::prepared::{Prepared, Wanted};
use crate::program::{Program, check_given, load};
use crate::results::ExecuteResult;
use crate::traces::{LogFile, LookedAt, TraceOptions, TraceReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::Under;
use std::path::PathBuf;
use workload::Files;

/// Rounds of a functional run between two checks of whether to continue.
const ROUNDS: u32 = 64;

/// The caller's options for [`execute`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteOptions {
    /// Traces to write.
    pub trace: TraceOptions,
    /// Checkpoints to save and to start from.
    pub checkpoint: CheckpointOptions,
    /// Limits on the run's use of the host.
    pub limits: Limits,
    /// Wait for a debugger at this port of 127.0.0.1; 0 selects a free one.
    pub gdb: Option<u16>,
}

/// The caller's options for [`execute_functionally`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FunctionalOptions {
    /// A file for every instruction that a hart retires, in the format of Spike's log of commits.
    pub log: Option<PathBuf>,
    /// Limits on the run's use of the host.
    pub limits: Limits,
}

/// Runs any program on the server that `description` names: bare-metal, or for Linux. Its output
/// goes to standard output as it is written.
pub fn execute(
    description: &Description,
    program: &Program,
    options: &ExecuteOptions,
    mut go_on: impl FnMut() -> bool,
) -> Result<ExecuteResult, RunError> {
    let host = HostSpec::alone(description.only()?, program);
    host.check()?;
    let begin = HostClock::start();
    let ExecuteOptions {
        trace,
        checkpoint,
        limits,
        gdb,
    } = options;
    let mut progress = |_| go_on();
    let mut guard = Guard::new(limits, &mut progress);
    if *checkpoint != CheckpointOptions::default() && is_linux(&load(&program.elf)?) {
        return Err(RunError::Description(NO_CHECKPOINTS_OF_LINUX.to_string()));
    }
    let files = Files::default();
    let wanted = Wanted {
        hosts: vec![host],
        programs: vec![&program.elf],
        rack: None,
        common: Common {
            measure: &description.tables.measure,
            simulator: &description.tables.simulator,
            files: &files,
            capture_packets: 0,
            is_restored: checkpoint.from.is_some(),
        },
    };
    let subject = (Kind::Program, description);
    let looked_at = LookedAt {
        shown: vec![trace.window()?],
        ..LookedAt::default()
    };
    let traces = (trace, looked_at);
    let mut prepared = Prepared::of(wanted, subject, checkpoint, traces, &mut guard)?;
    let debuggee = Debuggee {
        server: 0,
        elf: &program.elf,
    };
    let debugged = gdb.map_or(Ok(()), |port| {
        debug(&mut prepared, debuggee, port, &mut guard)
    });
    let ended = debugged.and_then(|()| prepared.simulate(&mut guard));
    let traces = prepared.finish_traces();
    ended?;
    prepared.check_amount(&guard)?;
    let mut result = prepared.program(begin, traces)?;
    if result.exit_status == 0 {
        result.check = prepared.check_after_run(&mut guard)?.pop().flatten();
    }
    Ok(result)
}

/// The results of one hart in a functional run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HartResult {
    /// Number of instructions executed.
    pub instructions: u64,
}

/// The result of a program that ran without timing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionalResult {
    /// The guest's exit status; after a signal, 128 plus its number.
    pub exit_status: u64,
    /// The signal that ended it, such as `SIGABRT`.
    pub signal: Option<&'static str>,
    /// The harts.
    pub cores: Vec<HartResult>,
    /// Instructions of all harts.
    pub instructions: u64,
    /// The run's use of the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// The log of retired instructions, if one was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
    /// Version of the simulator.
    pub version: &'static str,
}

impl FunctionalResult {
    /// The result as JSON; not generic, like [`Outcome::json`](crate::Outcome::json).
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// Runs any program as [`execute`] does, but without timing. Of the description, only the number of
/// cores, the clock, the size of memory and the seed are used.
pub fn execute_functionally(
    description: &Description,
    program: &Program,
    options: &FunctionalOptions,
    mut go_on: impl FnMut() -> bool,
) -> Result<FunctionalResult, RunError> {
    let described = description.only()?;
    described.check().under("server")?;
    let begin = HostClock::start();
    let mut progress = |_| go_on();
    let mut guard = Guard::new(&options.limits, &mut progress);
    let image = load(&program.elf)?;
    let seed = description.tables.measure.seed;
    let server = UntimedServer {
        arguments: program.given(),
        ..UntimedServer::of(described, &[program_doorbells()])
    };
    let mut machine = if is_linux(&image) {
        let output_bytes = guard.output_bytes();
        let image = image.clone();
        let prepared = prepare_linux(described, image, program, seed, output_bytes)?;
        FunctionalMachine::with_linux(&server, prepared)?
    } else {
        check_given(&image, program)?;
        FunctionalMachine::bare_metal(&server, image.clone(), true)?
    };
    machine.limit_output(guard.output_bytes());
    let log = options.log.as_deref().map(LogFile::create).transpose()?;
    if let Some(log) = &log {
        machine.log_to(log.log.clone());
    }
    let mut run = || {
        if server.has_arguments()
            && !is_linux(&image)
            && let Some(main) = main_behind_prepare(&server, &image)
        {
            run_to(&mut machine, main, &server, &mut guard)?;
        }
        let mut rounds = 0u32;
        while machine.advance()? {
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS) || machine.take_interrupted() {
                guard.check(0.0, machine.spent())?;
            }
        }
        guard.check_amount(machine.spent())
    };
    let ended = run();
    // The log of a failed run has the instructions retired until then.
    let traces = log.map(LogFile::finish).into_iter().collect();
    ended?;
    let cores: Vec<HartResult> = machine
        .instructions()
        .into_iter()
        .map(|instructions| HartResult { instructions })
        .collect();
    let instructions = cores.iter().map(|hart| hart.instructions).sum();
    let (exit_status, signal) = machine.exit().unwrap_or_default();
    Ok(FunctionalResult {
        exit_status,
        signal,
        cores,
        instructions,
        host: begin.cost(Some(instructions)),
        traces,
        version: crate::VERSION,
    })
}
