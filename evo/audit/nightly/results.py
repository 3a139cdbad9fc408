"""The results of a night as data: checks by step, champions, runs of the loop, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from evo.audit.nightly.champion_status import ChampionReview
from evo.results.codec import ALWAYS, NEVER, NONEMPTY, Decimals, Seconds, Serializable, Us
from evo.results.wording import plural

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
