//! Programs on a server without a data plane: bare-metal, or for Linux.

use crate::checkpoint::{CheckpointOptions, Kind, Saver, Subject};
use crate::description::Description;
use crate::error::RunError;
use crate::functional::FunctionalMachine;
use crate::hardware::{Hardware, Wanted};
use crate::host::{HostClock, HostCost};
use crate::limits::{Guard, Limits};
use crate::machine::{Machine, NO_CHECKPOINTS_OF_LINUX, UntimedServer};
use crate::memory_map::MAIN_MEMORY;
use crate::meter::{Meter, Reading};
use crate::plan::{Plan, program_doorbells};
use crate::preparation::Preparation;
use crate::program::{Program, check_given, load};
use crate::totals::Totals;
use crate::traces::{TraceOptions, TraceReport, Watched};
use fabric::Fabric;
use riscv::elf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::Under;
use system::Setting;
use workload::Files;

/// Steps of the engine between two looks at whether to go on.
const STEPS: u32 = 256;
/// The same in rounds of a functional run.
const ROUNDS: u32 = 64;

/// What came out of a program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExecuteResult {
    /// The guest's exit status; after a signal 128 and its number.
    pub exit_status: u64,
    /// The signal that ended it, such as `SIGABRT`.
    pub signal: Option<&'static str>,
    /// What every run has.
    #[serde(flatten)]
    pub totals: Totals,
    /// What has become of the traces that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
}

/// A bare-metal program without I/O, on a server that has every system which `description`
/// describes and which needs no network.
fn bare_metal(
    description: &Description,
    image: elf::Image,
    program: &Program,
    is_restored: bool,
    guard: &mut Guard<'_>,
) -> Result<(Machine, Hardware), RunError> {
    check_given(&image, program)?;
    let plan = Plan {
        server: &description.server,
        simulator: &description.simulator,
        wanted: Wanted::described(&description.server),
        setting: Setting::Alone,
        doorbells: program_doorbells(),
        memory: vec![program_doorbells()],
        is_live: true,
    };
    plan.wanted.check(plan.server, &plan.setting, "server")?;
    let preparation = match is_restored {
        true => None,
        false => Preparation::live(&plan.untimed(), &image, guard)?,
    };
    let place = (description.measure.seed, None);
    let nothing = |_: &mut Fabric, _: &Hardware| Ok(());
    let built = plan.build(image, preparation.as_ref(), guard, place, None, nothing);
    built.map(|(machine, hardware, ())| (machine, hardware))
}

/// A Linux program with what it is given.
fn prepare_linux(
    description: &Description,
    image: elf::Image,
    program: &Program,
    output_bytes: u64,
) -> Result<linux::Prepared, RunError> {
    let spec = &description.server;
    let mut arguments = vec![program.path.clone()];
    arguments.extend_from_slice(&program.arguments);
    let setup = linux::Setup {
        arguments,
        environment: program.environment.clone(),
        harts: spec.harts(),
        memory_bytes: spec.memory_mib * 1024 * 1024,
        seed: description.measure.seed,
        access: program.access.clone(),
        output_bytes,
    };
    linux::prepare(image, &setup).map_err(|error| RunError::Program(error.to_string()))
}

/// What the caller of [`execute`] wants beside the program's output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteOptions {
    /// Write these traces.
    pub trace: TraceOptions,
    /// Save and begin from these checkpoints.
    pub checkpoint: CheckpointOptions,
    /// How much the run may take of the host.
    pub limits: Limits,
}

/// Runs any program on the server that `description` names: bare-metal, or for Linux. What it
/// writes goes to the standard output as it comes.
pub fn execute(
    description: &Description,
    program: &Program,
    options: &ExecuteOptions,
    mut go_on: impl FnMut() -> bool,
) -> Result<ExecuteResult, RunError> {
    description.server.check().under("server")?;
    let begin = HostClock::start();
    let ExecuteOptions {
        trace,
        checkpoint,
        limits,
    } = options;
    let mut progress = |_| go_on();
    let mut guard = Guard::new(limits, &mut progress);
    let image = load(&program.elf)?;
    let is_linux = linux::is_linux(&image, MAIN_MEMORY.start);
    if is_linux && *checkpoint != CheckpointOptions::default() {
        return Err(RunError::Description(NO_CHECKPOINTS_OF_LINUX.to_string()));
    }
    let subject = Subject::new(Kind::Program, description, [&image], &Files::default())?;
    let (mut machine, hardware) = if is_linux {
        let prepared = prepare_linux(description, image, program, guard.output_bytes())?;
        let mut machine = Machine::with_linux(&description.server, prepared)?;
        machine.engine.set_speed(
            description.simulator.lookahead_cycles,
            description.simulator.skip_spinning,
        );
        (machine, Hardware::default())
    } else {
        let is_restored = checkpoint.from.is_some();
        bare_metal(description, image, program, is_restored, &mut guard)?
    };
    let mut saver = Saver::new(checkpoint, subject, false)?;
    saver.restore(checkpoint, &mut machine)?;
    let brought = machine.instructions();
    let window = trace.window()?;
    let mut watched = Watched::new(trace, vec![window], &machine, &program.elf)?;
    let mut steps = 0u32;
    let ended = loop {
        watched.tracer.prepare(&mut machine, u64::MAX);
        match machine.advance() {
            Ok(true) => {}
            other => break other.and_then(|_| saver.check()),
        }
        if saver.is_waiting()
            && let Err(error) = saver.look(&mut machine, 0)
        {
            break Err(error);
        }
        steps = steps.wrapping_add(1);
        if (steps.is_multiple_of(STEPS) || machine.take_interrupted())
            && let Err(error) = guard.check(0.0, machine.spent())
        {
            break Err(error);
        }
    };
    let traces = watched.finish(&mut machine);
    ended?;
    if let Some(sentence) = machine.unwritten() {
        return Err(RunError::Output(sentence));
    }
    guard.check_amount(machine.spent_in_all())?;
    let meter = Meter {
        server: &description.server,
        shown: usize::MAX,
        hardware: &hardware,
    };
    let end = machine.end();
    let last = meter.read(&mut machine, end, 0);
    let readings = (&Reading::default(), &last);
    let totals = Totals::of(&mut machine, &meter, (begin, brought), readings);
    Ok(ExecuteResult {
        exit_status: machine.exit().map_or(0, |(_, status)| status),
        signal: machine.signal(),
        totals,
        traces,
    })
}

/// One hart's part of a functional run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HartResult {
    /// Instructions that it executed.
    pub instructions: u64,
}

/// What came out of a program for which no time was simulated.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FunctionalResult {
    /// The guest's exit status; after a signal 128 and its number.
    pub exit_status: u64,
    /// The signal that ended it, such as `SIGABRT`.
    pub signal: Option<&'static str>,
    /// The harts.
    pub cores: Vec<HartResult>,
    /// Instructions of all harts.
    pub instructions: u64,
    /// What it has cost the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// Version of the simulator.
    pub version: &'static str,
}

/// Runs any program as [`execute`] does, but only for what it computes: no time is simulated. Of
/// the description the number of cores, the clock, the size of memory and the seed count.
pub fn execute_functionally(
    description: &Description,
    program: &Program,
    limits: &Limits,
    mut go_on: impl FnMut() -> bool,
) -> Result<FunctionalResult, RunError> {
    description.server.check().under("server")?;
    let begin = HostClock::start();
    let mut progress = |_| go_on();
    let mut guard = Guard::new(limits, &mut progress);
    let image = load(&program.elf)?;
    let server = UntimedServer::of(&description.server, &[program_doorbells()]);
    let mut machine = if linux::is_linux(&image, MAIN_MEMORY.start) {
        let prepared = prepare_linux(description, image, program, guard.output_bytes())?;
        FunctionalMachine::with_linux(&server, prepared)?
    } else {
        check_given(&image, program)?;
        FunctionalMachine::bare_metal(&server, image, true)?
    };
    machine.limit_output(guard.output_bytes());
    let mut rounds = 0u32;
    while machine.advance()? {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(ROUNDS) || machine.take_interrupted() {
            guard.check(0.0, machine.spent())?;
        }
    }
    guard.check_amount(machine.spent())?;
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
        version: crate::VERSION,
    })
}
