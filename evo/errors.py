"""The exception tree. Two roots: what fails in evo or its machine, and what fails in a candidate.

EvoError                    a harness failure; it ends the command with an exit code and a hint
├── UsageError          exit 2   the command line asks for something that does not exist
├── TaskInvalid         exit 3   a task folder, launch plan or kernel file cannot be used
│   └── SyntaxInvalid   exit 3   ... and the place is known: file, line, field
├── DeviceMissing       exit 4   no such device on this machine
├── HarnessFault        exit 5   a worker, disk or tool failed; never counted against a variant
│   ├── RecordCorrupt   exit 5   a record or leaderboard file cannot be read
│   └── WorkerLost      exit 5   the child process that runs variants died for reasons of its own
└── LedgerUnclean       exit 6   git is missing, dirty where evo writes, or locked by another evo

CandidateFailed             the candidate's doing; it becomes a `Status` of an `Evaluation`, and never ends a command
└── sim.PtxError            its PTX cannot be understood
    └── sim.UnsupportedInstruction   ... or not be executed by the simulator

A defect of the simulator, whatever Python raises there, is a HarnessFault that names the instruction.
"""

from __future__ import annotations

from pathlib import Path


class EvoError(Exception):
    """Base of all harness failures: one line of what happened, and a hint saying what to do next."""

    exit_code = 5

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and these cross process boundaries.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[EvoError], message: str, hint: str) -> EvoError:
    error = kind.__new__(kind)
    EvoError.__init__(error, message, hint=hint)
    return error


class UsageError(EvoError):
    exit_code = 2


class TaskInvalid(EvoError):
    exit_code = 3


class SyntaxInvalid(TaskInvalid):
    """A file that cannot be understood; the message starts with `file:line:`."""

    def __init__(self, path: Path | str, line: int | None, problem: str, *, hint: str) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}", hint=hint)


class DeviceMissing(EvoError):
    exit_code = 4


class HarnessFault(EvoError):
    exit_code = 5


class RecordCorrupt(HarnessFault):
    pass


class WorkerLost(HarnessFault):
    pass


class LedgerUnclean(EvoError):
    exit_code = 6


class CandidateFailed(Exception):
    """Base of what a candidate did that ended its compilation, run or measurement."""
