"""Which change is tried next: a bandit over operators, and on the simulator a quick screening of what they offer.

Each operator is an arm. Its reward is the logarithm of the gain where a proposal was kept and 0 where it was not, so
that big gains found seldom and small ones found often are weighed on one scale. Untried arms are drawn optimistically
(UCB1, Auer et al. 2002); ties are broken by the generator that is passed in.

With a screen, small edits are estimated on a few blocks before one of them becomes a trial: the best is tried if it
looks like it will pass the margin, and otherwise the ladder's next rung. So a rung is tuned before it is left.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evo.mutate import Context, Operator, Proposal
from evo.variant import Variant, parse_variant

# About what each kind of change is hoped to bring before anything is known, as logarithms of gain: a rung rewrites the
# kernel, a knob moves its structure, most other edits touch a few instructions.
_PRIOR_REWARD = {"ladder": 0.4, "patch": 1.0, "rules.knob": 0.2}
_PRIOR_ELSE = 0.1
_PRIOR_TRIALS = 1.0
_EXPLORATION = 0.08  # scale of the confidence bonus, in the same units
_DRAWS = {"rules.knob": 4, "rules.unroll": 2}  # proposals screened per step; one of every other arm

Screen = Callable[[Sequence[str]], Sequence[float | None]]
"""Texts to modelled gain over the parent (None: not estimated)."""


@dataclass(slots=True)
class Arm:
    """What one operator has brought so far."""

    operator: Operator
    trials: int = 0
    reward: float = 0.0

    def score(self, total: int) -> float:
        prior = _PRIOR_REWARD.get(self.operator.name, _PRIOR_ELSE)
        mean = (self.reward + prior * _PRIOR_TRIALS) / (self.trials + _PRIOR_TRIALS)
        return mean + _EXPLORATION * math.sqrt(math.log(total + math.e) / (self.trials + 1))


class Search:
    """Asks operators for proposals and learns from what became of them. `margin` is what a gain has to pass."""

    def __init__(self, operators: Sequence[Operator], rng: random.Random, *, margin: float) -> None:
        self._arms = [Arm(operator) for operator in operators]
        self._rng = rng
        self._needed = 1 / (1 - margin)
        self._parent = ""
        self._screened: dict[str, tuple[float, Proposal]] = {}  # by variant id, for this parent

    def ask(self, parent: Variant, context: Context, screen: Screen | None = None) -> Proposal | None:
        """The next proposal, or None when no operator has one left."""
        if screen is None:
            return self._first(self._order(), parent, context)
        small = [arm for arm in self._order() if arm.operator.name.startswith("rules")]
        large = [arm for arm in self._order() if not arm.operator.name.startswith("rules")]
        best = self._screen(small, parent, context, screen)
        if best is not None and best[0] > self._needed:
            return best[1]
        return self._first(large, parent, context) or (best[1] if best else None)

    def tell(self, operator: str, gain: float | None) -> None:
        """Record what a proposal of this operator brought: its gain ratio if kept, else None."""
        for arm in self._arms:
            if arm.operator.name == operator:
                arm.trials += 1
                arm.reward += math.log(gain) if gain is not None else 0.0

    def _order(self) -> list[Arm]:
        total = sum(arm.trials for arm in self._arms)
        return sorted(self._arms, key=lambda arm: (-arm.score(total), self._rng.random()))

    def _first(self, arms: Sequence[Arm], parent: Variant, context: Context) -> Proposal | None:
        offers = (arm.operator.propose(parent, rng=self._rng, context=context) for arm in arms)
        return next((offer for offer in offers if offer is not None), None)

    def _screen(
        self, arms: Sequence[Arm], parent: Variant, context: Context, screen: Screen
    ) -> tuple[float, Proposal] | None:
        """Draw and estimate a few small edits; the best of all that were estimated for this parent and not tried."""
        if parent.id != self._parent:
            self._parent, self._screened = parent.id, {}
        drawn: dict[str, Proposal] = {}
        for arm in arms:
            for _ in range(_DRAWS.get(arm.operator.name, 1)):
                seen = {*context.tried, *self._screened, *drawn}
                offer = arm.operator.propose(parent, rng=self._rng, context=replace(context, tried=seen))
                if offer is None:
                    break
                drawn[parse_variant(offer.text).id] = offer
        for (variant, offer), gain in zip(drawn.items(), screen([offer.text for offer in drawn.values()]), strict=True):
            note = f"{offer.expected}; a quick estimate says {gain:.2f}x" if gain else offer.expected
            self._screened[variant] = (gain or 0.0, replace(offer, expected=note))
        left = [found for variant, found in self._screened.items() if variant not in context.tried]
        return max(left, key=lambda found: found[0], default=None)
