"""One evo at a time in a working tree: a lock that its holder's death releases."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from evo.errors import LedgerUnclean
from evo.files import disk_fault

_GRACE_S = 0.5
_DEAD_GRACE_S = 10.0
_POLL_S = 0.02


class Lock:
    """Holds a file's flock until `release`. Raises LedgerUnclean naming the process that has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise disk_fault(error, path) from error
        try:
            if not self._take():
                hint = "wait for it or stop it; for several at once use a `git worktree` each"
                raise LedgerUnclean(
                    f"another evo{self._named()} is at work in this repository", problem="locked", hint=hint
                )
            self._sign()
        except OSError as error:
            self.release()
            raise disk_fault(error, path) from error
        except LedgerUnclean:
            self.release()
            raise

    def _take(self) -> bool:
        # The last git command of a killed evo holds the lock until its end, so the first refusal is not the last.
        started = time.monotonic()
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() - started > (_GRACE_S if self._holder_lives() else _DEAD_GRACE_S):
                    return False
                time.sleep(_POLL_S)
            else:
                return True

    def _sign(self) -> None:
        # The kernel releases the lock of a dead process, so the content only informs people.
        about = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, about, 0)

    def _holder(self) -> tuple[int, str] | None:
        try:
            about = json.loads(os.pread(self.descriptor, 4096, 0))
            return int(about["pid"]), str(about["host"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _holder_lives(self) -> bool:
        holder = self._holder()
        return holder is None or process_lives(*holder)

    def _named(self) -> str:
        holder = self._holder()
        return f" (pid {holder[0]} on {holder[1]})" if holder is not None else ""

    def release(self) -> None:
        """Let the next evo in; the file stays, as removing it would race with one that waits."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def process_lives(pid: int, host: str) -> bool:
    """Whether a process is still there, as far as this machine can tell: nothing is known against one elsewhere."""
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to someone else
        pass
    return True
