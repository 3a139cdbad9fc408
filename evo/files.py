"""Files that survive `kill -9` and a full disk: atomic replacement, flushed appends, mended tails. The user's cache.

Owns how evo writes what must not be lost. A failed write is a HarnessFault and leaves what was there before. What can
be made again lies in the user's cache (`cache_folder`): a failed write there costs the next hit, nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from pathlib import Path

from evo.errors import HarnessFault

TEMPORARY_SUFFIX = ".evo-tmp"  # what is left of a write that was killed; removed at the next start
WRITING = ".writing-"  # the same in the user's cache; removed when that is trimmed

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_BARRED = {errno.EACCES, errno.EPERM, errno.EROFS}


def is_full(error: OSError) -> bool:
    """True if the error is a lack of room: the disk, a quota or a limit on the size of a file."""
    return error.errno in _FULL


def is_barred(error: OSError) -> bool:
    """True if the error is a lack of permission, or a file system that is read only."""
    return error.errno in _BARRED


def disk_fault(error: OSError, path: Path) -> HarnessFault:
    """The harness failure for a file that cannot be written."""
    if is_full(error):
        hint = "free some space (`df -h`, `df -i`) and start again; what was written before is whole"
    else:
        hint = "check the owner and permissions of the folder"
    return HarnessFault(
        f"{path}: cannot be written: {error.strerror or error}",
        problem=errno.errorcode.get(error.errno or 0, ""),
        hint=hint,
    )


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file by one rename: a reader sees the old bytes or the new ones. Raises HarnessFault.

    durable: flushed to disk, for one writer at a time. Otherwise several may write at once, and one of them wins.
    """
    spare = f".{path.name}{TEMPORARY_SUFFIX}" if durable else f"{WRITING}{secrets.token_hex(8)}"
    temporary = path.with_name(spare)
    for further_attempts in (2, 1, 0):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_new(temporary, data, flush=durable)
            os.replace(temporary, path)
            if durable:
                _flush_folder(path.parent)
            return
        except OSError as error:
            if isinstance(error, FileNotFoundError) and further_attempts:
                continue  # another program took the temporary file or its folder: `git stash -u`, `git clean`
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise disk_fault(error, path) from error


def copy_folder(source: Path, target: Path) -> None:
    """Put a copy of a folder where another may be: whole, or what was there before. Raises HarnessFault."""
    temporary = target.with_name(f".{target.name}{TEMPORARY_SUFFIX}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for path in sorted(source.rglob("*")):
            copied = temporary / path.relative_to(source)
            copied.mkdir() if path.is_dir() else copied.write_bytes(path.read_bytes())
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise disk_fault(error, target) from error


def append(path: Path, data: bytes) -> None:
    """Add bytes at the end of a file and flush them; on failure the file is cut back to what it was, or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            _append_or_cut_back(descriptor, data, size)
        except OSError:
            if new:
                path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        if new:
            _flush_folder(path.parent)
    except OSError as error:
        raise disk_fault(error, path) from error


def remove(path: Path) -> None:
    """Delete a file if it is there, and flush its folder."""
    try:
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            _flush_folder(path.parent)
    except OSError as error:
        raise disk_fault(error, path) from error


def mend_tail(path: Path) -> bytes | None:
    """Mend a JSON Lines file whose last append was cut short. None if nothing was torn.

    A last line that lacks nothing but its newline is given it (and b"" is returned); otherwise the torn bytes are cut
    off and returned.
    """
    data = path.read_bytes()
    whole, torn = split_tail(data)
    if not torn:
        return None
    if is_object(torn):
        append(path, b"\n")
        return b""
    write_atomic(path, whole)
    return torn


def split_tail(data: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and what is torn after them: an unfinished line, or a last line that is not a JSON object."""
    end = data.rfind(b"\n") + 1
    if end < len(data):
        return data[:end], data[end:]
    start = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    if data and not is_object(data[start:end]):
        return data[:start], data[start:end]
    return data, b""


def is_object(line: bytes) -> bool:
    """Whether a line is one complete JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _write_new(path: Path, data: bytes, *, flush: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        _write_all(descriptor, data)
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append_or_cut_back(descriptor: int, data: bytes, size: int) -> None:
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)  # needs no space, so it works on a full disk
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The user's cache ---------------------------------------------------------------------------------------------

_CHECKSUM = 32  # bytes
_KEPT_SHARE = 0.8  # of the limit, so that not every write has to look
_ABANDONED_S = 3600.0


def cache_folder(name: str) -> Path | None:
    """`$EVO_CACHE/NAME`, else `$XDG_CACHE_HOME/evo/NAME`, else `~/.cache/evo/NAME`; an empty variable is as none.

    None if there is no home: then nothing is kept.
    """
    if chosen := os.environ.get("EVO_CACHE"):
        return Path(chosen) / name
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evo" / name
    except RuntimeError:
        return None


def cache_limit(default: int) -> int:
    """Bytes that a trimmed cache holds at most: `$EVO_CACHE_LIMIT_MB`, else its default."""
    limit = os.environ.get("EVO_CACHE_LIMIT_MB", "")
    return int(limit) * 2**20 if limit.isdecimal() else default


@dataclasses.dataclass(frozen=True, slots=True)
class CacheFolder:
    """Files by name, each behind its SHA-256. Beyond limit_bytes, those go that were not used for longest.

    Safe under parallel readers and writers. A damaged file counts as missing. Without a folder nothing is kept.
    """

    folder: Path | None
    limit_bytes: int

    def read(self, name: str) -> bytes | None:
        """What was kept under a name, if it is whole; it counts as used now."""
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        data = raw[_CHECKSUM:]
        if len(raw) < _CHECKSUM or hashlib.sha256(data).digest() != raw[:_CHECKSUM]:
            return None
        with contextlib.suppress(OSError):  # someone else's cache, or a read-only one
            os.utime(path)
        return data

    def keep(self, name: str, data: bytes) -> None:
        """Write one file, whole or not at all; now and then the folder is trimmed."""
        if self.folder is None:
            return
        checksum = hashlib.sha256(data).digest()
        with contextlib.suppress(HarnessFault):
            write_atomic(self.folder / name, checksum + data, durable=False)
        if checksum[0] < 4:  # one file in 64
            self.trim()

    def trim(self) -> int:
        """Delete what was not used for longest until the folder is well under its limit; the bytes that it holds then.

        Leftovers of killed writers go too.
        """
        entries = []
        for folder, _, names in os.walk(self.folder) if self.folder is not None else ():
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):  # another process may be trimming too
                    state = os.stat(path)
                    if not name.startswith(WRITING):
                        entries.append((state.st_mtime, state.st_size, path))
                    elif time.time() - state.st_mtime > _ABANDONED_S:
                        os.unlink(path)
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
