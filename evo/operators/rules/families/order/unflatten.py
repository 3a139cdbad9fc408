"""A number over several axes that threads take apart by division becomes an index for each axis."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from evo.cuda.source import Edit, Source, Span, Statement
from evo.errors import SyntaxInvalid
from evo.operators.rules.directives import relaunched, without_bounds
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.normal_form import behind_guard
from evo.operators.rules.one_turn import derived_sizes, plain_words
from evo.operators.rules.rewriting import bare, fresh, indent_of, merged, rewritten
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices
from evo.spec.expr import parse

_BLOCKS = ((32, 8), (64, 4), (16, 16))
_MOST = 3  # sizes that places are remainders of
_PLACED = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_CAST = re.compile(r"\((?:int|unsigned|size_t|u?int(?:32|64)_t|(?:unsigned )?long(?: long)?)\)")
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
    test = _test(ctx, index)
    order, places = test.order, test.places
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
    sizes = [plain_words(_said(ctx, index, size)) for size in order]
    grid = [f"ceil_div({sizes[k]}, {block[k]})" for k in (0, 1)]
    if len(order) > 2:
        grid.append(" * ".join(size if size.isidentifier() or len(order) == 3 else f"({size})" for size in sizes[2:]))
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


def _said(ctx: RuleContext, index: ThreadIndex, text: str) -> str:
    """A size in the words of a launch line. Raises NotPrinted."""
    axes = {name: text for text, name in names_of(ctx, index.function).items()}
    axes |= derived_sizes(ctx, index.function, index.place)

    def word(match: re.Match[str]) -> str:
        number = ctx.source.integer(match[0])
        if match[0] not in axes and number is None:
            raise NotPrinted(match[0])
        return f"({axes.get(match[0], number)})"

    return re.sub(r"\w+", word, re.sub(r"/+", "//", text))


def _is_same(ctx: RuleContext, one: str, other: str) -> bool:
    """Whether two expressions of a launch line are the same number, whatever the axes are."""
    for start in (2, 7, 11):
        names = {axis: start + at * at for at, axis in enumerate(ctx.declared.axes)}
        try:
            if parse(one).value(names) != parse(other).value(names):
                return False
        except (ArithmeticError, KeyError, SyntaxInvalid):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Test:
    """What lets only numbers below the product of the sizes through.

    order, places: the sizes, the inner one first, and the declarations that hold the index's place along each.
    """

    order: tuple[str, ...]
    places: Mapping[int, Statement]
    condition: Span
    gone: Edit
    unused: tuple[Statement, ...] = ()


def _test(ctx: RuleContext, index: ThreadIndex) -> _Test:
    """Raises NotPrinted."""
    source = ctx.source
    tops = source.statements(index.function)
    values = {s.name: s for s in tops if s.kind == "declare" and s.value is not None and not s.dims}
    for place, each in enumerate(tops[index.place + 1 :], index.place + 1):
        if each.kind == "declare":
            continue
        match = _GUARD.fullmatch(source.slice(each.condition)) if each.condition is not None else None
        if match is None or each.condition is None or each.alternative or each.body_span is None:
            break
        leaves = match["relation"] == ">=" and [s.kind for s in each.body] == ["return"]
        braced = source.slice(each.body_span).startswith("{") and bool(each.body)
        if not leaves and not (match["relation"] == "<" and place == len(tops) - 1 and braced):
            break
        named = values.get(match["bound"].strip())
        bound = source.slice(named.value) if named is not None and named.value is not None else match["bound"]
        bound = _CAST.sub("", bound)
        inner, places = _taken_apart(ctx, index, (*tops[index.place + 1 : place], *each.body, *tops[place + 1 :]))
        outer = places.get(len(inner))
        if match["name"] != index.name:  # the outer place: within its size if the number is within all
            if outer is None or outer.name != match["name"]:
                break
            bound = " * ".join([match["bound"].strip(), *inner])
        order = _sizes(ctx, index, inner, places, bound)
        is_idle = named is not None and _uses(source, index.function.body, named.name) == 2
        unused = (named,) if named and is_idle and named.name not in re.findall(r"\w+", " ".join(order)) else ()
        gone = _dropped(ctx, each.span) if leaves else Edit(each.span, "")
        return _Test(order, places, each.condition, gone, unused)
    raise NotPrinted("no guard over the whole index")


def _sizes(
    ctx: RuleContext, index: ThreadIndex, inner: tuple[str, ...], places: Mapping[int, Statement], bound: str
) -> tuple[str, ...]:
    """All sizes, if the numbers below a bound are those of the launch line. Raises NotPrinted."""
    whole = _said(ctx, index, bound)
    if not _is_same(ctx, whole, index.extent):
        raise NotPrinted("a guard over something else")
    product = " * ".join(inner)
    if _is_same(ctx, whole, _said(ctx, index, product)):
        order = inner
    else:
        left = [part.strip("() ") for part in bound.split("*")]
        is_product = all(part.isidentifier() or part.isdigit() for part in left) and not set(inner) - set(left)
        for size in inner if is_product else ():
            left.remove(size)
        order = (*inner, " * ".join(left) if is_product else f"({bound}) / ({product})")
        if not _is_same(ctx, whole, f"({_said(ctx, index, order[-1])}) * {_said(ctx, index, product)}"):
            raise NotPrinted("rows of several lengths")
    if not 2 <= len(order) <= 4 or not {0, 1} <= set(places) or len(places) < len(order) - 1:
        raise NotPrinted("nothing holds the place along each axis")
    return order


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
    ctx: RuleContext, index: ThreadIndex, statements: Sequence[Statement]
) -> tuple[tuple[str, ...], Mapping[int, Statement]]:
    """The sizes that places are remainders of, the inner one first, and the declarations that hold the places."""
    declared = [s for s in statements if s.kind == "declare" and s.value is not None and not s.dims]
    texts = {re.sub(r"[()]", "", bare(ctx.source.slice(s.value))): s for s in reversed(declared) if s.value is not None}
    order, places = list[str](), dict[int, Statement]()
    while True:
        divided = {index.name + "".join(f"/{size}" for size in order)}
        divided |= {f"{index.name}/{'*'.join(each)}" for each in permutations(order)} if len(order) > 1 else set()
        if (last := next((texts[text] for text in divided if text in texts), None)) is not None:
            places[len(order)] = last
        found = [(text.rpartition("%")[2], each) for text, each in texts.items() if text.rpartition("%")[0] in divided]
        if not found or len(order) > _MOST:
            return tuple(order), places
        order.append(found[-1][0])
        places[len(order) - 1] = found[-1][1]


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
