"""What the paper claims and nanoplane does not measure yet."""

from nanoplane.claims import Claim

_SYSTEM = "RPCValet's messages and dispatch"
_WHICH = "the baseline, of which the paper does not say which of its figures it is in"


def _not_yet(
    name: str, where: str, quote: str, paper_value: float | str, unit: str, needs: str
) -> Claim:
    how, rule = "not measured yet", "none yet"
    why = f"needs what nanoplane does not have yet: {needs}"
    return Claim(f"rpcvalet.{name}", where, quote, paper_value, unit, how, rule, why=why)


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
        "1.over-rss-least",
        "Section 1",
        "outperforms software-based and RSS-like hardware-driven load distribution by 2.3-2.7x "
        "and 29-76%, respectively",
        29,
        "%",
        _WHICH,
    ),
    _not_yet(
        "1.over-rss-most",
        "Section 1",
        "outperforms software-based and RSS-like hardware-driven load distribution by 2.3-2.7x "
        "and 29-76%, respectively",
        76,
        "%",
        _WHICH,
    ),
)
