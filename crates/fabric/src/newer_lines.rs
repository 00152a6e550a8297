//! The contents of memory after a write-back of all caches.

use crate::{Fabric, LineAddress, LineData, PrivateCache};
use std::collections::BTreeMap;

/// Lines whose data in private caches, or in flight from there to their homes, is newer than the
/// memory image. It is correct for lines without accesses during the longest latency of a message.
#[derive(Clone, Debug, Default)]
pub struct NewerLines(BTreeMap<LineAddress, LineData>);

impl NewerLines {
    /// Adds the lines of `cache`. A second-level cache must be added before its first levels, whose
    /// data are newer.
    pub fn add(&mut self, cache: &PrivateCache) {
        // Another cache may already own a line that this one is evicting.
        for (line, data) in cache.leaving_lines() {
            self.0.entry(line).or_insert(*data);
        }
        for (line, data) in cache.modified_lines() {
            self.0.insert(line, *data);
        }
    }

    /// The content of `line`, if it is newer than the memory image.
    pub fn get(&self, line: LineAddress) -> Option<&LineData> {
        self.0.get(&line)
    }
}

impl Fabric {
    /// Adds the lines of agents' caches to those of the cores.
    pub fn add_newer_lines(&self, lines: &mut NewerLines) {
        for cache in self.agents.iter().filter_map(|port| port.cache.as_ref()) {
            lines.add(cache);
        }
    }

    /// Changes bytes of a line in memory and in the caches of agents. False: one of these is giving
    /// up the line; try it again when time has passed.
    pub fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) -> bool {
        let caches = || self.agents.iter().filter_map(|port| port.cache.as_ref());
        if caches().any(|cache| cache.gives_up(line)) {
            return false;
        }
        for port in &mut self.agents {
            if let Some(cache) = &mut port.cache {
                cache.patch(line, offset, bytes);
            }
        }
        let mut data = self.ram().read_line(line);
        data.patch(offset, bytes);
        self.ram_mut().write_line(line, &data);
        true
    }
}
