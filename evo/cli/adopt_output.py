"""The JSON of `evo adopt`, as types. Loaded when the command needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from evo.interop.adopt import Adopted
from evo.results.codec import ALWAYS, Serializable, copied


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionOutput(Serializable):
    """One thing that was read from the file or assumed."""

    what: str  # a tensor, an axis, a scalar ...
    value: str  # what it was taken to be
    why: str  # where that comes from
    option: str  # the option that says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOutput(Serializable):
    """`evo adopt --json`: the task and the variant that were made of a file."""

    task: str  # the task's name
    variant: str  # the variant's file, from the root of the repository
    assumed: Annotated[tuple[AssumptionOutput, ...], ALWAYS] = ()  # in the order of the table
    notes: Annotated[tuple[str, ...], ALWAYS] = ()  # what else a reader should know
    reference: str  # what the outputs are compared with
    unproven: str  # what that reference cannot know

    @classmethod
    def of(cls, found: Adopted, root: Path) -> AdoptOutput:
        return copied(
            cls,
            found,
            task=found.name,
            variant=str(found.variant.relative_to(root)),
            assumed=tuple(copied(AssumptionOutput, row) for row in found.rows),
        )
