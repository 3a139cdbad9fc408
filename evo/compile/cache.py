"""Binaries on disk by content hash. Safe under parallel writers; a damaged entry is a miss, a failing disk no failure.

One file per key: SHA-256 of the payload, then the length of a JSON header, the header, and the cubin.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import struct
import tempfile
import time
from pathlib import Path

from evo.compile.report import Binary, KernelReport

_SUFFIX = ".evobin"


@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """A folder of compiled binaries; `Cache(None)` keeps nothing."""

    folder: Path | None

    def load(self, key: str) -> Binary | None:
        """The verified entry, with this call's time and `cached=True`; None when absent or damaged."""
        if self.folder is None:
            return None
        started_s = time.perf_counter()
        try:
            data = (self.folder / f"{key}{_SUFFIX}").read_bytes()
            binary = _decode(data)
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            return None
        if binary.key != key:
            return None
        return dataclasses.replace(binary, cached=True, elapsed_s=time.perf_counter() - started_s)

    def store(self, binary: Binary) -> None:
        """Write one entry, whole or not at all. A full or read-only disk costs the next hit, never this compile."""
        if self.folder is None:
            return
        temporary: str | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=".writing-")
            with os.fdopen(descriptor, "wb") as file:
                file.write(_encode(binary))
            os.replace(temporary, self.folder / f"{binary.key}{_SUFFIX}")
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


def default_cache() -> Cache:
    """`$EVO_CACHE/compile`, else `~/.cache/evo/compile`; no cache where there is no home."""
    if chosen := os.environ.get("EVO_CACHE"):
        return Cache(Path(chosen) / "compile")
    try:
        return Cache(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evo" / "compile")
    except RuntimeError:
        return Cache(None)


def _encode(binary: Binary) -> bytes:
    header = {f.name: getattr(binary, f.name) for f in dataclasses.fields(binary) if f.name != "cubin"}
    header["kernels"] = [dataclasses.asdict(kernel) for kernel in binary.kernels]
    text = json.dumps(header).encode()
    payload = struct.pack("<Q", len(text)) + text + binary.cubin
    return hashlib.sha256(payload).digest() + payload


def _decode(data: bytes) -> Binary:
    digest, payload = data[:32], data[32:]
    if hashlib.sha256(payload).digest() != digest:
        raise ValueError("damaged")
    (size,) = struct.unpack_from("<Q", payload)
    header = json.loads(payload[8 : 8 + size])
    header["kernels"] = tuple(KernelReport(**kernel) for kernel in header["kernels"])
    header["warnings"] = tuple(header["warnings"])
    return Binary(**header, cubin=payload[8 + size :])
