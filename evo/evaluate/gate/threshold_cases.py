"""Sizes that a source suggests: on both sides of its constants, ragged, under every combination of the task's flags.

A variant may be right at the sizes that its task lists and wrong at others of the same task, most easily behind a
comparison with a size. So every whole number of the text becomes a length of every axis that it fits, with neighbours
of other residue classes, and a few lengths are drawn. The other axes are made small, so that such a case is cheap.
Not here: running them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from evo.cuda.source.written_terms import folded_constants
from evo.spec.comments import replace_comments
from evo.spec.task import SIMULATED, Case, Task
from evo.spec.variant import Variant

_TOKEN = re.compile(r"0[xX][0-9a-fA-F]++|[0-9][\w.']*+|[A-Za-z_]\w*+|<<|>>|[<>=!]=|&&|\|\||[^\s\w]")
_IN_NAMES = re.compile(r"(?<=[A-Za-z_\"])[0-9]{3,9}\b")
_WHOLE = re.compile(r"(0[xX][0-9a-fA-F]{1,15}|[0-9]{1,15})[uUlL]{0,3}")
_COMPARES = frozenset(("<", ">", "<=", ">=", "==", "!=", "%", "/", ">>", "&", "?", ":"))
# Of a constant: what lies on both sides of it, odd, and a multiple of four but not of eight.
_BESIDE = (1, -1, 0, 4, -3)
_LONG = 16  # an axis that never reaches it counts a few things, like the taps of a filter
_MOST = 80  # cases
_CASES = 25  # that the whole should do for
_DIVISOR = 128  # up to it, a number may be looked for as a divisor of several axes
_TRIES, _SHRINKS = 16, 4  # surroundings tried for one length, until one is cheap and allowed
_LEAST, _LEAST_TOTAL = 6e6, 1.5e7  # flops and bytes: a case of a second at most on the simulator, and ten of them
_WORTH, _WORTH_TOTAL = 4e7, 1.5e9  # the same before a keep, of what is known to decide otherwise
_EACH = 4.0  # a warp instruction of an original that is run on the simulator: 1.5e6 take a second
_MOSTLY = 0.7
_FEW = (3, 5, 12, 19)  # lengths of an axis that another one leaves little for
_TILE = 32  # constants up to it are sizes of tiles and vectors, which the ragged cases of a task know
_DRAWN = 6  # lengths that no constant suggests, per axis


@dataclass(frozen=True, slots=True)
class AxisLimits:
    """What the cases may cost, in flops and bytes of the task's work formulas: each, and all together.

    thorough: the lengths that a comparison suggests are tried in the surroundings of every check case.
    """

    each: float
    total: float
    thorough: bool


def usual_limits(task: Task, share: float) -> AxisLimits:
    """Limits by what the task's own check cases cost: together, times `share`; more if that is little."""
    costs = [cost_of(task, case) for case in task.check]
    each = max(max(1.0, share) * max(costs), _LEAST * min(1.0, share))
    return AxisLimits(each=each, total=max(share * sum(costs), _LEAST_TOTAL * share), thorough=share > 1)


def steered_limits(task: Task, share: float) -> AxisLimits:
    """Limits of cases that are known to have an outcome that no check case has: they are worth more."""
    usual = usual_limits(task, share)
    if not usual.thorough:
        return usual
    return AxisLimits(each=max(usual.each, _WORTH), total=max(usual.total, _WORTH_TOTAL), thorough=True)


def threshold_cases(task: Task, variant: Variant, seed: int, limits: AxisLimits) -> tuple[Case, ...]:
    """Cases within the limits, those that comparisons suggest first. The seed draws among equals and what surrounds
    a length.
    """
    space = AxisSpace.of(task)
    if not space.free:
        return ()
    rng = np.random.default_rng([seed, 77])
    compared, others = constants(variant)
    chosen: dict[tuple[int, ...], Case] = {}
    known = {tuple(case.axes.values()) for case in (*task.check, *task.bench)}
    spent = 0.0
    times = len(task.check) if limits.thorough else 1
    for turn, lengths in _wanted(space, compared, others, times, rng):
        case = _around(task, space, lengths, turn, limits, rng)
        if case is None or tuple(case.axes.values()) in known or tuple(case.axes.values()) in chosen:
            continue
        if len(chosen) == _MOST:
            break
        cost = cost_of(task, case)
        if spent + cost <= limits.total:
            spent += cost
            chosen[tuple(case.axes.values())] = case
    return tuple(chosen.values())


def constants(variant: Variant) -> tuple[set[int], set[int]]:
    """Whole numbers of a text: those beside a comparison, a division or a mask, and all others.

    Products and shifts of two that stand side by side count as numbers, and so do names that stand for one, and what
    the compiler works out from numbers.
    """
    tokens = _TOKEN.findall(replace_comments(variant.text, lambda comment: "\n" if "evo:" not in comment else comment))
    values: dict[str, int] = {knob.name: knob.value for knob in variant.knobs if isinstance(knob.value, int)}
    for before, name, after, number in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if before == "define" and (found := _number(after)) is not None:
            values[name] = found
        elif after == "=" and (found := _number(number)) is not None:
            values.setdefault(name, found)
    compared: set[int] = set()
    others: set[int] = set()
    for at, token in enumerate(tokens):
        value = _value(token, values)
        if value is None:
            continue
        beside = {tokens[at - 1] if at else "", tokens[at + 1] if at + 1 < len(tokens) else ""}
        found_here = {value}
        if at + 2 < len(tokens) and (second := _value(tokens[at + 2], values)) is not None:
            if tokens[at + 1] == "*":
                found_here.add(value * second)
            elif tokens[at + 1] == "<<" and second < 40:
                found_here.add(value << second)
            beside.add(tokens[at + 3] if at + 3 < len(tokens) else "")
        if at and tokens[at - 1] == ">>" and value < 40:
            found_here.add(1 << value)
        (compared if beside & _COMPARES else others).update(found_here)
    if variant.macros:  # a size may be pasted to a name, or compared as a text
        compared.update(map(int, _IN_NAMES.findall(variant.text)))
    for value, is_compared in folded_constants(variant.text, variant.integer_knobs):
        (compared if is_compared else others).add(value)
    return {value for value in compared if value > 1}, {value for value in others - compared if value > 1}


def _number(token: str) -> int | None:
    match = _WHOLE.fullmatch(token)
    return int(match[1], 0 if match[1][:2].lower() == "0x" else 10) if match else None


def _value(token: str, values: Mapping[str, int]) -> int | None:
    found = _number(token)
    return found if found is not None else values.get(token)


@dataclass(frozen=True, slots=True)
class AxisSpace:
    """Which sizes a task allows, as its cases show: lengths, what they divide by, and how axes go together.

    free: axes whose length may be any in `spans` that `steps` divides. flags: the boolean axes. pairs: of two axes, the
    first never is above the second; divided: the second divides the first.
    """

    free: tuple[str, ...]
    flags: tuple[str, ...]
    spans: dict[str, tuple[int, int]]
    steps: dict[str, int]
    small: dict[str, list[int]]
    pairs: tuple[tuple[str, str], ...]
    divided: tuple[tuple[str, str], ...]

    @staticmethod
    def of(task: Task) -> AxisSpace:
        cases = [case.axes for case in (*task.check, *task.bench)]
        whole = [name for name, kind in task.axes.items() if kind != "bool"]
        values = {name: sorted({axes[name] for axes in cases}) for name in whole}
        free = tuple(
            name
            for name in whole
            if values[name][-1] >= _LONG and len(values[name]) > 2 and any(v > 1 and v % 8 for v in values[name])
        )
        couples = [(a, b) for a in whole for b in whole if a != b]
        return AxisSpace(
            free=free,
            flags=tuple(name for name, kind in task.axes.items() if kind == "bool"),
            spans={name: (values[name][0], values[name][-1]) for name in whole},
            steps={name: math.gcd(*values[name]) for name in whole},
            small={
                name: sorted(
                    {case.axes[name] for case in task.check}
                    | {few for few in _FEW if values[name][0] <= few and few % math.gcd(*values[name]) == 0}
                )
                for name in free
            },
            pairs=tuple((a, b) for a, b in couples if all(axes[a] <= axes[b] for axes in cases)),
            divided=tuple(
                (a, b)
                for a, b in couples
                if values[b][-1] > 1 and all(axes[b] and axes[a] % axes[b] == 0 for axes in cases)
            ),
        )

    def settle(self, axes: dict[str, int], given: Mapping[str, int]) -> None:
        """Change the axes that were not given so that they go together with those that were."""
        for a, b in self.pairs:
            if axes[a] > axes[b]:
                changed, value = (b, axes[a]) if b not in given else (a, axes[b])
                axes[changed] = value if changed not in given else axes[changed]
        for a, b in self.divided:
            if b not in given and axes[a] % axes[b]:
                axes[b] = math.gcd(axes[a], axes[b])
            elif a not in given and axes[b]:
                axes[a] = axes[b] * max(1, axes[a] // axes[b])

    def settle_lengths(self, axes: dict[str, int]) -> None:
        """Change free axes so that they go together with one another; what is as short as can be stays."""
        for a, b in self.pairs:
            if a in self.free and b in self.free and axes[a] > axes[b]:
                shrinks = axes[b] == self.least(b)
                axes[a if shrinks else b] = axes[b] if shrinks else axes[a]
        for a, b in self.divided:
            if a in self.free and b in self.free and axes[a] % max(1, axes[b]):
                axes[b] = math.gcd(axes[a], axes[b])

    def least(self, name: str) -> int:
        """The least length of an axis that its cases show, or that its step allows."""
        return max(self.spans[name][0], self.steps[name], 1)

    def may_be(self, task: Task, axes: Mapping[str, int]) -> bool:
        """Whether lengths go together as in the task's cases, and every tensor has elements. What relates lengths to
        axes that count a few things, or those to one another, may be chance.
        """
        return self._go_together(task, axes, set(self.free))

    def allows(self, task: Task, axes: Mapping[str, int]) -> bool:
        inside = all(low <= axes[name] <= high for name, (low, high) in self.spans.items())
        stepped = all(axes[name] % step == 0 for name, step in self.steps.items() if step)
        return inside and stepped and self._go_together(task, axes, axes.keys())

    def _go_together(self, task: Task, axes: Mapping[str, int], among: Set[str]) -> bool:
        ordered = all(axes[a] <= axes[b] for a, b in self.pairs if {a, b} <= among)
        divided = all(axes[b] and axes[a] % axes[b] == 0 for a, b in self.divided if {a, b} <= among)
        case = Case(name="", axes=dict(axes))
        return ordered and divided and all(dim >= 1 for tensor in task.tensors for dim in tensor.dims(case))


_Lengths = dict[str, int]


def _wanted(
    space: AxisSpace, compared: set[int], others: set[int], times: int, rng: np.random.Generator
) -> Iterator[tuple[int, _Lengths]]:
    """Lengths in the order in which they are tried, with the number of the check case that lends the other axes."""

    def beside(constants: set[int], offsets: Sequence[int] = _BESIDE) -> Iterator[_Lengths]:
        for offset in offsets:
            found = [(axis, value + offset) for value in sorted(constants) for axis in space.free]
            found = [pair for pair in found if _fits(space, *pair)]
            yield from ({found[at][0]: found[at][1]} for at in rng.permutation(len(found)))

    single = [{axis: _drawn(space, axis, rng)} for axis in space.free for _ in range(_DRAWN)]
    drawn = [*_products(space, compared, rng), *single]
    drawn = [drawn[at] for at in rng.permutation(len(drawn))]
    few = len(drawn) // 4
    large = {value for value in compared if value > _TILE}
    order = itertools.chain(_multiples(space, compared, rng), drawn[:few], beside(large))
    yield from enumerate(order)
    above = [*beside(large, _BESIDE[:1])]
    yield from ((at + turn, lengths) for turn in range(1, times) for at, lengths in enumerate(above))
    yield from enumerate(itertools.chain(drawn[few:], beside(compared - large), beside(others)))


def _products(space: AxisSpace, constants: set[int], rng: np.random.Generator) -> Iterator[_Lengths]:
    """Lengths of two axes whose product lies just above a constant that neither reaches alone."""
    for value in sorted(constants):
        for a, b in itertools.permutations(space.free, 2):
            if value <= max(space.spans[a][1], space.spans[b][1]) or value > space.spans[a][1] * space.spans[b][1]:
                continue
            other = _drawn(space, b, rng) | 1
            lengths = {a: value // max(1, other) + 1, b: other}
            if all(_fits(space, axis, length) for axis, length in lengths.items()):
                yield lengths


def _multiples(space: AxisSpace, constants: set[int], rng: np.random.Generator) -> Iterator[_Lengths]:
    """Lengths of all axes that have a constant as a common divisor, which a loop may look for."""
    for value in sorted(constants):
        if 2 < value <= _DIVISOR:
            lengths = {axis: value * int(rng.integers(2, 6)) for axis in space.free}
            yield {axis: length for axis, length in lengths.items() if _fits(space, axis, length)}


def _fits(space: AxisSpace, axis: str, length: int) -> bool:
    low, high = space.spans[axis]
    return low <= length <= high and length % space.steps[axis] == 0


def _drawn(space: AxisSpace, axis: str, rng: np.random.Generator) -> int:
    low, high = space.spans[axis]
    length = round(math.exp(rng.uniform(math.log(max(1, low)), math.log(high + 1))))
    return int(length) // space.steps[axis] * space.steps[axis]


def _around(
    task: Task, space: AxisSpace, lengths: _Lengths, turn: int, limits: AxisLimits, rng: np.random.Generator
) -> Case | None:
    """An allowed and cheap case with these lengths, or None. Check cases lend the other axes in turn."""
    grouped = {axis for couple in space.divided for axis in couple}
    for attempt in range(_TRIES):
        axes = dict(task.check[(turn + attempt // _SHRINKS) % len(task.check)].axes)
        axes |= {flag: int(rng.integers(2)) for flag in space.flags}
        for other in space.free:
            shrinks = attempt % _SHRINKS
            if shrinks and other not in lengths and other not in grouped and rng.random() < _MOSTLY:
                few = [value for value in space.small[other] if value <= axes[other]]
                few = few[: max(1, len(few) // (shrinks + 1))]
                odd = [value for value in few if value % 2 and value > 1]  # where a tail would be dropped
                more = [value for value in few if value > 1]
                few = (odd or more or few) if rng.random() < _MOSTLY else few
                axes[other] = int(few[int(rng.integers(len(few)))])
        axes |= lengths
        space.settle(axes, lengths)
        if not space.allows(task, axes):
            continue
        shown = ", ".join(f"{name} {value}" for name, value in axes.items())
        case = Case(name=f"({shown})", axes=axes)
        if cost_of(task, case) <= (limits.total / _CASES if attempt < _TRIES - _SHRINKS else limits.each):
            return case
    return None


def cost_of(task: Task, case: Case) -> float:
    """Its arithmetic and bytes. An adopted kernel states no arithmetic: at most a loop over all its sizes at once, or
    what it was measured to execute, which a window or a table that is compiled in makes more.
    """
    work = task.work_of(case)
    flop = work.get("flop")
    if flop is None:  # asked thousands of times, so the disk only where it matters
        flop = math.prod(int(size) for size in case.axes.values()) if is_simulated(task) else 0.0
    return max(float(flop) + float(work.get("bytes", 0.0)), _EACH * float(work.get(SIMULATED, 0.0)))


def is_simulated(task: Task) -> bool:
    """Whether its reference is an adopted kernel, which the simulator runs: that takes far longer than NumPy does."""
    return (task.folder / "original.cu").is_file()


def elements_of(task: Task, case: Case) -> int:
    """Of all its tensors."""
    return sum(math.prod(tensor.dims(case)) for tensor in task.tensors)
