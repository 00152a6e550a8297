"""The substrate itself: latency and bandwidth of caches and memory, beside a real machine's."""

from nanoplane.papers.substrate import bandwidth, latency

FIGURES = (*latency.FIGURES, *bandwidth.FIGURES)
CLAIMS = (*latency.CLAIMS, *bandwidth.CLAIMS)
