"""Spaces from files: T1 with conditions, T4 with results, and what is wrong with them in words."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

from evo.errors import SyntaxInvalid, TaskInvalid
from evo.search.knobs import t1_t4_files as formats
from evo.search.knobs.conditions import condition, listed
from evo.search.knobs.space import Space, SpaceKnob

SHIPPED = Path(__file__).parents[4] / "benchmarks" / "spaces" / "convolution_A4000_T4.json.gz"


def result(values: dict[str, Any], time: Any = 1.0, **more: Any) -> dict[str, Any]:
    measurements = [{"name": "time", "value": time, "unit": "ms"}]
    return {"configuration": values, "invalidity": "correct", "measurements": measurements, **more}


def write(path: Path, results: list[dict[str, Any]]) -> Path:
    data = json.dumps({"metadata": {}, "results": results}).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_the_shipped_space_is_read_whole() -> None:
    measured = formats.read_results(SHIPPED)
    assert measured.space.count == 4362
    assert int(np.isnan(measured.times).sum()) == 161
    assert measured.optimum == pytest.approx(1.0212, abs=1e-4)
    assert measured.minimise
    x = measured.space.knobs[0]
    assert (x.name, x.values[:3]) == ("block_size_x", (16, 32, 48))


def test_the_conditions_of_a_declaration_choose_the_same_points_as_python_does(tmp_path: Path) -> None:
    values = {"x": "[16 * i for i in range(1, 5)]", "y": "[1, 2] + [4]", "kind": "['a', 'b']", "f": "[0.5, 2.0]"}
    texts = [
        "x * y <= 128 and not (y == 4 and kind != 'a')",
        "x % 32 == 0 or y in [1, 2]",
        "f ** 2 * y < 10",
        "1 < x / y",
    ]
    path = tmp_path / "t1.json"
    parameters = [{"Name": name, "Values": text} for name, text in values.items()]
    conditions = [{"Expression": text} for text in texts]
    path.write_text(json.dumps({"ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions}}))
    assert formats.is_declaration(path)
    space = formats.read_declaration(path).space()
    assert space.legal is not None
    found = {space.values(point) for point in space.legal}
    domains = [[16, 32, 48, 64], [1, 2, 4], ["a", "b"], [0.5, 2.0]]
    expected = {
        (x, y, kind, f)
        for x, y, kind, f in itertools.product(*domains)
        if x * y <= 128 and not (y == 4 and kind != "a") and (x % 32 == 0 or y in (1, 2)) and f**2 * y < 10 and x > y
    }
    assert found == expected


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a // b * b == a", [True, False]),
        ("b == 0 or a % b == 0", [True, False]),
        ("max(a, b, 7) == 7 if a < 6 else min(a, b) >= 2", [True, True]),
        ("-a + 2 ** b < 0", [True, False]),
        ("a not in (4, 5)", [False, False]),
        ("a < b < 9", [False, False]),
        ("(a > 4) + (b > 1) == 2", [False, True]),
    ],
)
def test_conditions_mean_what_they_mean_in_python(text: str, holds: list[bool]) -> None:
    columns = {"a": np.array([4, 5]), "b": np.array([1, 3])}
    assert condition(text).holds(columns).tolist() == holds
    assert [bool(eval(text, {"a": int(a), "b": int(b)})) for a, b in zip(*columns.values(), strict=True)] == holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.b",
        "a[0]",
        "(lambda: 1)()",
        "f(a)",
        "a if",
        "a := 2",
        "'x' * 10 ** 9",
        "9 ** 9 ** 9",
        "a in b",
    ],
)
def test_a_condition_is_never_code(text: str) -> None:
    with pytest.raises(SyntaxInvalid) as caught:
        condition(text, where="t1.json").holds({"a": np.array([2]), "b": np.array([3])})
    assert "t1.json" in caught.value.message


@pytest.mark.parametrize(
    "text", ["open('x')", "[x for x in y]", "range(10**9)", "[1, 2", "3", "[i for i in range(3) if i]"]
)
def test_a_list_of_values_is_never_code(text: str) -> None:
    with pytest.raises(SyntaxInvalid):
        listed(text)


def test_results_of_any_size_and_kind_of_value(tmp_path: Path) -> None:
    rows = [
        result({"n": n, "word": word, "on": on, "share": share}, time=n + share)
        for n, word, on, share in itertools.product(range(60, 0, -1), ["x", "y"], [True, False], [0.25, 1.5])
    ]
    measured = formats.read_results(write(tmp_path / "big.json.gz", rows * 40))
    assert measured.space.count == 480  # repeats are one point
    assert measured.space.knobs[0].values == tuple(range(1, 61))
    assert measured.space.values(measured.space.legal[int(np.argmin(measured.times))])[0] == 1  # type: ignore[index]


def test_results_are_those_at_the_top_wherever_they_stand(tmp_path: Path) -> None:
    rows = [result({"n": n}, 1.0 + n) for n in range(3)]
    head = {"schema_version": "1.0.0", "metadata": {"results": [1, {"results": []}], "n": 12}}
    for number, data in enumerate(({**head, "results": rows}, {"results": rows, **head})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(data, indent=number))
        assert formats.read_results(path).times.tolist() == [1.0, 2.0, 3.0]


def test_what_is_measured_is_found_where_the_first_results_failed(tmp_path: Path) -> None:
    failed = {"configuration": {"n": 0}, "invalidity": "compile"}
    rate = [{"name": "GFLOP/s", "value": 2.0, "unit": ""}]
    rows = [failed, {"configuration": {"n": 1}, "invalidity": None, "measurements": rate}]
    measured = formats.read_results(write(tmp_path / "s.json", rows))
    assert (measured.minimise, measured.optimum, measured.space.count) == (False, 0.5, 2)
    with pytest.raises(SyntaxInvalid, match="every result failed"):
        formats.read_results(write(tmp_path / "t.json", [failed]))
    with pytest.raises(SyntaxInvalid) as caught:
        formats.read_results(tmp_path / "s.json", objective="energy")
    assert "GFLOP/s" in caught.value.hint


def test_failures_rates_and_points_outside(tmp_path: Path) -> None:
    rows = [
        result({"n": 1}, 5.0),
        result({"n": 2}, "RuntimeFailedConfig"),
        {**result({"n": 3}), "invalidity": "compile"},
        {**result({"n": 4}), "invalidity": "constraints"},
        result({"n": 5}, float("inf")),
    ]
    path = write(tmp_path / "s.json", rows)
    measured = formats.read_results(path)
    assert measured.space.count == 4
    assert measured.cost((0,)) == 5.0
    assert [measured.cost((i,)) for i in (1, 2, 3)] == [None, None, None]
    for row in rows:
        row["measurements"].append({"name": "GFLOP/s", "value": 100.0 * row["configuration"]["n"]})
    rate = formats.read_results(write(path, rows), objective="GFLOP/s")
    assert not rate.minimise
    assert rate.optimum == pytest.approx(1 / 500)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "results"),
        ("{}", "results"),
        ('{"results": []}', "no results"),
        ('{"results": [{"configuration": {"a": 1}, "measurements": [', "middle"),
        ('{"results": [{"measurements": []}]}', "configuration"),
        ('{"results": [{"configuration": {"a": [1]}, "measurements": []}]}', "knob value"),
        ('{"results": [{"configuration": {"a": 1}, "measurements": []}]}', "time"),
        ('{"results": [{"configuration": {"a": 1}, "measurements": []}, {"configuration": {"b": 1}}]}', "result 2"),
        ('{"results": [nonsense]}', "value"),
        ('{"results": [' + "[" * 100_000, "recursion"),
        (json.dumps({"results": [result({"a": 1}, "3.5"), result({"a": 2}, -1.0)]}), "a number above 0 as `time`"),
        ('{"metadata": {"results": [1]}}', "results"),
        ('{"results": [{"configuration": {"a": NaN}, "measurements": []}]}', "knob value"),
        ('{"results": [{"configuration": {"a": 1' + "0" * 400 + '}, "measurements": []}]}', "knob value"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(SyntaxInvalid) as caught:
        formats.read_results(path)
    assert "broken.json" in caught.value.message
    assert words in caught.value.message


def test_a_torn_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "torn.json.gz"
    path.write_bytes(SHIPPED.read_bytes()[:3000])
    with pytest.raises(SyntaxInvalid, match=r"torn\.json\.gz"):
        formats.read_results(path)


def test_values_are_told_apart_by_type_and_found_by_value() -> None:
    mixed = Space("s", (SpaceKnob("k", (1, True, "1", 2.5)),))
    assert [mixed.point((value,)) for value in (1, True, "1", 2.5, 1.0, 3)] == [(0,), (1,), (2,), (3,), (0,), None]
    flags = Space("s", (SpaceKnob("k", (False, True)),))
    assert flags.point((1,)) == (1,)


def test_keys_of_a_space_beyond_64_bits_stay_distinct() -> None:
    space = Space("huge", tuple(SpaceKnob(f"k{i}", tuple(range(50))) for i in range(20)))
    points = space.drawn(2000, np.random.default_rng(0))
    assert space.product > 2**64
    assert len(np.unique(space.keys(points))) == 2000


@pytest.mark.parametrize("knobs", [(), (SpaceKnob("a", ()),), (SpaceKnob("a", (1,)), SpaceKnob("a", (2,)))])
def test_a_space_without_choices_is_refused(knobs: tuple[SpaceKnob, ...]) -> None:
    with pytest.raises(TaskInvalid):
        Space("s", knobs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 0 && b", [False, True, False, False]),
        ("!(a > 1) || b == 0", [True, True, True, True]),
        ("!a == b", [True, False, True, True]),  # as in C: (!a) == b
        ("a != 2 && w == 'x&&y'", [True, False, False, False]),
    ],
)
def test_conditions_as_c_has_them(text: str, expected: list[bool]) -> None:
    columns = {
        "a": np.array([0, 1, 2, 3]),
        "b": np.array([1, 1, 0, 0]),
        "w": np.array(["x&&y", "x", "y", "z"]),
    }
    assert condition(text).holds(columns).tolist() == expected


def test_bitwise_not_is_refused() -> None:
    with refused(SyntaxInvalid, "not-allowed"):
        condition("~a")


def declared(path: Path, conditions: object, values: object = (1, 2, 4)) -> Path:
    body = {"TuningParameters": [{"Name": "a", "Values": values}], "Conditions": conditions}
    path.write_text(json.dumps({"ConfigurationSpace": body}))
    return path


@pytest.mark.parametrize(("text", "count"), [("False", 0), ("2 > 1", 3), ("1 == 2 or a > 1", 2)])
def test_a_condition_on_no_knob_holds_for_all_or_for_none(tmp_path: Path, text: str, count: int) -> None:
    assert formats.read_declaration(declared(tmp_path / "t1.json", [text])).space().count == count


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("8 % a == 0", [False, True]),
        ("8 // a == 0 or 8 // a > 1", [False, True]),
        ("8 / a > 1", [False, True]),
        ("a == 0 or 8 % a == 0", [True, True]),
        ("a != 0 and 8 % a == 0", [False, True]),
    ],
)
def test_what_is_divided_by_zero_compares_with_nothing(text: str, holds: list[bool]) -> None:
    for column in (np.array([0, 4]), np.array([0.0, 4.0]), np.array([0, 4], object)):
        assert condition(text).holds({"a": column}).tolist() == holds


@pytest.mark.parametrize(
    ("conditions", "values", "words"),
    [
        ({"Expression": "a > 1"}, [1, 2], "Conditions is not a list"),
        (3, [1, 2], "Conditions is not a list"),
        ([], [1, 10**400], "an integer of 1,329 bits"),
        ([], "[" + " * ".join(["1048576 ** 64"] * 12) + "]", "an integer of 15,361 bits"),
    ],
)
def test_a_broken_declaration_is_named(tmp_path: Path, conditions: object, values: object, words: str) -> None:
    with pytest.raises(SyntaxInvalid) as caught:
        formats.read_declaration(declared(tmp_path / "t1.json", conditions, values))
    assert words in caught.value.message


def test_products_of_large_values_do_not_wrap_around(tmp_path: Path) -> None:
    conditions = [
        "a * a > 10 ** 20",
        "a % 3 == 1",
        "log2(a) >= 33 and sqrt(a) == 2 ** 20",
        "ceil(a / 3) > floor(a / 3)",
    ]
    path = declared(tmp_path / "t1.json", conditions, [2**20, 2**33, 2**40])
    space = formats.read_declaration(path).space()
    assert space.legal is not None
    assert [space.values(point) for point in space.legal] == [(2**40,)]
