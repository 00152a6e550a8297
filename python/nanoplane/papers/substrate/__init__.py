"""The substrate itself: latency and bandwidth of caches and memory, beside a real machine's."""

from nanoplane.papers.substrate import bandwidth, latency, leaky_dma

FIGURES = (*latency.FIGURES, *bandwidth.FIGURES, *leaky_dma.FIGURES)
CLAIMS = (*latency.CLAIMS, *bandwidth.CLAIMS)
