"""A limit of time and memory on code that is not ours but runs in this process: a task's reference.

A watching thread raises `DeadlineExceeded` inside the running code. Code that sits in a C call and cannot be
interrupted ends the process after a grace time, with a message: better than a run that hangs for ever.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType

from evo.spec.proc_files import memory_limit, resident_bytes

GRACE_S = 60.0
_POLL_S = 0.2
_TASK_INVALID = 3  # the exit code of a broken task


class DeadlineExceeded(BaseException):
    """Not an Exception, so that a reference's own `except Exception` does not swallow it."""


class Deadline:
    """`with Deadline(seconds):` raises Exceeded in its body after that time, or when memory runs out."""

    def __init__(self, seconds: float, *, memory_bytes: int | None = None) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes or memory_limit()
        self._done = threading.Event()
        self._words = ""
        self._thread = 0
        self._is_main = False

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._before = signal.signal(signal.SIGALRM, self._alarm)
        self._watch = threading.Thread(target=self._watching, name="evo-deadline", daemon=True)
        self._watch.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._watch.join()
        if self._is_main:
            signal.signal(signal.SIGALRM, self._before)
        if kind is DeadlineExceeded:
            raise DeadlineExceeded(self._words) from None

    def _alarm(self, _: int, __: FrameType | None) -> None:
        if self._words and not self._done.is_set():
            raise DeadlineExceeded(self._words)

    def _watching(self) -> None:
        end = time.monotonic() + self._seconds
        while not self._done.wait(min(_POLL_S, max(end - time.monotonic(), 0.0))):
            resident = resident_bytes()
            if resident > self._memory_bytes:
                self._words = f"uses {resident / 2**30:.1f} GiB of memory, more than {self._memory_bytes / 2**30:.1f}"
            elif time.monotonic() >= end:
                self._words = f"did not end within {self._seconds:g} s"
            if self._words:
                self._interrupt()
                return

    def _interrupt(self) -> None:
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until:
            if self._is_main:  # interrupts a sleep as well
                signal.pthread_kill(self._thread, signal.SIGALRM)
            else:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(DeadlineExceeded)
                )
            if self._done.wait(1.0):
                return
        sys.stderr.write(f"error: a task's reference {self._words} and cannot be interrupted\n")
        sys.stderr.write("hint: look for a call in reference.py that never returns\n")
        sys.stderr.flush()
        os._exit(_TASK_INVALID)
