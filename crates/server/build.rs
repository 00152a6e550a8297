//! Tells the simulator what it is made of, so that results of different sources are never mixed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8], mut state: u64) -> u64 {
    for &byte in bytes {
        state = (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    state
}

/// All files below `folder`, in the order of their names.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            found.extend(files(&entry)?);
        } else {
            found.push(entry);
        }
    }
    Ok(found)
}

fn main() -> io::Result<()> {
    let crates = Path::new("..");
    let lock = Path::new("../../Cargo.lock");
    let mut state = hash(&fs::read(lock)?, 0xcbf2_9ce4_8422_2325);
    println!("cargo::rerun-if-changed={}", lock.display());
    let mut rooms: Vec<PathBuf> = fs::read_dir(crates)?
        .map(|entry| entry.map(|entry| entry.path().join("src")))
        .collect::<io::Result<_>>()?;
    rooms.sort();
    for room in rooms.iter().filter(|room| room.is_dir()) {
        println!("cargo::rerun-if-changed={}", room.display());
        for file in files(room)? {
            state = hash(file.to_string_lossy().as_bytes(), state);
            state = hash(&fs::read(&file)?, state);
        }
    }
    println!("cargo::rustc-env=NANOPLANE_SOURCES={:08x}", state as u32);
    Ok(())
}
