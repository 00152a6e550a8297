//! The contents of caches and homes, and their evictions.

use super::*;

#[test]
fn data_may_come_before_the_acknowledgement_of_the_last_eviction() {
    let spec = CacheSpec {
        size_bytes: 64,
        ways: 1,
        hit_latency_cycles: 1,
        mshrs: 4,
        ..CacheSpec::default()
    };
    let mut cache = PrivateCache::new(&spec, CacheId(1));
    let mut out = Outbox::default();
    let (one, two) = (LineAddress(1), LineAddress(2));
    let mut fill = |cache: &mut PrivateCache, line, value| {
        assert_eq!(
            cache.request(line, true, Time::ZERO, &mut out),
            RequestOutcome::Sent
        );
        let mut data = LineData::ZERO;
        data.write(0, 8, value);
        let data = ToCache::Data(Grant::Modified, Source::LastLevel, data);
        let notice = cache.receive(line, &data, Time::ZERO, &mut out);
        assert!(matches!(notice, CacheNotice::Filled { .. }));
        assert_eq!(
            cache.finish_fill(line, Time::ZERO, &mut out),
            CacheNotice::None
        );
    };
    // Line one is evicted by line two, comes back from a third cache before its PutAck, and is
    // evicted again: two entries in the buffer, the older acknowledged first.
    fill(&mut cache, one, 1);
    fill(&mut cache, two, 2);
    fill(&mut cache, one, 3);
    fill(&mut cache, two, 4);
    let mut out = Outbox::default();
    cache.receive(one, &ToCache::PutAck, Time::ZERO, &mut out);
    let forward = ToCache::ForwardGetM { requester: None };
    assert_eq!(
        cache.receive(one, &forward, Time::ZERO, &mut out),
        CacheNotice::None
    );
    let OutgoingKind::Coherence {
        message:
            ToHome::ForwardAck {
                data: Some(data),
                dirty: true,
                kept: false,
            },
        ..
    } = out.messages[0].kind
    else {
        panic!("{out:?}");
    };
    assert_eq!(data.read(0, 8), 3);
    cache.receive(one, &ToCache::PutAck, Time::ZERO, &mut out);
    cache.receive(two, &ToCache::PutAck, Time::ZERO, &mut out);
}

#[test]
fn the_least_recently_used_way_is_replaced() {
    let spec = CacheSpec {
        size_bytes: 256,
        ways: 4,
        hit_latency_cycles: 1,
        mshrs: 4,
        ..CacheSpec::default()
    };
    let mut cache = PrivateCache::new(&spec, CacheId(1));
    let mut out = Outbox::default();
    let mut fill = |cache: &mut PrivateCache, number| {
        let line = LineAddress(number);
        cache.request(line, false, Time::ZERO, &mut out);
        let data = ToCache::Data(Grant::Shared, Source::LastLevel, LineData::ZERO);
        let CacheNotice::Filled { evicted, .. } = cache.receive(line, &data, Time::ZERO, &mut out)
        else {
            panic!("not filled");
        };
        cache.finish_fill(line, Time::ZERO, &mut out);
        evicted.map(|line| line.0)
    };
    for number in 0..4 {
        assert_eq!(fill(&mut cache, number), None);
    }
    let version = cache.content_version();
    let order = cache.replacement_order().0.to_vec();
    for number in [1, 0] {
        cache.touch(cache.find(LineAddress(number)).unwrap());
    }
    assert_eq!(cache.content_version(), version);
    assert_ne!(cache.replacement_order().0, order);
    assert_eq!(fill(&mut cache, 9), Some(2));
    assert_eq!(fill(&mut cache, 10), Some(3));
    assert_eq!(fill(&mut cache, 11), Some(1));
    assert_ne!(cache.content_version(), version);
}

/// The quiet fabric with a non-inclusive last-level cache. A bank's LLC has one line and its
/// directory `entries`.
fn non_inclusive_fabric(entries: u64) -> Fabric {
    let mut spec = quiet_spec();
    spec.last_level = LastLevelSpec {
        size_bytes_per_bank: 64,
        ways: 1,
        inclusion: Inclusion::NonInclusive,
        directory: Some(DirectorySpec {
            entries_per_bank: entries,
            ways: entries as u32,
            ..DirectorySpec::default()
        }),
        ..spec.last_level
    };
    Fabric::new(&spec, memory()).unwrap()
}

#[test]
fn a_line_that_left_the_last_level_cache_stays_in_private_caches() {
    let mut bench = Bench::new(non_inclusive_fabric(4));
    let line = line_at(5, 0);
    let other = line_at(5, 1);
    // From memory: see `latencies_are_those_described`.
    assert_eq!(bench.miss(0, line, false), ns(108.0));
    // Another line of the same home evicts it. Core 0 still has the first, exclusively.
    bench.miss(0, other, false);
    assert_eq!(bench.fabric.statistics().last_level_evictions, 1);
    assert_eq!(bench.fabric.statistics().recalls, 0);
    let slot = bench.caches[0].find(line).unwrap();
    assert_eq!(bench.caches[0].state(slot), State::Exclusive);
    // So core 15 gets it from core 0: 12, bank 10, 5 -> 0 control 6, forward 4, 0 -> 15 data 22.
    // The home receives a copy with the acknowledgement, and so has it for core 5: 1, 10, 1.
    assert_eq!(bench.miss(15, line, false), ns(54.0));
    assert_eq!(bench.miss(5, line, false), ns(12.0));
    // It is evicted again. It has no owner now, so for core 6 it comes from memory: 5 -> 6 is one
    // hop, 3 + 10, memory 9 + 50 + 13, 10, 3 + 4.
    bench.miss(6, other, false);
    // The other line returned with core 0's acknowledgement, and before that the first one did.
    assert_eq!(bench.fabric.statistics().last_level_evictions, 3);
    assert_eq!(bench.miss(6, line, false), ns(102.0));
    // All four have it: core 6 writes it without memory (see above).
    assert_eq!(bench.miss(6, line, true), ns(54.0));
    assert_eq!(bench.fabric.statistics().recalls, 0);
}

#[test]
fn a_line_that_loses_its_directory_entry_leaves_the_private_caches() {
    let mut bench = Bench::new(non_inclusive_fabric(1));
    let line = line_at(5, 0);
    bench.miss(0, line, true);
    let slot = bench.caches[0].find(line).unwrap();
    bench.caches[0].line_mut(slot).write(0, 8, 42);
    bench.miss(1, line_at(5, 1), false);
    assert_eq!(bench.fabric.statistics().recalls, 1);
    assert!(bench.caches[0].find(line).is_none());
    // Core 0's write went into the LLC, which has one place: the other line took it on arriving
    // from memory.
    assert_eq!(bench.fabric.statistics().memory_writes, 1);
    assert_eq!(bench.fabric.ram().read_line(line).read(0, 8), 42);
}

/// Banks of two ways in one set. Core 0 has read the lines `held` of tile 5, and then the
/// last-level cache was warmed with lines 0 to 4 of it.
fn warmed(inclusion: Inclusion, held: std::ops::Range<u64>) -> Bench {
    let mut spec = quiet_spec();
    spec.last_level = LastLevelSpec {
        size_bytes_per_bank: 128,
        ways: 2,
        inclusion,
        ..spec.last_level
    };
    let mut fabric = Fabric::new(&spec, memory()).unwrap();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    for number in held {
        bench.miss(0, line_at(5, number), false);
    }
    // Lines of other tiles lie between them.
    let start = line_at(5, 0).base();
    let script = bench.fabric.agent_mut::<Script>(agent).unwrap();
    script.warm = Some(AddressRange {
        start,
        length: line_at(5, 5).base() - start,
    });
    assert!(bench.script(agent, &[]).is_empty());
    let statistics = bench.fabric.statistics();
    assert_eq!(statistics.last_level_evictions, 0);
    assert_eq!(statistics.memory_writes, 0);
    bench
}

#[test]
fn a_warm_last_level_cache_has_what_was_written_last() {
    // From home 5 to core 6 is one hop: 3 + 10 + 3 + 4; from memory, as in
    // `latencies_are_those_described`, 3 + 10 + 9 + 50 + 13 + 10 + 7 = 102. A line that is newer
    // than memory is written back first. In an inclusive cache this precedes the request, which
    // arrives 5 cycles later, and waits until the 6.4 ns from 13 on are over, at 19.4 instead of 9.
    // In the other it happens when the new line arrives, and both take the same first link.
    let near = ns(20.0);
    let cases = [
        (Inclusion::Inclusive, ns(102.0 + 11.0)),
        (Inclusion::NonInclusive, ns(102.0 + 5.0)),
    ];
    for (inclusion, far) in cases {
        // The last two lines are present; the third to last is not, and evicts one of them.
        let mut bench = warmed(inclusion, 0..0);
        assert_eq!(bench.miss(6, line_at(5, 2), false), far);
        assert_eq!(bench.fabric.statistics().memory_writes, 1);
        assert_eq!(bench.miss(6, line_at(5, 4), false), near);
    }
    // A line that a core holds keeps its way in an inclusive cache, where another would have been
    // less recently used; the other way has the last line.
    let mut bench = warmed(Inclusion::Inclusive, 1..2);
    let slot = bench.caches[0].find(line_at(5, 1)).unwrap();
    assert_eq!(bench.caches[0].state(slot), State::Exclusive);
    assert_eq!(bench.miss(6, line_at(5, 4), false), near);
    // If all ways are held, they remain so. A miss then recalls the first line: 6 -> 5 3, bank 10,
    // 5 -> 0 control 6, forward 4, 0 -> 5 6, and from memory 10 + 9 + 50 + 13 + 10 + 7.
    let mut bench = warmed(Inclusion::Inclusive, 0..2);
    assert_eq!(bench.miss(6, line_at(5, 4), false), ns(128.0));
    assert_eq!(bench.fabric.statistics().recalls, 1);
    // A non-inclusive cache evicts it, but its directory still has the holder: 6 -> 5 3, bank 10, 5
    // -> 0 control 6, forward 4, 0 -> 6 data 9 + 4.
    let mut bench = warmed(Inclusion::NonInclusive, 1..2);
    assert_eq!(bench.miss(6, line_at(5, 3), false), near);
    assert_eq!(bench.miss(6, line_at(5, 1), false), ns(36.0));
}

#[test]
fn a_directory_of_its_own_names_the_sharers_it_was_told_of_last() {
    let mut spec = quiet_spec();
    spec.last_level = LastLevelSpec {
        inclusion: Inclusion::NonInclusive,
        directory: Some(DirectorySpec {
            entries_per_bank: 2,
            ways: 2,
            ..DirectorySpec::default()
        }),
        ..spec.last_level
    };
    let mut fabric = Fabric::new(&spec, memory()).unwrap();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let range = |number: u64| AddressRange {
        start: line_at(5, number).base(),
        length: 64,
    };
    let tell = |bench: &mut Bench, number: u64| {
        let sharers = [Sharer::Hart(0), Sharer::Agent(agent)];
        bench.fabric.note_sharers(range(number), sharers, CoreId);
    };
    let known = |bench: &Bench| -> Vec<bool> {
        let directory = bench.fabric.directory();
        let lines = (0..4).map(|number| directory.contains_key(&line_at(5, number)));
        lines.collect()
    };
    // A line that a core owns keeps its entry; the other entry is that of the last line.
    bench.miss(3, line_at(5, 0), false);
    for number in 0..3 {
        tell(&mut bench, number);
    }
    assert_eq!(known(&bench), [true, false, true, false]);
    let owner = Some(CacheId::data(CoreId(3)));
    assert_eq!(bench.fabric.directory()[&line_at(5, 0)].1, owner);
    // A reader shares it with the noted sharers; from then on its entry is kept.
    bench.miss(6, line_at(5, 2), false);
    let slot = bench.caches[6].find(line_at(5, 2)).unwrap();
    assert_eq!(bench.caches[6].state(slot), State::Shared);
    tell(&mut bench, 3);
    assert_eq!(known(&bench), [true, false, true, false]);
    // A write invalidates all three, two of which do not have it.
    bench.miss(7, line_at(5, 2), true);
    assert_eq!(bench.fabric.statistics().invalidations, 3);
    assert!(bench.caches[6].find(line_at(5, 2)).is_none());
    assert_eq!(bench.fabric.errors(), [] as [&str; 0]);
}

#[test]
fn sharers_that_have_dropped_their_lines_are_asked_all_the_same() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let [held, told, absent] = [0, 1, 2].map(|number| line_at(5, number));
    let range = |line: LineAddress| AddressRange {
        start: line.base(),
        length: 64,
    };
    bench.miss(3, held, false);
    bench.fabric.warm_last_level(range(told));
    let mut data = LineData::ZERO;
    data.write(0, 8, 42);
    bench.fabric.put_into_memory(agent, told, &data);
    for line in [held, told, absent] {
        let sharers = [Sharer::Hart(0), Sharer::Agent(agent)];
        bench.fabric.note_sharers(range(line), sharers, CoreId);
    }
    // The agent's cache follows the two of each core.
    let sharers = 1 << CacheId::data(CoreId(0)).0 | 1 << (2 * bench.fabric.cores());
    let directory = bench.fabric.directory();
    let owner = Some(CacheId::data(CoreId(3)));
    assert_eq!(directory.get(&held), Some(&(0, owner, false)));
    assert_eq!(directory.get(&told), Some(&(sharers, None, false)));
    assert_eq!(directory.get(&absent), None);
    // A line without sharers takes 20 (see above); this one waits for two acknowledgements.
    assert!(bench.miss(6, told, true) > ns(20.0));
    let slot = bench.caches[6].find(told).unwrap();
    assert_eq!(bench.caches[6].line(slot).read(0, 8), 42);
    assert_eq!(bench.fabric.statistics().invalidations, 2);
    assert_eq!(bench.fabric.errors(), [] as [&str; 0]);
    bench.fabric.put_into_memory(agent, told, &data);
    assert!(bench.fabric.errors()[0].ends_with("a cache holds it or waits for it."));
}

#[test]
fn dma_takes_the_ways_that_it_takes() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let mut data = LineData::ZERO;
    data.write(0, 8, 7);
    let write = |line: LineAddress, offset, bytes, allocate| MemoryAccess::DmaWrite {
        address: line.base() + offset,
        bytes,
        data,
        allocate,
    };
    let read = |line: LineAddress| MemoryAccess::DmaRead {
        address: line.base(),
    };
    // The script is on tile 1, the line's home is tile 5, one hop away. A whole line without
    // holders: 1 -> 5 of 72 bytes, 3 + 4; bank 10; acknowledgement 3. Snoopers are notified at the
    // bank.
    let line = line_at(5, 0);
    let log = bench.script(agent, &[write(line, 0, 64, true)]);
    assert_eq!(
        log,
        [
            "granted 0x80000140 at 1007 ns",
            "access 1 done at 1020 ns: 7"
        ]
    );
    let statistics = bench.fabric.statistics();
    assert_eq!((statistics.memory_reads, statistics.memory_writes), (0, 0));
    // It is in the last-level cache: core 6 reads it in 3 + 10 + 3 + 4. It has no other holder, so
    // the grant is exclusive.
    assert_eq!(bench.miss(6, line, false), ns(20.0));
    // A DMA read takes away the ownership: 3, bank 10, 5 -> 6 control 3, forward 4, back 3, bank
    // 10, data 3 + 4. The reader keeps its copy.
    let log = bench.script(agent, &[read(line)]);
    assert_eq!(log, ["access 1 done at 4040 ns: 7"]);
    let slot = bench.caches[6].find(line).unwrap();
    assert_eq!(bench.caches[6].state(slot), State::Shared);
    // Eight bytes of a shared line: 16 bytes 3, bank 10, Invalidate and back 3 + 3, and only then
    // is it reported and written; bank 10, acknowledgement 3.
    let log = bench.script(agent, &[write(line, 8, 8, true)]);
    assert_eq!(
        log,
        [
            "granted 0x80000140 at 6019 ns",
            "access 1 done at 6032 ns: 7"
        ]
    );
    assert!(bench.caches[6].find(line).is_none());
    assert_eq!(bench.fabric.ram().read_line(line).read(8, 8), 7);
    assert_eq!(bench.fabric.statistics().memory_reads, 0);
    // Part of a line that is not on the chip: 3, bank 10, memory 9 + 50 + 13, bank 10, 3.
    let log = bench.script(agent, &[write(line_at(5, 1), 8, 8, true)]);
    assert_eq!(log.last().unwrap(), "access 1 done at 8098 ns: 0");
    // To memory, without the rest of the line: 3, bank 10, 3.
    let log = bench.script(agent, &[write(line_at(5, 2), 0, 8, false)]);
    assert_eq!(log.last().unwrap(), "access 1 done at 10016 ns: 7");
    assert_eq!(bench.fabric.statistics().memory_reads, 1);
    assert_eq!(bench.fabric.statistics().memory_writes, 1);
    // It is not in the last-level cache: a read comes from memory, like a read of the first line
    // after a write past the last-level cache.
    assert_eq!(bench.miss(0, line_at(5, 2), false), ns(108.0));
    bench.script(agent, &[write(line, 0, 8, false)]);
    assert_eq!(bench.miss(0, line, false), ns(108.0));
    assert_eq!(bench.fabric.statistics().writes_at_home, 5);
    assert!(bench.fabric.errors().is_empty());
}

/// A set has four ways and holds three lines that a core has read. With one way for I/O, each of
/// eight lines written by DMA evicts the one before to memory, and the lines read earlier stay.
/// Without dedicated ways, I/O fills all four, and they are evicted. A present line is updated in
/// its way.
#[test]
fn io_fills_the_ways_that_are_for_io() {
    let cases = [(Some(1), 7, 0), (None, 4, 3)];
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive] {
        for (io_ways, evictions, read_again) in cases {
            let mut spec = quiet_spec();
            spec.last_level.inclusion = inclusion;
            spec.last_level.size_bytes_per_bank = 4 * 64;
            spec.last_level.ways = 4;
            spec.last_level.io_ways = io_ways;
            let mut fabric = Fabric::new(&spec, memory()).unwrap();
            let agent = with_script(&mut fabric);
            let mut bench = Bench::new(fabric);
            for number in 0..3 {
                bench.miss(0, line_at(5, number), false);
            }
            let write = |number| MemoryAccess::DmaWrite {
                address: line_at(5, number).base(),
                bytes: 64,
                data: LineData::ZERO,
                allocate: true,
            };
            for number in 10..18 {
                bench.script(agent, &[write(number)]);
            }
            let before = bench.fabric.statistics();
            assert_eq!(before.memory_writes, evictions);
            let bank = &bench.fabric.banks[5];
            let kept = (0..3).map(|number| line_at(5, number));
            let kept = kept.filter(|&line| match inclusion {
                Inclusion::Inclusive => bank.lines().any(|one| one.0 == line),
                Inclusion::NonInclusive => bank.has_line(line),
            });
            assert_eq!(kept.count() as u64, 3 - read_again);
            // In a non-inclusive cache, a line that the first core still owns comes from there.
            for number in 0..3 {
                bench.miss(1, line_at(5, number), false);
            }
            let after = bench.fabric.statistics();
            let expected = match inclusion {
                Inclusion::Inclusive => read_again,
                Inclusion::NonInclusive => 0,
            };
            assert_eq!(after.memory_reads - before.memory_reads, expected);
            bench.script(agent, &[write(0), write(1), write(2)]);
            let last = bench.fabric.statistics();
            assert_eq!(last.memory_writes, after.memory_writes);
        }
    }
}

#[test]
fn a_dma_write_takes_a_newer_line_with_it() {
    // Part of a line that a core has written: the rest is the core's.
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive] {
        for allocate in [false, true] {
            let mut spec = quiet_spec();
            spec.last_level.inclusion = inclusion;
            let mut fabric = Fabric::new(&spec, memory()).unwrap();
            let agent = with_script(&mut fabric);
            let mut bench = Bench::new(fabric);
            let line = line_at(5, 0);
            bench.miss(0, line, true);
            let slot = bench.caches[0].find(line).unwrap();
            bench.caches[0].line_mut(slot).write(0, 8, 42);
            let mut data = LineData::ZERO;
            data.write(0, 8, 7);
            let write = MemoryAccess::DmaWrite {
                address: line.base() + 8,
                bytes: 8,
                data,
                allocate,
            };
            bench.script(agent, &[write]);
            let now = bench.fabric.ram().read_line(line);
            assert_eq!((now.read(0, 8), now.read(8, 8)), (42, 7));
            assert!(bench.caches[0].find(line).is_none());
            let before = bench.fabric.statistics().memory_reads;
            bench.miss(1, line, false);
            let slot = bench.caches[1].find(line).unwrap();
            assert_eq!(*bench.caches[1].line(slot), now);
            let from_memory = bench.fabric.statistics().memory_reads - before;
            assert_eq!(from_memory, u64::from(!allocate));
        }
    }
}

/// The evicted way, free or not, is given by a register of 16 bits, which advances by its
/// definition, the polynomial x^16 + x^14 + x^13 + x^11 + 1, with each fill. It passes through all
/// numbers but 0.
#[test]
fn a_random_way_is_replaced() {
    let spec = CacheSpec {
        size_bytes: 256,
        ways: 4,
        hit_latency_cycles: 1,
        mshrs: 4,
        replacement: Replacement::Random,
    };
    let mut cache = PrivateCache::new(&spec, CacheId(1));
    let (mut register, mut held) = (1_u32, [None; 4]);
    for number in 0..65_535 {
        let (_, victim) = cache.place(LineAddress(number), State::Shared, &LineData::ZERO);
        let way = (register & 3) as usize;
        assert_eq!(victim.map(|one| one.line.0), held[way]);
        held[way] = Some(number);
        // A hit changes nothing.
        cache.find_and_touch(LineAddress(number));
        let bit = |place: u32| register >> (16 - place) & 1;
        let next = bit(16) ^ bit(14) ^ bit(13) ^ bit(11);
        register = register >> 1 | next << 15;
    }
    assert_eq!(register, 1);
}

/// A second-level cache of one set with a prefetcher, and its first levels, driven by hand.
struct Prefetched {
    second: SecondLevel,
    first: [PrivateCache; 2],
    cycle: u64,
}

impl Prefetched {
    fn new(ways: u32) -> Prefetched {
        Prefetched::with(PrefetcherKind::NextLine, ways)
    }

    fn with(prefetcher: PrefetcherKind, ways: u32) -> Prefetched {
        let second = SecondLevelSpec {
            size_bytes: u64::from(ways) * 64,
            ways,
            prefetcher,
            ..SecondLevelSpec::default()
        };
        let spec = second.cache();
        let id = CacheId::data(CoreId(0));
        let map = quiet_fabric().memory_map();
        Prefetched {
            second: SecondLevel::with_prefetcher(&second, id, Clock::from_ghz(1.0), &map),
            first: [0, 1].map(|cache| PrivateCache::new(&spec, CacheId(cache))),
            cycle: 0,
        }
    }

    fn split(&mut self) -> (&mut SecondLevel, FirstLevel<'_>) {
        let [instruction, data] = &mut self.first;
        (&mut self.second, FirstLevel { instruction, data })
    }

    /// Performs a load that misses in the first level. Returns the lines then requested.
    fn load(&mut self, line: u64) -> Vec<u64> {
        let mut out = Outbox::default();
        let cycle = self.cycle;
        let wanted = (Side::Data, LineAddress(MEMORY / 64 + line), false);
        let (second, first) = self.split();
        let outcome = second.request(first, wanted, cycle, &mut out);
        assert_eq!(outcome, RequestOutcome::Sent);
        let asked = out.messages.iter().map(|message| match message.kind {
            OutgoingKind::Coherence {
                line,
                message: ToHome::GetS,
                ..
            } => line.0 - MEMORY / 64,
            _ => panic!("{message:?}"),
        });
        asked.collect()
    }

    /// Lines arrive from the home, and those that were present have gone to the first level.
    fn come(&mut self, lines: &[u64]) {
        let mut out = Outbox::default();
        self.cycle += 100;
        let cycle = self.cycle;
        for line in lines {
            let line = LineAddress(MEMORY / 64 + line);
            let data = ToCache::Data(Grant::Shared, Source::Memory, LineData::ZERO);
            let (second, first) = self.split();
            second.receive(first, line, &data, cycle, &mut out);
            let (second, first) = self.split();
            second.finish_fill(first, line, cycle, &mut out);
        }
        while let (second, first) = self.split()
            && second.found(first, cycle, &mut out).is_some()
        {}
    }

    fn counts(&self) -> [u64; 4] {
        let PrefetchStatistics {
            issued,
            useful,
            late,
            unused,
            polluting: _,
        } = self.second.prefetches().unwrap();
        [issued, useful, late, unused]
    }

    fn polluting(&self) -> u64 {
        self.second.prefetches().unwrap().polluting
    }
}

/// A miss fetches the next line, and so does the first use of a prefetched line, whether it has
/// arrived or not; another use does not. The line after a page, and a line that is present, are not
/// fetched.
#[test]
fn the_next_line_is_prefetched() {
    let mut caches = Prefetched::new(8);
    assert_eq!(caches.load(0), [0, 1]);
    caches.come(&[0, 1]);
    assert_eq!(caches.counts(), [1, 0, 0, 0]);
    // Line 1 has arrived; line 2 has not when it is needed.
    assert_eq!(caches.load(1), [2]);
    assert_eq!(caches.counts(), [2, 1, 0, 0]);
    assert_eq!(caches.load(2), [3]);
    assert_eq!(caches.counts(), [3, 1, 1, 0]);
    caches.come(&[2, 3]);
    assert_eq!(caches.load(63), [63]);
    caches.come(&[63]);
    assert_eq!(caches.load(62), [62]);
    caches.come(&[62]);
    assert_eq!(caches.counts(), [3, 1, 1, 0]);
    // The first level has evicted line 1.
    let line = LineAddress(MEMORY / 64 + 1);
    caches.first[1].drop_line(line);
    assert!(caches.load(1).is_empty());
    assert_eq!(caches.counts(), [3, 1, 1, 0]);
}

/// With two places, lines 0 and 1 are evicted by 10 and 11: line 1 was never needed. Then 20 and 21
/// evict 10, which was needed, and 11, which was not.
#[test]
fn prefetched_lines_that_leave_unused_are_counted() {
    let mut caches = Prefetched::new(2);
    for (line, unused) in [(0, 0), (10, 1), (20, 2)] {
        assert_eq!(caches.load(line), [line, line + 1]);
        caches.come(&[line, line + 1]);
        assert_eq!(caches.counts(), [line / 10 + 1, 0, 0, unused]);
    }
}

/// A miss fetches the other line of its pair; a hit, even the first use of a prefetched line,
/// fetches nothing.
#[test]
fn the_adjacent_line_is_prefetched() {
    let mut caches = Prefetched::with(PrefetcherKind::AdjacentLine, 8);
    assert_eq!(caches.load(6), [6, 7]);
    caches.come(&[6, 7]);
    assert!(caches.load(7).is_empty());
    assert_eq!(caches.load(9), [9, 8]);
    assert_eq!(caches.load(8), [0_u64; 0]);
    caches.come(&[9, 8]);
    assert_eq!(caches.counts(), [2, 1, 1, 0]);
}

/// The third look-up of a stream fetches two lines; the next one two more.
#[test]
fn a_stream_is_prefetched() {
    let mut caches = Prefetched::with(PrefetcherKind::Streamer, 16);
    for line in [10, 11] {
        assert_eq!(caches.load(line), [line]);
    }
    assert_eq!(caches.load(12), [12, 13, 14]);
    caches.come(&[10, 11, 12, 13, 14]);
    assert_eq!(caches.load(13), [15, 16]);
    assert_eq!(caches.load(15), [17, 18]);
    assert_eq!(caches.counts(), [6, 1, 1, 0]);
}

/// Three places. Line 0 brings 1, and line 10 takes the last place. Line 11, prefetched, evicts
/// line 0, the least recently used: a miss on it is pollution. It returns to the place of line 1: a
/// miss on that is not, because a needed line evicted it.
#[test]
fn lines_that_prefetched_ones_replaced_are_counted_if_they_are_missed() {
    let mut caches = Prefetched::new(3);
    assert_eq!(caches.load(0), [0, 1]);
    caches.come(&[0, 1]);
    assert_eq!(caches.load(10), [10, 11]);
    caches.come(&[10, 11]);
    assert_eq!(caches.polluting(), 0);
    assert_eq!(caches.load(0), [0]);
    assert_eq!(caches.polluting(), 1);
    caches.come(&[0]);
    assert_eq!(caches.load(1), [1, 2]);
    assert_eq!(caches.polluting(), 1);
}

/// Beyond the end of memory nothing is fetched, nor when only one miss register is left.
#[test]
fn nothing_is_prefetched_that_cannot_be() {
    let mut caches = Prefetched::new(2);
    let last = (1 << 20) / 64 - 1;
    assert_eq!(caches.load(last), [last]);
    // 16 registers, of which 15 are in use after the eighth load.
    let mut caches = Prefetched::new(8);
    for number in 0..7 {
        let line = number * 4;
        assert_eq!(caches.load(line), [line, line + 1]);
    }
    assert_eq!(caches.load(40), [40]);
    assert_eq!(caches.load(44), [44]);
}
