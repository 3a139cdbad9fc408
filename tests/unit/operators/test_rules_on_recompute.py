"""A value that one pass stores and a later one finishes: computed twice if that is the same value."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built
from simulator import simulator

from evo.evaluate.pipeline import Job, evaluate
from evo.operators import RULES
from evo.spec.task import read_task
from evo.spec.variant import Variant, parse_variant

TASK = read_task(Path(__file__).parents[2] / "data" / "rules" / "recompute")
RULE = next(rule for rule in RULES if rule.name == "recompute")
FINISH = "y[i * R + c] /= sum;"
STORE = "y[i * R + c] = expf(x[i * R + c] - top);"


def children(*changes: tuple[str, str]) -> list[Variant]:
    text = RULE.examples[0].before
    for written, otherwise in changes:
        assert written in text
        text = text.replace(written, otherwise)
    return built(RULE, parse_variant(text), TASK)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="as it is"),
        pytest.param(((FINISH, "y[i * R + c] = y[i * R + c] * (1.0f / sum);"),), id="written out",
                     marks=pytest.mark.long),
        pytest.param(((FINISH, "y[i * R + c] *= 1.0f / sum;"),), id="a factor", marks=pytest.mark.long),
        pytest.param((("sum += y[i * R + c];", "sum += expf(x[i * R + c] - top);"),), id="not read at once",
                     marks=pytest.mark.long),
        pytest.param((("if (c >= R) return;", "float* out = y + c;\n    if (c >= R) return;"),
                      (STORE, STORE.replace("y[i * R + c]", "out[i * R]")), (FINISH, "out[i * R] /= sum;"),
                      ("sum += y[i * R + c];", "sum += out[i * R];")), id="a pointer", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_what_is_finished_later_is_computed_again(changes: tuple[tuple[str, str], ...]) -> None:
    (child,) = children(*changes)
    stores = [line for line in child.text.splitlines() if line.strip().startswith(("y[", "out["))]
    assert len(stores) == 1
    with simulator() as session:
        assert evaluate(Job(task=TASK, text=child.text, path="child.cu", upto="check"), session).status.passed


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((("        sum += y", "        top += 0.0f; sum += y"),), id="changes on the way"),
        pytest.param((("    }\n    for (int i = 0; i < C; i++) {\n        y", "    }\n    top = 0.0f;\n"
                       "    for (int i = 0; i < C; i++) {\n        y"),), id="changes between"),
        pytest.param((("    }\n    for (int i = 0; i < C; i++) {\n        y", "    }\n    C -= 1;\n"
                       "    for (int i = 0; i < C; i++) {\n        y"),), id="fewer turns"),
        pytest.param(((FINISH, "if (i > 0) y[i * R + c] /= sum;"),), id="not all are finished"),
        pytest.param(((FINISH, "y[i * R + c] /= sum; sum = y[i * R + c];"),), id="read once more"),
        pytest.param(((STORE, "float v = expf(x[i * R + c] - top); y[i * R + c] = v;"),), id="of the turn's own"),
        pytest.param(((STORE, "y[i * R + c] = expf(y[i * R + c] - top);"),), id="of itself"),
        pytest.param(((FINISH, "y[(C - 1 - i) * R + c] /= sum;"),), id="backwards"),
    ],
)  # fmt: skip
def test_other_passes_stay(changes: tuple[tuple[str, str], ...]) -> None:
    assert children(*changes) == []
