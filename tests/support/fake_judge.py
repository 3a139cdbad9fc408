"""A judge without a GPU: arrays in memory of the host that refuse to be mixed with NumPy's, as a GPU's do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from evo.device.error_sums import ErrorSums, TruthSums, error_sums, truth_sums
from evo.device.judge_child import serve_with
from evo.spec.connection import Connection
from evo.spec.shared_arrays import shared_empty

ENTRY = f"{__file__}:serve"


class Held(np.ndarray[Any, Any]):
    """An array of the fake device."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        outs = named.get("out") or ()
        for value in (*inputs, *outs):
            if isinstance(value, np.ndarray) and not isinstance(value, Held) and value.ndim:
                raise TypeError(f"unsupported type numpy.ndarray in {ufunc.__name__}")
        plain = [_plain(value) for value in inputs]
        if outs:
            named["out"] = tuple(_plain(value) for value in outs)
        found = getattr(ufunc, method)(*plain, **named)
        return outs[0] if outs else _held(found)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return _called(function, *args, **named)

    def __index__(self) -> int:
        raise TypeError("an array of the device is no index")


def _plain(value: Any) -> Any:
    if isinstance(value, Held):
        return value.view(np.ndarray)
    return type(value)(_plain(item) for item in value) if isinstance(value, list | tuple) else value


def _held(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).view(Held)
    return type(value)(_held(item) for item in value) if isinstance(value, list | tuple) else value


def _called(function: Any, *args: Any, **named: Any) -> Any:
    return _held(function(*(_plain(arg) for arg in args), **{name: _plain(arg) for name, arg in named.items()}))


class _Functions:
    def __getattr__(self, name: str) -> Any:
        ours = getattr(np, name)
        if name == "random":
            return SimpleNamespace(default_rng=_Random)
        if not callable(ours) or isinstance(ours, type):
            return ours
        return lambda *args, **named: _called(ours, *args, **named)


class _Random:
    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([7, seed])

    def __getattr__(self, name: str) -> Any:
        ours = getattr(self._rng, name)
        return lambda *args, **named: _held(ours(*args, **named))


class FakeArrays:
    np = _Functions()

    def is_array(self, value: object) -> bool:
        return isinstance(value, Held)

    def upload(self, array: Any) -> Any:
        return np.array(array).view(Held)

    def download(self, array: Any) -> Any:
        found = shared_empty(array.shape, array.dtype)
        found[...] = array.view(np.ndarray)
        return found

    def error_sums(self, got: Any, truth: Any, rtol: float, atol: float) -> ErrorSums:
        return error_sums(_plain(got), _plain(truth), rtol, atol)

    def truth_sums(self, truth: Any, most: float) -> TruthSums:
        return truth_sums(_plain(truth), most)

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        yield


def serve(connection: Connection, which: str, path: str) -> None:
    serve_with(connection, path, FakeArrays)
