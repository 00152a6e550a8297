"""Claims of the paper about parts that do not run yet."""

from nanoplane.claims import Claim

_WAITING = "how long a request waits for its hart is not measured in racks yet"
_EMC = "the enhanced memory controller (Hashemi et al., ISCA 2016) is not there yet"
_FPGA = "no FPGA serves requests yet"
_PERFECT = "no first-level cache is perfect yet"
_LOADS = "no figure counts the blocks of each load yet"
_SIXTEEN = "16 bytes of payload, 48 of headers"


def _claim(name: str, where: str, quote: str, value: float, unit: str, why: str) -> Claim:
    how = "not measured yet"
    return Claim(
        f"cargo.{name}",
        where,
        quote,
        unit,
        how,
        None,
        paper_value=value,
        why=why,
    )


_EMC_SPLIT = (
    "with EMC, queuing delay contributes 34% and 11% along with 66% and 89% contribution coming "
    "from core for memcached and Silo"
)
_SPLIT = (
    "CARGO achieves 68%, 58% improvement from queuing delay and 32%, 42% improvement from core "
    "for memcached and Silo"
)
_BLOCKS = (
    "each PC sources 376K accesses, with a maximum of 564K (PC 8) and a minimum of 224K (PC 5)"
)

_TABLE_1 = {
    10: (81, 94, 120),
    40: (325, 376, 482),
    100: (812, 941, 1205),
    200: (1625, 1883, 2410),
    400: (3250, 3767, 4821),
}
"""Packets under way, by line rate in Gb/s, for applications of these times."""
_APPLICATIONS_US = (0.6, 1.18, 2.36)
_TABLE_3 = {
    "CPU:C1": (660, 6.06, 69, 87.3, "the store's baseline is in cargo.table2; its table is not"),
    "CPU:C2": (173, 23.1, 83, 277.6, _PERFECT),
    "FPGA:C1": (2812, 1.5, 34, 43.6, _FPGA),
    "FPGA:C2": (1400, 3.6, 41.3, 87.2, _FPGA),
}
_COLUMNS = (
    ("latency", "Latency (ns)", "ns"),
    ("throughput", "Thpt (MRPS)", "Mrps"),
    ("power", "Power (WATT)", "W"),
    ("efficiency", "Efficiency (KRPS/W)", "krps/W"),
)

CLAIMS = (
    *(
        _claim(
            f"table1.packets-{rate}-{application_us}",
            "Table 1",
            f"{rate} Gbps, {application_us} us: {packets} packets ({_SIXTEEN})",
            packets,
            "packets",
            "the latency of the path to the core and back (Figure 1) is that of the conventional "
            "interface, which does not bring packets to this store yet",
        )
        for rate, row in _TABLE_1.items()
        for application_us, packets in zip(_APPLICATIONS_US, row, strict=True)
    ),
    *(
        _claim(
            f"table2.efficiency-{rate}",
            "Table 2",
            f"Efficiency (KRPS/W), {rate} Gbps: {efficiency}",
            efficiency,
            "krps/W",
            "the model has no power, and the paper gives none for it",
        )
        for rate, efficiency in ((10, 222), (40, 433), (100, 419), (200, 419), (400, 371))
    ),
    *(
        _claim(
            f"table3.{column}-{name.lower().replace(':', '-')}",
            "Table 3",
            f"{name}, {title}: {value}",
            float(value),
            unit,
            str(why),
        )
        for name, (*values, why) in _TABLE_3.items()
        for (column, title, unit), value in zip(_COLUMNS, values, strict=True)
    ),
    _claim(
        "4.latency",
        "Section 3.2",
        "design (A) is able to achieve more than 3X improvement compared to other designs",
        3.0,
        "times",
        _FPGA,
    ),
    _claim(
        "4.associative",
        "Section 3.2",
        "On average, latency improves by only 3% by this optimization",
        3.0,
        "%",
        _FPGA,
    ),
    _claim(
        "4.efficiency",
        "Section 3.2",
        "CPU based platform delivers 45% higher power efficiency than the FPGA",
        45.0,
        "%",
        _FPGA,
    ),
    _claim(
        "5.perfect",
        "Section 3.3",
        "if all access from the core can be served by the DL1 cache (CPU:2), memory access "
        "overhead drops to 40%",
        40.0,
        "%",
        _PERFECT,
    ),
    _claim("7.mean", "Section 4", _BLOCKS, 376, "thousand accesses", _LOADS),
    _claim("7.most", "Section 4", _BLOCKS, 564, "thousand accesses", _LOADS),
    _claim("7.least", "Section 4", _BLOCKS, 224, "thousand accesses", _LOADS),
    _claim(
        "13.wrong",
        "Section 6.1",
        "Out of the instruction that executed, 7% of the generated memory accesses are incorrect",
        7.0,
        "%",
        "a wrong address that has memory is not counted",
    ),
    _claim("15.emc", "Section 6.2", "average gain for EMC remains at 42%", 42.0, "%", _EMC),
    _claim(
        "16.emc-silo",
        "Section 6.2",
        "Across the board, EMC achieves 8% improvement for Silo",
        8.0,
        "%",
        _EMC,
    ),
    _claim("17.emc-queue-memcached", "Section 6.3", _EMC_SPLIT, 34.0, "%", _EMC),
    _claim("17.emc-queue-silo", "Section 6.3", _EMC_SPLIT, 11.0, "%", _EMC),
    _claim("17.queue-memcached", "Section 6.3", _SPLIT, 68.0, "%", _WAITING),
    _claim("17.queue-silo", "Section 6.3", _SPLIT, 58.0, "%", _WAITING),
    _claim(
        "6.routine-instructions",
        "Section 6.4",
        "user regions execute 56 additional instructions/packet",
        56.0,
        "instructions",
        "instructions of the firmware are counted all together: 300 a packet of the cache",
    ),
    _claim(
        "6.power",
        "Section 6.4",
        "consumes .4 W of additional power",
        0.4,
        "W",
        "the energy of the structures is not counted yet",
    ),
)
