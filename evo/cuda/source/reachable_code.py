"""The code that a text's launches reach: kernels by their launch lines, other code by the names in reached code.

What is not reached is dead: functions, types, variables and macros at file level, and within reached functions the
statements that can never run. Names are compared as words, so that code counts as reached if in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from evo.cuda.source.nodes import span_of
from evo.cuda.source.parser import Node
from evo.cuda.source.query import Source, parse
from evo.cuda.source.spans import Span
from evo.cuda.source.types import declarator_name, text_of
from evo.spec.comments import without_comments

_LAUNCH = re.compile(r"//\s*evo:\s*launch\s+(\w+)")
_KNOB = re.compile(r"//\s*evo:\s*knob\s+(\w+)")
_EVO_LINE = re.compile(r"^[ \t]*+//[ \t]*+evo:[ \t]*+(?!task\b)(.*+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(r"\w+|\S")
_ENDS = ("return_statement", "break_statement", "continue_statement", "goto_statement")
_NO_CODE = ("comment", "{", "}", "labeled_statement", "case_statement", "preproc_endif")
_TYPES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier", "type_definition")
_NAMED = (*_TYPES, "alias_declaration", "declaration", "preproc_def", "preproc_function_def")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableCode:
    """Code that no launch reaches. what: `kernel`, `function`, `declaration`, `macro` or `statements`; text: tokens."""

    what: str
    name: str
    line: int
    text: str
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}" + (f" `{self.name}`" if self.name else "")


@dataclass(frozen=True, slots=True)
class _Item:
    names: tuple[str, ...]
    span: Span
    what: str


def launched(text: str) -> tuple[str, ...]:
    """Kernels by the launch lines of a text, each once, in order."""
    return tuple(dict.fromkeys(_LAUNCH.findall(text)))


def dead_code(text: str) -> tuple[UnreachableCode, ...]:
    """Code that no launch reaches, in text order; empty if the text has no launch line."""
    source, kernels = parse(text), launched(text)
    if not kernels:
        return ()
    items = _items(source)
    reached = _reached(source, items, kernels)
    found = [(item.span, item.what, item.names[0]) for item in items if not reached.intersection(item.names)]
    found += [(span, "statements", "") for span in _never_run(source)]
    outer: list[Span] = []
    dead = []
    for span, what, name in sorted(found, key=lambda each: (each[0].start, -each[0].end)):
        if not outer or not outer[-1].holds(span):
            outer.append(span)
            dead.append(_dead(source, what, name, span))
    return tuple(dead)


def new_dead_code(parent: str, child: str) -> tuple[UnreachableCode, ...]:
    """Dead code of a child that its parent does not hold as dead code too."""
    before = [each.text for each in dead_code(parent)]
    return tuple(each for each in dead_code(child) if each.text not in before)


def moved_launches(parent: str, child: str) -> tuple[str, str] | None:
    """Kernels that launch lines left and took up, if the new one is other code than the old one; None otherwise."""
    old, new = launched(parent), launched(child)
    gone, come = [name for name in old if name not in new], [name for name in new if name not in old]
    if not gone or not come:
        return None
    was = {function.name: function for function in parse(parent).functions}
    now = {function.name: function for function in parse(child).functions}
    for name in come:
        if name in was and name in now:
            return gone[0], name  # it was there before, unlaunched
        bodies = [_named(parse(parent).slice(was[each].span), each) for each in gone if each in was]
        if name in now and _named(parse(child).slice(now[name].span), name) not in bodies:
            return gone[0], name
    return None


def _named(text: str, name: str) -> str:
    """The tokens of a function's text without its own name."""
    return " ".join("$" if token == name else token for token in _TOKEN.findall(without_comments(text)))


def _dead(source: Source, what: str, name: str, span: Span) -> UnreachableCode:
    text = " ".join(_TOKEN.findall(without_comments(source.slice(span))))
    return UnreachableCode(what=what, name=name, line=source.line(span.start), text=text, span=span)


def _items(source: Source) -> list[_Item]:
    """Named definitions at file level, in text order, none within another."""
    found = [
        _Item((function.name,), function.span, "kernel" if function.is_kernel else "function")
        for function in source.functions
        if _WORD.fullmatch(function.name)
    ]
    for node in source.nodes():
        if node.type in _NAMED and (names := _names_of(node)):
            what = "macro" if node.type.startswith("preproc") else "declaration"
            found.append(_Item(names, span_of(node), what))
    found.sort(key=lambda item: (item.span.start, -item.span.end))
    outer: list[_Item] = []
    for item in found:
        if not outer or not outer[-1].span.holds(item.span):
            outer.append(item)
    return outer


def _names_of(node: Node) -> tuple[str, ...]:
    if node.type.startswith("preproc") or node.type == "alias_declaration":
        return (text_of(node.child("name")),)
    declared = [name for each in node.children_of("declarator") if (name := declarator_name(each))]
    if node.type in ("declaration", "type_definition"):
        inner = node.child("type")
        own = text_of(inner.child("name")) if inner is not None and inner.type in _TYPES else ""
        return tuple(filter(None, (*declared, own)))
    return tuple(filter(None, (text_of(node.child("name")),))) if node.child("body") is not None else ()


def _reached(source: Source, items: Sequence[_Item], kernels: Iterable[str]) -> set[str]:
    """Names that launches reach: launched kernels, and names in unnamed text and in reached code."""
    rest, last = [], 0
    for item in items:
        rest.append(source.slice(Span(last, max(last, item.span.start))))
        last = max(last, item.span.end)
    rest.append(source.slice(Span(last, len(source.data))))
    evo_lines = "\n".join(_EVO_LINE.findall(source.text))
    words: dict[str, set[str]] = {}
    for item in items:
        inside = set(_WORD.findall(without_comments(source.slice(item.span))))
        for name in item.names:
            words.setdefault(name, set()).update(inside)
    knobs = _KNOB.findall(source.text)
    waiting = [*knobs, *_WORD.findall(without_comments(" ".join(rest))), *_WORD.findall(evo_lines), *kernels]
    unlaunched = {item.names[0] for item in items if item.what == "kernel"}.difference(kernels)
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached and name not in unlaunched:
            reached.add(name)
            waiting.extend(words.get(name, ()))
    return reached


def _never_run(source: Source) -> Iterator[Span]:
    """Statements behind a `return` in one block, branches of conditions that are 0 or 1, and `#if 0` parts."""
    for node in source.nodes():
        if node.type == "compound_statement":
            yield from _behind_end(node)
        elif node.type in ("if_statement", "while_statement", "for_statement"):
            value = _constant(source, node.child("condition"))
            branch = node.child("consequence" if node.type == "if_statement" else "body") if value == 0 else None
            if value and node.type == "if_statement":
                branch = node.child("alternative")
            if branch is not None:
                yield span_of(branch)
        elif node.type == "preproc_if" and _constant(source, node.child("condition")) == 0:
            yield span_of(node)


def _behind_end(block: Node) -> Iterator[Span]:
    inside = [child for child in block.named_children if child.type not in _NO_CODE]
    for place, child in enumerate(inside[:-1]):
        if child.type in _ENDS:
            behind = [each for each in block.named_children if each.start_byte >= inside[place + 1].start_byte]
            if not any(each.type in ("labeled_statement", "case_statement") for each in block.named_children):
                yield Span(inside[place + 1].start_byte, behind[-1].end_byte)
            return


def _constant(source: Source, condition: Node | None) -> int | None:
    """The value of a condition that is a literal, or a macro that is one and no knob."""
    if condition is None:
        return None
    words = text_of(condition).strip()
    while words.startswith("(") and words.endswith(")"):
        words = words[1:-1].strip()
    if words in ("false", "true"):
        return int(words == "true")
    if words in _KNOB.findall(source.text):
        return None
    return source.integer(words)
