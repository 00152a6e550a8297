//! The instructions: `QWAIT` and the related ones, in the custom-0 opcode space.

use crate::Operation;
use fabric::{AgentId, LineAddress, Time, Transit};
use pipeline::{Action, Extension, Invocation};
use riscv::{Instruction, Names, Privilege};

/// Opcode custom-0.
const OPCODE: u32 = 0x0b;

/// The wires to the ready set. All of an operation's latency is in its answer, so that the ready
/// set decides at the instruction's beginning.
const READY_SET: Transit = Transit::Fixed(Time::ZERO);

/// The instructions of HyperPlane: opcode custom-0, R-type, `funct3` 0, `funct7` as numbered in
/// [`Operation`].
///
/// | `funct7` | instruction | |
/// | --- | --- | --- |
/// | 0 | `QWAIT rd, rs1` | rs1 = partition; rd = QID of a ready queue; halts until there is one |
/// | 1 | `QWAIT.NB rd, rs1` | rs1 = partition; rd = QID of a ready queue, or all ones |
/// | 2 | `QWAIT.VERIFY rd, rs1` | rs1 = doorbell; rd = 1: has work, 0: empty, and now armed |
/// | 3 | `QWAIT.RECONSIDER rs1, rs2` | rs1 = QID, rs2 = doorbell |
/// | 4 | `QWAIT.ENABLE rs1` | rs1 = QID |
/// | 5 | `QWAIT.DISABLE rs1` | rs1 = QID |
/// | 6 | `QWAIT.INIT rd, rs1, rs2` | rs1 = start, rs2 = length + policy (0 round-robin, 1 weighted, 2 strict, 3 order of activation); rd = 0 or an error |
/// | 7 | `QWAIT.ADD rd, rs1, rs2` | rs1 = QID, rs2 = doorbell; rd = 0 or an error |
/// | 8 | `QWAIT.REMOVE rd, rs1` | rs1 = QID; rd = 0 or an error |
/// | 9 | `QWAIT.WEIGHT rs1, rs2` | rs1 = QID, rs2 = weight |
/// | 10 | `QWAIT.PARTITION rs1, rs2` | rs1 = QID, rs2 = partition |
///
/// Errors are those of [`ErrorCode`](crate::ErrorCode). 6 to 10 are the control plane's and illegal
/// in user mode. Fields not shown must be zero. A doorbell that is not a multiple of 8 is illegal
/// in 2 and 3. An impossible request (a QID out of range in 3 to 5, 9 and 10, a weight of zero, a
/// partition that is not below [`PARTITIONS`](crate::PARTITIONS), an empty doorbell outside the
/// range in 2 and 3) is an access fault.
///
/// `VERIFY` and `RECONSIDER` first read the doorbell through the core's own cache. Only if its
/// count is zero there do they go to the line's home, where the hardware reads it again and arms it
/// in one step, so that no item can arrive in between. A `RECONSIDER` that finds work is done when
/// the ready set has acknowledged it.
///
/// All but `QWAIT` and `QWAIT.NB` are barriers. These two read no memory that others write: they
/// take a queue, and `VERIFY` follows. They also start only when they are certain to commit,
/// because a queue taken on a wrong path would be lost.
#[derive(Clone, Copy, Debug, state::State)]
pub struct QwaitExtension {
    #[state(fixed)]
    agent: AgentId,
}

impl QwaitExtension {
    /// The instructions of a core that uses the [`HyperPlane`](crate::HyperPlane) attached as
    /// `agent`.
    pub fn new(agent: AgentId) -> QwaitExtension {
        QwaitExtension { agent }
    }

    fn ask(&self, operation: Operation, transit: Transit, arguments: [u64; 2]) -> Action {
        Action::Ask {
            agent: self.agent,
            transit,
            code: operation as u32,
            arguments,
            waits_for: match operation {
                Operation::Qwait => "QWAIT: a queue with work",
                Operation::QwaitNonBlocking => "QWAIT.NB: the ready set",
                Operation::Verify => "QWAIT.VERIFY: the monitoring set",
                Operation::Reconsider => "QWAIT.RECONSIDER: the monitoring set",
                Operation::Activate => "QWAIT.RECONSIDER: the ready set",
                Operation::Enable => "QWAIT.ENABLE: the ready set",
                Operation::Disable => "QWAIT.DISABLE: the ready set",
                Operation::Init => "QWAIT.INIT: the monitoring set and the ready set",
                Operation::Add => "QWAIT.ADD: the monitoring set",
                Operation::Remove => "QWAIT.REMOVE: the monitoring set",
                Operation::Weight => "QWAIT.WEIGHT: the ready set",
                Operation::Partition => "QWAIT.PARTITION: the ready set",
            },
        }
    }
}

/// The operation of an instruction, if it is one of these and its unused fields are zero.
fn decode(bits: u32) -> Option<Operation> {
    let funct7 = bits >> 25;
    if bits & 0x7f != OPCODE || bits >> 12 & 7 != 0 {
        return None;
    }
    let operation = Operation::from_code(funct7)?;
    let (rd, rs1, rs2) = (0x1f << 7, 0x1f << 15, 0x1f << 20);
    let used = match operation {
        Operation::Qwait | Operation::QwaitNonBlocking | Operation::Verify | Operation::Remove => {
            rd | rs1
        }
        Operation::Reconsider | Operation::Weight | Operation::Partition => rs1 | rs2,
        Operation::Enable | Operation::Disable => rs1,
        Operation::Init | Operation::Add => rd | rs1 | rs2,
        // `funct7` has seven bits.
        Operation::Activate => return None,
    };
    (bits & (rd | rs1 | rs2) & !used == 0).then_some(operation)
}

/// The address of the doorbell that `VERIFY` or `RECONSIDER` names.
fn doorbell(operation: Operation, invocation: &Invocation) -> u64 {
    match operation {
        Operation::Verify => invocation.rs1,
        _ => invocation.rs2,
    }
}

const fn code(operation: Operation) -> u32 {
    Names::r_type(OPCODE, operation as u32)
}

/// Its instructions, registers and CSRs in assembly language.
const NAMES: &Names = &Names {
    instructions: &[
        (code(Operation::Qwait), "qwait {rd}, {rs1}"),
        (code(Operation::QwaitNonBlocking), "qwait.nb {rd}, {rs1}"),
        (code(Operation::Verify), "qwait.verify {rd}, {rs1}"),
        (code(Operation::Reconsider), "qwait.reconsider {rs1}, {rs2}"),
        (code(Operation::Enable), "qwait.enable {rs1}"),
        (code(Operation::Disable), "qwait.disable {rs1}"),
        (code(Operation::Init), "qwait.init {rd}, {rs1}, {rs2}"),
        (code(Operation::Add), "qwait.add {rd}, {rs1}, {rs2}"),
        (code(Operation::Remove), "qwait.remove {rd}, {rs1}"),
        (code(Operation::Weight), "qwait.weight {rs1}, {rs2}"),
        (code(Operation::Partition), "qwait.partition {rs1}, {rs2}"),
    ],
    ..Names::STANDARD
};

impl Extension for QwaitExtension {
    fn copy(&self) -> Box<dyn Extension> {
        Box::new(*self)
    }

    fn names(&self) -> &'static Names {
        NAMES
    }

    fn is_barrier(&self, instruction: &Instruction) -> bool {
        !matches!(
            decode(instruction.bits),
            Some(Operation::Qwait | Operation::QwaitNonBlocking)
        )
    }

    fn begin(&mut self, invocation: &Invocation) -> Action {
        let Some(operation) = decode(invocation.instruction.bits) else {
            return Action::Illegal;
        };
        let arguments = [invocation.rs1, invocation.rs2];
        match operation {
            Operation::Verify | Operation::Reconsider => {
                let address = doorbell(operation, invocation);
                if address.is_multiple_of(8) {
                    Action::Load { address }
                } else {
                    Action::Illegal
                }
            }
            Operation::Init
            | Operation::Add
            | Operation::Remove
            | Operation::Weight
            | Operation::Partition
                if invocation.privilege == Privilege::User =>
            {
                Action::Illegal
            }
            Operation::Add => {
                let home = Transit::Home(LineAddress::of(invocation.rs2));
                self.ask(operation, home, arguments)
            }
            _ => self.ask(operation, READY_SET, arguments),
        }
    }

    fn resume(&mut self, invocation: &Invocation, value: u64) -> Action {
        let operation = decode(invocation.instruction.bits);
        match operation {
            // The first resumption delivers the doorbell's counter.
            Some(operation @ (Operation::Verify | Operation::Reconsider))
                if invocation.step == 1 =>
            {
                let arguments = [invocation.rs1, invocation.rs2];
                let home = Transit::Home(LineAddress::of(doorbell(operation, invocation)));
                match (operation, value) {
                    (_, 0) => self.ask(operation, home, arguments),
                    (Operation::Verify, _) => Action::Done(1),
                    (_, _) => self.ask(Operation::Activate, READY_SET, arguments),
                }
            }
            _ => Action::Done(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: AgentId = AgentId(3);

    fn encode(funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
        funct7 << 25 | rs2 << 20 | rs1 << 15 | rd << 7 | OPCODE
    }

    fn invocation(bits: u32, rs1: u64, rs2: u64) -> Invocation {
        Invocation {
            instruction: riscv::decode(bits),
            rs1,
            rs2,
            privilege: Privilege::Machine,
            step: 0,
            cycle: 0,
        }
    }

    fn begin(invocation: &Invocation) -> Action {
        QwaitExtension::new(AGENT).begin(invocation)
    }

    fn resume(invocation: &Invocation, step: u32, value: u64) -> Action {
        let invocation = Invocation {
            step,
            ..*invocation
        };
        QwaitExtension::new(AGENT).resume(&invocation, value)
    }

    /// The operation, way and operands of an action that asks the agent.
    fn asked(action: Action) -> (Operation, Transit, [u64; 2]) {
        match action {
            Action::Ask {
                agent: AGENT,
                transit,
                code,
                arguments,
                ..
            } => (Operation::from_code(code).unwrap(), transit, arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn instructions_use_the_fields_documented() {
        // Which of rd, rs1, rs2 each has.
        let fields = [
            (0, 1, 1, 0),
            (1, 1, 1, 0),
            (2, 1, 1, 0),
            (3, 0, 1, 1),
            (4, 0, 1, 0),
            (5, 0, 1, 0),
            (6, 1, 1, 1),
            (7, 1, 1, 1),
            (8, 1, 1, 0),
            (9, 0, 1, 1),
            (10, 0, 1, 1),
        ];
        for (funct7, rd, rs1, rs2) in fields {
            let used = |a: u32, b: u32, c: u32| encode(funct7, a * 5, b * 6, c * 7);
            let legal = |bits| begin(&invocation(bits, 8, 64)) != Action::Illegal;
            assert!(legal(used(rd, rs1, rs2)), "{funct7}");
            assert!(legal(used(0, 0, 0)), "{funct7}");
            assert_eq!(legal(used(1, rs1, rs2)), rd == 1, "{funct7}");
            assert_eq!(legal(used(rd, 1, rs2)), rs1 == 1, "{funct7}");
            assert_eq!(legal(used(rd, rs1, 1)), rs2 == 1, "{funct7}");
            assert!(!legal(used(rd, rs1, rs2) | 1 << 12), "funct3");
        }
        for funct7 in 11..128 {
            assert_eq!(
                begin(&invocation(encode(funct7, 0, 0, 0), 0, 0)),
                Action::Illegal
            );
        }
        assert_eq!(
            begin(&invocation(encode(0, 0, 0, 0) ^ 0x20, 0, 0)),
            Action::Illegal
        );
    }

    fn text(bits: u32) -> String {
        riscv::disassemble_with(&riscv::decode(bits), 0, NAMES)
    }

    #[test]
    fn instructions_have_names() {
        assert_eq!(text(encode(0, 10, 11, 0)), "qwait a0, a1");
        assert_eq!(text(encode(3, 0, 10, 11)), "qwait.reconsider a0, a1");
        assert_eq!(text(encode(6, 10, 11, 12)), "qwait.init a0, a1, a2");
        // An instruction has a name if it is legal, whatever its fields are.
        for funct7 in 0..128 {
            for fields in 0..8 {
                let bits = encode(funct7, fields & 1, fields >> 1 & 1, fields >> 2);
                let is_legal = begin(&invocation(bits, 8, 64)) != Action::Illegal;
                assert_eq!(text(bits).starts_with("qwait"), is_legal, "{bits:#x}");
            }
        }
    }

    #[test]
    fn control_plane_is_illegal_in_user_mode() {
        for funct7 in 0..11 {
            let user = Invocation {
                privilege: Privilege::User,
                ..invocation(encode(funct7, 0, 0, 0), 0, 0)
            };
            assert_eq!(begin(&user) == Action::Illegal, funct7 >= 6, "{funct7}");
        }
    }

    #[test]
    fn qwait_asks_the_ready_set() {
        let qwait = invocation(encode(0, 10, 11, 0), 3, 0);
        assert_eq!(asked(begin(&qwait)), (Operation::Qwait, READY_SET, [3, 0]));
        assert_eq!(resume(&qwait, 1, 17), Action::Done(17));
    }

    #[test]
    fn verify_arms_only_what_is_empty() {
        let verify = invocation(encode(2, 10, 11, 0), 0x1048, 0);
        assert_eq!(begin(&verify), Action::Load { address: 0x1048 });
        assert_eq!(resume(&verify, 1, 3), Action::Done(1));
        let home = Transit::Home(LineAddress(0x41));
        assert_eq!(
            asked(resume(&verify, 1, 0)),
            (Operation::Verify, home, [0x1048, 0])
        );
        assert_eq!(resume(&verify, 2, 0), Action::Done(0));
        assert_eq!(resume(&verify, 2, 1), Action::Done(1));
        let misaligned = invocation(encode(2, 10, 11, 0), 0x1044, 0);
        assert_eq!(begin(&misaligned), Action::Illegal);
    }

    #[test]
    fn reconsider_activates_or_arms() {
        let reconsider = invocation(encode(3, 0, 10, 11), 5, 0x1040);
        let home = Transit::Home(LineAddress(0x41));
        let arguments = [5, 0x1040];
        assert_eq!(begin(&reconsider), Action::Load { address: 0x1040 });
        let full = asked(resume(&reconsider, 1, 2));
        assert_eq!(full, (Operation::Activate, READY_SET, arguments));
        let empty = asked(resume(&reconsider, 1, 0));
        assert_eq!(empty, (Operation::Reconsider, home, arguments));
        assert_eq!(resume(&reconsider, 2, 0), Action::Done(0));
    }

    #[test]
    fn add_travels_to_the_home() {
        let add = invocation(encode(7, 10, 10, 11), 5, 0x1040);
        let home = Transit::Home(LineAddress(0x41));
        assert_eq!(asked(begin(&add)), (Operation::Add, home, [5, 0x1040]));
        let error = crate::ErrorCode::Conflict.value();
        assert_eq!(resume(&add, 1, error), Action::Done(u64::MAX));
    }
}
