//! Computes a digest of the simulator's build, so that results of different builds are never mixed.

use sha2::{Digest, Sha256};
use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The settings of a build that can affect a program, as Cargo passes them to build scripts.
const SETTINGS: [&str; 5] = [
    "TARGET",
    "PROFILE",
    "OPT_LEVEL",
    "CARGO_CFG_TARGET_FEATURE",
    "CARGO_ENCODED_RUSTFLAGS",
];
/// Overrides of the profile in `Cargo.toml`, which Cargo does not pass.
const OVERRIDES: [&str; 2] = [
    "CARGO_PROFILE_RELEASE_LTO",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS",
];

/// A digest of named parts, each with its length, so that bytes that move between parts change it.
struct Parts(Sha256);

impl Parts {
    fn add(&mut self, name: &str, content: &[u8]) {
        for part in [name.as_bytes(), content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// Adds a file, or all files below a folder in order of their names.
    fn add_path(&mut self, path: &Path) -> io::Result<()> {
        if !path.is_dir() {
            self.add(&path.to_string_lossy(), &fs::read(path)?);
            return Ok(());
        }
        for entry in sorted(path)? {
            self.add_path(&entry)?;
        }
        Ok(())
    }
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut parts = Parts(Sha256::new());
    // Cargo.lock has the versions of all dependencies and their checksums, Cargo.toml the profiles.
    let mut paths: Vec<PathBuf> = ["Cargo.lock", "Cargo.toml"]
        .iter()
        .map(|name| Path::new("../..").join(name))
        .collect();
    for member in sorted(Path::new(".."))? {
        paths.extend(["src", "Cargo.toml", "build.rs"].map(|name| member.join(name)));
    }
    for path in paths.iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
        parts.add_path(path)?;
    }
    for name in SETTINGS.iter().chain(&OVERRIDES) {
        println!("cargo::rerun-if-env-changed={name}");
        let value = env::var(name).unwrap_or_default();
        // The location of the source is not part of the build: releases remove these paths.
        let kept: Vec<&str> = value
            .split('\u{1f}')
            .filter(|part| !part.starts_with("--remap-path-prefix="))
            .collect();
        parts.add(name, kept.join("\u{1f}").as_bytes());
    }
    let compiler = Command::new(env::var("RUSTC")?).arg("-vV").output()?;
    parts.add("rustc", &compiler.stdout);
    let digest: String = parts
        .0
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=NANOPLANE_BUILD={digest}");
    Ok(())
}
