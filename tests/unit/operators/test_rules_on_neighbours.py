"""Several neighbouring outputs for each thread: how windows are written does not matter, what they hold does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from long_cases import long
from rule_children import built, example, of_example, passes, task_of

from evo.evaluate.session import EvaluationSession
from evo.operators.rules.idle_declarations import uses_of
from evo.spec.task import Case, read_task

TASK = task_of("neighbours")
RULE = "neighbours"
SUM = "out[y * W + x] = 0.25f * (window[0] + window[1] + window[2 * W] + window[2 * W + 1]);"
GUARD = "if (x >= W || y >= H) return;"
# Three neighbours of one row, out of four times as many.
ROW = """float sum = 0.0f;
    for (int d = -1; d <= 1; d++) {
        int at = x + d;
        if (at >= 0 && at < 2 * W) sum += img[y * 2 * W + at];
    }
    out[y * W + x] = sum;"""


def windows(text: str) -> tuple[str, str]:
    """The body of a child: what is computed of windows, and what is computed one by one."""
    wide, narrow = re.split(r"return;\n    }\n|    const int lane = ", text)
    return wide, narrow


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="as it is"),
        pytest.param(
            (("int x = ", "const unsigned x = "), (GUARD, "if (y >= H || x >= W) { return; }")), id="unsigned"
        ),
        pytest.param((("* blockDim.x + threadIdx.x", "* 32 + threadIdx.x"),), id="a literal block"),
        pytest.param((("4 * y * W + 2 * x", "(size_t)(2 * y) * (2 * W) + (x << 1)"),), id="other arithmetic"),
        pytest.param(((GUARD, "if (x < W && y < H) {"), (SUM, SUM + "\n    }")), id="a test around"),
        pytest.param((("window[1]", "__ldg(&window[1])"),), id="a read-only load"),
        pytest.param((("float* img, float* out", "float* __restrict__ img, float* __restrict__ out"),), id="restrict"),
    ],
)
def test_a_window_of_two_by_two_is_two_wide_loads(changes: tuple[tuple[str, str], ...]) -> None:
    child = next(child for child in of_example(RULE, *changes) if "ceil_div(W, 32 * 2)" in child.text)
    wide, narrow = windows(child.text)
    assert wide.count("const Float4x4 img_pack") == 2
    assert wide.count("*reinterpret_cast<Float2x2*>") == 1
    assert uses_of("window", wide) == 0  # declared and never used would be an error
    assert "window[1]" in narrow


def test_windows_that_overlap_are_loaded_once() -> None:
    body = example(RULE).split("    const float* window")[1].rstrip("}\n")
    found = of_example(RULE, ("    const float* window" + body, ROW))
    strict, kept = (c for c in found if "ceil_div(W, 32 * 4)" in c.text)
    assert windows(strict.text)[0].count("reinterpret_cast<const Float12x4*>") == 1
    assert "if (at >= 0" not in windows(strict.text)[0]  # all outputs of the thread are inside
    assert "1 <= x_first" in strict.text
    assert "if (at >= 0 && at < 2 * W) sum += img_pack.at[e + d + 4];" in kept.text
    assert "min(max(" in kept.text  # a piece outside of the tensor is another, and is not used


def test_clamped_places_are_inner_ones() -> None:
    body = example(RULE).split("    const float* window")[1].rstrip("}\n")
    clamped = ROW.replace("int at = x + d;", "int at = min(max(x + d, 0), 2 * W - 1);").replace(
        "if (at >= 0 && at < 2 * W) ", ""
    )
    first, *_ = of_example(RULE, ("    const float* window" + body, clamped))
    assert "1 <= x_first" in first.text
    assert "min(" not in windows(first.text)[0]


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param("int at = x + d; if (at < 0 || at >= 2 * W) continue;", id="a turn that is left out"),
        pytest.param("int at = (x + d + 2 * W) % (2 * W);", id="a row that goes around"),
    ],
)
def test_what_an_edge_changes_is_not_looked_at_inside(turn: str) -> None:
    body = example(RULE).split("    const float* window")[1].rstrip("}\n")
    row = ROW.replace("int at = x + d;", turn).replace("if (at >= 0 && at < 2 * W) ", "")
    first, *_ = of_example(RULE, ("    const float* window" + body, row))
    wide, narrow = windows(first.text)
    assert not re.search(r"continue|%", wide[wide.index("pragma unroll") :])
    assert re.search(r"continue|%", narrow[narrow.index("float sum") :])


@pytest.mark.parametrize(
    ("start", "end", "is_whole"),
    [
        ("max(x - 1, 0)", "min(x + 2, 2 * W)", True),
        ("max(x - 1, 0)", "x + 2", True),
        ("max(x - 1, 0)", "min(x + W, 2 * W)", False),  # no known number of turns
    ],
)
def test_a_window_that_is_cut_off_at_an_edge_is_whole_inside(start: str, end: str, is_whole: bool) -> None:
    body = example(RULE).split("    const float* window")[1].rstrip("}\n")
    row = f"""float sum = 0.0f;
    for (int at = {start}; at < {end}; ++at) sum += img[y * 2 * W + at];
    out[y * W + x] = sum;"""
    found = of_example(RULE, ("    const float* window" + body, row))
    texts = [child.text for child in found if "1 <= x_first" in child.text]
    assert bool(texts) == is_whole
    for text in texts[:1]:
        wide, narrow = windows(text)
        assert re.search(r"Float\d+x\d img_pack = ", wide)
        assert "continue" not in wide
        assert "turn < 3" in narrow


def test_what_is_changed_in_place_is_read_and_written_as_one() -> None:
    first, *_ = of_example(RULE, (SUM, "out[y * W + x] *= 2.0f; out[y * W + x] += window[0];"))
    assert "Float2x2 out_pack = *reinterpret_cast" in first.text
    assert "out_pack.at[e] *= 2.0f" in first.text


def test_sizes_that_come_multiplied_together_are_said_as_they_come() -> None:
    text = """\
// evo: task neighbours
// evo: launch pool grid (ceil_div(H * W, 64)) block (64) shared 0 args (img, out, H * W)
extern "C" __global__ void pool(const float* img, float* out, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = img[i];
}
"""
    first, *_ = built(RULE, text, TASK)
    assert "&& i_first + 2 <= size" in first.text


def test_a_loop_over_the_grid_leaves_no_step_behind() -> None:
    text = """\
// evo: task neighbours
// evo: launch pool grid (min(ceil_div(H, 64), 99)) block (64) shared 0
extern "C" __global__ void pool(const float* img, float* out, int H, int W) {
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < H; i += step) {
        out[i] = img[i];
    }
}
"""
    first, *_ = built(RULE, text, TASK)
    assert "Float2x2 img_pack" in first.text
    assert uses_of("step", first.text) == 0


def test_a_place_that_data_decides_is_read_as_it_was() -> None:
    gather = ("window[1]", "img[(int)(x * 0.3f)]")
    first, *_ = of_example(RULE, gather)
    assert "img[(int)(x * 0.3f)]" in windows(first.text)[0]


def test_values_of_knobs_are_tested() -> None:
    """A window that was counted with a knob's value does not fit another."""
    knob = ("// evo: launch", "// evo: knob REACH in 1, 2\n#define REACH 1\n// evo: launch")
    first, *_ = of_example(RULE, knob, ("window[1]", "window[REACH]"))
    assert "&& REACH == 1" in first.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param(SUM, "atomicAdd(&out[y * W + x], window[0]);", id="atomics"),
        pytest.param(SUM, "__syncwarp(); " + SUM, id="lanes that meet"),
        pytest.param(SUM, "if (window[0] > 0.0f) " + SUM, id="data decides on the store"),
        pytest.param("out[y * W + x] =", "out[x * H + y] =", id="columns"),
        pytest.param("out[y * W + x] =", "out[y * W + 2 * x / 2 * 2] =", id="gaps"),
        pytest.param("window[0]", "out[y * W + (x + 1) % W]", id="what another thread writes"),
        pytest.param("const float* window", "img += W; const float* window", id="a pointer that moves"),
        pytest.param(GUARD, "for (int k = 0; k < 2; k++) if (x + k >= W) return;", id="leaves a loop"),
    ],
)
def test_other_kernels_are_left_alone(written: str, otherwise: str) -> None:
    assert of_example(RULE, (written, otherwise)) == []


def test_tests_that_hold_at_some_sizes_alone_stay() -> None:
    """A compiled-in number that few cases have, whose sizes happen to be whole blocks, makes no edge go away."""
    axes = {"H": 64, "W": 96, "S": 3}
    task = replace(
        TASK,
        axes={**TASK.axes, "S": "int"},
        check=(Case(name="whole", axes=axes), Case(name="ragged", axes={"H": 19, "W": 28, "S": 2})),
        bench=(Case(name="big", axes=axes),),
    )
    text = example(RULE).replace("// evo: launch", "// evo: macro S\n// evo: launch").replace("0.25f", "S")
    texts = [child.text for child in built(RULE, text, task)]
    assert texts
    assert all("x_first + " in windows(each)[0] and "+ 1 <= H" in windows(each)[0] for each in texts)


def test_what_the_grid_alone_bounds_stays_within_it(bench: EvaluationSession) -> None:
    task = replace(TASK, check=tuple(case for case in TASK.check if case.name == "whole"))
    bare = example(RULE).replace(GUARD, "")
    assert bare != example(RULE)
    for child in built(RULE, bare, task):
        assert passes(bench, task, child), child.text


PAIRS = read_task(TASK.folder.parents[1] / "idioms" / "complex_product")
PAIR = PAIRS.ladder()[0].read_text(encoding="utf-8")
WHOLE = PAIR[PAIR.index("    out[2 * i] =") : PAIR.rindex("}")]
PLACE = "int i = blockIdx.x * blockDim.x + threadIdx.x"
BY_PART = """    for (int k = 0; k < 2; ++k)
        out[2 * i + k] = a[2 * i] * b[2 * i + k] + (k ? 1.0f : -1.0f) * a[2 * i + 1] * b[2 * i + 1 - k];
"""


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("", "", id="as it is"),
        long(WHOLE, BY_PART, id="a loop over both"),
        long(
            f"{PLACE};\n    if (i >= N) return;",
            f"int all = N;\n    for ({PLACE}; i < all; i += gridDim.x * blockDim.x) {{",
            id="a loop over the grid to a limit with a name",
        ),
    ],
)
def test_numbers_of_two_elements_are_written_in_wide_pieces(
    bench: EvaluationSession, written: str, otherwise: str
) -> None:
    text = PAIR.replace(written, otherwise) if written else PAIR
    text = f"{text}}}\n" if "gridDim" in text else text
    found = built(RULE, text, PAIRS)
    assert {each.text.count("128 * 2)") for each in found} == {0, 1}
    for child in found:
        assert "alignas(16)" in windows(child.text)[0]
        assert passes(bench, PAIRS, child)


def test_a_number_of_which_a_part_is_not_written_is_left_alone() -> None:
    text = PAIR.replace(WHOLE, WHOLE[: WHOLE.index("    out[2 * i + 1]")])
    assert built(RULE, text, PAIRS) == []


ENLARGED = """name: enlarged
axes: {C: int, H: int, W: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [C, H, W]}
  - {name: y, role: out, dtype: float32, shape: [C, 2 * H, 2 * W]}
tolerance: {rtol: 1e-5, atol: 1e-6, rival_error_factor: 2, because: one product}
check:
  - {name: whole, C: 2, H: 8, W: 16}
  - {name: odd, C: 3, H: 5, W: 7}
bench:
  big: {C: 8, H: 64, W: 64}
work: {flop: 4 * C * H * W, bytes: 20 * C * H * W}
"""
ENLARGES = """import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["C"], case["H"], case["W"]), dtype=np.float32)}


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64).repeat(2, axis=1).repeat(2, axis=2) * 0.5}
"""
ENLARGING = """// evo: task enlarged
// evo: launch enlarge grid (ceil_div(C * 2 * H * 2 * W, 128)) block (128)
#define SCALE 2
extern "C" __global__ void enlarge(const float* x, float* y, int C, int H, int W) {
    const int oh = H * SCALE, ow = W * SCALE;
    const int count = C * oh * ow;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int column = i % ow, t = i / ow;
        int row = t % oh;
        t /= oh;
        y[i] = 0.5f * x[(t * H + row / SCALE) * W + column / SCALE];
    }
}
"""


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("column / SCALE", id="halves"),
        pytest.param("(column >> 1)", id="shifted", marks=pytest.mark.long),
    ],
)
def test_outputs_that_share_elements_load_them_once(bench: EvaluationSession, tmp_path: Path, place: str) -> None:
    folder = tmp_path / "enlarged"
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(ENLARGED)
    (folder / "reference.py").write_text(ENLARGES)
    task = read_task(folder)
    found = built(RULE, ENLARGING.replace("column / SCALE", place), task)
    (child,) = [child for child in found if "x_pack" in windows(child.text)[0]]
    assert "x_pack.at[(e / 2)]" in windows(child.text)[0]
    assert passes(bench, task, child)
