"""How one champion stands tonight: its figures then and now, what it was held against, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from evo.audit.nightly.bisect import Cause
from evo.results import Evaluation, Gain
from evo.results.codec import NEVER, NONEMPTY, Seconds, Serializable, Us


class State(StrEnum):
    """What a review found."""

    HOLDS = "holds"
    CHANGED = "changed"  # slower than recorded, because the environment is another: no regression of the champion
    SLOWER = "slower"  # slower than recorded in the same environment, yet nothing earlier is faster
    DEMOTED = "demoted"  # an earlier one is in its place
    FAILING = "failing"  # does not pass its gate or loses, and nothing that holds could take its place
    FAULT = "fault"  # the harness failed: nothing is known of the champion

    @property
    def is_loss(self) -> bool:
        return self in (State.SLOWER, State.DEMOTED, State.FAILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Serializable):
    """One case, in microseconds of one kind of timing."""

    name: str  # the case
    now_us: Us  # its time tonight
    recorded_us: Us | None = None  # its time in the champion's record
    library: str | None = None  # the fastest library call, measured
    library_us: Us | None = None  # that call's time


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Serializable):
    """The champion compared with something else in interleaved pairs."""

    against: str  # an earlier version, or a library call
    case: str | None = None  # the case, if it is a library call
    verdict: str  # what came of it, from the champion's side
    reason: str  # why, in words
    champion_faster_by: Gain | None = None  # how much faster the champion is; absent if unknown


@dataclass(slots=True, kw_only=True)
class Standing(Serializable):
    """One champion reviewed."""

    task: str  # its task
    place: str  # its chip and arch, `l4-sm_89`
    path: str  # its file in the repository
    timing: str  # `measured` or `modelled`, of all its figures
    variant: str  # the champion
    state: State = State.HOLDS  # what the review found
    note: Annotated[str, NONEMPTY] = ""  # why, in words
    trial: str | None = None  # the trial that kept it
    cases: tuple[Figure, ...] = ()  # its times then and now
    differences: tuple[str, ...] = ()  # what this machine does not share with the record
    pairs: list[Held] = field(default_factory=list)  # what it was compared with
    cause: Cause | None = None  # why it did not hold
    restored: str | None = None  # the variant that took its place
    commit: str | None = None  # the commit that put that one there
    renewed: str | None = None  # the commit that records its figures anew, in the environment of today
    elapsed_s: Seconds | None = None  # how long the review took
    evaluation: Annotated[Evaluation | None, NEVER] = None  # what `evaluate` said of it tonight

    @property
    def name(self) -> str:
        return f"{self.task} {self.place}"
