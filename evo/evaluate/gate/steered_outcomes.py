"""What is said of outcomes of conditions on sizes: cases that have them, and those that nothing has met."""

from __future__ import annotations

from dataclasses import dataclass

from evo.spec.task import Case


@dataclass(frozen=True, slots=True)
class SteeredCases:
    """cheap: within the limits, and affordable as a whole. dear: beyond them, one for each outcome that needs it.

    outcomes: of conditions on sizes that some allowed size has; known: those that check cases have.
    """

    cheap: tuple[Case, ...] = ()
    dear: tuple[Case, ...] = ()
    outcomes: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class UnmetOutcome:
    """An outcome of a condition on sizes that nothing verified had. cases: sizes that have it, the cheapest first."""

    source_line: int | None
    instruction: str
    outcome: bool
    cases: tuple[Case, ...]
