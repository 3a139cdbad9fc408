"""The `// evo:` lines of a file as rules read and write them: launch lines, knobs, requirements."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.rewriting import TEMPLATE, closed, listed, same
from evo.operators.rules.rule_context import RuleContext
from evo.spec.python_syntax import expression_of
from evo.spec.variant import LaunchLine


def line_span(ctx: RuleContext, number: int) -> Span:
    """Bytes of a 1-based line, without its newline."""
    lines = ctx.source.data.split(b"\n")
    start = sum(len(line) + 1 for line in lines[: number - 1])
    return Span(start, start + len(lines[number - 1]))


def relaunched(
    ctx: RuleContext,
    launch: LaunchLine,
    *,
    grid: str = "",
    block: str = "",
    shared: str = "",
    arguments: str | None = None,
) -> Edit:
    """The launch line anew; what is not given stays. arguments: the whole ` args (...)`."""
    grid = grid or ", ".join(part.text for part in launch.grid)
    block = block or ", ".join(part.text for part in launch.block)
    end = f"shared {shared or launch.shared.text}{launch.args_text if arguments is None else arguments}"
    return Edit(line_span(ctx, launch.line), f"// evo: launch {launch.kernel} grid ({grid}) block ({block}) {end}")


def without_bounds(function: Function) -> list[Edit]:
    """The kernel without its `__launch_bounds__`, which another block may not keep."""
    return [] if function.bounds is None else [Edit(function.bounds, "")]


def ceil_divs(ctx: RuleContext, launch: LaunchLine) -> list[tuple[Span, str, str]]:
    """Each `ceil_div(a, b)` of a launch line's grid, or `(a + b - 1) // b`: its bytes, a and b."""
    line = line_span(ctx, launch.line)
    text = ctx.source.slice(line)
    end = text.find(" block")
    found = []
    for match in re.finditer(r"\bceil_div\(", text[: end if end > 0 else len(text)]):
        at = closed(text, match.end() - 1)
        parts = listed(text[match.end() : at - 1]) if at > 0 else []
        if len(parts) == 2:
            start = line.start + len(text[: match.start()].encode())
            found.append((Span(start, start + len(text[match.start() : at].encode())), parts[0], parts[1]))
    return found + [each for each in _rounded_up(line, text, launch) if not any(f[0].holds(each[0]) for f in found)]


def _rounded_up(line: Span, text: str, launch: LaunchLine) -> list[tuple[Span, str, str]]:
    """Each `(a + b - 1) // b` of a grid, b - 1 perhaps as one number."""
    found: list[tuple[Span, str, str]] = []
    at = text.find("grid")
    for part in launch.grid:
        at = text.find(part.text, at)
        if at < 0 or not part.text.isascii():
            return []
        for node in ast.walk(expression_of(part.text)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                covered = _covered(part.text, node)
                if covered is not None:
                    start = line.start + len(text[: at + node.col_offset].encode())
                    span = Span(start, start + (node.end_col_offset or 0) - node.col_offset)
                    found.append((span, covered, ast.get_source_segment(part.text, node.right) or ""))
        at += len(part.text)
    return found


def _covered(text: str, quotient: ast.BinOp) -> str | None:
    """What tiles of the divisor cover: a, where a + b - 1 is divided by b."""
    top, by = quotient.left, quotient.right
    if not isinstance(top, ast.BinOp) or not isinstance(by, ast.Constant | ast.Name):
        return None
    inner, more = top.left, top.right
    if isinstance(top.op, ast.Add) and isinstance(by, ast.Constant) and isinstance(by.value, int):
        meant = isinstance(more, ast.Constant) and more.value == by.value - 1
    elif isinstance(top.op, ast.Sub) and isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
        meant = ast.dump(more) == ast.dump(ast.Constant(1)) and ast.dump(inner.right) == ast.dump(by)
        inner = inner.left
    else:
        meant = False
    return ast.get_source_segment(text, inner) if meant else None


def grid_part_of(ctx: RuleContext, launch: LaunchLine, at: Span) -> int:
    """In which part of a launch line's grid, counted from 0, a place lies."""
    line = line_span(ctx, launch.line)
    text = ctx.source.slice(Span(line.start, at.start)).partition("grid")[2].partition("(")[2]
    depth = commas = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        commas += character == "," and not depth
    return commas


def new_knob(ctx: RuleContext, name: str, domain: Sequence[int], value: int) -> list[Edit]:
    """A new knob: its `// evo: knob` line beside the other ones, and its `#define` where all functions see it."""
    return [
        Edit(
            directive_place(ctx, ("knob", "macro", "task")),
            f"// evo: knob {name} in {', '.join(map(str, domain))}\n",
        ),
        Edit(definition_place(ctx), f"#define {name} {value}\n"),
    ]


def shape_knobs(
    ctx: RuleContext, names: Mapping[str, str], domains: Mapping[str, Sequence[int]], shape: Sequence[int]
) -> list[Edit]:
    """A new knob for each part of a shape, in the order of the domains. names: what the knobs are called here."""
    return [
        edit
        for (word, domain), value in zip(domains.items(), shape, strict=True)
        for edit in new_knob(ctx, names[word], domain, value)
    ]


def require(ctx: RuleContext, condition: str) -> list[Edit]:
    """A `// evo: require` line, unless the text has it already."""
    if any(same(each.text, condition) for each in ctx.variant.requires):
        return []
    return [Edit(directive_place(ctx, ("require", "knob", "macro", "task")), f"// evo: require {condition}\n")]


def directive_place(ctx: RuleContext, kinds: Sequence[str]) -> Span:
    """After the last `// evo:` line of the first kind that there is, else before the first launch line."""
    at = 0
    last: dict[str, int] = {}
    for line in ctx.source.data.splitlines(keepends=True):
        words = line.split()
        at += len(line)
        if words[:2] == [b"//", b"evo:"] and len(words) > 2:
            last[words[2].decode()] = at
    for kind in kinds:
        if kind in last:
            return Span(last[kind], last[kind])
    start = line_span(ctx, min(launch.line for launch in ctx.variant.launches)).start
    return Span(start, start)


def definition_place(ctx: RuleContext) -> Span:
    """After the last knob's `#define` above the first function, else above it, and above the struct that it is in."""
    first = min((function.outermost for function in ctx.source.functions), default=len(ctx.source.data))
    head = TEMPLATE.search(ctx.source.data[:first])
    start = ctx.source.line_start(head.start() if head is not None else first)
    ends = [line_span(ctx, define.line).end + 1 for define in ctx.source.defines]
    before = [end for end in ends if end <= start]
    at = max(before) if before else start
    return Span(at, at)
