import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanoplane import simulator
from nanoplane.description import Description
from nanoplane.errors import DescriptionError
from nanoplane.papers.spin_to_win import machine
from nanoplane.schemas import choices

pytestmark = pytest.mark.usefixtures("fake")

EXAMPLE = """
[server]
preset = "hyperplane-table1"
data_plane_cores = 1

[data_plane]
program = "packet-encapsulation"
notify = "hyperplane"
queues = 1000

[traffic]
shape = "single-queue"
load = "saturate"

[measure]
requests = 20_000
"""


def write(text: str) -> Path:
    path = Path("example.toml")
    path.write_text(text)
    return path


def example(**settings: Any) -> Description:
    description = Description.from_toml(write(EXAMPLE))
    for key, value in settings.items():
        description = description.set(key.replace("__", "."), value)
    return description


def sentence(text: str) -> str:
    with pytest.raises(DescriptionError) as error:
        Description.from_toml(write(text)).check()
    return str(error.value)


def changed(old: str, new: str) -> str:
    assert old in EXAMPLE
    return sentence(EXAMPLE.replace(old, new))


def test_resolved_has_the_preset_the_overrides_and_the_defaults() -> None:
    data = example(server__core__rob_entries="224", server__rpcvalet={}).resolve().data
    preset = simulator.presets()["hyperplane-table1"]["server"]
    server = dict(data["server"])
    # Without an own table in the preset: with what the schema says, and nothing else.
    rpcvalet = server.pop("rpcvalet")
    assert rpcvalet == simulator.presets()["rpcvalet-table1"]["server"]["rpcvalet"]
    assert server == {**preset, "core": {**preset["core"], "rob_entries": 224}}
    assert preset["core"]["rob_entries"] == 192
    assert data["data_plane"]["policy"] == "round-robin"
    assert data["measure"] == {
        "requests": 20_000,
        "warmup": "auto",
        "warm_start": None,
        "seed": 1,
        "precision": None,
        "precision_of": None,
        "rings": "new",
    }
    assert data["simulator"] == {"lookahead_cycles": 0, "skip_spinning": True}
    assert data["traffic"]["packets"] == "generated"


def test_a_default_written_out_is_the_same_description_resolved() -> None:
    assert example(measure__seed="1").resolve() == example().resolve()


def test_set_reads_values_as_toml_and_texts_as_they_stand() -> None:
    assert example(data_plane__queues="777").get("data_plane.queues") == 777
    assert example(measure__requests="1_000").get("measure.requests") == 1000
    assert example(traffic__packets="capture.pcap").get("traffic.packets") == "capture.pcap"
    assert example(data_plane__program="3.elf").get("data_plane.program") == "3.elf"
    assert example(data_plane__program="3").get("data_plane.program") == "3"
    assert example(measure__warmup="100").get("measure.warmup") == 100
    assert example(simulator__skip_spinning="false").get("simulator.skip_spinning") is False


def test_load_and_rate_replace_each_other() -> None:
    description = example(traffic__rate_mrps="0.2")
    assert description.get("traffic.load") is None
    assert description.resolve().data["traffic"]["rate_mrps"] == 0.2
    assert description.set("traffic.load", 0.5).get("traffic.rate_mrps") is None


def test_a_part_of_the_peak_names_the_description_of_the_peak() -> None:
    found = example(traffic__load="0.5").part_of_peak()
    assert found == (example(), 0.5)
    assert example().part_of_peak() is None


def test_descriptions_are_values() -> None:
    assert example() == example()
    assert hash(example()) == hash(example())
    assert example(data_plane__queues=7) != example()
    assert len({example(), example(), example(data_plane__queues=7)}) == 2


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    queues=st.integers(1, 1024),
    notify=st.sampled_from(["spin", "hyperplane"]),
    shape=st.sampled_from(["fully-balanced", "single-queue"]),
    rate=st.floats(1e-6, 100, allow_nan=False),
    seed=st.integers(0, 2**64 - 1),
    rob=st.integers(2, 1024),
)
def test_a_resolved_description_resolves_to_itself(
    queues: int, notify: str, shape: str, rate: float, seed: int, rob: int
) -> None:
    description = (
        example()
        .set("data_plane.queues", str(queues))
        .set("data_plane.notify", notify)
        .set("traffic.shape", f'"{shape}"')
        .set("traffic.rate_mrps", repr(rate))
        .set("measure.seed", seed)
        .set("server.core.rob_entries", str(rob))
    )
    resolved = description.resolve()
    assert resolved.data["traffic"]["rate_mrps"] == rate
    again = Description.from_dict(resolved.data)
    assert again.resolve() == resolved
    assert Description.from_dict(again.data) == again


# Wrong input: the whole sentence, since it is what a user has.


def test_misspelt_key() -> None:
    assert changed("queues =", "quues =") == (
        'example.toml: data_plane.quues is not known; did you mean "data_plane.queues"?'
    )


def test_misspelt_table() -> None:
    assert changed("[traffic]", "[trafic]") == (
        'example.toml: trafic is not known; did you mean "traffic"?'
    )


def test_misspelt_nested_key() -> None:
    assert changed("data_plane_cores = 1", "core.rob_entrys = 4") == (
        'example.toml: server.core.rob_entrys is not known; did you mean "server.core.rob_entries"?'
    )


def test_key_of_another_table() -> None:
    assert changed('load = "saturate"', 'load = "saturate"\nseed = 3') == (
        'example.toml: traffic.seed is not known; did you mean "measure.seed"?'
    )


def test_missing_unit() -> None:
    assert changed('load = "saturate"', "rate = 2") == (
        'example.toml: traffic.rate is not known; did you mean "traffic.rate_mrps" '
        "(million requests a second)? The unit is part of the name"
    )


def test_wrong_type() -> None:
    assert changed('load = "saturate"', 'rate_mrps = "fast"') == (
        'example.toml: traffic.rate_mrps is "fast"; '
        "it must be a number of million requests a second, from 0.000001 to 10000"
    )


@pytest.mark.parametrize("first", [64, 64.0, True, "64", {}])
def test_what_was_checked_before_changes_nothing(first: Any) -> None:
    """Tables found valid are not checked again, and Python takes 64, 64.0 and True for equal."""

    def verdict(value: Any) -> str | None:
        try:
            example(server__core={"rob_entries": value, "l1_data": {"ways": 2}}).check()
        except DescriptionError as error:
            return str(error)
        return None

    verdict(first)
    assert verdict(64) is None
    others: list[Any] = [64.0, True, "64", {}]
    for wrong in others:
        said = verdict(wrong)
        assert said is not None
        assert "server.core.rob_entries is " in said
        assert verdict(wrong) == said
    assert verdict(64) is None


def test_out_of_range() -> None:
    assert changed("queues = 1000", "queues = 0") == (
        "example.toml: data_plane.queues is 0; it must be a whole number from 1 to 8192"
    )
    assert changed("queues = 1000", "queues = 12.5") == (
        "example.toml: data_plane.queues is 12.5; it must be a whole number from 1 to 8192"
    )
    assert changed('load = "saturate"', "rate_mrps = inf").startswith(
        "example.toml: traffic.rate_mrps is Infinity; it must be a number"
    )


def test_numbers_that_are_too_large() -> None:
    assert changed("requests = 20_000", f"seed = {2**64}") == (
        f"example.toml: measure.seed is {2**64}; it must be a whole number from 0 to {2**64 - 1}"
    )
    assert changed("requests = 20_000", f"requests = {10**30}").endswith(
        "it must be a whole number from 100 to 1000000000"
    )


def test_bounds_are_written_as_a_user_writes_them() -> None:
    assert changed('load = "saturate"', "saturation_rate_mrps = -1") == (
        "example.toml: traffic.saturation_rate_mrps is -1; it must be a number of million requests "
        "a second, from 0.000001 to 10000"
    )


def test_unknown_choice() -> None:
    *others, last = (f'"{name}"' for name in choices("data_plane.notify"))
    assert changed('notify = "hyperplane"', 'notify = "hyperplan"') == (
        'example.toml: data_plane.notify is "hyperplan"; it must be '
        f'{", ".join(others)} or {last}; did you mean "hyperplane"?'
    )


def test_unknown_preset() -> None:
    assert changed("hyperplane-table1", "hyperplane-table2") == (
        'example.toml: server.preset is "hyperplane-table2"; did you mean "hyperplane-table1"?'
    )


def test_missing_preset() -> None:
    assert changed('preset = "hyperplane-table1"', "") == (
        "example.toml: server.memory_mib is missing; a preset has all of server: "
        '"cargo-table5", "hyperplane-table1", "nanopu-prototype", "rpcvalet-table1", "skylake-sp" '
        'or "spin-to-win-table1"'
    )


def test_missing_key() -> None:
    assert changed("queues = 1000", "") == (
        "example.toml: data_plane.queues is missing; it must be a whole number from 1 to 8192"
    )


def test_without_a_load_it_saturates() -> None:
    description = Description.from_toml(write(EXAMPLE.replace('load = "saturate"', "")))
    assert description.resolve() == example().resolve()


def test_paths_of_the_command_line_start_where_the_user_is() -> None:
    Path("here").mkdir()
    Path("here/example.toml").write_text(EXAMPLE)
    Path("mine.c").write_text("")
    description = Description.from_toml("here/example.toml")
    assert description.assign("data_plane.program=mine.c").program() == Path("mine.c").absolute()
    with pytest.raises(DescriptionError, match="there is no such file"):
        description.set("data_plane.program", "mine.c").program()
    assert description.assign("data_plane.program=echo").get("data_plane.program") == "echo"
    assert description.assign("traffic.packets=generated").get("traffic.packets") == "generated"
    packets = description.assign("traffic.packets=capture").get("traffic.packets")
    assert packets == str(Path("capture").absolute())


def test_two_loads() -> None:
    assert "has both load and rate_mrps" in changed(
        'load = "saturate"', "load = 0.5\nrate_mrps = 1"
    )


def test_load_that_is_neither() -> None:
    assert changed('"saturate"', '"half"') == (
        'example.toml: traffic.load is "half"; it must be "saturate" or a number from 0.0001 to 10'
    )


def test_set_is_named_when_it_is_wrong() -> None:
    with pytest.raises(DescriptionError, match=r"^--set: data_plane\.quues is not known"):
        example(data_plane__quues="3").check()
    with pytest.raises(DescriptionError, match="write key=value"):
        example().assign("data_plane.queues")
    with pytest.raises(DescriptionError, match=r"^--set: server\.core\.rob_entries is a table"):
        example(server__core__rob_entries__x="3").check()
    for assignment in ("queues=3", "=3", ".queues=3", "data_plane.=3"):
        with pytest.raises(DescriptionError, match="with its table"):
            example().assign(assignment)


def test_missing_file() -> None:
    write(EXAMPLE)
    with pytest.raises(DescriptionError) as error:
        Description.from_toml("exmple.toml")
    assert str(error.value) == ('exmple.toml: there is no such file; did you mean "example.toml"?')


def test_missing_pcap() -> None:
    assert '"generated" or a pcap file' in changed(
        'load = "saturate"', 'load = "saturate"\npackets = "capture.pcap"'
    )
    assert 'did you mean "generated"?' in changed(
        'load = "saturate"', 'load = "saturate"\npackets = "generatd"'
    )


def test_missing_program() -> None:
    assert changed('"packet-encapsulation"', '"packet-encapsulatio"') == (
        'example.toml: data_plane.program is "packet-encapsulatio", which is no built-in program '
        'and no path to .c or .elf; did you mean "packet-encapsulation"?'
    )
    assert changed('"packet-encapsulation"', '"mine.c"') == (
        'example.toml: data_plane.program is "mine.c"; there is no such file'
    )


def test_not_toml() -> None:
    assert "this is not TOML" in sentence("[server\n")
    assert "line 3" in sentence('[server]\npreset = "hyperplane-table1"\n= 3\n')
    Path("binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DescriptionError, match="this is not text in UTF-8"):
        Description.from_toml("binary.toml")


def test_a_byte_order_mark_is_no_mistake() -> None:
    Path("marked.toml").write_text(EXAMPLE, encoding="utf-8-sig")
    assert Description.from_toml("marked.toml") == example()


def test_date() -> None:
    assert changed("queues = 1000", "queues = 2024-01-01") == (
        "example.toml: data_plane.queues is 2024-01-01; it must be a text, a number, true or false"
    )


def test_table_for_a_value_and_value_for_a_table() -> None:
    assert changed("queues = 1000", "queues.all = 3").endswith(
        "data_plane.queues is a table; it must be a whole number from 1 to 8192"
    )
    assert sentence("server = 3\n").endswith("server is 3; it must be a table")


ANY_TEXT = st.text(max_size=40)
KNOWN_KEYS = st.sampled_from(
    [
        "server.preset",
        "server.core",
        "server.core.rob_entries",
        "data_plane.program",
        "data_plane.notify",
        "traffic.load",
        "traffic.rate_mrps",
        "traffic.packets",
        "measure.warmup",
        "measure.seed",
        "simulator",
    ]
)
VALUES = st.one_of(
    ANY_TEXT,
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        ["", "true", "nan", "1e400", "[]", "{}", "{a = 1}", '"', "[1, 2", "\x00", "0x"]
    ),
    # What TOML has and a description cannot, also inside of arrays and tables.
    st.sampled_from(["2024-01-01", "[2024-01-01]", "{a = [07:32:00]}", "1\nother = 2", "-inf"]),
    # Whole numbers beyond those of 64 bits, of floating point, and of what Python reads.
    st.sampled_from([20, 310, 5000]).map(lambda digits: "9" * digits),
    st.sampled_from([310, 5000]).map(lambda digits: "0x" + "f" * digits),
    # So deep that what calls itself comes to no end.
    st.builds(
        lambda opening, depth: opening * depth,
        st.sampled_from(["[", "{a = ", "a = [", "{a."]),
        st.sampled_from([30, 40, 400, 2000]),
    ),
    st.sampled_from([30, 40, 120, 2000]).map(lambda depth: "[" * depth + "]" * depth),
    st.sampled_from([40, 2000]).map(lambda depth: "{a" + ".a" * depth + " = 1}"),
)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "data_plane.queues=2024-01-01",
            "data_plane.queues is 2024-01-01; it must be a text",
        ),
        ("server.core.rob_entries=[1, [07:32:00]]", "rob_entries.1.0 is 07:32:00; it must be a te"),
        (
            "traffic.rate_mrps=1e999",
            "traffic.rate_mrps is Infinity; it must be a number",
        ),
        ("traffic.rate_mrps=nan", "traffic.rate_mrps is NaN; it must be a number"),
        ("traffic.rate_mrps=" + "9" * 310, "rate_mrps is a whole number of more than 308 digits"),
        (
            "data_plane.queues=" + "9" * 20,
            f"queues is {'9' * 20}; it must be a whole number",
        ),
        (
            "data_plane.queues=" + "9" * 5000,
            'queues is "' + "9" * 199 + "…; it must be a whole",
        ),
        ("data_plane.queues=" + "[" * 40 + "]" * 40, "tables or arrays are more than 32 deep in"),
        ("data_plane.queues=" + "[" * 5000, "tables or arrays are more than 32 deep in each other"),
        ("data_plane" + ".a" * 5000 + "=1", "tables or arrays are more than 32 deep in each other"),
        ("data_plane.queues=1\nnotify = 2", 'queues is "1\\nnotify = 2"; it must be a whole num'),
    ],
)
def test_settings_that_no_key_takes(setting: str, sentence: str) -> None:
    with pytest.raises(DescriptionError) as error:
        example().assign(setting).check()
    text = str(error.value)
    assert text.startswith("--set")
    assert sentence in text
    assert len(text) < 600


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("x = " + "[" * 2000 + "]" * 2000, "tables or arrays are more than 32 deep in each other"),
        ("x" + ".x" * 2000 + " = 1", "tables or arrays are more than 32 deep in each other"),
        ("x = " + "9" * 5000, "this cannot be read as TOML"),
        ("x = [1, 2024-01-01T07:32:00Z]", "x.1 is 2024-01-01 07:32:00+00:00; it must be a text"),
    ],
)
def test_files_that_no_description_has(line: str, sentence: str) -> None:
    text = changed("[server]", f"{line}\n[server]")
    assert text.startswith("example.toml: ")
    assert sentence in text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(
    pairs=st.lists(st.tuples(st.one_of(KNOWN_KEYS, ANY_TEXT), VALUES), max_size=4),
)
def test_any_setting_is_taken_or_refused_in_a_sentence(pairs: list[tuple[str, str]]) -> None:
    description = example()
    with contextlib.suppress(DescriptionError):
        for key, value in pairs:
            description = description.set(key, value)
        description.check()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(
    text=st.one_of(
        ANY_TEXT,
        # The example with a piece replaced.
        st.builds(
            lambda at, length, new: EXAMPLE[:at] + new + EXAMPLE[at + length :],
            st.integers(0, len(EXAMPLE)),
            st.integers(0, 30),
            st.one_of(VALUES, ANY_TEXT),
        ),
    ),
)
def test_any_file_is_taken_or_refused_in_a_sentence(text: str) -> None:
    path = Path("example.toml")
    path.write_bytes(text.encode(errors="surrogatepass"))
    with contextlib.suppress(DescriptionError):
        Description.from_toml(path).check()


QUEUEING = """
[queueing]
queues = 1
units = 16
service_times = {distribution = "exponential"}
load = 0.5
"""


def test_a_queueing_system_has_no_server() -> None:
    description = Description.from_toml(write(QUEUEING))
    resolved = description.resolve()
    assert resolved.guests == ()
    assert resolved.data["queueing"]["requests"] == 1_000_000
    assert description.set("queueing.fixed_part", "1").resolve().data["queueing"] == {
        "queues": 1,
        "units": 16,
        "service_times": {"distribution": "exponential"},
        "fixed_part": 1.0,
        "load": 0.5,
        "requests": 1_000_000,
        "seed": 1,
    }
    assert sentence(QUEUEING + "[measure]\nseed = 1") == (
        "example.toml: a queueing system has no server; keep either the table queueing or measure"
    )
    assert "queueing.unit is not known" in sentence(QUEUEING.replace("units", "unit"))


def test_a_table_that_can_be_one_of_several() -> None:
    def of(times: str) -> str:
        return sentence(QUEUEING.replace('{distribution = "exponential"}', times))

    assert of('{distribution = "expo"}') == (
        'example.toml: queueing.service_times.distribution is "expo"; it must be "exponential", '
        '"fixed", "generalized-extreme-value", "recorded" or "uniform"'
    )
    assert of('{distribution = "recordet"}').endswith('did you mean "recorded"?')
    assert of("{distribution = 3}").startswith(
        'example.toml: queueing.service_times.distribution is 3; it must be "exponential"'
    )
    assert of("{}").startswith(
        'example.toml: queueing.service_times.distribution is missing; it must be "fixed"'
    )
    assert of('{distribution = "fixed", file = "x.csv"}') == (
        "example.toml: queueing.service_times.file is not known; queueing.service_times has "
        "distribution"
    )
    assert of('{distribution = "recorded"}') == (
        "example.toml: queueing.service_times.file is missing; it must be a text"
    )
    assert of('{distribution = "recorded", file = "x.csv"}') == (
        'example.toml: queueing.service_times.file is "x.csv"; it must be a CSV file; '
        f"{Path('x.csv').absolute()}: there is no such file"
    )


@pytest.mark.parametrize("key", ["traffic.packets", "data_plane.program"])
def test_a_path_that_is_too_long_names_no_file(key: str) -> None:
    with pytest.raises(DescriptionError, match="there is no such file"):
        example().set(key, "9" * 300 + ".c").check()


def test_a_table_keeps_the_defaults_of_the_one_around_it() -> None:
    # PCI Express has eight lanes by itself, 57.88 Gb/s, and 16 as a part of `cqe_nic`.
    planned = machine.idle("test", "io-forward", {})
    key = "rack.servers.0.server.cqe_nic.express.posted_bytes"
    resolved = planned.description.set(key, 0).resolve()
    found = resolved.data["rack"]["servers"][0]["server"]["cqe_nic"]["express"]
    assert (found["posted_bytes"], found["rate_gbit_per_s"], found["reads"]) == (0, 115.76, 256)
