"""A number over several axes that threads take apart by division becomes an index for each axis."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from evo.cuda.source import Edit, Source, Span, Statement
from evo.operators.rules.directives import relaunched, without_bounds
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.one_turn import derived_sizes
from evo.operators.rules.rewriting import bare, fresh, indent_of, merged, rewritten
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices
from evo.spec.expr import parse

_BLOCKS = ((32, 8), (64, 4), (16, 16))
_PLACED = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_GUARD = re.compile(r"\s*\(?\s*(?P<name>\w+)\s*(?P<relation>>=|<)\s*(?P<bound>[\w\s*()]+?)\s*\)?\s*")


def _find(ctx: RuleContext) -> Iterator[Application]:
    if ctx.task is None:  # the axes have their names from it
        return
    for index in thread_indices(ctx):
        if index.axis != "x" or index.lanes or len(index.launch.grid) > 1 or len(index.launch.block) > 1:
            continue
        for rank, block in enumerate(_BLOCKS):
            try:
                edits = _edits(ctx, index, block)
            except NotPrinted:
                break
            yield Application(
                edits=tuple(edits),
                summary=f"{index.function.name}: {index.name} taken apart into blocks of {block[0]}x{block[1]}",
                arguments={"kernel": index.function.name, "index": index.name, "to": f"{block[0]}x{block[1]}"},
                rank=rank,
                is_schedule=True,
            )


def _edits(ctx: RuleContext, index: ThreadIndex, block: tuple[int, int]) -> list[Edit]:
    """Raises NotPrinted."""
    source, function = ctx.source, index.function
    axes = {name: text for text, name in names_of(ctx, function).items()} | derived_sizes(
        ctx, index.function, index.place
    )
    test = _test(ctx, index, axes)
    order, places = _taken_apart(ctx, index, test.inside, test.sizes)
    names = [places[k].name if k in places else fresh(ctx, f"place{k}") for k in range(len(order))]
    body = source.slice(function.body)
    if re.search(r"__shared__|_sync\b|__sync|\bblockDim\b|\bgridDim\b", body.replace(index.value, "", 1)):
        raise NotPrinted("threads of a block meet")
    if any(_PLACED.search(source.slice(f.body)) for f in source.functions if not f.is_kernel):
        raise NotPrinted("another function looks at its thread")
    every = source.inside(function)
    if any(each.kind == "assign" and each.name == index.name for each in every):
        raise NotPrinted("the index changes")
    indent = indent_of(source, index.statement.span.start)
    kinds = [places[k].type.strip() if k in places else "const int" for k in range(len(order))]
    lines = [
        f"{kinds[0]} {names[0]} = blockIdx.x * blockDim.x + threadIdx.x;",
        f"{kinds[1]} {names[1]} = blockIdx.y * blockDim.y + threadIdx.y;",
        f"if ({names[0]} >= {order[0]} || {names[1]} >= {order[1]}) return;",
    ]
    left = "blockIdx.z"
    for k in range(2, len(order)):
        last = k == len(order) - 1
        lines.append(f"{kinds[k]} {names[k]} = {left}{'' if last else f' % {order[k]}'};")
        left += f" / {order[k]}"
    edits = _without(ctx, [each.span for each in (*places.values(), *test.unused)])
    elsewhere = (index.statement.span, test.condition, *(each.span for each in places.values()))
    if _uses(source, function.body, index.name) > sum(_uses(source, span, index.name) for span in elsewhere):
        whole = names[-1]
        for k in reversed(range(len(order) - 1)):
            whole = (
                f"({whole}) * {order[k]} + {names[k]}" if k < len(order) - 2 else f"{whole} * {order[k]} + {names[k]}"
            )
        lines.append(f"{index.statement.type.strip()} {index.name} = {whole};")
    grid = [f"ceil_div({axes[order[k]]}, {block[k]})" for k in (0, 1)]
    if len(order) > 2:
        grid.append(" * ".join(axes[size] if axes[size].isidentifier() else f"({axes[size]})" for size in order[2:]))
    return merged([
        relaunched(ctx, index.launch, grid=", ".join(grid), block=f"{block[0]}, {block[1]}"),
        Edit(index.statement.span, f"\n{indent}".join(lines)),
        *without_bounds(function),
        *_unwrapped(ctx, edits, test.gone, indent),
    ])  # fmt: skip


def _unwrapped(ctx: RuleContext, edits: list[Edit], test: Edit, indent: str) -> list[Edit]:
    """The edits, those inside of a test that goes as one, with what stood in it a level further out."""
    source = ctx.source
    inner = source.slice(test.span)
    if not inner.endswith("}"):
        return [*edits, test]
    start = source.line_start(test.span.start + len(inner[: inner.index("{") + 1].encode()) + 1)
    end = test.span.end - 1
    body = rewritten(source, Span(start, end), edits)
    outside = [edit for edit in edits if not test.span.holds(edit.span)]
    return [*outside, Edit(test.span, textwrap.indent(textwrap.dedent(body).strip(), indent).lstrip())]


def _factors(tree: ast.expr) -> list[str]:
    """The factors of a product in a launch line, as they are spelled without blanks that vary."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return [*_factors(tree.left), *_factors(tree.right)]
    return [ast.unparse(tree)]


@dataclass(frozen=True, slots=True)
class _Test:
    """What lets only numbers below the product of the sizes through. inside: the statements that it guards."""

    sizes: tuple[str, ...]
    condition: Span
    gone: Edit
    inside: tuple[Statement, ...]
    unused: tuple[Statement, ...] = ()


def _test(ctx: RuleContext, index: ThreadIndex, axes: Mapping[str, str]) -> _Test:
    """Raises NotPrinted."""
    source = ctx.source
    tops = source.statements(index.function)
    extent = sorted(_factors(parse(index.extent).tree))
    values = {s.name: s for s in tops if s.kind == "declare" and s.value is not None and not s.dims}
    for place, each in enumerate(tops[index.place + 1 :], index.place + 1):
        if each.kind == "declare":
            continue
        match = _GUARD.fullmatch(source.slice(each.condition)) if each.condition is not None else None
        if match is None or each.condition is None or each.alternative or each.body_span is None:
            break
        named = values.get(match["bound"].strip())
        bound = source.slice(named.value) if named is not None and named.value is not None else match["bound"]
        sizes = tuple(part.strip("() ") for part in bound.split("*"))
        between = tops[index.place + 1 : place]
        if match["name"] != index.name:  # the outer place: within its size if the number is within all
            sizes = tuple(size for size, axis in axes.items() if axis in extent)
            inside = (*between, *tops[place + 1 :])
            outer = _taken_apart(ctx, index, inside, sizes)
            held = outer[1].get(len(sizes) - 1)
            if outer[0][-1] != match["bound"].strip() or held is None or held.name != match["name"]:
                break
        if sorted(axes.get(size, "") for size in sizes) != extent or not 2 <= len(sizes) <= 4:
            break
        unused = (named,) if named is not None and _uses(source, index.function.body, named.name) == 2 else ()
        if match["relation"] == ">=" and [s.kind for s in each.body] == ["return"]:
            return _Test(sizes, each.condition, _dropped(ctx, each.span), (*between, *tops[place + 1 :]), unused)
        braced = source.slice(each.body_span).startswith("{")
        if match["relation"] == "<" and place == len(tops) - 1 and braced and each.body:
            return _Test(sizes, each.condition, Edit(each.span, ""), (*between, *each.body), unused)
        break
    raise NotPrinted("no guard over the whole index")


def _uses(source: Source, span: Span, name: str) -> int:
    return sum(word == name for word, _ in source.names(span))


def _dropped(ctx: RuleContext, span: Span) -> Edit:
    """Without a statement, and without its line if nothing else stands there."""
    return _without(ctx, [span])[0]


def _without(ctx: RuleContext, spans: Sequence[Span]) -> list[Edit]:
    """Without statements, and without the lines on which nothing else stands."""
    lines: dict[Span, list[Span]] = {}
    for span in sorted(spans):
        start, end = ctx.source.line_start(span.start), ctx.source.data.find(b"\n", span.end) + 1
        lines.setdefault(Span(start, end), []).append(span)
    found = []
    for line, own in lines.items():
        edits = [Edit(span, "") for span in own]
        found += edits if rewritten(ctx.source, line, edits).strip() else [Edit(line, "")]
    return found


def _taken_apart(
    ctx: RuleContext, index: ThreadIndex, statements: Sequence[Statement], sizes: Sequence[str]
) -> tuple[tuple[str, ...], Mapping[int, Statement]]:
    """The sizes, the inner one first, and the declarations that hold the index's place along each."""
    declared = [s for s in statements if s.kind == "declare" and s.value is not None and not s.dims]
    texts = {id(s): re.sub(r"[()]", "", bare(ctx.source.slice(s.value))) for s in declared if s.value is not None}
    for order in permutations(sizes):
        places: dict[int, Statement] = {}
        for k in range(len(order)):
            for s in declared:
                if texts[id(s)] in _spellings(index.name, order, k):
                    places.setdefault(k, s)
        if {0, 1} <= set(places) and len(places) >= len(order) - 1:
            return order, places
    raise NotPrinted("nothing holds the place along each axis")


def _spellings(name: str, order: Sequence[str], k: int) -> set[str]:
    """`i % W`, `i / W % H`, `i / (W * H)` and so on, without brackets and blanks."""
    divided = {name + "".join(f"/{size}" for size in order[:k])}
    if k > 1:
        divided |= {f"{name}/{'*'.join(each)}" for each in permutations(order[:k])}
    found = {f"{each}%{order[k]}" for each in divided}
    return found | divided if k == len(order) - 1 else found


RULES = (
    Rule(
        name="unflatten",
        sentence="Gives threads an index for each axis where they divide one number by the axes' sizes: blocks become"
        " boxes, and the divisions go.",
        find=behind_guard(_find),
        reason="a number over all axes costs divisions, and a block is a strip that shares little with itself",
        expected="fewer integer instructions, and boxes that tiles and rows of results fit on",
        risk="an inner axis that is no multiple of the block leaves lanes idle",
        next_if_kept="a tile with its border, several rows of results for each thread",
        next_if_reverted="sizes known when compiled",
    ),
)
