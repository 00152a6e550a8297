//! The identification hardware of a core, as a probe of its harts, and what is counted of it.

use crate::executable::executable;
use crate::identification::{Accesses, Epoch, Identification, Sizes, misses_second_level};
use crate::region::{Kind, Region};
use crate::register_state::RegisterState;
use fabric::{Clock, Time};
use pipeline::{Executed, Probe};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A region that epochs have ended with, once or more often: the same instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctRegion {
    /// The region, with the registers of the last time.
    pub region: Region,
    /// How many epochs have ended with it.
    pub epochs: u64,
    /// How often harts have executed its first instruction while it was the last region.
    pub executions: u64,
}

/// What is counted of a core.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Epochs that have ended.
    pub epochs: u64,
    /// Loads that missed the second-level cache.
    pub misses: u64,
    /// Those since the first region.
    pub misses_with_region: u64,
    /// Those that the last region would have fetched.
    pub covered: u64,
    /// Those that it would have fetched if all registers were known.
    pub ready: u64,
    /// Ready instructions at the ends of epochs, with or without ready registers.
    pub ready_instructions: u64,
    /// Predicted values of the last region's registers that were right where harts read them as
    /// roots, or made them as results.
    pub right_values: u64,
    /// Those that were wrong.
    pub wrong_values: u64,
    /// Entries of the context instruction cache that have made room for others.
    pub evictions: u64,
    /// Packets for which the interface sent the results of user routines.
    pub packets_told: u64,
    /// How many of these packets a hart has begun with.
    pub packets_begun: u64,
    /// Those that fetch something, by their instructions.
    pub regions: BTreeMap<Vec<u64>, DistinctRegion>,
}

/// A region that the interface has, or would have.
struct Offloaded {
    /// Its instructions: its place in the counts.
    pcs: Vec<u64>,
    region: Region,
    /// The ready instructions of its epoch.
    ready: Vec<u64>,
}

/// The identification hardware of a core.
pub struct Observer {
    identification: Identification,
    /// Those that the interface has, the last one in front.
    offloaded: VecDeque<Offloaded>,
    /// How many it has at most.
    most: usize,
    counts: Counts,
    packets: Packets,
    /// Regions that have not been taken, and when their epochs have ended.
    fresh: VecDeque<(Time, Region)>,
    /// Packets that it is about to be told of: when, the buffer, its bytes, and the values.
    arriving: VecDeque<(Time, u64, u64, Vec<u64>)>,
    clock: Clock,
}

/// What user routines have returned for packets, by the buffers that they are in.
#[derive(Debug, Default)]
struct Packets {
    /// By the buffer's address: where it ends, and the values.
    known: BTreeMap<u64, (u64, Vec<u64>)>,
    /// Buffers, that which was told of first in front.
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

    /// The buffer that has this address.
    fn at(&self, address: u64) -> Option<u64> {
        let (&buffer, (end, _)) = self.known.range(..=address).next_back()?;
        (address < *end).then_some(buffer)
    }

    /// Takes out the values of a packet. The next packet in its buffer may be one of which the
    /// interface tells nothing.
    fn take(&mut self, buffer: u64) -> Option<Vec<u64>> {
        let (_, values) = self.known.remove(&buffer)?;
        self.order.retain(|one| *one != buffer);
        Some(values)
    }
}

/// A core's observer, shared by the probes of its harts.
pub type SharedObserver = Rc<RefCell<Observer>>;

impl Observer {
    /// That of a core with so many harts and this clock, which keeps at most so many `packets`, and
    /// whose interface has at most so many `regions`, of different procedures.
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

    /// From `at` on it knows that user routines have returned these values for the packet in this
    /// buffer, which the core is to serve. Later calls have later times.
    pub fn tell(&mut self, at: Time, buffer: u64, bytes: u64, values: Vec<u64>) {
        self.counts.packets_told += 1;
        self.arriving.push_back((at, buffer, bytes, values));
    }

    /// The region of an epoch that has ended until `by` and has not been taken, if there is one.
    pub fn take_region(&mut self, by: Time) -> Option<Region> {
        let (_, region) = self.fresh.pop_front_if(|(at, _)| *at <= by)?;
        Some(region)
    }

    /// The first hart that loads from a packet's buffer serves that packet from then on.
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

    /// How often its structures have been accessed so far.
    pub fn accesses(&self) -> Accesses {
        self.identification.accesses()
    }

    /// What it has counted so far.
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
        if !region.fetches(&executable(&region)) {
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
        let offloaded = Offloaded { pcs, region, ready };
        self.offloaded.push_front(offloaded);
    }

    /// Compares what the regions of the interface would do with what the hart does.
    fn compare(&mut self, thread: usize, executed: &Executed) {
        let missed = misses_second_level(executed);
        self.counts.misses += u64::from(missed);
        if self.offloaded.is_empty() {
            return;
        }
        self.counts.misses_with_region += u64::from(missed);
        let (mut is_ready, mut is_covered) = (false, false);
        for Offloaded { pcs, region, ready } in &self.offloaded {
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
    /// That of a hart of the core.
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
    /// How many of its instructions are of this kind.
    pub fn count(&self, kind: Kind) -> usize {
        let instructions = self.instructions.iter();
        instructions.filter(|one| one.kind == kind).count()
    }
}
