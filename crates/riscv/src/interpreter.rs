//! One hart and its memory, an instruction at a time and as plainly as can be.
//!
//! This is the executable specification: the order in which an instruction is fetched, checked,
//! executed and retired, in terms of the functions that faster machines use as well.
//!
//! ```
//! use riscv::interpreter::{FlatMemory, Machine, Memory, Step};
//!
//! let mut memory = FlatMemory::new(0x8000_0000, 4096);
//! memory.write(0x8000_0000, 4, 0x02a0_0513); // li a0, 42
//! let mut machine = Machine::new(memory, 0x8000_0000);
//! assert!(matches!(machine.step(), Step::Retired(_)));
//! assert_eq!(machine.registers[10], 42);
//! ```

use crate::csr::{Counters, Hart, Privilege, SystemOutcome};
use crate::elf::Image;
use crate::instruction::{Class, Instruction, SINK};
use crate::trap::{Cause, Trap};
use crate::{Attempts, branch_taken, decode, evaluate, illegal_rounding, is_compressed};

/// Memory as a hart sees it. Any address, aligned or not; little-endian.
pub trait Memory {
    /// The value of 1, 2, 4 or 8 bytes at an address, zero-extended; nothing if some of them
    /// do not exist.
    fn read(&mut self, address: u64, bytes: u8) -> Option<u64>;

    /// Writes the low 1, 2, 4 or 8 bytes of a value; false, and nothing written, if some of
    /// the bytes do not exist.
    fn write(&mut self, address: u64, bytes: u8, value: u64) -> bool;

    /// The two bytes of an instruction at an address; nothing if they cannot be executed. To be
    /// given by memory with devices in it: those are not executed.
    fn fetch(&mut self, address: u64) -> Option<u16> {
        self.read(address, 2).map(|half| half as u16)
    }

    /// Whether there is memory at an address. To be given by memory with devices in it, which
    /// must not be asked by this.
    fn exists(&mut self, address: u64) -> bool {
        self.read(address, 1).is_some()
    }

    /// Whether user mode may neither write memory at an address nor reach a device there; what is
    /// in memory it may still read and execute.
    fn is_protected(&self, _address: u64) -> bool {
        false
    }

    /// What the counters show of a hart that has retired so many instructions. To be given where
    /// time is something else.
    fn counters(&self, retired: u64) -> Counters {
        Counters {
            cycle: retired,
            time: retired,
            instret: retired,
        }
    }
}

/// `x0` to `x31`, `f0` to `f31`, and the [`SINK`]. The rest makes every byte the number of one, so
/// that no access needs a test.
pub type Registers = [u64; 256];

/// One stretch of bytes.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    base: u64,
    bytes: Vec<u8>,
}

impl FlatMemory {
    /// So many zero bytes from an address on.
    pub fn new(base: u64, bytes: usize) -> FlatMemory {
        FlatMemory {
            base,
            bytes: vec![0; bytes],
        }
    }

    /// The bytes of an address range, if they all exist.
    pub fn slice(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get_mut(start..start.checked_add(bytes)?)
    }

    /// Puts a program into memory; false if some of it does not fit.
    pub fn load(&mut self, image: &Image) -> bool {
        image.segments.iter().all(|segment| {
            let size = usize::try_from(segment.memory_bytes).unwrap_or(usize::MAX);
            let Some(place) = self.slice(segment.address, size) else {
                return false;
            };
            let (contents, zeros) = place.split_at_mut(segment.bytes.len());
            contents.copy_from_slice(&segment.bytes);
            zeros.fill(0);
            true
        })
    }
}

impl Memory for FlatMemory {
    fn read(&mut self, address: u64, bytes: u8) -> Option<u64> {
        let place = self.slice(address, bytes.into())?;
        let mut value = [0; 8];
        value.get_mut(..place.len())?.copy_from_slice(place);
        Some(u64::from_le_bytes(value))
    }

    fn write(&mut self, address: u64, bytes: u8, value: u64) -> bool {
        let value = value.to_le_bytes();
        match (self.slice(address, bytes.into()), value.get(..bytes.into())) {
            (Some(place), Some(value)) => {
                place.copy_from_slice(value);
                true
            }
            _ => false,
        }
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The instruction was executed.
    Retired(Instruction),
    /// The hart entered its trap handler instead.
    Trapped(Trap),
    /// The hart waits for an interrupt, and none has come.
    Waiting,
}

/// A hart with its registers and its memory.
#[derive(Clone, Debug)]
pub struct Machine<M> {
    /// Privilege and CSRs.
    pub hart: Hart,
    /// Address of the next instruction.
    pub pc: u64,
    /// What it computes with.
    pub registers: Registers,
    /// Its memory.
    pub memory: M,
    /// Instructions retired so far; also its clock, unless the memory tells another.
    pub retired: u64,
    /// The address that `lr` has reserved.
    pub reservation: Option<u64>,
    /// What its `sc`s have come to.
    pub attempts: Attempts,
    /// Whether `wfi` has halted it.
    pub waiting: bool,
}

impl<M: Memory> Machine<M> {
    /// A machine after reset, about to execute the instruction at `entry`.
    pub fn new(memory: M, entry: u64) -> Machine<M> {
        Machine {
            hart: Hart::new(0),
            pc: entry,
            registers: [0; 256],
            memory,
            retired: 0,
            reservation: None,
            attempts: Attempts::default(),
            waiting: false,
        }
    }

    /// Takes an interrupt if one is due, else executes one instruction.
    pub fn step(&mut self) -> Step {
        if self.waiting && !self.hart.wakes_from_wait() {
            return Step::Waiting;
        }
        self.waiting = false;
        let executed = match self.hart.pending_interrupt() {
            Some(interrupt) => Err(interrupt),
            None => self
                .fetch()
                .and_then(|i| self.execute(&i).map(|next| (i, next))),
        };
        match executed {
            Ok((instruction, next)) => {
                self.pc = next;
                self.retired += 1;
                Step::Retired(instruction)
            }
            Err(trap) => {
                self.reservation = None;
                self.pc = self.hart.take_trap(trap, self.pc);
                Step::Trapped(trap)
            }
        }
    }

    /// Steps until something other than an instruction happens, or `limit` have retired.
    pub fn run(&mut self, limit: u64) -> Option<Step> {
        (0..limit)
            .map(|_| self.step())
            .find(|step| !matches!(step, Step::Retired(_)))
    }

    /// The instruction at the program counter. It may cross into memory that does not exist:
    /// then the trap names the half that is missing.
    fn fetch(&mut self) -> Result<Instruction, Trap> {
        let half = |machine: &mut Self, address: u64| {
            let trap = Trap {
                cause: Cause::InstructionAccess,
                value: address,
            };
            machine.memory.fetch(address).ok_or(trap)
        };
        let low = half(self, self.pc)?;
        if is_compressed(low) {
            return Ok(decode(low.into()));
        }
        let high = half(self, self.pc.wrapping_add(2))?;
        Ok(decode(u32::from(high) << 16 | u32::from(low)))
    }

    /// Executes an instruction: the address of the next one.
    fn execute(&mut self, i: &Instruction) -> Result<u64, Trap> {
        let [a, b, c] = [i.rs1, i.rs2, i.rs3].map(|r| self.registers[usize::from(r)]);
        let illegal = Trap {
            cause: Cause::IllegalInstruction,
            value: i.bits.into(),
        };
        let mode = self.hart.rounding_mode();
        if i.is_float() && (!self.hart.float_enabled() || illegal_rounding(i, mode)) {
            return Err(illegal);
        }
        let mut next = i.next(self.pc);
        let value = match i.class {
            Class::Illegal | Class::Custom => return Err(illegal),
            Class::Branch => {
                if branch_taken(i.operation, a, b) {
                    next = i.jump_target(self.pc, a);
                }
                0
            }
            Class::Load | Class::LoadReserved => {
                let raw = self.load(i, a)?;
                let value = i.load_value(raw);
                if i.class == Class::LoadReserved {
                    self.reservation = Some(a);
                    self.attempts.load(a, value);
                }
                value
            }
            Class::Store => {
                self.store(i, a, b)?;
                0
            }
            // A reservation lasts until the next `sc`, whether that succeeds or not.
            Class::StoreConditional => {
                self.check_alignment(i, a)?;
                let succeeds = self.reservation.take() == Some(a);
                if succeeds {
                    self.store(i, a, b)?;
                }
                self.attempts.store(a, succeeds);
                u64::from(!succeeds)
            }
            Class::Atomic => {
                let store_fault = |trap: Trap| Trap {
                    cause: Cause::StoreAccess,
                    ..trap
                };
                self.check_alignment(i, a)?;
                let old = self.load(i, a).map_err(store_fault)?;
                self.store(i, a, i.atomic_result(old, b))?;
                i.load_value(old)
            }
            Class::Fence | Class::FenceI => 0, // one hart, and no caches
            Class::Csr => {
                let counters = self.memory.counters(self.retired);
                self.hart.csr(i, a, counters, &|_| None)?
            }
            Class::System => {
                match self.hart.system(i, self.pc)? {
                    SystemOutcome::Jump(target) => next = target,
                    SystemOutcome::WaitForInterrupt => self.waiting = true,
                    // Nobody else could end the wait by a store; it may end at any time.
                    SystemOutcome::WaitOnReservation(_) => {}
                }
                0
            }
            _ => {
                let mut flags = 0;
                let value = evaluate(i, self.pc, a, b, c, mode, &mut flags);
                self.hart.add_flags(flags);
                if matches!(i.class, Class::Jump | Class::JumpRegister) {
                    next = i.jump_target(self.pc, a);
                }
                value
            }
        };
        if i.rd != SINK {
            self.registers[usize::from(i.rd)] = value;
        }
        if i.writes_float() {
            self.hart.set_float_dirty();
        }
        Ok(next)
    }

    fn check_alignment(&self, i: &Instruction, a: u64) -> Result<(), Trap> {
        let mask = u64::from(i.access_bytes()).wrapping_sub(1);
        let cause = match i.class {
            Class::LoadReserved => Cause::LoadMisaligned,
            _ => Cause::StoreMisaligned,
        };
        if i.is_atomic() && i.address(a) & mask != 0 {
            return Err(Trap {
                cause,
                value: i.address(a),
            });
        }
        Ok(())
    }

    fn load(&mut self, i: &Instruction, a: u64) -> Result<u64, Trap> {
        self.check_alignment(i, a)?;
        // Devices take no atomics.
        let refused =
            (i.is_atomic() || self.is_kept_off(i.address(a))) && !self.memory.exists(i.address(a));
        let read = if refused {
            None
        } else {
            self.memory.read(i.address(a), i.access_bytes())
        };
        read.ok_or_else(|| Trap {
            cause: Cause::LoadAccess,
            value: self.first_missing(i.address(a), i.access_bytes()),
        })
    }

    /// Whether an address is protected from what the hart does now.
    fn is_kept_off(&self, address: u64) -> bool {
        self.hart.privilege == Privilege::User && self.memory.is_protected(address)
    }

    /// The first of the bytes that does not exist: what `mtval` tells of an access of which a part
    /// does.
    fn first_missing(&mut self, address: u64, bytes: u8) -> u64 {
        (0..u64::from(bytes))
            .map(|offset| address.wrapping_add(offset))
            .find(|&byte| !self.memory.exists(byte))
            .unwrap_or(address)
    }

    fn store(&mut self, i: &Instruction, a: u64, value: u64) -> Result<(), Trap> {
        let (address, bytes) = (i.address(a), i.access_bytes());
        if !self.is_kept_off(address) && self.memory.write(address, bytes, i.store_value(value)) {
            return Ok(());
        }
        Err(Trap {
            cause: Cause::StoreAccess,
            value: self.first_missing(address, bytes),
        })
    }
}
