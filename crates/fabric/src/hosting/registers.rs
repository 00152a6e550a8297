//! Common parts of the registers of devices.

use crate::{AgentContext, ReplyTo, Request, RequestKind, Time};

/// Declares registers by their names in the guests' headers, and `ALL`, which lists them: a test
/// compares it with the header.
///
/// ```
/// mod register {
///     fabric::registers! { u64:
///         QUEUES = 0x00;
///         TAIL = 0x10;
///     }
/// }
/// assert_eq!(register::ALL, [("QUEUES", 0), ("TAIL", register::TAIL)]);
/// ```
#[macro_export]
macro_rules! registers {
    ($number:ty: $($(#[$about:meta])* $name:ident = $value:expr;)+) => {
        $($(#[$about])* pub const $name: $number = $value;)+
        /// All registers by name.
        pub const ALL: &[(&str, $number)] = &[$((stringify!($name), $name)),+];
    };
}

/// A core's access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAccess {
    /// A load.
    Read,
    /// A store of this value.
    Write(u64),
}

impl Request {
    /// The offset from `start` of the 64-bit device register that this request accesses, and the
    /// access. `None` if it is not a valid register access: registers are written as a whole, and
    /// read as a whole or, as compilers do if it suffices, by their lower half.
    pub fn register(&self, start: u64) -> Option<(u64, RegisterAccess)> {
        match self.kind {
            RequestKind::Read { address, bytes } if address % 8 == 0 && bytes >= 4 => {
                Some((address - start, RegisterAccess::Read))
            }
            RequestKind::Write {
                address,
                bytes: 8,
                value,
            } => Some((address - start, RegisterAccess::Write(value))),
            _ => None,
        }
    }
}

impl AgentContext<'_> {
    /// Answers a request at once: with a value, or, if there is none, with an access fault.
    pub fn answer(&mut self, reply_to: ReplyTo, value: Option<u64>) {
        match value {
            Some(value) => self.reply(reply_to, value, Time::ZERO),
            None => self.refuse(reply_to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CoreId;

    #[test]
    fn registers_are_written_as_a_whole() {
        let access = |kind| {
            let reply_to = ReplyTo {
                core: CoreId(0),
                hart: 0,
                token: 0,
                tile: None,
            };
            Request { reply_to, kind }.register(0x1000)
        };
        let read = |address, bytes| access(RequestKind::Read { address, bytes });
        let write = |address, bytes| {
            access(RequestKind::Write {
                address,
                bytes,
                value: 7,
            })
        };
        assert_eq!(read(0x1010, 8), Some((0x10, RegisterAccess::Read)));
        assert_eq!(read(0x1010, 4), Some((0x10, RegisterAccess::Read)));
        assert_eq!([read(0x1010, 2), read(0x1014, 4)], [None; 2]);
        assert_eq!(write(0x1008, 8), Some((8, RegisterAccess::Write(7))));
        assert_eq!(write(0x1008, 4), None);
    }
}
