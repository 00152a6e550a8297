//! What a program does in `prepare()`, before `main()`: it takes no simulated time.
//!
//! A server without times executes hart 0 up to `main()`. What it has then in its memory and registers
//! is where the timed server begins.

use crate::description::ServerSpec;
use crate::error::RunError;
use crate::functional::FunctionalMachine;
use crate::machine::Machine;
use fabric::{AddressRange, LineAddress, LineData};
use network::{ProgramDevice, ProgramPreparation};
use riscv::Hart;
use riscv::elf::Image;
use riscv::paged::PagedMemory;

/// WFI: it ends the preparation at the beginning of `main()`.
const HALT: [u8; 4] = 0x1050_0073_u32.to_le_bytes();
/// Rounds between two looks at whether to go on.
const ROUNDS: u32 = 64;

/// Where the timed server begins.
pub(crate) struct Preparation {
    memory: PagedMemory,
    hart: Hart,
    main: u64,
    registers: [u64; 64],
    output: Vec<u8>,
    /// What the program has told the device that it was given.
    pub program: ProgramPreparation,
}

impl Preparation {
    /// Executes `prepare()` of a bare-metal program, if it has one. `go_on` may end it.
    pub fn of(
        spec: &ServerSpec,
        image: &Image,
        more_memory: &[AddressRange],
        live: bool,
        device: Option<(ProgramDevice, AddressRange)>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Preparation>, RunError> {
        let symbols = ["main", "prepare", "prepare_nothing"].map(|name| image.symbol(name));
        let [Some(main), Some(prepare), Some(nothing)] = symbols else {
            return Ok(None);
        };
        if prepare == nothing {
            return Ok(None);
        }
        let mut machine = FunctionalMachine::bare_metal(spec, image.clone(), more_memory, live)?;
        let device = device.map(|(agent, owns)| machine.attach(Box::new(agent), owns));
        let mut first = [0; HALT.len()];
        machine.memory().copy_out(main, &mut first);
        machine.memory().copy_in(main, &HALT);

        let mut rounds = 0u32;
        let (hart, registers) = loop {
            let (hart, pc, registers, has_halted) = machine.first_hart();
            if has_halted && pc == main + HALT.len() as u64 {
                break (hart.clone(), registers);
            }
            if !machine.advance()? {
                let status = machine.exit().map_or(0, |(status, _)| status);
                let output = machine.output();
                let said = String::from_utf8_lossy(&output);
                let mut text = format!("the program ended with status {status} in prepare()");
                if !said.trim().is_empty() {
                    text += &format!("; it said: {}", said.trim());
                }
                return Err(RunError::Guest(text));
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS) && !go_on() {
                return Err(RunError::Interrupted);
            }
        };
        machine.memory().copy_in(main, &first);
        let device = device.and_then(|id| machine.agent_mut::<ProgramDevice>(id));
        let program = device.map(ProgramDevice::preparation);
        Ok(Some(Preparation {
            hart,
            main,
            registers,
            output: machine.output(),
            program: program.unwrap_or_default(),
            memory: std::mem::take(machine.memory()),
        }))
    }

    /// Lets `machine`, in which nothing has happened, begin with `main()`.
    pub fn begin(&self, machine: &mut Machine) {
        let ram = machine.engine.fabric.ram_mut();
        for (address, page) in self.memory.touched() {
            let (lines, _) = page.as_chunks();
            for (line, &bytes) in (LineAddress::of(address).0..).zip(lines) {
                let line = LineAddress(line);
                // Zeros too: the program's own data may have been cleared.
                if ram.read_line(line).0 != bytes {
                    ram.write_line(line, &LineData(bytes));
                }
            }
        }
        machine.engine.cores[0].begin(&self.hart, self.main, &self.registers);
        machine.add_output(&self.output);
    }
}
