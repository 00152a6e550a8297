"""nanoPU (OSDI 2021): figures and claims."""

from nanoplane.papers.nanopu import (
    applications,
    dot_product,
    loopback,
    network,
    preemption,
    threads,
)

_PARTS = (loopback, dot_product, threads, network, applications)

FIGURES = (*(figure for part in _PARTS for figure in part.FIGURES), *preemption.FIGURES)
CLAIMS = tuple(claim for part in _PARTS for claim in part.CLAIMS)
