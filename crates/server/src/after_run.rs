//! The check of a program's own state after its run: `check_after_run()`.
//!
//! The run ends while requests are in flight, whose partial effects are not errors. The server
//! therefore continues, without new requests, until all are answered; all measurements have been
//! read before. Then a functional server calls the program's function on the final memory.

use crate::error::RunError;
use crate::functional::FunctionalMachine;
use crate::limits::Guard;
use crate::machine::{Machine, UntimedServer};
use crate::memory_map::MAX_HARTS;
use crate::preparation::{HALT, Told};
use crate::program::said;
use fabric::{LineAddress, NewerLines, Ram, Time};
use riscv::elf::Image;
use riscv::paged::{Behind, PAGE_BYTES, Page};
use std::sync::Arc;

/// Its name.
pub(crate) const FUNCTION: &str = "check_after_run";
/// From the last answer on, a time in which the program completes its remaining stores: much longer
/// than any message takes.
pub(crate) const SETTLE: Time = Time::from_fs(20_000_000_000);
/// Rounds between two checks of whether to continue.
const ROUNDS: u32 = 64;

/// The memory of a server that has stopped.
#[derive(Debug)]
struct Left {
    ram: Ram,
    newer: NewerLines,
}

impl Behind for Left {
    fn fill(&self, number: u64, page: &mut Page) {
        let (lines, _) = page.as_chunks_mut();
        let first = LineAddress::of(number * PAGE_BYTES as u64).0;
        for (line, bytes) in (first..).map(LineAddress).zip(lines) {
            let newer = self.newer.get(line).copied();
            *bytes = newer.unwrap_or_else(|| self.ram.read_line(line)).0;
        }
    }
}

/// The address of the function, if a bare-metal program has it.
pub(crate) fn function(image: &Image) -> Option<u64> {
    image.tohost.and_then(|_| image.symbol(FUNCTION))
}

/// Calls the function at `address` on the memory of `machine`, which must be quiescent, and returns
/// its output. An error if the function does not return 0. The machine cannot be used afterwards.
pub(crate) fn call(
    machine: &mut Machine,
    server: &UntimedServer,
    address: u64,
    told: Told,
    guard: &mut Guard<'_>,
) -> Result<String, RunError> {
    if server.harts as u64 >= MAX_HARTS {
        return Err(RunError::Description(format!(
            "{FUNCTION}() needs a stack, and {} harts have all that there are: one hart less has \
             one for it",
            server.harts
        )));
    }
    let image = machine.image().clone();
    let (ram, newer) = machine.take_memory();
    let ranges = ram.ranges().to_vec();
    let behind: Arc<dyn Behind> = Arc::new(Left { ram, newer });
    // The function returns to the first instruction of main(), which is replaced by a halt.
    let back = image.symbol("main").unwrap_or(image.entry);
    let mut functional = FunctionalMachine::calling(server, image, (behind, ranges), address)?;
    functional.limit_output(guard.output_bytes());
    let (agent, registers) = told.device();
    functional.attach(Box::new(agent), registers);
    functional.memory().copy_in(back, &HALT);
    functional.return_to(back);
    let mut rounds = 0u32;
    loop {
        let (_, pc, registers, has_halted) = functional.first_hart();
        if has_halted && pc == back + HALT.len() as u64 {
            let text = functional.output();
            let text = String::from_utf8_lossy(&text);
            return match registers[10] as i32 {
                0 => Ok(text.trim_end().to_string()),
                status => Err(RunError::Guest(format!(
                    "the program returned {status} from {FUNCTION}(){}",
                    said(&text)
                ))),
            };
        }
        if !functional.advance()? {
            let status = functional.exit().map_or(0, |(status, _)| status);
            let output = functional.output();
            let said = said(&String::from_utf8_lossy(&output));
            return Err(RunError::Guest(format!(
                "the program ended with status {status} in {FUNCTION}(){said}"
            )));
        }
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(ROUNDS) {
            guard.check(1.0, functional.spent())?;
        }
    }
}
