"""Files that survive `kill -9` and a full disk: atomic replacement, flushed appends, mended tails.

Owns how evo writes what must not be lost. A failed write is a HarnessFault and leaves what was there before.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

from evo.errors import HarnessFault

TEMPORARY_SUFFIX = ".evo-tmp"  # what is left of a write that was killed; removed at the next start

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def disk_fault(error: OSError, path: Path) -> HarnessFault:
    """The harness failure for a file that cannot be written."""
    if error.errno in _FULL:
        hint = "free some space (`df -h`, `df -i`) and start again; what was written before is whole"
    else:
        hint = "check the owner and permissions of the folder"
    return HarnessFault(f"{path}: cannot be written: {error.strerror or error}", hint=hint)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file by one rename, flushed to disk: a reader sees the old bytes or the new ones."""
    temporary = path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(temporary, data)
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise disk_fault(error, path) from error


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
    """Mend a JSON Lines file whose last append was cut short. None where nothing was torn.

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


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        _write_all(descriptor, data)
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
