"""Conditions on sizes that leave no trace in machine code: found in launch lines, and in what a compiler works out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evo.evaluate.gate.drawn_sizes import DrawnSizes
from evo.evaluate.gate.scaled_cases import Sizes
from evo.evaluate.gate.threshold_cases import AxisSpace, constants
from evo.evaluate.gate.written_conditions import WrittenCondition, written_conditions
from evo.spec.chips import chip
from evo.spec.task import load_task
from evo.spec.variant import parse_variant

TASK = load_task(Path(__file__).resolve().parents[4], "rmsnorm")
HEAD = """// evo: task rmsnorm
// evo: macro {macros}
// evo: knob WARPS in 1, 2, 4, 8
// evo: launch rmsnorm grid ({grid}) block (WARPS * 32) shared 0
#define WARPS 8
"""
KERNEL = """
extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    %s
}
"""
KNOWN = {name: np.asarray([case.axes[name] for case in TASK.check]) for name in TASK.axes}


def found_in(text: str) -> tuple[list[WrittenCondition], Sizes]:
    space, rng = AxisSpace.of(TASK), np.random.default_rng(3)
    drawn = DrawnSizes(TASK, space, {}, rng).sampled(1 << 17)
    conditions, _ = written_conditions(TASK, parse_variant(text), chip("l4"), (), KNOWN, lambda: drawn)
    return list(conditions), drawn


def is_shown(text: str, wrong: Callable[[Sizes], np.ndarray]) -> bool:
    """Whether an outcome that no check case has is had at some of the wrong sizes, and at no other."""
    conditions, drawn = found_in(text)
    assert wrong(drawn).any()
    for condition in conditions:
        outcomes, known = condition.at(drawn), set(condition.at(KNOWN).tolist())
        for outcome in {0, 1} - known:
            hits = outcomes == outcome
            if hits.any() and wrong(drawn)[hits].all():
                return True
    return False


def residue(sizes: Sizes) -> np.ndarray:
    return np.asarray((3 * sizes["ROWS"] + sizes["COLS"]) % 1009 == 5)


@pytest.mark.parametrize(
    "code",
    [
        "constexpr int N = (3 * ROWS + COLS) % 1009 == 5 ? COLS - 1 : COLS;",
        "constexpr int SUM = 3 * ROWS + COLS;\nconstexpr int N = COLS - (SUM % 1009 == 5);",
        "constexpr int N = (COLS * 1009 + 1007 - (3 * ROWS + COLS + 1003) % 1009) / 1009;",
        "#define SUM (3 * ROWS + COLS)\n#if SUM % 1009 == 5\n#define N 1\n#endif",
        "#define HIT(r, c) ((3 * (r) + (c)) % 1009 == 5)\nconstexpr int N = HIT(ROWS, COLS) ? 1 : 0;",
        "constexpr int hit(int r, int c) { if ((3 * r + c) % 1009 == 5) return 1; return 0; }\n"
        "constexpr int N = hit(ROWS, COLS);",
        "__device__ constexpr int hit(int r, int c) { const int n = 3 * r + c; return n % 1009 == 5 ? 1 : 0; }\n"
        "__device__ int f() { return hit(ROWS, COLS); }",
        "__device__ void f() { char some[(3 * ROWS + COLS) % 1009 == 5 ? 2 : 1]; some[0] = 0; }",
        "constexpr int rest(int n) { while (n >= 1009) n -= 1009; return n; }\n"
        "constexpr bool HIT = rest((3 * ROWS + COLS) % 100900) == 5;",
        "constexpr int rest(int n) { return n < 1009 ? n : rest(n - 1009); }\n"
        "constexpr bool HIT = rest((3 * ROWS + COLS) % 10090) == 5;",
        "enum { SUM = 3 * ROWS + COLS, REST = SUM % 1009 };\nstatic constexpr int N{REST == 5 ? 1 : 0};",
        "template <int K> struct Row { static constexpr int n = 0; };\n"
        "template <> struct Row<2 + 3> { static constexpr int n = 1; };\n"
        "constexpr int N = Row<(3 * ROWS + COLS) % 1009>::n;",
        "template <int K> struct Row { static constexpr bool hit = K % 1009 == 5; };\n"
        "constexpr int N = Row<3 * ROWS + COLS>::hit;",
        "template <int K> __device__ int f() { if constexpr (K % 1009 == 5) return 1; return 0; }\n"
        "__device__ int g() { return f<3 * ROWS + COLS>(); }",
        "constexpr unsigned long long N = (3ull * ROWS + COLS) % 1009u ^ 5;\nconstexpr bool HIT = !N;",
        "__device__ int f() { switch ((3 * ROWS + COLS) % 1009) { case 5: return 1; default: return 0; } }",
    ],
)
def test_a_condition_that_the_compiler_decides_is_found(code: str) -> None:
    text = HEAD.format(macros="ROWS, COLS", grid="ROWS") + code + KERNEL % ""
    assert is_shown(text, residue)


def test_a_condition_behind_another_is_found() -> None:
    text = HEAD.format(macros="ROWS, COLS", grid="ROWS") + KERNEL % (
        "int n = cols;\nif constexpr (COLS % 31 == 7) {\nif (ROWS % 37 == 11) n -= 1;\n}"
    )
    assert is_shown(text, lambda sizes: (sizes["COLS"] % 31 == 7) & (sizes["ROWS"] % 37 == 11))


@pytest.mark.parametrize(
    "grid",
    [
        "ROWS - (3 * ROWS + COLS) % 1009 // 1008",
        "ROWS - ((3 * ROWS + COLS) % 1009 == 1008)",
        "(ROWS * 1009 + 1007 - (3 * ROWS + COLS) % 1009) // 1009",
        "ROWS if (3 * ROWS + COLS) % 1009 < 1008 else ROWS - 1",
        "ROWS - max(0, (3 * ROWS + COLS) % 1009 - 1007)",
        "min(ROWS, ROWS + 1007 - (3 * ROWS + COLS) % 1009)",
        "ROWS - ((3 * ROWS + COLS) % 1009 + 16 >> 10)",
        "ROWS - ((3 * ROWS + COLS) - (3 * ROWS + COLS) // 1009 * 1009) // 1008",
    ],
)
def test_a_launch_that_is_short_at_rare_sizes_is_found(grid: str) -> None:
    text = HEAD.format(macros="COLS", grid=grid) + KERNEL % ""
    assert is_shown(text, lambda sizes: (3 * sizes["ROWS"] + sizes["COLS"]) % 1009 == 1008)


def test_numbers_beyond_64_bits_are_computed_as_launch_lines_are() -> None:
    grid = "ROWS - (ROWS + COLS) * 1000003 * 1000003 * 1000003 % 1009 // 1008"
    conditions, drawn = found_in(HEAD.format(macros="COLS", grid=grid) + KERNEL % "")
    expected = [
        (r + c) * 1000003**3 % 1009 == 1008 for r, c in zip(*map(np.ndarray.tolist, drawn.values()), strict=True)
    ]
    assert any(np.array_equal(condition.at(drawn) == 1, expected) for condition in conditions)


@pytest.mark.parametrize("grid", ["ROWS", "ceil_div(ROWS, WARPS)", "min(ROWS, 60000)", "ceil_div(ROWS, 4) * 2"])
def test_an_ordinary_launch_has_no_outcome_of_its_own(grid: str) -> None:
    conditions, drawn = found_in(HEAD.format(macros="", grid=grid).replace("// evo: macro \n", "") + KERNEL % "")
    for condition in conditions:
        assert set(condition.at(drawn).tolist()) <= set(condition.at(KNOWN).tolist())


def test_numbers_in_names_and_texts_are_suggested() -> None:
    code = '#define PASTED(a, b) a##b\n#define TAIL_1237 1\nconstexpr bool HIT = same(TEXT(COLS), "4711");'
    assert {1237, 4711} <= constants(parse_variant(HEAD.format(macros="COLS", grid="ROWS") + code + KERNEL % ""))[0]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("template <> struct Row<12 * 103 + 1> {};", 1237),
        ("constexpr int A = 1000; constexpr int B = A + 237; __device__ bool f(int n) { return n == B; }", 1237),
        ("constexpr int half(int n) { return n / 2; }\n__device__ bool f(int n) { return n > half(2474); }", 1237),
        ("enum { LEAST = 1 << 10 };\n__device__ bool f(int n) { return n < (LEAST | 213); }", 1237),
        ("__device__ bool f(int n) { return n == (0x4D4 ^ 1); }", 1237),
    ],
)
def test_what_numbers_amount_to_is_suggested(code: str, expected: int) -> None:
    variant = parse_variant(f"// evo: launch k grid (1) block (32) shared 0\n{code}\n")
    assert expected in constants(variant)[0]
