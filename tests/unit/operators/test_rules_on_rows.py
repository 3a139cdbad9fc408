"""Rules that share a thread's walk among a warp or a block: nested walks, every kind of sum, grids written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from long_cases import long
from rule_children import BY_NAME, DATA, TASKS, built, changed, example, passes, task_of
from task_folders import written_task

from evo.cuda.source import Source
from evo.evaluate.session import EvaluationSession
from evo.operators.rules.directives import ceil_divs
from evo.operators.rules.rule_context import RuleContext
from evo.spec.task import read_task
from evo.spec.variant import parse_variant, read_variant

SHIPPED = Path(__file__).parents[3] / "kernels"
FOREIGN = DATA / "foreign" / "kernels"
ROWS = example("row_lanes")


NESTED = changed(
    ROWS,
    (
        "for (int i = 0; i < C; i++) m += x[i];",
        "for (int half = 0; half < 2; half++) {\n"
        "            const float w = 0.5f;\n"
        "            for (int i = 0; i < C; i++) m += w * x[i];\n"
        "        }",
    ),
)


@pytest.mark.parametrize("rule", ["row_lanes", long("row_blocks")])
def test_a_walk_inside_another_loop_is_shared_in_each_of_its_turns(bench: EvaluationSession, rule: str) -> None:
    """The sum goes on from turn to turn, in one lane alone."""
    task = task_of("row_lanes")
    looked_at = changed(
        NESTED, ("for (int half = 0; half < 2; half++) {", "for (int half = 0; half < 2; half++) { m *= 1.0f;")
    )
    (child,) = built(rule, looked_at, task)
    assert child.text.count("__shfl_xor_sync") == 1
    assert "> 0) m = 0;" in child.text
    assert passes(bench, task, child)


@pytest.mark.parametrize("rule", ["row_lanes", long("row_blocks")])
def test_what_goes_on_from_turn_to_turn_is_combined_once_behind_all(bench: EvaluationSession, rule: str) -> None:
    task = task_of("row_lanes")
    (child,) = built(rule, NESTED, task)
    assert "> 0) m = 0;" not in child.text
    behind = child.text[child.text.index("m += w * x[i];") :]
    assert re.match(r"m \+= w \* x\[i\];\s*\}\s*for \(int step = 16;", behind)
    assert passes(bench, task, child)


WALKED = changed(
    ROWS,
    ("for (int i = 0; i < C; i++) m += x[i];", "const float* at = x;\n        for (int i = 0; i < C; i++) m += *at++;"),
)


def test_a_pointer_that_walks_becomes_an_index(bench: EvaluationSession) -> None:
    task = task_of("row_lanes")
    (child,) = built("row_lanes", WALKED, task)
    assert "m += at[i];" in child.text
    assert passes(bench, task, child)


def test_a_pointer_that_is_looked_at_behind_its_walk_keeps_it() -> None:
    text = WALKED.replace("m = m / C;", "m = m / C + (at - x - C);")
    assert built("row_lanes", text) == []


def test_short_inner_walks_are_left_to_each_lane() -> None:
    text = NESTED.replace("half < 2", "half < C / 16").replace(
        "i < C; i++) m += w * x[i]", "i < 8; i++) m += x[16 * half + i]"
    )
    assert built("row_lanes", text) == []


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (SHIPPED, "softmax"),  # a maximum and a sum
        long(SHIPPED, "layernorm"),
        long(FOREIGN, "argmax_rows"),  # the best and its place
        long(FOREIGN, "softmax_online_rows"),  # a sum that follows its maximum
        long(FOREIGN, "crossentropy_rows"),
    ],
)
def test_a_block_combines_what_its_threads_have_found(bench: EvaluationSession, folder: Path, name: str) -> None:
    task = read_task(folder / name)
    (child,) = built("row_blocks", read_variant(task.ladder()[0]), task)
    assert passes(bench, task, child)


def test_rows_too_short_for_a_block_get_none() -> None:
    text = ROWS.replace("i < C", "i < 200")
    assert built("row_blocks", text, task_of("row_lanes")) == []


def test_grids_may_be_rounded_up_in_both_ways() -> None:
    """One that holds the other counts once."""
    for grid, said in (
        ("ceil_div(B, 8), (T + 31) // 32", [("B", "8"), ("T", "32")]),
        ("ceil_div((B + 7) // 8, 4)", [("(B + 7) // 8", "4")]),
    ):
        variant = parse_variant(changed(ROWS, ("ceil_div(B * T, 256)", grid)))
        ctx = RuleContext(variant=variant, source=Source(variant.text))
        assert [(covered, by) for _, covered, by in ceil_divs(ctx, variant.launches[0])] == said


@pytest.mark.parametrize("grid", ["(B * T + 255) // 256", "(B * T + 256 - 1) // 256"])
def test_a_grid_that_is_rounded_up_by_hand_hides_nothing(grid: str) -> None:
    task = task_of("row_lanes")
    text = changed(ROWS, ("ceil_div(B * T, 256)", grid))
    for rule, said in (("row_lanes", "grid (ceil_div(B * T, WARPS))"), ("row_blocks", "grid (B * T)")):
        (child,) = built(rule, text, task)
        assert said in child.text


@pytest.mark.parametrize(("columns", "groups"), [(48, [32, 8]), long(1024, [32])])
def test_short_rows_are_shared_by_groups_of_a_warp_too(
    bench: EvaluationSession, tmp_path: Path, columns: int, groups: list[int]
) -> None:
    """The last group of a warp may have no row, and is not there when the others combine theirs."""
    folder = TASKS / "row_lanes"
    declared = (folder / "task.yaml").read_text().replace("C: 1024", f"C: {columns}")
    task = written_task(tmp_path, declared, (folder / "reference.py").read_text())
    text = changed(ROWS, ("    if (idx < B * T) {", "    if (idx >= B * T) return;\n    {"))
    rule = BY_NAME["row_lanes"]
    found = rule.applications(parse_variant(text), axes=("B", "T", "C"), task=task)
    assert [each.arguments["to"] for each in found] == groups
    child = rule.build(parse_variant(text), found[-1])
    assert child is not None
    assert passes(bench, task, child)


HALVES = """\
// evo: task rope
// evo: launch turn grid (ceil_div(B * S * H, 4)) block (128) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void turn(const __half* x, const float* cosines, const float* sines, __half* y, int b, int s,
                                int h, int d, int t) {
    const int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32, half = d / 2;
    if (row >= b * s * h) return;
    const int place = (t - s + row / h % s) * half;
    const __half* in = x + row * d;
    __half* out = y + row * d;
    for (int i = lane; i < half; i += 32) {
        const float c = cosines[place + i], z = sines[place + i];
        const float left = __half2float(in[i]), right = __half2float(in[i + half]);
        out[i] = __float2half(left * c - right * z);
        out[i + half] = __float2half(right * c + left * z);
    }
}
"""


def test_two_stores_of_which_one_lies_behind_the_other_are_wide(bench: EvaluationSession) -> None:
    task = read_task(SHIPPED / "rope")
    child = built("wide_access", HALVES, task)[0]
    assert child.text.count("*reinterpret_cast<Half4*>(&out[") == 2
    assert "const float c = cosines[place + i], z = sines[place + i];" in child.text  # the rest stays as it was written
    assert passes(bench, task, child)
    for otherwise in ("out[i + 1]", "out[i + d]", "out[half + 1 + i]"):  # it may meet the first, or that is not shown
        assert built("wide_access", changed(HALVES, ("out[i + half]", otherwise)), task) == []


def test_what_a_function_reads_at_the_turn_of_a_loop_is_wide_too() -> None:
    task = read_task(SHIPPED / "add_layernorm")
    text = task.ladder()[0].read_text(encoding="utf-8")
    (shared,) = built("row_blocks", text, task)
    first = built("wide_access", shared, task)[0]
    for name in ("x", "r"):
        assert f"const Half8 {name}_pack = *reinterpret_cast<const Half8*>(&{name}[start + i_done]);" in first.text
    assert "*reinterpret_cast<Half8*>(&s[start + i_done]) = s_pack;" in first.text


TURNED = """name: turned
axes: {B: int, H: int, D: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [B, H, D]}
  - {name: y, role: out, dtype: float32, shape: [B, H, D]}
tolerance: {rtol: 1e-5, atol: 1e-5, rival_error_factor: 4, because: products}
check: [{B: 3, H: 4, D: 20}, {B: 2, H: 2, D: 66}]
bench: {b: {B: 2048, H: 8, D: 64}}
work: {}
"""
TURNS = """import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["B"], case["H"], case["D"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    u, v = x[..., 0::2], x[..., 1::2]
    i = np.arange(u.shape[-1]) * 2
    return {"y": np.stack([u - v * i, u * i + v], -1).reshape(x.shape)}
"""
PAIRS = """// evo: task turned
// evo: launch turn grid (B) block (H)
extern "C" __global__ void turn(const float* x, float* y, int B, int H, int D) {
    const float* from = x + (blockIdx.x * H + threadIdx.x) * D;
    float* to = y + (blockIdx.x * H + threadIdx.x) * D;
    for (int i = 0; i < D; i += 2) {
        float u = from[i], v = from[i + 1];
        to[i] = u - v * i;
        to[i + 1] = u * i + v;
    }
}
"""


def test_pairs_that_a_turn_writes_whole_are_a_walk_too(bench: EvaluationSession, tmp_path: Path) -> None:
    """By few threads as well; a turn that leaves something out, or writes more than a wide access, is none."""
    task = written_task(tmp_path / "apart", TURNED, TURNS)
    (child,) = built("row_lanes", PAIRS, task)
    assert "grid (B, H) block (32)" in child.text
    assert passes(bench, task, child)
    assert built("row_lanes", changed(PAIRS, ("        to[i + 1] = u * i + v;\n", "")), task) == []
    assert built("row_lanes", changed(PAIRS, ("u * i + v;\n", "u * i + to[i - 2];\n")), task) == []


def test_pairs_that_are_written_over_stay_with_their_lane(bench: EvaluationSession, tmp_path: Path) -> None:
    role = changed(
        TURNED, ("x, role: in", "y, role: inout"), ("  - {name: y, role: out, dtype: float32, shape: [B, H, D]}\n", "")
    )
    task = written_task(tmp_path / "over", role, TURNS.replace('"x"', '"y"'))
    over = changed(
        PAIRS,
        ("const float* x, ", ""),
        ("    const float* from = x + (blockIdx.x * H + threadIdx.x) * D;\n", ""),
        ("from[i], v = from[", "to[i], v = to["),
    )
    (child,) = built("row_lanes", over, task)
    assert passes(bench, task, child)
