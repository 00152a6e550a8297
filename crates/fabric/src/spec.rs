//! Descriptions of the fabric's parts, with their defaults and checks.

use crate::{
    Clock, DramSpec, LINE_BYTES, MemoryCacheSpec, PrefetcherKind, Replacement,
    SequentialPrefetcherKind, StreamerSpec, Time,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::borrow::Cow;

/// The maximum number of private caches on a fabric: the number of bits in a directory entry.
pub(crate) const MAXIMUM_CACHES: usize = 64;

/// Far beyond any real hardware, and still within the host's memory.
const MAXIMUM_TILES: usize = 256;
const MAXIMUM_PRIVATE_BYTES: u64 = 16 << 20;
const MAXIMUM_SHARED_BYTES: u64 = 1 << 30;
/// Sums of these never approach the largest representable time.
const MAXIMUM_CYCLES: u64 = 1_000_000;

/// Checks that a set-associative array has a power of two sets, with entries of `entry_bytes` bytes
/// or, if entries are counted, of 1.
fn check_sets(key: &str, size: u64, ways: u32, entry_bytes: usize) -> Result<(), SpecError> {
    let set = u64::from(ways) * entry_bytes as u64;
    let sets = size / set;
    let of = match entry_bytes {
        1 => "ways".to_string(),
        bytes => format!("ways of {bytes} bytes"),
    };
    require(
        size.is_multiple_of(set) && sets.is_power_of_two(),
        key,
        size,
        format!(
            "it must be a power of two times {ways} {of}, such as {}",
            set * sets.max(1).next_power_of_two()
        ),
    )
}

/// A private cache.
///
/// Defaults: the first-level data cache of a current server core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSpec {
    /// Capacity in bytes: sets x ways x 64, where the number of sets is a power of two.
    #[schemars(range(min = 64, max = MAXIMUM_PRIVATE_BYTES))]
    pub size_bytes: u64,
    /// Ways of each set.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// `lru`, `tree-plru`, `srrip` or `random`: the policy that selects the line of a set to evict.
    pub replacement: Replacement,
    /// Cycles from the address to the data on a hit, tags included. A miss leaves the cache that
    /// long after the access began.
    #[schemars(range(min = 1, max = 1000))]
    pub hit_latency_cycles: u64,
    /// Miss status holding registers: the maximum number of outstanding misses.
    #[schemars(range(min = 1, max = 1024))]
    pub mshrs: u32,
}

impl Default for CacheSpec {
    fn default() -> CacheSpec {
        CacheSpec {
            size_bytes: 32 * 1024,
            ways: 8,
            replacement: Replacement::Lru,
            hit_latency_cycles: 4,
            mshrs: 16,
        }
    }
}

impl CacheSpec {
    /// Checks whether the cache can be built.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        check_sets("size_bytes", self.size_bytes, self.ways, LINE_BYTES)
    }

    pub(crate) fn sets(&self) -> usize {
        (self.size_bytes / (u64::from(self.ways) * LINE_BYTES as u64)) as usize
    }
}

/// A private second-level cache, for instructions and data, that includes the first-level caches of
/// its core.
///
/// Defaults: Skylake-SP: 1 MB with 16 ways, 14 cycles from load to use, including 4 of the first
/// level (Intel's optimisation manual), 16 outstanding misses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecondLevelSpec {
    /// Capacity in bytes: sets x ways x 64, where the number of sets is a power of two; no less
    /// than both first-level caches have.
    #[schemars(range(min = 64, max = MAXIMUM_PRIVATE_BYTES))]
    pub size_bytes: u64,
    /// Ways of each set.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// `lru`, `tree-plru`, `srrip` or `random`: the policy that selects the line of a set to evict.
    pub replacement: Replacement,
    /// Cycles from the end of a first-level cache's look-up to the line in that cache; it can be
    /// used in the next cycle. A miss leaves for the line's home at the same time, and so does an
    /// answer to another cache.
    #[schemars(range(min = 1, max = 1000))]
    pub hit_latency_cycles: u64,
    /// Miss status holding registers: the maximum number of outstanding misses.
    #[schemars(range(min = 1, max = 1024))]
    pub mshrs: u32,
    /// `none`, `next-line`, `streamer`, `adjacent-line` or `streamer-and-adjacent-line`: the lines
    /// that are fetched before a first-level cache requests them.
    pub prefetcher: PrefetcherKind,
    /// The table of the prefetcher `streamer`.
    pub streamer: StreamerSpec,
}

impl Default for SecondLevelSpec {
    fn default() -> SecondLevelSpec {
        SecondLevelSpec {
            size_bytes: 1024 * 1024,
            ways: 16,
            replacement: Replacement::Lru,
            hit_latency_cycles: 9,
            mshrs: 16,
            prefetcher: PrefetcherKind::None,
            streamer: StreamerSpec::default(),
        }
    }
}

impl SecondLevelSpec {
    /// The cache itself.
    pub fn cache(&self) -> CacheSpec {
        CacheSpec {
            size_bytes: self.size_bytes,
            ways: self.ways,
            replacement: self.replacement,
            hit_latency_cycles: self.hit_latency_cycles,
            mshrs: self.mshrs,
        }
    }
}

/// What a last-level cache has of the lines that private caches hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// All of them. The directory is in its tags, and a line that leaves it leaves the private
    /// caches.
    #[default]
    Inclusive,
    /// Those for which it happens to have room. The directory is beside it.
    NonInclusive,
}

/// The directory beside a non-inclusive last-level cache: an entry for each line that private
/// caches hold. A line that loses its entry leaves the private caches.
///
/// Defaults: 2048 sets of 12 ways a bank, for 1.5 MB of private caches a core: the entries of
/// Skylake-SP for lines that are not in its last-level cache (Yan et al., "Attack Directories,
/// Not Caches", S&P 2019).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DirectorySpec {
    /// Entries at one bank: sets x ways, where the number of sets is a power of two.
    #[schemars(range(min = 1, max = MAXIMUM_SHARED_BYTES / LINE_BYTES as u64))]
    pub entries_per_bank: u64,
    /// Ways of each set.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// `lru`, `tree-plru`, `srrip` or `random`: the policy that selects the line of a set to evict.
    pub replacement: Replacement,
}

impl Default for DirectorySpec {
    fn default() -> DirectorySpec {
        DirectorySpec {
            entries_per_bank: 2048 * 12,
            ways: 12,
            replacement: Replacement::Lru,
        }
    }
}

impl DirectorySpec {
    pub(crate) fn sets(&self) -> usize {
        (self.entries_per_bank / u64::from(self.ways)) as usize
    }
}

/// The shared last-level cache; one bank, with its part of the directory, on each tile.
///
/// Defaults: 1 MiB a core, as in server parts of 16 to 32 cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LastLevelSpec {
    /// Capacity of one bank in bytes: sets x ways x 64, where the number of sets is a power of two.
    #[schemars(range(min = 64, max = MAXIMUM_SHARED_BYTES))]
    pub size_bytes_per_bank: u64,
    /// Ways of each set.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// `lru`, `tree-plru`, `srrip` or `random`: the policy that selects the line of a set to evict.
    pub replacement: Replacement,
    /// Cycles from a message's acceptance by the bank to the answer's departure. The bank is
    /// pipelined: it accepts a message every cycle.
    #[schemars(range(min = 1, max = MAXIMUM_CYCLES))]
    pub latency_cycles: u64,
    /// `inclusive`, so that it has every line that private caches hold, or `non-inclusive`.
    pub inclusion: Inclusion,
    /// The directory beside a non-inclusive cache; an inclusive one has none of its own.
    pub directory: Option<DirectorySpec>,
    /// `none` or `next-line`: the lines that the cache fetches from memory before they are
    /// requested. The home of a line that had to come from memory, or whose prefetch was of use,
    /// asks the home of the next line in the 4 KB page to fetch it. No private cache has to give up
    /// a line for that.
    pub prefetcher: SequentialPrefetcherKind,
    /// Ways of each set in which DMA allocates lines. A write to a line that is in the cache
    /// updates it in its way. Cores fill all ways. Intel's Data Direct I/O has 2 of Skylake-SP's 11
    /// ways (Farshin et al., "Reexamining Direct Cache Access", ATC 2020). Absent: all ways.
    #[schemars(range(min = 1, max = 64))]
    pub io_ways: Option<u32>,
}

impl Default for LastLevelSpec {
    fn default() -> LastLevelSpec {
        LastLevelSpec {
            size_bytes_per_bank: 1024 * 1024,
            ways: 16,
            replacement: Replacement::Lru,
            latency_cycles: 10,
            inclusion: Inclusion::Inclusive,
            directory: None,
            prefetcher: SequentialPrefetcherKind::None,
            io_ways: None,
        }
    }
}

impl LastLevelSpec {
    pub(crate) fn sets(&self) -> usize {
        (self.size_bytes_per_bank / (u64::from(self.ways) * LINE_BYTES as u64)) as usize
    }

    /// Checks whether the numbers of sets are possible.
    fn check_sets(&self) -> Result<(), SpecError> {
        let size = self.size_bytes_per_bank;
        check_sets("size_bytes_per_bank", size, self.ways, LINE_BYTES)?;
        let io_ways = self.io_ways.unwrap_or(1);
        require(
            io_ways <= self.ways,
            "io_ways",
            io_ways,
            format!("the cache has {} ways", self.ways),
        )?;
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let entries = directory.entries_per_bank;
        require(
            self.inclusion == Inclusion::NonInclusive,
            "directory",
            format!("{entries} entries a bank"),
            "an inclusive last-level cache has its directory in its own tags; leave the directory \
             out, or set inclusion to \"non-inclusive\"",
        )?;
        check_sets("directory.entries_per_bank", entries, directory.ways, 1)
    }
}

/// The mesh between the tiles.
///
/// Defaults: 16 tiles, 3 cycles a hop, 16-byte links: usual in scale-out server studies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshSpec {
    /// Tiles in a row.
    #[schemars(range(min = 1, max = MAXIMUM_TILES))]
    pub columns: usize,
    /// Rows of tiles.
    #[schemars(range(min = 1, max = MAXIMUM_TILES))]
    pub rows: usize,
    /// Cycles of one router and the link behind it.
    #[schemars(range(min = 1, max = MAXIMUM_CYCLES))]
    pub hop_latency_cycles: u64,
    /// Bytes that a link carries each cycle.
    #[schemars(range(min = 1, max = MAXIMUM_CYCLES))]
    pub link_bytes: u64,
    /// Cycles from one unit of a tile to another on the same tile, through its router.
    #[schemars(range(min = 1, max = MAXIMUM_CYCLES))]
    pub local_latency_cycles: u64,
}

impl Default for MeshSpec {
    fn default() -> MeshSpec {
        MeshSpec {
            columns: 4,
            rows: 4,
            hop_latency_cycles: 3,
            link_bytes: 16,
            local_latency_cycles: 1,
        }
    }
}

impl MeshSpec {
    /// The shortest latency between any two tiles, which is within a socket.
    fn shortest_latency_cycles(&self) -> u64 {
        match self.columns * self.rows {
            1 => self.local_latency_cycles,
            _ => self.local_latency_cycles.min(self.hop_latency_cycles),
        }
    }
}

/// The memory controllers.
///
/// Defaults: four channels of DDR4-2400.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySpec {
    /// The number of controllers, spread evenly over the tiles at the mesh's edge; lines are
    /// interleaved over them.
    #[schemars(range(min = 1, max = MAXIMUM_TILES))]
    pub controllers: usize,
    /// Nanoseconds from the start of a read's service by the controller to the departure of its
    /// answer. `dram` replaces it.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub latency_ns: f64,
    /// Gigabytes (1e9 bytes) a second that each controller reads and writes together. `dram`
    /// replaces it.
    #[schemars(range(min = 0.001, max = 1e6))]
    pub bandwidth_gb_per_s: f64,
    /// The DRAM behind each controller, command by command. Without it the latency of a line does
    /// not depend on its address.
    pub dram: Option<DramSpec>,
    /// A cache in front of each controller. Absent: none.
    pub cache: Option<MemoryCacheSpec>,
}

impl Default for MemorySpec {
    fn default() -> MemorySpec {
        MemorySpec {
            controllers: 4,
            latency_ns: 50.0,
            bandwidth_gb_per_s: 19.2,
            dram: None,
            cache: None,
        }
    }
}

/// The link between two sockets.
///
/// Defaults: two UPI links of Skylake-SP and Cascade Lake: 10.4 GT/s of 2 bytes each. A read of
/// the other socket's memory takes some 60 ns more there (140.4 instead of 80.8 ns by Intel's
/// Memory Latency Checker), in which two messages cross; the latency is half of that, without the
/// time on the meshes and in transmission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SocketLinkSpec {
    /// Nanoseconds from the end of a message's transmission at one socket to its departure over the
    /// mesh of the other.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub latency_ns: f64,
    /// Gigabytes (1e9 bytes) a second that it carries each way.
    #[schemars(range(min = 0.001, max = 1e6))]
    pub bandwidth_gb_per_s: f64,
}

impl Default for SocketLinkSpec {
    fn default() -> SocketLinkSpec {
        SocketLinkSpec {
            latency_ns: 26.0,
            bandwidth_gb_per_s: 41.6,
        }
    }
}

/// The maximum number of sockets.
pub(crate) const MAXIMUM_SOCKETS: usize = 2;

/// Which caches hit with every access, in order to see what misses cost. Lines, permissions and
/// coherence stay what they are, so that programs and devices see the same memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PerfectCache {
    /// No cache does, as in every server.
    #[default]
    None,
    /// The last-level cache: a line that it does not have is there as soon as it is looked for, and
    /// memory controllers are never asked.
    LastLevel,
    /// The first-level caches of the cores: what they do not have comes from anywhere on the chip
    /// in one cycle, while they are looked into. There is no second level, and no limit to misses.
    FirstLevel,
}

impl PerfectCache {
    fn is_none(&self) -> bool {
        *self == PerfectCache::None
    }
}

/// The coherent fabric of one server.
///
/// Defaults: 16 cores at 2 GHz. A forward takes as long as a hit in the default private cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FabricSpec {
    /// Cores. Core `k` is on tile `k`. Of two sockets each has half of them, the first half on the
    /// first. A core has two private caches, and a directory entry a bit for each of 64. Devices
    /// have private caches as well, which leaves room for 30 cores to a data plane.
    #[schemars(range(min = 1, max = MAXIMUM_CACHES / 2))]
    pub cores: usize,
    /// Sockets, 1 or 2. Each has such a mesh, such banks on its tiles, and such memory controllers,
    /// and is the home of its own memory.
    #[schemars(range(min = 1, max = MAXIMUM_SOCKETS))]
    pub sockets: usize,
    /// The link between two sockets.
    pub socket_link: SocketLinkSpec,
    /// Clock of the fabric in gigahertz; all cycles of the fabric are of this clock.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub clock_ghz: f64,
    /// Cycles from the look-up that finds a line in a private cache until the line leaves for
    /// another cache, and the same for an answer of an agent.
    #[schemars(range(min = 1, max = MAXIMUM_CYCLES))]
    pub forward_latency_cycles: u64,
    /// The last-level cache.
    pub last_level: LastLevelSpec,
    /// The mesh.
    pub mesh: MeshSpec,
    /// The memory controllers.
    pub memory: MemorySpec,
    /// The cache in which every access hits, or `none`, which is the default. It serves to
    /// see what misses cost, and no server has it. With `first-level` a load takes
    /// `core.l1_data.hit_latency_cycles`, which must be 2 or more, except for a line that another
    /// core has written, which takes a cycle or two more; an instruction that misses takes a cycle;
    /// and the second level, the banks and the mesh take no time and no dynamic energy.
    #[serde(skip_serializing_if = "PerfectCache::is_none")]
    pub perfect_cache: PerfectCache,
}

impl Default for FabricSpec {
    fn default() -> FabricSpec {
        FabricSpec {
            cores: 16,
            sockets: 1,
            socket_link: SocketLinkSpec::default(),
            clock_ghz: 2.0,
            forward_latency_cycles: 4,
            last_level: LastLevelSpec::default(),
            mesh: MeshSpec::default(),
            memory: MemorySpec::default(),
            perfect_cache: PerfectCache::None,
        }
    }
}

impl FabricSpec {
    /// Checks whether the fabric can be built.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        require(
            self.cores.is_multiple_of(self.sockets),
            "cores",
            self.cores,
            "of two sockets each has half of the cores, so that it must be even",
        )?;
        let tiles = self.tiles_of_socket();
        let places = tiles * self.sockets;
        require(
            tiles <= MAXIMUM_TILES,
            "mesh.columns",
            self.mesh.columns,
            format!("columns times rows must be {MAXIMUM_TILES} tiles or fewer"),
        )?;
        require(
            self.cores <= places,
            "cores",
            self.cores,
            match self.sockets {
                1 => format!("the mesh of {tiles} tiles has a place for {tiles} cores or fewer"),
                _ => format!(
                    "the two meshes of {tiles} tiles have a place for {places} cores or fewer"
                ),
            },
        )?;
        self.last_level.check_sets().under("last_level")?;
        let bank_bytes = self.last_level.size_bytes_per_bank;
        require(
            bank_bytes * places as u64 <= MAXIMUM_SHARED_BYTES,
            "last_level.size_bytes_per_bank",
            bank_bytes,
            format!(
                "the banks of all {places} tiles must have {MAXIMUM_SHARED_BYTES} bytes or fewer"
            ),
        )?;
        let edge = crate::mesh::edge_tiles(self.mesh.columns, self.mesh.rows).len();
        require(
            self.memory.controllers <= edge,
            "memory.controllers",
            self.memory.controllers,
            format!("the mesh has {edge} tiles at its edge, and each has place for one"),
        )?;
        if let Some(dram) = &self.memory.dram {
            dram.check().under("memory.dram")?;
        }
        require(
            self.perfect_cache != PerfectCache::FirstLevel || self.sockets == 1,
            "perfect_cache",
            "\"first-level\"",
            "lines come in one cycle from anywhere on one chip: it needs sockets = 1",
        )?;
        match &self.memory.cache {
            Some(cache) => cache.check().under("memory.cache"),
            None => Ok(()),
        }
    }

    /// Its clock.
    pub fn clock(&self) -> Clock {
        Clock::from_ghz(self.clock_ghz)
    }

    /// The shortest latency to a core: that of an answer of a bank or of another cache.
    pub fn minimum_delivery_latency(&self) -> Time {
        let clock = self.clock();
        let built = self.as_built();
        let first = built
            .last_level
            .latency_cycles
            .min(built.forward_latency_cycles);
        clock.time(first) + clock.time(built.mesh.shortest_latency_cycles())
    }

    /// The description with the latencies of a perfect first level: every path takes one cycle,
    /// which is spent where a message leaves.
    pub(crate) fn as_built(&self) -> Cow<'_, FabricSpec> {
        if self.perfect_cache != PerfectCache::FirstLevel {
            return Cow::Borrowed(self);
        }
        let mut built = self.clone();
        built.last_level.latency_cycles = 1;
        built.forward_latency_cycles = 1;
        built.mesh.hop_latency_cycles = 0;
        built.mesh.local_latency_cycles = 0;
        Cow::Owned(built)
    }

    /// Tiles of one socket.
    pub fn tiles_of_socket(&self) -> usize {
        self.mesh.columns * self.mesh.rows
    }

    /// The socket of a core.
    pub fn socket_of_core(&self, core: usize) -> usize {
        core / self.cores.div_ceil(self.sockets).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_can_be_built() {
        FabricSpec::default().check().unwrap();
        CacheSpec::default().check().unwrap();
    }

    #[test]
    fn errors_name_key_value_and_what_is_accepted() {
        let mut spec = FabricSpec::default();
        spec.last_level.size_bytes_per_bank = 3 * 1024 * 1024;
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "last_level.size_bytes_per_bank is 3145728; it must be a power of two \
             times 16 ways of 64 bytes, such as 4194304"
        );
        let spec = FabricSpec {
            cores: 17,
            ..FabricSpec::default()
        };
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "cores is 17; the mesh of 16 tiles has a place for 16 cores or fewer"
        );
    }

    #[test]
    fn sockets_are_one_or_two_halves() {
        let two = FabricSpec {
            sockets: 2,
            cores: 32,
            ..FabricSpec::default()
        };
        two.check().unwrap();
        assert_eq!(
            [0, 15, 16, 31].map(|core| two.socket_of_core(core)),
            [0, 0, 1, 1]
        );
        assert_eq!(
            [0, 15].map(|core| FabricSpec::default().socket_of_core(core)),
            [0, 0]
        );
        let mut narrow = two.clone();
        narrow.mesh.columns = 3;
        for (spec, sentence) in [
            (
                FabricSpec {
                    cores: 15,
                    ..two.clone()
                },
                "cores is 15; of two sockets each has half of the cores, so that it \
                 must be even",
            ),
            (
                narrow,
                "cores is 32; the two meshes of 12 tiles have a place for 24 cores \
                 or fewer",
            ),
        ] {
            assert_eq!(spec.check().unwrap_err().to_string(), sentence);
        }
    }

    #[test]
    fn a_directory_must_fit_its_cache() {
        let mut spec = FabricSpec::default();
        spec.last_level.directory = Some(DirectorySpec::default());
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "last_level.directory is 24576 entries a bank; an inclusive last-level \
             cache has its directory in its own tags; leave the directory out, or set \
             inclusion to \"non-inclusive\""
        );
        spec.last_level.inclusion = Inclusion::NonInclusive;
        spec.check().unwrap();
        // Less than a set.
        spec.last_level.directory = Some(DirectorySpec {
            entries_per_bank: 6,
            ways: 12,
            ..DirectorySpec::default()
        });
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "last_level.directory.entries_per_bank is 6; it must be a power of two times 12 ways, \
             such as 12"
        );
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_have_defaults() {
        let spec: MeshSpec = serde_json::from_str(r#"{"columns": 2}"#).unwrap();
        assert_eq!(spec.columns, 2);
        assert_eq!(spec.rows, MeshSpec::default().rows);
        assert!(serde_json::from_str::<MeshSpec>(r#"{"colums": 2}"#).is_err());
    }
}
