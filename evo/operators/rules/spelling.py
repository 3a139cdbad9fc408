"""Terms and conditions of the access analysis in new indices, spelled as C++."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evo.analysis.access import Access, Combined, Compare, Condition, Form, Op, Symbol, Term, Unsure
from evo.analysis.access.comparisons import conjuncts
from evo.analysis.access.terms import fold
from evo.operators.rules.lifting import NotPrinted

_OPERATORS = {"div": "/", "mod": "%"}


def spelled(term: Term, names: Mapping[Symbol, str]) -> str:
    """A term as an int of C++, products in brackets if needed. Raises NotPrinted."""
    said = ""
    for mono, n in sorted(term.parts.items(), key=lambda part: (not part[0], part[1] < 0, [a.key for a in part[0]])):
        factors = [_atom(atom, names) for atom in mono]
        if abs(n) != 1 or not factors:
            factors.append(str(abs(n)))
        said += ("-" if n < 0 else "") if not said else (" - " if n < 0 else " + ")
        said += " * ".join(factors)
    return said or "0"


def _atom(atom: Symbol | Op, names: Mapping[Symbol, str]) -> str:
    if isinstance(atom, Symbol):
        if atom not in names:
            raise NotPrinted(f"{atom.name} has no name in the new body")
        return names[atom]
    if atom.name in _OPERATORS and len(atom.terms) == 2:
        left, right = (spelled(each, names) for each in atom.terms)
        return f"({_operand(left)} {_OPERATORS[atom.name]} {_operand(right)})"
    if atom.name in ("min", "max") and len(atom.terms) == 2:
        return f"{atom.name}({', '.join(spelled(each, names) for each in atom.terms)})"
    if atom.name == "select" and isinstance(atom.args[0], Compare | Combined | Unsure):
        left, right = (spelled(each, names) for each in atom.terms)
        return f"({condition_in_c(atom.args[0], names)} ? {left} : {right})"
    raise NotPrinted(atom.text)


def _operand(text: str) -> str:
    """In brackets, unless it is a word or in brackets already."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth and at < len(text) - 1 and not re.fullmatch(r"[\w$]+", text):
            return f"({text})"
    return text


def condition_in_c(condition: Condition, names: Mapping[Symbol, str]) -> str:
    """A condition as C++. Raises NotPrinted for one on data."""
    if isinstance(condition, Compare):
        left = Term({mono: n for mono, n in condition.term.parts.items() if n > 0})
        right = Term({mono: -n for mono, n in condition.term.parts.items() if n < 0})
        if condition.relation == ">=" and right.constant == 1 and right.value is None:
            return f"{spelled(left, names)} > {spelled(right - 1, names)}"
        return f"{spelled(left, names)} {condition.relation} {spelled(right, names)}"
    if isinstance(condition, Combined) and condition.items:
        word = " && " if condition.word == "and" else " || "
        return f"({word.join(condition_in_c(item, names) for item in condition.items)})"
    raise NotPrinted(condition.text)


def own_conditions(form: Form, access: Access, beside: Access) -> tuple[Condition, ...]:
    """What an access is under and another one is not, without the headers of its loops."""
    headers = {form.loops[symbol].condition for symbol in access.loops}
    known = {part for condition in beside.conditions for part in conjuncts(condition)}
    return tuple(
        part
        for condition in access.conditions
        if condition not in headers
        for part in conjuncts(condition)
        if part not in known
    )


def counts_all(form: Form, symbol: Symbol, extent: Term) -> bool:
    """Whether a loop takes 0, 1, 2 ... up to a size."""
    loop = form.loops.get(symbol)
    return (
        loop is not None
        and loop.start == Term.number(0)
        and loop.step == Term.number(1)
        and loop.until is None
        and loop.condition == Compare(extent - Term.of(symbol) - 1, ">=")
    )


def is_border(condition: Condition, access: Access) -> bool:
    """Whether a condition says of one subscript that it is not below 0, or is below the tensor's size."""
    if not isinstance(condition, Compare) or condition.relation != ">=" or access.array is None:
        return False
    sides = zip(access.subscripts, access.array.shape, strict=True)
    return any(condition.term in (at, size - 1 - at) for at, size in sides)


def is_within_output(condition: Condition, store: Access) -> bool:
    """Whether a condition says no more than that neighbouring dimensions of a tensor, as one index, are below its size.

    `i < B * T` and `i / T < B` are such.
    """
    if not isinstance(condition, Compare) or condition.relation != ">=" or store.array is None:
        return False
    at, shape = store.subscripts, store.array.shape
    for first in range(len(at)):
        index, size = Term({}), Term.number(1)
        for place in range(first, len(at)):
            index, size = index * shape[place] + at[place], size * shape[place]
            if condition.term == size - 1 - index:
                return True
    return is_border(condition, store) or _is_leading_part(condition.term, store) or _is_whole(condition.term, store)


def _is_whole(term: Term, store: Access) -> bool:
    """Whether a term is size - 1 - index of the whole tensor, and the subscripts are the digits of that index."""
    shape = store.memory.shape
    total = Term.number(1)
    for extent in shape:
        total = total * extent
    index, behind = total - 1 - term, Term.number(1)
    for place in reversed(range(len(shape))):
        digit = fold(Op("div", (index, behind))) if behind != Term.number(1) else index
        digit = fold(Op("mod", (digit, shape[place]))) if place else digit
        if digit != store.subscripts[place]:
            return False
        behind = behind * shape[place]
    return True


def _is_leading_part(term: Term, store: Access) -> bool:
    """Whether a term is size - 1 - index of some leading dimensions as one, whose index the text takes apart.

    `p < N * H` with `p / H` and `p % H` as subscripts: then p and the subscripts that follow give the element's place.
    """
    if store.array is None or store.index is None:
        return False
    at, shape = store.subscripts, store.array.shape
    for count in range(1, len(at) + 1):
        size, rest, behind = Term.number(1), Term({}), Term.number(1)
        for extent in shape[:count]:
            size = size * extent
        for subscript, extent in zip(at[count:], shape[count:], strict=True):
            rest, behind = rest * extent + subscript, behind * extent
        if (size - 1 - term) * behind + rest == store.index:
            return True
    return False


def stores_all(store: Access) -> bool:
    """Whether every thread with an element of the output stores it."""
    return all(is_within_output(part, store) for condition in store.conditions for part in conjuncts(condition))
