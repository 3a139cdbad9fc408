"""One process forks the children of all evo processes that a suite starts: `evo.spec.fork_server`."""

from __future__ import annotations

import os
import sys
import threading

from evo.evaluate import begun
from evo.spec import child_process, forked_child

_SOCKET = "EVO_TESTS_FORKS"  # a setting, so that the processes which tests start ask the same one
_ONE = threading.Lock()


def install() -> None:
    """From now on this process's children are forked there."""
    if sys.platform == "linux" and not any(name.startswith("COV") for name in os.environ):
        forked_child.join_server(socket_place(), child_process.child_environment(), begun.FORKED)


def socket_place() -> str:
    """Where it is asked. It ends with the process that asked for it first."""
    with _ONE:
        if _SOCKET not in os.environ:
            child_process.begin_forks(begun.IMPORTED, begun.FORKED)
            os.environ[_SOCKET] = forked_child.server_place() or ""
    return os.environ[_SOCKET]
