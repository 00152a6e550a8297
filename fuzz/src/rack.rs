use super::input::{Input, replace_numbers};
use super::program::of_accesses;
use super::servers::{ended, small_server};
use server::{Description, Limits, Options, ServerSpec, presets};

const DMA_NIC_REGISTERS: u64 = 0x1030_0000;
const ICE_NIC_REGISTERS: u64 = 0x1001_6000;
const RPCVALET_REGISTERS: u64 = 0x1020_0000;
const MEMORY: u64 = 0x8010_0000;
const MAX_INSTRUCTIONS: u64 = 20_000;
const MAX_LOOKS: u32 = 40;
/// More servers and clients take longer than an input is worth.
const MAX_HOSTS: usize = 8;

fn prototype() -> ServerSpec {
    let mut presets = presets().into_iter();
    let preset = presets.find(|preset| preset.name == "nanopu-prototype");
    let mut server = preset.expect("there is such a preset").server;
    server.memory_mib = 16;
    server
}

/// A rack whose numbers are changed, whose clients send and whose servers access their network
/// interface at random: it is refused in a sentence, or goes on, or ends in one. The first byte
/// names the interface, the second is how many of those that follow are for the numbers.
pub fn rack(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (interface, base) = input.choice(&[
        ("ice-nic", ICE_NIC_REGISTERS),
        ("dma-nic", DMA_NIC_REGISTERS),
        ("nanopu", MEMORY),
        ("rpcvalet", RPCVALET_REGISTERS),
    ]);
    // A conventional interface leaves a transport to the program.
    let protocol = match interface {
        "nanopu" => "ndp",
        _ => "datagrams",
    };
    let changes = usize::from(input.byte());
    let mut value = serde_json::json!({
        "rack": {
            "link": { "latency_ns": 50.0, "rate_gbit_per_s": 200.0 },
            "switch": { "buffer_bytes": 100_000 },
            "clients": [{
                "count": 1, "begin_ns": 100.0,
                "load": {
                    "offer": { "mode": "open", "rate_mrps": 5.0 },
                    "transport": { "protocol": protocol },
                    "ports": 2, "send_latency_ns": 0.0, "receive_latency_ns": 0.0,
                },
            }],
        },
        "measure": { "requests": 100, "warmup": 10, "seed": 1 },
    });
    replace_numbers(&mut value, &mut input.bytes(changes).iter().copied());
    let mut server = if interface == "nanopu" {
        prototype()
    } else {
        small_server()
    };
    server.memory_mib = 16;
    value["rack"]["servers"] = serde_json::json!([{
        "count": 1, "program": "", "serves": true, "interface": interface,
        "server": server.table(),
    }]);
    let Ok(description) = serde_json::from_value::<Description>(value) else {
        return;
    };
    let clients = description.tables.rack.clients.iter();
    let hosts = clients.map(|client| client.count as usize);
    if hosts.sum::<usize>() >= MAX_HOSTS {
        return;
    }
    let places = [
        base,
        base + 0x1000,
        base + 0x2000,
        MEMORY,
        0x6000_0000,
        0x6c00_0000,
    ];
    let program = of_accesses(&mut input, &[], &places, &[]);
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
