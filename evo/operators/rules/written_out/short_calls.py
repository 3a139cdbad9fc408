"""Small `__device__` functions and lambdas as what they do: `add(bins, v);` as its statements, `at(p, i)` as its
expression.

Rules that read a kernel's own text see what stands in these functions; a child in which a rule used that has it written
out. A function that loops, recurses, keeps variables or changes its parameters stays a call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from evo.cuda.source import Call, Edit, Function, Param, Source, Span, Statement
from evo.operators.rules.rewriting import with_its_line

_SIMPLE = re.compile(r"[A-Za-z_]\w*|-?\d[\w.]*")
_ONCE = re.compile(r"[\w\s.\[\]()+\-*/%&>]+")  # no call has effects that an operand could repeat: none is inside
_ELEMENT = re.compile(r"\w+\s*\[[^\[\]]*\]")
_CALLED = re.compile(r"\b(?!sizeof\b)[A-Za-z_]\w*\s*\(|\+\+|--|[^<>=!]=[^=]")
_TEMPLATE = re.compile(r"template\s*<[^<>{};]*>\s*(?:__\w+__\s+|static\s+|inline\s+)*\Z")

_LAMBDA = re.compile(
    r"\[(?P<captured>[&=]?)\]\s*\((?P<params>[^(){}]*)\)\s*(?:->\s*\w+\s*)?(?P<body>\{.*\})", re.DOTALL
)
_PARAM = re.compile(r"(?:const\s+)?(?P<type>int|unsigned|size_t|float|double|auto)\s+(?P<name>\w+)")


def inlined(source: Source) -> list[Edit]:
    """The calls in kernels of functions of the file that are one statement or choose between expressions."""
    found: list[Edit] = []
    own = {f.name: f for f in source.functions if not f.is_kernel}
    kernels = {f.name for f in source.functions if f.is_kernel}
    for call in source.calls:
        called = own.get(call.name)
        if called is None or call.function not in kernels or sum(f.name == call.name for f in source.functions) > 1:
            continue
        text = _written(source, call, called)
        if text is not None and not any(edit.span.holds(call.span) or call.span.holds(edit.span) for edit in found):
            found.append(text)
    return found or [edit for f in source.functions if f.is_kernel for edit in _without_lambda(source, f)]


def _without_lambda(source: Source, kernel: Function) -> Iterator[Edit]:
    """One lambda of a kernel at all of its calls, none of which lies in another's arguments."""
    for statement in source.inside(kernel):
        called = _lambda(source, kernel, statement)
        if called is None:
            continue
        calls = [call for call in source.calls if call.name == called.name and kernel.body.holds(call.span)]
        uses = [at for name, at in source.names(kernel.body) if name == called.name]
        edits = [_written(source, call, called) for call in calls]
        if len(uses) - 1 != len(calls) or None in edits or len({e.span for e in edits if e}) != len(calls):
            continue
        if any(a is not b and a.span.holds(b.span) for a in calls for b in calls):
            continue
        yield from (edit for edit in edits if edit is not None)
        yield Edit(with_its_line(source, statement.span), "")
        return


def _lambda(source: Source, kernel: Function, statement: Statement) -> Function | None:
    """A lambda as the function that it is, if its names are the same ones wherever the kernel calls it."""
    if statement.kind != "declare" or statement.value is None or "auto" not in statement.type.split():
        return None
    match = _LAMBDA.fullmatch(source.slice(statement.value))
    if match is None:
        return None
    params = [_PARAM.fullmatch(text.strip()) for text in match["params"].split(",") if text.strip()]
    start = statement.value.start + len(source.slice(statement.value)[: match.start("body")].encode())
    body = Span(start, statement.value.end)
    counts = Counter([*source.declared(kernel.body), *(param.name for param in kernel.params)])
    used = {name for name, _ in source.names(body)} - {param["name"] for param in params if param}
    changed = source.changed_in(Span(statement.span.end, kernel.body.end))
    if None in params or any(counts[name] > 1 for name in used) or (match["captured"] == "=" and used & changed):
        return None
    return Function(
        name=statement.name,
        is_kernel=False,
        span=statement.span,
        body=body,
        name_span=statement.span,
        return_type="auto" if re.search(r"\breturn\b", match["body"]) else "void",
        params=tuple(Param(type=param["type"], name=param["name"]) for param in params if param),
        bounds=None,
        outermost=statement.span.start,
    )


def _written(source: Source, call: Call, called: Function) -> Edit | None:
    names = [param.name for param in called.params]
    given = [source.slice(span).strip() for span in call.arguments]
    if len(given) != len(names) or any("&" in param.type and "const" not in param.type for param in called.params):
        return None
    if _TEMPLATE.search(source.data[: called.span.start].decode(errors="replace")):
        return None
    statements = source.statements(called)
    body = source.slice(called.body)
    if re.search(r"__shared__|__sync|_sync\b|\basm\b|threadIdx|blockIdx", body) or _changes(names, body):
        return None
    value = _value(source, statements)
    is_statement = called.return_type.split()[-1:] == ["void"]
    if value is None and not (is_statement and _is_one(statements)):
        return None
    text = value if value is not None else source.slice(statements[0].span)
    meant = {
        name: _argument(text, name, said, p.type) for name, said, p in zip(names, given, called.params, strict=True)
    }
    if None in meant.values():
        return None
    text = re.sub(r"[A-Za-z_]\w*", lambda match: meant.get(match[0]) or match[0], text)
    if value is not None:
        if is_statement:
            return None
        return Edit(call.span, text if _ELEMENT.fullmatch(text) else f"({text})")  # an element may be written to
    whole = source.enclosing_statement(call.span)
    said = source.slice(whole).rstrip()
    return Edit(whole, text) if said == f"{source.slice(call.span)};" else None


def _argument(text: str, name: str, given: str, kind: str) -> str | None:
    """What stands for a parameter; None if that would be carried out more than once, or be another type."""
    if _CALLED.search(given) or not _ONCE.fullmatch(given):
        return None
    uses = len(re.findall(rf"\b{name}\b", text))
    if uses > 1 and not _SIMPLE.fullmatch(given) and "*" not in kind and "[" in given:
        return None  # memory would be read again
    if kind.replace("const", "").strip() in ("char", "short", "unsigned char", "unsigned short", "signed char"):
        return given if re.fullmatch(r"\w+(?:\[[^\[\]]*\])?", given) else None
    return given if _SIMPLE.fullmatch(given) or re.fullmatch(r"\w+\[[^\[\]]*\]", given) else f"({given})"


def _changes(names: list[str], body: str) -> bool:
    return any(
        re.search(rf"(?:\+\+|--|&)\s*{name}\b(?!\s*\[)|\b{name}\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))", body)
        for name in names
    )


def _is_one(statements: tuple[Statement, ...]) -> bool:
    return (
        len(statements) == 1
        and statements[0].kind in ("assign", "call", "other", "if")
        and not any(each.kind in ("return", "declare", "for") for each in statements[0].all())
    )


def _value(source: Source, statements: tuple[Statement, ...]) -> str | None:
    """`if (c) return a; return b;` as `c ? a : b`; None for anything else."""
    parts: list[str] = []
    for place, statement in enumerate(statements):
        is_last = place == len(statements) - 1
        if statement.kind == "if" and not is_last and not statement.alternative and statement.condition is not None:
            inner = statement.body
            said = _returned(source, inner[0]) if len(inner) == 1 else None
            if said is None:
                return None
            parts.append(f"({source.slice(statement.condition)}) ? {said} : ")
        elif statement.kind == "return" and is_last:
            said = _returned(source, statement)
            return f"{''.join(parts)}{said}" if said is not None else None
        else:
            return None
    return None


def _returned(source: Source, statement: Statement) -> str | None:
    match = re.fullmatch(r"return\s+(.*?)\s*;", source.slice(statement.span), re.DOTALL)
    return match[1] if match is not None else None
