"""nanoPU (OSDI 2021): its figures, and what it claims."""

from nanoplane.papers.nanopu import applications, dot_product, loopback, network, threads

_PARTS = (loopback, dot_product, threads, network, applications)

FIGURES = tuple(figure for part in _PARTS for figure in part.FIGURES)
CLAIMS = tuple(claim for part in _PARTS for claim in part.CLAIMS)
