//! The address map of the cores.

use crate::ram::overlap;
use crate::{AddressRange, AgentId, Fabric};

/// The owner of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Memory: loads and stores go through the private caches.
    Ram,
    /// Addresses of an agent: loads and stores are requests to it.
    Device(AgentId),
    /// Unmapped: an access fault.
    Nothing,
}

/// The address map.
#[derive(Clone, Debug, Default)]
pub struct MemoryMap {
    pub(crate) ranges: Vec<Mapped>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub(crate) range: AddressRange,
    pub(crate) region: Region,
    /// See [`MemoryMap::protect`].
    pub(crate) protected: bool,
}

impl MemoryMap {
    /// The owner of `address`.
    #[inline]
    pub fn classify(&self, address: u64) -> Region {
        let found = self.find(address);
        found.map_or(Region::Nothing, |mapped| mapped.region)
    }

    #[inline]
    fn find(&self, address: u64) -> Option<&Mapped> {
        self.ranges
            .iter()
            .find(|mapped| mapped.range.contains(address))
    }

    /// The range of memory that holds `address`, for frequent look-ups. `user`: only if user mode
    /// may write there.
    pub fn memory_around(&self, address: u64, user: bool) -> Option<AddressRange> {
        self.find(address)
            .filter(|mapped| mapped.region == Region::Ram && !(user && mapped.protected))
            .map(|mapped| mapped.range)
    }

    /// All ranges of memory and of agents.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> {
        self.ranges.iter().map(|mapped| mapped.range)
    }

    /// Hides the memory at `hidden`, which must be a whole range, from programs.
    #[must_use]
    pub fn without(mut self, hidden: AddressRange) -> MemoryMap {
        self.ranges
            .retain(|mapped| !overlap(&mapped.range, &hidden));
        self
    }

    /// Keeps user mode from writing to memory and from accessing devices in `ranges`, each of which
    /// must be a whole range of the map. Code and data there can still be executed and read.
    #[must_use]
    pub fn protect(mut self, ranges: &[AddressRange]) -> MemoryMap {
        for mapped in &mut self.ranges {
            mapped.protected |= ranges.iter().any(|range| overlap(range, &mapped.range));
        }
        self
    }

    /// Whether `address` is protected from user mode ([`MemoryMap::protect`]).
    pub fn is_protected(&self, address: u64) -> bool {
        self.find(address).is_some_and(|mapped| mapped.protected)
    }
}

impl Fabric {
    /// The address map for cores. It does not contain agents that are attached later.
    pub fn memory_map(&self) -> MemoryMap {
        let memory = self.ram.ranges().iter().map(|&range| (range, Region::Ram));
        let devices = self
            .devices
            .iter()
            .map(|&(range, agent)| (range, Region::Device(agent)));
        let mut ranges: Vec<Mapped> = memory
            .chain(devices)
            .map(|(range, region)| Mapped {
                range,
                region,
                protected: false,
            })
            .collect();
        // The largest range is accessed most.
        ranges.sort_by_key(|mapped| std::cmp::Reverse(mapped.range.length));
        MemoryMap { ranges }
    }
}
