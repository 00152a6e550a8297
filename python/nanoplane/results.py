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
    """The number of measured requests."""


class KindMeasurement(TypedDict):
    """The requests of one kind, or of some queues."""

    histogram: str
    """An HdrHistogram of the latencies in nanoseconds: V2, compressed, in base64."""
    latency_ns: LatencySummary
    """From an item's arrival in its queue to the ring of the tenant's doorbell."""
    service_histogram: str | None
    """A histogram of the times of `service_ns`, in the form of `histogram`."""
    service_ns: LatencySummary | None
    """The time that harts worked on the requests; `None` if no take was observed."""
    throughput_mrps: float
    """Requests of the kind that completed in the measured time, in millions a second."""


class CycleStack(TypedDict):
    """A hart's cycles by the cause that held up dispatch; their sum is the core's cycles. (A stack
    at dispatch, as in Eyerman et al., "Multi-Stage CPI Stacks", 2018.) The stack of a core is the
    sum over its harts.
    """

    base: int
    """Cycles in which instructions were dispatched that were not squashed."""
    branch: int
    """Mispredictions: from the dispatch of the branch, if it had to wait for an operand, or from
    its execution, to the first instruction of the right path.
    """
    execution: int
    """The reorder buffer, the scheduler, the load queue, or on an in-order core an operand, waited
    for instructions in execution.
    """
    halted: int
    """The hart had halted voluntarily."""
    instruction_cache: int
    """Instructions that had to be fetched from outside the core."""
    l2: int
    """Instructions waited for a line that was in the core's second-level cache."""
    last_level: int
    """Instructions waited for a line that was in the last-level cache."""
    memory: int
    """Instructions waited for a line that was in memory."""
    memory_order: int
    """Loads that had to be repeated."""
    other_hart: NotRequired[int]
    """The core's other harts took the whole width, or had all entries of the reorder buffer or of a
    queue. Cores with one hart do not show it.
    """
    remote_cache: int
    """Instructions waited for a line that was in another private cache."""
    serial: int
    """Serializing instructions, and the wait for older instructions before them."""
    store_buffer: int
    """The store queue was full, or an atomic had to perform first."""


class CoreHartResult(TypedDict):
    """The part of one of a core's harts."""

    branches: int
    """Conditional branches and indirect jumps."""
    data_hits: int
    """Loads that found their line."""
    data_misses: int
    """Loads that did not find their line."""
    halted_cycles: int
    """Cycles in which it had halted voluntarily."""
    hart: int
    """The number of the hart."""
    instructions: int
    """Instructions, without squashed ones."""
    ipc: float
    """Instructions per cycle, over the time of `energy_nj`."""
    mispredictions: int
    """Mispredicted branches."""
    squashed_instructions: int
    """Instructions that were executed on a wrong path or had to be repeated."""
    stack: CycleStack
    """The hart's cycle stack."""


class PrefetchStatistics(TypedDict):
    """Counts of a prefetcher."""

    issued: int
    """Lines that the prefetcher has requested."""
    late: int
    """Prefetched lines that were still in flight when they were needed."""
    polluting: int
    """Misses on lines that a prefetched line had evicted, if no other line has replaced that one
    since.
    """
    unused: int
    """Prefetched lines that were evicted without having been needed."""
    useful: int
    """Prefetched lines that had arrived when they were needed."""


class Operations(TypedDict):
    """Issued operations by execution unit, without those squashed before issue; the operations of
    the integer, load and store units follow from the other counts.
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
    """Counts of prefetch instructions ("Zicbop"). An instruction that only the first count includes
    found its line in the cache or in flight.
    """

    dropped: int
    """Instructions without a free miss register, without memory, or without a page that allows the
    access.
    """
    executed: int
    """Instructions that have issued, including those on a wrong path."""
    issued: int
    """Lines that they have requested."""
    late: int
    """Lines that were still in flight when they were needed."""
    unused: int
    """Lines that were evicted without having been needed."""
    useful: int
    """Lines that had arrived when they were needed."""


class TranslationStatistics(TypedDict):
    """Counts of address translation."""

    l1_data_tlb_hits: int
    """Loads, stores and atomics that hit the first-level TLB."""
    l1_data_tlb_misses: int
    """Loads, stores and atomics that missed the first-level TLB, except those that joined a page
    walk in progress.
    """
    l1_instruction_tlb_hits: int
    """Instruction fetches that hit the first-level TLB. A fetch extends to the next jump or branch,
    or to the end of a line.
    """
    l1_instruction_tlb_misses: int
    """Instruction fetches that missed the first-level TLB."""
    l2_tlb_hits: int
    """Misses of both first-level TLBs that hit the second-level TLB."""
    l2_tlb_misses: int
    """Misses of both first-level TLBs that also missed the second-level TLB: the page walks."""
    page_faults: int
    """Page faults that harts have taken."""
    page_walk_cycles: int
    """Cycles of page walks, summed over the walks."""
    page_walk_loads: int
    """Page-table entries that page walks have read."""
    structure_cache_fills: int
    """Entries that page walks have filled into these caches."""
    structure_cache_hits: int
    """Page walks that began below the first table, because the caches of the upper levels had the
    entry that points there.
    """


class CoreResult(TypedDict):
    """The results of one core."""

    branches: int
    """Conditional branches and indirect jumps."""
    c1_cycles: int
    """Cycles in C1, in which the core's clock is stopped."""
    cycles: int
    """Cycles, including halted ones."""
    data_hits: int
    """Loads that found their line."""
    data_misses: int
    """Loads that did not find their line."""
    forwarded_loads: int
    """Loads that took the value of an older store."""
    halted_cycles: int
    """Cycles in which the hart had halted voluntarily: `QWAIT`, `WFI`, `WRS`."""
    harts: NotRequired[list[CoreHartResult]]
    """The harts of the core, if there are several."""
    instruction_hits: int
    """Fetches, each up to a jump or a line's end, whose line was in the first-level instruction
    cache.
    """
    instruction_misses: int
    """Fetches whose line was not in the first-level instruction cache."""
    instructions: int
    """Instructions, without squashed ones."""
    ipc: float
    """Instructions per cycle, over the time of `energy_nj`."""
    l1_instruction_prefetches: NotRequired[PrefetchStatistics]
    """Counts of the prefetcher of the first-level instruction cache, if it was active."""
    l1_prefetches: NotRequired[PrefetchStatistics]
    """Counts of the prefetcher of the first-level data cache, if it was active."""
    l2_hits: int
    """Misses of both first-level caches that hit the second-level cache."""
    l2_misses: int
    """Misses of both first-level caches that went to the line's home."""
    l2_prefetches: NotRequired[PrefetchStatistics]
    """Counts of the prefetcher of the second-level cache, if it was active."""
    last_level_hits: int
    """Requests of the core's caches, including its prefetchers, that the last-level cache served:
    it had the line, or granted the permission to write it.
    """
    last_level_misses: int
    """Requests of the core's caches and prefetchers whose line had to come from memory."""
    lines_evicted: int
    """Lines evicted from the first-level data cache."""
    lines_filled: int
    """Lines filled into the first-level data cache."""
    lines_sent: int
    """Snoops of a line that the core owned and sent, instead of only invalidating it."""
    memory_order_squashes: int
    """Loads squashed because another core wrote their line before they could have performed in
    order, or because an older store turned out to have the same address.
    """
    mispredictions: int
    """Mispredicted branches."""
    operations: Operations
    """Operations of the rarer execution units."""
    remote_cache_hits: int
    """Requests of the core's caches and prefetchers whose line came from the private cache that
    owned it.
    """
    snoops: int
    """Requests of the fabric for a line of the data cache, or of the second level if there is one.
    """
    software_prefetches: NotRequired[SoftwarePrefetchStatistics]
    """Counts of prefetch instructions, if there were any."""
    squashed_instructions: int
    """Instructions that were executed on a wrong path or had to be repeated."""
    stack: CycleStack
    """The cycle stack."""
    stores: int
    """Stores and atomics performed."""
    translation: NotRequired[TranslationStatistics]
    """Counts of address translation, if there were misses."""


class OffloadStatistics(TypedDict):
    """Regions sent to the network interface, and packets that it announced."""

    code_bytes: int
    """Bytes of their code, with the values of registers."""
    instructions_failed: int
    """Instructions of these regions that are left out of the code, because nothing provides their
    operands, or because they close a loop without an exit.
    """
    instructions_sent: int
    """Instructions of these regions."""
    packets_begun: int
    """The number of these packets that a hart has begun to serve."""
    packets_told: int
    """Packets for which the interface sent the results of user routines."""
    regions_sent: int
    """Regions that were sent."""
    regions_too_large: int
    """Regions that were not sent, because their code is too large."""
    regions_without_load: int
    """Regions that were not sent, because no load of them that misses can be executed."""
    regions_without_register: int
    """Regions that were not sent, because they use all registers."""


class CriticalRegionStatistics(TypedDict):
    """The critical regions identified on all cores."""

    alu: float | None
    """Arithmetic, as part of the instructions of distinct regions."""
    argument_registers: int
    """Registers that are roots of all distinct regions: arguments."""
    computed_registers: int
    """The number of these registers that user routines compute for each packet (READY-DYN)."""
    coverage: float | None
    """The fraction of loads missing the second-level cache since the first region that were in the
    last region of their core; `None` if there were none.
    """
    data_registers: int
    """Registers that are roots of all distinct regions: addresses of global and of thread-local
    data.
    """
    dependent_loads: float | None
    """Loads whose address depends on another load of the region, as part of the instructions."""
    epochs: int
    """Epochs that have ended, of all cores."""
    evictions: int
    """Entries of the context instruction cache that were replaced."""
    independent_loads: float | None
    """Loads whose address depends on no other load of the region, as part of the instructions."""
    instructions_per_region: float | None
    """The mean number of instructions of distinct regions."""
    misses: int
    """Loads that missed the second-level cache."""
    offload: NotRequired[OffloadStatistics]
    """Traffic to and from the network interface, if regions are executed there."""
    other: float | None
    """Control flow and copies of registers, as part of the instructions."""
    ready_coverage: float | None
    """The same fraction for the loads that were ready at the end of the last epoch: the coverage if
    the values of all registers were known.
    """
    ready_instructions: float | None
    """The mean number of ready instructions at the end of an epoch."""
    region_executions: list[int]
    """The number of executions of each distinct region's first instruction while the region was the
    last of its core; in the same order.
    """
    region_instructions: list[int]
    """Instructions of each distinct region, the most executed region first."""
    regions: int
    """Distinct regions: those with different instructions, and with a load that misses often and
    whose registers are known. Others fetch nothing, and are not counted in what follows.
    """
    result_registers: int
    """Registers that are roots of all distinct regions: results of the instructions that begin
    chains.
    """
    right_addresses: int
    """Loads of regions that harts have executed, in passes from a region's first instruction on,
    for which the region's code has the same address. What user routines return counts as right.
    """
    right_values: int
    """Correct predicted values of the last region's registers, checked at each execution of the
    region's instruction that reads the register as a root, or produces it as a result.
    """
    stack_registers: int
    """Registers that are roots of all distinct regions: addresses of the stack and of frames."""
    storage_bytes: int
    """Bytes of the structures beside each core."""
    wrong_addresses: int
    """Loads for which it has another address, or none, since a value on which the address depends
    is wrong.
    """
    wrong_values: int
    """Wrong predicted values, checked at the same times."""


class Drift(TypedDict):
    """The change of a quantity from the beginning to the end of the measurement, by a straight line
    through its course.
    """

    change: float
    """The growth, as a fraction of the mean."""
    error: float
    """The error of `change`: with a probability of 99.9 % on either side, the change of the
    underlying process does not differ by more.
    """


class Drifts(TypedDict):
    """Quantities that may change with time in the measured part."""

    latency: Drift
    """Latency, in the order in which requests completed."""
    under_way: Drift
    """The number of requests in flight at the arrival of each, including itself."""


class Split(TypedDict):
    """Energy in nanojoules, or power in watts."""

    dynamic: float
    """The dynamic part: events and clocks."""
    static: float
    """The static part: leakage, and power that does not depend on activity."""


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
    """The second-level cache; zero without one."""
    load_store_queue: Split
    """The load and store queues."""
    pipeline: Split
    """Pipeline registers and their clock, and the remainder."""
    prefetchers: NotRequired[Split]
    """Tables of prefetchers, and their look-ups in the caches, if there are any."""
    registers: Split
    """Registers and the bypass network."""
    total: float
    """The sum of all parts."""
    translation: NotRequired[Split]
    """TLBs, and the reads of the data cache by page walks, if there is address translation."""
    window: Split
    """Renaming, reorder buffer, scheduler. Zero in an in-order core."""


class Energy(TypedDict):
    """The energy of a server's work, in nanojoules; or its mean power, in watts."""

    cores: list[CoreEnergy]
    """The cores that the result shows."""
    critical_regions: NotRequired[Split]
    """CARGO's structures beside the cores; what the interface executes is in its own components."""
    directory: Split
    """The directory."""
    dram: Split
    """Accesses to the memory chips, without their background power; zero if the commands of DRAM
    are modelled.
    """
    dram_activate: NotRequired[Split]
    """Activates and precharges, if the commands of DRAM are modelled."""
    dram_background: NotRequired[Split]
    """Standby of the memory chips, and their additional power while a row is open."""
    dram_read: NotRequired[Split]
    """Lines read by commands of DRAM."""
    dram_refresh: NotRequired[Split]
    """Refreshes: one in each tREFI for each rank, whatever else happens."""
    dram_write: NotRequired[Split]
    """Lines written by commands of DRAM."""
    dynamic: float
    """The dynamic part: events and clocks."""
    enhanced_memory_controllers: NotRequired[Split]
    """What executes chains at the memory controllers, with its caches."""
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
    """The link between two sockets; zero with one socket."""
    static: float
    """The static part: leakage, and power that does not depend on activity."""
    total: float
    """The sum of all parts."""
    user_interrupts: NotRequired[Split]
    """User-level interrupts: the harts' registers, the routes of devices' interrupts, notices."""


class EnergyResult(Energy):
    """The energy of a run, in nanojoules."""

    per_request: NotRequired[float]
    """The energy per request delivered in that time, including the warm-up; absent if there were
    none.
    """
    seconds: float
    """The time over which energy is counted: from the beginning of the traffic, if there is any, or
    from the end of the warm start, to the end.
    """


class EnhancedMemoryControllerStatistics(TypedDict):
    """Chains that cores have sent to memory controllers, of all cores."""

    chain_bytes: int
    """Bytes of these messages."""
    chain_instructions: int
    """Instructions of these chains."""
    chain_loads: int
    """Loads of these chains."""
    chain_values: int
    """Values of registers that were sent with chains."""
    chains: int
    """Chains that were sent."""
    chains_begun: int
    """Chains that began."""
    chains_completed: int
    """Chains that were executed to their end."""
    chains_invalidated: int
    """Chains that ended at a load whose line was invalidated on its way."""
    chains_mispredicted: int
    """Chains that ended at a branch that was not as predicted."""
    chains_refused: int
    """Chains that were refused, because the controller held as many as it can."""
    chains_too_late: int
    """Chains that were withdrawn before they began: the line did not come from memory, or it came
    before the chain.
    """
    chains_undone: int
    """Chains that were withdrawn after they had begun, because the core had undone their
    instructions.
    """
    chains_without_memory: int
    """Chains that ended at a load without memory, or in two lines."""
    full_windows: int
    """Windows that were full behind a load that waited for its line."""
    instructions: int
    """Instructions executed at memory controllers."""
    loads: int
    """Loads executed at memory controllers."""
    loads_ahead: int
    """Loads that were predicted to miss the last-level cache, and went to memory at once unless the
    controller's own cache had their line.
    """
    loads_ahead_on_chip: int
    """The number of these whose line was elsewhere on the chip."""
    loads_cache_hits: int
    """Loads that found their line in the controller's own cache."""
    loads_from_memory: int
    """Loads whose line came from memory."""
    loads_on_chip: int
    """Loads that found their line elsewhere on the chip."""
    values_found_by_core: int
    """Loads of chains that found their value at the core."""
    values_lost: int
    """Values that had come, and whose line was written or evicted before the load had its address.
    """
    values_not_supplied: int
    """Loads of chains that ended without their value."""
    values_of_other_address: int
    """Values that were not taken, because the load had another address."""
    values_taken: int
    """Values that cores have taken."""
    values_too_late: int
    """Loads of chains that had not begun when the core could go on."""
    values_undone: int
    """Loads of chains that the core has undone."""
    windows_unlikely: int
    """Full windows whose dependent loads were not likely to miss the last-level cache."""
    windows_without_loads: int
    """Full windows in which no load depended on that load."""


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
    """Counts of the caches in front of memory."""

    hits: int
    """Reads and writes of lines whose block was present, or in flight."""
    misses: int
    """Reads and writes of lines whose block was absent."""
    writebacks: int
    """Dirty blocks that were written back to memory when they were evicted."""


class FabricStatistics(TypedDict):
    """Counts of the fabric's events so far."""

    agent_requests: int
    """Requests of cores to agents."""
    bank_accesses: int
    """Directory look-ups of the banks of the last-level cache, for messages and requests."""
    bank_line_reads: int
    """Lines that the banks read out, to send or to write them to memory."""
    bank_line_writes: int
    """Lines, or parts of lines, written to the banks."""
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
    """Lines evicted from the last-level cache."""
    last_level_hits: int
    """Requests for lines that were in the last-level cache, that a private cache owned, or that
    were already being served for another request.
    """
    last_level_misses: int
    """Requests for lines that had to come from memory."""
    last_level_prefetches: NotRequired[PrefetchStatistics]
    """Counts of the prefetcher of the last-level cache, with `server.fabric.last_level.prefetcher`.
    """
    lengthened_deliveries: int
    """Answers and interrupts over dedicated wires that were requested sooner than the shortest
    latency of a delivery, and were delayed to it.
    """
    memory_cache: NotRequired[MemoryCacheStatistics]
    """Counts of the caches in front of memory, with `server.fabric.memory.cache`."""
    memory_queueing_fs: int
    """Time that reads and writes waited for a memory channel, in femtoseconds; with
    `server.fabric.memory.dram`, the time that reads waited for their read command.
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
    """Lines that owners evicted."""
    reads_at_home: int
    """Lines read at home by agents."""
    recalls: int
    """Lines recalled from private caches to make room in the directory, which is in the tags of an
    inclusive last-level cache.
    """
    refused_requests: int
    """Requests of cores to unmapped addresses."""
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
    """Counts of HyperPlane."""

    activations_by_grant: int
    """Queues activated because ownership of their armed doorbell was granted."""
    activations_by_reconsider: int
    """Queues activated because they were not empty when they would have been armed."""
    armed: int
    """Queues armed."""
    arms: int
    """Doorbells armed."""
    conflicts: int
    """`QWAIT.ADD`s that met a conflict in the monitoring set."""
    halted_fs: int
    """Time that harts were halted because no queue was ready, summed over harts."""
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
    """Queues that were offered to the other socket and returned, because no hart waited there any
    more.
    """
    power_ups: int
    """Harts woken out of C1."""
    selecting_fs: int
    """Time that the ready sets' arbiters spent selecting, summed over ready sets."""
    selections_waited_fs: int
    """Time that selections waited for earlier ones."""
    spurious_wake_ups: int
    """Returned QIDs whose queue `QWAIT.VERIFY` found empty."""
    steals: int
    """`QWAIT`s answered with a queue of the other socket's ready set, as part of `wake_ups`."""
    wake_ups: int
    """`QWAIT`s answered with a QID."""


class ControlledLatency(TypedDict):
    """Estimates of mean and 99th percentile of the latency with less variance, by an ideal queue
    that serves the run's own arrivals for the run's own service times: what it gives more or less
    than in a very long run is taken off, times a coefficient of regression. In nanoseconds.
    """

    ideal_mean: float
    """Mean of the ideal queue with the run's own arrivals and service times."""
    ideal_mean_expected: float
    """That of a very long run of it."""
    ideal_p99: float
    """99th percentile of the ideal queue with the run's own arrivals and service times."""
    ideal_p99_expected: float
    """That of a very long run of it."""
    mean: float
    """Mean."""
    mean_ci95: list[float]
    """95 % confidence interval of `mean`."""
    p99: float
    """99 % of the requests take at most this."""
    p99_ci95: list[float]
    """95 % confidence interval of `p99`."""


class LoadSite(TypedDict):
    """A load instruction."""

    accesses: int
    """Committed executions."""
    awaited: int
    """Accesses that waited for a line which an older load was bringing."""
    function: str
    """The function that has it; empty if no symbol names one."""
    lines: int
    """Distinct lines of 64 bytes that were accessed, by virtual address."""
    misses: int
    """Accesses that brought a line to the first-level cache."""
    offset: int
    """The instruction's offset in the function in bytes."""
    pc: int
    """The instruction's address."""
    second_level_misses: int
    """The number of these lines that were not in the second-level cache either."""
    text: str
    """The instruction in assembly language."""


class LoadSiteStatistics(TypedDict):
    """Accesses and lines of load instructions, of all harts, from the first instruction on."""

    accesses: int
    """Accesses of all counted load instructions."""
    instructions: int
    """Counted load instructions, whether listed or not."""
    sites: list[LoadSite]
    """The instructions with the most accesses, by ascending address."""


class NanoPuClients(TypedDict):
    """Counts of the clients."""

    repeated_packets: int
    """Packets that were sent again because the server had no buffer for them."""
    replies: int
    """Replies that came back."""
    requests: int
    """Requests that were given to the transport."""
    waits: int
    """Requests that found no room in the clients' transport and waited."""


class NanoPuStatistics(TypedDict):
    """Counts of the interface."""

    link_bytes: int
    """Bytes of packets that have crossed the link, in both directions together."""
    longest_queue: int
    """The maximum number of messages of one context that waited for a core."""
    messages_given_up: int
    """Messages that the transport could not deliver."""
    messages_received: int
    """Messages that were given to cores."""
    messages_sent: int
    """Messages that cores have sent."""
    packets_dropped: int
    """Packets from the network for another address, or with data for a context that no core has
    bound in a server without a DMA path.
    """
    packets_received: int
    """Packets from the network."""
    packets_sent: int
    """Packets to the network, on both paths."""


class NanoPuDataPlane(TypedDict):
    """Counts of nanoPU's network interface and its clients."""

    clients: NanoPuClients
    """Counts of the clients."""
    interface: NanoPuStatistics
    """Counts of the interface."""


class QueueResults(TypedDict):
    """The fates of each queue's items: lists with an element for each queue."""

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
    """The number of measured requests of the queue."""


class BackendStatistics(TypedDict):
    """Counts of backends."""

    dispatched: int
    """Messages given to cores."""
    faults: int
    """Blocks of one-sided operations that a node has refused: it has no such context, or they are
    not in its segment.
    """
    longest_queue: int
    """The maximum length of a shared queue, in messages."""
    max_outstanding: int
    """The maximum number of messages at one core."""
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
    """Time from a message's completion at its backend to its dispatch, summed, in femtoseconds: the
    wait for a core, and the latency of the dispatcher.
    """
    refused: int
    """Packets of refused messages: their slot was in use, or they did not fit."""
    refused_one_sided: int
    """Blocks of one-sided operations of nodes outside the segment of the named context."""
    replenished: int
    """Replenishes of cores."""
    unexpected_replenishes: int
    """Replenishes of slots without a message, which were ignored."""
    unhindered: int
    """Messages that found a core available."""
    unhindered_fs: int
    """Time from the notice to the dispatch of messages that found a core available, summed, in
    femtoseconds.
    """


class ClusterStatistics(TypedDict):
    """Counts of the cluster."""

    duplicated: int
    """Packets that were duplicated; the second copy was dropped."""
    faults_of_nodes: int
    """Blocks of the nodes' memories that the server's cores could not read or write."""
    faults_of_reads: int
    """Blocks that the server did not permit a node to read."""
    lost: int
    """Packets lost, and sent again."""
    max_slots_in_use: int
    """The maximum number of slots of one node in use."""
    messages: int
    """Messages sent to the server."""
    packets: int
    """Blocks of messages sent to the server."""
    refused: int
    """Messages that the server refused."""
    reordered: int
    """Packets that were delayed."""
    replies: int
    """Replies received."""
    unexpected_replenishes: int
    """Replenishes of slots that were free."""
    unexpected_replies: int
    """Replies that belong to no message of their node."""
    violations: int
    """Messages that were sent into a slot in use, or were too large, on purpose."""
    waited_fs: int
    """Time that messages waited for a slot, in femtoseconds."""
    waits: int
    """Messages that found all slots of their node in use, and waited."""


class DomainStatistics(TypedDict):
    """A messaging domain's part of the results."""

    bytes: int
    """Bytes of the domain's send and receive slots, as they are in memory."""
    context: int
    """The number of the domain's context."""
    cores: int
    """The number of the domain's cores."""
    delivered: int
    """Requests that have been served."""
    dropped: int
    """Requests dropped because too many were waiting at their node."""
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
    """Counts of the network interface and the cluster."""

    backends: BackendStatistics
    """Counts of all backends together."""
    cluster: ClusterStatistics
    """Counts of the cluster."""
    completion_queue_entries: int
    """Entries written by the frontends into the cores' completion queues."""
    domain_bytes: int
    """Bytes of the messaging domains' send and receive slots, as they are in memory."""
    domain_state_bits: int
    """Bits of a domain's state in each part of the network interface: the addresses of both
    buffers, the numbers of nodes and slots, and the largest message.
    """
    domains: list[DomainStatistics]
    """The results of each messaging domain."""
    work_queue_entries: int
    """Entries taken by the frontends from the cores' work queues."""


class MissesTo(TypedDict):
    """Loads that waited for lines from one place."""

    loads: int
    """Number of loads."""
    waited_ns: float
    """The sum of their waits, which may overlap."""


class ServiceMisses(TypedDict):
    """Loads of a request's service that waited for a line, because it was not in the first-level
    cache.
    """

    another_cache: MissesTo
    """Loads that waited for a line in another core's private cache or in a device."""
    last_level: MissesTo
    """Loads that waited for a line in the last-level cache."""
    memory: MissesTo
    """Loads that waited for a line in memory."""
    second_level: MissesTo
    """Loads that waited for a line in the core's own second-level cache."""
    waited_ns: float
    """The part of the service in which one of them or several waited."""


class SlowRequest(TypedDict):
    """One of the slowest requests."""

    arrived_us: float
    """Simulated time of its arrival in the queue, in microseconds."""
    behind: int | None
    """The request that its core was serving when this one arrived, if any."""
    core: int
    """The core that served it."""
    item: int
    """The number of the request."""
    latency_ns: float
    """From its arrival until it was done."""
    misses: ServiceMisses | None
    """The loads of its service that waited for a line; `None` if they were not looked at, as where
    cores serve several requests at a time.
    """
    others_ns: float | None
    """The part of the wait in which its core served other requests; `None` if cores serve several
    at a time.
    """
    queue: int
    """The queue of the request."""
    reason: str
    """Why it took so long, as a sentence."""
    served_before: int
    """Requests that its core finished while this one waited."""
    service_ns: float | None
    """From the start of its service until it was done; `None` if the start was not observed."""
    waited_ns: float | None
    """From its arrival until its core started to serve it; `None` if the start was not observed."""


class SourceResults(TypedDict):
    """Measurements of cores that are the sources of the traffic."""

    cores: int
    """The number of these cores."""
    mean_entering_ns: float
    """The time from an item's arrival until it is in its queue, where its latency begins: the mean
    over the measured requests.
    """
    p99_entering_ns: float
    """The 99th percentile of these times."""
    waiting: int
    """Items that have arrived and still wait for their core at the end of the run."""


class TraceReport(TypedDict):
    """One trace file."""

    entries: int
    """The number of entries: events of a timeline, instructions of a pipeline or of a log, cycles
    of a profile.
    """
    error: str | None
    """The reason why the file is not complete; `None` if it is."""
    path: str
    """The path of the file."""


class UserInterruptStatistics(TypedDict):
    """Counts of the interrupts of all harts."""

    delivered: int
    """Deliveries."""
    forwarded: int
    """Interrupts of devices that were forwarded to a hart."""
    notifications: int
    """Notifications that came to a hart."""
    posted: int
    """Interrupts of devices that were posted in a descriptor."""
    redelivered: int
    """Deliveries on a wrong path, which were repeated."""
    sent: int
    """`senduipi` that were executed."""
    spurious: int
    """Notifications of an empty descriptor, without a delivery."""
    timers: int
    """Timers that expired."""
    unrouted: int
    """Interrupts of devices without a route."""


class DataPlaneResult(TypedDict):
    """The measurements of a data plane."""

    by_kind: NotRequired[dict[str, KindMeasurement]]
    """Throughput and latencies of the requests of each kind, by its name, if the program takes
    several kinds.
    """
    captured: list[str]
    """Delivered packets, in hexadecimal, if asked for."""
    cold_samples: int
    """The number of measured requests in slots of their queue's ring that were used for the first
    time, that is, in memory that no cache had. Only the rings of I/O sources count.
    """
    delivered: int
    """Items that their tenant has taken, including those with errors."""
    doorbell_conflicts: int
    """Doorbells that got another address because of a conflict."""
    drift: Drifts | None
    """The change of latency and of the number of requests in flight with time; `None` with fewer
    than 60 samples, or for several recorders together.
    """
    dropped: int
    """Items that found their queue full."""
    entering: int
    """Items on their way from the source into their queue."""
    errors: int
    """Items delivered with the error flag, because the data plane could not process them."""
    generated: int
    """Items that arrived at the source."""
    histogram: str
    """An HdrHistogram of the latencies in nanoseconds, with four digits (1 ns up to 32 us), as in
    HdrHistogram's log files: V2, compressed, in base64.
    """
    inside: int
    """Items in a queue, in the data plane, or in a tenant's queue."""
    keeps_up: bool
    """Whether the system serves the offered load, that is, `overload` is empty. False if the system
    is saturated on purpose.
    """
    latency_ns: LatencySummary
    """From an item's arrival in its queue to the ring of the tenant's doorbell."""
    latency_ns_controlled: ControlledLatency | None
    """Mean and p99 of the latency with less variance, by an ideal queue with the run's own arrivals
    and service times: one queue for all cores, which Poisson arrivals come to. `None` where
    requests come in another way, the service times are not known or the ideal queue would be
    saturated.
    """
    offered_mrps: float | None
    """Requests that arrived, including dropped ones, in millions a second, between the first and
    the last measured request. `None` if they all arrived at one time.
    """
    overload: list[str]
    """The reasons why the system does not keep up, a sentence each: requests were lost, fewer were
    served than arrived, or their number or latency grows.
    """
    precise: bool
    """Whether the 95 % confidence interval is as narrow as `measure.precision` asks: that of the
    throughput of a saturated data plane or of a closed loop of clients that do not think, and
    otherwise that of the p99; true without this key. If false, more than `measure.requests` are
    needed, or the run was not steady.
    """
    program_counters: dict[str, int]
    """The program's counters, by name."""
    queues: QueueResults
    """The fates of each queue's items."""
    refused: int
    """Items that found their queue closed."""
    reordered: int
    """Items delivered before an older item of their queue."""
    service_histogram: str | None
    """A histogram of the times of `service_ns`, in the form of `histogram`."""
    service_ns: LatencySummary | None
    """The time that harts worked on the requests: from the take of an item, when it is counted off
    its queue, to the ring of the tenant's doorbell; for later items of a batch, from the previous
    ring. `None` if no take was observed.
    """
    slowest: NotRequired[list[SlowRequest]]
    """The slowest requests, the slowest first, if they are asked for."""
    sources: NotRequired[SourceResults]
    """Measurements of cores that are the sources of the traffic (`traffic.sources = "cores"`)."""
    steady: bool
    """Whether the rule found the end of the warm-up, and neither latency nor the number of requests
    in flight drifts after it. If not, the run was too short, or the system does not settle: the
    measurements may still change with time. If the rule found no end, only the last `requests` are
    measured. Drift means nothing where rings are kept full: latencies then reflect their length.
    """
    throughput_mrps: float
    """Requests that completed in the measured time, in millions a second."""
    throughput_mrps_ci95: list[float] | None
    """95 % confidence interval of `throughput_mrps`, by means of batches of the times between
    completions; `None` with less than 61 samples, or less than five rounds over the queues.
    """
    warm_start_requests: NotRequired[int]
    """The number of requests that the warm start delivered before (`measure.warm_start`)."""
    warmup_samples: int
    """The number of requests omitted as warm-up."""


class RunResult(DataPlaneResult):
    """The result of a run of a data plane on one server."""

    check: NotRequired[str]
    """The output of the program's `check_after_run()`, which has found no error; absent if the
    program has no such function.
    """
    cores: list[CoreResult]
    """The cores: of a data plane the cores that run it, otherwise all."""
    critical_region: NotRequired[CriticalRegionStatistics]
    """The critical regions identified on all cores."""
    cycles: int
    """Cycles of the server's clock."""
    energy_nj: EnergyResult
    """The energy of the cores shown, and of the parts that all cores share, in nanojoules."""
    enhanced_memory_controller: NotRequired[EnhancedMemoryControllerStatistics]
    """Chains that cores have sent to memory controllers, of all cores."""
    fabric: FabricStatistics
    """Counts of the fabric."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions per second of processor time, without those before a
    checkpoint. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the run's thread, in seconds; other work of the host is not included."""
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. The number depends on how far cores run ahead of each other. Absent
    in functional runs.
    """
    host_wall_seconds: float
    """Wall-clock time, in seconds."""
    hyperplane: NotRequired[HyperPlaneStatistics]
    """Counts of HyperPlane."""
    instructions: int
    """Instructions of all cores."""
    load_sites: NotRequired[LoadSiteStatistics]
    """Accesses and lines of load instructions, of all harts, from the first instruction on."""
    nanopu: NotRequired[NanoPuDataPlane]
    """Counts of nanoPU's network interface and its clients."""
    output: str
    """The guest's output."""
    power_w: Energy
    """The mean power in the time of `energy_nj`, in watts."""
    rpcvalet: NotRequired[RpcValetStatistics]
    """Counts of the network interface and the cluster."""
    simulated_seconds: float
    """Simulated time."""
    traces: NotRequired[list[TraceReport]]
    """The traces that were requested."""
    user_interrupts: NotRequired[UserInterruptStatistics]
    """Counts of the interrupts of all harts."""
    version: str
    """Version of the simulator."""


class Measurement(TypedDict):
    """The measurements of a run."""

    cold_samples: int
    """The number of measured requests in slots of their queue's ring that were used for the first
    time, that is, in memory that no cache had. Only the rings of I/O sources count.
    """
    drift: Drifts | None
    """The change of latency and of the number of requests in flight with time; `None` with fewer
    than 60 samples, or for several recorders together.
    """
    histogram: str
    """An HdrHistogram of the latencies in nanoseconds, with four digits (1 ns up to 32 us), as in
    HdrHistogram's log files: V2, compressed, in base64.
    """
    keeps_up: bool
    """Whether the system serves the offered load, that is, `overload` is empty. False if the system
    is saturated on purpose.
    """
    latency_ns: LatencySummary
    """From an item's arrival in its queue to the ring of the tenant's doorbell."""
    latency_ns_controlled: ControlledLatency | None
    """Mean and p99 of the latency with less variance, by an ideal queue with the run's own arrivals
    and service times: one queue for all cores, which Poisson arrivals come to. `None` where
    requests come in another way, the service times are not known or the ideal queue would be
    saturated.
    """
    offered_mrps: float | None
    """Requests that arrived, including dropped ones, in millions a second, between the first and
    the last measured request. `None` if they all arrived at one time.
    """
    overload: list[str]
    """The reasons why the system does not keep up, a sentence each: requests were lost, fewer were
    served than arrived, or their number or latency grows.
    """
    precise: bool
    """Whether the 95 % confidence interval is as narrow as `measure.precision` asks: that of the
    throughput of a saturated data plane or of a closed loop of clients that do not think, and
    otherwise that of the p99; true without this key. If false, more than `measure.requests` are
    needed, or the run was not steady.
    """
    service_histogram: str | None
    """A histogram of the times of `service_ns`, in the form of `histogram`."""
    service_ns: LatencySummary | None
    """The time that harts worked on the requests: from the take of an item, when it is counted off
    its queue, to the ring of the tenant's doorbell; for later items of a batch, from the previous
    ring. `None` if no take was observed.
    """
    steady: bool
    """Whether the rule found the end of the warm-up, and neither latency nor the number of requests
    in flight drifts after it. If not, the run was too short, or the system does not settle: the
    measurements may still change with time. If the rule found no end, only the last `requests` are
    measured. Drift means nothing where rings are kept full: latencies then reflect their length.
    """
    throughput_mrps: float
    """Requests that completed in the measured time, in millions a second."""
    throughput_mrps_ci95: list[float] | None
    """95 % confidence interval of `throughput_mrps`, by means of batches of the times between
    completions; `None` with less than 61 samples, or less than five rounds over the queues.
    """
    warmup_samples: int
    """The number of requests omitted as warm-up."""


class LinkCounts(TypedDict):
    """The traffic of one direction of a link."""

    bytes: int
    """Bytes that were sent."""
    duplicated: int
    """Packets that were duplicated."""
    lost: int
    """Packets that were lost."""
    packets: int
    """Packets that were sent."""
    reordered: int
    """Packets that were delayed."""


class ReplyCounts(TypedDict):
    """Replies of a store, by status."""

    done: int
    """The store has performed the operation."""
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
    """No outstanding request was sent to the server from which the message comes."""
    over: int
    """The request is over: it has been answered, or the transport has given it up."""
    too_short: int
    """The message ends before the two words that identify a response."""
    wrong_time: int
    """No request was created at the time in the second word of the message."""


class LoadGeneratorStatistics(TypedDict):
    """Counts of a load generator."""

    given_up: int
    """Requests that the transport has given up."""
    max_under_way: int
    """The maximum number of requests in flight."""
    requests: int
    """Requests made."""
    responses: int
    """Requests answered."""
    unexpected: int
    """Messages that answer no request."""
    unexpected_because: UnexpectedMessages
    """The reasons why messages answer no request."""
    waits: int
    """Requests that found no room in the transport, and waited for it."""


class TransportStatistics(TypedDict):
    """Counts of a transport."""

    control_packets: int
    """Packets sent that are not data."""
    data_packets: int
    """Packets of data sent, for the first time or again."""
    delivered: int
    """Messages that have been delivered."""
    duplicates: int
    """Duplicate packets of data."""
    given_up: int
    """Messages that have been given up."""
    malformed: int
    """Packets that were dropped because they are malformed, or are for another host."""
    no_buffer: int
    """Packets of new messages that were dropped because no buffer was free."""
    receiving: int
    """Messages in reassembly now."""
    repeated_packets: int
    """Packets of data sent again."""
    sending: int
    """Messages that are being sent now."""
    sent: int
    """Messages whose receivers have acknowledged all of them."""
    timeouts: int
    """Timeouts: periods without a packet of a message that caused a reaction."""
    trimmed: int
    """Packets that arrived without their payload."""
    waiting: int
    """Delivered messages that wait to be taken."""


class RackClientResult(TypedDict):
    """A client's part of the results."""

    address: str
    """The client's IPv4 address."""
    by_kind: dict[str, KindMeasurement]
    """Throughput and response times of the requests of each kind, by its name."""
    first_given_up: str | None
    """The reason why the first request was given up, if one was."""
    measurement: Measurement | None
    """Response times, from the creation of a request until the host has the response; `None` if
    there was no response.
    """
    name: str
    """The name of the client."""
    received: LinkCounts
    """Traffic of the link to the client."""
    replies: NotRequired[ReplyCounts]
    """Replies to operations, by status; absent if the client sends none."""
    sent: LinkCounts
    """Traffic of the link from the client."""
    statistics: LoadGeneratorStatistics
    """Counts of the client."""
    transport: TransportStatistics
    """Counts of the client's transport."""


class IommuStatistics(TypedDict):
    """Counts of an IOMMU."""

    iotlb_hits: int
    """Requests whose page was in the IOTLB."""
    iotlb_misses: int
    """Requests whose page was not in the IOTLB, including those that joined a page walk in
    progress.
    """
    page_walk_fs: int
    """Time of page walks, each from the time at which it got a walker, in femtoseconds."""
    page_walk_loads: int
    """Page-table entries that page walks have read."""
    page_walks: int
    """Page walks that have ended."""


class ProcessorsStatistics(TypedDict):
    """Counts of the cores of an interface, all together."""

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
    """Loads of host memory from addresses without memory."""
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
    """Bytes of PCI Express for notes about frames from firmware to hardware of the host."""
    run_host_loads: int
    """Loads of host memory by such code, as part of `host_loads`."""
    run_instructions: int
    """Instructions of such code, as part of `instructions`."""
    runs: int
    """Runs of untrusted code from hardware of the host."""
    runs_over_budget: int
    """Runs that ended at their budget of instructions."""
    runs_refused: int
    """Runs that ended at a forbidden operation."""
    runs_without_memory: int
    """Runs that ended at a load without memory."""
    scratchpad_words: int
    """Words of 8 bytes read from and written to the scratchpad, including instructions."""
    window_blocks_refused: int
    """Blocks from hardware of the host for which there was no room in the scratchpad."""
    window_bytes: int
    """Bytes of PCI Express for blocks from hardware of the host to the scratchpad."""


class NicStatistics(TypedDict):
    """Counts of a network interface. Each received frame is in memory, on its way there, or counted
    as dropped.
    """

    dropped_bad_descriptor: int
    """Frames whose descriptor could not be used."""
    dropped_buffer_full: int
    """Frames for which there was no room in the input buffer."""
    dropped_no_descriptor: int
    """Frames for whose queue there was no descriptor."""
    dropped_too_long: int
    """Frames that are longer than the interface takes."""
    express_bytes: int
    """Bytes of packets that have crossed PCI Express, in both directions together."""
    frames_delivered: int
    """Frames that are complete in memory and announced to the program."""
    frames_received: int
    """Frames received from the network."""
    frames_sent: int
    """Frames sent to the network."""
    iommu: NotRequired[IommuStatistics]
    """Counts of the IOMMU, if there is one."""
    link_bytes: int
    """Bytes that have passed the port, in both directions together."""
    not_sent: int
    """Frames that cannot be sent: without memory, empty, too long, or not in this network's format.
    """
    processors: NotRequired[ProcessorsStatistics]
    """Counts of its cores, if it is programmable."""
    refused_run: NotRequired[str]
    """The first forbidden operation of untrusted code on its cores, as a sentence; `None` if there
    was none.
    """


class CqeNicStatistics(TypedDict):
    """Counts of the interface."""

    block_reads: int
    """Reads of blocks of send queues."""
    blue_flames: int
    """Work requests that came with their doorbells."""
    buffer_reads: int
    """Reads of work requests to receive."""
    completions: int
    """Completions written."""
    compressed_completions: int
    """Completions that were compressed, as part of these."""
    doorbells: int
    """Doorbells of send queues."""
    dropped_overrun: int
    """Frames that were dropped because there was no room for their completion."""
    frames: NicStatistics
    """Frames, of both ports together."""
    record_reads: int
    """Reads of doorbell records."""


class RpcValetInterface(TypedDict):
    """Counts of RPCValet's network interface in a rack."""

    backends: BackendStatistics
    """Counts of all backends together."""
    dropped_buffer_full: int
    """Frames for which there was no room in the input buffer."""
    dropped_too_long: int
    """Frames that do not fit into a message."""
    dropped_unexpected: int
    """Frames that are not a complete message, or arrived before the program had started its device.
    """
    frames_received: int
    """Frames received from the network."""
    frames_sent: int
    """Replies sent to the network."""
    link_bytes: int
    """Bytes of frames that have crossed the link, in both directions together."""
    messages: int
    """Frames that were sent to the backends."""
    not_sent: int
    """Replies without a request, and malformed ones."""
    refused: int
    """Messages that a backend has refused."""
    waits: int
    """Frames that have waited for a send slot."""


class DmaPathStatistics(TypedDict):
    """Packets on the DMA path: a part of those of the interface."""

    packets_received: int
    """Packets from the network that went to the conventional interface."""
    packets_sent: int
    """Packets that the conventional interface has sent."""


class NanoPuInterface(NanoPuStatistics):
    """Counts of nanoPU's network interface."""

    dma_path: NotRequired[DmaPathStatistics]
    """Packets on the DMA path, if the server has one."""
    failures: list[str]
    """The reasons why messages could not be delivered, a sentence each."""


class RackServerResult(TypedDict):
    """A server's part of the results."""

    address: str
    """The server's IPv4 address."""
    check: NotRequired[str]
    """The output of the program's `check_after_run()`, which has found no error; absent if the
    program has no such function.
    """
    cores: list[CoreResult]
    """The cores."""
    critical_region: NotRequired[CriticalRegionStatistics]
    """The critical regions identified on all cores."""
    cycles: int
    """Cycles of the server's clock."""
    data_plane: NotRequired[DataPlaneResult]
    """The measurements of its data plane, if it has one."""
    dma_path: NotRequired[NicStatistics | CqeNicStatistics]
    """Counts of the network interface that shares its link, if it has a DMA path."""
    energy_nj: EnergyResult
    """The energy of the cores, and of the parts that they share, since the first client began, in
    nanojoules; also per response if no other server serves.
    """
    enhanced_memory_controller: NotRequired[EnhancedMemoryControllerStatistics]
    """Chains that cores have sent to memory controllers, of all cores."""
    exit_status: int | None
    """The exit status of the program; `None` if it still runs."""
    fabric: FabricStatistics
    """Counts of the fabric."""
    hyperplane: NotRequired[HyperPlaneStatistics]
    """Counts of HyperPlane."""
    instructions: int
    """Instructions of all cores of the server."""
    interface: RpcValetInterface | NanoPuInterface | NicStatistics | CqeNicStatistics
    """Counts of the network interface."""
    load_sites: NotRequired[LoadSiteStatistics]
    """Accesses and lines of load instructions, of all harts, from the first instruction on."""
    name: str
    """The name of the server."""
    output: str
    """The program's output."""
    power_w: Energy
    """The mean power in the time of `energy_nj`, in watts."""
    program_counters: NotRequired[dict[str, int]]
    """The counters of a program without a data plane, by name, if clients have operations for it.
    """
    received: LinkCounts
    """Traffic of the link to the server."""
    sent: LinkCounts
    """Traffic of the link from the server."""
    user_interrupts: NotRequired[UserInterruptStatistics]
    """Counts of the interrupts of all harts."""


class PortCounts(TypedDict):
    """The packets of one port of a switch."""

    dropped: int
    """Packets that were dropped."""
    forwarded: int
    """Packets that were sent, including trimmed ones."""
    marked: int
    """Packets marked at this port (explicit congestion notification)."""
    max_queued_bytes: int
    """The maximum number of waiting bytes."""
    trimmed: int
    """Packets whose payload was cut off here."""


class SwitchResult(TypedDict):
    """The switch's part of the results."""

    ports: list[PortCounts]
    """By port, in the order of the servers and then of the clients."""
    unroutable: int
    """Packets to unknown addresses, which were dropped."""


class RackResult(TypedDict):
    """The result of a run of a rack."""

    by_kind: dict[str, KindMeasurement]
    """Throughput and latencies of the requests of each kind, by its name, of all clients together.
    """
    clients: list[RackClientResult]
    """The clients."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions per second of processor time, without those before a
    checkpoint. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the run's thread, in seconds; other work of the host is not included."""
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. The number depends on how far cores run ahead of each other. Absent
    in functional runs.
    """
    host_wall_seconds: float
    """Wall-clock time, in seconds."""
    instructions: int
    """Instructions of all servers."""
    measurement: Measurement | None
    """The measurements of all clients together: each measured request counts once, and throughputs
    add up. `None` if there was no response.
    """
    servers: list[RackServerResult]
    """The servers."""
    simulated_seconds: float
    """Simulated time."""
    switch: NotRequired[SwitchResult]
    """The switch; absent if there is none."""
    traces: NotRequired[list[TraceReport]]
    """The traces that were requested."""
    version: str
    """Version of the simulator."""


class ExecuteResult(TypedDict):
    """The result of a program."""

    check: NotRequired[str]
    """The output of the program's `check_after_run()`, which has found no error; absent if the
    program has no such function, or has failed.
    """
    cores: list[CoreResult]
    """The cores: of a data plane the cores that run it, otherwise all."""
    critical_region: NotRequired[CriticalRegionStatistics]
    """The critical regions identified on all cores."""
    cycles: int
    """Cycles of the server's clock."""
    energy_nj: EnergyResult
    """The energy of the cores shown, and of the parts that all cores share, in nanojoules."""
    enhanced_memory_controller: NotRequired[EnhancedMemoryControllerStatistics]
    """Chains that cores have sent to memory controllers, of all cores."""
    exit_status: int
    """The guest's exit status; after a signal, 128 plus its number."""
    fabric: FabricStatistics
    """Counts of the fabric."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions per second of processor time, without those before a
    checkpoint. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the run's thread, in seconds; other work of the host is not included."""
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. The number depends on how far cores run ahead of each other. Absent
    in functional runs.
    """
    host_wall_seconds: float
    """Wall-clock time, in seconds."""
    instructions: int
    """Instructions of all cores."""
    load_sites: NotRequired[LoadSiteStatistics]
    """Accesses and lines of load instructions, of all harts, from the first instruction on."""
    power_w: Energy
    """The mean power in the time of `energy_nj`, in watts."""
    signal: str | None
    """The signal that ended it, such as `SIGABRT`."""
    simulated_seconds: float
    """Simulated time."""
    traces: NotRequired[list[TraceReport]]
    """The traces that were requested."""
    version: str
    """Version of the simulator."""


class HartResult(TypedDict):
    """The results of one hart in a functional run."""

    instructions: int
    """Number of instructions executed."""


class FunctionalResult(TypedDict):
    """The result of a program that ran without timing."""

    cores: list[HartResult]
    """The harts."""
    exit_status: int
    """The guest's exit status; after a signal, 128 plus its number."""
    host_mips: NotRequired[float]
    """Millions of simulated instructions per second of processor time, without those before a
    checkpoint. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the run's thread, in seconds; other work of the host is not included."""
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. The number depends on how far cores run ahead of each other. Absent
    in functional runs.
    """
    host_wall_seconds: float
    """Wall-clock time, in seconds."""
    instructions: int
    """Instructions of all harts."""
    signal: str | None
    """The signal that ended it, such as `SIGABRT`."""
    traces: NotRequired[list[TraceReport]]
    """The log of retired instructions, if one was requested."""
    version: str
    """Version of the simulator."""


class QueueingDrifts(TypedDict):
    """Quantities that may change with time."""

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
    """The result of a queueing system; times are in mean service times."""

    drift: QueueingDrifts
    """The change of latency with time."""
    histogram: str
    """All latencies in 1024ths of a mean service time, as an HdrHistogram (V2, compressed, base64).
    """
    host_mips: NotRequired[float]
    """Millions of simulated instructions per second of processor time, without those before a
    checkpoint. Absent without instructions to execute.
    """
    host_seconds: float
    """Processor time of the run's thread, in seconds; other work of the host is not included."""
    host_skipped_cycles: NotRequired[list[int]]
    """For each core, of a rack server by server: cycles that were not simulated one by one because
    the core provably only spun. The number depends on how far cores run ahead of each other. Absent
    in functional runs.
    """
    host_wall_seconds: float
    """Wall-clock time, in seconds."""
    keeps_up: bool
    """Whether the units serve the offered load, that is, `overload` is empty."""
    latency_service_times: QueueingLatencies
    """From a request's arrival to the end of its service."""
    mean_drawn_service_time: float
    """Mean of the service times that were drawn, in the unit of their distribution and without the
    fixed part.
    """
    mean_wait_service_times: float
    """Mean time from arrival to the beginning of service, in mean service times."""
    overload: list[str]
    """The reasons why the units do not serve the offered load, a sentence each."""
    steady: bool
    """Whether the latency does not grow."""
    throughput: float
    """The rate of served requests, as a fraction of the capacity of all units."""
    version: str
    """Version of the simulator."""
