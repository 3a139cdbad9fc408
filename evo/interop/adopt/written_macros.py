"""Macros of a stranger's file that no grammar reads where they stand: launches, functions, lines without a `;`."""

from __future__ import annotations

import contextlib
import re

from evo.analysis.access.preprocess import ExpansionTooLong, expand
from evo.spec.comments import replace_comments, without_comments
from evo.spec.source_text import at_commas

_WORD = re.compile(r"[A-Za-z_]\w*")
_LAUNCH = re.compile(r"\bcudaLaunch(?:Cooperative)?Kernel[ \t]*+\(")
_MACRO = re.compile(r"(?m)^[ \t]*+#[ \t]*+define[ \t]++(\w++)\(((?:\\\n|[^\n])*+)")
_DIRECTIVES = re.compile(r"(?m)^[ \t]*+#(?:\\\n|[^\n])*+")
_CALL = re.compile(r"\b([A-Za-z_]\w*+)[ \t]*+\(")
_ELSE = re.compile(r"\)\s*+(?:\\\s*+)?else\b")  # goes on with an `if` before it
_BRACKET = re.compile(r"[()]")
_WRITES = re.compile(r"<<<|\b__(?:global|device)__\b")  # launches and functions are no expressions
_LOOP = re.compile(r"[^()]*+\)\s*+(?:\\\s*+)?(?:for|while|if|else)\b")  # what is no statement by itself
_NEAR = 2000  # characters


def with_macros_written(text: str) -> str:
    """Macros that launch, define functions or are given code with a launch, as what they stand for, each in its line;
    and a `;` behind others that stand as a line of code without one, which no grammar takes for a statement."""
    every = [(match.start(), match[1], match[0]) for match in _MACRO.finditer(text)]
    defined = {name: body for _, name, body in every}
    words = {name: set(_WORD.findall(body)) for name, body in defined.items()}
    writing = {name for name, body in defined.items() if _WRITES.search(body) or _ELSE.search(body)}
    for _ in defined:
        writing |= {name for name in defined if words[name] & writing}
    code = _DIRECTIVES.sub(lambda match: _blank(match[0]), replace_comments(text, _blank))
    loops = {n for n, body in defined.items() if _LOOP.match(body.partition("(")[2]) and body.rstrip()[-1] not in ";}"}
    prefixed = [(at, body) for at, name, body in every if name in writing or "__VA_ARGS__" in body]
    pieces, copied, ended = list[str](), 0, 0
    for match in _CALL.finditer(code):
        name, start = match[1], match.start()
        if start < copied or (name not in defined and not (name.isupper() and len(name) > 3)):
            continue
        end = _closed(text, match.end())
        whole = text[start:end]
        if name in writing or (name in defined and "__VA_ARGS__" in defined[name] and "<<<" in whole):
            with contextlib.suppress(ExpansionTooLong):
                before = [body for at, body in prefixed if at < start]  # the last of a name is what it stands for
                told = "\n".join([*before, without_comments(whole)]).encode()
                written = re.sub(r"\\?\n", " ", expand(told, {}).data.decode()).strip()
                pieces += [text[copied:start], written, "\n" * whole.count("\n")]
                copied = end
        elif name not in loops and _stands_alone(code, start, end, ended):
            pieces += [text[copied:end], ";"]
            copied = ended = end
    whole = "".join([*pieces, text[copied:]])
    gone = "|".join(name for name in defined if name in writing)  # one between an `if` and its `else` is in the way
    if not gone:
        return whole
    definition = rf"(?m)^[ \t]*+#[ \t]*+(?:define|undef)[ \t]++(?:{gone})\b(?:\\\n|[^\n])*+"
    return re.sub(definition, lambda match: _blank(match[0]), whole)


def with_launches_written(text: str) -> str:
    """`cudaLaunchKernel((void*)k, grid, block, args, bytes, stream)` as `k<<<grid, block, bytes, stream>>>(...)`."""
    pieces, copied = list[str](), 0
    for match in _LAUNCH.finditer(text):
        end = _closed(text, match.end())
        kernel, *shape = (part.strip() for part in at_commas(text[match.end() : end - 1]))
        name = re.search(r"([A-Za-z_][\w:]*+(?:<[^()]*+>)?)\)?\Z", kernel)
        array = re.escape(shape[2]) if len(shape) > 2 else ""
        listed = re.findall(rf"\b{array}\s*+\[[^\]]*+\]\s*+=\s*+\{{([^}}]*+)\}}", text[: match.start()])
        if name is None or not array or not listed:
            continue
        passed = (re.sub(r"\A\s*(?:\([^()]*+\)\s*)?&", "", each) for each in at_commas(listed[-1]))
        launch = f"{name[1]}<<<{', '.join([*shape[:2], *shape[3:]])}>>>({', '.join(passed)})"
        pieces += [text[copied : match.start()], launch, "\n" * text.count("\n", match.start(), end)]
        copied = end
    return "".join([*pieces, text[copied:]])


def _closed(text: str, at: int) -> int:
    """The place behind the bracket that closes the one before a place."""
    depth = 1
    for mark in _BRACKET.finditer(text, at):
        depth += 1 if mark[0] == "(" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _stands_alone(code: str, start: int, end: int, ended: int) -> bool:
    """Whether a call is a line of a function's code, with no `;` behind it. ended: where the last such one ends."""
    line = code[code.rfind("\n", 0, start) + 1 : start]
    before, after = code[max(start - _NEAR, 0) : start].rstrip()[-1:], code[end : end + _NEAR].partition("\n")
    follows = re.match(r"\s*+[A-Za-z_}]", after[2])
    return (
        line[:1] in " \t"
        and not line.strip()
        and (before in "{};" or (start - ended < _NEAR and not code[ended:start].strip()))
        and not after[0].strip()
        and follows is not None
    )
