"""What rules make of a kernel: all that one can build, or what its operator offers of it."""

from __future__ import annotations

from pathlib import Path

from evo.cuda.source import classify, tree_difference
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.operators import RULES, Context, Rule
from evo.operators.one_change import clutter
from evo.operators.rules.operator import integers_of
from evo.spec.chips import chip
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant

DATA = Path(__file__).parents[1] / "data"
TASKS = DATA / "rules"  # a folder for each rule whose example has a task
BY_NAME = {rule.name: rule for rule in RULES}
L4 = chip("l4")


def changed(text: str, *changes: tuple[str, str]) -> str:
    """A text after some replacements, each of which has to find its text."""
    for written, otherwise in changes:
        assert written in text
        text = text.replace(written, otherwise)
    return text


def example(name: str) -> str:
    """The kernel before the first example of a rule."""
    return BY_NAME[name].examples[0].before


def task_of(name: str) -> Task:
    """The task of a rule's example."""
    return read_task(TASKS / name)


def built(rule: str | Rule, parent: str | Variant, task: Task | None = None) -> list[Variant]:
    """Every child that a rule builds, with what the task tells it: that of its example, unless one is given."""
    rule = BY_NAME[rule] if isinstance(rule, str) else rule
    variant = parse_variant(parent) if isinstance(parent, str) else parent
    told = task or task_of(rule.name)
    places = rule.applications(variant, flags=told.flags, axes=integers_of(told), task=told)
    return [child for each in places if (child := rule.build(variant, each)) is not None]


def tidy(name: str, parent: str, task: Task | None = None) -> list[Variant]:
    """As `built`, and no child has what a reader would call clutter."""
    found = built(name, parent, task)
    assert all(clutter(parent, child.text) is None for child in found)
    return found


def of_example(name: str, *changes: tuple[str, str]) -> list[Variant]:
    """What a rule makes of its example after some replacements."""
    return tidy(name, changed(example(name), *changes))


def passes(bench: EvaluationSession, task: Task, child: Variant) -> bool:
    """Whether a child passes the gate of its task."""
    return evaluate(Job(task=task, text=child.text, path="child.cu", upto="check"), bench).status.passed


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
