"""The judge: a process that runs a task's reference on a GPU and compares large outputs there. No candidate runs in it.

It holds no memory of a candidate and exports none of its own: arrays come and go through memory of the host. Its
messages are plain, since a reference is somebody's own code. What it cannot do it says, and NumPy does it.
"""

from __future__ import annotations

import contextlib
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evo.device.error_sums import ErrorSums, TruthSums
from evo.device.judge_namespace import LEAST_DRAWN, ArrayLibrary, DeviceDraws, install, on_device
from evo.spec.array_message import packed, unpacked
from evo.spec.connection import Connection
from evo.spec.reference_child import load_file
from evo.spec.shared_arrays import shared_empty

Sums = NDArray[np.float64]

KEPT_BYTES = 4 << 30  # of float64 truths on the device; beyond, those go that were not asked for longest
# What a library says of a reference that it does not run; what else there is ends the process, and NumPy serves too.
_NOT_DONE = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, NameError, OSError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_BLOCK = 1 << 24  # elements of a comparison at a time
_WARM = 1 << 16  # ... of one that is made to have its kernels compiled, as large as theirs are made for


class JudgeLibrary(ArrayLibrary, Protocol):
    """Arrays on a device that others may be timing on, and their comparison there (`evo.device.error_sums`)."""

    def error_sums(self, got: Any, truth: Any, rtol: float, atol: float) -> ErrorSums: ...

    def truth_sums(self, truth: Any, most: float) -> TruthSums: ...

    def using(self) -> AbstractContextManager[None]:
        """While the device is worked on."""
        ...


def serve(connection: Connection, which: str, path: str) -> None:
    """Answer for the reference at `path` on GPU `which`."""
    from evo.device.judge_gpu import GpuArrays  # imports CuPy

    serve_with(connection, path, lambda: GpuArrays(int(which)))


def serve_with(connection: Connection, path: str, opened: Callable[[], JudgeLibrary]) -> None:
    """Answer calls until the driver is gone."""
    first: Any = connection.receive()
    sys.path[:] = first["path"]
    judge: JudgeServer | None = None
    kept: object = None  # what the driver maps from the latest answer, until it asks again
    try:
        judge = JudgeServer(opened(), Path(path))
        answer: dict[str, object] = {"functions": judge.functions}
    except _NOT_DONE as error:
        answer = {"error": _words(error)}
    connection.send(packed(answer))
    if judge is not None:
        with judge.library.using():
            judge.warm_up(first["compared"])
    while judge is not None:
        request = unpacked(connection.receive(), shared=True)
        kept = None
        try:
            with judge.library.using(), contextlib.redirect_stdout(sys.stderr):
                kept = getattr(judge, request.pop("ask"))(**request)
            answer = {"result": kept}
        except _NOT_DONE as error:
            answer = {"error": _words(error), "memory": "memory" in type(error).__name__.lower()}
        connection.send(packed(answer))
        del request, answer


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class JudgeServer:
    """The requests to a judge. Each method takes and returns values that a message can hold."""

    def __init__(self, library: JudgeLibrary, path: Path) -> None:
        self.library = library
        self._module = load_file(path)
        self._state = install(self._module, library)
        self.functions = [name for name in ("inputs", "expected", "trusted") if hasattr(self._module, name)]
        self._truths: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._whole_numbers = False

    def put_whole_numbers(self, on_device: bool) -> None:
        """Whether short rows of integers lie on the device too."""
        self._whole_numbers = on_device

    def inputs(
        self, axes: dict[str, Any], seed: str, dtypes: dict[str, str], least: int = LEAST_DRAWN
    ) -> dict[str, Any]:
        """What the reference draws, as the kernel sees it. seed: numbers, as text.

        least: so many numbers at once are drawn on the device.
        """
        self._state.makes = False
        draws = DeviceDraws(self.library, [int(word) for word in seed.split()], least)
        drawn = self._module.inputs(axes, draws)
        cast = {name: array.astype(np.dtype(dtypes[name])) for name, array in drawn.items() if name in dtypes}
        return self._down({**drawn, **cast})

    def outputs(self, function: str, arguments: list[Any], names: list[str]) -> dict[str, Any]:
        """What `expected` or `trusted` returns."""
        return self._down(self._called(function, arguments, names))

    def warm_up(self, dtypes: list[str]) -> None:
        """Compile what comparing outputs of these types takes."""
        with contextlib.suppress(*_NOT_DONE):  # what cannot be done is said when it is asked for
            truth = self.library.upload(np.ones(_WARM, np.float64))
            for name in dtypes:
                self.library.truth_sums(truth, 1.0)
                self._errors(truth, self.library.upload(np.ones(_WARM, np.dtype(name))), 0.0, 0.0)

    def judge(
        self, key: str, arguments: list[Any], tensors: dict[str, Any], rtol: float, atol: float
    ) -> dict[str, Any]:
        """Work out a truth and keep it. tensors: of each output, its elements, its dtype in NumPy and what that holds.

        Gives, by output: the sums of the truth, and of the errors of the trusted implementation.
        """
        self._truths.pop(key, None)
        names = list(tensors)
        truths = {n: self._flat(a).astype(np.float64) for n, a in self._called("expected", arguments, names).items()}
        trusted: dict[str, Any] = {}
        if hasattr(self._module, "trusted"):
            trusted = {name: self._flat(a) for name, a in self._called("trusted", arguments, names).items()}
        found: dict[str, Any] = {}
        for name, about in tensors.items():
            truth = truths[name]
            if any(array.size != about["elements"] for array in (truth, trusted.get(name, truth))):
                raise ValueError(f"{name} has not the elements that its shape says")
            sums = self._over(truth.size, lambda part: self.library.truth_sums(truth[part], about["most"]))  # noqa: B023
            other = trusted[name] if name in trusted else truth.astype(np.dtype(about["dtype"]))
            found[name] = {"truth": sums, "errors": self._errors(truth, other, rtol, atol)}
        self._truths[key] = {"truths": truths, "rtol": rtol, "atol": atol}
        self._make_room()
        return found

    def compare(self, key: str, outputs: dict[str, Any]) -> dict[str, Any] | None:
        """By output, the sums of its errors against a truth that is kept; None if it is not kept any more."""
        if (known := self._truths.get(key)) is None:
            return None
        self._truths.move_to_end(key)
        found: dict[str, Any] = {}
        for name, array in outputs.items():
            flat = np.ascontiguousarray(array).reshape(-1)
            truth, rtol, atol = known["truths"][name], known["rtol"], known["atol"]
            if truth.size != flat.size:
                return None

            def work(part: slice, flat: Any = flat, truth: Any = truth, rtol: float = rtol, atol: float = atol) -> Any:
                return self.library.error_sums(self.library.upload(flat[part]), truth[part], rtol, atol)

            found[name] = self._over(flat.size, work)
        return found

    def _called(self, function: str, arguments: list[Any], names: list[str]) -> dict[str, Any]:
        self._state.makes = True
        given = [on_device(self.library, value, whole_numbers=self._whole_numbers) for value in arguments]
        returned = getattr(self._module, function)(*given)
        if not isinstance(returned, dict):
            returned = {names[0]: returned}
        return {name: returned[name] for name in names}

    def _errors(self, truth: Any, other: Any, rtol: float, atol: float) -> Sums:
        return self._over(truth.size, lambda part: self.library.error_sums(other[part], truth[part], rtol, atol))

    def _over(self, size: int, work: Callable[[slice], Any]) -> Sums:
        """A row of sums for each block."""
        return np.array([work(slice(at, min(at + _BLOCK, size))) for at in range(0, size, _BLOCK)], np.float64)

    def _flat(self, array: Any) -> Any:
        on_device = array if self.library.is_array(array) else self.library.upload(np.asarray(array))
        return on_device.reshape(-1)

    def _make_room(self) -> None:
        def held() -> int:
            return sum(int(a.nbytes) for known in self._truths.values() for a in known["truths"].values())

        while held() > KEPT_BYTES and len(self._truths) > 1:
            self._truths.popitem(last=False)

    def _down(self, arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: self._to_host(array) for name, array in arrays.items()}

    def _to_host(self, array: Any) -> np.ndarray[Any, Any]:
        return self.library.download(array) if self.library.is_array(array) else _shared(np.asarray(array))


def _shared(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = shared_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
