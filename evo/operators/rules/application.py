"""One place where a rule applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from evo.cuda.source import Edit
from evo.operators.rules.rule_context import RuleContext
from evo.results import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One place where a rule applies.

    rank: smaller is proposed earlier (neighbouring values first). is_schedule: a kernel's body is written anew, or
    functions that it calls are changed with it.
    """

    edits: tuple[Edit, ...]
    summary: str
    arguments: dict[str, Json] = field(default_factory=dict)
    rank: int = 0
    is_schedule: bool = False


Find = Callable[[RuleContext], Iterable[Application]]  # what lists the places of a rule
