"""Counters and sums that all blocks add to: what a thread or a block adds up first, and what is left alone."""

from __future__ import annotations

import pytest
from rule_children import built, changed, example, passes, task_of, tidy

from evo.evaluate.session import EvaluationSession
from evo.spec.variant import Variant

# Two counters under tests, in a loop over the grid.
TWO_COUNTERS = """\
// evo: task block_walks
// evo: scratch counts int32 [2] init=zero
// evo: launch tally grid (1024) block (256) shared 0 args (x, found, counts, N)
extern "C" __global__ void tally(const float *x, int *lost, int *counts, int n)
{
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        if (x[i] > 0.5f) atomicAdd(counts, 1);
        else if (x[i] < -0.5f) atomicAdd(lost, 1);
    }
}
"""


def children(name: str, text: str, *changes: tuple[str, str]) -> list[Variant]:
    text = changed(text, *changes)
    return tidy(name, text, task_of("block_walks"))


def walked(*changes: tuple[str, str]) -> list[Variant]:
    return children("block_walks", example("block_walks"), *changes)


def test_counters_of_one_kernel_are_taken_together() -> None:
    """Alone neither gains: the other one's atomics are still carried out one after the other."""
    both, one, other = children(
        "private_copy", TWO_COUNTERS, ("counts, 1", "&counts[0], 1"), ("lost, 1", "&lost[1], 1")
    )
    assert "atomicAdd(&lost[1], 1)" not in both.text
    assert "own_counts += 1;" in both.text
    assert "own_lost += 1;" in both.text
    assert "grid (4 * chip.sms)" in both.text
    assert both.text not in (one.text, other.text)


BOXES = """\
// evo: task private_copy
// evo: scratch counts int32 [256] init=zero
// evo: launch count grid (4, ceil_div(N, 1024)) block (16, 16)
// evo: launch copy_out grid (1) block (256)
extern "C" __global__ void count(const unsigned char *data, int *bins, int *counts, int n)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y * 64 + x >= n) return;
    atomicAdd(&counts[data[y * 64 + x]], 1);
}
extern "C" __global__ void copy_out(const unsigned char *data, int *bins, int *counts, int n)
{
    bins[threadIdx.x] = counts[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        pytest.param((), "min(4 * ceil_div(N, 1024), 4 * chip.sms)", id="boxes"),
        pytest.param(
            (("grid (4, ceil_div(N, 1024))", "grid (ceil_div(N, 256))"), ("blockIdx.y * blockDim.y + ", ""),
             ("blockIdx.x * blockDim.x", "blockIdx.x * 256"), ("y * 64", "y * 16")),
            "min(ceil_div(N, 256), 4 * chip.sms)", id="rows of boxes", marks=pytest.mark.long,
        ),
        pytest.param(
            (("block (16, 16)", "block (64, 4)"), ("grid (4, ceil_div(N, 1024))", "grid (1, ceil_div(N, 256))")),
            "min(1 * ceil_div(N, 256), 4 * chip.sms)", id="one box wide", marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_boxes_of_threads_have_a_copy_of_their_own(
    bench: EvaluationSession, changes: tuple[tuple[str, str], ...], grid: str
) -> None:
    (child,) = tidy("private_copy", changed(BOXES, *changes))
    assert f"grid ({grid})" in child.text
    assert passes(bench, task_of("private_copy"), child)


def test_a_number_of_blocks_from_the_size_becomes_the_smaller_one() -> None:
    first, *_ = children("private_copy", TWO_COUNTERS, ("grid (1024)", "grid (ceil_div(N, 256))"))
    assert "grid (min(ceil_div(N, 256), 4 * chip.sms))" in first.text


def test_extrema_of_integers_begin_with_the_least() -> None:
    first, *_ = children("private_copy", TWO_COUNTERS, ("atomicAdd(counts, 1)", "atomicMax(counts, i)"))
    assert "int own_counts = (-2147483647 - 1);" in first.text
    assert "own_counts = max(own_counts, (int)(i));" in first.text
    assert "atomicMax(&counts[0], own_counts);" in first.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("atomicAdd(counts, 1);", "lost[atomicAdd(counts, 1)] = i;", id="a result that is used"),
        pytest.param("block (256)", "block (200)", id="half a warp"),
    ],
)
def test_private_copy_leaves_alone(written: str, otherwise: str) -> None:
    assert not [c for c in children("private_copy", TWO_COUNTERS, (written, otherwise)) if "own_counts" in c.text]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            (("atomicAdd(&above, 1)", "atomicMax(&above, i)"), ("atomicAdd(&counts[0]", "atomicMax(&counts[0]")),
            id="max",
        ),
        pytest.param((("    if (i < n) {", "    for (int k = i; k < n; k += n) {"),), id="a loop of its own"),
    ],
)
def test_blocks_take_the_elements_of_many(changes: tuple[tuple[str, str], ...]) -> None:
    (child,) = walked(*changes)
    assert "block < (n + 256 - 1) / 256; block += gridDim.x" in child.text


def test_a_loop_over_the_grid_stays_and_gets_fewer_blocks() -> None:
    (child,) = walked(("if (i < n) {", "for (int k = i; k < n; k += gridDim.x * blockDim.x) {"), ("x[i]", "x[k]"))
    assert "grid (min(ceil_div(N, 256), 4 * chip.sms))" in child.text
    assert "block += gridDim.x" not in child.text
    assert "own_above += 1;" in child.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("above = below = 0", "above = below = 1", id="a sum that begins elsewhere"),
        pytest.param("atomicAdd(&counts[0], above)", "atomicAdd(&counts[0], above > 3)", id="no sum of parts"),
        pytest.param("atomicAdd(&counts[0], above)", "counts[blockIdx.x % 2] = above", id="an element of the block"),
        pytest.param("atomicAdd(&counts[0], above)", "atomicMax(&counts[0], above)", id="combined in another way"),
        pytest.param("atomicAdd(&counts[1], below)", "if (i < n) atomicAdd(&counts[1], below)", id="a place behind"),
        pytest.param("    if (i < n) {", "    if (i >= n) return;\n    {", id="threads that leave"),
        pytest.param("atomicAdd(&above, 1)", "above = 1", id="a store"),
        pytest.param("    if (i < n) {", "    __syncthreads();\n    if (i < n) {", id="more barriers"),
    ],
)
def test_what_is_no_sum_of_blocks_is_left_alone(written: str, otherwise: str) -> None:
    assert walked()
    assert not walked((written, otherwise))


def test_lanes_do_not_leap_over_the_end() -> None:
    """A test for `!=` holds for ever in steps of a warp."""
    text = example("row_lanes").replace("i < C", "i != C")
    (child,) = built("row_lanes", text)
    assert child.text.count("for (int i = lane; i < C; i += 32)") == 2


def test_lanes_of_a_row_carry_out_the_atomics_of_their_turns() -> None:
    text = example("row_lanes").replace("x[i] - m;\n", "x[i] - m;\n            atomicAdd(&mean[i], x[i]);\n")
    text = text.replace("        mean[idx] = m;\n", "        atomicAdd(&mean[idx], m);\n")
    (child,) = built("row_lanes", text)
    assert "            atomicAdd(&mean[i], x[i]);" in child.text
    assert "if (lane == 0) atomicAdd(&mean[idx], m);" in child.text
    used = text.replace("atomicAdd(&mean[idx], m);", "float old = atomicAdd(&mean[idx], m); out[0] = old;")
    assert not built("row_lanes", used)
