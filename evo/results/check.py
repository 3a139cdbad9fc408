"""The correctness gate's results: faults, the verdict per case, and the sum of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from evo.results.codec import ALWAYS, FINITE, Serializable
from evo.results.status import FaultKind, MismatchKind, Stage, Status

Figure = int | float | str  # a number; `nan`, `inf` or `-inf` if it is not finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Serializable):
    """One fault seen while a kernel executed."""

    kind: FaultKind  # what the kernel did wrong
    kernel: str  # the kernel that it was seen in
    source_line: int | None = None  # the line of the variant's text
    block: tuple[int, int, int] | None = None  # (x, y, z) of the block
    thread: tuple[int, int, int] | None = None  # (x, y, z) of the thread in its block
    address: int | None = None  # the virtual byte address, or the offset for shared and local memory
    buffer: str | None = None  # the tensor or workspace at or beside that address
    offset: int | None = None  # of the address in it, in bytes
    message: str  # the fault in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch(Serializable):
    """The first element of an output that is not what it has to be, or the budget that the output exceeds."""

    kind: MismatchKind  # how it is wrong
    tensor: str  # the output
    index: tuple[int, ...] = ()  # of the element; absent if the kind is about the whole output
    got: Figure | None = None  # the element, or the figure that has a budget
    expected: Figure | None = None  # what the element has to be, or the budget
    elements: int | None = None  # how many elements of the output are wrong in this way

    @property
    def element(self) -> str:
        """`y[3, 4]`."""
        return f"{self.tensor}{list(self.index)}"

    @classmethod
    def figure(cls, value: float) -> Figure:
        """A number as JSON can hold it."""
        if isinstance(value, int):
            return value
        return float(value) if math.isfinite(value) else str(float(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCheck(Serializable):
    """What the gate saw for one case."""

    name: str  # the case
    status: Status  # how far the variant got at this case
    reason: str | None = None  # why it did not pass
    max_error: Annotated[float | None, FINITE] = None  # the largest error of an element against the float64 reference
    # the root mean square of the errors against the float64 reference
    rms_error: Annotated[float | None, FINITE] = None
    budget: Mapping[str, float] = field(default_factory=dict)  # what was allowed, by the name of the limit
    mismatch: Mismatch | None = None  # what is wrong with the numbers, if they are
    inputs: tuple[str, ...] = ()  # the distributions that it ran under. If it failed, it failed under the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerReport(Serializable):
    """What compute-sanitizer said."""

    state: str  # `clean`, `found` or `unavailable`
    tools: tuple[str, ...] = ()  # the checkers that answered
    reason: str | None = None  # what was found, or why a checker gave no answer
    cached: bool | None = None  # whether the same machine code was checked earlier in the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Serializable):
    """The evidence that a kept variant is right. A check that is absent here was not made."""

    outcomes: int | None = None  # of the conditions in the machine code, if the simulator counted them
    exercised: int | None = None  # of these, that check cases have met
    sizes: int  # that were run whole: check cases, and those that the source and the machine code suggest
    inputs: tuple[str, ...]  # kinds of inputs that check cases ran under
    laws: tuple[str, ...] = ()  # of the task, that held where they were tried
    large: int  # timed sizes and other large ones, of which blocks were drawn where the whole is too much

    @property
    def words(self) -> str:
        """One line."""
        met = f"{self.exercised} of {self.outcomes} outcomes of conditions, " if self.outcomes is not None else ""
        laws = f"{len(self.laws)} laws, " if self.laws else ""
        return f"{met}{self.sizes} sizes whole, {len(self.inputs)} kinds of inputs, {laws}{self.large} large sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Serializable):
    """The gate's verdict on one variant."""

    status: Status  # how far the variant got
    reason: str | None = None  # why it did not pass
    stage: Stage | None = None  # the stage that it did not pass
    unseen: str | None = None  # why the look at the timed sizes could not see all of them
    seed: int | None = None  # what the inputs were drawn with
    cases: Annotated[tuple[CaseCheck, ...], ALWAYS] = ()  # one row per case that was checked
    faults: Annotated[tuple[Fault, ...], ALWAYS] = ()  # what was seen while it executed
    counters: Mapping[str, int] = field(default_factory=dict)  # the simulator's totals over the cases, if it ran
    sanitizer: SanitizerReport | None = None  # what compute-sanitizer said, if it was asked
    verified: Verified | None = None  # what was looked at, if it was looked at as before a keep

    @property
    def failed(self) -> CaseCheck | None:
        """The case that did not pass."""
        return next((row for row in self.cases if not row.status.passed), None)

    @property
    def mismatch(self) -> Mismatch | None:
        """What is wrong with the numbers, if they are."""
        return self.failed.mismatch if self.failed is not None else None
