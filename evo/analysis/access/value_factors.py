"""Computed values as mathematics: products of factors, sums of terms, and what a sum adds up, through memory.

A value that is stored in an array of the thread or the block and read back is followed to what was stored; a sum
through shuffles and trees in shared memory is the sum that its threads began with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evo.analysis.access.data_values import is_number, parts_of, plain, read_of
from evo.analysis.access.form import Access, Carried, Data, Form
from evo.analysis.access.reductions import Reduction
from evo.analysis.access.terms import Symbol

_DEEPEST = 24
_QUOTIENTS = ("__fdividef", "fdividef", "__fdiv_rn")
_RECIPROCALS = ("__frcp_rn",)


@dataclass(frozen=True, slots=True)
class ValueFactor:
    """One factor of a product: a value, or 1 over it."""

    data: Data
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Summand:
    """One term of a sum: its sign and its factors."""

    sign: int
    factors: tuple[ValueFactor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """A sum over turns of loops. operand: what is added in a turn; kept: what the sum so far is multiplied with before,
    None if with nothing; loops: inner ones first; kind: `sum` or `max`; access: of a sum in memory the store.
    """

    kind: str
    operand: Data
    kept: tuple[Data, ...]
    loops: tuple[Symbol, ...]
    access: Access | None = None


class ValueReader:
    """Follows the values of one form."""

    def __init__(self, form: Form, reductions: tuple[Reduction, ...]) -> None:
        self.form = form
        self._of = {id(carried): made for made in reductions for carried in made.carried}

    def read(self, data: Data | None) -> Access | None:
        """The access that a value is read by."""
        return read_of(self.form, data)

    def source(self, access: Access) -> Access | None:
        """The store that a read of an array of the thread or the block gets its value from: the last one before it."""
        if access.array is None or access.array.space not in ("local", "shared"):
            return None
        before = [w for w in self.form.of(access.array) if w.is_write and w.number < access.number]
        return next((w for w in reversed(before) if not self._is_tree(w)), None)

    def _is_tree(self, write: Access) -> bool:
        """Whether a store only puts together what others stored before: `s[t] = s[t] op s[t + half]`."""
        value = plain(write.value)
        if value is None or value.op not in ("add", "max") or len(value.args) != 2:
            return False
        sides = [self.read(side) for side in value.args]
        return all(side is not None and side.array == write.array for side in sides)

    def factors(self, data: Data | None, depth: int = 0) -> tuple[ValueFactor, ...] | None:
        """The factors of a value; a constant 1 is none. None if it is nothing."""
        found = plain(data)
        if found is None or depth > _DEEPEST:
            return None
        if found.op == "mul":
            return self._product(found.args[0], found.args[1], depth)
        if found.op == "div" and len(found.args) == 2:
            return self._quotient(found.args[0], found.args[1], depth)
        if found.op == "call" and found.detail in _QUOTIENTS:
            return self._quotient(found.args[0], found.args[1], depth)
        if found.op == "call" and found.detail in _RECIPROCALS:
            return self._quotient(None, found.args[0], depth)
        if is_number(found, 1.0):
            return ()
        stored = self._stored(found)
        return self.factors(stored, depth + 1) if stored is not None else (ValueFactor(found),)

    def _stored(self, found: Data) -> Data | None:
        """What was stored where a value is read from, unless it is a sum or maximum that is built up there."""
        access = self.read(found)
        source = self.source(access) if access is not None else None
        if access is None or source is None or self.total(found) is not None or self.is_sum_in_place(source):
            return None
        return source.value

    def is_sum_in_place(self, write: Access) -> bool:
        """Whether a store reads what it replaces."""
        reads = (self.read(part) for part in parts_of(write.value) if part.op == "read")
        return any(read is not None and read.array == write.array and read.offset == write.offset and _adds(write)
                   for read in reads)  # fmt: skip

    def _product(self, left: Data, right: Data, depth: int) -> tuple[ValueFactor, ...] | None:
        first, second = self.factors(left, depth + 1), self.factors(right, depth + 1)
        return None if first is None or second is None else first + second

    def _quotient(self, left: Data | None, right: Data, depth: int) -> tuple[ValueFactor, ...] | None:
        first = self.factors(left, depth + 1) if left is not None else ()
        second = self.factors(right, depth + 1)
        if first is None or second is None:
            return None
        return first + tuple(replace(factor, is_over=not factor.is_over) for factor in second)

    def terms(self, data: Data | None, depth: int = 0) -> tuple[Summand, ...] | None:
        """The terms of a value, products of sums multiplied out once. None if it is nothing."""
        found = plain(data)
        if found is None or depth > _DEEPEST:
            return None
        if found.op in ("add", "sub"):
            left, right = self.terms(found.args[0], depth + 1), self.terms(found.args[1], depth + 1)
            if left is None or right is None:
                return None
            return left + (right if found.op == "add" else _negated(right))
        if found.op == "neg":
            inner = self.terms(found.args[0], depth + 1)
            return None if inner is None else _negated(inner)
        if found.op == "mul":
            left, right = self.terms(found.args[0], depth + 1), self.terms(found.args[1], depth + 1)
            if left is None or right is None:
                return None
            return tuple(Summand(a.sign * b.sign, a.factors + b.factors) for a in left for b in right)
        stored = self._stored(found)
        if stored is not None:
            return self.terms(stored, depth + 1)
        factors = self.factors(found, depth + 1)
        return None if factors is None else (Summand(1, factors),)

    def total(self, data: Data | None, depth: int = 0) -> Accumulation | None:
        """What a value is the sum or maximum of."""
        found = plain(data)
        if found is None or depth > _DEEPEST:
            return None
        if found.op == "result" and isinstance(found.detail, Carried):
            return self._of_loop(found, found.detail, depth)
        access = self.read(found)
        if access is None or access.array is None or access.array.space not in ("local", "shared"):
            return None
        return self._in_memory(access, depth)

    def _of_loop(self, found: Data, carried: Carried, depth: int) -> Accumulation | None:
        made = self._of.get(id(carried))
        update = plain(carried.update)
        if made is not None and made.place == "shuffle":
            return self.total(found.args[0], depth + 1)
        if update is None:
            return None
        inner = self._added(update, carried, (carried.loop,))
        if made is not None and made.kind == "max" and made.operand is not None:
            return Accumulation(kind="max", operand=made.operand, kept=(), loops=(carried.loop,))
        initial = plain(found.args[0]) if found.args else None
        if inner is None or not (initial is None or is_number(initial, 0.0)):
            return None
        return inner

    def is_largest(self, carried: Carried) -> bool:
        """Whether a loop keeps a maximum in it."""
        made = self._of.get(id(carried))
        return made is not None and (
            made.kind == "max" or (made.kind == "online_softmax" and made.carried[0] is carried)
        )

    def _added(self, update: Data, carried: Carried, loops: tuple[Symbol, ...]) -> Accumulation | None:
        """`old * kept + operand`, in a loop inside if the loop hands the sum down."""
        if update.op == "result" and isinstance(update.detail, Carried):
            inside = update.detail
            begun = plain(update.args[0]) if update.args else None
            made = self._of.get(id(inside))
            if made is not None and made.place == "shuffle":
                return None
            below = plain(inside.update)
            is_handed = begun is not None and begun.op == "carried" and begun.detail is carried
            if below is None or not is_handed:
                return None
            return self._added(below, inside, (inside.loop, *loops))
        if update.op != "add":
            return None
        parts = self.terms(update)
        if parts is None or not parts:
            return None
        old, new = [], []
        for side in update.args:
            kept = self._kept(side, carried)
            if kept is None:
                new.append(side)
            else:
                old.append(kept)
        if len(old) != 1 or len(new) != 1:
            return None
        return Accumulation(kind="sum", operand=new[0], kept=old[0], loops=loops)

    def _kept(self, data: Data, carried: Carried) -> tuple[Data, ...] | None:
        """What the old value is multiplied with where a value is a multiple of it; None where it is not."""
        found = plain(data)
        if found is None:
            return None
        if found.op == "carried" and found.detail is carried:
            return ()
        if found.op == "mul":
            for side, other in ((0, 1), (1, 0)):
                inner = self._kept(found.args[side], carried)
                if inner is not None:
                    return (*inner, found.args[other])
        if found.op == "select" and len(found.args) == 2:  # scaled only where the maximum grows
            sides = [self._kept(side, carried) for side in found.args]
            if all(side is not None for side in sides) and () in sides:
                return next((side for side in sides if side), ())
        return None

    def _in_memory(self, access: Access, depth: int) -> Accumulation | None:
        writes = [w for w in self.form.of(access.array) if w.is_write] if access.array is not None else []
        adding = [w for w in writes if not self._is_tree(w) and _adds(w) and self._sum_of(w) is not None]
        source = self.source(access)
        if access.array is not None and access.array.space == "shared":
            return self.total(source.value, depth + 1) if source is not None and source not in adding else None
        if len(adding) != 1 or adding[0].number > access.number:
            return None
        (write,) = adding
        found = self._sum_of(write)
        scaled = [w for w in writes if w is not write and not _is_zero(w)]
        kept = [self._multiple(w) for w in scaled]
        if found is None or any(factor is None for factor in kept):
            return None
        more = tuple(factor for factor in kept if factor is not None)
        loops = tuple(s for s in reversed(write.loops) if s not in write.offset.symbols())
        return Accumulation(kind="sum", operand=found[0], kept=found[1] + more, loops=loops, access=write)

    def _sum_of(self, write: Access) -> tuple[Data, tuple[Data, ...]] | None:
        """Of `a[i] = a[i] * kept + x`: x and kept."""
        value = plain(write.value)
        if value is None or value.op != "add":
            return None
        for side, other in ((0, 1), (1, 0)):
            old = plain(value.args[side])
            if self._is_read_back(old, write):
                return value.args[other], ()
            if old is not None and old.op == "mul":
                for part, factor in ((0, 1), (1, 0)):
                    if self._is_read_back(plain(old.args[part]), write):
                        return value.args[other], (old.args[factor],)
        return None

    def _multiple(self, write: Access) -> Data | None:
        """Of `a[i] = a[i] * kept`: kept."""
        value = plain(write.value)
        if value is None or value.op != "mul":
            return None
        for side, other in ((0, 1), (1, 0)):
            if self._is_read_back(plain(value.args[side]), write):
                return value.args[other]
        return None

    def _is_read_back(self, data: Data | None, write: Access) -> bool:
        read = self.read(data)
        return read is not None and read.array == write.array and read.offset == write.offset


def _adds(write: Access) -> bool:
    value = plain(write.value)
    return value is not None and value.op == "add"


def _is_zero(write: Access) -> bool:
    return is_number(write.value, 0.0)


def _negated(terms: tuple[Summand, ...]) -> tuple[Summand, ...]:
    return tuple(replace(term, sign=-term.sign) for term in terms)
