"""HyperPlane (MICRO 2020): figures and claims. One module a section of the paper."""

from nanoplane.papers.hyperplane import (
    false_sharing,
    hardware,
    hardware_costs,
    monitoring_set,
    multicore,
    policies,
    queue_scalability,
    ready_set,
    sockets,
    work_proportionality,
)

_SECTIONS = (
    hardware,
    queue_scalability,
    multicore,
    work_proportionality,
    ready_set,
    monitoring_set,
    false_sharing,
    sockets,
    policies,
    hardware_costs,
)

FIGURES = tuple(figure for section in _SECTIONS for figure in section.FIGURES)
CLAIMS = tuple(claim for section in _SECTIONS for claim in section.CLAIMS)
