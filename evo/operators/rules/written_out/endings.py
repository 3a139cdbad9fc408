"""Loops that a test inside ends, as loops with that test: `while (true) { if (i >= n) break; ... }`; turns that a test
ends, with what it leaves out behind that test: `if (v <= best) continue; best = v;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Function, Source, Span
from evo.cuda.source.nodes import span_of
from evo.cuda.source.parser import Node
from evo.operators.rules.rewriting import LEAVES, indent_of, with_its_line
from evo.operators.rules.rule_context import RuleContext

_ENDLESS = frozenset(["", "1", "true", "(1)", "(true)"])
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_REAL = re.compile(r"\d\.|\.\d|\d[fF]\b|\b\w*f\s*\(")
_INSIDE = re.compile(r"\(\s*(\w+) < (\w+)\s*\)")
_BELOW = re.compile(r"\(?\s*(\w+) < (\w+)\s*\)?")
_NEVER = frozenset(["(0)", "(false)"])


def with_tests(ctx: RuleContext) -> list[Edit]:
    """The edits that put such tests into the headers of the loops of functions, outermost loops first."""
    source = ctx.source
    kernels = list(source.functions)
    found: list[Edit] = [edit for kernel in kernels for edit in _last_turns(source, kernel)]
    taken: list[Span] = []
    for node in source.nodes():
        span = span_of(node)
        if not node.type.endswith("_statement") or any(each.holds(span) for each in taken):
            continue
        kernel = next((f for f in kernels if f.body.holds(span)), None)
        if kernel is not None and node.type in ("for_statement", "while_statement", "do_statement"):
            made = list(_once(node) or _of_loop(source, kernel, node)) or list(_skipped(source, kernel, node))
            taken += [span] if made else []
            found += made
    return found


def _last_turns(source: Source, kernel: Function) -> Iterator[Edit]:
    """`for (; i + 1 < n; i += 2) { ... } if (i < n) ...;`, whose rest is a loop of one turn at most."""
    for node in source.nodes():
        above, test = node.previous if node.type == "if_statement" else None, node.child("condition")
        if above is None or above.type not in ("for_statement", "while_statement") or test is None:
            continue
        said, span = _INSIDE.fullmatch(test.text), span_of(node)
        before = above.child("condition")
        if said is None or before is None or node.child("alternative") is not None or not kernel.body.holds(span):
            continue
        index, limit = said.groups()
        wanted = rf"\(?\s*{index} \+ 1 < {limit}\s*\)?"
        after = Span(node.end_byte, kernel.body.end)
        is_read = any(name == index for name, _ in source.names(after)) or index in source.changed_in(span)
        if re.fullmatch(wanted, before.text) and not is_read and not LEAVES.search(above.text + node.text):
            yield Edit(Span(node.start_byte, test.end_byte), f"for (; {index} < {limit}; ++{index})")


def _once(node: Node) -> Iterator[Edit] | None:
    """`do { ... } while (0);` as a block."""
    test, body = node.child("condition"), node.child("body")
    if node.type != "do_statement" or test is None or body is None or test.text not in _NEVER:
        return None
    leaves = re.search(r"\b(?:break|continue)\b", body.text) is not None
    return None if leaves else iter([Edit(span_of(node), body.text)])


def _of_loop(source: Source, kernel: Function, node: Node) -> Iterator[Edit]:
    test, body = node.child("condition"), node.child("body")
    said = test.text if test is not None else ""
    if body is None or body.type != "compound_statement":
        return
    if said not in _ENDLESS:
        yield from _sooner(source, kernel, node, body)
        return
    inside = body.inside
    if not inside or any(each.type.startswith("preproc_if") for each in inside):
        return
    leaves = ("break;", "return;") if _is_last(source, kernel, node) else ("break;",)
    first, last = inside[0], inside[-1]
    if (how := _leaving(source, kernel, first, leaves)) is not None:
        goes_on, rest = how
        if rest is None:
            yield Edit(with_its_line(source, span_of(first)), "")
        else:
            yield Edit(span_of(first), rest.text)
        yield Edit(Span(node.start_byte, body.start_byte), f"{_head(node, goes_on)} ")
        if node.type == "do_statement":
            yield Edit(Span(body.end_byte, node.end_byte), "")
        return
    how = _leaving(source, kernel, last, leaves)
    update, begin = node.child("update"), node.child("initializer")
    if how is None or how[1] is not None or update is not None or len(inside) < 2 or "continue" in body.text:
        return
    if begin is not None and begin.type == "declaration":
        return
    yield Edit(with_its_line(source, span_of(last)), "")
    start = f"{begin.text}; " if begin is not None else ""
    yield Edit(Span(node.start_byte, body.start_byte), f"{start}do ")
    yield Edit(Span(body.end_byte, node.end_byte), f" while ({how[0]});")


def _skipped(source: Source, kernel: Function, node: Node) -> Iterator[Edit]:
    """`if (test) continue;` and the rest of a turn as that rest behind the opposite test."""
    body = node.child("body")
    inside = body.inside if body is not None and body.type == "compound_statement" else []
    for at, each in enumerate(inside[:-1]):
        how = _leaving(source, kernel, each, ("continue;",))
        if how is None or how[1] is not None:
            continue
        rest, indent = Span(inside[at + 1].start_byte, inside[-1].end_byte), indent_of(source, each.start_byte)
        if "#" not in source.slice(rest):
            said = source.slice(rest).replace("\n", "\n    ")
            yield Edit(Span(each.start_byte, rest.end), f"if ({how[0]}) {{\n{indent}    {said}\n{indent}}}")
        return


def _sooner(source: Source, kernel: Function, node: Node, body: Node) -> Iterator[Edit]:
    """`for (i = 0; i < m; ++i) { if (i >= n) break; ... }`, whose limit is the smaller one."""
    test, first = node.child("condition"), next(iter(body.inside), None)
    how = _leaving(source, kernel, first, ("break;",)) if first is not None else None
    if node.type != "for_statement" or test is None or first is None or how is None or how[1] is not None:
        return
    one, other = (_BELOW.fullmatch(each) for each in (test.text, how[0]))
    known = {s.name for s in source.inside(kernel) if s.kind == "declare" and s.type.split()[-1:] == ["int"]}
    known |= {param.name for param in kernel.params if param.type.split()[-1:] == ["int"]}
    if one is None or other is None or one[1] != other[1]:
        return
    if {one[2], other[2]} <= known - source.changed_in(span_of(node)):
        yield Edit(with_its_line(source, span_of(first)), "")
        yield Edit(span_of(test), f"{one[1]} < min({one[2]}, {other[2]})")


def _head(node: Node, test: str) -> str:
    """The loop's header with a test."""
    begin, update = node.child("initializer"), node.child("update")
    if node.type != "for_statement":
        return f"while ({test})"
    first = begin.text.rstrip().rstrip(";") if begin is not None else ""
    return f"for ({first}; {test}; {update.text if update is not None else ''})"


def _is_last(source: Source, kernel: Function, node: Node) -> bool:
    """Whether the kernel ends with the loop: then it is as well to return from it as to leave it."""
    tops = source.statements(kernel)
    return bool(tops) and tops[-1].span == span_of(node)


def _leaving(source: Source, kernel: Function, node: Node, leaves: tuple[str, ...]) -> tuple[str, Node | None] | None:
    """The condition under which a test does not leave the loop, and what it does then."""
    test, then = node.child("condition"), node.child("consequence")
    if node.type != "if_statement" or test is None or then is None or node.child("initializer") is not None:
        return None
    held = test.inside
    if len(held) != 1 or held[0].type in ("declaration", "init_statement"):
        return None
    other = node.child("alternative")
    otherwise = next(iter(other.inside), None) if other is not None else None
    if _only(then) in leaves:
        return _negated(source, kernel, held[0]), otherwise
    if otherwise is not None and _only(otherwise) in leaves:
        return held[0].text, then
    return None


def _only(node: Node) -> str:
    """The text of a statement, maybe alone in a block."""
    inside = node.inside
    if node.type == "compound_statement":
        return inside[0].text if len(inside) == 1 else ""
    return node.text


def _negated(source: Source, kernel: Function, node: Node) -> str:
    """The opposite of a condition; of a comparison of integers the opposite comparison."""
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return _negated(source, kernel, node.named_children[0])
    if node.type == "unary_expression" and node.text.startswith("!"):
        inner = node.named_children[0]
        while inner.type == "parenthesized_expression" and len(inner.named_children) == 1:
            inner = inner.named_children[0]
        return inner.text
    left, right = node.child("left"), node.child("right")
    sign = node.child("operator")
    if node.type == "binary_expression" and left is not None and right is not None and sign is not None:
        if sign.text == "||":
            return " && ".join(_part(source, kernel, each) for each in (left, right))
        kinds = {source.type_of(kernel.name, span_of(side)) for side in (left, right)}
        is_real = bool(kinds & {"float", "double", "half"}) or _REAL.search(node.text)  # NaN is no less, nor equal
        if sign.text in _OPPOSITE and not is_real:
            return f"{left.text} {_OPPOSITE[sign.text]} {right.text}"
    return f"!({node.text})"


def _part(source: Source, kernel: Function, node: Node) -> str:
    text = _negated(source, kernel, node)
    return f"({text})" if "||" in text else text
