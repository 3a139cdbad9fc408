"""A child process that owns one device and runs variants on it, so that a hang or a crash costs a process, not the run.

Three outcomes never mix: the variant took too long (`TimedOut`), the variant brought its process or context down
(`Crashed`), the harness itself failed (an `EvoError`). Everything else is the method's result.
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
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, Any

import evo
from evo.device import DeviceName
from evo.device.pipe import Closed, receive, send
from evo.errors import HarnessFault, WorkerLost

# The child executes a variant's code in these only.
VARIANT_METHODS = frozenset({"run", "estimate", "screen", "look_again", "look_widely", "bench", "versus"})
METHODS = VARIANT_METHODS | {"describe", "health", "rivals", "baseline", "calibrate"}
OPENER = "evo.device.child:open_device"
PROGRAMS_PER_CHILD = 50
STARTUP_LIMIT_S = 180.0  # importing CuPy from a cold disk and creating a context; never charged to a variant
HEALTH_LIMIT_S = 60.0

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|AUTH|^(AWS|AZURE|OPENAI|ANTHROPIC|GITHUB)_", re.I)
_SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]*@")
_FATAL_SIGNALS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGILL: "illegal instruction",
    signal.SIGFPE: "arithmetic fault",
    signal.SIGABRT: "abort",
    signal.SIGTRAP: "trap",
}


class TimedOut(Exception):
    """The variant ran longer than its limit; its process was killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out after {seconds:g} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[object, ...]:
        return (TimedOut, (self.seconds,))


class Crashed(Exception):
    """The variant brought down its process or its device context. One line says how."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Died(Exception):
    """The child is gone without an answer; its exit code decides whose fault that is."""

    def __init__(self, code: int, tail: str) -> None:
        super().__init__(code)
        self.code = code
        self.tail = tail


class Worker:
    """Parent side: starts the child when it is first needed, calls it, replaces it when it is spent. Thread-safe.

    opener is `module:function`, called in the child with the DeviceName; tests put a device of their own there.
    on_wait is called when another process has the GPU and the call has to wait for it.
    """

    def __init__(
        self, device: DeviceName, *, opener: str = OPENER, on_wait: Callable[[], object] = lambda: None
    ) -> None:
        self.device = device
        self._opener = opener
        self._on_wait = on_wait
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._seen: set[str] = set()  # variants that the present child has run
        self._suspect = False  # the last child was killed or faulted: check the device before trusting it again
        self._closed = False
        self.starts = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.process.pid if child else None

    def call(self, method: str, *args: object, time_limit_s: float) -> Any:
        """Run one method of the device in the child.

        Raises TimedOut or Crashed (the variant's doing), or an EvoError (the harness's). The limit starts when the
        child is ready, and pauses while it waits for another process to release the GPU.
        """
        if method not in METHODS:
            raise HarnessFault(f"the worker serves no method {method!r}", hint=f"one of {', '.join(sorted(METHODS))}")
        with self._lock:
            try:
                return self._call(method, args, time_limit_s)
            except Died as death:
                self._judge(method, death)
            # Killed from outside, most likely for memory: nobody's fault until it happens again.
            try:
                return self._call(method, args, time_limit_s)
            except Died as death:
                self._judge(method, death)
                raise WorkerLost(
                    f"the {self._kind} child died twice while serving {method!r} ({exit_words(death)})",
                    hint="is the machine out of memory? run again with fewer --jobs",
                ) from None

    def recycle(self) -> None:
        """Let the next call start a fresh process, as a confirming measurement wants one."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Kill the child. A call in flight in another thread ends with WorkerLost."""
        self._closed = True
        if (child := self._child) is not None:
            child.process.kill()  # first the process alone: a call in flight still reads from the child's files
        if self._lock.acquire(timeout=5.0):
            try:
                self._drop()
            finally:
                self._lock.release()

    @property
    def _kind(self) -> str:
        return "simulator" if self.device.kind == "sim" else "GPU"

    def _judge(self, method: str, death: Died) -> None:
        """Raise what a death means, or return if it may be tried again."""
        if self._closed:
            raise WorkerLost("the worker was closed during a call", hint="the run was stopped; start it again")
        name = _FATAL_SIGNALS.get(signal.Signals(-death.code)) if death.code < 0 else None
        if name and method in VARIANT_METHODS:
            raise Crashed(f"{name} in the {self._kind} child")
        if death.code != -signal.SIGKILL:
            raise WorkerLost(
                f"the {self._kind} child ended while serving {method!r} ({exit_words(death)})",
                hint="run `evo doctor`; nothing was counted against the variant",
            )

    def _call(self, method: str, args: tuple[object, ...], limit_s: float) -> Any:
        names = _variants(args)
        if len(self._seen | names) > PROGRAMS_PER_CHILD and self._seen:
            self._drop()  # modules and JIT code of old variants are never unloaded, so the process is
        child = self._ready()
        self._seen |= names
        try:
            kind, value, spent = child.ask(method, args, limit_s)
        except TimeoutError:
            self._drop(suspect=True)
            if method in VARIANT_METHODS:
                raise TimedOut(limit_s) from None
            raise WorkerLost(f"{method!r} took longer than {limit_s:g} s", hint="run `evo doctor`") from None
        except BaseException:  # a half-read answer, Ctrl-C included, leaves the pipe unusable
            self._drop(suspect=True)
            raise
        if spent:
            self._drop(suspect=True)
        if kind == "error":
            raise value
        return value

    def _ready(self) -> Child:
        if self._closed:
            raise WorkerLost("the worker is closed", hint="open a new one")
        if self._child is None:
            for attempt in (1, 2):
                self._start()
                if not self._suspect or self._healthy():
                    break
                self._drop(suspect=True)
                if attempt == 2:
                    raise WorkerLost(
                        f"{self.device} does not pass its health check after a fault",
                        hint="run `evo doctor`; a GPU may need a reset by its administrator",
                    )
                time.sleep(1.0)  # the driver tears a killed context down after the process is gone
            self._suspect = False
        assert self._child is not None
        return self._child

    def _start(self) -> None:
        child = Child(self.device, self._opener, self._on_wait)
        self._child = child
        self.starts += 1
        try:
            kind, value, _ = child.first(STARTUP_LIMIT_S)
        except (TimeoutError, Died) as error:
            self._drop()
            if isinstance(error, Died) and error.code == -signal.SIGKILL:
                raise  # from outside; `call` tries once more
            what = exit_words(error) if isinstance(error, Died) else f"no answer in {STARTUP_LIMIT_S:g} s"
            raise WorkerLost(f"the {self._kind} child did not start: {what}", hint="run `evo doctor`") from None
        except BaseException:
            self._drop()
            raise
        if kind == "error":
            self._drop()
            raise value

    def _healthy(self) -> bool:
        assert self._child is not None
        try:
            kind, _, _ = self._child.ask("health", (), HEALTH_LIMIT_S)
        except (TimeoutError, Died):
            return False
        return bool(kind == "ok")

    def _drop(self, *, suspect: bool = False) -> None:
        child, self._child = self._child, None
        self._seen = set()
        self._suspect = self._suspect or suspect
        if child is not None:
            child.kill()


class Child:
    """One child process and the socket to it."""

    def __init__(self, device: DeviceName, opener: str, on_wait: Callable[[], object]) -> None:
        self._on_wait = on_wait
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        command = [sys.executable, "-P", "-m", "evo.device.child"]
        command += [str(theirs.fileno()), str(os.getpid()), device.kind, device.which, opener]

        def popen() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # stdout is the command's data; a device printf has no business there
                stderr=self.errors,
                pass_fds=(theirs.fileno(),),
                env=child_environment(),
                start_new_session=True,  # Ctrl-C in the terminal reaches the parent alone
            )

        with theirs:
            self.process = _spawner().submit(popen).result()

    def first(self, limit_s: float) -> tuple[str, Any, bool]:
        """What the child says once its device is open."""
        return self.answer(time.monotonic() + limit_s, limit_s)

    def ask(self, method: str, args: tuple[object, ...], limit_s: float) -> tuple[str, Any, bool]:
        deadline = time.monotonic() + limit_s
        try:
            self.socket.settimeout(max(limit_s, 1.0))
            send(self.socket, (method, args))
        except Closed:
            raise self._death() from None
        return self.answer(deadline, limit_s)

    def answer(self, deadline: float, limit_s: float) -> tuple[str, Any, bool]:
        """The child's next answer. Raises TimeoutError past the deadline and Died when it is gone."""
        while True:
            try:
                kind, value, spent = receive(self.socket, deadline)
            except Closed:
                raise self._death() from None
            if kind == "waiting":  # for the GPU lock: the child bounds this wait itself
                deadline = float("inf")
                self._on_wait()
            elif kind == "running":
                deadline = time.monotonic() + limit_s
            else:
                return kind, value, spent

    def kill(self) -> None:
        self.process.kill()
        # A process stuck inside the driver cannot be reaped yet, and waiting for it would stop the run.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        self.socket.close()
        self.errors.close()

    def _death(self) -> Died:
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = -signal.SIGKILL
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 4096))
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return Died(code, lines[-1] if lines else "")


@cache
def _spawner() -> ThreadPoolExecutor:
    # PR_SET_PDEATHSIG fires when the *thread* that forked ends, so children are started from one that never does.
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="evo-spawner")


def child_environment() -> dict[str, str]:
    """The parent's environment without secrets, and with evo importable from any folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
    }
    package = str(Path(evo.__file__).resolve().parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(p for p in (package, kept.get("PYTHONPATH")) if p)
    kept["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # gpu:1 is the driver's GPU 1, not CUDA's second fastest
    return kept


def exit_words(death: Died) -> str:
    words = f"exit code {death.code}"
    if death.code < 0:
        words = f"signal {signal.Signals(-death.code).name}"
    return f"{words}: {death.tail}" if death.tail else words


def _variants(values: Iterable[object]) -> set[str]:
    """Ids of the variants in a call's arguments."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, list | tuple):
            found |= _variants(value)
        elif (program := getattr(value, "program", None)) is not None:
            found.add(str(program.variant))
    return found
