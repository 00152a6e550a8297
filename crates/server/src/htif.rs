//! The host-target interface: console, arguments and exit (the protocol of riscv-pk's and Spike's
//! `tohost` and `fromhost`).
//!
//! Both are words of the program's memory. Spike's host polls `tohost`; this one reads it whenever
//! a cache is granted ownership of its line, as a store requires. The read takes the ownership
//! away, so the next store is noticed, too.

use fabric::{
    AddressRange, Agent, AgentContext, LINE_BYTES, LineAddress, LineData, MemoryAccess, Time,
};
use linux::Allowance;
use riscv::elf::Image;
use std::io::Write;

const WRITE: u64 = 64;
const EXIT: u64 = 93;
/// Writes `argc`, `argv`, an empty environment, and the strings they point to, to a buffer.
const GET_MAIN_VARIABLES: u64 = 2011;
const NOT_IMPLEMENTED: u64 = (-38i64) as u64;
const NO_ROOM: u64 = (-12i64) as u64;
/// The words of a call: its number, its arguments, and finally its result.
const CALL_BYTES: u64 = 64;
/// A larger write of a guest returns a short count.
const MAXIMUM_WRITE_BYTES: u64 = 1 << 20;

/// The next action of the device.
#[derive(state::State, state::Plain)]
enum Step {
    Idle,
    /// Reads `tohost`.
    Look,
    /// Clears `tohost`, which had this value.
    Clear(u64),
    /// Reads the eight words of a call.
    Call,
    /// Reads the bytes that the guest writes out.
    Text,
    /// Writes the result of a call, after its other output in memory.
    Return(u64),
    /// Writes the result of a call into its first word.
    Result,
    /// Notifies the guest that the call is done.
    Answer,
}

/// The device that handles the values that a program writes to `tohost`.
#[derive(state::State)]
pub struct Htif {
    #[state(fixed)]
    tohost: u64,
    #[state(fixed)]
    fromhost: u64,
    call: u64,
    step: Step,
    /// Whether `tohost` may have changed since it was last read.
    looks_again: bool,
    /// The start and the length of the remaining bytes to read or write.
    address: u64,
    left: u64,
    /// The bytes that have been read, or are to be written.
    bytes: Vec<u8>,
    /// The stream of the text.
    stream: u64,
    /// The time at which the guest ended, and its exit status.
    pub exit: Option<(Time, u64)>,
    /// The guest's output, unless it goes to standard output.
    pub output: Vec<u8>,
    /// The reason that the guest's output could not be written. The guest has ended with that.
    #[state(fixed)]
    pub unwritten: Option<String>,
    #[state(fixed)]
    live: bool,
    /// The program's path, and further arguments of `main()`.
    #[state(fixed)]
    pub arguments: Vec<Vec<u8>>,
    /// The allowance for the guest's output.
    #[state(fixed)]
    pub allowance: Allowance,
}

impl Htif {
    /// A device for a program with these symbols. `live`: the guest's output goes to the standard
    /// output and standard error of this process as it is written.
    pub fn of(image: &Image, live: bool) -> Option<Htif> {
        let tohost = image.tohost?;
        Some(Htif {
            tohost,
            fromhost: image.fromhost.unwrap_or(tohost),
            call: 0,
            step: Step::Idle,
            looks_again: false,
            address: 0,
            left: 0,
            bytes: Vec::new(),
            stream: 0,
            exit: None,
            output: Vec::new(),
            unwritten: None,
            live,
            arguments: Vec::new(),
            allowance: Allowance::new(u64::MAX),
        })
    }

    /// The snooped range: `tohost`, which receives a call's address or an odd number.
    pub fn snoops(tohost: u64) -> AddressRange {
        AddressRange {
            start: tohost,
            length: 8,
        }
    }

    fn look(&mut self, context: &mut AgentContext<'_>) {
        self.looks_again = false;
        self.step = Step::Look;
        let address = self.tohost;
        context.access(MemoryAccess::ReadAtHome { address }, 0);
    }

    /// Ends an action.
    fn rest(&mut self, context: &mut AgentContext<'_>) {
        self.step = Step::Idle;
        if self.looks_again {
            self.look(context);
        }
    }

    /// Handles the value that the guest has written to `tohost`.
    fn command(&mut self, context: &mut AgentContext<'_>, value: u64) {
        if value & 1 == 1 {
            self.end(context, value >> 1);
        } else {
            self.call = value;
            self.step = Step::Call;
            self.read(context, value, CALL_BYTES);
        }
    }

    /// Ends the guest. Of a negative status the low eight bits are used, as for a process:
    /// `exit(-1)` is 255, whether it is written with 32 or 64 bits.
    fn end(&mut self, context: &mut AgentContext<'_>, status: u64) {
        let status = match status {
            0..=0x7fff_ffff => status,
            // A failure must not look like a success.
            _ if status & 0xff == 0 => 255,
            _ => status & 0xff,
        };
        self.exit = Some((context.now(), status));
        self.rest(context);
    }

    /// Begins to read bytes of memory.
    fn read(&mut self, context: &mut AgentContext<'_>, address: u64, length: u64) {
        self.bytes.clear();
        (self.address, self.left) = (address, length);
        self.next_bytes(context);
    }

    /// Continues reading memory if bytes remain, and otherwise processes the bytes read.
    fn next_bytes(&mut self, context: &mut AgentContext<'_>) {
        let address = self.address;
        if self.left > 0 && context.in_memory(address) {
            context.access(MemoryAccess::ReadAtHome { address }, 0);
        } else if let Step::Text = self.step {
            self.write_out(context.now());
            let written = self.bytes.len() as u64;
            self.give(context, written);
        } else {
            self.carry_out(context);
        }
    }

    fn carry_out(&mut self, context: &mut AgentContext<'_>) {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        if self.left > 0 {
            // Only the guest could be notified, and it finds no answer.
            return self.rest(context);
        }
        let [number, first, second, third, ..] = words;
        match number {
            WRITE => {
                self.stream = first;
                self.step = Step::Text;
                self.read(context, second, third.min(MAXIMUM_WRITE_BYTES));
            }
            EXIT => self.end(context, first),
            GET_MAIN_VARIABLES => match main_variables(first, &self.arguments) {
                variables if variables.len() as u64 <= second => {
                    (self.bytes, self.address) = (variables, first);
                    self.write_on(context, 0);
                }
                _ => self.give(context, NO_ROOM),
            },
            _ => self.give(context, NOT_IMPLEMENTED),
        }
    }

    /// Writes the rest of `bytes` to memory, a line at a time, and then returns `result`.
    fn write_on(&mut self, context: &mut AgentContext<'_>, result: u64) {
        let address = self.address;
        let in_line = (LINE_BYTES as u64 - address % LINE_BYTES as u64) as usize;
        let length = in_line.min(self.bytes.len());
        if length == 0 || !context.in_memory(address) {
            return self.give(context, if length == 0 { result } else { NO_ROOM });
        }
        let mut data = LineData::ZERO;
        data.0[..length].copy_from_slice(&self.bytes[..length]);
        self.bytes.drain(..length);
        self.address += length as u64;
        self.step = Step::Return(result);
        write(context, address, length as u8, data);
    }

    fn write_out(&mut self, now: Time) {
        // A write beyond the limit ends the run.
        let granted = self.allowance.grant(self.bytes.len());
        let text = &self.bytes[..granted];
        self.allowance.spend(granted as u64);
        if self.live {
            let (name, written) = if self.stream == 2 {
                ("error", std::io::stderr().write_all(text))
            } else {
                let mut output = std::io::stdout();
                let written = output.write_all(text).and_then(|()| output.flush());
                ("output", written)
            };
            if let Err(error) = written {
                // Its protocol has no error that a guest would check.
                self.unwritten = Some(format!("standard {name} cannot be written: {error}"));
                self.exit = Some((now, 1));
            }
        } else {
            self.output.extend_from_slice(text);
        }
    }

    /// Returns from a call.
    fn give(&mut self, context: &mut AgentContext<'_>, result: u64) {
        self.step = Step::Result;
        write_word(context, self.call, result);
    }
}

/// The data that a program's start-up code passes to `main()`, in its memory layout at `address`:
/// `argc`, `argv` with its null pointer, an environment without variables, and the strings.
pub(crate) fn main_variables(address: u64, arguments: &[Vec<u8>]) -> Vec<u8> {
    let count = arguments.len() as u64;
    let mut words = vec![count];
    let mut end = address.wrapping_add(8 * (count + 3));
    for argument in arguments {
        words.push(end);
        end = end.wrapping_add(argument.len() as u64 + 1);
    }
    words.extend([0, 0]);
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    for argument in arguments {
        bytes.extend_from_slice(argument);
        bytes.push(0);
    }
    bytes
}

fn write(context: &mut AgentContext<'_>, address: u64, bytes: u8, data: LineData) {
    context.access(
        MemoryAccess::Write {
            address,
            bytes,
            data,
        },
        0,
    );
}

fn write_word(context: &mut AgentContext<'_>, address: u64, value: u64) {
    let mut data = LineData::ZERO;
    data.write(0, 8, value);
    write(context, address, 8, data);
}

impl Agent for Htif {
    fn name(&self) -> String {
        "HTIF".to_string()
    }

    fn ownership_granted(&mut self, context: &mut AgentContext<'_>, _line: LineAddress) {
        match self.step {
            Step::Idle => self.look(context),
            _ => self.looks_again = true,
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        _token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        match self.step {
            Step::Idle => {}
            Step::Look => match data.read((self.tohost % LINE_BYTES as u64) as usize, 8) {
                0 => self.rest(context),
                value => {
                    self.step = Step::Clear(value);
                    write_word(context, self.tohost, 0);
                }
            },
            Step::Clear(value) => self.command(context, value),
            Step::Call | Step::Text => {
                let offset = (self.address % LINE_BYTES as u64) as usize;
                let bytes = (LINE_BYTES - offset).min(self.left as usize);
                self.bytes.extend_from_slice(&data.0[offset..][..bytes]);
                self.left -= bytes as u64;
                self.address += bytes as u64;
                self.next_bytes(context);
            }
            Step::Return(result) => self.write_on(context, result),
            Step::Result => {
                self.step = Step::Answer;
                write_word(context, self.fromhost, 1);
            }
            Step::Answer => self.rest(context),
        }
    }
}
