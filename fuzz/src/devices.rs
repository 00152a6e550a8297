use super::input::Input;
use super::program::{DATA, of_accesses};
use super::servers::{ended, small_server};
use server::{Description, Limits, Options};

const IO_REGISTERS: u64 = 0x1000_0000;
const TABLE: u64 = IO_REGISTERS + 0x50;
const START: u64 = IO_REGISTERS + 0x58;
const DOORBELLS: u64 = 0x6000_0000;
const TENANT_DOORBELLS: u64 = 0x6800_0000;
const QUEUES: u64 = 4;
/// Room for the rings of a queue.
const RING_BYTES: u64 = 0x2_0000;
const RINGS: u64 = 0x8020_0000;
const MAX_INSTRUCTIONS: u64 = 30_000;
const MAX_LOOKS: u32 = 60;

const MECHANISMS: [&str; 7] = [
    "spin",
    "hyperplane",
    "spin-poll-mode",
    "wrs",
    "software-bitmap",
    "software-ready-set",
    "rpcvalet",
];

/// Accesses to devices at random, while items arrive: the registers of the I/O device, of the
/// tenants, of the CLINT and of RPCValet's interface; doorbells, rings and descriptors;
/// HyperPlane's instructions. The first byte names the mechanism, the second how the server
/// differs. Whatever the program does, the simulator goes on, or says in words why not.
pub fn devices(bytes: &[u8]) {
    let mut input = Input(bytes);
    let notify = input.choice(&MECHANISMS);
    let how = input.byte();
    let mut server = small_server();
    server.fabric.cores = 2;
    server.data_plane_cores = 1 + usize::from(how & 1);
    if how & 2 != 0 {
        server.core = pipeline::CoreSpec::five_stage();
    }
    let description = serde_json::from_value::<Description>(serde_json::json!({
        "server": server.table(),
        "data_plane": { "notify": notify, "queues": QUEUES, "in_order": how & 4 == 0 },
        "traffic": { "rate_mrps": 10.0, "packet_bytes": 64 },
        "measure": { "requests": 1000, "warmup": 0 },
    }));
    let Ok(description) = description else {
        panic!("it is a description");
    };
    // The queues' descriptors are where they should be, unless the program changes them before it
    // starts.
    let mut table = Vec::new();
    for queue in 0..QUEUES {
        for word in [
            DOORBELLS + 64 * queue,
            RINGS + 2 * RING_BYTES * queue,
            TENANT_DOORBELLS + 64 * queue,
            RINGS + 2 * RING_BYTES * queue + RING_BYTES,
            0,
            0,
            0,
            0,
        ] {
            table.extend(word.to_le_bytes());
        }
    }
    let mut opening = vec![(TABLE, DATA), (START, 1)];
    opening.truncate(2 - usize::from(how & 8 != 0));
    let places = [
        IO_REGISTERS,
        IO_REGISTERS + 0x800,
        IO_REGISTERS + 0x1_0000,
        IO_REGISTERS + 0x2_0000,
        IO_REGISTERS + 0x10_0000,
        IO_REGISTERS + 0x20_0000,
        DOORBELLS,
        TENANT_DOORBELLS,
        0x6400_0000,
        0x6c00_0000,
        RINGS,
        DATA,
        0x0200_0000,
        0x0200_4000,
    ];
    let program = of_accesses(&mut input, &opening, &places, &table);
    let options = Options {
        limits: Limits {
            instructions: Some(MAX_INSTRUCTIONS),
            ..Limits::default()
        },
        ..Options::default()
    };
    let mut looks = 0;
    ended(server::run(&description, &[program], &options, |_| {
        looks += 1;
        looks < MAX_LOOKS
    }));
}
