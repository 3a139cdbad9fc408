"""Of `x = a * x + b`, what x is multiplied by, as it is written."""

from __future__ import annotations

import re

from evo.cuda.source import Source, Statement
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import bracketed, listed

_FUSED = re.compile(r"(?:fmaf?|__fmaf_rn)\s*\((?P<given>.*)\)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")


def slope_of(source: Source, statement: Statement, name: str) -> str:
    """The factor of a variable in what a statement sets it to; `1` if that adds to it. Raises NotPrinted."""
    if statement.kind != "assign" or statement.name != name or statement.value is None:
        raise NotPrinted("a recurrence that is no assignment")
    value = source.slice(statement.value).strip()
    if statement.operator in ("+=", "-=", "*="):
        if name in _WORD.findall(value):
            raise NotPrinted("a variable that is not linear")
        return bracketed(value) if statement.operator == "*=" else "1"
    if statement.operator != "=" or _WORD.findall(value).count(name) != 1:
        raise NotPrinted("a variable that is not linear")
    return _within(value, name)


def _within(text: str, name: str) -> str:
    """The factor of a name in an expression that says it once. Raises NotPrinted."""
    text = text.strip()
    if text == name:
        return "1"
    if text.startswith("(") and _end(text, 0) == len(text) - 1:
        return _within(text[1:-1], name)
    fused = _FUSED.fullmatch(text)
    if fused is not None and _end(text, text.index("(")) == len(text) - 1:
        given = listed(fused["given"])
        if len(given) == 3:
            return _within(f"({given[0]}) * ({given[1]}) + ({given[2]})", name)
    for signs in ("+-", "*"):
        parts = _split(text, signs)
        mine = next((part for part in parts if name in _WORD.findall(part[1])), None)
        if len(parts) < 2 or mine is None:
            continue
        inner = _within(mine[1], name)
        if signs == "+-":
            return f"(-{bracketed(inner)})" if mine[0] == "-" else inner
        others = [part for _, part in parts if part != mine[1]]
        return " * ".join([*([inner] if inner != "1" else []), *map(bracketed, others)])
    raise NotPrinted("a variable that is not linear")


def _end(text: str, start: int) -> int:
    """Where the bracket that opens at a place closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return at
    return -1


def _split(text: str, signs: str) -> list[tuple[str, str]]:
    """The parts of a sum or a product, each with the sign in front. Raises NotPrinted for what binds otherwise."""
    parts, depth, last, sign = [], 0, 0, signs[0]
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth or letter in ")]}":
            continue
        if letter in ("?:<>=&|^,!~" if "+" in signs else "?:<>=&|^,!~%/"):
            raise NotPrinted("a variable that is not linear")
        before = text[last:at].strip()
        if letter in signs and before and not re.search(r"(?:\d\.?[eE]|[*+-])\Z", before):
            parts.append((sign, before))
            last, sign = at + 1, letter
    return [*parts, (sign, text[last:].strip())]
