"""CARGO: its figures and claims."""

from nanoplane.papers.cargo import (
    cycles,
    gets,
    links,
    loads,
    model,
    not_run,
    offload,
    platforms,
    regions,
    split,
)

_PARTS = (model, platforms, gets, cycles, loads, regions, offload, links, split)

FIGURES = tuple(figure for part in _PARTS for figure in part.FIGURES)
CLAIMS = (*(claim for part in _PARTS for claim in part.CLAIMS), *not_run.CLAIMS)
