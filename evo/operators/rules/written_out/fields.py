"""Structs of the file that a kernel keeps in a variable, as a variable for each field.

`Row r = {x + i * n, n};` is seen as `const float* values = x + i * n; int length = n;`, and `r.values[k]` as
`values[k]`. A struct that is handed on, copied or addressed as a whole stays one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from evo.cuda.source import Edit, Function, Source, Span, Statement
from evo.operators.rules.rewriting import WORD, fresh, indent_of, listed, with_its_line
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_STRUCT = re.compile(r"\bstruct\s+(?P<name>\w+)\s*\{(?P<body>[^{}()]*)\}\s*;")
_MEMBERS = re.compile(
    r"\s*(?P<kind>(?:const\s+)?(?:(?:unsigned|signed|long|short)\s+)*\w+)\s*(?P<names>[*\w\s,\[\].=-]+)"
)
_MEMBER = re.compile(
    r"(?P<stars>\**)\s*(?:(?:__restrict__|const)\s+)?(?P<name>\w+)(?P<dims>(?:\[\w+\])*)"
    r"\s*(?:=\s*(?P<first>-?[\w.]+)\s*)?"
)
_DECLARED = re.compile(
    r"(?:const\s+)?(?:struct\s+)?(?P<kind>\w+)\s+(?P<name>\w+)\s*"
    r"(?:=?\s*\{(?P<values>.*)\}\s*|\((?P<given>.*)\)\s*)?;",
    re.S,
)
_SEVERAL = re.compile(r"(?P<head>(?:const\s+)?(?:struct\s+)?(?P<kind>\w+)\s+)(?P<parts>\w.*);", re.S)
_COPIED = re.compile(r"(?:const\s+)?(?:struct\s+)?(?P<kind>\w+)\s+\w+\s*=\s*(?P<value>\w+)\s*;")
_FIELD = re.compile(r"\s*\.\s*(\w+)")

Fields = Mapping[str, tuple[str, str, str]]  # by name: the type in front of a variable, dimensions, what it begins with


def with_fields_apart(ctx: RuleContext) -> list[Edit]:
    """The edits that take one struct of a kernel apart."""
    structs = dict(structs_in(ctx.source.text))
    if re.search(r"\bdim3\s+\w+\s*[({]", ctx.source.text):
        structs["dim3"] = dict.fromkeys("xyz", ("unsigned ", "", "1"))
    for function in ctx.source.functions if structs else ():
        if not function.is_kernel:
            continue
        for statement in ctx.source.inside(function):
            text = ctx.source.slice(statement.span)
            several = _SEVERAL.fullmatch(text)
            parts = listed(several["parts"]) if several is not None and several["kind"] in structs else []
            if several is not None and len(parts) > 1:
                joint = f"\n{indent_of(ctx.source, statement.span.start)}"
                return [Edit(statement.span, joint.join(f"{several['head']}{part};" for part in parts))]
            match = _DECLARED.fullmatch(text)
            fields = structs.get(match["kind"]) if match is not None else None
            if match is None or (match["given"] is not None and match["kind"] != "dim3"):
                continue  # a constructor of the file's
            if fields and (made := _apart(ctx, function, statement, match, fields)):
                return made
    return []


def structs_in(text: str) -> Iterator[tuple[str, Fields]]:
    """The structs of a text that hold variables alone."""
    for struct in _STRUCT.finditer(without_comments(text)):
        fields: dict[str, tuple[str, str, str]] = {}
        for line in struct["body"].split(";")[:-1]:
            members = _MEMBERS.fullmatch(line)
            found = [_MEMBER.fullmatch(part) for part in listed(members["names"])] if members is not None else [None]
            if members is None or None in found:
                break
            kind = members["kind"]
            fields |= {m["name"]: (f"{kind} {m['stars']}", m["dims"], m["first"] or "") for m in found if m is not None}
        else:
            yield struct["name"], fields


def _apart(
    ctx: RuleContext, function: Function, declared: Statement, match: re.Match[str], fields: Fields
) -> list[Edit]:
    source = ctx.source
    uses = [at for name, at in source.names(function.body) if name == match["name"] and not declared.span.holds(at)]
    whole = [at for at in uses if _is_copied(source, at, match["kind"])]
    uses = [at for at in uses if at not in whole]
    read = [_FIELD.match(source.data[at.end : function.body.end].decode()) for at in uses]
    values = listed(match["values"] or match["given"] or "")
    if any(each is None or each[1] not in fields for each in read) or len(values) > len(fields):
        return []
    if sum(name == match["name"] for name, at in source.names(function.body) if declared.span.holds(at)) > 1:
        return []
    if whole and any(dims for _, dims, _ in fields.values()):
        return []  # an array is no value
    words, names = _words(source, function), dict[str, str]()
    for field in fields:
        names[field] = field if field not in words else fresh(ctx, f"{match['name']}_{field}", names.values())
    said = [(Span(at.start, at.end + each.end()), each[1]) for at, each in zip(uses, read, strict=True) if each]
    edits = [Edit(span, names[field]) for span, field in said]
    edits += [Edit(at, f"{{{', '.join(names.values())}}}") for at in whole]
    is_given = match["values"] is not None or match["given"] is not None
    firsts = {} if is_given else dict(_first_assignments(source, function, declared, said))
    lines = []
    for number, (field, (kind, dims, first)) in enumerate(fields.items()):
        if field in firsts:
            edits = [edit for edit in edits if edit.span != firsts[field]]
            edits.append(Edit(firsts[field], f"{kind}{names[field]}"))
            continue
        value = values[number] if number < len(values) else "{}" if dims else first or "0"
        if not whole and field not in {used for _, used in said} and not re.search(r"\(|\+\+|--|=", value):
            continue
        if dims and number < len(values):
            return []
        lines.append(f"{kind}{names[field]}{dims}{f' = {value}' if is_given or first else ''};")
    joint = f"\n{indent_of(source, declared.span.start)}"
    return [Edit(declared.span if lines else with_its_line(source, declared.span), joint.join(lines)), *edits]


def _is_copied(source: Source, at: Span, kind: str) -> bool:
    """Whether a name is all that another struct of its kind is declared as."""
    match = _COPIED.fullmatch(source.slice(source.enclosing_statement(at)))
    return match is not None and match["kind"] == kind and match["value"] == source.slice(at)


def _words(source: Source, function: Function) -> set[str]:
    """What a variable of a kernel would hide: names of the kernel, functions, macros and constants of the file."""
    known = {f.name for f in source.functions} | {name for name, _ in source.names(function.span)}
    inside = [f.span for f in source.functions]
    structs = [Span(*match.span()) for match in _STRUCT.finditer(source.text)] if source.text.isascii() else []
    words = ((match[0], Span(*match.span())) for match in WORD.finditer(source.data.decode("latin-1")))
    return known | {word for word, at in words if not any(span.holds(at) for span in (*inside, *structs))}


def _first_assignments(
    source: Source, function: Function, declared: Statement, said: Sequence[tuple[Span, str]]
) -> Iterator[tuple[str, Span]]:
    """Fields that a statement beside the declaration sets before anything else is done with them, and where."""
    blocks = [source.statements(function), *(each.body for each in source.inside(function))]
    beside = next((block for block in blocks if declared in block), ())
    targets = {s.target for s in beside if s.kind == "assign" and s.operator == "="}
    for field in dict.fromkeys(field for _, field in said):
        first, *_ = [span for span, each in said if each == field]
        if first in targets:
            yield field, first
