//! Counts of a fabric.

use crate::home::BankStatistics;
use crate::{DramStatistics, Fabric, MemoryCacheStatistics, PrefetchStatistics};
use schemars::JsonSchema;
use serde::Serialize;

/// Counts of the fabric's events so far.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
pub struct FabricStatistics {
    /// Requests for lines that were in the last-level cache, that a private cache owned, or that
    /// were already being served for another request.
    #[state(count)]
    pub last_level_hits: u64,
    /// Requests for lines that had to come from memory.
    #[state(count)]
    pub last_level_misses: u64,
    /// Lines evicted from the last-level cache.
    #[state(count)]
    pub last_level_evictions: u64,
    /// Lines recalled from private caches to make room in the directory, which is in the tags of an
    /// inclusive last-level cache.
    #[state(count)]
    pub recalls: u64,
    /// GetS and GetM from private caches.
    #[state(count)]
    pub requests: u64,
    /// Requests that were forwarded to the owner of the line.
    #[state(count)]
    pub forwards: u64,
    /// Invalidates sent.
    #[state(count)]
    pub invalidations: u64,
    /// Lines that owners evicted.
    #[state(count)]
    pub puts: u64,
    /// Lines read at home by agents.
    #[state(count)]
    pub reads_at_home: u64,
    /// Writes of agents at home.
    #[state(count)]
    pub writes_at_home: u64,
    /// Lines sent from one private cache to another.
    #[state(count)]
    pub transfers: u64,
    /// Grants of E or M.
    #[state(count)]
    pub ownership_grants: u64,
    /// Requests of cores to agents.
    #[state(count)]
    pub agent_requests: u64,
    /// Requests of cores to unmapped addresses.
    #[state(count)]
    pub refused_requests: u64,
    /// Interrupt lines changed.
    #[state(count)]
    pub interrupts: u64,
    /// Directory look-ups of the banks of the last-level cache, for messages and requests.
    #[state(count)]
    pub bank_accesses: u64,
    /// Lines that the banks read out, to send or to write them to memory.
    #[state(count)]
    pub bank_line_reads: u64,
    /// Lines, or parts of lines, written to the banks.
    #[state(count)]
    pub bank_line_writes: u64,
    /// Lines read from memory.
    #[state(count)]
    pub memory_reads: u64,
    /// Lines written to memory.
    #[state(count)]
    pub memory_writes: u64,
    /// Messages between units, on one tile or between tiles.
    #[state(count)]
    pub mesh_messages: u64,
    /// Links passed by messages.
    #[state(count)]
    pub mesh_hops: u64,
    /// Links passed by flits; a flit takes a link for a cycle.
    #[state(count)]
    pub mesh_hop_cycles: u64,
    /// Time that messages waited for links, in femtoseconds.
    #[state(count)]
    pub mesh_queueing_fs: u64,
    /// Messages that have crossed the link between two sockets.
    #[state(count)]
    pub socket_link_messages: u64,
    /// Bytes that have crossed the link between two sockets.
    #[state(count)]
    pub socket_link_bytes: u64,
    /// Time that messages waited for the link between two sockets, in femtoseconds.
    #[state(count)]
    pub socket_link_queueing_fs: u64,
    /// Time that messages queued at a bank, in femtoseconds.
    #[state(count)]
    pub bank_queueing_fs: u64,
    /// Time that reads and writes waited for a memory channel, in femtoseconds; with
    /// `server.fabric.memory.dram`, the time that reads waited for their read command.
    #[state(count)]
    pub memory_queueing_fs: u64,
    /// Counts of the prefetcher of the last-level cache, with
    /// `server.fabric.last_level.prefetcher`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_level_prefetches: Option<PrefetchStatistics>,
    /// The commands of all channels, with `server.fabric.memory.dram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram: Option<DramStatistics>,
    /// Counts of the caches in front of memory, with `server.fabric.memory.cache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_cache: Option<MemoryCacheStatistics>,
    /// Answers and interrupts over dedicated wires that were requested sooner than the shortest
    /// latency of a delivery, and were delayed to it.
    #[state(count)]
    pub lengthened_deliveries: u64,
    /// Events processed.
    #[state(count)]
    pub events: u64,
}

impl Fabric {
    /// The counts so far.
    pub fn statistics(&self) -> FabricStatistics {
        let crossings = self.mesh.crossings();
        let mut statistics = FabricStatistics {
            socket_link_messages: crossings.messages,
            socket_link_bytes: crossings.bytes,
            socket_link_queueing_fs: crossings.queueing.as_fs(),
            memory_reads: self.memory.reads,
            memory_writes: self.memory.writes,
            memory_queueing_fs: self.memory.queueing.as_fs(),
            dram: self.memory.dram(),
            memory_cache: self.memory.cache(),
            mesh_messages: self.mesh.messages,
            mesh_hops: self.mesh.hops,
            mesh_hop_cycles: self.mesh.hop_cycles,
            mesh_queueing_fs: self.mesh.queueing().as_fs(),
            ..self.statistics
        };
        for bank in &self.banks {
            let BankStatistics {
                hits,
                misses,
                evictions,
                recalls,
                forwards,
                invalidations,
                reads_at_home,
                writes_at_home,
                puts,
            } = bank.statistics;
            statistics.last_level_hits += hits;
            statistics.last_level_misses += misses;
            statistics.last_level_evictions += evictions;
            statistics.recalls += recalls;
            statistics.forwards += forwards;
            statistics.invalidations += invalidations;
            statistics.reads_at_home += reads_at_home;
            statistics.writes_at_home += writes_at_home;
            statistics.puts += puts;
            if let Some(prefetches) = bank.prefetches() {
                let all = statistics.last_level_prefetches.get_or_insert_default();
                state::add_counts(all, &prefetches);
            }
        }
        statistics
    }
}
