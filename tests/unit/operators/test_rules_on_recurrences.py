"""Recurrences x = a * x + b along rows and down columns: lanes share them however they are written."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import DATA, built, passes

from evo.evaluate.session import EvaluationSession
from evo.operators.one_change import clutter
from evo.spec.task import read_task
from evo.spec.variant import parse_variant

TASK = read_task(DATA / "idioms" / "recurrences")
KERNEL = TASK.ladder()[0].read_text(encoding="utf-8")
STEP = "h = a * h + x[n * L + l];"


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(STEP, id="as it is"),
        long("h = fmaf(h, a, x[n * L + l]);", id="fused"),
        long("h *= a;\n        h += x[n * L + l];", id="two statements"),
        long("h = x[n * L + l] - a * -1.0f * (h);", id="a difference"),
    ],
)
def test_rows_and_columns_of_a_recurrence_are_shared(bench: EvaluationSession, step: str) -> None:
    text = KERNEL.replace(STEP, step)
    found = built("scan_lanes", text, TASK)
    by_first = {child.launches[0].block[0].text + child.launches[1].block[0].text: child for child in found}
    assert set(by_first) == {"32 * WARPS64", "LANES64", "64COLUMNS * LANES"}
    for child in by_first.values():
        assert clutter(text, child.text) is None
        assert passes(bench, TASK, child)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("h = a * h * h + x[n * L + l];", id="squares"),
        pytest.param("h = a / h + x[n * L + l];", id="quotients"),
        pytest.param("h = fmaxf(a * h, x[n * L + l]);", id="a clamp"),
        pytest.param("h = a * h + x[n * L + l];\n        if (h > 4.0f) h = 0.0f;", id="a reset"),
    ],
)
def test_what_is_not_linear_stays_in_order(step: str) -> None:
    variant = parse_variant(KERNEL.replace(STEP, step))
    assert all(built(name, variant, TASK) == [] for name in ("scan_lanes", "row_lanes", "column_lanes"))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("m += x[n * L + l]; h += m;", id="sums of running sums"),
        pytest.param("m = fmaxf(m, x[n * L + l]); if (m > a) h += a;", id="what a running maximum lets through"),
        pytest.param("m += a; h = m * h + x[n * L + l];", id="factors that are running sums"),
    ],
)
def test_what_follows_another_running_number_stays_in_order(step: str) -> None:
    """Neither where it is stored on the way, nor behind the loop."""
    for store in ("{}[n * L + l] = h;\n    }}", "}}\n    {}[n * L] = h;"):
        text = KERNEL.replace(STEP, step).replace("float h = 0.0f;", "float h = 0.0f, m = 0.0f;")
        for name in ("along", "down"):
            text = text.replace(f"{name}[n * L + l] = h;\n    }}", store.format(name))
        names = ("scan_lanes", "row_lanes", "row_blocks", "column_lanes")
        assert all(built(name, text, TASK) == [] for name in names)
