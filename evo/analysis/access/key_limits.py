"""How many keys a row of attention sees: the first ones, by the conditions that a kernel reads them under."""

from __future__ import annotations

from evo.analysis.access.comparisons import Combined, Compare, Condition, all_of, any_of
from evo.analysis.access.terms import Op, Symbol, Term, apply

ROW, KEY = Symbol("row", "value", 1), Symbol("key", "value", 2)


def fewest(one: Term, other: Term) -> Term:
    return one if one == other else apply("min", one, other)


def unbounded(limit: Term, size: Term) -> Term:
    """A limit without `min(size, ...)` inside, which goes without saying: there are no other keys."""
    atom = limit.atom
    if not isinstance(atom, Op) or atom.name not in ("min", "select"):
        return limit
    if atom.name == "min" and size in atom.terms:
        return unbounded(next((term for term in atom.terms if term != size), size), size)
    left, right = (unbounded(term, size) for term in atom.terms)
    return apply("min", left, right) if atom.name == "min" else apply("select", atom.args[0], left, right)


def limit_of(condition: Condition, size: Term) -> Term | None:
    """How many keys a condition lets count, if those are the first ones."""
    if KEY not in condition.symbols():
        return apply("select", condition, size, Term.number(0))
    if isinstance(condition, Compare):
        if condition.relation != ">=" or condition.term.coefficient(KEY) != Term.number(-1):
            return None
        return condition.term + Term.of(KEY) + 1
    if not isinstance(condition, Combined):
        return None
    by_key = [item for item in condition.items if KEY in item.symbols()]
    others = [item for item in condition.items if KEY not in item.symbols()]
    if len(by_key) != 1:
        return None
    inner = limit_of(by_key[0], size)
    if inner is None:
        return None
    if condition.word == "or":
        return apply("select", any_of(others), size, inner)
    return apply("select", all_of(others), inner, Term.number(0))


def grows_with_rows(term: Term) -> bool:
    """Whether a number of keys is never smaller for a later row."""
    for mono, n in term.parts.items():
        inside = [atom for atom in mono if ROW in atom.symbols()]
        if not inside:
            continue
        if len(inside) > 1 or n < 0 or any(not isinstance(a, Symbol) for a in mono if a is not inside[0]):
            return False
        (atom,) = inside
        if isinstance(atom, Op):
            if atom.name not in ("min", "max", "select") or not all(grows_with_rows(each) for each in atom.terms):
                return False
            if atom.name == "select" and ROW in atom.args[0].symbols():
                return False
    return True
