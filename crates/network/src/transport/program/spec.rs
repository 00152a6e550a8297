//! The description of a program: what a user writes.

use crate::packet::HEADER_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A number, or an expression that yields one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Formula {
    /// A number.
    Number(u64),
    /// An expression.
    Text(String),
}

/// Numbers or expressions, by name.
pub type Formulas = BTreeMap<String, Formula>;

/// A program, or the path of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProgramSource {
    /// The path of a TOML file.
    Path(String),
    /// The contents of such a file: match-action rules, with state for each message.
    ///
    /// Defaults: nothing is declared.
    Program(Box<ProgramSpec>),
}

/// A transport as match-action rules, with state for each message.
///
/// The interface around it owns the buffers: it splits messages into packets, reassembles them,
/// detects duplicates, numbers messages and keeps the counters. The rules define the reaction to
/// each event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramSpec {
    /// The name of the protocol.
    pub name: String,
    /// Named numbers. Their expressions can use the transport's parameters.
    pub constants: Formulas,
    /// Lists of numbers in ascending order, in which `place` looks a number up.
    pub tables: BTreeMap<String, Vec<u64>>,
    /// The registers and their initial values.
    pub registers: RegistersSpec,
    /// Sets of packets of an outgoing message, which initially contain `all` packets or `none`.
    pub bitmaps: BTreeMap<String, Beginning>,
    /// Queues of packets without data, in order of priority; all of them precede data.
    pub queues: Vec<String>,
    /// Queues of packets without data that wait for the action `release`, which moves them to one of
    /// `queues`.
    pub held: Vec<String>,
    /// Bytes of a packet without data on the link, headers included.
    #[schemars(range(min = 64, max = 1514))]
    pub control_bytes: u32,
    /// Whether switches may mark its packets of data (explicit congestion notification).
    pub ecn: bool,
    /// Queues of incoming messages.
    pub lists: Vec<String>,
    /// Timers of the host.
    pub timers: Vec<String>,
    /// The order in which packets of data are sent.
    pub data: DataSpec,
    /// Priority queues of incoming messages.
    pub selections: BTreeMap<String, SelectionSpec>,
    /// The rules, in the order in which they are tried.
    pub rules: Vec<RuleSpec>,
}

impl Default for ProgramSpec {
    fn default() -> ProgramSpec {
        ProgramSpec {
            name: String::new(),
            constants: Formulas::new(),
            tables: BTreeMap::new(),
            registers: RegistersSpec::default(),
            bitmaps: BTreeMap::new(),
            queues: Vec::new(),
            held: Vec::new(),
            control_bytes: HEADER_BYTES as u32,
            ecn: false,
            lists: Vec::new(),
            timers: Vec::new(),
            data: DataSpec::default(),
            selections: BTreeMap::new(),
            rules: Vec::new(),
        }
    }
}

/// Registers of 64 bits and their initial values. A register whose name ends with `_at` holds a
/// point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RegistersSpec {
    /// Registers of the host.
    pub host: Formulas,
    /// Registers of each other host.
    pub peer: Formulas,
    /// Registers of each outgoing message.
    pub send: Formulas,
    /// Registers of each incoming message.
    pub receive: Formulas,
    /// Registers of an event, which last until its rules end: a pipeline's metadata.
    pub event: Formulas,
}

/// The initial contents of a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beginning {
    /// All packets of the message.
    All,
    /// No packet.
    None,
}

/// When a message may send packets of data, and which message is served first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataSpec {
    /// Whether a message may send the lowest packet of its `to_send`.
    pub ready: String,
    /// The sort key: the ready message with the smallest key is served first, and the oldest of
    /// equal ones. Without a key messages are served in the order in which they became ready.
    pub key: Option<String>,
}

impl Default for DataSpec {
    fn default() -> DataSpec {
        DataSpec {
            ready: "1".to_string(),
            key: None,
        }
    }
}

/// Incoming messages in order of a key: a priority queue in hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectionSpec {
    /// Whether a message is in it.
    pub when: String,
    /// The sort key: the message with the smallest key is first, and the oldest of equal ones.
    pub key: String,
    /// The maximum number of messages to select.
    pub most: Formula,
}

/// A rule: on an event, if a condition holds, perform actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// Its name in error messages.
    #[serde(default)]
    pub name: String,
    /// The event: `message`, `data`, `over`, `control`, `busy`, `egress`, `send-timer`,
    /// `receive-timer`, `timer NAME` or `select NAME`.
    pub on: String,
    /// The condition; without it the rule always applies.
    #[serde(rename = "if", default)]
    pub when: Option<String>,
    /// The actions.
    #[serde(rename = "do")]
    pub actions: Vec<String>,
}
