"""Which of several models is asked next: a bandit by gain per cost.

An arm is a model, or a model at an effort. Its reward is the sum of the logarithms of the gains that were kept. Its
cost is what its exchanges cost: money if all models have a price, tokens otherwise, in units of the mean exchange of
all arms. Arms that were asked seldom are drawn optimistically (UCB1); ties go to the one that was named first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from evo.operators.llm.cost import ModelTotals, Usage
from evo.records.trials import Record
from evo.results.codec import copied

_PRIOR_REWARD = 0.1  # what one mean exchange is hoped to bring, as a logarithm of gain
_EXPLORATION = 0.1


@dataclass(slots=True)
class ModelArm:
    """What one model has used and brought. used: also its exchanges without a proposal."""

    name: str
    exchanges: int = 0
    used: Usage = field(default_factory=Usage)
    kept: int = 0
    reward: float = 0.0


class ModelBandit:
    """Chooses a model for each question, and learns from what became of it. in_money: whether all have a price."""

    def __init__(self, names: Sequence[str], *, in_money: bool) -> None:
        self._arms = {name: ModelArm(name) for name in names}
        self._in_money = in_money

    def choose(self) -> str:
        """The model of the next question, which counts as asked from now on."""
        total = sum(arm.exchanges for arm in self._arms.values())
        cost = sum(self._cost(arm) for arm in self._arms.values())
        unit = cost / total if total and cost else 1.0
        best = max(self._arms.values(), key=lambda arm: self._score(arm, unit, total))  # the first of equals
        best.exchanges += 1
        return best.name

    def used(self, name: str, usage: Usage) -> None:
        """What an exchange cost."""
        if name in self._arms:
            self._arms[name].used = self._arms[name].used.plus(usage)

    def recall(self, records: Sequence[Record]) -> None:
        """What the records of this run say of kept gains."""
        for arm in self._arms.values():
            own = [record for record in records if record.kept and record.arguments.get("model") == arm.name]
            arm.kept = len(own)
            arm.reward = sum(math.log(record.own_ratio) for record in own if record.own_ratio)

    @property
    def totals(self) -> tuple[ModelTotals, ...]:
        """By model; nothing if there is only one."""
        if len(self._arms) < 2:
            return ()
        return tuple(
            copied(ModelTotals, arm.used.report, model=arm.name, exchanges=arm.exchanges, kept=arm.kept)
            for arm in self._arms.values()
        )

    def _cost(self, arm: ModelArm) -> float:
        return (arm.used.money or 0.0) if self._in_money else float(arm.used.tokens)

    def _score(self, arm: ModelArm, unit: float, total: int) -> float:
        mean = (arm.reward + _PRIOR_REWARD) / (self._cost(arm) / unit + 1.0)
        return mean + _EXPLORATION * math.sqrt(math.log(total + math.e) / (arm.exchanges + 1))
