"""The interface of all operators: a proposal, and the context that an operator may read."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, get_args

from evo.records.trials import Kind, arm_of
from evo.results import Json
from evo.results.codec import Serializable
from evo.spec.chips import Chip
from evo.spec.launch import Refusal, plan
from evo.spec.task import Task
from evo.spec.variant import Variant

SUCCESS = "faster than its parent past the margin on the task's score, and no case slower by more than 2 %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One change to a parent, with the hypothesis behind it. variant: the whole new `.cu`, parsed.

    arguments: what was chosen, as data (rule, knob, from, to ...), for the bandit and for finding repeats. steps: of a
    plan, each with the variant that it leads to. promise: the gain over its parent that a first look showed.
    """

    operator: str
    kind: Kind
    variant: Variant
    summary: str
    reason: str
    expected: str
    risk: str
    success: str = SUCCESS
    next_if_kept: str = ""
    next_if_reverted: str = ""
    arguments: dict[str, Json] = field(default_factory=dict)
    steps: tuple[Proposal, ...] = ()
    promise: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"a proposal is one of {', '.join(get_args(Kind))}, not {self.kind!r}")

    @property
    def arm(self) -> str:
        """The operator for which its gain is counted; rewrites have separate statistics."""
        return arm_of(self.operator, self.kind)

    @property
    def text(self) -> str:
        """The whole new `.cu`."""
        return self.variant.text


def start_proposal(variant: Variant, name: str, rung: str | None) -> Proposal:
    """A first champion: an unchanged file with its name, and its rung if it is one."""
    return Proposal(
        operator="start",
        kind="start",
        variant=variant,
        summary=f"start from {name}",
        reason=variant.headline,
        expected="the baseline of this run; claims no gain",
        risk="none",
        arguments={"rung": rung} if rung is not None else {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an operator may know besides the parent.

    tried: ids of variants that were already tried. rung: file name of the rung the parent descends from. rungs_tried:
    file names of rungs tried in this line of descent. codes: hashes of machine code that was tried. trials_left: how
    many trials the run may still make; None: not told. losers: changes (`change_key`) that failed or cost time in this
    line of descent; rules offer them last. stalled: nothing was kept for a while, far from what the limits allow.
    under_way: trials without a verdict so far.
    rewrites_left: how many proposals of the kind `rewrite` the run may still try. looks: what first looks at edits of
    the parent have shown, as gains with their proposals, the largest first.
    """

    task: Task
    chip: Chip | None = None
    tried: Collection[str] = frozenset()
    rung: str | None = None
    rungs_tried: Collection[str] = frozenset()
    codes: Collection[str] = frozenset()
    trials_left: int | None = None
    losers: Collection[str] = frozenset()
    stalled: bool = False
    under_way: int = 0
    rewrites_left: int = 0
    looks: Sequence[tuple[float, Proposal]] = ()

    def fits(self, variant: Variant) -> bool:
        """Whether the launch plan is legal on the chip at every bench case; if not, a trial would be wasted."""
        if self.chip is None:
            return True
        return not any(isinstance(plan(variant, self.task, case, self.chip), Refusal) for case in self.task.bench)


class Operator(Protocol):
    """Makes proposals. Deterministic: the same parent, generator state and context give the same proposal."""

    @property
    def name(self) -> str: ...

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The next proposal that was not tried yet, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDoc(Serializable):
    """One row of `evo operators`."""

    name: str  # the operator or rule
    family: str  # the operator that it belongs to
    sentence: str  # what it does
    before: str = ""  # an example; empty if there is no fixed edit
    after: str = ""  # the same example, changed
