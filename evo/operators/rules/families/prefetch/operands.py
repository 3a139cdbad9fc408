"""What the steps of a loop read that is known before the loop: where, under which tests, and through which lambda."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.cuda.source import Call, CountedFor, Function, Param, Span, Statement
from evo.operators.rules.rewriting import LEAVES
from evo.operators.rules.rule_context import RuleContext

_LEFT = re.compile(r"\breturn\b[^;]*;")
NO_OPERAND = re.compile(r"\w\s*\(|\[|->|\+\+|--|(?<![=!<>])=(?!=)|(?:^|[(,&|?:=<>])\s*[*&]")
LAMBDA = re.compile(r"\[[^\]]*\]\s*\(((?:[^()]|\([^()]*\))*)\)")
_INTEGER = re.compile(r"(?:const )?(?:int|unsigned|long long|size_t) (\w+)")
_POINTER = re.compile(r"const ([\w:]+)\s*\*\s*(?:const\s*|__restrict__\s*)*")
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")  # no field
_BUILT_IN = frozenset(("threadIdx", "blockIdx", "blockDim", "gridDim", "int", "long", "unsigned", "true", "false"))
_CONSTANT = re.compile(r"^(?:static |inline |__device__ )*(?:constexpr|const) [\w ]*?\b(\w+)(?: = |\{)", re.MULTILINE)
_MOST_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandRead:
    """`pointer[index]` of a step of a loop; by a lambda where `call` is given, which passes the index on."""

    pointer: str
    element: str
    index: str
    guards: tuple[str, ...]
    locals: tuple[Statement, ...]  # of the loop's body, in front of the read
    span: Span  # in the loop, or in the lambda
    call: Call | None = None
    place: int = 0  # of the index among the lambda's parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBody:
    """A kernel's body as this rule looks at it."""

    ctx: RuleContext
    function: Function
    tops: tuple[Statement, ...]
    places: dict[str, int]  # of the top statement that declares a name; -1 for a parameter
    pointers: dict[str, str]  # constant and restrict, by name: what they point to
    lambdas: dict[str, Statement]
    constants: frozenset[str]  # of the file
    written: frozenset[str]

    def usable(self, text: str, known: Sequence[str]) -> bool:
        """Whether an expression is of names alone that never change."""
        return not NO_OPERAND.search(text) and all(
            name in known
            or name in _BUILT_IN
            or (name not in self.written and (name in self.places or name in self.constants))
            for name in _NAME.findall(text)
        )

    def place_of(self, texts: Sequence[str]) -> int:
        """The first place where everything that the texts name is declared."""
        names = {name for text in texts for name in _NAME.findall(text)}
        return max((self.places[name] + 1 for name in names if name in self.places), default=0)


def body_of(ctx: RuleContext, function: Function) -> KernelBody:
    tops = ctx.source.statements(function)
    declared = Counter(ctx.source.declared(function.body))
    places = {param.name: -1 for param in function.params if not declared[param.name]}
    pointers = {p.name: p.type[6:-1] for p in function.params if _is_constant(p) and not declared[p.name]}
    lambdas: dict[str, Statement] = {}
    inside = [s for top in tops for s in top.all()]
    written = {s.name for s in inside if s.kind == "assign"} | set(ctx.source.hidden_writes(function))
    written -= {s.name for s in tops if s.kind == "declare" and s.type.startswith("const ") and "*" not in s.type}
    for place, top in enumerate(tops):
        text = ctx.source.slice(top.span)
        if top.kind == "declare" and declared[top.name] == 1 and top.value is not None:
            places[top.name] = place
            value, kind = ctx.source.slice(top.value), _POINTER.fullmatch(top.type)
            if value.startswith("["):
                lambdas[top.name] = top
            elif kind is not None and not top.dims and _roots(value, pointers):
                pointers[top.name] = kind[1]
        elif top.kind == "other" and re.match(r"const \w+ \w+ = [^;{}\[]*;$", text):  # several names at once
            places.update({name: place for name in re.findall(r"(\w+) = ", text) if declared[name] == 1})
    return KernelBody(
        ctx=ctx,
        function=function,
        tops=tops,
        places=places,
        pointers={name: kind for name, kind in pointers.items() if _stays(ctx, function, name)},
        lambdas=lambdas,
        constants=_constants(ctx, function) - set(declared),
        written=frozenset(written),
    )


def _constants(ctx: RuleContext, function: Function) -> frozenset[str]:
    """Of the file, and macros of them and of literals: another macro's text may name what changes."""
    found = {*ctx.variant.macros, *_CONSTANT.findall(ctx.source.text[: ctx.source.text.find("__global__")])}
    names = Counter(define.name for define in ctx.source.defines)
    defines = [define for define in ctx.source.defines if define.span.end <= function.span.start]
    for _ in defines:
        for define in defines:
            is_plain = names[define.name] == 1 and not NO_OPERAND.search(define.value)
            if is_plain and found | _BUILT_IN >= set(_NAME.findall(define.value)):
                found.add(define.name)
    return frozenset(found)


def _is_constant(param: Param) -> bool:
    return (
        param.is_pointer and param.is_const and param.is_restrict and bool(re.fullmatch(r"const [\w:]+\*", param.type))
    )


def _stays(ctx: RuleContext, function: Function, name: str) -> bool:
    """Whether a pointer is only indexed, or another one made of it, so that it always points to the same place."""
    text = ctx.source.slice(function.body)
    uses = len(re.findall(rf"\b{name}\b", text))
    plain = len(
        re.findall(rf"(?<![&*\w.>])\b{name}\[|const \w+\s*\* ?{name} = |\*>\({name}\b(?!\[)|= {name} \+ ", text)
    )
    return uses == plain and not any(re.search(rf"\b{name}\b", define.value) for define in ctx.source.defines)


def _roots(value: str, pointers: dict[str, str]) -> bool:
    """Whether a pointer is made of constant ones alone: `reinterpret_cast<const uint4*>(w)`, `w + row * cols`."""
    match = re.fullmatch(r"reinterpret_cast<const \w+\s*\*>\((\w+)(?: \+ [^()]*)?\)|(\w+)(?: \+ .*)?", value)
    return match is not None and (match[1] or match[2]) in pointers


def loops_in(
    ctx: RuleContext, statement: Statement, guards: tuple[str, ...]
) -> Iterator[tuple[CountedFor, tuple[str, ...]]]:
    """Loops of a fixed number of steps that no other loop and no `else` is around, with the tests that are."""
    if statement.kind == "if" and statement.condition is not None:
        guards = (*guards, ctx.source.slice(statement.condition))
    if statement.kind in ("if", "block"):
        for inner in statement.body:
            yield from loops_in(ctx, inner, guards)
    elif isinstance(statement, CountedFor) and statement.takes_each:
        limit = ctx.source.slice(statement.limit)
        steps = ctx.source.integer(limit)
        is_fixed = (steps is not None and steps <= _MOST_STEPS) or limit in ctx.variant.integer_knobs
        if is_fixed and ctx.source.slice(statement.start) == "0":
            yield statement, guards


def reads_in(body: KernelBody, loop: CountedFor, guards: tuple[str, ...]) -> Iterator[OperandRead]:
    ctx, known = body.ctx, [loop.name]
    changes = _changes(ctx, loop)
    if LEAVES.search(ctx.source.slice(loop.body_span)) or changes[loop.name]:
        return
    body = replace(body, written=body.written | set(changes))
    made: list[Statement] = []

    def walk(statements: Sequence[Statement], guards: tuple[str, ...]) -> Iterator[OperandRead]:
        for statement in statements:
            if statement.kind in ("if", "block"):
                outside = len(made)
                tests = (ctx.source.slice(statement.condition),) if statement.condition is not None else ()
                yield from walk(statement.body, (*guards, *tests))
                del made[outside:], known[outside + 1 :]
            elif statement.kind in ("declare", "assign", "call"):
                yield from _here(body, statement, guards, tuple(made), known)
                is_one = statement.kind == "declare" and changes[statement.name] == 1
                if is_one and statement.value is not None and not statement.dims:
                    value = ctx.source.slice(statement.value)
                    if _INTEGER.fullmatch(f"{statement.type}{statement.name}") and body.usable(value, known):
                        made.append(statement)
                        known.append(statement.name)

    if all(body.usable(guard, known) for guard in guards):
        yield from walk(loop.body, guards)


def _changes(ctx: RuleContext, loop: Statement) -> Counter[str]:
    """The names that a loop's body declares or changes, and by how many of its statements."""
    inside = [s for top in loop.body for s in top.all() if s.kind != "block"]
    spans = [s.header if s.kind == "for" else s.condition if s.kind == "if" else s.span for s in inside]
    return Counter(name for span in spans if span is not None for name in ctx.source.changed_in(span))


def _here(
    body: KernelBody, statement: Statement, guards: tuple[str, ...], made: tuple[Statement, ...], known: Sequence[str]
) -> Iterator[OperandRead]:
    """What one statement reads, itself and through a lambda."""
    ctx = body.ctx
    if not all(body.usable(guard, known) for guard in guards):
        return
    for use in ctx.source.subscripts(statement.span):
        index = ctx.source.slice(use.indices[0])
        is_plain = use.is_read and len(use.indices) == 1 and use.name in body.pointers and body.usable(index, known)
        if is_plain and not ctx.source.is_conditional(use.span, statement.span):
            element = body.pointers[use.name]
            yield OperandRead(pointer=use.name, element=element, index=index, guards=guards, locals=made, span=use.span)
    for call in ctx.source.calls:
        made_by = body.lambdas.get(call.name)
        if made_by is None or not statement.span.holds(call.span):
            continue
        if ctx.source.is_conditional(call.span, statement.span):
            continue
        for name, span, place in _read_by(body, made_by):
            index = ctx.source.slice(call.arguments[place]) if place < len(call.arguments) else "="
            if body.usable(index, known):
                yield OperandRead(
                    pointer=name,
                    element=body.pointers[name],
                    index=index,
                    guards=guards,
                    locals=made,
                    span=span,
                    call=call,
                    place=place,
                )


def _read_by(body: KernelBody, made_by: Statement) -> Iterator[tuple[str, Span, int]]:
    """`pointer[parameter]` wherever a lambda reads it each time it is called, and which parameter that is."""
    ctx = body.ctx
    assert made_by.value is not None
    value = ctx.source.slice(made_by.value)
    head = LAMBDA.match(value)
    params = [_INTEGER.fullmatch(" ".join(part.split())) for part in head[1].split(",")] if head else []
    for use in ctx.source.subscripts(made_by.value):
        index = ctx.source.slice(use.indices[0])
        places = [n for n, match in enumerate(params) if match is not None and match[1] == index]
        if not use.is_read or len(use.indices) != 1 or use.name not in body.pointers or not places:
            continue
        is_changed = re.search(
            rf"\b{index}\b\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{index}\b|\b{index}\s*(?:\+\+|--)", value
        )
        is_left = _LEFT.search(ctx.source.slice(Span(made_by.value.start, use.span.start)))
        if not is_changed and not is_left and not ctx.source.is_conditional(use.span, made_by.value):
            yield use.name, use.span, places[0]
