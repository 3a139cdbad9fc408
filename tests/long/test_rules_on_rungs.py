"""Every rule on every rung of every shipped task: what it proposes compiles, is one change, and passes the gate."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import children

from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.operators import RULES, Rule
from evo.results import Status
from evo.spec.chips import chip
from evo.spec.task import load_task
from evo.spec.variant import read_variant

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
TASKS = sorted(path.parent.name for path in (ROOT / "kernels").glob("*/task.yaml"))
L4 = chip("l4")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_proposals_compile(rule: Rule) -> None:
    wrong = []
    for name in TASKS:
        task = load_task(ROOT, name)
        for path in task.ladder():
            for summary, child in children(rule, task, read_variant(path), most=2):
                built = prepare(task, child.text, chip=L4, arch="sm_89", cases=[task.case(task.headline)])
                if isinstance(built, PrepareFailure):
                    wrong.append(f"{name}/{path.name}: {summary}: {built.reason}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", TASKS)
def test_proposals_on_the_first_rungs_stay_correct(name: str) -> None:
    """Wrong proposals are data, but a rule that mostly makes them is a bad rule: here none of the first ones is."""
    task = load_task(ROOT, name)
    wrong = []
    with EvaluationSession(DeviceName("sim", "l4")) as bench:
        for path in task.ladder()[:2]:
            parent = read_variant(path)
            for rule in RULES:
                for summary, child in children(rule, task, parent, most=1):
                    found = evaluate(Job(task=task, text=child.text, upto="check"), bench)
                    if found.status is not Status.CORRECT:
                        wrong.append(f"{path.name} {rule.name}: {summary}: {found.status.value}, {found.reason}")
    assert not wrong, "\n".join(wrong)
