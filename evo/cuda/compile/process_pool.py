"""Killable compiler processes, kept warm. Any thread may ask; a stuck or crashed compiler is killed and reaped here."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any  # the JSON of one message

from evo.errors import HarnessFault

_START_LIMIT_S = 60.0  # a cold disk can take many seconds to map the compiler library
_JOBS_PER_WORKER = 500  # the compiler leaks a little per program
_MAX_WORKERS = 8
_HINT = "run `evo doctor`; the compiler packages may be broken or of mixed versions"


class CompilerStuck(Exception):
    """The job passed its wall-clock limit and its process was killed."""


class CompilerCrashed(Exception):
    """The process died in the middle of a job, twice in a row. The message says how."""


class _NotStarted(HarnessFault):
    """The process was gone before it was ready."""


class _Worker:
    def __init__(self) -> None:
        # -P: the script's own folder must not shadow other modules. A session of its own: one signal reaches its
        # disassembler too, and Ctrl-C at the terminal reaches only us.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("nvrtc_process.py")), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self.jobs = 0
        try:
            self._raise_fault(self._receive(time.monotonic() + _START_LIMIT_S)[0])
        except (EOFError, TimeoutError) as error:
            how = self.kill()
            raise _NotStarted(f"the compiler process did not start: {how}", hint=_HINT) from error
        except BaseException:
            self.kill()
            raise

    def run(self, job: dict[str, Any], time_limit_s: float) -> tuple[dict[str, Any], bytes]:
        """Raises TimeoutError (too slow) or EOFError (died); the caller kills the worker then."""
        deadline = time.monotonic() + time_limit_s
        text = json.dumps(job).encode()
        assert self.process.stdin is not None
        self.jobs += 1
        try:
            data = memoryview(struct.pack("<Q", len(text)) + text)
            while data:
                data = data[self.process.stdin.write(data) :]
        except OSError as error:
            raise EOFError from error
        answer, blob = self._receive(deadline)
        self._raise_fault(answer)
        return answer, blob

    def _raise_fault(self, answer: dict[str, Any]) -> None:
        if "fault" in answer:
            raise HarnessFault(f"compiler process: {answer['fault']}", hint=_HINT)

    def _receive(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        header = json.loads(self._read(struct.unpack("<Q", self._read(8, deadline))[0], deadline))
        return header, self._read(header.get("blob_bytes", 0), deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        data = bytearray()
        while len(data) < size:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise TimeoutError
            chunk = os.read(descriptor, min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    @property
    def usable(self) -> bool:
        return self.jobs < _JOBS_PER_WORKER and self.process.poll() is None

    def kill(self) -> str:
        """End the process group and reap it; returns how it had ended."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


class Pool:
    """At most as many workers as cores; idle ones wait for the next job, the warmest first."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(max(1, min(os.cpu_count() or 1, _MAX_WORKERS)))
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def run(self, job: dict[str, Any], time_limit_s: float) -> tuple[dict[str, Any], bytes]:
        """The answer and the cubin. Waiting for a worker is not on the job's clock.

        Raises CompilerStuck, CompilerCrashed (the text's doing) or HarnessFault (ours).
        """
        with self._slots:
            ended = ""
            for _ in range(2):  # a process lost to the system's out-of-memory killer deserves one more try
                worker = self._take()
                try:
                    answer = worker.run(job, time_limit_s)
                except TimeoutError:
                    worker.kill()
                    raise CompilerStuck from None
                except EOFError:
                    ended = _how_it_ended(worker)
                except BaseException:  # a fault, or Ctrl-C in the middle of an answer: its pipe is out of step
                    worker.kill()
                    raise
                else:
                    self._give_back(worker)
                    return answer
            raise CompilerCrashed(ended)

    def _take(self) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.usable:
                    return worker
                worker.kill()
        with contextlib.suppress(_NotStarted):  # killed from outside, perhaps; then a second one starts
            return _Worker()
        return _Worker()

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def close(self) -> None:
        """Kill the idle workers; later jobs start new ones."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.kill()


def _how_it_ended(worker: _Worker) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.process.wait(timeout=5)  # the pipe closes a moment before the process is gone; keep its own signal
    return worker.kill()


_pool: Pool | None = None
_pool_lock = threading.Lock()


def shared_pool() -> Pool:
    """The pool of this process; started on first use, ended at exit."""
    global _pool  # noqa: PLW0603 - one set of warm processes per process is the point
    with _pool_lock:
        if _pool is None:
            _pool = Pool()
            atexit.register(_pool.close)
        return _pool


def _forget_after_fork() -> None:
    """A forked child must not talk to its parent's workers, nor inherit a lock some other thread held."""
    global _pool, _pool_lock
    if _pool is not None:
        atexit.unregister(_pool.close)
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
