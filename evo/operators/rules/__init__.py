"""Source transforms with examples: one file per family, one arm of the bandit per family."""

from __future__ import annotations

from evo.operators.rules import (
    ahead,
    arithmetic,
    batch,
    blocks,
    cache_hints,
    coarsen,
    early,
    elements,
    exponent,
    flags,
    hoist,
    knobs,
    lanes,
    launch_bounds,
    layout,
    loads,
    order,
    pairs,
    shared,
    sizes,
    slices,
    splits,
    sums,
    tiles,
    trade,
    unroll,
    vector,
)
from evo.operators.rules.rule import Application, Example, Rule, RuleOperator, Scene, example_variant

RULES: tuple[Rule, ...] = (
    *knobs.RULES,
    *blocks.RULES,
    *launch_bounds.RULES,
    *unroll.RULES,
    *layout.RULES,
    *coarsen.RULES,
    *lanes.RULES,
    *slices.RULES,
    *trade.RULES,
    *splits.RULES,
    *cache_hints.RULES,
    *order.RULES,
    *hoist.RULES,
    *vector.RULES,
    *elements.RULES,
    *batch.RULES,
    *sums.RULES,
    *shared.RULES,
    *tiles.RULES,
    *ahead.RULES,
    *early.RULES,
    *sizes.RULES,
    *loads.RULES,
    *exponent.RULES,
    *arithmetic.RULES,
    *pairs.RULES,
    *flags.RULES,
)


def rule_operators() -> tuple[RuleOperator, ...]:
    """One operator per family, in the order of RULES."""
    families = dict.fromkeys(rule.family for rule in RULES)
    return tuple(RuleOperator(family, tuple(rule for rule in RULES if rule.family == family)) for family in families)


__all__ = ["RULES", "Application", "Example", "Rule", "RuleOperator", "Scene", "example_variant", "rule_operators"]
