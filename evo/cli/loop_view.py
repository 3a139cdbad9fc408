"""The loop's events as rows and running totals; the plain view prints them as lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evo.cli.stage_line import StageNotes
from evo.cli.terminal import clip, columns, duration, microseconds, out, plain, ratio, say
from evo.records.since_start import speedup_text
from evo.results.wording import plural

if TYPE_CHECKING:
    from evo.operators.llm import LlmTotals
    from evo.results import CaseBench
    from evo.search.events import Event, RunBegun, RunSummary, TrialResult

NO_GAIN = "no gain yet"
_SAME_RATIO = 1e-3  # two speed-ups that differ less are one figure
_QUIET_S = 30.0  # a line tells the stage of a trial that takes longer


class LoopView(Protocol):
    """A view of the loop's events."""

    def __enter__(self) -> LoopView: ...

    def __exit__(self, *_: object) -> None: ...

    def see(self, event: Event) -> None: ...

    def stopping(self, text: str) -> None:
        """The user asked to stop. Called from a signal handler: it must not take locks or use buffered streams."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One finished trial as a line of text columns. `reason` is set if there is something to explain."""

    number: str
    operator: str
    change: str
    status: str
    time: str
    gain: str
    verdict: str
    commit: str
    reason: str | None

    @property
    def kept(self) -> bool:
        return self.verdict in ("keep", "keep_neutral", "start")


class RunTotals:
    """Totals so far: trials, keeps, the champion and its time, the remaining time."""

    def __init__(self, headline: str, budget_s: float | None = None) -> None:
        self.headline = headline
        self.timing = "modelled"
        self.iterations = 0
        self.trials = 0
        self.kept = 0
        self.champion = ""
        self.champion_us: float | None = None
        self.start_us: float | None = None  # of the champion that the run began with, or of its start
        self.speedup: float | None = None  # over the start of the line of descent, earlier runs included
        self.usage = ""  # the language model's cost so far
        self._budget_s = budget_s
        self._started_s = time.monotonic()

    def begin(self, run: RunBegun) -> None:
        self.timing = "modelled" if run.device.startswith("sim") else "measured"
        self.iterations = run.iterations
        if run.champion is not None:
            self.champion = run.champion
            self.champion_us = self.start_us = headline_time(run.cases, self.headline)
            self.speedup = run.speedup.get(self.headline)

    def count(self, result: TrialResult) -> Row:
        """Count one result and return its row."""
        row = row_of(result, self.headline)
        if result.kind != "start":
            self.trials += 1
            self.kept += row.kept
        if row.kept:
            self.champion = result.variant
            self.champion_us = headline_time(result.cases, self.headline)
            self.speedup = result.speedup.get(self.headline)
            self.start_us = self.start_us if self.start_us is not None else self.champion_us
        return row

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    @property
    def left_s(self) -> float | None:
        """The expected time of the remaining trials at the present rate, within the budget."""
        if self.trials == 0:
            return None
        by_pace = self.elapsed_s / self.trials * max(self.iterations - self.trials, 0)
        return by_pace if self._budget_s is None else max(min(by_pace, self._budget_s - self.elapsed_s), 0.0)

    def gained(self) -> str:
        """`14.2x since the start`, with what this run has brought if it went on from an earlier one."""
        here = self.start_us / self.champion_us if self.start_us and self.champion_us else None
        if self.speedup is None:
            moved = here is not None and self.start_us != self.champion_us
            return f"{speedup_text(here)} since this run began" if here is not None and moved else NO_GAIN
        if self.speedup == 1:
            return NO_GAIN
        words = f"{speedup_text(self.speedup)} since the start"
        if here is not None and abs(here / self.speedup - 1) > _SAME_RATIO:
            words += f" ({speedup_text(here)} in this run)" if here != 1 else " (none of it in this run)"
        return words

    def champion_line(self) -> str:
        """What has been reached: the speed-up first, then the headline's time and whose it is."""
        if not self.champion:
            return "no champion yet"
        words = [self.gained()]
        if self.champion_us is not None:
            words.append(f"{microseconds(self.champion_us)} µs {self.timing} at {self.headline}")
        return "  ".join([*words, f"champion {self.champion}"])


def headline_time(cases: Mapping[str, CaseBench], headline: str) -> float | None:
    """The headline case's microseconds, modelled or measured."""
    return cases[headline].time_us if headline in cases else None


def row_of(result: TrialResult, headline: str) -> Row:
    """One trial as text columns."""
    headline_us = headline_time(result.cases, headline)
    return Row(
        number=str(result.trial),
        operator=plain(result.operator),
        change=plain(result.summary),
        status=result.status.value,
        time=microseconds(headline_us),
        gain=ratio(result.gain.ratio) if result.gain is not None else "",
        verdict=result.outcome,
        commit=(result.commit or "")[:8],
        reason=plain(result.reason).splitlines()[0] if result.reason else None,
    )


def usage_words(used: LlmTotals) -> str:
    """`language model: 7 calls, 31,204 tokens, 0.0182 spent`; with the cost of a keep after the run."""
    about = "about " if used.estimated_calls else ""
    words = f"language model: {used.calls:,} calls, {about}{used.prompt_tokens + used.completion_tokens:,} tokens"
    if used.cost is not None:
        words += f", {about}{used.cost:.4g} spent"
    if used.replayed:
        words += " (replayed)"
    if used.tokens_per_keep is not None:
        cost = f" and {used.cost_per_keep:.4g}" if used.cost_per_keep is not None else ""
        words += f"; a kept gain took {used.tokens_per_keep:,} tokens{cost}"
    return words


def done_line(done: RunSummary, totals: RunTotals) -> str:
    """The run in one sentence, for stdout."""
    if done.llm is not None:
        totals.usage = usage_words(done.llm)
    tried = f"{plural(done.trials, 'trial')}, {done.kept} kept in {duration(totals.elapsed_s)}"
    if done.looks is not None:
        tried += f"; {plural(done.looks.edits, 'edit')} had a first look ({duration(done.looks.elapsed_s)})"
    ended = f"{totals.champion_line()}  {tried}"
    return f"{ended}\n{totals.usage}" if totals.usage else ended


class PlainView:
    """A line per event on stderr, the last sentence on stdout; for pipes, logs and terminals without colour."""

    def __init__(self, headline: str, *, quiet: bool = False) -> None:
        self._tally = RunTotals(headline)
        self._quiet = quiet  # stdout carries JSON lines
        self._stages = StageNotes(indent=f"{'':4}")

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def see(self, event: Event) -> None:
        from evo.operators.llm import LlmTotals
        from evo.search.events import RunBegun, RunSummary, TrialResult

        if event.note:
            say(plain(event.note))
        if event.stage:
            self._stages.see(event.stage, _QUIET_S)
        match event.about:
            case RunBegun() as run:
                self._tally.begin(run)
                say(begin_line(run))
                say(
                    f"  # {'operator':<14}  {'status':<10} {'time µs':>10} {'':<8} {'gain':>7}  {'verdict':<12}  change"
                )
            case LlmTotals() as used:
                self._tally.usage = usage_words(used)
            case TrialResult() as result:
                self._result(self._tally.count(result))
                if self._tally.usage and result.operator == "llm":
                    say(f"{'':19} {self._tally.usage}")
            case RunSummary() as done if not self._quiet:
                out(done_line(done, self._tally))

    def _result(self, row: Row) -> None:
        self._stages.said()
        timing = self._tally.timing if row.time else ""
        say(
            f"{row.number:>3} {row.operator:<14}  {row.status:<10} {row.time:>10} {timing:<8} {row.gain:>7}  "
            f"{row.verdict:<12}  {row.change}"
        )
        if row.reason and not row.kept:
            say(f"{'':19} {clip(row.reason, (columns(sys.stderr) or 400) - 20)}")

    def stopping(self, text: str) -> None:
        os.write(sys.stderr.fileno(), f"{text}\n".encode())


def begin_line(run: RunBegun) -> str:
    words = [f"{run.task} on {run.device}", run.arch]
    if run.branch:
        words.append(f"branch {run.branch}")
    words.append(f"{plural(run.iterations, 'trial')} at most")
    return ", ".join(words)
