"""The same change on another parent, for a proposal whose parent was replaced while it was evaluated."""

from __future__ import annotations

import difflib
from dataclasses import replace

from evo.errors import SyntaxInvalid
from evo.operators.proposal import Proposal
from evo.spec.variant import Variant, parse_variant

_Edit = tuple[int, int, list[str]]  # lines [from, to) of the parent, and their replacement


def carried(proposal: Proposal, parent: Variant, onto: Variant) -> Proposal | None:
    """The proposal's change applied to another descendant of its parent; None if both changes touch the same lines.

    A rung is no change to a text and stays what it is. The result has to pass the one-change check as any proposal.
    """
    if proposal.kind == "rung":
        return proposal if proposal.variant.id != onto.id else None
    if proposal.steps:
        found = [carried(step, parent, onto) for step in proposal.steps]
        steps = [step for step in found if step is not None]
        if len(steps) < len(proposal.steps):
            return None
        return replace(proposal, variant=steps[-1].variant, steps=tuple(steps))
    text = _merged(parent.text, proposal.text, onto.text)
    if text is None:
        return None
    try:
        moved = parse_variant(text)
    except SyntaxInvalid:
        return None
    return replace(proposal, variant=moved) if moved.id != onto.id else None


def _merged(base: str, ours: str, theirs: str) -> str | None:
    """A three-way merge by lines; None if both sides changed the same ones."""
    lines = base.splitlines(keepends=True)
    edits = sorted([*_edits(lines, ours), *_edits(lines, theirs)], key=lambda edit: edit[:2])
    out: list[str] = []
    at = 0
    before: _Edit | None = None
    for first, last, new in edits:
        if before is not None and (first < before[1] or (first, last) == before[:2]):
            return None
        out += [*lines[at:first], *new]
        at, before = last, (first, last, new)
    return "".join([*out, *lines[at:]])


def _edits(lines: list[str], text: str) -> list[_Edit]:
    new = text.splitlines(keepends=True)
    codes = difflib.SequenceMatcher(None, lines, new, autojunk=False).get_opcodes()
    return [(i1, i2, new[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
