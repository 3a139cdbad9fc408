"""Which instances must stay in order: flow, anti and output dependences, and what carries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access.form import BLOCK, THREAD, Access, Array, Form, Loop
from evo.analysis.access.instances import FormSizes
from evo.analysis.access.sets import ANY, BEFORE, SAME, Existence, meet
from evo.analysis.access.terms import Symbol

TURNS, THREADS, BLOCKS = "turns", "threads", "blocks"
_PAIRS = 400  # pairs of accesses that one question looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """Two accesses that touch the same byte, at least one of them writing.

    kind: `flow` (written, then read), `anti` (read, then written) or `output` (written twice); between threads or
    blocks, if there is no order, `flow` stands for a write and a read. between: `turns` of a loop, `threads` of a
    block or `blocks`. is_certain: False if the places are not linear, with the reason.
    """

    kind: str
    array: Array
    source: int
    sink: int
    between: str
    is_certain: bool = True
    reason: str = ""


class Dependences:
    """The dependences of a form at one case, worked out as they are asked for."""

    def __init__(self, form: Form, sizes: FormSizes) -> None:
        self.form, self.sizes = form, sizes
        self._meetings: dict[tuple[int, int, tuple[tuple[Symbol, str], ...], bool], Existence] = {}

    def carried(self, loop: Loop) -> tuple[Dependence, ...]:
        """Dependences from one turn of a loop to a later one, of one thread; of a block if barriers lie in it."""
        inside = [access for access in self.form.accesses if loop.symbol in access.loops]
        has_barrier = any(loop.symbol in barrier.context for barrier in self.form.barriers)
        found = []
        for array, accesses in _by_array(inside):
            if loop.symbol in array.loops:
                continue  # it begins anew in each turn
            across = has_barrier and array.space == "shared"
            for first, second in _pairs(accesses):
                relations = [*self._place(same_thread=not across), *self._loops(first, second, loop.symbol)]
                answer = self._ask(first, second, tuple(relations))
                if answer.exists is not False:
                    found.append(_dependence(first, second, array, TURNS, answer))
        return tuple(found)

    def between_threads(self, array: Array) -> tuple[Dependence, ...]:
        """Dependences between different threads of one block."""
        return self._between(array, THREADS, [(symbol, SAME) for symbol in BLOCK], THREAD)

    def between_blocks(self, array: Array) -> tuple[Dependence, ...]:
        """Dependences between different blocks."""
        return self._between(array, BLOCKS, [(symbol, ANY) for symbol in BLOCK], BLOCK)

    def _between(
        self, array: Array, word: str, place: Sequence[tuple[Symbol, str]], whole: Sequence[Symbol]
    ) -> tuple[Dependence, ...]:
        found = []
        for first, second in _pairs(self.form.of(array), ordered=False):
            answer = self._ask(first, second, tuple(place), whole=True, symbols=whole)
            if answer.exists is not False:
                found.append(_dependence(first, second, array, word, answer))
        return tuple(found)

    def _place(self, *, same_thread: bool) -> list[tuple[Symbol, str]]:
        return [(symbol, SAME) for symbol in (*BLOCK, *(THREAD if same_thread else ()))]

    def _loops(self, first: Access, second: Access, carrier: Symbol) -> Iterator[tuple[Symbol, str]]:
        """Loops around the carrier are in the same turn; those inside in any."""
        seen = False
        for symbol in first.loops:
            if symbol not in second.loops:
                continue
            if symbol == carrier:
                seen = True
                yield symbol, BEFORE
            else:
                yield symbol, ANY if seen else SAME

    def _ask(
        self, first: Access, second: Access, relations: tuple[tuple[Symbol, str], ...], *, whole: bool = False,
        symbols: Sequence[Symbol] = (),
    ) -> Existence:  # fmt: skip
        key = first.number, second.number, relations, whole
        if key not in self._meetings:
            found = Existence(None, "too many accesses") if len(self._meetings) > _PAIRS * 10 else None
            if first.blocked is not None or second.blocked is not None:
                blocked = first.blocked or second.blocked
                found = Existence(None, blocked.reason if blocked is not None else "")
            self._meetings[key] = found or meet(self.form, self.sizes, first, second, relations, whole=symbols)
        return self._meetings[key]


def _by_array(accesses: Iterable[Access]) -> list[tuple[Array, list[Access]]]:
    """The accesses to each array that is written among them."""
    found: dict[Symbol, list[Access]] = {}
    for access in accesses:
        if access.array is not None:
            found.setdefault(access.array.address, []).append(access)
    return [
        (some[0].array, some)  # type: ignore[misc]
        for some in found.values()
        if any(access.is_write for access in some)
    ]


def _pairs(accesses: Sequence[Access], *, ordered: bool = True) -> Iterator[tuple[Access, Access]]:
    """Pairs of which one writes; atomics do not depend on one another."""
    count = 0
    for at, first in enumerate(accesses):
        for second in accesses if ordered else accesses[at:]:
            if not (first.is_write or second.is_write) or (first.mode == second.mode == "atomic"):
                continue
            count += 1
            if count > _PAIRS:
                return
            yield first, second


def _dependence(first: Access, second: Access, array: Array, between: str, answer: Existence) -> Dependence:
    kind = "output" if first.is_write and second.is_write else "flow" if first.is_write else "anti"
    if first.is_write and second.is_write and (first.is_read or second.is_read):
        kind = "flow"
    if between != TURNS and kind == "anti":
        kind = "flow"
    return Dependence(
        kind=kind, array=array, source=first.number, sink=second.number, between=between,
        is_certain=answer.exists is True, reason=answer.reason,
    )  # fmt: skip
