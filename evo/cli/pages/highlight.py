"""CUDA C++ as HTML: tokens in spans, everything escaped; and a change as a table, old beside new."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from html import escape

_KEYWORDS = frozenset(
    """
    __align__ __constant__ __device__ __forceinline__ __global__ __launch_bounds__ __noinline__ __restrict__
    __shared__ alignas asm auto break case const constexpr continue default do else enum extern for goto if
    inline namespace operator return signed sizeof static static_assert struct switch template typedef
    typename union unsigned using volatile while
    """.split()  # noqa: SIM905
)
_TYPES = frozenset(
    """
    __half __half2 __nv_bfloat16 __nv_bfloat162 bool char double double2 float float2 float4 half half2 int
    int16_t int2 int32_t int4 int64_t int8_t long short size_t uint uint16_t uint2 uint32_t uint4 uint64_t
    uint8_t void
    """.split()  # noqa: SIM905
)
_TOKEN = re.compile(
    r"(?P<c>//.*|/\*.*?(?:\*/|$))|(?P<s>\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])+')"
    r"|(?P<p>^\s*#\s*\w+)|(?P<n>\b(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)[uUlLfF]*\b)|(?P<w>[A-Za-z_]\w*)"
)
_CONTROL = (*range(9), *range(11, 32), 127, *range(0xD800, 0xE000))
_ESCAPES = {ord(sign): escape(sign, quote=True) for sign in "&<>\"'"} | dict.fromkeys(_CONTROL, "\ufffd")
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@$")
_LONGEST_LINE = 400


def clean(text: str) -> str:
    """Escaped for HTML, in text and in attributes; characters that no page may hold become a question mark."""
    return text.translate(_ESCAPES)


def highlighted(text: str) -> list[str]:
    """Each line as HTML."""
    lines, inside = [], False
    for raw in text.split("\n"):
        line = raw.rstrip("\r")[:_LONGEST_LINE]
        html, inside = _line(line, inside)
        lines.append(html)
    return lines


def _line(line: str, inside: bool) -> tuple[str, bool]:
    parts: list[str] = []
    at = 0
    if inside:
        end = line.find("*/")
        at = len(line) if end < 0 else end + 2
        parts.append(_span("c", line[:at]))
        if end < 0:
            return "".join(parts), True
    for match in _TOKEN.finditer(line, at):
        parts.append(clean(line[at : match.start()]))
        at = match.end()
        kind, token = str(match.lastgroup), match.group()
        if kind == "w":
            kind = "k" if token in _KEYWORDS else "t" if token in _TYPES else ""
        parts.append(_span(kind, token))
        if kind == "c" and token.startswith("/*") and not (token.endswith("*/") and len(token) > 3):
            return "".join(parts), True
    parts.append(clean(line[at:]))
    return "".join(parts), False


def _span(kind: str, token: str) -> str:
    return f'<i class="{kind}">{clean(token)}</i>' if kind and token else clean(token)


def side_by_side(diff: str, caption: str) -> str:
    """A unified diff as a table: old and new line with numbers. CSS stacks them on a narrow screen."""
    titles = "".join(f'<th scope="col">{title}</th>' for title in ("line", "parent", "line", "this"))
    rows = [f"<thead><tr>{titles}</tr></thead>"]
    for index, (i, j, lines) in enumerate(_hunks(diff)):
        if index:
            rows.append('<tbody><tr class="gap"><td colspan="4">⋯</td></tr></tbody>')
        rows += _hunk_rows(i, j, lines)
    return f'<table class="diff"><caption>{clean(caption)}</caption>{"".join(rows)}</table>'


def _hunks(diff: str) -> Iterator[tuple[int, int, list[str]]]:
    """The first old and new line of each hunk, and its lines with their signs."""
    found: tuple[int, int, list[str]] | None = None
    for line in diff.split("\n"):
        if match := _HUNK.match(line):
            if found is not None:
                yield found
            found = (int(match[1]), int(match[2]), [])
        elif found is not None and line[:1] in (" ", "-", "+"):
            found[2].append(line)
    if found is not None:
        yield found


def _hunk_rows(i: int, j: int, lines: Sequence[str]) -> Iterator[str]:
    """Runs of removed and added lines beside each other, the rest on both sides; each run is a body of the table."""
    before = iter(highlighted("\n".join(line[1:] for line in lines if line[0] in " -")))
    after = iter(highlighted("\n".join(line[1:] for line in lines if line[0] in " +")))
    for changed, group in itertools.groupby(lines, key=lambda line: line[0] != " "):
        signs = [line[0] for line in group]
        old = [next(before) for sign in signs if sign != "+"]
        new = [next(after) for sign in signs if sign != "-"]
        yield f"<tbody>{''.join(_rows('replace' if changed else 'equal', old, new, i, j))}</tbody>"
        i, j = i + len(old), j + len(new)


def _rows(tag: str, old: Sequence[str], new: Sequence[str], i: int, j: int) -> Iterator[str]:
    if tag == "equal":
        for step, line in enumerate(new):
            cells = f'<td class="n">{i + step}</td><td>{line}</td>'
            yield f'<tr>{cells}<td class="n r">{j + step}</td><td class="r">{line}</td></tr>'
        return
    for step in range(max(len(old), len(new))):
        left = right = '<td class="n e"></td><td class="e"></td>'
        if step < len(old):
            left = f'<td class="n">{i + step}</td><td class="d"><del>{old[step]}</del></td>'
        if step < len(new):
            right = f'<td class="n o">{j + step}</td><td class="a o"><ins>{new[step]}</ins></td>'
        yield f"<tr>{left}{right}</tr>"
