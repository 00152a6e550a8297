"""The study of spinning (SoCC 2019): figures and claims. One module a section.

Golestani, Mirhosseini and Wenisch, "Software Data Planes: You Can't Always Spin to Win".
"""

from nanoplane.papers.spin_to_win import (
    beyond,
    clock,
    co_runners,
    cores,
    queues,
    scale_up,
    switching,
    tax,
)

_SECTIONS = (tax, clock, co_runners, queues, cores, scale_up, switching, beyond)

FIGURES = tuple(figure for section in _SECTIONS for figure in section.FIGURES)
CLAIMS = tuple(claim for section in _SECTIONS for claim in section.CLAIMS)
