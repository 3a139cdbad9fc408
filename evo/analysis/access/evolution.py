"""Integers that a loop changes under conditions: rings that start again, counters of their rounds, steps while a guard
holds, and changes in one turn only. From what one turn does to what any number of turns do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evo.analysis.access.comparisons import Compare, Condition, at_least
from evo.analysis.access.induction import ratio
from evo.analysis.access.simplify import choose, divide, larger, rebuilt, remainder, smaller
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import ONE, ZERO, Op, Symbol, Term

_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Evolution:
    """The numbers of a loop, each by the symbol that stands for it at the beginning of a turn.

    first: before the loop; after: what a turn makes of it; steps: of those that every turn moves by the same amount.
    """

    bounds: Bounds
    first: Mapping[Symbol, Term]
    after: Mapping[Symbol, Term]
    steps: Mapping[Symbol, Term]
    depth: int = 0

    def turned(self, phi: Symbol, turns: Term) -> Term | None:
        """The number after so many turns, if there is a formula."""
        now, first = self.after.get(phi), self.first.get(phi)
        if now is None or first is None or self.depth > _DEEPEST:
            return None
        if now == Term.of(phi):
            return first
        step = now - Term.of(phi)
        if not self._changes(step):
            return first + step * turns
        if not self._changes(now):  # set anew in every turn
            return choose(self.bounds, at_least(turns, ONE), now, first)
        choice = self._choice(phi)
        if choice is None:
            return None
        condition, left, right = choice
        ring = self._ring(condition)
        if ring is not None:
            return self._around(phi, turns, condition, left, right, ring)
        return self._guarded(phi, turns, condition, left, right)

    def _changes(self, term: Term) -> bool:
        return any(symbol in self.first for symbol in term.symbols())

    def _choice(self, phi: Symbol) -> tuple[Condition, Term, Term] | None:
        """condition ? left : right, of a number's change; a displacement around it is put inside."""
        now = self.after[phi]
        for mono in now.parts:
            for atom in mono:
                if isinstance(atom, Op) and atom.name == "select" and mono == (atom,) and now.parts[mono] == 1:
                    rest = now - Term.of(atom)
                    condition, (left, right) = atom.args[0], atom.terms
                    assert isinstance(condition, Condition)
                    return condition, left + rest, right + rest
        return None

    # Rings: x = x + s reaches a limit ? x0 : x + s.

    def _ring(self, condition: Condition) -> tuple[Symbol, Term, Term, Term] | None:
        """A number that the condition sets back to where a round begins.

        (number, turns of a round, its value in the last turn of one, how far into a round it begins)
        """
        if not isinstance(condition, Compare):
            return None
        for phi in condition.symbols() & self.first.keys():
            choice = self._choice(phi)
            if choice is None or choice[0] != condition:
                continue
            weight, step = condition.term.coefficient(phi), choice[2] - Term.of(phi)
            begin = choice[1]
            if weight is None or weight.value is None or self._changes(step) or self._changes(begin):
                continue
            rest = condition.term - weight * Term.of(phi)
            phase = ratio(self.first[phi] - begin, step)
            if self._changes(rest) or phase is None:
                continue
            last = self._last_turn(condition.relation, weight.value, rest, begin, step)
            if last is not None and self.bounds.within(phase, last + 1):
                return phi, last + 1, begin + step * last, phase
        return None

    def _last_turn(self, relation: str, weight: int, rest: Term, first: Term, step: Term) -> Term | None:
        if relation == "==" and weight in (1, -1):
            return divide(self.bounds, rest * -weight - first, step)
        if relation == ">=" and weight > 0 and self.bounds.nonnegative(step - 1):
            by = step * weight
            return larger(self.bounds, ZERO, divide(self.bounds, by - 1 - rest - first * weight, by))
        return None

    def _around(
        self, phi: Symbol, turns: Term, condition: Condition, left: Term, right: Term,
        ring: tuple[Symbol, Term, Term, Term],
    ) -> Term | None:  # fmt: skip
        wraps, cycle, last, phase = ring
        rounds = divide(self.bounds, turns + phase, cycle)
        if wraps == phi:
            step = right - Term.of(phi)
            return left + step * remainder(self.bounds, turns + phase, cycle)
        at_end = {wraps: last}
        if right == Term.of(phi):
            return self._peeled(condition, at_end).turned(phi, rounds)
        a, b = (left - Term.of(phi)).substitute(at_end), right - Term.of(phi)
        if self._changes(a) or self._changes(b):
            return None
        return self.first[phi] + b * turns + (a - b) * rounds

    def _peeled(self, condition: Condition, values: Mapping[Symbol, Term]) -> Evolution:
        """The numbers in the turns alone in which the condition holds; those that change in others are left out."""
        after: dict[Symbol, Term] = {}
        for phi, now in self.after.items():
            choice = self._choice(phi)
            if now == Term.of(phi):
                after[phi] = now
            elif choice is not None and choice[0] == condition and choice[2] == Term.of(phi):
                after[phi] = choice[1].substitute(values, lambda op: rebuilt(self.bounds, op))
        first = {phi: start for phi, start in self.first.items() if phi in after or phi not in values}
        return replace(self, first=first, after=after, steps={}, depth=self.depth + 1)

    # Guards: x = the turn is early enough ? x + s : x.

    def _guarded(self, phi: Symbol, turns: Term, condition: Condition, left: Term, right: Term) -> Term | None:
        turn = Symbol("turn", "loop", 1 << 40)
        moved = condition.substitute({p: self.first[p] + by * Term.of(turn) for p, by in self.steps.items()})
        if not isinstance(moved, Compare) or any(symbol in self.first for symbol in moved.symbols()):
            return None
        weight = moved.term.coefficient(turn)
        if weight is None:
            return None
        if not weight.parts:  # the same in every turn
            sides = [self._taking(phi, side).turned(phi, turns) for side in (left, right)]
            if sides[0] is None or sides[1] is None:
                return None
            return choose(self.bounds, condition, sides[0], sides[1])
        rest = moved.term - weight * Term.of(turn)
        if moved.relation == "==":
            return self._once(phi, turns, weight, rest, left, right)
        if moved.relation != ">=":
            return None
        if self.bounds.nonnegative(-weight):  # holds at first
            ends = larger(self.bounds, ZERO, divide(self.bounds, rest - weight, -weight))
            count = smaller(self.bounds, turns, ends)
            if right == Term.of(phi):
                return self._peeled(condition, {}).turned(phi, count)
        elif self.bounds.nonnegative(weight):
            begins = larger(self.bounds, ZERO, divide(self.bounds, weight - 1 - rest, weight))
            count = larger(self.bounds, ZERO, turns - begins)
        else:
            return None
        a, b = left - Term.of(phi), right - Term.of(phi)
        if self._changes(a) or self._changes(b):
            return None
        return self.first[phi] + b * turns + (a - b) * count

    def _taking(self, phi: Symbol, side: Term) -> Evolution:
        return replace(self, after={**self.after, phi: side}, depth=self.depth + 1)

    def _once(self, phi: Symbol, turns: Term, weight: Term, rest: Term, left: Term, right: Term) -> Term | None:
        """A change in one turn only: `if (step == 0) x = f(x);`."""
        if right != Term.of(phi) or weight.value not in (1, -1):
            return None
        when = rest * -(weight.value or 1)
        values: dict[Symbol, Term] = {}
        for other in left.symbols() & self.first.keys():
            if other in self.steps:
                values[other] = self.first[other] + self.steps[other] * when
            elif other == phi:
                values[other] = self.first[other]
            else:
                earlier = replace(self, depth=self.depth + 1).turned(other, when)
                if earlier is None:
                    return None
                values[other] = earlier
        changed = left.substitute(values, lambda op: rebuilt(self.bounds, op))
        if not self.bounds.nonnegative(when):
            return None
        return choose(self.bounds, at_least(turns - when, ONE), changed, self.first[phi])
