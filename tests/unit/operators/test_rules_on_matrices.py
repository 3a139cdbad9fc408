"""Small matrices in one thread's arrays: what lanes share, column by column, and what all of them do."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import DATA, built, changed, example, of_example, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import read_task

TEXT = example("matrix_lanes")
SWEEP = TEXT[
    TEXT.index("    for (int p = 0") : TEXT.index(
        "    for (int i = 0; i < 8; i++)\n        for (int j = 0; j < 8; j++) out"
    )
]


def test_a_triangular_loop_asks_which_lanes_have_a_turn() -> None:
    """What comes from another column is fetched in front of the test, since all lanes have to take part."""
    inner = "for (int j = p + 1; j < 8; j++) a[i][j] -= a[i][p] * a[p][j];"
    rows = f"        for (int i = p + 1; i < 8; i++) {{\n            {inner}\n        }}\n"
    loops = f"    for (int p = 0; p < 8; p++)\n{rows}"
    (child,) = of_example("matrix_lanes", (SWEEP, loops))
    assert "const auto a_other = __shfl_sync(group, a[i], p, 8);" in child.text
    assert "if (lane >= (p + 1) && lane < 8) a[i] -= a_other * a[p];" in child.text


def test_a_product_keeps_its_sum_in_the_lane() -> None:
    product = "for (int j = 0; j < 8; j++) {\n for (int k = 0; k < 8; k++) {\n b[i][j] += a[i][k] * a[k][j];\n }\n }"
    (child,) = of_example("matrix_lanes", (SWEEP, f"    for (int i = 0; i < 8; i++) {product}\n"))
    assert "b[i] += __shfl_sync(group, a[i], k, 8) * a[k];" in child.text


@pytest.mark.parametrize(
    ("size", "is_shared"), [(8, True), pytest.param(6, False, id="a lane without a turn has to hand its column on")]
)
def test_a_lane_stores_the_result_of_its_turn(size: int, is_shared: bool) -> None:
    """Of a product whose other factor is in memory: no element of a matrix is named by the number of the turn."""
    head = TEXT[: TEXT.index("    float a[8][8]")]
    body = """    float a[8][8];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) a[i][j] = in[n * 64 + i * 8 + j];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            float s = 0.0f;
            for (int k = 0; k < 8; k++) s += a[i][k] * in[n * 64 + j * 8 + k];
            out[n * 64 + i * 8 + j] = s;
        }
}
"""
    text = head + body.replace("[8]", f"[{size}]").replace("< 8", f"< {size}")
    (child,) = built("matrix_lanes", text)
    assert ("out[n * 64 + i * 8 + lane] = s;" in child.text) == is_shared
    assert ("if (lane == 0) out" in child.text) != is_shared


def test_one_lane_writes_what_all_compute() -> None:
    (child,) = of_example(
        "matrix_lanes", ("float scale = 1.0f / a[p][p];", "a[p][0] += 1.0f; float scale = 1.0f / a[p][p];")
    )
    assert "{ const auto kept = 1.0f; if (lane == 0) a[p] += kept; }" in child.text


def test_columns_that_are_no_power_of_two_leave_lanes_idle() -> None:
    (child,) = of_example("matrix_lanes", ("[8]", "[6]"), ("< 8", "< 6"))
    assert "grid (ceil_div(N * 8, 128))" in child.text
    assert "float a[6] = {0};" in child.text
    assert child.text.count("if (lane < 6)") == 4


def test_columns_that_need_each_other_are_done_by_all() -> None:
    (child,) = of_example("matrix_lanes", ("b[i][j] -= f * b[p][j];", "b[i][j] -= f * b[j][p];"))
    assert "{ const auto kept = f * __shfl_sync(group, b[j], p, 8); if (lane == j) b[i] -= kept; }" in child.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("float b[8][8];", "float b[8][9];", id="matrices of two sizes"),
        pytest.param("a[p][j] *= scale;", "if (j > 2) a[p][j] *= a[p][2];", id="an exchange under a test"),
        pytest.param("if (n >= N) return;", "if (n >= N) return;\n    __syncwarp();", id="lanes that meet already"),
    ],
)
def test_what_lanes_cannot_share_is_left_alone(written: str, otherwise: str) -> None:
    split = ("float a[8][8], b[8][8];", "float a[8][8];\n    float b[8][8];")
    assert of_example("matrix_lanes", split)
    assert not of_example("matrix_lanes", split, (written, otherwise))


PIVOTS = DATA / "idioms" / "pivots"
GAUSS = (PIVOTS / "ladder" / "00_gauss.cu").read_text(encoding="utf-8")
SEARCH = """\
        int piv = col;
        for (int r = col + 1; r < DIM; r++)
            if (fabsf(aug[r][col]) > fabsf(aug[piv][col])) piv = r;
        if (piv != col)
"""
KEPT = """\
        int piv = col;
        float most = fabsf(aug[col][col]);
        for (int r = col + 1; r < DIM; r++) {
            const float here = fabsf(aug[r][col]);
            if (here > most) { most = here; piv = r; }
        }
"""


@pytest.mark.parametrize("search", [SEARCH, long(KEPT, id="a value beside the place")])
def test_rows_that_a_search_chooses_have_a_test_each(bench: EvaluationSession, search: str) -> None:
    (child,) = built("unroll_registers", changed(GAUSS, (SEARCH, search)), read_task(PIVOTS))
    assert "for (int at = col; at < DIM; ++at) {" in child.text
    assert "if (at == piv) {" in child.text
    assert "aug[piv]" not in child.text
    assert passes(bench, read_task(PIVOTS), child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("piv = r;", "piv = DIM - 1 - r;"),  # rows in front of the first, too
        ("int r = col + 1;", "int r = 0;"),
        ("fabsf(aug[piv][col])) piv = r;", "fabsf(aug[piv][r])) piv = r;"),  # no value to keep
    ],
)
def test_rows_that_may_be_any_stay(written: str, otherwise: str) -> None:
    found = built("unroll_registers", changed(GAUSS, (written, otherwise)), read_task(PIVOTS))
    assert all("at == piv" not in child.text for child in found)
