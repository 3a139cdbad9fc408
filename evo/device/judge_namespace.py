"""A task's `reference.py` over arrays of a GPU: its `np` becomes a namespace that calls a library of the same form.

The reference is not rewritten. A function goes to the library if it is given one of the library's arrays, or if it
makes one from nothing; NumPy does the rest. What the library has not, or does otherwise, fails or differs, and is
noticed when the two are compared (`evo.evaluate.judge_fitness`); then NumPy serves alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

import numpy as np

_MAKERS = {"array", "arange", "asarray", "empty", "eye", "full", "identity", "linspace", "ones", "zeros"}
LEAST_DRAWN = 1 << 18  # numbers; fewer are drawn by NumPy, whose stream the seeds of the others come from


class ArrayLibrary(Protocol):
    """Arrays in memory of their own."""

    np: Any  # numpy's functions over them

    def is_array(self, value: object) -> bool: ...

    def upload(self, array: np.ndarray[Any, Any]) -> Any: ...

    def download(self, array: Any) -> np.ndarray[Any, Any]: ...


class Namespace:
    """A module of NumPy in the eyes of a reference. makes: whether arrays made from nothing are the library's."""

    def __init__(self, library: ArrayLibrary, ours: Any, theirs: Any, state: NamespaceState) -> None:
        self._library, self._ours, self._theirs, self._state = library, ours, theirs, state

    def __getattr__(self, name: str) -> Any:
        ours = getattr(self._ours, name)
        theirs = getattr(self._theirs, name, None)
        if theirs is None or isinstance(ours, type):
            return ours
        if isinstance(ours, ModuleType):
            return ours if name == "random" else Namespace(self._library, ours, theirs, self._state)
        return _Function(self._library, ours, theirs, self._state) if callable(ours) else ours


class NamespaceState:
    """Whether arrays that are made from nothing lie on the device: in `expected`, and not where inputs are drawn."""

    makes = False


class _Function:
    def __init__(self, library: ArrayLibrary, ours: Any, theirs: Any, state: NamespaceState) -> None:
        self._library, self._ours, self._theirs, self._state = library, ours, theirs, state
        functools.update_wrapper(self, ours, updated=())

    def __call__(self, *args: Any, **named: Any) -> Any:
        library = self._library
        given = _any(library, (args, named))
        if not given and not (self._state.makes and self._ours.__name__ in _MAKERS):
            return self._ours(*args, **named)
        if given:
            args, named = _uploaded(library, args), _uploaded(library, named)
        return self._theirs(*args, **named)

    def __getattr__(self, name: str) -> Any:  # `reduce`, `at`, `outer` of a ufunc
        ours, theirs = getattr(self._ours, name), getattr(self._theirs, name)
        return _Function(self._library, ours, theirs, self._state) if callable(ours) else ours


def _any(library: ArrayLibrary, value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_any(library, item) for item in value)
    if isinstance(value, dict):
        return any(_any(library, item) for item in value.values())
    return library.is_array(value)


def _uploaded(library: ArrayLibrary, value: Any) -> Any:
    """The value with NumPy's arrays uploaded, those without an axis excepted."""
    if isinstance(value, list | tuple):
        return type(value)(_uploaded(library, item) for item in value)
    if isinstance(value, dict):
        return {key: _uploaded(library, item) for key, item in value.items()}
    return library.upload(value) if isinstance(value, np.ndarray) and value.ndim else value


def install(module: ModuleType, library: ArrayLibrary) -> NamespaceState:
    """Give a reference that was imported the library in place of NumPy, and of what it imported from NumPy."""
    state = NamespaceState()
    for name, value in list(vars(module).items()):
        if value is np:
            setattr(module, name, Namespace(library, np, library.np, state))
        elif callable(value) and not isinstance(value, type) and getattr(np, name, None) is value:
            theirs = getattr(library.np, name, None)
            if theirs is not None:
                setattr(module, name, _Function(library, value, theirs, state))
    return state


class DeviceDraws:
    """A random generator for `inputs`: many numbers at once are the library's, of the same distributions.

    Everything else, and the seeds of the library's streams, NumPy's generator draws.
    """

    def __init__(self, library: ArrayLibrary, seed: list[int], least: int = LEAST_DRAWN) -> None:
        self._library, self._least = library, least
        self._host = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is not None or not self._many(size):
            return self._host.standard_normal(size, dtype, out)
        return self._theirs().standard_normal(size, dtype=dtype)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        if not (self._many(size) and np.ndim(loc) == np.ndim(scale) == 0):
            return self._host.normal(loc, scale, size)
        drawn = self._theirs().standard_normal(size, dtype=np.float64)
        drawn *= float(scale)
        drawn += float(loc)
        return drawn

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is not None or not self._many(size):
            return self._host.random(size, dtype, out)
        return self._theirs().random(size, dtype=dtype)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        if not (self._many(size) and np.ndim(low) == np.ndim(high) == 0):
            return self._host.uniform(low, high, size)
        drawn = self._theirs().random(size, dtype=np.float64)
        drawn *= float(high) - float(low)
        drawn += float(low)
        return drawn

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        if not (self._many(size) and np.ndim(low) == 0 and (high is None or np.ndim(high) == 0)):
            return self._host.integers(low, high, size, dtype, endpoint)
        first, last = (0, int(low)) if high is None else (int(low), int(high))
        drawn = self._theirs().integers(first, last, size=size, dtype=np.int64, endpoint=endpoint)
        return drawn.astype(dtype)

    def _many(self, size: Any) -> bool:
        return size is not None and int(np.prod(size, dtype=np.int64)) >= self._least

    def _theirs(self) -> Any:
        return self._library.np.random.default_rng(int(self._host.integers(2**63)))


def on_device(library: ArrayLibrary, value: Any, *, whole_numbers: bool) -> Any:
    """The arrays of a message uploaded; without whole_numbers, short rows of integers stay NumPy's.

    They hold offsets and lengths, which a reference walks through in Python.
    """
    if isinstance(value, Mapping):
        return {key: on_device(library, item, whole_numbers=whole_numbers) for key, item in value.items()}
    if isinstance(value, list):
        return [on_device(library, item, whole_numbers=whole_numbers) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    short = value.dtype.kind in "iub" and value.ndim == 1 and value.size <= LEAST_DRAWN
    return value if short and not whole_numbers else library.upload(value)
