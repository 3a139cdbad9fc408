from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_samples import DATE, record, text_of

from evo.errors import RecordCorrupt
from evo.records import leaderboard
from evo.records.insights import change_of, rule_evidence, summarise, unsuccessful
from evo.records.trials import Record
from evo.results import CompileReport, Environment, Verdict


def population() -> list[Record]:
    return [
        record(1, parent=None),
        record(2, parent=text_of(1), time_us=8.0),
        record(3, parent=text_of(2), verdict=Verdict.REVERT, time_us=1.0),
        record(4, parent=text_of(2), verdict=None),
        record(5, parent=text_of(1), loaded="cubin", time_us=12.0),
        record(6, parent=text_of(1), loaded="ptx_jit", time_us=5.0),
        record(7, parent=None, task="alpha", verdict=Verdict.KEEP_NEUTRAL),
    ]


def test_an_entry_is_the_last_kept_record_of_its_place() -> None:
    records = population()
    board = leaderboard.build(records, {records[1].trial: "c0ffee"})
    found = leaderboard.entries(board)
    assert [(entry.task, entry.chip, entry.loaded, entry.timing) for entry in found] == [
        ("alpha", "sim-l4", "sim", "modelled"),
        ("attention", "l4", "cubin", "measured"),
        ("attention", "l4", "ptx_jit", "measured"),
        ("attention", "sim-l4", "sim", "modelled"),
    ]
    modelled = found[3].to_json()
    assert modelled["variant"] == records[1].variant
    assert modelled["parent"] == records[0].variant
    assert modelled["commit"] == "c0ffee"
    assert modelled["date"] == DATE
    assert modelled["cases"] == {"b2": {"modelled_us": 8.0, "model_version": "1", "calibration": "uncalibrated"}}
    assert modelled["gain"] == {"ratio": 1.25, "confirmed": False}
    measured = found[1].to_json()
    assert "commit" not in measured
    assert measured["cases"] == {
        "b2": {
            "p50_us": 12.0,
            "p90_us": 13.2,
            "p99_us": 14.4,
            "samples": 1000,
            "cold": {"p50_us": 12.0, "p90_us": 13.2},
            "tflop_per_s": 12.5,
        }
    }


def test_views_hold_one_kind_of_time() -> None:
    board = leaderboard.build(population(), {})
    for timing in ("measured", "modelled"):
        shown = leaderboard.entries(board, timing=timing)
        assert len(shown) == 2
        assert {entry.timing for entry in shown} == {timing}
    assert [entry.task for entry in leaderboard.entries(board, task="alpha")] == ["alpha"]


def test_a_start_without_a_decision_is_a_champion_if_it_passed() -> None:
    trial = record(1, parent=None)
    trial = replace(trial, evaluation=replace(trial.evaluation, decision=None))
    assert leaderboard.entries(leaderboard.build([trial], {}))[0].gain is None
    failed = record(1, parent=None, verdict=None)
    assert leaderboard.build([failed], {}).to_json() == {"version": 1, "entries": []}


def _named_gpu(trial: Record) -> Environment:
    return replace(trial.environment, detail={"driver": "580", "gpu": "one"})


def test_equal_records_give_equal_bytes(tmp_path: Path) -> None:
    records = population()
    commits = {trial.trial: "a" * 40 for trial in records}
    lines = [json.loads(trial.to_line()) for trial in records]
    for line in lines:
        line["evaluation"]["environment"] = dict(reversed(line["evaluation"]["environment"].items()))
        line["evaluation"]["environment"]["detail"] = {"gpu": "one", "driver": "580"}
    records = [replace(r, evaluation=replace(r.evaluation, environment=_named_gpu(r))) for r in records]
    text = leaderboard.render(records, commits)
    shuffled = [Record.from_line(json.dumps(line), where="x") for line in lines]
    random.Random(0).shuffle(shuffled)
    assert leaderboard.render(shuffled, dict(reversed(list(commits.items())))) == text
    leaderboard.write(tmp_path, leaderboard.build(records, commits))
    assert (tmp_path / "leaderboard.json").read_text() == text
    assert leaderboard.dump(leaderboard.load(tmp_path)) == text


def test_no_file_is_an_empty_leaderboard(tmp_path: Path) -> None:
    assert leaderboard.load(tmp_path).entries == ()


def damaged() -> list[tuple[str, object, str]]:
    return [
        ("task", 3, ".task`"),
        ("timing", "measured", ".timing`"),
        ("loaded", "magic", ".loaded`"),
        ("score", 1, ".score`: unknown field"),
        ("commit", 1, ".commit`"),
        ("environment", None, ".environment`"),
        ("gain", {"ratio": "1"}, ".gain.ratio`"),
        ("cases", {"b2": {"p50_us": 1.0, "p90_us": 1.0, "p99_us": 1.0, "samples": 9}}, ".cases.b2`: not a modelled"),
        ("cases", {"b2": {"p50_us": 1.0, "modelled_us": 1.0, "model_version": "1"}}, ".cases"),
        ("cases", {"b2": {"modelled_us": 1.0, "model_version": "1", "speed": 1}}, ".cases.b2.speed`: unknown field"),
        ("cases", {"b2": {"modelled_us": True, "model_version": "1"}}, ".cases"),
        ("cases", [], ".cases`"),
    ]


@pytest.mark.parametrize(("field", "value", "says"), damaged())
def test_a_damaged_entry_is_named(tmp_path: Path, field: str, value: object, says: str) -> None:
    board = leaderboard.build([record(1, parent=None)], {}).to_json()
    board["entries"][0][field] = value  # type: ignore[index,call-overload]
    (tmp_path / "leaderboard.json").write_text(json.dumps(board))
    with pytest.raises(RecordCorrupt, match=r"leaderboard\.json: field `entries\[0\]") as caught:
        leaderboard.load(tmp_path)
    assert says in caught.value.message
    assert caught.value.hint == "evo leaderboard --rebuild"


def test_measured_cases_are_checked(tmp_path: Path) -> None:
    for change in ({"modelled_us": 1.0}, {"p50_us": None}, {"cold": {}}, {"baseline": 3}, {"tflop_per_s": "x"}):
        board = leaderboard.build([record(1, parent=text_of(0), loaded="cubin")], {}).to_json()
        board["entries"][0]["cases"]["b2"].update(change)  # type: ignore[index,call-overload,union-attr]
        (tmp_path / "leaderboard.json").write_text(json.dumps(board))
        with pytest.raises(RecordCorrupt, match=r"entries\[0\]\.cases"):
            leaderboard.load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "entries": []}',
        '{"version": 1, "entries": {}}',
        '{"version": 1, "entries": [1]}',
        '{"entries": []}',
    ],
)
def test_a_file_that_is_no_leaderboard_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "leaderboard.json").write_text(text)
    with pytest.raises(RecordCorrupt, match=r"leaderboard\.json"):
        leaderboard.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "a list,"),
        ('{"version": 1, "entries": {}}', "a list, got an object"),
        ('{"version": 1, "entries": [1]}', "an object, got a whole number"),
    ],
)
def test_a_file_of_another_kind_is_described_in_words(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "leaderboard.json").write_text(text)
    with pytest.raises(RecordCorrupt) as caught:
        leaderboard.load(tmp_path)
    assert says in caught.value.message


def test_two_champions_of_one_place_are_refused(tmp_path: Path) -> None:
    board = leaderboard.build([record(1, parent=None)], {}).to_json()
    board["entries"] = [*board["entries"], *board["entries"]]  # type: ignore[misc]
    (tmp_path / "leaderboard.json").write_text(json.dumps(board))
    with pytest.raises(RecordCorrupt, match="a second champion of attention sim-l4 sm_89 sim"):
        leaderboard.load(tmp_path)


# --- insights -------------------------------------------------------------------------------------------------------


def test_insights_give_the_median_effect_of_each_kind_of_change() -> None:
    records = [
        record(1, parent=None),
        *(record(n, parent=text_of(1), ratio=ratio) for n, ratio in ((2, 1.1), (3, 1.3), (4, 1.2))),
        record(5, parent=text_of(1), ratio=0.9, verdict=Verdict.REVERT, loaded="cubin"),
        record(6, parent=text_of(1), verdict=None, arguments={"rule": "tile", "knob": "BLOCK_M", "to": 64}),
    ]
    found = {(insight.change, insight.timing): insight for insight in summarise(records)}
    modelled = found["unroll the loop # times", "modelled"]
    assert (modelled.count, modelled.kept, modelled.timed, modelled.median) == (3, 3, 3, 1.2)
    assert (modelled.low, modelled.high, modelled.chip) == (1.1, 1.3, "sim-l4")
    measured = found["unroll the loop # times", "measured"]
    assert (measured.count, measured.kept, measured.median, measured.chip) == (1, 0, 0.9, "l4")
    untimed = found["tile BLOCK_M", "modelled"]
    assert (untimed.count, untimed.kept, untimed.median) == (1, 0, None)
    assert "median" not in untimed.to_json()
    assert "1.20x modelled on sim-l4" in modelled.sentence()
    assert "never got as far as a time" in untimed.sentence()
    assert summarise(records) == summarise(reversed(records))
    assert len(found) == len(summarise(records)) == 3  # the start claims nothing


def compiled(trial: Record, code: str) -> Record:
    report = CompileReport(variant=trial.variant, arch="sm_89", status="compiled", code_hash=code)
    return replace(trial, evaluation=replace(trial.evaluation, compile=report))


def test_the_evidence_for_a_rule_keeps_measured_and_modelled_apart() -> None:
    def tried(number: int, code: str, **words: Any) -> Record:
        made = record(number, parent=text_of(1), arguments={"rule": "unroll", "to": number}, **words)
        return compiled(made, code)

    start = record(1, parent=None)
    records = [
        compiled(start, "old"),
        tried(2, "new", ratio=1.3),
        tried(3, "old", ratio=1.0, verdict=Verdict.REVERT),
        tried(4, "", verdict=None),
        tried(5, "new", ratio=1.1, loaded="cubin"),
        record(6, parent=text_of(1)),  # of no rule
    ]
    measured, modelled = rule_evidence(records)
    assert (measured.timing, measured.trials, measured.kept, measured.best) == ("measured", 1, 1, 1.1)
    assert (modelled.timing, modelled.rule, modelled.trials, modelled.new_code) == ("modelled", "unroll", 3, 1)
    assert (modelled.correct, modelled.kept, modelled.best) == (2, 1, 1.3)
    assert "best" not in rule_evidence([records[3]])[0].to_json()


def test_a_change_is_named_without_its_numbers_but_with_its_names() -> None:
    assert change_of(record(2, parent=text_of(1), summary="TILE_2 8 -> 16")) == "TILE_2 # -> #"


def test_unsuccessful_changes_are_listed_latest_first() -> None:
    rows = unsuccessful(population())
    assert [(row.trial[-4:], row.status, row.reason) for row in rows] == [
        ("0004", "wrong", "case b2: off"),
        ("0003", "correct", "because"),
    ]
    assert "ratio" not in rows[0].to_json()
    assert rows[1].to_json()["ratio"] == 1.25


def test_insights_of_unlike_environments_are_kept_apart() -> None:
    def driver(trial: Record, version: str) -> Record:
        environment = replace(trial.environment, detail={"driver": version})
        return replace(trial, evaluation=replace(trial.evaluation, environment=environment))

    records = [
        driver(record(n, parent=text_of(1), ratio=ratio, loaded="cubin"), version)
        for n, ratio, version in ((2, 1.1, "570.1"), (3, 1.3, "580.2"), (4, 1.2, "580.2"))
    ]
    found = {insight.environment.rpartition("driver ")[2]: insight for insight in summarise(records)}
    assert (found["570.1"].count, found["570.1"].median) == (1, 1.1)
    assert (found["580.2"].count, found["580.2"].median) == (2, 1.25)
