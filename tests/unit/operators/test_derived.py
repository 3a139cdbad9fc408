"""The operator `derive`: the chip's configurations in order, each once, none that the parent's knobs cannot take."""

from __future__ import annotations

import random
from pathlib import Path

from evo.analysis.tiles import over_cases
from evo.operators import WHEN_STALLED, Context, Proposal, TileConfigOperator, operators
from evo.spec.chips import chip
from evo.spec.task import Task, load_task
from evo.spec.variant import Variant, parse_variant, read_variant

ROOT = Path(__file__).parents[3]
L4 = chip("l4")


def attention(rung: str = "40_mma.cu") -> tuple[Task, Variant]:
    task = load_task(ROOT, "attention")
    return task, read_variant(task.folder / "ladder" / rung)


def offered(task: Task, parent: Variant, tried: set[str]) -> Proposal | None:
    return TileConfigOperator().propose(parent, rng=random.Random(0), context=Context(task=task, chip=L4, tried=tried))


def test_proposals_follow_the_order_of_the_derivation_and_end() -> None:
    task, parent = attention()
    tried = {parent.id}
    seen: list[dict[str, object]] = []
    while (proposal := offered(task, parent, tried)) is not None:
        child = parse_variant(proposal.text)
        assert child.id not in tried
        assert proposal.kind == "mutation"
        tried.add(child.id)
        seen.append({name: child.knob_values[name] for name in ("BLOCK_M", "BLOCK_N", "STAGES")})
    ranked = list(over_cases(task, L4))
    places = [ranked.index(knobs) for knobs in seen]
    assert 1 <= len(seen) <= 4
    assert places == sorted(places)


def test_configurations_are_legal_at_every_scored_case() -> None:
    task, _ = attention()
    for tile in over_cases(task, L4):
        shared = (tile["BLOCK_M"] + 2 * tile["BLOCK_N"] * tile["STAGES"]) * 128 * 2  # at D = 128, the widest
        assert shared <= L4.shared_per_block_optin


def test_other_knobs_other_tasks_and_no_chip_give_nothing() -> None:
    task, scalar = attention("00_scalar.cu")
    assert offered(task, scalar, set()) is None
    _, parent = attention()
    assert TileConfigOperator().propose(parent, rng=random.Random(0), context=Context(task=task)) is None


def test_it_is_an_operator_by_name_and_may_wait_for_a_search_to_stall() -> None:
    task, parent = attention()
    for name, stalled, is_offered in (
        ("derive", False, True),
        ("derive", True, True),
        (WHEN_STALLED, False, False),
        (WHEN_STALLED, True, True),
    ):
        (operator,) = operators([name])
        assert operator.name == "derive"
        context = Context(task=task, chip=L4, tried={parent.id}, stalled=stalled)
        assert (operator.propose(parent, rng=random.Random(0), context=context) is not None) == is_offered
