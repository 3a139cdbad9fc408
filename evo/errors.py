"""The exception tree. Two roots: failures of evo or its machine, and failures of a candidate.

EvoError                    a harness failure; it ends the command with an exit code and a hint
├── UsageError              exit 2   the command line asks for something that does not exist
├── TaskInvalid             exit 3   a task folder, launch plan or kernel file cannot be used
│   └── SyntaxInvalid       exit 3   ... and the place is known: file, line, field
├── DeviceMissing           exit 4   no such device on this machine
├── HarnessFault            exit 5   a worker, disk or tool failed; never counted against a candidate
│   ├── RecordCorrupt       exit 5   a record or leaderboard file cannot be read
│   ├── ChildDied           exit 5   a child process ended without an answer; who asked it decides whose fault that is
│   ├── ChildGarbled        exit 5   a child process sent something that is not a message
│   └── WorkerLost          exit 5   the child process that runs candidates died for reasons of its own
│       └── WorkerUnreachable        a cluster's worker gives no answer; its work is done again elsewhere
└── LedgerUnclean           exit 6   git is missing, dirty where evo writes, or locked by another evo

CandidateFailed             the candidate's doing; it becomes a `Status` of an `Evaluation`, and never ends a command
├── TimedOut                it took longer than its limit, to compile or to run; its process was killed
├── Crashed                 it brought down its process, its compiler or its device context
├── sim.PtxError            its PTX cannot be understood
│   └── sim.UnsupportedInstruction   ... or not be executed by the simulator
├── device.gpu_load.KernelFault          a CUDA error of its launches, as a Fault
└── device.gpu_case_timer.Diverged       its timed launches gave other outputs than the verified ones

A defect of the simulator, whatever Python raises there, is a HarnessFault that names the instruction.
Exceptions that one file or room raises and catches (control flow) stay there and are in neither tree.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from pathlib import Path


def known_words(kind: str, word: str, known: Iterable[str]) -> str:
    """The hint for a word that is not known: `did you mean tensors? known fields: axes, tensors`."""
    from difflib import get_close_matches

    words = list(known)
    near = get_close_matches(word, words, n=1) or [each for each in words if word and word.lower() in each.lower()]
    return f"{f'did you mean {near[0]}? ' if near else ''}known {kind}: {', '.join(words)}"


class EvoError(Exception):
    """Base of all harness failures: one line of what happened, and a hint saying what to do next.

    problem: a fixed name of what is wrong, for programs; empty if the class says all that there is to decide by.
    """

    exit_code = 5

    def __init__(self, message: str, *, hint: str, problem: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and these cross process boundaries.
        return (_rebuild, (type(self), self.message, self.hint, self.problem))


def _rebuild(kind: type[EvoError], message: str, hint: str, problem: str) -> EvoError:
    error = kind.__new__(kind)
    EvoError.__init__(error, message, hint=hint, problem=problem)
    return error


class UsageError(EvoError):
    exit_code = 2


class TaskInvalid(EvoError):
    exit_code = 3


class SyntaxInvalid(TaskInvalid):
    """A file that cannot be understood; the message starts with `file:line:`."""

    def __init__(self, path: Path | str, line: int | None, words: str, *, hint: str, problem: str = "") -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {words}", hint=hint, problem=problem)


class DeviceMissing(EvoError):
    exit_code = 4


class HarnessFault(EvoError):
    exit_code = 5


class RecordCorrupt(HarnessFault):
    pass


class ChildDied(HarnessFault):
    """code: the exit code, negative for a signal. tail: the last line that the child wrote to stderr."""

    def __init__(self, code: int, tail: str) -> None:
        self.code = code
        self.tail = tail
        super().__init__(self.words, hint="run `evo doctor`; is the machine out of memory?")

    def __reduce__(self) -> tuple[object, ...]:
        return (ChildDied, (self.code, self.tail))

    @property
    def words(self) -> str:
        """How it ended, e.g. `signal SIGKILL` or `exit code 1: MemoryError`."""
        how = f"exit code {self.code}"
        if self.code < 0:
            with contextlib.suppress(ValueError):  # a real-time signal has no name
                how = f"signal {signal.Signals(-self.code).name}"
        return f"{how}: {self.tail}" if self.tail else how


class ChildGarbled(HarnessFault):
    def __init__(self, message: str) -> None:
        super().__init__(message, hint="a defect of evo, or memory of the child that was overwritten; run it again")

    def __reduce__(self) -> tuple[object, ...]:
        return (ChildGarbled, (self.message,))


class WorkerLost(HarnessFault):
    pass


class WorkerUnreachable(WorkerLost):
    """Its process, node or network is gone, or it took too long. One line says how."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="is the cluster up? run `evo doctor` on its nodes")

    def __reduce__(self) -> tuple[object, ...]:
        return (WorkerUnreachable, (self.message,))


class LedgerUnclean(EvoError):
    exit_code = 6


class CandidateFailed(Exception):
    """Base of what a candidate did that ended its compilation, run or measurement."""


class TimedOut(CandidateFailed):
    """It took longer than its limit, and its process was killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out after {seconds:g} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[object, ...]:
        return (TimedOut, (self.seconds,))


class Crashed(CandidateFailed):
    """It brought down its process, its compiler or its device context. One line says how."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
