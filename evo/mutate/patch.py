"""A person's or an agent's file as a proposal: the same gate as everyone else."""

from __future__ import annotations

import random
from pathlib import Path

from evo.mutate.proposal import Context, OperatorDoc, Proposal
from evo.source import classify, tree_difference
from evo.variant import Variant, read_variant

DOC = OperatorDoc(
    name="patch",
    family="patch",
    sentence="Proposes a file that a person or an agent wrote; it says how far from one single change the file is.",
)


class Patch:
    """One file, proposed once."""

    name = "patch"

    def __init__(self, path: Path, *, reason: str = "") -> None:
        self._path, self._reason = path, reason

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The file, unless it is the parent or was tried. Raises SyntaxInvalid where it cannot be read."""
        del rng
        child = read_variant(self._path)
        if child.id == parent.id or child.id in context.tried:
            return None
        change = tree_difference(parent.text, child.text)
        verdict = classify(change)
        return Proposal(
            operator="patch",
            kind="mutation",
            text=child.text,
            summary=f"{self._path.name}: +{change.lines_added} -{change.lines_removed} lines, {verdict.why}",
            reason=self._reason or child.headline or f"proposed by hand in {self._path.name}",
            expected="what its author hopes; only the margin decides",
            risk="not one of the known rules" if verdict.is_single else f"more than one change: {verdict.why}",
            next_if_kept="tune its knobs",
            next_if_reverted="split it, to learn which part hurts",
            arguments={
                "file": self._path.name,
                "change": verdict.kind,
                "is_single": verdict.is_single,
                "lines_added": change.lines_added,
                "lines_removed": change.lines_removed,
            },
        )
