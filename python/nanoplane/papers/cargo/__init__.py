"""CARGO: its figures, and what it claims."""

from nanoplane.papers.cargo import cycles, model, not_run, offload, regions

_PARTS = (model, cycles, regions, offload)

FIGURES = tuple(figure for part in _PARTS for figure in part.FIGURES)
CLAIMS = (*(claim for part in _PARTS for claim in part.CLAIMS), *not_run.CLAIMS)
