"""An online softmax by groups of lanes: each has a slice of every row of its group, and scores change hands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evo.cuda.source import Edit, Span, Statement
from evo.operators.rules.dependence import is_own
from evo.operators.rules.directives import new_knob, require
from evo.operators.rules.families.loop.batch_online import SoftmaxBatch
from evo.operators.rules.families.work.lane_groups import ALL, LaneGroupEdit, NotSplittable, trader_of
from evo.operators.rules.normal_form import behind_guard, is_guard
from evo.operators.rules.reductions import reduction_of
from evo.operators.rules.rewriting import fresh, indent_of, indented, rewritten
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import thread_indices

_LANES = (2, 4, 8, 16)
_BATCHES = (1, 2, 4, 8, 16)


def _find(ctx: RuleContext) -> Iterator[Application]:
    for index in thread_indices(ctx):
        trader = trader_of(ctx, index)
        if trader is None:
            continue
        for value, batch in ((4, 8), (4, 4), (2, 8), (8, 8)):
            try:
                edits = _edits(trader, value, batch)
            except NotSplittable:
                break
            yield Application(
                edits=tuple(edits),
                summary=f"{index.function.name}: {value} lanes have a slice each of {value} rows, {batch} steps of"
                f" {trader.loop.name} at a time",
                arguments={"kernel": index.function.name, "index": index.name, "to": value, "steps": batch},
                rank=-1,  # fits few kernels, and moves what they are bound by
            )


def _edits(trader: LaneGroupEdit, value: int, batch: int) -> list[Edit]:
    trader.needs = {f"{trader.index.threads} % 32 == 0"}
    ctx, source, index = trader.ctx, trader.source, trader.index
    statement, indent = index.statement, indent_of(trader.source, index.statement.span.start)
    steps = fresh(ctx, f"{trader.loop.name.upper()}_BATCH")
    edits = [*new_knob(ctx, trader.lanes, _LANES, value), *new_knob(ctx, steps, _BATCHES, batch)]
    text = f"const {index.kind} {trader.here} = {index.value};"
    last = f"min({trader.here}, {trader.bound} - 1)"
    text += f"\n{indent}const {index.kind} {index.name} = {last};"
    text += "  // those past the end repeat the last one and do not store"
    text += f"\n{indent}const int {trader.lane} = threadIdx.x % {trader.lanes};"
    for extent in dict.fromkeys(trader.arrays.values()):
        text += f"\n{indent}const int {trader.first(extent)} = {trader.lane} * ({extent} / {trader.lanes});"
    edits.append(Edit(statement.span, text))
    for top in trader.tops:
        if top is statement:
            continue
        if is_guard(top):
            end = top.span.end + 1 if source.data[top.span.end : top.span.end + 1] == b"\n" else top.span.end
            edits.append(Edit(Span(source.line_start(top.span.start), end), ""))
        elif top is trader.loop:
            edits.append(Edit(Span(trader.begin(top), top.span.end), _softmax(trader, steps)))
        elif trader.is_array_loop(top):
            edits.append(Edit(Span(trader.begin(top), top.span.end), trader.each(top)))
        elif top.kind == "declare" and top.dims:
            edits.append(Edit(top.dims[0], f"{trader.lanes}][{trader.arrays[top.name]} / {trader.lanes}"))
        elif not is_own(source, top) or trader.touched(top.span) & trader.arrays.keys():
            raise NotSplittable
    return [*edits, *(edit for need in sorted(trader.needs) for edit in require(ctx, need))]


def _softmax(trader: LaneGroupEdit, steps: str) -> str:
    """The loop over the steps, a batch at a time."""
    source, online, loop, ctx = trader.source, trader.online, trader.loop, trader.ctx
    j, indent, r, lanes = loop.name, indent_of(source, loop.span.start), trader.r, trader.lanes
    inner, deeper = indent + "    ", indent + "        "
    limit, u, at = source.slice(loop.limit), fresh(ctx, "u"), fresh(ctx, f"{j}_at")
    most, lines = limit, ""
    if trader.touched(loop.limit) & trader.varying:
        most = fresh(ctx, f"{j}_most")
        lines = f"{indent}const int {most} = __reduce_max_sync({ALL}, {limit});  // of the warp\n"
    named = [Edit(span, at) for name, span in source.names(loop.span) if name == j]
    all_of, keep_of, weight_of = (fresh(ctx, f"{x}_of") for x in (online.score, online.keep, online.weight))
    rows = f"for (int {r} = 0; {r} < {lanes}; ++{r})"
    shuffled = f"__shfl_sync({ALL}, {{}}, {r}, {lanes})"
    header = f"for (int {j} = 0; {j} < {most}; {j} += {steps}) "
    pragma = source.data[trader.begin(loop) : source.line_start(loop.span.start)].decode()
    batch = SoftmaxBatch(
        online=online,
        loop=loop,
        limit=limit,
        steps=steps,
        indent=indent,
        counter=u,
        every=fresh(ctx, f"{online.score}_all"),
        place=f"{deeper}const int {at} = min({j} + {u}, {most} - 1);\n",
    )
    body = batch.body(
        scores=indented(_scores(trader, all_of, named)),
        rescaled=f"{inner}float {keep_of}[{lanes}];\n"
        f"#pragma unroll\n{inner}{rows} {keep_of}[{r}] = {shuffled.format(online.keep)};\n"
        f"{_updated(trader, keep_of, None, [])}",
        weighted=f"{deeper}float {weight_of}[{lanes}];\n"
        f"#pragma unroll\n{deeper}{rows} {weight_of}[{r}] = {shuffled.format(online.weight)};\n"
        f"{indented(_updated(trader, None, weight_of, named))}",
    )
    return f"{lines}{pragma}{indent}{header}{body}"


def _scores(trader: LaneGroupEdit, of: str, named: Sequence[Edit]) -> str:
    """The statements that compute a step's score: the lane's part of each row, then the sum of its own row."""
    source, online, text, seen = trader.source, trader.online, "", False
    lane, r, lanes = trader.lane, trader.r, trader.lanes
    for top in online.before:
        indent = indent_of(source, top.span.start)
        if not trader.is_array_loop(top):
            if trader.touched(top.span) & trader.arrays.keys():
                raise NotSplittable
            begin = trader.begin(top) if top.kind == "for" else source.line_start(top.span.start)
            text += rewritten(source, Span(begin, top.span.end), named) + "\n"
            continue
        adds = [s for s in top.all() if s.kind == "assign" and reduction_of(source, s) is not None]
        if seen or len(adds) != 1 or adds[0].name != online.score or adds[0].operator != "+=" or not adds[0].value:
            raise NotSplittable
        seen = True
        step, mine, theirs = (fresh(trader.ctx, name) for name in ("apart", "mine", "theirs"))
        pick = f"{lane} & {step} ? {of}[{r} + {step}] : {of}[{r}]", f"{lane} & {step} ? {of}[{r}] : {of}[{r} + {step}]"
        text += (
            f"{indent}float {of}[{lanes}] = {{}};\n"
            f"{trader.repeated(top, {adds[0].span: (f'{of}[{r}] += ', adds[0].value)}, named)}\n"
            f"#pragma unroll\n{indent}for (int {step} = {lanes} / 2; {step} > 0; {step} /= 2) {{\n"
            f"#pragma unroll\n{indent}    for (int {r} = 0; {r} < {lanes} / 2; ++{r}) {{\n"
            f"{indent}        if ({r} < {step}) {{\n"
            f"{indent}            const float {mine} = {pick[0]};\n"
            f"{indent}            const float {theirs} = {pick[1]};\n"
            f"{indent}            {of}[{r}] = {mine} + __shfl_xor_sync({ALL}, {theirs}, {step});\n"
            f"{indent}        }}\n{indent}    }}\n{indent}}}\n{indent}{online.score} += {of}[0];\n"
        )
    if not seen:
        raise NotSplittable
    return text


def _updated(trader: LaneGroupEdit, keep_of: str | None, weight_of: str | None, named: Sequence[Edit]) -> str:
    """The loops over what is added up: rescaled by `keep_of`, or with the weighted values added."""
    source, online, r, text = trader.source, trader.online, trader.r, ""
    heads = {update.span: update for update, _ in online.updates}
    for top in online.after:
        if not trader.is_array_loop(top):
            raise NotSplittable
        texts: dict[Span, tuple[str, Span]] = {}
        for s in top.all():
            if s.span not in heads or s.target is None or s.value is None:
                continue
            target = rewritten(source, s.target, trader.sliced(top))
            start = re.match(
                rf"{re.escape(source.slice(s.target))} \* {online.keep} \+ {online.weight} \* ", source.slice(s.value)
            )
            value = Span(s.value.start + len(start[0].encode()), s.value.end) if start else s.value
            if start is None or not source.is_simple(value) or trader.touched(value) & trader.rows:
                raise NotSplittable
            texts[s.span] = (f"{target} += {weight_of}[{r}] * ", value)
            if keep_of is not None:
                texts[s.span] = (f"{target} *= ", Span(s.target.start, s.target.start))
        if weight_of is not None:
            text += trader.repeated(top, texts, named) + "\n"
        elif keep_of is not None:
            text += _rescaled(trader, top, {span: head for span, (head, _) in texts.items()}, keep_of)
    return text


def _rescaled(trader: LaneGroupEdit, loop: Statement, heads: dict[Span, str], keep_of: str) -> str:
    """The loops around the updates with nothing but their rescaling inside."""
    source, text, depth = trader.source, "", 0
    indent = indent_of(source, loop.span.start)
    around = [s for s in loop.all() if s.kind == "for"]
    for each in around:
        header = rewritten(source, each.header or each.span, trader.sliced(loop)).strip()
        text += f"#pragma unroll\n{indent}{'    ' * depth}{header} {{\n"
        depth += 1
    pad = indent + "    " * depth
    for head in heads.values():
        rows = f"for (int {trader.r} = 0; {trader.r} < {trader.lanes}; ++{trader.r})"
        text += f"#pragma unroll\n{pad}{rows} {head}{keep_of}[{trader.r}];\n"
    return text + "".join(f"{indent}{'    ' * level}}}\n" for level in reversed(range(depth)))


RULES = (
    Rule(
        name="trade",
        sentence="Lets the lanes of a group work on all rows of the group together: each has a slice of every row's"
        " private arrays, loads that slice once for all rows, and gets its own row's score back by shuffles.",
        find=behind_guard(_find),
        reason="threads with a row each load and convert the same keys and values, once per row",
        expected="as many times fewer loads and conversions as lanes, for a few shuffles per step",
        risk="shuffles and selections cost what short rows save; all lanes of a warp go as far as its longest row",
        next_if_kept="more lanes, or more steps at a time",
        next_if_reverted="fewer lanes, or a batch of steps alone",
    ),
)
