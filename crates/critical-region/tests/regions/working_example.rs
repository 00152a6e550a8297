//! The working example of Section 4.4 (Figure 10), step by step, on a RISC-V program of the same
//! shape: the look-up in memcached's hash table of Table 4.

use critical_region::{
    Begins, HartProbe, Identification, Kind, LiveIn, Observer, Producer, Region, RegisterState,
    Sizes,
    convention::{Root, result},
};
use fabric::{Clock, Source};
use pipeline::{Executed, Found, Probe};
use riscv::interpreter::{FlatMemory, Machine, Memory, Step};
use riscv::{Class, Register};

/// Table 4's code, at the paper's addresses except for alignment. `%rdx` (the hash) is `a2`, `%rax`
/// is `a5`, `%rbx` is `s1`, `%rbp` (the length of the key) is `s0`. RISC-V has an additional
/// instruction where x86-64 adds in an address, and compares in branches instead of setting flags.
const CODE: u64 = 0x41b56c;
const LOOK_UP: [u32; 13] = [
    0x0000_1797, // 41b56c auipc  a5, 0x1            %rip
    0xa947_b783, // 41b570 ld     a5, -0x56c(a5)     1  mov 0x364ca0(%rip),%rax
    0x20f6_66b3, // 41b574 sh3add a3, a2, a5         2  mov (%rax,%rdx,8),%rbx
    0x0006_b483, // 41b578 ld     s1, 0(a3)          2
    0x0080_006f, // 41b57c j      0x41b584           3  jmp SEQ 6
    0x0104_b483, // 41b580 ld     s1, 16(s1)         5  mov 0x10(%rbx),%rbx
    0x0004_8c63, // 41b584 beqz   s1, 0x41b59c       6  test %rbx,%rbx; 7  je SEQ 20
    0x0344_c783, // 41b588 lbu    a5, 52(s1)         8  movzbl 0x34(%rbx),%eax
    0xfe87_9ae3, // 41b58c bne    a5, s0, 0x41b580   9  cmp %rbp,%rax; 10  jne SEQ 5
    0x02b4_c703, // 41b590 lbu    a4, 43(s1)         11 movzbl 0x2b(%rbx),%eax
    0xfe07_06e3, // 41b594 beqz   a4, 0x41b580
    0x0000_0013, // 41b598 nop
    0x0000_8067, // 41b59c ret
];
const TABLE_POINTER: u64 = 0x41c000;
const TABLE: u64 = 0x41c100;
const ITEMS: u64 = 0x41c400;
/// The caller: `li s0, 7` (the length of the key), `mv a2, s2` (the hash), `jal ra, 0x41b56c`.
const CALLER: u64 = 0x41b500;
const CALL: [u32; 3] = [0x0070_0413, 0x0009_0613, 0x0640_00ef];
const RETURN: u64 = CALLER + 12;

/// The loads that miss the second-level cache.
const MISSING: [u64; 4] = [0x41b578, 0x41b580, 0x41b588, 0x41b590];

const A2: Register = 12;
const A5: Register = 15;
const S0: Register = 8;
const S2: Register = 18;

struct Example {
    machine: Machine<FlatMemory>,
    hardware: Identification,
    regions: Vec<Region>,
    executed: Vec<Executed>,
}

impl Example {
    /// A table in whose bucket `n` is a chain of `n` items; the key of the last one has 7 bytes.
    fn new(epoch_misses: u64) -> Example {
        let mut memory = FlatMemory::new(0x41b000, 0x2000);
        let caller = (CALLER..).step_by(4).zip(CALL);
        for (place, bits) in caller.chain((CODE..).step_by(4).zip(LOOK_UP)) {
            memory.write(place, 4, bits.into());
        }
        memory.write(TABLE_POINTER, 8, TABLE);
        let mut item = ITEMS;
        for bucket in 1..4 {
            memory.write(TABLE + 8 * bucket, 8, item);
            for left in (0..bucket).rev() {
                let (next, length) = if left > 0 { (item + 64, 9) } else { (0, 7) };
                memory.write(item + 16, 8, next);
                memory.write(item + 52, 1, length);
                memory.write(item + 43, 1, 1);
                item += 64;
            }
        }
        let sizes = Sizes {
            epoch_misses,
            ..Sizes::default()
        };
        Example {
            machine: Machine::new(memory, CALLER),
            hardware: Identification::new(sizes, 1),
            regions: Vec::new(),
            executed: Vec::new(),
        }
    }

    /// Looks up a key of 7 bytes in bucket `hash`, which the user routine has computed.
    fn look_up(&mut self, hash: u64) {
        self.hardware.set_arguments(0, &[7, hash]);
        self.machine.pc = CALLER;
        self.machine.registers[usize::from(S2)] = hash;
        while self.machine.pc != RETURN {
            let (pc, registers) = (self.machine.pc, self.machine.registers);
            let Step::Retired(instruction) = self.machine.step() else {
                panic!("a trap at {pc:#x}");
            };
            let written = result(&instruction);
            let value = written.map(|register| self.machine.registers[usize::from(register)]);
            let base = registers[usize::from(instruction.rs1)];
            let address = (instruction.class == Class::Load).then(|| instruction.address(base));
            self.execute(pc, instruction, value, address);
        }
    }

    fn execute(
        &mut self,
        pc: u64,
        instruction: riscv::Instruction,
        value: Option<u64>,
        address: Option<u64>,
    ) {
        let missed = MISSING.contains(&pc);
        let found = match missed {
            true => Found::Line(Source::Memory),
            false => Found::DataCache,
        };
        let executed = Executed {
            value,
            address,
            found: (instruction.class == Class::Load).then_some(found),
            ..Executed::committed(pc, instruction)
        };
        self.executed.push(executed);
        let epoch = self.hardware.committed(0, &executed);
        self.regions.extend(epoch.map(|epoch| epoch.region));
    }

    /// Table I: the addresses, and which of them are ready.
    fn table_1(&self) -> Vec<(u64, bool)> {
        let entries = self.hardware.cache().iter();
        let mut entries: Vec<(u64, bool)> = entries.map(|one| (one.pc, one.ready)).collect();
        entries.sort_unstable();
        entries
    }

    /// `PRED1` and `PRED2` of an entry, without the registers.
    fn producers(&self, pc: u64) -> Vec<Producer> {
        let entry = self.hardware.cache().get(pc).expect("it has an entry");
        let operands = entry.operands.iter().flatten().flatten();
        operands.map(|operand| operand.producer).collect()
    }

    fn state(&self, begins: Begins) -> RegisterState {
        self.hardware.register_states().get(begins)
    }
}

#[test]
fn working_example() {
    let mut example = Example::new(100);

    // "Instructions with PC 0x41b578, 0x41b580, 0x41b89, and 0x41b592 miss frequently and get
    // allocated in Table I." The first look-up finds its key in the second item.
    example.look_up(2);
    let missing: Vec<u64> = example
        .hardware
        .cache()
        .iter()
        .filter(|entry| entry.misses)
        .map(|entry| entry.pc)
        .collect();
    assert_eq!(missing.len(), MISSING.len());
    assert!(missing.iter().all(|pc| MISSING.contains(pc)));
    // "Table II is referred and PRED1 and PRED2 fields are updated": the chain is followed from
    // s1 = 0x41b578, and from a3 = 0x41b574, which is not in Table I, and "is allocated there".
    assert_eq!(
        example.producers(0x41b578),
        [Producer::Instruction(0x41b574)]
    );
    assert_eq!(
        example.producers(0x41b580),
        [Producer::Instruction(0x41b578)]
    );
    // "Its sources are updated later when it is executed again."
    assert!(example.hardware.cache().get(0x41b574).is_some());
    assert_eq!(example.producers(0x41b574), []);
    // "When branch instructions are executed, they get added to Table I": 0x41b57c, 0x41b58c and
    // 0x41b594 end basic blocks with a critical instruction, as does 0x41b584 after 0x41b580. No
    // instruction is ready yet: all wait for 0x41b574, and the branches for their targets; but
    // 0x41b584 and 0x41b57c lead to an address without an entry, or to each other.
    let everything = [
        0x41b574, 0x41b578, 0x41b57c, 0x41b580, 0x41b584, 0x41b588, 0x41b58c, 0x41b590, 0x41b594,
    ];
    let pcs: Vec<u64> = example.table_1().iter().map(|&(pc, _)| pc).collect();
    assert_eq!(pcs, everything);
    let ready: Vec<u64> = example
        .table_1()
        .iter()
        .filter(|(_, ready)| *ready)
        .map(|&(pc, _)| pc)
        .collect();
    assert_eq!(ready, [0x41b57c, 0x41b584]);

    // The second look-up: the sources of the address. "PC corresponding to %rdx is DEAD, so, PRED2
    // is set to DEAD. Whereas, PRED1 refers to PC 0x41b571", which is allocated.
    example.look_up(1);
    assert_eq!(
        example.producers(0x41b574),
        [Producer::Dead, Producer::Instruction(0x41b570)]
    );
    assert_eq!(example.producers(0x41b570), []);
    // "Since IN value of %rdx matches with the first argument, its state in Table III is set to
    // READY-DYN and its value is set to the argument-id (1)."
    assert_eq!(
        example.state(Begins::Operand(A2)),
        RegisterState::ReadyDyn(1)
    );

    // The third: "Since, for this instruction both PRED1 and PRED2 are DEAD, instruction is marked
    // READY", then the second, "similarly, all other instructions".
    example.look_up(1);
    assert_eq!(
        example.producers(0x41b570),
        [Producer::Address(CODE + 0x1000)]
    );
    assert!(example.table_1().iter().all(|&(_, ready)| ready));
    // "Every time the smallest PC instruction in Table I is accessed": for the rest of the pass,
    // roots are DEAD, and other registers have the instructions that wrote them since.
    let map = example.hardware.register_map(0);
    assert_eq!(map.producer(A2), Producer::Dead);
    assert_eq!(map.producer(A5), Producer::Instruction(0x41b588));

    // "For %rax": its IN value is the table's address, and the value that 0x41b588 puts into it is
    // its GEN value. It has come once, so no return is known.
    let values = example.hardware.predictor().values(Begins::Result(A5));
    assert_eq!(values.len(), 1);
    let (received, generated) = &values[0];
    assert_eq!((received.value, received.uses), (TABLE, 0));
    let generated: Vec<(u64, u64)> = generated.iter().map(|one| (one.value, one.uses)).collect();
    assert_eq!(generated, [(7, 1)]);
    assert_eq!(example.state(Begins::Result(A5)), RegisterState::Unknown);

    // "Whenever a newly received IN value matches with the old IN value, IN usage counter is
    // incremented in Table IV and for any subsequent GEN values, GEN usage counter is incremented."
    // Three items: the lengths 9, 9 and 7.
    example.look_up(3);
    let (received, generated) = &example.hardware.predictor().values(Begins::Result(A5))[0];
    assert_eq!(received.uses, 1);
    let generated: Vec<(u64, u64)> = generated.iter().map(|one| (one.value, one.uses)).collect();
    assert_eq!(generated, [(7, 2), (9, 2)]);
    // "Since, at this point IN to GEN usage counter exceeds 1/8 %rax is also set to READY": 1/4.
    assert_eq!(
        example.state(Begins::Result(A5)),
        RegisterState::Ready(TABLE)
    );
}

#[test]
fn the_region_at_the_end_of_the_epoch() {
    // Misses: 3 for an item that is first in its bucket, and 2 for each before it. 5, 3, 3 and 7.
    let mut example = Example::new(18);
    for hash in [2, 1, 1, 3] {
        assert!(example.regions.is_empty());
        example.look_up(hash);
    }
    let [region] = &example.regions[..] else {
        panic!("{} regions", example.regions.len());
    };
    let listed: Vec<(u64, Kind, bool)> = region
        .instructions
        .iter()
        .map(|one| (one.pc, one.kind, one.given))
        .collect();
    // The types of Table 4: I-LD for 1, D-LD for 2, 5, 8 and 11. The first one is not executed: its
    // value comes with the region.
    assert_eq!(
        listed,
        [
            (0x41b570, Kind::IndependentLoad, true),
            (0x41b574, Kind::Alu, false),
            (0x41b578, Kind::DependentLoad, false),
            (0x41b57c, Kind::Other, false),
            (0x41b580, Kind::DependentLoad, false),
            (0x41b584, Kind::Other, false),
            (0x41b588, Kind::DependentLoad, false),
            (0x41b58c, Kind::Other, false),
            (0x41b590, Kind::DependentLoad, false),
            (0x41b594, Kind::Other, false),
        ]
    );
    // "There are only two candidate registers": a2 and a5. With RISC-V's comparing branches the
    // length of the key in s0 is a third, which is what the other routine returned.
    let live_in = |register, state, root| LiveIn {
        register,
        state,
        root,
    };
    assert_eq!(
        region.registers,
        [
            live_in(S0, RegisterState::ReadyDyn(0), Some(Root::Stack)),
            live_in(A2, RegisterState::ReadyDyn(1), Some(Root::Argument)),
            live_in(A5, RegisterState::Ready(TABLE), None),
        ]
    );
    // "In the beginning (start of an epoch), Table I has no valid entry", and all others are empty.
    assert_eq!(example.table_1(), []);
    assert_eq!(example.state(Begins::Operand(A2)), RegisterState::Unknown);
    assert!(
        example
            .hardware
            .predictor()
            .values(Begins::Result(A5))
            .is_empty()
    );
}

#[test]
fn wrong_addresses_are_those_of_other_buckets() {
    // Six look-ups of the second bucket, five misses each, end the epoch. Nobody returns a hash, so
    // that its value is predicted: 2.
    let mut example = Example::new(1000);
    let mut looked_up = |hash| {
        example.executed.clear();
        example.look_up(hash);
        example.executed.clone()
    };
    let sizes = Sizes {
        epoch_misses: 30,
        ..Sizes::default()
    };
    let observer = Observer::shared(sizes, 1, (0, 1), Clock::from_ghz(4.0));
    let mut probe = HartProbe::new(&observer, 0);
    let mut of_addresses = |hash| {
        for executed in looked_up(hash) {
            probe.executed(&executed);
        }
        let observer = observer.borrow();
        let counts = observer.counts();
        (counts.right_addresses, counts.wrong_addresses)
    };
    for _ in 0..6 {
        assert_eq!(of_addresses(2), (0, 0));
    }
    assert_eq!(observer.borrow().counts().regions.len(), 1);
    // Two items: the bucket, two lengths, the chain, and the last load.
    assert_eq!(of_addresses(2), (5, 0));
    // The same with three items and with one, all of them behind another bucket.
    assert_eq!(of_addresses(3), (5, 7));
    assert_eq!(of_addresses(1), (5, 10));
    assert_eq!(of_addresses(2), (10, 10));
}
