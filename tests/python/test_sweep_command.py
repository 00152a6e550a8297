"""`nanoplane sweep` and `compare`: tables of several runs."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy
import polars
import pytest

from command_line import Command
from nanoplane import Description, DescriptionError, comparison, sweep
from nanoplane.papers import plots

pytestmark = pytest.mark.usefixtures("fake")

DESCRIPTION = """
server.preset = "hyperplane-table1"
data_plane = { program = "packet-encapsulation", notify = "hyperplane", queues = 10 }
traffic = { shape = "single-queue", rate_mrps = 0.1 }
measure.requests = 1000
"""

VARIED = ("--vary", "data_plane.queues=1,10", "--vary", "data_plane.notify=spin,hyperplane")
POINTS = [("1", "spin"), ("1", "hyperplane"), ("10", "spin"), ("10", "hyperplane")]


def test_every_combination_is_run_in_the_order_of_the_options(command: Command) -> None:
    status, output, _ = command("sweep", "example.toml", *VARIED, "--json")
    documents = json.loads(output)
    assert status == 0
    assert [tuple(one["varied"].values()) for one in documents] == POINTS
    planes = [one["description"]["data_plane"] for one in documents]
    assert [(str(one["queues"]), one["notify"]) for one in planes] == POINTS


def test_the_csv_has_the_numbers_of_the_results(command: Command) -> None:
    status, output, _ = command(
        "sweep", "example.toml", *VARIED, "--field", "latency_ns.p999", "--csv", "out.csv"
    )
    assert status == 0
    assert output.splitlines()[-1] == "written: out.csv"
    rows = list(csv.DictReader(io.StringIO(Path("out.csv").read_text())))
    _, output, _ = command("sweep", "example.toml", *VARIED, "--json")
    for row, document in zip(rows, json.loads(output), strict=True):
        latency = document["latency_ns"]
        assert float(row["latency_ns.p999"]) == latency["p999"]
        assert float(row["latency_ns.p999_ci95_low"]) == latency["p999_ci95"][0]
        assert row["key"] == document["key"]
        assert document["stored"]


def test_commas_in_brackets_and_texts_part_no_values(command: Command) -> None:
    status, output, _ = command(
        *("sweep", "example.toml", "--vary", "data_plane.weights=[4, 1], [1, 1]", "--json"),
        *("--set", "data_plane.queues=2", "--set", "data_plane.policy=weighted-round-robin"),
    )
    assert status == 0
    planes = [one["description"]["data_plane"] for one in json.loads(output)]
    assert [one["weights"] for one in planes] == [[4, 1], [1, 1]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--vary", "data_plane.queues"), "--vary data_plane.queues: write key=value,value"),
        (("--vary", "data_plane.queues=1,,2"), "write key=value,value"),
        (("--vary", "data_plane.queues=1,1"), "1 is there twice"),
        (
            ("--vary", "data_plane.queues=1", "--vary", "data_plane.queues=2"),
            "--vary has the same key twice",
        ),
        (("--vary", "data_plane.queue=1,2"), "data_plane.queue is not known; did you mean"),
        (
            ("--vary", f"measure.seed={','.join(map(str, range(100_001)))}"),
            "these are 100,001 runs, more than 100,000",
        ),
        (
            ("--vary", "data_plane.queues=1", "--field", "latncy.p99"),
            'did you mean "latency_ns.p99"?',
        ),
        (("--vary", "data_plane.queues=1", "--field", "latncy"), "a result has no latncy; docs/"),
        (("--vary", "data_plane.queues=1", "--field", "latency_ns"), "not a number of a result"),
        (
            ("--vary", "data_plane.queues=1", "--field", "counters.x"),
            'did you mean "program_counters.x"?',
        ),
    ],
)
def test_a_wrong_option_gets_a_sentence(
    command: Command, options: tuple[str, ...], sentence: str
) -> None:
    status, output, errors = command("sweep", "example.toml", *options)
    assert (status, output) == (2, "")
    assert sentence in errors
    assert errors.count("\n") == 1


def test_two_keys_of_the_store_are_compared(command: Command) -> None:
    _, output, _ = command("sweep", "example.toml", *VARIED, "--json")
    first, second = (one["key"] for one in json.loads(output)[:2])
    status, output, _ = command("compare", first[:10], second[:10], "--json")
    document = json.loads(output)
    assert status == 0
    assert document["description"] == [
        {"key": "data_plane.notify", "first": "spin", "second": "hyperplane"}
    ]
    names = [one["name"] for one in document["measured"]]
    assert names[:3] == ["throughput_mrps", "latency_ns.mean", "latency_ns.p50"]
    status, output, _ = command("compare", first[:10], second[:10])
    assert status == 0
    assert "data_plane.notify" in output


def result(mean: float, low: float, high: float) -> dict[str, Any]:
    return {"throughput_mrps": 2.0, "latency_ns": {"mean": mean, "mean_ci95": [low, high]}}


def test_the_interval_of_a_ratio_adds_the_errors_of_both_sides_by_squares() -> None:
    first = comparison.Side("a", result(100.0, 97.0, 103.0), None)
    second = comparison.Side("b", result(200.0, 192.0, 208.0), None)
    throughput, mean = comparison.differences(first, second)
    assert throughput.verdict == comparison.EQUAL
    # 3 % and 4 % make 5 %.
    assert mean.ratio == 2.0
    assert mean.ratio_ci95 == pytest.approx((1.9, 2.1))
    assert mean.verdict == comparison.DIFFERS
    near = comparison.Side("c", result(104.0, 100.0, 108.0), None)
    assert comparison.differences(first, near)[1].verdict == comparison.SAME
    without = comparison.Side("d", {"latency_ns": {"mean": 104.0, "mean_ci95": None}}, None)
    assert comparison.differences(first, without)[0].verdict == comparison.NO_INTERVAL


def test_results_in_files_are_compared(command: Command) -> None:
    Path("a.json").write_text(json.dumps(result(100.0, 97.0, 103.0)))
    Path("b.json").write_text(json.dumps(result(200.0, 192.0, 208.0)))
    status, output, _ = command("compare", "a.json", "b.json")
    assert status == 0
    lines = [line.split() for line in output.splitlines()]
    assert [
        "latency_ns.mean",
        "100.0",
        "200.0",
        "2.000",
        "1.900",
        "to",
        "2.100",
        "differs",
    ] in lines
    assert "only what was measured is compared" in output


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing.json", "missing.json: there is no such file, and no key of"),
        ("0123abcd", "0123abcd: there is no such file, and no key of"),
        ("example.toml", "example.toml: this is not JSON"),
        ("list.json", "list.json: this is not a result"),
        ("other.json", "other.json: this is not a result"),
    ],
)
def test_what_is_no_result_gets_a_sentence(command: Command, name: str, sentence: str) -> None:
    Path("list.json").write_text("[1]")
    Path("other.json").write_text('{"name": 1}')
    status, output, errors = command("compare", name, name)
    assert (status, output) == (2, "")
    assert sentence in errors


def test_a_beginning_of_several_keys_is_not_enough(command: Command) -> None:
    command("sweep", "example.toml", "--vary", f"measure.seed={','.join(map(str, range(1, 18)))}")
    # Of seventeen keys two begin with the same of sixteen digits.
    sentences = [command("compare", digit, digit)[2] for digit in "0123456789abcdef"]
    assert any("begin with" in one and "write more" in one for one in sentences)


def test_what_was_offered_stands_beside_what_was_served(command: Command) -> None:
    _, output, _ = command("sweep", "example.toml", *VARIED)
    assert "offered_mrps" in output
    assert output.index("offered_mrps") < output.index("throughput_mrps")
    _, output, _ = command("sweep", "example.toml", *VARIED, "--set", "traffic.load=saturate")
    assert "offered_mrps" not in output
    _, output, _ = command("run", "example.toml")
    assert "offered_mrps" in output


def test_parquet_has_the_types_of_the_keys(command: Command) -> None:
    status, output, _ = command(
        *("sweep", "example.toml", *VARIED, "--parquet", "out.parquet", "--html", "out.html"),
        *("--field", "latency_ns.p50"),
    )
    assert status == 0
    assert output.splitlines()[-2:] == ["written: out.parquet", "written: out.html"]
    frame = polars.read_parquet("out.parquet")
    assert frame["data_plane.queues"].to_list() == [1, 1, 10, 10]
    assert frame["data_plane.notify"].to_list() == ["spin", "hyperplane"] * 2
    assert frame["latency_ns.p50"].dtype == polars.Float64
    page = Path("out.html").read_text()
    assert "vegaEmbed" in page
    assert "latency_ns.p50" in page


def test_names_are_groups_of_bars(command: Command) -> None:
    varied = ("--vary", "data_plane.notify=spin,hyperplane")
    status, _, _ = command("sweep", "example.toml", *varied, "--html", "out.html")
    page = Path("out.html").read_text()
    assert status == 0
    assert re.search(r'"type": ?"bar"', page)
    # One bar of each name, in the colour that it has in all figures.
    assert plots.SYSTEMS["hyperplane"] in page
    # The table names them, too, and has no numbers in their place.
    assert re.search(r"<td[^>]*>spin</td>", page)
    assert re.search(r"<td[^>]*>hyperplane</td>", page)


def test_outcomes_become_a_frame_and_a_table(command: Command) -> None:
    base = Description.from_toml("example.toml")
    outcomes = sweep(base.set("data_plane.queues", n) for n in numpy.array([1, 10]))
    frame = outcomes.to_frame()
    assert frame.columns[:2] == ["data_plane.queues", "offered_mrps"]
    assert frame["data_plane.queues"].to_list() == [1, 10]
    assert frame["latency_ns.p99"].to_list() == [
        one.result["latency_ns"]["p99"] for one in outcomes
    ]
    assert repr(outcomes) == "<2 runs, 0 of them from the store>"
    assert len(repr(outcomes[0])) < 100
    assert outcomes._repr_html_().count("<tr>") == 3
    with pytest.raises(DescriptionError, match=r"latency_ns\.p17"):
        outcomes.to_frame("latency_ns.p17")
    with pytest.raises(TypeError, match=r"sweep\(\[description\]\)"):
        sweep(base)  # type: ignore[arg-type]
