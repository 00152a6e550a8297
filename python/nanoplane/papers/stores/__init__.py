"""Two stores of gigabytes, in the manner of memcached and of Silo, on CARGO's server."""

from typing import TYPE_CHECKING

from nanoplane.papers.stores import load

if TYPE_CHECKING:
    from nanoplane.claims import Claim

FIGURES = load.FIGURES
CLAIMS: "tuple[Claim, ...]" = ()
