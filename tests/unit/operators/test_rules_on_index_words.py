"""Indices of threads: whatever words a kernel has for them, rules find what they find in the usual ones."""

from __future__ import annotations

import pytest
from rule_children import built, of_example, passes, task_of

from evo.evaluate.session import EvaluationSession

USUAL = "int index = blockIdx.x * blockDim.x + threadIdx.x;"
OTHERS = {
    "cast": "int index = (int)(blockIdx.x * blockDim.x + threadIdx.x);",
    "inner cast": "size_t index = blockIdx.x * (size_t)blockDim.x + threadIdx.x;",
    "static_cast": "int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);",
    "variables": "int tid = threadIdx.x; int bid = blockIdx.x;\n    int index = bid * blockDim.x + tid;",
    "start": "int start = blockIdx.x * blockDim.x;\n    int index = start + threadIdx.x;",
    "set later": "int index;\n    index = blockIdx.x * blockDim.x + threadIdx.x;",
    "added to": "int index = blockIdx.x * blockDim.x;\n    index += threadIdx.x;",
    "auto": "auto index = blockIdx.x * blockDim.x + threadIdx.x;",
    "in braces": "int index{static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x)};",
    "__mul24": "int index = __mul24(blockIdx.x, blockDim.x) + threadIdx.x;",
    "brackets": "int index = ((blockIdx.x) * (blockDim.x)) + (threadIdx.x);",
    "shift": "int index = blockIdx.x << 8 | threadIdx.x;",
    "rows of blocks": "int index = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;",
    "macro": "int index = INDEX;",
    "function": "int index = place();",
}
BEFORE = {
    "macro": "#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)\n",
    "function": "__device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }\n",
}


def in_words(words: str) -> list[tuple[str, str]]:
    head = BEFORE.get(words, "")
    return [(USUAL, OTHERS[words]), ('extern "C"', f'{head}extern "C"')]


@pytest.mark.parametrize("words", OTHERS)
def test_a_number_is_taken_apart_however_it_is_written(words: str) -> None:
    found, *_ = of_example("unflatten", *in_words(words))
    assert [part.text for part in found.launches[0].grid] == ["ceil_div(W, 32)", "ceil_div(H, 8)", "C"]
    assert "% W" not in found.text


@pytest.mark.parametrize("words", ["inner cast", "auto", "function"])
def test_what_becomes_of_it_is_right(words: str, bench: EvaluationSession) -> None:
    first, *_ = of_example("unflatten", *in_words(words))
    assert passes(bench, task_of("unflatten"), first)


def test_an_index_that_an_idle_axis_is_part_of_stays() -> None:
    """One block along y at the timed case may be several at another, and the terms do not show it."""
    text = "int index = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;"
    launch = ("grid (ceil_div(C * H * W, 256))", "grid (ceil_div(C * H * W, 256), max(1, C // 64))")
    assert not of_example("unflatten", (USUAL, text), launch)


def test_an_index_that_changes_stays() -> None:
    assert not of_example("unflatten", (USUAL, f"{OTHERS['cast']}\n    if (W == 3) index = 0;"))


@pytest.mark.parametrize(
    ("loop", "row", "column"),
    [
        ("for (int k = 0; k < 9; ++k)", "k / 3", "k % 3"),
        ("for (int k = 0; k < TAPS * TAPS; k++)", "(k / TAPS)", "(k % TAPS)"),
    ],
)
def test_one_loop_over_a_window_is_seen_as_two(loop: str, row: str, column: str, bench: EvaluationSession) -> None:
    loops = "for (int kh = 0; kh < 3; ++kh) {\n            for (int kw = 0; kw < 3; ++kw) {"
    sums = "value += w[(c * 3 + kh) * 3 + kw]"
    changes = [
        (loops, f"{loop} {{ {{\n            const int kh = {row}, kw = {column};"),
        ('extern "C"', '#define TAPS 3\nextern "C"'),
    ]
    task = task_of("unflatten")
    parent, *_ = of_example("unflatten", *changes)
    assert sums in parent.text
    children = [child for child in built("neighbours", parent.text, task) if "k_row" in child.text]
    assert children
    assert all("k_column" in child.text for child in children)
    assert passes(bench, task, children[0])
