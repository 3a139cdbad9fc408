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
    """One case, in microseconds of one kind of timing.

    name: the case.
    now_us: its time tonight.
    recorded_us: its time in the champion's record.
    library: the fastest library call, measured.
    library_us: that call's time.
    """

    name: str
    now_us: Us
    recorded_us: Us | None = None
    library: str | None = None
    library_us: Us | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Serializable):
    """The champion compared with something else in interleaved pairs.

    against: an earlier version, or a library call.
    case: the case, if it is a library call.
    verdict: what came of it, from the champion's side.
    reason: why, in words.
    champion_faster_by: how much faster the champion is; absent if unknown.
    """

    against: str
    case: str | None = None
    verdict: str
    reason: str
    champion_faster_by: Gain | None = None


@dataclass(slots=True, kw_only=True)
class Standing(Serializable):
    """One champion reviewed.

    task: its task.
    place: its chip and arch, `l4-sm_89`.
    path: its file in the repository.
    timing: `measured` or `modelled`, of all its figures.
    variant: the champion.
    state: what the review found.
    note: why, in words.
    trial: the trial that kept it.
    cases: its times then and now.
    differences: what this machine does not share with the record.
    pairs: what it was compared with.
    cause: why it did not hold.
    restored: the variant that took its place.
    commit: the commit that put that one there.
    renewed: the commit that records its figures anew, in the environment of today.
    elapsed_s: how long the review took.
    evaluation: what `evaluate` said of it tonight.
    """

    task: str
    place: str
    path: str
    timing: str
    variant: str
    state: State = State.HOLDS
    note: Annotated[str, NONEMPTY] = ""
    trial: str | None = None
    cases: tuple[Figure, ...] = ()
    differences: tuple[str, ...] = ()
    pairs: list[Held] = field(default_factory=list)
    cause: Cause | None = None
    restored: str | None = None
    commit: str | None = None
    renewed: str | None = None
    elapsed_s: Seconds | None = None
    evaluation: Annotated[Evaluation | None, NEVER] = None

    @property
    def name(self) -> str:
        return f"{self.task} {self.place}"
