"""A child process and the socket to it: what is asked of it, how long it may take, and how it ended.

Everything that may hang, crash or eat memory runs in such a child: devices, workers of a cluster, the compiler, files
of other projects. `ChildProcess` starts one at an entry point, `module:function` or `FILE.py:function`, which
`evo.spec.child_main` calls there with the child's end of the socket and the arguments. A child ends with its driver,
takes along what it has started, has no secrets in its environment, and hears neither Ctrl-C nor our terminal.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import evo
from evo.errors import ChildDied, ChildGarbled
from evo.spec.child_main import die_with_driver, end_with
from evo.spec.connection import Connection, ConnectionClosed, MessageGarbled
from evo.spec.forked_child import ForkedChild, begin_server, fork_child
from evo.spec.process_settings import limit_algebra

_MAIN = "evo.spec.child_main"
_SPAWNER = "evo-spawner"  # the thread that starts children
_REAP_S = 10.0  # a process stuck inside a driver cannot be reaped, and waiting for it would stop the run
_POLL_S = 0.02
_TAIL_BYTES = 4096
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|AUTH|^(AWS|AZURE|OPENAI|ANTHROPIC|GITHUB)_", re.I)
_SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]*@")


class _Process(Protocol):
    """What `subprocess.Popen` and a fork have in common."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class ChildProcess:
    """One child. One thread at a time asks; `stop` may come from any thread.

    plain: messages are JSON, so that reading what the child sends never runs code of its choice. What the child prints
    on stdout is dropped, and the last line that it prints on stderr says what it died of. modules: what takes seconds
    to import, and is imported once for all that ask for the same.
    """

    def __init__(self, entry: str, *arguments: str, plain: bool = False, modules: Sequence[str] = ()) -> None:
        begun = _BEGUN.pop((entry, arguments, plain), None)
        if begun is not None and begun.process.poll() is not None:  # killed from outside meanwhile
            begun.ours.close()
            begun = None
        begun = begun or _begun(entry, arguments, plain=plain, modules=modules)
        self.connection = Connection(begun.ours, plain=plain)
        self._errors: IO[bytes] = begun.errors
        self._process: _Process = begun.process

    @classmethod
    def fork(cls, serve: Callable[[Connection], object], *, plain: bool = False) -> ChildProcess:
        """A copy of this process that runs `serve` and ends. For a process with one thread, and much imported."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _run_forked(Connection(theirs, plain=plain), ours, parent, serve)
        theirs.close()
        child = cls.__new__(cls)
        child.connection = Connection(ours, plain=plain)
        child._errors = open(os.devnull, "rb")  # noqa: SIM115 - its stderr is this process's own
        child._process = _Fork(pid)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: object, limit_s: float) -> object:
        """Send a message and wait for the answer, `limit_s` seconds for both.

        Raises TimeoutError if the time is up, ChildDied or ChildGarbled. After any of them the child is of no more use.
        """
        deadline = time.monotonic() + limit_s
        self.send(message, limit_s)
        return self.receive(deadline)

    def send(self, message: object, limit_s: float) -> None:
        """Send a message; raises as `ask`."""
        try:
            self.connection.send(message, limit_s=max(limit_s, 1.0))
        except ConnectionClosed:
            raise self._death() from None

    def receive(self, deadline: float) -> object:
        """Wait for the next message until the monotonic time `deadline`; raises as `ask`."""
        try:
            return self.connection.receive(deadline)
        except ConnectionClosed:
            raise self._death() from None
        except MessageGarbled as error:
            if not self.is_running:  # and what it wanted to be mapped is gone with it
                raise self._death() from None
            raise ChildGarbled(f"process {self.pid} sent something that is not a message: {error}") from None

    def stop(self) -> None:
        """Kill the child and what it started. Another thread that waits for an answer gets ChildDied."""
        if isinstance(self._process, ForkedChild) and self._process.is_given_up():
            return
        if self._process.poll() is None:  # once reaped, its number may be another process's
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait until the killed child is gone, for a while."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_REAP_S)

    def close(self) -> None:
        """Kill the child, reap it and close the socket."""
        self.stop()
        self.reap()
        self.connection.close()
        self._errors.close()

    def _death(self) -> ChildDied:
        """How the child ended, whose socket is closed; it may take a moment more."""
        try:
            code = self._process.wait(timeout=_REAP_S)
        except subprocess.TimeoutExpired:
            self.stop()
            code = -signal.SIGKILL
        lines: list[str] = []
        with contextlib.suppress(ValueError):  # closed by another thread
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, self._errors.tell() - _TAIL_BYTES))
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return ChildDied(code, lines[-1] if lines else "")


class _Begun(NamedTuple):
    """A child that has been started: the driver's end of its socket, what it prints on stderr, and its process."""

    ours: socket.socket
    errors: IO[bytes]
    process: _Process


_BEGUN: dict[tuple[str, tuple[str, ...], bool], _Begun] = {}
os.register_at_fork(after_in_child=_BEGUN.clear)  # they are the parent's


def begin(entry: str, *arguments: str, plain: bool = False, soon: bool = False, modules: Sequence[str] = ()) -> None:
    """Start now the child that the next `ChildProcess` of these words takes over.

    A command begins so with the processes that it will want, while it still imports what it works with. One that nobody
    takes over ends with this process. soon: it is forked before all that others need is imported. modules: those that
    `ChildProcess` asks for.
    """
    key = (entry, arguments, plain)
    if key not in _BEGUN:
        _BEGUN[key] = _begun(entry, arguments, plain=plain, soon=soon, modules=modules)


def begin_forks(modules: Sequence[str], entries: Sequence[str], *, copied: bool = False) -> None:
    """Have children at these entries forked by a process that has imported these modules: where there are many.

    copied: by a copy of this one, if it may be copied.
    """
    begin_server(child_environment(), modules, entries, copied=copied)


def _begun(
    entry: str, arguments: tuple[str, ...], *, plain: bool, soon: bool = False, modules: Sequence[str] = ()
) -> _Begun:
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
    words = ["plain" if plain else "pickled", entry, *arguments]
    command = [sys.executable, "-P", "-m", _MAIN, str(theirs.fileno()), str(os.getpid()), *words]

    def popen() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # stdout is the command's data; a device printf has no business there
            stderr=errors,
            pass_fds=(theirs.fileno(),),
            env=child_environment(),
            start_new_session=True,  # one signal reaches what it starts too, and Ctrl-C reaches only us
        )

    with theirs:
        files = [theirs.fileno(), errors.fileno()]
        fork = fork_child(entry, words, child_environment(), files, soon=soon, modules=modules)
        return _Begun(ours, errors, fork or _spawner().submit(popen).result())


class _Fork:
    """A forked process, asked as a `subprocess.Popen` is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            time.sleep(_POLL_S)
        return code


def _run_forked(
    connection: Connection, theirs: socket.socket, parent: int, serve: Callable[[Connection], object]
) -> None:
    """In the fork: do the work and end without the parent's clean-up."""
    code = 1
    try:
        theirs.close()
        os.setsid()
        die_with_driver()
        end_with(parent, connection)
        serve(connection)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


@cache
def _spawner() -> ThreadPoolExecutor:
    # PR_SET_PDEATHSIG fires when the *thread* that forked ends, so children are started from one that never does.
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=_SPAWNER)


os.register_at_fork(after_in_child=_spawner.cache_clear)  # the thread stays with the parent


def child_environment() -> dict[str, str]:
    """This process's environment without secrets, and with evo importable from any folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
    }
    package = str(Path(evo.__file__).resolve().parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(p for p in (package, kept.get("PYTHONPATH")) if p)
    kept["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # gpu:1 is the driver's GPU 1, not CUDA's second fastest
    limit_algebra(kept)
    return kept
