//! Names the missing extension of an illegal encoding, for the error message about a program that
//! was compiled for another machine.

use crate::is_compressed;

/// The extension that the instruction in `bits` would need, as a noun phrase: "the V extension
/// (vectors)". `None` if the encoding does not identify one.
///
/// *The RISC-V Instruction Set Manual*, Volume I, version 20240411, chapter "RV32/64G Instruction
/// Set Listings", and the chapters of the extensions.
pub fn absent_extension(bits: u32) -> Option<&'static str> {
    if is_compressed(bits as u16) {
        return compressed(bits & 0xffff);
    }
    let funct3 = bits >> 12 & 7;
    let funct7 = bits >> 25;
    let funct6 = bits >> 26;
    let rs2 = bits >> 20 & 31;
    const VECTOR: Option<&str> = Some("the V extension (vectors)");
    const HALF: Option<&str> = Some("the Zfh extension (half-precision floating point)");
    const QUAD: Option<&str> = Some("the Q extension (quad-precision floating point)");
    const CARRYLESS: Option<&str> = Some("the Zbc extension (carry-less multiplication)");
    const CRYPTOGRAPHY: Option<&str> = Some("the Zk extensions (cryptography)");
    let of_width = |format| match format {
        2 => HALF,
        3 => QUAD,
        _ => None,
    };
    match bits & 0x7f {
        0x57 => VECTOR,
        0x77 => Some("the Zvk extensions (vector cryptography)"),
        0x07 | 0x27 => match funct3 {
            1 => HALF,
            4 => QUAD,
            0 | 5 | 6 | 7 => VECTOR,
            _ => None,
        },
        0x43 | 0x47 | 0x4b | 0x4f => of_width(funct7 & 3),
        // A conversion has the other format in the field rs2.
        0x53 => of_width(funct7 & 3).or(match funct7 >> 2 {
            0x08 => of_width(rs2),
            _ => None,
        }),
        0x0f if funct3 == 2 && bits >> 20 == 4 => {
            Some("the Zicboz extension (zeroing of cache lines)")
        }
        0x0f if funct3 == 2 => Some("the Zicbom extension (management of cache lines)"),
        0x2f => match (bits >> 27, funct3) {
            (0x05, _) => Some("the Zacas extension (compare and swap)"),
            (_, 0 | 1) => Some("the Zabha extension (atomics of bytes and halfwords)"),
            _ => None,
        },
        0x13 => match (funct3, funct6) {
            (1, 0x04 | 0x0c) | (5, 0x28) => CRYPTOGRAPHY,
            (1 | 5, 0x02) => CRYPTOGRAPHY,
            (5, 0x1a) => CRYPTOGRAPHY, // brev8, beside rev8
            _ => None,
        },
        0x33 => match (funct3, funct7) {
            (5 | 7, 0x07) => Some("the Zicond extension (conditional zero)"),
            (1..=3, 0x05) => CARRYLESS,
            (2 | 4, 0x14) | (4 | 7, 0x04) => CRYPTOGRAPHY,
            (0, 0x19 | 0x1b | 0x1d | 0x1f | 0x3f) => CRYPTOGRAPHY,
            _ => None,
        },
        0x3b if funct3 == 4 && funct7 == 0x04 => CRYPTOGRAPHY, // packw
        0x73 => match (funct3, funct7, rs2) {
            (0, 0x0b, _) | (0, 0x0c, 0 | 1) => {
                Some("the Svinval extension (invalidation of address translations)")
            }
            (0, 0x11 | 0x13 | 0x23 | 0x31 | 0x33, _) | (4, 0x30..=0x37, _) => {
                Some("the H extension (hypervisor)")
            }
            (4, _, _) => Some("the Zimop extension (may-be-operations)"),
            _ => None,
        },
        _ => None,
    }
}

/// The 16-bit encodings that are reserved in RV64GC but used by other extensions.
fn compressed(bits: u32) -> Option<&'static str> {
    match (bits & 3, bits >> 13) {
        (0, 4) => Some("the Zcb extension (more compressed instructions)"),
        (1, 4) if bits >> 10 & 7 == 7 && bits >> 6 & 1 == 1 => {
            Some("the Zcb extension (more compressed instructions)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operation, decode};

    /// Encodings as produced by an assembler.
    #[test]
    fn extensions_are_named() {
        for (bits, name) in [
            (0x0d05_7557, "V extension"),       // vsetvli a0, a0, e32,m1,ta,ma
            (0x0205_6007, "V extension"),       // vle32.v v0, (a0)
            (0x0205_6027, "V extension"),       // vse32.v v0, (a0)
            (0x0200_02d7, "V extension"),       // vadd.vv v5, v0, v0
            (0x0005_1507, "Zfh extension"),     // flh fa0, 0(a0)
            (0x04b5_7553, "Zfh extension"),     // fadd.h fa0, fa0, fa1
            (0x4025_0553, "Zfh extension"),     // fcvt.s.h fa0, fa0
            (0x0005_4507, "Q extension"),       // flq fa0, 0(a0)
            (0x06b5_7553, "Q extension"),       // fadd.q fa0, fa0, fa1
            (0x0045_200f, "Zicboz extension"),  // cbo.zero (a0)
            (0x0015_200f, "Zicbom extension"),  // cbo.clean (a0)
            (0x28b6_352f, "Zacas extension"),   // amocas.d a0, a1, (a2)
            (0x00b6_052f, "Zabha extension"),   // amoadd.b a0, a1, (a2)
            (0x0eb5_5533, "Zicond extension"),  // czero.eqz a0, a0, a1
            (0x0ab5_1533, "Zbc extension"),     // clmul a0, a0, a1
            (0x3eb5_0533, "Zk extensions"),     // aes64dsm a0, a0, a1
            (0x3005_1513, "Zk extensions"),     // aes64im a0, a0
            (0x1005_1513, "Zk extensions"),     // sha256sum0 a0, a0
            (0x6875_5513, "Zk extensions"),     // brev8 a0, a0
            (0x16b5_0073, "Svinval extension"), // sinval.vma a0, a1
            (0x1800_0073, "Svinval extension"), // sfence.w.inval
            (0x6200_0073, "H extension"),       // hfence.gvma
            (0x6005_4573, "H extension"),       // hlv.b a0, (a0)
            (0x0000_8108, "Zcb extension"),     // c.lbu a0, 0(a0)
            (0x0000_9d75, "Zcb extension"),     // c.not a0
        ] {
            assert_eq!(decode(bits).operation, Operation::Illegal, "{bits:08x}");
            let found = absent_extension(bits).unwrap_or("nothing");
            assert!(found.contains(name), "{bits:08x}: {found}, not {name}");
        }
    }

    #[test]
    fn what_does_not_tell_is_not_named() {
        for bits in [0, 0xffff_ffff, 0x0000_000b, 0x9002_0000] {
            assert_eq!(absent_extension(bits), None, "{bits:08x}");
        }
    }
}
