"""Finds regular expressions whose time grows faster than the text that they read.

Reads the patterns out of the sources, makes texts that each could stumble over (what leads up to a repeat, then what
the repeat takes, many times, then something that ends it), and times them at two lengths.
"""

from __future__ import annotations

import ast
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
FLAGS = ("DOTALL", "MULTILINE", "VERBOSE", "IGNORECASE", "M", "I", "S", "X")
REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
CLASSES = {
    "CATEGORY_SPACE": (r"\s", " \t\n"), "CATEGORY_NOT_SPACE": (r"\S", "a"), "CATEGORY_WORD": (r"\w", "a1"),
    "CATEGORY_NOT_WORD": (r"\W", "+"), "CATEGORY_DIGIT": (r"\d", "1"), "CATEGORY_NOT_DIGIT": (r"\D", "a"),
}  # fmt: skip
ENDS = ("", "\n", "!")
SHORT, LENGTH, SLOW_S, HOPELESS_S, ATTACKS = 30, 4000, 0.003, 1.0, 60


@dataclass(frozen=True)
class Pattern:
    """One pattern of a source file and how it is applied."""

    path: Path
    line: int
    text: str
    flags: int
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def patterns(file: Path) -> Iterator[Pattern]:
    """Those that a file compiles or uses. An f-string's own parts stand for a short name."""
    source = file.read_text()
    if "import re\n" not in source:  # the tree of all of evo takes seconds
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.args):
            continue
        method, text = node.func.attr, _literal(node.args[0])
        if text is None or method not in (*METHODS, "compile"):
            continue
        used = _methods(source, node) if method == "compile" else {method}
        yield Pattern(file, node.lineno, text, _flags(node), frozenset(used or {"search"}))


def _methods(source: str, call: ast.Call) -> set[str]:
    """What is called on the name that a compiled pattern is given."""
    line = source.split("\n")[call.lineno - 1]
    name = re.match(r"\s*(\w+)\s*(?::[^=]+)?= re\.compile", line)
    if name is None:
        return set()
    return set(re.findall(rf"\b{name[1]}\.({'|'.join(METHODS)})\(", source))


def _literal(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=bytes() as data):
            return data.decode()
        case ast.JoinedStr(values=values):
            return "".join(v.value if isinstance(v, ast.Constant) else "name" for v in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = _literal(left), _literal(right)
            return None if None in parts else "".join(filter(None, parts))
    return None


def _flags(call: ast.Call) -> int:
    words = " ".join(ast.unparse(argument) for argument in [*call.args[1:], *(k.value for k in call.keywords)])
    found = 0
    for name in FLAGS:
        if re.search(rf"re\.{name}\b", words):
            found |= int(getattr(re, name))
    return found


def grows(pattern: Pattern) -> tuple[str, float] | None:
    """A text (shown short) that takes the pattern more than its length's share of time, and how much; None for none."""
    compiled = re.compile(pattern.text, pattern.flags)
    for prefix, pump in _attacks(pattern):
        for end in ENDS:
            few = prefix + pump * max(1, SHORT // len(pump)) + end
            if min(_cost(compiled, pattern, few) for _ in range(2)) > SLOW_S:  # exponential: more of it would never end
                return f"{prefix!r} + {pump!r} * n + {end!r}", math.inf
            count = max(1, LENGTH // len(pump))
            once = _cost(compiled, pattern, prefix + pump * count + end)
            if once < SLOW_S:
                continue
            if once > HOPELESS_S:
                return f"{prefix!r} + {pump!r} * n + {end!r}", once / SLOW_S
            # Once more, the best of three: other work on the machine is no growth.
            once = min(once, *(_cost(compiled, pattern, prefix + pump * count + end) for _ in range(2)))
            twice = min(_cost(compiled, pattern, prefix + pump * (2 * count) + end) for _ in range(2))
            if once > SLOW_S and twice > 2.8 * once:
                return f"{prefix!r} + {pump!r} * n + {end!r}", twice / once
    return None


def _cost(compiled: re.Pattern[str], pattern: Pattern, text: str) -> float:
    started = time.thread_time()
    if "match" in pattern.methods:
        compiled.match(text)
    if "fullmatch" in pattern.methods:
        compiled.fullmatch(text)
    if pattern.methods - {"match", "fullmatch"}:
        for _ in compiled.finditer(text):
            pass
    return time.thread_time() - started


def _attacks(pattern: Pattern) -> Iterator[tuple[str, str]]:
    tree = _parser.parse(pattern.text, pattern.flags)
    found: list[tuple[str, str]] = []
    pumps: set[str] = set()
    for prefixes, body in _repeats(tree, [""]):
        own = _pumps(body)
        pumps |= own
        found += [(prefix, pump) for prefix in prefixes for pump in own]
    whole = _shortest(tree)
    found += [("", text + gap) for text in whole for gap in ("", " ", "\n")]
    found += [("", "\\" + text[0]) for text in whole if text]  # what begins it, quoted
    found += [
        (prefix, pump) for prefixes, _ in _repeats(tree, [""]) for prefix in prefixes[:2] for pump in sorted(pumps)
    ]
    found += [
        ("", prefix + pump) for prefixes, _ in _repeats(tree, [""]) for prefix in prefixes[:2] for pump in sorted(pumps)
    ]
    yield from list(dict.fromkeys((prefix, pump) for prefix, pump in found if pump))[:ATTACKS]


def _repeats(tree: Any, before: Sequence[str]) -> Iterator[tuple[list[str], Any]]:
    """(texts that lead up to it, its body) of every repeat without a small bound."""
    items = list(tree)
    for at, (kind, value) in enumerate(items):
        here = [a + b for a in before for b in _shortest(items[:at])][:6]
        if kind in REPEATS:
            if value[1] > 20:
                yield here, value[2]
            yield from _repeats(value[2], here)
        elif kind is c.SUBPATTERN:
            yield from _repeats(value[3], here)
        elif kind is c.ATOMIC_GROUP:
            yield from _repeats(value, here)
        elif kind is c.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch, here)
        elif kind in (c.ASSERT, c.ASSERT_NOT):
            yield from _repeats(value[1], here)


def _pumps(body: Any) -> set[str]:
    items = list(body)
    found = set(_shortest(body))
    if len(items) == 1:
        found |= set(_characters(*items[0]))
    return found


def _shortest(tree: Any) -> list[str]:
    """A few short texts that a pattern takes."""
    texts = [""]
    for kind, value in tree:
        if kind in REPEATS:
            low, _, body = value
            one = _shortest(body)[0]
            choices = [one * low, one] if low == 0 else [one * low]
        elif kind is c.SUBPATTERN:
            choices = _shortest(value[3])
        elif kind is c.ATOMIC_GROUP:
            choices = _shortest(value)
        elif kind is c.BRANCH:
            choices = [text for branch in value[1] for text in _shortest(branch)[:1]][:4]
        else:
            choices = _characters(kind, value)[:1]
        texts = [a + b for a in texts for b in choices or [""]][:6]
    return texts


def _characters(kind: Any, value: Any) -> list[str]:
    if kind is c.LITERAL:
        return [chr(value)]
    if kind is c.NOT_LITERAL:
        return [text for text in "a \n" if ord(text) != value]
    if kind is c.ANY:
        return ["a", " "]
    if kind is not c.IN:
        return []
    if value[0][0] is c.NEGATE:
        return [text for text in 'a ;(1\n#\\"' if not any(_holds(text, part) for part in value[1:])][:5]
    found: list[str] = []
    for part, inner in value:
        if part is c.LITERAL:
            found.append(chr(inner))
        elif part is c.RANGE:
            found.append(chr(inner[0]))
        elif part is c.CATEGORY:
            found += CLASSES[str(inner)][1]
    return found[:5]


def _holds(text: str, part: tuple[Any, Any]) -> bool:
    kind, value = part
    if kind is c.LITERAL:
        return chr(value) == text
    if kind is c.RANGE:
        return bool(value[0] <= ord(text) <= value[1])
    return re.match(CLASSES[str(value)][0], text) is not None
