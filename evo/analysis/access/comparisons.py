"""Conditions on terms: comparisons with 0, and what they make together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from evo.analysis.access.terms import Op, Symbol, Term, order_of, spell


@dataclass(frozen=True)
class Compare:
    """A term against 0. relation: `>=`, `==` or `!=`."""

    term: Term
    relation: str

    @cached_property
    def key(self) -> str:
        return f"{self.term.key}{self.relation}0"

    @property
    def text(self) -> str:
        return spell_condition(self)

    def symbols(self) -> frozenset[Symbol]:
        return self.term.symbols()

    def ops(self) -> Iterator[Op]:
        return self.term.ops()

    def negated(self) -> Condition:
        if self.relation == ">=":
            return compare(-self.term - 1, ">=")
        return Compare(self.term, "!=" if self.relation == "==" else "==")

    def substitute(self, values: Mapping[Symbol, Term], rebuild: Callable[[Op], Term] | None = None) -> Condition:
        return compare(self.term.substitute(values, rebuild), self.relation)


@dataclass(frozen=True)
class Combined:
    """All (`and`) or any (`or`) of the conditions; `and` of none holds, `or` of none does not."""

    word: str
    items: tuple[Condition, ...]

    @cached_property
    def key(self) -> str:
        return f"{self.word}({';'.join(item.key for item in self.items)})"

    @property
    def text(self) -> str:
        return spell_condition(self)

    def symbols(self) -> frozenset[Symbol]:
        return frozenset().union(*(item.symbols() for item in self.items))

    def ops(self) -> Iterator[Op]:
        for item in self.items:
            yield from item.ops()

    def negated(self) -> Condition:
        inside = tuple(item.negated() for item in self.items)
        return any_of(inside) if self.word == "and" else all_of(inside)

    def substitute(self, values: Mapping[Symbol, Term], rebuild: Callable[[Op], Term] | None = None) -> Condition:
        inside = tuple(item.substitute(values, rebuild) for item in self.items)
        return all_of(inside) if self.word == "and" else any_of(inside)


@dataclass(frozen=True)
class Unsure:
    """A condition on data: holds or not as the value says. text: as it stands in the source."""

    symbol: Symbol
    wording: str = field(compare=False)
    is_negated: bool = False

    @property
    def key(self) -> str:
        return f"{'!' if self.is_negated else ''}{self.symbol.key}"

    @property
    def text(self) -> str:
        return f"not ({self.wording})" if self.is_negated else self.wording

    def symbols(self) -> frozenset[Symbol]:
        return frozenset((self.symbol,))

    def ops(self) -> Iterator[Op]:
        return iter(())

    def negated(self) -> Condition:
        return Unsure(self.symbol, self.wording, not self.is_negated)

    def substitute(self, values: Mapping[Symbol, Term], rebuild: Callable[[Op], Term] | None = None) -> Condition:
        del values, rebuild  # data stays data
        return self


Condition = Compare | Combined | Unsure
ALWAYS: Condition = Combined("and", ())
NEVER: Condition = Combined("or", ())


def compare(term: Term, relation: str) -> Condition:
    """term relation 0, decided if the term is a number. Common factors of the coefficients are divided out."""
    number = term.value
    if number is not None:
        holds = {">=": number >= 0, "==": number == 0, "!=": number != 0}[relation]
        return ALWAYS if holds else NEVER
    factor = math.gcd(*(n for mono, n in term.parts.items() if mono))
    if factor > 1:
        constant = term.constant
        if relation == ">=":
            parts = {mono: n // factor for mono, n in term.parts.items() if mono}
            return Compare(Term(parts) + constant // factor, relation)
        if constant % factor:
            return NEVER if relation == "==" else ALWAYS
        term = Term({mono: n // factor for mono, n in term.parts.items()})
    return Compare(term, relation)


def at_least(left: Term, right: Term) -> Condition:
    return compare(left - right, ">=")


def less(left: Term, right: Term) -> Condition:
    return compare(right - left - 1, ">=")


def _combined(word: str, conditions: Iterable[Condition]) -> Condition:
    neutral, absorbing = (ALWAYS, NEVER) if word == "and" else (NEVER, ALWAYS)
    found: dict[Condition, None] = {}
    for condition in conditions:
        if condition == absorbing:
            return absorbing
        inside = condition.items if isinstance(condition, Combined) and condition.word == word else (condition,)
        found.update(dict.fromkeys(item for item in inside if item != neutral))
    for condition in found:
        if condition.negated() in found:
            return absorbing
    return next(iter(found)) if len(found) == 1 else Combined(word, tuple(found))


def all_of(conditions: Iterable[Condition]) -> Condition:
    return _combined("and", conditions)


def any_of(conditions: Iterable[Condition]) -> Condition:
    return _combined("or", conditions)


def told_apart(condition: Condition) -> Condition:
    """`x < y or x > y` as `x != y`, which is what an unsigned number above 0 is read as."""
    items = condition.items if isinstance(condition, Combined) and condition.word == "or" else ()
    sides = [item.term for item in items if isinstance(item, Compare) and item.relation == ">="]
    if len(items) == len(sides) == 2 and (sides[0] + sides[1]).value == -2:
        return compare(sides[1] + 1, "!=")
    return condition


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The conditions that all hold if this one does."""
    return condition.items if isinstance(condition, Combined) and condition.word == "and" else (condition,)


def spell_condition(condition: Condition, name: Callable[[Term], str] = spell) -> str:
    """`i < n and j >= 0`; what is subtracted goes to the other side."""
    if condition == ALWAYS:
        return "always"
    if condition == NEVER:
        return "never"
    if isinstance(condition, Compare):
        return _comparison(condition, name)
    if isinstance(condition, Combined):
        word = f" {condition.word} "
        return word.join(
            f"({spell_condition(item, name)})" if isinstance(item, Combined) else spell_condition(item, name)
            for item in condition.items
        )
    return condition.text


def _comparison(condition: Compare, name: Callable[[Term], str]) -> str:
    left = Term({mono: n for mono, n in condition.term.parts.items() if mono and n > 0})
    right = Term({mono: -n for mono, n in condition.term.parts.items() if mono and n < 0})
    constant = condition.term.constant
    if condition.relation != ">=":
        return f"{name(left if left.parts else right)} {condition.relation} " + (
            name(right + -constant) if left.parts else name(Term.number(constant))
        )
    # left + constant >= right. The index stands on the left: `i < n`.
    if _leads(right) < _leads(left):
        return (
            f"{name(right)} < {name(left + (constant + 1))}"
            if constant < 0
            else (f"{name(right)} <= {name(left + constant)}")
        )
    return f"{name(left)} >= {name(right - constant)}"


def _leads(term: Term) -> int:
    return min((order_of(atom)[0] for mono in term.parts for atom in mono), default=9)
