"""Passes kept in registers, small blocks as one and loops that become blocks: what these rules see and leave alone."""

from __future__ import annotations

import pytest
from rule_children import built, changed, of_example, passes, task_of

from evo.evaluate.session import EvaluationSession

FINISH = "for (int c = 0; c < C; ++c) y[first + c * P] /= sum;"


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param((), {"x_kept[C]", "y_kept[C]"}, id="as it is"),
        pytest.param((("/= sum;", "= y[first + c * P] * (1.0f / sum);"),), {"x_kept[C]", "y_kept[C]"}, id="in full"),
        pytest.param(((FINISH, ""),), {"x_kept[C]"}, id="not finished"),
        pytest.param(((FINISH, FINISH.replace("c = 0", "c = 1")),), {"x_kept[C]"}, id="finished but for one"),
        pytest.param((("y[first + c * P] = e;", "if (e > 0.5f) y[first + c * P] = e;"),), {"x_kept[C]"}, id="some"),
        pytest.param(
            (("c = 0; c < C; ++c", "c = blockIdx.z; c < C; c += 2"),), {"x_kept[(C + 2 - 1) / 2]"}, id="every other"
        ),
    ],
)
def test_what_passes_touch_is_kept(changes: tuple[tuple[str, str], ...], kept: set[str]) -> None:
    (child,) = of_example("keep_turns", *changes)
    assert {word for word in ("x_kept[C]", "y_kept[C]", "x_kept[(C + 2 - 1) / 2]") if f" {word};" in child.text} >= kept


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("// evo: macro C\n", "", id="a size that no compiler knows"),
        pytest.param("++c) top = ", "++c) if (c % 2) top = ", id="a first pass with gaps"),
        pytest.param("top = fmaxf(top, x[first + c * P])", "top = fmaxf(top, x[first + P])", id="another walk"),
    ],
)
def test_what_a_pass_may_miss_is_not_kept(written: str, otherwise: str) -> None:
    text = "int N, int, int P" if written.startswith("//") else ""
    changes = [(written, otherwise)] + ([(text, "int N, int C, int P")] if text else [])
    assert not any("x_kept" in child.text for child in of_example("keep_turns", *changes))


@pytest.mark.parametrize(
    ("changes", "block"),
    [
        ((), "HALF, BLOCKS"),
        ((("i = threadIdx.x", "i = threadIdx.x % blockDim.x"),), "HALF, BLOCKS"),
        ((("grid (T * H)", "grid (H, T)"), ("blockIdx.x / H", "blockIdx.y")), "HALF, BLOCKS"),
    ],
)
def test_small_blocks_become_one(changes: tuple[tuple[str, str], ...], block: str) -> None:
    first, *_ = of_example("pack_blocks", *changes)
    assert ", ".join(part.text for part in first.launches[0].block) == block


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("float c = cosf", "__syncthreads(); float c = cosf", id="threads that meet"),
        pytest.param("block (HALF)", "block (HALF, 2)", id="two dimensions"),
        pytest.param("int t = blockIdx.x / H", "int t = blockIdx.x * H / gridDim.x", id="how many there are"),
        pytest.param("grid (T * H)", "grid (H)", id="a few blocks"),
    ],
)
def test_blocks_that_meet_or_are_few_stay(written: str, otherwise: str) -> None:
    assert of_example("pack_blocks", (written, otherwise)) == []


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        ((), "ceil_div(P, 128), N"),
        ((("p += blockDim.x", "p += 128"),), "ceil_div(P, 128), N"),
        (
            (("grid (N)", "grid (1)"), ("blockIdx.x", "n"), ("    const", "    for (int n = 0; n < N; ++n) { const"),
             ("= place;\n    }\n", "= place;\n    }\n    }\n")),
            "N",
        ),
    ],
)  # fmt: skip
def test_loops_become_blocks(changes: tuple[tuple[str, str], ...], grid: str) -> None:
    (child,) = of_example("spread_loop", *changes)
    assert ", ".join(part.text for part in child.launches[0].grid) == grid


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("int place = 0;", "int place = 0; if (top < 0.0f) break;", id="a turn that ends them all"),
        pytest.param("= place;\n    }\n", "= place;\n    }\n    y[blockIdx.x * P] = 1;\n", id="a store behind"),
        pytest.param("y[blockIdx.x * P + p] = place", "y[blockIdx.x * P + p] = place + y[blockIdx.x * P]", id="needed"),
        pytest.param("y[blockIdx.x * P + p]", "y[gridDim.x * 0 + blockIdx.x * P + p]", id="how many there are"),
        pytest.param("float top = image[p];", "float top = image[p]; __syncthreads();", id="threads that meet"),
    ],
)
def test_turns_that_need_one_another_stay(written: str, otherwise: str) -> None:
    assert of_example("spread_loop", (written, otherwise)) == []


NEAREST = """// evo: task matrix_lanes
// evo: launch nearest grid (ceil_div(N, 128)) block (128)
constexpr int DIM = 8;
extern "C" __global__ void nearest(const float* in, float* out, int N) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    for (int j = 0; j < 8; ++j) {
        float s = 0.0f;
        for (int d = 0; d < DIM; ++d) s += in[n * 64 + d] * in[n * 64 + j * 8 + d];
        out[n * 64 + j] = s;
    }
}
"""


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        pytest.param(("", ""), True, id="as it is"),
        pytest.param(("constexpr int DIM = 8;", "#define DIM 8"), True, id="a macro"),
        pytest.param(("j < 8; ++j) {", "j < 8; ++j) {\n        if (j == 3) continue;"), False, id="left out by some"),
        pytest.param(("j < 8; ++j) {", "j < N / 64; ++j) {"), False, id="perhaps no turn"),
        pytest.param(("in[n * 64 + d] *", "in[n * 64 + j + d] *"), False, id="others in each turn"),
        pytest.param(("d < DIM", "d < DIM - N % 2"), False, id="no number"),
        pytest.param(("out[n * 64 + j] = s", "((float*)in)[n * 64 + j] = s"), False, id="written"),
    ],
)
def test_what_each_turn_reads_again_is_read_in_front(change: tuple[str, str], *, is_kept: bool) -> None:
    text = NEAREST.replace(*change)
    found = built("keep_turns", text, task_of("matrix_lanes"))
    assert bool(found) == is_kept
    for child in found:
        before, _, after = child.text.partition("for (int j")
        assert "in_kept[d] = in[n * 64 + d];" in before
        assert "in_kept[d] * in[n * 64 + j * 8 + d]" in after


STAGED = """// evo: task keep_turns
// evo: launch softmax grid (N) block (64) args (x, y, C, 1 * P)
extern "C" __global__ void softmax(const float* x, float* y, int channels, int pixels) {
    __shared__ float column[1024];
    x += blockIdx.x * channels * pixels;
    y += blockIdx.x * channels * pixels;
    for (int p = 0; p < pixels; ++p) {
        __syncthreads();
        for (int c = threadIdx.x; c < channels; c += blockDim.x) column[c] = x[c * pixels + p];
        __syncthreads();
        float top = -INFINITY, sum = 0.0f;
        for (int c = 0; c < channels; ++c) top = fmaxf(top, column[c]);
        for (int c = 0; c < channels; ++c) sum += expf(column[c] - top);
        for (int c = threadIdx.x; c < channels; c += blockDim.x) y[c * pixels + p] = expf(column[c] - top) / sum;
    }
}
"""


def test_turns_that_fill_shared_memory_anew_become_blocks(bench: EvaluationSession) -> None:
    (child,) = built("spread_loop", STAGED, task_of("keep_turns"))
    assert [part.text for part in child.launches[0].grid] == ["N", "1 * P"]  # what the kernel gets for its pixels
    assert passes(bench, task_of("keep_turns"), child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("column[c] = x[c", "if (p == 0) column[c] = x[c", id="filled once"),
        pytest.param("column[c] = x[c", "if (p == 0 || c % 2 == 0) column[c] = x[c", id="filled in part"),
        pytest.param("++p) {", "++p) {\n        pixels += 0;", id="a count that changes"),
    ],
)
def test_turns_that_need_shared_memory_of_others_stay(written: str, otherwise: str) -> None:
    assert built("spread_loop", changed(STAGED, (written, otherwise)), task_of("keep_turns")) == []
