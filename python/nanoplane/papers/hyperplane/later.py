"""What the paper claims and nanoplane does not measure yet."""

from nanoplane.claims import Claim


def _not_yet(
    name: str, where: str, quote: str, paper_value: float | str, unit: str, needs: str
) -> Claim:
    how, rule = "not measured yet", "none yet"
    why = f"needs what nanoplane does not have yet: {needs}"
    return Claim(f"hyperplane.{name}", where, quote, paper_value, unit, how, rule, why=why)


CLAIMS = (
    _not_yet(
        "4.area",
        "Section IV-C",
        "the overall area overhead of the HyperPlane hardware components is within 0.26% of "
        "the total core area",
        0.26,
        "%",
        "area",
    ),
    _not_yet(
        "4.power",
        "Section IV-C",
        "the power costs of HyperPlane to be within 0.4% the total core power",
        0.4,
        "%",
        "energy of its own for the two sets: theirs is made of this number",
    ),
)
