"""Products as textbooks tile them by hand, in flat arrays of shared memory and of a thread: they are products too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from long_cases import long
from rule_children import DATA, built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import read_task

TASK = read_task(DATA / "foreign" / "kernels" / "sgemm_tiled")
HEAD = """\
// evo: launch mm grid (ceil_div(N, {columns}), ceil_div(M, {rows})) block ({threads}) shared 0
extern "C" __global__ void mm(const float* A, const float* B, float* C, float alpha, int M, int N, int K) {{
"""
ONE_EACH = (
    HEAD.format(columns=16, rows=16, threads=256)
    + """\
    __shared__ float As[16 * 16];
    __shared__ float Bs[16 * 16];
    const unsigned ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    const unsigned row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty * 16 + tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        Bs[ty * 16 + tx] = col < N && k0 + ty < K ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += As[ty * 16 + k] * Bs[k * 16 + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum;
}
"""
)
# The threads of a block compute more than one result each; tiles are filled in several turns.
A_COLUMN = (
    HEAD.format(columns=32, rows=32, threads=128)
    + """\
    __shared__ float As[32 * 8];
    __shared__ float Bs[8 * 32];
    const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    float sums[8] = {0.0f};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int skip = 0; skip < 32; skip += 16) {
            const int m = threadIdx.x / 8 + skip, k = threadIdx.x % 8, row = blockIdx.y * 32 + m;
            As[m * 8 + k] = row < M && k0 + k < K ? A[row * K + k0 + k] : 0.0f;
        }
        for (int skip = 0; skip < 8; skip += 4) {
            const int k = ty + skip, col = blockIdx.x * 32 + tx;
            Bs[k * 32 + tx] = k0 + k < K && col < N ? B[(k0 + k) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            const float b = Bs[k * 32 + tx];
            for (int i = 0; i < 8; ++i) sums[i] += As[(ty * 8 + i) * 8 + k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) {
        const int row = blockIdx.y * 32 + ty * 8 + i, col = blockIdx.x * 32 + tx;
        if (row < M && col < N) C[row * N + col] = alpha * sums[i];
    }
}
"""
)
A_SQUARE = changed(
    A_COLUMN,
    ("block (128)", "block (64)"),
    ("threadIdx.x % 32, ty = threadIdx.x / 32", "threadIdx.x % 8, ty = threadIdx.x / 8"),
    ("float sums[8] = {0.0f};", "float sums[4 * 4] = {0.0f};\n    float left[4], right[4];"),
    ("skip += 16) {", "skip += 8) {"),
    ("skip < 8; skip += 4) {", "skip < 8; skip += 2) {"),
    ("k = ty + skip, col = blockIdx.x * 32 + tx;", "k = threadIdx.x / 32 + skip, n = threadIdx.x % 32;\n"
     "            const int col = blockIdx.x * 32 + n;"),
    ("Bs[k * 32 + tx] = k0", "Bs[k * 32 + n] = k0"),
    ("const float b = Bs[k * 32 + tx];", "for (int i = 0; i < 4; ++i) left[i] = As[(ty * 4 + i) * 8 + k];\n"
     "            for (int i = 0; i < 4; ++i) right[i] = Bs[k * 32 + tx * 4 + i];"),
    ("for (int i = 0; i < 8; ++i) sums[i] += As[(ty * 8 + i) * 8 + k] * b;",
     "for (int i = 0; i < 4; ++i)\n                for (int j = 0; j < 4; ++j) sums[i * 4 + j] += left[i] * right[j];"),
    ("for (int i = 0; i < 8; ++i) {\n", "for (int i = 0; i < 4; ++i)\n      for (int j = 0; j < 4; ++j) {\n"),
    ("ty * 8 + i, col = blockIdx.x * 32 + tx;", "ty * 4 + i, col = blockIdx.x * 32 + tx * 4 + j;"),
    ("alpha * sums[i]", "alpha * sums[i * 4 + j]"),
)  # fmt: skip
TEXTS = {"one result a thread": ONE_EACH, "a column": A_COLUMN, "a square": A_SQUARE}


@pytest.mark.parametrize("name", [long(name) if number else name for number, name in enumerate(TEXTS)])
def test_a_product_in_flat_tiles_is_a_product(bench: EvaluationSession, name: str) -> None:
    first, *_ = built("tile_product", TEXTS[name], TASK)
    assert "sums[" not in first.text
    assert passes(bench, TASK, first)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("{0.0f}", "{1.0f}"),
        ("alpha * sums[i]", "alpha * sums[i] + sums[0]"),
        ("(ty * 8 + i) * 8 + k]", "(ty * 8 + i) * 8 + (k ^ 1)]"),
    ],
)
def test_what_is_more_than_the_product_stays(written: str, otherwise: str) -> None:
    assert built("tile_product", changed(A_COLUMN, (written, otherwise)), TASK) == []


FLAT = """\
// evo: launch mm grid (ceil_div(M * N, 256)) block (256) shared 0
extern "C" __global__ void mm(const float* A, const float* B, float* C, float alpha, int M, int N, int K) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    const int row = i / N, col = i - row * N;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[i] = alpha * sum;
}
"""


def test_a_column_may_be_what_a_row_leaves() -> None:
    """`i - i / N * N` is `i % N`, and no third index of the thread."""
    assert (
        [child.text for child in built("tile_product", FLAT, TASK)]
        == [child.text for child in built("tile_product", changed(FLAT, ("i - row * N", "i % N")), TASK)]
        != []
    )


SIDE_BY_SIDE = """\
// evo: launch mm grid (ceil_div(M, 64)) block (64) shared 0
extern "C" __global__ void mm(const float* A, const float* B, float* C, float alpha, int M, int N, int K) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M) {
        float* c = C + row * N;
        for (int j = 0; j < N; j++) { c[j] = 0.0f; }
        for (int k = 0; k < K; k++) {
            const float* b = B + k * N;
            float a = A[row * K + k];
            for (int n = 0; n < N; n++) {
                c[n] += alpha * a * b[n];
            }
        }
    }
}
"""


def test_sums_side_by_side_are_added_up_one_after_the_other(bench: EvaluationSession) -> None:
    first, *_ = built("tile_product", SIDE_BY_SIDE, TASK)
    assert passes(bench, TASK, first)
    first, *_ = built("wide_access", changed(SIDE_BY_SIDE, ("a * b[n]", "a * b[n] * 1.0f")), TASK)
    assert first.text.index("for (int j = 0") < first.text.index("float sum = 0;")


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("c[n] += alpha * a * b[n];", "c[n] += alpha * a * b[n] + 0.0f * C[0];"),
        ("c[j] = 0.0f;", "c[j] = 0.5f;"),
        ("n < N; n++", "n < N - 1; n++"),
        ("float a = A[row * K + k];", "float a = A[row * K + k] + c[0];"),
        ("c[n] += alpha * a * b[n];", "c[N - 1 - n] += alpha * a * b[n];"),
    ],
)
def test_sums_that_something_else_reads_stay_side_by_side(written: str, otherwise: str) -> None:
    found = built("wide_access", changed(SIDE_BY_SIDE, (written, otherwise)), TASK)
    assert not any("float sum" in child.text for child in found)


@pytest.mark.parametrize("name", ["tile_product", long("tile_stream")])
def test_what_each_product_is_multiplied_by_is_not_lost(bench: EvaluationSession, name: str) -> None:
    text = changed(FLAT, ("sum += A[row * K + k]", "sum += alpha * A[row * K + k]"), ("= alpha * sum", "= sum"))
    first, *_ = built(name, text, TASK)
    assert "(alpha * sum[i][j])" in first.text
    assert passes(bench, TASK, first)


COMPUTED = read_task(DATA / "idioms" / "computed_factors")
STATEMENT = "(a[row * K + k] - u[k]) * b[col * K + k] + a[row * K + k] * v[row] * (b[col * K + k] - u[k])"


def test_what_depends_on_a_row_alone_or_a_column_alone_is_worked_out_once(bench: EvaluationSession) -> None:
    (first, *_) = built("tile_product", COMPUTED.ladder()[0].read_text(), COMPUTED)
    assert "a_tile2[k][m] = row < M && kk < K ? a[row * K + kk] * v[row] : 0;" in first.text
    assert "sum[i][j] += x[i] * y_[j] + x2[i] * y2[j];" in first.text
    assert passes(bench, COMPUTED, first)


@pytest.mark.parametrize(
    ("summed", "tiles"),
    [
        ("u[k] * (a[row * K + k] - b[col * K + k]) * (a[row * K + k] - b[col * K + k])", 3),
        ("a[row * K + k] * (b[col * K + k] * u[k / 4])", 2),
        ("a[row * K + k] * b[col * K + k] + 1.0f - v[row]", 0),  # zeros behind the last element would count
        ("a[row * K + k] * b[col * K + k] * y[row * N + col]", 0),  # an element of a row and a column
        ("a[row * K + k] * b[col * K + k] * u[k + 1 < K ? k + 1 : 0]", 2),
        ("a[row * K + k] * b[col * K + k] * (k % 3 ? u[k] : v[row])", 0),
    ],
)
def test_tiles_hold_values_of_one_side(summed: str, tiles: int) -> None:
    text = changed(COMPUTED.ladder()[0].read_text(), (STATEMENT, summed))
    found = built("tile_product", text, COMPUTED)
    assert (found[0].text.count("__shared__") if found else 0) == tiles


def test_a_test_that_leaves_turns_out_is_no_product_of_several() -> None:
    text = changed(COMPUTED.ladder()[0].read_text(), ("sum += ", "if (k != row) sum += "))
    assert built("tile_product", text, COMPUTED) == []


TWICE = (
    HEAD.format(columns=16, rows=16, threads=256)
    + """\
    const int row = blockIdx.y * 16 + threadIdx.x / 16, col = blockIdx.x * 16 + threadIdx.x % 16;
    float sum = 0.0f;
    if (row < M && col < N) {
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum;
}
"""
)


@pytest.mark.parametrize(
    "store", ["if (row < M && col < N) C[", "if (row >= M) return;\n    if (!(col < N)) return;\n    C["]
)
def test_a_sum_under_a_guard_that_its_store_is_under_too_is_a_product(bench: EvaluationSession, store: str) -> None:
    child, *_ = built("tile_product", changed(TWICE, ("if (row < M && col < N) C[", store)), TASK)
    assert passes(bench, TASK, child)
    assert not built("tile_product", changed(TWICE, ("{\n        for", "if (row > col) {\n        for")), TASK)


FEW = {"16, N: 512": "16x64x16", "512, N: 12": "64x16x16", "12, N: 16": "16x16x16"}


@pytest.mark.parametrize("size", [next(iter(FEW)), *map(long, list(FEW)[1:])])
def test_few_rows_or_columns_have_tiles_of_their_own(bench: EvaluationSession, size: str, tmp_path: Path) -> None:
    """They come first, and are right where there are more."""
    few = shutil.copytree(TASK.folder, tmp_path / TASK.name)
    text = changed((few / "task.yaml").read_text(encoding="utf-8"), ("M: 1024, N: 1024", f"M: {size}"))
    (few / "task.yaml").write_text(text, encoding="utf-8")
    task = read_task(few)
    for rule in ("tile_product", "tile_stream"):
        first, *_ = built(rule, ONE_EACH, task)
        rows, columns, _ = FEW[size].split("x")
        assert f"#define BM {rows}\n#define BN {columns}\n" in first.text
        assert passes(bench, task, first)
    assert not any("BM 16" in child.text or "BN 16" in child.text for child in built("tile_product", ONE_EACH, TASK))
