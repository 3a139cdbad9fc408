"""Attention: two contractions with a softmax of each row between them, however it is written.

    out[planes, row, :] = sum over key of exp(scale * q[planes, row, :] . k[planes', key, :]) * v[planes', key, :]
                          / sum over key of exp(...)

A softmax is the same whatever is subtracted from all scores of a row, so a maximum of an earlier pass, a running one
and none at all are one function; which it is, is followed by identity, not by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.analysis.access.comparisons import Combined, Compare, Condition, Unsure, all_of, any_of, conjuncts
from evo.analysis.access.form import THREAD, Access, Array, Carried, Data, Form
from evo.analysis.access.launches import LaunchAnalysis
from evo.analysis.access.numeric import number_of
from evo.analysis.access.reductions import parts_of, plain
from evo.analysis.access.renaming import in_indices
from evo.analysis.access.staging import origin
from evo.analysis.access.terms import Op, Symbol, Term, apply
from evo.analysis.access.traffic import footprint
from evo.analysis.access.value_factors import Factor, Total, ValueReader

ROW, KEY = Symbol("row", "value", 1), Symbol("key", "value", 2)
PLANES = tuple(Symbol(f"plane{d}", "value", 3 + d) for d in range(4))
_EXP = {"expf": False, "exp": False, "__expf": False, "exp2f": True, "exp2": True}  # whether the base is 2
_LEAST = -1e4  # a score that no key has


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One attention. query, key, value: the tensors, and their subscripts but the last one in ROW, KEY and PLANES;
    store: of the result; row: which dimension of query and output the row is. scale: the factors of a score besides the
    product; is_base_2: of the exponentials. limit: how many keys a row sees, the first ones; grows: never fewer than
    the row before.
    """

    query: Array
    key: Array
    value: Array
    query_at: tuple[Term, ...]
    key_at: tuple[Term, ...]
    value_at: tuple[Term, ...]
    store: Access
    row: int
    scale: tuple[Factor, ...]
    is_base_2: bool
    limit: Term
    grows: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """An element of a tensor: its subscripts at the place that reads it, and that place."""

    array: Array
    at: tuple[Term, ...]
    access: Access


@dataclass(frozen=True, slots=True)
class _Weight:
    """exp(scale * q . k - shift). shift: what tells which it is, empty without one; running: the maximum that grows."""

    query: _Read
    key: _Read
    scale: tuple[Factor, ...]
    is_base_2: bool
    shift: tuple[object, ...]
    running: Carried | None
    hidden: tuple[Condition, ...]  # where the score is no score


def attention_of(analysis: LaunchAnalysis) -> Attention | None:
    """The attention that a launch computes, if that is all that it computes."""
    form, reductions = analysis.form, analysis.reductions
    stores = [a for a in form.accesses if a.is_write and a.array is not None and a.array.space == "global"]
    if len(stores) != 1 or stores[0].mode != "write" or len(stores[0].subscripts) < 3 or form.multiplies:
        return None
    reader = ValueReader(form, reductions)
    (store,) = stores
    outer = reader.factors(store.value)
    if outer is None:
        return None
    sums = [f for f in outer if not f.is_over and (added := reader.total(f.data)) is not None and added.kind == "sum"]
    if len(sums) != 1:
        return None
    whole = reader.total(sums[0].data)
    inner = reader.factors(whole.operand) if whole is not None else None
    if whole is None or inner is None:
        return None
    rest = [factor for factor in (*outer, *inner) if factor is not sums[0]]
    values = [found for f in rest if not f.is_over and (found := _element(reader, f.data)) is not None]
    weights = [one for f in rest if not f.is_over and (one := _weight(reader, f.data, whole)) is not None]
    divisors = [f for f in rest if f.is_over]
    if len(values) != 1 or len(weights) != 1 or len(divisors) != 1 or len(rest) != 3:
        return None
    total = reader.total(divisors[0].data)
    below = reader.factors(total.operand) if total is not None and total.kind == "sum" else None
    if total is None or below is None or len(below) != 1 or below[0].is_over:
        return None
    beside = _weight(reader, below[0].data, total)
    weight = weights[0]
    if beside is None or not _is_one_weight(weight, beside):
        return None
    if not (_is_kept(reader, whole, weight) and _is_kept(reader, total, beside)):
        return None
    made = _assembled(form, store, values[0], weight, beside, (whole, total))
    if made is None or not _is_whole(analysis, made, (weight, beside)):
        return None
    keys = ((whole, values[0].at[made.row]), (total, Term.of(total.loops[0])))
    return made if all(_is_in_step(reader, each.operand, key, made.key) for each, key in keys) else None


def _is_whole(analysis: LaunchAnalysis, found: Attention, weights: tuple[_Weight, ...]) -> bool:
    """Whether the scores are products of whole rows."""
    for weight in weights:
        read = weight.key if weight.key.array == found.key else weight.query
        touched = footprint(analysis.form, [read.access], analysis.sizes)
        size = number_of(found.key.shape[-1], analysis.sizes.values)
        if touched is None or touched.box is None or touched.box[-1] != size:
            return False
    return True


def _element(reader: ValueReader, data: Data) -> _Read | None:
    """The element of a tensor that a value is."""
    found = origin(reader.form, data)
    if found is None or found.array.role != "in":
        return None
    return _Read(found.array, found.subscripts, reader.form.accesses[found.way[-1]])


def _weight(reader: ValueReader, data: Data, total: Total) -> _Weight | None:
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
    return _Weight(query, key, scale, _EXP[str(found.detail)], tuple(shift), running, hidden)


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


def _dot(reader: ValueReader, factors: tuple[Factor, ...]) -> tuple[_Read, _Read, tuple[Factor, ...]] | None:
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
    elements = [(p, found) for p in parts if not p.is_over and (found := _element(reader, p.data)) is not None]
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


def _shift(reader: ValueReader, factors: tuple[Factor, ...], total: Total) -> object | None:
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


def _is_one_weight(one: _Weight, other: _Weight) -> bool:
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


def _is_kept(reader: ValueReader, total: Total, weight: _Weight) -> bool:
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


def _assembled(
    form: Form, store: Access, value: _Read, weight: _Weight, beside: _Weight, totals: tuple[Total, Total]
) -> Attention | None:
    """The attention in ROW, KEY and PLANES."""
    query, key = weight.query, weight.key
    if not _is_summed_by(key, store, totals[0]):
        query, key = key, query
    row = _own_dimension(query, key)
    rank = len(store.subscripts)
    if row is None or not (len(query.at) == rank and len(key.at) == len(value.at)) or rank - 2 > len(PLANES):
        return None
    names: list[Symbol] = []
    for place in range(rank - 1):
        names.append(ROW if place == row else PLANES[len([n for n in names if n is not ROW])])
    at = store.subscripts[:-1]
    own = tuple(in_indices(term, at, names) for term in query.at[:-1])
    if own != tuple(Term.of(name) for name in names):
        return None
    summed = _in_loop(form, beside.key if beside.key.array == key.array else beside.query, row, totals[1])
    if summed is None:
        return None
    reads = ((key, weight.hidden), (value, ()), (summed, beside.hidden))
    found = [_by_key(form, read, hidden, store, names) for read, hidden in reads]
    if found[0] is None or found[1] is None or found[2] is None:
        return None
    (key_at, limit), (value_at, other), (_, third) = found[0], found[1], found[2]
    least = limit if limit == other else _fewest(limit, other)
    if key_at != value_at or third != least:
        return None
    return Attention(
        query=query.array, key=key.array, value=value.array, query_at=own, key_at=key_at, value_at=value_at,
        store=store, row=row, scale=weight.scale, is_base_2=weight.is_base_2, limit=least, grows=_grows(least),
    )  # fmt: skip


def _in_loop(form: Form, key: _Read, row: int, total: Total) -> _Read | None:
    """The key of a weight as the sum of the weights counts them, whose loop may read back what another one stored."""
    symbol = total.loops[0]
    if len(total.loops) > 1 or symbol in key.access.loops:
        return key if len(total.loops) == 1 else None
    reads = [form.accesses[part.detail] for part in parts_of(total.operand)
             if part.op == "read" and isinstance(part.detail, int) and part.detail >= 0]  # fmt: skip
    inside = [read for read in reads if symbol in read.loops]
    at = tuple(Term.of(symbol) if place == row else term for place, term in enumerate(key.at))
    return _Read(key.array, at, inside[0]) if inside else None


def _is_in_step(reader: ValueReader, data: Data | None, key: Term, tensor: Array) -> bool:
    """Whether what is read back from memory is of the same key, down to the key's own elements."""
    moving = key.symbols()
    for part in parts_of(data):
        access = reader.read(part) if part.op == "read" else None
        if access is None or access.array is None or not any(t.symbols() & moving for t in access.subscripts):
            continue
        if access.array.space == "global":
            if access.array == tensor and key not in access.subscripts:
                return False
            continue
        source = reader.source(access)
        if access.subscripts[-1] != key or source is None or not source.subscripts:
            return False
        if not _is_in_step(reader, source.value, source.subscripts[-1], tensor):
            return False
    return True


def _fewest(one: Term, other: Term) -> Term:
    return one if one == other else apply("min", one, other)


def _is_summed_by(read: _Read, store: Access, total: Total) -> bool:
    """Whether a tensor is read at the index of the sum: that of the keys."""
    return any(term.symbols() & set(total.loops) for term in read.at[:-1]) or any(
        symbol.kind == "loop" and symbol not in store.loops for term in read.at[:-1] for symbol in term.symbols()
    )


def _own_dimension(query: _Read, key: _Read) -> int | None:
    """The dimension of the row: where query and key are read at different places and key at a loop's."""
    own = [
        place for place, (one, other) in enumerate(zip(query.at[:-1], key.at[:-1], strict=False))
        if one != other and any(s.kind == "loop" for s in other.symbols())
    ]  # fmt: skip
    return own[0] if len(own) == 1 and len(query.at) == len(key.at) else None


def _by_key(
    form: Form, read: _Read, hidden: tuple[Condition, ...], store: Access, names: Sequence[Symbol]
) -> tuple[tuple[Term, ...], Term] | None:
    """Subscripts in the new indices, and how many keys count."""
    at = store.subscripts[:-1]
    moving = [term for term in read.at[:-1] if any(s.kind == "loop" and s not in store.loops for s in term.symbols())]
    if len(moving) != 1 or read.array is None:
        return None
    place = read.at.index(moving[0])
    symbol = _counted(form, moving[0], read.access)
    if symbol is None:
        return None
    values = {symbol: Term.of(KEY) - (moving[0] - Term.of(symbol))}
    new = tuple(in_indices(term.substitute(values), at, names) for term in read.at[:-1])
    if not all(_is_new(term) for term in new) or new[place] != Term.of(KEY):
        return None
    headers = {form.loops[s].condition for s in read.access.loops if s != symbol}
    known = {part for condition in store.conditions for part in conjuncts(condition)}
    limit: Term | None = None
    conditions = [p for c in read.access.conditions if c not in headers for p in conjuncts(c) if p not in known]
    for part in (*conditions, *(p for c in hidden for p in conjuncts(c.negated()))):
        said = _renamed(part, values, at, names)
        if said is None:
            return None
        if KEY not in said.symbols():
            return None
        bound = _limit(said, read.array.shape[place])
        if bound is None:
            return None
        limit = bound if limit is None else _fewest(limit, bound)
    size = read.array.shape[place]
    return new, size if limit is None else _fewest(size, _unbounded(limit, size))


def _unbounded(limit: Term, size: Term) -> Term:
    """A limit without `min(size, ...)` inside, which goes without saying: there are no other keys."""
    atom = limit.atom
    if not isinstance(atom, Op) or atom.name not in ("min", "select"):
        return limit
    if atom.name == "min" and size in atom.terms:
        return _unbounded(next((term for term in atom.terms if term != size), size), size)
    left, right = (_unbounded(term, size) for term in atom.terms)
    return apply("min", left, right) if atom.name == "min" else apply("select", atom.args[0], left, right)


def _counted(form: Form, term: Term, read: Access) -> Symbol | None:
    """The loop that counts the keys 0, 1, 2 ..., the threads of a block together if they take turns."""
    loops = [s for s in term.symbols() if s.kind == "loop"]
    if len(loops) != 1 or term.atom != loops[0]:
        return None
    loop = form.loops[loops[0]]
    start, step = loop.start, loop.step
    if loop.values is not None:
        return None
    if loop.until is not None and not set(conjuncts(loop.until.negated())) <= set(read.conditions):
        return None  # left for another reason than that a key does not count
    if start.value == 0 and step.value == 1:
        return loops[0]
    return loops[0] if start.atom == THREAD[0] and step == form.block[0] else None


def _renamed(
    condition: Condition, values: dict[Symbol, Term], at: Sequence[Term], names: Sequence[Symbol]
) -> Condition | None:
    if isinstance(condition, Unsure):
        return None
    if isinstance(condition, Combined):
        items = [_renamed(item, values, at, names) for item in condition.items]
        made = [item for item in items if item is not None]
        if len(made) != len(items):
            return None
        return all_of(made) if condition.word == "and" else any_of(made)
    new = in_indices(condition.term.substitute(values), at, names)
    return Compare(new, condition.relation) if _is_new(new) else None


def _is_new(term: Term) -> bool:
    return all(symbol.kind == "axis" or symbol in (ROW, KEY, *PLANES) for symbol in term.symbols())


def _limit(condition: Condition, size: Term) -> Term | None:
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
    inner = _limit(by_key[0], size)
    if inner is None:
        return None
    if condition.word == "or":
        return apply("select", any_of(others), size, inner)
    return apply("select", all_of(others), inner, Term.number(0))


def _grows(term: Term) -> bool:
    """Whether a number of keys is never smaller for a later row."""
    for mono, n in term.parts.items():
        inside = [atom for atom in mono if ROW in atom.symbols()]
        if not inside:
            continue
        if len(inside) > 1 or n < 0 or any(not isinstance(a, Symbol) for a in mono if a is not inside[0]):
            return False
        (atom,) = inside
        if isinstance(atom, Op):
            if atom.name not in ("min", "max", "select") or not all(_grows(each) for each in atom.terms):
                return False
            if atom.name == "select" and ROW in atom.args[0].symbols():
                return False
    return True
