"""Kernels that are right on what a reference draws and wrong on other integers, indices or masks that the task allows.

Each task draws a narrow set of values, as references of strangers do, and states the range that its kernels must take.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from simulator_session import simulator

from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation
from evo.spec.task import load_task, task_names

ROOT = Path(__file__).parents[1] / "data" / "liars"
TASKS = {name: load_task(ROOT, name) for name in task_names(ROOT)}
HONEST = [(name, path) for name, task in TASKS.items() for path in task.ladder()]
LIARS = [(name, path) for name, task in TASKS.items() for path in task.wrong()]


@pytest.fixture(scope="module")
def bench():
    with simulator() as bench:
        yield bench


def check(bench: EvaluationSession, task: str, path: Path) -> Evaluation:
    return evaluate(Job(task=TASKS[task], text=path.read_text(), path=str(path), seed=11, upto="check"), bench)


# One of each task by default; the others in the long suite.
@pytest.mark.parametrize(
    ("task", "path"),
    [
        pytest.param(name, path, marks=[] if path == TASKS[name].ladder()[0] else pytest.mark.long)
        for name, path in HONEST
    ],
    ids=lambda value: getattr(value, "stem", value),
)
def test_an_honest_kernel_passes(bench, task, path):
    evaluation = check(bench, task, path)
    assert evaluation.status.passed, evaluation.reason


@pytest.mark.parametrize(("task", "path"), LIARS, ids=lambda value: getattr(value, "stem", value))
def test_a_kernel_that_fits_the_drawn_values_alone_is_refused(bench, task, path):
    status, output = path.read_text().splitlines()[0].removeprefix("// expect: ").split(", ")
    evaluation = check(bench, task, path)
    assert evaluation.status == status, evaluation.reason
    assert output in evaluation.reason
