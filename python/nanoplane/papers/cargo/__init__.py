"""CARGO: its figures, and what it claims."""

from nanoplane.papers.cargo import cycles, model, not_run, regions

_PARTS = (model, cycles, regions)

FIGURES = tuple(figure for part in _PARTS for figure in part.FIGURES)
CLAIMS = (*(claim for part in _PARTS for claim in part.CLAIMS), *not_run.CLAIMS)
