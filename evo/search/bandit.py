"""The bandit over operators that chooses the next change, and on the simulator a quick screening of their proposals.

Each operator is an arm. Its reward is the logarithm of the gain where a proposal was kept and 0 if it was not, so
that big gains found seldom and small ones found often are weighed on one scale, over what its trials cost: a text that
the compiler refuses costs little, one that is timed costs a whole trial. Untried arms are drawn optimistically (UCB1,
Auer et al. 2002), starting from what earlier runs have shown; ties are broken by the generator that is passed in.

With a screen, small edits are estimated on a few blocks before one of them becomes a trial: the best is tried if it
looks like it will pass the margin, and otherwise the ladder's next rung. So a rung is tuned before it is left. Where
looks are modelled, rungs are looked at too, all that are left at once, and one that is far slower than the parent is
passed over. A first look is made in rounds. A modelled one ends with the first round that betters by no margin what the
ones before it found: a trial costs as much as many looks, and the change that pays most is to come first. Where looks
are measured (`eager` is false) there is one when the bandit's choice falls on a small edit, and it ends with the first
gain that shows: a kept change makes every look at its parent worthless. A small edit whose look does not show what is
`worth` a trial becomes none: a few more are looked at, and then the search is over.

Two plain searches stand beside it as controls: `random` takes any operator with the same chance and learns nothing,
`best-of-n` does so from the first champion each time, so that gains never build on one another.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evo.operators import Context, Operator, Proposal
from evo.results import Status
from evo.spec.variant import Variant

# About what each kind of change is hoped to bring before anything is known, as logarithms of gain: a rung rewrites the
# kernel, work moved between threads changes what it is bound by, most other edits touch a few instructions.
_PRIOR_REWARD = {
    "ladder": 0.4,
    "derive": 0.5,
    "patch": 1.0,
    "rules.work": 0.6,
    "rules.vector": 0.25,
    "rules.knob": 0.2,
    "rules.plan": 0.4,
    "rules.tile": 0.6,
}
_PRIOR_REWARD |= {"rules.staging": 0.15, "rules.loop": 0.15, "rules.hoist": 0.12, "rules.bounds": 0.08}
_PRIOR_ELSE = 0.06
_PRIOR_TRIALS = 1.0
_EARLIER_TRIALS = 3.0  # what earlier runs count at most, in trials of this one
_EXPLORATION = 0.08  # scale of the confidence bonus, in the same units
# Edits in all rounds of a first look. A tile changes what a kernel is bound by, and what is kept before it may hide the
# loops that it needs: four are in the first round.
_FIRST_DRAWS = {
    "rules.tile": 16,
    "rules.knob": 20,
    "rules.work": 12,
    "rules.vector": 3,
    "rules.loop": 3,
    "rules.unroll": 2,
    "rules.staging": 2,
    "rules.plan": 8,
}
_FIRST_ELSE = 1
_ROUNDS = 4  # that a first look at a parent is made in; the last ones are left out where an early one finds a gain
# Once the first look at a parent is over: edits of a round, of one operator among them, and how many rounds without an
# edit that is worth a trial are the last. A round has costs of its own (the parent's times, a compiler's latency): they
# are small beside modelled looks, and more than those of measured ones.
_LATER_MODELLED = (6, 1, 6)
_LATER_MEASURED = (18, 2, 3)
_FAR = 0.75  # of the parent's speed by a first look: knobs seldom make that good, so a rung below becomes no trial
_COSTS = {Status.UNCOMPILED: 0.2, Status.REFUSED: 0.1}  # of a whole trial
_COST_ELSE = 0.5  # ended at the gate

Screen = Callable[[Sequence[Proposal]], Sequence[float | None]]
"""Proposals to their gain over the parent by a first look (None: they came to no time)."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What earlier runs say of an operator: trials, and the sum of the logarithms of the gains that were kept."""

    trials: float
    reward: float


def cost_of(status: Status) -> float:
    """The share of a whole trial that a variant with this status has cost; the same on every machine."""
    return 1.0 if status.passed else _COSTS.get(status, _COST_ELSE)


@dataclass(slots=True)
class Arm:
    """What one operator has brought so far."""

    operator: Operator
    trials: float = 0.0
    reward: float = 0.0
    cost: float = 0.0

    def score(self, total: float) -> float:
        prior = _PRIOR_REWARD.get(self.operator.name, _PRIOR_ELSE)
        mean = (self.reward + prior * _PRIOR_TRIALS) / (self.cost + _PRIOR_TRIALS)
        return mean + _EXPLORATION * math.sqrt(math.log(total + math.e) / (self.trials + 1))


class OperatorBandit:
    """Asks operators for proposals and learns from what became of them. margin: the gain that a kept change needs."""

    def __init__(
        self,
        operators: Sequence[Operator],
        rng: random.Random,
        *,
        margin: float,
        search: str = "bandit",
        eager: bool = True,
        priors: Mapping[str, Prior] | None = None,
        worth: float = 0.0,
    ) -> None:
        """worth: the gain that a first look has to show before a small edit becomes a trial."""
        self._arms = [Arm(operator) for operator in operators]
        for arm in self._arms:
            if (prior := (priors or {}).get(arm.operator.name)) is not None and prior.trials:
                share = min(1.0, _EARLIER_TRIALS / prior.trials)
                arm.trials, arm.reward, arm.cost = (share * v for v in (prior.trials, prior.reward, prior.trials))
        self._rng = rng
        self._search = search
        self._eager = eager
        self._later, self._later_each, self._fruitless = _LATER_MODELLED if eager else _LATER_MEASURED
        self._needed = 1 / (1 - margin)
        self._worth = worth
        self._looks: dict[str, dict[str, tuple[float, Proposal]]] = {}  # parent -> what was screened, by variant
        self._screened: dict[str, tuple[float, Proposal]] = {}  # for this parent
        self._next: dict[str, dict[str, Proposal]] = {}  # parent -> the round after those, drawn ahead
        self._rounds: dict[str, int] = {}  # parent -> rounds of the first look that were made
        self._rungs: dict[str, float | None] = {}  # gains of rungs over the champion by a first look
        self.passed_over: dict[str, float] = {}  # of these, by the proposal's summary

    def ask(
        self,
        parent: Variant,
        context: Context,
        screen: Screen | None = None,
        soon: Callable[[Sequence[str]], object] = len,
        *,
        brief: bool = False,
    ) -> Proposal | None:
        """The next proposal, or None when no operator has one left.

        soon: hears the texts of the next round before those of this one are looked at, where looks are measured.
        brief: one round of looks at this parent, and no more.
        """
        if self._search != "bandit":
            return self._first(self._shuffled(), parent, context)
        if screen is None:
            return self._first(self._order(), parent, context)
        order = self._order()
        small = [arm for arm in order if arm.operator.name.startswith("rules")]
        large = [arm for arm in order if not arm.operator.name.startswith("rules")]
        if not self._eager and order[0] in large and (offer := self._large(order[:1], parent, context, screen)):
            return offer
        best = self._screen(small, parent, context, screen, soon, brief)
        if best is not None and best[0] > self._needed:
            return best[1]
        return self._large(large, parent, context, screen) or (best[1] if best else None)

    def preview(self, parent: Variant, context: Context) -> list[Proposal]:
        """What the next look at a parent's edits would be taken at: the operators then know it when they are asked."""
        if self._next.get(parent.id):
            return []  # they have been told already
        small = [arm for arm in self._order() if arm.operator.name.startswith("rules")]
        self._screened = self._looks.get(parent.id, {})
        drawn = self._drawn(small, parent, context, self._rounds.get(parent.id, 0))
        return list(drawn.values())

    def reseed(self, rng: random.Random) -> None:
        """Draw from another generator: one per trial, so that a run that was interrupted goes on alike."""
        self._rng = rng

    def tell(self, operator: str, gain: float | None, *, status: Status = Status.CORRECT) -> None:
        """Record what a proposal of this operator brought: its gain ratio if kept, else None, and how far it got."""
        if gain is not None:
            self._rungs = {variant: look and look / gain for variant, look in self._rungs.items()}
            self._looks.clear()
            self._rounds.clear()
            self._next.clear()
        for arm in self._arms:
            if arm.operator.name == operator:
                arm.trials += 1
                arm.cost += cost_of(status)
                arm.reward += math.log(gain) if gain is not None else 0.0

    def _order(self) -> list[Arm]:
        total = sum(arm.trials for arm in self._arms)
        return sorted(self._arms, key=lambda arm: (-arm.score(total), self._rng.random()))

    def _shuffled(self) -> list[Arm]:
        return sorted(self._arms, key=lambda _: self._rng.random())

    def _first(self, arms: Sequence[Arm], parent: Variant, context: Context) -> Proposal | None:
        offers = (arm.operator.propose(parent, rng=self._rng, context=context) for arm in arms)
        return next((offer for offer in offers if offer is not None), None)

    def _large(self, arms: Sequence[Arm], parent: Variant, context: Context, screen: Screen) -> Proposal | None:
        """The first proposal of an operator of large changes, but for rungs that are far slower."""
        for arm in arms:
            offers = self._offers(arm, parent, context)
            unknown = [offer for offer in offers if offer.kind == "rung" and offer.variant.id not in self._rungs]
            if unknown and self._eager:  # on a GPU a rung could lose the driver before those ahead have a verdict
                looks = screen(unknown)
                self._rungs |= {offer.variant.id: gain for offer, gain in zip(unknown, looks, strict=True)}
            for offer in offers:
                look = self._rungs.get(offer.variant.id)
                if look is None or look >= _FAR:
                    return offer
                self.passed_over[offer.summary] = look
        return None

    def _offers(self, arm: Arm, parent: Variant, context: Context) -> list[Proposal]:
        """What an operator proposes: one change, or all rungs that are left."""
        found: list[Proposal] = []
        while (offer := arm.operator.propose(parent, rng=self._rng, context=context)) is not None:
            found.append(offer)
            rung = offer.arguments.get("rung") if offer.kind == "rung" else None
            if not isinstance(rung, str) or rung in context.rungs_tried:
                break
            context = replace(context, rungs_tried={*context.rungs_tried, rung})
        return found

    def _screen(
        self,
        arms: Sequence[Arm],
        parent: Variant,
        context: Context,
        screen: Screen,
        soon: Callable[[Sequence[str]], object],
        brief: bool,
    ) -> tuple[float, Proposal] | None:
        """Draw and estimate small edits, many at first sight of a parent; the best of all that are worth a trial."""
        self._screened = self._looks.setdefault(parent.id, {})
        fruitless, before = 0, math.inf  # a gain that was found earlier is taken
        while True:
            best, done = self._best_left(context), self._rounds.get(parent.id, 0)
            if best is not None and best[0] > self._needed and (best[0] <= before * self._needed or done >= _ROUNDS):
                return best  # what was found promising is tried before more is looked for
            before = max(1.0, best[0] if best is not None else 1.0) if self._eager else math.inf
            self._rounds[parent.id] = done + 1
            drawn = self._round(arms, parent, context, done)
            soon([offer.text for offer in self._next.get(parent.id, {}).values()])
            self._look(drawn, screen)
            fruitless += brief or done + 1 >= _ROUNDS
            if fruitless:
                best = self._best_left(context)
                if best is not None and self._is_worth(best[0]):
                    return best
            if brief or fruitless >= self._fruitless or (done >= _ROUNDS and not drawn):
                return None

    def _round(self, arms: Sequence[Arm], parent: Variant, context: Context, done: int) -> dict[str, Proposal]:
        """The edits of this round; those of the next one are drawn too where looks are measured, to be compiled."""
        before = self._next.pop(parent.id, {})
        drawn = {variant: offer for variant, offer in before.items() if variant not in context.tried}
        drawn = drawn or self._drawn(arms, parent, context, done)
        if not self._eager and done:  # the first round often finds what is tried, and then the rest is not looked at
            context = replace(context, tried={*context.tried, *drawn})
            self._next[parent.id] = self._drawn(arms, parent, context, done + 1)
        return drawn

    def _drawn(self, arms: Sequence[Arm], parent: Variant, context: Context, done: int) -> dict[str, Proposal]:
        """Small edits for the next round of looks; after the first look, some of each operator that has any left."""
        drawn: dict[str, Proposal] = {}
        looks = sorted(self._screened.values(), key=lambda found: -found[0])
        for arm in arms:
            if done >= _ROUNDS and len(drawn) >= self._later:
                break
            most = _FIRST_DRAWS.get(arm.operator.name, _FIRST_ELSE)
            share = math.ceil(most * (done + 1) / _ROUNDS) - math.ceil(most * done / _ROUNDS)
            for _ in range(share if done < _ROUNDS else self._later_each):
                seen = {*context.tried, *self._screened, *drawn}
                offer = arm.operator.propose(parent, rng=self._rng, context=replace(context, tried=seen, looks=looks))
                if offer is None:
                    break
                drawn[offer.variant.id] = offer
        return drawn

    def _look(self, drawn: Mapping[str, Proposal], screen: Screen) -> None:
        if not drawn:
            return
        for (variant, offer), gain in zip(drawn.items(), screen(list(drawn.values())), strict=True):
            note = f"{offer.expected}; a quick estimate says {gain:.2f}x" if gain else offer.expected
            self._screened[variant] = (gain or 0.0, replace(offer, expected=note, promise=gain))

    def _is_worth(self, gain: float) -> bool:
        """Whether a look shows enough for a trial; where no edit of the parent could be looked at, every one does."""
        return gain >= self._worth or not any(seen for seen, _ in self._screened.values())

    def _best_left(self, context: Context) -> tuple[float, Proposal] | None:
        left = [found for variant, found in self._screened.items() if variant not in context.tried]
        return max(left, key=lambda found: found[0], default=None)
