"""What the extents of a tensor are, by how the kernel reaches its elements.

`w * h` elements at `y * w + x` are [h, w], and `4 * rows * cols` at `y * 2 * cols + x` are [2 * rows, 2 * cols]: what
indices are multiplied by are the steps from one row, plane or image to the next, each a multiple of the one before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from evo.analysis.access.read import read_forms
from evo.analysis.access.terms import Symbol, Term
from evo.errors import EvoError
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.host_numbers import factors
from evo.interop.adopt.task_texts import variant_text
from evo.spec.chips import chip
from evo.spec.variant import parse_variant

# Sizes that are compiled in are numbers in an index: these are told apart from any other, and from each other.
_TOLD_APART = (53, 59, 61, 67, 71, 73, 79, 83)
_LONGEST_ROW = 1 << 12


@dataclass(frozen=True, slots=True)
class _Product:
    """A number times sizes, in order of their names."""

    number: int = 1
    names: tuple[str, ...] = ()

    def over(self, other: _Product) -> _Product | None:
        """The quotient, if there is one."""
        left = Counter(self.names)
        left.subtract(other.names)
        if self.number % other.number or min(left.values(), default=0) < 0:
            return None
        return _Product(self.number // other.number, tuple(sorted(left.elements())))

    def times(self, other: _Product) -> _Product:
        return _Product(self.number * other.number, tuple(sorted(self.names + other.names)))

    @property
    def how(self) -> object:
        parts: list[object] = [*([self.number] if self.number != 1 or not self.names else []), *self.names]
        return reduce(lambda left, right: ("*", left, right), parts)


def guess_extents(trial: DraftTrial) -> None:
    """First shapes of tensors whose size nothing tells: that of one which is indexed alike, of sizes, and of numbers
    that an index steps by.
    """
    trial.guess_shapes()
    if not trial.guessed:
        return
    steps_of = {name: set(map(frozenset, accesses)) for name, accesses in _indices(trial).items()}
    known = [t for t in trial.draft.given if t.name not in trial.guessed and len(t.dims or []) > 1]
    for name, accesses in _indices(trial, undivided=True).items():
        if name not in trial.guessed:
            continue
        alike = next((t.dims for t in known if t.dims and steps_of.get(t.name) == steps_of[name]), None)
        steps = {step.number for steps in accesses for step, _ in steps if 1 < step.number <= _LONGEST_ROW}
        if alike is not None:
            trial.guess_first(name, alike)
        elif steps:
            trial.guess_rows(name, sorted(steps))


def order_extents(trial: DraftTrial) -> None:
    """Give tensors the extents that their indices tell. What no index tells stays as it is."""
    draft = trial.draft
    told: dict[_Product, list[object]] = {}
    silent: list[tuple[TensorDraft, _Product]] = []
    indices = _indices(trial) if any(len(_factors_of(tensor)) > 1 for tensor in draft.tensors) else {}
    for tensor in draft.tensors:
        dims = [_product(dim) for dim in _factors_of(tensor)]
        known = [dim for dim in dims if dim is not None]
        named = tensor.memory.shape if tensor.memory is not None else None
        if len(known) < len(dims) or len(dims) < 2 or len(named or ()) > 1:
            continue  # quotients and sums; or a tensor whose extents the host code names
        total = reduce(_Product.times, known)
        found = _extents(known, total, indices.get(tensor.name, []))
        if found is not None:
            tensor.dims = told[total] = [dim.how for dim in found]
        else:
            silent.append((tensor, total))
    for tensor, total in silent:  # elements one after the other tell nothing: as another tensor of so many
        tensor.dims = told.get(total, tensor.dims)
    trial.changed()


def _indices(trial: DraftTrial, *, undivided: bool = False) -> dict[str, list[list[tuple[_Product, bool]]]]:
    """By tensor, the steps of each access. undivided: but for those of groups of places, whose steps are no rows'."""
    draft = trial.draft
    if len(draft.compiled) > len(_TOLD_APART):
        return {}
    compiled = dict(zip(draft.compiled, _TOLD_APART, strict=False))
    try:
        variant = parse_variant(variant_text(draft, trial.name), path=f"{trial.name}.cu")
        forms = read_forms(variant, trial.task(), compiled, chip("l4"))
    except EvoError:
        return {}
    found: dict[str, list[list[tuple[_Product, bool]]]] = {}
    for form in forms:
        for access in form.accesses:
            if access.array is None or access.index is None:
                continue
            if not undivided or not _is_divided(access.index):
                found.setdefault(access.array.name, []).append(_steps(access.index, compiled))
    return found


def _factors_of(tensor: TensorDraft) -> list[object]:
    return [part for dim in tensor.dims or [] for part in factors(dim)]


def _is_divided(index: Term) -> bool:
    """Whether neighbouring elements are quotients of places, as of groups that share a scale."""
    return any(by in (1, -1) and not all(isinstance(a, Symbol) for a in atoms) for atoms, by in index.parts.items())


def _steps(index: Term, compiled: Mapping[str, int]) -> list[tuple[_Product, bool]]:
    """What variables are multiplied by; and whether the variable is a place in the grid."""
    found = []
    for atoms, by in index.parts.items():
        names = [atom.name for atom in atoms if isinstance(atom, Symbol) and atom.kind == "axis"]
        if len(names) == len(atoms):
            continue  # a neighbour, or a border
        step = abs(by)
        for name, number in compiled.items():
            while step and step % number == 0:
                step //= number
                names.append(name)
        in_grid = any(isinstance(atom, Symbol) and atom.kind in ("block", "thread") for atom in atoms)
        found.append((_Product(step, tuple(sorted(names))), in_grid))
    return found


def _extents(
    dims: Sequence[_Product], total: _Product, accesses: Sequence[Sequence[tuple[_Product, bool]]]
) -> list[_Product] | None:
    """By the steps of all accesses together; where they contradict each other, by those of the one with most.

    A kernel that reads every second element has steps of two, which are no extent if the tensor has no factor of two.
    """
    every = [step for steps in accesses for step in steps]
    together = _joined(every)
    alone = sorted((_joined(steps) for steps in accesses), key=len, reverse=True)
    most = alone[0] if alone else set[_Product]()
    single = {step for step, in_grid in every if not in_grid} | _joined(each for each in every if each[1])
    plain = [{_Product(1, step.names) for step in steps} for steps in (together, most)]
    for steps in (together, single, plain[0], most, plain[1]):
        found = _chain(total, [step for step in steps if step != _Product()])
        if found is not None:
            return _as_given(dims, found)
    return None


def _joined(steps: Iterable[tuple[_Product, bool]]) -> set[_Product]:
    """One step for each product of sizes: 16 rows from block to block and one from thread to thread are one."""
    numbers: dict[tuple[str, ...], int] = {}
    for step, _ in steps:
        numbers[step.names] = math.gcd(numbers.get(step.names, 0), step.number)
    return {_Product(number, names) for names, number in numbers.items()}


def _chain(total: _Product, steps: Sequence[_Product]) -> list[_Product] | None:
    """The extents, the outermost first; None if one step is no multiple of another, or if there is none."""
    rising = sorted(steps, key=lambda step: (len(step.names), step.number))
    found: list[_Product] = []
    before = _Product()
    for step in (*rising, total):
        extent = step.over(before)
        if extent is None:
            return None
        if extent != _Product():
            found.insert(0, extent)
        before = step
    return found if steps else None


def _as_given(dims: Sequence[_Product], found: list[_Product]) -> list[_Product]:
    """The extents as the host code has them, if the steps fit; else the outermost one as the product that it was."""
    rest, parts = found[0], list[_Product]()
    for dim in dims:
        if (left := rest.over(dim)) is not None and dim != _Product():
            rest, parts = left, [*parts, dim]
    return [*parts, *found[1:]] if rest == _Product() else found


def _product(how: object) -> _Product | None:
    """One factor of an extent; None for what is neither a size nor a number."""
    if isinstance(how, str):
        return _Product(1, (how,))
    return _Product(how) if isinstance(how, int) and how > 0 else None
