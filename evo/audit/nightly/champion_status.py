"""How one champion stands tonight: its figures then and now, what it was held against, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from evo.audit.nightly.bisect import Cause
from evo.results import Evaluation, Gain, Json, drop_absent


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
class Figure:
    """One case, in microseconds of one kind of timing: as recorded, and now. library: the fastest rival, measured."""

    case: str
    now_us: float
    recorded_us: float | None = None
    library: str | None = None
    library_us: float | None = None

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "name": self.case,
                "now_us": round(self.now_us, 4),
                "recorded_us": round(self.recorded_us, 4) if self.recorded_us is not None else None,
                "library": self.library,
                "library_us": round(self.library_us, 4) if self.library_us is not None else None,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The champion against something in interleaved pairs. gain: how much faster the champion is; absent if unknown.

    what: an earlier version, or a library call at one case.
    """

    what: str
    verdict: str
    reason: str
    gain: Gain | None = None
    case: str | None = None

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "against": self.what,
                "case": self.case,
                "verdict": self.verdict,
                "reason": self.reason,
                "champion_faster_by": self.gain.to_json() if self.gain else None,
            }
        )


@dataclass(slots=True, kw_only=True)
class Standing:
    """One champion reviewed. place: `l4-sm_89`. timing: `measured` or `modelled`, of all its figures.

    differences: what this machine does not share with the record. note: why, in words. restored: the variant that took
    its place, by commit. renewed: the commit that records its figures anew, in the environment of today.
    """

    task: str
    place: str
    path: str
    timing: str
    variant: str
    state: State = State.HOLDS
    note: str = ""
    trial: str | None = None
    figures: tuple[Figure, ...] = ()
    differences: tuple[str, ...] = ()
    held: list[Held] = field(default_factory=list)
    evaluation: Evaluation | None = None
    cause: Cause | None = None
    restored: str | None = None
    commit: str | None = None
    renewed: str | None = None
    elapsed_s: float | None = None

    @property
    def name(self) -> str:
        return f"{self.task} {self.place}"

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "task": self.task,
            "place": self.place,
            "path": self.path,
            "timing": self.timing,
            "variant": self.variant,
            "state": self.state.value,
            "note": self.note or None,
            "trial": self.trial,
            "cases": [figure.to_json() for figure in self.figures] or None,
            "differences": list(self.differences) or None,
            "pairs": [one.to_json() for one in self.held] or None,
            "cause": self.cause.to_json() if self.cause else None,
            "restored": self.restored,
            "commit": self.commit,
            "renewed": self.renewed,
            "elapsed_s": round(self.elapsed_s, 3) if self.elapsed_s is not None else None,
        }
        return drop_absent(fields)
