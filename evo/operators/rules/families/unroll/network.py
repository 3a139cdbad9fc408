"""Loops over data that keep or put an array of a thread in order, as comparisons at fixed places."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Sequence

from evo.analysis.access import LaunchAnalysis, Term
from evo.analysis.access.carried_out import CarriedOut, Names, Storage, Unfollowed, constants_of
from evo.cuda.source import Edit, Function, Span, Statement
from evo.cuda.source.parser import Node
from evo.cuda.source.statements import names_in
from evo.operators.rules.loops import unrolled
from evo.operators.rules.rewriting import fresh, indent_of
from evo.operators.rules.rule import Application, Rule, RuleContext, by_launch

_FEWEST, _MOST = 3, 32  # elements
_DRAWN = 40  # orders that are tried of more elements than all orders are tried of
_ALL = 4  # elements, all orders of which are tried
_FOLLOWED = ("for_statement", "while_statement", "compound_statement", "expression_statement")
_EXTREMA = {"float": ("fminf", "fmaxf"), "double": ("fmin", "fmax")}


def _find(ctx: RuleContext) -> Iterator[Application]:
    for function in ctx.source.functions:
        if function.is_kernel:
            for name, size, declaration in _arrays(ctx, function):
                yield from _sorted_places(ctx, function, name, size, declaration)


def _arrays(ctx: RuleContext, function: Function) -> Iterator[tuple[str, int, Node]]:
    """Small arrays of a thread with their sizes, and where they are declared."""
    for node in ctx.source.nodes():
        if node.type != "declaration" or not function.body.holds(Span(node.start_byte, node.end_byte)):
            continue
        for declarator in node.children_of("declarator") if "__shared__" not in node.text else ():
            array = declarator.child("declarator") if declarator.type == "init_declarator" else declarator
            if array is None or array.type != "array_declarator":
                continue
            name, size = array.child("declarator"), array.child("size")
            length = ctx.source.integer(size.text) if size is not None else None
            if name is not None and name.type == "identifier" and length in range(_FEWEST, _MOST + 1):
                yield name.text, length or 0, node


def _sorted_places(
    ctx: RuleContext, function: Function, name: str, size: int, declaration: Node
) -> Iterator[Application]:
    around = declaration.parent
    if around is None:
        return
    later = [each for each in around.inside if each.start_byte > declaration.start_byte]
    for at, node in enumerate(later):
        if name not in _names(node) or node.type not in _FOLLOWED:
            continue
        behind = [*_reads(ctx, name, later[at + 1 :])]
        places = set(behind) if None not in behind else set(range(size))
        order = _order(ctx, name, size, node)
        if order is None or not places or not _stays_inside(node, later[at + 1 :]):
            continue
        if found := [is_falling for is_falling in (False, True) if places <= order[is_falling]]:
            edits = _edits(ctx, function, name, size, node, is_falling=found[0])
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name}: a network of comparisons sorts {name}",
                arguments={"function": function.name, "array": name},
                rank=-1,
                is_schedule=True,
            )
            return


def _names(node: Node) -> set[str]:
    return {each.text for each in names_in(node)}


def _reads(ctx: RuleContext, name: str, nodes: Sequence[Node]) -> Iterator[int | None]:
    """The places of the array that are read in some statements; None for one that the text does not tell."""
    for each in (each for node in nodes for each in names_in(node) if each.text == name):
        at = each.parent
        place = at.child("indices") if at is not None and at.type == "subscript_expression" else None
        try:
            yield CarriedOut(constants_of(ctx.source), {}).whole(place.inside[0]) if place is not None else None
        except Unfollowed:
            yield None


def _stays_inside(node: Node, behind: Sequence[Node]) -> bool:
    """Whether variables that are set in a statement and declared outside of it are set again before they are read."""
    inside = {each.text for each in _declared(node)}
    changed = {
        place.text
        for each in node.walk()
        if each.type in ("assignment_expression", "update_expression")
        and (place := each.child("left") or each.child("argument")) is not None
        and place.type == "identifier"
    }
    return all(_is_set_first(name, behind) for name in changed - inside)


def _declared(node: Node) -> Iterator[Node]:
    for each in node.walk():
        for declarator in each.children_of("declarator") if each.type == "declaration" else ():
            yield from (name for name in declarator.walk() if name.type == "identifier" and name.field == "declarator")


def _is_set_first(name: str, nodes: Sequence[Node]) -> bool:
    first = next(
        (each for node in nodes for each in node.walk() if each.type == "identifier" and each.text == name), None
    )
    around = first.parent if first is not None else None
    return around is None or (around.type == "assignment_expression" and first is around.child("left"))


def _order(ctx: RuleContext, name: str, size: int, node: Node) -> tuple[set[int], set[int]] | None:
    """The places whose elements a statement puts where they belong, in rising order and in falling order.

    None if it does anything else, or if it is not followed.
    """
    functions = {
        head.text: each
        for each in ctx.source.nodes()
        if each.type == "function_definition"
        and (declarator := each.child("declarator")) is not None
        and (head := declarator.child("declarator")) is not None
    }
    outside = _outside(node, name, ctx)
    rising, falling = set(range(size)), set(range(size))
    for values in _inputs(size):
        given = Storage([*values], is_start=True)
        names: Names = {name: given, **constants_of(ctx.source)}
        names |= {each: Storage([]) for each in outside}
        try:
            CarriedOut(names, functions).run(node)
        except (Unfollowed, ValueError, RecursionError):
            return None
        ordered = sorted(values)
        rising = {at for at in rising if given.of[at] == ordered[at]}
        falling = {at for at in falling if given.of[at] == ordered[size - 1 - at]}
        if not rising and not falling:
            return None
    return rising, falling


def _outside(node: Node, name: str, ctx: RuleContext) -> set[str]:
    """Variables that a statement sets and does not declare: nothing is known of what they hold before."""
    return _names(node) - {each.text for each in _declared(node)} - {name} - {d.name for d in ctx.source.defines}


@functools.lru_cache(maxsize=_MOST)
def _inputs(size: int) -> tuple[tuple[int, ...], ...]:
    """Orders of elements, equal ones among them."""
    if size <= _ALL:
        return tuple(itertools.product(range(size), repeat=size))
    draw = random.Random(size)
    found = [draw.sample(range(size), size) for _ in range(_DRAWN)]
    found += [[draw.randrange(2) for _ in range(size)] for _ in range(_DRAWN)]
    found += [[*range(size)], [*reversed(range(size))], [0] * size]
    return tuple(map(tuple, found))


def _edits(
    ctx: RuleContext, function: Function, name: str, size: int, node: Node, *, is_falling: bool
) -> Iterator[Edit]:
    """The network in place of the statement, and all other loops over the array unrolled."""
    element = ctx.source.element_type(function.name, name) or "float"
    indent = indent_of(ctx.source, node.start_byte)
    part, step, low, high, offset = (fresh(ctx, word) for word in ("part", "step", "low", "high", "offset"))
    first, last = fresh(ctx, "first"), fresh(ctx, "last")
    one, other = f"{name}[{low}]", f"{name}[{high}]"
    least, most = (
        (f"{_EXTREMA[element][at]}({one}, {other})" for at in range(2))
        if element in _EXTREMA
        else (f"{one} < {other} ? {one} : {other}", f"{one} < {other} ? {other} : {one}")
    )
    if is_falling:
        least, most = most, least
    same = f"{low} / (2 * {part}) == {high} / (2 * {part})"
    lines = [
        f"// A network of comparisons at fixed places sorts {name}, which stays in registers.",
        "#pragma unroll",
        f"for (int {part} = 1; {part} < {size}; {part} *= 2) {{",
        "#pragma unroll",
        f"    for (int {step} = {part}; {step} > 0; {step} /= 2) {{",
        "#pragma unroll",
        f"        for (int {low} = 0; {low} < {size}; ++{low}) {{",
        f"            const int {high} = {low} + {step}, {offset} = {low} - {step} % {part};",
        f"            if ({high} < {size} && {offset} >= 0 && {offset} / {step} % 2 == 0 && {same}) {{",
        f"                const {element} {first} = {least};",
        f"                const {element} {last} = {most};",
        f"                {one} = {first}, {other} = {last};",
        "            }",
        "        }",
        "    }",
        "}",
    ]
    text = "\n".join(line if line.startswith("#") else f"{indent}{line}" for line in lines)
    span = Span(node.start_byte, node.end_byte)
    start = ctx.source.line_start(span.start)
    is_first = not ctx.source.data[start : span.start].strip()
    yield Edit(Span(start, span.end) if is_first else span, text if is_first else f"\n{text}")
    for loop in ctx.source.loops:
        inside = [at for word, at in ctx.source.names(loop.span) if word == name]
        if loop.function == function.name and inside and not span.holds(loop.span) and loop.pragma is None:
            yield from unrolled(ctx.source, loop.span)


def _find_kept(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    """Loops that put each element in among the few largest or smallest, at a place that data chooses."""
    for found in analysis.reductions:
        ours = [a for a in analysis.form.accesses if a.number in found.accesses]
        if not found.kind.endswith("_few") or all(a.index is not None and a.index.value is not None for a in ours):
            continue
        loop = analysis.form.loops[found.loops[0]]
        statement = next((s for s in ctx.source.inside(function) if s.span == loop.span), None)
        arrays = {a.memory.name for a in ours}
        element = _element(ctx, statement, arrays) if statement is not None else None
        if statement is None or statement.body_span is None or element is None:
            continue
        kept, name = element
        count = len(found.names) // (2 if found.kind.startswith("arg") else 1)
        places = found.names[count:]
        turns = [a.value.detail for a in ours if places and a.value is not None and a.value.op == "index"]
        if any(turn != Term.of(loop.symbol) for turn in turns):
            continue  # what is kept as an element's place is no name
        lines = _put_in(found.names[:count], places, (name, loop.symbol.name), "<>"["largest" in found.kind])
        indent = indent_of(ctx.source, statement.span.start)
        inner = "".join(f"\n{indent}    {line}" for line in (*kept, *lines))
        yield Application(
            edits=(
                Edit(statement.body_span, f"{{{inner}\n{indent}}}"),
                *(edit for each in _walks(ctx, function, arrays, statement.span) for edit in each),
            ),
            summary=f"{function.name}: comparisons at fixed places keep {' and '.join(sorted(arrays))} in order",
            arguments={"function": function.name, "array": found.names[0]},
            rank=-1,
            is_schedule=True,
        )


def _element(ctx: RuleContext, loop: Statement, arrays: set[str]) -> tuple[list[str], str] | None:
    """What a turn declares before it looks at the arrays, and its element by the one name or place that has it."""
    rest = list(loop.body)
    while rest and rest[0].kind == "declare" and not rest[0].reads & arrays:
        rest.pop(0)
    if not rest or loop.body_span is None:
        return None
    declared = [each for each in loop.body if each not in rest]
    behind = Span(rest[0].span.start, rest[-1].span.end)
    used = {each.name for each in declared} & {name for name, _ in ctx.source.names(behind)}
    read = {ctx.source.slice(use.span) for use in ctx.source.subscripts(behind) if use.name not in arrays}
    if len(used) + len(read) != 1 or used & ctx.source.changed_in(behind):
        return None
    return [ctx.source.slice(each.span) for each in declared], (used | read).pop()


def _put_in(values: Sequence[str], places: Sequence[str], new: tuple[str, str], sign: str) -> Iterator[str]:
    """Lines that put a new element in behind all that are not less, and move those behind it on by a place."""
    yield f"if ({new[0]} {sign} {values[-1]}) {{  // at fixed places, so that all stay in registers"
    for at in reversed(range(len(values))):
        for kept, own in ((places, new[1]), (values, new[0])):
            moved = f"{new[0]} {sign} {values[at - 1]} ? {kept[at - 1]} : " if kept and at else ""
            if kept:
                yield f"    {kept[at]} = {moved}{new[0]} {sign} {values[at]} ? {own} : {kept[at]};"
    yield "}"


def _walks(ctx: RuleContext, function: Function, arrays: set[str], besides: Span) -> Iterator[list[Edit]]:
    """The other loops over the arrays unrolled, so that they have fixed places too."""
    for loop in ctx.source.loops:
        uses = [use for use in ctx.source.subscripts(loop.span) if use.name in arrays]
        words = {name for use in uses for index in use.indices for name, _ in ctx.source.names(index)}
        is_ours = loop.function == function.name and loop.variable in words and not besides.holds(loop.span)
        if is_ours and loop.pragma is None:
            yield unrolled(ctx.source, loop.span)


def _found(ctx: RuleContext) -> Iterator[Application]:
    yield from _find(ctx)
    yield from by_launch(_find_kept)(ctx)


RULES = (
    Rule(
        name="sort_network",
        sentence="Sorts a small array of a thread by comparisons at fixed places, or keeps one in order, in place of"
        " loops over data: it stays in registers.",
        find=_found,
        reason="an array that data indexes lies in local memory, and loops over data wait for each comparison",
        expected="no local loads and stores, and comparisons that nothing waits for",
        risk="what is read of the array was not all that the loops left; NaN ends elsewhere",
        next_if_kept="wide loads of what the array holds",
        next_if_reverted="leave it: the array's loads do not bind",
    ),
)
