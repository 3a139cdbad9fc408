"""The speed-up since the start: over keeps, over a change of the environment, over a review that goes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ledger_samples import RUN, record, text_of

from evo.records import leaderboard
from evo.records.since_start import SinceStart, line_since_start, since_start, speedup_text
from evo.records.trials import Record
from evo.results import Evidence, Verdict
from evo.results.decision import CaseEvidence


def start(number: int = 1, time_us: float = 80.0, **fields: object) -> Record:
    made = record(number, parent=None, time_us=time_us, **fields)  # type: ignore[arg-type]
    return replace(made, evaluation=replace(made.evaluation, decision=None))


def elsewhere(kept: Record, gain: CaseEvidence | None) -> Record:
    """The same trial under another driver, with the gain over its parent that it measured."""
    evaluation = kept.evaluation
    assert evaluation.decision is not None
    environment = replace(evaluation.environment, detail={"driver": "590"})
    evidence = Evidence(cases={"b2": gain} if gain is not None else {})
    decision = replace(evaluation.decision, evidence=evidence)
    return replace(kept, evaluation=replace(evaluation, environment=environment, decision=decision))


def found(*kept: Record) -> SinceStart:
    known = since_start(kept)
    assert known is not None
    return known


def test_it_is_the_start_over_the_champion_and_not_the_last_step() -> None:
    line = found(start(), record(2, parent=text_of(1), time_us=8.0), record(3, parent=text_of(2), time_us=5.0))
    assert (line.speedup, line.start_us) == ({"b2": 16.0}, {"b2": 80.0})
    assert line.environments is None
    assert line.words("b2") == "16.0x since the start"
    assert line.words("unknown") is None
    assert found(start()).words("b2") is None


def test_across_environments_the_paired_gain_takes_the_place_of_the_times() -> None:
    first, second = start(), record(2, parent=text_of(1), time_us=8.0)
    third = elsewhere(record(3, parent=text_of(2), time_us=2.0), CaseEvidence(ratio=1.5))
    fourth = elsewhere(record(4, parent=text_of(3), time_us=1.0), CaseEvidence(ratio=9.0))
    line = found(first, second, third, fourth)
    assert line.speedup == {"b2": pytest.approx(10 * 1.5 * 2)}
    assert line.environments == 2
    modelled = elsewhere(record(3, parent=text_of(2), time_us=2.0), CaseEvidence(parent_us=6.0, child_us=3.0))
    assert found(first, second, modelled).speedup == {"b2": 20.0}


def test_what_cannot_be_compared_is_absent() -> None:
    first = start()
    assert found(first, elsewhere(record(2, parent=text_of(1), time_us=2.0), None)).speedup == {}
    stranger = elsewhere(record(2, parent=text_of(7), time_us=2.0), CaseEvidence(ratio=4.0))
    assert found(first, stranger).speedup == {}  # its gain is over another kernel than the champion before it
    assert since_start([record(2, parent=text_of(1))]) is None
    assert since_start([]) is None


def test_a_review_in_a_new_environment_that_goes_back_keeps_the_speed_up_of_then() -> None:
    first, second = start(), record(2, parent=text_of(1), time_us=8.0)
    third = record(3, parent=text_of(2), time_us=4.0)
    back = elsewhere(record(4, parent=text_of(3), text=text_of(2), kind="review", time_us=7.0), None)
    assert found(first, second, third, back).speedup == {"b2": 10.0}


def test_the_line_begins_at_the_last_start_and_holds_what_was_kept() -> None:
    again = start(4, time_us=40.0)
    lost = record(5, parent=text_of(4), verdict=Verdict.REVERT, time_us=1.0)
    last = record(6, parent=text_of(4), time_us=10.0)
    records = [start(), record(2, parent=text_of(1), time_us=8.0), record(3, parent=text_of(2)), again, lost, last]
    assert line_since_start(records) == [again, last]
    entry = leaderboard.build(records, {}).entries[0]
    assert entry.since_start is not None
    assert (entry.since_start.speedup, entry.since_start.trial) == ({"b2": 4.0}, f"{RUN}-0004")


def test_about_three_digits() -> None:
    assert [speedup_text(ratio) for ratio in (0.95, 1.068, 14.18, 314.2, 1234.5)] == [
        "0.95x",
        "1.07x",
        "14.2x",
        "314x",
        "1,234x",
    ]
