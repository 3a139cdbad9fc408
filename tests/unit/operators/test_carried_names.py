"""A change carried to another champion: names that both invented do not meet, and what belongs together stays so."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import pytest
from rule_children import BY_NAME

from evo.cuda.source import parse
from evo.operators import Proposal
from evo.operators.rebase import carried
from evo.operators.rules.operator import integers_of
from evo.spec.task import load_task
from evo.spec.variant import Variant, read_variant

ROOT = Path(__file__).parents[3]


def applied(name: str, task_name: str, variant: Variant, **arguments: object) -> list[Variant]:
    task = load_task(ROOT, task_name)
    rule = BY_NAME[name]
    places = rule.applications(variant, flags=task.flags, axes=integers_of(task), task=task)
    chosen = [place for place in places if arguments.items() <= place.arguments.items()]
    return [child for place in chosen if (child := rule.build(variant, place)) is not None]


def proposal(variant: Variant, *steps: Variant) -> Proposal:
    return Proposal(
        operator="rules.vector",
        kind="plan" if steps else "mutation",
        variant=variant,
        summary="wide",
        reason="",
        expected="",
        risk="",
        steps=tuple(proposal(step) for step in steps),
    )


def declared_twice(variant: Variant) -> list[str]:
    """Names that a kernel declares more than once at the top of its body."""
    source = parse(variant.text)
    names = [
        name
        for function in source.functions
        for top in source.statements(function)
        if top.kind == "declare"
        for name in source.declared(top.span)
    ]
    return sorted({name for name in names if names.count(name) > 1})


def unnumbered(variant: Variant) -> set[str]:
    """The lines of a text, with new names as they were first wanted."""
    return {re.sub(r"(?:_\d+)+\b", "", line) for line in variant.text.splitlines()}


@pytest.mark.parametrize(("task", "lanes"), [("softmax", True), ("layernorm", False)])
def test_wide_access_to_one_loop_is_carried_behind_that_to_another(task: str, lanes: bool) -> None:
    parent = read_variant(ROOT / "kernels" / task / "ladder" / "00_scalar.cu")
    if lanes:
        parent = applied("row_lanes", task, parent)[0]
    parent = applied("wide_access", task, parent, to=4)[0]
    places = applied("wide_access", task, parent, to=4)
    assert len(places) > 1
    for first, second in permutations(places, 2):
        moved = carried(proposal(second), parent, first)
        assert moved is not None
        assert declared_twice(moved.variant) == []
        for name in set(re.findall(r"\bi_wide\w*", moved.text)):
            # made, asked for by its loop, and by the loop that does the rest
            assert len(re.findall(rf"\b{name}\b", moved.text)) >= (3 if lanes else 2)
        assert unnumbered(moved) <= unnumbered(first) | unnumbered(second)


def test_the_steps_of_a_plan_share_the_new_names() -> None:
    parent = read_variant(ROOT / "kernels" / "softmax" / "ladder" / "00_scalar.cu")
    parent = applied("wide_access", "softmax", parent, to=4)[0]
    champion, step = applied("wide_access", "softmax", parent, to=4)
    last = applied("compile_in", "softmax", step)[0]
    plan = carried(proposal(last, step, last), parent, champion)
    assert plan is not None
    assert declared_twice(plan.variant) == []
    names = [set(re.findall(r"\bi_wide\w*", each.text)) for each in (step, *plan.steps)]
    assert len(names[0]) < len(names[1])
    assert names[1] == names[2]


def test_a_pragma_is_not_parted_from_the_loop_that_another_change_begins_with() -> None:
    base = read_variant(ROOT / "tests" / "data" / "foreign" / "kernels" / "column_mean" / "ladder" / "00_stranger.cu")
    unrolled, several = (
        BY_NAME[name].build(base, BY_NAME[name].applications(base, axes=("R", "C"))[0])
        for name in ("unroll", "accumulators")
    )
    assert unrolled is not None
    assert several is not None
    assert carried(proposal(unrolled), base, several) is None
    assert carried(proposal(several), base, unrolled) is None
