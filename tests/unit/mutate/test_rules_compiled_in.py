"""Sizes compiled in, and operands loaded early: which kernels the two rules take and which they leave alone."""

from __future__ import annotations

import pytest

from evo.mutate import RULES
from evo.mutate.rules import example_variant
from evo.source import classify, tree_difference
from evo.variant import Variant

SIZES, EARLY = (next(rule for rule in RULES if rule.name == name) for name in ("compile_in", "early_operands"))
AXES = ("ROWS", "COLS")
KERNEL = SIZES.examples[0].before
# A kernel in which a lambda reads both operands of the last pass, and is also called for what is left.
ROW = """\
// evo: knob KEPT in 1, 2
// evo: launch k grid (ROWS) block (32) shared 0
#define KEPT 2
__device__ float all(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
extern "C" __global__ void k(const float* __restrict__ a, const float* __restrict__ w, const float* __restrict__ b,
                             float* __restrict__ o, int rows, int n) {
  if (blockIdx.x >= rows) return;
  const int first = threadIdx.x, step = 32;
  float sum = 0.0f;
  for (int i = first; i < n; i += step) sum += a[i];
  sum = all(sum);
  const auto put = [&](int c, float v) { o[c] = v * sum * w[c] + b[c]; };
  for (int i = 0; i < KEPT; ++i) {
    const int c = first + i * step;
    if (c < n) put(c, a[c]);
  }
  for (int c = first + KEPT * step; c < n; c += step) put(c, a[c]);
}
"""


def made(rule: object, text: str) -> list[Variant]:
    """The children of a text, each one change."""
    assert rule in (SIZES, EARLY)
    chosen = SIZES if rule is SIZES else EARLY
    parent = example_variant(text)
    built = [chosen.build(parent, each) for each in chosen.applications(parent, axes=AXES)]
    found = [child for child in built if child is not None]
    assert all(classify(tree_difference(parent.text, child.text)).is_single for child in found)
    return found


def test_all_sizes_that_matter_come_first_and_then_each_alone() -> None:
    text = KERNEL.replace("if (at >= rows) return;", "if (at >= rows) return;\n  if (rows % 2) o[0] = 1.0f;")
    both, rows, cols = made(SIZES, text)
    assert both.macros == ("ROWS", "COLS")
    assert "{\n  int rows = ROWS;\n  int cols = COLS;\n" in both.text
    assert (rows.macros, cols.macros) == (("ROWS",), ("COLS",))
    assert "int rows, int cols_given) {" in cols.text
    (again,) = made(SIZES, cols.text.replace(" % 2", " % 3"))  # what is compiled in is no parameter that is used
    assert again.macros == ("COLS", "ROWS")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a[at % cols]", "a[at]"),  # nothing hangs on it
        ("o[at] =", "const int COLS = 4; o[at] ="),  # the name is taken
        ("int cols)", "long long cols)"),  # no axis is passed so
        ("const int at", "int cols = 3;\n  const int at"),  # hidden by another one
        ("o[at] =", "cols += 1; o[at] ="),
    ],
)
def test_sizes_stay_arguments(before: str, after: str) -> None:
    assert before in KERNEL
    assert made(SIZES, KERNEL.replace(before, after)) == []


def test_a_size_by_a_name_of_the_toolkits_headers_stays_an_argument() -> None:
    text = KERNEL.replace("COLS", "T")
    assert SIZES.applications(example_variant(text), axes=("ROWS", "T")) == ()


def test_a_lambda_is_handed_what_was_loaded_early() -> None:
    together, *alone = made(EARLY, ROW)
    call = together.text[together.text.index("if (c < n) put(") :].split("\n")[0]
    rest = together.text[together.text.index("c += step) put(") :].split("\n")[0]
    assert all(f"{name}_early[i]" in call for name in "awb")
    assert "w[c]" in rest
    assert "b[c]" in rest
    assert sorted(child.text.count("w_early") > 0 for child in alone) == [False, False, True]
    load = together.text.index("w_early[i] = w[c]")  # as early as its names are known, and its row
    assert together.text.index("const int first") < load < together.text.index("float sum = 0.0f")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  sum = all(sum);\n", ""),  # nobody waits
        ("const float* __restrict__ w", "const float* w"),  # another pointer may write there
        ("    if (c < n) put", "    if (c < n && sum > 0.0f) put"),  # known behind the wait alone
        ("    if (c < n) put", "    if (c > n) break;\n    if (c < n) put"),
        ("  if (blockIdx.x >= rows) return;", "#if KEPT > 1\n  if (blockIdx.x >= rows) return;\n#endif"),
        ("const int first = threadIdx.x, step = 32;", "int first = threadIdx.x, step = 32;"),  # may change
        ("put = [&](int c, float v) { ", "put = [&](int c, float v) { c += 0; "),
        ("put = [&](int c, float v) { ", "put = [&](int c, float v) { if (v > 0.0f) "),
        ("  for (int i = 0; i < KEPT", "  if (n < 0) { all(sum); return; }\n  for (int i = 0; i < KEPT"),
        ("__device__ float all", "#define LEAVE(x) if (x) return\n__device__ float all"),
    ],
)
def test_operands_stay_where_they_are(before: str, after: str) -> None:
    assert before in ROW
    text = ROW.replace(before, after)
    if "LEAVE" in after:
        text = text.replace("if (blockIdx.x >= rows) return;", "LEAVE(blockIdx.x >= rows);")
    names = [child.text.count("w_early") for child in made(EARLY, text)]
    assert not any(names)
