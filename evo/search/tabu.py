"""The tabu list: rejected edits of a line of descent, so that the search does not propose them again.

About a third of what a search proposes has been there before. An edit is known again by what it replaces in which
statement, whatever else has changed since. One that failed its gate, or cost time, is not tried again; one that only
missed the margin may be, marked with the trial it repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evo.cuda.source import tree_difference
from evo.operators import Proposal, edit_key
from evo.records.trials import Record
from evo.results import Evaluation, Json
from evo.spec.variant import Variant

_SLOWER = 0.98  # a gain ratio below this is a loss, not a near miss


@dataclass(slots=True)
class TabuList:
    """losers: keys of changes that lost. duplicates, again: proposals passed over, by machine code and as losers."""

    losers: set[str] = field(default_factory=set)
    duplicates: int = 0
    again: int = 0
    _reverted: dict[str, tuple[str, bool]] = field(default_factory=dict)  # edit -> its trial, and whether it lost

    def recall(self, records: Iterable[Record]) -> None:
        """Take over what earlier runs of the line have recorded."""
        for record in records:
            if record.kind == "start" or record.kept:
                continue
            self._note(record.arguments, record.trial, _lost(record.own_ratio, passed=record.status.passed))

    def recognise(self, proposal: Proposal, parent: Variant) -> tuple[Proposal, bool]:
        """The proposal with its edit's key, and whether it is a rule's loser come back."""
        if proposal.kind != "mutation":
            return proposal, False
        key = edit_key(tree_difference(parent.text, proposal.text), parent.text)
        trial, lost = self._reverted.get(key, ("", False))
        marks: dict[str, Json] = {"edit": key, **({"again": trial} if trial else {})}
        is_known = lost and proposal.operator.startswith("rules")
        self.again += is_known
        return replace(proposal, arguments={**proposal.arguments, **marks}), is_known

    def learn(
        self, trial: str, proposal: Proposal, parent: Variant | None, evaluation: Evaluation, *, kept: bool
    ) -> None:
        """Remember a trial that was not kept."""
        if parent is not None and not kept:
            # Compared with another variant than its parent, it says nothing of the change.
            ratio = evaluation.ratio if "rival" not in proposal.arguments else None
            self._note(proposal.arguments, trial, _lost(ratio, passed=evaluation.status.passed))

    def _note(self, arguments: Mapping[str, Json], trial: str, lost: bool) -> None:
        if isinstance(edit := arguments.get("edit"), str):
            self._reverted[edit] = (trial, lost)
        if lost and isinstance(key := arguments.get("change_key"), str):
            self.losers.add(key)


def _lost(ratio: float | None, *, passed: bool) -> bool:
    return not passed or (ratio is not None and ratio < _SLOWER)
