"""Section 4.2: what spinning cores take from the clock of another one, and what they wear out."""

from nanoplane.claims import Claim
from nanoplane.figures import Figure

FIGURES: tuple[Figure, ...] = ()

_NO_SOURCE = (
    "the clock of a core is a constant here: the turbo bins of a Xeon Platinum 8160 by active "
    "cores are in Intel's specification update (336065), of which no copy with its table was "
    "found, and no source gives a budget"
)

_CLOCKS = tuple(
    Claim(
        f"spin-to-win.4.clock-{spinning}",
        "Section 4.2",
        "8 and 16 cores spinning full-tilt on empty queues reduce the frequency of a core running "
        "a regular application from ~3.45GHz to ~3.25GHz and ~2.95GHz",
        "GHz",
        f"clock of a core beside {spinning} that spin",
        None,
        paper_value=ghz,
        why=_NO_SOURCE,
    )
    for spinning, ghz in ((8, 3.25), (16, 2.95))
)

CLAIMS = (
    *_CLOCKS,
    Claim(
        "spin-to-win.4.power",
        "Section 4.2",
        "we expect cores running data plane software to consume at least 30% more switching power",
        "%",
        "switching power of a core that spins, by that of a usual application",
        None,
        paper_value="above 30",
        why="the paper expects this of instructions a cycle, and measures no power; which "
        "application it is compared with is not said",
    ),
    Claim(
        "spin-to-win.4.lifetime",
        "Section 4.2",
        "spinning core lifetimes may drop below the 5-year threshold",
        "years",
        "lifetime of a core that spins",
        None,
        paper_value="below 5",
        why="aging is not modelled; the paper concludes it from others' numbers",
    ),
)
