"""Errors before a kernel runs: text that is not PTX, and PTX that this simulator does not execute.

Both are the kernel's own failure, so they are no EvoError. A defect of the simulator is a HarnessFault (`defect`).
"""

from __future__ import annotations

from collections.abc import Callable

from evo.errors import CandidateFailed, EvoError, HarnessFault
from evo.sim.ptx.ast import Instr


class PtxError(CandidateFailed):
    """The text is not PTX that can be understood. `line` is the PTX line, 1-based; 0 if it is not known."""

    hint = "compile the source for compute_89 with NVRTC and load its PTX"

    def __init__(self, problem: str, *, line: int = 0, text: str = "") -> None:
        self.line = line
        self.text = text.strip()
        self.message = _with_place(problem, line, self.text)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))


class UnsupportedInstruction(PtxError):
    """An opcode, modifier or operand form that the simulator refuses rather than guesses. `name` is the spelling."""

    hint = "the simulator refuses what it cannot execute exactly; use another instruction or a GPU device"

    def __init__(self, name: str, *, line: int = 0, text: str = "", why: str = "") -> None:
        self.name = name
        super().__init__(f"unsupported instruction {name}{': ' + why if why else ''}", line=line, text=text)


def refuse(ins: Instr, why: str = "", *, name: str = "") -> UnsupportedInstruction:
    """What to raise for an instruction that is not executed. name: in place of its spelling."""
    return UnsupportedInstruction(name or ins.spelling, line=ins.line, text=ins.text, why=why)


def _rebuild(kind: type[PtxError], state: dict[str, object]) -> PtxError:
    error = kind.__new__(kind, state["message"])
    error.__dict__.update(state)
    return error


def _with_place(problem: str, line: int, text: str) -> str:
    return (f"PTX line {line}: " if line else "") + problem + (f" in `{text}`" if text else "")


class NamedDefects:
    """Within it, an exception that no kernel may cause passes as `defect`. in_work: the instruction in work."""

    def __init__(self, in_work: Callable[[], Instr | None] = lambda: None) -> None:
        self._in_work = in_work

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (CandidateFailed, EvoError)):
            raise defect(error, self._in_work()) from error


def defect(error: Exception, ins: Instr | None = None) -> HarnessFault:
    """The harness failure for such an exception, with what a report of it needs."""
    what = f"the simulator failed with {type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
    return HarnessFault(
        _with_place(what, ins.line if ins else 0, ins.text.strip() if ins else ""),
        hint="this is a defect of evo, not of the kernel: please report it with this line and the kernel",
    )
