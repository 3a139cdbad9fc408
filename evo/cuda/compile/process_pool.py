"""Killable compiler processes, kept warm. Any thread may ask; a stuck or crashed compiler is killed and reaped here."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import Any  # the JSON of one message

from evo.errors import ChildDied, Crashed, HarnessFault, TimedOut
from evo.spec.child_entries import COMPILER
from evo.spec.child_process import ChildProcess
from evo.spec.processor_wait import await_answer

_START_LIMIT_S = 60.0  # a cold disk can take many seconds to map the compiler library
_JOBS_PER_WORKER = 500  # the compiler leaks a little per program
_MAX_WORKERS = 8
_ARRIVAL_S = 10.0  # for an answer that has begun to arrive
_HINT = "run `evo doctor`; the compiler packages may be broken or of mixed versions"


class _NotStarted(HarnessFault):
    """The process was gone before it was ready."""


class _Compiler:
    """One compiler process; plain messages, since it reads text that anyone may have written."""

    def __init__(self) -> None:
        self.child = ChildProcess(COMPILER, plain=True)
        self.jobs = 0
        with contextlib.ExitStack() as unready:
            unready.callback(self.child.close)
            try:
                _answer_of(self.child.receive(time.monotonic() + _START_LIMIT_S))
            except (ChildDied, TimeoutError) as error:
                how = error.words if isinstance(error, ChildDied) else f"no answer in {_START_LIMIT_S:g} s"
                raise _NotStarted(f"the compiler process did not start: {how}", hint=_HINT) from error
            unready.pop_all()

    def run(self, job: dict[str, Any], time_limit_s: float) -> tuple[dict[str, Any], bytes]:
        """Raises TimeoutError (too slow), ChildDied, or WorkerLost on a machine that has no processor time for it.

        The caller closes the child then.
        """
        self.jobs += 1
        deadline = time.monotonic() + time_limit_s
        self.child.send(job, time_limit_s)
        await_answer(self.child, deadline, time_limit_s)
        answer = _answer_of(self.child.receive(max(deadline, time.monotonic() + _ARRIVAL_S)))
        return answer, answer.pop("cubin", b"")

    @property
    def usable(self) -> bool:
        return self.jobs < _JOBS_PER_WORKER and self.child.is_running


def _answer_of(said: object) -> dict[str, Any]:
    assert isinstance(said, dict)
    if "fault" in said:
        raise HarnessFault(f"compiler process: {said['fault']}", hint=_HINT)
    return said


class CompilerPool:
    """At most as many compilers as cores; idle ones wait for the next job, the warmest first."""

    def __init__(self, most: int = _MAX_WORKERS) -> None:
        self._slots = threading.BoundedSemaphore(max(1, min(os.cpu_count() or 1, most)))
        self._idle: list[_Compiler] = []
        self._lock = threading.Lock()

    def run(self, job: dict[str, Any], time_limit_s: float) -> tuple[dict[str, Any], bytes]:
        """The answer and the cubin. Waiting for a compiler is not on the job's clock.

        Nor is the time for which a busy machine gives it no processor: what compiles on a quiet one compiles here.
        Raises TimedOut, Crashed (the text's doing) or HarnessFault (ours).
        """
        with self._slots:
            ended = ""
            for _ in range(2):  # a process lost to the system's out-of-memory killer deserves one more try
                compiler = self._take()
                try:
                    answer = compiler.run(job, time_limit_s)
                except TimeoutError:
                    compiler.child.close()
                    raise TimedOut(time_limit_s) from None
                except ChildDied as death:
                    compiler.child.close()
                    ended = death.words
                except BaseException:  # a fault, or Ctrl-C in the middle of an answer: its socket is out of step
                    compiler.child.close()
                    raise
                else:
                    with self._lock:
                        self._idle.append(compiler)
                    return answer
            raise Crashed(ended)

    def _take(self) -> _Compiler:
        with self._lock:
            while self._idle:
                compiler = self._idle.pop()
                if compiler.usable:
                    return compiler
                compiler.child.close()
        with contextlib.suppress(_NotStarted):  # killed from outside, perhaps; then a second one starts
            return _Compiler()
        return _Compiler()

    def close(self) -> None:
        """Kill the idle compilers; later jobs start new ones."""
        with self._lock:
            compilers, self._idle = self._idle, []
        for compiler in compilers:
            compiler.child.close()


_pool: CompilerPool | None = None
_pool_lock = threading.Lock()


def shared_pool(most: int = _MAX_WORKERS) -> CompilerPool:
    """The pool of this process; started on first use, ended at exit. most: of its compilers, where it is not yet there.

    A compiler keeps some 40 MB, so a process beside many others asks for few.
    """
    global _pool  # noqa: PLW0603 - one set of warm processes per process is the point
    with _pool_lock:
        if _pool is None:
            _pool = CompilerPool(most)
            atexit.register(_pool.close)
        return _pool


def _forget_after_fork() -> None:
    """A forked child must not talk to its parent's compilers, nor inherit a lock some other thread held."""
    global _pool, _pool_lock
    if _pool is not None:
        atexit.unregister(_pool.close)
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
