"""Sizes that mix what the check cases have apart: a stride of one with the dilation of another, a flag with a tail.

What a variant computes from several axes may be right for each of them and wrong for two together, and no comparison
tells so. Every two values of axes therefore meet in some size, and so do every three of axes that count a few things
(as pairwise testing does for settings). So do every two outcomes of the conditions on sizes that the machine code has,
however many axes they take. A task's cases do not say whether every mixture is allowed, so a variant is
held to a mixture only if the task's own first kernel is right there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evo.device import Program
from evo.device.remote_device import RemoteDevice
from evo.errors import TaskInvalid
from evo.evaluate.gate.hunt import THOROUGH
from evo.evaluate.gate.launches_at_sizes import LaunchesAtSizes
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step, check_case, expected_under, failed
from evo.evaluate.gate.scaled_cases import Sizes, named_case
from evo.evaluate.gate.threshold_cases import AxisLimits, AxisSpace, cost_of, usual_limits
from evo.results import CaseCheck, Check, Stage, Status
from evo.sim import PtxError
from evo.sim.launch_conditions import launch_conditions
from evo.spec.chips import Chip
from evo.spec.input_distributions import DRAWN
from evo.spec.recent_cache import RecentCache
from evo.spec.reference import Reference
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

_MOST = 64  # sizes
_TARGETS, _DRAWN = 4, 6  # combinations, and sizes that have each, of which the one with most new ones is taken
_VAIN = 12  # turns without a new combination, after which the rest counts as not allowed
_NARROW = 8  # a span up to it is tried throughout
_SHORT = 40  # lengths up to it, since the structure matters here and not the length
_LENGTHS, _LENGTHS_DRAWN = 4, 24  # of an axis

# What a task draws may leave the last key or the last row without a say: a head that is sharp, a row that is constant.
_DISTRIBUTIONS = (DRAWN, "normal")
_CANDIDATES, _DECIDED = 12_000, 24  # mixtures that are asked for outcomes, and those that are run
_LEAST = 0.1  # of the lengths are an axis's least: one query, one row

_MIXTURES: RecentCache[list[Case]] = RecentCache(4)

Combination = tuple[tuple[str, int], ...]


class Seen(Protocol):
    """What is told of a size that was right."""

    def add(self, step: Step) -> None: ...


def mixed_cases(task: Task, seed: int, limits: AxisLimits) -> tuple[Case, ...]:
    """Cheap cases in which the values of axes meet, those with most new combinations first. Of the relations that the
    task's cases keep, only those between lengths are kept.
    """
    space = AxisSpace.of(task)
    rng = np.random.default_rng([seed, 85])
    values = _values(task, space, rng)
    counted = [name for name in values if name not in space.free]
    missing = set(_combinations(values, 2)) | set(_combinations({name: values[name] for name in counted}, 3))
    known = {tuple(case.axes.values()) for case in (*task.check, *task.bench)}
    for case in task.check:
        missing -= _met(case.axes, counted)
    found: list[Case] = []
    spent, vain = 0.0, 0
    order = sorted(missing)
    order = [order[at] for at in rng.permutation(len(order))]
    while missing and len(found) < _MOST and vain < _VAIN and spent < limits.total:
        targets = [*itertools.islice((target for target in order if target in missing), _TARGETS)]
        order = [*order[_TARGETS:], *order[:_TARGETS]]  # some are of no allowed size
        drawn = [axes | dict(target) for target in targets for axes in _drawn(values, _DRAWN, rng)]
        cases = [named_case(axes) for axes in drawn if space.may_be(task, axes)]
        cases = [
            case for case in cases if cost_of(task, case) <= limits.each and tuple(case.axes.values()) not in known
        ]
        if not cases:
            vain += 1
            continue
        fair = limits.total / _MOST
        best = max(cases, key=lambda case: len(_met(case.axes, counted) & missing) / max(fair, cost_of(task, case)))
        missing -= _met(best.axes, counted)
        known.add(tuple(best.axes.values()))
        spent += cost_of(task, best)
        found.append(best)
    return tuple(found)


def drawn_mixtures(task: Task, seed: int, most: float, *, related: bool) -> list[Case]:
    """Mixtures that cost so much at most, with lengths of any size.

    related: with all relations that the task's cases keep, so that they are sure to be allowed.
    """
    key = (task.hash, seed, most, related)  # the same for the next variants
    return _MIXTURES.made(key, lambda: _drawn_mixtures(task, seed, most, related=related))


def _drawn_mixtures(task: Task, seed: int, most: float, *, related: bool) -> list[Case]:
    space = AxisSpace.of(task)
    rng = np.random.default_rng([seed, 87])
    values = _values(task, space, rng)
    for name in space.free:
        low, high = space.spans[name]
        step = max(1, space.steps[name])
        drawn = np.exp(rng.uniform(np.log(max(1, low)), np.log(high + 1), _LENGTHS_DRAWN)).astype(np.int64)
        values[name] = sorted({*values[name], *(max(low, int(length) // step * step) for length in drawn)})
    fits = space.allows if related else space.may_be
    drawn_rows = _drawn(values, _CANDIDATES, rng)
    least = rng.random((len(drawn_rows), len(space.free))) < _LEAST
    for axes, is_least in zip(drawn_rows, least.tolist(), strict=True):
        axes.update((name, space.least(name)) for name, yes in zip(space.free, is_least, strict=True) if yes)
        space.settle_lengths(axes)
    rows = {tuple(axes.values()): axes for axes in drawn_rows}
    cases = (named_case({name: axes[name] for name in task.axes}) for axes in rows.values() if fits(task, axes))
    return [case for case in cases if cost_of(task, case) <= most]


def deciding_cases(
    task: Task, variant: Variant, programs: Mapping[str, Program], chip: Chip, seed: int, known: Sequence[Case]
) -> tuple[Case, ...]:
    """Mixtures at which two conditions have outcomes that they have together at none of the known sizes."""
    cases = drawn_mixtures(task, seed, usual_limits(task, THOROUGH).each, related=False)
    every = [*known, *cases]
    sizes = {name: np.asarray([case.axes[name] for case in every], np.int64) for name in task.axes}
    rows_of = [row == outcome for row in _outcomes(task, variant, programs, chip, sizes) for outcome in (0, 1)]
    if not rows_of or not cases:
        return ()
    had = np.stack(rows_of)  # outcomes, at each size
    costs = [cost_of(task, case) for case in cases]
    cheap_first = np.argsort(costs, kind="stable")
    _, firsts = np.unique(had[:, len(known) :][:, cheap_first], axis=1, return_index=True)
    cases = [cases[at] for at in cheap_first[np.sort(firsts)]]  # the cheapest of those with the same outcomes
    here = had[:, : len(known)].astype(np.float64)
    there = had[:, len(known) :][:, cheap_first[np.sort(firsts)]].astype(np.float64)
    missing = np.asarray(here @ here.T == 0, np.float64)  # pairs of outcomes that no known size has together
    chosen: list[Case] = []
    while len(chosen) < _DECIDED:
        gain = ((missing @ there) * there).sum(axis=0)
        best = int(gain.argmax())
        if not gain[best]:
            break
        missing[np.outer(there[:, best], there[:, best]) > 0] = 0
        chosen.append(cases[best])
    return tuple(chosen)


def mixed(
    task: Task,
    bind: Bind,
    honest: Bind,
    reference: Reference,
    device: RemoteDevice,
    seed: int,
    looked: Seen | None,
    variant: Variant,
    chip: Chip,
) -> Check | None:
    """The first mixture at which the variant is wrong and the task's own kernel right; None if there is none.

    honest: programs of that kernel; none of a size at which it cannot be launched.
    """
    own = reference.beside()
    cases = mixed_cases(task, seed, usual_limits(task, THOROUGH))
    known = (*task.check, *task.bench, *cases)
    deciding = deciding_cases(task, variant, bind(task.check), chip, seed, known)
    cases = (*cases, *deciding)
    programs = bind(cases)
    for case in (case for case in cases if case.name in programs):
        for distribution in _DISTRIBUTIONS:
            try:
                expectation = expected_under(own, case, seed, distribution)
            except TaskInvalid:  # its sizes do not go together
                break
            if expectation is None:
                continue
            step = Step(case, device, budget=CHECK_BUDGET, distribution=distribution)
            row, _, faults = check_case(task, programs, expectation, step, {})
            if row.status is Status.CORRECT:
                if looked is not None:
                    looked.add(step)
                continue
            others = honest([case])
            if case.name not in others:
                break
            theirs: CaseCheck = check_case(task, others, expectation, step, {})[0]
            if theirs.status is Status.CORRECT:
                where = f"at a size that mixes those of the task's cases, {case.name}{step.under}"
                return failed(row, step, Stage.THRESHOLD, where, faults, seed)
    return None


def _outcomes(
    task: Task, variant: Variant, programs: Mapping[str, Program], chip: Chip, sizes: Sizes
) -> Iterator[NDArray[np.int64]]:
    """Of each condition on sizes that machine code has, 0 or 1 at each size; -1 where it is not met, or not known."""
    fixed = [name for name in variant.macros if name in task.axes]
    here = [case for case in task.check if case.name in programs]  # not each size is compiled again
    groups = {programs[case.name].binary.key: (case, programs[case.name]) for case in here}
    for case, program in groups.values():
        alike = np.logical_and.reduce([sizes[name] == case.axes[name] for name in fixed], initial=True)
        try:
            conditions = launch_conditions(program.binary.ptx)
        except PtxError:  # the simulator has said so, if it matters
            continue
        at_sizes = LaunchesAtSizes(task, variant, chip, program.launches)
        for number, bound in enumerate(program.launches):
            for condition in conditions[bound.launch.kernel]:
                launches = at_sizes.launches(number, sizes, grids=condition.of_grid)
                met = alike & condition.reached(launches)
                met &= np.True_ if launches.unknown is None else ~launches.unknown
                yield np.where(met, condition.outcomes(launches).astype(np.int64), -1)


def _values(task: Task, space: AxisSpace, rng: np.random.Generator) -> dict[str, list[int]]:
    """Of each axis, the values that are mixed: a few short lengths, and everything that counts a few things."""
    values: dict[str, list[int]] = {}
    cases = [case.axes for case in (*task.check, *task.bench)]
    for name in task.axes:
        if name in space.flags:
            values[name] = [0, 1]
        elif name in space.free:
            short = [length for length in space.small[name] if length <= _SHORT] or space.small[name][:1]
            values[name] = sorted(int(v) for v in rng.permutation(short)[:_LENGTHS])
        else:
            low, high = space.spans[name]
            every = range(low, high + 1, max(1, space.steps[name]))
            values[name] = [*every] if len(every) <= _NARROW else sorted({axes[name] for axes in cases})
    return values


def _combinations(values: Mapping[str, Sequence[int]], count: int) -> Iterable[Combination]:
    for names in itertools.combinations(values, count):
        for chosen in itertools.product(*(values[name] for name in names)):
            yield tuple(zip(names, chosen, strict=True))


def _met(axes: Mapping[str, int], counted: Sequence[str]) -> set[Combination]:
    pairs: set[Combination] = set(itertools.combinations(axes.items(), 2))
    return pairs | set(itertools.combinations([(name, value) for name, value in axes.items() if name in counted], 3))


def _drawn(values: Mapping[str, Sequence[int]], count: int, rng: np.random.Generator) -> list[dict[str, int]]:
    """So many sizes with any values. All are drawn at once, which takes a thirtieth of the time of one by one."""
    places = rng.integers(0, [len(few) for few in values.values()], size=(count, len(values)))
    return [
        {name: int(few[at]) for (name, few), at in zip(values.items(), row, strict=True)} for row in places.tolist()
    ]
