//! Parts of programs for network interfaces: nanoPU's registers, and conventional rings.

use super::assembler::*;
use server::{ServerSpec, presets};

/// nanoPU's registers (guest/include/lnic.h).
pub const NET_RX: Register = T5;
pub const NET_TX: Register = T6;
pub const MESSAGE_READY: u32 = 0x52;
pub const CURRENT_CONTEXT: u32 = 0x53;
pub const COMMAND: u32 = 0x54;
pub const CURRENT_PRIORITY: u32 = 0x55;
pub const USER_COMMAND: u32 = 0x56;

/// A conventional interface's registers, and memory for its buffers and rings.
pub const REGISTERS: u64 = 0x1001_6000;
pub const BUFFERS: u64 = 0x8020_0000;
pub const RINGS: u64 = 0x8030_0000;

/// The addresses of the server and of its client.
pub const SERVER: u32 = 0x0a00_0001;
pub const CLIENT: u32 = 0x0a00_0002;

/// nanoPU's prototype, with little memory.
pub fn nanopu_prototype() -> ServerSpec {
    let mut presets = presets().into_iter();
    let preset = presets.find(|preset| preset.name == "nanopu-prototype");
    let mut server = preset.expect("there is such a preset").server;
    server.memory_mib = 16;
    server
}

pub fn csr_write_immediate(asm: &mut Assembler, number: u32, value: u32) {
    asm.emit(number << 20 | value << 15 | 5 << 12 | 0x73);
}

/// Swaps the Ethernet addresses, whose last four bytes differ, of the frame in a buffer.
pub fn swap_addresses(asm: &mut Assembler, buffer: Register) {
    for (offset, register) in [(2, T1), (4, T2), (8, T3), (10, T4)] {
        asm.load(2, false, register, buffer, offset);
    }
    for (offset, register) in [(8, T1), (10, T2), (2, T3), (4, T4)] {
        asm.store(2, register, buffer, offset);
    }
}
