"""The first look at many edits on simulators: what it answers, and what it does not run for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tiny import BROKEN, FAST, HEAD, SLOW, write_task

from evo.device import BenchCase
from evo.device.remote_device import RemoteSimulator
from evo.evaluate.screening import screened_gains
from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, load_task

SAME = FAST.replace("2.0f * x[i]", "x[i] * 2.0f").replace("// One", "// Another order: one")
HELD = """\
    float held[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) held[i] = x[min(i * 7, n - 1)] * i;
    const int at = blockIdx.x * THREADS + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn)
#pragma unroll
        for (int i = 0; i < 128; ++i) sum = held[i] = held[i] * sum + turn;
    if (at < n) y[at] = sum;
}
"""
FREE = HEAD.format(idea="Many values at once.", each=1, threads=128) + HELD
TIGHT = FREE.replace("__global__ void", "__global__ void __maxnreg__(32)")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """The tiny task with a second, larger size."""
    root = tmp_path_factory.mktemp("repository")
    write_task(root)
    described = root / "kernels" / "scale" / "task.yaml"
    text = described.read_text(encoding="utf-8")
    more = "  small: {N: 131072}\n  large: {N: 524288}\nheadline: small\n"
    described.write_text(text.replace("  small: {N: 131072}\n", more), encoding="utf-8")
    return load_task(root, "scale")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The cases of every estimate that a simulator is asked for, by call."""
    seen: list[tuple[str, ...]] = []
    screen = RemoteSimulator.screen

    def counted(simulator: RemoteSimulator, cases: Sequence[BenchCase], *, time_limit_s: float) -> Any:
        seen.append(tuple(case.program.case for case in cases))
        return screen(simulator, cases, time_limit_s=time_limit_s)

    monkeypatch.setattr(RemoteSimulator, "screen", counted)
    return seen


def test_what_is_slower_at_the_headline_is_looked_at_there_alone(
    task: Task, bench: EvaluationSession, looks: list[tuple[str, ...]]
) -> None:
    slower, none = screened_gains(bench, task, FAST, [SLOW, BROKEN], 0)
    assert slower is not None
    assert slower < 0.9
    assert none is None
    assert sorted(looks) == [("large",), ("small",), ("small",)]  # the parent's two, the child's one

    faster, again = screened_gains(bench, task, SLOW, [FAST, BROKEN], 0)
    assert faster is not None
    assert faster > 1.1
    assert again is None
    assert len(looks) == 7
    assert screened_gains(bench, task, SLOW, [FAST], 0) == [faster]
    assert len(looks) == 9  # the parent's times are known by now


def test_machine_code_is_run_once_whichever_texts_have_it(
    task: Task, bench: EvaluationSession, looks: list[tuple[str, ...]]
) -> None:
    again = SAME.replace("// Another", "// Yet another")
    assert screened_gains(bench, task, FAST, [SAME, again], 3) == [1.0, 1.0]
    assert len(looks) == 2  # the parent's
    one, other = screened_gains(bench, task, SLOW, [SAME, again], 3)
    assert one == other
    assert len(looks) == 6


def test_what_spills_and_its_parent_does_not_is_not_run(
    task: Task, bench: EvaluationSession, looks: list[tuple[str, ...]]
) -> None:
    gain, spilled = screened_gains(bench, task, FREE, [FREE.replace("turn < 2", "turn < 1"), TIGHT], 0)
    assert gain is not None
    assert spilled is None
    assert len(looks) == 4
    assert screened_gains(bench, task, TIGHT, [TIGHT.replace("turn < 2", "turn < 1")], 0) != [None]


def test_no_gains_over_a_parent_that_does_not_run(task: Task, bench: EvaluationSession) -> None:
    assert screened_gains(bench, task, BROKEN, [FAST, SLOW], 0) == [None, None]
