"""Sizes compiled in, and operands loaded early: which kernels the two rules take and which they leave alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rule_children import BY_NAME, changed

from evo.cuda.source import classify, tree_difference
from evo.operators import Context
from evo.operators.rules import example_variant, rule_operators
from evo.spec.task import load_task
from evo.spec.variant import Variant

SIZES, EARLY = BY_NAME["compile_in"], BY_NAME["early_operands"]
AXES = ("ROWS", "COLS")
KERNEL = SIZES.examples[0].before
TASK = """\
name: times
axes: {ROWS: int, COLS: int}
tensors:
  - {name: a, role: in, dtype: float32, shape: [COLS]}
  - {name: o, role: out, dtype: float32, shape: [ROWS]}
scalars: [{name: times, dtype: int32, value: '2'}]
tolerance: {rtol: 1e-6, atol: 1e-6, rival_error_factor: 2, because: one rounding}
check: [{name: one, ROWS: 3, COLS: 2}]
bench: {small: {ROWS: 256, COLS: 16}}
work: {flop: ROWS, bytes: 8 * ROWS}
"""
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
        ("a[at % cols]", "a[at];\n  assert(cols > 0)"),  # of which a release keeps nothing
        ("int rows, int cols)", "unsigned rows, unsigned cols)"),
        ("o[at] =", "const int n = cols / 4;\n#pragma unroll\n  for (int i = 0; i < n; ++i) o[i] = 0.0f;\n  o[at] ="),
    ],
)
def test_sizes_stay_arguments(before: str, after: str) -> None:
    assert made(SIZES, changed(KERNEL, (before, after))) == []


@pytest.mark.parametrize("name", ["T", "width"])
def test_a_size_by_a_name_of_the_toolkits_headers_stays_an_argument(name: str) -> None:
    assert SIZES.applications(example_variant(KERNEL), axes=("ROWS", name)) == ()


def test_a_scalar_of_the_task_is_no_size(tmp_path: Path) -> None:
    (tmp_path / "kernels" / "times" / "ladder").mkdir(parents=True)
    (tmp_path / "kernels" / "times" / "task.yaml").write_text(TASK)
    (tmp_path / "kernels" / "times" / "reference.py").write_text("")
    (tmp_path / "kernels" / "times" / "ladder" / "0.cu").write_text(KERNEL)
    task = load_task(tmp_path, "times")
    operator = next(each for each in rule_operators() if each.name == "rules.sizes")
    for params in ("unsigned times, const int rows, const int cols", "int times, int rows, int cols"):
        parent = example_variant(KERNEL.replace("int rows, int cols", params).replace("a[at %", "times * a[at %"))
        proposal = operator.propose(parent, rng=random.Random(0), context=Context(task=task))
        assert proposal is not None
        assert "int cols = COLS;" in proposal.text
        assert "ROWS;" not in proposal.text


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
        ("__device__ float all", '__device__ void end() { asm volatile("exit;"); }\n__device__ float all'),
    ],
)
def test_operands_stay_where_they_are(before: str, after: str) -> None:
    text = changed(ROW, (before, after))
    if "LEAVE" in after:
        text = text.replace("if (blockIdx.x >= rows) return;", "LEAVE(blockIdx.x >= rows);")
    names = [child.text.count("w_early") for child in made(EARLY, text)]
    assert not any(names)


# The last pass of ROW, its operands read where it says so.
STEP = """\
  for (int i = 0; i < KEPT; ++i) {
    const int c = first + i * step;
    if (c < n) o[c] = a[c] * sum * w[c];
  }
}
"""


def stepped(before: str, after: str) -> list[Variant]:
    head, _, _ = ROW.partition("  const auto put")
    return made(EARLY, head + changed(STEP, (before, after)))


def test_an_operand_of_a_plain_pass_is_loaded_early() -> None:
    (together, *_) = stepped("const int c", "const int c")
    assert "    if (c < n) w_early[i] = w[c];\n" in together.text
    (together, *_) = stepped("int i = 0", "unsigned i = 0")
    assert "for (unsigned i = 0; i < KEPT; ++i) {\n      const int c" in together.text


@pytest.mark.parametrize(
    "after",
    [
        "int c = first;\n    c += i * step;",
        "int c = 0;\n    int& place = c;\n    place = first + i * step;",
        'int c = 0;\n    asm("mov.u32 %0, %1;" : "=r"(c) : "r"(first + i * step));',
        "int c = first;\n    while (c < i * step) c += step;",
        "const int c = first + i * step, d = 0;",
        "const auto c = first + i * step;",
        "const int c = first + i * step;\n    ++i;",
    ],
)
def test_an_index_that_changes_in_the_step_is_no_early_one(after: str) -> None:
    assert stepped("const int c = first + i * step;", after) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    const int c = first", "    const auto rows = threadIdx.x;\n    const int c = rows"),  # hides a parameter
        (
            "const int c = first + i * step;\n",
            "{ const int c = i; o[c] = 0.0f; }\n    const auto c = first + i * step;\n",
        ),
        ("  for (int i", "  int at = 0;\n#define AT (at + i * step)\n  at = first;\n  for (int i"),
        ("sum * w[c]", "sum * w[c];\n    float w[1] = {2.0f};\n    o[c] *= w[0]"),
        ("  for (int i", "  const auto end = [&](int c) { if (c >= n) return; o[c] = w[c]; };\n  for (int i"),
    ],
)
def test_what_a_name_stands_for_there_is_what_it_stands_for_here(before: str, after: str) -> None:
    swap = {"AT": ("w[c]", "w[AT]"), "end": ("if (c < n) o[c] = a[c] * sum * w[c]", "end(c)")}
    text = STEP.replace(before, after)
    for word, (old, new) in swap.items():
        if f"{word} " in after or f"{word}\n" in after:
            text = text.replace(old, new)
    head, _, _ = ROW.partition("  const auto put")
    assert not any("w_early" in child.text for child in made(EARLY, head + text))
