"""A rule: an edit that can be listed, shown and tested. Its examples are its documentation and its tests."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from evo.cuda.source import Edit, Function, Source, Span, classify, parse, syntax_errors, tree_difference
from evo.errors import SyntaxInvalid
from evo.operators.proposal import Context, Proposal
from evo.results import Json
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant

_INTEGERS = frozenset(("int", "int32_t", "unsigned", "unsigned int", "uint32_t", "signed int"))  # as a task passes one
_LOSER = 100  # ranks that a change falls behind where it has failed in this run
_EXAMPLE_LAUNCH = "// evo: launch k grid (1) block (32) shared 0\n"
_EXAMPLE_HEAD = 'extern "C" __global__ void k(const float* a, float* o, float x, float y, int n) {\n'


@dataclass(frozen=True, slots=True)
class Example:
    """before -> after. A text without a function is the body of one; see `example_variant`."""

    before: str
    after: str
    flags: tuple[str, ...] = ()  # what the task allows
    axes: tuple[str, ...] = ()  # of the task, where the rule asks for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One place where a rule applies. rank: smaller is proposed earlier (neighbouring values first)."""

    edits: tuple[Edit, ...]
    summary: str
    arguments: dict[str, Json] = field(default_factory=dict)
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a rule looks at: the parent, its tree, and of the task the allowed flags and the integers that it passes.

    axes: a kernel's last parameters are these or the first of them; an empty one stands for a scalar (`integers_of`).
    """

    variant: Variant
    source: Source
    flags: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()

    def axis_of(self, function: Function, name: str) -> str | None:
        """The axis that an int parameter of a kernel holds, or an int of its own that is that axis's macro, or None."""
        if (value := self.constant(function, name)) is not None:
            return value if value in self.axes and value in self.variant.macros else None
        ints = [param for param in function.params if param.type.removeprefix("const ") in _INTEGERS]
        for place, param in enumerate(ints):
            if param.name == name and len(ints) <= len(self.axes) and ints == list(function.params[-len(ints) :]):
                return self.axes[place] or None if param.type in ("int", "const int") else None
        return None

    def constant(self, function: Function, name: str) -> str | None:
        """What an int at the top of a kernel's body is set to, where nothing ever changes it; else None.

        An axis that is compiled in by its own name is set to itself.
        """
        if name in self.axes and name in self.variant.macros:
            return name
        tops = self.source.statements(function)
        inside = [s for top in tops for s in top.all() if s.name == name and s.kind in ("declare", "assign", "for")]
        if len(inside) != 1 or inside[0] not in tops or name in self.source.hidden_writes(function):
            return None
        (only,) = inside
        if only.value is None or only.dims or only.type.split() not in (["int"], ["const", "int"]):
            return None
        return self.source.slice(only.value).strip()

    def reads(self, function: Function, name: str) -> tuple[Span, ...]:
        """All reads of a pointer that is never written; () where one stands in another's index, since edits nest."""
        if self.source.is_written(function, name):
            return ()
        spans = self.source.reads_of(function, name)
        return () if any(one != other and one.holds(other) for one in spans for other in spans) else spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """find lists the places; everything else is what a proposal says about itself."""

    name: str
    family: str
    sentence: str
    find: Callable[[Scene], Iterable[Application]]
    examples: tuple[Example, ...]
    reason: str
    expected: str
    risk: str
    next_if_kept: str
    next_if_reverted: str

    def applications(
        self, variant: Variant, *, flags: Collection[str] = (), axes: Collection[str] = ()
    ) -> tuple[Application, ...]:
        """Every place this rule applies to, unchecked; `build` makes the child."""
        scene = Scene(variant=variant, source=source_of(variant.text), flags=tuple(flags), axes=tuple(axes))
        return tuple(self.find(scene))

    def build(self, variant: Variant, application: Application) -> Variant | None:
        """The child, or None where the edit would not leave a readable, different variant behind."""
        source = source_of(variant.text)
        text = source.replace(_with_line_ends_of(variant.text, application.edits))
        try:
            child = parse_variant(text, path=variant.path)
        except SyntaxInvalid:
            return None
        if child.id == variant.id or len(syntax_errors(text)) > len(source.problems):
            return None
        return child


def _with_line_ends_of(text: str, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits, their lines ended as those of the text are."""
    if not 0 < text.count("\n") == text.count("\r\n"):
        return edits
    return tuple(Edit(edit.span, edit.text.replace("\r\n", "\n").replace("\n", "\r\n")) for edit in edits)


class _Place:
    """Where one rule applies to one parent, and what comes of it, worked out when it is first asked for."""

    def __init__(self, parent: Variant, rule: Rule, application: Application) -> None:
        self.parent, self.rule, self.application = parent, rule, application
        self.key = change_key(rule, application)

    @property
    def rank(self) -> int:
        return self.application.rank

    @functools.cached_property
    def child(self) -> Variant | None:
        return self.rule.build(self.parent, self.application)

    @functools.cached_property
    def is_one_change(self) -> bool:
        """Whether it can be shown to be one; a rule may not be able to at every place."""
        return self.child is not None and classify(tree_difference(self.parent.text, self.child.text)).is_single


class RuleOperator:
    """All rules of one family as one arm: lowest rank first, drawn by the generator within a rank."""

    def __init__(self, family: str, rules: tuple[Rule, ...]) -> None:
        self.name = f"rules.{family}"
        self.rules = rules
        self._places: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[_Place]] = {}  # of the last parent

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        places = [
            (place.rank + (_LOSER if place.key in context.losers else 0), rng.random(), place)
            for place in self._all(parent, context.task)
        ]
        for _, _, place in _in_turn(places):
            child, rule = place.child, place.rule
            if child is None or child.id in context.tried or not place.is_one_change or not context.fits(child):
                continue
            return Proposal(
                operator=self.name,
                kind="mutation",
                variant=child,
                summary=place.application.summary,
                reason=rule.reason,
                expected=rule.expected,
                risk=rule.risk,
                next_if_kept=rule.next_if_kept,
                next_if_reverted=rule.next_if_reverted,
                arguments={"rule": rule.name, "change_key": place.key, **place.application.arguments},
            )
        return None

    def _all(self, parent: Variant, task: Task) -> list[_Place]:
        """Every place of every rule; kept, since a parent is asked about for as many proposals as are screened."""
        flags, axes = task.flags, integers_of(task)
        key = (parent.text, flags, axes)
        if key not in self._places:
            found = [
                _Place(parent, rule, each)
                for rule in self.rules
                for each in rule.applications(parent, flags=flags, axes=axes)
            ]
            self._places = {key: found}
        return self._places[key]


def integers_of(task: Task) -> tuple[str, ...]:
    """What a kernel takes as its last parameters of 32 bits: the axes' names, behind an empty one for each scalar."""
    return (*("" for scalar in task.scalars if scalar.dtype == "int32"), *task.axes)


def _in_turn(places: Iterable[tuple[int, float, _Place]]) -> list[tuple[int, float, _Place]]:
    """By rank; within a rank the rules take turns, so that one with many places does not crowd the others out."""
    seen: dict[tuple[int, str], int] = {}
    turns = []
    for place in sorted(places, key=lambda place: place[:2]):
        key = (place[0], place[2].rule.name)
        seen[key] = seen.get(key, 0) + 1
        turns.append((seen[key], place))
    return [place for _, place in sorted(turns, key=lambda turn: (turn[1][0], turn[0], turn[1][1]))]


def change_key(rule: Rule, application: Application) -> str:
    """What a change is, apart from where it started: the same for `64 -> 128` and `32 -> 128`."""
    chosen = {name: value for name, value in application.arguments.items() if name not in ("from", "line")}
    return json.dumps({"rule": rule.name, **chosen}, sort_keys=True)


def source_of(text: str) -> Source:
    """The tree of a text; a parent is asked about by every rule."""
    return parse(text)


def example_variant(text: str) -> Variant:
    """A whole variant around an example: a launch line where it has none, a kernel where it has no function."""
    if "__global__" not in text and "__device__" not in text:
        top = [line for line in text.splitlines(keepends=True) if line.startswith(("// evo:", "#define"))]
        body = [line for line in text.splitlines(keepends=True) if line not in top]
        text = "".join(top) + _EXAMPLE_HEAD + "".join(body) + "}\n"
    return parse_variant(text if "// evo: launch" in text else _EXAMPLE_LAUNCH + text, path="<example>")
