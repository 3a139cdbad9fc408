"""What host code fills an array with, as a tree over sizes: that of a HostNumber, with leaves of its own.

`("counter", loop)` is the counter of a loop, `PLACE` the number of an element, `("random", low, end)` a whole number,
`("sum", how, first, where)` is `first` and all that `how` is at the places before `where`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.interop.adopt.host_numbers import factors, substituted

PLACE = ("place",)
UNTOLD = ("untold",)  # it is filled, and nothing tells with what
_INFIX = ("+", "-", "*", "/", "//", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=")
_CALLS = {"min": "np.minimum", "max": "np.maximum", "if": "np.where", "and": "np.logical_and", "or": "np.logical_or"}
_CALLS |= {"not": "np.logical_not", "int": "np.trunc", "floor": "np.floor", "ceil": "np.ceil", "sqrt": "np.sqrt"}
_OPEN = ("counter", "carry", "item", "untold")  # what no element's place tells
_OWN = ("sorted", "shuffled", "items")  # of the whole array: one element of it says nothing


@dataclass(frozen=True, slots=True)
class LoopCounter:
    """A loop's counter: from start up to, not including, end."""

    leaf: tuple[str, int]
    start: object
    end: object


def replaced(how: object, by: Mapping[object, object]) -> object:
    """The tree with other leaves. What a sum adds up keeps its own places."""
    if isinstance(how, str | tuple) and how in by:
        return by[how]
    if not isinstance(how, tuple):
        return how
    if how[0] == "sum":
        return ("sum", replaced(how[1], {k: v for k, v in by.items() if k != PLACE}), *_each(how[2:], by))
    return (how[0], *_each(how[1:], by))


def _each(parts: Sequence[object], by: Mapping[object, object]) -> list[object]:
    return [replaced(part, by) for part in parts]


def has(how: object, *kinds: str) -> bool:
    """Whether a leaf or an operator of these kinds is in the tree."""
    return isinstance(how, tuple) and (how[0] in kinds or any(has(part, *kinds) for part in how[1:]))


def at(how: object, place: object) -> object:
    """What an array that is filled so has at a place."""
    return UNTOLD if has(how, *_OWN) else replaced(how, {PLACE: place})


def summed_up(how: object, first: object, counter: LoopCounter, more: int) -> object:
    """`first` and what `how` is in the turns of a loop before the present one; `more`: and in this one."""
    inner = tidied(replaced(how, {counter.leaf: _plus(PLACE, counter.start)}))
    if has(inner, *_OPEN):
        return UNTOLD
    where = ("-", counter.leaf, counter.start) if counter.start != 0 else counter.leaf
    return ("sum", inner, first, _plus(where, more))


def _plus(how: object, more: object) -> object:
    return how if more == 0 else ("+", how, more)


def filled(index: object, how: object, counters: Sequence[LoopCounter]) -> object:
    """What an array holds that gets `how` at `index` in each turn; UNTOLD if it cannot be said for every element."""
    found = _places(index, counters, PLACE)
    first = replaced(index, {counter.leaf: counter.start for counter in counters})
    if found is None or how is None or has(first, *_OPEN):
        return UNTOLD
    has_sum = has(how, "sum")
    tree = tidied(replaced(how, found))
    first = _folded(first)
    if has(tree, *_OPEN) or not (first == 0 or (first == 1 and has_sum)):
        return UNTOLD
    return tree


def _folded(how: object) -> object:
    """Sums and products with zeros, and numbers alone, worked out."""
    if not isinstance(how, tuple):
        return how
    kind, *parts = (how[0], *(_folded(part) for part in how[1:]))
    if kind == "*" and 0 in parts:
        return 0
    if all(isinstance(part, int) for part in parts):
        return substituted((kind, *parts), {})
    rest = [part for part in parts if part != 0]
    return rest[0] if kind == "+" and len(rest) == 1 else (kind, *parts)


def _places(index: object, counters: Sequence[LoopCounter], place: object) -> dict[object, object] | None:
    """What each counter is at an element; None if the index does not tell. Rows are counted by the outer ones."""
    by_leaf: dict[object, LoopCounter] = {counter.leaf: counter for counter in counters}
    if index in by_leaf:
        return {index: place}
    if not isinstance(index, tuple) or index[0] not in ("+", "-"):
        return None
    for one, other in (index[1:], index[:0:-1]) if index[0] == "+" else (index[1:],):
        if one not in by_leaf:
            continue
        if not has(other, *_OPEN):
            return {one: ("-" if index[0] == "+" else "+", place, other)}
        counter = by_leaf[one]
        parts = factors(other)
        if index[0] == "-" or counter.start != 0 or counter.end not in parts or len(parts) < 2:
            continue
        parts.remove(counter.end)
        row = parts[0] if len(parts) == 1 else ("*", parts[0], parts[1])
        rest = _places(row, [c for c in counters if c is not counter], ("//", place, counter.end))
        return None if rest is None else {**rest, one: ("%", place, counter.end)}
    return None


def tidied(how: object) -> object:
    """In fewer words. A remainder of what nobody knows is a number of its range."""
    if not isinstance(how, tuple):
        return how
    if how[0] in ("%", "&") and has(how[1], "random", "untold", "carry", "item"):
        return ("random", 0, how[2] if how[0] == "%" else _plus(how[2], 1))
    kind, *parts = (how[0], *(tidied(part) for part in how[1:]))
    if kind == "+" and isinstance(parts[0], tuple) and parts[0][0] == "-" and parts[0][2] == parts[1]:
        return parts[0][1]
    if kind == "sum" and isinstance(parts[0], int | str):  # of equal terms
        rows = ("*", parts[2], parts[0])
        return ("+", rows, parts[1]) if parts[1] != 0 else rows
    return (kind, *parts)


def numpy_text(how: object, count: str) -> str:
    """In NumPy: an array of so many elements, or a number for all of them."""
    if not isinstance(how, tuple):
        return repr(how) if isinstance(how, float) else str(how)
    kind, *parts = how
    if kind == "items":
        return f"np.resize({list(parts)}, {count})"
    if kind == "place":
        return f"np.arange({count})"
    inside = [numpy_text(part, count) for part in parts]
    match kind:
        case "random":
            return f"rng.integers({inside[0]}, {inside[1]}, {count})"
        case "sorted":
            return f"np.sort({inside[0]})"
        case "shuffled":
            return f"rng.permutation({inside[0]})"
        case "sum":
            return f"({inside[1]} + np.r_[0, np.cumsum({inside[0]} + np.zeros({count}, int))])[{inside[2]}]"
        case "ceil_div":
            return f"-(-({inside[0]}) // ({inside[1]}))"
        case "real":
            return inside[0]
    if kind in _INFIX and len(inside) == 2:
        return f"({inside[0]} {kind} {inside[1]})"
    return f"{_CALLS.get(kind, f'np.{kind}')}({', '.join(inside)})"
