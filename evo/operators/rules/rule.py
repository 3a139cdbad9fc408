"""A rule: an edit that can be listed, shown and tested. Its examples are its documentation and its tests."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evo.cuda.source import Edit, Source, Span, new_dead_code, parse, syntax_errors
from evo.errors import SyntaxInvalid
from evo.operators.rules.application import Application, Find, by_launch
from evo.operators.rules.flat_view import flat_blocks
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.idle_knobs import without_idle_knobs
from evo.operators.rules.index_view import places_in_full
from evo.operators.rules.rewriting import TEMPLATE
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.text_views import views_of
from evo.operators.rules.through import found_in_view
from evo.operators.rules.whole_windows import whole_windows, windows_of_two
from evo.operators.rules.written_out import turns_written_out, written_out
from evo.spec.chips import Chip
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant

__all__ = ["Application", "Example", "Rule", "RuleContext", "by_launch", "example_variant"]

_EXAMPLES = Path(__file__).parent / "families" / "examples"
_LONGEST_TEXT, _LONGEST_LINE, _LONGEST_RUN = 200_000, 2_000, 400  # characters
_OF_INDICES = ("work", "tile", "order", "vector")  # families that move work between threads
_OF_LOOPS = (*_OF_INDICES, "atomics", "staging", "loop")  # families that read loops and subscripts
_OF_PLACES = (*_OF_LOOPS, "sizes")  # families that read indices of threads
_LINE_END = re.compile(rb";?[ \t]*\r?\n")
_RUN = re.compile(r"\s++|\S++")
_EXAMPLE_LAUNCH = "// evo: launch k grid (1) block (32) shared 0\n"
_EXAMPLE_HEAD = 'extern "C" __global__ void k(const float* a, float* o, float x, float y, int n) {\n'


@dataclass(frozen=True, slots=True)
class Example:
    """before -> after. A text without a function is the body of one; see `example_variant`."""

    before: str
    after: str
    flags: tuple[str, ...] = ()  # what the task allows
    axes: tuple[str, ...] = ()  # of the task, if the rule asks for them

    @classmethod
    def of_files(cls, name: str, *, axes: tuple[str, ...] = ()) -> Example:
        """`NAME.before.cu` and `NAME.after.cu` of families/examples."""
        before, after = ((_EXAMPLES / f"{name}.{end}.cu").read_text(encoding="utf-8") for end in ("before", "after"))
        return cls(before, after, axes=axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """find lists the places; all sentences are what a proposal says about itself.

    A shipped rule has the family that it stands in, and without examples the files of its name.
    """

    name: str
    sentence: str
    find: Find
    reason: str
    expected: str
    risk: str
    next_if_kept: str
    next_if_reverted: str
    family: str = ""
    examples: tuple[Example, ...] = ()

    def placed(self, family: str) -> Rule:
        """The rule in its family, with the files of its name as its example if it has none."""
        return replace(self, family=family, examples=self.examples or (Example.of_files(self.name),))

    def applications(
        self,
        variant: Variant,
        *,
        flags: Collection[str] = (),
        axes: Collection[str] = (),
        task: Task | None = None,
        chip: Chip | None = None,
    ) -> tuple[Application, ...]:
        """Every place this rule applies to, unchecked; `build` makes the child."""
        if not is_written_by_hand(variant.text):
            return ()
        source = parse(variant.text)
        ctx = RuleContext(variant=variant, source=source, flags=tuple(flags), axes=tuple(axes), task=task, chip=chip)
        found = self._places(ctx)
        more = tuple(found_in_view(self._places, ctx, views_of(ctx).of_counters))
        return tuple(replace(each, is_schedule=True) for each in more) if len(more) > len(found) else found

    def _places(self, ctx: RuleContext) -> tuple[Application, ...]:
        """The places in the text and in the views that show the whole of it otherwise."""
        found = self._found(ctx)
        views = [places_in_full, written_out, whole_windows, windows_of_two] if self.family in _OF_LOOPS else []
        if self.family in _OF_INDICES:
            views.append(turns_written_out)
        for view in views:
            more = tuple(found_in_view(self._found, ctx, view(ctx)))
            is_better = max((m.serves for m in more), default=0) > max((f.serves for f in found), default=0)
            if len(more) > len(found) or is_better:  # what is seen in both is proposed as the smaller change, first
                found += tuple(replace(each, is_schedule=True, rank=each.rank + bool(found)) for each in more)
        first = (
            replace(each, is_schedule=True, rank=each.rank - 1)
            for view in (views_of(ctx).first if self.family in _OF_LOOPS else ())
            for each in found_in_view(self._found, ctx, view)
        )
        return (*first, *found)

    def _found(self, ctx: RuleContext) -> tuple[Application, ...]:
        found = tuple(self.find(ctx)) or tuple(self._seen_plainly(ctx)) or tuple(self._seen_flat(ctx))
        found = found or tuple(self._seen_in_normal_form(ctx)) or tuple(self._seen_with_plain_indices(ctx))
        return found + tuple(self._in_other_kernels(ctx, found))

    def _in_other_kernels(self, ctx: RuleContext, found: Sequence[Application]) -> Iterator[Application]:
        """The places of kernels that only a view shows, in a file where another kernel's are seen without."""
        kernels = [f for f in ctx.source.functions if f.is_kernel]
        have = {each.arguments.get("kernel") for each in found}
        for kernel in kernels if have and None not in have and self.family in _OF_LOOPS else ():
            if kernel.name not in have:
                others = [f.body for f in kernels if f.name != kernel.name]
                places = self._seen_plainly(ctx, others)
                yield from (each for each in places if each.arguments.get("kernel") == kernel.name)

    def _seen_flat(self, ctx: RuleContext) -> Iterator[Application]:
        """The places in the text whose blocks are rows of threads (`flat_view`), seen in the other views too."""

        def places(view: RuleContext) -> Iterator[Application]:
            yield from tuple(self.find(view)) or tuple(self._seen_plainly(view)) or self._seen_in_normal_form(view)

        if self.family in _OF_INDICES and (flat := flat_blocks(ctx)):
            for found in found_in_view(places, ctx, flat):
                yield replace(found, is_schedule=True)

    def _seen_with_plain_indices(self, ctx: RuleContext) -> Iterator[Application]:
        """The places in the text whose indices of threads are in the words that rules know, seen in all views."""
        for found in found_in_view(self._found, ctx, views_of(ctx).of_threads if self.family in _OF_PLACES else ()):
            yield replace(found, is_schedule=True)

    def _seen_in_normal_form(self, ctx: RuleContext) -> Iterator[Application]:
        """The places in the text of which all is shown that it hides, where one view is not enough."""
        for edits, _ in views_of(ctx).normal if self.family in _OF_INDICES else ():
            for found in found_in_view(self.find, ctx, edits):
                yield replace(found, is_schedule=True)

    def _seen_plainly(self, ctx: RuleContext, without: Sequence[Span] = ()) -> Iterator[Application]:
        """The places in the text as the views show it, as changes of the text as it is written.

        without: bodies of kernels that stay as they are.
        """
        seen = views_of(ctx)
        views = [*seen.plain]
        if self.family in _OF_INDICES:
            views += seen.of_grids
        if self.family in _OF_LOOPS:
            views += seen.of_loops
        for view in views:
            always, free = ([e for e in part if not any(body.holds(e.span) for body in without)] for part in view)
            for found in found_in_view(self.find, ctx, always, free):
                yield replace(found, is_schedule=found.is_schedule or bool(always))

    def build(self, variant: Variant, application: Application) -> Variant | None:
        """The child, or None if the edit would not leave a readable, different variant behind."""
        source = parse(variant.text)
        text = source.replace(_with_line_ends_of(variant.text, application.edits))
        if application.is_schedule:
            text = without_idle_knobs(variant.text, _without_dead_code(variant.text, _without_unused(text)))
        try:
            child = parse_variant(text, path=variant.path)
        except SyntaxInvalid:
            return None
        if child.id == variant.id or len(syntax_errors(text)) > len(source.problems):
            return None
        return child


@functools.lru_cache(maxsize=16)  # every rule asks about the same parent
def is_written_by_hand(text: str) -> bool:
    """Whether a text is short enough, in every way that a rule's pattern may read it more than once for."""
    if len(text) > _LONGEST_TEXT or not parse(text).is_read:
        return False
    if max(map(len, text.split("\n"))) > _LONGEST_LINE:
        return False
    return all(match.end() - match.start() <= _LONGEST_RUN for match in _RUN.finditer(text))


def _without_unused(text: str) -> str:
    """Without variables of kernels that nothing uses any more."""
    try:
        ctx = RuleContext(variant=parse_variant(text), source=parse(text))
    except SyntaxInvalid:
        return text
    kernels = [function for function in ctx.source.functions if function.is_kernel]
    return ctx.source.replace([edit for each in kernels for edit in without_unused(ctx, each, each.body, [])])


def _without_dead_code(parent: str, text: str) -> str:
    """Without what only the old body used."""
    source = parse(text)
    dead = [each.span for each in new_dead_code(parent, text) if each.what != "statements"]
    return source.replace([Edit(_with_its_head(source, span), "") for span in dead])


def _with_its_head(source: Source, span: Span) -> Span:
    """With the `template <...>` in front, and the end of the line."""
    head = TEMPLATE.search(source.data[: span.start])
    start = head.start() if head is not None else span.start
    after = _LINE_END.match(source.data, span.end)
    return Span(start, after.end() if after is not None else span.end)


def _with_line_ends_of(text: str, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits, their lines ended as those of the text are."""
    if not 0 < text.count("\n") == text.count("\r\n"):
        return edits
    return tuple(Edit(edit.span, edit.text.replace("\r\n", "\n").replace("\n", "\r\n")) for edit in edits)


def example_variant(text: str) -> Variant:
    """A whole variant around an example: a launch line if it has none, a kernel if it has no function."""
    if "__global__" not in text and "__device__" not in text:
        top = [line for line in text.splitlines(keepends=True) if line.startswith(("// evo:", "#define"))]
        body = [line for line in text.splitlines(keepends=True) if line not in top]
        text = "".join(top) + _EXAMPLE_HEAD + "".join(body) + "}\n"
    return parse_variant(text if "// evo: launch" in text else _EXAMPLE_LAUNCH + text, path="<example>")
