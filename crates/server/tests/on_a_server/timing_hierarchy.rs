//! Small programs whose cycles follow from arithmetic: second-level caches, non-inclusive
//! last-level caches, and DMA.
//!
//! As in `timing.rs`, every expected number is derived beside its test, and the measurement is the
//! difference between two lengths of the same program.

use crate::common::assembler::*;
use crate::common::servers::{
    Ending, at_one_gigahertz, halted, models, read, run, with_second_level,
};
use fabric::{
    Agent, AgentContext, Attachment, Inclusion, LineData, MemoryAccess, PerfectCache,
    SecondLevelSpec, Time,
};
use pipeline::{CoreSpec, NoExtension};
use server::{Machine, ServerSpec};

const RESULTS: u64 = 0x8010_0000;
/// In another set than the code, in a last-level cache of 16 sets.
const DATA: u64 = 0x8020_0000 + 8 * 64;

/// A circular chain of pointers at this stride in bytes from `start`.
fn chain(start: u64, pointers: u64, stride: u64) -> Vec<u8> {
    let mut bytes = vec![0; (pointers * stride) as usize];
    for link in 0..pointers {
        let next = start + (link + 1) % pointers * stride;
        let at = (link * stride) as usize;
        bytes[at..at + 8].copy_from_slice(&next.to_le_bytes());
    }
    bytes
}

/// The cycles per link of a chain through `lines` lines, at this stride in bytes, after one round.
/// There are two passes over the same code, of which the second is measured: its code is in the
/// instruction cache.
fn chase(spec: &ServerSpec, lines: u64, stride: u64) -> u64 {
    let cycles = |links: u64| {
        let mut asm = Assembler::new();
        asm.load_immediate(S5, 2);
        asm.load_immediate(T1, DATA);
        asm.load_immediate(S6, RESULTS);
        asm.align(64);
        let pass = asm.label_here();
        asm.load_immediate(T2, lines);
        let again = asm.label_here();
        asm.load_double(T1, T1, 0);
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::NotEqual, T2, ZERO, again);
        asm.fence(RW, RW);
        asm.csr_read(S10, CYCLE);
        for _ in 0..links {
            asm.load_double(T1, T1, 0);
        }
        asm.csr_read(S11, CYCLE);
        asm.add_immediate(S5, S5, -1);
        asm.branch(When::NotEqual, S5, ZERO, pass);
        asm.operate(SUB, S11, S11, S10);
        asm.store_double(S11, S6, 0);
        asm.halt();
        let machine = halted(spec, asm.finish(&[(DATA, chain(DATA, lines, stride))]));
        read(&machine, RESULTS)
    };
    let (short, long) = (cycles(10), cycles(30));
    assert_eq!((long - short) % 20, 0, "links differ");
    (long - short) / 20
}

/// Issue to departure: the first level's latency. Then that of the second; the value can be used
/// in the cycle after.
#[test]
fn a_chase_through_the_second_level_cache() {
    let found = models().map(|core| {
        let mut spec = at_one_gigahertz(1, &core);
        spec.core.l2 = Some(SecondLevelSpec {
            size_bytes: 256 * 1024,
            ways: 8,
            hit_latency_cycles: 9,
            mshrs: 16,
            ..SecondLevelSpec::default()
        });
        // 1024 lines are twice the first level's capacity out of order, four times in order, and a
        // quarter of the second level.
        chase(&spec, 1024, 64)
    });
    assert_eq!(found, [4 + 9 + 1, 2 + 9 + 1]);
    // CARGO's Table 5: 2 cycles for the first level, 3 for the second.
    let mut core = CoreSpec::hyperplane_table1();
    core.l1_data.hit_latency_cycles = 2;
    core.l2 = Some(SecondLevelSpec {
        size_bytes: 256 * 1024,
        ways: 8,
        hit_latency_cycles: 3,
        mshrs: 16,
        ..SecondLevelSpec::default()
    });
    assert_eq!(chase(&at_one_gigahertz(1, &core), 1024, 64), 2 + 3 + 1);
}

/// A miss in both levels takes both look-ups, and then 1 cycle to the bank, 10 in it, 1 back.
#[test]
fn a_chase_beyond_the_second_level_cache() {
    // Twice as large as both first levels: 2048 lines out of order, 1024 in order.
    let found =
        models().map(|core| chase(&at_one_gigahertz(1, &with_second_level(core)), 4096, 64));
    assert_eq!(found, [4 + 9 + 1 + 10 + 1 + 1, 2 + 9 + 1 + 10 + 1 + 1]);
}

/// With a perfect first level every link takes as long as a hit, however long the chain: of 64 KB,
/// and of 16 MB, which is more than all caches together. With a perfect last level the second of
/// these takes as long as a line in that cache.
#[test]
fn a_chase_through_perfect_caches() {
    for core in models().map(with_second_level) {
        let mut spec = at_one_gigahertz(1, &core);
        spec.memory_mib = 64;
        spec.fabric.perfect_cache = PerfectCache::FirstLevel;
        for (lines, stride) in [(8, 64), (1024, 64), (4096, 4096)] {
            let hit = core.l1_data.hit_latency_cycles;
            assert_eq!(chase(&spec, lines, stride), hit);
        }
    }
    let found = models().map(|core| {
        let mut spec = at_one_gigahertz(1, &with_second_level(core));
        spec.memory_mib = 64;
        spec.fabric.perfect_cache = PerfectCache::LastLevel;
        chase(&spec, 4096, 4096)
    });
    // As beyond the second level.
    assert_eq!(found, [4 + 9 + 1 + 10 + 1 + 1, 2 + 9 + 1 + 10 + 1 + 1]);
}

/// Hart 1, on the next tile, has written the lines of a chain, which hart 0 takes one after the
/// other. They are in both levels of its caches or, if they exceed the first, only in the second,
/// which makes no difference: L2 answers, with the first level's writes included.
///
/// Issue, both look-ups of hart 0: 4 + 9. The line's home is on tile 0 or 1, in turn: 1 or 3 cycles
/// to it, 10 there, 3 or 1 to tile 1. The look-up there 9, the forward 4, and 5 flits back over one
/// hop, 3 + 4; usable in the cycle after.
#[test]
fn a_line_of_another_cores_second_level() {
    for lines in [64, 1024] {
        let mut core = CoreSpec::hyperplane_table1();
        core.l2 = Some(SecondLevelSpec {
            hit_latency_cycles: 9,
            ..SecondLevelSpec::default()
        });
        let spec = at_one_gigahertz(2, &core);
        let cycles = |links: u64| {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(S6, RESULTS);
                asm.load_immediate(T1, DATA);
                if hart == 1 {
                    asm.load_immediate(T2, lines);
                    let again = asm.label_here();
                    asm.store_double(ZERO, T1, 8);
                    asm.load_double(T1, T1, 0);
                    asm.add_immediate(T2, T2, -1);
                    asm.branch(When::NotEqual, T2, ZERO, again);
                    asm.fence(RW, RW);
                    asm.add_immediate(T2, ZERO, 1);
                    asm.store_double(T2, S6, 64);
                } else {
                    // Twice through the same code, of which the first pass is without effect: its
                    // loads are of a separate line.
                    asm.load_immediate(S5, 2);
                    asm.add_immediate(T1, S6, 128);
                    asm.store_double(T1, T1, 0);
                    asm.align(64);
                    let pass = asm.label_here();
                    asm.fence(RW, RW);
                    asm.csr_read(S10, CYCLE);
                    for _ in 0..links {
                        asm.load_double(T1, T1, 0);
                    }
                    asm.csr_read(S11, CYCLE);
                    asm.add_immediate(S5, S5, -1);
                    let done = asm.label();
                    asm.branch(When::Equal, S5, ZERO, done);
                    asm.load_immediate(T1, DATA);
                    let wait = asm.label_here();
                    asm.load_double(T2, S6, 64);
                    asm.branch(When::Equal, T2, ZERO, wait);
                    asm.jump(pass);
                    asm.bind(done);
                    asm.operate(SUB, S11, S11, S10);
                    asm.store_double(S11, S6, 0);
                }
                asm.halt();
            });
            let machine = halted(&spec, asm.finish(&[(DATA, chain(DATA, lines, 64))]));
            read(&machine, RESULTS)
        };
        let of_home_0 = 4 + 9 + 1 + 10 + 3 + 9 + 4 + 7 + 1;
        let of_home_1 = 4 + 9 + 3 + 10 + 1 + 9 + 4 + 7 + 1;
        assert_eq!(of_home_0, of_home_1);
        assert_eq!(cycles(30) - cycles(10), 20 * of_home_0, "{lines} lines");
    }
}

/// 16 lines of one set of the last-level cache, which has 4 ways, and of 8 sets of the first-level
/// cache, which have room for 32. If the last level includes the first, each line has been recalled
/// by its next access. Another line is recalled to make room for it: request 4 and 1, bank 10,
/// forward 1, look-up 4 and forward 4, acknowledgement 1; then bank 10, memory 1 + 50 + 1, bank 10,
/// 1, and usable in the next cycle. If not, nothing ever leaves the first level.
#[test]
fn a_line_that_left_the_last_level_and_not_the_private_cache() {
    let core = CoreSpec::hyperplane_table1();
    let mut spec = at_one_gigahertz(1, &core);
    spec.fabric.last_level.size_bytes_per_bank = 64 * 64;
    spec.fabric.last_level.ways = 4;
    let recall = 10 + 1 + 4 + 4 + 1;
    let from_memory = 10 + 1 + 50 + 1 + 10 + 1 + 1;
    assert_eq!(chase(&spec, 16, 16 * 64), 4 + 1 + recall + from_memory);
    spec.fabric.last_level.inclusion = Inclusion::NonInclusive;
    assert_eq!(chase(&spec, 16, 16 * 64), 4);
}

/// Writes lines by DMA, one after the other.
struct Writer {
    writes: Vec<MemoryAccess>,
    done: usize,
}

state::unsaved!(Writer);

impl Agent for Writer {
    fn name(&self) -> String {
        "the writer".to_string()
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        if let Some(&write) = self.writes.get(self.done) {
            context.access(write, 0);
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        _token: u64,
        _access: MemoryAccess,
        _data: LineData,
    ) {
        self.done += 1;
        self.timer(context, 0);
    }
}

/// DMA writes a line that the hart has in its cache, and then a flag that it spins on. Returns the
/// latency of the next load of the line: for a line that has been put into the last-level cache,
/// one that has gone to memory, and one that was not written.
#[test]
fn a_load_of_what_dma_has_written() {
    let found = |inclusion: Inclusion, allocate: Option<bool>| {
        let mut spec = at_one_gigahertz(1, &CoreSpec::hyperplane_table1());
        spec.fabric.last_level.inclusion = inclusion;
        let flag = DATA + 4096;
        let mut asm = Assembler::new();
        asm.load_immediate(S0, DATA);
        asm.load_immediate(S1, flag);
        asm.load_immediate(S6, RESULTS);
        asm.load_immediate(S5, 2);
        asm.store_double(ZERO, S6, 0);
        asm.load_double(T1, S0, 0);
        asm.align(64);
        // The first time the flag is already set; this loads the code.
        asm.load_immediate(S2, flag + 64);
        let pass = asm.label_here();
        let wait = asm.label_here();
        asm.load_double(T2, S2, 0);
        asm.branch(When::Equal, T2, ZERO, wait);
        asm.fence(RW, RW);
        asm.csr_read(S10, CYCLE);
        asm.load_double(T1, S0, 8);
        asm.csr_read(S11, CYCLE);
        asm.copy(S2, S1);
        asm.add_immediate(S5, S5, -1);
        asm.branch(When::NotEqual, S5, ZERO, pass);
        asm.operate(SUB, S11, S11, S10);
        asm.store_double(S11, S6, 0);
        asm.store_double(T1, S6, 8);
        asm.halt();
        let image = asm.finish(&[(flag + 64, vec![1; 8])]);
        let mut data = LineData::ZERO;
        data.write(0, 8, 77);
        let write = |address, allocate| MemoryAccess::DmaWrite {
            address,
            bytes: 8,
            data,
            allocate,
        };
        let mut writes: Vec<MemoryAccess> = allocate
            .map(|allocate| write(DATA + 8, allocate))
            .into_iter()
            .collect();
        writes.push(write(flag, true));
        let mut machine = Machine::new(&spec, image, &[], false, |fabric| {
            let writer = Writer { writes, done: 0 };
            let id = fabric.attach(Box::new(writer), Attachment::default())?;
            // Long after the hart has begun to spin.
            fabric.wake_agent(id, Time::from_ns(5000.0), 0);
            Ok(Box::new(NoExtension))
        })
        .expect("the machine can be built");
        assert_eq!(run(&mut machine), Ending::Halted);
        let value = if allocate.is_some() { 77 } else { 0 };
        assert_eq!(read(&machine, RESULTS + 8), value);
        read(&machine, RESULTS)
    };
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive] {
        let hit = found(inclusion, None);
        // Instead of 4 cycles: 4, 1 to the bank, 10 in it, 1 back, and usable in the next.
        assert_eq!(found(inclusion, Some(true)) - hit, 1 + 10 + 1 + 1);
        // And from memory: 1 to the controller, 50 there, 1 back, and the bank again.
        let memory = 1 + 50 + 1 + 10;
        assert_eq!(found(inclusion, Some(false)) - hit, 13 + memory);
    }
}
