"""The JSON of `evo profile`, as a type. Loaded when the command needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from evo.cli.command_context import FileSubject
from evo.evaluate.profile import ExpectedMetric, HotLine, KernelProfile, NcuCounters
from evo.results import Fault
from evo.results.codec import ALWAYS, NEVER, Serializable
from evo.spec.task import Case


@dataclass(slots=True, kw_only=True)
class Profile(Serializable):
    """`evo profile --json`: where a variant's work goes."""

    COMPUTED: ClassVar = ("variant", "task", "counted_by", "profile")

    subject: Annotated[FileSubject, NEVER]
    at: Annotated[Case, NEVER]
    case: str  # the case that it was run at
    device: str  # where it was run
    chip: str  # that device's chip
    arch: str  # what was compiled for
    status: str = "profiled"  # `profiled`, or how far the variant got
    reason: str | None = None  # why it got no further
    kernels: Annotated[tuple[KernelProfile, ...], ALWAYS] = ()  # one row per kernel
    lines: Annotated[tuple[HotLine, ...], ALWAYS] = ()  # hottest first
    expected: Annotated[tuple[ExpectedMetric, ...], ALWAYS] = ()  # metrics beside what they should be
    faults: tuple[Fault, ...] = ()  # what was seen while it executed
    measured: NcuCounters | None = None  # what Nsight Compute counted
    counted: Annotated[bool, NEVER] = False  # the simulator ran all of it
    not_counted: Annotated[str | None, NEVER] = None  # why not
    not_measured: Annotated[str | None, NEVER] = None  # why Nsight Compute has no counts

    @property
    def variant(self) -> str:
        """The variant's id."""
        return self.subject.variant.id

    @property
    def task(self) -> str:
        """Its task."""
        return self.subject.task.name

    @property
    def counted_by(self) -> Literal["simulator"] | None:
        """`simulator` if it has counted."""
        return "simulator" if self.counted else None

    @property
    def profile(self) -> str:
        """`measured`, `counted` or `unavailable (reason)`."""
        if self.measured is not None:
            return "measured"
        if self.not_measured is not None:
            return f"unavailable ({self.not_measured})"
        return "counted" if self.counted else f"unavailable ({self.not_counted or self.reason})"
