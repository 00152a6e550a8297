use super::servers::{begin, small_server};
use pipeline::CoreSpec;
use riscv::elf::{Headers, Image, Segment};

/// Any bytes as code: the first says on which core they run. Whatever they do, the simulator goes
/// on, or says in words why not.
pub fn guest(bytes: &[u8]) {
    const CODE: u64 = 0x8000_0000;
    const HOST: u64 = 0x8000_8000;
    let Some((&choice, code)) = bytes.split_first() else {
        return;
    };
    let mut spec = small_server();
    if choice & 1 == 1 {
        spec.core = CoreSpec::five_stage();
    }
    spec.fabric.cores = 1 + usize::from(choice >> 1 & 1);
    let segment = Segment {
        address: CODE,
        virtual_address: CODE,
        memory_bytes: code.len().max(1) as u64,
        bytes: code.to_vec(),
        executable: true,
        writable: true,
    };
    let image = Image {
        entry: CODE,
        segments: vec![segment],
        symbols: Vec::new(),
        tohost: Some(HOST),
        fromhost: Some(HOST + 64),
        headers: Headers::default(),
    };
    begin(&spec, image);
}
