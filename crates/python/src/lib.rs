//! The Python bindings: JSON in, JSON out. Descriptions are checked and explained on the Python
//! side; nothing is decided here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hyperplane::{DoorbellLines, HyperPlaneSpec};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use server::{
    Access, Description, ExecuteOptions, ExecuteResult, Files, FunctionalOptions, FunctionalResult,
    HostClock, HostCost, Options, Outcome, Program, RackResult, Reach, RunError, RunResult,
};
use spec::Under;
use std::collections::BTreeMap;
use std::path::PathBuf;

create_exception!(
    _simulator,
    SimulationError,
    PyException,
    "A run that could not be done; `kind` says why."
);

fn error(py: Python<'_>, kind: &str, sentence: String) -> PyErr {
    let error = SimulationError::new_err(sentence);
    match error.value(py).setattr("kind", kind) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn description_error(py: Python<'_>, cause: &serde_json::Error) -> PyErr {
    error(
        py,
        "description",
        format!("the description cannot be read: {cause}"),
    )
}

fn to_json<T: serde::Serialize>(py: Python<'_>, value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|cause| internal(py, &cause))
}

fn internal(py: Python<'_>, cause: &serde_json::Error) -> PyErr {
    error(py, "internal", cause.to_string())
}

/// The JSON schema of a resolved description: of a run of one server, of a rack, or of a queueing
/// system without a server.
#[pyfunction]
fn schema(py: Python<'_>, kind: &str) -> PyResult<String> {
    let schema = match kind {
        "server" => server::server_schema(),
        "rack" => server::rack_schema(),
        "queueing" => schemars::schema_for!(queueing::Description),
        other => {
            let sentence = format!("there are no descriptions of {other:?}");
            return Err(error(py, "description", sentence));
        }
    };
    to_json(py, &schema)
}

/// The papers' machines: name to `server`, `description` and `source`.
#[pyfunction]
fn presets(py: Python<'_>) -> PyResult<String> {
    let presets: serde_json::Map<String, serde_json::Value> = server::presets()
        .into_iter()
        .map(|preset| {
            let value = serde_json::json!({
                "server": preset.server.table(),
                "description": preset.description,
                "source": preset.source,
            });
            (preset.name.to_string(), value)
        })
        .collect();
    to_json(py, &presets)
}

/// The bins of a result's histogram that are not empty, in ascending order: the least value of
/// each, and its count.
#[pyfunction]
fn histogram_bins(py: Python<'_>, text: &str) -> PyResult<Vec<(u64, u64)>> {
    let unreadable = |cause: &dyn std::fmt::Display| {
        let sentence = format!("the histogram cannot be read: {cause}");
        error(py, "description", sentence)
    };
    let bytes = STANDARD.decode(text).map_err(|cause| unreadable(&cause))?;
    // The checksum at the end is not read: bytes 4 to 7 say how many must follow.
    let told = bytes.get(4..8).and_then(|length| length.try_into().ok());
    let is_whole = told.is_none_or(|length| u32::from_be_bytes(length) as usize == bytes.len() - 8);
    if !is_whole {
        return Err(unreadable(&"its length is wrong"));
    }
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|cause| unreadable(&cause))?;
    let bins = histogram.iter_recorded().map(|bin| {
        let least = histogram.lowest_equivalent(bin.value_iterated_to());
        (least, bin.count_at_value())
    });
    Ok(bins.collect())
}

/// The simulator's version.
#[pyfunction]
fn version() -> &'static str {
    server::VERSION
}

/// Runs a resolved description with an ELF file for each entry of a rack's servers, or with one for
/// a server alone, and returns the results. `files` has the contents of the files with data that
/// the description names, by their paths there.
#[pyfunction]
#[pyo3(signature = (description_json, elves, files, options_json, progress))]
fn run(
    py: Python<'_>,
    description_json: &str,
    elves: Vec<Vec<u8>>,
    files: BTreeMap<String, Vec<u8>>,
    options_json: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let description: Description =
        serde_json::from_str(description_json).map_err(|cause| description_error(py, &cause))?;
    let mut options: Options =
        serde_json::from_str(options_json).map_err(|cause| description_error(py, &cause))?;
    options.files = Files::new(files);
    let mut reporter = Reporter::new(progress);
    let result = py.detach(|| {
        server::run(&description, &elves, &options, |done| {
            reporter.goes_on(done)
        })
    });
    finish(py, reporter.raised, result, Outcome::json)
}

/// Runs the warm start of a resolved description as `run` does, and saves a checkpoint of its end.
#[pyfunction]
#[pyo3(signature = (description_json, elves, files, checkpoint, progress))]
fn warm_up(
    py: Python<'_>,
    description_json: &str,
    elves: Vec<Vec<u8>>,
    files: BTreeMap<String, Vec<u8>>,
    checkpoint: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let description: Description =
        serde_json::from_str(description_json).map_err(|cause| description_error(py, &cause))?;
    let files = Files::new(files);
    let mut reporter = Reporter::new(progress);
    let result = py.detach(|| {
        server::warm_up(&description, &elves, &checkpoint, files, |done| {
            reporter.goes_on(done)
        })
    });
    finish(py, reporter.raised, result, |()| Ok(String::new())).map(drop)
}

/// Tells Python now and then how far a run is.
struct Reporter {
    progress: Option<Py<PyAny>>,
    calls: u32,
    raised: Option<PyErr>,
}

impl Reporter {
    fn new(progress: Option<Py<PyAny>>) -> Reporter {
        Reporter {
            progress,
            calls: 0,
            raised: None,
        }
    }

    /// Whether the run goes on, of which the part `done` is done.
    fn goes_on(&mut self, done: f64) -> bool {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(64) {
            return true;
        }
        Python::attach(|py| {
            let told = py.check_signals().and_then(|()| {
                self.progress
                    .as_ref()
                    .map_or(Ok(()), |call| call.call1(py, (done,)).map(drop))
            });
            self.raised = told.err();
            self.raised.is_none()
        })
    }
}

/// The JSON schema of what comes out of the function `kind`.
#[pyfunction]
fn result_schema(py: Python<'_>, kind: &str) -> PyResult<String> {
    let schema = match kind {
        "run" => server::result_schema::<RunResult>(),
        "rack" => server::result_schema::<RackResult>(),
        "execute" => server::result_schema::<ExecuteResult>(),
        "execute-functionally" => server::result_schema::<FunctionalResult>(),
        "queueing" => server::result_schema::<QueueingResult>(),
        other => {
            let sentence = format!("there are no results of {other:?}");
            return Err(error(py, "description", sentence));
        }
    };
    to_json(py, &schema)
}

/// The result of a queueing system; times are in mean service times.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct QueueingResult {
    /// What was measured.
    #[serde(flatten)]
    measured: queueing::Measured,
    /// What it has cost the host.
    #[serde(flatten)]
    host: HostCost,
    /// Version of the simulator.
    version: &'static str,
}

/// Simulates a queueing system, without a server; see `queueing::Description`.
#[pyfunction]
#[pyo3(name = "queueing")]
fn simulate_queueing(
    py: Python<'_>,
    description_json: &str,
    files: BTreeMap<String, Vec<u8>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let description: queueing::Description =
        serde_json::from_str(description_json).map_err(|cause| description_error(py, &cause))?;
    let files = Files::new(files);
    let mut reporter = Reporter::new(progress);
    let clock = HostClock::start();
    let result = py.detach(|| {
        let goes_on = |done| reporter.goes_on(done);
        description.queueing.simulate(&files, goes_on)
    });
    match (reporter.raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(Some(measured))) => {
            let result = QueueingResult {
                measured,
                host: clock.cost(None),
                version: server::VERSION,
            };
            to_json(py, &result)
        }
        (None, Ok(None)) => Err(error(py, "interrupted", "the run was stopped".to_string())),
        (None, Err(sentence)) => Err(error(py, "description", sentence)),
    }
}

/// A program with what it is given, as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    elf: Vec<u8>,
    /// Its first argument.
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    /// A `NAME=VALUE` each.
    environment: Vec<Vec<u8>>,
    /// The directory that is its root, if there is one.
    root: Option<PathBuf>,
    host_files: bool,
    read_only: bool,
}

impl From<Given> for Program {
    fn from(given: Given) -> Program {
        let reach = match given.root {
            Some(root) => Reach::Root(root),
            None if given.host_files => Reach::Host,
            None => Reach::Sandbox,
        };
        Program {
            elf: given.elf,
            path: given.path,
            arguments: given.arguments,
            environment: given.environment,
            access: Access {
                reach,
                read_only: given.read_only,
            },
        }
    }
}

/// Runs a program, bare-metal or for Linux; what it writes goes to the standard output.
#[pyfunction]
fn execute(
    py: Python<'_>,
    program: Given,
    description_json: &str,
    options_json: &str,
) -> PyResult<String> {
    let program = program.into();
    let description: Description =
        serde_json::from_str(description_json).map_err(|cause| description_error(py, &cause))?;
    let options: ExecuteOptions =
        serde_json::from_str(options_json).map_err(|cause| description_error(py, &cause))?;
    let mut raised = None;
    let result = py.detach(|| {
        server::execute(&description, &program, &options, || {
            Python::attach(|py| {
                raised = py.check_signals().err();
                raised.is_none()
            })
        })
    });
    finish(py, raised, result, ExecuteResult::json)
}

/// What is wrong with a resolved description of a server or of a rack, as far as that can be said
/// without its program: the parameter's key, and a sentence.
#[pyfunction]
fn check(py: Python<'_>, description_json: &str) -> PyResult<Option<(String, String)>> {
    let description: Description =
        serde_json::from_str(description_json).map_err(|cause| description_error(py, &cause))?;
    let wrong = description.check().err();
    Ok(wrong.map(|error| (error.key.clone(), error.to_string())))
}

/// How many of `doorbells` `QWAIT.ADD`s conflict, for each of `seeds`, in the monitoring set of
/// HyperPlane's description with so many directory banks. `lines` says which lines the doorbells
/// have: `random`, `random-in-turn` or `consecutive`.
#[pyfunction]
fn conflicts(
    py: Python<'_>,
    hyperplane_json: &str,
    banks: usize,
    lines: &str,
    doorbells: u32,
    seeds: u64,
) -> PyResult<Vec<u32>> {
    let spec: HyperPlaneSpec =
        serde_json::from_str(hyperplane_json).map_err(|cause| description_error(py, &cause))?;
    let lines = match lines {
        "random" => DoorbellLines::Random,
        "random-in-turn" => DoorbellLines::RandomInTurn,
        "consecutive" => DoorbellLines::Consecutive,
        other => {
            return Err(error(
                py,
                "description",
                format!("there are no {other} doorbell lines"),
            ));
        }
    };
    py.detach(|| {
        (0..seeds)
            .map(|seed| hyperplane::conflicts(&spec, banks, lines, doorbells, seed))
            .collect::<Result<_, _>>()
    })
    .under("server.hyperplane")
    .map_err(|cause| error(py, "description", cause.to_string()))
}

/// Runs a program as `execute` does, but only for what it computes.
#[pyfunction]
fn execute_functionally(
    py: Python<'_>,
    program: Given,
    description_json: &str,
    options_json: &str,
) -> PyResult<String> {
    let program = program.into();
    let description: Description =
        serde_json::from_str(description_json).map_err(|cause| description_error(py, &cause))?;
    let options: FunctionalOptions =
        serde_json::from_str(options_json).map_err(|cause| description_error(py, &cause))?;
    let mut raised = None;
    let result = py.detach(|| {
        server::execute_functionally(&description, &program, &options, || {
            Python::attach(|py| {
                raised = py.check_signals().err();
                raised.is_none()
            })
        })
    });
    finish(py, raised, result, FunctionalResult::json)
}

fn finish<T>(
    py: Python<'_>,
    raised: Option<PyErr>,
    result: Result<T, RunError>,
    json: impl Fn(&T) -> serde_json::Result<String>,
) -> PyResult<String> {
    match (raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(result)) => json(&result).map_err(|cause| internal(py, &cause)),
        (None, Err(cause)) => Err(error(py, cause.kind(), cause.to_string())),
    }
}

/// The compiled simulator.
#[pymodule]
fn _simulator(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SimulationError", module.py().get_type::<SimulationError>())?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(presets, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_bins, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(warm_up, module)?)?;
    module.add_function(wrap_pyfunction!(execute, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_queueing, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(result_schema, module)?)?;
    module.add_function(wrap_pyfunction!(conflicts, module)?)?;
    module.add_function(wrap_pyfunction!(execute_functionally, module)?)?;
    Ok(())
}
