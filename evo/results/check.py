"""What the correctness gate saw: faults, the verdict per case, and the sum of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from evo.results.codec import ALWAYS, FINITE, Serializable
from evo.results.status import FaultKind, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Serializable):
    """One fault seen while a kernel executed.

    kind: what the kernel did wrong.
    kernel: the kernel that it was seen in.
    source_line: the line of the variant's text.
    block: (x, y, z) of the block.
    thread: (x, y, z) of the thread in its block.
    address: the virtual byte address, or the offset for shared and local memory.
    message: the fault in words.
    """

    kind: FaultKind
    kernel: str
    source_line: int | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCheck(Serializable):
    """What the gate saw for one case.

    name: the case.
    status: how far the variant got at this case.
    reason: why it did not pass.
    max_error: the largest error of an element against the float64 reference.
    rms_error: the root mean square of the errors against the float64 reference.
    budget: what was allowed, by the name of the limit.
    inputs: the distributions that it ran under. If it failed, it failed under the last one.
    """

    name: str
    status: Status
    reason: str | None = None
    max_error: Annotated[float | None, FINITE] = None
    rms_error: Annotated[float | None, FINITE] = None
    budget: Mapping[str, float] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerReport(Serializable):
    """What compute-sanitizer said.

    state: `clean`, `found` or `unavailable`.
    tools: the checkers that answered.
    reason: what was found, or why a checker gave no answer.
    cached: whether the same machine code was checked earlier in the run.
    """

    state: str
    tools: tuple[str, ...] = ()
    reason: str | None = None
    cached: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Serializable):
    """The gate's verdict on one variant.

    status: how far the variant got.
    reason: why it did not pass.
    unseen: why the look at the timed sizes could not see all of them.
    seed: what the inputs were drawn with.
    cases: one row per case that was checked.
    faults: what was seen while it executed.
    counters: the simulator's totals over the cases, if it ran.
    sanitizer: what compute-sanitizer said, if it was asked.
    """

    status: Status
    reason: str | None = None
    unseen: str | None = None
    seed: int | None = None
    cases: Annotated[tuple[CaseCheck, ...], ALWAYS] = ()
    faults: Annotated[tuple[Fault, ...], ALWAYS] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    sanitizer: SanitizerReport | None = None
