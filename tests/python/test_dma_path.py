"""nanoPU's DMA path: a conventional interface on the link of nanoPU's."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nanoplane import compiler, simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError

pytestmark = pytest.mark.simulator

# Sends the frames of the only port of an interface with completion queues back.
ONE_PORT = """
#include <frames.h>
#include <poll_mode/port.h>

int main(void) {
  lcore_begin(0);
  struct mempool *pool = pktmbuf_pool_create(2048, 256, MBUF_DEFAULT_BUF_SIZE);
  eth_dev_configure(0, 1, 1);
  eth_rx_queue_setup(0, 0, 512, pool);
  eth_tx_queue_setup(0, 0, 512);
  eth_dev_start(0);
  for (;;) {
    struct mbuf *pkts[32];
    uint16_t received = eth_rx_burst(0, 0, pkts, 32);
    for (uint16_t place = 0; place < received; place++)
      swap_eth(pktmbuf_mtod(pkts[place], struct frame *));
    if (received)
      eth_tx_or_drop(0, 0, pkts, received);
  }
}
"""

# Reads blocks of the server at 10.0.0.1, and checks each word.
READER = """
#include <frames.h>
#include <ice_nic.h>
#include <stdio.h>

static uint8_t sent[NIC_BUFFER_BYTES] __attribute__((aligned(64)));
static uint8_t received[NIC_BUFFER_BYTES] __attribute__((aligned(64)));

static uint64_t ask(uint64_t block, uint64_t words) {
  struct frame *frame = (struct frame *)sent;
  memset(frame, 0, sizeof sent);
  uint64_t mac = nic_macaddr();
  memcpy(frame->eth.src_mac, &mac, MAC_ADDR_SIZE);
  memcpy(frame->eth.dst_mac, "\\2\\0\\12\\0\\0\\1", MAC_ADDR_SIZE);
  frame->eth.ethtype = swap16(0x0800);
  frame->ipv4.ver_ihl = 0x45;
  frame->ipv4.proto = 0x99;
  frame->lnic.flags = 1;
  frame->lnic.dst = swap16(1);
  frame_set_payload_bytes(frame, 8 * words);
  frame->payload[1] = frame_word(77);
  frame->payload[2] = frame_word(block);
  nic_post_recv(received);
  nic_send(frame, sizeof *frame + 8 * words);
  return frame_payload_bytes((struct frame *)received, (uint64_t)nic_wait_recv());
}

int main(void) {
  for (volatile int wait = 0; wait < 20000; wait++)
    ;
  const uint64_t *payload = ((struct frame *)received)->payload;
  if (ask(0, 2) != 8 || payload[0] != ~0ul)
    return 1;
  const uint64_t blocks[] = {0, 5, 1023, 1029};
  for (int place = 0; place < 4; place++) {
    uint64_t block = blocks[place];
    if (ask(block, 3) != 1024 || payload[1] != frame_word(77) || payload[2] != frame_word(block))
      return 2;
    for (uint64_t word = 0; word < 125; word++)
      if (frame_word(payload[3 + word]) != (block % 1024 << 32 | word))
        return 3;
  }
  printf("right\\n");
  return 0;
}
"""

EXAMPLE = Path(__file__).parents[2] / "examples" / "nanopu-and-dma.toml"


def example(*settings: str) -> Description:
    description = Description.from_toml(EXAMPLE)
    for setting in ("measure.requests=300", *settings):
        description = description.assign(setting)
    return description


def simulate(description: Description, **options: Any) -> Mapping[str, Any]:
    resolved = description.resolve()
    return simulator.rack(resolved.data, compiler.unpack(resolved.elf()), options)


def test_both_paths_serve_on_one_link() -> None:
    result = simulate(example())
    (server,) = result["servers"]
    requests, blocks = result["clients"]
    interface, dma = server["interface"], server["dma_path"]
    paths = interface["dma_path"]
    # Each request for a block is a frame on both interfaces, and comes back as one. The order is
    # that of their path, on which there are at most 30 when the run ends.
    counts = [
        blocks["sent"]["packets"],
        paths["packets_received"],
        dma["frames_received"],
        dma["frames_delivered"],
        dma["frames_sent"],
        paths["packets_sent"],
        blocks["received"]["packets"],
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] >= 300
    assert counts[0] - counts[-1] <= 30
    # nanoPU's interface has the link, with the packets of both paths.
    of_requests = requests["sent"]["packets"] + blocks["sent"]["packets"]
    assert of_requests - 60 <= interface["packets_received"] <= of_requests
    assert interface["packets_sent"] > requests["received"]["packets"] + paths["packets_sent"] - 60
    assert interface["messages_received"] >= 300
    assert interface["packets_dropped"] == dma["dropped_buffer_full"] == 0
    assert dma["link_bytes"] == 0 < interface["link_bytes"]
    for client in (requests, blocks):
        assert client["measurement"]["latency_ns"]["samples"] >= 300
        assert client["statistics"]["unexpected"] == 0
    # Each reply has 1 KB behind its headers.
    assert blocks["received"]["bytes"] == blocks["received"]["packets"] * (64 + 1024)
    assert result["measurement"]["overload"] == []


def test_blocks_have_their_words(tmp_path: Path) -> None:
    (tmp_path / "reader.c").write_text(READER)
    data = example().data
    (server,) = data["rack"]["servers"]
    reader = {
        "name": "reader",
        "program": "reader.c",
        "interface": "ice-nic",
        "server": {"preset": "nanopu-prototype"},
    }
    data["rack"]["servers"] = [server, reader]
    data["rack"]["clients"] = []
    of_server, of_reader = simulate(Description.from_dict(data, tmp_path))["servers"]
    assert (of_reader["exit_status"], of_reader["output"]) == (0, "right\n")
    counts = {"packets_received": 5, "packets_sent": 5}
    assert of_server["interface"]["dma_path"] == counts


def test_the_port_is_there_once_in_the_energy() -> None:
    power = simulate(example())["servers"][0]["power_w"]
    # 200 Gb/s at 3.354 mW each.
    assert power["network_port"]["static"] == pytest.approx(0.6708, rel=1e-6)


@pytest.mark.parametrize("order", ["fast-path-first", "round-robin"])
def test_a_server_with_both_paths_goes_on_from_a_checkpoint(order: str, tmp_path: Path) -> None:
    description = example(f"rack.servers.0.server.nanopu.transmit_order={order}")
    whole = simulate(description)
    checkpoint = str(tmp_path / "checkpoint")
    simulate(description, checkpoint={"save": checkpoint, "at_requests": 200})
    resumed = simulate(description, checkpoint={"from": checkpoint})
    assert simulator.without_host(resumed) == simulator.without_host(whole)


@pytest.mark.parametrize(
    ("dma_path", "program", "begin_ns"),
    [
        ("ice-nic", "traditional/loopback-batch", 10_000.0),
        ("dma-nic", "traditional/loopback-express", 100_000.0),
        ("cqe-nic", "one-port.c", 200_000.0),
    ],
)
def test_conventional_programs_run_unchanged(
    dma_path: str, program: str, begin_ns: float, tmp_path: Path
) -> None:
    data = example().data
    server, client = data["rack"]["servers"][0], data["rack"]["clients"][1]
    server |= {"dma_path": dma_path, "program": program}
    if dma_path == "cqe-nic":
        server["server"]["cqe_nic"] = {"ports": 1}
        (tmp_path / program).write_text(ONE_PORT)
    client |= {"begin_ns": begin_ns}
    client["load"] |= {"offer": {"mode": "closed", "clients": 30}, "requests": [{"port": 1}]}
    data["rack"]["clients"] = [client]
    result = simulate(Description.from_dict(data, tmp_path))
    interface = result["servers"][0]["interface"]
    assert result["measurement"]["latency_ns"]["samples"] >= 300
    assert interface["messages_received"] == interface["packets_dropped"] == 0
    assert interface["dma_path"]["packets_received"] == interface["packets_received"]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "rack.servers.0.interface=dma-nic",
            'rack.servers.0.dma_path is "ice-nic"; it shares the link of an interface that leaves '
            "packets to it: interface must be nanopu",
        ),
        (
            "rack.servers.0.dma_path=rpcvalet",
            'rack.servers.0.dma_path is "rpcvalet"; it must be a conventional interface: '
            "ice-nic or dma-nic or cqe-nic",
        ),
        (
            "rack.servers.0.dma_path=cqe-nic",
            'rack.servers.0.dma_path is "cqe-nic"; it has 2 ports, and there is one link: set '
            "server.cqe_nic.ports to 1",
        ),
        (
            "rack.clients.1.load.transport.protocol=homa",
            'rack.clients.1.load.transport.protocol is "homa"; that of server is "ndp"',
        ),
        (
            "rack.servers.0.server.nanopu.transmit_order=fifo",
            'rack.servers.0.server.nanopu.transmit_order is "fifo"; it must be "fast-path-first" '
            'or "round-robin"',
        ),
    ],
)
def test_what_a_dma_path_cannot_be(setting: str, sentence: str) -> None:
    with pytest.raises(DescriptionError) as raised:
        Description.from_toml(EXAMPLE).assign(setting).check()
    assert sentence in str(raised.value)


def test_datagrams_need_a_dma_path() -> None:
    data = Description.from_toml(EXAMPLE).data
    del data["rack"]["servers"][0]["dma_path"]
    sentence = 'rack.clients.1.load.transport.protocol is "datagrams"; that of server is "ndp"'
    with pytest.raises(DescriptionError, match=re.escape(sentence)):
        Description.from_dict(data).check()
