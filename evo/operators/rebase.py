"""The same change on another parent, for a proposal whose parent was replaced while it was evaluated."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace

from evo.cuda.source import Span, parse
from evo.errors import SyntaxInvalid
from evo.operators.proposal import Proposal
from evo.spec.variant import Variant, parse_variant

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_DEFINED = re.compile(r"#\s*define\s+(\w+)|\bstruct\s+(?:alignas\s*\([^()]*\)\s*)?(\w+)")
_Edit = tuple[int, int, list[str]]  # lines [from, to) of the parent, and their replacement


def carried(proposal: Proposal, parent: Variant, onto: Variant) -> Proposal | None:
    """The proposal's change applied to another descendant of its parent; None if both changes touch the same lines.

    A name that both changes invented is another one in the result. A rung is no change to a text and stays what it is.
    The result has to pass the one-change check as any proposal.
    """
    if proposal.kind == "rung":
        return proposal if proposal.variant.id != onto.id else None
    names = _other_names(parent.text, [step.text for step in proposal.steps or (proposal,)], onto.text)
    if proposal.steps:
        found = [_moved(step, parent, onto, names) for step in proposal.steps]
        steps = [step for step in found if step is not None]
        if len(steps) < len(proposal.steps):
            return None
        return replace(proposal, variant=steps[-1].variant, steps=tuple(steps))
    return _moved(proposal, parent, onto, names)


def _moved(proposal: Proposal, parent: Variant, onto: Variant, names: Mapping[str, str]) -> Proposal | None:
    text = _merged(parent.text, _WORD.sub(lambda word: names.get(word[0], word[0]), proposal.text), onto.text)
    if text is None:
        return None
    try:
        moved = parse_variant(text)
    except SyntaxInvalid:
        return None
    return replace(proposal, variant=moved) if moved.id != onto.id else None


def _other_names(base: str, ours: list[str], theirs: str) -> dict[str, str]:
    """What the names become that both sides define and that the text before them does not hold.

    Each side chose a name that is free in `base`; in one text the two would meet.
    """
    old, other = set(_WORD.findall(base)), set(_WORD.findall(theirs))
    if not (met := {word for text in ours for word in _WORD.findall(text)} & other - old):
        return {}
    taken = old | other | {word for text in ours for word in _WORD.findall(text)}
    found = {}
    for name in sorted(met & {name for text in ours for name in _defined(text)}):
        number = next(number for number in range(2, len(taken) + 3) if f"{name}_{number}" not in taken)
        found[name] = f"{name}_{number}"
    return found


def _defined(text: str) -> set[str]:
    """Variables, parameters, functions, structs and macros that a text defines."""
    source = parse(text)
    names = {name for match in _DEFINED.finditer(text) for name in match.groups() if name}
    return names | {function.name for function in source.functions} | set(source.declared(Span(0, len(source.data))))


def _merged(base: str, ours: str, theirs: str) -> str | None:
    """A three-way merge by lines; None if both sides changed the same ones, or one parts a pragma from its loop."""
    lines = base.splitlines(keepends=True)
    edits = sorted([*_edits(lines, ours), *_edits(lines, theirs)], key=lambda edit: edit[:2])
    out: list[str] = []
    at = 0
    before: _Edit | None = None
    for first, last, new in edits:
        if before is not None and (first < before[1] or (first, last) == before[:2]):
            return None
        if before is not None and first == before[0] and before[2] and before[2][-1].lstrip().startswith("#"):
            return None  # what a directive is for is what the other side replaces
        out += [*lines[at:first], *new]
        at, before = last, (first, last, new)
    return "".join([*out, *lines[at:]])


def _edits(lines: list[str], text: str) -> list[_Edit]:
    new = text.splitlines(keepends=True)
    codes = difflib.SequenceMatcher(None, lines, new, autojunk=False).get_opcodes()
    return [(i1, i2, new[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
