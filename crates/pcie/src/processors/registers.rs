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
    }
}
