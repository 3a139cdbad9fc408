"""The results of a night as data: checks by step, the review of each champion, runs of the loop, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar

from evo.audit.nightly.bisect import Cause
from evo.results import Evaluation, Gain
from evo.results.codec import ALWAYS, NEVER, NONEMPTY, Decimals, Seconds, Serializable, Us
from evo.results.wording import plural


class ReviewState(StrEnum):
    """The result of a review."""

    HOLDS = "holds"
    CHANGED = "changed"  # slower than recorded, because the environment differs: no regression of the champion
    SLOWER = "slower"  # slower than recorded in the same environment, yet no earlier version is faster
    DEMOTED = "demoted"  # an earlier one replaces it
    FAILING = "failing"  # does not pass its gate or loses, and no variant that holds can replace it
    FAULT = "fault"  # the harness failed; the champion's state is unknown

    @property
    def is_loss(self) -> bool:
        return self in (ReviewState.SLOWER, ReviewState.DEMOTED, ReviewState.FAILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Serializable):
    """One case, in microseconds of one kind of timing."""

    name: str  # the case
    now_us: Us  # its time tonight
    recorded_us: Us | None = None  # its time in the champion's record
    library: str | None = None  # the fastest library call, measured
    library_us: Us | None = None  # that call's time


@dataclass(frozen=True, slots=True, kw_only=True)
class ChampionComparison(Serializable):
    """The champion compared with something else in interleaved pairs."""

    against: str  # an earlier version, or a library call
    case: str | None = None  # the case, if it is a library call
    verdict: str  # the outcome, from the champion's side
    reason: str  # why, in words
    champion_faster_by: Gain | None = None  # how much faster the champion is; absent if unknown


@dataclass(slots=True, kw_only=True)
class ChampionReview(Serializable):
    """One champion reviewed."""

    task: str  # its task
    place: str  # its chip and arch, `l4-sm_89`
    path: str  # its file in the repository
    timing: str  # `measured` or `modelled`, of all its figures
    variant: str  # the champion
    state: ReviewState = ReviewState.HOLDS  # the result
    note: Annotated[str, NONEMPTY] = ""  # why, in words
    trial: str | None = None  # the trial that kept it
    cases: tuple[Figure, ...] = ()  # its times then and now
    differences: tuple[str, ...] = ()  # what this machine does not share with the record
    pairs: list[ChampionComparison] = field(default_factory=list)  # its comparisons
    cause: Cause | None = None  # why it did not hold
    restored: str | None = None  # the variant that replaced it
    commit: str | None = None  # the commit that restored that one
    renewed: str | None = None  # the commit with its new figures, in today's environment
    elapsed_s: Seconds | None = None  # how long the review took
    evaluation: Annotated[Evaluation | None, NEVER] = None  # tonight's evaluation

    @property
    def name(self) -> str:
        return f"{self.task} {self.place}"


LOSS = 1  # a champion that did not hold, or an attack that won
FAULT = 5

STEPS = ("doctor", "ledger", "control", "redteam", "champions", "iterate", "night", "report")
_STATES = ("passed", "failed", "fault", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightCheck(Serializable):
    """One check of a night."""

    step: str  # of the night
    name: str  # the object of the check
    state: str  # passed, failed (a finding), fault (of the machine or of evo) or skipped
    text: Annotated[str, NONEMPTY] = ""  # the result in a line
    detail: Annotated[str, NONEMPTY] = ""  # details
    elapsed_s: Seconds | None = None  # how long it took
    code: Annotated[int, NEVER] = FAULT  # the exit code of a fault

    def __post_init__(self) -> None:
        if self.step not in STEPS or self.state not in _STATES:
            raise ValueError(f"no check: {self.step} {self.state}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun(Serializable):
    """The loop's result for one task."""

    task: str  # the task
    started: bool = False  # whether its first champion was made in this run, which is no gain
    trials: int  # how many were made
    kept: int  # how many of them were kept
    champion: str  # the champion at the end
    case: str  # its headline case
    start_us: Us | None = None  # the time of that case before, in the night's kind of timing
    end_us: Us | None = None  # the time of that case after


@dataclass(slots=True, kw_only=True)
class Night(Serializable):
    """Everything of one night."""

    COMPUTED: ClassVar = ("verdict", "exit_code")

    device: str  # what it ran on
    chip: str  # that device's chip
    arch: str  # what was compiled for
    timing: str  # `measured` or `modelled`, of every figure in it
    began: str  # ISO 8601 in UTC
    version: str  # of evo
    branch: str | None = None  # the branch that it worked on, if one was given
    commit: str | None = None  # that branch's commit at the beginning
    champions: Annotated[list[ChampionReview], ALWAYS] = field(default_factory=list)  # the champions that were reviewed
    runs: Annotated[list[NightRun], ALWAYS] = field(default_factory=list)  # the loop's results
    checks: Annotated[list[NightCheck], ALWAYS] = field(default_factory=list)  # all checks
    elapsed_s: Annotated[float, Decimals(1)] = 0.0  # how long it took

    def of(self, step: str) -> list[NightCheck]:
        return [check for check in self.checks if check.step == step]

    @property
    def exit_code(self) -> int:
        """0 if everything holds, 1 for a loss, else the code of the first fault."""
        if any(check.state == "failed" for check in self.checks):
            return LOSS
        return next((check.code for check in self.checks if check.state == "fault"), 0)

    @property
    def verdict(self) -> str:
        """The night in one line."""
        lost = [one for one in self.champions if one.state.is_loss]
        parts = []
        if lost:
            demoted = sum(one.state == "demoted" for one in lost)
            parts.append(f"{len(lost)} of {plural(len(self.champions), 'champion')} did not hold, {demoted} demoted")
        elif self.champions:
            parts.append(f"{plural(len(self.champions), 'champion')} reviewed, none lost")
        else:
            parts.append("no champion to review" if self.of("champions") else "ended before the champions")
        if won := [check for check in self.of("redteam") if check.state == "failed"]:
            parts.append(f"{plural(len(won), 'attack')} did not lose")
        if faults := sum(check.state == "fault" for check in self.checks):
            parts.append(f"{plural(faults, 'fault')} of the machine or of evo")
        kept = sum(run.kept for run in self.runs)
        if started := sum(run.started for run in self.runs):
            parts.append(f"{plural(started, 'first champion')}")
        if self.runs:
            parts.append(f"{kept} kept in {plural(sum(run.trials for run in self.runs), 'trial')}")
        return "; ".join(parts)
