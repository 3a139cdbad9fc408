"""What values a term can take: a prover of `term >= 0` that knows the range of each index and the guards around.

Sound and incomplete: True is proven for all sizes that the axes allow, False means not proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from evo.analysis.access.comparisons import ALWAYS, NEVER, Combined, Compare, Condition, conjuncts
from evo.analysis.access.numeric import number_of
from evo.analysis.access.terms import ONE, ZERO, Atom, Monomial, Op, Symbol, Term, fold
from evo.spec.recent_cache import RecentCache

_DEEPEST = 24
_FACTS = 12  # guards that are tried, the innermost first
_LAST = ("address", "value", "axis", "chip")
_ELIMINATED = {"loop": 0, "thread": 1, "block": 2}
_Proofs = tuple[dict[Term, bool], dict[tuple[Term, bool], int | None]]  # what holds; the largest and least values
_PROOFS: RecentCache[_Proofs] = RecentCache(1024)  # by the ranges: texts that a change does not touch ask again


class Bounds:
    """Ranges of symbols, and the conditions that hold at the place that is being read."""

    def __init__(self, cases: Sequence[Mapping[Symbol, int]] = ()) -> None:
        """cases: all values that the axes take together; what holds at each of them is proven."""
        self.cases = [dict(case) for case in cases]
        self.lower: dict[Symbol, Term] = {}
        self.upper: dict[Symbol, Term] = {}
        self.facts: list[Condition] = []
        self._known: dict[Term, bool] = {}
        self._ends: dict[tuple[Term, bool], int | None] = {}
        self._of_cases = tuple(tuple(case.items()) for case in self.cases)

    def declare(self, symbol: Symbol, lower: Term | None = None, upper: Term | None = None) -> None:
        """Bounds that hold wherever the symbol occurs."""
        known, ends = self._known, self._ends
        if symbol.kind == "loop":  # what was not proven without them may be now
            known, ends = {term: held for term, held in known.items() if held}, {}
        if lower is not None:
            self.lower[symbol] = lower
        if upper is not None:
            self.upper[symbol] = upper
        key = self._of_cases, tuple(self.lower.items()), tuple(self.upper.items())
        self._known, self._ends = _PROOFS.made(key, lambda: (dict(known), dict(ends)))

    @contextmanager
    def assuming(self, conditions: Iterable[Condition]) -> Iterator[None]:
        """For what is proven inside, the conditions hold."""
        mark = len(self.facts)
        self.facts += conditions
        try:
            yield
        finally:
            del self.facts[mark:]

    def nonnegative(self, term: Term) -> bool:
        """Whether term >= 0 is proven."""
        number = term.value
        if number is not None:
            return number >= 0
        return self._proven(term) or self._with_facts(term, 2)

    def _with_facts(self, term: Term, left: int) -> bool:
        """term = factor * fact + rest, with a fact that holds, a factor and a rest that are not negative."""
        symbols = term.symbols()
        tried = 0
        for fact in self._inequalities():
            if not symbols & fact.symbols():
                continue
            for factor in _factors(term, fact):
                if not self._signed(factor, 1):
                    continue
                rest = term - factor * fact
                if self._proven(rest) or (left > 1 and (self._is_fact(rest) or self._by_choice(rest))):
                    return True
                if left > 1 and len(rest.parts) < len(term.parts) and self._with_facts(rest, left - 1):
                    return True
            tried += 1
            if tried >= _FACTS:
                break
        return False

    def _is_fact(self, term: Term) -> bool:
        """Whether a fact says that the term is not negative."""
        return any((value := (term - fact).value) is not None and value >= 0 for fact in self._inequalities())

    def _by_choice(self, term: Term) -> bool:
        """Whether a term with one choice in it is not negative either way."""
        chosen = [(mono[0], n) for mono, n in term.parts.items()
                  if len(mono) == 1 and isinstance(mono[0], Op) and mono[0].name == "select"]  # fmt: skip
        if len(chosen) != 1:
            return False
        ((op, n),) = chosen
        condition = op.args[0]
        if not isinstance(condition, Compare | Combined):
            return False
        rest = term - Term({(op,): n})
        for side, holds in zip(op.terms, (condition, condition.negated()), strict=True):
            with self.assuming([holds]):
                if not (self._proven(rest + side * n) or self._with_facts(rest + side * n, 1)):
                    return False
        return True

    def below(self, term: Term, limit: Term) -> bool:
        """Whether term < limit is proven."""
        return self.nonnegative(limit - term - 1)

    def within(self, term: Term, limit: Term) -> bool:
        """Whether 0 <= term < limit is proven."""
        return self.below(term, limit) and self.nonnegative(term)

    def holds(self, condition: Condition) -> bool:
        """Whether a condition is proven."""
        if isinstance(condition, Combined):
            return (all if condition.word == "and" else any)(self.holds(item) for item in condition.items)
        if condition in self.facts or any(condition in conjuncts(fact) for fact in self.facts):
            return True
        if not isinstance(condition, Compare):
            return False
        if condition.relation == ">=":
            return self.nonnegative(condition.term)
        if condition.relation == "==":
            return self.nonnegative(condition.term) and self.nonnegative(-condition.term)
        return self.nonnegative(condition.term - 1) or self.nonnegative(-condition.term - 1)

    def decided(self, condition: Condition) -> Condition:
        """ALWAYS or NEVER where that is proven, else the condition."""
        if condition in (ALWAYS, NEVER):
            return condition
        if self.holds(condition):
            return ALWAYS
        return NEVER if self.holds(condition.negated()) else condition

    def largest(self, term: Term) -> int | None:
        """A number that the term does not exceed, where one follows from numbers alone."""
        return self._extreme(term, is_upper=True, depth=0)

    def smallest(self, term: Term) -> int | None:
        """A number that the term is not below."""
        found = self._extreme(-term, is_upper=True, depth=0)
        return None if found is None else -found

    def most(self, term: Term) -> Term | None:
        """A term in axes alone that this one does not exceed."""
        for _ in range(_DEEPEST):
            found = [s for s in term.symbols() if s.kind not in ("axis", "chip")]
            if not found:
                return term
            symbol = max(found, key=lambda s: (s.kind == "loop", s.number))
            weight = term.coefficient(symbol)
            if weight is None:
                return None
            bounds = self.upper if self._signed(weight, 1) else self.lower if self._signed(weight, -1) else {}
            if symbol not in bounds:
                return None
            term = term - weight * Term.of(symbol) + weight * bounds[symbol]
        return None

    def divides(self, term: Term, number: int) -> bool:
        """Whether a term in axes alone is a multiple of a number in every case."""
        counts = [number_of(term, case) for case in self.cases]
        return bool(counts) and all(count is not None and count % number == 0 for count in counts)

    def _plain_facts(self) -> list[Condition]:
        return [item for fact in self.facts for item in conjuncts(fact)]

    def _inequalities(self) -> Iterator[Term]:
        for fact in reversed(self.facts):
            for item in conjuncts(fact):
                if isinstance(item, Compare) and item.relation == ">=":
                    yield item.term
                elif isinstance(item, Compare) and item.relation == "==":
                    yield item.term
                    yield -item.term
                elif isinstance(item, Compare):  # != 0, on one side of it
                    for side in (item.term, -item.term):
                        if self._proven(side) or Compare(side, ">=") in self._plain_facts():
                            yield side - 1

    def _proven(self, term: Term) -> bool:
        if term not in self._known:
            self._known[term] = self._prove(term, 0)
        return self._known[term]

    def _prove(self, term: Term, depth: int) -> bool:
        if depth and term in self._known:
            return self._known[term]
        found = self._proof(term, depth)
        if found or depth < _DEEPEST:
            self._known[term] = found
        return found

    def _proof(self, term: Term, depth: int) -> bool:
        number = term.value
        if number is not None:
            return number >= 0
        if depth > _DEEPEST:
            return False
        atom = _first(term)
        if atom is None:
            return self._prove_axes(term)
        if isinstance(atom, Op) and all(symbol.kind in ("axis", "chip") for symbol in term.symbols()):
            return self._prove_axes(term)
        if isinstance(atom, Op):
            return self._prove_op(term, atom, depth + 1)
        weight = term.coefficient(atom)
        if weight is None:
            return False
        rest = term - weight * Term.of(atom)
        for sign, bounds in ((1, self.lower), (-1, self.upper)):
            bound = bounds.get(atom)
            if bound is not None and self._signed(weight, sign):
                return self._prove(rest + weight * bound, depth + 1)
        return False

    def _signed(self, weight: Term, sign: int) -> bool:
        number = weight.value
        return number * sign >= 0 if number is not None else self._proven(weight * sign)

    def _prove_op(self, term: Term, op: Op, depth: int) -> bool:
        weight, rest = _linear(term, op)
        if weight is None or rest is None:
            return False
        is_plus = self._signed(weight, 1)
        if not is_plus and not self._signed(weight, -1):
            return False
        if op.name == "select":
            return all(self._prove(rest + weight * side, depth) for side in op.terms)
        left, right = op.terms
        if op.name in ("min", "max"):
            needs = all if is_plus == (op.name == "min") else any
            return needs(self._prove(rest + weight * side, depth) for side in (left, right))
        if op.name == "mod" and self._proven(right - 1):
            low = ZERO if self._proven(left) else ONE - right
            if not is_plus and self._proven(left) and self._prove(rest + weight * left, depth):
                return True
            return self._prove(rest + weight * (low if is_plus else right - 1), depth)
        if op.name == "div" and self._proven(right - 1):
            if not self._proven(left):
                return False
            if is_plus and self._prove(rest, depth):
                return True
            if not is_plus:  # q <= (the most that left can be) / right, with the division of integers
                most = self.most(left)
                if most is not None and self._prove(rest + weight * fold(Op("div", (most, right))), depth):
                    return True
            # q * right lies in (left - right, left], and right > 0.
            return self._prove(rest * right + weight * (left + (ONE - right if is_plus else ZERO)), depth)
        if op.name == "wrap" and is_plus:
            return self._prove(rest, depth)
        low_number, high = self._extreme_op(op, False, depth), self._extreme_op(op, True, depth)
        bound = None if low_number is None else -low_number
        chosen = bound if is_plus else high
        return chosen is not None and self._prove(rest + weight * chosen, depth)

    def _prove_axes(self, term: Term) -> bool:
        """A term in axes alone: it holds if it holds in every case."""
        for at, case in enumerate(self.cases):
            number = number_of(term, case)
            if number is None or number < 0:
                self.cases.insert(0, self.cases.pop(at))  # what refutes one term often refutes the next
                return False
        return bool(self.cases)

    def _extreme(self, term: Term, *, is_upper: bool, depth: int) -> int | None:
        if depth > 12:
            return None
        key = term, is_upper
        if key not in self._ends:
            self._ends[key] = self._extreme_sum(term, is_upper=is_upper, depth=depth)
        return self._ends[key]

    def _extreme_sum(self, term: Term, *, is_upper: bool, depth: int) -> int | None:
        total = 0
        for mono, n in term.parts.items():
            product: int | None = n
            for atom in mono:
                wants_upper = (n > 0) == is_upper
                if len(mono) > 1 and (self._bound(atom, False, depth) or -1) < 0:
                    return None
                bound = self._bound(atom, wants_upper, depth)
                if bound is None or product is None:
                    return None
                product *= bound
            total += product or 0
        return total

    def _bound(self, atom: Atom, is_upper: bool, depth: int) -> int | None:
        if isinstance(atom, Op):
            found = self._extreme_op(atom, is_upper, depth)
            return found if is_upper or found is None else -found
        bound = (self.upper if is_upper else self.lower).get(atom)
        return None if bound is None else self._extreme(bound, is_upper=is_upper, depth=depth + 1)

    def _extreme_op(self, op: Op, is_upper: bool, depth: int) -> int | None:
        """The largest value, or minus the least one."""
        ends = [
            (self._extreme(side, is_upper=False, depth=depth + 1), self._extreme(side, is_upper=True, depth=depth + 1))
            for side in op.terms
        ]
        (low, high), (low_right, high_right) = ends[-2], ends[-1]
        found: int | None = None
        if op.name == "select":
            found = _most(high, high_right) if is_upper else _least(low, low_right)
        elif op.name in ("min", "max"):
            pick = _least if op.name == "min" else _most
            one_sided = (op.name == "min") == is_upper
            sides = (high, high_right) if is_upper else (low, low_right)
            known = [side for side in sides if side is not None]
            found = (min if op.name == "min" else max)(known) if one_sided and known else pick(*sides)
        elif op.name == "mod" and high_right is not None and (low_right or 0) > 0:
            is_positive = low is not None and low >= 0
            found = high_right - 1 if is_upper else (0 if is_positive else 1 - high_right)
            if is_upper and is_positive and high is not None:
                found = min(found, high)
        elif op.name == "div" and low_right is not None and low_right > 0 and low is not None and low >= 0:
            found = (high // low_right if high is not None else None) if is_upper else 0
        elif op.name == "shr" and low is not None and low >= 0:
            shift = low_right if low_right is not None else 0
            found = (high >> max(shift, 0) if high is not None else None) if is_upper else 0
        elif (op.name in ("xor", "or", "and") and (low or -1) + 1 > 0) or (
            op.name in ("xor", "or", "and") and low == 0
        ):
            found = _bits(op.name, high, low_right, high_right) if is_upper else 0
        elif op.name == "wrap" and not is_upper:
            found = 0
        return found if is_upper or found is None else -found


def _factors(term: Term, fact: Term) -> Iterator[Term]:
    """What a fact may be multiplied with so that one of its indices falls out of the term."""
    seen: set[Term] = set()
    for mono, n in fact.parts.items():
        if not any(not isinstance(atom, Symbol) or atom.kind in _ELIMINATED for atom in mono):
            continue
        for whole, m in term.parts.items():
            over = quotient(whole, mono)
            if over is not None and m % n == 0 and m // n > 0:
                factor = Term({over: m // n})
                if factor not in seen:
                    seen.add(factor)
                    yield factor


def _bits(name: str, high: int | None, low_right: int | None, high_right: int | None) -> int | None:
    if low_right is None or low_right < 0 or high is None or high_right is None:
        return None
    return min(high, high_right) if name == "and" else (1 << max(high, high_right).bit_length()) - 1


def _most(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else max(left, right)


def _least(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else min(left, right)


def _first(term: Term) -> Atom | None:
    """What is to be eliminated first: operations, then the innermost indices; None if only axes are left."""
    chosen: Atom | None = None
    best: tuple[int, int] | None = None
    for mono in term.parts:
        for atom in mono:
            if isinstance(atom, Op):
                rank = (-1, -len(atom.key))  # an outer one before those inside it
            elif atom.kind in _LAST:
                if atom.kind in ("axis", "chip"):
                    continue
                rank = (3, 0)
            else:
                rank = (_ELIMINATED[atom.kind], -atom.number)
            if best is None or rank < best:
                chosen, best = atom, rank
    return chosen


def _linear(term: Term, op: Op) -> tuple[Term | None, Term | None]:
    """term = weight * op + rest, with op not in weight; None if it is not so."""
    weight: dict[tuple[Atom, ...], int] = {}
    rest: dict[tuple[Atom, ...], int] = {}
    for mono, n in term.parts.items():
        count = mono.count(op)
        if count == 0:
            rest[mono] = n
        elif count == 1:
            weight[tuple(atom for atom in mono if atom != op)] = n
        else:
            return None, None
    return Term(weight), Term(rest)


def quotient(mono: Monomial, by: Monomial) -> Monomial | None:
    """The product of the factors that are left without those of another; None if one of these is not there."""
    left = list(mono)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
