"""Every rung of every task passes the gate on simulator and GPU; every wrong one is refused for its stated reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from simulator_session import simulator

from evo.audit.redteam import facts_of, read_expected
from evo.device import parse_device
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation
from evo.spec.task import load_task, task_names

ROOT = Path(__file__).parents[2]
TASKS = {name: load_task(ROOT, name) for name in task_names(ROOT)}
RUNGS = [(name, path) for name, task in TASKS.items() for path in task.ladder()]
WRONG = [(name, path) for name, task in TASKS.items() for path in task.wrong()]
# A rung takes seconds. The default suite has tensor cores, borders, groups, rows in registers and shared by a block.
RUNGS_SHORT = {"attention": 4, "conv2d": 1, "moe_grouped_matmul": 1, "softmax": -1, "rmsnorm": 1}


def _first_line(path: Path) -> str:
    return path.read_text().splitlines()[0]


def _short() -> set[Path]:
    """What the default suite shows: one rung of each kind, and of each reason for a refusal one wrong kernel."""
    rungs = [TASKS[name].ladder()[place] for name, place in RUNGS_SHORT.items()]
    wrong = {_first_line(path): path for _, path in WRONG}  # the last task that has it: its kernels compile soon
    return {*rungs, *wrong.values()}


SHORT = _short()


def _cases(pairs):
    return [
        pytest.param(name, path, marks=() if path in SHORT else pytest.mark.long, id=f"{name}-{path.stem}")
        for name, path in pairs
    ]


@pytest.fixture(scope="module", params=["sim:l4", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def bench(request):
    with simulator() if request.param == "sim:l4" else EvaluationSession(parse_device(request.param)) as bench:
        yield bench


def check(bench: EvaluationSession, task: str, path: Path) -> Evaluation:
    return evaluate(Job(task=TASKS[task], text=path.read_text(), path=str(path), seed=11, upto="check"), bench)


@pytest.mark.parametrize(("task", "path"), _cases(RUNGS))
def test_a_rung_passes(bench, task, path):
    evaluation = check(bench, task, path)
    assert evaluation.status.passed, evaluation.reason


@pytest.mark.parametrize(("task", "path"), _cases(WRONG))
def test_a_wrong_kernel_is_refused_for_its_reason(bench, task, path):
    first = _first_line(path)
    expected = read_expected(first.removeprefix("// expect: "), path)
    evaluation = check(bench, task, path)
    wanted = dict(expected.facts)
    if not bench.modelled:  # the simulator's hunt comes before the GPU's numbers, and another input may be first there
        wanted.pop("inputs", None)
    if wanted.get("stage") == ("limits",) and evaluation.status.passed and bench.chip.slug != "l4":
        pytest.skip("within the limits of this chip")
    found = facts_of(evaluation)
    assert replace(expected, facts=wanted).holds(found), (first, found, evaluation.reason)
