//! Checkpoints: the state of a server, or of a rack, in a file.
//!
//! A file begins with a line that identifies its format, and the SHA-256 of all that follows, and
//! then a header in JSON and the state, both compressed (DEFLATE). A checkpoint is valid for the
//! version of the simulator that has written it, for the same program, and for the same description
//! except for keys that cannot have had an effect yet.

use crate::error::RunError;
use crate::output::OutputFile;
use fabric::Time;
use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use riscv::elf::Image;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use workload::Files;

/// The first line of a file; the number is that of the format.
const MAGIC: &[u8] = b"nanoplane checkpoint 1\n";
/// The common prefix of all formats.
const KIND: &[u8] = b"nanoplane checkpoint ";
const DIGEST_BYTES: usize = 32;

/// The keys that may have changed since a checkpoint was saved: the length of the measurement and
/// the simulator's options.
const MAY_CHANGE: &[&str] = &[
    "measure.requests",
    "measure.precision",
    "measure.precision_of",
    "measure.warmup",
    "simulator",
];
/// At the end of the warm start, the traffic has not begun either.
const MAY_CHANGE_AFTER_WARM_START: &[&str] = &["traffic.load", "traffic.rate_mrps"];

/// Nor have the times of its items, if the warm start has one of its own.
const MAY_CHANGE_WITH_WORK: &[&str] = &[
    "traffic.work.base_ns",
    "traffic.work.mean_ns",
    "traffic.work.service_times",
];

/// Checkpoints to save and to start from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointOptions {
    /// Save one here: after this number of requests or this simulated time, otherwise at the end of
    /// the warm start.
    pub save: Option<PathBuf>,
    /// The number of delivered requests at which to save.
    pub at_requests: Option<u64>,
    /// The simulated time in nanoseconds at which to save.
    pub at_ns: Option<f64>,
    /// Start from this one.
    pub from: Option<PathBuf>,
}

/// The kind of simulation that a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A server with a data plane and traffic.
    DataPlane,
    /// A server with any other program.
    Program,
    /// Several servers.
    Rack,
}

impl Kind {
    /// The command that runs this kind.
    fn command(self) -> &'static str {
        match self {
            Kind::DataPlane => "`nanoplane run` with one server",
            Kind::Program => "`nanoplane exec`",
            Kind::Rack => "`nanoplane run` with a rack",
        }
    }
}

/// A simulation whose state can be saved and restored.
pub trait Resumable {
    /// The time before which no events remain.
    fn now(&self) -> Time;

    /// Whether its end is determined, even if it is still in the future.
    fn is_ending(&self) -> bool;

    /// Its serialized state.
    fn save(&mut self) -> Result<Vec<u8>, RunError>;

    /// Restores the state from [`Resumable::save`] into an object that was built in the same way.
    /// If this fails, the object cannot be used any more.
    fn restore(&mut self, state: &[u8]) -> Result<(), String>;
}

/// The identity of the run that a state belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    simulator: String,
    /// A digest of each program.
    programs: Vec<String>,
    kind: Kind,
    /// Whether it was saved at the end of the warm start, before the traffic changes.
    warm_start_ends: bool,
    description: Value,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest of the loaded part of a program: a file with debug information is the same program.
fn digest_of(image: &Image) -> String {
    let mut digest = Sha256::new();
    let addresses = [Some(image.entry), image.tohost, image.fromhost];
    for address in addresses {
        digest.update(address.unwrap_or(u64::MAX).to_le_bytes());
    }
    for segment in &image.segments {
        digest.update(segment.address.to_le_bytes());
        digest.update((segment.bytes.len() as u64).to_le_bytes());
        digest.update(&segment.bytes);
    }
    hex(&digest.finalize())
}

/// Replaces the paths of files in a description by their contents, since only these matter.
fn look_into_files(value: &mut Value, files: &Files) {
    match value {
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| look_into_files(value, files)),
        Value::Object(table) => table.iter_mut().for_each(|(key, value)| {
            match (key.as_str(), &*value) {
                // Programs are compared by their loaded images.
                ("program" | "co_runner", Value::String(_)) => *value = Value::Null,
                ("file" | "packets" | "firmware", Value::String(path)) => {
                    if let Ok(content) = files.get(path) {
                        *value = Value::String(hex(&Sha256::digest(content)));
                    }
                }
                _ => look_into_files(value, files),
            }
        }),
        _ => {}
    }
}

impl Subject {
    /// A run of `description` with the programs of `images` and its `files`.
    pub(crate) fn new<'i>(
        kind: Kind,
        description: &impl Serialize,
        images: impl IntoIterator<Item = &'i Image>,
        files: &Files,
    ) -> Result<Subject, RunError> {
        let mut description = serde_json::to_value(description)
            .map_err(|error| RunError::Description(error.to_string()))?;
        look_into_files(&mut description, files);
        Ok(Subject {
            simulator: crate::VERSION.to_string(),
            programs: images.into_iter().map(digest_of).collect(),
            kind,
            warm_start_ends: false,
            description,
        })
    }

    /// The same, with whether it is the end of the warm start.
    fn at(&self, warm_start_ends: bool) -> Subject {
        Subject {
            warm_start_ends,
            ..self.clone()
        }
    }

    /// The difference that prevents a state of `self` from being one of `wanted`.
    fn difference(&self, wanted: &Subject) -> Option<String> {
        if self.simulator != wanted.simulator {
            return Some(format!(
                "it was saved by version {} of the simulator, and this is {}; a checkpoint is good \
                 for one version only",
                self.simulator, wanted.simulator
            ));
        }
        if self.kind != wanted.kind {
            return Some(format!(
                "it was saved by {}, and this is {}",
                self.kind.command(),
                wanted.kind.command()
            ));
        }
        let mut may_change = MAY_CHANGE.to_vec();
        if self.warm_start_ends {
            may_change.extend(MAY_CHANGE_AFTER_WARM_START);
            // Without its own rate, the warm start is offered this one.
            let warm_start = &self.description["measure"]["warm_start"];
            if !warm_start["rate_mrps"].is_null() {
                may_change.push("traffic.saturation_rate_mrps");
            }
            // It has its own work, then; what kind an item is, it keeps when it is measured.
            if !warm_start["work_ns"].is_null() {
                may_change.extend(MAY_CHANGE_WITH_WORK);
            }
        }
        let found = differing_key("", &self.description, &wanted.description, &may_change);
        if let Some((key, saved, given)) = found {
            return Some(format!(
                "it was saved with {key} = {saved}, and the description has {given}; only {} may \
                 have changed",
                may_change.join(", ")
            ));
        }
        if self.programs != wanted.programs {
            return Some("it was saved with another program".to_string());
        }
        None
    }
}

/// The first key with different values, and both values.
fn differing_key(
    key: &str,
    saved: &Value,
    given: &Value,
    may_change: &[&str],
) -> Option<(String, Value, Value)> {
    if saved == given || may_change.contains(&key) {
        return None;
    }
    let (Value::Object(one), Value::Object(other)) = (saved, given) else {
        return Some((key.to_string(), saved.clone(), given.clone()));
    };
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    names.into_iter().find_map(|name| {
        let place = if key.is_empty() {
            name.clone()
        } else {
            format!("{key}.{name}")
        };
        let value = |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or_default();
        differing_key(&place, &value(one), &value(other), may_change)
    })
}

/// The time at which a checkpoint is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// At the end of the warm start.
    WarmStartEnds,
    /// When this number of requests has been delivered.
    Requests(u64),
    /// After this simulated time.
    Time(Time),
}

/// Saves the requested checkpoint, if any.
pub(crate) struct Saver {
    subject: Subject,
    waiting: Option<(Writing, When)>,
    /// Whether saving ends the run.
    pub(crate) stops: bool,
}

impl Saver {
    /// A saver for a run of `subject`.
    pub(crate) fn new(
        options: &CheckpointOptions,
        subject: Subject,
        has_warm_start: bool,
    ) -> Result<Saver, RunError> {
        let when = match (options.at_requests, options.at_ns) {
            (Some(requests), _) => When::Requests(requests),
            (None, Some(ns)) => When::Time(Time::from_ns(ns)),
            (None, None) => When::WarmStartEnds,
        };
        let mut waiting = None;
        if let Some(path) = &options.save {
            if when == When::WarmStartEnds && !has_warm_start {
                return Err(RunError::Description(format!(
                    "{}: a checkpoint is saved at the end of measure.warm_start, which there is \
                     none of; --checkpoint-at names another time",
                    path.display()
                )));
            }
            waiting = Some((Writing::begin(path)?, when));
        }
        Ok(Saver {
            subject,
            waiting,
            stops: false,
        })
    }

    /// Restores the checkpoint from which the run must start, if any, into `machine`.
    pub(crate) fn restore(
        &self,
        options: &CheckpointOptions,
        machine: &mut impl Resumable,
    ) -> Result<(), RunError> {
        match &options.from {
            Some(path) => restore(path, machine, &self.subject),
            None => Ok(()),
        }
    }

    /// Whether a checkpoint is still to be saved.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether the run has ended because the checkpoint was saved.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stops && self.waiting.is_none()
    }

    /// Saves `machine`, in which `delivered` requests have been delivered, if it is time to.
    pub(crate) fn look(
        &mut self,
        machine: &mut impl Resumable,
        delivered: u64,
    ) -> Result<(), RunError> {
        let Some((_, when)) = self.waiting else {
            return Ok(());
        };
        let due = match when {
            When::WarmStartEnds => false,
            When::Requests(requests) => delivered >= requests,
            When::Time(at) => machine.now() >= at,
        };
        if due && !machine.is_ending() {
            self.save_at(machine, when)?;
        }
        Ok(())
    }

    /// Saves `machine` if this is the requested time; returns whether that ends the run.
    pub(crate) fn save_at(
        &mut self,
        machine: &mut impl Resumable,
        now: When,
    ) -> Result<bool, RunError> {
        let Some((writing, _)) = self.waiting.take_if(|(_, when)| *when == now) else {
            return Ok(false);
        };
        let subject = self.subject.at(now == When::WarmStartEnds);
        writing.finish(machine, &subject)?;
        Ok(self.stops)
    }

    /// Checks, after the end of a run, that the requested checkpoint has been saved.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match &self.waiting {
            None => Ok(()),
            Some((writing, _)) => Err(RunError::Output(format!(
                "{}: no checkpoint was saved: the run ended before it was time to",
                writing.path.display()
            ))),
        }
    }
}

/// A checkpoint that will be written.
struct Writing {
    path: PathBuf,
    file: OutputFile,
}

impl Writing {
    /// Checks that `path` can be written, before long work.
    fn begin(path: &Path) -> Result<Writing, RunError> {
        let file = OutputFile::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Writing {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Writes the state of `machine`, which belongs to `subject`.
    fn finish(self, machine: &mut impl Resumable, subject: &Subject) -> Result<(), RunError> {
        let state = machine.save()?;
        write(self.file, subject, &state).map_err(|error| cannot_write(&self.path, &error))
    }
}

fn write(output: OutputFile, subject: &Subject, state: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(subject)?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&(header.len() as u64).to_le_bytes())?;
    encoder.write_all(&header)?;
    encoder.write_all(state)?;
    let body = encoder.finish()?;
    let mut file = output.writer()?;
    file.write_all(MAGIC)?;
    file.write_all(&Sha256::digest(&body))?;
    file.write_all(&body)?;
    output.finish()
}

fn cannot_write(path: &Path, error: &io::Error) -> RunError {
    RunError::Output(format!(
        "{}: the checkpoint cannot be written: {error}",
        path.display()
    ))
}

/// Restores the checkpoint in the file `path` into `machine`, which has been built for `wanted`.
fn restore(path: &Path, machine: &mut impl Resumable, wanted: &Subject) -> Result<(), RunError> {
    let wrong = |sentence: String| {
        RunError::Description(format!(
            "{}: this checkpoint cannot be used: {sentence}",
            path.display()
        ))
    };
    let content = fs::read(path).map_err(|error| {
        RunError::Description(format!(
            "{}: the checkpoint cannot be read: {error}",
            path.display()
        ))
    })?;
    let (subject, state) = read(&content).map_err(wrong)?;
    if let Some(difference) = subject.difference(wanted) {
        return Err(wrong(difference));
    }
    machine.restore(&state).map_err(wrong)
}

/// The contents of a file, or the reason that it is not a valid checkpoint.
fn read(content: &[u8]) -> Result<(Subject, Vec<u8>), String> {
    let Some(body) = content.strip_prefix(MAGIC) else {
        return Err(if content.starts_with(KIND) {
            "it has another format, of another version of the simulator".to_string()
        } else {
            "it is no checkpoint, or its beginning is damaged".to_string()
        });
    };
    let damaged = || "it is damaged, or not whole".to_string();
    let (digest, body) = body.split_at_checked(DIGEST_BYTES).ok_or_else(damaged)?;
    if Sha256::digest(body).as_slice() != digest {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    DeflateDecoder::new(body)
        .read_to_end(&mut bytes)
        .map_err(|_| damaged())?;
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(damaged)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| damaged())?;
    let (header, state) = rest.split_at_checked(length).ok_or_else(damaged)?;
    let subject = serde_json::from_slice(header).map_err(|_| damaged())?;
    Ok((subject, state.to_vec()))
}
