"""The review of one champion: its recorded and present figures, its comparisons, and the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from evo.audit.nightly.bisect import Cause
from evo.results import Evaluation, Gain
from evo.results.codec import NEVER, NONEMPTY, Seconds, Serializable, Us


class ReviewState(StrEnum):
    """The result of a review."""

    HOLDS = "holds"
    CHANGED = "changed"  # slower than recorded, because the environment differs: no regression of the champion
    SLOWER = "slower"  # slower than recorded in the same environment, yet nothing earlier is faster
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
