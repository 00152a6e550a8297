//! Reading, writing and checking descriptions.

use serde_json::{Value, json};
use server::{Description, Preset, SYSTEMS, presets, rack_schema, server_schema};
use std::collections::BTreeSet;

fn preset(name: &str) -> Preset {
    let mut presets = presets().into_iter();
    presets.find(|preset| preset.name == name).unwrap()
}

/// Descriptions of racks, with a value for each possible parameter.
fn complete() -> [Value; 3] {
    let preset = preset("nanopu-prototype");
    let service_times = json!({"distribution": "generalized-extreme-value"});
    let mut server = preset.server.table();
    server["core"]["l2"] = json!(fabric::SecondLevelSpec::default());
    server["core"]["translation"] = json!({"structure_caches": {}});
    server["core"]["commit_width"] = json!(1);
    let mut timings = json!(fabric::DramTimingSpec::default());
    let all = timings.as_object_mut().unwrap().values_mut();
    all.for_each(|cycles| *cycles = json!(4));
    server["fabric"]["memory"]["dram"] = json!({
        "bank_groups": 4, "banks_per_group": 4, "clock_ns": 0.75, "timings": timings,
    });
    server["fabric"]["memory"]["cache"] = json!({});
    server["fabric"]["last_level"]["directory"] = json!(fabric::DirectorySpec::default());
    server["fabric"]["last_level"]["io_ways"] = json!(2);
    for kind in SYSTEMS {
        server[kind.key] = json!({});
    }
    let processors = json!({"firmware": "critical-regions"});
    server["dma_nic"] = json!({"express": {"iommu": {}}, "processors": processors});
    server["critical_region"] = json!({"offload": {}});
    server["hyperplane"]["walk_places"] = json!(52);
    server["rpcvalet"]["domains"] = json!([{
        "nodes": 1, "cores": 1, "slots": 1, "max_message_bytes": 64, "dispatch": {}, "share": 1.0,
    }]);
    let data_plane = json!({
        "interface": "dma-nic",
        "server": server,
        "data_plane": {
            "notify": "spin", "queues": 1, "weights": [1], "organisation": 1, "batch": 1,
            "parameters": {"size": 1.0},
        },
        "traffic": {
            "rate_mrps": 1.0,
            "work": {"mean_ns": 1.0, "long_ns": 1.0, "service_times": service_times},
            "operations": {"warehouses": 1}, "sources": "cores", "source_cores": 1,
        },
    });
    let rack = |offer: Value| {
        json!({
            "rack": {
                "switch": {"ecn_threshold_bytes": 1000},
                "servers": [
                    {"program": "", "interface": "nanopu", "server": server}, data_plane,
                ],
                "clients": [{"load": {
                    "offer": offer,
                    "opening": [{"words": [1]}],
                    "requests": [{
                        "service_times": service_times,
                        "words": [
                            1, {"min": 1, "max": 2}, {"zipf_items": 1, "zipf_exponent": 0.99},
                        ],
                        "rows": [[1]],
                    }],
                    "max_requests": 1,
                    "transport": {
                        "homa": {"unscheduled_up_to_bytes": [1024]},
                        "program": {"constants": {"window": 1}, "tables": {"sizes": [1]}},
                    },
                }}],
            },
            "measure": {
                "precision": 0.05, "warmup": 10, "rings": "used",
                "warm_start": {"requests": 1, "rate_mrps": 1.0, "work_ns": 1.0},
            },
        })
    };
    let offers = [
        json!({"mode": "open", "rate_mrps": 1.0}),
        json!({"mode": "simultaneous", "every_ns": 1.0}),
        json!({"mode": "closed", "clients": 1}),
    ];
    offers.map(rack)
}

/// Numbers without a range, and the reason.
const UNRANGED: [(&str, &str); 11] = [
    (
        "DataPlaneSpec.parameters",
        "the program knows what it takes",
    ),
    (
        "DispatchSpec.long_from",
        "a type is any number in a message",
    ),
    ("Formula", "the rules know what they take"),
    ("MeasureSpec.seed", "each is as random as the others"),
    ("OpeningSpec.words", "a message has any words"),
    ("ProgramSpec.tables", "the rules know what they take"),
    (
        "RackServerSpec.parameters",
        "the program knows what it takes",
    ),
    ("RequestSpec.rows", "a message has any words"),
    ("Word", "a message has any words"),
    ("Word.min", "a message has any words"),
    ("Word.max", "a message has any words"),
];

#[test]
fn every_number_has_a_declared_range() {
    let schemas = [server_schema(), rack_schema()].map(|schema| schema.to_value());
    let found = schemas.iter().flat_map(spec::without_range);
    let known = UNRANGED.iter().map(|(key, _)| key.to_string());
    assert_eq!(
        BTreeSet::from_iter(found),
        known.collect(),
        "declare `#[schemars(range(min = .., max = ..))]` at the field, or say why not"
    );
}

/// Values at and beyond each bound of a number, at a distance of 1 or more.
fn at_and_beyond(range: &spec::Range<'_>, is_whole: bool) -> Vec<(Value, bool)> {
    let step = range.multiple_of.unwrap_or(1) as i128;
    let mut tried = Vec::new();
    for (bound, is_open, side) in [(range.least, range.above, -1), (range.most, range.below, 1)] {
        let Some(bound) = bound else { continue };
        tried.push((json!(bound), !is_open));
        if !is_whole {
            let bound = bound.as_f64().unwrap();
            let next = [bound.next_down(), bound.next_up()][usize::from(side > 0)];
            tried.push((json!(next), false));
        } else if let Ok(next) = u64::try_from(bound.as_i128().unwrap() + side * step) {
            tried.push((json!(next), false));
        }
    }
    tried
}

/// Tries each bound of each number in a description whose key and declaration are not in `met` yet;
/// returns how many values it has tried.
fn try_bounds(description: &Value, met: &mut BTreeSet<(String, String)>) -> usize {
    let read = |value: &Value| serde_json::from_value::<Description>(value.clone());
    let full = json!(read(description).unwrap());
    let schema = rack_schema().to_value();
    let mut count = 0;
    let walked = spec::walk(&schema, &full, &mut |key, value, declared| {
        if !value.is_number() || !met.insert((key.to_string(), declared.to_string())) {
            return Ok(());
        }
        let range = spec::Range::of(declared);
        for (tried, is_accepted) in at_and_beyond(&range, !value.is_f64()) {
            let mut changed = full.clone();
            *changed
                .pointer_mut(&format!("/{}", key.replace('.', "/")))
                .unwrap() = tried;
            // Values that the type cannot represent are refused before.
            let Ok(changed) = read(&changed) else {
                assert!(!is_accepted, "{key}");
                continue;
            };
            count += 1;
            match is_accepted {
                true => assert_eq!(changed.check_ranges(), Ok(()), "{key}"),
                false => assert_eq!(changed.check().unwrap_err().key, key),
            }
        }
        Ok(())
    });
    walked.unwrap();
    count
}

/// All declarations of numbers in a schema.
fn declarations(schema: &Value, found: &mut BTreeSet<String>) {
    let is = |name: &str| schema["type"] == name || schema["type"][0] == name;
    if is("integer") || is("number") {
        found.insert(schema.to_string());
    }
    match schema {
        Value::Array(list) => list.iter().for_each(|one| declarations(one, found)),
        Value::Object(table) => table.values().for_each(|one| declarations(one, found)),
        _ => {}
    }
}

/// A value at each declared bound is accepted, and one beyond it is refused with the key's full
/// path.
#[test]
fn ranges_are_checked_as_they_are_declared() {
    let mut met = BTreeSet::new();
    let count: usize = complete().iter().map(|one| try_bounds(one, &mut met)).sum();
    assert!(count > 400, "only {count} values have been tried");
    let mut declared = BTreeSet::new();
    declarations(&rack_schema().to_value(), &mut declared);
    let met = BTreeSet::from_iter(met.into_iter().map(|(_, declared)| declared));
    assert_eq!(
        declared.difference(&met).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
}

/// A server alone, which offers `rate_mrps`.
fn alone(rate_mrps: f64) -> Description {
    let table = json!({
        "server": preset("hyperplane-table1").server.table(),
        "data_plane": {"notify": "spin", "queues": 1},
        "traffic": {"rate_mrps": rate_mrps},
    });
    serde_json::from_value(table).unwrap()
}

/// A description that is written and read again is the same, to the last bit of every number;
/// otherwise the same run would not be found among the results.
#[test]
fn numbers_survive_being_written_and_read() {
    // Neighbours of numbers with few digits, which a slightly inexact reader would confuse.
    let mut rates: Vec<f64> = (1..2000).map(|step| f64::from(step) / 997.0).collect();
    rates.push(-9.828413039546409e-234);
    let mut description = alone(1.0);
    for rate in rates {
        let server = &mut description.tables.rack.servers[0];
        server.traffic.as_mut().unwrap().rate_mrps = Some(rate);
        let text = serde_json::to_string(&description).unwrap();
        let again: Description = serde_json::from_str(&text).unwrap();
        assert_eq!(again, description, "{rate:?}");
    }
}

/// The tables of a server alone are at the top level, and so are the keys of errors.
#[test]
fn a_server_alone_has_its_keys_at_the_top_level() {
    let of = |tables: Value| {
        let mut value = json!(alone(1.0));
        for (key, table) in tables.as_object().unwrap() {
            value[key] = table.clone();
        }
        let read: Description = serde_json::from_value(value).unwrap();
        read.check().map_err(|error| error.to_string())
    };
    assert_eq!(of(json!({})), Ok(()));
    let client = json!({"load": {
        "offer": {"mode": "open", "rate_mrps": 1.0}, "transport": {"protocol": "datagrams"},
    }});
    let clients = json!([client]);
    let served = json!({"interface": "dma-nic", "serves": true, "clients": clients});
    assert_eq!(of(served), Ok(()));
    let refused = |tables: Value| of(tables).unwrap_err();
    assert_eq!(
        refused(json!({"link": {"latency_ns": -1.0}})),
        "link.latency_ns is -1; it must be from 2 to 1000000000"
    );
    assert!(refused(json!({"clients": clients})).starts_with("clients is given; the server"));
    assert!(refused(json!({"count": 2})).starts_with("count is given; the server has no"));
    let many = json!({"interface": "dma-nic", "clients": [client, client]});
    assert_eq!(
        refused(many),
        "clients is a list with which there are 3 hosts; a link connects two; describe a switch \
         for more"
    );
    let both = json!({"interface": "dma-nic", "clients": clients, "program": "echo"});
    assert_eq!(
        refused(both),
        "program is \"echo\"; a server has either a program or a data plane (data_plane), \
         which names its program"
    );
}
