//! The execution of a program's `prepare()`, before `main()`, in no simulated time.
//!
//! A functional server executes hart 0 up to `main()`. The timed server starts with its memory and
//! registers.
//!
//! Runs of a sweep mostly differ in parameters that `prepare()` cannot read. This process therefore
//! keeps the last state, and the previous one if the two are not too large. Runs share its pages,
//! and copy only those that they write.

use crate::error::RunError;
use crate::functional::FunctionalMachine;
use crate::host;
use crate::limits::{Guard, Spent};
use crate::machine::{Machine, UntimedServer};
use crate::program::said;
use fabric::{AddressRange, Image as Memory};
use queues::{ProgramDevice, ProgramPreparation, ProgramSettings};
use riscv::Hart;
use riscv::elf::Image;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// WFI: it ends the preparation at the beginning of `main()`.
pub(crate) const HALT: [u8; 4] = 0x1050_0073_u32.to_le_bytes();
/// Maximum bytes of the arguments of `main()`, of its stack of 64 KiB.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;
/// Rounds between two checks of whether to continue.
const ROUNDS: u32 = 64;
/// Maximum number of kept preparations: the papers' figures use two stores.
const MAX_KEPT: usize = 2;
/// Maximum bytes of memory of all kept preparations, unless there is only one.
const MAX_KEPT_BYTES: usize = 512 << 20;
/// The interval between two checks of whether another run has completed the preparation.
const LOOK: Duration = Duration::from_millis(10);

/// The input of `prepare()` from the description: parameters, in registers, without weights.
pub(crate) struct Told {
    registers: AddressRange,
    settings: ProgramSettings,
}

impl Told {
    /// The input from `settings` through a device with its registers at `registers`.
    pub fn new(registers: AddressRange, settings: &ProgramSettings) -> Told {
        let settings = ProgramSettings {
            parameters: settings.parameters.clone(),
            operations: settings.operations.clone(),
            ..ProgramSettings::default()
        };
        Told {
            registers,
            settings,
        }
    }

    /// A device that supplies it, and the addresses of its registers.
    pub fn device(self) -> (ProgramDevice, AddressRange) {
        let registers = self.registers;
        (ProgramDevice::new(registers, self.settings), registers)
    }

    /// All of it as text, each number to the last bit.
    fn text(&self) -> Result<String, RunError> {
        let settings = &self.settings;
        let told = (
            self.registers.start,
            &settings.parameters,
            &settings.operations,
        );
        serde_json::to_string(&told).map_err(|error| RunError::Description(error.to_string()))
    }
}

/// All inputs of `prepare()`.
#[derive(PartialEq)]
struct Premises {
    server: UntimedServer,
    image: Image,
    told: Option<String>,
}

/// A preparation that is kept or being made.
struct Kept {
    premises: Premises,
    made: OnceLock<Arc<Preparation>>,
    /// Locked while it is being made.
    making: Mutex<()>,
}

/// The store of preparations.
struct Shelf {
    /// Most recently used last.
    kept: Mutex<Vec<Arc<Kept>>>,
    max_bytes: usize,
}

static SHELF: Shelf = Shelf::new(MAX_KEPT_BYTES);

impl Shelf {
    const fn new(max_bytes: usize) -> Shelf {
        Shelf {
            kept: Mutex::new(Vec::new()),
            max_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Kept>>> {
        // The list is consistent after each statement.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the oldest preparations beyond the limits.
    fn trim(&self, kept: &mut Vec<Arc<Kept>>) {
        let mut bytes = 0;
        let last = kept.iter().rev().take(MAX_KEPT).take_while(|one| {
            bytes += one.made.get().map_or(0, |made| made.memory.bytes());
            bytes <= self.max_bytes
        });
        let count = last.count().max(1);
        kept.drain(..kept.len() - count);
    }

    /// The preparation with these premises, which may not have been made yet.
    fn find(&self, premises: Premises) -> Arc<Kept> {
        let mut kept = self.lock();
        let place = kept.iter().position(|one| one.premises == premises);
        let found = match place {
            Some(place) => kept.remove(place),
            None => Arc::new(Kept {
                premises,
                made: OnceLock::new(),
                making: Mutex::new(()),
            }),
        };
        kept.push(found.clone());
        self.trim(&mut kept);
        found
    }

    /// The preparation with these premises; `make` is called if there is none.
    fn get(
        &self,
        premises: Premises,
        guard: &mut Guard<'_>,
        make: impl FnOnce(&Premises, &mut Guard<'_>) -> Result<Preparation, RunError>,
    ) -> Result<Arc<Preparation>, RunError> {
        let kept = self.find(premises);
        let _making = loop {
            match kept.making.try_lock() {
                Ok(making) => break making,
                Err(TryLockError::Poisoned(error)) => break error.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    guard.check(0.0, Spent::default())?;
                    std::thread::sleep(LOOK);
                }
            }
        };
        if let Some(made) = kept.made.get() {
            return Ok(made.clone());
        }
        let made = Arc::new(make(&kept.premises, guard)?);
        let made = kept.made.get_or_init(|| made).clone();
        self.trim(&mut self.lock());
        Ok(made)
    }
}

/// The initial state of the timed server.
pub(crate) struct Preparation {
    memory: Arc<Memory>,
    hart: Hart,
    main: u64,
    registers: [u64; 64],
    output: Vec<u8>,
    /// Its use of the host.
    pub spent: Spent,
    /// The program's requests to its device.
    pub program: ProgramPreparation,
}

/// Checks that the host has memory for the pages that `prepare()` has filled so far: `available`
/// bytes were free at its start, if known.
fn fits(bytes: u64, available: Option<u64>) -> Result<(), RunError> {
    let Some(available) = available.filter(|&available| bytes > available) else {
        return Ok(());
    };
    Err(RunError::Limit(format!(
        "prepare() has filled {} MiB of the server's memory, and the host had no more than {} MiB \
         available when it began: make the data set smaller (traffic.operations.keys, or what the \
         program's parameters say), or use a larger host",
        bytes >> 20,
        available >> 20,
    )))
}

/// The address of `main()`, if the program has a `prepare()` or arguments, which the runtime does
/// not pass.
pub(crate) fn main_behind_prepare(server: &UntimedServer, image: &Image) -> Option<u64> {
    let symbols = ["main", "prepare", "prepare_nothing"].map(|name| image.symbol(name));
    match symbols {
        [Some(main), Some(prepare), Some(nothing)]
            if prepare != nothing || server.has_arguments() =>
        {
            Some(main)
        }
        _ => None,
    }
}

/// Executes the program in `machine` up to the start of `main()`, with the arguments in `server`.
pub(crate) fn run_to(
    machine: &mut FunctionalMachine,
    main: u64,
    server: &UntimedServer,
    guard: &mut Guard<'_>,
) -> Result<(), RunError> {
    let bytes: usize = server.arguments.iter().map(|one| one.len() + 9).sum();
    if server.has_arguments() && bytes > MAX_ARGUMENT_BYTES {
        return Err(RunError::Program(format!(
            "the arguments take {bytes} bytes, and the stack of a bare-metal program has room for \
             {MAX_ARGUMENT_BYTES}"
        )));
    }
    let mut first = [0; HALT.len()];
    machine.memory().copy_out(main, &mut first);
    machine.memory().copy_in(main, &HALT);

    let available = host::available_bytes();
    let mut rounds = 0u32;
    loop {
        let (_, pc, _, has_halted) = machine.first_hart();
        if has_halted && pc == main + HALT.len() as u64 {
            break;
        }
        if !machine.advance()? {
            let status = machine.exit().map_or(0, |(status, _)| status);
            let output = machine.output();
            let said = said(&String::from_utf8_lossy(&output));
            return Err(RunError::Guest(format!(
                "the program ended with status {status} in prepare(){said}"
            )));
        }
        rounds = rounds.wrapping_add(1);
        fits(machine.memory().touched_bytes(), available)?;
        if rounds.is_multiple_of(ROUNDS) {
            guard.check(0.0, machine.spent())?;
        }
    }
    machine.memory().copy_in(main, &first);
    machine.go_on_at(main);
    if server.has_arguments() {
        machine.hand_over(&server.arguments);
    }
    Ok(())
}

impl Preparation {
    /// The state after `prepare()` of a bare-metal program, if it has one: executed, or kept from
    /// another run with the same premises. `guard` may end it.
    pub fn kept(
        server: UntimedServer,
        image: &Image,
        told: Option<Told>,
        guard: &mut Guard<'_>,
    ) -> Result<Option<Arc<Preparation>>, RunError> {
        let Some(main) = main_behind_prepare(&server, image) else {
            return Ok(None);
        };
        let premises = Premises {
            server,
            image: image.clone(),
            told: told.as_ref().map(Told::text).transpose()?,
        };
        let made = SHELF.get(premises, guard, |premises, guard| {
            Preparation::make(&premises.server, image, main, false, told, guard)
        })?;
        // A kept preparation may have been made with other limits.
        guard.check_amount(Spent {
            exceeds_output: made.output.len() as u64 > guard.output_bytes(),
            ..made.spent
        })?;
        Ok(Some(made))
    }

    /// Executes `prepare()` of a bare-metal program, if it has one, with live output.
    pub fn live(
        server: &UntimedServer,
        image: &Image,
        guard: &mut Guard<'_>,
    ) -> Result<Option<Preparation>, RunError> {
        let main = main_behind_prepare(server, image);
        let made = main.map(|main| Preparation::make(server, image, main, true, None, guard));
        made.transpose()
    }

    fn make(
        server: &UntimedServer,
        image: &Image,
        main: u64,
        live: bool,
        told: Option<Told>,
        guard: &mut Guard<'_>,
    ) -> Result<Preparation, RunError> {
        let mut machine = FunctionalMachine::bare_metal(server, image.clone(), live)?;
        machine.limit_output(guard.output_bytes());
        let device = told.map(|told| {
            let (agent, registers) = told.device();
            machine.attach(Box::new(agent), registers)
        });
        run_to(&mut machine, main, server, guard)?;
        let (hart, _, registers, _) = machine.first_hart();
        let hart = hart.clone();
        let spent = machine.spent();
        guard.check_amount(spent)?;
        let device = device.and_then(|id| machine.agent_mut::<ProgramDevice>(id));
        let program = device.map(ProgramDevice::preparation);
        Ok(Preparation {
            hart,
            main,
            registers,
            output: machine.output(),
            program: program.unwrap_or_default(),
            memory: Arc::new(Memory::new(std::mem::take(machine.memory()).into_pages())),
            spent,
        })
    }

    /// Makes `machine`, which must be fresh, start with `main()`.
    pub fn begin(&self, machine: &mut Machine) {
        let ram = machine.engine.fabric.ram_mut();
        ram.begin_with(self.memory.clone());
        machine.engine.cores[0].begin(&self.hart, self.main, &self.registers);
        machine.add_output(&self.output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const BEGIN: u64 = 0x8000_0000;
    const PAGE_BYTES: usize = 4096;

    fn premises(told: &str) -> Premises {
        let image = Image {
            entry: BEGIN,
            segments: Vec::new(),
            symbols: Vec::new(),
            tohost: None,
            fromhost: None,
            headers: riscv::elf::Headers::default(),
        };
        let server = UntimedServer {
            harts: 1,
            cores: 1,
            clock_ghz: 2.0,
            misaligned_accesses: pipeline::MisalignedAccesses::default(),
            memory_mib: 1,
            more_memory: Vec::new(),
            arguments: Vec::new(),
        };
        Premises {
            server,
            image,
            told: Some(told.to_string()),
        }
    }

    /// A preparation that has touched this many pages.
    fn prepared(pages: usize) -> Preparation {
        Preparation {
            memory: Arc::new(Memory::new(vec![Some(Box::new([1; PAGE_BYTES])); pages])),
            hart: Hart::new(0),
            main: BEGIN,
            registers: [0; 64],
            output: Vec::new(),
            spent: Spent::default(),
            program: ProgramPreparation::default(),
        }
    }

    fn unlimited(progress: &mut dyn FnMut(f64) -> bool) -> Guard<'_> {
        Guard::new(&Limits::default(), progress)
    }

    /// The shelf's preparation for `told`, and whether it had to be made.
    fn ask(shelf: &Shelf, told: &str, pages: usize) -> (Arc<Preparation>, bool) {
        let mut is_new = false;
        let made = shelf.get(premises(told), &mut unlimited(&mut |_| true), |_, _| {
            is_new = true;
            Ok(prepared(pages))
        });
        (made.unwrap(), is_new)
    }

    #[test]
    fn the_last_two_are_kept() {
        let shelf = Shelf::new(MAX_KEPT_BYTES);
        let (first, _) = ask(&shelf, "one", 1);
        assert!(ask(&shelf, "two", 1).1, "another one's is not taken");
        let (again, is_new) = ask(&shelf, "one", 1);
        assert!(!is_new && Arc::ptr_eq(&first, &again));
        // "two" was used before "one".
        assert!(ask(&shelf, "three", 1).1);
        assert!(!ask(&shelf, "one", 1).1);
        assert!(ask(&shelf, "two", 1).1);
    }

    #[test]
    fn memory_is_bounded() {
        let shelf = Shelf::new(4 * PAGE_BYTES);
        ask(&shelf, "one", 2);
        ask(&shelf, "two", 3);
        assert!(!ask(&shelf, "two", 3).1);
        assert!(ask(&shelf, "one", 2).1, "five pages are too many");
        assert!(ask(&shelf, "large", 5).1);
        assert!(!ask(&shelf, "large", 5).1, "but not for one alone");
        assert!(ask(&shelf, "one", 2).1);
        assert!(ask(&shelf, "large", 5).1);
    }

    #[test]
    fn what_does_not_fit_the_host_gets_a_sentence() {
        assert!(fits(5 << 20, None).is_ok() && fits(5 << 20, Some(5 << 20)).is_ok());
        let error = fits(6 << 20, Some(5 << 20)).unwrap_err().to_string();
        assert!(error.contains("6 MiB of the server's memory"), "{error}");
        assert!(error.contains("5 MiB available"), "{error}");
    }

    #[test]
    fn what_fails_is_not_kept() {
        let shelf = Shelf::new(MAX_KEPT_BYTES);
        let failed = shelf.get(premises("one"), &mut unlimited(&mut |_| true), |_, _| {
            Err(RunError::Guest("no".to_string()))
        });
        assert!(matches!(failed, Err(RunError::Guest(_))));
        assert!(ask(&shelf, "one", 1).1);
    }

    #[test]
    fn one_prepares_for_all_and_whoever_waits_can_be_stopped() {
        let shelf = Shelf::new(MAX_KEPT_BYTES);
        let made = AtomicUsize::new(0);
        let stopped = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let get = |guard: &mut Guard<'_>| {
                shelf.get(premises("one"), guard, |_, _| {
                    made.fetch_add(1, Ordering::SeqCst);
                    // Until a waiting run has been stopped.
                    while stopped.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    Ok(prepared(1))
                })
            };
            let patient = [0, 1].map(|_| scope.spawn(move || get(&mut unlimited(&mut |_| true))));
            while made.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let result = get(&mut unlimited(&mut |_| false));
            assert!(matches!(result, Err(RunError::Interrupted)));
            stopped.store(1, Ordering::SeqCst);
            let [first, second] = patient.map(|thread| thread.join().unwrap().unwrap());
            assert!(Arc::ptr_eq(&first, &second));
        });
        assert_eq!(made.into_inner(), 1);
    }
}
