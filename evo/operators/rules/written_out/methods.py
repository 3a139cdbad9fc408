"""Methods of the file's structs as functions that are given the struct: `row.at(i)` as `Row_at(row, i)`.

What writes out functions and takes structs apart then reads them. Templates, constructors and operators but `()` stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import Call, Edit, Function, Source, Span
from evo.cuda.source.nodes import span_of
from evo.cuda.source.types import declarator_name, text_of
from evo.operators.rules.rewriting import TEMPLATE, closed, listed, rewritten, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.written_out.fields import structs_in

_STRUCT = re.compile(r"\bstruct\s+(?P<name>\w+)\s*\{")
_TEMPLATE = re.compile(r"template\s*<(?P<params>[^<>{};]*)>\s*(?P<struct>struct)\s+(?P<name>\w+)\s*\{")
_STAYS = re.compile(r"\bthis\b|\bstatic\b|\bvirtual\b|\btemplate\b|\bpublic\b|\bprivate\b|~")
_CALLED = re.compile(r"(?:(?P<of>\w+)\s*\.\s*)?(?P<name>\w+)")
_OPERATOR = "operator()"
_SELF = "self"


@dataclass(frozen=True, slots=True)
class _Struct:
    """A struct with methods: all of it up to its semicolon. names: what its methods are called as functions."""

    name: str
    whole: Span
    methods: tuple[Function, ...]
    names: dict[str, str]


def without_templates(ctx: RuleContext) -> list[Edit]:
    """The edits that make a plain struct of a template's whose arguments are the same wherever it is used."""
    source, text = ctx.source, ctx.source.data.decode("latin-1")
    for match in _TEMPLATE.finditer(text):
        name, end = match["name"], closed(text, match.end() - 1)
        words = [part.split() for part in listed(match["params"])]
        uses = [use for use in re.finditer(rf"\b{name}\b", text) if use.start() >= end > 0]
        given = [re.match(r"\s*<([\w\s,]*)>", text[use.end() :]) for use in uses]
        said = {tuple(listed(each[1])) if each is not None else () for each in given}
        if len(said) != 1 or any(len(each) < 2 or each[0] == "template" for each in words):
            continue
        (values,) = said
        if len(values) != len(words):
            continue
        meant = {word[-1]: value for word, value in zip(words, values, strict=True)}
        whole = Span(match.end(), end)
        inside = "".join(meant.get(part, part) for part in re.split(r"\b", source.slice(whole)))
        edits = [Edit(Span(match.start(), match.start("struct")), ""), Edit(whole, inside)]
        named = [Span(use.start(), use.end() + each.end()) for use, each in zip(uses, given, strict=True) if each]
        return [*edits, *(Edit(span, name) for span in named)]
    return []


def templates_in(ctx: RuleContext) -> list[str]:
    """Names of structs that are templates."""
    return [match["name"] for match in _TEMPLATE.finditer(ctx.source.text)]


def methods_apart(ctx: RuleContext) -> list[Edit]:
    """The edits that make functions of all methods of one struct."""
    source = ctx.source
    for struct in _structs(source):
        edits = [Edit(with_its_line(source, method.span), "") for method in struct.methods]
        written = [_function(source, struct, method) for method in struct.methods]
        calls = list(_calls(source, struct))
        if None in written or not _are_all(source, struct, calls):
            continue
        text = "".join(f"\n{each}" for each in written)
        edits.append(Edit(Span(struct.whole.end, struct.whole.end), text))
        return [*edits, *(Edit(span, said) for _, span, said in calls)]
    return []


def _structs(source: Source) -> Iterator[_Struct]:
    text = source.data.decode("latin-1")  # a character for each byte
    known = [function.name for function in source.functions]
    for match in _STRUCT.finditer(text):
        end = closed(text, match.end() - 1)
        end = text.find(";", end) + 1 if end else 0
        methods = tuple(f for f in source.functions if match.start() < f.span.start < end)
        if not methods or TEMPLATE.search(source.data[: match.start()]) or _STAYS.search(text[match.start() : end]):
            continue
        names = {f.name: f"{match['name']}_{'at' if f.name == _OPERATOR else f.name}" for f in methods}
        is_plain = all(f.return_type and (f.name.isidentifier() or f.name == _OPERATOR) for f in methods)
        is_plain &= all(known.count(name) == 1 or name == _OPERATOR for name in names)
        if not is_plain or len(names) != len(methods):
            continue
        if not any(re.search(rf"\b{name}\b", text) for name in names.values()):
            yield _Struct(match["name"], Span(match.start(), end), methods, names)


def _function(source: Source, struct: _Struct, method: Function) -> str | None:
    """A method as a function; fields that it names are those of the struct that it is given."""
    own = {param.name for param in method.params} | set(source.declared(method.body))
    variables = rewritten(source, struct.whole, [Edit(each.span, "") for each in struct.methods])
    known = dict(structs_in(variables)).get(struct.name)
    if known is None or re.search(rf"\b{_SELF}\b", source.slice(method.span)):
        return None
    fields = known.keys() - own
    between = source.slice(Span(method.name_span.end, method.body.start))
    params, _, constness = between.strip().removeprefix("(").rpartition(")")
    if constness.strip() not in ("", "const"):
        return None
    edits = [Edit(at, f"{_SELF}.{name}") for name, at in source.names(method.body) if name in fields]
    for call in source.calls:
        if method.body.holds(call.span) and call.name in struct.names:
            said = _given(source, call, struct.names[call.name], _SELF)
            edits = [each for each in edits if not call.name_span.holds(each.span)]
            edits.append(Edit(Span(call.name_span.start, said[0].end), said[1]))
    head = source.slice(Span(method.span.start, method.name_span.start))
    kind = f"const {struct.name}&" if constness.strip() else f"{struct.name}&"
    given = ", ".join(part for part in (f"{kind} {_SELF}", params.strip()) if part)
    return f"{head}{struct.names[method.name]}({given}) {rewritten(source, method.body, edits)}"


def _given(source: Source, call: Call, name: str, of: str) -> tuple[Span, str]:
    """What stands for a call up to its first argument, and where that ends."""
    opened = source.data.index(b"(", call.name_span.end)
    return Span(call.name_span.start, opened + 1), f"{name}({of}{', ' if call.arguments else ''}"


def _calls(source: Source, struct: _Struct) -> Iterator[tuple[Call, Span, str]]:
    """The calls of a struct's methods outside of it, each with what is written in place of its beginning."""
    for call in source.calls:
        match = _CALLED.fullmatch(call.name)
        if match is None or struct.whole.holds(call.span):
            continue
        of, name = (match["of"], match["name"]) if match["of"] else (match["name"], _OPERATOR)
        if name in struct.names and _kind(source, call, of) == struct.name:
            span, said = _given(source, call, struct.names[name], of)
            yield call, span, said


def _kind(source: Source, call: Call, name: str) -> str | None:
    """The struct that a name of a function is declared as; None if it is another one elsewhere."""
    function = source.function_at(call.span.start)
    if function is None:
        return None
    kinds = {param.type.removeprefix("const").strip(" &") for param in function.params if param.name == name}
    for node in source.nodes():
        is_ours = node.type == "declaration" and function.body.holds(span_of(node))
        if is_ours and name in map(declarator_name, node.children_of("declarator")):
            kinds.add(text_of(node.child("type")))
    return kinds.pop() if len(kinds) == 1 else None


def _are_all(source: Source, struct: _Struct, calls: Sequence[tuple[Call, Span, str]]) -> bool:
    """Whether nothing else in the text calls a method."""
    found = {call.span for call, _, _ in calls}
    for call in source.calls:
        match = _CALLED.fullmatch(call.name)
        name = match["name"] if match is not None else call.name.rpartition(".")[2].rpartition("->")[2].strip()
        if name in struct.names and call.span not in found and not struct.whole.holds(call.span):
            return False
    return True
