//! The small servers that most targets run something on.

use pipeline::NoExtension;
use riscv::elf::Image;
use rpcvalet::RpcValetSpec;
use server::{Machine, RunError, ServerSpec, presets};

/// A program that ends at once, with status 0.
pub const EXITS: &[u8] = include_bytes!("../seeds/elf/exits.elf");

/// A small server that is built quickly.
pub fn small_server() -> ServerSpec {
    let preset = presets().into_iter().next().expect("there is a preset");
    let mut spec = preset.server;
    spec.memory_mib = 16;
    spec.rpcvalet = Some(RpcValetSpec {
        backends: 1,
        ..RpcValetSpec::default()
    });
    spec.fabric.cores = 1;
    spec.fabric.mesh.columns = 2;
    spec.fabric.mesh.rows = 1;
    spec.fabric.memory.controllers = 1;
    spec.fabric.last_level.size_bytes_per_bank = 4096;
    spec.fabric.last_level.ways = 4;
    spec
}

/// Runs a program for a few thousand cycles, if it can be put into the server.
pub fn begin(spec: &ServerSpec, image: Image) {
    let Ok(mut machine) = Machine::new(spec, image, &[], false, |_| Ok(Box::new(NoExtension)))
    else {
        return;
    };
    machine.engine.set_speed(32, true);
    for _ in 0..200 {
        match machine.advance() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
}

/// A run has ended: well, or with a sentence.
pub fn ended<T>(result: Result<T, RunError>) {
    if let Err(error) = result {
        assert!(!error.to_string().is_empty());
    }
}
