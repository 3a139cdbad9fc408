"""Bounds on metrics in task.yaml: what holds, what refuses and with which words, and what is no bound at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import FAST, SLOW, TASK_YAML, write_task

from evo.errors import SyntaxInvalid
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation, Stage, Status
from evo.spec.task import load_task


def gated(root: Path, gates: str) -> None:
    write_task(root)
    (root / "kernels" / "scale" / "task.yaml").write_text(f"{TASK_YAML}gates: {gates}\n")


def checked(root: Path, gates: str, text: str, bench: EvaluationSession) -> Evaluation:
    gated(root, gates)
    return evaluate(Job(task=load_task(root, "scale"), text=text, upto="check"), bench)


def test_gates_that_hold_say_nothing(tmp_path: Path, bench: EvaluationSession) -> None:
    gates = (
        "{spills: spill_bytes == 0, local: local_bytes == 0, near: excess_sectors == 0, few: sectors_per_request <= 4,"
        " cold: {require: cold_bytes == bytes, case: small}, no_shared_access_at_all: conflict_ways == 1}"
    )
    found = checked(tmp_path, gates, FAST, bench)
    assert (found.status, found.reason) == (Status.CORRECT, None)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ("registers <= 4", ["gate bound", "registers is", "compile report"]),
        ("sectors_per_request <= 4", ["sectors_per_request is", "line 9", "case even", "simulator"]),
        # 131,072 loads and stores each in a sector of its own, where 8,192 requests need 4 sectors each
        ("{require: excess_sectors == 0, case: small}", ["excess_sectors is 229,376", "line 9", "case small"]),
        ("hmma == flop / 4096", ["hmma is 0", "flop is 256"]),
        ("spill_bytes == 0 and lane_use >= 0.9", ["lane_use is", "spill_bytes is 0"]),
    ],
)
def test_a_gate_that_does_not_hold_refuses(
    tmp_path: Path, bench: EvaluationSession, gate: str, words: list[str]
) -> None:
    found = checked(tmp_path, f"{{bound: {gate}}}", SLOW, bench)
    assert (found.status, found.stage) == (Status.REFUSED, Stage.METRICS)
    assert found.reason is not None
    for word in words:
        assert word in found.reason


def test_a_wrong_variant_is_wrong_first(tmp_path: Path, bench: EvaluationSession) -> None:
    found = checked(tmp_path, "{bound: registers <= 4}", SLOW.replace("2.0f * x", "3.0f * x"), bench)
    assert found.status is Status.WRONG


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ("{x: bank_conflict == 0}", ["task.yaml:13:", "gates.x", "bank_conflict'", "bank_conflicts", "spill_bytes"]),
        ("{x: N == 77}", ["task.yaml:13:", "names no metric"]),
        ("{x: hmma ==}", ["task.yaml:13:", "cannot parse"]),
        ("{x: {require: hmma == 0, case: big}}", ["task.yaml:13:", "big", "small"]),
        ("{x: {bound: hmma == 0}}", ["task.yaml:13:", "bound", "require, case"]),
        ("{x: {case: even}}", ["task.yaml:13:", "no bound"]),
        ("{x: }", ["task.yaml:13:", "no bound"]),
        ("[hmma == 0]", ["task.yaml:13:", "mapping"]),
    ],
)
def test_malformed_gates_are_refused_at_load(tmp_path: Path, gates: str, words: list[str]) -> None:
    gated(tmp_path, gates)
    with pytest.raises(SyntaxInvalid) as refusal:
        load_task(tmp_path, "scale")
    said = f"{refusal.value.message} {refusal.value.hint}"
    for word in words:
        assert word in said
