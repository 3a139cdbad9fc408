"""Events of a run, for a terminal, for JSON lines, for a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from evo.operators.llm import LlmTotals
from evo.results import CaseBench, Control, Gain, Stage, Status, Verdict
from evo.results.codec import ALWAYS, Seconds, Serializable
from evo.results.decision import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegun:
    """A run has begun. champion: the one that stands. cases: its recorded times, if they compare with this run's.

    speedup: of the champion over the start of its line of descent, by case.
    """

    task: str
    device: str
    arch: str
    chip: str
    run: str
    branch: str | None = None
    iterations: int
    champion: str | None = None
    cases: Mapping[str, CaseBench] = field(default_factory=dict)
    speedup: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialBegun:
    """A trial has begun."""

    trial: int
    id: str
    operator: str
    kind: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult(Serializable):
    """One trial, as a line of `evo iterate --json` has it."""

    trial: int  # its number in the run
    id: str  # the trial's id
    variant: str  # what was tried
    parent: str | None = None  # what was changed; absent for a start
    operator: str  # what proposed it
    kind: str  # of the change
    summary: str  # what was changed, in a line
    status: Status  # how far it got
    stage: Stage | None = None  # the stage that it did not pass; absent if it passed them all
    reason: str | None = None  # why it got no further, or why it was decided so
    decision: Verdict | None = None  # the verdict; absent if it was not compared with a parent
    timing: Literal["measured", "modelled"]  # `measured` or `modelled`, of all times in it
    cases: Mapping[str, CaseBench] = field(default_factory=dict)  # its times by case; absent if it was not timed
    gain: Gain | None = None  # over what it was compared with
    # how much faster it is than the start of its line of descent, by case; absent if it was not kept
    speedup: Mapping[str, Ratio] = field(default_factory=dict)
    commit: str | None = None  # the commit that keeps it; absent if it was not kept
    elapsed_s: Seconds | None = None  # how long the trial took

    @property
    def outcome(self) -> str:
        """The verdict; `start` for a first champion, and `revert` if nothing was decided."""
        if self.decision is not None:
            return self.decision.value
        return "start" if self.kind == "start" and self.status.passed else "revert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Serializable):
    """Proposals that became no trial."""

    known_code: int  # their machine code had been tried
    known_losers: int  # their edit had been tried and had lost


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLooks(Serializable):
    """First looks at edits, from which the trials were chosen: compiled, run at one case or two, and timed there."""

    edits: int  # how many were looked at
    without_time: int  # of these, how many failed, or cannot be kept
    faster: int  # of these, how many were faster than what they changed
    elapsed_s: Seconds  # how long the looks took


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(Serializable):
    """The last line of `evo iterate --json`."""

    done: Literal[True] = True  # true
    control: Control | None = None  # what the A/A control of the run has shown; absent on the simulator
    llm: LlmTotals | None = None  # what the language model has used; absent if none was asked
    trials: int  # how many trials were made, the start left out
    kept: int  # how many of them were kept
    search: str  # how proposals were chosen
    skipped: Skipped  # proposals that became no trial
    looks: FirstLooks | None = None  # at edits, before one becomes a trial; absent if there were none
    champion: str  # the variant that stands
    # times by case of the champion that the run began with
    start: Annotated[Mapping[str, CaseBench], ALWAYS] = field(default_factory=dict)
    # times by case of the champion that stands
    end: Annotated[Mapping[str, CaseBench], ALWAYS] = field(default_factory=dict)
    # how much faster it is than the start of its line of descent, by case; earlier runs count too
    speedup: Mapping[str, Ratio] = field(default_factory=dict)
    elapsed_s: Seconds  # how long the run took
    waits_s: Mapping[str, Seconds] = field(default_factory=dict)  # what it waited for; they add up to `elapsed_s`


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened: a note or the stage of a trial in words, or what a run and its trials are and became."""

    note: str = ""
    stage: str = ""
    about: RunBegun | TrialBegun | TrialResult | RunSummary | LlmTotals | None = None


Observer = Callable[[Event], None]
