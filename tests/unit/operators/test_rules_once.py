"""Costly functions of what a loop does not change: where they are worked out once, and where they may not be."""

from __future__ import annotations

import pytest
from rule_children import built, changed, example, passes, task_of, tidy

from evo.evaluate.session import EvaluationSession

WAVES = example("once")
COSINE = "cosf((j + 1) * (float)n / N)"
FADED = "expf(-0.125f * r)"
INNER = "        for (int j = 0; j < 8; j++) {"
ALONE = changed(WAVES, ("r++) {", "r++)"), (INNER, INNER[:-2]), (";\n        }\n    }\n", ";\n"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(((COSINE, COSINE),), id="as it is"),
        pytest.param(((WAVES, ALONE),), id="loops without braces"),
        pytest.param(((INNER, f"        #pragma unroll\n{INNER}"),), id="unrolled by its author"),
        pytest.param(((INNER, f"        const float half = 0.5f;\n{INNER}"),), id="a statement beside the inner loop"),
        pytest.param(
            (("= 0; j < 8", "= -4; j <= 3"), ("8 + j", "8 + j + 4"), ("j + 1", "j + 5")), id="from below zero"
        ),
        pytest.param((("= 0; j < 8", "= 2; j < 10"), ("8 + j", "8 + j - 2"), ("j + 1", "j - 1")), id="from above zero"),
        pytest.param(((COSINE, f"{COSINE} * {COSINE} / {COSINE}"),), id="several times"),
    ],
)
def test_values_are_right_where_they_are_worked_out_once(
    bench: EvaluationSession, changes: tuple[tuple[str, str], ...]
) -> None:
    text = changed(WAVES, *changes)
    text = text.replace("x[r * 8 + j]", "x[r * 8 + j] * (half + half)") if "half" in text else text
    (child,) = tidy("once", text)
    assert child.text.count("cosf(") == 1
    before, _, behind = child.text.partition("for (int r")
    assert "cosf(" in before
    assert "expf(" in behind.partition("for (int j")[0]
    assert behind.count("#pragma unroll\n        for (int j") == 1
    assert passes(bench, task_of("once"), child)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("j + 1", "x[j]"), id="an element"),
        pytest.param(("s += x", "n = n + 0; s += x"), id="changed in the loop"),
        pytest.param(("s += x", "float t = s * n; s += x"), id="declared in the loop"),
        pytest.param(("j < 8", "j < N"), id="turns that nobody knows"),
        pytest.param(("j < 8; j++", "j < 8; j += 2"), id="turns that are left out"),
        pytest.param(("j < 8", "j < 64"), id="more turns than registers hold"),
        pytest.param(("j + 1)", "j + r)"), id="changed by both loops"),
        pytest.param(("(float)n", "(float)n++"), id="changed by itself"),
        pytest.param(('extern "C"', '#define N_ (n + j)\nextern "C"'), id="a macro that reads more"),
    ],
)
def test_what_changes_or_is_not_known_stays_in_its_loop(change: tuple[str, str]) -> None:
    text = changed(WAVES, change, (FADED, "0.5f"))
    text = text.replace("(float)n /", "(float)t /") if "float t" in text else text
    text = text.replace("(j + 1) * (float)n", "N_") if "N_" in text else text
    assert not built("once", text)
