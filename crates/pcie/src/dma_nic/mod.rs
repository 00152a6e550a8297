//! The network interface behind PCI Express: rings of descriptors in memory.
//!
//! Its registers have 64 bits, at an address that the server chooses. One page of 4 KiB is common,
//! and each queue has another:
//!
//! | offset | name | |
//! | --- | --- | --- |
//! | 0x00 | `QUEUES` | read: number of queues |
//! | 0x08 | `ADDRESS` | read: the Ethernet address, its first byte lowest |
//! | 0x10 | `MAX_FRAME_BYTES` | read: bytes of the longest frame |
//! | page + 0x00, 0x20 | `RING` | write: the address of the ring of buffers, or of frames to send, a multiple of 64 |
//! | page + 0x08, 0x28 | `RING_ENTRIES` | write: its number of descriptors, a power of two from 4 to 4096; starts the queue |
//! | page + 0x10, 0x30 | `TAIL` | write: total number of descriptors posted, modulo 2^32: the doorbell |
//! | page + 0x18, 0x38 | `HEAD` | read: number of used descriptors, modulo 2^32 |
//! | page + 0x40 | `DOORBELL` | write: the address of a word, a multiple of 8, to which 1 is added for each frame when its descriptor is written; 0 (initially): none |
//! | page + 0x48 | `INTERRUPT` | write: number of frames that the program has taken, modulo 2^32; interrupts once, when there are more |
//! | page + 0x50 | `COMPLETIONS` | write, before `RING_ENTRIES`: the number of the completion queue to which the queue's received frames are reported, in place of their descriptors |
//! | page + 0x58 | `COMPLETION_RING` | write: the address of the completion queue with this page's number, a multiple of 64 |
//! | page + 0x60 | `COMPLETION_ENTRIES` | write: its number of entries, a power of two from 4 to 65536; starts it |
//!
//! A descriptor has 16 bytes: the address of a frame or a buffer (8), its bytes (2), its status (2:
//! bit 0 done, bit 1 error), and the receive-side scaling's hash (4). The interface reads a
//! descriptor and, after use, writes its upper half, ordered after the frame: the bytes of the
//! frame, the status, the hash. So a program polls memory, and never a register.
//!
//! Queues may report their received frames to a completion queue, several to the same one, as those
//! of InfiniBand's verbs do. A completion has 16 bytes: what the upper half of the descriptor would
//! be, the queue (4), and the number of the descriptor (4), modulo 2^32. Bit 0 of its status is 1
//! in the first pass over the completion queue, 0 in the second, and so on. A completion queue must
//! have an entry for each buffer of its queues: a program that reads a completion before it posts
//! another buffer then never misses one.
//!
//! Before it sleeps, a program writes `INTERRUPT`. The vector is the queue's number. The interrupt
//! is sent at once if a frame has arrived that the program had not seen, so none is lost however
//! long the write takes. Mellanox's adapters arm completion queues in the same way, with the
//! consumer index (`CQ` doorbell, "Adapters Programmer's Reference Manual").

mod completion;
mod receive;
mod ring;
mod send;

use crate::express::{self, AtDevice, Express};
use crate::frames::is_memory;
use crate::iommu::Iommu;
use crate::port::{self, NicStatistics, Port};
use crate::processors::{Crossing, Frame, Processors};
use crate::spec::DmaNicSpec;
use completion::CompletionQueue;
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheSpec, LineData,
    MemoryAccess, RegisterAccess, Request, Time,
};
use network::packet::{Packet, hardware_address};
use network::rack::{Interface, LineRate, SecondPath};
use ring::{DESCRIPTOR_BYTES, Ring};
use send::Sending;
use spec::SpecError;
use std::collections::VecDeque;

/// Bytes of the common registers, and of each queue's.
const PAGE_BYTES: u64 = 0x1000;
/// Offsets of the registers: `DMA_NIC_...` in `guest/include/dma_nic.h`. The registers of a ring
/// are in its queue's page: those of the ring of buffers from `RECEIVE` on, those of the ring of
/// frames to send from `SEND` on.
pub(crate) mod register {
    fabric::registers! { u64:
        QUEUES = 0x00;
        ADDRESS = 0x08;
        MAX_FRAME_BYTES = 0x10;
        RECEIVE = 0x00;
        SEND = 0x20;
        RING = 0x00;
        RING_ENTRIES = 0x08;
        TAIL = 0x10;
        HEAD = 0x18;
        DOORBELL = 0x40;
        INTERRUPT = 0x48;
        COMPLETIONS = 0x50;
        COMPLETION_RING = 0x58;
        COMPLETION_ENTRIES = 0x60;
    }
}

/// The purpose of a timer, a read or a write: the upper 8 bits of its token. The rest is an index.
mod purpose {
    /// Descriptors have been read: of ring `index`.
    pub const DESCRIPTORS: u64 = 1 << 56;
    /// A part of a frame has been read: its number, and the part's offset in it in the lower 16
    /// bits.
    pub const FRAME: u64 = 2 << 56;
    /// A frame and its descriptor are in memory.
    pub const DELIVERED: u64 = 3 << 56;
    /// A frame's descriptor shows that it has been sent, or cannot be.
    pub const TOLD: u64 = 4 << 56;
    /// A frame has left the output buffer.
    pub const LEFT: u64 = 5 << 56;
    /// A cycle of the cores that run firmware: its number.
    pub const CYCLE: u64 = 6 << 56;
    /// A load of host memory by firmware: its number.
    pub const HOST_LOAD: u64 = 7 << 56;
    /// The last bit of a frame from firmware has been sent: its bytes in the input buffer.
    pub const SENT: u64 = 8 << 56;
    pub const INDEX: u64 = !(0xff << 56);
}

/// The interface.
#[derive(state::State)]
pub struct DmaNic {
    #[state(fixed)]
    spec: DmaNicSpec,
    #[state(fixed)]
    registers: AddressRange,
    /// The offset of the scratchpad from the first register; 0 without a scratchpad.
    #[state(fixed)]
    scratchpad: u64,
    port: Port,
    express: Express,
    /// For each queue, the ring of buffers and the ring of frames to send.
    rings: Vec<Ring>,
    /// For each queue, the address of the word that counts its frames; 0: none.
    #[state(slice)]
    doorbells: Vec<u64>,
    /// For each armed queue, the number of frames that its program has taken.
    #[state(slice)]
    armed: Vec<Option<u32>>,
    /// The completion queue of each page.
    completions: Vec<CompletionQueue>,
    /// For each queue, the completion queue to which it reports.
    #[state(slice)]
    reports_to: Vec<Option<u32>>,
    /// For each queue, frames that wait for buffers.
    input: Vec<VecDeque<Frame>>,
    input_bytes: u32,
    /// Frames that are being read, in sending order; the first is number `first_sending`.
    sending: VecDeque<Sending>,
    first_sending: u64,
    output_bytes: u32,
    leaving: VecDeque<u32>,
    /// The queue whose frames are read next.
    next_queue: usize,
    statistics: NicStatistics,
    fault: Option<String>,
    /// The agent on the chip that receives firmware's notes about frames.
    #[state(fixed)]
    listener: Option<AgentId>,
    /// The cores that run firmware, if it is programmable.
    #[state(inside)]
    processors: Option<Box<Processors>>,
}

impl DmaNic {
    /// An interface described by `spec`, with its registers at `registers`.
    pub fn new(spec: &DmaNicSpec, registers: u64) -> Result<DmaNic, SpecError> {
        spec.check()?;
        let queues = spec.queues as usize;
        Ok(DmaNic {
            spec: spec.clone(),
            registers: AddressRange {
                start: registers,
                length: PAGE_BYTES * (1 + u64::from(spec.queues)),
            },
            scratchpad: 0,
            port: Port::new(spec.mac_latency_ns),
            express: Express::new(&spec.express, spec.ddio),
            rings: vec![Ring::default(); 2 * queues],
            doorbells: vec![0; queues],
            armed: vec![None; queues],
            completions: vec![CompletionQueue::default(); queues],
            reports_to: vec![None; queues],
            input: vec![VecDeque::new(); queues],
            input_bytes: 0,
            sending: VecDeque::new(),
            first_sending: 0,
            output_bytes: 0,
            leaving: VecDeque::new(),
            next_queue: 0,
            statistics: NicStatistics::default(),
            fault: None,
            listener: None,
            processors: None,
        })
    }

    /// Makes the interface programmable, if it is described as such: with `firmware`, an ELF file,
    /// in a server of `host_cores` cores. The scratchpad follows its registers, at `scratchpad`.
    pub fn program(
        &mut self,
        firmware: &[u8],
        host_cores: usize,
        scratchpad: u64,
    ) -> Result<(), SpecError> {
        if let Some(spec) = &self.spec.processors {
            let sizes = (self.spec.max_frame_bytes, self.spec.queues, host_cores);
            let processors = Processors::new(spec, firmware, sizes)?;
            self.processors = Some(Box::new(processors));
            self.scratchpad = scratchpad - self.registers.start;
            self.registers.length = self.scratchpad + u64::from(spec.scratchpad_bytes);
        }
        Ok(())
    }

    /// The token of the timer that starts its cores at the start of the simulation.
    pub fn begins(&self) -> Option<u64> {
        self.processors.as_ref().map(|_| purpose::CYCLE)
    }

    /// Its attachment to the fabric, with its root port on this tile. The root port's cache is only
    /// for doorbells.
    pub fn attachment(&self, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(self.registers),
            cache: Some(CacheSpec {
                size_bytes: 4096,
                ways: 4,
                hit_latency_cycles: 4,
                mshrs: 16,
                ..CacheSpec::default()
            }),
            ..Attachment::default()
        }
    }

    /// Its counts.
    pub fn statistics(&self) -> NicStatistics {
        NicStatistics {
            link_bytes: self.port.bytes(),
            express_bytes: self.express.bytes(),
            iommu: self.express.iommu().map(Iommu::statistics),
            processors: self.processors.as_deref().map(Processors::statistics),
            refused_run: self.processors.as_deref().and_then(Processors::refused_run),
            ..self.statistics.clone()
        }
    }

    /// Sets the physical address of the page tables of its IOMMU, if it has one.
    pub fn set_page_tables(&mut self, root: u64) {
        self.express.set_page_tables(root);
    }

    /// Directs its interrupts to this agent. The header of each message is the queue's number.
    pub fn connect_interrupts(&mut self, to: AgentId) {
        self.express.connect_interrupts(to);
    }

    /// Directs firmware's notes about frames to this agent, in the messages of
    /// [`connect_listener`](system::Hardware::connect_listener).
    pub fn connect_listener(&mut self, to: AgentId) {
        self.listener = Some(to);
    }

    /// The rate of its link.
    pub(crate) fn rate(&self) -> LineRate {
        self.port.rate()
    }

    /// The number of links that it has itself.
    pub(crate) fn links(&self) -> u32 {
        self.port.links()
    }

    /// The program's first error, as a sentence.
    pub fn fault(&self) -> Option<&str> {
        let of_iommu = self.express.iommu().and_then(Iommu::fault);
        let of_firmware = self.processors.as_deref().and_then(Processors::fault);
        self.fault.as_deref().or(of_firmware).or(of_iommu)
    }

    fn blame(&mut self, sentence: String) {
        self.fault.get_or_insert(sentence);
    }

    /// The ring whose registers are at `offset`, and the register in it.
    fn ring(&self, offset: u64) -> Option<(usize, u64)> {
        let queue = (offset / PAGE_BYTES).checked_sub(1)?;
        let place = offset % PAGE_BYTES;
        let is_send = u64::from(place >= register::SEND);
        (place < 2 * register::SEND).then_some((
            2 * queue as usize + is_send as usize,
            place % register::SEND,
        ))
    }

    /// The offset in the scratchpad for an offset from the registers.
    fn in_scratchpad(&self, offset: u64) -> Option<u64> {
        let is_there = self.scratchpad != 0;
        offset.checked_sub(self.scratchpad).filter(|_| is_there)
    }

    fn read_register(&mut self, now: Time, offset: u64) -> Option<u64> {
        if let Some(offset) = self.in_scratchpad(offset) {
            return self.processors.as_mut()?.read_scratchpad(now, offset);
        }
        if let Some((ring, register::HEAD)) = self.ring(offset) {
            return self.rings.get(ring).map(|ring| u64::from(ring.used));
        }
        match offset {
            register::QUEUES => Some(u64::from(self.spec.queues)),
            register::ADDRESS => Some(hardware_address(self.port.address()).swap_bytes() >> 16),
            register::MAX_FRAME_BYTES => Some(u64::from(self.spec.max_frame_bytes)),
            _ => None,
        }
    }

    /// Handles the arrival of a write. Its core has long continued, so an error is recorded.
    fn write_register(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) {
        if let Err(sentence) = self.try_write(context, offset, value) {
            self.blame(sentence);
        }
    }

    fn try_write(
        &mut self,
        context: &mut AgentContext<'_>,
        offset: u64,
        value: u64,
    ) -> Result<(), String> {
        let none =
            || format!("{value:#x} was written to {offset:#x}, which is not a writable register");
        if let (Some(offset), Some(processors)) = (self.in_scratchpad(offset), &mut self.processors)
        {
            let is_written = processors.write_scratchpad(context.now(), offset, value);
            return is_written.then_some(()).ok_or_else(none);
        }
        if offset % PAGE_BYTES == register::DOORBELL {
            let queue = (offset / PAGE_BYTES).checked_sub(1).ok_or_else(none)?;
            let doorbell = self.doorbells.get_mut(queue as usize).ok_or_else(none)?;
            if value != 0 && (!value.is_multiple_of(8) || !is_memory(context, value, 8)) {
                return Err(format!(
                    "the doorbell of queue {queue} was to be at {value:#x}; it must be in memory, \
                     at a multiple of 8"
                ));
            }
            *doorbell = value;
            return Ok(());
        }
        if offset % PAGE_BYTES == register::INTERRUPT {
            let queue = (offset / PAGE_BYTES).checked_sub(1).ok_or_else(none)? as usize;
            let armed = self.armed.get_mut(queue).ok_or_else(none)?;
            if !self.express.takes_interrupts() {
                return Err(format!(
                    "queue {queue} was to interrupt, but nothing in this server takes interrupts"
                ));
            }
            *armed = Some(value as u32);
            self.interrupt(context, queue);
            return Ok(());
        }
        if let Some(queue) = (offset / PAGE_BYTES).checked_sub(1)
            && let place @ register::COMPLETIONS..=register::COMPLETION_ENTRIES =
                offset % PAGE_BYTES
        {
            return self
                .set_completions(context, queue as usize, place, value)
                .unwrap_or_else(|| Err(none()));
        }
        let (number, register) = self.ring(offset).ok_or_else(none)?;
        let ring = self.rings.get_mut(number).ok_or_else(none)?;
        let name = ["buffers", "frames to send"][number % 2];
        let queue = number / 2;
        let has_begun = ring.entries > 0;
        match register {
            register::RING | register::RING_ENTRIES if has_begun => Err(format!(
                "the ring of {name} of queue {queue} was changed after it had begun"
            )),
            register::RING => {
                ring.start = value;
                Ok(())
            }
            register::RING_ENTRIES => {
                let is_possible = (4..=4096).contains(&value) && value.is_power_of_two();
                if !is_possible {
                    return Err(format!(
                        "the ring of {name} of queue {queue} was to have {value} entries; it must \
                         be a power of two from 4 to 4096"
                    ));
                }
                let bytes = (value * DESCRIPTOR_BYTES) as usize;
                let start = ring.start;
                if !start.is_multiple_of(64) || !is_memory(context, start, bytes) {
                    return Err(format!(
                        "the ring of {name} of queue {queue} was to have {bytes} bytes at \
                         {start:#x}; it must begin at a multiple of 64 and be in memory"
                    ));
                }
                ring.entries = value as u32;
                match number % 2 {
                    0 => self.promise_completions(queue, value as u32),
                    _ => Ok(()),
                }
            }
            register::TAIL => {
                let given = value as u32;
                let held = given.wrapping_sub(ring.used);
                if !has_begun || held > ring.entries || held < ring.given.wrapping_sub(ring.used) {
                    return Err(format!(
                        "{given} descriptors were given to the ring of {name} of queue {queue}, \
                         which has {} entries and has used {} of {}",
                        ring.entries, ring.used, ring.given
                    ));
                }
                ring.given = given;
                self.read_descriptors(context, number);
                Ok(())
            }
            _ => Err(none()),
        }
    }
}

impl Agent for DmaNic {
    fn name(&self) -> String {
        "the network interface".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let reply_to = request.reply_to;
        match request.register(self.registers.start) {
            Some((offset, RegisterAccess::Read)) => {
                self.express.read_register(context, reply_to, offset);
            }
            Some((offset, RegisterAccess::Write(value))) => {
                context.reply(reply_to, 0, Time::ZERO);
                self.express.write_register(context, offset, value);
            }
            None => context.refuse(reply_to),
        }
    }

    fn message(&mut self, context: &mut AgentContext<'_>, _: AgentId, message: AgentMessage) {
        let block = message.data.0.to_vec();
        if let Some(processors) = &mut self.processors {
            processors.crossed(Crossing::Window, express::write_bytes(block.len()));
            self.express.write_registers(context, message.header, block);
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        if let Some(purpose::DELIVERED) = self.express.access_done(context, token, access, &data) {
            self.statistics.frames_delivered += 1;
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        match token {
            port::purpose::ARRIVED | port::purpose::PASSED => {
                if let Some(packet) = self.port.timer(context, token) {
                    self.frame_came(context, &packet);
                }
            }
            express::purpose::AT_ROOT | express::purpose::AT_DEVICE => {
                match self.express.timer(context, token) {
                    Some(AtDevice::RegisterWritten { offset, value }) => {
                        self.write_register(context, offset, value);
                    }
                    Some(AtDevice::RegisterRead { reply_to, offset }) => {
                        let value = self.read_register(context.now(), offset);
                        self.express.answer(context, reply_to, value);
                    }
                    // This comes from the listener: the interface's registers do not combine stores
                    // of cores.
                    Some(AtDevice::BlockWritten { offset, block }) => {
                        if let Some(processors) = &mut self.processors {
                            processors.write_window(context.now(), offset, &block);
                        }
                    }
                    Some(AtDevice::Read { token, data }) => {
                        let index = token & purpose::INDEX;
                        match token & !purpose::INDEX {
                            purpose::DESCRIPTORS => self.descriptors_read(context, index, data),
                            purpose::HOST_LOAD => self.host_loaded(context, index, &data),
                            _ => self.part_read(context, index, &data),
                        }
                    }
                    None => {}
                }
            }
            purpose::LEFT => {
                self.output_bytes -= self.leaving.pop_front().unwrap_or_default();
                self.read_frames(context);
            }
            _ => match token & !purpose::INDEX {
                purpose::CYCLE => self.step_processors(context, token & purpose::INDEX),
                purpose::SENT => self.input_bytes -= (token & purpose::INDEX) as u32,
                _ => {}
            },
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let mut sentences: Vec<_> = self.fault().map(str::to_string).into_iter().collect();
        let waiting = self
            .processors
            .as_deref()
            .map_or(0, Processors::waiting_frames);
        if waiting > 0 {
            sentences.push(format!(
                "{waiting} frames wait for a core of the interface."
            ));
        }
        for (queue, input) in self
            .input
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.is_empty())
        {
            sentences.push(format!(
                "{} frames of queue {queue} wait for descriptors that are being read.",
                input.len()
            ));
        }
        sentences
    }
}

impl Interface for DmaNic {
    fn connect(&mut self, address: u32, rate: LineRate) {
        self.port.connect(address, rate);
    }

    fn receive(&mut self, _port: usize, _at: Time, packet: Packet) -> u64 {
        self.port.receive(packet)
    }

    fn take_sent(&mut self, _port: usize, sent: &mut Vec<(Time, Packet)>) {
        self.port.take_sent(sent);
    }

    fn follow(&mut self, path: &SecondPath) -> bool {
        self.port.follow(path);
        true
    }
}
