"""Sizes at which a variant decides otherwise than at its check cases, found from its code without running it.

Comparisons of sizes are computed for thousands of sizes that the task allows: those of machine code
(`evo.sim.launch_conditions`), and those that it has no trace of (`written_conditions`). Where one of them has an
outcome that no check case has, cases that have it are made: as cheap as they can be, with lengths of other residue
classes and other flags beside it. So a threshold is crossed whatever it is made of.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evo.device import Program
from evo.device.remote_device import RemoteSimulator
from evo.evaluate.gate.climbed_sizes import climbed, swept
from evo.evaluate.gate.drawn_sizes import DrawnSizes
from evo.evaluate.gate.launches_at_sizes import LaunchesAtSizes
from evo.evaluate.gate.looked import SteeredCases, UnmetOutcome
from evo.evaluate.gate.rehearsed_conditions import rehearsed_conditions
from evo.evaluate.gate.scaled_cases import Sizes, alternating, interleaved, named_case, scaled_sizes
from evo.evaluate.gate.threshold_cases import AxisLimits, AxisSpace, cost_of
from evo.evaluate.gate.written_conditions import WrittenCondition, written_conditions
from evo.sim import PtxError
from evo.sim.launch_conditions import LaunchCondition, launch_conditions
from evo.spec.chips import Chip
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

_ROUNDS, _RARE, _RAREST, _KEPT_OF_EACH = 2, 0.02, 8, 2  # of sizes with rare outcomes, that are changed further
_TRIED = 160  # surroundings of a size that has an outcome
_MOST = 48  # outcomes, and pairs of outcomes, that cases are made for
_STRUCTURES = 4  # scaled check cases for each drawn one
_SHOWN = 6  # lengths of an axis at which a check case is tried first
_RESIDUES = (1, 3, 5, 12, 7)  # of lengths beside a threshold: odd ones, and a multiple of four but not of eight
_SHARED, _TRIVIAL = 16, 5  # cases that the whole should do for; lengths that have no tail to drop
_ALIKE = 0.05  # of the surroundings have two lengths alike
_CLIMBS = 24  # outcomes of conditions behind others that sizes are sought for
_WRITTEN, _WRITTEN_AT = 4, 1 << 16  # cases of a trial for conditions of the text; drawn sizes before a keep
_ALLOWED = 64  # sizes with an outcome, of which one has to be allowed


_Condition = LaunchCondition | WrittenCondition


def steered_cases(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    chip: Chip,
    seed: int,
    limits: AxisLimits,
    *,
    each: int,
    rehearsing: RemoteSimulator | None = None,
) -> SteeredCases:
    """each: how many cases are made for an outcome. programs: of the check cases at least.

    rehearsing: a simulator for conditions that cannot be computed; without one they are left out.
    """
    space = AxisSpace.of(task)
    if not space.free:
        return SteeredCases()
    rng = np.random.default_rng([seed, 79])
    binaries = _of_binaries(task, variant, chip, space, programs, limits, rng, rehearsing)
    parts = [steering.cases(each) for steering in binaries]
    beside = _beside_code(task, variant, chip, space, programs, limits, np.random.default_rng([seed, 83]))
    written = beside.cases(each if limits.thorough else 1)
    if not limits.thorough:  # sizes that are compiled in cost a compilation each
        written = replace(written, cheap=written.cheap[:_WRITTEN], dear=())
    parts.append(written)
    return SteeredCases(
        cheap=interleaved([part.cheap for part in parts]),
        dear=interleaved([part.dear for part in parts]),
        outcomes=sum(part.outcomes for part in parts),
        known=sum(part.known for part in parts),
    )


def unmet_outcomes(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    chip: Chip,
    seed: int,
    ran: Sequence[Case],
    rehearsing: RemoteSimulator | None = None,
) -> tuple[UnmetOutcome, ...]:
    """What the sizes `ran` leave out of the outcomes that some allowed size has."""
    space = AxisSpace.of(task)
    if not space.free:
        return ()
    rng = np.random.default_rng([seed, 82])
    limits = AxisLimits(each=math.inf, total=math.inf, thorough=True)
    binaries = _of_binaries(task, variant, chip, space, programs, limits, rng, rehearsing)
    found = [outcome for steering in binaries for outcome in steering.unmet(ran)]
    beside = _beside_code(task, variant, chip, space, programs, limits, np.random.default_rng([seed, 84]))
    found += beside.unmet(ran)
    return tuple({(one.source_line, one.instruction, one.outcome): one for one in found}.values())


def _of_binaries(
    task: Task,
    variant: Variant,
    chip: Chip,
    space: AxisSpace,
    programs: Mapping[str, Program],
    limits: AxisLimits,
    rng: np.random.Generator,
    rehearsing: RemoteSimulator | None,
) -> Iterator[_Steering]:
    """What follows from sizes in the machine code of each binary of the check cases."""
    groups: dict[str, list[tuple[Case, Program]]] = {}
    for case in task.check:
        groups.setdefault(programs[case.name].binary.key, []).append((case, programs[case.name]))
    for group in groups.values():
        try:
            conditions = launch_conditions(group[0][1].binary.ptx)
        except PtxError:  # the simulator has said so, if it matters
            continue
        yield _Steering(task, variant, chip, space, group, conditions, limits, rng, rehearsing)


def _beside_code(
    task: Task,
    variant: Variant,
    chip: Chip,
    space: AxisSpace,
    programs: Mapping[str, Program],
    limits: AxisLimits,
    rng: np.random.Generator,
) -> _Steering:
    """What follows from sizes in no machine code: it is the same for all binaries, at all sizes."""
    group = [(case, programs[case.name]) for case in task.check]
    return _Steering(task, variant, chip, space, group, None, limits, rng, None)


class _Steering:
    """One binary of a variant, at the sizes that it is compiled for; or all of them, for conditions of the text."""

    def __init__(
        self,
        task: Task,
        variant: Variant,
        chip: Chip,
        space: AxisSpace,
        group: list[tuple[Case, Program]],
        conditions: Mapping[str, tuple[LaunchCondition, ...]] | None,
        limits: AxisLimits,
        rng: np.random.Generator,
        rehearsing: RemoteSimulator | None,
    ) -> None:
        self.task, self.variant, self.space, self.limits, self.rng = task, variant, space, limits, rng
        self.known = [case for case, _ in group]
        self.timed = {tuple(case.axes.values()) for case in task.bench}  # they have a look of their own
        compiled = variant.macros if conditions is not None else ()
        self.fixed = {name: self.known[0].axes[name] for name in compiled if name in task.axes}
        self.drawn = DrawnSizes(task, space, self.fixed, rng)
        self.launches = group[0][1].launches
        self.at_sizes = LaunchesAtSizes(task, variant, chip, self.launches)
        self.axes = [name for name in (*space.free, *space.flags) if name not in self.fixed]  # that may differ
        self.sampled: Sizes | None = None
        self.most = _MOST
        if conditions is None:
            known = self._sizes_of([case.axes for case in self.known])
            draw = functools.partial(self.drawn.sampled, _WRITTEN_AT if limits.thorough else 0)
            written, self.sampled = written_conditions(
                task, variant, chip, self.launches, known, draw, deviations=limits.thorough
            )
            self.most = _MOST if limits.thorough else _WRITTEN
            self.conditions: list[tuple[int, _Condition]] = [(0, c) for c in written]
            return
        self.conditions = [
            (number, c) for number, bound in enumerate(self.launches) for c in conditions[bound.launch.kernel]
        ]
        if rehearsing is not None and self.axes:
            numbers = range(len(self.launches))
            self.conditions += [(at, c) for at in numbers for c in rehearsed_conditions(group[0][1], at, rehearsing)]

    def cases(self, each: int) -> SteeredCases:
        conditions = [pair for pair in self.conditions if pair[1].parameters or pair[1].of_grid]
        if not conditions:
            return SteeredCases()
        known = self._sizes_of([case.axes for case in self.known])
        conditions, had = self._still_open(conditions, known, sure=False)
        computed, rehearsed = self._both_sizes(conditions)
        cheap: list[list[Case]] = []
        dear: list[Case] = []
        chased: set[tuple[int | None, int]] = set()
        outcomes = covered = had
        for number, condition in conditions:
            sizes = rehearsed if condition.rehearsed else computed
            seen = set(self._outcomes(number, condition, known).tolist()) - {-1}
            of_sizes = self._outcomes(number, condition, sizes)
            possible = set(of_sizes.tolist()) - {-1}
            outcomes += len(possible | seen)
            covered += len(seen)
            missing = sorted(possible - seen)[: max(0, self.most - len(cheap))]
            if condition.of_threads and missing:  # the copies of an unrolled line have most outcomes in common
                copies = (condition.source_line, missing[0])
                missing = [] if copies in chased else missing
                chased.add(copies)
            for outcome in missing:
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
        conditions = [pair for pair in conditions if not pair[1].of_threads]
        conditions, _ = self._still_open(conditions, met_at, sure=True)
        computed, rehearsed = self._both_sizes(conditions)
        for number, condition in conditions:
            sizes = rehearsed if condition.rehearsed else computed
            met = set(self._outcomes(number, condition, met_at, sure=True).tolist())
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
        self, number: int, condition: _Condition, outcome: bool, sizes: Sizes, hits: NDArray[np.intp]
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
        around = self.drawn.settled(around)
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
        self, number: int, condition: _Condition, outcome: bool, sizes: Sizes, hits: NDArray[np.intp]
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

    # Outcomes ---------------------------------------------------------------------------------------------------

    def _sizes_of(self, cases: Sequence[Mapping[str, int]]) -> Sizes:
        return {name: np.asarray([axes[name] for axes in cases], np.int64) for name in self.task.axes}

    def _outcomes(self, number: int, condition: _Condition, sizes: Sizes, *, sure: bool = False) -> NDArray[np.int64]:
        """0 or 1 of each size, -1 where its grid is not known."""
        if isinstance(condition, WrittenCondition):
            return condition.at(sizes)
        launches = self.at_sizes.launches(
            number, sizes, grids=condition.of_grid, rehearsed=condition.rehearsed, sure=sure
        )
        found = np.where(condition.reached(launches), condition.outcomes(launches).astype(np.int64), -1)
        return found if launches.unknown is None else np.where(launches.unknown, -1, found)

    def _both_sizes(self, conditions: Sequence[tuple[int, _Condition]]) -> tuple[Sizes, Sizes]:
        """Allowed sizes, for conditions that are computed and for those that are rehearsed."""
        computed = [pair for pair in conditions if not pair[1].rehearsed]
        others = [pair for pair in conditions if pair[1].rehearsed]
        return self._reaching(computed) if computed else {}, self._rehearsed(others) if others else {}

    def _still_open(
        self, conditions: Sequence[tuple[int, _Condition]], known: Sizes, *, sure: bool
    ) -> tuple[list[tuple[int, _Condition]], int]:
        """Without the rehearsed ones that are met at known sizes, of which no more is to find; how many those are.

        Most tests for edges are among them, and to rehearse at thousands of sizes takes seconds.
        """
        met = [
            c.rehearsed and bool((self._outcomes(number, c, known, sure=sure) >= 0).any()) for number, c in conditions
        ]
        return [pair for pair, is_met in zip(conditions, met, strict=True) if not is_met], sum(met)

    def _rehearsed(self, conditions: Sequence[tuple[int, _Condition]]) -> Sizes:
        """Drawn sizes, and what becomes of those with rare outcomes if one axis changes, several times over."""
        sizes = newest = self.drawn.rehearsed()
        spans = {**self.space.spans, **dict.fromkeys(self.space.flags, (0, 1))}
        for _ in range(_ROUNDS):
            met = [np.flatnonzero(self._outcomes(number, c, newest) >= 0) for number, c in conditions]
            if all(len(hits) for hits in met):
                break
            rare = sorted((hits for hits in met if 0 < len(hits) < _RARE * len(newest[self.axes[0]])), key=len)
            rows = np.concatenate([hits[:_KEPT_OF_EACH] for hits in rare[:_RAREST]]) if rare else np.zeros(0, np.intp)
            if not len(rows):
                break
            newest = self.drawn.settled(swept(newest, rows, self.axes, spans, self.rng))
            sizes = {name: np.concatenate([newest[name], values]) for name, values in sizes.items()}
        return sizes

    def _reaching(self, conditions: Sequence[tuple[int, _Condition]]) -> Sizes:
        """Allowed sizes, with some at which conditions behind others have each outcome."""
        sizes = self.sampled or self.drawn.sampled()
        found: list[Sizes] = []
        spans = {**self.space.spans, **dict.fromkeys(self.space.flags, (0, 1))}
        for number, condition in conditions:
            missing = {0, 1} - set(self._outcomes(number, condition, sizes).tolist())
            for outcome in map(bool, missing):
                steps = condition.steps(outcome)
                if steps == 1 or condition.of_grid or len(found) >= _CLIMBS:
                    continue
                progress = functools.partial(self._progress, number, condition, outcome)
                further = climbed(sizes, progress, steps, self.axes, spans, self.drawn.settled, self.rng)
                found += [further] if further is not None else []
        return {name: np.concatenate([*(part[name] for part in found), values]) for name, values in sizes.items()}

    def _progress(self, number: int, condition: _Condition, outcome: bool, sizes: Sizes) -> NDArray[np.int64]:
        if isinstance(condition, WrittenCondition):
            return condition.progress(sizes, outcome)
        return condition.progress(self.at_sizes.launches(number, sizes, grids=False), outcome)
