use super::servers::{begin, small_server};
use riscv::elf as file_format;

/// Any bytes: they are refused, or they are a program that can be put into a server and begun.
pub fn elf(file: &[u8]) {
    let Ok(image) = file_format::load(file) else {
        return;
    };
    for pair in image.segments.windows(2) {
        assert!(
            pair[0].range().end <= pair[1].range().start,
            "segments overlap"
        );
    }
    for segment in &image.segments {
        assert!(segment.bytes.len() as u64 <= segment.memory_bytes);
        let _ = image.function_at(segment.address);
        let _ = image.function_at(segment.range().end);
    }
    let _ = image.function_at(image.entry);
    begin(&small_server(), image);
}
