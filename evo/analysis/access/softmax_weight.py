"""The weight of a softmax: exp(scale * q . k - shift), and what is subtracted there."""

from __future__ import annotations

from dataclasses import dataclass

from evo.analysis.access.comparisons import Combined, Compare, Condition
from evo.analysis.access.data_values import parts_of, plain
from evo.analysis.access.form import THREAD, Access, Array, Carried, Data
from evo.analysis.access.staging import origin
from evo.analysis.access.terms import Term
from evo.analysis.access.value_factors import Accumulation, ValueFactor, ValueReader

_EXP = {"expf": False, "exp": False, "__expf": False, "exp2f": True, "exp2": True}  # whether the base is 2
_LEAST = -1e4  # a score that no key has


@dataclass(frozen=True, slots=True)
class TensorRead:
    """An element of a tensor: its subscripts at the place that reads it, and that place."""

    array: Array
    at: tuple[Term, ...]
    access: Access


@dataclass(frozen=True, slots=True)
class SoftmaxWeight:
    """exp(scale * q . k - shift). shift: what tells which it is, empty without one; running: the maximum that grows."""

    query: TensorRead
    key: TensorRead
    scale: tuple[ValueFactor, ...]
    is_base_2: bool
    shift: tuple[object, ...]
    running: Carried | None
    hidden: tuple[Condition, ...]  # where the score is no score


def tensor_read(reader: ValueReader, data: Data) -> TensorRead | None:
    """The element of a tensor that a value is."""
    found = origin(reader.form, data)
    if found is None or found.array.role != "in":
        return None
    return TensorRead(found.array, found.subscripts, reader.form.accesses[found.way[-1]])


def softmax_weight(reader: ValueReader, data: Data, total: Accumulation) -> SoftmaxWeight | None:
    found = plain(data)
    if found is None or found.op != "call" or found.detail not in _EXP or len(found.args) != 1:
        return None
    shown, hidden = _unmasked(reader, found.args[0])
    terms = reader.terms(shown)
    if terms is None:
        return None
    scores = [(term, dot) for term in terms if term.sign > 0 and (dot := _dot(reader, term.factors)) is not None]
    if len(scores) != 1:
        return None
    term, (query, key, scale) = scores[0]
    del term
    shift: list[object] = []
    running: Carried | None = None
    for other in terms:
        if other is scores[0][0]:
            continue
        known = _shift(reader, other.factors, total)
        if known is None or other.sign > 0:
            return None
        shift.append(id(known))
        running = known if isinstance(known, Carried) and known.loop in total.loops else running
    return SoftmaxWeight(query, key, scale, _EXP[str(found.detail)], tuple(shift), running, hidden)


def _unmasked(reader: ValueReader, data: Data) -> tuple[Data, tuple[Condition, ...]]:
    """A value with its scores where they are some, and the conditions under which they are none."""
    found = plain(data)
    if found is None:
        return data, ()
    access = reader.read(found)
    source = reader.source(access) if access is not None and reader.total(found) is None else None
    if source is not None and source.value is not None and not reader.is_sum_in_place(source):
        return _unmasked(reader, source.value)
    if found.op == "select" and len(found.args) == 2 and isinstance(found.detail, Compare | Combined):
        for side, other in ((0, 1), (1, 0)):
            if _is_least(found.args[side]):
                condition = found.detail if side == 0 else found.detail.negated()
                inner, more = _unmasked(reader, found.args[other])
                return inner, (condition, *more)
    if found.op in ("mul", "add", "sub") and len(found.args) == 2:
        left, first = _unmasked(reader, found.args[0])
        right, second = _unmasked(reader, found.args[1])
        if first or second:
            return Data(found.op, (left, right), found.detail), first + second
    return found, ()


def _is_least(data: Data | None) -> bool:
    found = plain(data)
    if found is not None and found.op == "neg":
        inner = plain(found.args[0])
        return inner is not None and isinstance(inner.detail, int | float) and -inner.detail <= _LEAST
    return (
        found is not None and found.op == "constant" and isinstance(found.detail, int | float)
        and found.detail <= _LEAST
    )  # fmt: skip


def _dot(
    reader: ValueReader, factors: tuple[ValueFactor, ...]
) -> tuple[TensorRead, TensorRead, tuple[ValueFactor, ...]] | None:
    """(one factor, the other one, the scale) if a product is a number times a sum of products of two tensors."""
    sums = [
        (factor, made) for factor in factors
        if not factor.is_over and (made := reader.total(factor.data)) is not None and made.kind == "sum"
    ]  # fmt: skip
    if len(sums) != 1 or sums[0][1].kept:
        return None
    parts = reader.factors(sums[0][1].operand)
    if parts is None:
        return None
    elements = [(p, found) for p in parts if not p.is_over and (found := tensor_read(reader, p.data)) is not None]
    if len(elements) != 2:
        return None
    scale = [factor for factor in factors if factor is not sums[0][0]]
    scale += [p for p in parts if all(p is not element for element, _ in elements)]
    if any(_depends(factor.data) for factor in scale):
        return None
    (_, first), (_, second) = elements
    used = set(sums[0][1].loops) | set(THREAD)
    if not (first.at[-1].symbols() & used or second.at[-1].symbols() & used):
        return None
    return first, second, tuple(scale)


def _depends(data: Data) -> bool:
    """Whether a value is more than a number that all threads have."""
    return any(part.op in ("read", "result", "carried", "unknown", "shuffle", "select") for part in parts_of(data))


def _shift(reader: ValueReader, factors: tuple[ValueFactor, ...], total: Accumulation) -> object | None:
    """What tells which number a shift is: the maximum that a loop keeps. None if it may differ from key to key."""
    moving = [factor for factor in factors if _depends(factor.data)]
    if len(moving) != 1 or moving[0].is_over:
        return None
    found = plain(moving[0].data)
    if found is None:
        return None
    for symbol in total.loops:
        loop = reader.form.loops.get(symbol)
        for carried in loop.carried if loop is not None else ():
            if plain(carried.update) is found and reader.is_largest(carried):
                return carried
    largest = reader.total(found)
    if largest is None or largest.kind != "max" or set(largest.loops) & set(total.loops):
        return None
    return largest.operand


def is_one_weight(one: SoftmaxWeight, other: SoftmaxWeight) -> bool:
    """Whether two weights are the same function of row and key."""
    spelled = [
        (w.query.array, w.query.at[:-1], w.key.array, w.is_base_2, w.shift, w.running, len(w.scale))
        for w in (one, other)
    ]
    return spelled[0] == spelled[1] and all(
        a.is_over == b.is_over and _is_alike(a.data, b.data) for a, b in zip(one.scale, other.scale, strict=True)
    )


def _is_alike(one: Data | None, other: Data | None) -> bool:
    left, right = plain(one), plain(other)
    if left is right:
        return True
    if left is None or right is None or left.op != right.op or len(left.args) != len(right.args):
        return False
    return left.detail == right.detail and all(map(_is_alike, left.args, right.args))


def is_rescaled_with(reader: ValueReader, total: Accumulation, weight: SoftmaxWeight) -> bool:
    """Whether a sum is scaled as its maximum grows, or not at all if that is known before."""
    if weight.running is None:
        return not total.kept
    if len(total.kept) != 1:
        return False
    found = plain(total.kept[0])
    if found is not None and found.op == "select":
        found = next((side for side in map(plain, found.args) if side is not None and side.op == "call"), None)
    if found is None or found.op != "call" or _EXP.get(str(found.detail)) is not weight.is_base_2:
        return False
    terms = reader.terms(found.args[0]) or ()
    before = [t for t in terms if any(_is_carried(f.data, weight.running) for f in t.factors)]
    after = [t for t in terms if t not in before]
    return len(before) == 1 and before[0].sign > 0 and len(after) == 1 and after[0].sign < 0


def _is_carried(data: Data, carried: Carried) -> bool:
    found = plain(data)
    return found is not None and found.op == "carried" and found.detail is carried
