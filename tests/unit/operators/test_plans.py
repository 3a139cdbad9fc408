"""Plans: lines of rewrites that are proposed as one, each step of which is one change."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from rule_children import passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.operators import Context, Proposal, not_one_change, operators
from evo.operators.rebase import carried
from evo.operators.rules import all_rules
from evo.operators.rules.plans import PLANS, PlanOperator
from evo.spec.chips import chip
from evo.spec.task import Task, load_task, read_task
from evo.spec.variant import Variant, parse_variant, read_variant

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task(ROOT, "matmul")


@pytest.fixture(scope="module")
def scalar() -> Variant:
    return read_variant(ROOT / "kernels" / "matmul" / "ladder" / "00_scalar.cu")


@pytest.fixture(scope="module")
def line(task: Task, scalar: Variant) -> list[Proposal]:
    """All plans for the scalar matrix product."""
    operator, found, tried = PlanOperator(all_rules()), [], set[str]()
    while True:
        context = Context(task=task, chip=chip("l4"), tried=tried)
        proposal = operator.propose(scalar, rng=random.Random(0), context=context)
        if proposal is None:
            return found
        found.append(proposal)
        tried.add(proposal.variant.id)


def test_every_step_is_one_change(task: Task, scalar: Variant, line: list[Proposal]) -> None:
    assert "tensor_cores" in {each.arguments["plan"] for each in line}
    for proposal in line:
        assert 2 <= len(proposal.steps) <= 6
        assert proposal.steps[-1].text == proposal.text
        assert not_one_change(task, proposal, scalar) is None


@pytest.mark.parametrize("broken", ["no steps", "one step", "an idle step", "another end", "a rewrite"])
def test_what_is_no_line_of_single_changes_is_refused(
    task: Task, scalar: Variant, line: list[Proposal], broken: str
) -> None:
    plan = next(each for each in line if each.arguments["plan"] == "tensor_cores")
    steps = plan.steps
    other = {
        "no steps": (),
        "one step": steps[:1],
        "an idle step": (steps[0], *steps),
        "another end": steps[:-1],
        "a rewrite": (replace(steps[0], kind="rewrite"), *steps[1:]),
    }[broken]
    assert not_one_change(task, replace(plan, steps=other), scalar) is not None


def test_a_plan_that_failed_is_offered_last(task: Task, scalar: Variant, line: list[Proposal]) -> None:
    first, last = line[0], line[-1]
    losers = frozenset(str(each.arguments["change_key"]) for each in line[:-1])
    context = Context(task=task, chip=chip("l4"), losers=losers)
    offered = PlanOperator(all_rules()).propose(scalar, rng=random.Random(0), context=context)
    assert offered is not None
    assert offered.variant.id == last.variant.id != first.variant.id


def test_the_beginnings_of_plans_come_behind_all_whole_ones(line: list[Proposal]) -> None:
    names = [str(each.arguments["plan"]) for each in line]
    whole = len(set(names))
    assert whole == len(set(names[:whole]))
    ends = {names[at]: [step.text for step in line[at].steps] for at in range(whole)}
    for proposal in line[whole:]:
        texts = [step.text for step in proposal.steps]
        assert texts == ends[str(proposal.arguments["plan"])][: len(texts)]


def test_edits_that_looks_found_faster_are_made_together(task: Task, scalar: Variant) -> None:
    """The best first, then what still applies; what lost before or gains nothing is left out."""
    drawn: dict[str, Proposal] = {}
    known = {operator.name: operator for operator in operators(["rules"])}
    for name in ("rules.sizes", "rules.loop", "rules.order", "rules.bounds", "rules.knob"):
        offer = known[name].propose(scalar, rng=random.Random(0), context=Context(task=task, chip=chip("l4")))
        assert offer is not None
        drawn[name] = offer
    gains = {"rules.sizes": 1.08, "rules.loop": 1.05, "rules.order": 1.04, "rules.bounds": 1.01, "rules.knob": 1.03}
    looks = sorted(((gain, drawn[name]) for name, gain in gains.items()), key=lambda look: -look[0])
    context = Context(
        task=task, chip=chip("l4"), looks=looks, losers={str(drawn["rules.order"].arguments["change_key"])}
    )
    offered = PlanOperator(all_rules()).propose(scalar, rng=random.Random(0), context=context)
    assert offered is not None
    assert [step.operator for step in offered.steps] == ["rules.sizes", "rules.loop", "rules.knob"]
    assert not_one_change(task, offered, scalar) is None
    tried = replace(context, tried={offered.variant.id})
    other = PlanOperator(all_rules()).propose(scalar, rng=random.Random(0), context=tried)
    assert other is not None
    assert [step.text for step in other.steps] == [step.text for step in offered.steps[:2]]


def test_steps_name_rules_and_rules_include_plans() -> None:
    known = {rule.name for rule in all_rules()}
    assert all(name.partition(" ")[0] in known for plan in PLANS for names in plan.steps for name in names)
    assert "rules.plan" in {operator.name for operator in operators(["rules"])}


def test_a_plan_is_carried_to_another_champion_step_by_step(task: Task, scalar: Variant, line: list[Proposal]) -> None:
    champion = parse_variant(scalar.text.replace("// One thread", "// evo: flags -ftz=true\n// One thread", 1))
    plan = next(each for each in line if each.steps[0].kind == "mutation")  # a body written anew may hold more changes
    moved = carried(plan, scalar, champion)
    assert moved is not None
    assert moved.variant.flags == ("-ftz=true",)
    assert not_one_change(task, moved, champion) is None
    assert not_one_change(task, moved, scalar) is not None


def test_columns_that_are_summed_in_double_are_shared_in_floats() -> None:
    shared = next(rule for rule in all_rules() if rule.name == "column_lanes").examples[0].before
    columns = parse_variant(shared.replace("float sum", "double sum"))
    context = Context(task=read_task(ROOT / "tests" / "data" / "rules" / "column_lanes"), chip=chip("l4"))
    plans = tuple(plan for plan in PLANS if plan.name == "columns_together")
    offered = PlanOperator(all_rules(), plans).propose(columns, rng=random.Random(0), context=context)
    assert offered is not None
    rules = [step.arguments["rule"] for step in offered.steps]
    assert rules.index("column_lanes") < rules.index("float_sums")
    assert not_one_change(context.task, offered, columns) is None


def test_a_number_over_all_axes_is_taken_apart_before_threads_take_several_of_its_outputs() -> None:
    flat = parse_variant(next(rule for rule in all_rules() if rule.name == "unflatten").examples[0].before)
    context = Context(task=read_task(ROOT / "tests" / "data" / "rules" / "unflatten"), chip=chip("l4"))
    plans = tuple(plan for plan in PLANS if plan.name == "boxes_wide")
    offered = PlanOperator(all_rules(), plans).propose(flat, rng=random.Random(0), context=context)
    assert offered is not None
    assert [step.arguments["rule"] for step in offered.steps] == ["unflatten", "neighbours", "compile_in"]
    assert not_one_change(context.task, offered, flat) is None


@pytest.mark.parametrize(("task", "first"), [("matmul", "tile_mma"), ("conv2d", "convolution_mma")])
def test_tiles_for_tensor_cores_get_two_sizes_at_once_or_later(task: str, first: str) -> None:
    context = Context(task=read_task(ROOT / "kernels" / task), chip=chip("h200"))
    scalar = parse_variant(context.task.ladder()[0].read_text(encoding="utf-8"))
    at_once, later = (
        PlanOperator(all_rules(), tuple(plan for plan in PLANS if plan.name == name))
        for name in ("tensor_cores", "tiles_by_size")
    )
    offered = at_once.propose(scalar, rng=random.Random(0), context=context)
    assert offered is not None
    assert [step.arguments["rule"] for step in offered.steps] == [first, "compile_in", "sized_tiles", "raster"]
    tiles = offered.steps[0].variant
    more = later.propose(tiles, rng=random.Random(0), context=context)
    assert more is not None
    assert more.variant.text == offered.variant.text
    tall = PlanOperator(all_rules(), tuple(plan for plan in PLANS if plan.name == "tall_tiles_by_size"))
    rows = tall.propose(tiles, rng=random.Random(0), context=context)
    assert rows is not None
    names = {name for name in rows.variant.knob_values if name.endswith("_LARGE")}
    assert names == {"BM_LARGE", "WM_LARGE"}  # not those of columns, as in the other plan


def test_short_rows_get_a_few_lanes_each_where_they_are_moved_in_wide_pieces() -> None:
    context = Context(task=read_task(ROOT / "kernels" / "rope"), chip=chip("h200"))
    scalar = parse_variant(context.task.ladder()[0].read_text(encoding="utf-8"))
    plans = tuple(plan for plan in PLANS if plan.name == "groups_together")
    offered = PlanOperator(all_rules(), plans).propose(scalar, rng=random.Random(0), context=context)
    assert offered is not None
    assert [step.arguments["rule"] for step in offered.steps] == ["row_lanes", "wide_access", "compile_in"]
    assert offered.steps[0].arguments["to"] == 8  # not the 32 that come first
    assert not_one_change(context.task, offered, scalar) is None


ABSOLUTES = """\
name: absolutes
axes: {R: int, C: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [R, C]}
  - {name: y, role: out, dtype: float32, shape: [R]}
tolerance: {rtol: 1e-3, atol: 1e-2, rival_error_factor: 16, because: float32 sums}
check: [{R: 16, C: 64}, {R: 13, C: 45}]
bench: {b: {R: 4096, C: 512}}
work: {flop: R * C, bytes: 4 * R * C}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal([case["R"], case["C"]]).astype(np.float32)}


def expected(inputs):
    return {"y": np.abs(inputs["x"].astype(np.float64)).sum(axis=1)}
"""
ALONE = """\
// evo: task absolutes
// evo: launch sums grid (R) block (1)
extern "C" __global__ void sums(const float* x, float* y, int R, int C) {
    float s = 0.0f;
    for (int c = 0; c < C; c++) s += fabsf(x[blockIdx.x * C + c]);
    y[blockIdx.x] = s;
}
"""
BLOCK = """\
// evo: task absolutes
// evo: launch sums grid (R) block (256)
extern "C" __global__ void sums(const float* x, float* y, int R, int C) {
    __shared__ float cache[256];
    float s = 0.0f;
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += fabsf(x[blockIdx.x * C + c]);
    cache[threadIdx.x] = s;
    __syncthreads();
    for (int i = blockDim.x / 2; i > 0; i /= 2) {
        if (threadIdx.x < i) cache[threadIdx.x] += cache[threadIdx.x + i];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = cache[0];
}
"""


@pytest.mark.parametrize(
    ("plan", "start", "rules"),
    [
        ("rows_together", ALONE, ["row_lanes", "wide_access", "pack_blocks"]),
        ("short_rows", BLOCK, ["block_size", "block_trees", "wide_access"]),
    ],
)
def test_a_short_row_ends_with_few_lanes_whichever_way_it_began(
    bench: EvaluationSession, tmp_path: Path, plan: str, start: str, rules: list[str]
) -> None:
    rows, parent = written_task(tmp_path / "absolutes", ABSOLUTES, REFERENCE), parse_variant(start)
    operator = PlanOperator(all_rules(), tuple(each for each in PLANS if each.name == plan))
    offered = operator.propose(parent, rng=random.Random(0), context=Context(task=rows, chip=chip("l4")))
    assert offered is not None
    assert [step.arguments["rule"] for step in offered.steps] == rules
    assert not_one_change(rows, offered, parent) is None
    assert passes(bench, rows, offered.variant)


def offers(kernel: str, plan: str, most: int) -> list[Proposal]:
    """The first proposals of one plan for a stranger's kernel."""
    stranger = read_task(ROOT / "tests" / "data" / "foreign" / "kernels" / kernel)
    operator = PlanOperator(all_rules(), tuple(each for each in PLANS if each.name == plan))
    found: list[Proposal] = []
    for _ in range(most):
        context = Context(task=stranger, chip=chip("l4"), tried={each.variant.id for each in found})
        offer = operator.propose(read_variant(stranger.ladder()[0]), rng=random.Random(0), context=context)
        found += [offer] if offer is not None else []
    return found


def test_a_second_way_of_a_step_is_a_line_of_its_own() -> None:
    """Windows at an edge are loaded one by one, or with the others."""
    lines = offers("depthwise_conv", "boxes_wide", 2)
    ways = [step.arguments["edges"] for line in lines for step in line.steps if "edges" in step.arguments]
    assert ways == [False, True]
    assert [len(line.steps) for line in lines] == [3, 3]


def test_a_plan_without_a_step_that_it_needs_is_none() -> None:
    assert not offers("linear_forward", "passes_in_registers", 1)


SHARED_LIMIT = """// evo: task softmax
// evo: knob COLUMNS in 4, 8, 16
// evo: knob LANES in 32, 64, 128
// evo: require COLUMNS * LANES <= 1024
// evo: launch k grid (1) block (COLUMNS * LANES) shared 0
#define COLUMNS 8
#define LANES 128
extern "C" __global__ void k(const __half* x, __half* y, int rows, int columns) {
    if (threadIdx.x % COLUMNS < LANES) y[threadIdx.x] = x[threadIdx.x];
}
"""


def test_a_knob_that_has_no_room_moves_once_another_has_made_it() -> None:
    softmax, operator = load_task(ROOT, "softmax"), PlanOperator(all_rules())
    context = Context(task=softmax, chip=chip("l4"))
    parent = parse_variant(SHARED_LIMIT)
    found = operator.propose(parent, rng=random.Random(0), context=context)
    assert found is not None
    assert (found.arguments["plan"], found.variant.knob_values) == ("exchanged", {"COLUMNS": 16, "LANES": 64})
    assert [step.variant.knob_values["LANES"] for step in found.steps] == [64, 64]
    assert not_one_change(softmax, found, parent) is None
    tried = replace(context, tried={found.variant.id})
    assert operator.propose(parent, rng=random.Random(0), context=tried) is None
    roomy = parse_variant(SHARED_LIMIT.replace("LANES 128", "LANES 32"))
    assert operator.propose(roomy, rng=random.Random(0), context=context) is None  # each fits alone
