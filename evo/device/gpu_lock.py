"""One measurement at a time per GPU, across processes and users: a lock file named after the GPU's UUID.

Any number of processes may check variants at once; one alone may time. A lock ends with its process, however that ends.
Who waits to time holds a second file, the turn, which every newcomer has to pass: many that check, one after the other
without a pause, would otherwise keep it waiting for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from evo.errors import HarnessFault

LOCK_LIMIT_S = 3600.0
_POLL_S = 0.01


def lock_path(uuid: str) -> Path:
    """The same file for every user of the machine, whatever their TMPDIR."""
    shared = Path("/tmp")
    return (shared if shared.is_dir() else Path(tempfile.gettempdir())) / f"evo-{uuid}.lock"


@contextlib.contextmanager
def held(
    path: Path, *, exclusive: bool, name: str, notify: Callable[[str], object] = str, limit_s: float = LOCK_LIMIT_S
) -> Iterator[None]:
    """Hold the lock. notify hears `waiting` when another process has it, and `running` when it is ours.

    Raises HarnessFault when it is not free within limit_s.
    """
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    with _opened(path) as descriptor:
        with _opened(path.with_suffix(".turn")) as turn:
            _wait((turn, descriptor), mode, name, notify, limit_s)
        yield


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = _open(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)  # another user's file may be locked, not written
    except FileNotFoundError:
        pass
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    except OSError as error:
        hint = f"make {path.parent} writable: the lock keeps two measurements apart"
        raise HarnessFault(f"{path}: cannot be made: {error.strerror}", problem="not-writable", hint=hint) from None


def _wait(descriptors: tuple[int, ...], mode: int, name: str, notify: Callable[[str], object], limit_s: float) -> None:
    """Lock them in this order."""
    started, waiting, left = time.monotonic(), False, list(descriptors)
    while left:
        try:
            fcntl.flock(left[0], mode | fcntl.LOCK_NB)
            del left[0]
        except BlockingIOError:
            if not waiting:
                notify("waiting")
                waiting = True
            if time.monotonic() - started > limit_s:
                hint = "another evo is timing on this GPU; wait for it or use another GPU"
                raise HarnessFault(f"{name} was busy for {limit_s:g} s", problem="busy", hint=hint) from None
            time.sleep(_POLL_S)
    if waiting:
        notify("running")
