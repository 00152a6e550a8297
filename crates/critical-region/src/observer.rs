//! The identification hardware of a core, as a probe of its harts, and its counters.

use crate::executable::executable;
use crate::identification::{Accesses, Epoch, Identification, Sizes, misses_second_level};
use crate::region::{Kind, Region};
use crate::register_state::RegisterState;
use crate::shadow::Shadow;
use fabric::{Clock, Time};
use pipeline::{Executed, Probe};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A region, by its instructions, with which one or more epochs have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctRegion {
    /// The region, with the registers of its last epoch.
    pub region: Region,
    /// The number of epochs that have ended with it.
    pub epochs: u64,
    /// The number of executions of its first instruction while it was the last region.
    pub executions: u64,
}

/// Counters of a core.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Epochs that have ended.
    pub epochs: u64,
    /// Loads that missed the second-level cache.
    pub misses: u64,
    /// Such loads since the first region.
    pub misses_with_region: u64,
    /// Such loads that are in a present region.
    pub covered: u64,
    /// Such loads that would be in it if all registers were known.
    pub ready: u64,
    /// Ready instructions at the ends of epochs, with or without ready registers.
    pub ready_instructions: u64,
    /// Correct predicted values of the last region's registers, checked where harts read them as
    /// roots or produce them as results.
    pub right_values: u64,
    /// Wrong predicted values, checked at the same times.
    pub wrong_values: u64,
    /// Loads of executed regions, in passes from the first instruction on, for which the region's
    /// code has the same address as the hart.
    pub right_addresses: u64,
    /// Those for which it has another one, or none.
    pub wrong_addresses: u64,
    /// Entries of the context instruction cache that have made room for others.
    pub evictions: u64,
    /// Packets for which the interface sent the results of user routines.
    pub packets_told: u64,
    /// The number of these packets that a hart has begun to serve.
    pub packets_begun: u64,
    /// Regions that fetch something, by their instructions.
    pub regions: BTreeMap<Vec<u64>, DistinctRegion>,
}

/// A region that the interface has, or would have.
struct Offloaded {
    /// Its instructions: its key in the counters.
    pcs: Vec<u64>,
    region: Region,
    /// The ready instructions of its epoch.
    ready: Vec<u64>,
    /// Which of its instructions can be executed.
    executable: Vec<bool>,
    /// For each hart, what its code would have in registers.
    shadows: Vec<Shadow>,
}

/// The identification hardware of a core.
pub struct Observer {
    identification: Identification,
    /// The interface's regions, the most recent one first.
    offloaded: VecDeque<Offloaded>,
    /// The maximum number of these regions.
    most: usize,
    /// Number of harts.
    threads: usize,
    counts: Counts,
    packets: Packets,
    /// Regions that have not been sent, with the ends of their epochs.
    fresh: VecDeque<(Time, Region)>,
    /// Packets to be announced: when, the buffer, its length, and the values.
    arriving: VecDeque<(Time, u64, u64, Vec<u64>)>,
    clock: Clock,
}

/// The results of user routines for packets, by the packets' buffers.
#[derive(Debug, Default)]
struct Packets {
    /// By the buffer's address: its end, and the values.
    known: BTreeMap<u64, (u64, Vec<u64>)>,
    /// Buffers in the order of their announcements.
    order: VecDeque<u64>,
    capacity: usize,
}

impl Packets {
    fn put(&mut self, buffer: u64, bytes: u64, values: Vec<u64>) {
        if self
            .known
            .insert(buffer, (buffer + bytes, values))
            .is_none()
        {
            self.order.push_back(buffer);
        }
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The buffer that contains this address.
    fn at(&self, address: u64) -> Option<u64> {
        let (&buffer, (end, _)) = self.known.range(..=address).next_back()?;
        (address < *end).then_some(buffer)
    }

    /// Removes the values of a packet. The interface may not announce the next packet in the
    /// buffer.
    fn take(&mut self, buffer: u64) -> Option<Vec<u64>> {
        let (_, values) = self.known.remove(&buffer)?;
        self.order.retain(|one| *one != buffer);
        Some(values)
    }
}

/// A core's observer, shared by the probes of its harts.
pub type SharedObserver = Rc<RefCell<Observer>>;

impl Observer {
    /// The observer of a core with this number of harts and this clock. It keeps the values of at
    /// most `packets` packets, and its interface has at most `regions` regions, of different
    /// procedures.
    pub fn shared(
        sizes: Sizes,
        threads: usize,
        (packets, regions): (usize, usize),
        clock: Clock,
    ) -> SharedObserver {
        Rc::new(RefCell::new(Observer {
            identification: Identification::new(sizes, threads),
            offloaded: VecDeque::new(),
            most: regions,
            threads,
            counts: Counts::default(),
            packets: Packets {
                capacity: packets,
                ..Packets::default()
            },
            fresh: VecDeque::new(),
            arriving: VecDeque::new(),
            clock,
        }))
    }

    /// Announces, from `at` on, the results of user routines for the packet in this buffer, which
    /// the core will serve. Later calls have later times.
    pub fn tell(&mut self, at: Time, buffer: u64, bytes: u64, values: Vec<u64>) {
        self.counts.packets_told += 1;
        self.arriving.push_back((at, buffer, bytes, values));
    }

    /// The oldest unsent region of an epoch that has ended by `by`.
    pub fn take_region(&mut self, by: Time) -> Option<Region> {
        let (_, region) = self.fresh.pop_front_if(|(at, _)| *at <= by)?;
        Some(region)
    }

    /// The first hart that loads from a packet's buffer serves the packet from then on.
    fn serve(&mut self, thread: usize, executed: &Executed) {
        if executed.found.is_none() {
            return;
        }
        let now = self.clock.time(executed.ended);
        while let Some((_, buffer, bytes, values)) =
            self.arriving.pop_front_if(|(at, ..)| *at <= now)
        {
            self.packets.put(buffer, bytes, values);
        }
        let Some(address) = executed.address else {
            return;
        };
        let Some(values) = self
            .packets
            .at(address)
            .and_then(|buffer| self.packets.take(buffer))
        else {
            return;
        };
        self.identification.set_arguments(thread, &values);
        self.counts.packets_begun += 1;
    }

    /// The number of accesses to its structures.
    pub fn accesses(&self) -> Accesses {
        self.identification.accesses()
    }

    /// Its counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn committed(&mut self, thread: usize, executed: &Executed) {
        self.serve(thread, executed);
        self.compare(thread, executed);
        let Some(Epoch { region, ready }) = self.identification.committed(thread, executed) else {
            return;
        };
        self.counts.epochs += 1;
        self.counts.ready_instructions += ready.len() as u64;
        self.counts.evictions = self.identification.cache().evictions();
        if self.packets.capacity > 0 {
            let at = self.clock.time(executed.ended);
            self.fresh.push_back((at, region.clone()));
        }
        self.offloaded
            .retain(|one| one.region.procedure != region.procedure);
        let executable = executable(&region);
        if !region.fetches(&executable) {
            return;
        }
        let pcs: Vec<u64> = region.instructions.iter().map(|one| one.pc).collect();
        let known = self.counts.regions.entry(pcs.clone());
        let distinct = known.or_insert_with(|| DistinctRegion {
            region: Region::default(),
            epochs: 0,
            executions: 0,
        });
        distinct.region = region.clone();
        distinct.epochs += 1;
        self.offloaded.truncate(self.most.saturating_sub(1));
        self.offloaded.push_front(Offloaded {
            pcs,
            region,
            ready,
            executable,
            shadows: vec![Shadow::new(); self.threads],
        });
    }

    /// Compares the interface's regions with the hart's execution.
    fn compare(&mut self, thread: usize, executed: &Executed) {
        let missed = misses_second_level(executed);
        self.counts.misses += u64::from(missed);
        if self.offloaded.is_empty() {
            return;
        }
        self.counts.misses_with_region += u64::from(missed);
        let (mut is_ready, mut is_covered) = (false, false);
        for of in &mut self.offloaded {
            let (pcs, region, ready) = (&of.pcs, &of.region, &of.ready);
            is_ready |= missed && ready.binary_search(&executed.pc).is_ok();
            let Ok(place) = pcs.binary_search(&executed.pc) else {
                continue;
            };
            let instruction = &region.instructions[place];
            is_covered |= missed && !instruction.given;
            if place == 0
                && let Some(distinct) = self.counts.regions.get_mut(pcs)
            {
                distinct.executions += 1;
            }
            if of.executable[place] {
                let has = |register| self.identification.value(thread, register);
                let shadow = &mut of.shadows[thread];
                if let Some(is_right) = shadow.follow(region, place, executed, has) {
                    self.counts.right_addresses += u64::from(is_right);
                    self.counts.wrong_addresses += u64::from(!is_right);
                }
            }
            // A root's value is seen where an instruction reads it as one, a result's where it is
            // made.
            for live_in in &region.registers {
                let register = live_in.register;
                let actual = match live_in.root {
                    Some(_)
                        if !instruction.given && instruction.roots.contains(&Some(register)) =>
                    {
                        self.identification.value(thread, register)
                    }
                    None if instruction.given && instruction.instruction.rd == register => {
                        executed.value
                    }
                    _ => None,
                };
                if let (RegisterState::Ready(predicted), Some(actual)) = (live_in.state, actual) {
                    let is_right = predicted == actual;
                    self.counts.right_values += u64::from(is_right);
                    self.counts.wrong_values += u64::from(!is_right);
                }
            }
        }
        self.counts.ready += u64::from(is_ready);
        self.counts.covered += u64::from(is_covered);
    }
}

/// The probe of a hart.
pub struct HartProbe {
    observer: SharedObserver,
    thread: usize,
}

impl HartProbe {
    /// The probe of a hart of the core.
    pub fn new(observer: &SharedObserver, thread: usize) -> HartProbe {
        HartProbe {
            observer: Rc::clone(observer),
            thread,
        }
    }
}

impl Probe for HartProbe {
    fn executed(&mut self, executed: &Executed) {
        if !executed.undone {
            let mut observer = self.observer.borrow_mut();
            observer.committed(self.thread, executed);
        }
    }
}

impl Region {
    /// The number of its instructions of this kind.
    pub fn count(&self, kind: Kind) -> usize {
        let instructions = self.instructions.iter();
        instructions.filter(|one| one.kind == kind).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::Source;
    use pipeline::Found;
    use riscv::Class;

    /// Two procedures that share their ends, with loads that miss:
    ///
    /// ```text
    /// 1000  ld a1, 0(a0)    one procedure: a0 always has the same value
    /// 1004  j  0x2000
    /// 1800  ld a1, 0(a0)    the other
    /// 1804  j  0x2000
    /// 2000  ld a2, 0(a1)
    /// 2004  ld a4, 0(a5)    ready, but the value of a5 is unknown: in no region
    /// 2008  ld a6, 0(t1)    not ready: t1 is nobody's
    /// 200c  ret
    /// ```
    fn call(probe: &mut HartProbe, procedure: u64, misses: bool) {
        const ADDRESS: u64 = 64;
        let jump = match procedure {
            0x1000 => 0x7fd0_006f,
            _ => 0x7fc0_006f,
        };
        for (pc, bits, value) in [
            (0x100, 0x0400_0513, Some(ADDRESS)), // li a0, 64
            (0x104, 0x0000_00ef, Some(0x108)),   // jal ra
            (procedure, 0x0005_3583, Some(0)),
            (procedure + 4, jump, None),
            (0x2000, 0x0005_b603, Some(0)),
            (0x2004, 0x0007_b703, Some(0)),
            (0x2008, 0x0003_3803, Some(0)),
            (0x200c, 0x0000_8067, None),
        ] {
            let instruction = riscv::decode(bits);
            let found = match misses {
                true => Found::Line(Source::Memory),
                false => Found::Line(Source::SecondLevel),
            };
            probe.executed(&Executed {
                value,
                found: (instruction.class == Class::Load).then_some(found),
                ..Executed::committed(pc, instruction)
            });
        }
    }

    /// An epoch of eight misses is two calls, and leaves the region of its first procedure: two
    /// loads, and a third one that is ready. Each miss counts once, with one region and with two.
    #[test]
    fn misses_are_ready_or_covered_in_any_region() {
        let sizes = Sizes {
            epoch_misses: 8,
            ..Sizes::default()
        };
        let observer = Observer::shared(sizes, 1, (0, 2), Clock::from_ghz(4.0));
        let mut probe = HartProbe::new(&observer, 0);
        let mut before = [0; 4];
        for (procedure, misses, expected) in [
            // There is no region yet.
            (0x1000, true, [4, 0, 0, 0]),
            (0x1000, true, [4, 0, 0, 0]),
            // The region of 1000 has 2000, and 2004 is ready.
            (0x1800, true, [4, 4, 2, 1]),
            (0x1800, true, [4, 4, 2, 1]),
            // Both regions have 2000; the first load is in the older one, or in the newer one.
            (0x1000, true, [4, 4, 3, 2]),
            (0x1000, false, [0, 0, 0, 0]),
            (0x1800, true, [4, 4, 3, 2]),
        ] {
            call(&mut probe, procedure, misses);
            let counts = observer.borrow().counts().clone();
            let after = [
                counts.misses,
                counts.misses_with_region,
                counts.ready,
                counts.covered,
            ];
            let added = [0, 1, 2, 3].map(|place| after[place] - before[place]);
            assert_eq!(added, expected, "{procedure:#x} after {before:?}");
            before = after;
        }
        assert_eq!(observer.borrow().counts().regions.len(), 2);
    }
}
