"""A walk that one thread takes over shared memory: a warp takes it if nothing but the order of the turns changes."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import of_example, passes, task_of

from evo.evaluate.session import EvaluationSession

WALK = """for (int i = 1; i < blockDim.x; ++i)
            if (part[i] > m) m = part[i];"""


@pytest.mark.parametrize(
    "changes",
    [
        long((), id="as it is"),
        long((("if (tid == 0)", "if (0 == threadIdx.x)"),), id="the other way round"),
        long((("if (tid == 0)", "if (!threadIdx.x)"),), id="no thread"),
        long(((WALK, "for (int i = 0; i < 256; i++) m = fmaxf(m, part[i]);"),), id="by a function"),
        long(((WALK, "int i = 1; while (i < 256) { m = fmaxf(m, part[i]); ++i; }"),), id="while"),
        pytest.param(
            ((WALK, f"{WALK}\n        float n = 0.0f;\n        for (int i = 0; i < 256; i++) n += part[i] * 0.0f;"),
             ("1.0f / (m ", "1.0f / (m + n ")), id="two walks",
        ),
    ],
)  # fmt: skip
def test_a_warp_takes_the_walk(bench: EvaluationSession, changes: tuple[tuple[str, str], ...]) -> None:
    (child,) = of_example("lone_walks", *changes)
    assert "__shfl_xor_sync" in child.text
    assert "if (threadIdx.x == 0) scale = " in child.text
    assert passes(bench, task_of("lone_walks"), child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("if (tid == 0)", "if (tid == 1)"),
        ("if (tid == 0)", "if (tid < 2)"),
        ("block (256)", "block (48)"),  # half a warp would not be there
        ("    if (tid == 0)", "    if (tid > 9) return;\n    if (tid == 0)"),
        (WALK, "for (int i = 1; i < 256; ++i) { if (part[i] > m) m = part[i]; part[i] = m; }"),  # a scan
        (WALK, "for (int i = 1; i < 256; ++i) m = m * 0.5f + part[i];"),
        (WALK, "for (int i = 1; i < 8; ++i) m = fmaxf(m, part[i]);"),  # short
        ("scale = 1.0f / (m + 1e-6f);", "scale = m; m = scale + 1e-6f; scale = 1.0f / m;"),  # what it has stored
        ("scale = 1.0f / (m + 1e-6f);", "scale = 1.0f / (m + 1e-6f); top = m;"),  # a thread's own
    ],
)
def test_other_walks_stay(written: str, otherwise: str) -> None:
    assert of_example("lone_walks", (written, otherwise)) == []
