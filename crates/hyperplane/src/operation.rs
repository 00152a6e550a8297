//! What the instructions ask of the hardware, and what it answers.

use crate::InsertError;

/// The QID that a non-blocking `QWAIT` returns if no queue is ready (§III-A).
pub const NO_QID: u64 = u64::MAX;

/// The operations. Their numbers are the `funct7` of their instructions, and the codes of the
/// requests that cores send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// (partition): returns the QID of its next ready queue; waits for one.
    Qwait = 0,
    /// (partition): returns the QID of its next ready queue, or [`NO_QID`].
    QwaitNonBlocking = 1,
    /// (doorbell): 1 if the queue has work; else arms it and returns 0.
    Verify = 2,
    /// (QID, doorbell): activates the queue if it has work, arms it if not.
    Reconsider = 3,
    /// (QID): lets the queue be selected.
    Enable = 4,
    /// (QID): keeps the queue from being selected.
    Disable = 5,
    /// (start of the doorbells, their bytes | policy): forgets everything and starts anew.
    Init = 6,
    /// (QID, doorbell): monitors a queue.
    Add = 7,
    /// (QID): monitors a queue no longer.
    Remove = 8,
    /// (QID, weight): sets a queue's weight.
    Weight = 9,
    /// (QID, partition): puts a queue into a partition of the ready set.
    Partition = 10,
    /// (QID): sets the queue's ready bit. No instruction of its own: what `QWAIT.RECONSIDER` does
    /// when it finds work.
    Activate = 128,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 12] = [
        Operation::Qwait,
        Operation::QwaitNonBlocking,
        Operation::Verify,
        Operation::Reconsider,
        Operation::Enable,
        Operation::Disable,
        Operation::Init,
        Operation::Add,
        Operation::Remove,
        Operation::Weight,
        Operation::Partition,
        Operation::Activate,
    ];

    /// The operation of a number.
    pub fn from_code(code: u32) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|&operation| operation as u32 == code)
    }
}

/// Why a control-plane instruction failed: the negative number in its destination register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The table walk found no place for the doorbell: take another address (§IV-A).
    Conflict = -1,
    /// The QID is not below the number of entries.
    QidOutOfRange = -2,
    /// The QID has a doorbell already.
    DuplicateQid = -3,
    /// The doorbell is outside the range of `QWAIT.INIT`.
    DoorbellOutsideRange = -4,
    /// Another queue's doorbell is in the same line.
    DuplicateLine = -5,
    /// The doorbell's address is not a multiple of 8.
    DoorbellMisaligned = -6,
    /// The QID has no doorbell.
    UnknownQid = -7,
    /// The range of doorbells is empty, does not start at a line, or is not memory that the
    /// hardware snoops.
    RangeNotSnooped = -8,
    /// There is no such policy.
    UnknownPolicy = -9,
}

impl ErrorCode {
    /// The destination register's value.
    pub fn value(self) -> u64 {
        self as i64 as u64
    }
}

impl From<InsertError> for ErrorCode {
    fn from(error: InsertError) -> ErrorCode {
        match error {
            InsertError::Conflict => ErrorCode::Conflict,
            InsertError::QidOutOfRange => ErrorCode::QidOutOfRange,
            InsertError::DuplicateQid => ErrorCode::DuplicateQid,
            InsertError::DuplicateLine => ErrorCode::DuplicateLine,
        }
    }
}
