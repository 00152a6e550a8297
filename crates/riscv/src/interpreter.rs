//! One hart and its memory, one instruction at a time and as simply as possible.
//!
//! This is the executable specification: the order in which an instruction is fetched, checked,
//! executed and retired, in terms of the functions that faster machines also use.
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

use crate::csr::Counters;
use crate::elf::Image;
use crate::hart::{Hart, Privilege, SystemOutcome};
use crate::instruction::{Class, Instruction, SINK};
use crate::paging::{Access, TABLE_BYTES};
use crate::trap::{Cause, Trap};
use crate::virtual_pages::VirtualPages;
use crate::{Attempts, branch_taken, decode, evaluate, illegal_rounding, is_compressed};

/// Memory by physical address, aligned or not; little-endian.
pub trait Memory {
    /// The value of 1, 2, 4 or 8 bytes at an address, zero-extended; `None` if some of them do not
    /// exist.
    fn read(&mut self, address: u64, bytes: u8) -> Option<u64>;

    /// Writes the low 1, 2, 4 or 8 bytes of a value; returns false, and writes nothing, if some of
    /// the bytes do not exist.
    fn write(&mut self, address: u64, bytes: u8, value: u64) -> bool;

    /// The two bytes of an instruction at an address; `None` if they cannot be executed. Memory
    /// with devices must override this: devices are not executable.
    fn fetch(&mut self, address: u64) -> Option<u16> {
        self.read(address, 2).map(|half| half as u16)
    }

    /// Whether there is memory at an address. Memory with devices must override this so that
    /// devices are not accessed.
    fn exists(&mut self, address: u64) -> bool {
        self.read(address, 1).is_some()
    }

    /// Whether user mode may neither write memory at an address nor access a device there; it may
    /// still read and execute the memory.
    fn is_protected(&self, _address: u64) -> bool {
        false
    }

    /// The counters of a hart that has retired `retired` instructions. Memory with another notion
    /// of time overrides this.
    fn counters(&self, retired: u64) -> Counters {
        Counters {
            cycle: retired,
            time: retired,
            instret: retired,
        }
    }
}

/// `x0` to `x31`, `f0` to `f31`, and the [`SINK`]. The other entries make every byte a valid index,
/// so that no access needs a test.
pub type Registers = [u64; 256];

/// One contiguous memory.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    base: u64,
    bytes: Vec<u8>,
}

impl FlatMemory {
    /// Memory of `bytes` zeros from `base` on.
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

    /// Loads a program into memory; false if some of it does not fit.
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

/// The outcome of one step.
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
    /// Its integer and floating-point registers.
    pub registers: Registers,
    /// Its memory.
    pub memory: M,
    /// Instructions retired so far; also its clock, unless the memory supplies another.
    pub retired: u64,
    /// The physical address that `lr` has reserved.
    pub reservation: Option<u64>,
    /// The outcomes of its `sc`s.
    pub attempts: Attempts,
    /// Whether `wfi` has halted it.
    pub waiting: bool,
    /// Whether misaligned loads and stores trap as well; misaligned atomics always do.
    pub traps_misaligned: bool,
    /// Cached translations, for [`crate::threaded`].
    pub(crate) virtual_pages: VirtualPages,
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
            traps_misaligned: false,
            virtual_pages: VirtualPages::default(),
        }
    }

    /// Takes an interrupt if one is due, otherwise executes one instruction.
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

    /// Steps until something other than an instruction happens, or `limit` instructions have
    /// retired.
    pub fn run(&mut self, limit: u64) -> Option<Step> {
        (0..limit)
            .map(|_| self.step())
            .find(|step| !matches!(step, Step::Retired(_)))
    }

    /// The instruction at the program counter.
    fn fetch(&mut self) -> Result<Instruction, Trap> {
        self.instruction_at(self.pc)
    }

    /// The instruction at an address. It may extend into memory that does not exist, or into a page
    /// that is not executable: then the trap names the missing half.
    ///
    /// # Errors
    ///
    /// That trap.
    pub fn instruction_at(&mut self, pc: u64) -> Result<Instruction, Trap> {
        let half = |machine: &mut Self, address: u64| {
            let physical = machine.translate(address, Access::Fetch)?;
            let fetched = machine.memory.fetch(physical);
            fetched.ok_or(Access::Fetch.access_fault(address))
        };
        let low = half(self, pc)?;
        if is_compressed(low) {
            return Ok(decode(low.into()));
        }
        let high = half(self, pc.wrapping_add(2))?;
        Ok(decode(u32::from(high) << 16 | u32::from(low)))
    }

    /// The physical address of an access.
    fn translate(&mut self, address: u64, access: Access) -> Result<u64, Trap> {
        let space = match access {
            Access::Fetch => self.hart.fetch_space(),
            Access::Load | Access::Store => self.hart.data_space(),
        };
        let Some(space) = space else {
            return Ok(address);
        };
        let memory = &mut self.memory;
        // Page tables cannot be on a device.
        let read = |at| memory.exists(at).then(|| memory.read(at, 8)).flatten();
        let page = space.translate(address, access, read)?;
        let physical = page.physical(address);
        self.virtual_pages
            .remember(&space, access, address, physical);
        Ok(physical)
    }

    /// Executes an instruction; returns the address of the next one.
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
            Class::Load => {
                self.check_alignment(i, a)?;
                let raw = self.load(i, a, Access::Load)?;
                i.load_value(raw)
            }
            Class::LoadReserved => {
                self.check_alignment(i, a)?;
                let raw = self.load(i, a, Access::Load)?;
                let value = i.load_value(raw);
                self.reservation = Some(self.translate(a, Access::Load)?);
                self.attempts.load(a, value);
                value
            }
            Class::Store => {
                self.check_alignment(i, a)?;
                self.store(i, a, b)?;
                0
            }
            // A reservation lasts until the next `sc`, whether that succeeds or not. A failing `sc`
            // still needs permission to write.
            Class::StoreConditional => {
                self.check_alignment(i, a)?;
                let physical = self.translate(a, Access::Store)?;
                let succeeds = self.reservation.take() == Some(physical);
                if succeeds {
                    self.store(i, a, b)?;
                }
                self.attempts.store(a, succeeds);
                u64::from(!succeeds)
            }
            Class::Atomic => {
                self.check_alignment(i, a)?;
                let old = self.load(i, a, Access::Store)?;
                self.store(i, a, i.atomic_result(old, b))?;
                i.load_value(old)
            }
            Class::Fence | Class::FenceI | Class::Prefetch => 0, // one hart, and no caches
            Class::Csr => {
                let counters = self.memory.counters(self.retired);
                self.hart.csr(i, a, counters, &|_| None)?
            }
            Class::System => {
                match self.hart.system(i, self.pc)? {
                    SystemOutcome::Jump(target) => next = target,
                    SystemOutcome::WaitForInterrupt => self.waiting = true,
                    // Page tables are walked for each access.
                    SystemOutcome::FlushTranslations => self.virtual_pages.clear(),
                    // No other hart could end the wait by a store; the wait may end at any time.
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
        let cause = match i.class {
            Class::Load | Class::LoadReserved => Cause::LoadMisaligned,
            _ => Cause::StoreMisaligned,
        };
        let address = i.address(a);
        let must_be_aligned = i.is_atomic() || self.traps_misaligned;
        if must_be_aligned && !address.is_multiple_of(i.access_bytes().into()) {
            return Err(Trap {
                cause,
                value: address,
            });
        }
        Ok(())
    }

    /// The physical address of a data access of `bytes`, and of its part in the next page, if it
    /// crosses one.
    fn places(
        &mut self,
        (address, bytes): (u64, u8),
        access: Access,
    ) -> Result<(u64, Option<u64>), Trap> {
        let physical = self.translate(address, access)?;
        let last = address.wrapping_add(u64::from(bytes) - 1);
        if last / TABLE_BYTES == address / TABLE_BYTES || self.hart.data_space().is_none() {
            return Ok((physical, None));
        }
        let second = self.translate(last & !(TABLE_BYTES - 1), access)?;
        Ok((physical, Some(second)))
    }

    /// The physical addresses of all bytes of an access that crosses a page. All of them are
    /// memory.
    fn bytes_in_two_pages(
        &mut self,
        (address, bytes): (u64, u8),
        (first, second): (u64, u64),
        access: Access,
    ) -> Result<[u64; 8], Trap> {
        let mut places = [0; 8];
        for (offset, place) in (0..bytes.into()).zip(&mut places) {
            let address = address.wrapping_add(offset);
            let in_page = address % TABLE_BYTES;
            *place = match in_page < 8 {
                true => second + in_page,
                false => first + offset,
            };
            let is_kept_off = access == Access::Store && self.is_kept_off(*place);
            if is_kept_off || !self.memory.exists(*place) {
                return Err(access.access_fault(address));
            }
        }
        Ok(places)
    }

    /// Reads the memory of a load or an atomic.
    fn load(&mut self, i: &Instruction, a: u64, access: Access) -> Result<u64, Trap> {
        let (address, bytes) = (i.address(a), i.access_bytes());
        let (physical, second) = self.places((address, bytes), access)?;
        if let Some(second) = second {
            let pages = (physical, second);
            let places = self.bytes_in_two_pages((address, bytes), pages, access)?;
            let mut value = [0; 8];
            for (byte, place) in value.iter_mut().zip(&places[..bytes.into()]) {
                *byte = self.memory.read(*place, 1).unwrap_or(0) as u8;
            }
            return Ok(u64::from_le_bytes(value));
        }
        // Devices do not support atomics.
        let refused =
            (i.is_atomic() || self.is_kept_off(physical)) && !self.memory.exists(physical);
        let read = match refused {
            true => None,
            false => self.memory.read(physical, bytes),
        };
        read.ok_or_else(|| self.access_fault((address, physical), bytes, access))
    }

    /// Whether an address is protected from the hart's current accesses.
    fn is_kept_off(&self, physical: u64) -> bool {
        self.hart.privilege == Privilege::User && self.memory.is_protected(physical)
    }

    /// The trap of an access in one page. It reports the first nonexistent byte.
    fn access_fault(&mut self, (address, physical): (u64, u64), bytes: u8, access: Access) -> Trap {
        let mut offsets = 0..u64::from(bytes);
        let missing = offsets.find(|&offset| !self.memory.exists(physical.wrapping_add(offset)));
        access.access_fault(address.wrapping_add(missing.unwrap_or(0)))
    }

    fn store(&mut self, i: &Instruction, a: u64, value: u64) -> Result<(), Trap> {
        let (address, bytes) = (i.address(a), i.access_bytes());
        let value = i.store_value(value);
        let (physical, second) = self.places((address, bytes), Access::Store)?;
        if let Some(second) = second {
            let pages = (physical, second);
            let places = self.bytes_in_two_pages((address, bytes), pages, Access::Store)?;
            for (byte, place) in value.to_le_bytes().iter().zip(&places[..bytes.into()]) {
                self.memory.write(*place, 1, (*byte).into());
            }
            return Ok(());
        }
        if !self.is_kept_off(physical) && self.memory.write(physical, bytes, value) {
            return Ok(());
        }
        Err(self.access_fault((address, physical), bytes, Access::Store))
    }
}
