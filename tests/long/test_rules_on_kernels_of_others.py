"""Every rule on kernels in other styles than ours: templates, macros, methods, lambdas, CRLF, `#if`, goto."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import children

from evo.cuda.source import syntax_errors
from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.operators import RULES
from evo.results import Status
from evo.spec.task import load_task
from evo.spec.variant import read_variant

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "data" / "kernels_of_others").glob("*.cu"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_first_proposals_leave_a_correct_kernel(path: Path) -> None:
    parent = read_variant(path)
    assert parent.task is not None
    task = load_task(ROOT, parent.task)
    wrong, found = [], 0
    with EvaluationSession(DeviceName("sim", "l4")) as bench:
        for rule in RULES:
            for summary, child in children(rule, task, parent, most=1):
                found += 1
                assert len(syntax_errors(child.text)) <= len(syntax_errors(parent.text)), summary
                judged = evaluate(Job(task=task, text=child.text, upto="check"), bench)
                if judged.status is not Status.CORRECT:
                    wrong.append(f"{rule.name}: {summary}: {judged.status.value}, {judged.reason}")
    assert found >= 4
    assert not wrong, "\n".join(wrong)
