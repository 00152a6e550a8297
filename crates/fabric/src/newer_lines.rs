//! The contents of memory if all caches wrote back.

use crate::{Fabric, LineAddress, LineData, PrivateCache};
use std::collections::BTreeMap;

/// Lines that are newer in private caches, or in flight from these to their homes, than in the
/// memory image. It is correct for lines without accesses for longer than a message takes.
#[derive(Clone, Debug, Default)]
pub struct NewerLines(BTreeMap<LineAddress, LineData>);

impl NewerLines {
    /// Adds those of `cache`. A second-level cache comes before the first level that it is behind,
    /// whose data are newer.
    pub fn add(&mut self, cache: &PrivateCache) {
        // Another cache may own by now what this one is giving up.
        for (line, data) in cache.leaving_lines() {
            self.0.entry(line).or_insert(*data);
        }
        for (line, data) in cache.modified_lines() {
            self.0.insert(line, *data);
        }
    }

    /// What is in `line`, if it is newer than in the memory image.
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
}
