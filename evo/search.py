"""Which operator is asked next: a bandit over measured effect.

Each operator is an arm. Its reward is the logarithm of the gain where a proposal was kept and 0 where it was not, so
that big gains found seldom and small ones found often are weighed on one scale. Untried arms are drawn optimistically
(UCB1, Auer et al. 2002); ties are broken by the generator that is passed in.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from evo.mutate import Context, Operator, Proposal
from evo.variant import Variant

_PRIOR_REWARD = 0.15  # about a 16 % gain: what an untried operator is hoped to bring
_PRIOR_TRIALS = 1.0
_EXPLORATION = 0.08  # scale of the confidence bonus, in units of log gain


@dataclass(slots=True)
class Arm:
    """What one operator has brought so far."""

    operator: Operator
    trials: int = 0
    reward: float = 0.0

    def score(self, total: int) -> float:
        mean = (self.reward + _PRIOR_REWARD * _PRIOR_TRIALS) / (self.trials + _PRIOR_TRIALS)
        return mean + _EXPLORATION * math.sqrt(math.log(total + math.e) / (self.trials + 1))


class Search:
    """Asks operators for proposals, best arm first, and learns from what became of them."""

    def __init__(self, operators: Sequence[Operator], rng: random.Random) -> None:
        self._arms = [Arm(operator) for operator in operators]
        self._rng = rng

    def ask(self, parent: Variant, context: Context) -> Proposal | None:
        """The next proposal, or None when no operator has one left."""
        total = sum(arm.trials for arm in self._arms)
        order = sorted(self._arms, key=lambda arm: (-arm.score(total), self._rng.random()))
        for arm in order:
            proposal = arm.operator.propose(parent, rng=self._rng, context=context)
            if proposal is not None:
                return proposal
        return None

    def tell(self, operator: str, gain: float | None) -> None:
        """Record what a proposal of this operator brought: its gain ratio if kept, else None."""
        for arm in self._arms:
            if arm.operator.name == operator:
                arm.trials += 1
                arm.reward += math.log(gain) if gain is not None else 0.0
