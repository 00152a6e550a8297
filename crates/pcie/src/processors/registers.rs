//! Where things are for firmware.

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
        /// Read: how many cores there are.
        CORES = 0x08;
        /// Read: how many receive rings the host has.
        QUEUES = 0x10;
        /// Read: where the core's stack ends.
        STACK = 0x18;
        /// Read: the cycle of the interface's clock.
        CYCLE = 0x20;
        /// Read, waits for a frame that no core has: its bytes. The frame is at `FRAME` from now on.
        NEXT = 0x28;
        /// Read: receive-side scaling's hash of the frame.
        HASH = 0x30;
        /// Read: the receive ring that receive-side scaling chooses for it.
        QUEUE = 0x38;
        /// Write: the frame goes into this receive ring.
        DELIVER = 0x40;
        /// Write: so many bytes at `FRAME` go out to the network.
        SEND = 0x48;
        /// Write: the frame is dropped.
        DROP = 0x50;
        /// Write: loads of host memory steer their lines into the first-level cache of this core of
        /// the host, or, with -1, as at first, into none.
        STEER = 0x58;
        /// Read: loads of host memory since the last read that found no memory, and were answered
        /// with 0.
        FAULTS = 0x60;
        /// Read, waits until all loads of host memory have come: 0.
        DRAIN = 0x68;
        /// Write: what untrusted code finds in `a0`.
        RUN_ARGUMENT = 0x70;
        /// Write: the budget of untrusted code, in instructions; 0: none is run.
        RUN_BUDGET = 0x78;
        /// Write: the code at this address of the scratchpad is run, with registers of its own that
        /// are 0 at first, up to `ebreak`, its budget, or what it may not do.
        RUN = 0x80;
        /// Read: why the last untrusted code ended: [`run`](super::run).
        RUN_ENDED = 0x88;
        /// Write: a word that is sent to the host's listener when the frame is delivered, behind
        /// those that were written before. The first one is the core of the host that it is for.
        NOTE = 0x90;
        /// Write: where what hardware of the host sends begins in the scratchpad.
        WINDOW = 0x98;
        /// Write: how many bytes there are for it; 0, as at first: none.
        WINDOW_BYTES = 0xa0;
        /// Read: how many cores the host has.
        HOST_CORES = 0xa8;
    }
}

/// Why untrusted code has ended: `enum interface_run` of interface.h.
pub(crate) mod run {
    /// By `ebreak`.
    pub const DONE: u64 = 0;
    /// It had executed as many instructions as it may.
    pub const BUDGET: u64 = 1;
    /// By what it may not do: anything but arithmetic, jumps, and loads of the scratchpad and of
    /// host memory.
    pub const REFUSED: u64 = 2;
    /// A load of its has found no memory.
    pub const NO_MEMORY: u64 = 3;
}

/// Words that firmware can note of a frame: what is left of a line behind the word that the
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
