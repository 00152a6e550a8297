//! Observation of the fabric: its parts, its faults, and whether its state equals that at a sample
//! point.

use super::Fabric;
use crate::home::Bank;
#[cfg(test)]
use crate::{CacheId, LineAddress};
use crate::{Clock, Ram};

/// A sample point from which the operations of the banks of the last-level cache are recorded.
#[derive(Debug)]
pub struct FootprintMark(Vec<usize>);

impl Fabric {
    /// The cores, as bits, whose inboxes have received messages since the last call.
    #[inline]
    pub fn take_delivered_to(&mut self) -> u64 {
        std::mem::take(&mut self.delivered_to)
    }

    /// Advances per-cycle state to `cycle`, before which no event remains. Its only effect is that
    /// two sample points can be compared.
    pub fn settle(&mut self, cycle: u64) {
        self.mesh.settle(cycle);
    }

    /// Whether periods can be detected: only with an inclusive last-level cache, because there
    /// evictions by cores do not change lines.
    pub fn can_repeat(&self) -> bool {
        self.banks.iter().all(Bank::can_repeat)
    }

    /// Starts a sample point for later comparisons: operations of the banks of the last-level cache
    /// are recorded from now on.
    pub fn mark_footprint(&mut self) -> FootprintMark {
        FootprintMark(self.banks.iter_mut().map(Bank::mark_footprint).collect())
    }

    /// Stops recording.
    pub fn end_footprint(&mut self) {
        self.banks.iter_mut().for_each(Bank::end_footprint);
    }

    /// Whether the banks hold the same content as at a sample point, as far as it has been used
    /// since. Recording stops until the next mark.
    pub fn footprint_holds(&mut self, FootprintMark(marks): &FootprintMark) -> bool {
        let mut banks = self.banks.iter_mut().zip(marks);
        banks.all(|(bank, &mark)| bank.footprint_holds(mark))
    }

    /// The memory image.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The memory image, for loading programs and data before the simulation begins.
    pub fn ram_mut(&mut self) -> &mut Ram {
        &mut self.ram
    }

    /// The waiting units and their causes, one sentence each, for reports of deadlocks.
    pub fn waiting_for(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for bank in &self.banks {
            bank.waiting_for(&mut sentences);
        }
        for port in &self.agents {
            let name = self.agent_name(port.first);
            let waiting = port.agent.as_ref().map(|agent| agent.waiting_for());
            sentences.extend(
                waiting
                    .iter()
                    .flatten()
                    .map(|what| format!("{name}: {what}")),
            );
            for line in &port.pending.lines {
                let line = line.base();
                sentences.push(format!(
                    "{name} waits for an access to the line at {line:#x}."
                ));
            }
        }
        sentences
    }

    /// Errors of agents, one sentence each. A simulation with any error should fail.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    #[cfg(test)]
    pub(crate) fn private_caches(&self) -> impl Iterator<Item = &crate::PrivateCache> {
        self.agents.iter().filter_map(|port| port.cache.as_ref())
    }

    /// Delays one message in four on the mesh by less than `cycles`.
    #[cfg(test)]
    pub(crate) fn set_jitter(&mut self, cycles: u64, seed: u64) {
        self.mesh.jitter = (cycles, seed);
    }

    /// For each line at home its sharers, its owner, and whether it is busy.
    #[cfg(test)]
    pub(crate) fn directory(
        &self,
    ) -> std::collections::BTreeMap<LineAddress, (u64, Option<CacheId>, bool)> {
        let lines = self.banks.iter().flat_map(Bank::lines);
        lines
            .map(|(line, sharers, owner, busy)| (line, (sharers, owner, busy)))
            .collect()
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Number of sockets; they have equal numbers of cores.
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// The tile where the link of `socket` to the other one begins.
    pub fn link_tile(&self, socket: usize) -> usize {
        self.mesh.link_tile(socket)
    }

    /// The clock of the fabric's cycles.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}
