//! Writes the files that contain the memory map; `make docs` runs it.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in server::memory_map::files() {
        std::fs::write(repository.join(path), text)?;
    }
    Ok(())
}
