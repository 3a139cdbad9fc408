"""What can go wrong before a kernel runs: text that is not PTX, and PTX that this simulator does not execute."""

from __future__ import annotations

from evo.errors import EvoError


class PtxError(EvoError):
    """The text is not PTX that can be understood. `line` is the PTX line, 1-based."""

    def __init__(self, problem: str, *, line: int = 0, text: str = "") -> None:
        self.line = line
        self.text = text.strip()
        where = f"PTX line {line}: " if line else ""
        shown = f" in `{self.text}`" if self.text else ""
        super().__init__(
            f"{where}{problem}{shown}", hint="compile the source for compute_89 with NVRTC and load its PTX"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))


class UnsupportedInstruction(PtxError):
    """An opcode, modifier or operand form that the simulator refuses rather than guesses. `name` is the spelling."""

    def __init__(self, name: str, *, line: int = 0, text: str = "", why: str = "") -> None:
        self.name = name
        super().__init__(f"unsupported instruction {name}{': ' + why if why else ''}", line=line, text=text)
        self.hint = "the simulator refuses what it cannot execute exactly; use another instruction or a GPU device"


def _rebuild(kind: type[PtxError], state: dict[str, object]) -> PtxError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (state["message"],)
    return error
