"""Watching the loop: its events become rows and a running total; the plain view prints them as lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evo.cli.terminal import clip, columns, duration, microseconds, out, plain, ratio, say
from evo.cli.views import case_us

if TYPE_CHECKING:
    from evo.results import Json
    from evo.search.loop import Event

Fields = Mapping[str, "Json"]


class Watcher(Protocol):
    """Something that shows the loop's events."""

    def __enter__(self) -> Watcher: ...

    def __exit__(self, *_: object) -> None: ...

    def see(self, event: Event) -> None: ...

    def stopping(self, text: str) -> None:
        """The user asked to stop. Called from a signal handler: must not take locks or use buffered streams."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One finished trial as a line of text columns. `reason` is set where there is something to explain."""

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


class Tally:
    """What has happened so far: trials, keeps, the champion and its time, the time that is left."""

    def __init__(self, headline: str, budget_s: float | None = None) -> None:
        self.headline = headline
        self.timing = "modelled"
        self.iterations = 0
        self.trials = 0
        self.kept = 0
        self.champion = ""
        self.champion_us: float | None = None
        self.start_us: float | None = None
        self.usage = ""  # what the language model has used so far
        self._budget_s = budget_s
        self._started_s = time.monotonic()

    def begin(self, fields: Fields) -> None:
        self.timing = "modelled" if str(fields.get("device", "")).startswith("sim") else "measured"
        iterations = fields.get("iterations")
        self.iterations = int(iterations) if isinstance(iterations, (int, float)) else 0
        champion, headline_us = fields.get("champion"), headline_time(fields.get("cases"), self.headline)
        if isinstance(champion, str):
            self.champion = champion
            self.champion_us = self.start_us = headline_us

    def count(self, fields: Fields) -> Row:
        """Take in one result and return its row."""
        row = row_of(fields, self.headline)
        if fields.get("kind") != "start":
            self.trials += 1
            self.kept += row.kept
        if row.kept:
            self.champion = str(fields.get("variant", ""))
            self.champion_us = headline_time(fields.get("cases"), self.headline)
            self.start_us = self.start_us if self.start_us is not None else self.champion_us
        return row

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    @property
    def left_s(self) -> float | None:
        """The time that the remaining trials will take at the pace so far, within the budget."""
        if self.trials == 0:
            return None
        by_pace = self.elapsed_s / self.trials * max(self.iterations - self.trials, 0)
        return by_pace if self._budget_s is None else max(min(by_pace, self._budget_s - self.elapsed_s), 0.0)

    def champion_line(self) -> str:
        if not self.champion:
            return "no champion yet"
        words = f"champion {self.champion}"
        if self.champion_us is not None:
            words += f"  {microseconds(self.champion_us)} µs {self.timing} at {self.headline}"
            if self.start_us is not None and self.start_us != self.champion_us:
                words += f"  {ratio(self.start_us / self.champion_us)} since the start"
        return words


def headline_time(cases: Json, headline: str) -> float | None:
    """The headline case's microseconds out of a trial's `cases`, modelled or measured."""
    return case_us(cases.get(headline)) if isinstance(cases, dict) else None


def verdict_of(fields: Fields) -> str:
    decision = fields.get("decision")
    verdict = decision.get("verdict") if isinstance(decision, dict) else decision
    passed = fields.get("status") in ("correct", "measured")
    return str(verdict or ("start" if fields.get("kind") == "start" and passed else ""))


def row_of(fields: Fields, headline: str) -> Row:
    """One trial of `iterate --json` as text columns."""
    headline_us = headline_time(fields.get("cases"), headline)
    gain = fields.get("gain")
    value = gain.get("ratio") if isinstance(gain, dict) else gain
    reason = fields.get("reason")
    return Row(
        number=str(fields.get("trial", "")),
        operator=plain(str(fields.get("operator", ""))),
        change=plain(str(fields.get("summary", ""))),
        status=str(fields.get("status", "")),
        time=microseconds(headline_us) if headline_us is not None else "",
        gain=ratio(value) if isinstance(value, (int, float)) else "",
        verdict=verdict_of(fields) or "revert",
        commit=str(fields.get("commit") or "")[:8],
        reason=plain(str(reason)).splitlines()[0] if reason else None,
    )


def usage_words(fields: Fields) -> str:
    """`language model: 7 calls, 31,204 tokens, 0.0182 spent`; with the cost of a keep where the run is over."""

    def number(name: str) -> float:
        value = fields.get(name)
        return value if isinstance(value, (int, float)) else 0

    about = "about " if fields.get("estimated_calls") else ""
    words = f"language model: {number('calls'):,.0f} calls"
    words += f", {about}{number('prompt_tokens') + number('completion_tokens'):,.0f} tokens"
    if "cost" in fields:
        words += f", {about}{number('cost'):.4g} spent"
    if fields.get("replayed"):
        words += " (replayed)"
    if "tokens_per_keep" in fields:
        cost = f" and {number('cost_per_keep'):.4g}" if "cost_per_keep" in fields else ""
        words += f"; a kept gain took {number('tokens_per_keep'):,.0f} tokens{cost}"
    return words


def done_line(fields: Fields, tally: Tally) -> str:
    """The run in one sentence, for stdout."""
    spent = fields.get("llm")
    if isinstance(spent, dict):
        tally.usage = usage_words(spent)
    sentence = f"{_trials(fields.get('trials', tally.trials))}, {fields.get('kept', tally.kept)} kept"
    ended = f"{sentence} in {duration(tally.elapsed_s)}; {tally.champion_line()}"
    return f"{ended}\n{tally.usage}" if tally.usage else ended


class PlainView:
    """A line per event on stderr, the last sentence on stdout; for pipes, logs and terminals without colour."""

    def __init__(self, headline: str, *, quiet: bool = False) -> None:
        self._tally = Tally(headline)
        self._quiet = quiet  # stdout carries JSON lines

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def see(self, event: Event) -> None:
        match event.kind:
            case "note":
                say(plain(event.text))
            case "begin":
                self._tally.begin(event.fields)
                say(begin_line(event.fields))
                say(
                    f"  # {'operator':<14}  {'status':<10} {'time µs':>10} {'':<8} {'gain':>7}  {'verdict':<12}  change"
                )
            case "usage":
                self._tally.usage = usage_words(event.fields)
            case "result":
                self._result(self._tally.count(event.fields))
                if self._tally.usage and event.fields.get("operator") == "llm":
                    say(f"{'':19} {self._tally.usage}")
            case "done" if not self._quiet:
                out(done_line(event.fields, self._tally))

    def _result(self, row: Row) -> None:
        timing = self._tally.timing if row.time else ""
        say(
            f"{row.number:>3} {row.operator:<14}  {row.status:<10} {row.time:>10} {timing:<8} {row.gain:>7}  "
            f"{row.verdict:<12}  {row.change}"
        )
        if row.reason and not row.kept:
            say(f"{'':19} {clip(row.reason, (columns(sys.stderr) or 400) - 20)}")

    def stopping(self, text: str) -> None:
        os.write(sys.stderr.fileno(), f"{text}\n".encode())


def _trials(count: object) -> str:
    return f"{count} trial" if count == 1 else f"{count} trials"


def begin_line(fields: Fields) -> str:
    words = [f"{fields.get('task')} on {fields.get('device')}", str(fields.get("arch"))]
    if fields.get("branch"):
        words.append(f"branch {fields['branch']}")
    words.append(f"{_trials(fields.get('iterations'))} at most")
    return ", ".join(words)
