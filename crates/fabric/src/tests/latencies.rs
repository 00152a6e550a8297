//! Exact latencies.

use super::*;

#[test]
fn latencies_are_those_described() {
    let mut bench = Bench::new(quiet_fabric());
    // The line's home is tile 5 and its controller 5 % 4 = 1, on tile 3: 5 -> 3 is 3 hops.
    // From memory: 0 -> 5 control 2 hops = 6, bank 10, 5 -> 3 control 9, memory 50,
    // 3 -> 5 data 9 + 4, bank 10, 5 -> 0 data 6 + 4.
    let line = line_at(5, 0);
    assert_eq!(
        bench.miss(0, line, false),
        ns(6.0 + 10.0 + 9.0 + 50.0 + 13.0 + 10.0 + 10.0)
    );
    // It is exclusive at core 0. Core 15: 15 -> 5 control 4 hops = 12, bank 10, 5 -> 0 control 6,
    // forward 4, 0 -> 15 data 6 hops = 18 + 4.
    assert_eq!(
        bench.miss(15, line, false),
        ns(12.0 + 10.0 + 6.0 + 4.0 + 22.0)
    );
    // Now shared by 0 and 15: the home answers. Core 5 is on its tile: 1 + 10 + 1.
    assert_eq!(bench.miss(5, line, false), ns(12.0));
    // From the last-level cache of another tile, 1 hop: 3 + 10 + 3 + 4.
    assert_eq!(bench.miss(6, line, false), ns(20.0));
    // Core 6 writes: 3, bank 10, Invalidates to 0 (6), 15 (12), 5 (1) and back, the farthest
    // 12 + 12, bank 10, data 3 + 4.
    assert_eq!(
        bench.miss(6, line, true),
        ns(3.0 + 10.0 + 24.0 + 10.0 + 7.0)
    );
    // Core 5 writes what core 6 owns: 1, bank 10, 5 -> 6 control 3, forward 4, 6 -> 5 data 7.
    assert_eq!(bench.miss(5, line, true), ns(1.0 + 10.0 + 3.0 + 4.0 + 7.0));
    let statistics = bench.fabric.statistics();
    assert_eq!(statistics.last_level_misses, 1);
    assert_eq!(statistics.last_level_hits, 5);
    assert_eq!(statistics.forwards, 2);
    assert_eq!(statistics.transfers, 2);
    assert_eq!(statistics.invalidations, 3);
    assert_eq!(statistics.memory_reads, 1);
    assert_eq!(statistics.ownership_grants, 3);
    // Each of the two ForwardAcks waits for the 5 flits of its Transfer, which takes the same
    // first link.
    assert_eq!(statistics.mesh_queueing_fs, ns(10.0).as_fs());
    // min(bank 10, forward 4) + the shortest way, on one tile.
    assert_eq!(bench.fabric.minimum_delivery_latency(), ns(5.0));
}

/// On one tile every message takes the local latency; between tiles it may take only a hop.
#[test]
fn the_minimum_delivery_latency_depends_on_the_number_of_tiles() {
    let latency = |columns, local_latency_cycles| {
        let mesh = MeshSpec {
            columns,
            rows: 1,
            hop_latency_cycles: 3,
            local_latency_cycles,
            ..MeshSpec::default()
        };
        let spec = FabricSpec {
            clock_ghz: 1.0,
            forward_latency_cycles: 4,
            mesh,
            ..FabricSpec::default()
        };
        spec.minimum_delivery_latency()
    };
    // min(bank 10, forward 4) and the shortest way.
    assert_eq!(latency(1, 5), ns(4.0 + 5.0));
    assert_eq!(latency(2, 5), ns(4.0 + 3.0));
    assert_eq!(latency(2, 1), ns(4.0 + 1.0));
}

#[test]
fn latencies_between_sockets_are_those_described() {
    let mut bench = Bench::new(two_quiet_sockets());
    // Core 8 is the first of the second socket, on its tile 0. The line's home is tile 5 there,
    // and its controller number 1, on tile 3: as within one socket.
    let line = upper_line_at(5, 0);
    assert_eq!(
        bench.miss(8, line, false),
        ns(6.0 + 10.0 + 9.0 + 50.0 + 13.0 + 10.0 + 10.0)
    );
    assert_eq!(bench.fabric.statistics().socket_link_messages, 0);
    // The same from core 0, on tile 0 of the first socket, which core 8 has to share first. To
    // the home: 0 -> 2 control 6, transmission 1, link 25, 2 -> 5 control 2 hops = 6; bank 10;
    // 5 -> 0 control 6; forward 4; back from core 8: 0 -> 2 data 6 + 4, 9 + 25, 2 -> 0 6 + 4.
    let to_home = 6.0 + 1.0 + 25.0 + 6.0;
    let from_tile_0 = 10.0 + 9.0 + 25.0 + 10.0;
    assert_eq!(
        bench.miss(0, line, false),
        ns(to_home + 10.0 + 6.0 + 4.0 + from_tile_0)
    );
    // The home answers core 2 on tile 2 of the first socket. There: local 1, 1 + 25, 6; bank 10;
    // data 6 + 4, 9 + 25, local 1. Within a socket it would be 6 + 10 + 10: the link adds 2 * 25,
    // plus 10 for the transmissions and 2 for the routers of the links.
    assert_eq!(
        bench.miss(2, line, false),
        ns(1.0 + 26.0 + 6.0 + 10.0 + 10.0 + 34.0 + 1.0)
    );
    // Core 10, on tile 2 of the home's socket, writes: 6, bank 10; the Invalidates to 0 and to 2
    // leave together, and that to core 0 crosses the link first: 5 -> 2 6, 1 + 25; then to tile 0
    // 6, and back 6 + 26 + 6; bank 10, data 6 + 4. That to core 2 crosses the link a nanosecond
    // later, and has then arrived.
    assert_eq!(
        bench.miss(10, line, true),
        ns(6.0 + 10.0 + (6.0 + 26.0 + 6.0) * 2.0 + 10.0 + 10.0)
    );
    // The minimum latency to a core is that within a socket.
    assert_eq!(bench.fabric.minimum_delivery_latency(), ns(5.0));
}

/// A stream of lines from the other socket gets the link's bandwidth.
#[test]
fn a_stream_from_the_other_socket_takes_the_link_s_bandwidth() {
    let mut bench = Bench::new(two_quiet_sockets());
    // In the last-level cache of the second socket; each bank has one of the outstanding lines, and
    // each cache has 8 outstanding.
    let lines: Vec<LineAddress> = (0..64).map(|number| upper_line_at(number, 0)).collect();
    for &line in &lines {
        bench.miss(8, line, false);
        bench.miss(9, line, false);
    }
    let begin = bench.now + ns(1000.0);
    let mut out = Outbox::default();
    for (index, &line) in lines.iter().enumerate() {
        let core = index / 8;
        bench.caches[core].request(line, false, begin, &mut out);
        if index % 8 == 7 {
            bench.fabric.send(CoreId(core as u16), &mut out);
        }
    }
    bench.settle(0);
    let last = bench.now;
    let crossed = bench.fabric.statistics();
    assert_eq!(crossed.socket_link_messages, 128);
    assert_eq!(crossed.socket_link_bytes, 64 * (8 + 72));
    // 64 lines of 72 bytes take 576 ns on the link. The first is preceded by its request, 1 + 25,
    // the bank, and the paths between; the last is followed by 25 and the path: less than 80 ns
    // more.
    let taken = (last - begin).as_ns();
    assert!(
        (576.0 + 26.0 + 10.0 + 25.0..656.0 + 26.0).contains(&taken),
        "{taken}"
    );
}

/// An agent on both sockets accesses each line from the line's socket.
#[test]
fn an_agent_on_each_socket_stays_on_it() {
    let mut fabric = two_quiet_sockets();
    let attachment = |on_each_socket| Attachment {
        tile: 5,
        cache: Some(CacheSpec::default()),
        on_each_socket,
        ..Attachment::default()
    };
    let both = fabric
        .attach(Box::new(Script::default()), attachment(true))
        .unwrap();
    let one = fabric
        .attach(Box::new(Script::default()), attachment(false))
        .unwrap();
    assert_eq!((both, one), (AgentId(0), AgentId(2)));
    let mut bench = Bench::new(fabric);
    let (lower, upper) = (line_at(5, 0).base(), upper_line_at(5, 0).base());
    let add = |address| MemoryAccess::FetchAdd { address, addend: 1 };
    let log = bench.script(both, &[add(lower), add(upper), add(upper)]);
    assert_eq!(log.len(), 3);
    assert_eq!(bench.fabric.statistics().socket_link_messages, 0);
    // The other agent sees its writes, over the link.
    bench.script(one, &[add(lower), add(upper)]);
    assert!(bench.fabric.statistics().socket_link_messages > 0);
    bench.miss(0, LineAddress::of(upper), false);
    let slot = bench.caches[0].find(LineAddress::of(upper)).unwrap();
    assert_eq!(bench.caches[0].line(slot).read(0, 8), 3);
}

#[test]
fn a_bank_takes_one_message_a_cycle_and_a_channel_one_line_at_a_time() {
    let mut bench = Bench::new(quiet_fabric());
    let line = |number| line_at(0, number);
    // Two misses of core 0, on the home's and the controller's own tile, at the same time.
    // The first: 1 + 10 + 1 + 50 + 1 + 10 + 1 = 74; the second 1 ns later at the bank, and then
    // 5.4 ns later at the channel (64 bytes at 10 GB/s take 6.4 ns); its answer waits for the next
    // cycle of the mesh.
    let begin = ns(1000.0);
    let mut out = Outbox::default();
    for number in 0..2 {
        bench.caches[0].request(line(number), false, begin, &mut out);
    }
    bench.fabric.send(CoreId(0), &mut out);
    assert_eq!(bench.settle(0) - begin, ns(74.0 + 7.0));
    let statistics = bench.fabric.statistics();
    assert_eq!(statistics.bank_queueing_fs, ns(1.0).as_fs());
    assert_eq!(statistics.memory_queueing_fs, ns(5.4).as_fs());
}

/// A miss on the home's and the controller's own tile takes 74 ns, as above, of which memory's
/// latency is 50 ns. With DRAM that is 20 ns of the controller and, with a clock of 1 ns,
/// tRCD + tCL + 4 = 19 + 19 + 4 ns for the first row, tCL + 4 ns if it is open, and tRP = 19 ns
/// more than for the first if another is. Rows of 8 KB of four controllers are 512 lines.
#[test]
fn rows_are_opened_and_closed() {
    let mut spec = quiet_spec();
    spec.memory.dram = Some(DramSpec {
        bank_groups: Some(1),
        banks_per_group: Some(1),
        clock_ns: Some(1.0),
        ..DramSpec::default()
    });
    let mut bench = Bench::new(Fabric::new(&spec, memory()).unwrap());
    for (number, dram) in [(0, 42.0), (1, 23.0), (32, 61.0), (33, 23.0), (2, 61.0)] {
        let took = bench.miss(0, line_at(0, number), false);
        assert_eq!(took, ns(24.0 + 20.0 + dram), "line {number}");
    }
    let statistics = bench.fabric.statistics().dram.unwrap();
    assert_eq!(
        (
            statistics.row_hits,
            statistics.row_misses,
            statistics.row_conflicts
        ),
        (2, 1, 2)
    );
    assert_eq!((statistics.activates, statistics.precharges), (3, 2));
    assert_eq!((statistics.reads, statistics.writes), (5, 0));
}

fn perfect(perfect_cache: PerfectCache) -> Bench {
    let spec = FabricSpec {
        perfect_cache,
        ..quiet_spec()
    };
    Bench::new(Fabric::new(&spec, memory()).unwrap())
}

/// A line that the perfect last level does not have takes as long as a hit.
#[test]
fn a_perfect_last_level_has_every_line() {
    let mut bench = perfect(PerfectCache::LastLevel);
    // 0 -> 5 control 2 hops = 6, bank 10, 5 -> 0 data 6 + 4.
    assert_eq!(bench.miss(0, line_at(5, 0), false), ns(26.0));
    // 15 -> 5 control 12, bank 10, 5 -> 15 data 12 + 4.
    assert_eq!(bench.miss(15, line_at(5, 1), true), ns(38.0));
    let statistics = bench.fabric.statistics();
    assert_eq!(
        (statistics.memory_reads, statistics.bank_line_writes),
        (0, 0)
    );
}

/// With a perfect first level everything on the chip is one cycle away: two, if another core must
/// be involved.
#[test]
fn a_perfect_first_level_is_a_cycle_away_from_everything() {
    let mut bench = perfect(PerfectCache::FirstLevel);
    for line in 0..100 {
        assert_eq!(bench.miss(0, line_at(5, line), false), ns(1.0));
    }
    assert_eq!(bench.miss(15, line_at(5, 99), true), ns(2.0));
    assert_eq!(bench.fabric.statistics().memory_reads, 0);
    assert_eq!(bench.fabric.minimum_delivery_latency(), ns(1.0));
}
