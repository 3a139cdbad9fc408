"""Running sums, products and extrema: however a row or a column is written, lanes share it; what is none stays."""

from __future__ import annotations

import pytest
from rule_children import BY_NAME, changed, tidy

from evo.spec.variant import Variant, parse_variant

ROWS, COLUMNS = (example.before for example in BY_NAME["scan_lanes"].examples)
SUM, STORE = "total += x[n * L + l];", "y[n * L + l] = total;"


def children(text: str, *changes: tuple[str, str]) -> list[Variant]:
    return tidy("scan_lanes", changed(text, *changes))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="as it is"),
        pytest.param(((SUM, "float v = x[n * L + l]; total = v + total;"),), id="a variable of the turn"),
        pytest.param(((SUM, "const int at = n * L + l; total += x[at];"), (STORE, "y[at] = total;")), id="a place"),
        pytest.param(((SUM, "total -= x[n * L + l];"),), id="differences"),
        pytest.param(((SUM, "total *= x[n * L + l];"),), id="products"),
        pytest.param(((SUM, "total = fmaxf(total, x[n * L + l]);"),), id="largest so far"),
        pytest.param(((SUM, "if (x[n * L + l] < total) total = x[n * L + l];"),), id="smallest so far, by a test"),
        pytest.param(((STORE, "float z = 0.5f * total; y[n * L + l] = z * z;"),), id="of the sum"),
        pytest.param(((STORE, "if (l % 2 == 0) y[n * L + l] = total;"),), id="every other one"),
        pytest.param((("float total = 0.0f;", "double total = 0.0;"),), id="double"),
        pytest.param((("l < L; ++l", "l <= L - 1; l++"),), id="up to the last one"),
        pytest.param((("float total = 0.0f;", "float total = x[n * L];"), ("int l = 0", "int l = 1")), id="first one"),
    ],
)
def test_rows_are_shared_by_warps_and_blocks(changes: tuple[tuple[str, str], ...]) -> None:
    warps, blocks = (child.launches[0] for child in children(ROWS, *changes))
    assert (warps.block[0].text, blocks.block[0].text) == ("32 * WARPS", "LANES")


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("value - largest", "largest", id="the largest"),
        pytest.param("largest = fmaxf(largest, value)", "largest += value", id="the sum"),
        pytest.param("    if (l >= L) return;", "    if (l >= L) { return; }", id="another guard"),
    ],
)
def test_columns_are_shared_by_the_lanes_of_a_block(written: str, otherwise: str) -> None:
    first, *_ = children(COLUMNS, (written, otherwise))
    assert first.launches[0].block[0].text == "COLUMNS * LANES"
    assert first.text.count("for (int n = begin; n < end; ++n)") == 2


PARTS = """// evo: task scan_lanes
// evo: launch down grid (ceil_div(L, 32), ceil_div(4, 2)) block (32, 2)
extern "C" __global__ void down(const float* x, float* y, float* last, int N, int L) {
    int l = blockIdx.x * blockDim.x + threadIdx.x;
    int part = blockIdx.y * blockDim.y + threadIdx.y;
    if (l >= L || part >= 4) return;
    float total = 0.0f;
    for (int n = 0; n < N / 4; ++n) {
        total += x[(part * (N / 4) + n) * L + l];
        y[(part * (N / 4) + n) * L + l] = total;
    }
}
"""


@pytest.mark.parametrize(
    ("written", "otherwise", "grid"),
    [
        pytest.param("threadIdx.y;", "threadIdx.y;", ["ceil_div(L, COLUMNS)", "4"], id="as it is"),
        pytest.param("ceil_div(4, 2)", "(4 + 1) // 2", ["ceil_div(L, COLUMNS)", "4"], id="rounded up in other words"),
        pytest.param("float total = 0.0f;", "float total = threadIdx.y;", [], id="a thread that asks where it is"),
        pytest.param("(int n = 0", "(int n = blockIdx.y", [], id="a block that does"),
        pytest.param("blockDim.y + t", "2 * blockDim.y + t", [], id="every other index"),
    ],
)
def test_a_block_for_each_index_along_y(written: str, otherwise: str, grid: list[str]) -> None:
    made = children(PARTS, (written, otherwise))
    assert [part.text for part in made[0].launches[0].grid] == grid if grid else made == []


def test_a_kernel_that_only_a_view_shows_is_found_beside_another() -> None:
    behind = """// evo: launch on grid (ceil_div(L, 64)) block (64)
extern "C" __global__ void on(const float* x, float* y, float* last, int N, int L) {
    int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= L) return;
    for (int n = 1; n < N; ++n) {
        y[n * L + l] += y[(n - 1) * L + l];
    }
}
"""
    launch, _, kernel = behind.partition("\n")
    task, head, rest = ROWS.split("\n", 2)
    made = children(f"{task}\n{head}\n{launch}\n{rest}\n{kernel}")
    assert {child.launches[1].block[0].text for child in made} == {"64", "COLUMNS * LANES"}
    columns = next(child for child in made if child.launches[1].block[0].text != "64")
    assert columns.launches[0].block[0].text == parse_variant(ROWS).launches[0].block[0].text


@pytest.mark.parametrize(
    ("text", "written", "otherwise"),
    [
        pytest.param(ROWS, SUM, f"if (total > 9.0f) continue; {SUM}", id="a turn that ends early"),
        pytest.param(ROWS, STORE, f"{STORE} total += 1.0f;", id="a store in the middle"),
        pytest.param(ROWS, "last[n] = total;", "last[n] = total; y[n * L] = 0.0f;", id="a store over a store"),
        pytest.param(ROWS, STORE, f"{STORE} atomicAdd(&last[0], total);", id="an atomic"),
        pytest.param(ROWS, SUM, "total += x[n * L + l] + (l > 0 ? y[n * L + l - 1] : 0.0f);", id="its own output"),
        pytest.param(
            COLUMNS, "x[n * L + l];\n        l", "x[(n + 1) % N * L + l] + y[(N - 1) * L];\n        l", id="all"
        ),
    ],
)
def test_what_lanes_cannot_share_stays(text: str, written: str, otherwise: str) -> None:
    assert children(text, (written, otherwise)) == []


FROM_1 = ("int l = 0", "int l = 1")
BEFORE = "y[n * L + l - 1]"


@pytest.mark.parametrize(
    ("first", "turn", "count"),
    [
        pytest.param("y[n * L] = x[n * L];", f"y[n * L + l] = {BEFORE} + x[n * L + l];", 2, id="stored in front"),
        pytest.param("y[n * L] = x[n * L];", f"y[n * L + l] = fmaxf({BEFORE}, x[n * L + l]);", 2, id="largest so far"),
        pytest.param("y[n * L] = x[n * L];", f"y[n * L + l] = {BEFORE} * 0.5f + x[n * L + l];", 2, id="a recurrence"),
        pytest.param("y[n * L] = x[n * L];", "y[n * L + l] = y[n * L + l - 2] + x[n * L + l];", 0, id="two before"),
        pytest.param("y[n * L + 1] = x[n * L];", f"y[n * L + l] = {BEFORE} + y[n * L];", 0, id="another one too"),
    ],
)
def test_sums_of_the_element_before_are_running_sums(first: str, turn: str, count: int) -> None:
    found = children(ROWS, ("float total = 0.0f;", first), FROM_1, (SUM, turn), (STORE, ""), ("last[n] = total;", ""))
    assert len(found) == count


@pytest.mark.parametrize(
    ("made", "used"),
    [
        pytest.param("auto at = [&](int k) { return x[n * L + k]; };", "total += at(l);", id="an element"),
        pytest.param("auto at = [=](int k) { return n * L + k; };", "total += x[at(l)];", id="a place"),
        pytest.param("auto add = [&](float v) { total += v; };", "add(x[n * L + l]);", id="a statement"),
    ],
)
def test_lambdas_are_what_they_do(made: str, used: str) -> None:
    begin = "float total = 0.0f;"
    warps, blocks = children(ROWS, (begin, f"{begin}\n        {made}"), (SUM, used))
    assert (warps.launches[0].block[0].text, blocks.launches[0].block[0].text) == ("32 * WARPS", "LANES")


@pytest.mark.parametrize(
    ("made", "used"),
    [
        pytest.param(
            "auto at = [=](int k) { return x[n * L + k] + total; };", "total += at(l);", id="a value as it was"
        ),
        pytest.param(
            "auto at = [&](int k) { return x[n * L + k]; };", "total += at(l) + at(l + at(0));", id="in itself"
        ),
    ],
)
def test_lambdas_of_other_values_stay(made: str, used: str) -> None:
    begin = "float total = 0.0f;"
    assert children(ROWS, (begin, f"{begin}\n        {made}"), (SUM, used)) == []
