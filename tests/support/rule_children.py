"""What a rule makes of a kernel: all that it can build, or what its operator offers of it."""

from __future__ import annotations

from evo.cuda.source import classify, tree_difference
from evo.operators import Context, Rule
from evo.operators.rules.operator import integers_of
from evo.spec.chips import chip
from evo.spec.task import Task
from evo.spec.variant import Variant

L4 = chip("l4")


def built(rule: Rule, parent: Variant, task: Task) -> list[Variant]:
    """Every child that a rule builds, with what the task tells it."""
    places = rule.applications(parent, flags=task.flags, axes=integers_of(task), task=task)
    return [child for each in places if (child := rule.build(parent, each)) is not None]


def children(rule: Rule, task: Task, parent: Variant, *, most: int) -> list[tuple[str, Variant]]:
    """The first proposals of a rule that the operator would offer."""
    found = []
    for application in rule.applications(parent, flags=task.flags, axes=integers_of(task), task=task):
        child = rule.build(parent, application)
        if child is None or not Context(task=task, chip=L4).fits(child):
            continue
        if classify(tree_difference(parent.text, child.text)).is_single:
            found.append((application.summary, child))
        if len(found) == most:
            break
    return found
