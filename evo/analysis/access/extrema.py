"""Comparisons that choose between an old value and a new one: extrema, and the places where they stand."""

from __future__ import annotations

from collections.abc import Iterator

from evo.analysis.access.comparisons import Compare, Unsure
from evo.analysis.access.data_values import is_old, is_same, parts_of, plain
from evo.analysis.access.form import Carried, Data, Form, Loop
from evo.analysis.access.terms import Symbol, Term


def extremum_by_comparison(form: Form, update: Data, carried: Carried, side: int) -> tuple[str, Data] | None:
    """`x > m ? x : m` is a maximum."""
    if isinstance(update.detail, Compare):
        return _integer_extremum(form, update, carried, side)
    compared = _comparison(form, update.detail)
    if compared is None or len(compared.args) != 2:
        return None
    taken = plain(update.args[side])
    left, right = (plain(arg) for arg in compared.args)
    negated = isinstance(update.detail, Unsure) and update.detail.is_negated
    holds_for_taken = (side == 0) != negated
    if is_same(form, left, taken) and is_old(right, carried):
        is_less = holds_for_taken
    elif is_same(form, right, taken) and is_old(left, carried):
        is_less = not holds_for_taken
    else:
        return None
    return ("min" if is_less else "max"), update.args[side]


def _integer_extremum(form: Form, update: Data, carried: Carried, side: int) -> tuple[str, Data] | None:
    """The same of integers, whose comparison is a difference: x - m - 1 >= 0, or x - m >= 0; x may be a sum."""
    condition = update.detail
    assert isinstance(condition, Compare)
    new, old, directions = list(_added(update.args[side], 1)), 0, set[int]()
    for factors, number in condition.term.parts.items():
        if not factors:
            if number not in (0, -1):
                return None
            continue
        known = form.values.get(factors[0]) if len(factors) == 1 and isinstance(factors[0], Symbol) else None
        data = plain(known.data) if known is not None else None
        if is_old(data, carried) and number in (1, -1) and not old:
            old = number
            continue
        place = next((at for at, (_, part) in enumerate(new) if is_same(form, data, part)), None)
        if place is None or number not in (1, -1):
            return None
        directions.add(number * new.pop(place)[0])
    if condition.relation != ">=" or new or directions != {-old}:
        return None
    is_larger = old < 0  # where the condition holds, the new value is the larger one
    return ("max" if is_larger == (side == 0) else "min"), update.args[side]


def _added(data: Data | None, sign: int) -> Iterator[tuple[int, Data | None]]:
    """The terms of a sum of numbers with their signs."""
    found = plain(data)
    if found is not None and found.op in ("add", "sub") and len(found.args) == 2:
        yield from _added(found.args[0], sign)
        yield from _added(found.args[1], sign if found.op == "add" else -sign)
    else:
        yield sign, found


def _comparison(form: Form, detail: object) -> Data | None:
    """The comparison of data that a condition stands for."""
    known = form.values.get(detail.symbol) if isinstance(detail, Unsure) else None
    return known.data if known is not None and known.data is not None and known.data.op == "less" else None


def condition_of_place(index: Carried, loop: Loop) -> object:
    """The condition under which an integer becomes an index that rises with the turns, and else stays what it was."""
    update = plain(index.update)
    if update is None or update.op != "select" or len(update.args) != 2:
        return None
    sides = [plain(side) for side in update.args]
    places = [side.detail for side in sides if side is not None and isinstance(side.detail, Term)]
    slope = places[0].coefficient(loop.symbol) if len(places) == 1 else None
    rises = slope is not None and slope.value is not None and slope.value > 0
    return update.detail if rises and any(is_old(side, index) for side in sides) else None


def is_strict(form: Form, condition: object, update: Data, value: Carried) -> bool:
    """Whether of equal values the first one stays: only then is the smaller place the one that is found."""
    keeps_where_it_holds = is_old(plain(update.args[0]), value)
    if not isinstance(condition, Compare):
        compared = _comparison(form, condition)
        holds_for_equal = compared is not None and "=" in str(compared.detail)
        is_negated = isinstance(condition, Unsure) and condition.is_negated
        return (holds_for_equal != is_negated) == keeps_where_it_holds
    has_slack = condition.term.parts.get((), 0) == 0  # holds for equal ones too
    return has_slack == keeps_where_it_holds


def is_one_test(form: Form, one: object, other: object) -> bool:
    """Whether two conditions are the same, or one the other's opposite; or the same comparison, written twice."""
    if one in (other, _negated(other)):
        return True
    left, right = _comparison(form, one), _comparison(form, other)
    if left is None or right is None or len(left.args) != 2 or len(right.args) != 2:
        return False
    return all(
        is_same(form, plain(a), plain(b)) or _is_one_carried(plain(a), plain(b))
        for a, b in zip(left.args, right.args, strict=True)
    )


def _is_one_carried(left: Data | None, right: Data | None) -> bool:
    return left is not None and right is not None and left.op == right.op == "carried" and left.detail is right.detail


def _negated(condition: object) -> object:
    return condition.negated() if isinstance(condition, Unsure | Compare) else None


def asked_for(form: Form, condition: object) -> set[Carried]:
    """What loops carry that a condition depends on."""
    symbols: frozenset[Symbol] = getattr(condition, "symbols", frozenset)()
    parts = [part for symbol in symbols if symbol in form.values for part in parts_of(form.values[symbol].data)]
    return {part.detail for part in parts if part.op == "carried" and isinstance(part.detail, Carried)}


def follows(form: Form, condition: object, carried: Carried) -> bool:
    """Whether a condition depends on what the turns before made of any number that the same loop carries."""
    return any(each.loop == carried.loop for each in asked_for(form, condition))
