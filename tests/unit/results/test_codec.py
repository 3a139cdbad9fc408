"""Typed values to JSON and back: what is written, what is left out, what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pytest

from evo.results import CaseBench, CaseCheck, Estimate, Gain, Status, Timing, geometric_mean
from evo.results.codec import (
    ALWAYS,
    FINITE,
    NEVER,
    NONEMPTY,
    Decimals,
    Serializable,
    as_written,
    copied,
    parse,
    unknown_field,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Serializable):
    """A part of a whole."""

    us: Annotated[float, Decimals(2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Serializable):
    """One field of each kind."""

    COMPUTED: ClassVar = ("parts",)

    name: str
    status: Status = Status.CORRECT
    missing: float | None = None
    null: Annotated[str | None, ALWAYS] = None
    listed: tuple[Part, ...] = ()
    shown: Annotated[tuple[Part, ...], ALWAYS] = ()
    by_name: Mapping[str, Annotated[float, Decimals(1)]] = field(default_factory=dict)
    error: Annotated[float | None, FINITE] = None
    note: Annotated[str, NONEMPTY] = ""
    own: Annotated[int, NEVER] = 7

    @property
    def parts(self) -> int:
        return len(self.listed)


def test_what_is_absent_or_empty_is_left_out_unless_it_is_marked() -> None:
    assert Whole(name="a").to_json() == {"name": "a", "status": "correct", "null": None, "shown": [], "parts": 0}
    full = Whole(name="a", listed=(Part(us=1.0),), by_name={"x": 1.25, "y": 2}, error=0.5, note="n", missing=1.0)
    assert full.to_json() == {
        "name": "a",
        "status": "correct",
        "missing": 1.0,
        "null": None,
        "listed": [{"us": 1.0}],
        "shown": [],
        "by_name": {"x": 1.2, "y": 2},
        "error": 0.5,
        "note": "n",
        "parts": 1,
    }
    assert "error" not in Whole(name="a", error=math.inf).to_json()


def test_what_was_written_is_read_with_its_numbers_rounded() -> None:
    whole = Whole(name="a", listed=(Part(us=1.234),), by_name={"x": 1.26}, status=Status.WRONG, own=8)
    assert as_written(whole) == Whole(name="a", listed=(Part(us=1.23),), by_name={"x": 1.3}, status=Status.WRONG)
    assert as_written(as_written(whole)) == as_written(whole)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"name": 3}, "name"),
        ({"name": "a", "status": "fine"}, "status"),
        ({"name": "a", "listed": [{"us": 1.0}, {"us": "1"}]}, "listed[1].us"),
        ({"name": "a", "listed": [{}]}, "listed[0]"),
        ({"name": "a", "missing": True}, "missing"),
    ],
)
def test_what_is_ill_typed_is_refused_by_its_place(data: object, field: str) -> None:
    with pytest.raises(ValueError, match="field") as caught:
        Whole.from_json(data)
    assert f"field `{field}`:" in str(caught.value)


def test_a_field_that_there_is_not_is_found() -> None:
    assert unknown_field(Whole, {"name": "a", "colour": 1}) == "colour"
    assert unknown_field(Whole, {"name": "a", "parts": 1}) is None
    assert unknown_field(Whole, []) is None


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": 1, "a": 2}'])
def test_text_that_is_no_plain_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the words are the JSON reader's
        parse(text)


# --- results --------------------------------------------------------------------------------------------------------

WARM = Timing(p50_us=10.00004, p90_us=11.0, p99_us=12.0, mean_us=10.0, std_us=0.1, samples=64)
ESTIMATE = Estimate(
    modelled_us=4.0,
    model_version="1",
    chip="l4",
    calibration="none",
    limiter="dram",
    terms_us={"dram": 4.0},
    blocks_run=1,
    blocks_total=2,
)


def test_a_field_that_two_sources_have_must_be_given() -> None:
    gain, other = Gain(ratio=1.5, low=1.25), Gain(ratio=2.0)
    with pytest.raises(TypeError, match=r"Gain\.ratio"):
        copied(Gain, gain, other)
    assert copied(Gain, gain, ratio=3.0) == Gain(ratio=3.0, low=1.25)


def test_a_case_is_measured_or_modelled_and_never_both() -> None:
    measured, modelled = CaseBench(name="a", warm=WARM), CaseBench.modelled("a", ESTIMATE)
    assert (measured.time_us, measured.estimate) == (10.00004, None)
    assert (modelled.time_us, modelled.estimate) == (4.0, ESTIMATE)
    assert modelled.to_json() == {"name": "a", **ESTIMATE.to_json()}
    for wrong in ({}, {"warm": WARM, "modelled_us": 1.0}, {"modelled_us": 1.0}):
        with pytest.raises(ValueError, match="case a"):
            CaseBench(name="a", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive"):
        Timing(p50_us=0.0, p90_us=1.0, p99_us=1.0, mean_us=1.0, std_us=0.0, samples=1)


def test_results_are_written_as_their_files_have_them() -> None:
    assert WARM.to_json()["p50_us"] == 10.0
    assert "unsteady" not in WARM.to_json()
    wild = Timing(p50_us=10.0, p90_us=11.0, p99_us=12.0, mean_us=10.0, std_us=1.1, samples=64)
    assert wild.to_json()["unsteady"] is True
    assert Gain(ratio=1.2345678).to_json() == {"ratio": 1.23457, "confirmed": False}
    check = CaseCheck(name="a", status=Status.WRONG, max_error=math.inf, rms_error=math.nan, inputs=("drawn",))
    assert check.to_json() == {"name": "a", "status": "wrong", "inputs": ["drawn"]}


def test_a_score_is_the_weighted_geometric_mean_of_the_scored_cases() -> None:
    assert geometric_mean({"a": 2.0, "b": 8.0, "c": 99.0}, {"a": 1, "b": 1, "c": 0}) == pytest.approx(4.0)
    assert geometric_mean({"a": 2.0, "b": 16.0}, {"a": 2, "b": 1}) == pytest.approx(4.0)
    assert geometric_mean({"a": 2.0}, {"a": 1, "b": 1}) is None  # a scored case has no time
    assert geometric_mean({"a": 0.0}, {"a": 1}) is None
    assert geometric_mean({"a": 1.0}, {"a": 0}) is None
