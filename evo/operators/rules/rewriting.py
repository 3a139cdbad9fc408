"""What all rules need to write an edit: new names, indentation, texts compared but for blanks, edits put together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

from evo.cuda.source import Edit, Source, Span
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

WORD = re.compile(r"[A-Za-z_]\w*")
LEAVES = re.compile(r"\b(?:break|continue|goto|return)\b")  # a loop, by a statement inside
CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")  # a variable, within an expression
TEMPLATE = re.compile(rb"template\s*<[^;{}]*>\s*\Z")  # in front of a function


def same(one: str, other: str) -> bool:
    """Whether two expressions are the same but for blanks and an outer pair of brackets."""
    return bare(one) == bare(other)


def bare(text: str) -> str:
    text = re.sub(r"\s+", "", text).replace("//", "/")
    while text.startswith("(") and text.endswith(")") and balanced(text[1:-1]):
        text = text[1:-1]
    return text


def balanced(text: str) -> bool:
    depths = [*itertools.accumulate((each == "(") - (each == ")") for each in text)]
    return not depths or (min(depths) >= 0 and depths[-1] == 0)


def closed(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at a place; -1 if none does."""
    depth = 0
    for place in range(at, len(text)) if at >= 0 else ():
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if not depth:
            return place + 1
    return -1


def listed(text: str) -> list[str]:
    """What stands between the commas of a text, but for those in brackets; nothing for brackets that do not match."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return []
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if text.strip() and not depth else []


def bracketed(text: str) -> str:
    """A factor of a product: in brackets unless it is one word."""
    return text if text.replace(".", "").isidentifier() or text.isdigit() else f"({text})"


def fresh(ctx: RuleContext, wanted: str, taken: Collection[str] = ()) -> str:
    """A name that the text does not use, nor what it was before a view of it; nor is it one of those taken."""
    name, number = wanted, 2
    while name in taken or re.search(rf"\b{name}\b", ctx.source.text) or re.search(rf"\b{name}\b", ctx.written):
        name, number = f"{wanted}_{number}", number + 1
    return name


def indent_of(source: Source, at: int) -> str:
    """The blanks that the line of a byte begins with."""
    start = source.line_start(at)
    line = source.data[start:at].decode()
    return line[: len(line) - len(line.lstrip())] if line.strip() else line


def with_its_line(source: Source, span: Span) -> Span:
    """A statement with its line and the comment behind it, if nothing else stands on that line."""
    start, end = source.line_start(span.start), source.data.find(b"\n", span.end) + 1
    if not end or source.data[start : span.start].strip():
        return span
    return span if without_comments(source.slice(Span(span.end, end))).strip() else Span(start, end)


def merged(edits: Sequence[Edit]) -> list[Edit]:
    """Insertions at one place as one edit, in the order given."""
    found: dict[Span, str] = {}
    for edit in edits:
        found[edit.span] = found.get(edit.span, "") + edit.text if edit.span.start == edit.span.end else edit.text
    return [Edit(span, text) for span, text in found.items()]


def rewritten(source: Source, span: Span, edits: Sequence[Edit]) -> str:
    """The text of a span after those of the edits that lie within it."""
    data, last = b"", span.start
    for edit in sorted((each for each in edits if span.holds(each.span)), key=lambda each: each.span):
        data += source.data[last : edit.span.start] + edit.text.encode()
        last = edit.span.end
    return (data + source.data[last : span.end]).decode()


def indented(text: str) -> str:
    """One level further in; directives stay where they are."""
    return re.sub(r"(?m)^(?=[^#\n])", "    ", text)
