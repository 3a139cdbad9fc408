"""A family of rules as an operator: what it works out once per parent, and what it does not hold on to."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

from evo.operators import RULES, Context, operators
from evo.operators.rules import Application, RuleOperator
from evo.operators.rules.rule import RuleContext
from evo.spec.task import load_task
from evo.spec.variant import Variant, parse_variant, read_variant

ROOT = Path(__file__).resolve().parents[3]
TASK = load_task(ROOT, "attention")
SCALAR = read_variant(ROOT / "kernels" / "attention" / "ladder" / "00_scalar.cu")


def _all_of(operator: RuleOperator, parent: Variant, *, seed: int = 1) -> list[str]:
    rng, tried, texts = random.Random(seed), {parent.id}, []
    while (offer := operator.propose(parent, rng=rng, context=Context(task=TASK, tried=tried))) is not None:
        texts.append(offer.text)
        tried.add(parse_variant(offer.text).id)
    return texts


def test_places_are_looked_for_once_per_parent_and_anew_for_the_next() -> None:
    looked: list[str] = []
    knobs = next(rule for rule in RULES if rule.family == "knob")

    def find(ctx: RuleContext) -> Iterator[Application]:
        looked.append(ctx.variant.id)
        yield from knobs.find(ctx)

    operator = RuleOperator("knob", (dataclasses.replace(knobs, find=find),))
    first = _all_of(operator, SCALAR)
    assert len(first) > 3
    assert looked == [SCALAR.id]

    child = parse_variant(first[0])
    assert SCALAR.text in _all_of(operator, child)  # from the child the way leads back
    assert looked == [SCALAR.id, child.id]


def test_an_operator_that_was_asked_before_offers_what_a_fresh_one_does() -> None:
    (used,), (fresh,) = operators(["rules.unroll"]), operators(["rules.unroll"])
    other = read_variant(ROOT / "kernels" / "attention" / "ladder" / "10_shared.cu")
    assert isinstance(used, RuleOperator)
    assert isinstance(fresh, RuleOperator)
    _all_of(used, SCALAR, seed=5)
    _all_of(used, other, seed=2)
    offers = _all_of(used, SCALAR)
    assert offers
    assert offers == _all_of(fresh, SCALAR)
