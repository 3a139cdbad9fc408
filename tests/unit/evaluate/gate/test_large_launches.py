"""A launch may be large where the task's work is small: a sample of its blocks is looked at, and no more is said."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from evo.device.remote_device import RemoteSimulator
from evo.evaluate import gate
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Check, FaultKind, Status
from evo.spec.task import Task

# A block for each element, and something else to do from 3,001 elements on.
KERNEL = """\
// evo: task scale
// evo: launch scale grid (N) block (1) shared 0
extern "C" __global__ void scale(const float* x, float* y, int n) {
    float by = 2.0f;
    if (n > 3000) {MORE}
    y[blockIdx.x] = by * x[blockIdx.x];
}
"""


def hunted(
    bench: EvaluationSession, task: Task, more: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Check | None, gate.Looked]:
    """With a budget that small launches keep to, and those of thousands of blocks do not."""
    monkeypatch.setattr(sys.modules["evo.evaluate.gate.hunted_steps"], "CHECK_BUDGET", 8000)
    prepared = bench.prepare(task, KERNEL.replace("{MORE}", more))
    assert isinstance(prepared, Prepared)
    bind, looked = partial(bench.bound, task, prepared), gate.Looked()
    reference = bench.reference(task)
    found = gate.hunt(
        task, prepared.variant, prepared.programs, bind, reference, [bench.checker], bench.chip, 1,
        share=gate.THOROUGH, looked=looked,
    )  # fmt: skip
    return found, looked


def test_an_honest_kernel_stands_and_sizes_that_were_sampled_do_not_count_as_run(
    bench: EvaluationSession, scale: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, looked = hunted(bench, scale, "by = 2.0f + 0 * x[0];", monkeypatch)
    assert found is None
    assert not any(case.axes["N"] > 3000 for case in looked.cases)


def test_wrong_numbers_are_seen_by_the_sample(
    bench: EvaluationSession, scale: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = hunted(bench, scale, "by = 3.0f;", monkeypatch)
    assert found is not None
    assert found.status is Status.WRONG
    assert found.cases[0].mismatch is not None


def test_an_endless_loop_of_the_first_block_needs_no_sample(
    bench: EvaluationSession, scale: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(RemoteSimulator, "run_sample")
    found, _ = hunted(bench, scale, "while (by < x[n - 1] + 1e9f) y[blockIdx.x] = by *= 0.5f;", monkeypatch)
    assert found is not None
    assert not found.status.passed
    assert found.faults[0].kind is FaultKind.BUDGET
