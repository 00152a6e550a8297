"""Claims of the paper that cannot be checked yet."""

from nanoplane.claims import Claim

_LOOK_UPS = (
    "it says how many look-ups the paper's run had, of a billion instructions for each core; runs "
    "here have fewer. The other claims of Figure 7 are quotients, or counts that do not grow"
)
_TOO_FEW = (
    "the paper contradicts itself: of five loads one has 106 thousand, so that the mean is 21 "
    "thousand or more"
)


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


_MEAN_BLOCKS = (
    "Blocks count ranges from a maximum of 106K [...] with an average of 5K across all PCs"
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
    _claim("7.mean", "Section 4", _BLOCKS, 376, "thousand accesses", _LOOK_UPS),
    _claim("7.lines-mean", "Section 4", _MEAN_BLOCKS, 5, "thousand lines", _TOO_FEW),
)
