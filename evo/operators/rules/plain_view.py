"""Kernels that only pass their work on, types under other names, and counters that are declared before their loops, as
rules know them.

A kernel whose body is one call of a `__device__` function, maybe of a template, is seen with that function's body in
place of the call; `real* x` behind `typedef float real;` is seen as `float* x`. What a rule does not touch stays as it
is written. `int i, j; for (i = 0; ...)` is seen as `for (int i = 0; ...)` if nothing but such loops names `i`; a head
that moves several counters moves one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from evo.cuda.source import Edit, Function, Source, Span, Statement
from evo.cuda.source.types import alias_definitions, type_aliases
from evo.operators.rules.element import BYTES
from evo.operators.rules.rewriting import WORD, bracketed, listed, with_its_line
from evo.spec.comments import without_comments

_SCALARS = frozenset(BYTES) | {"int", "unsigned", "unsigned int", "float", "double", "long long", "size_t", "short"}
_CALL = re.compile(r"\s*(?P<name>\w+)\s*(?:<(?P<types>[^<>;(){}]*)>)?\s*\((?P<given>[^;{}]*)\)\s*;\s*", re.DOTALL)
_TEMPLATE = re.compile(r"template\s*<(?P<params>[^<>{};]*)>[^{};<>]*\Z")
_GIVEN = re.compile(r"\w+|\d+\.?\d*[fFuU]?")
_EXPRESSION = re.compile(r"[\w\s.+*/%()-]+")  # of a thread's indices and sizes; read once, at the beginning
_UNSET = re.compile(r"(?P<kind>(?:unsigned |long )*+\w+)\s(?P<names>[\w\s,]+);")
_SET = r"(?P<kind>(?:unsigned |long )?\w+) (?P<begun>\w+ ?=[^;]+)"
_HEAD = re.compile(rf"for\s*\(\s*{_SET};(?P<test>[^;]+);(?P<steps>[^;]+)\)\s*")
_TURNS = ("k", "turn", "step")
_STEP = re.compile(r"\+\+\s*(?P<up>\w+)|(?P<name>\w+)\s*(?:\+\+|\+=(?P<by>[^=]+))")
_DIRECTIVE = re.compile(r"(?m)^[ \t]*+#(?:[^\n\\]|\\[\s\S])*+")
_INTEGERS = ("int", "unsigned", "unsigned int", "size_t", "long", "long long", "short")
_IGNORED = ("const", "__restrict__", "__restrict", "restrict", "volatile")


def plain_types(source: Source) -> list[Edit]:
    """Each use of another name of a scalar type as that type."""
    text = source.data.decode()
    return [
        Edit(Span(*use.span()), kind)
        for name, kind in (_aliases(text).items() if text.isascii() else ())
        for use in re.finditer(rf"\b{name}\b", text)
        if not any(match.start() <= use.start() < match.end() for match in alias_definitions(text))
    ]


def _aliases(text: str) -> dict[str, str]:
    """Other names of scalar types."""
    return {name: kind for name, kind in type_aliases(text).items() if kind in _SCALARS}


def own_counters(source: Source) -> list[Edit]:
    """Counters declared in the head of each loop that sets them, and no longer before all of them."""
    edits: list[Edit] = []
    for function in source.functions:
        for said in source.inside(function):
            match = _UNSET.fullmatch(source.slice(said.span)) if said.kind in ("declare", "other") else None
            if match is None or match["kind"] not in _INTEGERS:
                continue
            names = listed(match["names"])
            heads = {name: places for name in names if (places := _heads(source, function, said, name))}
            left = ", ".join(name for name in names if name not in heads)
            if heads:
                place = said.span if left else with_its_line(source, said.span)
                edits.append(Edit(place, f"{match['kind']} {left};" if left else ""))
                edits += [Edit(Span(at, at), f"{match['kind']} ") for places in heads.values() for at in places]
    return edits


def sole_counters(source: Source) -> list[Edit]:
    """Heads that move several counters, `for (int j = 0, a = i * C; j < C; ++j, ++a)`, with one, which begins at 0,
    and the others worked out of it at the beginning of each turn.
    """
    loops = [s for f in source.functions if f.is_kernel for s in source.inside(f) if s.kind == "for"]
    return [edit for loop in loops for edit in _with_one(source, loop)]


def _with_one(source: Source, loop: Statement) -> list[Edit]:
    head = _HEAD.fullmatch(source.slice(loop.header)) if loop.header is not None else None
    if head is None or head["kind"].strip() not in _INTEGERS or loop.body_span is None or loop.header is None:
        return []
    kind, test = head["kind"].strip(), head["test"].strip()
    begun: dict[str, str] = {}
    for part in listed(head["begun"]):
        name, _, value = part.partition("=")
        begun[name.strip()] = bracketed(_with(value.strip(), begun))
    steps = dict(each for part in listed(head["steps"]) if (each := _stepped(part.strip())) is not None)
    asked = [name for name in begun if name in steps and re.search(rf"\b{name}\b", test)]
    known = {word for word, _ in source.names(loop.span)}
    words = set(WORD.findall(" ".join((*begun.values(), *steps.values()))))
    if len(begun) < 2 or len(steps) != len(listed(head["steps"])) or not steps.keys() <= begun.keys():
        return []
    if len(asked) != 1 or steps[asked[0]] != "1" or (words | begun.keys()) & source.changed_in(loop.body_span):
        return []
    (own,), said = asked, ""
    limit = re.fullmatch(
        rf"{own}\s*<(?!=)(.+)", _with(test, {n: value for n, value in begun.items() if n not in steps})
    )
    turn = own if begun[own] == "0" else next((word for word in _TURNS if word not in known), "")
    if limit is None or not turn:
        return []
    for name, value in begun.items():
        moved = f" + {turn}{'' if steps[name] == '1' else f' * {bracketed(steps[name])}'}" if name in steps else ""
        if name != turn and re.search(rf"\b{name}\b", source.slice(loop.body_span)):
            said += f"const {kind} {name} = {value}{moved}; "
    extent = limit[1].strip() if turn == own else f"{bracketed(limit[1].strip())} - {begun[own]}"
    edits = [Edit(loop.header, f"for ({kind} {turn} = 0; {turn} < {extent}; ++{turn}) ")]
    if source.slice(loop.body_span).startswith("{"):
        return [*edits, Edit(Span(loop.body_span.start + 1, loop.body_span.start + 1), f" {said}")]
    ends = (loop.body_span.start, loop.body_span.end)
    return [*edits, Edit(Span(ends[0], ends[0]), f"{{ {said}"), Edit(Span(ends[1], ends[1]), " }")]


def _with(text: str, values: Mapping[str, str]) -> str:
    return WORD.sub(lambda word: values.get(word[0], word[0]), text)


def _stepped(text: str) -> tuple[str, str] | None:
    """The variable that a step moves, and by what."""
    match = _STEP.fullmatch(text)
    return (match["up"] or match["name"], match["by"] or "1") if match is not None else None


def _heads(source: Source, function: Function, said: Statement, name: str) -> list[int]:
    """Where each loop that begins by setting a variable does so; none if anything else names it."""
    found, places = list[int](), [said.span]
    for loop in source.inside(function):
        head = source.slice(loop.header) if loop.kind == "for" and loop.header is not None else ""
        if match := re.match(rf"for\s*\(\s*(?={name}\s*=[^=,;][^,;]*;)", head):
            found.append(loop.span.start + len(match[0].encode()))
            places.append(loop.span)
    uses = [at for word, at in source.names(function.body) if word == name]
    is_one = source.declared(function.body).count(name) == 1 and name not in [param.name for param in function.params]
    is_apart = not any(one != other and one.holds(other) for one in places for other in places)
    is_hidden = re.search(rf"\b{name}\b", " ".join(_DIRECTIVE.findall(source.text))) is not None
    is_all = all(any(place.holds(at) for place in places) for at in uses)
    return found if is_one and is_apart and is_all and not is_hidden else []


def passed_on(source: Source) -> Iterator[Edit]:
    """The body of each kernel that only calls a function of the file, as that function's body."""
    for kernel in source.functions:
        if not kernel.is_kernel:
            continue
        match = _CALL.fullmatch(without_comments(source.slice(kernel.body)).strip()[1:-1])
        called = [f for f in source.functions if match is not None and f.name == match["name"] and not f.is_kernel]
        if match is None or len(called) != 1 or called[0].return_type.split()[-1:] != ["void"]:
            continue
        body = _body(source, kernel, called[0], listed(match["types"] or ""), listed(match["given"]))
        if body is not None:
            yield Edit(kernel.body, body)


def _body(source: Source, kernel: Function, called: Function, types: Sequence[str], given: Sequence[str]) -> str | None:
    """A function's body as the kernel's; None if a name would be another's, or a number of another type."""
    own = {param.name: _bare(param.type) for param in kernel.params}
    if len(given) != len(called.params) or not all(given):
        return None
    meant = type_arguments(source, called, types, [own.get(text) for text in given])
    if meant is None:
        return None
    names: dict[str, str] = {}
    lines: list[str] = []
    written = source.changed_in(called.body)
    for param, text in zip(called.params, given, strict=True):
        kind = " ".join(meant.get(word, word) for word in re.findall(r"\w+|\*", param.type))
        is_number = _GIVEN.fullmatch(text) is not None and text not in own and param.name not in written
        if is_number or (own.get(text) == _bare(kind) and text not in names.values()):
            names[param.name] = text
            continue
        others = {word for each in given if each is not text for word in re.findall(r"[A-Za-z_]\w*", each)}
        if not _EXPRESSION.fullmatch(text) or "&" in param.type:
            return None
        if "*" in param.type and (text in own or others & set(re.findall(r"[A-Za-z_]\w*", text))):
            return None  # another name of the same memory, or another type of pointer
        names[param.name] = f"{param.name}_" if param.name in own else param.name
        lines.append(f"\n    {kind.replace(' *', '*')} {names[param.name]} = {text};")
    if len(set(names.values())) != len(names) or _clashes(source, called, names):
        return None
    body = source.renamed(called.body, {name: text for name, text in names.items() if name != text})
    for name, text in {**_aliases(source.data.decode()), **meant}.items():
        body = re.sub(rf"\b{name}\b", text, body)
    return f"{body[:1]}{''.join(lines)}{body[1:]}"


def type_arguments(
    source: Source, called: Function, types: Sequence[str], kinds: Sequence[str | None]
) -> dict[str, str] | None:
    """What a template's parameters stand for: as they are given, or as the types of arguments say."""
    head = _TEMPLATE.search(source.data[: called.span.start].decode()) or re.match(
        r"\s*template\s*<(?P<params>[^<>{};]*)>", source.slice(called.span)
    )
    if head is None:
        return {} if not types else None
    wanted = [part.split("=")[0].split()[-1] for part in listed(head["params"])]
    meant = dict(zip(wanted, types, strict=False))
    for param, kind in zip(called.params, kinds, strict=True):
        inner = re.fullmatch(r"(\w+) \*", _bare(param.type))
        if inner is not None and inner[1] in wanted and kind is not None and kind.endswith(" *"):
            meant.setdefault(inner[1], kind.removesuffix(" *"))
        word = _bare(param.type).removesuffix("&").removesuffix("&").strip()  # `T`, `const T&`, `F&&`
        if word in wanted and kind is not None and not kind.endswith("*"):
            meant.setdefault(word, kind)
    return meant if len(meant) == len(wanted) >= len(types) else None


def _clashes(source: Source, called: Function, names: dict[str, str]) -> bool:
    """Whether a variable of the body has the name of what a parameter becomes."""
    inside = source.inside(called)
    own = {name for s in inside for name in _declared(source, s)}
    return bool(own & set(names.values()))


def _declared(source: Source, statement: Statement) -> Sequence[str]:
    return source.declared(statement.span) if statement.kind in ("declare", "other", "for") else ()


def _bare(kind: str) -> str:
    """A type without qualifiers, `float *`."""
    words = [word for word in re.findall(r"[\w:]+|\*|&", kind) if word not in _IGNORED]
    return " ".join(words)
