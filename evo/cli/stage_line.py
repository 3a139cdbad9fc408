"""The present step of a command that takes long: redrawn on a terminal, now and then a line in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from evo.cli.terminal import duration, is_live, plain, redrawn, say

if TYPE_CHECKING:
    from rich.spinner import Spinner
    from rich.text import Text

    from evo.evaluate.counted_stage import CountedStage

_REFRESH_PER_S = 4
_QUIET_S = 10.0  # between two lines in a pipe
_WORTH_TELLING_S = 1.0  # shorter times left are not shown


class StageClock:
    """How long the present stage has taken, and how long it will take if its steps go on like this."""

    def __init__(self) -> None:
        self.words = ""
        self._name = ""
        self._began_s = time.monotonic()
        self._left_s: float | None = None
        self._told_s = self._began_s

    def see(self, words: str) -> None:
        """Take note of the next step; a step of the same stage keeps the stage's clock."""
        now = time.monotonic()
        name = getattr(words, "stage", None) or words
        if name != self._name:
            self._name, self._began_s = name, now
        counted: CountedStage | None = words if hasattr(words, "left_s") else None  # type: ignore[assignment]
        self.words, self._told_s = plain(words), now
        self._left_s = counted.left_s(now - self._began_s) if counted is not None else None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def times(self) -> str:
        """`12 s, about 5 s left`; empty at first."""
        words = [duration(self.elapsed_s)] if self.elapsed_s >= 1 else []
        if self._left_s is not None:
            left_s = self._left_s - (time.monotonic() - self._told_s)
            if left_s >= _WORTH_TELLING_S:
                words.append(f"about {duration(left_s)} left")
        return ", ".join(words)


class StageLine:
    """One line at the bottom of the terminal, with a spinner."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self.clock = StageClock()
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,  # data may go to a file while this is on a terminal
            redirect_stderr=False,
        )
        self._live.start()
        redrawn.append(self)

    def above(self, text: str) -> None:
        """A line that stays, above this one."""
        from rich.text import Text

        self._console.print(Text.from_ansi(text))

    def close(self) -> None:
        self._live.stop()
        if self in redrawn:
            redrawn.remove(self)

    def _drawn(self) -> Spinner:
        self._spinner.update(text=self._words())
        return self._spinner

    def _words(self) -> Text:
        from rich.text import Text

        times = self.clock.times()
        line = Text(self.clock.words)
        line.truncate(max(self._console.width - 4 - len(times), 8), overflow="ellipsis")
        return line.append(f"  {times}" if times else "", style="dim")


class StageNotes:
    """Lines in a pipe: none for what is short, so that a stage is told once nothing was said for a while."""

    def __init__(self, indent: str = "  ") -> None:
        self._clock, self._indent = StageClock(), indent
        self.said()

    def said(self) -> None:
        """Something has been said now."""
        self._said_s = time.monotonic()

    def see(self, words: str, quiet_s: float) -> None:
        self._clock.see(words)
        if time.monotonic() - self._said_s >= quiet_s:
            self.said()
            times = self._clock.times()
            say(f"{self._indent}{self._clock.words}" + (f"  {times}" if times else ""))


_pipe: StageNotes | None = None


def stage(words: str) -> None:
    """Show the present step, on a terminal as a line that is redrawn with its time; `""` takes it away.

    A pipe gets a line only if the steps take long. Steps of a `CountedStage` have the time left.
    """
    global _pipe  # noqa: PLW0603 - a process has one stderr
    line = next((one for one in redrawn if isinstance(one, StageLine)), None)
    if not words:
        _pipe = None
        if line is not None:
            line.close()
    elif is_live(sys.stderr):
        (line or StageLine()).clock.see(words)
    else:
        _pipe = _pipe or StageNotes()
        _pipe.see(words, _QUIET_S)
