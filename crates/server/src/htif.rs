//! The host-target interface: console and exit (the protocol of riscv-pk's `tohost` and
//! `fromhost`).

use fabric::{
    AddressRange, Agent, AgentContext, LINE_BYTES, LineAddress, LineData, MemoryAccess, Request,
    RequestKind, Time,
};
use linux::Allowance;
use state::{State, Walker};
use std::any::Any;
use std::io::Write;

const WRITE: u64 = 64;
const EXIT: u64 = 93;
const NOT_IMPLEMENTED: u64 = (-38i64) as u64;
/// A guest that writes more than this at once is given a short count.
const MAXIMUM_WRITE_BYTES: u64 = 1 << 20;

#[derive(state::State, state::Plain)]
enum Step {
    Idle,
    /// Reads the eight words of a call.
    Words,
    /// Reads the bytes that are to be written out.
    Bytes {
        left: u64,
        address: u64,
        total: u64,
    },
    /// Stores the result.
    Result,
}

/// The device that owns the lines of `tohost` and `fromhost`.
#[derive(state::State)]
pub struct Htif {
    #[state(fixed)]
    tohost: u64,
    #[state(fixed)]
    fromhost: u64,
    tohost_value: u64,
    fromhost_value: u64,
    call: u64,
    words: [u64; 8],
    step: Step,
    text: Vec<u8>,
    /// When the guest ended, and its exit status.
    pub exit: Option<(Time, u64)>,
    /// What the guest wrote, unless it goes to standard output.
    pub output: Vec<u8>,
    /// Why what the guest wrote could not be written out. The guest has ended with that.
    #[state(fixed)]
    pub unwritten: Option<String>,
    #[state(fixed)]
    live: bool,
    /// How much the guest may write.
    #[state(fixed)]
    pub allowance: Allowance,
}

impl Htif {
    /// For a guest whose symbols are at these addresses. `live`: what the guest writes goes to
    /// the standard output and standard error of this process as it comes.
    pub fn new(tohost: u64, fromhost: u64, live: bool) -> Htif {
        Htif {
            tohost,
            fromhost,
            tohost_value: 0,
            fromhost_value: 0,
            call: 0,
            words: [0; 8],
            step: Step::Idle,
            text: Vec::new(),
            exit: None,
            output: Vec::new(),
            unwritten: None,
            live,
            allowance: Allowance::new(u64::MAX),
        }
    }

    /// The lines that hold both words.
    pub fn range(tohost: u64, fromhost: u64) -> AddressRange {
        let start = LineAddress::of(tohost.min(fromhost)).base();
        let end = LineAddress::of(tohost.max(fromhost)).base() + LINE_BYTES as u64;
        AddressRange {
            start,
            length: end - start,
        }
    }

    fn command(&mut self, context: &mut AgentContext<'_>, value: u64) {
        self.tohost_value = value;
        if value & 1 == 1 {
            self.exit = Some((context.now(), value >> 1));
        } else if value != 0 {
            self.call = value;
            self.step = Step::Words;
            self.read_words(context);
        }
    }

    fn read_words(&mut self, context: &mut AgentContext<'_>) {
        if !context.in_memory(self.call) || !self.call.is_multiple_of(LINE_BYTES as u64) {
            // There is nobody to tell but the guest, which finds no answer.
            self.step = Step::Idle;
            return;
        }
        context.access(MemoryAccess::ReadAtHome { address: self.call }, 0);
    }

    fn carry_out(&mut self, context: &mut AgentContext<'_>) {
        let [number, first, buffer, length, ..] = self.words;
        match number {
            WRITE => {
                let total = length.min(MAXIMUM_WRITE_BYTES);
                self.text.clear();
                self.step = Step::Bytes {
                    left: total,
                    address: buffer,
                    total,
                };
                self.next_bytes(context);
            }
            EXIT => self.exit = Some((context.now(), first)),
            _ => self.store_result(context, NOT_IMPLEMENTED),
        }
    }

    fn next_bytes(&mut self, context: &mut AgentContext<'_>) {
        let Step::Bytes {
            left,
            address,
            total,
        } = self.step
        else {
            return;
        };
        if left > 0 && context.in_memory(address) {
            context.access(MemoryAccess::ReadAtHome { address }, 0);
        } else {
            self.write_out(context.now());
            self.store_result(context, total - left);
        }
    }

    fn write_out(&mut self, now: Time) {
        // What is beyond the limit ends the run.
        self.text.truncate(self.allowance.grant(self.text.len()));
        self.allowance.spend(self.text.len() as u64);
        if self.live {
            let (name, written) = if self.words[1] == 2 {
                ("error", std::io::stderr().write_all(&self.text))
            } else {
                let mut output = std::io::stdout();
                let written = output.write_all(&self.text).and_then(|()| output.flush());
                ("output", written)
            };
            if let Err(error) = written {
                // Its protocol has no error that a guest would look at.
                self.unwritten = Some(format!("standard {name} cannot be written: {error}"));
                self.exit = Some((now, 1));
            }
        } else {
            self.output.extend_from_slice(&self.text);
        }
    }

    fn store_result(&mut self, context: &mut AgentContext<'_>, result: u64) {
        self.step = Step::Result;
        let mut data = LineData::ZERO;
        data.write(0, 8, result);
        let (address, bytes) = (self.call, 8);
        context.access(
            MemoryAccess::Write {
                address,
                bytes,
                data,
            },
            0,
        );
    }
}

impl Agent for Htif {
    fn name(&self) -> String {
        "HTIF".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let (tohost, fromhost) = (self.tohost, self.fromhost);
        match request.kind {
            RequestKind::Read { address, .. } => {
                let value = if address == tohost {
                    self.tohost_value
                } else if address == fromhost {
                    self.fromhost_value
                } else {
                    0
                };
                context.reply(request.reply_to, value, Time::ZERO);
            }
            RequestKind::Write { address, value, .. } => {
                if address == tohost {
                    self.command(context, value);
                } else if address == fromhost {
                    self.fromhost_value = value;
                }
                context.reply(request.reply_to, 0, Time::ZERO);
            }
            RequestKind::Custom { .. } => context.refuse(request.reply_to),
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        _token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        match &mut self.step {
            Step::Idle => {}
            Step::Words => {
                for (index, word) in self.words.iter_mut().enumerate() {
                    *word = data.read(index * 8, 8);
                }
                self.carry_out(context);
            }
            Step::Bytes { left, address, .. } => {
                let offset = *address % LINE_BYTES as u64;
                let bytes = (*left).min(LINE_BYTES as u64 - offset);
                self.text
                    .extend_from_slice(&data.0[offset as usize..(offset + bytes) as usize]);
                *left -= bytes;
                *address += bytes;
                self.next_bytes(context);
            }
            Step::Result => {
                self.step = Step::Idle;
                self.tohost_value = 0;
                self.fromhost_value = 1;
            }
        }
    }

    fn walk(&mut self, walker: &mut dyn Walker) {
        State::walk(self, walker);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
