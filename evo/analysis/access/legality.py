"""What may be rewritten: verdicts on loops, thread indices, arrays and guards, each with what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from evo.analysis.access.comparisons import Compare, Condition, conjuncts
from evo.analysis.access.data_values import parts_of
from evo.analysis.access.dependences import Dependence, Dependences
from evo.analysis.access.form import BLOCK, THREAD, Access, Array, Barrier, Form, Loop
from evo.analysis.access.instances import FormSizes, TooMany, instances, offsets, places
from evo.analysis.access.numeric import NoValue, masks_of
from evo.analysis.access.reductions import RECURRENCE, Reduction
from evo.analysis.access.sampling import one_block, repeated
from evo.analysis.access.sets import ANY, Existence, meet
from evo.analysis.access.terms import Symbol

_APART = 1 << 48  # more than an array has bytes


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether something may be done: yes, no, or not known (None). why: what stands in the way, in words.

    buffers: arrays that stand in the way only because they are used again; with a copy for each turn nothing would.
    """

    holds: bool | None
    why: str = ""
    dependences: tuple[Dependence, ...] = ()
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A condition on indices around accesses.

    is_always: it holds for all threads at this case. is_ragged: it fails in the last blocks along `blocks` alone, so
    that the full blocks need no test. reaches_border: it fails at the low end too, as a halo's does.
    """

    condition: Condition
    accesses: tuple[int, ...]
    is_always: bool
    is_ragged: bool
    reaches_border: bool
    blocks: tuple[Symbol, ...]


def is_inside(form: Form, access: Access) -> bool:
    """Whether an access in a loop is proven to lie in its array even in turns in which a test in the loop skips it."""
    if access.array is None or not access.subscripts or not access.loops or access.blocked is not None:
        return False
    innermost = access.context.index(access.loops[-1])
    around = [part for part in access.context[:innermost] if not isinstance(part, Symbol)]
    sure = [part for condition in around for part in conjuncts(condition)] + [form.loops[access.loops[-1]].condition]
    with form.bounds.assuming(sure):
        sides = zip(access.subscripts, access.array.shape, strict=True)
        return all(form.bounds.within(at, size) for at, size in sides)


class Legality:
    """Verdicts on one form at one case."""

    def __init__(self, form: Form, sizes: FormSizes, reductions: tuple[Reduction, ...]) -> None:
        self.form, self.sizes, self.reductions = form, sizes, reductions
        self.dependences = Dependences(form, sizes)

    def parallel(self, loop: Loop, *, scans: bool = False) -> Permission:
        """Whether the turns of a loop may be carried out in any order, or at once; reductions are named as such.

        scans: but for stores of what reductions have come to on the way, recurrences too: these are made in order.
        """
        if loop.blocked is not None and not loop.is_given:
            return Permission(None if loop.blocked.by_data else False, loop.blocked.reason)
        combined = {carried for r in self.reductions for carried in r.carried if scans or r.kind != RECURRENCE}
        others = [carried.name for carried in loop.carried if carried not in combined]
        if others:
            return Permission(False, f"each turn needs {_listed(others)} of the turn before")
        if not scans and (seen := self._stored_on_the_way(loop)):
            return Permission(False, f"each turn stores what {_listed(seen)} has come to")
        ours = [r for r in self.reductions if loop.symbol in r.loops]
        numbers = {number for r in ours for number in r.accesses}
        found = [d for d in self.dependences.carried(loop) if not {d.source, d.sink} <= numbers]
        arrays = {dependence.array.address: dependence.array for dependence in found}
        if arrays and all(self._is_refilled(array, loop) for array in arrays.values()):
            names = tuple(array.name for array in arrays.values())
            verb = "is" if len(names) == 1 else "are"
            why = f"{_listed([f'`{name}`' for name in names])} {verb} filled anew in each turn"
            return Permission(False, why, tuple(found), names)
        return _verdict(found, self.form)

    def _stored_on_the_way(self, loop: Loop) -> list[str]:
        """Numbers that a loop combines and whose values of single turns are written: a scan is no reduction."""
        ours = self.is_reduction(loop)
        # Sums in an array, which are scaled anew as the maximum grows, belong to it as those in registers do.
        grown = {c for r in ours if r.kind == "online_softmax" for c in r.carried}
        scaled = {number for r in ours if r.kind == "rescaled_sum" for number in r.accesses}
        written = [a for a in self.form.accesses if a.is_write and loop.symbol in a.loops]
        found = [(a, part.detail) for a in written for part in parts_of(a.value) if part.op == "carried"]
        parts = {carried for a, carried in found if a.number not in scaled or carried not in grown}
        return [carried.name for carried in loop.carried if carried in parts]

    def _is_refilled(self, array: Array, loop: Loop) -> bool:
        """Whether each turn writes all that it reads of an array before it reads it."""
        inside = [access for access in self.form.of(array) if loop.symbol in access.loops]
        writes = [access for access in inside if access.mode == "write"]
        reads = [access for access in inside if access.is_read]
        if not writes or any(loop.symbol in access.offset.symbols() for access in inside):
            return False
        if reads and min(read.number for read in reads) < min(write.number for write in writes):
            return False
        return self._elements(reads, loop) <= self._elements(writes, loop)

    def _elements(self, accesses: list[Access], loop: Loop) -> set[int]:
        """Bytes that a block touches by some accesses, each with the turn of a loop that it is in."""
        import numpy as np

        found: set[int] = set()
        start = places(self.sizes, [0], range(self.sizes.threads))
        for access in accesses:
            try:
                columns = instances(self.form, access, self.sizes, start, turns=64)
                first = np.unique(columns[loop.symbol] * _APART + offsets(access, columns, self.sizes))
            except (NoValue, TooMany):
                return {-1} if access.is_read else found
            found.update((first[:, None] + np.arange(access.bytes)).ravel().tolist())
        return found

    def is_reduction(self, loop: Loop) -> tuple[Reduction, ...]:
        """The reductions over a loop's turns."""
        return tuple(reduction for reduction in self.reductions if loop.symbol in reduction.loops)

    @cached_property
    def communicates(self) -> tuple[str, ...]:
        """By what the threads of a block exchange values, in words."""
        found: dict[str, None] = {}
        shared = [a.name for a in self.form.shared if any(access.is_write for access in self.form.of(a))]
        if shared:
            found[f"shared memory (`{'`, `'.join(shared)}`)"] = None
        for exchange in self.form.exchanges:
            found["shuffles" if exchange.name.startswith("shfl") else f"`{exchange.name}`"] = None
        if self.form.multiplies:
            found["tensor-core fragments"] = None
        for array in self.form.tensors:
            if (
                any(access.is_write for access in self.form.of(array))
                and self.between_threads(array).holds is not False
            ):
                found[f"`{array.name}`"] = None
        return tuple(found)

    def between_threads(self, array: Array) -> Permission:
        """Whether different threads of a block touch the same element of an array, one of them writing."""
        found = self.dependences.between_threads(array)
        if not found:
            return Permission(False)
        return Permission(True if any(d.is_certain for d in found) else None, found[0].reason, found)

    def between_blocks(self, array: Array) -> Permission:
        """Whether different blocks touch the same element of an array, one of them writing."""
        found = self.dependences.between_blocks(array)
        if not found:
            return Permission(False)
        return Permission(True if any(d.is_certain for d in found) else None, found[0].reason, found)

    @cached_property
    def threads_permute(self) -> Permission:
        """Whether threads may take over one another's work by any one-to-one map of (block, thread)."""
        if self.form.barriers or self.communicates:
            words = self.communicates or ("a barrier",)
            return Permission(False, f"the threads of a block work together through {_listed(words)}")
        return self.blocks_permute

    @cached_property
    def blocks_permute(self) -> Permission:
        """Whether blocks may be renumbered: none needs what another writes."""
        if any(barrier.scope == "grid" for barrier in self.form.barriers):
            return Permission(False, "the grid meets at a barrier")
        for array in self.form.tensors:
            found = self.between_blocks(array)
            if found.holds is not False:
                why = found.why or f"blocks share elements of `{array.name}` that they write"
                return Permission(None if found.holds is None else False, why, found.dependences)
        return Permission(True)

    @cached_property
    def is_seen(self) -> bool:
        """Whether all that could not be followed is where a tensor is read that nothing writes, or the end of a loop
        that is known when it begins."""
        spans = {a.span for a in self.form.accesses if a.mode == "read" and a.array and self.is_read_only(a.array)}
        spans |= {loop.span for loop in self.form.loops.values() if loop.is_given}
        return all(blocked.span in spans for blocked in self.form.blocked)

    def is_read_only(self, array: Array) -> bool:
        """Whether the launch writes no element of an array."""
        return not any(access.is_write for access in self.form.of(array))

    @cached_property
    def rereads_output(self) -> tuple[Array, ...]:
        """Tensors of which the launch reads elements that it writes, itself or in another thread."""
        found = []
        for array in self.form.tensors:
            accesses = self.form.of(array)
            writes = [access for access in accesses if access.is_write]
            reads = [access for access in accesses if access.mode == "read"]
            if any(self._meets(write, read).exists is not False for write in writes for read in reads):
                found.append(array)
        return tuple(found)

    def is_written_over(self, array: Array) -> bool:
        """Whether two places of the text may write the same element, not both by atomics."""
        pairs = combinations([access for access in self.form.of(array) if access.is_write], 2)
        return any({a.mode, b.mode} != {"atomic"} and self._meets(a, b).exists is not False for a, b in pairs)

    def _meets(self, first: Access, second: Access) -> Existence:
        relations = [(symbol, ANY) for symbol in (*BLOCK, *THREAD)]
        return meet(self.form, self.sizes, first, second, relations)

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """Conditions on block and thread indices around accesses to tensors."""
        around: dict[Compare, list[int]] = {}
        for access in self.form.accesses:
            if not access.is_global:
                continue
            for condition in access.conditions:
                for part in conjuncts(condition):
                    if isinstance(part, Compare) and any(s.kind in ("block", "thread") for s in part.symbols()):
                        around.setdefault(part, []).append(access.number)
        loops = {c for loop in self.form.loops.values() for c in conjuncts(loop.condition)}
        return tuple(self._guard(part, numbers) for part, numbers in around.items() if part not in loops)

    def _guard(self, condition: Compare, numbers: list[int]) -> Guard:
        blocks = tuple(symbol for symbol in BLOCK if symbol in condition.symbols())
        access = self.form.accesses[numbers[0]]
        first, inside, last = (self._holds_in(condition, access, which) for which in ("first", "middle", "last"))
        return Guard(
            condition=condition, accesses=tuple(numbers), is_always=bool(inside and first and last),
            is_ragged=bool(inside and first and not last and blocks),
            reaches_border=bool(inside and first is False and blocks), blocks=blocks,
        )  # fmt: skip

    def _holds_in(self, condition: Compare, access: Access, which: str) -> bool | None:
        """Whether a condition holds for all threads and turns of a block; None if data is in it."""
        import numpy as np

        sample = one_block(self.sizes)
        for symbol, extent in zip(BLOCK, self.sizes.grid, strict=True):
            sample.columns[symbol] = np.full_like(sample.columns[symbol], _block_at(which, extent))
        try:
            for symbol in access.loops:
                sample = repeated(self.form.loops[symbol], sample, self.sizes)
            return bool(np.all(masks_of(condition, {**self.sizes.values, **sample.columns})))
        except NoValue:
            return None

    @cached_property
    def barriers_in_loops(self) -> tuple[tuple[Barrier, Loop], ...]:
        """Barriers that are met in every turn of a loop."""
        return tuple(
            (barrier, self.form.loops[part])
            for barrier in self.form.barriers
            for part in barrier.context
            if isinstance(part, Symbol) and barrier.scope == "block"
        )


def _verdict(found: list[Dependence], form: Form) -> Permission:
    if not found:
        return Permission(True)
    certain = [dependence for dependence in found if dependence.is_certain]
    worst = certain[0] if certain else found[0]
    lines = sorted({form.accesses[worst.source].line, form.accesses[worst.sink].line})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} and {lines[1]}"
    word = {"flow": "is read after it was written", "anti": "is written after it was read"}.get(
        worst.kind, "is written again"
    )
    if certain:
        return Permission(False, f"an element of `{worst.array.name}` {word} in a later turn ({where})", tuple(found))
    return Permission(None, f"`{worst.array.name}`: {worst.reason}", tuple(found))


def _listed(words: tuple[str, ...] | list[str]) -> str:
    words = list(dict.fromkeys(words))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _block_at(which: str, extent: int) -> int:
    """Where the `first`, `middle` or `last` block is."""
    if which == "middle":
        return extent // 2 if extent > 2 else 0
    return extent - 1 if which == "last" else 0
