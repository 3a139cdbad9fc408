"""Addresses: which array one is in, where in it, and the access that a load or store becomes."""

from __future__ import annotations

from collections.abc import Iterator

from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition, all_of
from evo.analysis.access.form import Access, Array, Blocked, Data
from evo.analysis.access.preprocess import Expanded
from evo.analysis.access.renaming import replaced
from evo.analysis.access.simplify import rebuilt, split
from evo.analysis.access.state import ReadState
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import ONE, Op, Symbol, Term, apply
from evo.analysis.access.values import (
    ArrayPlace,
)
from evo.cuda.source.parser import Node

_PAIRS = 6  # selections of an address that are followed


class AddressReader(ReadState):
    """Turns addresses into accesses. differences: symbols for the distance of two arrays in elements of a size."""

    def __init__(self, text: Expanded, data: bytes, bounds: Bounds) -> None:
        super().__init__(text, data, bounds)
        self.differences: dict[Symbol, tuple[Term, int]] = {}

    def touch(
        self,
        place: ArrayPlace,
        mode: str,
        node: Node,
        value: Data | None = None,
        route: str = "plain",
        *,
        operation: str = "",
        count: int | None = None,
    ) -> tuple[Access, ...]:
        """Note that memory is read or written: one access for each array that the address may lie in."""
        if self.is_dead:
            return ()
        made = []
        for array, offset, condition in self._targets(place.term):
            with self.under(*([condition] if condition is not None else [])):
                if self.is_dead:
                    continue
                made.append(self._access(array, offset, place, mode, node, value, route, operation, count))
            self.emit(made[-1])
        return tuple(made)

    def _access(
        self, array: Array | None, offset: Term, place: ArrayPlace, mode: str, node: Node, value: Data | None,
        route: str, operation: str, count: int | None,
    ) -> Access:  # fmt: skip
        span = self.span(node)
        index: Term | None = None
        if array is not None:
            whole, rest = split(offset, Term.number(array.element_bytes))
            index = whole if not rest.parts else None
        blocked = self._why_blocked(array, offset, node)
        return Access(
            number=-1 if self.dry else len(self.accesses), array=array, mode=mode, bytes=count or place.type.size or 1,
            offset=offset, index=index, context=tuple(self.context), span=span, line=self.line(span),
            text=self.wording(node), calls=tuple(self.calls), route=route, value=value, operation=operation,
            blocked=blocked,
        )  # fmt: skip

    def _why_blocked(self, array: Array | None, offset: Term, node: Node) -> Blocked | None:
        if array is None:
            return self.block(node, self.wording(node), "it is not known which array this address lies in")
        if array.space == "local":
            return None
        for symbol in sorted(offset.symbols(), key=lambda symbol: symbol.number):
            if symbol.kind == "value":
                known = self.values.get(symbol)
                why = f"the index depends on `{symbol.name}`" + (f", {known.reason}" if known else "")
                return self.block(node, self.wording(node), why)
        return None

    def _targets(self, term: Term) -> Iterator[tuple[Array | None, Term, Condition | None]]:
        """The arrays that an address may lie in, the offset in each, and when it does."""
        yield from self._resolved(self.settled(term), None, _PAIRS)

    def settled(self, term: Term) -> Term:
        """A term without the choices that the conditions around have made."""
        if not any(op.chooses for op in _outermost(term)):
            return term
        return term.mapped(
            lambda atom: self._settled_op(atom) if isinstance(atom, Op) and atom.chooses else Term.of(atom)
        )

    def _settled_op(self, op: Op) -> Term:
        if op.name == "select" and isinstance(op.args[0], Condition):
            decided = self.bounds.decided(op.args[0])
            if decided in (ALWAYS, NEVER):
                return self.settled(op.terms[0 if decided == ALWAYS else 1])
        args = tuple(self.settled(arg) if isinstance(arg, Term) else arg for arg in op.args)
        return rebuilt(self.bounds, Op(op.name, args))

    def _apart(self, term: Term) -> Term:
        """Distances of arrays in bytes again."""
        for symbol in term.symbols() & self.differences.keys():
            distance, size = self.differences[symbol]
            weight = term.coefficient(symbol)
            if weight is not None and weight.value is not None and weight.value % size == 0:
                term = term - weight * Term.of(symbol) + distance * (weight.value // size)
        return term

    def _resolved(
        self, term: Term, condition: Condition | None, left: int
    ) -> Iterator[tuple[Array | None, Term, Condition | None]]:
        term = self._apart(term)
        direct = [mono for mono in term.parts if any(isinstance(a, Symbol) and a.kind == "address" for a in mono)]
        others = [op for op in _outermost(term) if any(symbol.kind == "address" for symbol in op.symbols())]
        if len(direct) == 1 and not others and len(direct[0]) == 1 and term.parts[direct[0]] == 1:
            (atom,) = direct[0]
            assert isinstance(atom, Symbol)
            yield self.arrays.get(atom), term - Term.of(atom), condition
            return
        for op in others:
            if op.name == "select" and left:
                chosen, (first, second) = op.args[0], op.terms
                assert isinstance(chosen, Condition)
                for side, when in ((first, chosen), (second, chosen.negated())):
                    both = when if condition is None else all_of((condition, when))
                    yield from self._resolved(replaced(term, op, side), both, left - 1)
                return
            if op.name in ("xor", "or", "and"):
                lifted = self._lifted(op)
                if lifted is not None:
                    yield from self._resolved(replaced(term, op, lifted), condition, left)
                    return
        yield None, term, condition

    def _lifted(self, op: Op) -> Term | None:
        """(array + a) ^ b is array + (a ^ b): arrays begin at multiples of more than b."""
        base, other = op.terms
        if any(symbol.kind == "address" for symbol in other.symbols()):
            base, other = other, base
        found = [s for s in base.symbols() if s.kind == "address"]
        if len(found) != 1 or base.coefficient(found[0]) != ONE:
            return None
        address = Term.of(found[0])
        return address + apply(op.name, base - address, other)


def _outermost(term: Term) -> Iterator[Op]:
    for mono in term.parts:
        for atom in mono:
            if isinstance(atom, Op):
                yield atom
