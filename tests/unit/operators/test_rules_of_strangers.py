"""Kernels as most people write them: a test around the work, a square block, small integers, loops without braces."""

from __future__ import annotations

import re

import pytest
from rule_children import BY_NAME, changed

from evo.cuda.source import classify, tree_difference
from evo.operators.rules import example_variant
from evo.spec.variant import Variant

AXES = ("M", "N", "K")
MATMUL = """\
// evo: knob BLOCK in 8, 16, 32
// evo: launch matmul grid (ceil_div(N, BLOCK), ceil_div(M, BLOCK)) block (BLOCK, BLOCK) shared 0
#define BLOCK 16
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int m, int n, int depth) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;

    if (row < m && col < n) {
        float sum = 0.0f;
        for (int k = 0; k < depth; k++) {
            sum += A[row * depth + k] * B[k * n + col];
        }
        C[row * n + col] = sum;
    }
}
"""


def children(name: str, text: str, axes: tuple[str, ...] = AXES) -> list[Variant]:
    """What a rule makes of a text; every edit one change, and every byte beside the edits kept."""
    rule, parent = BY_NAME[name], example_variant(text)
    found = []
    for application in rule.applications(parent, axes=axes):
        child = rule.build(parent, application)
        assert child is not None, application.summary
        assert classify(tree_difference(parent.text, child.text)).is_single, application.summary
        data, at, rest = parent.text.encode(), 0, child.text.encode()
        for edit in sorted(application.edits, key=lambda edit: edit.span):
            new = edit.text.replace("\n", "\r\n") if "\r\n" in text else edit.text
            begin = data[at : edit.span.start] + new.encode()
            assert rest.startswith(begin)
            rest, at = rest[len(begin) :], edit.span.end
        assert rest == data[at:]
        found.append(child)
    return found


@pytest.mark.parametrize("name", ["coarsen", "split_k"])
def test_a_test_around_the_work_is_a_guard(name: str) -> None:
    found = children(name, MATMUL)
    assert found
    assert not any("if (row < m && col < n)" in child.text for child in found)
    early = MATMUL.replace("if (row < m && col < n) {", "if (row >= m || col >= n) return;").replace(
        "    }\n}\n", "}\n"
    )
    assert [" ".join(child.text.split()) for child in found] == [
        " ".join(child.text.split()) for child in children(name, early)
    ]


def test_a_test_without_braces_is_a_guard_too() -> None:
    text = (
        "// evo: launch k grid (ceil_div(M, 64)) block (64) shared 0\n"
        'extern "C" __global__ void k(const float* a, float* o, int m) {\n'
        "  int i = threadIdx.x + blockDim.x * blockIdx.x;\n  if (i < m) o[i] = a[i] * 2.0f;\n}\n"
    )
    (first, *_) = children("coarsen", text, ("M",))
    assert "ceil_div(M, 64 * I_REPEAT)" in first.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row < m && col < n", "row < m && A != B"),
        ("        C[row * n + col] = sum;\n    }", "        C[row * n + col] = sum;\n    } else { C[0] = 0.0f; }"),
        ("        C[row * n + col] = sum;\n    }", "        C[row * n + col] = sum;\n    }\n    C[0] = 0.0f;"),
    ],
)
def test_what_is_not_a_guard_stays(old: str, new: str) -> None:
    assert not children("split_k", changed(MATMUL, (old, new)))


@pytest.mark.parametrize(
    "index",
    [
        "threadIdx.x + blockIdx.x * blockDim.x",
        "blockDim.x * blockIdx.x + threadIdx.x",
        "(blockIdx.x * blockDim.x) + threadIdx.x",
        "threadIdx.x + (blockDim.x * blockIdx.x)",
        "blockIdx.x * BLOCK + threadIdx.x",
    ],
)
def test_an_index_is_known_in_any_order(index: str) -> None:
    text = MATMUL.replace("blockIdx.x * blockDim.x + threadIdx.x", index)
    assert len(children("coarsen", text)) == len(children("coarsen", MATMUL)) > 1
    unsigned = text.replace("int row", "unsigned int row").replace("int col", "const unsigned col")
    tables = {line.split("[")[0].strip() for child in children("coarsen", unsigned) for line in child.text.splitlines()}
    assert {"unsigned int row_at", "unsigned col_at"} <= tables


@pytest.mark.parametrize(
    ("guard", "bounds"),
    [
        ("row < 2 * m && col < n", {"row_end = 2 * m"}),
        ("row < m && col < (n / 4) * 4", set()),  # no product of names and numbers alone
        ("row < m * n + depth && col < n", {"row_end = m * n + depth"}),
        ("row < m * 2.5f && col < n", set()),
        ("row < m + col && col < n", set()),
    ],
)
def test_a_bound_that_is_computed_gets_a_name(guard: str, bounds: set[str]) -> None:
    found = children("coarsen", MATMUL.replace("row < m && col < n", guard))
    assert bool(found) == bool(bounds)
    assert all(any(bound in child.text for child in found) for bound in bounds)
    assert all(guard.partition(" < ")[2].partition(" &&")[0] in child.text for child in found)


@pytest.mark.parametrize("kind", ["unsigned char", "short", "long long", "double", "float2"])
def test_elements_are_packed_as_what_they_are(kind: str) -> None:
    text = (
        f'extern "C" __global__ void k(const {kind}* a, {kind}* o, int n) {{\n'
        "  for (int i = 0; i < n; ++i) o[i] = a[i];\n}\n"
    )
    found = children("wide_access", text)
    assert found
    assert all(f"    {kind} at[" in child.text for child in found)


@pytest.mark.parametrize("name", ["wide_access", "accumulators"])
def test_nothing_is_put_beside_a_loop_that_has_no_braces_around_it(name: str) -> None:
    body = (
        "  float s = 0.0f;\n  for (int i = 0; i < n; ++i){open}\n"
        "    for (int j = 0; j < n; ++j)\n      s += a[j * 2];\n{close}  o[0] = s;\n"
    )
    if name == "wide_access":
        body = body.replace("a[j * 2]", "a[j]")
    braced, bare = (body.format(open=o, close=c) for o, c in ((" {", "  }\n"), ("", "")))
    inner = [child.text for child in children(name, braced)]
    assert inner
    lines = [line.strip() for child in children(name, bare) for line in child.text.splitlines()]
    for at, line in enumerate(lines[:-1]):
        if line.startswith("for (int i = 0; i < n"):
            assert not line.endswith(")") or lines[at + 1].startswith(("for (int j", "#pragma")), lines[at + 1]


ELEMENTS = """\
// evo: launch act grid (ceil_div(M * N, 256)) block (256) shared 0
__device__ float act(float x) { return x / (1.0f + exp(-x)); }
extern "C" __global__ void act(const float* x, const float* bias, float* y, int M, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int total = M * N;
    if (i < total) {
        int column = i % N;
        y[i] = x[i] + bias[column];
    }
}
"""


def test_a_walk_with_the_grids_stride_gets_wide_loads() -> None:
    text = (
        "// evo: launch k grid (min(ceil_div(M, 64), 8)) block (64) shared 0\n"
        'extern "C" __global__ void k(const float* a, float* o, int m) {\n'
        "  const int stride = gridDim.x * blockDim.x;\n"
        "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m - 1; i += stride) o[i] = a[i];\n}\n"
    )
    (four, _) = children("wide_access", text)
    assert "(i_wide ? (m - 1) / 4 * 4 : 0) + blockIdx.x" in four.text
    assert "i_done = (blockIdx.x * blockDim.x + threadIdx.x) * 4;" in four.text
    assert not children("wide_access", text.replace("gridDim.x * blockDim.x", "gridDim.x"))
    assert not children(
        "wide_access", text.replace("const int stride", "int stride").replace("  for", "  ++stride;\n  for")
    )


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("  int i = blockIdx.x * 128 + threadIdx.x;\n  if (i < n) o[i] = a[i];\n", 5),
        ("  for (int i = threadIdx.x; i < n; i += blockDim.x) o[i] = a[i];\n", 5),
        ("  __shared__ float s[4];\n  int i = blockIdx.x * 128 + threadIdx.x;\n  s[i % 4] = 0.0f;\n", 0),  # warps
    ],
)
def test_a_block_size_that_is_written_out_becomes_a_knob(body: str, count: int) -> None:
    head = '// evo: launch k grid (ceil_div(M, 128)) block (128) shared 0\nextern "C" __global__ void k'
    found = children("block_size", f"{head}(const float* a, float* o, int n) {{\n{body}}}\n")
    assert len(found) == count
    for child in found:
        assert "128" not in re.sub(r"knob .*", "", child.text)
        assert child.knob_values["THREADS"] != 128


@pytest.mark.parametrize("step", ["s >>= 1", "s /= 2", "s = s / 2", "s = s >> 1"])
def test_a_tree_over_the_block_begins_at_half_the_knob(step: str) -> None:
    text = (
        "// evo: launch k grid (N) block (256) shared 0\n"
        'extern "C" __global__ void k(const float* a, float* o, int n) {\n'
        "  __shared__ float s_[256];\n  int t = threadIdx.x;\n  s_[t] = a[blockIdx.x * n + t];\n"
        f"  for (int s = 128; s > 0; {step}) {{\n    __syncthreads();\n    if (t < s) s_[t] += s_[t + s];\n  }}\n"
        "  if (t == 0) o[blockIdx.x] = s_[0];\n}\n"
    )
    found = children("block_size", text)
    assert found
    assert all("int s = THREADS / 2;" in child.text for child in found)
    unrolled = re.sub(r"  for .*?\n  }\n", "  if (t < 128) s_[t] += s_[t + 128];\n", text, flags=re.DOTALL)
    assert "s_[t + 128]" in unrolled
    assert not children("block_size", unrolled)


STEADY = "  for (int i = 0; i < n; ++i) o[i] = {};\n"


@pytest.mark.parametrize(
    ("rule", "value", "made"),
    [
        ("inverse", "a[i] / (x * x + 3.0f)", "a[i] * (1.0f / (x * x + 3.0f))"),
        ("inverse", "a[i] / n", "a[i] * (1.0f / n)"),
        ("inverse", "x / a[i]", None),
        ("inverse", "a[i] / (x + i)", None),  # another one in each turn
        ("inverse", "a[i] / 4.0f", None),  # a product already
        ("inverse", "1.0f / x", None),
        ("inverse", "i / n", None),  # whole numbers
        ("powers", "pow(a[i], 3)", "(a[i] * a[i] * a[i])"),
        ("powers", "powf(a[i] - x, 2.0f) + powf(x, 2)", "((a[i] - x) * (a[i] - x)) + (x * x)"),
        ("powers", "powf(a[i], 2.5f)", None),
        ("powers", "powf(expf(x), 2)", None),  # worked out twice
        ("powers", "pow(i, 2)", None),  # a double, which may be larger than any int
    ],
)
def test_divisions_and_powers_become_products_where_they_may(rule: str, value: str, made: str | None) -> None:
    text = STEADY.format(value)
    found = children(rule, text)
    assert [STEADY.format(made) in child.text for child in found] == [True] * (made is not None)


def test_a_define_of_the_block_size_becomes_the_knob() -> None:
    text = (
        "// evo: launch k grid (ceil_div(M, 128)) block (128) shared 0\n#define SIZE 128\n"
        'extern "C" __global__ void k(const float* a, float* o, int n) {\n'
        "  __shared__ float s[SIZE];\n  s[threadIdx.x] = a[blockIdx.x * SIZE + threadIdx.x];\n}\n"
    )
    (first, *_) = children("block_size", text)
    assert "grid (ceil_div(M, SIZE)) block (SIZE)" in first.text
    (windows, *_) = children("block_size", text.replace("\n", "\r\n"))
    assert windows.text == first.text.replace("\n", "\r\n")
    assert first.knob_values == {"SIZE": 64}
    assert not children("block_size", f"__device__ int other() {{ return 128; }}\n{text}")


def test_one_side_of_a_square_block_becomes_a_knob() -> None:
    text = MATMUL.replace("BLOCK", "16").replace("// evo: knob 16 in 8, 16, 32\n", "").replace("#define 16 16\n", "")
    found = [child.text for child in children("block_size", text)]
    assert any("ceil_div(M, BLOCK_Y)) block (16, BLOCK_Y)" in each for each in found)
    assert any("grid (ceil_div(N, BLOCK_X), ceil_div(M, 16)) block (BLOCK_X, 16)" in each for each in found)


def test_axes_of_a_kernels_own_names_are_compiled_in() -> None:
    (both, *_) = children("compile_in", ELEMENTS, ("M", "N"))
    assert "int M_given, int N_given" in both.text
    assert not any(
        "macro M" in child.text for child in children("compile_in", "__device__ int M;\n" + ELEMENTS, ("M", "N"))
    )
    again = children("coarsen", both.text, ("M", "N"))
    assert again


SEVERAL = """\
// evo: launch k grid (ceil_div(M, 64)) block (64) shared 0
#define THREADS_EACH 64
extern "C" __global__ void k(const float* a, float* hi, float* lo, int m, int n) {
  int r = blockIdx.x * THREADS_EACH + threadIdx.x;
  if (r < m) {
    float top = a[r * n], low = max(a[r * n], -1e30f);
    for (int c = 1; c < n; c++) {
      if (a[r * n + c] > top) top = a[r * n + c];
      if (a[r * n + c] < low) { low = a[r * n + c]; }
    }
    hi[r] = top;
    lo[r] = low;
  }
}
"""


def test_several_variables_of_one_declaration_are_seen_one_by_one() -> None:
    (two, *_) = children("coarsen", SEVERAL)
    assert "float top[R_REPEAT];" in two.text
    assert "float low[R_REPEAT];" in two.text
