"""Integers and pointers that a thread keeps in an array of its own: `row_at[i] = f(i)` read again as `row_at[j]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evo.analysis.access.comparisons import Condition, compare, conjuncts
from evo.analysis.access.simplify import choose, rebuilt
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import Symbol, Term
from evo.analysis.access.values import Number, Pointer

_MOST = 8  # stores at constant places, one after another


@dataclass(frozen=True, slots=True)
class TableStore:
    """One store: where, what, and the loops and conditions around it."""

    pattern: tuple[Term, ...]
    value: Number | Pointer
    context: tuple[Symbol | Condition, ...]

    @property
    def solved(self) -> dict[Symbol, tuple[int, Term]] | None:
        """Loop symbols that the subscripts determine: symbol -> (dimension, what is added). None if they do not."""
        found: dict[Symbol, tuple[int, Term]] = {}
        for at, term in enumerate(self.pattern):
            if term.value is not None:
                continue
            loops = [symbol for symbol in term.symbols() if symbol.kind == "loop"]
            if len(loops) != 1 or loops[0] in found:
                return None
            weight = term.coefficient(loops[0])
            if weight is None or weight.value != 1:
                return None
            found[loops[0]] = at, term - Term.of(loops[0])
        return found


def with_entry(entries: Sequence[TableStore], entry: TableStore) -> list[TableStore]:
    """The stores that count after one more; of two to the same place the later one."""
    kept = [known for known in entries if known.pattern != entry.pattern]
    return [*kept, entry][-_MOST - 1 :]


def found_value(
    entries: Sequence[TableStore], at: tuple[Term, ...], bounds: Bounds, context: Sequence[Symbol | Condition]
) -> Number | Pointer | None:
    """What is read at a place, if the stores tell."""
    if not entries or len(entries) > _MOST or any(len(e.pattern) != len(at) for e in entries):
        return None
    if len(entries) == 1:
        return _solved(entries[0], at, bounds, context)
    if any(term.value is None for entry in entries for term in entry.pattern):
        exact = [entry for entry in entries if entry.pattern == at]
        return _solved(exact[0], at, bounds, context) if len(exact) == 1 and entries[-1] is exact[0] else None
    chosen = [_solved(entry, at, bounds, context, is_constant=True) for entry in entries]
    exact = [entry for entry in entries if entry.pattern == at]
    if exact:
        return _solved(exact[0], at, bounds, context)
    if any(term.value is not None for term in at) or any(value is None for value in chosen):
        return None
    result = chosen[-1]
    for entry, value in zip(entries[:-1], chosen[:-1], strict=True):
        assert result is not None
        assert value is not None
        condition = compare(at[0] - entry.pattern[0], "==")
        if len(at) > 1 or type(value) is not type(result):
            return None
        term = choose(bounds, condition, value.term, result.term)
        result = Number(term, result.type) if isinstance(result, Number) else Pointer(term, result.of)
    return result


def _solved(
    entry: TableStore, at: tuple[Term, ...], bounds: Bounds, context: Sequence[Symbol | Condition], *,
    is_constant: bool = False,
) -> Number | Pointer | None:  # fmt: skip
    solved = entry.solved
    if solved is None:
        return None
    if not is_constant and any(
        term.value is not None and term != given for term, given in zip(entry.pattern, at, strict=True)
    ):
        return None
    now = set(context)
    active = {part for part in context if isinstance(part, Symbol)}
    for part in entry.context:
        for condition in conjuncts(part) if not isinstance(part, Symbol) else ():
            is_of_index = condition.symbols() & solved.keys()
            if condition not in now and part not in now and not is_of_index:
                return None
    values = {symbol: at[dim] - added for symbol, (dim, added) in solved.items()}
    loops = {symbol for symbol in entry.value.term.symbols() if symbol.kind == "loop"}
    if not loops <= solved.keys() | active:
        return None
    term = entry.value.term.substitute(values, partial(rebuilt, bounds))
    return Number(term, entry.value.type) if isinstance(entry.value, Number) else Pointer(term, entry.value.of)
