use riscv::{Operation, evaluate, is_compressed};

/// Any encoding with any operands: it decodes, is written out, and computes.
pub fn decode((bits, pc, [a, b, c], rounding): (u32, u64, [u64; 3], u8)) {
    let instruction = riscv::decode(bits);
    let compressed = is_compressed(bits as u16);
    assert_eq!(instruction.length, if compressed { 2 } else { 4 });
    let own = if compressed { bits & 0xffff } else { bits };
    assert_eq!(instruction.bits, own);
    // Nothing beside the encoding's own bits counts.
    assert_eq!(riscv::decode(own), instruction);
    let text = riscv::disassemble(&instruction, pc);
    assert!(!text.is_empty());
    if instruction.operation == Operation::Illegal {
        let _ = riscv::absent_extension(bits);
        return;
    }
    let mut flags = 0;
    let value = evaluate(&instruction, pc, a, b, c, rounding % 5, &mut flags);
    assert!(flags < 32, "{text}: flags {flags}");
    let mut again = 0;
    assert_eq!(
        value,
        evaluate(&instruction, pc, a, b, c, rounding % 5, &mut again)
    );
}
