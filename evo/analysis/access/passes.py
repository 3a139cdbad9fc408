"""Tensors that one thread walks over more than once, and what would make one walk of it."""

from __future__ import annotations

from dataclasses import dataclass

from evo.analysis.access.data_values import parts_of, read_of
from evo.analysis.access.form import Access, Array, Data, Form
from evo.analysis.access.reductions import Reduction
from evo.analysis.access.terms import Symbol, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedReads:
    """Loops that read the same elements of a tensor. kinds: their reductions, in order.

    remedy: `online_softmax`, `one_pass_statistics`, `recompute_instead_of_store` or `keep_on_chip`.
    """

    array: Array
    loops: tuple[Symbol, ...]
    lines: tuple[int, ...]
    kinds: tuple[str, ...]
    remedy: str


def passes_of(form: Form, reductions: tuple[Reduction, ...]) -> tuple[RepeatedReads, ...]:
    """The tensors that are read by one thread in two or more loops, one after the other."""
    found = []
    for array in form.tensors:
        groups: dict[tuple[object, ...], dict[Symbol, Access]] = {}
        written = [access for access in form.of(array) if access.mode == "write"]
        for access in form.of(array):
            if access.mode == "read" and access.loops:
                groups.setdefault(walk_of(form, access), {}).setdefault(_outermost_moving(access), access)
        for accesses in groups.values():
            if len(accesses) < 2 and not (written and accesses):
                continue
            loops = tuple(accesses)
            kinds = tuple(r.kind for r in reductions if set(r.loops) & set(loops) and r.place == "register")
            sums = [r for r in reductions if set(r.loops) & set(loops) and r.place == "register" and r.kind == "sum"]
            remedy = _remedy(kinds, bool(written), any(_follows(form, each.operand) for each in sums))
            if len(accesses) < 2 and remedy != "recompute_instead_of_store":
                continue
            lines = tuple(sorted({access.line for access in (*accesses.values(), *written)}))
            found.append(RepeatedReads(array=array, loops=loops, lines=lines, kinds=kinds, remedy=remedy))
    return tuple(found)


def _follows(form: Form, operand: Data | None) -> bool:
    """Whether what is summed needs what a loop has left, as squares about a mean do: by a variable or shared memory."""
    for part in parts_of(operand):
        read = read_of(form, part) if part.op == "read" else None
        if part.op == "result" or (read is not None and read.array is not None and read.array.space == "shared"):
            return True
    return False


def _remedy(kinds: tuple[str, ...], is_written: bool, is_about: bool) -> str:
    if is_written:
        return "recompute_instead_of_store"
    if "max" in kinds and "sum" in kinds[kinds.index("max") :]:
        return "online_softmax"
    if kinds.count("sum") >= 2 and is_about:
        return "one_pass_statistics"
    return "keep_on_chip"


def _outermost_moving(access: Access) -> Symbol:
    """The outermost loop whose index is in the offset."""
    moving = [symbol for symbol in access.loops if symbol in access.offset.symbols()]
    return moving[0] if moving else access.loops[0]


def walk_of(form: Form, access: Access) -> tuple[object, ...]:
    """The walk of an access: its offset with the loops numbered, and their bounds."""
    names: dict[Symbol, Term] = {}
    bounds = []
    for number, symbol in enumerate(s for s in access.loops if s in access.offset.symbols()):
        standing = Symbol(f"loop {number}", "loop")
        loop = form.loops[symbol]
        names[symbol] = Term.of(standing)
        bounds.append((loop.start.substitute(names), loop.step, loop.values, loop.condition.substitute(names)))
    return (access.offset.substitute(names), tuple(bounds))
