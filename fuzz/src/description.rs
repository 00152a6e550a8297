use super::input::replace_numbers;
use super::servers::{EXITS, small_server};
use server::{Description, ExecuteOptions, Program, RunError};

/// Any text, and any numbers in a description: they are refused in a sentence, or they are a
/// server that can be built and begun.
pub fn description(bytes: &[u8]) {
    if let Ok(description) = serde_json::from_slice::<Description>(bytes) {
        return described(&description);
    }
    let mut value = serde_json::json!({
        "server": small_server().table(),
        "data_plane": { "notify": "spin", "queues": 4 },
    });
    replace_numbers(&mut value, &mut bytes.iter().copied());
    if let Ok(description) = serde_json::from_value::<Description>(value) {
        described(&description);
    }
}

fn described(description: &Description) {
    let text = serde_json::to_string(description).expect("it can be written");
    let again: Description = serde_json::from_str(&text).expect("it can be read again");
    assert_eq!(&again, description);
    let _ = description.check();
    let [only] = &*description.tables.rack.servers else {
        return;
    };
    let fabric = &only.server.fabric;
    let tiles = fabric.mesh.columns.saturating_mul(fabric.mesh.rows) as u64;
    let cache_bytes = fabric.last_level.size_bytes_per_bank.saturating_mul(tiles);
    if cache_bytes > 1 << 24 && cache_bytes <= 1 << 30 {
        return; // it can be built, and takes long
    }
    let program = Program {
        elf: EXITS.to_vec(),
        ..Program::default()
    };
    match server::execute(description, &program, &ExecuteOptions::default(), || false) {
        Ok(result) => assert_eq!(result.exit_status, 0),
        Err(RunError::Description(sentence)) => assert!(!sentence.is_empty()),
        Err(RunError::Interrupted) => {}
        Err(error) => panic!("{error}"),
    }
}
