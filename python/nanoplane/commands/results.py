"""Printing of results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoplane import report
from nanoplane.commands.common import show
from nanoplane.description import has_network, servers
from nanoplane.outcomes import Outcome, measurement, saturates

if TYPE_CHECKING:
    import rich.table


def run_document(outcome: Outcome) -> dict[str, Any]:
    """Return the document that `--json` prints of a run."""
    return {
        **outcome.result,
        "key": outcome.key,
        "stored": outcome.stored,
        "description": outcome.description,
    }


def _cycles(core: dict[str, Any]) -> str:
    """Name the largest parts of a core's cycle stack.

    Each hardware thread has each cycle in the stack, so that with several threads its sum is a
    multiple of the core's cycles.
    """
    parts = sorted(core["stack"].items(), key=lambda part: -part[1])
    # A core that never ran has no cycles.
    every = sum(core["stack"].values()) or 1
    shares = [(name.replace("_", " "), cycles / every) for name, cycles in parts]
    return "cycles: " + ", ".join(f"{share:.0%} {name}" for name, share in shares if share >= 0.01)


_FEW_QUEUES = 16
"""So many have a line each."""


def _add_queues(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add what was refused, and a line for each queue if there are several, but few."""
    if result.get("refused"):
        table.add_row("refused", f"{result['refused']:,}", "found their queue closed")
    queues = result.get("queues")
    if queues is None or not 1 < len(queues["samples"]) <= _FEW_QUEUES:
        return
    samples = sum(queues["samples"])
    for queue, count in enumerate(queues["samples"]):
        rate_mrps = result["throughput_mrps"] * count / samples
        mean, p99 = queues["mean_latency_ns"][queue], queues["p99_latency_ns"][queue]
        table.add_row(
            f"queue {queue} mrps",
            report.number(rate_mrps),
            f"latency_ns mean {report.number(mean)}, p99 {report.number(p99)}; "
            f"{queues['dropped'][queue]:,} of {queues['generated'][queue]:,} dropped",
        )


def _add_domains(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add a line for each messaging domain, if there are several."""
    systems = (part for part in result.values() if isinstance(part, dict))
    domains: list[Any] = next((part["domains"] for part in systems if "domains" in part), [])
    for domain in domains if len(domains) > 1 else []:
        measured = domain["measured"]
        note = f"{domain['dropped']:,} of {domain['generated']:,} dropped"
        if measured is not None:
            latency = measured["latency_ns"]
            mean, p99 = (report.number(latency[name]) for name in ("mean", "p99"))
            note = f"latency_ns mean {mean}, p99 {p99}; {note}"
        rate_mrps = 0.0 if measured is None else measured["throughput_mrps"]
        table.add_row(f"domain {domain['context']} mrps", report.number(rate_mrps), note)


def _power(result: Mapping[str, Any]) -> str:
    """Name the parts of the power, the largest first."""
    power = result["power_w"]
    parts = {
        name.replace("_", " "): sum(part.values())
        for name, part in power.items()
        if isinstance(part, dict)
    }
    parts["cores"] = sum(core["total"] for core in power["cores"])
    shown = sorted(parts.items(), key=lambda part: -part[1])
    names = ", ".join(f"{report.number(watts)} {name}" for name, watts in shown if watts > 0)
    return f"{report.number(power['total'])} W: {names}"


def _add_services(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add how long harts worked on requests, and the same and more of each kind."""
    if (service := result.get("service_ns")) is not None:
        table.add_row("service_ns mean", report.number(service["mean"]), "from take to reply")
    for kind, measured in result.get("by_kind", {}).items():
        latency, service = measured["latency_ns"], measured["service_ns"]
        note = f"of {latency['samples']:,}"
        if service is not None:
            note += f"; service_ns mean {report.number(service['mean'])}"
        table.add_row(f"latency_ns p99 of {kind}", report.number(latency["p99"]), note)


def _result_table() -> "rich.table.Table":
    import rich.box
    import rich.table

    table = rich.table.Table(box=rich.box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    return table


def _add_latencies(table: "rich.table.Table", name: str, latency: dict[str, Any]) -> None:
    for statistic in ("mean", "p50", "p90", "p99", "p999"):
        interval = latency.get(f"{statistic}_ci95")
        note = "no interval: it needs 60 samples, and five for each queue in use"
        if interval is not None:
            note = f"95 % confidence: {report.number(interval[0])} to {report.number(interval[1])}"
        table.add_row(f"{name} {statistic}", report.number(latency[statistic]), note)


def _add_overload(table: "rich.table.Table", outcome: Outcome) -> None:
    """Add why the system does not keep up with its load, unless it is to be saturated."""
    if not saturates(outcome.description):
        for number, reason in enumerate(measurement(outcome.result)["overload"]):
            table.add_row("" if number else "DOES NOT KEEP UP", "", reason)


def _add_host(table: "rich.table.Table", outcome: Outcome) -> None:
    """Add the cost of the run on the host."""
    result = outcome.result
    note = f"of processor time; {report.number(result['host_wall_seconds'])} on the clock"
    if outcome.stored:
        note += "; from the store; --fresh runs again"
    table.add_row("host_seconds", report.number(result["host_seconds"]), note)
    if "host_mips" in result:
        table.add_row("host_mips", report.number(result["host_mips"]), "")


def _print_queueing(outcome: Outcome) -> None:
    result, system = outcome.result, outcome.description["queueing"]
    show(
        f"{system['queues']} x {system['units']}, {system['service_times']['distribution']} "
        f"service times, load {report.number(system['load'])}"
    )
    table = _result_table()
    table.add_row("throughput", report.number(result["throughput"]), "of what all units can serve")
    _add_latencies(table, "latency_service_times", result["latency_service_times"])
    table.add_row("mean_wait_service_times", report.number(result["mean_wait_service_times"]), "")
    table.add_row("samples", f"{result['latency_service_times']['samples']:,}", "")
    _add_overload(table, outcome)
    _add_host(table, outcome)
    show(table)


_FEW_HOSTS = 8
"""So many servers have a line each, and so many clients."""


def _add_hosts(table: "rich.table.Table", result: Mapping[str, Any]) -> None:
    """Add the measurements of all clients together and of each, and the counts of each server."""
    together = result.get("measurement")
    if together is not None and len(result["clients"]) > 1:
        for name in ("offered_mrps", "throughput_mrps"):
            if together.get(name) is not None:
                table.add_row(f"all clients {name}", report.number(together[name]), "")
        _add_latencies(table, "all clients latency_ns", together["latency_ns"])
    if len(result["by_kind"]) > 1:
        _add_services(table, result)
    for client in result["clients"][:_FEW_HOSTS]:
        measured, counted = client["measurement"], client["statistics"]
        name = client["name"]
        note = f"{counted['responses']:,} responses to {counted['requests']:,} requests"
        if measured is None:
            table.add_row(f"{name} latency_ns", "-", note)
            continue
        if measured.get("offered_mrps") is not None:
            table.add_row(f"{name} offered_mrps", report.number(measured["offered_mrps"]), "")
        table.add_row(f"{name} throughput_mrps", report.number(measured["throughput_mrps"]), note)
        _add_latencies(table, f"{name} latency_ns", measured["latency_ns"])
    for server in result["servers"][:_FEW_HOSTS]:
        if (measured := server.get("data_plane")) is not None:
            rate = report.number(measured["throughput_mrps"])
            table.add_row(f"{server['name']} throughput_mrps", rate, "of its data plane")
            _add_latencies(table, f"{server['name']} latency_ns", measured["latency_ns"])
        sent, received = server["sent"], server["received"]
        table.add_row(
            f"{server['name']} instructions",
            f"{server['instructions']:,}",
            f"{server['address']}; packets: {sent['packets']:,} sent, "
            f"{received['packets']:,} received",
        )
        for name, value in server.get("program_counters", {}).items():
            counted_by = f"{server['name']} {report.printable(name)}"
            table.add_row(counted_by, f"{value:,}", "counted by the program")
        if server.get("check"):
            table.add_row(f"{server['name']} check", "passed", report.printable(server["check"]))
    hidden = sum(max(0, len(result[one]) - _FEW_HOSTS) for one in ("clients", "servers"))
    if hidden:
        table.add_row("others", f"{hidden:,}", "with --json all servers and clients")


def _print_rack(outcome: Outcome) -> None:
    result = outcome.result
    named = [one.get("data_plane", one)["program"] for _, one in servers(outcome.description)]
    programs = dict.fromkeys(Path(one).stem for one in named)
    hosts = {one: len(result[f"{one}s"]) for one in ("server", "client")}
    counted = [f"{count} {one}" + ("s" if count != 1 else "") for one, count in hosts.items()]
    show(f"{counted[0]} ({', '.join(programs)}), {counted[1]}")
    for server in result["servers"]:
        if server["output"]:
            show(report.printable(f"{server['name']}:\n{server['output'].rstrip()}"))
    table = _result_table()
    _add_hosts(table, result)
    if result["measurement"] is not None:
        _add_overload(table, outcome)
    if (switch := result.get("switch")) is not None:
        ports = switch["ports"]
        for name in ("forwarded", "trimmed", "dropped"):
            table.add_row(f"switch {name}", f"{sum(port[name] for port in ports):,}", "packets")
        most = max(port["max_queued_bytes"] for port in ports)
        table.add_row("switch max_queued_bytes", f"{most:,}", "in front of one port")
    table.add_row("instructions", f"{result['instructions']:,}", "")
    table.add_row("simulated_seconds", report.number(result["simulated_seconds"]), "")
    _add_host(table, outcome)
    show(table)


def print_slowest(requests: Sequence[Mapping[str, Any]], server: str = "") -> None:
    """Print the slowest requests of a data plane, which may be a rack's server, and the reasons."""
    import rich.box
    import rich.table

    table = rich.table.Table(box=rich.box.SIMPLE, pad_edge=False)
    for name in ("request", "queue", "core", "arrived, us", "latency, ns"):
        table.add_column(name, justify="right")
    table.add_column("")
    for one in requests:
        table.add_row(
            str(one["item"]),
            str(one["queue"]),
            str(one["core"]),
            f"{one['arrived_us']:,.3f}",
            f"{one['latency_ns']:,.0f}",
            one["reason"],
        )
    show(
        f"The {len(requests)} slowest requests" + (f' of the server "{server}"' if server else ""),
        table,
    )


def print_result(outcome: Outcome) -> None:
    """Print a result as a table, by what was run."""
    result = outcome.result
    if "queueing" in outcome.description:
        _print_queueing(outcome)
        return
    if has_network(outcome.description):
        _print_rack(outcome)
        return
    data_plane, traffic = outcome.description["data_plane"], outcome.description["traffic"]
    load = traffic.get("load") or f"{report.number(traffic.get('rate_mrps'))} Mrps"
    show(
        f"{Path(data_plane['program']).stem}, {data_plane['notify']}, "
        f"{data_plane['queues']} queues, "
        f"{traffic['shape']}, {traffic['arrivals']}, load {load}"
    )
    latency = result["latency_ns"]
    table = _result_table()
    if not saturates(outcome.description):
        table.add_row("offered_mrps", report.number(result["offered_mrps"]), "")
    table.add_row("throughput_mrps", report.number(result["throughput_mrps"]), "")
    _add_latencies(table, "latency_ns", latency)
    note = f"after {result['warmup_samples']:,} of warm-up"
    if (warm := result.get("warm_start_requests")) is not None:
        note = f"after {warm:,} of the warm start and {result['warmup_samples']:,} of warm-up"
    if not result["steady"]:
        note += "; NOT STEADY: the numbers may still change with time, take more requests"
    elif not result["precise"]:
        note += "; NOT PRECISE: the p99 is not known as well as measure.precision asks"
    table.add_row("samples", f"{latency['samples']:,}", note)
    table.add_row("dropped", f"{result['dropped']:,}", f"of {result['generated']:,} generated")
    if (sources := result.get("sources")) is not None:
        cores = "1 core" if sources["cores"] == 1 else f"{sources['cores']} cores"
        table.add_row(
            "entering_ns mean",
            report.number(sources["mean_entering_ns"]),
            f"until {cores} have put an item into its queue; p99 "
            f"{report.number(sources['p99_entering_ns'])}",
        )
    _add_overload(table, outcome)
    table.add_row("instructions", f"{result['instructions']:,}", "")
    table.add_row("cycles", f"{result['cycles']:,}", "")
    _add_services(table, result)
    _add_queues(table, result)
    _add_domains(table, result)
    for name, value in result.get("program_counters", {}).items():
        table.add_row(report.printable(name), f"{value:,}", "counted by the program")
    if result.get("check"):
        table.add_row("check", "passed", report.printable(result["check"]))
    for index, core in enumerate(result["cores"]):
        if core["instructions"]:
            table.add_row(f"ipc of core {index}", report.number(core["ipc"]), _cycles(core))
    table.add_row(
        "energy_nj per_request",
        report.number(result["energy_nj"].get("per_request")),
        _power(result),
    )
    table.add_row("simulated_seconds", report.number(result["simulated_seconds"]), "")
    _add_host(table, outcome)
    show(table)
