"""Sizes at which a variant decides otherwise than at its check cases, found from its machine code without running it.

Comparisons of sizes are computed for thousands of sizes that the task allows (`evo.sim.launch_conditions`). Where one
of them has an outcome that no check case has, cases that have it are made: as cheap as they can be, with lengths of
other residue classes and other flags beside it. So a threshold is crossed whatever it is made of.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.device import Program
from evo.errors import SyntaxInvalid
from evo.evaluate.gate.climbed_sizes import climbed
from evo.evaluate.gate.scalars_at_sizes import scalars_at
from evo.evaluate.gate.scaled_cases import Sizes, alternating, interleaved, named_case, scaled_sizes
from evo.evaluate.gate.threshold_cases import AxisLimits, AxisSpace, cost_of
from evo.sim import PtxError
from evo.sim.launch_conditions import LaunchCondition, Launches, launch_conditions
from evo.spec.chips import Chip
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

_EVERY = 1 << 15  # lengths of one axis that are tried in one surrounding
_SWEPT = 1024  # in the others, where more are possible
_RANDOM = 2048  # sizes
_GRIDS = 1500  # sizes whose grids are computed, for conditions on the grid
_BASES = 3  # surroundings in which an axis is swept
_TRIED = 160  # surroundings of a size that has an outcome
_MOST = 48  # outcomes, and pairs of outcomes, that cases are made for
_STRUCTURES = 4  # scaled check cases for each drawn one
_SHOWN = 6  # lengths of an axis at which a check case is tried first
_RESIDUES = (1, 3, 5, 12, 7)  # of lengths beside a threshold: odd ones, and a multiple of four but not of eight
_SHARED, _TRIVIAL = 16, 5  # cases that the whole should do for; lengths that have no tail to drop
_ALIKE = 0.05  # of the surroundings have two lengths alike
_KEPT = 6  # sets of launches
_CLIMBS = 24  # outcomes of conditions behind others that sizes are sought for
_ALLOWED = 64  # sizes with an outcome, of which one has to be allowed
_POINTER = 0x7F00_0000_0000


@dataclass(frozen=True, slots=True)
class SteeredCases:
    """cheap: within the limits, and affordable as a whole. dear: beyond them, one for each outcome that needs it.

    outcomes: of conditions on sizes that some allowed size has; known: those that check cases have.
    """

    cheap: tuple[Case, ...] = ()
    dear: tuple[Case, ...] = ()
    outcomes: int = 0
    known: int = 0


def steered_cases(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    chip: Chip,
    seed: int,
    limits: AxisLimits,
    *,
    each: int,
) -> SteeredCases:
    """each: how many cases are made for an outcome. programs: of the check cases at least."""
    space = AxisSpace.of(task)
    if not space.free:
        return SteeredCases()
    rng = np.random.default_rng([seed, 79])
    parts = []
    for group in _groups(task, programs):
        try:
            conditions = launch_conditions(group[0][1].binary.ptx)
        except PtxError:  # the simulator has said so, if it matters
            continue
        parts.append(_Steering(task, variant, chip, space, group, conditions, limits, rng).cases(each))
    return SteeredCases(
        cheap=interleaved([part.cheap for part in parts]),
        dear=interleaved([part.dear for part in parts]),
        outcomes=sum(part.outcomes for part in parts),
        known=sum(part.known for part in parts),
    )


@dataclass(frozen=True, slots=True)
class UnmetOutcome:
    """An outcome of a condition on sizes that nothing verified had. cases: sizes that have it, the cheapest first."""

    source_line: int | None
    instruction: str
    outcome: bool
    cases: tuple[Case, ...]


def unmet_outcomes(
    task: Task, variant: Variant, programs: Mapping[str, Program], chip: Chip, seed: int, ran: Sequence[Case]
) -> tuple[UnmetOutcome, ...]:
    """What the sizes `ran` leave out of the outcomes that some allowed size has."""
    space = AxisSpace.of(task)
    if not space.free:
        return ()
    rng = np.random.default_rng([seed, 82])
    limits = AxisLimits(each=math.inf, total=math.inf, thorough=True)
    found: list[UnmetOutcome] = []
    for group in _groups(task, programs):
        try:
            conditions = launch_conditions(group[0][1].binary.ptx)
        except PtxError:
            continue
        found += _Steering(task, variant, chip, space, group, conditions, limits, rng).unmet(ran)
    return tuple({(one.source_line, one.instruction, one.outcome): one for one in found}.values())


def _groups(task: Task, programs: Mapping[str, Program]) -> list[list[tuple[Case, Program]]]:
    """Check cases by binary."""
    groups: dict[str, list[tuple[Case, Program]]] = {}
    for case in task.check:
        groups.setdefault(programs[case.name].binary.key, []).append((case, programs[case.name]))
    return list(groups.values())


class _Steering:
    """One binary of a variant, at the sizes that it is compiled for."""

    def __init__(
        self,
        task: Task,
        variant: Variant,
        chip: Chip,
        space: AxisSpace,
        group: list[tuple[Case, Program]],
        conditions: Mapping[str, tuple[LaunchCondition, ...]],
        limits: AxisLimits,
        rng: np.random.Generator,
    ) -> None:
        self.task, self.variant, self.space, self.limits, self.rng = task, variant, space, limits, rng
        self.names = {**variant.integer_knobs, **{f"chip.{name}": value for name, value in chip.names().items()}}
        self.known = [case for case, _ in group]
        self.timed = {tuple(case.axes.values()) for case in task.bench}  # they have a look of their own
        self._asked: dict[tuple[int, int, bool], tuple[Sizes, Launches]] = {}
        self.fixed = {name: self.known[0].axes[name] for name in variant.macros if name in task.axes}
        self.launches = group[0][1].launches
        self.conditions = [
            (number, c) for number, bound in enumerate(self.launches) for c in conditions[bound.launch.kernel]
        ]

    def cases(self, each: int) -> SteeredCases:
        conditions = [pair for pair in self.conditions if pair[1].parameters or pair[1].of_grid]
        if not conditions:
            return SteeredCases()
        sizes = self._reaching(conditions)
        known = self._sizes_of([case.axes for case in self.known])
        cheap: list[list[Case]] = []
        dear: list[Case] = []
        outcomes = covered = 0
        for number, condition in conditions:
            seen = set(self._outcomes(number, condition, known).tolist()) - {-1}
            of_sizes = self._outcomes(number, condition, sizes)
            possible = set(of_sizes.tolist()) - {-1}
            outcomes += len(possible | seen)
            covered += len(seen)
            for outcome in sorted(possible - seen)[: max(0, _MOST - len(cheap))]:
                hits = np.flatnonzero(of_sizes == outcome)
                drawn = self._with(number, condition, outcome, sizes, hits)
                scaled = [*self._scaled(number, condition, outcome, sizes, hits)]
                found = alternating(scaled[: each * _STRUCTURES], [*itertools.islice(drawn, each)])
                affordable = [case for case in found if cost_of(self.task, case) <= self.limits.each]
                if affordable:
                    cheap.append(affordable)
                else:
                    dear += found[:1]
        rows = itertools.zip_longest(*cheap)
        return SteeredCases(tuple(c for row in rows for c in row if c is not None), tuple(dear), outcomes, covered)

    def unmet(self, ran: Sequence[Case]) -> Iterator[UnmetOutcome]:
        """Outcomes that some allowed size has, and none of these sizes that is compiled alike."""
        conditions = [pair for pair in self.conditions if pair[1].parameters or pair[1].of_grid]
        alike = [case.axes for case in ran if all(case.axes[name] == value for name, value in self.fixed.items())]
        met_at = self._sizes_of([case.axes for case in self.known] + alike)
        sizes = self._reaching(conditions) if conditions else {}
        for number, condition in conditions:
            met = set(self._outcomes(number, condition, met_at).tolist())
            of_sizes = self._outcomes(number, condition, sizes)
            for outcome in {0, 1} - met:
                hits = np.flatnonzero(of_sizes == outcome)
                few = self._cheapest(sizes, hits, _ALLOWED) if len(hits) else hits
                rows = ({name: int(sizes[name][at]) for name in self.task.axes} for at in few)
                cases = [named_case(axes) for axes in rows if self.space.allows(self.task, axes)]
                if cases:
                    cases.sort(key=lambda case: cost_of(self.task, case))
                    yield UnmetOutcome(condition.source_line, condition.instruction, bool(outcome), tuple(cases))

    def _with(
        self, number: int, condition: LaunchCondition, outcome: bool, sizes: Sizes, hits: NDArray[np.intp]
    ) -> Iterator[Case]:
        """Cases that have the outcome, the cheap ones first, with other lengths and flags beside what decides."""
        chosen = self._cheapest(sizes, hits, 6)
        made: dict[tuple[int, ...], tuple[float, Case]] = {}
        around: Sizes = {name: np.repeat(values[chosen], _TRIED // len(chosen)) for name, values in sizes.items()}
        count = len(around[self.space.free[0]])
        for name in self.task.axes:
            if name in self.fixed:
                continue
            changed = self.rng.random(count) < 0.7
            if name in self.space.flags:
                around[name] = np.where(changed, self.rng.integers(0, 2, count), around[name])
            elif name in self.space.free:
                small = np.asarray(self.space.small[name])
                odd = self._beside(around[name])
                drawn = np.where(self.rng.random(count) < 0.5, self.rng.choice(small, count), odd)
                around[name] = np.where(changed, drawn, around[name])
        for first, second in itertools.permutations([name for name in self.space.free if name not in self.fixed], 2):
            alike = self.rng.random(count) < _ALIKE
            around[first] = np.where(alike, around[second], around[first])
        around = {name: np.concatenate([sizes[name][chosen], values]) for name, values in around.items()}
        around = self._settled(around)
        right = self._outcomes(number, condition, around) == outcome
        for at in np.flatnonzero(right):
            axes = {name: int(around[name][at]) for name in self.task.axes}
            key = tuple(axes.values())
            if key not in made and key not in self.timed and self.space.allows(self.task, axes):
                case = named_case(axes)
                made[key] = (self._worth(case), case)
        ordered = [case for _, case in sorted(made.values(), key=lambda pair: pair[0])]
        yield from self._unlike(ordered)

    def _scaled(
        self, number: int, condition: LaunchCondition, outcome: bool, sizes: Sizes, hits: NDArray[np.intp]
    ) -> Iterator[Case]:
        """The check cases at lengths that have the outcome, under all flags: the cheapest of each, and each with
        all lengths in proportion.
        """
        few = self._cheapest(sizes, hits, _SHOWN)
        shown = {name: sizes[name][few].tolist() for name in self.space.free}
        bases = [self.known[at] for at in self.rng.permutation(len(self.known))]
        pool = scaled_sizes(self.task, self.space, bases, self.fixed, shown)
        right = np.flatnonzero(self._outcomes(number, condition, pool.sizes) == outcome)
        best: dict[tuple[bool, int], tuple[float, Case]] = {}
        for at in right:
            axes = {name: int(pool.sizes[name][at]) for name in self.task.axes}
            if tuple(axes.values()) in self.timed or not self.space.allows(self.task, axes):
                continue
            case = named_case(axes)
            cost = cost_of(self.task, case)
            for key in {(False, int(pool.group[at])), (bool(pool.whole[at]), int(pool.group[at]))}:
                if key not in best or cost < best[key][0]:
                    best[key] = cost, case
        order = sorted((key for key in best if best[key][0] <= self.limits.each), key=lambda key: best[key][0])
        single, whole = ([best[key][1] for key in order if key[0] is scaled] for scaled in (False, True))
        yield from {tuple(case.axes.values()): case for case in alternating(single, whole)}.values()

    def _unlike(self, ordered: list[Case]) -> Iterator[Case]:
        """The cheap half in an order in which residues, flags and what is small change from one to the next."""
        few = ordered[: max(8, len(ordered) // 2)]
        seen: set[tuple[int, ...]] = set()
        late = []
        for case in few:
            lengths = [case.axes[name] for name in self.space.free]
            order = tuple((a > b) - (a < b) for a, b in itertools.combinations(lengths, 2))
            kind = (*order, *(self._class(name, case.axes[name]) for name in self.task.axes))
            if kind in seen:
                late.append(case)
            else:
                seen.add(kind)
                yield case
        yield from late

    def _class(self, name: str, length: int) -> int:
        if name in self.space.flags:
            return length
        return 0 if length == 1 else 1 + math.gcd(length, 8)

    def _worth(self, case: Case) -> float:
        """Less is better: affordable, and neither round nor trivial in the lengths beside what decides."""
        cost = max(1.0, cost_of(self.task, case) / (self.limits.total / _SHARED))
        dull = sum(case.axes[name] % 4 == 0 or case.axes[name] < _TRIVIAL for name in self.space.free)
        others = set(self.space.spans) - set(self.space.free)
        dull += sum(case.axes[name] == 1 < self.space.spans[name][1] for name in others)
        return cost * (1 + 2 * dull) + float(self.rng.random())

    def _beside(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """A little more or less than a length."""
        sign = self.rng.choice(np.asarray([1, -1]), len(lengths))
        beside = lengths + sign * self.rng.choice(np.asarray(_RESIDUES), len(lengths))
        return np.asarray(np.maximum(1, beside), np.int64)

    def _cheapest(self, sizes: Sizes, hits: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        weight = np.sum([np.log(np.maximum(1, sizes[name][hits])) for name in self.space.free], axis=0)
        order = np.argsort(weight + self.rng.random(len(hits)))
        return hits[order[:count]]

    # Sizes ------------------------------------------------------------------------------------------------------

    def _sampled(self) -> Sizes:
        """Sizes that the task allows: every length of each axis among those of cases, and many drawn ones."""
        rows: list[Sizes] = []
        cases = [*self.task.check, *self.task.bench]
        bases = [cases[at] for at in self.rng.permutation(len(cases))[:_BASES]]
        for axis in self.space.free:
            if axis in self.fixed:
                continue
            low, high = self.space.spans[axis]
            lengths = np.arange(low, high + 1)
            if len(lengths) > _SWEPT:
                drawn = np.exp(self.rng.uniform(math.log(max(1, low)), math.log(high + 1), _SWEPT)).astype(np.int64)
                lengths = np.unique(np.r_[drawn, self.rng.choice(lengths, _SWEPT), low, high])
            every = np.arange(low, min(high, low + _EVERY) + 1)
            for number, base in enumerate(bases):
                swept = lengths if number else every
                rows.append({n: swept if n == axis else np.full(len(swept), base.axes[n]) for n in self.task.axes})
        drawn_sizes: Sizes = {}
        lent = self.rng.integers(0, len(cases), _RANDOM)
        for name in self.task.axes:
            low, high = self.space.spans.get(name, (0, 1))
            if name in self.space.flags:
                drawn_sizes[name] = self.rng.integers(0, 2, _RANDOM)
            elif name in self.space.free:
                logs = self.rng.uniform(math.log(max(1, low)), math.log(high + 1), _RANDOM)
                drawn_sizes[name] = np.exp(logs).astype(np.int64)
            else:
                drawn_sizes[name] = np.asarray([case.axes[name] for case in cases])[lent]
        rows.append(drawn_sizes)
        whole = {name: np.concatenate([row[name] for row in rows]) for name in self.task.axes}
        return self._settled(whole)

    def _settled(self, sizes: Sizes) -> Sizes:
        """With the lengths that go together, as far as that is known; those that do not are left out later."""
        out = {name: values.copy() for name, values in sizes.items()}
        for name, value in self.fixed.items():
            out[name][:] = value
        for name, step in self.space.steps.items():
            if step > 1:
                out[name] = np.maximum(step, out[name] // step * step)
        for name, (low, high) in self.space.spans.items():
            out[name] = np.clip(out[name], low, high)
        for a, b in self.space.pairs:
            if b in self.fixed:
                out[a] = np.minimum(out[a], out[b])
            else:
                out[b] = np.maximum(out[a], out[b])
        for a, b in self.space.divided:
            if b not in self.fixed:
                out[b] = np.where(out[a] % np.maximum(1, out[b]) == 0, out[b], np.gcd(out[a], out[b]))
        return out

    def _sizes_of(self, cases: Sequence[Mapping[str, int]]) -> Sizes:
        return {name: np.asarray([axes[name] for axes in cases], np.int64) for name in self.task.axes}

    # Outcomes ---------------------------------------------------------------------------------------------------

    def _outcomes(self, number: int, condition: LaunchCondition, sizes: Sizes) -> NDArray[np.int64]:
        """0 or 1 of each size, -1 where its grid is not known."""
        launches = self._launches(number, sizes, grids=condition.of_grid)
        found = np.where(condition.reached(launches), condition.outcomes(launches).astype(np.int64), -1)
        return found if launches.unknown is None else np.where(launches.unknown, -1, found)

    def _reaching(self, conditions: Sequence[tuple[int, LaunchCondition]]) -> Sizes:
        """Allowed sizes, with some at which conditions behind others have each outcome."""
        sizes = self._sampled()
        found: list[Sizes] = []
        axes = [name for name in (*self.space.free, *self.space.flags) if name not in self.fixed]
        spans = {**self.space.spans, **dict.fromkeys(self.space.flags, (0, 1))}
        for number, condition in conditions:
            missing = {0, 1} - set(self._outcomes(number, condition, sizes).tolist())
            for outcome in map(bool, missing):
                steps = condition.steps(outcome)
                if steps == 1 or condition.of_grid or len(found) >= _CLIMBS:
                    continue
                progress = functools.partial(self._progress, number, condition, outcome)
                further = climbed(sizes, progress, steps, axes, spans, self._settled, self.rng)
                found += [further] if further is not None else []
        return {name: np.concatenate([*(part[name] for part in found), values]) for name, values in sizes.items()}

    def _progress(self, number: int, condition: LaunchCondition, outcome: bool, sizes: Sizes) -> NDArray[np.int64]:
        return condition.progress(self._launches(number, sizes, grids=False), outcome)

    def _launches(self, number: int, sizes: Sizes, *, grids: bool) -> Launches:
        """The launches at some sizes; the last ones are kept, since one condition after the other asks for them."""
        key = (number, id(sizes), grids)
        if key not in self._asked:
            while len(self._asked) > _KEPT:
                self._asked.pop(next(iter(self._asked)))
            self._asked[key] = (sizes, self._made(number, sizes, grids=grids))
        return self._asked[key][1]

    def _made(self, number: int, sizes: Sizes, *, grids: bool) -> Launches:
        count = len(next(iter(sizes.values())))
        bound = self.launches[number]
        grid = np.repeat(np.asarray(bound.launch.grid)[:, None], count, axis=1)
        block = np.repeat(np.asarray(bound.launch.block)[:, None], count, axis=1)
        unknown = np.zeros(count, bool)
        if grids:
            line = self.variant.launches[number]
            unknown[_GRIDS:] = True
            for at in range(min(count, _GRIDS)):
                names = {**self.names, **{name: int(values[at]) for name, values in sizes.items()}}
                try:
                    for to, expressions in ((grid, line.grid), (block, line.block)):
                        for place, expression in enumerate(expressions):
                            to[place, at] = int(expression.value(names))
                except SyntaxInvalid:  # it names what only the chip knows, or divides by zero there
                    unknown[at] = True
        parameters: dict[int, NDArray[np.generic]] = {}
        for at, argument in enumerate(bound.arguments):
            if argument.is_buffer:
                parameters[at] = np.asarray(_POINTER + (at << 30), np.uint64)
            elif argument.name in sizes:
                parameters[at] = sizes[argument.name]
            else:
                parameters[at] = scalars_at(self.task, argument, self.names, sizes, count)
        return Launches(parameters=parameters, grid=grid, block=block, unknown=unknown if grids else None)
