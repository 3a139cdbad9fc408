"""A task is refused where its own gate would accept a kernel that does not do the work.

No kernel is run: outputs that lazy kernels would leave are made from the reference's, and held to the same comparison.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from evo.device import Array, Arrays
from evo.errors import HarnessFault, TaskInvalid
from evo.evaluate.gate.compare import allclose, compare
from evo.evaluate.gate.kept_laws import check_laws
from evo.evaluate.gate.run_cases import spread_over_cases
from evo.files import cache_folder, write_atomic
from evo.results import Status
from evo.spec import input_distributions, reference
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import DRAWN
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor

ERRS = "trusted-errs"  # the problem of a trusted implementation whose error is no budget
_SEED, _OTHER_SEED = 1, 2
_TILE = 16
_MOVES = 16  # roundings of the inputs, of which a trusted implementation's own are worth a few
_ROUNDINGS = 16  # ... of the outputs' type
_REPEATED = 1e-6  # of the largest
_COARSE_BITS = {"float64": 24, "float32": 8, "float16": 7, "bfloat16": 4, "float8_e4m3": 2, "float8_e5m2": 1}


@dataclass(frozen=True, slots=True)
class _Run:
    """One case under one distribution, as the gate would run it."""

    case: Case
    expectation: Expectation
    truth: Arrays  # the float64 expectation, rounded to the outputs' types

    @property
    def words(self) -> str:
        under = "" if self.expectation.distribution == DRAWN else f" with {self.expectation.distribution} inputs"
        return f"{self.case.name}{under}"


@dataclass(frozen=True, slots=True)
class _Lazy:
    """What a lazy kernel would leave: its outputs in a run, or None if there is no such kernel.

    gross: so wrong that the declared tolerance alone must refuse it, without the budgets' help.
    always: an output that equals the truth is no excuse, since the truth must not be that simple.
    """

    what: str
    outputs: Callable[[_Run], Arrays | None]
    hint: str
    gross: bool = False
    always: bool = False


def check_task(task: Task, found: Reference) -> None:
    """Raise TaskInvalid if the task's gate is no gate. A task that passed is remembered by its content."""
    marker = _marker(task)
    if marker is not None and marker.is_file():
        return
    _Examination(task, found).examine()
    if marker is not None:
        with contextlib.suppress(HarnessFault):  # a full or read-only disk costs the next look, nothing else
            write_atomic(marker, b"", durable=False)


class _Examination:
    def __init__(self, task: Task, found: Reference) -> None:
        self.task, self.reference = task, found
        self.runs = [self._run(case, found.expectation(case, _SEED)) for case in task.check]
        self.drawn = list(self.runs)
        for case, distribution in spread_over_cases(task, found, _SEED):
            if (expectation := found.derived(case, _SEED, distribution)) is not None:
                self.runs.append(self._run(case, expectation))

    def examine(self) -> None:
        self._expected_is_usable()
        self._answers_alike()
        self._trusted_passes()
        check_laws(self.task, self.reference)
        for lazy in self._lazy():
            self._must_fail(lazy)

    def _run(self, case: Case, expectation: Expectation) -> _Run:
        with np.errstate(all="ignore"):
            truth = {
                tensor.name: expectation.expected[tensor.name].astype(NUMPY[tensor.dtype])
                for tensor in self.task.outputs
            }
        return _Run(case, expectation, truth)

    def _invalid(self, what: str, hint: str, problem: str = "") -> TaskInvalid:
        return TaskInvalid(f"{self.task.folder / 'task.yaml'}: {what}", hint=hint, problem=problem)

    def _expected_is_usable(self) -> None:
        for run in self.drawn:
            for tensor in self.task.outputs:
                values = run.expectation.expected[tensor.name]
                if is_float(tensor.dtype) and np.isnan(values.astype(np.float64)).all():
                    raise TaskInvalid(
                        f"{self.task.folder / 'reference.py'}: expected() is NaN everywhere in {tensor.name} at case "
                        f"{run.case.name}, so any kernel that writes NaN would pass",
                        hint="draw inputs for which the result is a number",
                    )
        if self.task.inputs and all(self._same_inputs(case) for case in self.task.check):
            raise TaskInvalid(
                f"{self.task.folder / 'reference.py'}: inputs(case, rng) gives the same tensors for every seed, so a "
                "kernel that remembers its answer would pass",
                hint="draw the values from `rng`",
            )

    def _answers_alike(self) -> None:
        """A reference that draws from a generator of its own gives another truth each time."""
        again = Reference(self.task, self.reference.process)  # it has kept nothing
        run = min(self.drawn, key=lambda run: sum(tensor.size_bytes(run.case) for tensor in self.task.tensors))
        now = again.expectation_of(run.expectation.inputs, run.case)
        answers = {
            "inputs": (again.inputs(run.case, _SEED), run.expectation.inputs),
            "expected": (now.expected, run.expectation.expected),
        }
        for function, (second, first) in answers.items():
            for name in first:
                if not _alike(second[name], first[name]):
                    given = "the same generator" if function == "inputs" else "the same inputs"
                    raise TaskInvalid(
                        f"{self.task.folder / 'reference.py'}: {function}() gives another {name} when it is called "
                        f"again with {given}, at case {run.case.name}",
                        hint="draw from `rng` in inputs(), and from nothing else; let results follow from the inputs",
                    )

    def _same_inputs(self, case: Case) -> bool:
        first, other = (self.reference.inputs(case, seed) for seed in (_SEED, _OTHER_SEED))
        return all(first[name].tobytes() == other[name].tobytes() for name in first)

    def _trusted_passes(self) -> None:
        for run in self.runs:
            trusted = run.expectation.trusted
            whose, outputs = "the rounded expectation", run.truth
            if trusted is not None:
                whose = "its own trusted()"
                with np.errstate(all="ignore"):
                    outputs = {t.name: trusted[t.name].astype(NUMPY[t.dtype]) for t in self.task.outputs}
            row = compare(self.task, run.case.name, outputs, run.expectation)
            off = max((_relative_rms(outputs[t.name], run.truth[t.name]) for t in self._floats()), default=0.0)
            unit = max((ROUNDOFF[t.dtype] for t in self._floats()), default=0.0)
            if off > max(
                self.task.tolerance.rtol,
                _ROUNDINGS * unit,
                _MOVES * self._relative_spread(run),
                _ROUNDINGS * unit * self._drawn_over(run),
            ):
                raise TaskInvalid(
                    f"{self.task.folder / 'reference.py'}: trusted() is off from expected() by {off:.3g} of its size "
                    f"at case {run.words}, so its error is no budget",
                    hint="trusted() computes the same, in the precision of a good kernel",
                    problem=ERRS,
                )
            if row.status is not Status.CORRECT:
                hint = "compare expected() with trusted(), then look at the tolerance and the inputs"
                raise self._invalid(f"the gate refuses {whose} at case {run.words}: {row.reason}", hint)

    def _drawn_over(self, run: _Run) -> float:
        """Size of the outputs as drawn over their size here: `exp(x) - 1` of a tiny x rounds as that of any x does."""
        sizes = [_rms(each.truth[t.name]) for each in self.drawn for t in self._floats()]
        here = min((_rms(run.truth[t.name]) for t in self._floats()), default=0.0)
        return float(np.median(sizes)) / here if here else 0.0

    def _relative_spread(self, run: _Run) -> float:
        """How far one rounding of the inputs moves the outputs, over their size: far where terms cancel."""
        spread, truth = run.expectation.spread or {}, run.expectation.expected
        moved = [
            (spread[t.name].astype(np.float64), truth[t.name].astype(np.float64))
            for t in self._floats()
            if t.name in spread
        ]
        return max((_relative_rms(far + exact, exact) for far, exact in moved), default=0.0)

    def _floats(self) -> list[Tensor]:
        return [tensor for tensor in self.task.outputs if is_float(tensor.dtype)]

    def _must_fail(self, lazy: _Lazy) -> None:
        given = [(run, lazy.outputs(run)) for run in self.runs]
        tried = [(run, outputs) for run, outputs in given if outputs is not None]
        if not lazy.always:  # where the lazy answer is the right one everywhere, it is not lazy
            tried = [(run, outputs) for run, outputs in tried if not _equal(outputs, run.truth)]
        if not tried:
            return
        drawn = [(run, outputs) for run, outputs in tried if run.expectation.distribution == DRAWN]
        if lazy.gross and drawn and all(allclose(self.task, outputs, run.expectation) for run, outputs in drawn):
            tolerance = self.task.tolerance
            what = f"rtol {tolerance.rtol:g} and atol {tolerance.atol:g} accept {lazy.what} at every check case"
            raise self._invalid(what, lazy.hint, "accepts-too-much")
        if all(self._passes(run, outputs) for run, outputs in tried):
            raise self._invalid(f"the gate would accept {lazy.what}", lazy.hint, "accepts-too-much")

    def _passes(self, run: _Run, outputs: Arrays) -> bool:
        return compare(self.task, run.case.name, outputs, run.expectation).status is Status.CORRECT

    def _lazy(self) -> Iterator[_Lazy]:
        tighter = "tighten the tolerance, or add trusted() to reference.py so that an error budget holds"
        shapes = "add check cases with larger and odd shapes, or inputs of more variety"
        simple = "the outputs say too little: give the task inputs on which they vary"
        yield _Lazy("a kernel that writes zeros", self._zeros, tighter, gross=True, always=True)
        yield _Lazy("a kernel that writes one constant, the mean", self._mean, simple, gross=True, always=True)
        yield _Lazy("a kernel that does nothing", self._untouched, simple, gross=True, always=True)
        for tensor in self.task.inputs:
            what = f"a kernel that copies {tensor.name} to its output"
            yield _Lazy(what, lambda run, name=tensor.name: self._copy(run, name), tighter, gross=True)  # type: ignore[misc]
        stale = "a kernel that leaves the results of other inputs where they are"
        if self.task.inputs:  # without any, a case has one answer: its results are the results of all inputs
            yield _Lazy(stale, self._stale, simple, gross=True, always=True)
        yield _Lazy("results stored in the wrong order", self._transposed, simple)
        tile = f"a kernel that repeats the tile before instead of the last {_TILE} rows"
        yield _Lazy(tile, lambda run: self._neighbour(run, _TILE, 0), shapes)
        yield _Lazy("a kernel that drops the last column", lambda run: self._neighbour(run, 1, -1), shapes)
        yield _Lazy("results that are all too large by a hundredth", self._scaled, tighter)
        yield _Lazy("results of lower precision than the outputs' type", self._coarse, tighter)

    def _zeros(self, run: _Run) -> Arrays:
        return {name: np.zeros_like(values) for name, values in run.truth.items()}

    def _untouched(self, run: _Run) -> Arrays | None:
        """What is there before the launch; None where some output holds poison then."""
        if any(tensor.role == "out" and tensor.init != "zero" for tensor in self.task.outputs):
            return None
        given = {
            name: values.astype(run.truth[name].dtype)
            for name, values in run.expectation.inputs.items()
            if name in run.truth
        }
        return {name: given.get(name, np.zeros_like(values)) for name, values in run.truth.items()}

    def _mean(self, run: _Run) -> Arrays | None:
        """None for single numbers, which are their own mean, and if there is nothing to average."""
        outputs: Arrays = {}
        for tensor in self.task.outputs:
            values = run.truth[tensor.name]
            reals = values.astype(np.float64)
            if values.size == 1 or not np.isfinite(reals).any():
                return None
            mean = float(reals[np.isfinite(reals)].mean())
            outputs[tensor.name] = np.full(values.shape, round(mean) if not is_float(tensor.dtype) else mean).astype(
                values.dtype
            )
        return outputs

    def _copy(self, run: _Run, name: str) -> Arrays | None:
        source = run.expectation.inputs[name]
        outputs = dict(run.truth)
        copied = False
        for tensor in self.task.outputs:
            if run.truth[tensor.name].shape == source.shape:
                with np.errstate(all="ignore"):
                    outputs[tensor.name] = source.astype(NUMPY[tensor.dtype])
                copied = True
        return outputs if copied else None

    def _stale(self, run: _Run) -> Arrays | None:
        if run.expectation.distribution != DRAWN:
            return None
        return self._run(run.case, self.reference.expectation(run.case, _OTHER_SEED)).truth

    def _transposed(self, run: _Run) -> Arrays:
        return {name: _reordered(values) for name, values in run.truth.items()}

    def _neighbour(self, run: _Run, count: int, axis: int) -> Arrays | None:
        """The last rows (or columns) hold what stands before them."""
        outputs: Arrays = {}
        for name, values in run.truth.items():
            rows = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values[:, None]
            along = 0 if axis == 0 or values.ndim == 1 else 1
            size = min(count, rows.shape[along] // 2)
            if size == 0:
                return None
            moved = rows.copy()
            if along == 0:
                moved[-size:] = rows[-2 * size : -size]
            else:
                moved[:, -size:] = rows[:, -2 * size : -size]
            outputs[name] = moved.reshape(values.shape)
        return outputs

    def _scaled(self, run: _Run) -> Arrays | None:
        def larger(tensor: Tensor, run: _Run) -> Array:
            exact = run.expectation.expected[tensor.name].astype(np.float64)
            return (exact * (1 + max(0.01, 2 * ROUNDOFF[tensor.dtype]))).astype(NUMPY[tensor.dtype])

        return self._of_floats(run, larger)

    def _coarse(self, run: _Run) -> Arrays | None:
        def coarse(tensor: Tensor, run: _Run) -> Array:
            values = run.truth[tensor.name].astype(np.float64)
            return _with_bits(values, _COARSE_BITS[tensor.dtype]).astype(NUMPY[tensor.dtype])

        return self._of_floats(run, coarse)

    def _of_floats(self, run: _Run, change: Callable[[Tensor, _Run], Array]) -> Arrays | None:
        """The truth with every floating output changed; None if there is none."""
        outputs = dict(run.truth)
        with np.errstate(all="ignore"):
            outputs |= {tensor.name: change(tensor, run) for tensor in self._floats()}
        return outputs if self._floats() else None


def _equal(left: Arrays, right: Arrays) -> bool:
    return all(left[name].tobytes() == right[name].tobytes() for name in left)


def _rms(values: Array) -> float:
    reals = values.astype(np.float64)
    finite = reals[np.isfinite(reals)]
    return float(np.sqrt((finite**2).mean())) if finite.size else 0.0


def _alike(again: NDArray[np.generic], first: NDArray[np.generic]) -> bool:
    """Whether an answer is the same once more, but for the order of sums in threads."""
    if first.dtype.kind != "f" or first.tobytes() == again.tobytes():
        return first.tobytes() == again.tobytes()
    most = _REPEATED * float(np.max(np.abs(first), initial=0.0, where=np.isfinite(first)))
    return bool(np.isclose(again, first, rtol=0, atol=most, equal_nan=True).all())


def _relative_rms(values: Array, truth: Array) -> float:
    got, want = values.astype(np.float64), truth.astype(np.float64)
    counted = np.isfinite(got) & np.isfinite(want)
    size = float(np.sqrt((want[counted] ** 2).sum()))
    return float(np.sqrt(((got[counted] - want[counted]) ** 2).sum())) / size if size else 0.0


def _reordered(values: Array) -> Array:
    """The same numbers as a kernel would store them that took the last two axes for one another."""
    if values.ndim < 2:
        return np.ascontiguousarray(values[::-1])
    return np.ascontiguousarray(np.swapaxes(values, -1, -2)).reshape(values.shape)


def _with_bits(values: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Rounded to that many significant bits."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits))


@cache
def _version() -> bytes:
    """What decides the verdict besides the task: the code of the gate, and numpy's own results."""
    digest = hashlib.sha256(f"{np.__version__} {ml_dtypes.__version__}".encode())
    made_by = [Path(str(module.__file__)) for module in (reference, input_distributions)]
    for path in (*sorted(Path(__file__).parent.glob("*.py")), *made_by):
        digest.update(path.read_bytes())
    return digest.digest()


def _marker(task: Task) -> Path | None:
    """An empty file that says: this task, under this gate, has passed."""
    folder = cache_folder("tasks")
    laws = (task.folder / "task.yaml").read_bytes()  # of which the hash says nothing
    digest = hashlib.sha256(_version() + task.hash.encode() + laws).hexdigest()
    return folder / f"{task.name}-{digest[:24]}" if folder is not None else None
