//! Parameters: a field declares type, range, default and meaning once, and its check follows from
//! the schema.
//!
//! ```
//! #[derive(serde::Serialize, schemars::JsonSchema)]
//! struct Cache {
//!     /// Ways of each set.
//!     #[schemars(range(min = 1, max = 64))]
//!     ways: u32,
//! }
//!
//! use spec::Under;
//! let wrong = spec::check(&Cache { ways: 65 }).under("core.l1_data").unwrap_err();
//! assert_eq!(wrong.to_string(), "core.l1_data.ways is 65; it must be from 1 to 64");
//! ```

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Number, Value};
use std::any::TypeId;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {found}; {accepted}")]
pub struct SpecError {
    /// Its full key, with the names of tables and the indices of entries that contain it:
    /// `rack.servers.0.count`.
    pub key: String,
    /// The value found.
    pub found: String,
    /// The accepted values, as a sentence without its full stop.
    pub accepted: String,
}

impl SpecError {
    /// An error about the value `found` of `key`.
    pub fn new(
        key: impl Into<String>,
        found: impl Display,
        accepted: impl Into<String>,
    ) -> SpecError {
        SpecError {
            key: key.into(),
            found: found.to_string(),
            accepted: accepted.into(),
        }
    }
}

/// Prefixes the keys of errors with an outer table.
pub trait Under {
    /// The same, as the key of a parameter of `table`.
    fn under(self, table: impl Display) -> Self;
}

impl Under for SpecError {
    fn under(self, table: impl Display) -> SpecError {
        let key = format!("{table}.{}", self.key);
        SpecError { key, ..self }
    }
}

impl<T> Under for Result<T, SpecError> {
    fn under(self, table: impl Display) -> Result<T, SpecError> {
        self.map_err(|error| error.under(table))
    }
}

/// Returns an error unless a relation between parameters holds, which no declaration of one of them
/// can express.
pub fn require(
    holds: bool,
    key: &str,
    found: impl Display,
    accepted: impl Into<String>,
) -> Result<(), SpecError> {
    if holds {
        return Ok(());
    }
    Err(SpecError::new(key, found, accepted))
}

/// Checks that each parameter of a table is in its declared range.
pub fn check<T: Serialize + JsonSchema + 'static>(table: &T) -> Result<(), SpecError> {
    let value = serde_json::to_value(table)
        .map_err(|error| SpecError::new("the description", error, "it must be possible as JSON"))?;
    step(schema_of::<T>(), &value, &mut String::new(), &mut accepts)
}

/// The schema of a type, with references expanded. It is built once, because a sweep checks
/// thousands of descriptions.
fn schema_of<T: JsonSchema + 'static>() -> &'static Value {
    static KNOWN: Mutex<Option<HashMap<TypeId, &'static Value>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let of = known.get_or_insert_default().entry(TypeId::of::<T>());
    of.or_insert_with(|| Box::leak(Box::new(expanded(schemars::schema_for!(T).as_value()))))
}

/// Calls `visit` for each value in `value`, including itself, with its key and its schema. Of
/// several alternatives, the one that fits the value is used.
pub fn walk(
    schema: &Value,
    value: &Value,
    visit: &mut impl FnMut(&str, &Value, &Value) -> Result<(), SpecError>,
) -> Result<(), SpecError> {
    step(&expanded(schema), value, &mut String::new(), visit)
}

/// A schema with all references expanded.
fn expanded(root: &Value) -> Value {
    fn expand(root: &Value, part: &Value) -> Value {
        match part {
            Value::Object(table) => {
                if let Some(target) = part["$ref"].as_str() {
                    let target = root.pointer(target.trim_start_matches('#'));
                    return target.map_or(Value::Null, |target| expand(root, target));
                }
                let parts = table.iter().filter(|(name, _)| *name != "$defs");
                let parts = parts.map(|(name, part)| (name.clone(), expand(root, part)));
                Value::Object(parts.collect())
            }
            Value::Array(list) => list.iter().map(|part| expand(root, part)).collect(),
            other => other.clone(),
        }
    }
    expand(root, root)
}

fn step(
    schema: &Value,
    value: &Value,
    key: &mut String,
    visit: &mut impl FnMut(&str, &Value, &Value) -> Result<(), SpecError>,
) -> Result<(), SpecError> {
    let schema = meant(schema, value);
    visit(key, value, schema)?;
    let mut inside = |name: &str, schema: &Value, value: &Value| {
        let length = key.len();
        if length > 0 {
            key.push('.');
        }
        key.push_str(name);
        step(schema, value, key, visit)?;
        key.truncate(length);
        Ok(())
    };
    match value {
        Value::Object(table) => table.iter().try_for_each(|(name, value)| {
            let of = schema["properties"].get(name);
            let of = of.unwrap_or(&schema["additionalProperties"]);
            inside(name, of, value)
        }),
        Value::Array(list) => {
            let mut entries = list.iter().enumerate();
            entries
                .try_for_each(|(place, value)| inside(&place.to_string(), &schema["items"], value))
        }
        _ => Ok(()),
    }
}

/// The alternative that fits the value.
fn meant<'a>(schema: &'a Value, value: &Value) -> &'a Value {
    let mut found = alternatives(schema).map(|one| meant(one, value));
    found.find(|one| fits(one, value)).unwrap_or(schema)
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = [schema["anyOf"].as_array(), schema["oneOf"].as_array()];
    lists.into_iter().flatten().flatten()
}

/// Whether a value fits a schema without alternatives, whatever its numbers.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some(constant) = schema.get("const") {
        return value == constant;
    }
    if let Some(constants) = schema["enum"].as_array() {
        return constants.contains(value);
    }
    let Some(table) = value.as_object() else {
        return has_type(schema, value);
    };
    let properties = &schema["properties"];
    let mut required = schema["required"].as_array().into_iter().flatten();
    has_type(schema, value)
        && required.all(|name| name.as_str().is_some_and(|name| table.contains_key(name)))
        && table
            .iter()
            .all(|(name, value)| match properties.get(name) {
                None => schema["additionalProperties"] != Value::Bool(false),
                Some(of) => of.get("const").is_none_or(|constant| value == constant),
            })
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |name: &Value| match (name.as_str(), value) {
        (Some("integer"), Value::Number(number)) => !number.is_f64(),
        (Some("number"), Value::Number(_))
        | (Some("string"), Value::String(_))
        | (Some("boolean"), Value::Bool(_))
        | (Some("null"), Value::Null)
        | (Some("array"), Value::Array(_))
        | (Some("object"), Value::Object(_)) => true,
        _ => false,
    };
    match &schema["type"] {
        Value::Array(names) => names.iter().any(is),
        Value::Null => !alternatives(schema).any(|_| true),
        name => is(name),
    }
}

/// Checks that a value is in its declared range. Rust already guarantees its type.
fn accepts(key: &str, value: &Value, schema: &Value) -> Result<(), SpecError> {
    // Nearly all values are accepted: no sentences are built for them.
    let refused = |found: String, accepted: String| Err(SpecError::new(key, found, accepted));
    match value {
        Value::Number(number) => {
            let range = Range::of(schema);
            match range.has(number) {
                true => Ok(()),
                false => refused(shown(number), range.sentence()),
            }
        }
        // NaN and infinity, as JSON represents them.
        Value::Null if !has_type(schema, value) => {
            refused("not a number".to_string(), Range::of(schema).sentence())
        }
        Value::Array(list) => {
            let bound = |name: &str, other| schema[name].as_u64().unwrap_or(other);
            let (least, most) = (bound("minItems", 0), bound("maxItems", u64::MAX));
            if (least..=most).contains(&(list.len() as u64)) {
                return Ok(());
            }
            let accepted = match most {
                u64::MAX => format!("it must have {least} entries or more"),
                _ => format!("it must have from {least} to {most} entries"),
            };
            refused(format!("a list of {}", list.len()), accepted)
        }
        _ => Ok(()),
    }
}

/// The declared range of a number.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The lower bound.
    pub least: Option<&'a Number>,
    /// Whether `least` itself is excluded.
    pub above: bool,
    /// The upper bound.
    pub most: Option<&'a Number>,
    /// Whether `most` itself is excluded.
    pub below: bool,
    /// The number of which it must be a multiple.
    pub multiple_of: Option<u64>,
}

impl Range<'_> {
    /// The range in a schema without alternatives.
    pub fn of(schema: &Value) -> Range<'_> {
        let number = |name: &str| schema[name].as_number();
        let (above, below) = (number("exclusiveMinimum"), number("exclusiveMaximum"));
        Range {
            least: above.or(number("minimum")),
            above: above.is_some(),
            most: below.or(number("maximum")),
            below: below.is_some(),
            multiple_of: schema["multipleOf"].as_u64(),
        }
    }

    fn has(&self, number: &Number) -> bool {
        let is = |bound: Option<&Number>, side: Ordering, is_refused: bool| {
            bound.is_none_or(|bound| match compared(number, bound) {
                Some(Ordering::Equal) => !is_refused,
                other => other == Some(side),
            })
        };
        let is_multiple = match (self.multiple_of, number.as_u64()) {
            (Some(of), Some(number)) => number.is_multiple_of(of),
            (of, _) => of.is_none(),
        };
        is(self.least, Ordering::Greater, self.above)
            && is(self.most, Ordering::Less, self.below)
            && is_multiple
    }

    fn sentence(&self) -> String {
        let least = self.least.map(shown).map(|least| match self.above {
            true => format!("above {least}"),
            false => format!("{least} or more"),
        });
        let most = self.most.map(shown).map(|most| match self.below {
            true => format!("below {most}"),
            false => format!("{most} or less"),
        });
        let range = match (self.least, self.most) {
            (Some(least), Some(most)) if !self.above && !self.below => {
                format!("from {} to {}", shown(least), shown(most))
            }
            _ => Vec::from_iter(least.into_iter().chain(most)).join(" and "),
        };
        let multiple = self.multiple_of.map(|of| format!("a multiple of {of}"));
        let parts = multiple
            .into_iter()
            .chain((!range.is_empty()).then_some(range));
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => "it must be a number".to_string(),
            false => format!("it must be {}", parts.join(" ")),
        }
    }
}

/// The numbers of a schema that are declared without a lower or an upper bound, by type and field.
/// Tests of the crates with the descriptions list the justified ones.
pub fn without_range(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    search(
        schema,
        schema["title"].as_str().unwrap_or_default(),
        &mut found,
    );
    found
}

fn search(schema: &Value, label: &str, found: &mut BTreeSet<String>) {
    let range = Range::of(schema);
    let is_number = schema.get("type").is_some() && has_type(schema, &Value::from(0));
    if is_number && (range.least.is_none() || range.most.is_none()) {
        found.insert(label.to_string());
    }
    let tables = |name: &str| schema[name].as_object().into_iter().flatten();
    tables("$defs").for_each(|(name, of)| search(of, name, found));
    tables("properties").for_each(|(name, of)| search(of, &format!("{label}.{name}"), found));
    let inside = [&schema["items"], &schema["additionalProperties"]];
    let inside = inside.into_iter().chain(alternatives(schema));
    inside
        .filter(|of| of.is_object())
        .for_each(|of| search(of, label, found));
}

/// Compares exactly, even large integers.
fn compared(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// A number as users write it: 10000 and 0.000001, not 10000.0 and 1e-6.
fn shown(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Serialize, JsonSchema)]
    struct Table {
        #[schemars(range(min = 1, max = u64::MAX))]
        count: u64,
        #[schemars(range(min = 0.5, max = 1e9))]
        part: Option<f64>,
        #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
        shape: f64,
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 2.0))]
        share: f64,
        #[schemars(range(min = 64, max = 1024), extend("multipleOf" = 64))]
        bytes: u32,
        #[schemars(length(max = 2), inner(range(max = 9)))]
        list: Vec<u8>,
        tagged: Option<Tagged>,
        words: Vec<Word>,
    }

    #[derive(Clone, Debug, Serialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
    enum Tagged {
        Small {
            #[schemars(range(max = 1))]
            size: u32,
        },
        Large {
            #[schemars(range(max = 100))]
            size: u32,
        },
    }

    #[derive(Clone, Debug, Serialize, JsonSchema)]
    #[serde(untagged, deny_unknown_fields)]
    enum Word {
        Constant(#[schemars(range(max = 3))] u64),
        Named(Named),
        Uniform {
            #[schemars(range(max = 4))]
            least: u64,
        },
    }

    #[derive(Clone, Debug, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Named {
        One,
        TheOther,
    }

    fn good() -> Table {
        Table {
            count: 1,
            part: None,
            shape: 0.5,
            share: 0.0,
            bytes: 128,
            list: vec![9, 0],
            tagged: Some(Tagged::Large { size: 100 }),
            words: vec![
                Word::Constant(3),
                Word::Named(Named::TheOther),
                Word::Uniform { least: 4 },
                Word::Named(Named::One),
            ],
        }
    }

    #[test]
    fn what_is_declared_is_checked() {
        assert_eq!(check(&good()), Ok(()));
        let without_options = Table {
            part: None,
            tagged: None,
            ..good()
        };
        assert_eq!(check(&without_options), Ok(()));
        type Change = fn(&mut Table);
        let wrong: [(Change, &str); 13] = [
            (
                |it| it.count = 0,
                "count is 0; it must be from 1 to 18446744073709551615",
            ),
            (
                |it| it.part = Some(0.25),
                "part is 0.25; it must be from 0.5 to 1000000000",
            ),
            (
                |it| it.shape = 0.0,
                "shape is 0; it must be above 0 and below 1",
            ),
            (
                |it| it.shape = 1.0,
                "shape is 1; it must be above 0 and below 1",
            ),
            (
                |it| it.shape = f64::NAN,
                "shape is not a number; it must be above 0 and below 1",
            ),
            (
                |it| it.share = 2.0,
                "share is 2; it must be 0 or more and below 2",
            ),
            (
                |it| it.bytes = 100,
                "bytes is 100; it must be a multiple of 64 from 64 to 1024",
            ),
            (
                |it| it.list = vec![0; 3],
                "list is a list of 3; it must have from 0 to 2 entries",
            ),
            (|it| it.list[1] = 10, "list.1 is 10; it must be from 0 to 9"),
            (
                |it| it.tagged = Some(Tagged::Small { size: 2 }),
                "tagged.size is 2; it must be from 0 to 1",
            ),
            (
                |it| it.tagged = Some(Tagged::Large { size: 101 }),
                "tagged.size is 101; it must be from 0 to 100",
            ),
            (
                |it| it.words[0] = Word::Constant(4),
                "words.0 is 4; it must be from 0 to 3",
            ),
            (
                |it| it.words[2] = Word::Uniform { least: 5 },
                "words.2.least is 5; it must be from 0 to 4",
            ),
        ];
        for (change, sentence) in wrong {
            let mut table = good();
            change(&mut table);
            assert_eq!(check(&table).unwrap_err().to_string(), sentence);
        }
    }

    #[test]
    fn keys_are_told_from_the_outermost_table() {
        let error = Err::<(), _>(SpecError::new("ways", 0, "it must be 1 or more"));
        let error = error.under("l1_data").under(format_args!("servers.{}", 3));
        assert_eq!(
            error.unwrap_err().to_string(),
            "servers.3.l1_data.ways is 0; it must be 1 or more"
        );
    }
}
