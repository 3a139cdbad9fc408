"""Compiles on disk by content hash. Safe under parallel writers; a damaged entry is a miss, a failing disk no failure.

One file per key: SHA-256 of the payload, then the length of a JSON header, the header, and the cubin. A text that the
compiler refuses leaves its log in a file of its own kind. A hit touches its file, and when the folder holds more than
its limit the files that were not used for longest go.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import struct
import tempfile
import time
from pathlib import Path

from evo.cuda.compile.binary import Binary, KernelReport

_SUFFIX, _REFUSED_SUFFIX, _WRITING = ".evobin", ".evofail", ".writing-"
LIMIT_BYTES = 2 * 2**30  # some 10,000 compiles; EVO_CACHE_LIMIT_MB says otherwise
_KEPT_SHARE = 0.8  # of the limit, so that not every store has to look
_LOOK_EVERY = 64  # stores between two looks at the folder's size, the first store of a process included
_ABANDONED_S = 3600.0

_stores = itertools.count()


@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """A folder of compiles, of limit_bytes at most; `Cache(None)` keeps nothing."""

    folder: Path | None
    limit_bytes: int = LIMIT_BYTES

    def load(self, key: str) -> Binary | None:
        """The verified entry, with this call's time and `cached=True`; None when absent or damaged."""
        if self.folder is None:
            return None
        started_s = time.perf_counter()
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            binary = _decode(path.read_bytes())
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            return None
        if binary.key != key:
            return None
        _touch(path)
        return dataclasses.replace(binary, cached=True, elapsed_s=time.perf_counter() - started_s)

    def load_refusal(self, key: str) -> tuple[int, str] | None:
        """The compiler's result code and log for a text that it refused before; None when absent or damaged."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}{_REFUSED_SUFFIX}"
        try:
            data = path.read_bytes()
            if hashlib.sha256(data[32:]).digest() != data[:32]:
                return None
            result, log = json.loads(data[32:])
        except (OSError, ValueError, TypeError):
            return None
        _touch(path)
        return int(result), str(log)

    def store(self, binary: Binary) -> None:
        """Write one entry, whole or not at all. A full or read-only disk costs the next hit, never this compile."""
        self._write(f"{binary.key}{_SUFFIX}", _encode(binary))

    def store_refusal(self, key: str, result: int, log: str) -> None:
        """Remember that the compiler refuses a text, where it would refuse it every time."""
        payload = json.dumps([result, log]).encode()
        self._write(f"{key}{_REFUSED_SUFFIX}", hashlib.sha256(payload).digest() + payload)

    def trim(self) -> int:
        """Delete what was not used for longest until the folder is well under its limit; the bytes that it holds then.

        Leftovers of killed writers go too.
        """
        if self.folder is None:
            return 0
        entries = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as folder:
            for entry in folder:
                with contextlib.suppress(OSError):  # another process may be trimming too
                    state = entry.stat()
                    if entry.name.startswith(_WRITING):
                        if time.time() - state.st_mtime > _ABANDONED_S:
                            os.unlink(entry.path)
                    elif entry.name.endswith((_SUFFIX, _REFUSED_SUFFIX)):
                        entries.append((state.st_mtime, state.st_size, entry.path))
        held = sum(size for _, size, _ in entries)
        if held <= self.limit_bytes:
            return held
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                os.unlink(path)
            held -= size
            if held <= _KEPT_SHARE * self.limit_bytes:
                break
        return held

    def _write(self, name: str, data: bytes) -> None:
        if self.folder is None:
            return
        temporary: str | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=_WRITING)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, self.folder / name)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        if next(_stores) % _LOOK_EVERY == 0:
            self.trim()


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):  # someone else's cache, or a read-only one
        os.utime(path)


def default_cache() -> Cache:
    """`$EVO_CACHE/compile`, else `~/.cache/evo/compile`; no cache where there is no home.

    Holds 2 GiB at most, or `$EVO_CACHE_LIMIT_MB`.
    """
    limit = os.environ.get("EVO_CACHE_LIMIT_MB", "")
    limit_bytes = int(limit) * 2**20 if limit.isdigit() else LIMIT_BYTES
    if chosen := os.environ.get("EVO_CACHE"):
        return Cache(Path(chosen) / "compile", limit_bytes)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Cache(home / "evo" / "compile", limit_bytes)
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
