"""Operands of a pass behind a reduction, loaded in front of it: their latency passes while the threads wait."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.mutate.rules.rule import Application, Example, Rule, Scene
from evo.mutate.rules.threads import fresh, indent_of
from evo.source import Call, Edit, Function, Param, Span, Statement

_WAIT = re.compile(r"\b(__syncthreads\w*|__shfl\w*|__syncwarp|__reduce_\w+)\s*\(|\bbar\.sync\b")
_LEAVES = re.compile(r"\b(break|continue|return|goto)\b")
_LEFT = re.compile(r"\breturn\b[^;]*;")
_CAST = re.compile(r"\bconst_cast\b|\(\s*(?!const\b)\w+\s*\*\s*\)|_cast<\s*(?!const\b)\w+\s*\*\s*>\(\s*(\w+)")
_NO_OPERAND = re.compile(r"\w\s*\(|\[|->|\+\+|--|(?<![=!<>])=(?!=)|(?:^|[(,&|?:=<>])\s*[*&]")
_LAMBDA = re.compile(r"\[[^\]]*\]\s*\(((?:[^()]|\([^()]*\))*)\)")
_INTEGER = re.compile(r"(?:const )?(?:int|unsigned|long long|size_t) (\w+)")
_POINTER = re.compile(r"const ([\w:]+)\s*\*\s*(?:const\s*|__restrict__\s*)*")
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")  # no field
_BUILT_IN = frozenset(("threadIdx", "blockIdx", "blockDim", "gridDim", "int", "long", "unsigned", "true", "false"))
_UNSEEN = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef)\b|\bgoto\b", re.MULTILINE)
_ENDS = re.compile(r"\b__trap\b|\bexit;")
_LEAVING = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\r?\n|[^\n])*\b(?:return|break|continue|goto)\b", re.MULTILINE
)
_CONSTANT = re.compile(r"^(?:static |inline |__device__ )*(?:constexpr|const) [\w ]*?\b(\w+)(?: = |\{)", re.MULTILINE)
_MOST_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
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
class _Body:
    """A kernel's body as this rule looks at it."""

    scene: Scene
    function: Function
    tops: tuple[Statement, ...]
    places: dict[str, int]  # of the top statement that declares a name; -1 for a parameter
    pointers: dict[str, str]  # constant and restrict, by name: what they point to
    lambdas: dict[str, Statement]
    constants: frozenset[str]  # of the file
    written: frozenset[str]

    def usable(self, text: str, known: Sequence[str]) -> bool:
        """Whether an expression is of names alone that never change."""
        return not _NO_OPERAND.search(text) and all(
            name in known
            or name in _BUILT_IN
            or (name not in self.written and (name in self.places or name in self.constants))
            for name in _NAME.findall(text)
        )

    def place_of(self, texts: Sequence[str]) -> int:
        """The first place where everything that the texts name is declared."""
        names = {name for text in texts for name in _NAME.findall(text)}
        return max((self.places[name] + 1 for name in names if name in self.places), default=0)


def _body(scene: Scene, function: Function) -> _Body:
    tops = scene.source.statements(function)
    declared = Counter(scene.source.declared(function.body))
    places = {param.name: -1 for param in function.params if not declared[param.name]}
    pointers = {p.name: p.type[6:-1] for p in function.params if _is_constant(p) and not declared[p.name]}
    lambdas: dict[str, Statement] = {}
    inside = [s for top in tops for s in top.all()]
    written = {s.name for s in inside if s.kind == "assign"} | set(scene.source.hidden_writes(function))
    written -= {s.name for s in tops if s.kind == "declare" and s.type.startswith("const ") and "*" not in s.type}
    for place, top in enumerate(tops):
        text = scene.source.slice(top.span)
        if top.kind == "declare" and declared[top.name] == 1 and top.value is not None:
            places[top.name] = place
            value, kind = scene.source.slice(top.value), _POINTER.fullmatch(top.type)
            if value.startswith("["):
                lambdas[top.name] = top
            elif kind is not None and not top.dims and _roots(value, pointers):
                pointers[top.name] = kind[1]
        elif top.kind == "other" and re.match(r"const \w+ \w+ = [^;{}\[]*;$", text):  # several names at once
            places.update({name: place for name in re.findall(r"(\w+) = ", text) if declared[name] == 1})
    return _Body(
        scene=scene,
        function=function,
        tops=tops,
        places=places,
        pointers={name: kind for name, kind in pointers.items() if _stays(scene, function, name)},
        lambdas=lambdas,
        constants=_constants(scene, function) - set(declared),
        written=frozenset(written),
    )


def _constants(scene: Scene, function: Function) -> frozenset[str]:
    """Of the file, and macros of them and of literals: another macro's text may name what changes."""
    found = {*scene.variant.macros, *_CONSTANT.findall(scene.source.text[: scene.source.text.find("__global__")])}
    names = Counter(define.name for define in scene.source.defines)
    defines = [define for define in scene.source.defines if define.span.end <= function.span.start]
    for _ in defines:
        for define in defines:
            is_plain = names[define.name] == 1 and not _NO_OPERAND.search(define.value)
            if is_plain and found | _BUILT_IN >= set(_NAME.findall(define.value)):
                found.add(define.name)
    return frozenset(found)


def _is_constant(param: Param) -> bool:
    return (
        param.is_pointer and param.is_const and param.is_restrict and bool(re.fullmatch(r"const [\w:]+\*", param.type))
    )


def _stays(scene: Scene, function: Function, name: str) -> bool:
    """Whether a pointer is only indexed, or another one made of it, so that it always points to the same place."""
    text = scene.source.slice(function.body)
    uses = len(re.findall(rf"\b{name}\b", text))
    plain = len(
        re.findall(rf"(?<![&*\w.>])\b{name}\[|const \w+\s*\* ?{name} = |\*>\({name}\b(?!\[)|= {name} \+ ", text)
    )
    return uses == plain and not any(re.search(rf"\b{name}\b", define.value) for define in scene.source.defines)


def _roots(value: str, pointers: dict[str, str]) -> bool:
    """Whether a pointer is made of constant ones alone: `reinterpret_cast<const uint4*>(w)`, `w + row * cols`."""
    match = re.fullmatch(r"reinterpret_cast<const \w+\s*\*>\((\w+)(?: \+ [^()]*)?\)|(\w+)(?: \+ .*)?", value)
    return match is not None and (match[1] or match[2]) in pointers


def _find_early(scene: Scene) -> Iterator[Application]:
    waiting = _waiting(scene)
    if _ENDS.search(scene.source.text):
        return  # a thread may end in any function
    for function in scene.source.functions:
        text = scene.source.slice(function.body)
        leaving = set(_LEAVING.findall(scene.source.text))
        if not function.is_kernel or _UNSEEN.search(text) or leaving & set(re.findall(r"\w+", text)):
            continue  # it may end, or change something, where no statement says so
        body = _body(scene, function)
        casts = {match[1] or "" for match in _CAST.finditer(text)}
        waits = [n for n, top in enumerate(body.tops) if _waits(scene, top, waiting)]
        for place, top in enumerate(body.tops):
            before = [n for n in waits if n < place]
            if not before:
                continue
            for loop, guards in _loops(scene, top, ()):
                reads = [r for r in _reads(body, loop, guards) if r.pointer not in casts and "" not in casts]
                groups = [reads, *([read] for read in reads)] if len(reads) > 1 else [reads]
                for group in groups:
                    found = _application(body, loop, group, (before[-1], place)) if group else None
                    if found is not None:
                        yield found


def _waiting(scene: Scene) -> set[str]:
    """Device functions in which threads wait for one another."""
    texts = {f.name: scene.source.slice(f.body) for f in scene.source.functions if not f.is_kernel}
    found = {name for name, text in texts.items() if _WAIT.search(text)}
    for _ in texts:  # and those that call them
        found |= {n for n, t in texts.items() if found and re.search(rf"\b({'|'.join(found)})\s*\(", t)}
    return found


def _waits(scene: Scene, top: Statement, waiting: set[str]) -> bool:
    text = scene.source.slice(top.span)
    is_lambda = top.kind == "declare" and top.value is not None and scene.source.slice(top.value).startswith("[")
    return not is_lambda and bool(
        _WAIT.search(text) or any(re.search(rf"\b{name}\s*(?:<[\w, ]*>)?\(", text) for name in waiting)
    )


def _loops(scene: Scene, statement: Statement, guards: tuple[str, ...]) -> Iterator[tuple[Statement, tuple[str, ...]]]:
    """Loops of a fixed number of steps that no other loop and no `else` is around, with the tests that are."""
    if statement.kind == "if" and statement.condition is not None:
        guards = (*guards, scene.source.slice(statement.condition))
    if statement.kind in ("if", "block"):
        for inner in statement.body:
            yield from _loops(scene, inner, guards)
    elif statement.is_counted and statement.step == "1" and statement.relation == "<":
        assert statement.start is not None
        assert statement.limit is not None
        limit = scene.source.slice(statement.limit)
        steps = scene.source.integer(limit)
        is_fixed = (steps is not None and steps <= _MOST_STEPS) or limit in scene.variant.integer_knobs
        if is_fixed and scene.source.slice(statement.start) == "0":
            yield statement, guards


def _reads(body: _Body, loop: Statement, guards: tuple[str, ...]) -> Iterator[_Read]:
    scene, known = body.scene, [loop.name]
    assert loop.body_span is not None
    changes = _changes(scene, loop)
    if _LEAVES.search(scene.source.slice(loop.body_span)) or changes[loop.name]:
        return
    body = replace(body, written=body.written | set(changes))
    made: list[Statement] = []

    def walk(statements: Sequence[Statement], guards: tuple[str, ...]) -> Iterator[_Read]:
        for statement in statements:
            if statement.kind in ("if", "block"):
                outside = len(made)
                tests = (scene.source.slice(statement.condition),) if statement.condition is not None else ()
                yield from walk(statement.body, (*guards, *tests))
                del made[outside:], known[outside + 1 :]
            elif statement.kind in ("declare", "assign", "call"):
                yield from _here(body, statement, guards, tuple(made), known)
                is_one = statement.kind == "declare" and changes[statement.name] == 1
                if is_one and statement.value is not None and not statement.dims:
                    value = scene.source.slice(statement.value)
                    if _INTEGER.fullmatch(f"{statement.type}{statement.name}") and body.usable(value, known):
                        made.append(statement)
                        known.append(statement.name)

    if all(body.usable(guard, known) for guard in guards):
        yield from walk(loop.body, guards)


def _changes(scene: Scene, loop: Statement) -> Counter[str]:
    """The names that a loop's body declares or changes, and by how many of its statements."""
    inside = [s for top in loop.body for s in top.all() if s.kind != "block"]
    spans = [s.header if s.kind == "for" else s.condition if s.kind == "if" else s.span for s in inside]
    return Counter(name for span in spans if span is not None for name in scene.source.changed_in(span))


def _here(
    body: _Body, statement: Statement, guards: tuple[str, ...], made: tuple[Statement, ...], known: Sequence[str]
) -> Iterator[_Read]:
    """What one statement reads, itself and through a lambda."""
    scene = body.scene
    if not all(body.usable(guard, known) for guard in guards):
        return
    for use in scene.source.subscripts(statement.span):
        index = scene.source.slice(use.indices[0])
        is_plain = use.is_read and len(use.indices) == 1 and use.name in body.pointers and body.usable(index, known)
        if is_plain and not scene.source.is_conditional(use.span, statement.span):
            element = body.pointers[use.name]
            yield _Read(pointer=use.name, element=element, index=index, guards=guards, locals=made, span=use.span)
    for call in scene.source.calls:
        made_by = body.lambdas.get(call.name)
        if made_by is None or not statement.span.holds(call.span):
            continue
        if scene.source.is_conditional(call.span, statement.span):
            continue
        for name, span, place in _read_by(body, made_by):
            index = scene.source.slice(call.arguments[place]) if place < len(call.arguments) else "="
            if body.usable(index, known):
                yield _Read(
                    pointer=name,
                    element=body.pointers[name],
                    index=index,
                    guards=guards,
                    locals=made,
                    span=span,
                    call=call,
                    place=place,
                )


def _read_by(body: _Body, made_by: Statement) -> Iterator[tuple[str, Span, int]]:
    """`pointer[parameter]` wherever a lambda reads it each time it is called, and which parameter that is."""
    scene = body.scene
    assert made_by.value is not None
    value = scene.source.slice(made_by.value)
    head = _LAMBDA.match(value)
    params = [_INTEGER.fullmatch(" ".join(part.split())) for part in head[1].split(",")] if head else []
    for use in scene.source.subscripts(made_by.value):
        index = scene.source.slice(use.indices[0])
        places = [n for n, match in enumerate(params) if match is not None and match[1] == index]
        if not use.is_read or len(use.indices) != 1 or use.name not in body.pointers or not places:
            continue
        is_changed = re.search(
            rf"\b{index}\b\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{index}\b|\b{index}\s*(?:\+\+|--)", value
        )
        is_left = _LEFT.search(scene.source.slice(Span(made_by.value.start, use.span.start)))
        if not is_changed and not is_left and not scene.source.is_conditional(use.span, made_by.value):
            yield use.name, use.span, places[0]


def _application(body: _Body, loop: Statement, reads: Sequence[_Read], at: tuple[int, int]) -> Application | None:
    """The loads of some reads in front of the last wait; None where there is no such place. at: of wait and loop."""
    scene, function = body.scene, body.function
    if any(sum(r.pointer == other.pointer for other in reads) > 1 for r in reads):
        return None
    needed = [r.pointer for r in reads]
    for read in reads:
        needed += [read.index, *read.guards]
        needed += [scene.source.slice(s.value) for s in read.locals if s.value is not None]
    assert loop.limit is not None
    limit, step = scene.source.slice(loop.limit), loop.name
    tops = body.tops[: at[1] + 1]  # the loop's own one: it may leave in front of the loop
    place = max(body.place_of([*needed, limit]), *(n + 1 for n, top in enumerate(tops) if _returns(scene, top)), 0)
    above = scene.source.above(body.tops[place].span) if place <= at[0] else None
    if above is None or not body.usable(limit, ()):
        return None
    indent = indent_of(scene.source, body.tops[place].span.start)
    arrays = {read.pointer: fresh(scene, f"{read.pointer}_early") for read in reads}
    text = "".join(f"{indent}{r.element} {arrays[r.pointer]}[{limit}] = {{}};\n" for r in reads)
    text += f"#pragma unroll\n{indent}for ({loop.type}{step} = 0; {step} < {limit}; ++{step}) {{\n"
    for local in dict.fromkeys(s.span for read in reads for s in read.locals if _needs(scene, read, s)):
        text += f"{indent}    {scene.source.slice(local)}\n"
    for read in reads:
        tests = [guard if re.fullmatch(r"\w+( [<>]=? \w+)?", guard) else f"({guard})" for guard in read.guards]
        test = f"if ({' && '.join(tests)}) " if tests else ""
        text += f"{indent}    {test}{arrays[read.pointer]}[{step}] = {read.pointer}[{read.index}];\n"
    edits = [Edit(Span(above, above), f"{text}{indent}}}\n")]
    passed = [read for read in reads if read.call is not None]
    edits += [Edit(read.span, f"{arrays[read.pointer]}[{step}]") for read in reads if read.call is None]
    if passed:
        through = _passed(body, passed, arrays, step)
        if through is None:
            return None
        edits += through
    names = ", ".join(read.pointer for read in reads)
    return Application(
        edits=tuple(edits),
        summary=f"{function.name}: {names} of line {scene.source.line(loop.span.start)} loaded before line"
        f" {scene.source.line(body.tops[place].span.start)}",
        arguments={"kernel": function.name, "pointers": names},
        rank=0 if len(reads) > 1 else 1,
    )


def _returns(scene: Scene, top: Statement) -> bool:
    return any(
        s.kind == "return" or (s.kind == "other" and re.search(r"\breturn\b", scene.source.slice(s.span)))
        for s in top.all()
    )


def _needs(scene: Scene, read: _Read, local: Statement) -> bool:
    """Whether a read's place or its tests name a variable of the loop, by themselves or by another one."""
    texts = [read.index, *read.guards]
    for other in reversed(read.locals):
        if other.value is not None and any(re.search(rf"\b{other.name}\b", text) for text in texts):
            if other is local:
                return True
            texts.append(scene.source.slice(other.value))
    return False


def _passed(body: _Body, reads: Sequence[_Read], arrays: dict[str, str], step: str) -> list[Edit] | None:
    """The lambda of the reads takes what it read as a parameter: from the loop's array, or read by who calls it."""
    scene = body.scene
    call = reads[0].call
    assert call is not None
    made_by = body.lambdas[call.name]
    assert made_by.value is not None
    head = _LAMBDA.match(scene.source.slice(made_by.value))
    calls = [other for other in scene.source.calls if other.name == call.name and other.function == call.function]
    uses = [name for name, _ in scene.source.names(body.function.body) if name == call.name]
    if head is None or any(read.call != call for read in reads) or len(uses) != len(calls) + 1:
        return None
    taken = {read.pointer: fresh(scene, f"{read.pointer}_taken") for read in reads}
    end = made_by.value.start + len(scene.source.slice(made_by.value)[: head.end(1)].encode())
    edits = [Edit(Span(end, end), "".join(f", const {r.element}& {taken[r.pointer]}" for r in reads))]
    edits += [Edit(read.span, taken[read.pointer]) for read in reads]
    for other in calls:
        values = []
        for read in reads:
            at = scene.source.slice(other.arguments[read.place]) if read.place < len(other.arguments) else "="
            if other != call and _NO_OPERAND.search(at):
                return None
            values.append(f"{arrays[read.pointer]}[{step}]" if other == call else f"{read.pointer}[{at}]")
        edits.append(Edit(Span(other.span.end - 1, other.span.end - 1), "".join(f", {value}" for value in values)))
    return edits


_TOP = """// evo: knob STEPS in 1, 2, 4
// evo: launch k grid (1) block (32) shared 0
#define STEPS 4
extern "C" __global__ void k(const float* __restrict__ a, const float* __restrict__ w, float* __restrict__ o, int n) {
  float sum = 0.0f;
"""
_MIDDLE = """  for (int i = threadIdx.x; i < n; i += 32) sum += a[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int i = 0; i < STEPS; ++i) {
    const int at = threadIdx.x + i * 32;
    if (at < n) o[at] = sum * """
RULES = (
    Rule(
        name="early_operands",
        family="prefetch",
        sentence="Loads what a pass behind a reduction needs in front of it, into registers.",
        find=_find_early,
        examples=(
            Example(
                _TOP + _MIDDLE + "w[at];\n  }\n}\n",
                _TOP.replace(
                    "  float sum",
                    "  float w_early[STEPS] = {};\n#pragma unroll\n  for (int i = 0; i < STEPS; ++i) {\n"
                    "      const int at = threadIdx.x + i * 32;\n      if (at < n) w_early[i] = w[at];\n"
                    "  }\n  float sum",
                )
                + _MIDDLE
                + "w_early[i];\n  }\n}\n",
            ),
        ),
        reason="a load behind a barrier starts when all have arrived, and its latency is paid by every thread at once",
        expected="the latency of a load less on the way through a small kernel",
        risk="registers hold the values through the reduction: fewer resident warps",
        next_if_kept="the other operands of that pass",
        next_if_reverted="more rows in flight hide the latency as well",
    ),
)
