"""The driver's end of the judge (`judge_child`): asked with a limit, and given up for good if it fails."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.errors import ChildDied, ChildGarbled
from evo.spec.array_message import packed, unpacked
from evo.spec.child_entries import JUDGE
from evo.spec.child_process import ChildProcess
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.expectation import JudgedOutput
from evo.spec.input_distributions import largest
from evo.spec.reference_process import imports_first
from evo.spec.shared_arrays import shared_copy
from evo.spec.task import Task
from evo.spec.tensor_arrays import Arrays

_START_LIMIT_S = 120.0
_LIMIT_S = 300.0  # it waits for whoever takes times on the GPU


class RemoteJudge:
    """A judge for one task's reference. Every failure makes it answer None, and then NumPy does the work."""

    def __init__(
        self, task: Task, which: str, *, entry: str = JUDGE, told: Callable[[str], object] = lambda _: None
    ) -> None:
        """told: hears once why the judge is of no use, or not for one of its functions."""
        self.task = task
        self._which, self._entry = which, entry
        self.unfit: dict[str, str] = {}  # functions of the reference that it does not run as NumPy does, and why
        self._told = told
        self._lock = threading.Lock()
        path = task.folder / "reference.py"
        modules = imports_first(path)
        self._child: ChildProcess | None = ChildProcess(entry, which, str(path), plain=True, modules=modules)
        # What comparing this task's outputs takes is compiled at once: on a GPU a second, that nobody waits for yet.
        compared = sorted({NUMPY[t.dtype].name for t in task.outputs}) if _are_floats(task) else []
        self._child.send({"path": list(sys.path), "compared": compared}, _START_LIMIT_S)
        self._begun = self._closed = False

    def another(self) -> RemoteJudge:
        """A second process for the same reference."""
        return RemoteJudge(self.task, self._which, entry=self._entry)

    def close(self) -> None:
        """End its process; a call in flight gets no answer."""
        self._closed = True
        if (child := self._child) is not None:
            child.stop()
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None

    def inputs(self, axes: Mapping[str, int], seed: Sequence[int], least: int | None = None) -> Arrays | None:
        """least: from how many numbers at once they are drawn on the device."""
        dtypes = {t.name: NUMPY[t.dtype].name for t in self.task.inputs if NUMPY[t.dtype].kind != "V"}
        asked: dict[str, Any] = {"axes": dict(axes), "seed": " ".join(map(str, seed)), "dtypes": dtypes}
        found: Arrays | None = self._asked("inputs", "inputs", asked | ({} if least is None else {"least": least}))
        return found

    def outputs(self, function: str, arguments: Sequence[object]) -> Arrays | None:
        names = [tensor.name for tensor in self.task.outputs]
        asked = {"function": function, "arguments": list(arguments), "names": names}
        found: Arrays | None = self._asked(function, "outputs", asked)
        return found

    def judge(
        self, key: str, arguments: Sequence[object], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, JudgedOutput] | None:
        tensors: dict[str, Any] = {}
        for tensor in self.task.outputs:
            if not is_float(tensor.dtype):
                return None
            most = largest(tensor.dtype) * (1 - 2 * ROUNDOFF[tensor.dtype])
            elements = math.prod(shapes[tensor.name])
            tensors[tensor.name] = {"dtype": NUMPY[tensor.dtype].name, "most": most, "elements": elements}
        if "expected" in self.unfit or "trusted" in self.unfit:
            return None
        tolerance = self.task.tolerance
        asked = {"key": key, "arguments": list(arguments), "tensors": tensors}
        found = self._asked("judge", "judge", asked | {"rtol": tolerance.rtol, "atol": tolerance.atol})
        if found is None:
            return None
        return {name: JudgedOutput(sums["truth"], sums["errors"]) for name, sums in found.items()}

    def compare(self, key: str, outputs: Arrays) -> dict[str, NDArray[np.float64]] | None:
        shared = {name: shared_copy(np.ascontiguousarray(array)) for name, array in outputs.items()}
        found: dict[str, NDArray[np.float64]] | None = self._asked("judge", "compare", {"key": key, "outputs": shared})
        return found

    def put_whole_numbers(self, on_device: bool) -> None:
        """Whether short rows of integers lie on the device too."""
        self._asked("put_whole_numbers", "put_whole_numbers", {"on_device": on_device})

    def give_up(self, function: str, why: str) -> None:
        """Ask for this function no more."""
        if function not in self.unfit:
            self.unfit[function] = why
            if not self._closed:  # a call in flight then says nothing of the judge
                self._told(f"{function}() of {self.task.name} stays on the CPU: {why}")

    def _asked(self, function: str, method: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            if function in self.unfit or not self._opened():
                return None
            answer = self._answer({"ask": method, **arguments})
            if "error" not in answer:
                return answer.get("result")
        if not answer.get("memory"):  # what does not fit once may fit for a smaller case
            self.give_up(function, str(answer["error"]))
        return None

    def _opened(self) -> bool:
        if self._child is not None and not self._begun:
            self._begun = True
            if "functions" not in (answer := self._received(time.monotonic() + _START_LIMIT_S)):
                self._end()
                self.give_up("judge", str(answer.get("error", "it did not start")))
        return self._child is not None

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._child is not None
        try:
            self._child.send(packed(request), _LIMIT_S)
        except (ChildDied, TimeoutError) as error:
            return self._lost(error)
        return self._received(time.monotonic() + _LIMIT_S)

    def _received(self, deadline: float) -> dict[str, Any]:
        assert self._child is not None
        try:
            answer: dict[str, Any] = unpacked(self._child.receive(deadline), shared=True, is_read=False)
        except (ChildDied, ChildGarbled, TimeoutError, ValueError, KeyError, TypeError) as error:
            return self._lost(error)
        return answer

    def _lost(self, error: Exception) -> dict[str, Any]:
        self._end()
        return {"error": f"{type(error).__name__}: {error}"}


def _are_floats(task: Task) -> bool:
    return all(is_float(tensor.dtype) for tensor in task.outputs)
