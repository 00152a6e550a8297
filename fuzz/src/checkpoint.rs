use super::input::Input;
use super::program::{add_immediate, bare_metal, load_double, pages_ahead};
use super::servers::small_server;
use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use server::{CheckpointOptions, Description, ExecuteOptions, Limits, Program, RunError, execute};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The line that a file begins with, and the digest of what follows.
const MAGIC_BYTES: usize = 23;
const DIGEST_BYTES: usize = 32;
const MAX_INSTRUCTIONS: u64 = 20_000;
const MAX_LOOKS: u32 = 20;

/// Two harts that add to a word and to others for ever.
fn program() -> Program {
    let word = |bits: u32| bits;
    let code = [
        pages_ahead(8, 2),
        word(0x1004_32af), // lr.d t0, (s0)
        add_immediate(5, 5, 1),
        word(0x1854_332f),     // sc.d t1, t0, (s0)
        word(0xfe03_1ae3),     // bne t1, x0, -12
        load_double(7, 8, 64), // and what nobody shares
        word(0x0253_83b3),     // mul t2, t2, t0
        word(0x0474_3023),     // sd t2, 64(s0)
        load_double(28, 8, 512),
        word(0xfe1f_f06f), // jal x0, -32
    ];
    Program {
        elf: bare_metal(&code, &[0; 1024]),
        ..Program::default()
    }
}

fn description() -> Description {
    let mut server = small_server();
    server.fabric.cores = 2;
    serde_json::from_value(serde_json::json!({
        "server": server.table(),
        "data_plane": { "notify": "spin", "queues": 1 },
    }))
    .expect("it is a description")
}

fn executed(checkpoint: CheckpointOptions) -> Result<(), RunError> {
    let options = ExecuteOptions {
        checkpoint,
        limits: Limits {
            instructions: Some(MAX_INSTRUCTIONS),
            ..Limits::default()
        },
        ..ExecuteOptions::default()
    };
    let mut looks = 0;
    execute(&description(), &program(), &options, || {
        looks += 1;
        looks < MAX_LOOKS
    })
    .map(|_| ())
}

/// A file for this call alone.
fn file() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("nanoplane-fuzz-{}-{number}.checkpoint", std::process::id());
    std::env::temp_dir().join(name)
}

/// A checkpoint of the run.
fn saved() -> &'static [u8] {
    static SAVED: OnceLock<Vec<u8>> = OnceLock::new();
    SAVED.get_or_init(|| {
        let path = file();
        let ended = executed(CheckpointOptions {
            save: Some(path.clone()),
            at_ns: Some(900.0),
            ..CheckpointOptions::default()
        });
        assert!(is_cut_off(&ended), "{ended:?}");
        let content = fs::read(&path).expect("it was saved");
        fs::remove_file(path).expect("it is there");
        content
    })
}

fn is_cut_off(ended: &Result<(), RunError>) -> bool {
    matches!(ended, Err(RunError::Limit(_) | RunError::Interrupted))
}

/// Bytes of a checkpoint that are changed, those of the file or, by the lowest bit of the first
/// byte, those that are compressed in it, with the digest made right; by the next bit only such as
/// are not zero, of which there are few. A changed file is refused in a sentence; changed content
/// is refused in one, or goes on.
pub fn checkpoint(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.byte();
    let inside = how & 1 == 1;
    let file_bytes = saved();
    let body = &file_bytes[MAGIC_BYTES + DIGEST_BYTES..];
    let mut content = Vec::new();
    if inside {
        DeflateDecoder::new(body)
            .read_to_end(&mut content)
            .expect("it can be read");
    } else {
        content = file_bytes.to_vec();
    }
    let before = content.clone();
    let mut places: Vec<usize> = (0..content.len()).collect();
    if how & 2 != 0 {
        places.retain(|&place| before[place] != 0);
    }
    while !input.is_empty() {
        let number = input.half() | u64::from(input.byte()) << 16;
        content[places[number as usize % places.len()]] = input.byte();
    }
    let is_changed = content != before;
    if inside {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&content).expect("it is memory");
        let body = encoder.finish().expect("it is memory");
        content = file_bytes[..MAGIC_BYTES].to_vec();
        content.extend_from_slice(&Sha256::digest(&body));
        content.extend(body);
    }
    let path = file();
    fs::write(&path, content).expect("it can be written");
    let ended = executed(CheckpointOptions {
        from: Some(path.clone()),
        ..CheckpointOptions::default()
    });
    fs::remove_file(path).expect("it is there");
    match ended {
        Err(RunError::Description(sentence)) if is_changed => {
            assert!(
                sentence.contains("this checkpoint cannot be used: "),
                "{sentence}"
            );
        }
        ended if !is_changed => assert!(is_cut_off(&ended), "{ended:?}"),
        Err(error) => assert!(inside && !error.to_string().is_empty(), "{error}"),
        Ok(()) => assert!(inside, "a changed file is used"),
    }
}
