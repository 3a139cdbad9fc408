"""One evo at a time in a working tree: a lock that its holder's death releases."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from evo.disk import disk_fault
from evo.errors import LedgerUnclean


class Lock:
    """Holds a file's flock until `release`. Raises LedgerUnclean naming the process that has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise disk_fault(error, path) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign()
        except BlockingIOError:
            holder = self._holder()
            os.close(self._descriptor)
            hint = "wait for it or stop it; for several at once use a `git worktree` each"
            raise LedgerUnclean(f"another evo{holder} is at work in this repository", hint=hint) from None
        except OSError as error:
            os.close(self._descriptor)
            raise disk_fault(error, path) from error

    def _sign(self) -> None:
        # The kernel releases the lock of a dead process, so what is written here is for people only.
        about = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, about, 0)

    def _holder(self) -> str:
        try:
            about = json.loads(os.pread(self._descriptor, 4096, 0))
            return f" (pid {int(about['pid'])} on {about['host']})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def release(self) -> None:
        """Let the next evo in; the file stays, as removing it would race with one that waits."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
