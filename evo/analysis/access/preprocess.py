"""The text that the compiler reads: macros expanded, `#if` decided, headers of the task put in; with a way back.

Works on bytes: every stretch of the result knows which bytes of the file it came from. What a macro wrote came from
the place where the macro stands.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evo.cuda.source import Span
from evo.errors import SyntaxInvalid
from evo.spec.expr import parse

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\v]+|\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/)|(?P<line>\n)|(?P<name>[A-Za-z_$]\w*)"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)"
    r'|(?P<text>(?:u8|[uULR])?"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<mark>\.\.\.|::|->\*?|\+\+|--|<<=|>>=|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|##|.)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"#[ \t]*(\w+)(.*)", re.DOTALL)
_DEFINE = re.compile(r"(\w+)(?:\(([^)]*)\))?(.*)", re.DOTALL)
_REMARK = re.compile(r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/", re.DOTALL)
_DEEPEST = 16
_MOST_STEPS = 150_000  # tokens looked at: some fifteen times what the longest kernels need
# Words that change nothing about which thread touches what, and that the grammar may stumble over.
_IGNORED = frozenset(
    [
        "__forceinline__",
        "__noinline__",
        "__restrict__",
        "__restrict",
        "restrict",
        "volatile",
        "__grid_constant__",
        "inline",
    ]
)
_IGNORED_CALLS = frozenset(["__align__", "alignas", "__attribute__", "__maxnreg__", "__declspec"])


class ExpansionTooLong(Exception):
    """Macros that stand for more text than can be read: a few nested ones stand for millions of tokens."""


class Token(NamedTuple):
    """kind: a group of the pattern. start, end: bytes of the file it came from."""

    kind: str
    text: str
    start: int
    end: int
    hidden: frozenset[str] = frozenset()  # macros that it came from, not to be expanded again


@dataclass(frozen=True, slots=True)
class Macro:
    params: tuple[str, ...] | None
    body: tuple[Token, ...]


class Expanded:
    """The expanded text. data: its bytes."""

    def __init__(self, tokens: list[Token]) -> None:
        self._starts: list[int] = []
        self._origin: list[tuple[int, int, bool]] = []
        parts: list[str] = []
        at = 0
        for token in tokens:
            self._starts.append(at)
            self._origin.append((token.start, token.end, token.end - token.start == len(token.text)))
            parts.append(token.text)
            at += len(token.text)
        self.data = "".join(parts).encode("latin-1")

    def span(self, start: int, end: int) -> Span:
        """Where bytes of the expanded text stand in the file. Empty at 0 if they came from a header."""
        if end <= start:
            end = start + 1
        first = max(bisect.bisect_right(self._starts, start) - 1, 0)
        last = max(bisect.bisect_right(self._starts, end - 1) - 1, 0)
        low, _, is_plain = self._origin[first]
        _, high, is_plain_end = self._origin[last]
        if is_plain:
            low += start - self._starts[first]
        if is_plain_end:
            high = self._origin[last][0] + end - self._starts[last]
        return Span(low, max(low, high))


def expand(data: bytes, macros: Mapping[str, int | str], headers: Mapping[str, str] | None = None) -> Expanded:
    """macros: defined on the command line, by name. headers: texts of the files that `#include "..."` may name.

    Raises ExpansionTooLong.
    """
    reader = Preprocessor(macros, headers or {})
    reader.read(tokens_of(data.decode("latin-1")), 0)
    return Expanded(reader.out)


def tokens_of(text: str, origin: tuple[int, int] | None = None) -> list[Token]:
    """origin: where every token is said to stand, if not at its own place."""
    found = []
    for match in _TOKEN.finditer(text):
        start, end = origin or match.span()
        found.append(Token(match.lastgroup or "mark", match[0], start, end))
    return found


class Preprocessor:
    """Reads tokens, and writes what the compiler sees to `out`."""

    def __init__(self, macros: Mapping[str, int | str], headers: Mapping[str, str]) -> None:
        self.headers, self.out = headers, list[Token]()
        given = {"__CUDA_ARCH__": 890, "__CUDACC__": 1, "__cplusplus": 201703, **macros}
        self.macros = {name: Macro(None, tuple(tokens_of(str(value), (0, 0)))) for name, value in given.items()}
        self.steps = 0
        self.active: list[tuple[bool, bool]] = []  # of each open #if: is this part read, was one read already

    @property
    def _reads(self) -> bool:
        return all(reads for reads, _ in self.active)

    def read(self, tokens: list[Token], depth: int) -> None:
        self._step(len(tokens))
        at, plain, is_line_start = 0, list[Token](), True
        while at < len(tokens):
            token = tokens[at]
            if token.text == "#" and is_line_start:
                self.write(plain)
                plain, end = [], at
                while end < len(tokens) and tokens[end].kind != "line":
                    end += 1
                self.directive(tokens[at:end], depth)
                at = end
                continue
            if token.kind == "line":
                is_line_start = True
            elif token.kind != "space":
                is_line_start = False
            if self._reads or token.kind == "line":
                plain.append(token)
            at += 1
        self.write(plain)

    def write(self, tokens: list[Token]) -> None:
        self.out += self._without_ignored(self.expand(tokens, 0))

    def directive(self, tokens: list[Token], depth: int) -> None:
        text = "".join(token.text for token in tokens)
        match = _DIRECTIVE.match(text)
        if match is None:
            return
        word, rest = match[1], _REMARK.sub(" ", match[2]).replace("\\\r\n", " ").replace("\\\n", " ").strip()
        if word in ("if", "ifdef", "ifndef"):
            reads = self._reads and self._holds(rest if word == "if" else f"defined({rest})") == (word != "ifndef")
            self.active.append((reads, reads))
        elif word in ("elif", "else") and self.active:
            _, was_read = self.active.pop()
            reads = not was_read and self._reads and (word == "else" or self._holds(rest))
            self.active.append((reads, was_read or reads))
        elif word == "endif" and self.active:
            self.active.pop()
        elif not self._reads:
            return
        elif word == "define":
            self._define(rest, tokens)
        elif word == "undef":
            self.macros.pop(rest, None)
        elif word == "pragma":
            self.out += tokens
        elif word == "include" and depth < _DEEPEST:
            name = rest.strip('<>" ')
            if name in self.headers:
                self.read(tokens_of(self.headers[name].encode().decode("latin-1"), (0, 0)), depth + 1)

    def _define(self, rest: str, tokens: list[Token]) -> None:
        match = _DEFINE.match(rest)
        if match is None:
            return
        name, params, body = match.groups()
        origin = (tokens[0].start, tokens[-1].end)
        listed = None if params is None else tuple(p.strip() for p in params.split(",") if p.strip())
        self.macros[name] = Macro(listed, tuple(tokens_of(body.strip(), origin)))

    def _holds(self, text: str) -> bool:
        text = re.sub(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", lambda m: str(int((m[1] or m[2]) in self.macros)), text)
        expanded = "".join(token.text for token in self.expand(tokens_of(text, (0, 0)), 0))
        return bool(constant(expanded))

    def expand(self, tokens: list[Token], depth: int) -> list[Token]:
        if depth > _DEEPEST * 4:
            return tokens
        self._step(len(tokens))
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            macro = self.macros.get(token.text) if token.kind == "name" and token.text not in token.hidden else None
            if macro is None:
                out.append(token)
                at += 1
                continue
            end, arguments = at + 1, list[list[Token]]()
            if macro.params is not None:
                found = arguments_of(tokens, at + 1)
                self._step((found[1] if found else len(tokens)) - at)
                if found is None:
                    out.append(token)
                    at += 1
                    continue
                arguments, end = found
            origin = (token.start, tokens[end - 1].end)
            body = self._filled(macro, arguments, depth)
            self._step(len(body))
            hidden = token.hidden | {token.text}
            moved = [Token(t.kind, t.text, *origin, t.hidden | hidden) for t in body]
            out += self.expand(moved, depth + 1)
            at = end
        return out

    def _step(self, count: int) -> None:
        self.steps += count
        if self.steps > _MOST_STEPS:
            raise ExpansionTooLong

    def _filled(self, macro: Macro, arguments: list[list[Token]], depth: int) -> list[Token]:
        """The body with the arguments in place, pasted and quoted where it says so."""
        if macro.params is None:
            return list(macro.body)
        by_name: dict[str, list[Token]] = {}
        for index, name in enumerate(macro.params):
            if name.endswith("..."):
                rest = arguments[index:]
                joined = [t for n, part in enumerate(rest) for t in ([Token("mark", ",", 0, 0)] if n else []) + part]
                by_name[name.removesuffix("...") or "__VA_ARGS__"] = joined
            else:
                by_name[name] = arguments[index] if index < len(arguments) else []
        out: list[Token] = []
        body = macro.body
        for at, token in enumerate(body):
            after = _next_mark(body, at + 1)
            if token.text == "##" or (out and token.kind == "space" and (after == "##" or _is_pasted(out))):
                out += [token] if token.text == "##" else []
            elif token.text == "#" and token.kind == "mark":
                continue
            elif token.kind == "name" and token.text in by_name:
                given = by_name[token.text]
                if at and body[at - 1].text == "#":
                    out.append(Token("text", '"' + "".join(t.text for t in given).replace('"', '\\"') + '"', 0, 0))
                elif after == "##" or _is_pasted(out):
                    out += given
                else:
                    out += self.expand(given, depth + 1)
            else:
                out.append(token)
        return _pasted(out)

    @staticmethod
    def _without_ignored(tokens: list[Token]) -> list[Token]:
        """Attributes and inlining words become blanks of the same length; remarks too."""
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.kind == "name" and token.text in _IGNORED_CALLS:
                found = arguments_of(tokens, at + 1)
                end = found[1] if found is not None else at + 1
                out += [_blank(inner) for inner in tokens[at:end]]
                at = end
                continue
            if token.kind == "name" and token.text == "thread_block_tile":
                at = _group_type(tokens, at, out)
                continue
            is_blank = (token.kind == "name" and token.text in _IGNORED) or token.text.startswith(("//", "/*", "\\"))
            out.append(_blank(token) if is_blank else token)
            at += 1
        return out


def _blank(token: Token) -> Token:
    text = "".join("\n" if char == "\n" else " " for char in token.text)
    return Token("space", text, token.start, token.end)


def _group_type(tokens: list[Token], at: int, out: list[Token]) -> int:
    """`cg::thread_block_tile<32>` would be read as two comparisons: `auto` stands for it."""
    end = at + 1
    while end < len(tokens) and tokens[end].text != ">":
        end += 1
    while out and (out[-1].text == "::" or (len(out) > 1 and out[-1].kind == "name" and out[-2].text == "::")):
        out.pop()
    if out and out[-1].text in ("cg", "cooperative_groups"):
        out.pop()
    last = tokens[min(end, len(tokens) - 1)]
    out.append(Token("name", "auto", tokens[at].start, last.end))
    return end + 1


def _next_mark(tokens: tuple[Token, ...], at: int) -> str:
    return next((token.text for token in tokens[at:] if token.kind != "space"), "")


def _is_pasted(out: list[Token]) -> bool:
    return bool(out) and out[-1].text == "##"


def _pasted(tokens: list[Token]) -> list[Token]:
    out: list[Token] = []
    at = 0
    while at < len(tokens):
        if tokens[at].text == "##" and out and at + 1 < len(tokens):
            left = out.pop()
            out += tokens_of(left.text + tokens[at + 1].text, (0, 0))
            at += 2
        else:
            out.append(tokens[at])
            at += 1
    return out


def arguments_of(tokens: list[Token], at: int) -> tuple[list[list[Token]], int] | None:
    """The arguments of a call, and where it ends; None if no bracket follows."""
    while at < len(tokens) and tokens[at].kind in ("space", "line"):
        at += 1
    if at >= len(tokens) or tokens[at].text != "(":
        return None
    depth, parts = 0, [list[Token]()]
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.text in "([{" and token.kind == "mark":
            depth += 1
            if depth == 1:
                continue
        elif token.text in ")]}" and token.kind == "mark":
            depth -= 1
            if depth == 0:
                trimmed = [_trimmed(part) for part in parts]
                return ([] if trimmed == [[]] else trimmed), at
        elif token.text == "," and depth == 1:
            parts.append([])
            continue
        parts[-1].append(token)
    return None


def _trimmed(tokens: list[Token]) -> list[Token]:
    first, end = 0, len(tokens)
    while first < end and tokens[first].kind in ("space", "line"):
        first += 1
    while end > first and tokens[end - 1].kind in ("space", "line"):
        end -= 1
    return tokens[first:end]


def constant(text: str) -> int | None:
    """The value of a `#if` expression; names count as 0. None if it is no such expression."""
    text = re.sub(r"(?<=[\da-fA-F])[uUlL]+\b", "", text)
    text = re.sub(r"\b(?!true\b|false\b|0[xX])[A-Za-z_]\w*", "0", text)
    for word, meant in (("true", "1"), ("false", "0"), ("&&", " and "), ("||", " or "), ("/", "//")):
        text = text.replace(word, meant)
    text = re.sub(r"!(?!=)", " not ", text)
    try:
        return int(parse(" ".join(text.split())).value({}))
    except SyntaxInvalid:
        return None
