//! Changes by agents as if before the simulation, without taking time or sending messages.
//!
//! Lines that a private cache holds or awaits do not change, so that no cache has to be notified:
//! the invariants of one writer or many readers, of inclusion, and of the directory are preserved.

use super::{AgentId, Sharer};
use crate::{
    AddressRange, CacheId, CoreId, Fabric, LINE_BYTES, LineAddress, LineData, PrivateCache,
};

fn lines(range: AddressRange) -> impl Iterator<Item = LineAddress> {
    let lines = LineAddress::of(range.start).0..range.end().div_ceil(LINE_BYTES as u64);
    lines.map(LineAddress)
}

impl Fabric {
    /// Puts the lines of `range` into the last-level cache as if they had just been written.
    pub(crate) fn warm_last_level(&mut self, range: AddressRange) {
        for line in lines(range) {
            if self.ram.contains(line) {
                let bank = self.bank_of(line);
                self.banks[bank].warm(line);
            }
        }
    }

    /// Records `sharers` as readers of the lines of `range` in the directory.
    pub(crate) fn note_sharers(
        &mut self,
        range: AddressRange,
        sharers: [Sharer; 2],
        core_of: impl Fn(u16) -> CoreId,
    ) {
        for line in lines(range) {
            if !self.ram.contains(line) {
                continue;
            }
            let caches = sharers.map(|sharer| match sharer {
                Sharer::Hart(hart) => Some(CacheId::data(core_of(hart))),
                Sharer::Agent(agent) => {
                    let place = self.place_of_access(agent, line);
                    let cache = self.agents[usize::from(place.0)].cache.as_ref();
                    cache.map(PrivateCache::id)
                }
            });
            let bank = self.bank_of(line);
            self.banks[bank].note_sharers(line, caches.into_iter().flatten());
        }
    }

    /// Changes a line of memory for agent `id`.
    pub(crate) fn put_into_memory(&mut self, id: AgentId, line: LineAddress, data: &LineData) {
        let problem = if !self.ram.contains(line) {
            "there is no memory"
        } else if self.banks[self.bank_of(line)].is_held(line) {
            "a cache holds it or waits for it"
        } else {
            return self.ram.write_line(line, data);
        };
        if self.errors.len() < 100 {
            let (name, address) = (self.agent_name(id), line.base());
            self.errors.push(format!(
                "{name}: the line at {address:#x} cannot be changed without taking time: {problem}."
            ));
        }
    }
}
