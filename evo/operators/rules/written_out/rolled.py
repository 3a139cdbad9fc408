"""Loops that are unrolled by hand, as loops of single steps: `for (; i + 1 < n; i += 2) { s += x[i]; s += x[i + 1]; }`
and what it leaves, `if (i < n) s += x[i];`, as one loop over all `i`.

Each step is carried out in the same order as before. A loop that leaves nothing to another one stays as it is, for
nothing says where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from evo.cuda.source import Edit, Function, Source, Span, Statement
from evo.operators.rules.register_sum_view import blocks_of
from evo.operators.rules.rewriting import bare
from evo.operators.rules.rule_context import RuleContext

_HEAD = re.compile(r"for\s*\(([^;{}]*);([^;{}]*);([^;{}()]*)\)\s*\Z")
_MOST = 32  # steps of a turn


def with_single_steps(ctx: RuleContext) -> list[Edit]:
    """The edits that make one loop of each such pair, in all kernels."""
    source = ctx.source
    return [
        edit
        for function in source.functions
        if function.is_kernel
        for block in blocks_of(source.statements(function))
        for loop, rest in pairwise(block)
        if loop.kind == "for" and loop.body_span is not None
        for edit in _rolled(source, function, loop, rest)
    ]


def _rolled(source: Source, function: Function, loop: Statement, rest: Statement) -> Iterator[Edit]:
    assert loop.body_span is not None
    head = _HEAD.match(source.slice(Span(loop.span.start, loop.body_span.start)))
    stepped = re.fullmatch(r"(\w+)\+=(\d+)", bare(head[3])) if head is not None else None
    if head is None or stepped is None or not 2 <= int(stepped[2]) <= _MOST:
        return
    name, count = stepped[1], int(stepped[2])
    per, left = divmod(len(loop.body), count)
    steps = [_text(source, loop.body[at * per : (at + 1) * per]) for at in range(count)] if per and not left else []
    if not steps or any(_moved(step, name, at) != steps[0] for at, step in enumerate(steps)):
        return
    limit = _left(source, rest, name, steps[0])
    if limit is None or bare(head[2]) not in _tests(name, count, bare(limit)):
        return
    is_one = rest.kind == "if"
    behind = Span(rest.span.end, function.body.end)
    if is_one and (count != 2 or any(word == name for word, _ in source.names(behind))):
        return  # what is left is more than one step, or the number of steps is used
    if {name, *re.findall(r"[A-Za-z_]\w*", limit)} & source.changed_in(loop.body_span):
        return
    body = source.slice(Span(loop.body[0].span.start, loop.body[per - 1].span.end))
    text = f"for ({head[1].strip()}; {name} < {limit}; ++{name}) {{ {body} }}"
    yield Edit(Span(loop.span.start, rest.span.end), text)


def _text(source: Source, statements: Sequence[Statement]) -> str:
    return "".join(bare(source.slice(each.span)) for each in statements)


def _moved(text: str, name: str, by: int) -> str:
    """A step with `i` where it has `i + by`; nothing for one that has `i` in another way."""
    if by:
        there = rf"\({name}\+{by}\)|(?<![\w.*/%-]){name}\+{by}(?![\w.*/%])"
        if re.search(rf"\b{name}\b", re.sub(there, "", text)):
            return ""
        text = re.sub(there, name, text)
    return text.replace(f"({name})", name)


def _tests(name: str, count: int, limit: str) -> set[str]:
    """How a loop of `count` steps a turn says that all of them are below a limit."""
    last = count - 1
    return {
        f"{name}+{last}<{limit}", f"{name}<{limit}-{last}", f"{name}+{count}<={limit}", f"{name}<={limit}-{count}",
        f"{name}<{limit}/{count}*{count}", f"{name}<{limit}-{limit}%{count}",
    }  # fmt: skip


def _left(source: Source, rest: Statement, name: str, step: str) -> str | None:
    """The limit up to which a statement carries out single steps; None if it does anything else."""
    if rest.body_span is None or rest.alternative or rest.kind not in ("for", "if"):
        return None
    before = source.slice(Span(rest.span.start, rest.body_span.start))
    if rest.kind == "for":
        head = _HEAD.match(before)
        if head is None or head[1].strip() or bare(head[3]) not in (f"{name}++", f"++{name}", f"{name}+=1"):
            return None
        test = head[2]
    else:
        test = source.slice(rest.condition) if rest.condition is not None else ""
    match = re.fullmatch(rf"\(?\s*{name}\s*<\s*([\w.]+)\s*\)?", test.strip())
    is_same = _text(source, rest.body).replace(f"({name})", name) == step
    return match[1] if match is not None and is_same else None
