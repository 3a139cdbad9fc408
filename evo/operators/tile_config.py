"""Knob values that follow from the chip: what `evo derive` would choose, set in the rung that the parent stands on."""

from __future__ import annotations

import random

from evo.analysis.tiles import over_cases
from evo.operators.proposal import Context, OperatorDoc, Proposal
from evo.results import Json
from evo.spec.variant import KnobValue, Variant

# A hybrid search turns to the hardware after so many trials without a keep, below this share of its target.
STALLED_AFTER, INVERT_BELOW = 3, 0.6
_OFFERED = 4  # configurations of one parent; further down the model says little
DOC = OperatorDoc(
    name="derive",
    family="derive",
    sentence="Sets all tile knobs of the parent at once to what `evo derive` chooses for the chip over all scored"
    f" cases, the best {_OFFERED} configurations one after the other.",
)


class TileConfigOperator:
    """The derived configurations of a task on a chip, as far as the parent has knobs of their names.

    patient: only if the search has stalled far from its target.
    """

    name = "derive"

    def __init__(self, *, patient: bool = False) -> None:
        self._patient = patient
        self._ranked: dict[tuple[str, str], tuple[dict[str, int], ...]] = {}

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The best configuration that is not the parent's and was not tried; None if there is none."""
        del rng  # the order is the model's
        if context.chip is None or context.task.choices is None or (self._patient and not context.stalled):
            return None
        key = (context.task.hash, context.chip.slug)
        if key not in self._ranked:
            self._ranked[key] = over_cases(context.task, context.chip)
        domains = {knob.name: knob.domain for knob in parent.knobs}
        offered: list[dict[str, int]] = []
        for tile in self._ranked[key]:
            knobs = {name: value for name, value in tile.items() if name in domains}
            if len(knobs) < min(2, len(tile)) or knobs in offered:
                continue
            if any(value not in domains[name] for name, value in knobs.items()):
                continue
            offered.append(knobs)
            if len(offered) > _OFFERED:
                return None
            changed: dict[str, KnobValue] = {n: v for n, v in knobs.items() if parent.knob_values[n] != v}
            if not changed:
                continue
            child = parent.with_knobs(changed)
            if child.id not in context.tried and context.fits(child):
                return _proposal(parent, child, changed, context.chip.slug, len(offered))
        return None


def _proposal(parent: Variant, child: Variant, changed: dict[str, KnobValue], chip: str, place: int) -> Proposal:
    moves = ", ".join(f"{name} {parent.knob_values[name]} -> {value}" for name, value in changed.items())
    arguments: dict[str, Json] = {"knobs": dict[str, Json](changed), "place": place}
    return Proposal(
        operator="derive",
        kind="mutation",
        variant=child,
        summary=moves,
        reason=f"derived from {chip}: configuration {place} of those that are legal at every scored case",
        expected="fewer idle SMs or less traffic, by the model that ordered them; only the margin decides",
        risk="registers are estimated before the compiler speaks; the order is a model",
        next_if_kept="small edits around it",
        next_if_reverted="the next configuration",
        arguments=arguments,
    )
