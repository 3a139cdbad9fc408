"""The process that `evo.spec.forked_child` asks for children: it imports what they work with, and forks.

Started as `python -m evo.spec.fork_server LISTENING_SOCKET PLACE ENTRIES MODULES`. A request is what a child is started
with, its end of the child's socket, and a file for what it prints on stderr; the answers are its number and, once it
has ended, its exit code.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from evo.spec import child_main, forked_child

_GIVEN = 1 << 20
_FILES = 2


def main(arguments: Sequence[str]) -> None:
    """Serve until whoever started this is gone."""
    number, place, entries, *modules = arguments
    child_main.show_as("fork_server")
    forked_child.join_server(place, os.environ, entries.split("\n"))  # so do the children
    for name in modules:
        with contextlib.suppress(ImportError):  # told where a child asks for it
            import_module(name)
    if "cuda.bindings.nvrtc" in sys.modules:
        sys.modules["cuda.bindings.nvrtc"].nvrtcVersion()  # loads the library
    gc.freeze()  # what is imported is no child's garbage
    try:
        _serve(socket.socket(fileno=int(number)))
    finally:
        shutil.rmtree(Path(place).parent, ignore_errors=True)


def _serve(listening: socket.socket) -> None:
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    while True:
        ready = select.select([0, listening.fileno(), woken], [], [])[0]
        if 0 in ready:
            return
        if woken in ready:
            os.read(woken, 4096)
            _say_ends(children)
        if listening.fileno() in ready:
            answers, _ = listening.accept()
            text, files = _received(answers)
            if len(files) == _FILES and not (pid := os.fork()):
                _become(json.loads(text), answers, files, [listening.fileno(), woken, wake])
            elif len(files) == _FILES:
                children[pid] = answers
            for file in files:
                os.close(file)


def _received(answers: socket.socket) -> tuple[bytes, list[int]]:
    text = b""
    files: list[int] = []
    while True:
        part, more, _, _ = socket.recv_fds(answers, _GIVEN, _FILES)
        if not part:
            return text, files
        text, files = text + part, files + more


def _say_ends(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as answers, contextlib.suppress(OSError):  # nobody may wait for it any more
            answers.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(given: dict[str, Any], answers: socket.socket, files: list[int], others: list[int]) -> None:
    """In the fork: be the child that was asked for, and leave."""
    parent, code = os.getppid(), 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        answers.send(b"%0*d" % (forked_child.DIGITS, os.getpid()))
        answers.close()
        _begin_anew(given, files, others)
        sys.argv[1:] = [str(files[0]), str(parent), *given["words"]]
        child_main.main(sys.argv[1:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        kind, error, trace = sys.exc_info()
        if kind is not None and error is not None:  # as Python ends
            sys.excepthook(kind, error, trace)
        sys.stderr.flush()
        os._exit(code)


def _begin_anew(given: dict[str, Any], files: list[int], others: list[int]) -> None:
    """Files, folder, environment and random numbers as a program of its own begins with."""
    errors = files[1]
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, file in enumerate((nothing, nothing, errors)):
        os.dup2(file, number)
    for file in (*others, nothing, errors):
        os.close(file)
    os.chdir(given["folder"])
    os.environ.clear()
    os.environ.update(given["environment"])
    add_paths(given["environment"])
    if "numpy" in sys.modules:  # Python's own `random` does so by itself
        sys.modules["numpy"].random.seed()


def add_paths(environment: Mapping[str, str]) -> None:
    """Let this process import from the folders that a fresh Python would have."""
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]


if __name__ == "__main__":
    main(sys.argv[1:])
