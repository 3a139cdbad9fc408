"""Kernels with what stands elsewhere, or in a roundabout form, written out: macros, functions of the file, loops that a
`break` ends, sums in several variables. Rules find their places in that text; a child that comes of it has it so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from evo.cuda.source import Edit
from evo.errors import SyntaxInvalid
from evo.operators.rules.one_turn import one_turn
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.through import through
from evo.operators.rules.written_out.calls import called_out
from evo.operators.rules.written_out.endings import with_tests
from evo.operators.rules.written_out.fields import with_fields_apart
from evo.operators.rules.written_out.macros import expanded_uses
from evo.operators.rules.written_out.methods import methods_apart, templates_in, without_templates
from evo.operators.rules.written_out.names import without_references, without_shadows
from evo.operators.rules.written_out.rolled import with_single_steps
from evo.operators.rules.written_out.single_stores import with_single_stores
from evo.operators.rules.written_out.sums import with_single_sums
from evo.spec.recent_cache import RecentCache

_STEPS: tuple[Callable[[RuleContext], Sequence[Edit]], ...] = (
    expanded_uses,
    without_templates,
    methods_apart,
    with_tests,
    called_out,
    with_fields_apart,
    without_references,
    without_shadows,
    with_single_sums,
    with_single_stores,
    with_single_steps,
)
_MOST = 60  # steps: each writes out one thing or several
_LONGEST = 60_000  # bytes
_KEPT = 16  # texts; all rules look at one parent, one after the other
_WRITTEN: RecentCache[list[Edit]] = RecentCache(_KEPT)


def written_out(ctx: RuleContext) -> list[Edit]:
    """The bodies of kernels anew in which there was something to write out; none if there was nothing."""
    return _WRITTEN.made((ctx.source.text, ctx.axes), lambda: _bodies(ctx))  # no step asks for more of a task


def _bodies(ctx: RuleContext) -> list[Edit]:
    # Macros that open or close a block hide the functions that they stand in.
    first = expanded_uses(ctx, everywhere=True) if ctx.source.problems else []
    try:
        start = view = ctx.after(first) if first else ctx
    except SyntaxInvalid:
        return []
    for _ in range(_MOST):
        edits = next((made for step in _STEPS if (made := step(view))), None)
        if edits is None:
            break
        try:
            view = view.after(edits)
        except SyntaxInvalid:
            return []
        if len(view.source.data) > _LONGEST or len(view.source.problems) > len(ctx.source.problems):
            return []
    bodies = {f.name: view.source.slice(f.body) for f in view.source.functions if f.is_kernel}
    known = {f.name for f in ctx.source.functions}
    made_here = {f.name for f in view.source.functions} - known  # of methods, which the text itself does not have
    if any(re.search(rf"\b{name}\b", body) for name in made_here for body in bodies.values()):
        return []
    if any(re.search(rf"\b{name}\b(?!\s*<)", body) for name in templates_in(ctx) for body in bodies.values()):
        return []  # a struct that is a template outside of the view
    made = [
        Edit(f.body, bodies[f.name])
        for f in start.source.functions
        if f.is_kernel and f.name in bodies and bodies[f.name] != start.source.slice(f.body)
    ]
    return list(through(start.source, first, made)) if first else made


def turns_written_out(ctx: RuleContext) -> list[Edit]:
    """The same of the text whose loops over the grid are one turn, and these; none if there is no such loop."""
    return _WRITTEN.made((ctx.source.text, ctx.axes, "turns"), lambda: _of_turns(ctx))


def _of_turns(ctx: RuleContext) -> list[Edit]:
    turned = one_turn(ctx)
    try:
        view = ctx.after(turned) if turned else None
    except SyntaxInvalid:
        return []
    made = _bodies(view) if view is not None else []
    return list(through(view.source, turned, made)) if view is not None and made else turned
