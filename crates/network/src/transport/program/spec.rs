//! The description of a program: what a user writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A number, or an expression of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Formula {
    /// A number.
    Number(u64),
    /// An expression.
    Text(String),
}

/// Named numbers, or expressions of them.
pub type Formulas = BTreeMap<String, Formula>;

/// A program, or where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProgramSource {
    /// The path of a TOML file.
    Path(String),
    /// What is in one: rules of match and action, with state for each message.
    ///
    /// Defaults: nothing is declared.
    Program(Box<ProgramSpec>),
}

/// A transport as rules of match and action, with state for each message.
///
/// The interface around it has the buffers: it cuts messages into packets, puts packets together,
/// knows duplicates, numbers messages, and counts. The rules say what follows from an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramSpec {
    /// The name of the protocol.
    pub name: String,
    /// Names for numbers. An expression can use what the transport's parameters give.
    pub constants: Formulas,
    /// Lists of numbers in ascending order, which `place` looks a number up in.
    pub tables: BTreeMap<String, Vec<u64>>,
    /// The state, and what it begins with.
    pub registers: RegistersSpec,
    /// Sets of packets of a message that is sent, which begin with `all` packets or with `none`.
    pub bitmaps: BTreeMap<String, Beginning>,
    /// Queues of packets without data, in the order in which they are served; all before data.
    pub queues: Vec<String>,
    /// Queues of messages that are put together.
    pub lists: Vec<String>,
    /// Timers of the host.
    pub timers: Vec<String>,
    /// Which packets of data go first.
    pub data: DataSpec,
    /// Orders of the messages that are put together.
    pub selections: BTreeMap<String, SelectionSpec>,
    /// What to do, in order.
    pub rules: Vec<RuleSpec>,
}

/// Registers of 64 bits, and what they begin with. A register whose name ends with `_at` has a
/// point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RegistersSpec {
    /// Registers of the host.
    pub host: Formulas,
    /// Registers of each other host.
    pub peer: Formulas,
    /// Registers of each message that is sent.
    pub send: Formulas,
    /// Registers of each message that is put together.
    pub receive: Formulas,
    /// Registers of an event, which are forgotten after it: metadata of a pipeline.
    pub event: Formulas,
}

/// What a bitmap begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beginning {
    /// All packets of the message.
    All,
    /// No packet.
    None,
}

/// Which packets of data are sent, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataSpec {
    /// Whether a message may send: the lowest packet of its `to_send`, if there is one.
    pub ready: String,
    /// The ready message with the smallest number goes first, and of equal ones the oldest.
    /// Without it messages are sent in the order in which they became ready.
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

/// Messages in an order: a priority queue in hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectionSpec {
    /// Which messages are in it.
    pub when: String,
    /// The message with the smallest number is the first one, and of equal ones the oldest.
    pub key: String,
    /// How many are selected at most.
    pub most: Formula,
}

/// A rule: on an event, if a condition holds, actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// What it is for; errors name it.
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
