"""Section 4.2, turbo: what spinning cores take from the clock of another one."""

from nanoplane.claims import Claim
from nanoplane.figures import Figure

FIGURES: tuple[Figure, ...] = ()

_NO_SOURCE = (
    "the clock of a core is a constant here: neither the budget nor the turbo bins by active cores "
    "of a Xeon Platinum 8160 were found in a source, and the energy model gives watts, not clocks"
)

CLAIMS = tuple(
    Claim(
        f"spin-to-win.4.clock-{spinning}",
        "Section 4.2",
        "8 and 16 cores spinning full-tilt on empty queues reduce the frequency of a core running "
        "a regular application from ~3.45GHz to ~3.25GHz and ~2.95GHz",
        ghz,
        "GHz",
        f"clock of a core beside {spinning} that spin",
        None,
        why=_NO_SOURCE,
    )
    for spinning, ghz in ((8, 3.25), (16, 2.95))
)
