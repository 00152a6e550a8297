"""Claims of the paper that cannot be checked yet."""

from nanoplane.claims import Claim

_EMC = "the enhanced memory controller (Hashemi et al., ISCA 2016) is not there yet"
_LOADS = "nothing counts the accesses of each load of a program, and the lines that it touches"


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
_BLOCKS = (
    "each PC sources 376K accesses, with a maximum of 564K (PC 8) and a minimum of 224K (PC 5)"
)

CLAIMS = (
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
    _claim(
        "6.routine-instructions",
        "Section 6.4",
        "user regions execute 56 additional instructions/packet",
        56.0,
        "instructions",
        "instructions of the firmware are counted all together: 300 a packet of the cache",
    ),
)
