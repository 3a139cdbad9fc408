"""The task's hand-written rungs, in order of their file names, with the parent's tuned knob values carried over."""

from __future__ import annotations

import random
import re
from pathlib import Path

from evo.errors import TaskInvalid
from evo.operators.proposal import Context, OperatorDoc, Proposal
from evo.results import Json
from evo.spec.task import Task
from evo.spec.variant import KnobValue, Variant, read_variant

DOC = OperatorDoc(
    name="ladder",
    family="ladder",
    sentence="Proposes the next rung of the task's ladder and carries over knobs of the same name that were"
    " tuned; it skips a rejected rung, because some rungs pay only together with a later one.",
)


class Ladder:
    """Rungs after the one the parent descends from, one at a time."""

    name = "ladder"

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        del rng  # the order is the task author's
        rungs = context.task.ladder()
        position = self._position(parent, rungs, context)
        shipped = read_variant(rungs[position]).knob_values if position >= 0 else {}
        for path in rungs[position + 1 :]:
            if path.name in context.rungs_tried:
                continue
            rung = read_variant(path)
            carried = _carried(parent, rung, shipped)
            for values in (carried, {}):  # a carried value may violate the rung's limits
                child = rung.with_knobs(values) if values else rung
                if child.id != parent.id and child.id not in context.tried and context.fits(child):
                    return _proposal(path, child, values)
        return None

    def _position(self, parent: Variant, rungs: tuple[Path, ...], context: Context) -> int:
        """Index of the parent's rung; -1 if it has none."""
        names = [path.name for path in rungs]
        if context.rung is not None:
            return names.index(context.rung) if context.rung in names else -1
        same = [i for i, path in enumerate(rungs) if read_variant(path).id == parent.id]
        return same[-1] if same else -1


def _carried(parent: Variant, rung: Variant, shipped: dict[str, KnobValue]) -> dict[str, KnobValue]:
    """Values of the parent's knobs that the rung declares too, allows, and does not have already.

    Not those that the parent's own rung shipped with: nothing says that they suit another kernel better than its own.
    """
    values = {name: value for name, value in parent.knob_values.items() if shipped.get(name) != value}
    return {
        knob.name: values[knob.name]
        for knob in rung.knobs
        if knob.name in values and values[knob.name] in knob.domain and values[knob.name] != knob.value
    }


def _proposal(path: Path, child: Variant, values: dict[str, KnobValue]) -> Proposal:
    idea = child.headline or path.stem
    carried = ", ".join(f"{name} = {value}" for name, value in values.items())
    arguments: dict[str, Json] = {"rung": path.name, "carried": dict(values)}
    return Proposal(
        operator="ladder",
        kind="rung",
        variant=child,
        summary=f"rung {path.stem}" + (f" with {carried}" if carried else ""),
        reason=idea,
        expected=_expectation(child) or "what the rung's header claims; only the margin decides",
        risk="a rewrite of the whole kernel: more registers or shared memory may cost occupancy",
        next_if_kept="tune its knobs, then the next rung",
        next_if_reverted="the next rung: some pay only together",
        arguments=arguments,
    )


def _expectation(variant: Variant) -> str:
    """The header's `expects: ...` or `gain: ...` comment line, if it has one."""
    match = re.search(r"^//\s*(?:expects?|expected|gain)\s*:\s*(.+)$", variant.text, re.MULTILINE | re.IGNORECASE)
    return match[1].strip() if match else ""


def first_rung(task: Task) -> Path:
    """The first rung of a task's ladder, or what the task was adopted from. Raises TaskInvalid if it has neither."""
    original, skeleton = task.folder / "original.cu", task.folder / "skeleton.cu"
    rungs = (*task.ladder(), *([original] if original.is_file() else []))
    if not rungs:
        hint = "add a .cu file, or pass --from FILE"
        if skeleton.is_file():
            hint += f"; {skeleton} is one without a body"
        raise TaskInvalid(f"{task.folder / 'ladder'}: no rung to start from", hint=hint)
    return rungs[0]


def other_start(task: Task) -> str:
    """What to do about a kernel that a run cannot start from."""
    rungs = task.ladder()
    return (
        f"start anew with --from ladder/{rungs[0].name}" if rungs else "if it is right for you, state so in task.yaml"
    )
