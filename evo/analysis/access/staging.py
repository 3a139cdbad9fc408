"""Where a value that is read from shared memory or a thread's own array came from: the tensor, and which element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access.data_values import accesses_in, plain
from evo.analysis.access.form import THREAD, Access, Array, Data, Form
from evo.analysis.access.simplify import divide, rebuilt, remainder
from evo.analysis.access.terms import ZERO, Symbol, Term

_DEEPEST = 5
_LETTERS = {"x": 0, "y": 1, "z": 2, "w": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """An element of a tensor: array, subscripts in the indices at the place of use, and the reads on the way."""

    array: Array
    subscripts: tuple[Term, ...]
    way: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A shared array that is filled from a tensor. is_copy: each element is one of the tensor, maybe converted."""

    shared: Array
    tensor: Array
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    is_copy: bool


def staged_of(form: Form) -> tuple[Staged, ...]:
    """Which shared arrays hold pieces of which tensors."""
    found: dict[tuple[Symbol, Symbol], Staged] = {}
    for write in form.accesses:
        if not write.is_write or write.array is None or write.array.space != "shared":
            continue
        sources = accesses_in(form, write.value)
        tensors = [read for read in sources if read.is_global]
        for read in tensors:
            key = write.array.address, read.memory.address
            known = found.get(key)
            is_copy = len(sources) == 1 and leaf(form, write.value) is not None
            made = Staged(
                shared=write.array, tensor=read.memory, writes=(write.number,), reads=(read.number,), is_copy=is_copy
            )
            if known is not None:
                made = replace(
                    made, writes=(*known.writes, write.number), reads=(*known.reads, read.number),
                    is_copy=known.is_copy and is_copy,
                )  # fmt: skip
            found[key] = made
    return tuple(found.values())


def leaf(form: Form, data: Data | None) -> tuple[Access, int | Term] | None:
    """The one access that a value is, and which of its elements; zeros that stand in for it are passed over."""
    found = plain(data)
    element: int | Term = 0
    for _ in range(_DEEPEST * 4):
        if found is None:
            return None
        if found.op == "part" and found.args:
            if isinstance(found.detail, Term):
                element = found.detail
            elif found.detail in _LETTERS:
                element = _LETTERS[str(found.detail)]
            found = plain(found.args[0])
        elif found.op == "select":
            sides = [side for side in (plain(arg) for arg in found.args) if side is not None and not _is_constant(side)]
            if len(sides) != 1:
                return None
            found = sides[0]
        elif found.op == "read" and isinstance(found.detail, int) and found.detail >= 0:
            return form.accesses[found.detail], element
        else:
            return None
    return None


def _is_constant(data: Data) -> bool:
    return data.op == "constant" or (
        data.op == "index" and isinstance(data.detail, Term) and data.detail.value is not None
    )


def origin(form: Form, data: Data | None) -> Origin | None:
    """The element of a tensor that a value is a copy of, through shared memory and arrays of the thread."""
    found = leaf(form, data)
    return _origin(form, *found, 0) if found is not None else None


def _origin(form: Form, access: Access, element: int | Term, depth: int) -> Origin | None:
    if access.array is None or not access.subscripts or depth > _DEEPEST:
        return None
    at = (*access.subscripts[:-1], access.subscripts[-1] + element)
    if access.array.space == "global":
        return Origin(array=access.array, subscripts=at, way=(access.number,))
    writes = [w for w in form.of(access.array) if w.is_write and not _is_cleared(w)]
    origins = [_through(form, write, access, at, depth) for write in writes]
    if not origins or any(found is None for found in origins):
        return None
    first = origins[0]
    assert first is not None
    if any(found is not None and found.subscripts != first.subscripts for found in origins):
        return None
    return replace(first, way=(access.number, *first.way))


def _is_cleared(write: Access) -> bool:
    value = plain(write.value)
    return value is not None and _is_constant(value)


def _through(form: Form, write: Access, read: Access, at: Sequence[Term], depth: int) -> Origin | None:
    """The origin of what was written, in the indices of the read."""
    source = leaf(form, write.value)
    if source is None or not write.subscripts:
        return None
    behind = _origin(form, *source, depth + 1)
    if behind is None:
        return None
    private = set(write.loops) - set(read.loops)
    if write.array is not None and write.array.space == "shared":
        private |= set(THREAD)
    with form.bounds.assuming([form.loops[symbol].condition for symbol in read.loops]):
        for written, now in _places(form, write.subscripts, at, behind.subscripts):
            moved = [carried_over(form, term, written, now, private) for term in behind.subscripts]
            if (known := [term for term in moved if term is not None]) and len(known) == len(moved):
                return replace(behind, subscripts=tuple(known))
    return None


def _places(
    form: Form, written: Sequence[Term], read: Sequence[Term], source: Sequence[Term]
) -> Iterator[tuple[Sequence[Term], Sequence[Term]]]:
    """The places of a write and of a read; those of a flat array also as rows and columns, however long these are."""
    yield written, read
    divisors = {op.terms[1] for term in source for op in term.ops() if op.name in ("div", "mod")}
    divisors |= {Term.number(n) for n in written[0].parts.values() if n > 1}
    for by in sorted(divisors, key=lambda term: term.key) if len(written) == 1 else ():
        (place,), (now,) = written, read
        yield (
            (divide(form.bounds, place, by), remainder(form.bounds, place, by)),
            (divide(form.bounds, now, by), remainder(form.bounds, now, by)),
        )


def carried_over(
    form: Form, term: Term, written: Sequence[Term], read: Sequence[Term], private: set[Symbol]
) -> Term | None:
    """A term of the indices at the write, in those at the read of the same element. None if it cannot be said so."""
    values = {
        place.atom: now
        for place, now in zip(written, read, strict=True)
        if isinstance(place.atom, Symbol) and place.atom in private
    }
    rest, total = term.substitute(values, lambda op: rebuilt(form.bounds, op)), ZERO
    left = private - values.keys()
    for place, now in zip(written, read, strict=True):
        weight = _weight(rest, place, left)
        if weight:
            rest, total = rest - place * weight, total + now * weight
    return None if rest.symbols() & left else rest + total


def _weight(term: Term, place: Term, private: set[Symbol]) -> int:
    """How often a subscript is in a term, told by what only the write knows."""
    for mono, n in place.parts.items():
        if any(private & atom.symbols() for atom in mono):
            count = term.parts.get(mono, 0)
            return count // n if count % n == 0 else 0
    return 0
