"""Raft (guest/include/nanopu/raft.h) over a network that loses, delays, repeats and overtakes.

The same header that the program has is compiled for this host. The safety properties are those of
Figure 3 in Ongaro and Ousterhout, "In search of an understandable consensus algorithm" (2014).
"""

import ctypes
import functools
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopu_host import ROOT, compile_for_this_host

FOLLOWER, CANDIDATE, LEADER = range(3)
TIMEOUT, HEARTBEAT = 50, 10
COMMAND_WORDS = 11
ENTRY_WORDS = 12
VOTE_REQUEST, VOTE, APPEND, APPENDED = range(16, 20)

Entry = tuple[int, ...]
"""The term, and the words of the command."""


@functools.cache
def library() -> ctypes.CDLL:
    source = ROOT / "tests" / "nanopu" / "raft.c"
    raft = ctypes.CDLL(str(compile_for_this_host("raft.so", "-shared", "-fPIC", source)))
    word, server = ctypes.c_uint64, ctypes.c_void_p
    raft.server_make.argtypes = [word] * 4
    raft.server_make.restype = server
    raft.server_free.argtypes = [server]
    raft.server_restart.argtypes = raft.server_tick.argtypes = [server, word]
    raft.server_receive.argtypes = [server, ctypes.POINTER(word), word, word]
    raft.server_propose.argtypes = [server, ctypes.POINTER(word), word]
    raft.server_propose.restype = ctypes.c_int64
    raft.server_state.argtypes = [server, ctypes.POINTER(word)]
    raft.server_entry.argtypes = [server, word, ctypes.POINTER(word)]
    return raft


class Server:
    """One server, and what has come out of it since it was last asked."""

    def __init__(self, number: int, servers: int) -> None:
        self.raft = library()
        self.handle = self.raft.server_make(number, servers, TIMEOUT, HEARTBEAT)

    def __del__(self) -> None:
        self.raft.server_free(self.handle)

    def out(self) -> tuple[list[tuple[int, list[int]]], list[int]]:
        """Return messages with their receivers, and indices of entries that were applied."""
        used = ctypes.c_uint64.in_dll(self.raft, "sent_words")
        count = ctypes.c_uint64.in_dll(self.raft, "applied_count")
        words = (ctypes.c_uint64 * used.value).in_dll(self.raft, "sent")[:]
        applied = (ctypes.c_uint64 * count.value).in_dll(self.raft, "applied")[:]
        used.value = count.value = 0
        messages, at = [], 0
        while at < len(words):
            to, length = words[at : at + 2]
            messages.append((to, words[at + 2 : at + 2 + length]))
            at += 2 + length
        return messages, applied

    def receive(self, words: list[int], now: int) -> bool:
        array = (ctypes.c_uint64 * len(words))(*words)
        return bool(self.raft.server_receive(self.handle, array, len(words), now))

    def propose(self, command: list[int], now: int) -> int:
        words = (ctypes.c_uint64 * COMMAND_WORDS)(*command)
        return int(self.raft.server_propose(self.handle, words, now))

    def state(self) -> list[int]:
        """Return role, term, last index and commit index."""
        state = (ctypes.c_uint64 * 4)()
        self.raft.server_state(self.handle, state)
        return state[:]

    def entry(self, index: int) -> Entry:
        words = (ctypes.c_uint64 * ENTRY_WORDS)()
        self.raft.server_entry(self.handle, index, words)
        return tuple(words)

    def log(self) -> list[Entry]:
        return [self.entry(index) for index in range(self.state()[2] + 1)]


@dataclass
class Faults:
    """How bad the network is, and how often servers stop."""

    loss: float = 0
    repetition: float = 0
    longest_delay: int = 1
    stops_a_step: float = 0
    partitions_a_step: float = 0


@dataclass
class Cluster:
    """Servers and the network between them; every step checks what must never be broken."""

    servers: int
    random: Random
    faults: Faults
    now: int = 0
    flying: list[tuple[int, int, int, list[int]]] = field(default_factory=list)
    """Messages: when they arrive, from whom, for whom, their words."""
    stopped: set[int] = field(default_factory=set)
    separate: set[int] = field(default_factory=set)
    """These do not hear of the others."""
    leaders: dict[int, int] = field(default_factory=dict)
    committed: list[Entry] = field(default_factory=lambda: [(0,) * ENTRY_WORDS])
    proposed: dict[int, Entry] = field(default_factory=dict)
    """What was proposed last at an index of a log."""

    def __post_init__(self) -> None:
        self.all = [Server(number, self.servers) for number in range(self.servers)]
        self.applied = [0] * self.servers
        self.library = library()

    def take_out(self, number: int) -> None:
        """Send what a server has sent, and compare what it has applied with what others have."""
        messages, applied = self.all[number].out()
        for to, words in messages:
            assert to != number
            for _ in range(2 if self.random.random() < self.faults.repetition else 1):
                if self.random.random() >= self.faults.loss:
                    at = self.now + self.random.randint(1, self.faults.longest_delay)
                    self.flying.append((at, number, to, words))
        for index in applied:
            assert index == self.applied[number] + 1  # In order, each once.
            self.applied[number] = index
            entry = self.all[number].entry(index)
            if index == len(self.committed):
                self.committed.append(entry)
            # State machine safety: nobody ever applies another entry with this index.
            assert self.committed[index] == entry

    def check_leaders(self) -> None:
        for number, server in enumerate(self.all):
            role, term, *_ = server.state()
            if role == LEADER and number not in self.stopped and term not in self.leaders:
                self.leaders[term] = number
                # Leader completeness: it has all that was committed before.
                assert server.log()[: len(self.committed)] == self.committed
            if role == LEADER:
                assert self.leaders[term] == number  # Election safety: one a term.

    def check_logs(self) -> None:
        """Log matching: entries of one index and term have the same before them."""
        logs = [server.log() for server in self.all]
        for one in logs:
            for other in logs:
                common = min(len(one), len(other))
                same = [at for at in range(common) if one[at][0] == other[at][0]]
                if same:
                    assert one[: same[-1] + 1] == other[: same[-1] + 1]

    def step(self) -> None:
        self.now += 1
        random, faults = self.random, self.faults
        if random.random() < faults.partitions_a_step:
            self.separate = {number for number in range(self.servers) if random.random() < 0.4}
        if random.random() < faults.stops_a_step:
            number = random.randrange(self.servers)
            if number in self.stopped:
                self.start(number)
            else:
                self.stopped.add(number)
        arrived = [message for message in self.flying if message[0] <= self.now]
        self.flying = [message for message in self.flying if message[0] > self.now]
        random.shuffle(arrived)
        for _, sender, to, words in arrived:
            if to not in self.stopped and (sender in self.separate) == (to in self.separate):
                assert self.all[to].receive(words, self.now)
                self.take_out(to)
        for number, server in enumerate(self.all):
            if number not in self.stopped:
                self.library.server_tick(server.handle, self.now)
                self.take_out(number)
        self.check_leaders()

    def start(self, number: int) -> None:
        """Start a server again with what survives: its term, its vote and its log."""
        self.stopped.discard(number)
        self.applied[number] = 0
        self.library.server_restart(self.all[number].handle, self.now)

    def propose(self, number: int, command: list[int]) -> int:
        index = self.all[number].propose(command, self.now)
        self.take_out(number)
        return index

    def leader(self) -> int:
        """Return the running leader of the highest term."""
        states = [
            (*server.state()[1::-1], number)
            for number, server in enumerate(self.all)
            if number not in self.stopped and server.state()[0] == LEADER
        ]
        return max(states)[2] if states else -1


def command(number: int) -> list[int]:
    return [1, number, *range(9)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    servers=st.sampled_from([1, 2, 3, 3, 3, 5]),
    faults=st.builds(
        Faults,
        loss=st.sampled_from([0, 0.05, 0.3]),
        repetition=st.sampled_from([0, 0.2]),
        longest_delay=st.sampled_from([1, 5, 40]),
        stops_a_step=st.sampled_from([0, 0.002, 0.02]),
        partitions_a_step=st.sampled_from([0, 0.005, 0.02]),
    ),
)
def test_nothing_that_was_committed_is_lost(seed: int, servers: int, faults: Faults) -> None:
    """What must always hold does; and when the faults end, all servers come to the same."""
    random = Random(seed)
    cluster = Cluster(servers, random, faults)
    number = 0
    for _ in range(800):
        cluster.step()
        if random.random() < 0.2:
            number += 1  # Often to a server that is not the leader, or not any more.
            running = [each for each in range(servers) if each not in cluster.stopped]
            if running:
                cluster.propose(random.choice(running), command(number))
    cluster.check_logs()

    cluster.faults = Faults()
    cluster.separate = set()
    for each in list(cluster.stopped):
        cluster.start(each)
    for _ in range(20 * TIMEOUT):
        cluster.step()
    leader = cluster.leader()
    assert leader >= 0
    index = cluster.propose(leader, command(12345))
    assert index > 0
    for _ in range(5 * HEARTBEAT):
        cluster.step()
    assert cluster.committed[index][1:] == tuple(command(12345))
    assert cluster.applied == [index] * servers
    cluster.check_logs()


def quiet(servers: int) -> tuple[Cluster, int]:
    """Return a cluster without faults that has its first leader, and the leader."""
    cluster = Cluster(servers, Random(1), Faults())
    while cluster.leader() < 0:
        cluster.step()
        assert cluster.now <= 4 * TIMEOUT
    return cluster, cluster.leader()


def test_a_write_takes_one_round_trip_to_be_committed() -> None:
    """The leader commits with the first answer; followers learn of it with the next message."""
    cluster, leader = quiet(3)
    for _ in range(2):
        cluster.step()  # The empty command of its term is committed.
    index = cluster.propose(leader, command(1))
    begin = cluster.now
    while cluster.applied[leader] < index:
        cluster.step()
    assert cluster.now - begin == 2
    assert max(cluster.applied[:leader] + cluster.applied[leader + 1 :]) < index
    for _ in range(HEARTBEAT + 2):
        cluster.step()
    assert cluster.applied == [index] * 3


def test_a_stopped_leader_is_replaced_and_no_committed_write_is_lost() -> None:
    """Writes that were committed under the first leader are there under the next ones."""
    cluster, leader = quiet(3)
    for number in range(10):
        cluster.propose(leader, command(number))
    for _ in range(4):
        cluster.step()
    committed = cluster.committed[: cluster.applied[leader] + 1]
    assert len(committed) == 1 + 1 + 10
    cluster.stopped.add(leader)
    cluster.step()  # The dead leader's state says that it leads still; nobody hears it.
    stopped_at = cluster.now
    while cluster.leader() < 0:
        cluster.step()
    # Between one and two timeouts after its last message, and once more if they were split.
    assert TIMEOUT - HEARTBEAT <= cluster.now - stopped_at <= 4 * TIMEOUT
    second = cluster.leader()
    index = cluster.propose(second, command(99))
    for _ in range(6):  # Its first messages may overtake each other, and are asked for again.
        cluster.step()
    assert cluster.applied[second] == index
    assert cluster.committed[: len(committed)] == committed
    # Two of three have stopped: nothing is committed any more.
    third = 3 - leader - second
    cluster.stopped.add(third)
    for _ in range(4 * TIMEOUT):
        cluster.propose(second, command(100))
        cluster.step()
    assert len(cluster.committed) == index + 1


def test_a_follower_that_was_away_catches_up() -> None:
    """More entries than fit into one message, and some of its own that nobody else has."""
    cluster, leader = quiet(3)
    for _ in range(3):
        cluster.step()
    cluster.separate = {leader}
    for number in range(5):
        cluster.propose(leader, command(number))  # To be given up.
    for _ in range(4 * TIMEOUT):
        cluster.step()
    second = next(
        number for number in range(3) if number != leader and cluster.all[number].state()[0] == 2
    )
    for number in range(100):
        cluster.propose(second, command(1000 + number))
    for _ in range(10):
        cluster.step()
    cluster.separate = set()
    for _ in range(4 * TIMEOUT):
        cluster.step()
    assert cluster.applied[leader] == len(cluster.committed) - 1 > 100
    written = [entry[2] for entry in cluster.committed if entry[1]]
    assert written == [1000 + number for number in range(100)]


def test_entries_of_older_terms_are_committed_with_one_of_the_leaders_own() -> None:
    """Figure 8 of the Raft paper: that most servers have an older leader's entry is not enough."""
    server = Server(0, 3)
    assert server.receive([APPEND, 1, 2, 0, 0, 0, 1, 2, *command(7)], 1)
    assert server.state() == [FOLLOWER, 2, 1, 0]
    library().server_tick(server.handle, 1 + 2 * TIMEOUT)
    assert server.receive([VOTE, 2, 3, 1], 2 * TIMEOUT)
    assert server.state() == [LEADER, 3, 2, 0]  # With an empty command of term 3 at index 2.
    assert server.receive([APPENDED, 2, 3, 1, 1], 2 * TIMEOUT)
    assert server.state()[3] == 0
    assert server.receive([APPENDED, 2, 3, 1, 2], 2 * TIMEOUT)
    assert server.state()[3] == 2
    assert server.out()[1] == [1, 2]


def test_a_full_log_takes_no_more() -> None:
    cluster, leader = quiet(1)
    indices = [cluster.propose(leader, command(number)) for number in range(400)]
    assert indices == [*range(2, 401), -1]
    assert cluster.applied == [400]


@pytest.mark.parametrize(
    "words",
    [
        [],
        [VOTE_REQUEST, 1, 1],
        [VOTE_REQUEST, 0, 1, 0, 0],  # From itself.
        [VOTE_REQUEST, 3, 1, 0, 0],  # From nobody.
        [VOTE, 1, 1],
        [APPEND, 1, 1, 0, 0, 0, 1],
        [APPEND, 1, 1, 0, 0, 0, 2**63],
        [APPEND, 1, 1, 2**63, 0, 0, 0],
        [APPEND, 1, 1, 400, 0, 0, 1, *range(ENTRY_WORDS)],
        [APPENDED, 1, 1, 0],
        [99, 1, 1, 0, 0],
    ],
)
def test_what_is_no_message_changes_nothing(words: list[int]) -> None:
    server = Server(0, 3)
    before = server.state()
    assert not server.receive(words, 1)
    assert server.state() == before
    assert server.out() == ([], [])
