"""A task's `reference.py`, called with care: inputs, float64 expectation, trusted implementation, rivals.

Knows the contract, no device. A reference that breaks it is a TaskInvalid, never a wrong variant.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evo.dtypes import NUMPY, is_float
from evo.errors import TaskInvalid
from evo.task import Case, Task, Tensor

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Expectation:
    """One case: inputs as the kernel sees them, float64 outputs, and the outputs of a trusted implementation."""

    inputs: Arrays
    expected: Arrays
    trusted: Arrays | None


@dataclass(slots=True)
class Reference:
    """The loaded module of one task, with expectations cached by case and seed."""

    task: Task
    module: ModuleType
    _cache: dict[tuple[str, int], Expectation] = field(default_factory=dict)
    _inputs: dict[tuple[str, int], Arrays] = field(default_factory=dict)

    def expectation(self, case: Case, seed: int) -> Expectation:
        """Inputs and expected outputs for one case and seed. Raises TaskInvalid when the module breaks its contract."""
        key = (case.name, seed)
        if key not in self._cache:
            inputs = self.inputs(case, seed)
            expected = self._outputs("expected", inputs, case)
            trusted = self._outputs("trusted", inputs, case) if hasattr(self.module, "trusted") else None
            self._cache[key] = Expectation(inputs, expected, trusted)
        return self._cache[key]

    def inputs(self, case: Case, seed: int) -> Arrays:
        """The input tensors of one case, as the kernel sees them; the same arrays for the same seed."""
        key = (case.name, seed)
        if key not in self._inputs:
            rng = np.random.default_rng([seed, int.from_bytes(case.name.encode()[:8], "little")])
            arrays = self._call("inputs", dict(case.axes), rng)
            self._inputs[key] = {t.name: self._shaped("inputs", arrays, t, case) for t in self.task.inputs}
        return self._inputs[key]

    def literal(self) -> tuple[dict[str, int], Arrays, Arrays] | None:
        """The hand-computed case of the module, where it has one: axes, inputs, outputs."""
        if not hasattr(self.module, "literal"):
            return None
        return cast(tuple[dict[str, int], Arrays, Arrays], self._call_any("literal"))

    def _outputs(self, name: str, inputs: Arrays, case: Case) -> Arrays:
        given: dict[str, object] = {**inputs, **self.task.scalar_values(case), **case.axes}
        takes_case = len(inspect.signature(getattr(self.module, name)).parameters) > 1
        arrays = self._call(name, inputs, dict(case.axes)) if takes_case else self._call(name, given)
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
        if array.shape != tensor.dims(case):
            what = f"{tensor.name} has shape {array.shape}, declared {tensor.dims(case)} at case {case.name}"
            raise self._broken(function, what)
        if function == "inputs":
            return np.ascontiguousarray(array.astype(NUMPY[tensor.dtype], copy=False))
        return array

    def _call(self, name: str, *args: object) -> Arrays:
        result = self._call_any(name, *args)
        if isinstance(result, dict):
            return cast(Arrays, result)
        outputs = self.task.outputs
        if name != "inputs" and len(outputs) == 1:  # a bare array is the only output
            return {outputs[0].name: np.asarray(result)}
        raise self._broken(name, f"returned {type(result).__name__}, expected a dict of arrays by tensor name")

    def _call_any(self, name: str, *args: object) -> object:
        function = cast(Callable[..., object] | None, getattr(self.module, name, None))
        if function is None:
            raise self._broken(name, "is missing")
        try:
            return function(*args)
        except (Exception, SystemExit) as error:  # sys.exit() in a task's file must not pick evo's exit code
            raise self._broken(name, f"raised {type(error).__name__}: {error}") from error

    def _broken(self, function: str, what: str) -> TaskInvalid:
        return TaskInvalid(
            f"{self.task.folder / 'reference.py'}: {function}() {what}",
            hint="inputs(case, rng) and expected(inputs, case) return a dict of arrays by tensor name",
        )


def load_reference(task: Task) -> Reference:
    """Import the task's reference.py. Raises TaskInvalid when it cannot be imported."""
    return Reference(task, load_module(task.folder / "reference.py"))


def load_module(path: Path) -> ModuleType:
    """Import one Python file under a name of its own. Raises TaskInvalid."""
    name = "evo_reference_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TaskInvalid(f"{path}: not a Python file", hint="a task folder holds reference.py")
    module = importlib.util.module_from_spec(spec)
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # a __pycache__ inside the user's task folder is litter
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        where = f"{path}:{error.lineno}" if isinstance(error, SyntaxError) else str(path)
        raise TaskInvalid(f"{where}: {type(error).__name__}: {error}", hint="fix reference.py") from error
    finally:
        sys.dont_write_bytecode = written
    return module
