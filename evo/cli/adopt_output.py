"""The JSON of `evo adopt`, as types. Loaded when the command needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from evo.interop.adopt import Adopted
from evo.results.codec import ALWAYS, Serializable


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
        return cls(
            task=found.name,
            variant=str(found.variant.relative_to(root)),
            assumed=tuple(
                AssumptionOutput(what=row.what, value=row.value, why=row.why, option=row.option) for row in found.rows
            ),
            notes=found.notes,
            reference=found.reference,
            unproven=found.unproven,
        )
