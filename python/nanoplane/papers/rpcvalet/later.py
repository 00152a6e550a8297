"""What the paper claims and nanoplane does not measure yet."""

from nanoplane.claims import Claim

_SYSTEM = "RPCValet's messages and dispatch"
_STORES = f"{_SYSTEM}, and the key-value stores"


def _not_yet(
    name: str, where: str, quote: str, paper_value: float | str, unit: str, needs: str
) -> Claim:
    how, rule = "not measured yet", "none yet"
    why = f"needs what nanoplane does not have yet: {needs}"
    return Claim(f"rpcvalet.{name}", where, quote, paper_value, unit, how, rule, why=why)


_HERD = "1x16 delivers 29MRPS, 1.16x and 1.18x higher throughput than 4x4 and 16x1, respectively"
_RELAXED = (
    "Under a more relaxed SLO of 75us, RPCValet's 1x16 configuration delivers 54% higher "
    "throughput than 16x1 and 20% higher than 4x4"
)
_THRESHOLD = (
    "Reducing this to one marginally degrades HERD's throughput, because of its short sub-us "
    "service times, but has no measurable performance difference in the rest of our experiments"
)

CLAIMS = (
    _not_yet(
        "4.footprint",
        "Section 4.2",
        "the messaging mechanism's memory footprint is 32 x N x S + (max_msg_size + 64) x N x S "
        "bytes",
        "32 N S + (max_msg_size + 64) N S",
        "bytes",
        _SYSTEM,
    ),
    _not_yet(
        "4.footprint-size",
        "Section 4.2",
        "that number should not exceed a few tens of MBs",
        "a few tens",
        "MB",
        _SYSTEM,
    ),
    _not_yet(
        "4.dispatch-interval-16",
        "Section 4.3",
        "even an RPC service time as low as 500ns corresponds to a new dispatch decision every "
        "~31/8ns for a 16/64-core chip",
        31,
        "ns",
        _SYSTEM,
    ),
    _not_yet(
        "4.dispatch-interval-64",
        "Section 4.3",
        "even an RPC service time as low as 500ns corresponds to a new dispatch decision every "
        "~31/8ns for a 16/64-core chip",
        8,
        "ns",
        f"{_SYSTEM} on 64 cores",
    ),
    _not_yet(
        "4.dispatcher-latency",
        "Section 4.3",
        "the indirection from any NI backend to the NI dispatcher costs a couple of on-chip "
        "interconnect hops, adding just a few ns to the end-to-end message delivery latency",
        "a few",
        "ns",
        _SYSTEM,
    ),
    _not_yet(
        "4.state",
        "Section 4.4",
        "In total, we add 20B of stored state per context",
        20,
        "bytes",
        "a count of the state of the network interface",
    ),
    _not_yet(
        "6.herd-mean",
        "Section 5",
        "HERD's RPC processing times after the request has exited the network, which have a mean "
        "of 330ns",
        330,
        "ns",
        _STORES,
    ),
    _not_yet(
        "6.masstree-mean",
        "Section 5",
        "The resulting distribution for gets is shown in Figure 6c and has an average of 1.25 us",
        1250,
        "ns",
        _STORES,
    ),
    _not_yet(
        "6.masstree-scans",
        "Section 5",
        "The runtime of scans is 60-120 us",
        "60 to 120",
        "us",
        _STORES,
    ),
    _not_yet(
        "7a.service-time",
        "Section 6.1",
        "With a resulting S of ~550ns",
        550,
        "ns",
        _STORES,
    ),
    _not_yet("7a.throughput", "Section 6.1", _HERD, 29, "MRPS", _STORES),
    _not_yet("7a.over-4x4", "Section 6.1", _HERD, 1.16, "times", _STORES),
    _not_yet("7a.over-16x1", "Section 6.1", _HERD, 1.18, "times", _STORES),
    _not_yet(
        "7a.tail",
        "Section 6.1",
        "up to 4x lower tail latency before reaching saturation load",
        4,
        "times",
        _STORES,
    ),
    _not_yet(
        "7b.16x1",
        "Section 6.1",
        "16x1 cannot meet the SLO even for the lowest arrival rate of 2MRPS",
        "above 12.5",
        "us",
        _STORES,
    ),
    _not_yet(
        "7b.4x4",
        "Section 6.1",
        "even 4x4 quickly violates the SLO at 3MRPS",
        3,
        "MRPS",
        _STORES,
    ),
    _not_yet(
        "7b.throughput",
        "Section 6.1",
        "1x16 delivers 4.1MRPS at SLO",
        4.1,
        "MRPS",
        _STORES,
    ),
    _not_yet(
        "7b.over-4x4",
        "Section 6.1",
        "1x16 delivers 4.1MRPS at SLO, outperforming 4x4 by 37%",
        37,
        "%",
        _STORES,
    ),
    _not_yet("7b.relaxed-over-16x1", "Section 6.1", _RELAXED, 54, "%", _STORES),
    _not_yet("7b.relaxed-over-4x4", "Section 6.1", _RELAXED, 20, "%", _STORES),
    _not_yet("7.threshold-herd", "Section 6.1", _THRESHOLD, "below 1", "times", _STORES),
    _not_yet(
        "1.over-rss-least",
        "Section 1",
        "outperforms software-based and RSS-like hardware-driven load distribution by 2.3-2.7x "
        "and 29-76%, respectively",
        29,
        "%",
        _STORES,
    ),
    _not_yet(
        "1.over-rss-most",
        "Section 1",
        "outperforms software-based and RSS-like hardware-driven load distribution by 2.3-2.7x "
        "and 29-76%, respectively",
        76,
        "%",
        _STORES,
    ),
)
