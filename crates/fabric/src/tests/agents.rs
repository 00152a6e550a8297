//! Guarantees for agents.

use super::*;

#[test]
fn requests_reach_agents_and_answers_come_back() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    assert_eq!(
        fabric.memory_map().classify(DEVICE.start + 8),
        Region::Device(agent)
    );
    assert_eq!(fabric.memory_map().classify(MEMORY), Region::Ram);
    assert_eq!(fabric.memory_map().classify(0), Region::Nothing);
    let free = fabric.memory_map();
    let protected = fabric.memory_map().protect(fabric.ram().ranges());
    assert!(!free.is_protected(MEMORY) && protected.is_protected(MEMORY));
    assert!(!protected.is_protected(DEVICE.start));
    let around = |map: &MemoryMap, user| map.memory_around(MEMORY, user).is_some();
    assert!(around(&free, true) && around(&protected, false) && !around(&protected, true));
    let mut bench = Bench::new(fabric);
    let read = |address| RequestKind::Read { address, bytes: 8 };
    let answer = |at, core, result| {
        let kind = DeliveryKind::Reply { token: 7, result };
        vec![(at, CoreId(core), kind)]
    };

    // By address over the mesh: 4 -> 1 is 2 hops = 6, port 4, back 6.
    let begin = bench.ask(4, None, Transit::Tile, read(DEVICE.start));
    let expected = answer(begin + ns(16.0), 4, Ok(DEVICE.start + 1));
    assert_eq!(std::mem::take(&mut bench.replies), expected);

    // With a delay of its own, longer than the port's.
    bench.fabric.agent_mut::<Script>(agent).unwrap().delay = ns(20.0);
    let begin = bench.ask(4, None, Transit::Tile, read(DEVICE.start));
    let expected = answer(begin + ns(32.0), 4, Ok(DEVICE.start + 1));
    assert_eq!(std::mem::take(&mut bench.replies), expected);

    // At the home of a line on tile 0: 3 -> 0 is 3 hops = 9, and back.
    let home = Transit::Home(line_at(0, 1));
    let begin = bench.ask(3, Some(agent), home, read(5));
    let expected = answer(begin + ns(9.0 + 20.0 + 9.0), 3, Ok(6));
    assert_eq!(std::mem::take(&mut bench.replies), expected);

    // Over wires: exactly their latency.
    let begin = bench.ask(3, Some(agent), Transit::Fixed(ns(7.0)), read(5));
    let expected = answer(begin + ns(27.0), 3, Ok(6));
    assert_eq!(std::mem::take(&mut bench.replies), expected);
    assert_eq!(bench.fabric.statistics().lengthened_deliveries, 0);

    // Not permitted: 4 -> 1 with a word 6, port 4, back 6.
    let write = RequestKind::Write {
        address: DEVICE.start,
        bytes: 4,
        value: 1,
    };
    let begin = bench.ask(4, None, Transit::Tile, write);
    assert_eq!(
        std::mem::take(&mut bench.replies),
        answer(begin + ns(16.0), 4, Err(()))
    );

    // No agent: the minimum delivery latency.
    let begin = bench.ask(4, None, Transit::Tile, read(0x666));
    assert_eq!(
        std::mem::take(&mut bench.replies),
        answer(begin + ns(5.0), 4, Err(()))
    );
    assert_eq!(bench.fabric.statistics().refused_requests, 1);

    // An interrupt, and wires below the minimum latency, which are counted.
    bench.fabric.agent_mut::<Script>(agent).unwrap().delay = ns(1.0);
    let custom = RequestKind::Custom {
        code: 1,
        arguments: [0; 2],
    };
    let begin = bench.ask(0, Some(agent), Transit::Fixed(ns(7.0)), custom);
    let interrupt = DeliveryKind::Interrupt {
        thread: 0,
        bit: 11,
        level: true,
    };
    assert!(
        bench
            .replies
            .contains(&(begin + ns(12.0), CoreId(2), interrupt))
    );
    assert_eq!(bench.fabric.statistics().lengthened_deliveries, 2);
}

#[test]
fn grants_of_ownership_are_seen_before_they_leave() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let line = line_at(5, 0);
    let log = |bench: &mut Bench| {
        std::mem::take(&mut bench.fabric.agent_mut::<Script>(agent).unwrap().log)
    };
    // A read from memory without other holders grants E, when the data reaches the home: 20 ns
    // before it reaches the core. See `latencies_are_those_described`.
    bench.miss(0, line, false);
    assert_eq!(log(&mut bench), ["granted 0x80000140 at 1088 ns"]);
    // The second read makes both sharers, without a grant of ownership.
    bench.miss(15, line, false);
    assert!(log(&mut bench).is_empty());
    // A write by a sharer: when the acknowledgement arrives, 1 + 10 + 24 after its departure.
    let begin = bench.now;
    let latency = bench.miss(15, line, true);
    let at = begin + ns(1000.0) + latency - (ns(10.0) + ns(16.0));
    assert_eq!(log(&mut bench), [format!("granted 0x80000140 at {at}")]);
    // A write of an owned line: when the home forwards it, 2 hops from core 0.
    let begin = bench.now;
    bench.miss(0, line, true);
    let at = begin + ns(1006.0);
    assert_eq!(log(&mut bench), [format!("granted 0x80000140 at {at}")]);
    // A line outside the range.
    bench.miss(0, LineAddress((MEMORY + (1 << 19)) / 64), true);
    assert!(log(&mut bench).is_empty());
}

#[test]
fn a_read_at_home_takes_ownership_away_and_grants_none() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let line = line_at(5, 0);
    bench.miss(0, line, true);
    let slot = bench.caches[0].find(line).unwrap();
    bench.caches[0].line_mut(slot).write(0, 8, 42);
    let address = line.base() + 8;
    let read = MemoryAccess::ReadAtHome { address };
    // On the home's tile 1, bank 10, 5 -> 0 control 6, forward 4, 0 -> 5 data 6 + 4, and the bank
    // reads it: 10.
    let log = bench.script(agent, &[read]);
    assert_eq!(log, ["access 1 done at 3041 ns: 42"]);
    assert_eq!(
        bench.caches[0].state(bench.caches[0].find(line).unwrap()),
        State::Shared
    );
    assert_eq!(bench.fabric.directory()[&line], (1 << 1, None, false));
    // Again, without an owner: 1 + 10.
    let log = bench.script(agent, &[read]);
    assert_eq!(log, ["access 1 done at 5011 ns: 42"]);
    // A write now needs the home.
    bench.miss(0, line, true);
    let log = std::mem::take(&mut bench.fabric.agent_mut::<Script>(agent).unwrap().log);
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("granted 0x80000140"));
    // From memory, 5 -> 3 and back: 1 + 10 + 9 + 50 + 13 + 10.
    let address = line_at(5, 1).base();
    let log = bench.script(agent, &[MemoryAccess::ReadAtHome { address }]);
    assert_eq!(log, [format!("access 1 done at {}: 0", ns(8000.0 + 93.0))]);
}

#[test]
fn accesses_to_one_line_keep_their_order_and_others_overlap() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    // Lines at home on tile 1, so that all hops are local, and those of other controllers: line 1 %
    // 4 = 1, at tile 3.
    let address = line_at(1, 0).base();
    let other = line_at(1, 1).base();
    let third = line_at(1, 2).base();
    let mut data = LineData::ZERO;
    data.write(0, 8, 5);
    let accesses = [
        MemoryAccess::FetchAdd { address, addend: 3 },
        MemoryAccess::Read { address: other },
        MemoryAccess::Read { address: third },
        MemoryAccess::ReadAtHome { address },
        MemoryAccess::Write {
            address,
            bytes: 8,
            data,
        },
        MemoryAccess::FetchAdd { address, addend: 1 },
        MemoryAccess::Read { address },
    ];
    let log = bench.script(agent, &accesses);
    let done: Vec<&String> = log
        .iter()
        .filter(|entry| entry.starts_with("access"))
        .collect();
    let of_line: Vec<(&str, &str)> = done
        .iter()
        .map(|entry| (&entry[7..8], entry.rsplit(' ').next().unwrap()))
        .filter(|(token, _)| !["2", "3"].contains(token))
        .collect();
    // Before the first addition it was 0; at home 3; after the write 5; before the second addition
    // 5.
    assert_eq!(
        of_line,
        [("1", "0"), ("4", "3"), ("5", "5"), ("6", "5"), ("7", "6")]
    );
    // The first two overlap: lookup 3, 1 + 10, 1 -> 3 control 6, memory 50, 3 -> 1 data 6 + 4, bank
    // 10, 1. The second is a cycle behind at the bank, 5.4 more at the channel, and enters the mesh
    // with the next cycle. The third has to wait for one of the two miss status holding registers.
    assert_eq!(done[0], "access 1 done at 1091 ns: 0");
    assert_eq!(done[1], "access 2 done at 1098 ns: 0");
    let third_at: f64 = done
        .iter()
        .find(|entry| entry.starts_with("access 3"))
        .unwrap()["access 3 done at ".len()..]
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(third_at > 1091.0 + 80.0);
    assert!(bench.fabric.errors().is_empty());
    // A hit.
    let log = bench.script(agent, &[MemoryAccess::Read { address }]);
    assert!(log.last().unwrap().ends_with("3 ns: 6"), "{log:?}");
    // A core invalidates it.
    bench.miss(4, line_at(1, 0), true);
    let log = std::mem::take(&mut bench.fabric.agent_mut::<Script>(agent).unwrap().log);
    assert!(
        log.iter()
            .any(|entry| entry.starts_with(&format!("lost {address:#x}"))),
        "{log:?}"
    );
}

#[test]
fn wrong_accesses_and_attachments_get_sentences() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let data = LineData::ZERO;
    let accesses = [
        MemoryAccess::Read { address: 16 },
        MemoryAccess::Write {
            address: MEMORY + 60,
            bytes: 8,
            data,
        },
    ];
    let log = bench.script(agent, &accesses);
    assert_eq!(
        log,
        ["access 1 done at 1005 ns: 0", "access 2 done at 1005 ns: 0"]
    );
    assert_eq!(
        bench.fabric.errors(),
        [
            "script accesses 1 bytes at 0x10 at 1000 ns, but there is no memory.",
            "script accesses 8 bytes at 0x8000003c at 1000 ns, but it crosses a line.",
        ]
    );
    assert_eq!(bench.fabric.waiting_for(), ["script: waits for its script"]);
    let mut attach = |attachment: Attachment| {
        let error = bench
            .fabric
            .attach(Box::new(Script::default()), attachment)
            .unwrap_err();
        error.to_string()
    };
    assert_eq!(
        attach(Attachment {
            tile: 16,
            ..Attachment::default()
        }),
        "tile of script is 16; the mesh has tiles 0 to 15"
    );
    assert_eq!(
        attach(Attachment {
            owns: Some(AddressRange {
                start: 0x1000_0800,
                length: 8,
            }),
            ..Attachment::default()
        }),
        "addresses of script is 0x8 bytes at 0x10000800; script is at 0x10000000 \
         to 0x10000fff, and they must not overlap"
    );
    assert!(
        attach(Attachment {
            owns: Some(AddressRange {
                start: MEMORY - 8,
                length: 16,
            }),
            ..Attachment::default()
        })
        .contains("memory is at 0x80000000")
    );
}

#[test]
fn busy_lines_say_what_they_wait_for() {
    let mut bench = Bench::new(quiet_fabric());
    let line = line_at(5, 0);
    let mut out = Outbox::default();
    bench.caches[0].request(line, false, ns(1000.0), &mut out);
    bench.fabric.send(CoreId(0), &mut out);
    bench.fabric.run_until(ns(1020.0), &mut bench.inboxes);
    assert_eq!(
        bench.fabric.waiting_for(),
        ["The line at 0x80000140 waits for memory; 0 more requests for it wait."]
    );
}

/// Sends another agent a message at each of its times, and records received messages.
struct Talker {
    to: AgentId,
    heard: std::rc::Rc<RefCell<Vec<(Time, AgentId, AgentMessage)>>>,
}

state::unsaved!(Talker);

impl Agent for Talker {
    fn name(&self) -> String {
        "talker".to_string()
    }

    fn message(&mut self, context: &mut AgentContext<'_>, from: AgentId, message: AgentMessage) {
        self.heard.borrow_mut().push((context.now(), from, message));
    }

    /// Tokens below 100 are bytes over the mesh, others nanoseconds over wires.
    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        let mut data = LineData::ZERO;
        data.write(8, 8, token);
        let message = AgentMessage {
            header: token,
            data,
        };
        if token < 100 {
            context.send(self.to, token, message);
        } else {
            context.send_over_wires(self.to, Time::from_ns(token as f64), message);
        }
    }
}

#[test]
fn agents_tell_each_other_things_over_the_mesh_and_over_wires() {
    let spec = FabricSpec {
        clock_ghz: 1.0,
        ..FabricSpec::default()
    };
    let mut fabric = Fabric::new(&spec, memory()).unwrap();
    let heard = std::rc::Rc::default();
    let mut attach = |tile, to| {
        let heard = std::rc::Rc::clone(&heard);
        let attachment = Attachment {
            tile,
            ..Attachment::default()
        };
        fabric
            .attach(Box::new(Talker { to, heard }), attachment)
            .unwrap()
    };
    let first = AgentId(0);
    let second = attach(0, AgentId(1));
    assert_eq!(second, first);
    let last = attach(3, AgentId(7));
    assert_eq!(fabric.next_agent(), AgentId(2));
    let ns = |ns: u64| Time::from_ns(ns as f64);
    for (at, token) in [(100, 16), (200, 64), (200, 16), (300, 500)] {
        fabric.wake_agent(first, ns(at), token);
    }
    // The last agent has no receiver.
    fabric.wake_agent(last, ns(1000), 8);
    let mut inboxes: Vec<Inbox> = (0..16).map(|_| Inbox::default()).collect();
    fabric.run_until(ns(2000), &mut inboxes);
    // Three hops of 3 cycles; 64 bytes are four flits, after which the next message waits.
    let expected = [(109, 16), (200 + 9 + 3, 64), (200 + 4 + 9, 16), (800, 500)];
    let heard: Vec<_> = heard.borrow().clone();
    let told = heard.iter().map(|&(at, from, message)| {
        assert_eq!(from, first);
        assert_eq!(message.data.read(8, 8), message.header);
        (at, message.header)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        expected.map(|(at, token)| (ns(at), token))
    );
    let errors = fabric.errors();
    assert!(
        errors.len() == 1 && errors[0].contains("to agent 7"),
        "{errors:?}"
    );
}
