"""The substrate itself: latency and bandwidth of caches and memory, beside a real machine's."""

from nanoplane.papers.substrate import bandwidth, latency, leaky_dma, loaded_latency

FIGURES = (
    *latency.FIGURES,
    *bandwidth.FIGURES,
    *loaded_latency.FIGURES,
    *leaky_dma.FIGURES,
)
CLAIMS = (*latency.CLAIMS, *bandwidth.CLAIMS, *loaded_latency.CLAIMS)
