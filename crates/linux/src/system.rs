//! Calls about the system and the process.

use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::layout::STACK_BYTES;
use crate::user::Outcome;

/// The kernel version that is emulated.
pub(crate) const RELEASE: &str = "6.1.0-nanoplane";

impl Kernel {
    pub fn uname(&mut self, call: &mut Call, address: u64) -> Outcome {
        let fields = ["Linux", "nanoplane", RELEASE, "#1", "riscv64", "(none)"];
        let mut bytes = vec![0; 65 * fields.len()];
        for (field, text) in bytes.chunks_exact_mut(65).zip(fields) {
            field[..text.len()].copy_from_slice(text.as_bytes());
        }
        call.user.write(address, bytes)?;
        Ok(0)
    }

    /// `prlimit`; new limits are accepted without effect.
    pub fn prlimit(&mut self, call: &mut Call, resource: u64, old: u64) -> Outcome {
        const STACK: u64 = 3;
        const CORE: u64 = 4;
        const PROCESSES: u64 = 6;
        const FILES: u64 = 7;
        const ADDRESS_SPACE: u64 = 9;
        const LIMITS: u64 = 16;
        let limit = match resource {
            STACK => STACK_BYTES,
            CORE => 0,
            PROCESSES => crate::layout::MAXIMUM_THREADS as u64,
            FILES => crate::files::MAXIMUM_FILES as u64,
            ADDRESS_SPACE => u64::MAX,
            _ if resource < LIMITS => u64::MAX,
            _ => return Err(Errno::INVAL.into()),
        };
        if old != 0 {
            call.user.write_words(old, &[limit, limit])?;
        }
        Ok(0)
    }

    pub fn prctl(&mut self, call: &mut Call, option: u64, address: u64) -> Outcome {
        const SET_NAME: u64 = 15;
        const GET_NAME: u64 = 16;
        match option {
            SET_NAME => {
                let mut name = call.user.string(address)?;
                name.resize(15, 0);
                self.process.name[..15].copy_from_slice(&name);
                Ok(0)
            }
            GET_NAME => {
                call.user.write(address, self.process.name.to_vec())?;
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn sysinfo(&mut self, call: &mut Call, address: u64) -> Outcome {
        let free = self.frames.borrow().free_bytes();
        let processes = self.process_ids().len() as u64;
        let mut words = [0; 14];
        words[0] = self.now_ns() / 1_000_000_000;
        words[4] = self.memory_bytes;
        words[5] = free;
        words[10] = processes;
        words[13] = 1; // the unit of sizes, in bytes
        call.user.write_words(address, &words)?;
        Ok(0)
    }

    /// `riscv_hwprobe`: pairs of a key and a value.
    pub fn hardware_probe(&mut self, call: &mut Call, pairs: u64, count: u64) -> Outcome {
        const BASE_BEHAVIOUR: i64 = 3;
        const EXTENSIONS: i64 = 4;
        const MISALIGNED_SPEED: i64 = 5;
        // Floating point, C, Zba, Zbb, Zbs.
        const AVAILABLE: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5;
        const FAST: u64 = 3;
        if count > 1024 {
            return Err(Errno::INVAL.into());
        }
        let bytes = call.user.bytes(pairs, 16 * count)?;
        for (index, pair) in bytes.chunks_exact(16).enumerate() {
            let key = i64::from_le_bytes(pair[..8].try_into().unwrap_or_default());
            let (key, value) = match key {
                0..=2 => (key, 0), // the vendor's identification
                BASE_BEHAVIOUR => (key, 1),
                EXTENSIONS => (key, AVAILABLE),
                MISALIGNED_SPEED => (key, FAST),
                _ => (-1, 0),
            };
            let address = pairs + 16 * index as u64;
            call.user.write_words(address, &[key as u64, value])?;
        }
        Ok(0)
    }
}
