"""A task's reference.py in a process of its own, or in several, called with a limit of time and memory.

Whatever ends, hangs or fills that process is told as a TaskInvalid that names the file and the function.
"""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evo.errors import ChildDied, ChildGarbled, TaskInvalid, WorkerLost
from evo.spec.array_message import packed, unpacked
from evo.spec.child_entries import REFERENCE
from evo.spec.child_process import ChildProcess
from evo.spec.proc_files import is_stopped, memory_left, memory_limit, processes_below, resident_bytes
from evo.spec.processor_wait import arrives
from evo.spec.reference_child import array_bytes

IMPORT_LIMIT_S = 180.0  # torch from a cold disk
_SLOW = ("evo.interop.torch_reference", "torch")
_POLL_S = 0.1
_STOPPED = 20  # polls at which it stands still: a moment may be one in which all processes here go on again
_SHORT_S = 0.01  # too short a call to start that many processes
_CORES_EACH, _MOST_BESIDE = 4, 4  # of a reference that has several processes
_SMALL_BYTES = 4 << 20  # of arguments: one process at a time has the arrays of a large case
_MOST_PROCESSES = 256  # that a reference has started and that still run
_LEAST_LEFT = 0.08  # of the machine's memory: what a call fills faster, the system ends
_CONTRACT = "inputs(case, rng) and expected(inputs, case) return a dict of arrays by tensor name"
_LEAVES = "a reference returns its arrays; it does not leave or kill its process, or close its files"


@dataclass(frozen=True, slots=True)
class ReferenceValue:
    """kind: the name of its type. value: numbers, texts and arrays, in dictionaries and lists."""

    kind: str
    value: Any


class ReferenceProcess:
    """One reference.py, imported. functions: those of the contract that it has, and how many parameters each takes.

    A process that was ended starts anew with the next call. Thread-safe: calls wait for one another.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        self._told: set[str] = set()
        self._counted_s = 0.0  # when the processes below it were counted last
        self._has_ended = False
        with self._lock:
            self._start()

    def call(
        self, function: str, args: Sequence[object], *, limit_s: float, seed: Sequence[int] | None = None
    ) -> ReferenceValue:
        """What a function returns. seed: of a random generator, handed on as its last argument.

        Raises TaskInvalid, and WorkerLost after `end`.
        """
        with self._lock:
            return self._called(function, args, limit_s, seed)

    def call_if_free(self, function: str, args: Sequence[object], *, limit_s: float) -> ReferenceValue | None:
        """The same, or None if another call is under way."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._called(function, args, limit_s, None)
        finally:
            self._lock.release()

    def _called(
        self, function: str, args: Sequence[object], limit_s: float, seed: Sequence[int] | None
    ) -> ReferenceValue:
        if self._child is None and self._has_ended:
            raise WorkerLost(f"{self.path}: {function}() is asked for, and its session is over", hint="open a new one")
        if self._child is None:
            self._start()
        errors = dict(np.geterr())
        words = " ".join(map(str, seed or ()))  # as text: no array would hold each of them exactly
        request = packed({"name": function, "args": list(args), "seed": words, "errors": errors})
        answer = self._ask(request, f"{function}()", limit_s, "make it end sooner, or use smaller cases")
        if "error" in answer:
            raise self.broken(f"{function}() {answer['done']} {answer['error']}", answer["hint"])
        for thread in answer["threads"]:
            self._say(f"{function}() left a thread running: {thread}")
        return ReferenceValue(answer["kind"], answer["result"])

    def broken(self, what: str, hint: str | None = None, problem: str = "") -> TaskInvalid:
        return TaskInvalid(f"{self.path}: {what}", hint=hint or _CONTRACT, problem=problem)

    def close(self) -> None:
        """End the process; a later call starts another."""
        if self._child is not None:
            if self._child.is_running:
                for process in processes_below(self._child.pid, _MOST_PROCESSES):  # also those in sessions of their own
                    with contextlib.suppress(OSError):
                        os.kill(process, signal.SIGKILL)
            self._child.close()
        self._child = None

    def end(self) -> None:
        """End the process for good: a thread that outlives its session would begin another, and be waited for."""
        self._has_ended = True
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self.close()

    def _start(self) -> None:
        self._child = ChildProcess(REFERENCE, str(self.path), plain=True, modules=imports_first(self.path))
        first = {"path": list(sys.path), "memory": memory_limit()}
        answer = self._ask(first, "its import", IMPORT_LIMIT_S, "do no work when reference.py is imported")
        if "error" in answer:
            self.close()
            where = f"{self.path}:{answer['line']}" if answer.get("line") else str(self.path)
            raise TaskInvalid(f"{where}: {answer['error']}", hint="fix reference.py")
        self.functions = answer["functions"]

    def _ask(self, request: object, what: str, limit_s: float, hint: str) -> dict[str, Any]:
        """Raises TaskInvalid, with the process ended, if no answer comes."""
        child = self._child
        assert child is not None
        began = time.monotonic()
        end, printed = began + limit_s, None
        try:
            child.send(request, limit_s)
            self._wait(child, end, limit_s)
            found: dict[str, Any] = unpacked(child.receive(end))
            now = time.monotonic()
            if now - began > _SHORT_S or now - self._counted_s > _POLL_S:
                self._counted_s = now
                self._demand_few(child)
            printed = str(found.pop("printed", ""))
        except (_Exceeded, TimeoutError) as exceeded:
            words = str(exceeded) or f"did not end within {limit_s:g} s"
            raise self.broken(f"{what} {words}", hint, "over-limit") from None
        except ChildDied as death:
            raise self.broken(f"{what} {_how_it_ended(death)}", _LEAVES) from None
        except ProcessLookupError:
            raise self.broken(f"{what} has no process, and none began", "run it again") from None
        except (ChildGarbled, AttributeError, ValueError, KeyError, TypeError):
            raise self.broken(f"{what} sent something that is not an answer", _LEAVES) from None
        finally:
            if printed is None:  # also Ctrl-C in the middle of an answer
                self.close()
        if printed:
            sys.stderr.write(printed if printed.endswith("\n") else f"{printed}\n")
        return found

    def _wait(self, child: ChildProcess, end: float, limit_s: float) -> None:
        """Until it answers. Raises _Exceeded if that takes too long, too much memory or too many processes."""
        stopped = 0
        while not arrives(child, min(end, time.monotonic() + _POLL_S)):
            stopped = stopped + 1 if is_stopped(child.pid) else 0
            if stopped > _STOPPED:
                raise ChildDied(-signal.SIGSTOP, "")
            used, most = resident_bytes(child.pid), memory_limit()
            if used > most:
                raise _Exceeded(f"uses {used / 2**30:.1f} GiB of memory, more than {most / 2**30:.1f}")
            left = memory_left()
            if left is not None and left < most * _LEAST_LEFT and used > left:  # others need some of it too
                raise _Exceeded(f"uses {used / 2**30:.1f} GiB of memory, and the machine has {left / 2**30:.1f} left")
            self._demand_few(child)
            if time.monotonic() >= end:
                raise _Exceeded(f"did not end within {limit_s:g} s")

    @staticmethod
    def _demand_few(child: ChildProcess) -> None:
        if len(processes_below(child.pid, _MOST_PROCESSES)) > _MOST_PROCESSES:
            raise _Exceeded(f"has started more than {_MOST_PROCESSES} processes that still run")

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            sys.stderr.write(f"note: {self.path}: {text}\n")


class ReferenceProcesses(ReferenceProcess):
    """A process, and others beside it that begin when it is first found busy, where the machine has cores for them.

    Only calls with small arguments and without a generator go there: such a call gives the same wherever it runs.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        """most: processes in all (default: by the cores)."""
        self._most = most or max(1, min(_MOST_BESIDE, (os.cpu_count() or 1) // _CORES_EACH))
        self._others: list[ReferenceProcess] = []
        self._begun, self._is_closed = 1, False
        self._adding = threading.Lock()
        super().__init__(path)

    def call(
        self, function: str, args: Sequence[object], *, limit_s: float, seed: Sequence[int] | None = None
    ) -> ReferenceValue:
        if self._most == 1 or seed is not None or array_bytes(args) > _SMALL_BYTES:
            return super().call(function, args, limit_s=limit_s, seed=seed)
        for process in (self, *self._others):
            if (found := process.call_if_free(function, args, limit_s=limit_s)) is not None:
                return found
        with self._adding:
            is_more = self._begun < self._most and not self._is_closed
            self._begun += is_more
        if is_more:
            threading.Thread(target=self._add, name="evo-reference", daemon=True).start()
        return super().call(function, args, limit_s=limit_s, seed=seed)

    def _add(self) -> None:
        with contextlib.suppress(TaskInvalid):  # the first process does it all, and says what is wrong
            other = ReferenceProcess(self.path)
            with self._adding:
                if self._is_closed:
                    other.close()
                else:
                    self._others.append(other)

    def close(self) -> None:
        with self._adding:
            self._is_closed = True
            others, self._others = self._others, []
        for process in others:
            process.close()
        super().close()
        with self._adding:  # a later call begins anew
            self._begun, self._is_closed = 1, False


class _Exceeded(Exception):
    pass


def imports_first(path: Path) -> list[str]:
    """Of modules that take seconds to import, those that a reference imports before it does anything else."""
    found: list[str] = []
    try:
        lines = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # told where it is imported
        return []
    for line in lines:
        if isinstance(line, ast.Import):
            found += [one.name for one in line.names]
        elif isinstance(line, ast.ImportFrom):
            found += [line.module or ""]
        elif not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)):
            break
    return [name for name in _SLOW if name in found]


def _how_it_ended(death: ChildDied) -> str:
    if death.code == -signal.SIGSTOP:
        return "stopped its process (SIGSTOP)"
    if death.code == -signal.SIGKILL:
        return "was killed (SIGKILL): by itself, or by the system for want of memory"
    if death.code < 0:
        return f"ended its process by a signal ({signal.Signals(-death.code).name})"
    return f"ended its process ({death.words})"
