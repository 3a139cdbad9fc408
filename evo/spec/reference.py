"""Runs a task's `reference.py` under a deadline: inputs, float64 expectation, trusted implementation, rivals.

Knows the contract, no device. A reference that breaks it is a TaskInvalid, never a wrong variant.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.spec import input_distributions as distributions
from evo.spec.derived_inputs import (
    candidates,
    float_outputs,
    is_accurate,
    is_defined,
    multiples,
    representable,
    special_inputs,
    vanishes,
)
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.expectation import LARGE_BYTES, Expectation, Judge, JudgedTruth
from evo.spec.honest_errors import HonestErrors, rounding_of
from evo.spec.input_distributions import SPECIAL
from evo.spec.integer_distributions import beyond
from evo.spec.laws import Law
from evo.spec.recent_cache import RecentCache
from evo.spec.reference_child import load_file
from evo.spec.reference_process import ReferenceProcess, ReferenceProcesses, ReferenceValue
from evo.spec.task import Case, Task, Tensor
from evo.spec.tensor_arrays import Arrays, DrawnInputs, arrays_of, distance, generator_of, size_of, stream_of

CALL_LIMIT_S = 300.0  # a large case in float64 takes a minute on few cores; what takes longer hangs
_MOST_AHEAD = 4  # further processes; each holds the arrays of one large case
_CORES_EACH = 3  # and leaves cores to compilers and the simulator
_INPUT_BYTES = 1 << 30  # held at most; looks at all timed cases ask for them again and again
_JUDGED_BYTES = 320 << 20, 160 << 20  # of both: working them out anew takes a judge a tenth of a second each
_EXPECTATION_BYTES, _DERIVED_BYTES = 384 << 20, 128 << 20
_BESIDE_BYTES = 64 << 20  # of sizes that the task does not list: inputs, expectations and derived ones each
_NUMBERS = "biufcV"  # kinds of dtypes; the narrow floats of ml_dtypes are V to numpy


@dataclass(slots=True)
class Reference:
    """The reference.py of one task, in a process of its own; expectations cached by case, seed and distribution."""

    task: Task
    process: ReferenceProcess
    limit_s: float = CALL_LIMIT_S
    coming: Callable[[], Judge | None] | None = None  # waits for a judge that is being compared with NumPy
    judge: Judge | None = None
    laws: tuple[Law, ...] | None = None  # that the task states or the reference keeps; None: nobody has looked
    _expectations: RecentCache[Expectation] = field(default_factory=lambda: RecentCache(_EXPECTATION_BYTES))
    _inputs: RecentCache[DrawnInputs] = field(default_factory=lambda: RecentCache(_INPUT_BYTES))
    _derived: RecentCache[tuple[Expectation | None]] = field(default_factory=lambda: RecentCache(_DERIVED_BYTES))
    _beside: Reference | None = None
    _dependent: bool | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)  # gate and hunt ask at once
    _threads: ThreadPoolExecutor | None = None  # that work out expectations ahead
    _begun: dict[tuple[str, int], Future[Expectation]] = field(default_factory=dict)

    def has(self, function: str) -> bool:
        """Whether the module has a function of the contract that it may leave out."""
        return function in self.process.functions

    def close(self, *, for_good: bool = False) -> None:
        """End its processes; a later call starts another, or raises WorkerLost if this is for good."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        (self.process.end if for_good else self.process.close)()

    def ahead(self, cases: Iterable[Case], seed: int) -> None:
        """Begin with the expectations of these cases in further processes, which a machine with few cores has not."""
        if self.judge is not None or self.coming is not None:  # it needs a moment for each
            return
        most = min(_MOST_AHEAD, (os.cpu_count() or 1) // _CORES_EACH)
        if most and self._threads is None:
            self._threads = ThreadPoolExecutor(most, thread_name_prefix="reference")
        for case in cases if self._threads is not None else ():
            key = (case.name, seed)
            if self._expectations.get(key) is None and key not in self._begun:
                assert self._threads is not None
                self._begun[key] = self._threads.submit(self._in_another_process, case, seed)

    def _in_another_process(self, case: Case, seed: int) -> Expectation:
        with closing(Reference(self.task, ReferenceProcess(self.process.path), self.limit_s)) as other:
            return other.expectation(case, seed)

    def beside(self) -> Reference:
        """The same for sizes that the task does not list, which the next variants ask for again; less is held."""
        if self._beside is None:
            self._beside = Reference(
                self.task,
                self.process,
                self.limit_s,
                _expectations=RecentCache(_BESIDE_BYTES),
                _inputs=RecentCache(_BESIDE_BYTES),
                _derived=RecentCache(_BESIDE_BYTES),
            )
        return self._beside

    def _take_over(self, key: tuple[str, int], case: Case) -> None:
        """Wait for what was begun ahead, if it was. Raises TaskInvalid."""
        if (begun := self._begun.pop(key, None)) is not None:
            found = begun.result()
            self._hold(key, replace(found, honest=self._honest(found.inputs, case)))
            self._inputs.put(key, DrawnInputs.of(found.inputs), size_of(found.inputs))

    def expectation(self, case: Case, seed: int) -> Expectation:
        """Inputs and expected outputs for one case and seed. Raises TaskInvalid when the module breaks its contract."""
        key = (case.name, seed)
        self._take_over(key, case)
        if (known := self._expectations.get(key)) is not None:
            return known
        inputs = self.inputs(case, seed)
        if (judged := self._judged(case, seed, inputs)) is not None:
            fetch = functools.partial(self.once, (*key, "arrays"), lambda: self.expectation_of(inputs, case, ties=True))
            return self._hold(key, Expectation(inputs, {}, None, judged=judged, fetch=fetch))
        return self._hold(key, replace(self.expectation_of(inputs, case), honest=self._honest(inputs, case)))

    def _judged(self, case: Case, seed: int, inputs: Arrays) -> JudgedTruth | None:
        judge = self._judge_of(case)
        if judge is None:
            return None
        shapes = {tensor.name: tensor.dims(case) for tensor in self.task.outputs}
        key, trusted = f"{case.name} {seed}", self.has("trusted")
        return JudgedTruth.by(judge, key, self.arguments("expected", inputs, case), shapes, has_trusted=trusted)

    def _judge_of(self, case: Case) -> Judge | None:
        """Who works on the large arrays of a case, if there is somebody, and if they are large."""
        if sum(tensor.size_bytes(case) for tensor in self.task.tensors) < LARGE_BYTES:
            return None
        if (coming := self.coming) is not None:
            self.judge, self.coming = coming(), None
            if self.judge is not None:
                self._inputs.limit_bytes, self._expectations.limit_bytes = _JUDGED_BYTES
        return self.judge

    def once(self, key: tuple[object, ...], work: Callable[[], Expectation]) -> Expectation:
        """What `work` gives, kept under the key among the expectations of cases."""
        return self._expectations.get(key) or self._hold(key, work())

    def _hold(self, key: tuple[object, ...], found: Expectation) -> Expectation:
        return self._expectations.put(key, found, size_of(found.expected) + size_of(found.trusted or {}))

    def inputs(self, case: Case, seed: int) -> Arrays:
        """The input tensors of one case, as the kernel sees them: for a seed the same values."""
        return self._drawn(case, seed).arrays

    def fixed_inputs(self, case: Case, seed: int) -> Arrays:
        """The same as views that cannot be written to, of which a device may keep a copy; the same views while held."""
        return self._drawn(case, seed).views

    def _drawn(self, case: Case, seed: int) -> DrawnInputs:
        key = (case.name, seed)
        self._take_over(key, case)
        if (known := self._inputs.get(key)) is not None:
            return known
        stream, judge = stream_of(seed, case.name), self._judge_of(case)
        arrays = judge.inputs(case.axes, stream) if judge is not None else None
        if arrays is None:
            arrays = self._call("inputs", dict(case.axes), seed=stream)
        drawn = {t.name: self._shaped("inputs", arrays, t, case) for t in self.task.inputs}
        return self._inputs.put(key, DrawnInputs.of(drawn), size_of(drawn))

    def derived(self, case: Case, seed: int, distribution: str) -> Expectation | None:
        """The case under another distribution; None if no input may be changed, or if reference or trusted
        implementation are not finite and accurate there: a correct kernel need not be either.
        """
        return self.derived_once((case.name, seed, distribution), lambda: self._derive(case, seed, distribution))

    def derived_once(self, key: tuple[object, ...], work: Callable[[], Expectation | None]) -> Expectation | None:
        """The result of `work`, cached under the key: the next variants need the same."""
        if (known := self._derived.get(key)) is not None:
            return known[0]
        found = work()
        return self._derived.put(key, (found,), found.size_bytes if found is not None else 0)[0]

    def _derive(self, case: Case, seed: int, distribution: str) -> Expectation | None:
        drawn = self.inputs(case, seed)
        if distribution == SPECIAL:
            return self._special(case, drawn, seed)
        if self.has_dependent_inputs():
            return None
        for inputs, rng in candidates(
            self.task, case, drawn, distribution, lambda: generator_of(seed, case.name, distribution)
        ):
            if (found := self.sound(case, inputs, distribution, rng)) is not None:
                return found
        return None

    def _special(self, case: Case, drawn: Arrays, seed: int) -> Expectation | None:
        """Special values in every input where they have a meaning: stated, or as the reference gives them."""
        for unstated in (True, False):
            if unstated and (not self.has("trusted") or self.has_dependent_inputs()):
                continue
            rng = generator_of(seed, case.name, SPECIAL)
            inputs = special_inputs(self.task, drawn, rng, unstated=unstated)
            if inputs is None:
                return None
            try:
                found = self.special_expectation(inputs, case)
            except TaskInvalid:  # it holds inputs to a condition
                if unstated:
                    continue
                raise
            named = [t.name for t in self.task.inputs if t.specials is None and inputs[t.name] is not drawn[t.name]]
            if not named or is_defined(self.task, found):
                return found
        return None

    def sound(
        self, case: Case, inputs: Arrays, distribution: str, rng: np.random.Generator, *, is_given: bool = False
    ) -> Expectation | None:
        """The expectation on these inputs if it is finite, and the trusted implementation well within tolerance.

        is_given: they are the task's own, and are used whatever that implementation errs.
        """
        single, widest = ROUNDOFF["float32"], max((ROUNDOFF[t.dtype] for t in float_outputs(self.task)), default=0.0)
        level = single if self.has("trusted") else widest
        moved = {
            tensor.name: distributions.perturbed(inputs[tensor.name], level, rng)
            if is_float(tensor.dtype)
            else inputs[tensor.name]
            for tensor in self.task.inputs
        }
        whole = not all(is_float(t.dtype) for t in self.task.outputs)  # a NaN on the way to one becomes any number
        try:
            with np.errstate(all="ignore", invalid="raise" if whole else "ignore"):
                expected = self._outputs("expected", inputs, case)
                if not representable(self.task, expected) or (distribution == "tiny" and vanishes(self.task, expected)):
                    return None
                trusted = self._outputs("trusted", inputs, case) if self.has("trusted") else None
                for other in () if trusted is None or is_given else multiples(self.task, inputs):
                    both = [self._outputs(name, other, case) for name in ("expected", "trusted")]
                    if not is_accurate(self.task, Expectation(other, both[0], both[1])):
                        return None
                if not is_given and not is_accurate(self.task, Expectation(inputs, expected, trusted)):
                    return None
                near = self._outputs("expected", moved, case)
        except TaskInvalid:  # it holds inputs to a condition that other values break, which is its right
            return None
        distances = {t.name: distance(near, expected, t.name) for t in float_outputs(self.task)}
        rounding: Arrays = {name: rounding_of(by, min(single / level, 1.0)) for name, by in distances.items()}
        found = Expectation(
            inputs, expected, trusted, distribution, {**distances}, rounding, honest=self._honest(inputs, case)
        )
        return found if is_given or is_accurate(self.task, found) else None

    def stays_within(self, case: Case, drawn: Arrays, changed: Arrays) -> bool:
        """Whether nothing on the way to the outputs exceeds the type of the changed tensors, in any order of a sum.

        Doubles as near to their own end show it, as they are and all of one sign.
        """
        most = float(np.finfo(np.float64).max)
        units = {
            tensor.name: most / distributions.largest(tensor.dtype)
            for tensor in self.task.inputs
            if tensor.name in changed
        }
        ends = {name: changed[name].astype(np.float64) * unit for name, unit in units.items()}
        sizes = {name: np.abs(values) for name, values in ends.items()}
        try:
            with np.errstate(all="ignore"):
                found = [self.expected(drawn | each, case) for each in (ends, sizes)]
        except TaskInvalid:
            return False
        return all(bool(np.isfinite(values).all()) for outputs in found for values in outputs.values())

    def _honest(self, inputs: Arrays, case: Case) -> HonestErrors:
        """What honest implementations err on these inputs, to be drawn when a variant is beyond the tolerance."""
        implementations = [
            functools.partial(self._outputs, name, case=case) for name in ("trusted", "rounded") if self.has(name)
        ]
        exact = functools.partial(self._outputs, "expected", case=case)
        types = {tensor.name: tensor.dtype for tensor in self.task.inputs if is_float(tensor.dtype)}
        outputs = {tensor.name: ROUNDOFF[tensor.dtype] for tensor in float_outputs(self.task)}
        return HonestErrors(inputs, exact, implementations, types, tuple(outputs), max(outputs.values(), default=0.0))

    def has_dependent_inputs(self) -> bool:
        """Whether the reference ignores an input: then that one may follow from the others, as a saved sum does.

        A kernel may use it, so the inputs cannot be changed one by one. A declared domain says that they can.
        """
        with self._looking:
            if self._dependent is None:
                self._dependent = self._find_dependent()
            return self._dependent

    def _find_dependent(self) -> bool:
        case = max(self.task.check, key=lambda case: min(sum(t.size_bytes(case) for t in self.task.inputs), 1 << 20))
        drawn = self.inputs(case, 0)
        before = self._outputs("expected", drawn, case)
        for tensor in self.task.inputs:
            array = drawn[tensor.name]
            if tensor.domain is not None or tensor.range is not None:
                continue
            if distributions.domain_of(tensor.dtype, array) == "fixed":
                continue
            turned = distributions.turned(array)
            try:
                after = self._outputs("expected", drawn | {tensor.name: turned}, case)
            except TaskInvalid:
                return True
            if all(before[name].tobytes() == after[name].tobytes() for name in before):
                return True
        return False

    def expected(self, inputs: Arrays, case: Case) -> Arrays:
        """The float64 outputs for inputs of the caller's own. Raises TaskInvalid."""
        return self._outputs("expected", inputs, case)

    def expectation_of(self, inputs: Arrays, case: Case, *, ties: bool = False) -> Expectation:
        """The expectation for inputs of the caller's own, not kept. Raises TaskInvalid.

        ties: with what tells near ties of outputs that are no floats.
        """
        trusted = self._outputs("trusted", inputs, case) if self.has("trusted") else None
        near = self._ties(inputs, case) if ties else None
        return Expectation(inputs, self._outputs("expected", inputs, case), trusted, honest=near)

    def _ties(self, inputs: Arrays, case: Case) -> HonestErrors | None:
        return None if all(is_float(t.dtype) for t in self.task.outputs) else self._honest(inputs, case)

    def special_expectation(self, inputs: Arrays, case: Case) -> Expectation:
        """What is right where special values lie among the inputs. Raises TaskInvalid."""
        with np.errstate(all="ignore"):
            found = self.expectation_of(inputs, case)
        return replace(found, distribution=SPECIAL, honest=self._honest(inputs, case))

    def literal(self) -> tuple[dict[str, int], Arrays, Arrays] | None:
        """The hand-computed case of the module, if it has one: axes, inputs, outputs."""
        if not self.has("literal"):
            return None
        found = self._returned("literal").value
        if not isinstance(found, list) or len(found) != 3 or not all(isinstance(part, dict) for part in found):
            raise self._broken("literal", "returned no axes, inputs and outputs")
        axes, inputs, outputs = found
        return cast(dict[str, int], axes), arrays_of(inputs), arrays_of(outputs)

    def _outputs(self, name: str, inputs: Arrays, case: Case) -> Arrays:
        arguments, arrays = self.arguments(name, inputs, case), None
        if (judge := self._judge_of(case)) is not None and np.geterr()["invalid"] != "raise":
            arrays = judge.outputs(name, arguments)
        if arrays is None:
            arrays = self._call(name, *arguments)
        outputs = {}
        for tensor in self.task.outputs:
            array = self._shaped(name, arrays, tensor, case)
            exact = np.asarray(array).astype(np.float64) if is_float(tensor.dtype) else array
            outputs[tensor.name] = exact
        return outputs

    def _shaped(self, function: str, arrays: Arrays, tensor: Tensor, case: Case) -> NDArray[np.generic]:
        if tensor.name not in arrays:
            raise self._broken(function, f"returned no {tensor.name!r} at case {case.name}")
        array = np.asarray(arrays[tensor.name])
        if array.dtype.kind not in _NUMBERS:
            raise self._broken(function, f"returned {tensor.name} that is no array of numbers at case {case.name}")
        if array.shape != tensor.dims(case):
            what = f"{tensor.name} has shape {array.shape}, declared {tensor.dims(case)} at case {case.name}"
            raise self._broken(function, what)
        if function == "inputs":
            if tensor.range is not None and (problem := beyond(array, tensor.range.at(case.axes))):
                raise self._broken(function, f"returned {problem} in {tensor.name} at case {case.name}")
            return np.ascontiguousarray(array.astype(NUMPY[tensor.dtype], copy=False))
        return array

    def arguments(self, name: str, inputs: Arrays, case: Case) -> tuple[object, ...]:
        """What `expected` or `trusted` is called with."""
        if self.process.functions.get(name, 0) > 1:
            return inputs, dict(case.axes)
        return ({**inputs, **self.task.scalar_values(case), **case.axes},)

    def _call(self, name: str, *args: object, seed: list[int] | None = None) -> Arrays:
        returned = self._returned(name, *args, seed=seed)
        if returned.kind == "dict" or isinstance(returned.value, dict):
            return arrays_of(returned.value)
        if name != "inputs" and len(self.task.outputs) == 1:  # a bare array is the only output
            return {self.task.outputs[0].name: np.asarray(returned.value)}
        raise self._broken(name, f"returned {returned.kind}, expected a dict of arrays by tensor name")

    def _returned(self, name: str, *args: object, seed: list[int] | None = None) -> ReferenceValue:
        if self.process.functions.get(name, -1) < 0:
            raise self._broken(name, "is missing")
        return self.process.call(name, args, limit_s=self.limit_s, seed=seed)

    def _broken(self, function: str, what: str) -> TaskInvalid:
        return self.process.broken(f"{function}() {what}")


def load_reference(task: Task) -> Reference:
    """Import the task's reference.py. Raises TaskInvalid when it cannot be imported."""
    return Reference(task, ReferenceProcesses(task.folder / "reference.py"))


def load_module(path: Path) -> ModuleType:
    """Import a reference.py into this process, for what no message can hold. Raises TaskInvalid.

    No limit of time holds here: a reference is loaded in a process of its own before, or this one has its own limits.
    """
    try:
        return load_file(path)
    except (Exception, SystemExit) as error:
        where = f"{path}:{error.lineno}" if isinstance(error, SyntaxError) else str(path)
        raise TaskInvalid(f"{where}: {type(error).__name__}: {error}", hint="fix reference.py") from error
