"""The process that `evo.spec.forked_child` asks for children: it imports what they work with, and forks.

A child whose own imports take longer than what is left to import here is forked as soon as it is asked for.

Started as `python -m evo.spec.fork_server LISTENING_SOCKET PLACE ENTRIES MODULES`. A request is what a child is started
with, its end of the child's socket, and a file for what it prints on stderr; the answers are its number and, once it
has ended, its exit code. Children that need modules which the others do not are forked by a further server, which is a
fork of this one and imports them once: torch takes seconds, and hundreds of megabytes.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
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
from typing import Any, NamedTuple

from evo.spec import child_main, forked_child

_GIVEN = 1 << 20
_FILES = 2


def main(arguments: Sequence[str]) -> None:
    """Serve until whoever started this is gone."""
    number, place, entries, *modules = arguments
    child_main.show_as("fork_server")
    forked_child.join_server(place, os.environ, entries.split("\n"))  # so do the children
    try:
        _Server(socket.socket(fileno=int(number)), place).serve(modules)
    finally:
        shutil.rmtree(Path(place).parent, ignore_errors=True)


class _Request(NamedTuple):
    given: dict[str, Any]
    answers: socket.socket
    files: list[int]


class _Server:
    """Forks at once who is asked for `soon`, and the others once all is imported."""

    def __init__(self, listening: socket.socket, place: str) -> None:
        self._listening, self._place = listening, place
        self._further: dict[tuple[str, ...], tuple[int, str]] = {}  # by their modules: process and place
        self._numbers = itertools.count()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._children: dict[int, socket.socket] = {}
        self._waiting: list[_Request] | None = []  # None once nobody waits any more

    def serve(self, modules: Sequence[str]) -> None:
        """Import the modules, then fork until whoever started this is gone."""
        for name in modules:
            with contextlib.suppress(ImportError, OSError, RuntimeError, ValueError):  # told where a child asks for it
                import_module(name)
            if self.is_over(0.0):
                return
        if "cuda.bindings.nvrtc" in sys.modules:
            sys.modules["cuda.bindings.nvrtc"].nvrtcVersion()  # loads the library
        gc.freeze()  # what is imported is no child's garbage
        self.fork_waiting()
        self.is_over(None)

    def is_over(self, limit_s: float | None) -> bool:
        """Answer requests for `limit_s` seconds at most. Whether the process that started this one is gone."""
        while ready := select.select([0, self._listening.fileno(), self._woken], [], [], limit_s)[0]:
            if 0 in ready:
                self._end_all()
                return True
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._say_ends()
            if self._listening.fileno() in ready:
                answers, _ = self._listening.accept()
                text, files = _received(answers)
                if len(files) > _FILES:  # the server that this one is a fork of hands it on
                    answers.close()
                    answers = socket.socket(fileno=files.pop(0))
                self._asked(_Request(json.loads(text), answers, files))
        return False

    def fork_waiting(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        while waiting:
            request = waiting.pop(0)
            self._fork(request, waiting)

    def _asked(self, request: _Request) -> None:
        if len(request.files) != _FILES:
            for file in request.files:
                os.close(file)
        elif request.given["modules"]:
            self._hand_on(request)
        elif self._waiting is None or request.given["soon"]:
            self._fork(request, self._waiting or [])
        else:
            self._waiting.append(request)

    def _hand_on(self, request: _Request) -> None:
        """Have the server fork it that has the modules which it asks for."""
        try:
            place = self._server_with(tuple(request.given["modules"]), request)
        except OSError:  # a path may have 107 bytes; the child imports them itself
            self._asked(request._replace(given={**request.given, "modules": []}))
            return
        given = {**request.given, "modules": [], "soon": False}
        with socket.socket(socket.AF_UNIX) as asking, contextlib.suppress(OSError):  # it has ended: so has the child
            asking.connect(place)
            socket.send_fds(asking, [json.dumps(given).encode()], [request.answers.fileno(), *request.files])
        request.answers.close()
        for file in request.files:
            os.close(file)

    def _server_with(self, modules: tuple[str, ...], request: _Request) -> str:
        """The place of a server that has these too. request: whose files are not that server's."""
        for names, (_, place) in self._further.items():
            if set(modules) <= set(names):
                return place
        place = f"{self._place}{next(self._numbers)}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(place)
            listening.listen(forked_child.BACKLOG)
            if not (pid := os.fork()):
                self._serve_further(listening, place, [request, *(self._waiting or ())])
        self._further[modules] = pid, place
        return place

    def _serve_further(self, listening: socket.socket, place: str, others: Sequence[_Request]) -> None:
        """In the fork: be the server with the modules that the first of these asks for, and leave."""
        try:
            signal.set_wakeup_fd(-1)
            for one in (self._listening, *self._children.values(), *(other.answers for other in others)):
                one.close()
            for file in (self._woken, self._wake, *(file for other in others for file in other.files)):
                os.close(file)
            _Server(listening, place).serve(others[0].given["modules"])
        finally:
            os._exit(0)

    def _fork(self, request: _Request, waiting: Sequence[_Request]) -> None:
        """waiting: requests whose files are not this child's."""
        if pid := os.fork():
            self._children[pid] = request.answers
        else:
            others = [file for other in waiting for file in (other.answers.detach(), *other.files)]
            _become(request, [self._listening.fileno(), self._woken, self._wake, *others])
        for file in request.files:
            os.close(file)

    def _end_all(self) -> None:
        """The children would end by themselves, but for one that has been stopped."""
        for pid in self._children:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _say_ends(self) -> None:
        while self._children or self._further:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid not in self._children:
                self._further = {names: server for names, server in self._further.items() if server[0] != pid}
                continue
            with self._children.pop(pid) as answers, contextlib.suppress(OSError):  # nobody may wait for it any more
                answers.send(b"%d" % os.waitstatus_to_exitcode(status))


def _received(answers: socket.socket) -> tuple[bytes, list[int]]:
    text = b""
    files: list[int] = []
    while True:
        part, more, _, _ = socket.recv_fds(answers, _GIVEN, _FILES + 1)
        if not part:
            return text, files
        text, files = text + part, files + more


def _become(request: _Request, others: list[int]) -> None:
    """In the fork: be the child that was asked for, and leave."""
    given, answers, files = request
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
