"""Where a text uses the macros that it defines, and what each use stands for."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

from evo.analysis.access.preprocess import Macro, Preprocessor, Token, arguments_of, tokens_of
from evo.cuda.source import Span

_KEPT = 64  # texts: many rules ask for each
# A parameter in brackets, `(i) * n`, which needs none where one word is given.
_BRACKETED = re.compile(r"(?<![\w\]])\(\s*(\w+)\s*\)(?=\s*(?:[-+*/%<>=!?:;,)\]\[&|.]|$))")


@functools.lru_cache(_KEPT)
def macro_uses(data: bytes, left: frozenset[str] = frozenset()) -> tuple[tuple[Span, str], ...]:
    """Where a text uses macros that it defines as more than a number, and what each use stands for.

    left: names that are numbers though the text does not define them. What `#if` decides is no macro here. Raises
    ExpansionTooLong.
    """
    reader = _Uses(left)
    reader.read(tokens_of(data.decode("latin-1")), 0)
    return tuple(reader.found)


class _Uses(Preprocessor):
    """Finds uses of macros instead of expanding them. numbers: macros that stay, those that `#if` decides too."""

    def __init__(self, left: Collection[str]) -> None:
        super().__init__({}, {})
        self.macros = {}
        self.numbers = set(left)
        self.found: list[tuple[Span, str]] = []
        self.nested = 0

    def directive(self, tokens: list[Token], depth: int) -> None:
        words = [token.text for token in tokens if token.kind == "name"][:2]
        if not words:
            return
        self.nested += words[0].startswith("if") - (words[0] == "endif")
        if words[0] not in ("define", "undef") or len(words) < 2:
            return
        is_unsure = self.nested or words[0] == "undef" or words[1] in self.macros
        super().directive(tokens, depth)
        macro = self.macros.get(words[1])
        if is_unsure or (macro is not None and macro.params is None and self._is_number(macro)):
            self.numbers.add(words[1])
            self.macros.pop(words[1], None)

    def _is_number(self, macro: Macro) -> bool:
        """Knobs and sizes stay as they are written."""
        return all(t.text not in "{};" and (t.kind != "name" or t.text in self.numbers) for t in macro.body)

    def write(self, tokens: list[Token]) -> None:
        at = 0
        while at < len(tokens):
            token, end = tokens[at], at + 1
            macro = self.macros.get(token.text) if token.kind == "name" else None
            found = arguments_of(tokens, end) if macro is not None and macro.params is not None else None
            if macro is None or (macro.params is not None and found is None):
                at = end
                continue
            end = found[1] if found is not None else end
            words = {part[0].text for part in (found[0] if found is not None else []) if len(part) == 1}
            text = "".join(" " if t.kind == "line" else t.text for t in self.expand(tokens[at:end], 0))
            self.found.append((Span(token.start, tokens[end - 1].end), _without_brackets(text, words)))
            at = end


def _without_brackets(text: str, words: Collection[str]) -> str:
    return _BRACKETED.sub(lambda match: match[1] if match[1] in words else match[0], text)
