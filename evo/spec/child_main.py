"""The child's side of `evo.spec.child_process`.

Started as `python -m evo.spec.child_main SOCKET DRIVER ENCODING ENTRY ARGUMENTS`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from evo.spec.connection import Connection, ConnectionClosed

_WATCH_MS = 1000
_HANG_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)


def main(arguments: list[str]) -> None:
    """Call the entry point with the connection; the process is over when it returns or the driver is gone."""
    descriptor, driver, encoding, entry, *rest = arguments
    connection = Connection(socket.socket(fileno=int(descriptor)), plain=encoding == "plain")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(int(driver), connection)
    _without_core_dumps()
    _first_to_go()
    show_as(entry.rpartition(":")[0].removesuffix(".py").replace("/", ".").rpartition(".")[2])
    with contextlib.suppress(ConnectionClosed):
        find_entry(entry)(connection, *rest)
    os._exit(0)  # no time for atexit handlers of a broken CUDA context


def find_entry(entry: str) -> Callable[..., Any]:
    """The function that `module:function` or `FILE.py:function` names; a file is run without its package."""
    place, _, name = entry.rpartition(":")
    function: Callable[..., Any] = getattr(_of_file(place) if place.endswith(".py") else import_module(place), name)
    return function


def _of_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("evo_child", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def end_with(driver: int, connection: Connection) -> None:
    """Let this process and what it started end when the driver is gone, or has closed the socket."""
    poll = select.poll()
    poll.register(connection.fileno(), _HANG_UP)

    def watch() -> None:
        while os.getppid() == driver and not poll.poll(_WATCH_MS):
            pass
        with contextlib.suppress(OSError):
            if os.getpgrp() == os.getpid():
                os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def die_with_driver() -> None:
    """For code that may keep the watching thread from running: let the system end this process with its driver."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _first_to_go() -> None:
    """If memory runs out, let the system end this process, or what it starts, rather than its driver or a neighbour."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("800")


def show_as(name: str) -> None:
    """What `ps` and `top` show this process as; 15 characters fit."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii", errors="replace") as file:
        file.write(name)


def _without_core_dumps() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1:])
