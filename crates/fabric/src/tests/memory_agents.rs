//! Agents at memory controllers. Their latencies follow from those of `latencies`.

use super::*;

/// Logs what it sees, answers requests with a value, and tells core 6 of each line that is lost.
#[derive(Default)]
struct AtMemory {
    log: Vec<String>,
    accesses: Vec<MemoryAccess>,
}

state::unsaved!(AtMemory);

impl Agent for AtMemory {
    fn name(&self) -> String {
        "the agent at a controller".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let value = Supply::Value {
            place: 1,
            address: MEMORY,
            value: 5,
            source: Source::Memory,
        };
        for supply in [Supply::Begun, value, Supply::Ended] {
            context.supply(request.reply_to, supply);
        }
    }

    fn line_from_memory(
        &mut self,
        context: &mut AgentContext<'_>,
        _line: LineAddress,
        reader: CacheId,
        data: LineData,
    ) {
        let value = data.read(0, 8);
        self.log
            .push(format!("{value} for {} at {}", reader.0, context.now()));
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        _token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let value = data.read(0, 8);
        self.log.push(format!("{value} read at {}", context.now()));
    }

    fn invalidated(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        context.tell_line_lost(CoreId(6), line);
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        for access in self.accesses.drain(..) {
            context.access(access, 0);
        }
    }
}

/// With such an agent at controller 1, on tile 3, with a cache that takes 3 cycles.
fn bench() -> (Bench, AgentId) {
    let mut fabric = quiet_fabric();
    let attachment = Attachment {
        tile: fabric.memory_tile(1),
        cache: Some(CacheSpec {
            hit_latency_cycles: 3,
            ..CacheSpec::default()
        }),
        at_memory: Some(1),
        ..Attachment::default()
    };
    let agent = fabric.attach(Box::new(AtMemory::default()), attachment);
    (Bench::new(fabric), agent.unwrap())
}

/// Lets it make an access after a microsecond. Returns what it has seen, by nanoseconds since then.
fn access(bench: &mut Bench, agent: AgentId, access: MemoryAccess) -> Vec<String> {
    let begin = bench.now + ns(1000.0);
    let at_memory = bench.fabric.agent_mut::<AtMemory>(agent).unwrap();
    at_memory.log.clear();
    at_memory.accesses.push(access);
    bench.fabric.wake_agent(agent, begin, 0);
    bench.settle(0);
    let at_memory = bench.fabric.agent_mut::<AtMemory>(agent).unwrap();
    let since = |line: &String| {
        let (what, at) = line.split_once(" at ").unwrap();
        let at: f64 = at.trim_end_matches(" ns").parse().unwrap();
        format!("{what} {}", at - begin.as_ns())
    };
    at_memory.log.iter().map(since).collect()
}

fn cache_of(bench: &Bench) -> u16 {
    bench.fabric.cores() as u16 * 2
}

#[test]
fn an_agent_sees_lines_of_its_controller_as_they_leave_memory() {
    let (mut bench, agent) = bench();
    let line = line_at(5, 0);
    let mut data = LineData::ZERO;
    data.write(0, 8, 42);
    bench.fabric.ram_mut().write_line(line, &data);
    let begin = bench.now + ns(1000.0);
    bench.miss(0, line, false);
    // Lines of other controllers, and those that are read for writing, are not shown.
    bench.miss(0, line_at(6, 0), false);
    bench.miss(0, line_at(5, 1), true);
    let log = &bench.fabric.agent_mut::<AtMemory>(agent).unwrap().log;
    // 0 -> 5 6, bank 10, 5 -> 3 9, memory 50; the data cache of core 0 has the number 1.
    assert_eq!(log, &[format!("42 for 1 at {}", begin + ns(75.0))]);
}

#[test]
fn a_read_ahead_goes_to_memory_and_to_the_home() {
    let (mut bench, agent) = bench();
    let own = cache_of(&bench);
    let of = |line: LineAddress| MemoryAccess::ReadAhead {
        address: line.base(),
    };
    // In turn: look-up 3, 3 -> 5 9, bank 10, 5 -> 3 9, memory 50; then 3 -> 5 9 + 4, bank 10,
    // 5 -> 3 9 + 4.
    let address = line_at(5, 0).base();
    let log = access(&mut bench, agent, MemoryAccess::Read { address });
    assert_eq!(log, [format!("0 for {own} 81"), "0 read 117".to_string()]);
    // It has the line for reading, although nobody else has it.
    let held = bench.fabric.directory()[&line_at(5, 0)];
    assert_eq!(held, (1 << own, None, false));
    // Memory is asked after the look-up, and the home asks meanwhile.
    let log = access(&mut bench, agent, of(line_at(5, 1)));
    assert_eq!(log, [format!("0 for {own} 53"), "0 read 89".to_string()]);
    assert_eq!(bench.fabric.statistics().memory_reads, 2);
    // A line of its cache is not asked for.
    let log = access(&mut bench, agent, of(line_at(5, 1)));
    assert_eq!(log, ["0 read 3"]);
    assert_eq!(bench.fabric.statistics().memory_reads, 2);
    // A line of controller 2, on tile 15: 3 -> 15 is 3 hops, which the answer of memory takes,
    // too: 3 + 9 + 50 + 9 + 4. The home on tile 6 asks 3 + 6 + 10 + 9 after the beginning.
    let log = access(&mut bench, agent, of(line_at(6, 1)));
    assert_eq!(log[0], format!("0 for {own} 75"));
    // Of a line that the home has, what was read ahead is dropped: 3, 9, 10, 9 + 4. It has been
    // read for nothing, and again if it must be.
    let line = line_at(5, 2);
    bench.miss(0, line, false);
    bench.miss(1, line, false);
    let reads = bench.fabric.statistics().memory_reads;
    assert_eq!(access(&mut bench, agent, of(line)), ["0 read 35"]);
    assert_eq!(bench.fabric.statistics().memory_reads, reads + 1);
    assert!(bench.fabric.reads_ahead.is_empty());
}

#[test]
fn cores_are_told_before_a_line_is_written() {
    let (mut bench, agent) = bench();
    let line = line_at(5, 0);
    let address = line.base();
    access(&mut bench, agent, MemoryAccess::Read { address });
    bench.replies.clear();
    let begin = bench.now + ns(1000.0);
    // 0 -> 5 6, bank 10, Invalidate 5 -> 3 9; core 6 is told after 4, by 2 hops, 6. Then the
    // acknowledgement leaves: 9, bank 10, data 6 + 4.
    assert_eq!(
        bench.miss(0, line, true),
        ns(6.0 + 10.0 + 9.0 + (4.0 + 6.0) + 9.0 + 10.0 + 10.0)
    );
    let lost = DeliveryKind::SuppliedLineLost { line };
    let expected = (begin + ns(35.0), CoreId(6), lost);
    assert_eq!(bench.replies, [expected]);
}

#[test]
fn what_is_supplied_comes_in_order() {
    let (mut bench, agent) = bench();
    let custom = RequestKind::Custom {
        code: 1,
        arguments: [0; 2],
    };
    // 72 bytes take five cycles of a link: 4 -> 3 is 4 hops, 12, and 4.
    let begin = bench.ask(4, Some(agent), Transit::Message(72), custom);
    let times: Vec<Time> = bench.replies.iter().map(|&(at, ..)| at - begin).collect();
    let supplies: Vec<Supply> = bench
        .replies
        .iter()
        .filter_map(|&(_, _, kind)| match kind {
            DeliveryKind::Supply { supply, .. } => Some(supply),
            _ => None,
        })
        .collect();
    // After 4: 3 -> 4 12. The value has 24 bytes, two flits, and comes a cycle later behind the
    // first; the end waits for both of them.
    assert_eq!(times, [ns(32.0), ns(34.0), ns(35.0)]);
    assert!(matches!(
        supplies[..],
        [Supply::Begun, Supply::Value { place: 1, .. }, Supply::Ended]
    ));
}

#[test]
fn an_agent_must_be_where_its_controller_is() {
    let mut fabric = quiet_fabric();
    let attach = |fabric: &mut Fabric, tile, controller| {
        let attachment = Attachment {
            tile,
            at_memory: Some(controller),
            ..Attachment::default()
        };
        let result = fabric.attach(Box::new(AtMemory::default()), attachment);
        result.map_err(|error| error.to_string())
    };
    let wrong = attach(&mut fabric, 1, 1).unwrap_err();
    assert_eq!(
        wrong,
        "memory controller of the agent at a controller is 1; there are 4, and it must be the one \
         on tile 1"
    );
    assert!(attach(&mut fabric, 3, 4).is_err());
    assert!(attach(&mut fabric, 3, 1).is_ok());
}
