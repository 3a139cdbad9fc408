"""Decisions by sizes that no machine code holds: what the launch line computes, and what the compiler does.

Each comparison of a launch expression, and each that depends on sizes that are compiled in, is computed for thousands
of sizes at once. So is whether a whole expression differs from what it would be if a part of it had its usual value: if
it does at few sizes only, those are sizes to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evo.cuda.source import kernel_signatures
from evo.cuda.source.written_terms import written_terms
from evo.device import BoundLaunch
from evo.evaluate.gate.scaled_cases import Sizes
from evo.spec.chips import Chip
from evo.spec.size_terms import COMPARISONS, SPLITS, SizeEvaluation, SizeTerm, launch_term
from evo.spec.task import Task
from evo.spec.variant import Variant

_KEPT = 6  # evaluations
_RARE = 0.02  # of sizes at most differ where a part has its usual value
_PARTS = 40  # of one expression whose usual value is asked for
_WORK = 40_000, 1500  # operations for that in all, at few sizes and at all that were drawn
_FEW = 4096  # sizes that tell what is rare
_ROOTS = 200  # expressions of a text
_DECISIONS = frozenset((*COMPARISONS, *SPLITS, "&&", "||", "min", "max"))
_LEAVES = frozenset(("number", "size", "local", "shared"))

_Tests = tuple[tuple[SizeTerm, bool], ...]  # terms, and how they have to come out


@dataclass(frozen=True, slots=True)
class _Root:
    """An expression, and the conditions that lead to it."""

    term: SizeTerm
    guards: _Tests


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    """Stands beside `LaunchCondition`; it is asked about sizes."""

    instruction: str  # its text
    source_line: int | None
    at: Callable[[Sizes], NDArray[np.int64]] = field(repr=False, compare=False)  # 0 or 1; -1 where nothing leads to it
    _tests: Mapping[bool, _Tests] = field(default_factory=dict, repr=False, compare=False)
    parameters: frozenset[int] = frozenset((-1,))  # it follows from sizes
    of_grid: bool = False
    of_threads: bool = False
    rehearsed: bool = False

    def steps(self, outcome: bool) -> int:
        """How many tests have to come out right for it to have an outcome."""
        return max(1, len(self._tests.get(outcome, ())))

    def progress(self, sizes: Sizes, outcome: bool) -> NDArray[np.int64]:
        """Of each size, how many of them do."""
        met = np.zeros(_count(sizes), np.int64)
        evaluation = SizeEvaluation(sizes, _count(sizes))
        for term, value in self._tests.get(outcome, ()):
            met += evaluation.truth(term) == value
        return met


def written_conditions(
    task: Task,
    variant: Variant,
    chip: Chip,
    launches: Sequence[BoundLaunch],
    known: Sizes,
    draw: Callable[[], Sizes],
    *,
    deviations: bool = True,
) -> tuple[tuple[WrittenCondition, ...], Sizes | None]:
    """The conditions, and the sizes that were drawn; none if nothing is asked about them.

    known: sizes of check cases. draw: gives many that are allowed, among which a deviation has to be rare.
    """
    parts = [roots for roots in (_launch_roots(task, variant, chip), _written_roots(task, variant, launches)) if roots]
    if not parts:
        return (), None
    drawn = draw()
    found: list[WrittenCondition] = []
    for roots in parts:
        decisions = [*_Asked(roots).conditions(drawn)]
        found += decisions
        if deviations:
            found += _deviations(roots, known, drawn, {one.at(drawn).tobytes() for one in decisions})
    return tuple(found), drawn


def _launch_roots(task: Task, variant: Variant, chip: Chip) -> list[_Root]:
    names = {**variant.integer_knobs, **{f"chip.{name}": value for name, value in chip.names().items()}}
    found: dict[str, _Root] = {}
    known: dict[str, SizeTerm] = {}
    for line in variant.launches:
        for expression in (*line.grid, *line.block, line.shared, *(line.args or ())):
            term = launch_term(expression.tree, frozenset(task.axes), names, line.line, known)
            if term is not None and term.parts and any(part.op == "size" for part in term.walk()):
                found.setdefault(expression.text, _Root(term, ()))
    return list(found.values())


def _written_roots(task: Task, variant: Variant, launches: Sequence[BoundLaunch]) -> list[_Root]:
    """Expressions that sizes which are compiled in have a part in, by themselves or by what leads to them."""
    compiled = {name: name for name in variant.macros if name in task.axes}
    if not compiled:
        return []
    given: dict[str, str] = {}  # parameters of kernels that get the length of an axis
    signatures = kernel_signatures(variant.text)
    for bound in launches:
        for parameter, argument in zip(signatures.get(bound.launch.kernel, ()), bound.arguments, strict=False):
            if argument.name in task.axes and not parameter.is_pointer:
                given[parameter.name] = argument.name
    terms = written_terms(variant.text, {**given, **compiled}, variant.integer_knobs)
    found = []
    for written in terms.expressions():
        reads = terms.sizes_of(written.term)
        around = [name for term, _ in written.guards for name in terms.sizes_of(term)]
        if reads and not compiled.keys().isdisjoint((*reads, *around)):
            found.append(_Root(written.term, written.guards))
    return found[:_ROOTS]


def _count(sizes: Sizes) -> int:
    return len(next(iter(sizes.values())))


class _Asked:
    """What expressions decide at some sizes; the last few sizes are kept, since one condition after the other asks."""

    def __init__(self, roots: Sequence[_Root]) -> None:
        self.roots = roots
        self._known: dict[int, tuple[Sizes, SizeEvaluation]] = {}

    def evaluated(self, sizes: Sizes) -> SizeEvaluation:
        if id(sizes) not in self._known:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            found, around = SizeEvaluation(sizes, _count(sizes)), SizeEvaluation(sizes, _count(sizes))
            for root in self.roots:
                mask = np.ones(found.count, bool)
                for term, value in root.guards:
                    mask &= around.truth(term, mask) == value
                if mask.any():
                    found.of(root.term, mask)
            found.forget()
            self._known[id(sizes)] = sizes, found
        return self._known[id(sizes)][1]

    def conditions(self, drawn: Sizes) -> Iterator[WrittenCondition]:
        """All decisions of the expressions, and those of functions that are met at drawn sizes."""
        decided = self.evaluated(drawn).decided
        tests = {term: guards for root in self.roots for term, guards in _decisions(root.term, root.guards)}
        for term in {**tests, **decided}:
            at_once = decided.get(term)
            both = at_once is not None and bool((at_once.true & at_once.false).any())
            guards = tests.get(term, ())
            for outcome in (True, False) if both else (None,):
                yield WrittenCondition(
                    instruction=term.text,
                    source_line=term.line or None,
                    at=self._of(term, outcome),
                    _tests={value: (*guards, *_parts(term, value)) for value in (True, False)},
                )

    def _of(self, term: SizeTerm, outcome: bool | None) -> Callable[[Sizes], NDArray[np.int64]]:
        """outcome: whether it is met with this outcome somewhere, for a decision of a loop."""

        def at(sizes: Sizes) -> NDArray[np.int64]:
            found = self.evaluated(sizes).decided.get(term)
            if found is None:
                return np.full(_count(sizes), -1)
            if outcome is not None:
                return np.where(found.true if outcome else found.false, int(outcome), -1)
            return np.where(found.true, 1, np.where(found.false, 0, -1))

        return at


def _decisions(term: SizeTerm, guards: _Tests) -> Iterator[tuple[SizeTerm, _Tests]]:
    """The decisions of an expression, each with what leads to it."""
    if term.op in _DECISIONS:
        yield term, guards
    for place, part in enumerate(term.parts):
        inner = () if term.op == "shared" else guards
        if term.op == "?" and place:
            inner = (*guards, (term.parts[0], place == 1))
        elif term.op in ("&&", "||") and place:
            inner = (*guards, (term.parts[0], term.op == "&&"))
        yield from _decisions(part, inner)


def _parts(term: SizeTerm, value: bool) -> _Tests:
    """What has to hold for a term to be true, or to be false: of a conjunction each of its parts."""
    if term.op in ("shared", "cast"):
        return _parts(term.parts[0], value)
    if term.op == "!":
        return _parts(term.parts[0], not value)
    if term.op == ("&&" if value else "||"):
        return (*_parts(term.parts[0], value), *_parts(term.parts[1], value))
    return ((term, value),)


def _deviations(roots: Sequence[_Root], known: Sizes, drawn: Sizes, seen: set[bytes]) -> Iterator[WrittenCondition]:
    """Whether a whole expression is another than if a part had its usual value, where that is rare.

    seen: outcomes at drawn sizes that decisions have.
    """
    step = max(1, _count(drawn) // _FEW)
    few = {name: values[::step] for name, values in drawn.items()}
    tried = asked = 0
    for root in roots:
        at_known, at_few = SizeEvaluation(known, _count(known)), SizeEvaluation(few, _count(few))
        plain, whole = at_few.of(root.term), _Whole(root.term)
        for part, usual in _usual_values(root.term, at_known):
            changed = SizeEvaluation(few, _count(few), {part: usual})
            is_rare = np.mean(changed.of(root.term) != plain) < _RARE
            tried += changed.work
            if not is_rare or asked > _WORK[1]:
                continue
            asked += 2 * changed.work
            differs = _Differs(whole, part, usual)
            outcomes = differs(drawn)
            if not outcomes.all() and not {outcomes.tobytes(), (1 - outcomes).tobytes()} & seen:
                seen.add(outcomes.tobytes())
                text = f"{root.term.text} is what it usually is"
                yield WrittenCondition(instruction=text, source_line=root.term.line or None, at=differs)
        if tried > _WORK[0]:
            return


def _usual_values(whole: SizeTerm, at_known: SizeEvaluation) -> Iterator[tuple[SizeTerm, int]]:
    """Parts of an expression, each with a value or two that it has at check cases."""
    parts = [part for part in whole.walk() if part is not whole and part.op not in _LEAVES]
    for part in parts[:_PARTS]:
        values = at_known.of(part)
        if values.dtype.kind != "f":
            middle = np.sort(values)[len(values) // 2]
            yield from ((part, usual) for usual in dict.fromkeys((int(values[0]), int(middle))))


class _Whole:
    """An expression as it is, at the sizes that were asked for last."""

    def __init__(self, term: SizeTerm) -> None:
        self.term = term
        self._last: tuple[Sizes, NDArray[np.generic]] | None = None

    def at(self, sizes: Sizes) -> NDArray[np.generic]:
        if self._last is None or self._last[0] is not sizes:
            self._last = sizes, SizeEvaluation(sizes, _count(sizes)).of(self.term)
        return self._last[1]


class _Differs:
    """1 where an expression is the same as if a part of it had its usual value."""

    def __init__(self, whole: _Whole, part: SizeTerm, usual: int) -> None:
        self.whole, self.part, self.usual = whole, part, usual
        self._last: tuple[Sizes, NDArray[np.int64]] | None = None

    def __call__(self, sizes: Sizes) -> NDArray[np.int64]:
        if self._last is None or self._last[0] is not sizes:
            other = SizeEvaluation(sizes, _count(sizes), {self.part: self.usual}).of(self.whole.term)
            self._last = sizes, (self.whole.at(sizes) == other).astype(np.int64)
        return self._last[1]
