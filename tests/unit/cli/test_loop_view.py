"""What people see of the loop: rows, totals, plain lines, and the live view on a terminal that is only a string."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest

from evo.cli import terminal
from evo.cli.loop_view import PlainView, RunTotals, row_of
from evo.cli.terminal import clip, duration, microseconds, out_table, paint, plain, ratio, wrapped
from evo.evaluate.counted_stage import CountedStage
from evo.results import CaseBench, Estimate, Gain, Status, Timing, Verdict
from evo.search.events import Event, FirstLooks, RunBegun, RunSummary, Skipped, TrialBegun, TrialResult

BEGIN = RunBegun(task="scale", device="sim:l4", arch="sm_89", chip="sim-l4", run="r", iterations=4)
DONE = RunSummary(
    trials=2,
    kept=1,
    search="bandit",
    skipped=Skipped(known_code=0, known_losers=0),
    looks=FirstLooks(edits=30, without_time=2, faster=4, elapsed_s=12.0),
    champion="v2",
    elapsed_s=1.0,
)


def modelled(us: float) -> dict[str, CaseBench]:
    return {"b2": CaseBench(name="b2", modelled_us=us, model_version="1")}


def trial(number: int, **fields: Any) -> TrialResult:
    shape: dict[str, Any] = {
        "trial": number,
        "id": f"run-{number:04}",
        "variant": f"v{number}",
        "operator": "ladder",
        "kind": "rung",
        "summary": f"change {number}",
        "status": Status.CORRECT,
        "timing": "modelled",
    }
    return TrialResult(**(shape | fields))


START = trial(1, kind="start", cases=modelled(100.0), commit="c0ffee12345", speedup={"b2": 1.0})
KEPT = trial(
    2, cases=modelled(25.0), gain=Gain(ratio=4.0), decision=Verdict.KEEP, commit="beef1234567", speedup={"b2": 4.0}
)
REASON = "case ragged: allclose: y[3] is 1"
FAILED = trial(3, status=Status.WRONG, reason=f"{REASON}\nand more")


def test_a_row_holds_what_a_trial_says_and_nothing_that_it_does_not() -> None:
    row = row_of(KEPT, "b2")
    assert (row.time, row.gain, row.verdict, row.commit) == ("25.00", "4.00x", "keep", "beef1234")
    failed = row_of(FAILED, "b2")
    assert (failed.time, failed.gain, failed.verdict) == ("", "", "revert")
    assert failed.reason == REASON
    warm = Timing(p50_us=7.0, p90_us=7.0, p99_us=7.0, mean_us=7.0, std_us=0.0, samples=8)
    measured = row_of(trial(4, cases={"b2": CaseBench(name="b2", warm=warm)}), "b2")
    assert measured.time == "7.00"


def test_the_tally_knows_the_champion_and_the_time_left() -> None:
    totals = RunTotals("b2")
    totals.begin(BEGIN)
    assert totals.left_s is None
    for result in (START, KEPT, FAILED):
        totals.count(result)
    assert (totals.trials, totals.kept) == (2, 1)
    assert totals.champion_line() == "4.00x since the start  25.00 µs modelled at b2  champion v2"
    assert totals.left_s is not None


def test_a_run_that_goes_on_leads_with_the_speed_up_since_the_very_first_start() -> None:
    def after(*results: TrialResult, speedup: dict[str, float], cases: dict[str, CaseBench]) -> str:
        totals = RunTotals("b2")
        totals.begin(replace(BEGIN, champion="v1", cases=cases, speedup=speedup))
        for result in results:
            totals.count(result)
        return totals.gained()

    later = replace(KEPT, speedup={"b2": 14.18})
    ten = {"b2": 10.0}
    assert after(speedup=ten, cases=modelled(33.0)).startswith("10.0x since the start (none")
    assert after(later, speedup=ten, cases=modelled(33.0)) == "14.2x since the start (1.32x in this run)"
    assert after(replace(KEPT, speedup={}), speedup={}, cases=modelled(50.0)).startswith("2.00x since this run")
    assert after(START, speedup={}, cases={}) == "no gain yet"


def test_plain_lines_are_whole_and_say_modelled(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainView("b2") as view:
        view.see(Event(about=BEGIN))
        for result in (START, KEPT, FAILED):
            view.see(Event(about=result))
        view.see(Event(about=DONE))
    shown = capsys.readouterr()
    assert "modelled" in shown.err
    assert "measured" not in shown.err
    assert "allclose" in shown.err
    assert shown.out.startswith("4.00x since the start")
    assert "2 trials, 1 kept in " in shown.out
    assert "30 edits" in shown.out
    assert "\x1b" not in shown.err + shown.out


@pytest.mark.parametrize("columns", [40, 66, 80, 100, 200])
def test_the_live_view_keeps_to_the_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    from rich.console import Console

    from evo.cli import live_view

    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system=None, width=columns, legacy_windows=False)
    monkeypatch.setattr(live_view, "Console", lambda **_: console)
    view = live_view.LiveView("b2", None, quiet=True)
    view.see(Event(about=BEGIN))
    for result in (START, KEPT, FAILED, trial(4, operator="rules.exponent", summary="long " * 40)):
        begun = TrialBegun(
            trial=result.trial, id=result.id, operator=result.operator, kind=result.kind, summary=result.summary
        )
        view.see(Event(about=begun))
        view.see(Event(stage="check ragged"))
        view.see(Event(about=result))
    lines = screen.getvalue().splitlines()
    assert all(len(line) <= columns for line in lines)
    if columns >= 66:
        (gained,) = {line.index("4.00x") for line in lines if "4.00x" in line}
        assert gained < 150  # not so far from its change that the eye loses the line


def test_numbers_read_well() -> None:
    assert [microseconds(x) for x in (0.754, 12.812, 812.44, 5364.2)] == ["0.75", "12.81", "812.4", "5,364"]
    assert [ratio(x) for x in (1.0, 11.2, 250.0)] == ["1.00x", "11.20x", "250x"]
    assert [duration(x) for x in (0.84, 42.4, 187, 3729)] == ["0.8 s", "42 s", "3:07", "1:02:09"]
    assert clip("abcdef", 4) == "abc…"


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    assert plain("\x1b[2Jwiped\x07") == "[2Jwiped"


def test_colour_stays_out_of_pipes_and_tables_align(capsys: pytest.CaptureFixture[str]) -> None:
    assert paint("kept", "green") == "kept"
    out_table(["name", ">value"], [["a", "1"], ["longer", "1,000"]])
    assert capsys.readouterr().out == "name    value\na           1\nlonger  1,000\n"


@pytest.mark.parametrize("most", [40, 80, 120, 200])
def test_a_table_keeps_to_the_terminal_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    monkeypatch.setattr(terminal, "columns", lambda stream: most)
    head = ["case", ">floor", "bound by", *[f">number {number}" for number in range(9)]]
    rows = [[f"case{row}", f"{row}.5", "what binds is said in words", *[f"{row}{n}" for n in range(9)]] for row in "ab"]
    out_table(head, rows)
    shown = capsys.readouterr().out
    assert all(len(line) <= most for line in shown.splitlines())
    for word in ("number 8", "b8", "words"):
        assert word in shown
    for part in shown.split("\n\n"):
        assert part.startswith("case")


def test_several_columns_of_words_are_wrapped_before_a_table_is_taken_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "columns", lambda stream: 72)
    value, why = "float32[batch, features] of one tensor", "drawn positive: others give NaN"
    out_table(["", "assumed", "from", "option"], [["tensor", value, why, "--tensor-of-a-long-name:in"]])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 72 for line in lines)
    assert "" not in lines  # one table
    assert any("--tensor-of-a-long-name:in" in line for line in lines)


def test_a_sentence_breaks_between_words_and_a_stage_has_a_time_left() -> None:
    assert wrapped("  one two three", 9) == "  one two\n    three"
    assert wrapped("one two three", None) == "one two three"
    assert wrapped("7.18x since the start  8.33 µs modelled  4 trials", 36) == (
        "7.18x since the start\n  8.33 µs modelled  4 trials"
    )
    assert wrapped("  risk  few rows\nused up", 11, 8) == "  risk  few\n        rows\nused up"
    words = CountedStage("gate", "run", 2, 10, "case ragged")
    assert words == "gate: run 3 of 10 (case ragged)"
    assert words.left_s(4.0) == 16.0
    assert CountedStage("gate", "run", 0, 10).left_s(4.0) is None
    assert CountedStage("gate", "run", 10, 10) == "gate: run 11 of 11"  # more than was expected


def test_without_colour_bold_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "is_live", lambda stream: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("kept", "green") == "kept"
    assert paint("kept", "green", "bold") == "\x1b[1mkept\x1b[0m"
    monkeypatch.delenv("NO_COLOR")
    assert paint("kept", "green") == "\x1b[32mkept\x1b[0m"


def test_a_case_that_is_mostly_launch_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    from evo.cli.evaluation_view import show_modelled

    def case(name: str, launch_us: float) -> CaseBench:
        terms = {"launch": launch_us, "l2": 1.0}
        estimate = Estimate(
            modelled_us=4.0,
            model_version="sim-2",
            chip="l4",
            calibration="uncalibrated",
            limiter="l2",
            terms_us=terms,
            blocks_run=1,
            blocks_total=1,
        )
        return CaseBench.modelled(name, estimate)

    show_modelled([case("small", 2.5), case("large", 1.0)])
    shown = capsys.readouterr().out
    assert re.search(r"small.*launch-bound.* 62%", shown)
    assert "large is" not in shown
