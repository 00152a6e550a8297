//! A hart's part: its CSRs, its instructions, its timer, and the delivery of interrupts.

use crate::descriptor::{
    self, NOTIFY, OUTSTANDING, REQUESTS, TARGET_BYTES, TARGET_DESCRIPTOR, vector,
};
use crate::instruction::{self, Operation};
use crate::spec::UserInterruptSpec;
use fabric::{AgentId, Time, Transit, Update};
use pipeline::{Action, Before, CsrAccess, Delivery, Extension, Invocation, NEVER, Sent};
use riscv::{Instruction, Names, csr_update};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The CSRs' numbers: `CSR_...` in `guest/include/user_interrupt.h`. They are among those reserved
/// for unprivileged custom extensions of RISC-V.
pub mod csr {
    fabric::registers! { u16:
        /// The handler's address; 0: nothing is delivered.
        UI_HANDLER = 0x800;
        /// The address at which the program continues after the handler.
        UI_PC = 0x801;
        /// The vector that was delivered.
        UI_VECTOR = 0x802;
        /// A word for the handler.
        UI_SCRATCH = 0x803;
        /// The address of the hart's descriptor; 0: it has none.
        UI_DESCRIPTOR = 0x804;
        /// The vector by which the hart is notified of posted vectors.
        UI_NOTIFICATION = 0x805;
        /// The address of the table of targets.
        UI_TARGETS = 0x806;
        /// The number of its entries.
        UI_TARGET_COUNT = 0x807;
        /// The vectors that have been taken over but not delivered, a bit for each.
        UI_REQUESTS = 0x808;
        /// 1: interrupts are only delivered at safepoints. Always 0 if delivery flushes.
        UI_SAFEPOINTS = 0x809;
    }
}

/// A bit of the timer's second operand: the timer restarts when it has expired. The lower six bits
/// are its vector.
pub const PERIODIC: u64 = 1 << 8;

/// Requests of a hart to the controller.
pub(crate) mod request {
    /// (first word of a descriptor): notifies the hart that it names.
    pub const NOTIFY: u32 = 0;
    /// (source, vector and hart, descriptor): sets the route of a device's interrupt.
    pub const ROUTE: u32 = 1;

    pub fn encode_route(source: u64, vector: u8, hart: u16) -> u64 {
        source << 32 | u64::from(hart) << 8 | u64::from(vector)
    }

    pub fn decode_route(word: u64) -> (u64, u8, u16) {
        (word >> 32, word as u8, (word >> 8) as u16)
    }
}

/// Notices of the controller to a hart.
pub(crate) mod notice {
    const FORWARD: u64 = 1 << 8;

    /// The descriptor has posted vectors.
    pub fn notify(notification_vector: u8) -> u64 {
        u64::from(notification_vector)
    }

    /// This vector is pending.
    pub fn forward(vector: u8) -> u64 {
        FORWARD | u64::from(vector)
    }

    /// The vector, and whether it is forwarded.
    pub fn decode(header: u64) -> (u8, bool) {
        (header as u8, header & FORWARD != 0)
    }
}

/// Counts of the interrupts of all harts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, state::State,
)]
#[schemars(rename = "UserInterruptStatistics")]
pub struct Statistics {
    /// `senduipi` that were executed.
    pub sent: u64,
    /// Interrupts of devices that were posted in a descriptor.
    pub posted: u64,
    /// Interrupts of devices that were forwarded to a hart.
    pub forwarded: u64,
    /// Interrupts of devices without a route.
    pub unrouted: u64,
    /// Timers that expired.
    pub timers: u64,
    /// Notifications that came to a hart.
    pub notifications: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Deliveries on a wrong path, which were repeated.
    pub redelivered: u64,
    /// Notifications of an empty descriptor, without a delivery.
    pub spurious: u64,
}

/// All counts.
#[derive(Clone, Copy, Debug, Default, state::State)]
pub(crate) struct Counts {
    /// The counts in results.
    pub told: Statistics,
    /// Writes of harts' registers other than by deliveries: by instructions, notices and timers.
    #[state(count)]
    pub register_writes: u64,
    /// Hops of notices over the mesh.
    #[state(count)]
    pub hops: u64,
}

/// Shared by all harts and the controller.
pub(crate) type SharedCounts = Rc<RefCell<Counts>>;

/// The part of user-level interrupts in a hart.
#[derive(Clone, state::State)]
pub struct UserInterrupts {
    #[state(fixed)]
    agent: AgentId,
    #[state(fixed)]
    delivery: Delivery,
    // The controller walks it.
    #[state(fixed)]
    counts: SharedCounts,
    handler: u64,
    pc: u64,
    vector: u64,
    scratch: u64,
    descriptor: u64,
    notification: u64,
    targets: u64,
    target_count: u64,
    /// Vectors that are pending, a bit for each (Intel: UIRR).
    requests: u64,
    /// Whether interrupts are delivered (Intel: UIF).
    is_enabled: bool,
    /// 1 if only at safepoints, otherwise 0 (xUI).
    safepoints: u64,
    /// Whether the descriptor may have posted vectors.
    is_notified: bool,
    /// Whether a delivery is taking posted vectors over, or did when it was squashed.
    is_taking_over: bool,
    /// The timer's next cycle; its period, or 0; its vector.
    #[state(cycle)]
    timer: u64,
    period: u64,
    timer_vector: u8,
    /// The value loaded by the instruction in progress: an entry of the table.
    entry: u64,
    target: u64,
    // Empty whenever the core is idle.
    #[state(fixed)]
    sent: VecDeque<Sent>,
}

impl UserInterrupts {
    pub(crate) fn new(
        spec: &UserInterruptSpec,
        agent: AgentId,
        counts: SharedCounts,
    ) -> UserInterrupts {
        UserInterrupts {
            agent,
            delivery: spec.delivery.into(),
            counts,
            handler: 0,
            pc: 0,
            vector: 0,
            scratch: 0,
            descriptor: 0,
            notification: 0,
            targets: 0,
            target_count: 0,
            requests: 0,
            is_enabled: false,
            safepoints: 0,
            is_notified: false,
            is_taking_over: false,
            timer: NEVER,
            period: 0,
            timer_vector: 0,
            entry: 0,
            target: 0,
            sent: VecDeque::new(),
        }
    }

    fn count_write(&self) {
        self.counts.borrow_mut().register_writes += 1;
    }

    fn register(&mut self, number: u16) -> Option<&mut u64> {
        Some(match number {
            csr::UI_HANDLER => &mut self.handler,
            csr::UI_PC => &mut self.pc,
            csr::UI_VECTOR => &mut self.vector,
            csr::UI_SCRATCH => &mut self.scratch,
            csr::UI_DESCRIPTOR => &mut self.descriptor,
            csr::UI_NOTIFICATION => &mut self.notification,
            csr::UI_TARGETS => &mut self.targets,
            csr::UI_TARGET_COUNT => &mut self.target_count,
            csr::UI_REQUESTS => &mut self.requests,
            csr::UI_SAFEPOINTS => &mut self.safepoints,
            _ => return None,
        })
    }

    /// Leaves the program, if a vector is pending.
    fn leave(&mut self, pc: u64) -> Action {
        if self.requests == 0 {
            self.counts.borrow_mut().told.spurious += 1;
            return Action::Done(pc);
        }
        // The highest vector goes first, as in Intel's processors.
        let vector = 63 - self.requests.leading_zeros();
        self.requests &= !(1 << vector);
        self.is_enabled = false;
        self.pc = pc;
        self.vector = u64::from(vector);
        self.counts.borrow_mut().told.delivered += 1;
        Action::Done(self.handler)
    }

    /// The first steps of `senduipi` and of the routing of a source: an entry of the table is
    /// loaded. The operand is its index.
    fn load_target(&mut self, step: u32, index: u64, value: u64) -> Option<Action> {
        let entry = self.targets.wrapping_add(index.wrapping_mul(TARGET_BYTES));
        match step {
            0 if index >= self.target_count => Some(Action::Illegal),
            0 => Some(Action::Load { address: entry }),
            1 => {
                self.entry = value;
                Some(Action::Load {
                    address: entry.wrapping_add(TARGET_DESCRIPTOR),
                })
            }
            _ => None,
        }
    }

    fn send(&mut self, invocation: &Invocation, value: u64) -> Action {
        if let Some(action) = self.load_target(invocation.step, invocation.rs1, value) {
            return action;
        }
        let Some(vector) = vector(self.entry) else {
            return Action::Illegal;
        };
        match invocation.step {
            2 => {
                self.target = value;
                Action::Update {
                    address: self.target.wrapping_add(REQUESTS),
                    update: descriptor::post(vector),
                }
            }
            3 => Action::Update {
                address: self.target,
                update: NOTIFY,
            },
            _ => {
                self.counts.borrow_mut().told.sent += 1;
                if descriptor::notifies(value) {
                    self.sent.push_back(Sent {
                        cycle: invocation.cycle,
                        agent: self.agent,
                        // The controller determines the path.
                        latency: Time::ZERO,
                        code: request::NOTIFY,
                        arguments: [value, 0],
                    });
                }
                Action::Done(0)
            }
        }
    }

    fn route(&mut self, invocation: &Invocation, value: u64) -> Action {
        if let Some(action) = self.load_target(invocation.step, invocation.rs2, value) {
            return action;
        }
        let Some(vector) = vector(self.entry) else {
            return Action::Illegal;
        };
        match invocation.step {
            2 => {
                self.target = value;
                Action::Load { address: value }
            }
            3 => {
                let hart = descriptor::destination(value);
                Action::Ask {
                    agent: self.agent,
                    transit: Transit::Tile,
                    code: request::ROUTE,
                    arguments: [
                        request::encode_route(invocation.rs1, vector, hart),
                        self.target,
                    ],
                    waits_for: "a source of interrupts to be routed",
                }
            }
            _ => Action::Done(0),
        }
    }

    /// The operands: cycles from now on, or 0 for none; the vector, and [`PERIODIC`].
    fn set_timer(&mut self, invocation: &Invocation) {
        let (cycles, how) = (invocation.rs1, invocation.rs2);
        let is_on = cycles != 0;
        self.timer = if is_on {
            invocation.cycle.saturating_add(cycles)
        } else {
            NEVER
        };
        self.period = if how & PERIODIC != 0 { cycles } else { 0 };
        self.timer_vector = (how & 63) as u8;
    }
}

/// Its instructions, registers and CSRs in assembly language.
pub(crate) const NAMES: &Names = &Names {
    instructions: instruction::NAMES,
    hints: &[(instruction::SAFEPOINT, "safepoint")],
    csrs: csr::ALL,
    ..Names::STANDARD
};

impl Extension for UserInterrupts {
    fn copy(&self) -> Box<dyn Extension> {
        Box::new(self.clone())
    }

    fn is_active(&self) -> bool {
        true
    }

    fn names(&self) -> &'static Names {
        NAMES
    }

    fn access_csr(&mut self, _cycle: u64, i: &Instruction, rs1: u64) -> Option<CsrAccess> {
        let register = self.register(i.csr_number())?;
        let old = *register;
        let new = csr_update(i, old, rs1);
        *register = new.unwrap_or(old);
        let has_safepoints = self.delivery == Delivery::Tracked;
        self.safepoints &= u64::from(has_safepoints);
        if new.is_some() {
            self.count_write();
        }
        // Earlier senders to it may have notified in vain.
        let has_descriptor = i.csr_number() == csr::UI_DESCRIPTOR && new.is_some_and(|it| it != 0);
        self.is_notified |= has_descriptor;
        Some(CsrAccess::Done {
            old,
            quiet: new.is_none(),
            refetch: false,
        })
    }

    fn notice(&mut self, _cycle: u64, header: u64) {
        self.count_write();
        let (vector, is_forwarded) = notice::decode(header);
        if is_forwarded {
            self.requests |= 1 << vector;
        } else if self.descriptor != 0 && u64::from(vector) == self.notification {
            self.is_notified = true;
            self.counts.borrow_mut().told.notifications += 1;
        }
    }

    fn next_event(&self) -> u64 {
        self.timer
    }

    fn event(&mut self, cycle: u64) {
        self.count_write();
        self.requests |= 1 << self.timer_vector;
        self.timer = if self.period == 0 {
            NEVER
        } else {
            cycle + self.period
        };
        self.counts.borrow_mut().told.timers += 1;
    }

    fn wants_delivery(&self) -> Option<Delivery> {
        let delivery = match self.safepoints {
            0 => self.delivery,
            _ => Delivery::AtSafepoint,
        };
        (self.is_enabled && self.handler != 0 && self.wakes()).then_some(delivery)
    }

    fn is_safepoint(&self, instruction: &Instruction) -> bool {
        instruction.bits == instruction::SAFEPOINT
    }

    fn wakes(&self) -> bool {
        self.is_notified || self.is_taking_over || self.requests != 0
    }

    fn deliver(&mut self, _cycle: u64, pc: u64, step: u32, value: u64) -> Action {
        // Intel's notification processing: a vector posted after this notifies again.
        match step {
            0 if self.is_notified || self.is_taking_over => Action::Update {
                address: self.descriptor,
                update: Update {
                    unless: 0,
                    keep: !OUTSTANDING,
                    set: 0,
                },
            },
            1 => {
                // Later notifications may come too late for this delivery.
                self.is_notified = false;
                self.is_taking_over = true;
                Action::Update {
                    address: self.descriptor.wrapping_add(REQUESTS),
                    update: Update {
                        unless: 0,
                        keep: 0,
                        set: 0,
                    },
                }
            }
            _ => {
                self.requests |= value;
                self.is_taking_over = false;
                self.leave(pc)
            }
        }
    }

    fn before(&self) -> Before {
        [self.pc, self.vector, self.is_enabled.into()]
    }

    fn undo_delivery(&mut self, [pc, vector, _]: Before) {
        self.requests |= 1 << self.vector;
        self.is_enabled = true;
        self.pc = pc;
        self.vector = vector;
        let told = &mut self.counts.borrow_mut().told;
        told.delivered -= 1;
        told.redelivered += 1;
    }

    fn returns(&self, instruction: &Instruction) -> bool {
        Operation::of(instruction) == Some(Operation::Return)
    }

    fn end_handler(&mut self) -> u64 {
        self.count_write();
        self.is_enabled = true;
        self.pc
    }

    fn undo_return(&mut self, [_, _, is_enabled]: Before) {
        self.is_enabled = is_enabled != 0;
    }

    fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    fn is_barrier(&self, instruction: &Instruction) -> bool {
        // The receiver of an interrupt sees the writes that preceded its sending.
        matches!(
            Operation::of(instruction),
            Some(Operation::Send | Operation::Route)
        )
    }

    fn begin(&mut self, invocation: &Invocation) -> Action {
        self.resume(invocation, 0)
    }

    fn resume(&mut self, invocation: &Invocation, value: u64) -> Action {
        let Some(operation) = Operation::of(&invocation.instruction) else {
            return Action::Illegal;
        };
        match operation {
            Operation::Return => return Action::Jump(self.end_handler()),
            Operation::Send => return self.send(invocation, value),
            Operation::Route => return self.route(invocation, value),
            Operation::Test => return Action::Done(self.is_enabled.into()),
            Operation::Clear => self.is_enabled = false,
            Operation::Set => self.is_enabled = true,
            Operation::Timer => self.set_timer(invocation),
        }
        self.count_write();
        Action::Done(0)
    }
}
