"""The types of results, as the simulator declares them; written by `make docs`."""

from typing import NotRequired, TypedDict


class LatencySummary(TypedDict):
    """Latencies in nanoseconds. Percentiles are exact order statistics of the samples."""

    max: float
    """The longest."""
    mean: float
    """Mean."""
    mean_ci95: list[float] | None
    """95 % confidence interval of the mean, by means of batches of whole rounds over the queues;
    `None` with less than 60 samples, or less than five rounds.
    """
    p50: float
    """Half of the requests take at most this."""
    p50_ci95: list[float] | None
    """95 % confidence interval of `p50`."""
    p90: float
    """90 % of the requests take at most this."""
    p90_ci95: list[float] | None
    """95 % confidence interval of `p90`."""
    p99: float
    """99 % of the requests take at most this."""
    p999: float
    """99.9 % of the requests take at most this."""
    p999_ci95: list[float] | None
    """95 % confidence interval of `p999`."""
    p99_ci95: list[float] | None
    """95 % confidence interval of `p99`."""
    samples: int
    """How many requests were measured."""


class KindMeasurement(TypedDict):
    """The requests of one kind, or of some queues."""

    histogram: str
    """An HdrHistogram of the latencies in nanoseconds: V2, compressed, in base64."""
    latency_ns: LatencySummary
    """From an item's arrival in its queue to the ring of the tenant's doorbell."""
    service_histogram: str | None
    """A histogram of the times of `service_ns`, in the form of `histogram`."""
    service_ns: LatencySummary | None
    """How long harts worked on the requests; `None` if no take was seen."""
    throughput_mrps: float
    """Requests of the kind that completed in the measured time, in millions a second."""


class CycleStack(TypedDict):
    """A hart's cycles by what held up dispatch in them; their sum is the core's cycles. (A stack at
    dispatch, as in Eyerman et al., "Multi-Stage CPI Stacks", 2018.) That of a core is the sum over
    its harts.
    """

    base: int
    """Cycles in which instructions were dispatched that were not undone."""
    branch: int
    """Wrong predictions: from the dispatch of the branch, if it had to wait for an operand, or from
    its execution, to the first instruction of the right path.
    """
    execution: int
    """The reorder buffer, the scheduler, the load queue, or in order an operand, waited for
    instructions that were being executed.
    """
    halted: int
    """The hart had halted of its own will."""
    instruction_cache: int
    """Instructions that had to be fetched from outside the core."""
    l2: int
    """Instructions waited for a line that was in the core's second-level cache."""
    last_level: int
    """Instructions waited for a line that was in the last-level cache."""
    memory: int
    """Instructions waited for a line that was in memory."""
    memory_order: int
    """Loads that had to be done again."""
    other_hart: NotRequired[int]
    """The core's other harts took the whole width, or had all entries of the reorder buffer or of a
    queue. Cores with one hart do not show it.
    """
    remote_cache: int
    """Instructions waited for a line that was in another private cache."""
    serial: int
    """Instructions that are executed alone, and the wait for those before them."""
    store_buffer: int
    """The store queue was full, or an atomic had to be performed first."""


class CoreHartResult(TypedDict):
    """The part of one of a core's harts."""

    branches: int
    """Conditional branches and indirect jumps."""
    data_hits: int
    """Loads that found their line."""
    data_misses: int
    """Loads that did not find their line."""
    halted_cycles: int
    """Cycles in which it had halted of its own will."""
    hart: int
    """The number of the hart."""
    instructions: int
    """Instructions, without those that were undone."""
    ipc: float
    """Instructions in a cycle, in the time in which `energy_nj` was spent."""
    mispredictions: int
    """Branches that were predicted wrongly."""
    squashed_instructions: int
    """Instructions that were executed on a wrong path or had to be done again."""
    stack: CycleStack
    """Where its cycles went."""


class PrefetchStatistics(TypedDict):
    """What a prefetcher has done."""

    issued: int
    """Lines that the prefetcher has asked for."""
    late: int
    """Prefetched lines that were still on their way when they were needed."""
    polluting: int
    """Misses of lines that a prefetched line had replaced, and whose place no other line had taken
    since.
    """
    unused: int
    """Prefetched lines that were never needed before another line took their place."""
    useful: int
    """Prefetched lines that had come when they were needed."""


class Operations(TypedDict):
    """Operations that were issued and not undone before that, by their execution units; those of
    the integer, load and store units are told by the other counts.
    """

    divisions: int
    """Divisions of integers, with and without remainder."""
    float_additions: int
    """Additions of floating-point numbers; also comparisons, conversions and moves."""
    float_divisions: int
    """Divisions of floating-point numbers; also square roots."""
    float_multiplications: int
    """Multiplications of floating-point numbers, alone and fused with an addition."""
    multiplications: int
    """Multiplications of integers."""


class SoftwarePrefetchStatistics(TypedDict):
    """What prefetch instructions ("Zicbop") have done. One that is in no count but the first has
    found its line in the cache or on its way.
    """

    dropped: int
    """Instructions that have found no miss register, no memory, or no page that allows the access.
    """
    executed: int
    """Instructions that have issued, those on a wrong path among them."""
    issued: int
    """Lines that they have asked for."""
    late: int
    """Lines that were still on their way when they were needed."""
    unused: int
    """Lines that were never needed before another line took their place."""
    useful: int
    """Lines that had come when they were needed."""


class TranslationStatistics(TypedDict):
    """Counts of address translation."""

    l1_data_tlb_hits: int
    """Loads, stores and atomics that the first-level TLB had the page of."""
    l1_data_tlb_misses: int
    """Loads, stores and atomics that the first-level TLB did not have the page of. Those that
    joined a page walk under way are not among them.
    """
    l1_instruction_tlb_hits: int
    """Instruction fetches that the first-level TLB had the page of. A fetch is of what is decoded
    at once: up to a jump or a branch, or to the end of a line.
    """
    l1_instruction_tlb_misses: int
    """Instruction fetches that the first-level TLB did not have the page of."""
    l2_tlb_hits: int
    """Misses of both first-level TLBs that the second-level TLB had the page of."""
    l2_tlb_misses: int
    """Misses of both first-level TLBs that the second-level TLB had not either: the page walks."""
    page_faults: int
    """Page faults that harts have taken."""
    page_walk_cycles: int
    """Cycles of page walks, of each from its beginning to its end."""
    page_walk_loads: int
    """Page-table entries that page walks have read."""
    structure_cache_fills: int
    """Entries that page walks have put into these caches."""
    structure_cache_hits: int
    """Page walks that have begun below the first table, because the caches of the upper levels had
    the entry that leads there.
    """


class CoreResult(TypedDict):
    """One core's part of the results."""

    branches: int
    """Conditional branches and indirect jumps."""
    c1_cycles: int
    """Cycles in C1, in which the core's clock stands still."""
    cycles: int
    """Cycles, halted ones included."""
    data_hits: int
    """Loads that found their line."""
    data_misses: int
    """Loads that did not find their line."""
    forwarded_loads: int
    """Loads that took the value of an older store."""
    halted_cycles: int
    """Cycles in which the hart had halted of its own will: `QWAIT`, `WFI`, `WRS`."""
    harts: NotRequired[list[CoreHartResult]]
    """The harts of the core, if there are several."""
    instruction_hits: int
    """Fetches, each up to a jump or a line's end, whose line was in the first-level instruction
    cache.
    """
    instruction_misses: int
    """Blocks whose line had to be fetched first."""
    instructions: int
    """Instructions, without those that were undone."""
    ipc: float
    """Instructions in a cycle, in the time in which `energy_nj` was spent."""
    l1_instruction_prefetches: NotRequired[PrefetchStatistics]
    """What the prefetcher of the first-level instruction cache has done, if it has done anything.
    """
    l1_prefetches: NotRequired[PrefetchStatistics]
    """What the prefetcher of the first-level data cache has done, if it has done anything."""
    l2_hits: int
    """Misses of both first-level caches for which the second-level cache had the line."""
    l2_misses: int
    """Misses of both first-level caches for which the line's home had to be asked."""
    l2_prefetches: NotRequired[PrefetchStatistics]
    """What the prefetcher of the second-level cache has done, if it has done anything."""
    last_level_hits: int
    """Requests of the core's caches, those of its prefetchers among them, that the last-level cache
    served: it had the line, or gave the permission to write it.
    """
    last_level_misses: int
    """Requests of the core's caches and prefetchers whose line had to come from memory."""
    lines_evicted: int
    """Lines that left the first-level data cache to make room."""
    lines_filled: int
    """Lines that came into the first-level data cache."""
    lines_sent: int
    """Snoops of a line that the core owned and sent, and did not only give up."""
    memory_order_squashes: int
    """Loads undone because another core wrote their line before they could have been done in order,
    or because an older store proved to be to the same address.
    """
    mispredictions: int
    """Branches that were predicted wrongly."""
    operations: Operations
    """Operations of the rarer execution units."""
    remote_cache_hits: int
    """Requests of the core's caches and prefetchers whose line came from the private cache that
    owned it.
    """
    snoops: int
    """Times that the fabric asked for a line of the data cache, or of the second level if there is
    one.
    """
    software_prefetches: NotRequired[SoftwarePrefetchStatistics]
    """What prefetch instructions have done, if there were any."""
    squashed_instructions: int
    """Instructions that were executed on a wrong path or had to be done again."""
    stack: CycleStack
    """Where the cycles went."""
    stores: int
    """Stores and atomics performed."""
    translation: NotRequired[TranslationStatistics]
    """What the translation of addresses has cost, if it has missed anything."""


class OffloadStatistics(TypedDict):
    """Regions on their way to the network interface, and packets of which it has told."""

    code_bytes: int
    """Bytes of their code, with the values of registers."""
    instructions_failed: int
    """Instructions of these regions that are left out of the code, because nothing provides their
    operands, or because they close a loop without an end.
    """
    instructions_sent: int
    """Instructions of these regions."""
    packets_begun: int
    """How often a hart has begun to load such a packet."""
    packets_told: int
    """Packets of which the interface has told what user routines returned."""
    regions_sent: int
    """Regions that were sent."""
    regions_too_large: int
    """Regions that were not sent, because their code is too large."""
    regions_without_register: int
    """Regions that were not sent, because they use all registers."""


class CriticalRegionStatistics(TypedDict):
    """What has been identified on all cores."""

    alu: float | None
    """Arithmetic, as part of the instructions of distinct regions."""
    argument_registers: int
    """Registers with which regions begin, of all distinct regions: arguments."""
    computed_registers: int
    """Which of these registers user routines compute for each packet (READY-DYN)."""
    coverage: float | None
    """Loads that missed the second-level cache and were in the last region of their core, as part
    of those that missed since the first region; `None` if there were none.
    """
    data_registers: int
    """Likewise: addresses of global and of thread-local data."""
    dependent_loads: float | None
    """Loads whose address depends on another load of the region, as part of the instructions."""
    epochs: int
    """Epochs that have ended, of all cores."""
    evictions: int
    """Entries of the context instruction cache that made room for others."""
    independent_loads: float | None
    """Loads whose address depends on no other load of the region, as part of the instructions."""
    instructions_per_region: float | None
    """The mean number of instructions of distinct regions."""
    misses: int
    """Loads that missed the second-level cache."""
    offload: NotRequired[OffloadStatistics]
    """What has gone to the network interface and come from it, if regions are executed there."""
    other: float | None
    """Control flow and copies of registers, as part of the instructions."""
    ready_coverage: float | None
    """Likewise, of the loads that were ready at the end of the last epoch: the coverage if the
    values of all registers were known.
    """
    ready_instructions: float | None
    """The mean number of ready instructions at the end of an epoch."""
    region_executions: list[int]
    """How often harts executed the first instruction of each distinct region while it was the last
    of their core; in the same order.
    """
    region_instructions: list[int]
    """Instructions of each distinct region, that which was executed most often first."""
    regions: int
    """Distinct regions: those with different instructions."""
    result_registers: int
    """Likewise: results of the instructions that begin chains."""
    right_values: int
    """Predicted values of the last region's registers that were right, each time that a hart
    executed the region's instruction that reads the register as a root, or makes it as a result.
    """
    stack_registers: int
    """Likewise: addresses of the stack and of frames."""
    storage_bytes: int
    """Bytes of the structures beside each core."""
    wrong_values: int
    """Predicted values that were wrong then."""


class Drift(TypedDict):
    """How a quantity has changed from the beginning to the end of what was measured: a straight
    line through its course.
    """

    change: float
    """By how much it has grown, as a part of its mean."""
    error: float
    """By how much `change` may differ from that of the process of which this is a sample: it does
    not by more on either side with a probability of 99.9 %.
    """


class Drifts(TypedDict):
    """What may change with time in the measured part."""

    latency: Drift
    """Latency, in the order in which requests completed."""
    under_way: Drift
    """How many requests were under way when each of them came, itself included."""


class Split(TypedDict):
    """Energy in nanojoules, or power in watts."""

    dynamic: float
    """For what happened, and for clocks."""
    static: float
    """Leakage, and what is drawn whether anything happens or not."""


class CoreEnergy(TypedDict):
    """A core's part."""

    float_units: Split
    """Floating-point units."""
    front_end: Split
    """Branch prediction, instruction buffer, decoder."""
    integer_units: Split
    """Integer units."""
    l1_data: Split
    """The first-level data cache."""
    l1_instruction: Split
    """The first-level instruction cache."""
    l2: Split
    """The second-level cache; nothing, if there is none."""
    load_store_queue: Split
    """The queues of loads and stores."""
    pipeline: Split
    """Pipeline registers and their clock, and what is left."""
    prefetchers: NotRequired[Split]
    """Tables of prefetchers, and their look-ups in the caches, if there are any."""
    registers: Split
    """Registers and the bypass network."""
    total: float
    """All of it."""
    translation: NotRequired[Split]
    """TLBs, and what page walks read of the data cache, if there is address translation."""
    window: Split
    """Renaming, reorder buffer, scheduler. Nothing in an in-order core."""


class Energy(TypedDict):
    """What the work of a server has cost, in nanojoules; or its mean power, in watts."""

    cores: list[CoreEnergy]
    """The cores that the result shows."""
    directory: Split
    """The directory."""
    dram: Split
    """Accesses to the memory chips, without their background power; nothing, if the commands of
    DRAM are modelled.
    """
    dram_activate: NotRequired[Split]
    """Activates and precharges, if the commands of DRAM are modelled."""
    dram_background: NotRequired[Split]
    """Standby of the memory chips, and what they draw more while a row is open."""
    dram_read: NotRequired[Split]
    """Lines read by commands of DRAM."""
    dram_refresh: NotRequired[Split]
    """Refreshes: one in each tREFI for each rank, whatever else happens."""
    dram_write: NotRequired[Split]
    """Lines written by commands of DRAM."""
    dynamic: float
    """For what happened, and for clocks."""
    interface_cores: NotRequired[Split]
    """The cores of a programmable network interface, with their caches and scratchpad."""
    last_level: Split
    """The banks of the last-level cache."""
    memory_controllers: Split
    """Memory controllers and their pins."""
    mesh: Split
    """Routers and links."""
    monitoring_set: NotRequired[Split]
    """HyperPlane's monitoring set."""
    network_port: NotRequired[Split]
    """The port of the network interface: media access control, coding and transceiver."""
    pci_express: NotRequired[Split]
    """PCI Express, with the controllers of both ends, and the IOTLB of an IOMMU."""
    ready_set: NotRequired[Split]
    """HyperPlane's ready set."""
    socket_link: Split
    """The link between two sockets; nothing, if there is one."""
    static: float
    """Leakage, and what is drawn whether anything happens or not."""
    total: float
    """All of it."""
    user_interrupts: NotRequired[Split]
    """User-level interrupts: the harts' registers, the routes of devices' interrupts, notices."""


class EnergyResult(Energy):
    """What a run has cost, in nanojoules."""

    per_request: NotRequired[float]
    """For each request that was delivered in that time, those of the warm-up included; absent if
    there were none.
    """
    seconds: float
    """The time in which that was spent: from the beginning of the traffic, if there is any, or from
    the end of the warm start, to the end.
    """


class DramStatistics(TypedDict):
    """Commands and row outcomes of all DRAM channels, each up to its last request."""

    activates: int
    """Activate commands."""
    forwarded_reads: int
    """Reads answered from the write queue."""
    merged_writes: int
    """Writes merged with a waiting write of the same line."""
    precharges: int
    """Rows closed: by a precharge, or by the precharge of all banks before a refresh."""
    reads: int
    """Read commands."""
    refreshes: int
    """Refresh commands, each to one rank."""
    row_conflicts: int
    """Reads and writes whose bank had another row open, which was closed first."""
    row_hits: int
    """Reads and writes that found their row open."""
    row_misses: int
    """Reads and writes whose bank had no open row."""
    row_open_fs: int
    """Time in which ranks had a row open, summed over the ranks, in femtoseconds."""
    writes: int
    """Write commands."""


class MemoryCacheStatistics(TypedDict):
    """What the caches in front of memory have done."""

    hits: int
    """Reads and writes of lines whose block was there, or on its way."""
    misses: int
    """Reads and writes of lines whose block was not."""
    writebacks: int
    """Blocks that had been written and went back to memory to make room."""


class FabricStatistics(TypedDict):
    """What has happened on the fabric so far."""

    agent_requests: int
    """Requests of cores to agents."""
    bank_accesses: int
    """Messages and requests that the banks of the last-level cache have looked up in the directory.
    """
    bank_line_reads: int
    """Lines that the banks read out, to send or to write them to memory."""
    bank_line_writes: int
    """Lines, or parts of lines, that the banks were brought and took up."""
    bank_queueing_fs: int
    """Time that messages queued at a bank, in femtoseconds."""
    dram: NotRequired[DramStatistics]
    """The commands of all channels, with `server.fabric.memory.dram`."""
    events: int
    """Events processed."""
    forwards: int
    """Requests that were forwarded to the owner of the line."""
    interrupts: int
    """Interrupt lines changed."""
    invalidations: int
    """Invalidates sent."""
    last_level_evictions: int
    """Lines that left the last-level cache to make room."""
    last_level_hits: int
    """Requests for lines that were in the last-level cache, or that a private cache owned or
    another request was being served for.
    """
    last_level_misses: int
    """Requests for lines that had to come from memory."""
    last_level_prefetches: NotRequired[PrefetchStatistics]
    """What the prefetcher of the last-level cache has done, with
    `server.fabric.last_level.prefetcher`.
    """
    lengthened_deliveries: int
    """Answers and interrupts over wires of their own that were asked for sooner than the shortest
    latency of a delivery, and came then.
    """
    memory_cache: NotRequired[MemoryCacheStatistics]
    """What the caches in front of memory have done, with `server.fabric.memory.cache`."""
    memory_queueing_fs: int
    """Time that reads and writes waited for a memory channel, in femtoseconds; with
    `server.fabric.memory.dram`, that reads waited for their read command.
    """
    memory_reads: int
    """Lines read from memory."""
    memory_writes: int
    """Lines written to memory."""
    mesh_hop_cycles: int
    """Links passed by flits; a flit takes a link for a cycle."""
    mesh_hops: int
    """Links passed by messages."""
    mesh_messages: int
    """Messages between units, on one tile or between tiles."""
    mesh_queueing_fs: int
    """Time that messages waited for links, in femtoseconds."""
    ownership_grants: int
    """Grants of E or M."""
    puts: int
    """Lines that owners gave up to make room."""
    reads_at_home: int
    """Lines read at home by agents."""
    recalls: int
    """Lines that had to leave private caches to make room in the directory, which is in the tags of
    an inclusive last-level cache.
    """
    refused_requests: int
    """Requests of cores to addresses of nobody."""
    requests: int
    """GetS and GetM from private caches."""
    socket_link_bytes: int
    """Bytes that have crossed the link between two sockets."""
    socket_link_messages: int
    """Messages that have crossed the link between two sockets."""
    socket_link_queueing_fs: int
    """Time that messages waited for the link between two sockets, in femtoseconds."""
    transfers: int
    """Lines sent from one private cache to another."""
    writes_at_home: int
    """Writes of agents at home."""


class HyperPlaneStatistics(TypedDict):
    """What HyperPlane has counted."""

    activations_by_grant: int
    """Queues activated because ownership of their armed doorbell was granted."""
    activations_by_reconsider: int
    """Queues activated because they were not empty when they were to be armed."""
    armed: int
    """Queues armed."""
    arms: int
    """Doorbells armed."""
    conflicts: int
    """`QWAIT.ADD`s that met a conflict in the monitoring set."""
    halted_fs: int
    """Time that harts were halted for want of a ready queue, summed over harts."""
    halts: int
    """`QWAIT`s that found no queue ready and halted their hart."""
    look_ups: int
    """Look-ups in the monitoring set: for grants of ownership in the doorbells' range, and to arm,
    add and remove.
    """
    monitored: int
    """Queues monitored."""
    not_ready: int
    """Non-blocking `QWAIT`s that found no queue ready."""
    offers_returned: int
    """Queues that were offered to the other socket, where no hart waited any more."""
    power_ups: int
    """Harts woken out of C1."""
    selecting_fs: int
    """How long the ready sets' arbiters have been selecting, summed over ready sets."""
    selections_waited_fs: int
    """How long selections have waited for those before them."""
    spurious_wake_ups: int
    """QIDs returned whose queue `QWAIT.VERIFY` found empty."""
    steals: int
    """Of the `QWAIT`s answered with a QID, those that have got a queue of the other socket's ready
    set.
    """
    wake_ups: int
    """`QWAIT`s answered with a QID."""


class QueueResults(TypedDict):
    """What became of each queue's items: lists with an element for each queue."""

    delivered: list[int]
    """Items that the tenant has taken."""
    dropped: list[int]
    """Items that found the queue full."""
    generated: list[int]
    """Items that arrived at the I/O source."""
    mean_latency_ns: list[float | None]
    """The mean latency of the measured requests; `None` without any."""
    p99_latency_ns: list[float | None]
    """The 99th percentile of the latencies of the measured requests; `None` without any."""
    refused: list[int]
    """Items that found the queue closed."""
    samples: list[int]
    """How many of the measured requests were in the queue."""


class BackendStatistics(TypedDict):
    """What backends have counted."""

    dispatched: int
    """Messages given to cores."""
    faults: int
    """Blocks of one-sided operations that a node has refused: it has no such context, or they are
    not in its segment.
    """
    longest_queue: int
    """The most messages that have waited in one shared queue."""
    max_outstanding: int
    """The most messages that a core has had at one time."""
    messages_received: int
    """Complete messages received."""
    messages_sent: int
    """Messages sent."""
    one_sided: int
    """One-sided reads and writes of this server's cores."""
    packets_received: int
    """Packets of messages from the network."""
    packets_sent: int
    """Packets to the network."""
    queued_fs: int
    """From a message's end at its backend to its dispatch, summed, in femtoseconds: what it waited
    for a core, and the latency of the dispatcher.
    """
    refused: int
    """Packets of messages that were not taken: their slot was in use, or they did not fit."""
    refused_one_sided: int
    """Blocks that a node wanted to read or write, and that are in no segment of the context that it
    named.
    """
    replenished: int
    """Replenishes of cores."""
    unexpected_replenishes: int
    """Replenishes of slots without a message, which were ignored."""
    unhindered: int
    """Messages that found a core available."""
    unhindered_fs: int
    """From the notice of a message that found a core available to its dispatch, summed, in
    femtoseconds.
    """


class ClusterStatistics(TypedDict):
    """What the cluster has counted."""

    duplicated: int
    """Packets that came twice, and were dropped once."""
    faults_of_nodes: int
    """Blocks of the nodes' memories that the server's cores could not read or write."""
    faults_of_reads: int
    """Blocks that the server would not let a node read."""
    lost: int
    """Packets lost, and sent again."""
    max_slots_in_use: int
    """The most slots of one node that have been in use."""
    messages: int
    """Messages sent to the server."""
    packets: int
    """Blocks of messages sent to the server."""
    refused: int
    """Messages that the server refused."""
    reordered: int
    """Packets that came late."""
    replies: int
    """Replies that came back."""
    unexpected_replenishes: int
    """Replenishes of slots that were free."""
    unexpected_replies: int
    """Replies that belong to no message of their node."""
    violations: int
    """Messages that were sent into a slot in use, or were too large, on purpose."""
    waited_fs: int
    """How long messages have waited for a slot, in femtoseconds."""
    waits: int
    """Messages that found all slots of their node in use, and waited."""


class DomainStatistics(TypedDict):
    """A messaging domain's part of the results."""

    bytes: int
    """Bytes of the domain's send and receive slots, as they are in memory."""
    context: int
    """The number of the domain's context."""
    cores: int
    """How many cores the domain has."""
    delivered: int
    """Requests that have been served."""
    dropped: int
    """Requests that found too many waiting at their node."""
    first_core: int
    """The first core of the domain."""
    generated: int
    """Requests of the domain's nodes."""
    max_message_bytes: int
    """Bytes of the largest message."""
    measured: KindMeasurement | None
    """Throughput, latencies and service times of the domain's measured requests; `None` without
    any.
    """
    nodes: int
    """Nodes of the domain."""
    slots: int
    """Slots of each node."""


class RpcValetStatistics(TypedDict):
    """What the network interface and the cluster have counted."""

    backends: BackendStatistics
    """What the backends have counted, all together."""
    cluster: ClusterStatistics
    """What the cluster has counted."""
    completion_queue_entries: int
    """Entries that the frontends have written into the cores' completion queues."""
    domain_bytes: int
    """Bytes of the messaging domains' send and receive slots, as they are in memory."""
    domain_state_bits: int
    """Bits that each part of the network interface keeps of a domain: where both buffers are, the
    numbers of nodes and slots, and the largest message.
    """
    domains: list[DomainStatistics]
    """What each messaging domain has got."""
    work_queue_entries: int
    """Entries that the frontends have taken off the cores' work queues."""


class SourceResults(TypedDict):
    """What was measured of cores that are the sources of the traffic."""

    cores: int
    """How many cores they are."""
    mean_entering_ns: float
    """How long an item takes from its arrival until it is in its queue, where its latency begins:
    the mean of the measured requests.
    """
    p99_entering_ns: float
    """The 99th percentile of these times."""
    waiting: int
    """Items that have arrived, at the end of the run, and wait until their core has the time to
    take them.
    """


class TraceReport(TypedDict):
    """What has become of one file."""

    entries: int
    """What the file has: events of a timeline, instructions of a pipeline, cycles of a profile."""
    error: str | None
    """Why the file is not complete; `None` if it is."""
    path: str
    """The path of the file."""


class UserInterruptStatistics(TypedDict):
    """What has happened to the interrupts of all harts."""

    delivered: int
    """Deliveries."""
    forwarded: int
    """Interrupts of devices that went straight to a hart."""
    notifications: int
    """Notifications that came to a hart."""
    posted: int
    """Interrupts of devices that were posted in a descriptor."""
    redelivered: int
    """Deliveries that were on a wrong path, and came again."""
    sent: int
    """`senduipi` that were executed."""
    spurious: int
    """Notifications of a descriptor in which there was nothing, so that nothing was delivered."""
    timers: int
    """Timers that expired."""
    unrouted: int
    """Interrupts of devices that had nowhere to go."""


class Measurement(TypedDict):
    """What was measured in a run."""

    cold_samples: int
    """How many of the measured requests were in a slot of their queue's ring in which there had
    been none before, that is, in memory that no cache had. Only the rings of I/O sources count.
    """
    drift: Drifts | None
    """How latency and the number of requests under way have changed with time; `None` with less
    than 60 samples, or of several recorders together.
    """
    histogram: str
    """An HdrHistogram of the latencies in nanoseconds, with four digits (1 ns up to 32 us), as in
    HdrHistogram's log files: V2, compressed, in base64.
    """
    keeps_up: bool
    """Whether the system serves what it is offered: nothing is said in `overload`. Not of one that
    is offered more than it can take on purpose.
    """
    latency_ns: LatencySummary
    """From an item's arrival in its queue to the ring of the tenant's doorbell."""
    offered_mrps: float | None
    """Requests that came, those that were dropped included, in millions a second: from the first to
    the last of those that were measured. `None` if they came all at once.
    """
    overload: list[str]
    """Why the system does not keep up, a sentence each: requests were lost, fewer were served than
    came, or they are under way for longer and longer.
    """
    precise: bool
    """Whether the 95 % confidence interval is as narrow as `measure.precision` asks: that of the
    throughput of a saturated data plane, and otherwise that of the p99; true if it asks for
    nothing. If not, it takes more than `measure.requests`, or the run was not steady.
    """
    service_histogram: str | None
    """A histogram of the times of `service_ns`, in the form of `histogram`."""
    service_ns: LatencySummary | None
    """How long harts worked on the requests: from the take of an item, when it is counted off its
    queue, to the ring of the tenant's doorbell; for the later ones of a batch, from the ring
    before. `None` if no take was seen.
    """
    steady: bool
    """Whether the rule for the warm-up found its end, and neither latency nor the number of
    requests under way drifts behind it. If not, the run was too short, or the system does not
    settle: what was measured may still change with time. If the rule found no end, only the last
    `requests` are measured. Drift means nothing where rings are kept full: latencies say how long
    these are.
    """
    throughput_mrps: float
    """Requests that completed in the measured time, in millions a second."""
    throughput_mrps_ci95: list[float] | None
    """95 % confidence interval of `throughput_mrps`, by means of batches of the times between
    completions; `None` with less than 61 samples, or less than five rounds over the queues.
    """
    warmup_samples: int
    """How many requests at the beginning are left out."""


class DataPlaneResult(Measurement):
    """What was measured of a data plane."""

    by_kind: NotRequired[dict[str, KindMeasurement]]
    """Throughput and latencies of the requests of each kind, by its name, if the program takes
    several kinds.
    """
    captured: list[str]
    """Delivered packets, in hexadecimal, if asked for."""
    delivered: int
    """Items that their tenant has taken; those with errors too."""
    doorbell_conflicts: int
    """Doorbells that were given another address because of a conflict."""
    dropped: int
    """Items that found their queue full."""
    entering: int
    """Items on their way from the source into their queue."""
    errors: int
    """Items delivered with the flag that says that the data plane could not process them."""
    generated: int
    """Items that arrived at the source."""
    inside: int
    """Items in a queue, in the data plane, or in a tenant's queue."""
    program_counters: dict[str, int]
    """What the program has counted, by the names that it gave."""
    queues: QueueResults
    """Where the items of each queue went."""
    refused: int
    """Items that found their queue closed."""
    reordered: int
    """Items delivered before an older item of their queue."""
    sources: NotRequired[SourceResults]
    """What cores do that are the sources of the traffic (`traffic.sources = "cores"`)."""


class RunResult(DataPlaneResult):
    """What came out of a run of a data plane on one server."""

    check: NotRequired[str]
    """What the program's `check_after_run()` printed, which has found nothing wrong; absent if the
    program has no such function.
    """
    cores: list[CoreResult]
    """The cores: of a data plane the cores that run it, otherwise all."""
    critical_region: NotRequired[CriticalRegionStatistics]
    """What has been identified on all cores."""
    cycles: int
    """Cycles of the server's clock."""
    energy_nj: EnergyResult
    """What the cores shown, and what all cores share, have cost, in nanojoules."""
    fabric: FabricStatistics
    """What the fabric counted."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions in a second of processor time, without those that a
    checkpoint has brought. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the thread that has made the run, in seconds: what else the host does is
    not in it.
    """
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. How many depends on how far cores run ahead of each other. Absent
    without cores that have times.
    """
    host_wall_seconds: float
    """Seconds on the wall clock."""
    hyperplane: NotRequired[HyperPlaneStatistics]
    """What HyperPlane has counted."""
    instructions: int
    """Instructions of all cores."""
    output: str
    """What the guest printed."""
    power_w: Energy
    """The mean power in the time of `energy_nj`, in watts."""
    rpcvalet: NotRequired[RpcValetStatistics]
    """What the network interface and the cluster have counted."""
    simulated_seconds: float
    """Simulated time."""
    traces: NotRequired[list[TraceReport]]
    """What has become of the traces that were asked for."""
    user_interrupts: NotRequired[UserInterruptStatistics]
    """What has happened to the interrupts of all harts."""
    version: str
    """Version of the simulator."""


class LinkCounts(TypedDict):
    """What one direction of a link has carried."""

    bytes: int
    """Bytes that were sent."""
    duplicated: int
    """Packets that came twice."""
    lost: int
    """Packets that were lost."""
    packets: int
    """Packets that were sent."""
    reordered: int
    """Packets that came late."""


class ReplyCounts(TypedDict):
    """Replies of a store, by what they say."""

    done: int
    """The store has done what was asked."""
    no_room: int
    """The store is full."""
    not_found: int
    """The store has no such key; a transaction of TPC-C has rolled itself back."""


class UnexpectedMessages(TypedDict):
    """Messages that answer no request, by the first reason that holds."""

    none_waits: int
    """No request waits for an answer."""
    other_port: int
    """A request was sent to that server, but to another port."""
    other_server: int
    """No request that waits for an answer was sent to the server from which the message comes."""
    over: int
    """The request is over: it has been answered, or the transport has given it up."""
    too_short: int
    """The message ends before the two words by which a response is known."""
    wrong_time: int
    """No request was made at the time that is the second word of the message."""


class LoadGeneratorStatistics(TypedDict):
    """What a load generator has counted."""

    given_up: int
    """Requests that the transport has given up."""
    max_under_way: int
    """The largest number of requests that were under way at one time."""
    requests: int
    """Requests made."""
    responses: int
    """Requests answered."""
    unexpected: int
    """Messages that answer no request."""
    unexpected_because: UnexpectedMessages
    """Why messages answer no request."""
    waits: int
    """Requests that found no room in the transport, and waited for it."""


class TransportStatistics(TypedDict):
    """What a transport has counted."""

    control_packets: int
    """Packets sent that are not data."""
    data_packets: int
    """Packets of data sent, for the first time or again."""
    delivered: int
    """Messages that have been delivered."""
    duplicates: int
    """Packets of data that came although they had come before."""
    given_up: int
    """Messages that have been given up."""
    malformed: int
    """Packets that were dropped because they cannot be, or are for somebody else."""
    no_buffer: int
    """Packets of new messages that were dropped because no buffer was free."""
    receiving: int
    """Messages that are being put together now."""
    repeated_packets: int
    """Packets of data sent again."""
    sending: int
    """Messages that are being sent now."""
    sent: int
    """Messages whose receivers have acknowledged all of them."""
    timeouts: int
    """Times in which nothing was heard of a message for so long that something was done about it.
    """
    trimmed: int
    """Packets that came without their payload."""
    waiting: int
    """Messages that have been delivered and wait to be taken."""


class RackClientResult(TypedDict):
    """A client's part of the results."""

    address: str
    """The client's IPv4 address."""
    by_kind: dict[str, KindMeasurement]
    """Throughput and response times of the requests of each kind, by its name."""
    first_given_up: str | None
    """Why the first request was given up, if one was."""
    measurement: Measurement | None
    """Response times, from when a request was made until the host has the response; `None` if there
    was no response.
    """
    name: str
    """The name of the client."""
    received: LinkCounts
    """What the link has carried to the client."""
    replies: NotRequired[ReplyCounts]
    """Replies to operations, by what they say; absent if the client sends none."""
    sent: LinkCounts
    """What the link has carried from the client."""
    statistics: LoadGeneratorStatistics
    """What the client has counted."""
    transport: TransportStatistics
    """What the client's transport has counted."""


class RpcValetInterface(TypedDict):
    """What RPCValet's network interface has counted in a rack."""

    backends: BackendStatistics
    """What the backends have counted, all together."""
    dropped_buffer_full: int
    """Frames for which there was no room in the input buffer."""
    dropped_too_long: int
    """Frames that do not fit into a message."""
    dropped_unexpected: int
    """Frames that are no whole message, or came before the program had started its device."""
    frames_received: int
    """Frames that have come from the network."""
    frames_sent: int
    """Replies sent to the network."""
    link_bytes: int
    """Bytes of frames that have crossed the link, in both directions together."""
    messages: int
    """Frames that were sent to the backends."""
    not_sent: int
    """Replies to nothing, and those that are not what they say."""
    refused: int
    """Messages that a backend has refused."""
    waits: int
    """Frames that have waited for a send slot."""


class NanoPuInterface(TypedDict):
    """What nanoPU's network interface has counted."""

    failures: list[str]
    """Why messages could not be delivered, a sentence each."""
    link_bytes: int
    """Bytes of packets that have crossed the link, in both directions together."""
    longest_queue: int
    """The most messages of one context that have waited for a core."""
    messages_given_up: int
    """Messages that the transport could not deliver."""
    messages_received: int
    """Messages that were given to cores."""
    messages_sent: int
    """Messages that cores have sent."""
    packets_dropped: int
    """Packets from the network for another address, or with data for a context that no core has
    bound.
    """
    packets_received: int
    """Packets from the network."""
    packets_sent: int
    """Packets to the network."""


class IommuStatistics(TypedDict):
    """What an IOMMU has counted."""

    iotlb_hits: int
    """Requests whose page was in the IOTLB."""
    iotlb_misses: int
    """Requests whose page was not. Those that have joined a page walk under way are among them."""
    page_walk_fs: int
    """Time of page walks, of each from the time that it had a walker, in femtoseconds."""
    page_walk_loads: int
    """Page-table entries that page walks have read."""
    page_walks: int
    """Page walks that have ended."""


class ProcessorsStatistics(TypedDict):
    """What the cores of an interface have counted, all together."""

    bank_conflict_cycles: int
    """Cycles that accesses have waited for a bank of the scratchpad."""
    frame_words: int
    """Words of 8 bytes that were read and written in frames."""
    frames: int
    """Frames that they have taken."""
    frames_dropped: int
    """Frames that they have dropped."""
    frames_sent: int
    """Frames that they have given to the network."""
    frames_to_host: int
    """Frames that they have given to receive rings."""
    host_load_data_bytes: int
    """Bytes of PCI Express for the data of loads of host memory."""
    host_load_faults: int
    """Loads of host memory that found no memory."""
    host_load_request_bytes: int
    """Bytes of PCI Express for the requests of loads of host memory."""
    host_loads: int
    """Loads of host memory."""
    host_loads_steered: int
    """Loads of host memory that carried a steering tag."""
    instruction_cache_misses: int
    """Lines that were not in an instruction cache."""
    instructions: int
    """Instructions that they have executed."""
    note_bytes: int
    """Bytes of PCI Express for what firmware has noted of frames for hardware of the host."""
    run_host_loads: int
    """Loads of host memory by such code, as part of `host_loads`."""
    run_instructions: int
    """Instructions of such code, as part of `instructions`."""
    runs: int
    """Runs of untrusted code, such as hardware of the host sends."""
    runs_over_budget: int
    """Runs that were ended because they had executed as many instructions as they may."""
    runs_refused: int
    """Runs that were ended by what such code may not do."""
    runs_without_memory: int
    """Runs that were ended by a load that found no memory."""
    scratchpad_words: int
    """Words of 8 bytes that the scratchpad has read and written, of instructions too."""
    window_blocks_refused: int
    """Blocks from hardware of the host for which there was no room in the scratchpad."""
    window_bytes: int
    """Bytes of PCI Express for what hardware of the host has sent into the scratchpad."""


class NicStatistics(TypedDict):
    """What a network interface has counted. Each frame that has come is in memory, on its way
    there, or in one of those that were dropped.
    """

    dropped_bad_descriptor: int
    """Frames whose descriptor could not be used."""
    dropped_buffer_full: int
    """Frames for which there was no room in the input buffer."""
    dropped_no_descriptor: int
    """Frames for whose queue the program had given no descriptor."""
    dropped_too_long: int
    """Frames that are longer than the interface takes."""
    express_bytes: int
    """Bytes of packets that have crossed PCI Express, in both directions together."""
    frames_delivered: int
    """Frames that are complete in memory and that the program has been told of."""
    frames_received: int
    """Frames that have come from the network."""
    frames_sent: int
    """Frames sent to the network."""
    iommu: NotRequired[IommuStatistics]
    """What the IOMMU has done, if there is one."""
    link_bytes: int
    """Bytes that have passed the port, in both directions together."""
    not_sent: int
    """Frames that the program wanted to be sent and that cannot be: no memory, no bytes, too many,
    or not what goes over this network.
    """
    processors: NotRequired[ProcessorsStatistics]
    """What its cores have done, if it is programmable."""


class CqeNicStatistics(TypedDict):
    """What the interface has counted."""

    block_reads: int
    """Reads of blocks of send queues."""
    blue_flames: int
    """Work requests that came with their doorbells."""
    buffer_reads: int
    """Reads of work requests to receive."""
    completions: int
    """Completions written."""
    compressed_completions: int
    """Completions that a title stands for, among those."""
    doorbells: int
    """Doorbells of send queues."""
    dropped_overrun: int
    """Frames that were dropped because their completion found no room."""
    frames: NicStatistics
    """Frames, of both ports together."""
    record_reads: int
    """Reads of doorbell records."""


class RackServerResult(TypedDict):
    """A server's part of the results."""

    address: str
    """The server's IPv4 address."""
    check: NotRequired[str]
    """What the program's `check_after_run()` printed, which has found nothing wrong; absent if the
    program has no such function.
    """
    cores: list[CoreResult]
    """The cores."""
    critical_region: NotRequired[CriticalRegionStatistics]
    """What has been identified on all cores."""
    cycles: int
    """Cycles of the server's clock."""
    data_plane: NotRequired[DataPlaneResult]
    """What was measured of the data plane, if it has one."""
    energy_nj: EnergyResult
    """What the cores, and what they share, have cost since the first client began, in nanojoules;
    for each response, too, if no other server serves.
    """
    exit_status: int | None
    """The exit status of the program; `None` if it still runs."""
    fabric: FabricStatistics
    """What the fabric has counted."""
    hyperplane: NotRequired[HyperPlaneStatistics]
    """What HyperPlane has counted."""
    instructions: int
    """Instructions of all cores of the server."""
    interface: RpcValetInterface | NanoPuInterface | NicStatistics | CqeNicStatistics
    """What the network interface has counted."""
    name: str
    """The name of the server."""
    output: str
    """What the program has written."""
    power_w: Energy
    """The mean power in the time of `energy_nj`, in watts."""
    program_counters: NotRequired[dict[str, int]]
    """What a program without a data plane has counted, by the names that it gave, if clients have
    operations for it.
    """
    received: LinkCounts
    """What the link has carried to the server."""
    sent: LinkCounts
    """What the link has carried from the server."""
    user_interrupts: NotRequired[UserInterruptStatistics]
    """What has happened to the interrupts of all harts."""


class PortCounts(TypedDict):
    """What has become of the packets for one port of a switch."""

    dropped: int
    """Packets that were dropped."""
    forwarded: int
    """Packets that were sent, those that had been trimmed included."""
    max_queued_bytes: int
    """The most bytes that have waited at one time."""
    trimmed: int
    """Packets whose payload was cut off here."""


class SwitchResult(TypedDict):
    """The switch's part of the results."""

    ports: list[PortCounts]
    """By port, in the order of the servers and then of the clients."""
    unroutable: int
    """Packets to addresses that nobody has; they were dropped."""


class RackResult(TypedDict):
    """What came out of a run of a rack."""

    by_kind: dict[str, KindMeasurement]
    """Throughput and latencies of the requests of each kind, by its name, of all clients together.
    """
    clients: list[RackClientResult]
    """The clients."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions in a second of processor time, without those that a
    checkpoint has brought. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the thread that has made the run, in seconds: what else the host does is
    not in it.
    """
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. How many depends on how far cores run ahead of each other. Absent
    without cores that have times.
    """
    host_wall_seconds: float
    """Seconds on the wall clock."""
    instructions: int
    """Instructions of all servers."""
    measurement: Measurement | None
    """What all clients have measured together: each of their measured requests counts once, and
    their throughputs add up. `None` if there was no response.
    """
    servers: list[RackServerResult]
    """The servers."""
    simulated_seconds: float
    """Simulated time."""
    switch: NotRequired[SwitchResult]
    """The switch; absent if there is none."""
    traces: NotRequired[list[TraceReport]]
    """What has become of the traces that were asked for."""
    version: str
    """Version of the simulator."""


class ExecuteResult(TypedDict):
    """What came out of a program."""

    check: NotRequired[str]
    """What the program's `check_after_run()` printed, which has found nothing wrong; absent if the
    program has no such function, or has failed.
    """
    cores: list[CoreResult]
    """The cores: of a data plane the cores that run it, otherwise all."""
    cycles: int
    """Cycles of the server's clock."""
    energy_nj: EnergyResult
    """What the cores shown, and what all cores share, have cost, in nanojoules."""
    exit_status: int
    """The guest's exit status; after a signal 128 and its number."""
    fabric: FabricStatistics
    """What the fabric counted."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions in a second of processor time, without those that a
    checkpoint has brought. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the thread that has made the run, in seconds: what else the host does is
    not in it.
    """
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. How many depends on how far cores run ahead of each other. Absent
    without cores that have times.
    """
    host_wall_seconds: float
    """Seconds on the wall clock."""
    instructions: int
    """Instructions of all cores."""
    power_w: Energy
    """The mean power in the time of `energy_nj`, in watts."""
    signal: str | None
    """The signal that ended it, such as `SIGABRT`."""
    simulated_seconds: float
    """Simulated time."""
    traces: NotRequired[list[TraceReport]]
    """What has become of the traces that were asked for."""
    version: str
    """Version of the simulator."""


class HartResult(TypedDict):
    """One hart's part of a functional run."""

    instructions: int
    """Instructions that it executed."""


class FunctionalResult(TypedDict):
    """What came out of a program for which no time was simulated."""

    cores: list[HartResult]
    """The harts."""
    exit_status: int
    """The guest's exit status; after a signal 128 and its number."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions in a second of processor time, without those that a
    checkpoint has brought. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the thread that has made the run, in seconds: what else the host does is
    not in it.
    """
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. How many depends on how far cores run ahead of each other. Absent
    without cores that have times.
    """
    host_wall_seconds: float
    """Seconds on the wall clock."""
    instructions: int
    """Instructions of all harts."""
    signal: str | None
    """The signal that ended it, such as `SIGABRT`."""
    version: str
    """Version of the simulator."""


class QueueingDrifts(TypedDict):
    """What may change with time."""

    latency: Drift
    """Latency, in the order in which requests arrive."""


class QueueingLatencies(TypedDict):
    """Latencies in mean service times."""

    mean: float
    """Mean time from arrival to the end of service."""
    mean_ci95: list[float]
    """95 % confidence interval of `mean`."""
    p50: float
    """Median."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""
    p999: float
    """99.9th percentile."""
    p99_ci95: list[float]
    """95 % confidence interval of `p99`."""
    samples: int
    """Requests measured."""


class QueueingResult(TypedDict):
    """What came out of a queueing system; times are in mean service times."""

    drift: QueueingDrifts
    """How the latency has changed with time."""
    histogram: str
    """All latencies in 1024ths of a mean service time, as an HdrHistogram (V2, compressed, base64).
    """
    host_mips: NotRequired[float]
    """Millions of simulated instructions in a second of processor time, without those that a
    checkpoint has brought. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the thread that has made the run, in seconds: what else the host does is
    not in it.
    """
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. How many depends on how far cores run ahead of each other. Absent
    without cores that have times.
    """
    host_wall_seconds: float
    """Seconds on the wall clock."""
    keeps_up: bool
    """Whether the units serve what they are offered: nothing is said in `overload`."""
    latency_service_times: QueueingLatencies
    """From a request's arrival to the end of its service."""
    mean_drawn_service_time: float
    """Mean of the service times that were drawn, in the unit of their distribution and without the
    fixed part.
    """
    mean_wait_service_times: float
    """Mean time from arrival to the beginning of service, in mean service times."""
    overload: list[str]
    """Why the units do not serve what they are offered, a sentence each."""
    steady: bool
    """Whether the latency does not grow."""
    throughput: float
    """Requests served in a time, as a part of what all units can serve in it."""
    version: str
    """Version of the simulator."""
