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
from evo.analysis.access.data_values import parts_of
from evo.analysis.access.form import THREAD, Access, Array, Data, Form
from evo.analysis.access.key_limits import KEY, ROW, fewest, grows_with_rows, limit_of, unbounded
from evo.analysis.access.launches import LaunchAnalysis
from evo.analysis.access.numeric import number_of
from evo.analysis.access.renaming import in_indices
from evo.analysis.access.softmax_weight import (
    SoftmaxWeight,
    TensorRead,
    is_one_weight,
    is_rescaled_with,
    softmax_weight,
    tensor_read,
)
from evo.analysis.access.terms import Symbol, Term
from evo.analysis.access.traffic import footprint
from evo.analysis.access.value_factors import Accumulation, ValueFactor, ValueReader

PLANES = tuple(Symbol(f"plane{d}", "value", 3 + d) for d in range(4))


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
    scale: tuple[ValueFactor, ...]
    is_base_2: bool
    limit: Term
    grows: bool


def attention_of(analysis: LaunchAnalysis) -> Attention | None:
    """The attention that a launch computes, if that is all that it computes."""
    form, reductions = analysis.form, analysis.reductions
    stores = [a for a in form.accesses if a.is_write and a.is_global]
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
    values = [found for f in rest if not f.is_over and (found := tensor_read(reader, f.data)) is not None]
    weights = [one for f in rest if not f.is_over and (one := softmax_weight(reader, f.data, whole)) is not None]
    divisors = [f for f in rest if f.is_over]
    if len(values) != 1 or len(weights) != 1 or len(divisors) != 1 or len(rest) != 3:
        return None
    total = reader.total(divisors[0].data)
    below = reader.factors(total.operand) if total is not None and total.kind == "sum" else None
    if total is None or below is None or len(below) != 1 or below[0].is_over:
        return None
    beside = softmax_weight(reader, below[0].data, total)
    weight = weights[0]
    if beside is None or not is_one_weight(weight, beside):
        return None
    if not (is_rescaled_with(reader, whole, weight) and is_rescaled_with(reader, total, beside)):
        return None
    made = _assembled(form, store, values[0], weight, beside, (whole, total))
    if made is None or not _is_whole(analysis, made, (weight, beside)):
        return None
    keys = ((whole, values[0].at[made.row]), (total, Term.of(total.loops[0])))
    return made if all(_is_in_step(reader, each.operand, key, made.key) for each, key in keys) else None


def _is_whole(analysis: LaunchAnalysis, found: Attention, weights: tuple[SoftmaxWeight, ...]) -> bool:
    """Whether the scores are products of whole rows."""
    for weight in weights:
        read = weight.key if weight.key.array == found.key else weight.query
        touched = footprint(analysis.form, [read.access], analysis.sizes)
        size = number_of(found.key.shape[-1], analysis.sizes.values)
        if touched is None or touched.box is None or touched.box[-1] != size:
            return False
    return True


def _assembled(
    form: Form,
    store: Access,
    value: TensorRead,
    weight: SoftmaxWeight,
    beside: SoftmaxWeight,
    totals: tuple[Accumulation, Accumulation],
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
    least = limit if limit == other else fewest(limit, other)
    if key_at != value_at or third != least:
        return None
    return Attention(
        query=query.array, key=key.array, value=value.array, query_at=own, key_at=key_at, value_at=value_at,
        store=store, row=row, scale=weight.scale, is_base_2=weight.is_base_2, limit=least, grows=grows_with_rows(least),
    )  # fmt: skip


def _in_loop(form: Form, key: TensorRead, row: int, total: Accumulation) -> TensorRead | None:
    """The key of a weight as the sum of the weights counts them, whose loop may read back what another one stored."""
    symbol = total.loops[0]
    if len(total.loops) > 1 or symbol in key.access.loops:
        return key if len(total.loops) == 1 else None
    reads = [form.accesses[part.detail] for part in parts_of(total.operand)
             if part.op == "read" and isinstance(part.detail, int) and part.detail >= 0]  # fmt: skip
    inside = [read for read in reads if symbol in read.loops]
    at = tuple(Term.of(symbol) if place == row else term for place, term in enumerate(key.at))
    return TensorRead(key.array, at, inside[0]) if inside else None


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


def _is_summed_by(read: TensorRead, store: Access, total: Accumulation) -> bool:
    """Whether a tensor is read at the index of the sum: that of the keys."""
    return any(term.symbols() & set(total.loops) for term in read.at[:-1]) or any(
        symbol.kind == "loop" and symbol not in store.loops for term in read.at[:-1] for symbol in term.symbols()
    )


def _own_dimension(query: TensorRead, key: TensorRead) -> int | None:
    """The dimension of the row: where query and key are read at different places and key at a loop's."""
    own = [
        place for place, (one, other) in enumerate(zip(query.at[:-1], key.at[:-1], strict=False))
        if one != other and any(s.kind == "loop" for s in other.symbols())
    ]  # fmt: skip
    return own[0] if len(own) == 1 and len(query.at) == len(key.at) else None


def _by_key(
    form: Form, read: TensorRead, hidden: tuple[Condition, ...], store: Access, names: Sequence[Symbol]
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
        bound = limit_of(said, read.array.shape[place])
        if bound is None:
            return None
        limit = bound if limit is None else fewest(limit, bound)
    size = read.array.shape[place]
    return new, size if limit is None else fewest(size, unbounded(limit, size))


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
