"""Dictionaries of arrays as plain messages: an array is its dtype, its shape and its bytes, or the place of its memory.

What comes out can be nothing but numbers, texts, lists, dictionaries and arrays, whoever wrote the message.
"""

from __future__ import annotations

from typing import Any  # any value that a message can hold

import numpy as np
from numpy.typing import NDArray

from evo.spec import dtypes
from evo.spec.shared_arrays import opened, place_of

_EXTRA = {np.dtype(kind).name: np.dtype(kind) for kind in dtypes.NUMPY.values()}  # also what numpy has no name for


def packed(value: object) -> object:
    """The message of a value. Raises whatever numpy raises for one that it cannot make an array of."""
    match value:
        case None | bool() | str():
            return value
        case int() | float():
            return value
        case dict():
            return {"d": [[key if isinstance(key, str) else repr(key), packed(v)] for key, v in value.items()]}
        case list() | tuple() if not _is_numbers(value):
            return {"l": [packed(item) for item in value]}
    array = np.asarray(value)
    kind = array.dtype.newbyteorder("=")
    if kind.kind not in "biufcV" or _EXTRA.get(kind.name, None if kind.kind == "V" else kind) != kind:
        return {"o": list(array.shape)}  # no numbers: its shape is all that can be said of it
    native: NDArray[Any] = np.ascontiguousarray(array.astype(kind, copy=False))
    said: dict[str, object] = {"a": native.dtype.name, "s": list(array.shape)}
    if (place := place_of(native)) is not None:  # the other end opens it before it answers or asks again
        return {**said, "p": place}
    return {**said, "b": native.reshape(-1).view(np.uint8).data}


def _is_numbers(value: list[Any] | tuple[Any, ...]) -> bool:
    try:
        return bool(value) and np.asarray(value).dtype.kind in "biuf"
    except (TypeError, ValueError, OverflowError):  # rows of different lengths
        return False


def unpacked(message: Any, *, shared: bool = False, is_read: bool = True) -> Any:
    """The value of a message. Its arrays are writable; with `shared`, those in shared memory are not copied.

    is_read: whether those are read here, or handed on.

    Raises ValueError, TypeError or KeyError for what `packed` does not make.
    """
    if not isinstance(message, dict):
        return message
    if "d" in message:
        return {str(key): unpacked(item, shared=shared, is_read=is_read) for key, item in message["d"]}
    if "l" in message:
        return [unpacked(item, shared=shared, is_read=is_read) for item in message["l"]]
    if "o" in message:
        return np.empty(message["o"], dtype=object)
    kind = _EXTRA.get(message["a"]) or np.dtype(message["a"])
    if "p" in message:
        array = opened(str(message["p"]), tuple(int(size) for size in message["s"]), kind, is_read=is_read)
        return array if shared else array.copy()
    return np.frombuffer(message["b"], kind).reshape(message["s"])
