//! The schema of results, with the parts of all systems.

use crate::registry::{SYSTEMS, interfaces};
use energy::{Energy, Split};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;
use system::{Kind, Sharing};

/// The JSON schema of a result, without additional fields.
pub fn result_schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(close));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Declares that a table has no other fields, and that an optional field is never null.
fn close(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| {
        required
            .as_array()
            .is_some_and(|all| all.contains(&json!(name)))
    };
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for (_, field) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
        if let Some(Value::Array(types)) = field.get_mut("type") {
            types.retain(|one| one != "null");
        }
        if let Some(Value::Array(kinds)) = field.get_mut("anyOf") {
            kinds.retain(|one| one["type"] != "null");
        }
    }
    schema.insert("additionalProperties".to_string(), false.into());
}

/// The reports of `kinds`, each under its key if it takes part.
fn reports<'a>(generator: &mut SchemaGenerator, kinds: impl Iterator<Item = &'a Kind>) -> Schema {
    let of = |kind: &'a Kind| Some((kind.key.to_string(), kind.statistics?(generator).to_value()));
    let properties: serde_json::Map<String, Value> = kinds.filter_map(of).collect();
    json_schema!({"type": "object", "properties": properties})
}

/// The reports of the systems of a data plane.
pub(crate) fn systems(generator: &mut SchemaGenerator) -> Schema {
    reports(generator, SYSTEMS.iter())
}

/// The reports of the systems of a server in a rack besides its interface.
pub(crate) fn systems_beside_interfaces(generator: &mut SchemaGenerator) -> Schema {
    reports(
        generator,
        SYSTEMS.iter().filter(|kind| kind.interface.is_none()),
    )
}

/// The reports of the systems that observe the cores.
pub(crate) fn observing_systems(generator: &mut SchemaGenerator) -> Schema {
    let observing = SYSTEMS.iter().filter(|kind| kind.observes_cores);
    reports(generator, observing)
}

/// The report of a network interface.
pub(crate) fn interface(generator: &mut SchemaGenerator) -> Schema {
    report_of(generator, |_| true)
}

/// The report of a network interface that shares the link of another one.
pub(crate) fn second_interface(generator: &mut SchemaGenerator) -> Schema {
    report_of(generator, |sharing| sharing == Sharing::Follows)
}

fn report_of(generator: &mut SchemaGenerator, is_meant: fn(Sharing) -> bool) -> Schema {
    let meant = interfaces().filter(|(_, interface)| is_meant(interface.sharing));
    let of = |(_, interface): (_, system::Interface)| (interface.statistics)(generator).to_value();
    let mut reports: Vec<Value> = meant.map(of).collect();
    // Equal reports are adjacent.
    reports.dedup();
    json_schema!({"anyOf": reports})
}

/// An [`Energy`] with the components of every system, each there if the system takes part.
pub(crate) struct ServerEnergy;

impl JsonSchema for ServerEnergy {
    fn schema_name() -> Cow<'static, str> {
        Energy::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let of = generator.subschema_for::<Split>().to_value();
        let mut schema = Energy::json_schema(generator);
        let table = schema.ensure_object();
        table.remove("additionalProperties");
        let components = SYSTEMS.iter().flat_map(|kind| kind.components);
        for (name, help) in components {
            let mut component = of.clone();
            component["description"] = json!(help);
            table["properties"][name] = component;
        }
        schema
    }
}
