"""Sums, maxima and their relatives: recognised from what a loop hands from turn to turn, from accumulators in memory,
from trees in shared memory, from shuffles and from atomics.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evo.analysis.access.data_values import accesses_in, is_old, mentions, parts_of, plain, read_of
from evo.analysis.access.extrema import (
    asked_for,
    condition_of_place,
    extremum_by_comparison,
    follows,
    is_one_test,
    is_strict,
)
from evo.analysis.access.form import Access, Carried, Data, Form, Loop
from evo.analysis.access.kept_few import kept_few
from evo.analysis.access.terms import Symbol

RECURRENCE = "recurrence"
_OPERATIONS = {"add": "sum", "sub": "sum", "max": "max", "min": "min", "mul": "product"}
_WORDS = {"add": "sum", "sub": "sum", "max": "max", "min": "min", "and": "and", "or": "or", "xor": "xor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Values combined into one.

    kind: `sum`, `max`, `min`, `product`, `argmax`, `argmin`, `largest_few`, `arglargest_few` (in order, with where they
    stand; `smallest`), `welford`, `online_softmax`, `rescaled_sum`, `recurrence` (`x = a * x + b`, whose turns stay in
    order) or another operation by name. place: `register`, `shared`, `global`,
    `local` (the thread's own array), `shuffle` or `atomic`.
    loops: over whose turns. names: the variables or arrays; accesses: the places in memory, by number. operand: what
    is combined.
    """

    kind: str
    place: str
    loops: tuple[Symbol, ...]
    names: tuple[str, ...]
    line: int
    accesses: tuple[int, ...] = ()
    operand: Data | None = None
    carried: tuple[Carried, ...] = ()


def reductions_of(form: Form) -> tuple[Reduction, ...]:
    """All reductions of a form, in text order."""
    found = [reduction for loop in form.loops.values() for reduction in of_loop(form, loop)]
    found += _in_memory(form)
    found += _by_shuffles(form)
    found += _by_atomics(form)
    return tuple(sorted(found, key=lambda reduction: reduction.line))


# In registers: what a loop carries.


def of_loop(form: Form, loop: Loop) -> Iterator[Reduction]:
    """The reductions over the turns of one loop in registers; pairs and triples that belong together as one."""
    if (few := kept_few(form, loop)) is not None:
        yield Reduction(
            kind=f"{'arg' if few.places else ''}{'largest' if few.is_largest else 'smallest'}_few",
            place="local" if few.arrays else "register", loops=(loop.symbol,), names=few.values + few.places,
            line=loop.line, carried=loop.carried,
            accesses=tuple(a.number for array in few.arrays for a in form.of(array) if loop.symbol in a.loops),
        )  # fmt: skip
        return
    if any(carried.loop == loop.symbol for carried in asked_for(form, loop.skipped)):
        return  # what the turns before came to says which of those behind count
    single = {c.name: made for c in loop.carried if (made := _combination(form, c)) is not None}
    taken: set[str] = set()
    for group in (_online_softmax, _welford, functools.partial(_value_and_index, form)):
        for kind, members, operand in group(loop, single):
            names = tuple(member.name for member in members)
            if not taken & set(names):
                taken |= set(names)
                if _stand_alone(form, loop, members):
                    yield Reduction(
                        kind=kind, place="register", loops=(loop.symbol,), names=names, line=loop.line,
                        operand=operand, carried=members,
                    )  # fmt: skip
    for carried in loop.carried:
        if carried.name in taken or not _stand_alone(form, loop, (carried,)):
            continue
        if carried.name in single:
            operation, operand = single[carried.name]
            place = "shuffle" if is_shuffled(operand, carried) else "register"
            yield Reduction(
                kind=operation, place=place, loops=(loop.symbol,), names=(carried.name,), line=loop.line,
                operand=operand, carried=(carried,),
            )  # fmt: skip
        elif _is_linear(carried.update, carried):
            yield Reduction(
                kind=RECURRENCE, place="register", loops=(loop.symbol,), names=(carried.name,), line=loop.line,
                carried=(carried,),
            )  # fmt: skip


def _stand_alone(form: Form, loop: Loop, members: tuple[Carried, ...]) -> bool:
    """Whether nothing else that the loop carries has a say in what these come to: a sum of running sums is none."""
    seen: set[object] = set()
    for part in (part for member in members for part in parts_of(member.update)):
        seen |= (
            {part.detail} if part.op == "carried" else asked_for(form, part.detail) if part.op == "select" else set()
        )
    return not any(carried in seen for carried in loop.carried if carried not in members)


def _is_linear(data: Data | None, carried: Carried) -> bool:
    """Whether a value is `a * old + b`, where neither a nor b depends on the old one."""
    found = plain(data)
    if is_old(found, carried):
        return True
    if found is None or found.op not in ("add", "sub", "mul"):
        return False
    mine = [arg for arg in found.args if mentions(arg, carried)]
    return len(mine) == 1 and _is_linear(mine[0], carried)


def _combination(form: Form, carried: Carried) -> tuple[str, Data] | None:
    """(operation, what is combined) if the update is `old op x`."""
    update = plain(carried.update)
    if update is None:
        return None
    if update.op == "select":  # x where a condition holds, else the old value
        sides = [plain(side) for side in update.args]
        for side, other in ((0, 1), (1, 0)):
            if is_old(sides[other], carried):
                compared = extremum_by_comparison(form, update, carried, side)
                if compared is not None:
                    return compared
                return None if follows(form, update.detail, carried) else _operation(form, sides[side], carried)
    return _operation(form, update, carried)


def _operation(form: Form, update: Data | None, carried: Carried) -> tuple[str, Data] | None:
    if update is None:
        return None
    word = _OPERATIONS.get(update.op)
    if word is None:
        if update.op == "result" and isinstance(update.detail, Carried):  # an inner loop goes on with it
            inner = _combination(form, update.detail)
            return inner if inner is not None and is_old(plain(update.args[0]), carried) else None
        return None
    for side, other in ((0, 1), (1, 0)):
        if side >= len(update.args) or other >= len(update.args):
            continue
        left = plain(update.args[side])
        if update.op == "sub" and side == 1:
            continue
        if is_old(left, carried) and not mentions(update.args[other], carried):
            return word, update.args[other]
        if (left is not None and left.op == update.op) or (left is not None and {left.op, update.op} == {"add", "sub"}):
            inner = _operation(form, left, carried)
            if inner is not None and inner[0] == word and not mentions(update.args[other], carried):
                return word, Data("add" if word == "sum" else left.op, (inner[1], update.args[other]))
    return _both_shuffled(update, carried, word)


def _both_shuffled(update: Data, carried: Carried, word: str) -> tuple[str, Data] | None:
    """`v = v + shfl(v)`: the operand is the old value of another lane."""
    sides = [plain(side) for side in update.args]
    for side, other in ((0, 1), (1, 0)):
        shuffled = sides[other] if other < len(sides) else None
        if shuffled is None or shuffled.op != "shuffle":
            continue
        if is_old(sides[side], carried) and is_old(plain(shuffled.args[0]), carried):
            return word, shuffled
    return None


def is_shuffled(operand: Data | None, carried: Carried) -> bool:
    found = plain(operand)
    return found is not None and found.op == "shuffle" and is_old(plain(found.args[0]), carried)


def _online_softmax(
    loop: Loop, single: Mapping[str, tuple[str, Data]]
) -> Iterator[tuple[str, tuple[Carried, ...], Data | None]]:
    """A running maximum, and sums that are scaled anew whenever it grows."""
    largest = [c for c in loop.carried if single.get(c.name, ("", None))[0] == "max"]
    for maximum in largest:
        others = (c for c in loop.carried if c is not maximum and c.name not in single)
        scaled = [carried for carried in others if _is_rescaled(carried)]
        if scaled:
            yield "online_softmax", (maximum, *scaled), single[maximum.name][1]


def _is_rescaled(carried: Carried) -> bool:
    """`sum = sum * factor + x`, maybe in a loop inside."""
    update = plain(carried.update)
    if update is None:
        return False
    if update.op == "result" and isinstance(update.detail, Carried):
        return is_old(plain(update.args[0]), carried) and _is_rescaled(update.detail)
    if update.op == "select":  # scaled where the maximum grows, else only added to
        sides = [plain(side) for side in update.args]
        added = [side for side in sides if side is not None and side.op == "add" and _adds_to(side, carried)]
        return len(added) == 1 and any(side is not added[0] and _scales(side, carried) for side in sides)
    return _scales(update, carried)


def _adds_to(update: Data, carried: Carried) -> bool:
    return any(is_old(plain(side), carried) for side in update.args)


def _scales(update: Data | None, carried: Carried) -> bool:
    if update is None:
        return False
    terms = [plain(side) for side in update.args] if update.op == "add" else [update]
    for term in terms:
        sides = [term]
        if term is not None and term.op == "select" and update.op == "add":  # scaled first, where the maximum grows
            sides = [side for arg in term.args if not is_old(side := plain(arg), carried)]
        if len(sides) == 1 and _is_multiple(sides[0], carried):
            return True
    return False


def _is_multiple(data: Data | None, carried: Carried) -> bool:
    return data is not None and data.op == "mul" and any(is_old(plain(arg), carried) for arg in data.args)


def _welford(
    loop: Loop, single: Mapping[str, tuple[str, Data]]
) -> Iterator[tuple[str, tuple[Carried, ...], Data | None]]:
    """mean += (x - mean) / n; m2 += (x - mean before) * (x - mean after)."""
    for mean in loop.carried:
        update = plain(mean.update)
        if update is None or update.op != "add" or mean.name in single:
            continue
        moved = [side for side in update.args if not is_old(plain(side), mean)]
        if len(moved) != 1 or not _divides_difference(plain(moved[0]), mean):
            continue
        squares = [c for c in loop.carried if c is not mean and mentions(c.update, mean) and mentions(c.update, c)]
        if squares:
            counts = [c for c in loop.carried if c.name in single and mentions(update, c)]
            yield "welford", (mean, *squares, *counts), None


def _divides_difference(data: Data | None, mean: Carried) -> bool:
    if data is None or data.op not in ("div", "mul"):
        return False
    for side in data.args:
        found = plain(side)
        if found is not None and found.op == "sub" and is_old(plain(found.args[1]), mean):
            return True
    return False


def _value_and_index(
    form: Form, loop: Loop, single: Mapping[str, tuple[str, Data]]
) -> Iterator[tuple[str, tuple[Carried, ...], Data | None]]:
    """A largest value and where it stands: both change under one condition."""
    for value in loop.carried:
        update = plain(value.update)
        if single.get(value.name, ("",))[0] not in ("max", "min") or update is None or update.op != "select":
            continue
        condition = update.detail
        for index in loop.carried:
            if index is value or not is_strict(form, condition, update, value):
                continue
            if is_one_test(form, condition_of_place(index, loop), condition):
                yield f"arg{single[value.name][0]}", (value, index), single[value.name][1]


# In memory.


def _in_memory(form: Form) -> Iterator[Reduction]:
    """`a[i] = a[i] op x`, and trees `s[t] = s[t] op s[t + half]`."""
    for access in form.accesses:
        update = plain(access.value)
        if access.mode != "write" or access.array is None or update is None or update.op not in _OPERATIONS:
            continue
        for at in range(len(update.args)):
            found = _accumulates(form, access, update, at)
            if found is None:
                continue
            kind, read = found
            other = update.args[1 - at] if len(update.args) > 1 else None
            beside = read_of(form, plain(other))
            free = tuple(s for s in access.loops if s not in access.offset.symbols() and s not in access.array.loops)
            if access.array.space != "shared" and _reads_array(form, other, access):
                break  # a recurrence, as in elimination
            if beside is not None and beside.array == access.array:
                moving = beside.offset.symbols() - access.offset.symbols()
                free = tuple(s for s in access.loops if s in moving)
            if free:
                yield Reduction(
                    kind=kind, place=access.array.space, loops=free, names=(access.array.name,), line=access.line,
                    accesses=(read.number, access.number), operand=other,
                )  # fmt: skip
            break


def _reads_array(form: Form, data: Data | None, access: Access) -> bool:
    """Whether a value is computed from elements of the array that an access writes."""
    return any(read.array == access.array for read in accesses_in(form, data))


def _accumulates(form: Form, access: Access, update: Data, at: int) -> tuple[str, Access] | None:
    """(operation, the read of the old value) if operand number `at` is the old value, maybe scaled."""
    if update.op == "sub" and at == 1:
        return None
    side = plain(update.args[at])
    candidates = [(_OPERATIONS[update.op], side)]
    if update.op == "add" and side is not None and side.op == "mul":
        candidates += [("rescaled_sum", plain(factor)) for factor in side.args]
    for kind, old in candidates:
        read = read_of(form, old)
        if read is not None and read.array == access.array and read.offset == access.offset:
            return kind, read
    return None


def _by_atomics(form: Form) -> Iterator[Reduction]:
    for access in form.accesses:
        if access.mode == "atomic" and access.array is not None and access.operation in _WORDS:
            yield Reduction(
                kind=_WORDS[access.operation], place="atomic", loops=access.loops, names=(access.array.name,),
                line=access.line, accesses=(access.number,), operand=access.value,
            )  # fmt: skip


def _by_shuffles(form: Form) -> Iterator[Reduction]:
    """`reduce` of a group or of the hardware, and shuffles one after another without a loop."""
    for exchange in form.exchanges:
        if exchange.name.startswith("reduce_"):
            word = exchange.name.removeprefix("reduce_")
            yield Reduction(
                kind=_WORDS.get(word, word), place="shuffle", loops=exchange.loops, names=(), line=exchange.line
            )
    rows = [e for e in form.exchanges if e.distance is not None and e.distance.value is not None]
    for at, exchange in enumerate(rows):
        distances = [
            e.distance.value for e in rows[at : at + 5] if e.distance is not None and e.context == exchange.context
        ]
        if distances in ([16, 8, 4, 2, 1], [1, 2, 4, 8, 16]):
            yield Reduction(kind="combination", place="shuffle", loops=(), names=(), line=exchange.line)
