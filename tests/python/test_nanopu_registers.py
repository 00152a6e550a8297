"""nanoPU's programs on the simulated server: messages through its registers and its interface.

What the programs compute is checked in test_nanopu_programs.py. Here each is compiled for RISC-V,
and has few messages, from a client on another core of the same server.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nanoplane.cli import app
from nanopu_host import PROGRAMS, ROOT
from nanopu_reference import Service, chain, jobs, later, mix, payload_of, services
from test_nanopu_programs import OPENING, as_words, from_words

pytestmark = pytest.mark.simulator

SERVER = 0x0A000001_0000
"""Context 0 of the server, which is 10.0.0.1 to itself."""
CLIENT = SERVER | 1


Capture = pytest.CaptureFixture[str]


def exchanged(
    program: str, reference: Service, payloads: list[list[int]], tmp_path: Path, capfd: Capture
) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """Return what the client should have got, and what it got."""
    expected, words = [], []
    for payload in map(payload_of, payloads):
        replies = reference.serve(CLIENT, payload)
        assert all(to == CLIENT for to, _ in replies)
        expected += [(SERVER, reply) for _, reply in replies]
        message = as_words((SERVER, payload))
        words += [len(replies)]
        words += [
            int.from_bytes(message[at : at + 8], sys.byteorder) for at in range(0, len(message), 8)
        ]
    directory = ROOT / "tests" / "nanopu"
    source = tmp_path / f"{program}.c"
    source.write_text(
        "#include <lnic.h>\n"
        f'#include "{directory}/client-before.h"\n'
        f'#include "{PROGRAMS}/{program}.c"\n'
        f"#define MESSAGES {', '.join(f'{word:#x}' for word in words)}\n"
        f'#include "{directory}/client.h"\n'
    )
    command = ["exec", "--preset", "nanopu-prototype", "--set", "server.memory_mib=256"]
    done = CliRunner().invoke(app, [*command, str(source)])
    assert done.exit_code == 0, done.output
    stream = b"".join(
        int(line, 16).to_bytes(8, sys.byteorder) for line in capfd.readouterr().out.split()
    )
    return expected, from_words(stream)


def key_words(number: int) -> list[int]:
    return [*services.key_of(number), 0]


def value(number: int) -> list[int]:
    return [mix(number + word) for word in range(services.VALUE_WORDS)]


STORE = [
    [1, 2, 1, *key_words(5)],
    [3, 4, 2, *key_words(5), *value(9)],
    [5, 6, 1, *key_words(5)],
    [7, 8, 2, *key_words(20_000), *value(10)],
    [9, 10, 1, *key_words(20_000)],
    [11, 12, 1, *key_words(20_001)],
    [13],
]
FACTORS = [mix(number) for number in range(254)]
OPERATIONS = [[1, 80], [2, 80, 160], [5, 80], [3, 80, 160, 7], [4, 80, 3], [1, 80], [5, 80], [1, 4]]
WRITE = chain.write(CLIENT, [SERVER], (1, 2), [*range(8)])


@pytest.mark.parametrize(
    ("program", "reference", "payloads"),
    [
        ("loopback-increment", jobs.LoopbackIncrement, [[1], [2**64 - 1] * 2, [*range(256)]]),
        ("stream", jobs.Stream, [[0, 2, 77], [1, 5, 6], [1, 5, 6, 7, 8], [1, 5]]),
        ("dot-product", jobs.DotProduct, [[1, 0, 3], [1, 253, *FACTORS], [1, 1, 5, 3], [2]]),
        ("dot-product-naive", jobs.DotProduct, [[1, 0, 3], [1, 253, *FACTORS], [1, 1, 5, 3], [2]]),
        ("mica", services.Mica, STORE),
        ("mica-naive", services.Mica, STORE),
        ("mica-partitions", services.Mica, STORE),
        ("rdma", services.Rdma, [[1, 2, *words] for words in OPERATIONS]),
        (
            "set-algebra",
            services.SetAlgebra,
            [[0, at, 3, 1 + at, 40 + at, 100] for at in range(10)] + [[0, 0, 1, 1]],
        ),
        (
            "hd-search",
            services.HdSearch,
            [
                [0, at, *(mix(at * 99 + word) for word in range(16)), 3, at, 9, 10_000]
                for at in (1, 2)
            ],
        ),
        (
            "chain-replication",
            chain.Server,
            [
                [1, 2, *WRITE],
                [3, 4, *chain.read(CLIENT, (1, 2))],
                [5, 6, *chain.read(CLIENT, (1, 3))],
            ],
        ),
        ("n-body", later.NBody, [[0, 5, 6, 2, 9], [1, 7, 10, 0], [1, 5, 6, 0], [1, 5, 6, 0]]),
        ("path-latency", later.PathLatency, [[7, 2, at * 100, at * 300] for at in range(51)]),
        (
            "classifier",
            later.Classifier,
            [[0, 0, at << 32, mix(at), (at % 64) | 5 << 32, 6 << 32] for at in range(5)]
            + [
                [0, 0, 0, int(source) << 32 | int(destination), 1024 << 32 | 5000, 6 << 32]
                for source, destination in later.rules()[[1, 3], :10].T
            ],
        ),
        ("othello", later.Othello, [[2, 0, 1, CLIENT << 16], [0, *OPENING, 2, CLIENT << 16, 3, 4]]),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_a_client_gets(
    program: str,
    reference: Callable[[], Service],
    payloads: list[list[int]],
    tmp_path: Path,
    capfd: Capture,
) -> None:
    expected, found = exchanged(program, reference(), payloads, tmp_path, capfd)
    assert found == expected
