"""One place where a rule applies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Edit, Function
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rule_context import RuleContext
from evo.results import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One place where a rule applies.

    rank: smaller is proposed earlier (neighbouring values first). is_schedule: a kernel's body is written anew, or
    functions that it calls are changed with it. serves: how many accesses it is good for, where there may be more once
    functions are written out.
    """

    edits: tuple[Edit, ...]
    summary: str
    arguments: dict[str, Json] = field(default_factory=dict)
    rank: int = 0
    is_schedule: bool = False
    serves: int = 0


Find = Callable[[RuleContext], Iterable[Application]]  # what lists the places of a rule
FindOfLaunch = Callable[[RuleContext, LaunchAnalysis, Function], Iterable[Application]]


def by_launch(find: FindOfLaunch, *, once: bool = False) -> Find:
    """A rule that looks at one launch and its kernel at a time; one where it raises NotPrinted has no more places.

    once: leaves out kernels that several lines launch.
    """

    def found(ctx: RuleContext) -> Iterator[Application]:
        for analysis, function in ctx.analysed(once=once):
            with contextlib.suppress(NotPrinted):
                yield from find(ctx, analysis, function)

    return found
