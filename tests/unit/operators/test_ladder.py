"""ladder and patch: the next rung, knobs carried over, nothing twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from refusals import refused
from task_folders import bare_task

from evo.errors import SyntaxInvalid, TaskInvalid
from evo.operators import Context, Ladder, Patch, Proposal, first_rung
from evo.spec.chips import CHIPS
from evo.spec.expr import parse
from evo.spec.task import Case, Task
from evo.spec.variant import Variant, parse_variant, read_variant

RUNG = """\
// {idea}
// expects: {idea} pays
// evo: knob BLOCK in {domain}
// evo: launch k grid (N) block (BLOCK) shared (BLOCK * {shared})
#define BLOCK {value}
extern "C" __global__ void k(float* o) {{ o[0] = {body}; }}
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "kernels" / "row"
    (folder / "ladder").mkdir(parents=True)
    rows = [("00_scalar", "32, 64", 32, 0), ("10_shared", "32, 64, 128", 128, 4), ("20_mma", "64, 128", 64, 2000)]
    for i, (name, domain, value, shared) in enumerate(rows):
        text = RUNG.format(idea=name[3:], domain=domain, value=value, shared=shared, body=i)
        (folder / "ladder" / f"{name}.cu").write_text(text)
    case = Case(name="b", axes={"N": 4})
    return bare_task(
        name="row", folder=folder, axes={"N": "int"}, check=(case,), bench=(case,), headline="b", score={"b": 1.0},
        work={"flop": parse("N")},
    )  # fmt: skip


def rung(task: Task, index: int) -> Variant:
    return read_variant(task.ladder()[index])


def propose(parent: Variant, context: Context) -> Proposal | None:
    return Ladder().propose(parent, rng=random.Random(0), context=context)


def test_first_rung_for_a_stranger(task: Task) -> None:
    proposal = propose(parse_variant("// evo: launch k grid (1) block (1) shared 0\n"), Context(task=task))
    assert proposal is not None
    assert (proposal.kind, proposal.arguments["rung"]) == ("rung", "00_scalar.cu")


def test_next_rung_with_its_idea(task: Task) -> None:
    proposal = propose(rung(task, 0), Context(task=task))
    assert proposal is not None
    assert proposal.arguments == {"rung": "10_shared.cu", "carried": {}}
    assert (proposal.reason, proposal.expected) == ("shared", "shared pays")
    assert proposal.text == rung(task, 1).text


def test_what_was_tuned_is_carried_and_what_a_rung_shipped_with_is_not(task: Task) -> None:
    proposal = propose(rung(task, 0).with_knobs({"BLOCK": 64}), Context(task=task, rung="00_scalar.cu"))
    assert proposal is not None
    assert proposal.arguments["carried"] == {"BLOCK": 64}
    assert proposal.text == rung(task, 1).text.replace("BLOCK 128", "BLOCK 64")
    stranger = parse_variant(rung(task, 0).text.replace("o[0] = 0", "o[0] = 9"))
    proposal = propose(stranger, Context(task=task))
    assert proposal is not None
    assert proposal.arguments == {"rung": "00_scalar.cu", "carried": {}}


def test_descent_is_told_by_the_context(task: Task) -> None:
    moved = rung(task, 1).with_knobs({"BLOCK": 64})
    proposal = propose(moved, Context(task=task, rung="10_shared.cu"))
    assert proposal is not None
    assert proposal.arguments == {"rung": "20_mma.cu", "carried": {}}


def test_value_outside_the_domain_is_not_carried(task: Task) -> None:
    proposal = propose(rung(task, 1).with_knobs({"BLOCK": 32}), Context(task=task, rung="10_shared.cu"))
    assert proposal is not None
    assert proposal.arguments["carried"] == {}


def test_value_that_does_not_fit_the_chip_is_not_carried(task: Task) -> None:
    # 128 * 2000 bytes are more than an SM has; the rung's own 64 fits an H200, not an L4.
    tuned = parse_variant(rung(task, 1).text.replace("BLOCK in 32, 64, 128", "BLOCK in 32, 128, 64"))
    (task.ladder()[1]).write_text(rung(task, 1).text.replace("BLOCK 128", "BLOCK 64"))
    proposal = propose(tuned, Context(task=task, chip=CHIPS["h200"], rung="10_shared.cu"))
    assert proposal is not None
    assert proposal.arguments["carried"] == {}
    assert propose(tuned, Context(task=task, chip=CHIPS["l4"], rung="10_shared.cu")) is None


def test_rejected_rung_is_passed_over(task: Task) -> None:
    proposal = propose(rung(task, 0), Context(task=task, rungs_tried={"10_shared.cu"}))
    assert proposal is not None
    assert proposal.arguments["rung"] == "20_mma.cu"


def test_top_of_the_ladder_has_nothing(task: Task) -> None:
    assert propose(rung(task, 2), Context(task=task)) is None


def test_patch_is_proposed_once(task: Task, tmp_path: Path) -> None:
    parent = rung(task, 0)
    path = tmp_path / "mine.cu"
    path.write_text(parent.text.replace("o[0] = 0", "o[0] = 7"))
    proposal = Patch(path).propose(parent, rng=random.Random(0), context=Context(task=task))
    assert proposal is not None
    assert (proposal.operator, proposal.kind, proposal.text) == ("patch", "mutation", path.read_text())
    assert proposal.arguments["is_single"] is True
    tried = Context(task=task, tried={parse_variant(proposal.text).id})
    assert Patch(path).propose(parent, rng=random.Random(0), context=tried) is None
    path.write_text("// a comment\n" + parent.text)
    assert Patch(path).propose(parent, rng=random.Random(0), context=Context(task=task)) is None


def test_unreadable_patch_says_so(task: Task, tmp_path: Path) -> None:
    with refused(SyntaxInvalid, "no-file"):
        Patch(tmp_path / "none.cu").propose(rung(task, 0), rng=random.Random(0), context=Context(task=task))


def test_proposal_kind_is_one_of_the_known(task: Task) -> None:
    with pytest.raises(ValueError, match="'guess'"):
        Proposal(operator="x", kind="guess", variant=rung(task, 0), summary="", reason="", expected="", risk="")


def test_a_task_without_a_ladder_starts_from_what_it_was_adopted_from(task: Task) -> None:
    original = task.folder / "original.cu"
    original.write_text("// as adopted\n")
    assert first_rung(task).name == "00_scalar.cu"
    for rung in task.ladder():
        rung.unlink()
    assert first_rung(task) == original
    original.unlink()
    with pytest.raises(TaskInvalid):
        first_rung(task)
