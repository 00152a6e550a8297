//! Accesses that are executed alone, in program order: to devices, across lines, and with
//! reservations.

use super::{Kind, Serializing, State};
use crate::core::{Core, NEVER, PostedStore, RESERVATION_HOLD_CYCLES};
use crate::kind::CoreKind;
use crate::queues::low_bytes;
use crate::translation::{Frame, access_of};
use fabric::{
    AgentId, LineAddress, Outbox, OutgoingKind, Region, RequestKind, RequestOutcome, Side, Transit,
};
use riscv::paging::TABLE_BYTES;
use riscv::{Cause, Class, Instruction, Trap};

/// The first byte of an access in one of its pages; `first` and `last` are the access's first and
/// last byte.
fn page_address(first: u64, last: u64, page: u8) -> u64 {
    match page {
        0 => first,
        _ => last & !(TABLE_BYTES - 1),
    }
}

/// The part of an access that lies in one line.
struct Part {
    address: u64,
    bytes: u8,
}

/// The cause of the trap of a misaligned access of this class.
fn misaligned(class: Class) -> Cause {
    match class {
        Class::Load | Class::LoadReserved => Cause::LoadMisaligned,
        _ => Cause::StoreMisaligned,
    }
}

impl<K: CoreKind> Core<K> {
    fn access_trap(&mut self, serial: Serializing, i: &Instruction, address: u64, now: u64) {
        let cause = if i.class == Class::Load || i.class == Class::LoadReserved {
            Cause::LoadAccess
        } else {
            Cause::StoreAccess
        };
        let value = address;
        self.trap(serial, Trap { cause, value }, now);
    }

    fn access_address(&self, i: &Instruction) -> u64 {
        let base = self.hart.registers[usize::from(i.rs1)];
        match i.class {
            Class::Load | Class::Store => base.wrapping_add(i.immediate as i64 as u64),
            _ => base,
        }
    }

    pub(super) fn execute_access(
        &mut self,
        serial: Serializing,
        i: Instruction,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let address = self.access_address(&i);
        self.note_access(address);
        let bytes = i.access_bytes();
        let simple = matches!(i.class, Class::Load | Class::Store);
        let must_be_aligned = !simple || self.hart.alignment_mask != 0;
        if must_be_aligned && !address.is_multiple_of(u64::from(bytes)) {
            let cause = misaligned(i.class);
            let value = address;
            return self.trap(serial, Trap { cause, value }, now);
        }
        let mut serial = serial;
        if !self.has_pages(&mut serial, &i, now, outbox) {
            return;
        }
        let (virtual_address, address) = (address, self.physical(&serial, &i, 0));
        let last = self.physical(&serial, &i, bytes - 1);
        let reads = matches!(i.class, Class::Load | Class::LoadReserved);
        let memory_map = &self.shared.memory_map;
        match memory_map.classify(address) {
            region
                if self.is_user()
                    && (memory_map.is_protected(address) || memory_map.is_protected(last))
                    && !(reads && region == Region::Ram) =>
            {
                self.access_trap(serial, &i, virtual_address, now);
            }
            Region::Ram => {
                if !matches!(memory_map.classify(last), Region::Ram) {
                    // Memory consists of whole lines: the first missing byte begins one.
                    let last = virtual_address.wrapping_add(u64::from(bytes) - 1);
                    let missing = LineAddress::of(last).base();
                    return self.access_trap(serial, &i, missing, now);
                }
                if matches!(i.class, Class::Atomic | Class::StoreConditional) {
                    // Its page forbade the access and now allows it: dispatch it like any other.
                    self.leave_serial(&serial, now);
                    return self.redirect(serial.pc, now + 1);
                }
                let line = LineAddress::of(address);
                if i.class == Class::LoadReserved && self.hart.reservation != Some(line) {
                    self.hart.reservation = None;
                    self.release_held(now, outbox);
                }
                // `LR` requests the right to write, which the `SC` will need. In a loop around
                // `WRS` it requests a shared copy, since harts that wait for the same line would
                // otherwise keep taking it from each other.
                let write = match i.class {
                    Class::Load => false,
                    Class::LoadReserved => self.hart.awaited.take() != Some(line),
                    _ => true,
                };
                self.try_line(serial, line, write, now, outbox);
            }
            Region::Device(agent) if simple && address.is_multiple_of(u64::from(bytes)) => {
                let kind = if i.class == Class::Load {
                    RequestKind::Read { address, bytes }
                } else {
                    let data = i.store_value(self.hart.registers[usize::from(i.rs2)]);
                    RequestKind::Write {
                        address,
                        bytes,
                        value: low_bytes(data, bytes),
                    }
                };
                let token = self.send_request(Some(agent), Transit::Tile, kind, now, outbox);
                if i.class == Class::Store && self.shared.spec.posted_device_stores > 0 {
                    self.hart.posted.push_back(PostedStore {
                        token,
                        address,
                        pc: serial.pc,
                        bits: i.bits,
                    });
                    self.finish(serial, 0, now + 1);
                } else {
                    self.wait_for_reply(serial, token);
                }
            }
            _ => self.access_trap(serial, &i, virtual_address, now),
        }
    }

    /// Whether the pages of an access are known. If not, it waits for the next one.
    fn has_pages(
        &mut self,
        serial: &mut Serializing,
        i: &Instruction,
        now: u64,
        outbox: &mut Outbox,
    ) -> bool {
        let first = self.access_address(i);
        let last = first.wrapping_add(u64::from(i.access_bytes()) - 1);
        if !self.translates() {
            serial.frames = [first, last].map(Frame::of);
            return true;
        }
        let pages = match first / TABLE_BYTES == last / TABLE_BYTES {
            true => 1,
            false => 2,
        };
        if serial.pages_known == pages {
            return true;
        }
        let address = page_address(first, last, serial.pages_known);
        let found = self.page_of_serial(access_of(i), address, now, outbox);
        let (until, frame) = found.unwrap_or((NEVER, Frame::of(0)));
        serial.frames[usize::from(serial.pages_known)] = frame;
        serial.state = State::Page { until };
        self.wait(*serial);
        self.continue_serial(now, outbox);
        false
    }

    /// The next page of an access is known: it continues or traps.
    pub(super) fn page_is_known(
        &mut self,
        serial: Serializing,
        i: Instruction,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let first = self.access_address(&i);
        let last = first.wrapping_add(u64::from(i.access_bytes()) - 1);
        let address = page_address(first, last, serial.pages_known);
        let frame = serial.frames[usize::from(serial.pages_known)];
        if let Err(fault) = frame.physical(address) {
            return self.trap(serial, fault.trap(access_of(&i), address), now);
        }
        let pages_known = serial.pages_known + 1;
        let serial = Serializing {
            pages_known,
            ..serial
        };
        self.execute_access(serial, i, now, outbox);
    }

    /// The physical address of a byte of an access whose pages are known.
    fn physical(&self, serial: &Serializing, i: &Instruction, offset: u8) -> u64 {
        let first = self.access_address(i);
        let address = first.wrapping_add(offset.into());
        let page = usize::from(address / TABLE_BYTES != first / TABLE_BYTES);
        serial.frames[page].physical(address).unwrap_or(address)
    }

    /// The page walk of an access ends at `at`.
    pub(crate) fn serial_has_page(&mut self, at: u64, frame: Frame) {
        if let Some(serial) = &mut self.hart.serial
            && let State::Page { until } = &mut serial.state
        {
            *until = at;
            serial.frames[usize::from(serial.pages_known)] = frame;
            self.hart.serial_event = self.hart.serial_event.min(at);
        }
    }

    /// Sends a request to an agent; returns the token of its answer.
    pub(super) fn send_request(
        &mut self,
        agent: Option<AgentId>,
        transit: Transit,
        kind: RequestKind,
        now: u64,
        outbox: &mut Outbox,
    ) -> u64 {
        let token = self.shared.next_token;
        self.shared.next_token += 1;
        // The request leaves after the core's departure latency; links with their own latency count
        // from now.
        let departure = self.shared.spec.departure_cycles();
        let transit = match transit {
            Transit::Fixed(latency) => {
                Transit::Fixed(latency.saturating_sub(self.shared.clock.time(departure)))
            }
            other => other,
        };
        outbox.push(
            self.shared.clock.time(now + departure),
            OutgoingKind::Request {
                agent,
                transit,
                kind,
                hart: self.hart.privileged.csrs.mhartid as u16,
                token,
            },
        );
        token
    }

    pub(super) fn wait_for_reply(&mut self, serial: Serializing, token: u64) {
        self.wait(Serializing {
            state: State::Reply { token },
            ..serial
        });
    }

    pub(super) fn replied(
        &mut self,
        serial: Serializing,
        result: Result<u64, ()>,
        now: u64,
        outbox: &mut Outbox,
    ) {
        if let Ok(value) = result
            && serial.is_of_extension()
        {
            let mut serial = serial;
            if let Some(since) = serial.halted_since.take() {
                self.hart.statistics.halted_cycles += now - since;
            }
            return self.resume_extension(serial, value, now, outbox);
        }
        let Kind::Instruction(i) = serial.kind else {
            return;
        };
        match (i.class, result) {
            (Class::Load, Ok(value)) => {
                let value = i.load_value(low_bytes(value, i.access_bytes()));
                self.finish(serial, value, now + 1);
            }
            (_, Ok(_)) => self.finish(serial, 0, now + 1),
            (_, Err(())) => {
                let address = self.access_address(&i);
                self.access_trap(serial, &i, address, now);
            }
        }
    }

    /// Continues if the line has the required permission, and requests it otherwise.
    pub(super) fn try_line(
        &mut self,
        serial: Serializing,
        line: LineAddress,
        write: bool,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let found = self
            .shared
            .data_cache
            .find(line)
            .filter(|&slot| !write || self.shared.data_cache.writable(slot));
        let Some(slot) = found else {
            let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
            // A line that this instruction has not requested may be too old for it.
            let outcome = self.request_line((Side::Data, line, write), at, outbox);
            let asked = outcome != RequestOutcome::Full || serial.waits_for_line(line);
            return self.wait(Serializing {
                state: State::Line { line, write, asked },
                ..serial
            });
        };
        self.shared.data_cache.touch(slot);
        if serial.is_of_extension() {
            return self.accessed(serial, slot, now);
        }
        let Kind::Instruction(i) = serial.kind else {
            return;
        };
        let hit_latency = self.shared.spec.l1_data.hit_latency_cycles;
        match i.class {
            Class::LoadReserved => {
                let address = self.physical(&serial, &i, 0);
                let bytes = usize::from(i.access_bytes());
                let raw = self
                    .shared
                    .data_cache
                    .line(slot)
                    .read((address % 64) as usize, bytes);
                if self.hart.held.is_empty() && write {
                    // A requester that waits for the line already does not wait longer.
                    self.hart.hold_until = now + RESERVATION_HOLD_CYCLES;
                }
                self.hart.reservation = Some(line);
                let value = i.load_value(raw);
                self.hart.attempts.load(address, value);
                self.finish(serial, value, now + hit_latency);
            }
            _ => {
                let part = self.part(&serial, &i);
                let offset = (part.address % 64) as usize;
                let bytes = usize::from(part.bytes);
                let shift = serial.bytes_done * 8;
                let mut serial = serial;
                if i.class == Class::Load {
                    let raw = self.shared.data_cache.line(slot).read(offset, bytes);
                    serial.gathered |= raw << shift;
                } else {
                    let data = i.store_value(self.hart.registers[usize::from(i.rs2)]) >> shift;
                    self.shared
                        .data_cache
                        .line_mut(slot)
                        .write(offset, bytes, data);
                    self.tell_other_harts(now, part.address, part.bytes);
                }
                serial.bytes_done += part.bytes;
                if serial.bytes_done < i.access_bytes() {
                    let next = LineAddress::of(self.physical(&serial, &i, serial.bytes_done));
                    self.try_line(serial, next, write, now, outbox);
                } else {
                    self.finish(serial, i.load_value(serial.gathered), now + hit_latency);
                }
            }
        }
    }

    /// The next part of an access that crosses a line.
    fn part(&self, serial: &Serializing, i: &Instruction) -> Part {
        let address = self.physical(serial, i, serial.bytes_done);
        let left = i.access_bytes() - serial.bytes_done;
        Part {
            address,
            bytes: left.min((64 - address % 64) as u8),
        }
    }
}
