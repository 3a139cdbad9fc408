"""Every shipped task folder: files parse, plans fit the chip, expectations in wrong/ are well formed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evo.audit.redteam import read_expected
from evo.results import Stage, Status
from evo.spec.chips import L4
from evo.spec.launch import Plan, Refusal, plan
from evo.spec.task import Task, load_task, task_names
from evo.spec.variant import read_variant

ROOT = Path(__file__).resolve().parents[2]
TASKS = [load_task(ROOT, name) for name in task_names(ROOT)]
RUNGS = [pytest.param(task, path, id=f"{task.name}-{path.stem}") for task in TASKS for path in task.ladder()]
WRONG = [pytest.param(task, path, id=f"{task.name}-{path.stem}") for task in TASKS for path in task.wrong()]
REFUSALS = set(Status) - {Status.CORRECT, Status.MEASURED}

every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def test_the_shipped_tasks_are_there() -> None:
    wanted = {"attention", "conv2d", "matmul", "moe_grouped_matmul", "rmsnorm", "softmax"}
    wanted |= {"layernorm", "add_layernorm", "rope"}
    assert wanted <= {task.name for task in TASKS}


@every_task
def test_folder_is_complete(task: Task) -> None:
    assert len(task.ladder()) >= 3
    assert len(task.wrong()) >= 8
    assert (task.folder / "champions").is_dir()
    assert all(re.fullmatch(r"\d\d_[a-z_]+", path.stem) for path in task.ladder())


@every_task
def test_work_formulas_are_positive_at_every_case(task: Task) -> None:
    for case in (*task.check, *task.bench):
        work = task.work_of(case)
        assert work["flop"] > 0
        assert work["bytes"] == sum(tensor.size_bytes(case) for tensor in task.tensors), case.name


def test_causal_attention_work_counts_the_visible_scores() -> None:
    task = load_task(ROOT, "attention")
    for case in (*task.check, *task.bench):
        axes = case.axes
        visible = sum(min(row + 1, axes["SK"]) if axes["CAUSAL"] else axes["SK"] for row in range(axes["SQ"]))
        work = task.work_of(case)
        assert work["exp"] == axes["B"] * axes["HQ"] * visible
        assert work["flop"] == 4 * axes["D"] * work["exp"]


def test_attention_checks_cover_the_shapes_that_break_kernels() -> None:
    cases = [case.axes for case in load_task(ROOT, "attention").check]
    causal = [axes for axes in cases if axes["CAUSAL"]]
    assert any(axes["SQ"] < axes["SK"] for axes in causal)
    assert any(axes["SQ"] > axes["SK"] for axes in causal)
    assert any(axes["SQ"] == axes["SK"] == 128 for axes in cases)
    assert any(axes["SK"] == 1 for axes in cases)
    assert any(axes["SQ"] == 1 for axes in cases)
    assert any(1 < axes["HKV"] < axes["HQ"] for axes in cases)
    assert any(axes["D"] == 128 for axes in cases)
    assert any(axes["SK"] % 16 for axes in cases)


@pytest.mark.parametrize(("task", "path"), RUNGS)
def test_rung_states_its_idea_and_fits_the_chip_at_every_case(task: Task, path: Path) -> None:
    variant = read_variant(path)
    assert variant.task == task.name
    assert variant.headline.endswith(".")
    assert "// Roadmap step" in variant.text
    assert "// Hypothesis:" in variant.text
    assert 2 <= len(variant.knobs) <= 6
    for case in (*task.check, *task.bench):
        planned = plan(variant, task, case, L4)
        assert isinstance(planned, Plan), (case.name, planned)


@pytest.mark.parametrize(("task", "path"), RUNGS)
def test_every_knob_has_another_legal_value(task: Task, path: Path) -> None:
    """The rules operator moves one knob at a time, or two that belong together; one that cannot move is dead weight."""
    variant = read_variant(path)
    cases = (*task.check, *task.bench)

    def legal(values: dict[str, int | str]) -> bool:
        moved = variant.with_knobs(values)
        return all(isinstance(plan(moved, task, case, L4), Plan) for case in cases)

    for knob in variant.knobs:
        others = [value for value in knob.domain if value != knob.value]
        alone = any(legal({knob.name: value}) for value in others)
        pairs = ({knob.name: v, other.name: w} for v in others for other in variant.knobs for w in other.domain)
        assert alone or any(legal(pair) for pair in pairs if len(pair) == 2), knob.name


@pytest.mark.parametrize(("task", "path"), WRONG)
def test_wrong_file_says_what_it_must_be_refused_for(task: Task, path: Path) -> None:
    variant = read_variant(path)
    assert variant.task == task.name
    first = variant.text.split("\n", 1)[0]
    assert first.startswith("// expect: ")
    expected = read_expected(first.removeprefix("// expect: "), path).facts
    assert REFUSALS.issuperset(Status(word) for word in expected["status"])
    planned = [plan(variant, task, case, L4) for case in (*task.check, *task.bench)]
    refused = any(isinstance(p, Refusal) for p in planned)
    too_large = expected.get("stage") == (Stage.LIMITS,) and path.stem != "too_many_registers"  # that is known later
    assert refused == too_large


@every_task
def test_wrong_files_differ_from_each_other_and_from_the_rungs(task: Task) -> None:
    ids = [read_variant(path).id for path in (*task.ladder(), *task.wrong())]
    assert len(set(ids)) == len(ids)


@every_task
def test_wrong_files_come_from_several_rungs_and_fail_in_several_ways(task: Task) -> None:
    heads = [path.read_text().split("\n", 1)[0] for path in task.wrong()]
    assert {"wrong", "unsafe", "refused", "uncompiled"} <= {re.split(r"[ ,]+", head)[2] for head in heads}


@pytest.mark.parametrize("width", [64, 128])
def test_the_swizzle_of_the_mma_rungs_is_a_conflict_free_permutation(width: int) -> None:
    chunks = width // 8
    place = {(row, chunk): row * chunks + (chunk ^ (row & 7)) for row in range(64) for chunk in range(chunks)}
    assert sorted(place.values()) == list(range(64 * chunks))
    for first in range(0, 64, 8):
        for chunk in range(chunks):
            groups = {place[row, chunk] % 8 for row in range(first, first + 8)}
            assert len(groups) == 8, "eight rows of an ldmatrix phase, eight bank groups"


@pytest.mark.parametrize("chunks", [2, 4, 8, 16, 32])
def test_the_swizzle_of_narrow_matmul_tiles_is_a_conflict_free_permutation(chunks: int) -> None:
    span = min(chunks, 8)
    place = {(r, c): r * chunks + (c ^ (r // (8 // span) % span)) for r in range(64) for c in range(chunks)}
    assert sorted(place.values()) == list(range(64 * chunks))
    for first in range(0, 64, 8):
        for chunk in range(chunks):
            assert len({place[row, chunk] % 8 for row in range(first, first + 8)}) == 8
