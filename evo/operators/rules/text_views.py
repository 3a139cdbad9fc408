"""The ways in which a text is shown to rules that find nothing in it as it is written, worked out once for all rules.

The views: `index_view`, `plain_view`, `one_turn`, `counted_view` (behind the first too), `joined_nests`,
`kept_value_view`, `register_sum_view`, `recurrence_view` and `braced_view`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from evo.cuda.source import Edit
from evo.errors import SyntaxInvalid
from evo.operators.rules.braced_view import braced
from evo.operators.rules.counted_view import counted
from evo.operators.rules.index_view import places_in_full, plain_indices
from evo.operators.rules.joined_nests import joined_nests
from evo.operators.rules.kept_value_view import with_kept_value
from evo.operators.rules.one_turn import one_turn
from evo.operators.rules.plain_view import own_counters, passed_on, plain_types, sole_counters
from evo.operators.rules.recurrence_view import with_last_elements
from evo.operators.rules.register_sum_view import with_register_sums, with_sums_in_turn
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import through
from evo.operators.rules.written_out import written_out
from evo.spec.recent_cache import RecentCache

View = tuple[list[Edit], list[Edit]]  # edits, and those that are left out where an application does not touch them

_KEPT = 16  # texts; all rules look at one parent, one after the other


class Views:
    """The views of one text."""

    def __init__(self, ctx: RuleContext) -> None:
        self.ctx = ctx

    @cached_property
    def plain(self) -> tuple[View, ...]:
        """Of functions that only pass on, and of names for types."""
        passed = list(passed_on(self.ctx.source))
        inside = [edit.span for edit in passed]
        types = [edit for edit in plain_types(self.ctx.source) if not any(span.holds(edit.span) for span in inside)]
        return ((passed, types),) if passed or types else ()

    @cached_property
    def of_counters(self) -> list[Edit]:
        """Of loops that declare what they count by, and count by one thing."""
        return own_counters(self.ctx.source) or sole_counters(self.ctx.source)

    @cached_property
    def of_threads(self) -> list[Edit]:
        """Of the indices of threads, behind which all other views are taken."""
        return plain_indices(self.ctx)

    @cached_property
    def of_grids(self) -> tuple[View, ...]:
        """Of loops over the grid, as they are written or as they count up."""
        if turned := one_turn(self.ctx):
            return ((turned, []),)
        again = (
            found
            for edits in (*(edits for edits, _ in self._counted_up), written_out(self.ctx))
            for found in self._behind(edits, one_turn)
        )
        return tuple(again)

    @cached_property
    def first(self) -> tuple[list[Edit], ...]:
        """Of loops that rules are to see before the text as it is written: nests as one loop, sums one by one."""
        made = joined_nests(self.ctx)
        if not made and len(self.ctx.source.loops) > 1:
            edits, view, _ = self._shown((_plain, places_in_full, written_out, counted, one_turn, with_register_sums))
            joined = joined_nests(view) if edits else []
            made = list(through(view.source, edits, joined)) if joined else []
        elif made:  # a sum in memory hides the loop over it too
            view = self.ctx.after(made)
            made = list(through(view.source, made, with_register_sums(view)))
        return made, with_sums_in_turn(self.ctx)

    @cached_property
    def of_loops(self) -> tuple[View, ...]:
        """Of how loops count, of what they carry, and of what stands in them alone."""
        made = (
            with_kept_value(self.ctx),
            with_register_sums(self.ctx),
            with_last_elements(self.ctx),
            braced(self.ctx),
        )
        turned = self._counted_up
        carried = (with_last_elements, with_register_sums)
        again = tuple(view for edits, _ in turned for view in self._behind(edits, *carried))
        return (*turned, *again, *((edits, []) for edits in made if edits))

    @cached_property
    def normal(self) -> tuple[View, ...]:
        """Of all that the text hides, one thing shown behind the other; none where that is one thing at most."""
        steps = (_plain, written_out, counted, one_turn, with_register_sums, with_last_elements)
        edits, _, count = self._shown(steps)
        return ((edits, []),) if count > 1 else ()

    def _shown(self, steps: Iterable[Callable[[RuleContext], list[Edit]]]) -> tuple[list[Edit], RuleContext, int]:
        """The edits of all steps, each behind those before it, what is seen then, and how many steps had some."""
        edits, view, count = list[Edit](), self.ctx, 0
        for step in steps:
            if made := step(view):
                edits = list(through(view.source, edits, made)) if edits else list(made)
                try:
                    view, count = self.ctx.after(edits), count + 1
                except SyntaxInvalid:
                    return [], self.ctx, 0
        return edits, view, count

    @cached_property
    def _counted_up(self) -> tuple[View, ...]:
        return tuple(self._counted())

    def _behind(self, edits: list[Edit], *steps: Callable[[RuleContext], list[Edit]]) -> Iterator[View]:
        """What steps make of the text that edits make."""
        try:
            view = self.ctx.after(edits) if edits else None
        except SyntaxInvalid:
            return
        for step in steps if view is not None else ():
            if view is not None and (made := step(view)):
                yield list(through(view.source, edits, made)), []

    def _counted(self) -> Iterator[View]:
        """Edits after which loops count up and pointers stay: of the text, and of how else it is seen."""
        if made := counted(self.ctx):
            yield made, []
            return
        plain = [edit for passed, types in self.plain for edit in (*passed, *types)]
        if plain:
            try:
                other = self.ctx.after(plain)
            except SyntaxInvalid:
                return
            if made := counted(other):
                yield list(through(other.source, plain, made)), []


def _plain(ctx: RuleContext) -> list[Edit]:
    return [edit for view in Views(ctx).plain for part in view for edit in part]


_SEEN: RecentCache[Views] = RecentCache(_KEPT)  # a view keeps its task, so its id is


def views_of(ctx: RuleContext) -> Views:
    """The views of a text, which no rule changes."""
    key = (ctx.source.text, ctx.written, ctx.axes, id(ctx.task), ctx.chip.slug if ctx.chip is not None else "")
    return _SEEN.made(key, lambda: Views(ctx))
