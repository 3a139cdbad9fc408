"""A family of rules as an operator: which place of which rule is proposed next."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable

from evo.cuda.source import classify, tree_difference
from evo.operators.one_change import clutter
from evo.operators.proposal import Context, Proposal
from evo.operators.rules.rule import Application, Rule
from evo.spec.chips import Chip
from evo.spec.recent_cache import RecentCache
from evo.spec.task import Task
from evo.spec.variant import Variant

PARENTS = 2  # whose places are kept: the champion's, and those of what may replace it
_KEPT = 2_000  # rules of parents, whose places are kept: some thirty texts, as plans for two parents come by
_LOSER = 100  # ranks that a change falls behind if it has failed in this run


class RulePlace:
    """Where one rule applies to one parent, and what comes of it, worked out when it is first asked for."""

    def __init__(self, parent: Variant, rule: Rule, application: Application) -> None:
        self.parent, self.rule, self.application = parent, rule, application
        self.key = change_key(rule, application)

    @property
    def rank(self) -> int:
        return self.application.rank

    @functools.cached_property
    def child(self) -> Variant | None:
        return self.rule.build(self.parent, self.application)

    @functools.cached_property
    def is_one_change(self) -> bool:
        """Whether it can be shown to be one; a rule may not be able to at every place."""
        if self.child is None:
            return False
        if self.application.is_schedule:
            return clutter(self.parent.text, self.child.text) is None
        return classify(tree_difference(self.parent.text, self.child.text)).is_single

    def proposal(self, context: Context) -> Proposal | None:
        """The child, if it is one change and may be launched."""
        rule, child = self.rule, self.child
        if child is None or not self.is_one_change or not context.fits(child):
            return None
        return Proposal(
            operator=f"rules.{rule.family}",
            kind="schedule" if self.application.is_schedule else "mutation",
            variant=child,
            summary=self.application.summary,
            reason=rule.reason,
            expected=rule.expected,
            risk=rule.risk,
            next_if_kept=rule.next_if_kept,
            next_if_reverted=rule.next_if_reverted,
            arguments={"rule": rule.name, "change_key": self.key, **self.application.arguments},
        )


def places_of(rule: Rule, parent: Variant, task: Task, chip: Chip | None) -> list[RulePlace]:
    """Where a rule applies to a parent; kept, since plans ask for a rule's places again and again."""

    def made() -> tuple[Rule, Task, list[RulePlace]]:
        found = rule.applications(parent, flags=task.flags, axes=integers_of(task), task=task, chip=chip)
        return rule, task, [RulePlace(parent, rule, each) for each in found]

    # The rule and the task are kept, so their ids are.
    return _PLACES.made((id(rule), id(task), parent.text, chip.slug if chip is not None else ""), made)[2]


_PLACES: RecentCache[tuple[Rule, Task, list[RulePlace]]] = RecentCache(_KEPT)


class RuleOperator:
    """All rules of one family as one arm: lowest rank first, drawn by the generator within a rank."""

    def __init__(self, family: str, rules: tuple[Rule, ...]) -> None:
        self.name = f"rules.{family}"
        self.rules = rules
        self._places: RecentCache[list[RulePlace]] = RecentCache(PARENTS)

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        places = [
            (place.rank + (_LOSER if place.key in context.losers else 0), rng.random(), place)
            for place in self._all(parent, context.task, context.chip)
        ]
        for _, _, place in _in_turn(places):
            if place.child is None or place.child.id in context.tried:
                continue
            if (proposal := place.proposal(context)) is not None:
                return proposal
        return None

    def _all(self, parent: Variant, task: Task, chip: Chip | None) -> list[RulePlace]:
        """Every place of every rule; kept, since a parent is asked about for as many proposals as are screened."""
        flags, axes = task.flags, integers_of(task)
        return self._places.made(
            (parent.text, flags, axes),
            lambda: [place for rule in self.rules for place in places_of(rule, parent, task, chip)],
        )


def integers_of(task: Task) -> tuple[str, ...]:
    """What a kernel takes as its last parameters of 32 bits: the axes' names, behind an empty one for each scalar."""
    return (*("" for scalar in task.scalars if scalar.dtype == "int32"), *task.axes)


def _in_turn(places: Iterable[tuple[int, float, RulePlace]]) -> list[tuple[int, float, RulePlace]]:
    """By rank; within a rank the rules take turns, so that one with many places does not crowd the others out."""
    seen: dict[tuple[int, str], int] = {}
    turns = []
    for place in sorted(places, key=lambda place: place[:2]):
        key = (place[0], place[2].rule.name)
        seen[key] = seen.get(key, 0) + 1
        turns.append((seen[key], place))
    return [place for _, place in sorted(turns, key=lambda turn: (turn[1][0], turn[0], turn[1][1]))]


def change_key(rule: Rule, application: Application) -> str:
    """What a change is, apart from where it started: the same for `64 -> 128` and `32 -> 128`."""
    chosen = {name: value for name, value in application.arguments.items() if name not in ("from", "line")}
    return json.dumps({"rule": rule.name, **chosen}, sort_keys=True)
