"""A person's or an agent's file as a proposal; the gate is the same as for any other."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from evo.cuda.source import classify, tree_difference
from evo.operators.one_change import kind_of_edit, rung_of
from evo.operators.proposal import Context, OperatorDoc, Proposal
from evo.records.trials import Kind
from evo.spec.variant import Variant, read_variant

DOC = OperatorDoc(
    name="patch",
    family="patch",
    sentence="Proposes a file that a person or an agent wrote. A rung of the ladder is tried as a rung; any other file"
    " has to differ from the champion by one change, or is refused with the changes that it holds. With --rewrites 1"
    " it may be a rewrite: recorded as that, and never counted as one change.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """What the author of a file says of it. Empty: nothing."""

    summary: str = ""
    reason: str = ""
    expected: str = ""
    risk: str = ""


class Patch:
    """One file, proposed once."""

    name = "patch"

    def __init__(self, path: Path, hypothesis: Hypothesis | None = None) -> None:
        self._path, self._said = path, hypothesis or Hypothesis()
        self._proposed = False

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The file, unless it is the parent or was tried. Raises SyntaxInvalid if it cannot be read."""
        del rng
        child = read_variant(self._path)
        if self._proposed or child.id == parent.id or child.id in context.tried:
            return None
        self._proposed = True
        change = tree_difference(parent.text, child.text)
        verdict = classify(change)
        rung = rung_of(context.task, child)
        kind: Kind = "rung" if rung is not None else "mutation"
        if rung is None and context.rewrites_left and kind_of_edit(parent.text, child.text) == "rewrite":
            kind = "rewrite"
        what = "a rewrite" if kind == "rewrite" else verdict.why
        lines = f"+{change.lines_added} -{change.lines_removed} lines"
        risk = "not one of the known rules" if verdict.is_single else f"more than one change: {verdict.why}"
        return Proposal(
            operator="patch",
            kind=kind,
            variant=child,
            summary=f"{self._said.summary or self._path.name}: {lines}, {what}",
            reason=self._said.reason or child.headline or f"proposed by hand in {self._path.name}",
            expected=self._said.expected or "the author expects a gain; only the margin decides",
            risk=self._said.risk or risk,
            next_if_kept="tune its knobs",
            next_if_reverted="leave it",
            arguments={
                "file": self._path.name,
                "change": verdict.kind,
                "is_single": verdict.is_single,
                "lines_added": change.lines_added,
                "lines_removed": change.lines_removed,
                **({"rung": rung} if rung is not None else {}),
            },
        )
