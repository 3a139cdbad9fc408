"""L2 set aside for the inputs of a measurement: persisting accesses in a window of addresses.

The driver calls are made through its library, since CuPy has none for them. Kernels that are captured or launched on
the stream while a window stands carry it; afterwards nothing is left of it.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from cupy.cuda import runtime
from cupy.cuda.runtime import CUDARuntimeError

from evo.errors import HarnessFault, UsageError

PERSISTING_LIMIT = 6  # cudaLimitPersistingL2CacheSize
_MAX_SET_ASIDE = 108  # cudaDevAttrMaxPersistingL2CacheSize
_MAX_WINDOW = 109  # cudaDevAttrMaxAccessPolicyWindowSize
_WINDOW_ATTRIBUTE = 1  # CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW
_NORMAL, _STREAMING, _PERSISTING = 0, 1, 2


class Window(ctypes.Structure):
    """CUaccessPolicyWindow, padded to the 64 bytes of CUstreamAttrValue."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("pad", ctypes.c_char * 36),
    )


def window_of(base: int, size: int, set_aside: int, longest: int) -> Window:
    """A window from `base` on. Of one larger than what is set aside, as large a share is to persist."""
    size = min(size, longest)
    return Window(base=base, bytes=size, hit_ratio=min(1.0, set_aside / size), hit=_PERSISTING, miss=_STREAMING)


class PersistingL2:
    """The largest part of L2 that the GPU sets aside, while the context is entered.

    Raises UsageError if the GPU has no such thing, HarnessFault if the driver refuses.
    """

    def __init__(self, index: int, library: Any = None) -> None:
        self._library = library
        self.bytes = int(runtime.deviceGetAttribute(_MAX_SET_ASIDE, index))
        self.longest = int(runtime.deviceGetAttribute(_MAX_WINDOW, index))
        if not self.bytes or not self.longest:
            raise UsageError(
                "this GPU sets no L2 aside",
                problem="unsupported",
                hint="leave --l2-persist out; sm_80 and newer have it",
            )

    def __enter__(self) -> PersistingL2:
        if self._library is None:
            self._library = ctypes.CDLL("libcuda.so.1")
        try:
            runtime.deviceSetLimit(PERSISTING_LIMIT, self.bytes)
        except CUDARuntimeError as error:
            raise HarnessFault(f"no part of L2 can be set aside: {error}", hint="leave --l2-persist out") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._library.cuCtxResetPersistingL2Cache()
        runtime.deviceSetLimit(PERSISTING_LIMIT, 0)

    @contextlib.contextmanager
    def window(self, stream: int, base: int, size: int) -> Iterator[None]:
        """Accesses of what is captured or launched on the stream meanwhile persist in [base, base + size)."""
        self._set(stream, window_of(base, size, self.bytes, self.longest))
        try:
            yield
        finally:
            self._set(stream, Window(base=0, bytes=0, hit_ratio=0.0, hit=_NORMAL, miss=_NORMAL))

    def _set(self, stream: int, value: Window) -> None:
        code = self._library.cuStreamSetAttribute(
            ctypes.c_void_p(stream), ctypes.c_int(_WINDOW_ATTRIBUTE), ctypes.byref(value)
        )
        if code:
            raise HarnessFault(f"the driver refuses an L2 window (error {code})", hint="leave --l2-persist out")
