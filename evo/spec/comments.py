"""Comments of CUDA text, found in time linear in its length.

The text may be anybody's, so that a comment or a string that is never closed must not be looked for again and again.
Knows comments and literals, no other token.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_OPENS = re.compile(r"//|/\*|[\"']")
_LINE = re.compile(r"//(?:\\\r?\n|[^\n])*+")  # goes on behind a backslash at the end of its line
_REST = {
    '"': re.compile(r'(?:\\.|[^"\\\n])*+("?)', re.DOTALL),
    "'": re.compile(r"(?:\\.|[^'\\\n])*+('?)", re.DOTALL),
}


def replace_comments(text: str, replacement: Callable[[str], str]) -> str:
    """The text with each comment replaced. A string or character literal stays as it is, whatever it holds.

    What is never closed is no comment and no literal: reading goes on behind its first character.
    """
    pieces: list[str] = []
    copied = at = 0
    never = {"/*": len(text) + 1, '"': 0, "'": 0}  # `/*` from here on, and a quote before this place, is not closed
    while match := _OPENS.search(text, at):
        start, mark = match.start(), match[0]
        end = match.end()
        if mark == "//":
            end = at = _LINE.match(text, start).end()  # type: ignore[union-attr]  # it begins with `//`
        elif mark == "/*":
            closed = text.find("*/", end) if start < never[mark] else -1
            if closed < 0:
                never[mark] = min(never[mark], start)
                at = start + 1
                continue
            end = at = closed + 2
        else:
            # Within what an unclosed quote has run over, another quote of its kind is escaped, hence unclosed as well.
            at = end
            if start >= never[mark]:
                rest = _REST[mark].match(text, end)
                assert rest is not None  # it matches an empty text
                if rest[1]:
                    at = rest.end()
                else:
                    never[mark] = rest.end()
            continue
        pieces += [text[copied:start], replacement(text[start:end])]
        copied = end
    return "".join([*pieces, text[copied:]])


def without_comments(text: str, *, keep_lines: bool = False) -> str:
    """The text with each comment as one blank, as a compiler reads it. keep_lines: the ends of its lines stay."""
    return replace_comments(text, lambda comment: (keep_lines and "\n" * comment.count("\n")) or " ")
