"""The live view of the loop on a terminal: finished trials scroll as a table, the running one is redrawn below it."""

from __future__ import annotations

import sys
import textwrap

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from evo.cli.loop_view import NO_GAIN, Row, RunTotals, begin_line, done_line, usage_words
from evo.cli.stage_line import StageClock
from evo.cli.terminal import columns, duration, out, paint, plain, verdict_colour, wrapped
from evo.operators.llm import LlmTotals
from evo.search.events import Event, RunBegun, RunSummary, TrialBegun, TrialResult

_REFRESH_PER_S = 8
_OPERATOR, _STATUS, _TIME, _GAIN, _VERDICT = 10, 10, 11, 6, 12
_FIXED = 3 + _OPERATOR + _STATUS + _TIME + _GAIN + _VERDICT + 6 * 2
_NARROWEST_CHANGE, _WIDEST_CHANGE = 14, 96  # figures far from the words that they are about are hard to follow
_INDENT = 5  # of a reason under its row
_REASON_LINES = 3
_ROOMY_CHANGE = 24  # on narrower terminals the status column is left out


class LiveView:
    """A view by rich on stderr. Rows are printed once and stay; the lines at the bottom are redrawn."""

    def __init__(self, headline: str, budget_s: float | None, *, quiet: bool = False) -> None:
        self._tally = RunTotals(headline, budget_s)
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._spinner = Spinner("dots", style="cyan")
        self._doing = "starting"
        self._clock = StageClock()
        self._stopping: str | None = None
        self._begun = False
        self._live = Live(
            get_renderable=self._bottom,
            console=self._console,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,  # JSON lines may go to a file while this is on a terminal
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def stopping(self, text: str) -> None:
        self._stopping = text  # drawn at the next refresh

    def see(self, event: Event) -> None:
        if event.note:
            self._console.print(Text(plain(event.note), style="dim"))
        if event.stage:
            self._clock.see(event.stage)
        match event.about:
            case RunBegun() as run:
                self._tally.begin(run)
                self._console.print(Text(begin_line(run), style="bold"))
                self._console.print(self._header())
                self._begun = True
            case TrialBegun() as trial:
                self._do(plain(f"trial {trial.trial}  {trial.operator}: {trial.summary}"))
            case LlmTotals() as used:
                self._tally.usage = usage_words(used)
            case TrialResult() as result:
                self._row(self._tally.count(result))
                self._do("choosing the next proposal")
            case RunSummary() as done:
                self._live.stop()
                if not self._quiet:
                    lead = self._tally.gained()
                    line = wrapped(done_line(done, self._tally), columns(sys.stdout))
                    out(line.replace(lead, paint(lead, "green", "bold"), 1) if lead != NO_GAIN else line)

    def _do(self, words: str) -> None:
        self._doing, self._clock = words, StageClock()

    # --- rows

    @property
    def _narrow(self) -> bool:
        return self._console.width < _FIXED + _ROOMY_CHANGE

    def _line(self, cells: tuple[tuple[str, str], ...]) -> Text:
        """Seven (text, style) cells in fixed columns; the change gets the rest, and a narrow line omits the status."""
        fixed, shown = _FIXED, list(range(len(cells)))
        if self._narrow:
            shown.remove(3)
            fixed -= _STATUS + 2
        room = min(max(self._console.width - fixed, _NARROWEST_CHANGE), _WIDEST_CHANGE)
        widths = (3, _OPERATOR, room, _STATUS, _TIME, _GAIN, _VERDICT)
        line = Text()
        for index in shown:
            text, style = cells[index]
            cell = Text(text, style=style)
            cell.truncate(widths[index], overflow="ellipsis")
            cell.align("right" if index in (0, 4, 5) else "left", widths[index])
            line.append("  " if index else "").append_text(cell)
        line.truncate(self._console.width)
        return line

    def _header(self) -> Text:
        titles = ("#", "operator", "change", "status", f"{self._tally.timing} µs", "gain", "verdict")
        return self._line(tuple((title, "dim") for title in titles))

    def _row(self, row: Row) -> None:
        passed = row.status in ("correct", "measured")
        verdict, mark = row.verdict, verdict_colour(row.verdict)
        if not passed:
            verdict, mark = (row.status, "red") if self._narrow else (verdict, "dim")
        elif row.kept:
            verdict, mark = f"keep {row.commit[:7]}" if verdict == "keep" else verdict, "bold green"
        self._console.print(
            self._line(
                (
                    (row.number, "dim"),
                    (row.operator.removeprefix("rules."), ""),
                    (row.change, "" if row.kept else "dim"),
                    (row.status, verdict_colour(row.status)),
                    (row.time, "bold" if row.kept else ""),
                    (row.gain, "bold green" if row.kept else ""),
                    (verdict, mark),
                )
            )
        )
        if row.reason and not row.kept:
            self._reason(row.reason)

    def _reason(self, reason: str) -> None:
        """Why it was not kept, under its row: on as many lines as it needs, three at most."""
        room = max(self._console.width - _INDENT, _NARROWEST_CHANGE)
        lines = textwrap.wrap(reason, room, max_lines=_REASON_LINES, placeholder=" …") or [""]
        self._console.print(Text("\n".join(f"{'':{_INDENT}}{line}" for line in lines), style="dim"))

    # --- the bottom

    def _bottom(self) -> Group:
        doing = Text(self._doing)
        doing.truncate(max(self._console.width - 3, 8), overflow="ellipsis")
        self._spinner.update(text=doing)
        stage, times = self._clock.words, self._clock.times()
        waiting = Text(f"  {stage}", style="cyan", no_wrap=True, overflow="ellipsis")
        waiting.append(f"{'  ' if stage else ''}{times}", style="dim")
        lines: list[Spinner | Text | Table] = [self._spinner, waiting]
        if self._begun:
            told = [self._tally.champion_line(), *([self._tally.usage] if self._tally.usage else [])]
            lines += [Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in told]
            lines.append(self._bar())
        if self._stopping:
            lines.append(Text(f"  {self._stopping}", style="yellow"))
        return Group(*lines)

    def _bar(self) -> Table:
        totals = self._tally
        words = f"{totals.trials} of {totals.iterations} trials  {totals.kept} kept  {duration(totals.elapsed_s)}"
        if totals.left_s is not None:
            words += f"  about {duration(totals.left_s)} left"
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(
            total=max(totals.iterations, 1),
            completed=totals.trials,
            width=24,
            complete_style="cyan",
            finished_style="green",
        )
        grid.add_row(" ", bar, Text(words, style="dim", no_wrap=True, overflow="ellipsis"))
        return grid
