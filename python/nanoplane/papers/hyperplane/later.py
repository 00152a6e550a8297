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
        "11.co-runner-spin",
        "Section V-D",
        "when the spinning data plane is used, the co-runner IPC increases with the data plane "
        "load",
        "above 1",
        "times",
        "two hardware threads on a core",
    ),
    _not_yet(
        "11.co-runner-hyperplane",
        "Section V-D",
        "With HyperPlane, however, the co-runner IPC decreases when data plane load increases",
        "below 1",
        "times",
        "two hardware threads on a core",
    ),
)
