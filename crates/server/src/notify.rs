//! Values of a description that come from the registry: notification mechanisms and network
//! interfaces.

use crate::registry::{interfaces, mechanisms};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use system::{Interface, Kind, Mechanism};

/// The notification mechanisms that need no hardware of a system.
pub(crate) static SOFTWARE: &[Mechanism] = &[
    Mechanism::new(
        "spin",
        0,
        "spinning, tightest",
        "It polls the doorbell of every queue, in the tightest loop.",
    ),
    Mechanism {
        // The batch size of DPDK's examples for rte_eth_rx_burst().
        usual_batch: 32,
        // Its consumer index advances when an item has been read.
        reads_one: true,
        ..Mechanism::new(
            "spin-poll-mode",
            2,
            "spinning in poll mode",
            "It calls a receive-burst function for every queue, as DPDK's poll-mode drivers have \
             it.",
        )
    },
    Mechanism {
        usual_batch: 32,
        reads_one: true,
        owns_queues: true,
        needs_device: Some("completions are written by a network interface"),
        ..Mechanism::new(
            "spin-mlx5",
            8,
            "spinning with ConnectX-5's driver",
            "It polls completions of 64 bytes as DPDK's vector driver for ConnectX does: four \
             completions and four buffers a poll.",
        )
    },
    Mechanism {
        usual_batch: 32,
        reads_one: true,
        owns_queues: true,
        needs_device: Some("descriptors are written back by a network interface"),
        ..Mechanism::new(
            "spin-ixgbe-vector",
            9,
            "spinning with the 82599's driver",
            "It polls descriptors of 16 bytes as DPDK's vector driver for the 82599 does: one \
             descriptor an empty poll.",
        )
    },
    Mechanism {
        sleeps: true,
        ..Mechanism::new(
            "wrs",
            3,
            "a scan that sleeps by Zawrs",
            "It polls every doorbell, and sleeps with `WRS.NTO` while all queues are empty.",
        )
    },
    Mechanism::new(
        "software-bitmap",
        4,
        "a bitmap",
        "It finds ready queues in a bitmap that producers and consumers keep in memory.",
    ),
];

/// The schema of a string with one of these schemas, one for each value.
fn one_of(about: &str, values: impl Iterator<Item = Value>) -> Schema {
    json_schema!({"description": about, "oneOf": Vec::from_iter(values)})
}

/// The element of `values` with this name.
fn named<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    values: impl Iterator<Item = (&'static str, T)>,
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    let mut known = Vec::new();
    for (value, meant) in values {
        if value == name {
            return Ok(meant);
        }
        known.push(format!("`{value}`"));
    }
    let known = known.join(", ");
    Err(D::Error::custom(format_args!(
        "unknown variant `{name}`, expected one of {known}"
    )))
}

/// How the data plane learns of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify(&'static Mechanism);

impl Notify {
    /// The mechanism with this name.
    pub fn of(name: &str) -> Option<Notify> {
        let mut known = mechanisms();
        let found = known.find(|(mechanism, _)| mechanism.name == name);
        found.map(|(mechanism, _)| Notify(mechanism))
    }

    /// Its properties.
    pub(crate) fn mechanism(self) -> &'static Mechanism {
        self.0
    }

    /// The system that it needs.
    pub(crate) fn system(self) -> Option<&'static Kind> {
        mechanisms().find_map(|(mechanism, kind)| kind.filter(|_| mechanism == self.0))
    }
}

impl Serialize for Notify {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Notify {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Notify, D::Error> {
        let known = mechanisms().map(|(mechanism, _)| (mechanism.name, Notify(mechanism)));
        named(deserializer, known)
    }
}

impl JsonSchema for Notify {
    fn schema_name() -> Cow<'static, str> {
        "Notify".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let values = mechanisms().map(|(mechanism, _)| {
            json!({
                "description": mechanism.help,
                "type": "string",
                "const": mechanism.name,
                "title": mechanism.label,
                // For figures and tests, which select comparable mechanisms.
                "mechanism": {
                    "sleeps": mechanism.sleeps,
                    "owns_queues": mechanism.owns_queues,
                    "needs_device": mechanism.needs_device.is_some(),
                    "brings_requests": mechanism.brings_requests,
                },
            })
        });
        one_of("How the data plane learns of work.", values)
    }
}

/// A network interface of a server in a rack.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceKind(&'static Kind);

impl InterfaceKind {
    /// The system that implements it.
    pub(crate) fn system(self) -> &'static Kind {
        self.0
    }
}

impl PartialEq for InterfaceKind {
    fn eq(&self, other: &InterfaceKind) -> bool {
        self.0.key == other.0.key
    }
}

impl Serialize for InterfaceKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.interface.map_or("", |interface| interface.name))
    }
}

impl<'de> Deserialize<'de> for InterfaceKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InterfaceKind, D::Error> {
        let known = interfaces().map(|(kind, interface)| (interface.name, InterfaceKind(kind)));
        named(deserializer, known)
    }
}

impl JsonSchema for InterfaceKind {
    fn schema_name() -> Cow<'static, str> {
        "InterfaceKind".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let values = interfaces().map(|(_, Interface { name, help, .. })| {
            json!({"description": help, "type": "string", "const": name})
        });
        one_of("A network interface of a server.", values)
    }
}
