//! Descriptions of address translation.

use riscv::paging::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};

/// The page tables of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PagingMode {
    /// Three levels of tables, for addresses of 39 bits.
    Sv39,
    /// Four levels of tables, for addresses of 48 bits, as on x86-64.
    #[default]
    Sv48,
}

impl PagingMode {
    /// The format of the tables.
    pub fn mode(self) -> Mode {
        match self {
            PagingMode::Sv39 => Mode::Sv39,
            PagingMode::Sv48 => Mode::Sv48,
        }
    }
}

/// The size of the pages of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PageSize {
    /// 4 KB.
    #[default]
    #[serde(rename = "4KB")]
    Small,
    /// 2 MB.
    #[serde(rename = "2MB")]
    Large,
    /// 1 GB.
    #[serde(rename = "1GB")]
    Huge,
}

impl PageSize {
    /// A page's bytes are two to the power of this.
    pub fn bits(self) -> u32 {
        match self {
            PageSize::Small => 12,
            PageSize::Large => 21,
            PageSize::Huge => 30,
        }
    }
}

/// The entries of a TLB, in sets of `ways` with LRU replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbPagesSpec {
    /// Pages.
    #[schemars(range(min = 1, max = 65536))]
    pub entries: u32,
    /// Pages in a set.
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
}

impl TlbPagesSpec {
    /// Sets.
    pub fn sets(&self) -> u32 {
        self.entries / self.ways
    }

    fn check(&self) -> Result<(), SpecError> {
        require(
            self.entries.is_multiple_of(self.ways) && self.sets().is_power_of_two(),
            "entries",
            self.entries,
            format!(
                "it must be {} times a power of two, ways being that",
                self.ways
            ),
        )
    }
}

const fn pages(entries: u32, ways: u32) -> TlbPagesSpec {
    TlbPagesSpec { entries, ways }
}

/// A first-level TLB: a part for pages of each size. A hit takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstLevelTlbSpec {
    /// For pages of 4 KB.
    pub pages_4kb: TlbPagesSpec,
    /// For pages of 2 MB.
    pub pages_2mb: TlbPagesSpec,
    /// For pages of 1 GB.
    pub pages_1gb: TlbPagesSpec,
}

impl FirstLevelTlbSpec {
    fn check(&self) -> Result<(), SpecError> {
        self.pages_4kb.check().under("pages_4kb")?;
        self.pages_2mb.check().under("pages_2mb")?;
        self.pages_1gb.check().under("pages_1gb")
    }
}

/// The TLB behind the first-level TLBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecondLevelTlbSpec {
    /// For pages of 4 KB and of 2 MB together.
    pub pages_4kb_2mb: TlbPagesSpec,
    /// For pages of 1 GB.
    pub pages_1gb: TlbPagesSpec,
    /// Cycles that a miss of the first level costs before the access or the page walk begins.
    #[schemars(range(min = 1, max = 100))]
    pub hit_latency_cycles: u8,
}

/// Address translation of a core: `{}` selects that of a Skylake, with pages of 4 KB.
///
/// The TLBs are those of Intel's "64 and IA-32 Architectures Optimization Reference Manual" (order
/// number 248966-045), table "TLB Parameters of the Skylake Client Microarchitecture", which the
/// servers share; it gives no 1 GB entries for instructions: the number for 2 MB is used. Two page
/// walks at a time: the same section. 9 cycles for a hit in the second level: `Mem_STLB_Hit_Cost`
/// in Intel's top-down metrics for Skylake servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationSpec {
    /// `sv39` or `sv48`: the levels of the page tables, three or four.
    pub mode: PagingMode,
    /// `4KB`, `2MB` or `1GB`: the pages in which all memory and all devices are mapped.
    pub page: PageSize,
    /// The TLB of loads and stores.
    pub l1_data_tlb: FirstLevelTlbSpec,
    /// The TLB of instruction fetches.
    pub l1_instruction_tlb: FirstLevelTlbSpec,
    /// The TLB behind both.
    pub l2_tlb: SecondLevelTlbSpec,
    /// Caches of the upper levels of the tables. Absent: page walks read every level.
    pub structure_caches: Option<StructureCachesSpec>,
    /// The maximum number of concurrent page walks.
    #[schemars(range(min = 1, max = 16))]
    pub page_walkers: u8,
}

/// Caches of page-table entries that point to other tables, fully associative with LRU replacement.
/// The names are Intel's.
///
/// Defaults: 32, 8 and 4 entries, as ChampSim has for the same levels (`PSCL2`, `PSCL3` and `PSCL4`
/// of its configuration, where they have sets). Intel publishes no sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StructureCachesSpec {
    /// Entries that point to tables of pages of 4 KB: each covers 2 MB.
    #[schemars(range(max = 1024))]
    pub pde_entries: u32,
    /// Entries above those: each covers 1 GB.
    #[schemars(range(max = 1024))]
    pub pdpte_entries: u32,
    /// Entries above those, of Sv48: each covers 512 GB.
    #[schemars(range(max = 1024))]
    pub pml4e_entries: u32,
}

impl Default for StructureCachesSpec {
    fn default() -> StructureCachesSpec {
        StructureCachesSpec {
            pde_entries: 32,
            pdpte_entries: 8,
            pml4e_entries: 4,
        }
    }
}

impl Default for TranslationSpec {
    fn default() -> TranslationSpec {
        TranslationSpec {
            mode: PagingMode::default(),
            page: PageSize::default(),
            l1_data_tlb: FirstLevelTlbSpec {
                pages_4kb: pages(64, 4),
                pages_2mb: pages(32, 4),
                pages_1gb: pages(4, 4),
            },
            l1_instruction_tlb: FirstLevelTlbSpec {
                pages_4kb: pages(128, 8),
                pages_2mb: pages(8, 8),
                pages_1gb: pages(8, 8),
            },
            l2_tlb: SecondLevelTlbSpec {
                pages_4kb_2mb: pages(1536, 12),
                pages_1gb: pages(16, 4),
                hit_latency_cycles: 9,
            },
            structure_caches: None,
            page_walkers: 2,
        }
    }
}

impl TranslationSpec {
    /// Checks the description.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        self.l1_data_tlb.check().under("l1_data_tlb")?;
        self.l1_instruction_tlb
            .check()
            .under("l1_instruction_tlb")?;
        let second = &self.l2_tlb;
        second.pages_4kb_2mb.check().under("l2_tlb.pages_4kb_2mb")?;
        second.pages_1gb.check().under("l2_tlb.pages_1gb")
    }
}
