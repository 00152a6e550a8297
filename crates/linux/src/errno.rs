//! Linux's error numbers.

/// An error number, which a call returns negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

macro_rules! errors {
    ($($name:ident = $number:literal,)*) => {
        impl Errno {
            $(pub const $name: Errno = Errno($number);)*
        }
    };
}

errors! {
    PERM = 1,
    NOENT = 2,
    SRCH = 3,
    INTR = 4,
    NXIO = 6,
    TOOBIG = 7,
    NOEXEC = 8,
    NOTTY = 25,
    BADF = 9,
    CHILD = 10,
    AGAIN = 11,
    NOMEM = 12,
    ACCES = 13,
    FAULT = 14,
    BUSY = 16,
    EXIST = 17,
    XDEV = 18,
    NODEV = 19,
    NOTDIR = 20,
    ISDIR = 21,
    INVAL = 22,
    MFILE = 24,
    NOSPC = 28,
    SPIPE = 29,
    ROFS = 30,
    PIPE = 32,
    RANGE = 34,
    NAMETOOLONG = 36,
    NOSYS = 38,
    LOOP = 40,
    NOTSOCK = 88,
    DESTADDRREQ = 89,
    MSGSIZE = 90,
    NOPROTOOPT = 92,
    PROTONOSUPPORT = 93,
    OPNOTSUPP = 95,
    AFNOSUPPORT = 97,
    ADDRINUSE = 98,
    ADDRNOTAVAIL = 99,
    ISCONN = 106,
    NOTCONN = 107,
    TIMEDOUT = 110,
    CONNREFUSED = 111,
}

impl Errno {
    /// The return value of a call that fails.
    pub fn result(self) -> u64 {
        -i64::from(self.0) as u64
    }
}

impl From<rustix::io::Errno> for Errno {
    /// Hosts with the same numbers as Linux need no conversion; RISC-V uses the generic numbers.
    fn from(error: rustix::io::Errno) -> Errno {
        Errno(error.raw_os_error())
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(Errno::INVAL.0))
    }
}
