"""Every rung of every task passes the gate on simulator and GPU; every wrong one is refused for its stated reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evo.device import parse_device
from evo.evaluate import Job, Workbench, evaluate
from evo.result import Evaluation
from evo.task import load_task, task_names

ROOT = Path(__file__).parents[2]
TASKS = {name: load_task(ROOT, name) for name in task_names(ROOT)}
RUNGS = [(name, path) for name, task in TASKS.items() for path in task.ladder()]
WRONG = [(name, path) for name, task in TASKS.items() for path in task.wrong()]
EXPECT = re.compile(r"^// expect: (\w+), (.+)$")


@pytest.fixture(scope="module", params=["sim:l4", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def bench(request):
    with Workbench(parse_device(request.param)) as bench:
        yield bench


def check(bench: Workbench, task: str, path: Path) -> Evaluation:
    return evaluate(Job(task=TASKS[task], text=path.read_text(), path=str(path), seed=11, upto="check"), bench)


def label(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(("task", "path"), RUNGS, ids=label)
def test_a_rung_passes(bench, task, path):
    evaluation = check(bench, task, path)
    assert evaluation.status.passed, evaluation.reason


@pytest.mark.parametrize(("task", "path"), WRONG, ids=label)
def test_a_wrong_kernel_is_refused_for_its_reason(bench, task, path):
    status, phrase = EXPECT.match(path.read_text().splitlines()[0]).groups()
    evaluation = check(bench, task, path)
    assert evaluation.status == status, evaluation.reason
    assert phrase.lower() in evaluation.reason.lower()
