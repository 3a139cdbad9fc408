"""Children that are forked off a process which has imported what they work with, asked for over its socket.

Half a second of processor time goes into the imports of a child that begins as a program, and a run has dozens. A fork
takes milliseconds, and what is imported lies in memory once. The process that forks is `evo.spec.fork_server`, after
the one of Python's `multiprocessing`; it ends with the process that has begun it. It is a program of its own, or a copy
of a process that has imported most of it for itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

_SERVER_MAIN = "evo.spec.fork_server"
DIGITS = 10  # of a process's number, which is sent once it leads a group of its own
BACKLOG = 64  # children that are asked for while the server still imports
_CODE_BYTES = 64
_POLL_S = 0.1
_START_S, _SLOW_START_S = 60.0, 180.0  # the latter with what takes seconds to import, from a cold disk
_BEGUN_WITH = slice(45, 49)  # fields of /proc/PID/stat behind the name: where arguments and environment begin and end
_SHOWN = b"evo child"  # beside its own name


class _Copy(NamedTuple):
    """A server that is a copy of this process. pipe: its end tells the server that this process is gone."""

    pid: int
    pipe: int


@dataclass(slots=True)
class _Server:
    """The server that this process asks. place: of its socket.

    entries: `module:function` or `FILE.py:function` of what it forks. environment: that it began with. kept: if this
    process began it.
    """

    place: str | None = None
    entries: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[subprocess.Popen[bytes] | _Copy, tempfile.TemporaryDirectory[str]] | None = None


_SERVED = _Server()


class ForkedChild:
    """A child that the server forks, asked as a `subprocess.Popen` is."""

    def __init__(self, answers: socket.socket, limit_s: float) -> None:
        """limit_s: seconds until it is forked."""
        self._answers, self._limit_s = answers, limit_s
        self._answers.settimeout(_START_S)
        self._one = threading.Lock()
        self._pid: int | None = None
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Waits until the child is there. Raises ProcessLookupError if the server has ended before it forked it."""
        end = time.monotonic() + self._limit_s
        while self._pid is None and self.poll() is None:
            if not select.select([self._answers], [], [], _POLL_S)[0] and time.monotonic() > end:
                self.is_given_up()
        if not self._pid:
            raise ProcessLookupError("the child was never forked")
        return self._pid

    def _told(self) -> None:
        """Its number, or that there will be none."""
        said = b""
        with contextlib.suppress(OSError):
            said = self._answers.recv(DIGITS, socket.MSG_WAITALL)
        self._pid = int(said or 0)
        if not self._pid:
            self._code = -signal.SIGKILL

    def poll(self) -> int | None:
        with self._one:
            while self._code is None and select.select([self._answers], [], [], 0)[0]:
                if self._pid is None:
                    self._told()
                else:
                    self._code = int(self._answers.recv(_CODE_BYTES) or -signal.SIGKILL)
            return self._code

    def is_given_up(self) -> bool:
        """Give the child up if it is not forked yet (True then): it ends by itself, since nobody reads its socket."""
        self.poll()
        with self._one:
            if self._pid is None:
                self._code = -signal.SIGKILL
            return self._pid is None

    def wait(self, timeout: float | None = None) -> int:
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            select.select([self._answers], [], [], None if timeout is None else left)
        return code

    def __del__(self) -> None:
        self._answers.close()


def begin_server(
    environment: Mapping[str, str], modules: Sequence[str], entries: Sequence[str], *, copied: bool = False
) -> None:
    """Have this process's children at these entries forked from now on. modules: what the server imports.

    copied: the server is a copy of this process, unless that has threads or another setting of its libraries.
    Not where a process is no copy of another: on other systems than Linux, and where the lines that run are counted.
    """
    if _SERVED.place is not None or sys.platform != "linux" or any(name.startswith("COV") for name in environment):
        return
    folder = tempfile.TemporaryDirectory(prefix="evo-forks-", ignore_cleanup_errors=True)  # nobody else may ask
    place = str(Path(folder.name) / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(place)
        except OSError:  # a path may have 107 bytes
            return
        listening.listen(BACKLOG)
        words = [str(listening.fileno()), place, "\n".join(entries), *modules]
        is_alike = threading.active_count() == 1 and not _differ(environment, os.environ)
        begun = _copy if copied and is_alike else _program
        _SERVED.kept = begun(environment, words, listening.fileno()), folder
    join_server(place, environment, entries)


def _program(environment: Mapping[str, str], words: Sequence[str], listening: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _SERVER_MAIN, *words],
        stdin=subprocess.PIPE,  # whose end tells it that this process is gone
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(listening,),
        env=dict(environment),
        start_new_session=True,
    )


def _copy(environment: Mapping[str, str], words: Sequence[str], listening: int) -> _Copy:
    serve = import_module(_SERVER_MAIN).main
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed from the start
            stream.flush()
    ours, pipe = os.pipe()
    if pid := os.fork():
        os.close(ours)
        return _Copy(pid, pipe)
    try:
        _begin_as_program(environment, ours, listening)
        serve(words)
    finally:
        os._exit(0)


def _begin_as_program(environment: Mapping[str, str], stdin: int, listening: int) -> None:
    """In the copy: files, signals, paths and environment as a program's.

    The words and the environment that this process began with are wiped out: `ps` shows none of them.
    """
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, file in enumerate((stdin, nothing, nothing)):
        os.dup2(file, number)
    for number in map(int, os.listdir("/proc/self/fd")):  # the limit of open files may be a billion
        if number > 2 and number != listening:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(number)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if not sys.flags.safe_path:
        del sys.path[:1]  # the folder of the script, or the present one
    begun = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    os.environ.clear()
    os.environ.update(environment)
    places = [int(field) for field in begun[_BEGUN_WITH]]
    for start, end in (places[:2], places[2:]):
        ctypes.memset(start, 0, end - start)
    ctypes.memmove(places[0], _SHOWN, min(len(_SHOWN), places[1] - places[0] - 1))


def join_server(place: str, environment: Mapping[str, str], entries: Iterable[str]) -> None:
    """Ask the server at this socket, which began in this environment, for children at these entries."""
    _SERVED.place, _SERVED.environment, _SERVED.entries = place, dict(environment), frozenset(entries)


def server_place() -> str | None:
    """The socket of the server that this process asks."""
    return _SERVED.place


def fork_child(
    entry: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    files: Sequence[int],
    *,
    soon: bool = False,
    modules: Sequence[str] = (),
) -> ForkedChild | None:
    """A fork that serves the entry; None where only a program of its own does. files: its socket, and its stderr.

    soon: it does not wait for what the server has yet to import. modules: what it needs imported beyond that.
    """
    if _SERVED.place is None or entry not in _SERVED.entries or differs(environment):
        return None
    given = {"words": list(words), "environment": dict(environment), "folder": os.getcwd(), "soon": soon}
    given["modules"] = list(modules)
    answers = socket.socket(socket.AF_UNIX)
    try:
        answers.connect(_SERVED.place)
        socket.send_fds(answers, [json.dumps(given).encode()], list(files))
        answers.shutdown(socket.SHUT_WR)
    except OSError:  # it has ended
        answers.close()
        return None
    return ForkedChild(answers, _SLOW_START_S if modules else _START_S)


def differs(environment: Mapping[str, str]) -> bool:
    """Whether a fresh Python would begin otherwise than the one that is forked did."""
    return _differ(environment, _SERVED.environment) or any(
        Path(path, "sitecustomize.py").exists() for path in environment.get("PYTHONPATH", "").split(os.pathsep)
    )


def _differ(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether settings of the interpreter, or of how many threads a library has, are not the same."""
    names = {name for name in {*one, *other} if name.startswith("PYTHON") or name.endswith("_NUM_THREADS")}
    return any(one.get(name) != other.get(name) for name in names - {"PYTHONPATH"})
