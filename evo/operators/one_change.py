"""Whether a proposal is the one change that its kind says, told from the syntax trees of parent and child.

mutation: its edits belong together (`evo.cuda.source.classify`).
schedule: by a rule, one kernel with the functions that it calls: the same results, other threads, tiles or loops.
plan: two to six steps, each of them one change of the variant before it.
transplant: within one function, and what that function needs at file level.
rung: the text of a rung, knob values aside.
rewrite: whole kernels or the whole file, said to be that, and counted by itself.
start: has no parent and claims no gain.
Code that no launch reaches is no change: whoever adds it, or leaves it behind, is refused.
A configuration that `derive` sets is one change of several knobs, since it was derived as one.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

from evo.cuda.source import Change, classify, moved_launches, new_dead_code, parse, split, tree_difference
from evo.errors import SyntaxInvalid
from evo.operators.proposal import Proposal
from evo.spec.task import Task
from evo.spec.variant import Variant, read_variant

_MOST_STEPS = 6  # of a plan
_SHOWN = 4  # pieces of dead code in a sentence
_WORD = re.compile(r"\w+|\S")
_DECLARED = re.compile(r"\b\w+[\s*&]+([A-Za-z_]\w*)\s*(?:=(?!=)|[;{\[])|#\s*define\s+(\w+)")


def not_one_change(task: Task, proposal: Proposal, parent: Variant | None) -> str | None:
    """Why a proposal is refused: it begins with `not one change`, `no change` or `clutter`. None if it may be tried."""
    if parent is None or proposal.kind == "start":
        return None
    if proposal.kind == "rung":
        name = proposal.arguments.get("rung")
        found = rung_of(task, proposal.variant, str(name) if name is not None else None)
        return None if found is not None else f"not one change: the text is not that of rung {name}, knob values aside"
    if proposal.kind == "plan":
        return _not_a_line(task, proposal, parent)
    change = tree_difference(parent.text, proposal.text)
    verdict = classify(change)
    if verdict.kind == "none":
        return f"no change: {verdict.why}"
    if proposal.operator == "derive" and all(region.part == "knob" for region in change.regions):
        return None
    if (dead := clutter(parent.text, proposal.text)) is not None:
        return f"clutter: {dead}"
    if proposal.kind == "rewrite":
        return None
    if (moved := relaunched(parent.text, proposal.text)) is not None:
        return f"not one change: {moved}"
    if proposal.kind == "schedule":
        kernels = {function.name for function in parse(parent.text).functions if function.is_kernel}
        ours = kernels.intersection(change.scopes)
        return None if len(ours) <= 1 else f"not one change: a schedule is of one kernel, this touches {len(ours)}"
    if proposal.kind == "transplant" and not change.too_many:
        touched = len(change.scopes)
        return None if touched <= 1 else f"not one change: a transplant is of one function, this touches {touched}"
    return None if verdict.is_single else f"not one change: {verdict.why}"


def _not_a_line(task: Task, proposal: Proposal, parent: Variant) -> str | None:
    """Why the steps of a plan do not lead from the parent to the proposal by single changes."""
    steps = proposal.steps
    if not 2 <= len(steps) <= _MOST_STEPS or steps[-1].variant.id != proposal.variant.id:
        return f"not one change: a plan has 2 to {_MOST_STEPS} steps, and the last one leads to its text"
    for number, step in enumerate(steps, 1):
        why = "no single change" if step.kind not in ("mutation", "schedule") else not_one_change(task, step, parent)
        if why is not None:
            return f"not one change: step {number} of the plan: {why}"
        parent = step.variant
    return None


def kind_of_edit(parent: str, child: str) -> Literal["mutation", "rewrite"]:
    """What a text is to its parent: one change, or more than that."""
    is_single = classify(tree_difference(parent, child)).is_single
    return "mutation" if is_single and relaunched(parent, child) is None else "rewrite"


def clutter(parent: str, child: str) -> str | None:
    """What a child adds or leaves behind that no launch reaches; None if there is no such code."""
    dead = new_dead_code(parent, child)
    if not dead:
        return None
    shown = "; ".join(str(each) for each in dead[:_SHOWN])
    more = f"; and {len(dead) - _SHOWN} more" if len(dead) > _SHOWN else ""
    return f"no launch reaches {shown}{more}; take it out"


def relaunched(parent: str, child: str) -> str | None:
    """Says so if a launch line has moved to other code, which is a rewrite; None otherwise."""
    moved = moved_launches(parent, child)
    return f"the launch moves from {moved[0]} to other code, {moved[1]}, which is a rewrite" if moved else None


def rung_of(task: Task, child: Variant, name: str | None = None) -> str | None:
    """The file name of the rung (of any, or the named one) that a variant is, knob values aside."""
    for path in task.ladder():
        if name is not None and path.name != name:
            continue
        rung = read_variant(path)
        if rung.knob_values.keys() != child.knob_values.keys():
            continue
        try:
            if rung.with_knobs(child.knob_values).id == child.id:
                return path.name
        except SyntaxInvalid:
            continue
    return None


def parts(parent: Variant, text: str) -> list[tuple[str, str]]:
    """The changes that a text holds, each in words and as the parent with that change alone."""
    return split(parent.text, tree_difference(parent.text, text))


def edit_key(change: Change, parent: str) -> str:
    """The same for the same edit of the same statements, wherever they stand and whatever else has changed.

    Blank space does not count, nor how the edit names what it declares.
    """
    data = parent.encode()
    old = set(_WORD.findall(parent))
    declared = [name for r in change.regions for pair in _DECLARED.findall(r.after) for name in pair if name]
    fresh = {name: f"${place}" for place, name in enumerate(dict.fromkeys(n for n in declared if n not in old))}

    def words(text: str) -> str:
        return " ".join(fresh.get(word, word) for word in _WORD.findall(text))

    lines = sorted(
        f"{r.scope} {r.part} {words(data[r.statement.start : r.statement.end].decode())} | {words(r.before)}"
        f" | {words(r.after)}"
        for r in change.regions
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
