"""Several outputs for a thread along an index that its block has as a whole."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import built, example, passes, task_of

from evo.evaluate.session import EvaluationSession
from evo.spec.variant import Variant

TASK = task_of("unflatten")
FLAT = example("unflatten")
PLACES = FLAT[FLAT.index("    int index") : FLAT.index("        float value")]
GRID = "grid (ceil_div(C * H * W, 256)) block (256)"
INDEX = "int j = blockIdx.x * blockDim.x + threadIdx.x;\n    "
GUARD = "\n    if (j < W) {\n"


def kernel(grid: str, places: str) -> str:
    text = FLAT.replace(PLACES, f"    {INDEX}{places}{GUARD}").replace("y[index]", "y[(c * H + i) * W + j]")
    text = text.replace("kh, v", "kh; const int v")
    return text.replace(GRID, f"grid ({grid}) block (32)")


def along(name: str, text: str) -> list[Variant]:
    return [c for c in built("coarsen", text, TASK) if f"knob {name}_REPEAT" in c.text]


@pytest.mark.parametrize(
    ("grid", "places", "names"),
    [
        pytest.param("ceil_div(W, 32), H, C", "int i = blockIdx.y, c = blockIdx.z;", "IC", id="each its own"),
        long("ceil_div(W, 32), C * H", "int c = blockIdx.y / H, i = blockIdx.y % H;", "IC", id="divided"),
        long("ceil_div(W, 32), H * C", "int c = blockIdx.y / H, i = blockIdx.y % H;", "IC", id="turned"),
        long(
            "ceil_div(W, 32), C * (H + 0)", "int R = H + 0, c = blockIdx.y / R, i = blockIdx.y % R;", "IC", id="a size"
        ),
        pytest.param("ceil_div(W, 32), C * H", "int q = blockIdx.y, c = q / H, i = q % H;", "", id="by a name"),
        pytest.param("ceil_div(W, 32), C * H", "int c = blockIdx.y / H, i = blockIdx.y - c * H;", "", id="a rest"),
        pytest.param("ceil_div(W, 32), H, min(C, C)", "int i = blockIdx.y, c = blockIdx.z;", "I", id="no axis"),
    ],
)
def test_a_block_takes_several_values_of_its_index(
    bench: EvaluationSession, grid: str, places: str, names: str
) -> None:
    text = kernel(grid, places)
    for name in "IC":
        found = along(name, text)
        assert len(found) == (3 if name in names else 0)
        for child in found[1:2]:
            assert passes(bench, TASK, child)
