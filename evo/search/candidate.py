"""A proposal that becomes a trial: parsed, checked to be one change, and compiled, each once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.operators import Proposal, not_one_change
from evo.results import Json
from evo.spec.task import Task
from evo.spec.variant import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A proposal and the parent that it changes; None for a start.

    refusal: why it may not be tried: it is not one change. prepared: what compiling it gave, if that was done here.
    """

    proposal: Proposal
    parent: Variant | None
    refusal: str | None = None
    prepared: Prepared | PrepareFailure | None = None

    @property
    def variant(self) -> Variant:
        return self.proposal.variant

    def with_arguments(self, more: dict[str, Json]) -> Candidate:
        """The same with more said in the proposal's arguments."""
        proposal = replace(self.proposal, arguments={**self.proposal.arguments, **more})
        return replace(self, proposal=proposal)


def candidate_of(task: Task, proposal: Proposal, parent: Variant | None) -> Candidate:
    """The candidate that a proposal makes: the only place that asks whether it is one change."""
    return Candidate(proposal=proposal, parent=parent, refusal=not_one_change(task, proposal, parent))
