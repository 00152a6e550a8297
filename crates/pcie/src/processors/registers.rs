//! The address map of firmware.

/// The first address of the scratchpad.
pub(crate) const SCRATCHPAD: u64 = 0x1000_0000;
/// Registers: each core sees its own.
pub(crate) const REGISTERS: u64 = 0x1100_0000;
/// The core's frame, in the interface's buffer.
pub(crate) const FRAME: u64 = 0x1200_0000;

/// Offsets of the registers: `INTERFACE_...` in `guest/include/interface_map.h`.
pub(crate) mod register {
    fabric::registers! { u64:
        /// Read: the number of the core.
        CORE = 0x00;
        /// Read: number of cores.
        CORES = 0x08;
        /// Read: number of receive rings of the host.
        QUEUES = 0x10;
        /// Read: the end of the core's stack.
        STACK = 0x18;
        /// Read: the cycle of the interface's clock.
        CYCLE = 0x20;
        /// Read, waits for a frame that no core has: its bytes. The frame is then at `FRAME`.
        NEXT = 0x28;
        /// Read: receive-side scaling's hash of the frame.
        HASH = 0x30;
        /// Read: the receive ring that receive-side scaling chooses for it.
        QUEUE = 0x38;
        /// Write: the frame goes into this receive ring.
        DELIVER = 0x40;
        /// Write: this number of bytes at `FRAME` is sent to the network.
        SEND = 0x48;
        /// Write: the frame is dropped.
        DROP = 0x50;
        /// Write: loads of host memory steer their lines into the first-level cache of this core of
        /// the host, or, with -1 (initially), into none.
        STEER = 0x58;
        /// Read: number of loads since the last read that found no host memory and returned 0.
        FAULTS = 0x60;
        /// Read, waits until all loads of host memory have returned: 0.
        DRAIN = 0x68;
        /// Write: the initial `a0` of untrusted code.
        RUN_ARGUMENT = 0x70;
        /// Write: the budget of untrusted code, in instructions; 0: none is run.
        RUN_BUDGET = 0x78;
        /// Write: runs the code at this address of the scratchpad, with its own registers,
        /// initially 0, until `ebreak`, the end of its budget, or a forbidden operation.
        RUN = 0x80;
        /// Read: the reason that the last untrusted code ended: [`run`](super::run).
        RUN_ENDED = 0x88;
        /// Write: a word that is sent to the host's listener when the frame is delivered, after
        /// those written before. The first one is the destination core of the host.
        NOTE = 0x90;
        /// Write: the start of the window in the scratchpad for blocks from hardware of the host.
        WINDOW = 0x98;
        /// Write: the bytes of the window; 0 (initially): none.
        WINDOW_BYTES = 0xa0;
        /// Read: number of cores of the host.
        HOST_CORES = 0xa8;
    }
}

/// The reason that untrusted code has ended: `enum interface_run` of interface.h.
pub(crate) mod run {
    /// It executed `ebreak`.
    pub const DONE: u64 = 0;
    /// It used up its budget of instructions.
    pub const BUDGET: u64 = 1;
    /// It tried a forbidden operation: anything but arithmetic, jumps, and loads of the scratchpad
    /// and of host memory.
    pub const REFUSED: u64 = 2;
    /// One of its loads found no memory.
    pub const NO_MEMORY: u64 = 3;
}

/// Number of words that firmware can note for a frame: the rest of a line after the word that the
/// interface adds.
pub(crate) const NOTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn firmware_has_the_same_reasons() {
        let header = include_str!("../../../../guest/include/interface.h");
        for (name, value) in [
            ("CODE", run::DONE),
            ("BUDGET", run::BUDGET),
            ("REFUSAL", run::REFUSED),
            ("FAULT", run::NO_MEMORY),
        ] {
            let line = format!("INTERFACE_ENDED_BY_{name} = {value},");
            assert!(header.contains(&line), "{line}");
        }
    }
}
