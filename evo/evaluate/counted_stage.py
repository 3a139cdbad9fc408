"""Progress of a long stage: its words, and how many of its steps are done."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]


class CountedStage(str):
    """The words of a stage that has a number of steps, as in `estimate: case 3 of 10 (long)`. done: before it."""

    def __new__(cls, stage: str, step: str, done: int, total: int, name: str = "") -> CountedStage:
        """`step` names what is counted, such as `case`; `name` says which one this is."""
        total = max(total, done + 1)
        words = super().__new__(cls, f"{stage}: {step} {done + 1} of {total}" + (f" ({name})" if name else ""))
        words.stage, words.done, words.total = stage, done, total
        return words

    stage: str
    done: int
    total: int

    def left_s(self, elapsed_s: float) -> float | None:
        """The expected time of the steps left, if the stage has taken this long; None before its second step."""
        return elapsed_s / self.done * (self.total - self.done) if self.done else None


def silent(_: str) -> None:
    """Tell nobody."""
