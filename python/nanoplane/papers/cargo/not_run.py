"""Claims of the paper that cannot be checked yet."""

from nanoplane.claims import Claim

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
    _claim(
        "6.routine-instructions",
        "Section 6.4",
        "user regions execute 56 additional instructions/packet",
        56.0,
        "instructions",
        "instructions of the firmware are counted all together: 300 a packet of the cache",
    ),
)
