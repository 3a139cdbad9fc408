"""Sizes known when the kernel is compiled: axes of the case as constants instead of arguments, and tiles that depend on
them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from evo.cuda.source import Edit, Function, Param, Span, Statement
from evo.operators.rules.directives import ceil_divs, directive_place, grid_part_of, new_knob, relaunched, require
from evo.operators.rules.lifting import NotPrinted, in_c
from evo.operators.rules.normal_form import is_guard
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels
from evo.spec.python_syntax import expression_of
from evo.spec.variant import Knob, LaunchLine

_OF_HEADERS = re.compile(r"T|[a-z]\w*")  # names that the toolkit's own headers use: as a macro one breaks them
_ENOUGH = (16, 32, 48, 64, 96, 128, 192, 256)  # blocks
_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def _find_compile_in(ctx: RuleContext) -> Iterator[Application]:
    words = Counter(re.findall(r"\w+", _CODE.sub(" ", ctx.source.text)))
    for function, _ in kernels(ctx):
        fitting = [
            (param, axis)
            for param in function.params
            if (axis := ctx.axis_of(function, param.name)) is not None
            and (axis in ctx.variant.macros or words[axis] == _own_uses(ctx, function, param, axis))
            and not _OF_HEADERS.fullmatch(axis)
            and _matters(ctx, function, param.name)
        ]
        if len(fitting) > 1:
            yield _application(ctx, function, fitting, rank=0)
        for one in fitting:
            yield _application(ctx, function, [one], rank=int(len(fitting) > 1))


def _own_uses(ctx: RuleContext, function: Function, param: Param, axis: str) -> int:
    """How often a text may say the name of an axis: as often as a parameter of that name is named, else never."""
    if param.name != axis or axis in ctx.source.declared(function.body):
        return 0
    return 1 + [name for name, _ in ctx.source.names(function.body)].count(axis)


def _matters(ctx: RuleContext, function: Function, name: str) -> bool:
    """Whether a parameter is used, beyond `if (row >= rows) return;` and what asserts are about."""
    statements = ctx.source.statements(function)
    inside = [s for top in statements for s in top.all()]
    if any(s.name == name and s.kind in ("declare", "assign", "for") for s in inside):
        return False  # hidden by another one, or changed
    if _is_unrolled(ctx, inside, name):
        return False
    asserts = [call.span for call in ctx.source.calls if call.name == "assert"]  # not there in a release
    guards = [s.condition for s in inside if is_guard(s) and s.condition is not None]
    uses = [use for found, use in ctx.source.names(function.body) if found == name]
    limits = [guard for guard in guards if _is_limit(ctx, guard, name)]
    return any(not any(span.holds(use) for span in (*limits, *asserts)) for use in uses)


def _is_unrolled(ctx: RuleContext, inside: Sequence[Statement], name: str) -> bool:
    """Whether it gives a loop its length that is unrolled whole once that is known: thousands of copies."""
    whole = {loop.span for loop in ctx.source.loops if loop.pragma is not None and not loop.factor}
    names = {name}
    for statement in inside:
        if statement.kind == "declare" and statement.reads & names:
            names.add(statement.name)
    headers = [s.header for s in inside if s.kind == "for" and s.span in whole and s.header is not None]
    return any(found in names for header in headers for found, _ in ctx.source.names(header))


def _is_limit(ctx: RuleContext, guard: Span, name: str) -> bool:
    """Whether a test only asks for a place past the end."""
    return bool(re.fullmatch(rf"\(?\s*\w+\s*>=\s*{name}\s*\)?", ctx.source.slice(guard)))


def _application(ctx: RuleContext, function: Function, axes: Sequence[tuple[Param, str]], rank: int) -> Application:
    body = function.body.start + 1
    indent = _indent(ctx, function, ctx.source.statements(function))
    # Not constexpr: the front end would warn of tests and loops that a size decides, and warnings are errors.
    lines = "".join(f"\n{indent}int {param.name} = {axis};" for param, axis in axes if param.name != axis)
    directive = directive_place(ctx, ("macro", "task"))
    edits = [Edit(directive, f"// evo: macro {axis}\n") for _, axis in axes if axis not in ctx.variant.macros]
    edits += [Edit(param.name_span, fresh(ctx, f"{param.name}_given")) for param, _ in axes]
    edits += [Edit(Span(body, body), lines)] if lines else []
    names = ", ".join(axis for _, axis in axes)
    return Application(
        edits=tuple(merged(edits)),
        summary=f"{function.name}: {names} known when compiled",
        arguments={"kernel": function.name, "axes": names},
        rank=rank,
    )


def _indent(ctx: RuleContext, function: Function, statements: Sequence[Statement]) -> str:
    first = statements[0].span.start if statements else function.body.start
    return indent_of(ctx.source, first) or "    "


def _find_sized_tiles(ctx: RuleContext) -> Iterator[Application]:
    """Launches of tiles, rows and columns by a knob each, over axes that are compiled in."""
    for function, launch in kernels(ctx):
        values = ctx.variant.integer_knobs
        tiles = {knob: axes for _, axes, knob in ceil_divs(ctx, launch) if knob in values and _in_macros(ctx, axes)}
        shape = " ".join([*tiles, *(part.text for part in launch.block)])
        knobs = [knob for knob in ctx.variant.knobs if re.search(rf"\b{knob.name}\b", shape)]
        if len(tiles) < 2 or " if " in launch.grid[0].text or not _only_in(ctx, function, knobs):
            continue
        # Twice as long and wide, in the direction of one axis of the grid only, or half as long and wide.
        sides = [
            (f"large-{'xyz'[grid_part_of(ctx, launch, at)]}", {side, *_divisors(side, shape)})
            for at, _, side in ceil_divs(ctx, launch)
            if side in tiles
        ]
        for rank, (to, those) in enumerate([("large", set(values)), *sides, ("small", set(values))]):
            changed = [knob for knob in knobs if knob.name in those]
            others = {k.name: values[k.name] // 2 if to == "small" else values[k.name] * 2 for k in changed}
            if all(others[knob.name] in knob.domain for knob in changed):
                yield replace(_sized(ctx, function, launch, tiles, changed, others, to), rank=rank)


def _divisors(knob: str, shape: str) -> list[str]:
    """What a side of a tile is divided by, to give each warp or thread its part."""
    return re.findall(rf"\b{knob}\s*//\s*(\w+)", shape)


def _in_macros(ctx: RuleContext, axes: str) -> str:
    """A number of axes in C++, if all of them are compiled in."""
    try:
        return in_c(expression_of(axes), {name: name for name in ctx.variant.macros})
    except NotPrinted:
        return ""


def _only_in(ctx: RuleContext, function: Function, knobs: Sequence[Knob]) -> bool:
    """Whether no text but a kernel's body and what declares the knobs names them."""
    body, data = function.body, ctx.source.data
    outside = _CODE.sub(" ", (data[: body.start] + b"\n" + data[body.end :]).decode())
    names = "|".join(knob.name for knob in knobs)
    outside = re.sub(rf"(?m)^[ \t]*(?:#[ \t]*define|constexpr int)[ \t]+(?:{names})\b[^\n]*", "", outside)
    directives = re.search(rb"(?m)^[ \t]*#(?![ \t]*pragma)", data[body.start : body.end])
    return not re.search(rf"\b(?:{names})\b", outside) and directives is None


def _sized(
    ctx: RuleContext,
    function: Function,
    launch: LaunchLine,
    tiles: Mapping[str, str],
    knobs: Sequence[Knob],
    others: Mapping[str, int],
    to: str,
) -> Application:
    """Two values for each knob: the larger ones where they make enough blocks."""
    word = to.partition("-")[0].upper()
    new = {knob.name: fresh(ctx, f"{knob.name}_{word}") for knob in knobs}
    local = {knob.name: fresh(ctx, knob.name.lower()) for knob in knobs}
    large, small = (new, {name: name for name in new}) if word == "LARGE" else ({name: name for name in new}, new)
    enough, is_large = fresh(ctx, "LARGE_BLOCKS"), fresh(ctx, "is_large")
    many = " * ".join(f"ceil_div({axes}, {large.get(knob, knob)})" for knob, axes in tiles.items())
    blocks = " * ".join(
        f"(({_in_macros(ctx, axes)} + {side} - 1) / {side})"
        for side, axes in ((large.get(knob, knob), axes) for knob, axes in tiles.items())
    )
    values = ", ".join(f"{local[name]} = {is_large} ? {large[name]} : {small[name]}" for name in new)
    start = function.body.start + 1
    text = (
        f"\n    // Large tiles where they are {enough} or more, else small ones: an SM without a block does nothing."
        f"\n    constexpr bool {is_large} = {blocks} >= {enough};"
        f"\n    constexpr int {values};"
    )
    sms = ctx.chip.sms if ctx.chip is not None else 64
    edits = [edit for knob in knobs for edit in new_knob(ctx, new[knob.name], _integers(knob), others[knob.name])]
    edits += new_knob(ctx, enough, _ENOUGH, max((n for n in _ENOUGH if n <= sms), default=_ENOUGH[0]))
    test = f"{many} >= {enough}"
    grid, block = (
        ", ".join(_by_size(part.text, large, small, test) for part in parts) for parts in (launch.grid, launch.block)
    )
    shared = _by_size(launch.shared.text, large, small, test)
    edits.append(relaunched(ctx, launch, grid=grid, block=block, shared=shared))
    for each in ctx.variant.requires:
        edits += require(ctx, _renamed(each.text, new)) if _renamed(each.text, new) != each.text else []
    edits.append(Edit(Span(start, function.body.end), text + _renamed(ctx.source.slice(function.body)[1:], local)))
    sizes = ", ".join(f"{name} {others[name]}" for name in new)
    return Application(
        edits=tuple(merged(edits)),
        summary=f"{function.name}: {sizes} where tiles are {'many' if word == 'LARGE' else 'few'}",
        arguments={"kernel": function.name, "to": to},
        is_schedule=True,
    )


def _by_size(text: str, large: Mapping[str, str], small: Mapping[str, str], test: str) -> str:
    """A part of a launch line with the knobs that a size decides: the test around it or, if shorter, in it."""
    if _renamed(text, large) == _renamed(text, small):
        return text
    inside = _renamed(text, {name: f"({large[name]} if {test} else {small[name]})" for name in large})
    return min(inside, f"{_renamed(text, large)} if {test} else {_renamed(text, small)}", key=len)


def _integers(knob: Knob) -> list[int]:
    return [value for value in knob.domain if isinstance(value, int)]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(rf"\b(?:{'|'.join(names)})\b", lambda found: names[found[0]], text)


RULES = (
    Rule(
        name="sized_tiles",
        sentence="Gives tiles two sizes, the large one for problems that make enough blocks of it.",
        find=_find_sized_tiles,
        examples=(Example.of_files("sized_tiles", axes=("M", "N", "K")),),
        reason="large tiles read less for each result, and leave SMs without a block where the problem is small",
        expected="each size of problem has tiles that suit it",
        risk="one compilation for each size; a size near the limit may have had the better tile before",
        next_if_kept="the knobs of the large tiles, and how many blocks are enough",
        next_if_reverted="one size of tile for all",
    ),
    Rule(
        name="compile_in",
        sentence="Makes axes of the case constants of the kernel: one binary for each distinct size.",
        find=_find_compile_in,
        examples=(
            Example.of_files("compile_in", axes=("ROWS", "COLS")),
            Example.of_files("compile_in_2", axes=("ROWS", "COLS")),
        ),
        reason="a division by an argument is some thirty instructions, and a test of one stays in the code",
        expected="shifts and products for divisions, no code for sizes that are not there, loops of known length",
        risk="one compilation for each size; none to the result",
        next_if_kept="unroll what has a known length now",
        next_if_reverted="leave the sizes to the launch: the kernel waits for memory, not for them",
    ),
)
