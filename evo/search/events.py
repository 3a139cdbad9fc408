"""What a run of the loop tells of itself while it runs: to a terminal, as JSON lines, to a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from evo.operators.llm import LlmTotals
from evo.results import CaseBench, Control, Gain, Status, Verdict
from evo.results.codec import ALWAYS, Seconds, Serializable


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegun:
    """A run has begun. champion: the one that stands. cases: its recorded times, if they compare with this run's."""

    task: str
    device: str
    arch: str
    chip: str
    run: str
    branch: str | None = None
    iterations: int
    champion: str | None = None
    cases: Mapping[str, CaseBench] = field(default_factory=dict)


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
    """One trial, as a line of `evo iterate --json` has it.

    trial: its number in the run.
    id: the trial's id.
    variant: what was tried.
    parent: what was changed; absent for a start.
    operator: what proposed it.
    kind: of the change.
    summary: what was changed, in a line.
    status: how far it got.
    reason: why it got no further, or why it was decided so.
    decision: the verdict; absent if it was not compared with a parent.
    timing: `measured` or `modelled`, of all times in it.
    cases: its times by case; absent if it was not timed.
    gain: over what it was compared with.
    commit: the commit that keeps it; absent if it was not kept.
    elapsed_s: how long the trial took.
    """

    trial: int
    id: str
    variant: str
    parent: str | None = None
    operator: str
    kind: str
    summary: str
    status: Status
    reason: str | None = None
    decision: Verdict | None = None
    timing: Literal["measured", "modelled"]
    cases: Mapping[str, CaseBench] = field(default_factory=dict)
    gain: Gain | None = None
    commit: str | None = None
    elapsed_s: Seconds | None = None

    @property
    def outcome(self) -> str:
        """The verdict; `start` for a first champion, and `revert` if nothing was decided."""
        if self.decision is not None:
            return self.decision.value
        return "start" if self.kind == "start" and self.status.passed else "revert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Serializable):
    """Proposals that became no trial.

    known_code: their machine code had been tried.
    known_losers: their edit had been tried and had lost.
    """

    known_code: int
    known_losers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(Serializable):
    """The last line of `evo iterate --json`.

    done: true.
    control: what the A/A control of the run has shown; absent on the simulator.
    llm: what the language model has used; absent if none was asked.
    trials: how many trials were made, the start left out.
    kept: how many of them were kept.
    search: how proposals were chosen.
    skipped: proposals that became no trial.
    champion: the variant that stands.
    start: times by case of the champion that the run began with.
    end: times by case of the champion that stands.
    elapsed_s: how long the run took.
    """

    done: Literal[True] = True
    control: Control | None = None
    llm: LlmTotals | None = None
    trials: int
    kept: int
    search: str
    skipped: Skipped
    champion: str
    start: Annotated[Mapping[str, CaseBench], ALWAYS] = field(default_factory=dict)
    end: Annotated[Mapping[str, CaseBench], ALWAYS] = field(default_factory=dict)
    elapsed_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened: a note or the stage of a trial in words, or what a run and its trials are and became."""

    note: str = ""
    stage: str = ""
    about: RunBegun | TrialBegun | TrialResult | RunSummary | LlmTotals | None = None


Observer = Callable[[Event], None]
