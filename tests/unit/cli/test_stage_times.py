"""Where the time of a run went, from its records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ledger_samples import environment

from evo.cli.record_commands import stage_times
from evo.records.trials import Record, load_records
from evo.results import Evaluation, Status

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def record() -> Record:
    return next(record for record in load_records(ROOT, "matmul") if record.proposed and not record.kept)


def trial(record: Record, elapsed_s: float | None, **stages: float) -> Record:
    return replace(record, elapsed_s=elapsed_s, evaluation=replace(record.evaluation, stages_s=stages))


def test_trials_are_told_apart_and_their_stages_added_up(record: Record) -> None:
    start = replace(trial(record, 5.0, bench=5.0), kind="start", parent=None)
    rows = stage_times([start, trial(record, 1.0, gate=0.25, bench=0.75), trial(record, 3.0, gate=3.0)])
    assert rows == [
        ["start", "1", "5.00", "5.0", "bench 100%"],
        ["rejected", "2", "2.00", "4.0", "gate 81%, bench 19%"],
        ["all", "3", "3.00", "9.0", "bench 64%, gate 36%"],
    ]


def test_trials_without_a_time_are_left_out(record: Record) -> None:
    assert stage_times([trial(record, None)]) == []


def test_a_stage_of_the_loop_counts_in_the_elapsed_time() -> None:
    where = environment()
    found = Evaluation(variant="v", status=Status.CORRECT, environment=where, elapsed_s=2.0, stages_s={"gate": 2.0})
    more = found.with_stage("propose", 0.5)
    assert (more.elapsed_s, more.stages_s) == (2.5, {"propose": 0.5, "gate": 2.0})
    assert found.with_stage("propose", None) is found
