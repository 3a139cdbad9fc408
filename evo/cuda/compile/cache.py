"""Compiles on disk by content hash. Safe under parallel writers; a damaged entry is a miss, a failing disk no failure.

One file per key: the length of a JSON header, the header, and the cubin. A text that the compiler refuses leaves its
log in a file of its own kind.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import time

from evo.cuda.compile.binary import Binary, KernelReport
from evo.files import CacheFolder, cache_folder, cache_limit

_SUFFIX, _REFUSED_SUFFIX = ".evobin", ".evofail"
LIMIT_BYTES = 2 * 2**30  # some 10,000 compiles


@dataclasses.dataclass(frozen=True, slots=True)
class Cache(CacheFolder):
    """A folder of compiles; `Cache(None)` keeps nothing."""

    limit_bytes: int = LIMIT_BYTES

    def load(self, key: str) -> Binary | None:
        """The verified entry, with this call's time and `cached=True`; None when absent or damaged."""
        started_s = time.perf_counter()
        try:
            binary = _decode(self.read(f"{key}{_SUFFIX}") or b"")
        except (ValueError, KeyError, TypeError, struct.error):
            return None
        if binary.key != key:
            return None
        return dataclasses.replace(binary, cached=True, elapsed_s=time.perf_counter() - started_s)

    def load_refusal(self, key: str) -> tuple[int, str] | None:
        """The compiler's result code and log for a text that it refused before; None when absent or damaged."""
        try:
            result, log = json.loads(self.read(f"{key}{_REFUSED_SUFFIX}") or b"null")
        except (ValueError, TypeError):
            return None
        return int(result), str(log)

    def store(self, binary: Binary) -> None:
        """Write one entry, whole or not at all. A full or read-only disk costs the next hit, never this compile."""
        self.keep(f"{binary.key}{_SUFFIX}", _encode(binary))

    def store_refusal(self, key: str, result: int, log: str) -> None:
        """Store that the compiler refuses a text, if it would refuse it every time."""
        self.keep(f"{key}{_REFUSED_SUFFIX}", json.dumps([result, log]).encode())


def default_cache() -> Cache:
    return Cache(cache_folder("compile"), cache_limit(LIMIT_BYTES))


def _encode(binary: Binary) -> bytes:
    header = {f.name: getattr(binary, f.name) for f in dataclasses.fields(binary) if f.name != "cubin"}
    header["kernels"] = [dataclasses.asdict(kernel) for kernel in binary.kernels]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + binary.cubin


def _decode(payload: bytes) -> Binary:
    (size,) = struct.unpack_from("<Q", payload)
    header = json.loads(payload[8 : 8 + size])
    header["kernels"] = tuple(KernelReport(**kernel) for kernel in header["kernels"])
    header["warnings"] = tuple(header["warnings"])
    return Binary(**header, cubin=payload[8 + size :])
