"""16-bit arithmetic on two neighbours in one instruction; each half is rounded as it was alone."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import Edit, Source, Span, Statement
from evo.operators.rules.reductions import shareable
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.operators.rules.threads import fresh, indent_of

_PACKED = {
    "__hadd": "__hadd2", "__hsub": "__hsub2", "__hmul": "__hmul2", "__hfma": "__hfma2", "__hmax": "__hmax2",
    "__hmin": "__hmin2", "__hneg": "__hneg2", "hexp": "h2exp", "hexp2": "h2exp2", "hsqrt": "h2sqrt", "hrcp": "h2rcp",
}  # fmt: skip
_HALF = ("half", "__half")


class _Unfit(Exception):
    """Something that has no packed form."""


def _find(scene: Scene) -> Iterator[Application]:
    source = scene.source
    for function in source.functions:
        statements = {s.span: s for top in source.statements(function) for s in top.all()}
        for loop in source.loops:
            statement = statements.get(loop.span)
            if loop.function != function.name or statement is None or source.is_bare(loop.span):
                continue
            if not _is_elementwise(source, statement):
                continue
            try:
                text = _text(scene, function.name, statement)
            except _Unfit:
                continue
            yield Application(
                edits=(Edit(Span(source.line_start(loop.span.start), loop.span.end), text),),
                summary=f"loop over {loop.variable} (line {source.line(loop.span.start)}): two elements at a time",
                arguments={"function": function.name, "variable": loop.variable},
            )


def _is_elementwise(source: Source, loop: Statement) -> bool:
    """Whether each step writes elements of its own from what no other step writes."""
    if not loop.is_counted or loop.step != "1" or loop.relation != "<":
        return False
    found = shareable(source, loop)
    if found is None or found.reductions or any(inner.kind != "assign" for inner in loop.body):
        return False
    places = [(use.name, source.slice(use.indices[0])) for use in source.subscripts(loop.span)]
    return all(len({index for name, index in places if name == stored}) == 1 for stored in found.stores)


def _text(scene: Scene, function: str, loop: Statement) -> str:
    source, indent, i = scene.source, indent_of(scene.source, loop.span.start), loop.name
    assert loop.start is not None
    assert loop.limit is not None
    assert loop.body_span is not None
    start, limit = source.slice(loop.start).strip(), source.slice(loop.limit).strip()
    lines = []
    for number, inner in enumerate(loop.body):
        if inner.operator != "=" or inner.target is None or inner.value is None:
            raise _Unfit
        if source.type_of(function, inner.target) not in _HALF:
            raise _Unfit
        pair = fresh(scene, "pair" if not number else f"pair_{number + 1}")
        next_target = source.renamed(inner.target, {i: f"({i} + 1)"})
        lines += [
            f"const __half2 {pair} = {_packed(source, function, inner.value, i)};",
            f"{source.slice(inner.target)} = __low2half({pair});",
            f"{next_target} = __high2half({pair});",
        ]
    first = f"({limit}) / 2 * 2" if start == "0" else f"{start} + (({limit}) - ({start})) / 2 * 2"
    body = "".join(f"{indent}    {line}\n" for line in lines)
    return (
        f"{indent}for (int {i} = {start}; {i} + 1 < {limit}; {i} += 2) {{\n{body}{indent}}}\n"
        f"{indent}for (int {i} = {first}; {i} < {limit}; ++{i}) {source.slice(loop.body_span)}"
    )


def _packed(source: Source, function: str, value: Span, i: str) -> str:
    """The value for two neighbours. Raises _Unfit where a part of it is not 16 bits wide or has no packed form."""
    call = next((call for call in source.calls if call.span == value), None)
    if call is not None and call.name in _PACKED:
        parts = (_packed(source, function, argument, i) for argument in call.arguments)
        return f"{_PACKED[call.name]}({', '.join(parts)})"
    if source.type_of(function, value) not in _HALF or any(value.holds(other.span) for other in source.calls):
        raise _Unfit
    text = source.slice(value)
    if i not in {name for name, _ in source.names(value)}:
        return f"__half2half2({text})"
    return f"__halves2half2({text}, {source.renamed(value, {i: f'({i} + 1)'})})"


_LAUNCH = "// evo: launch k grid (1) block (32) shared 0\n#include <cuda_fp16.h>\n"
_HEAD = 'extern "C" __global__ void k(const __half* a, const __half* b, __half* o, int n) {\n  const __half s = a[0];\n'
_BEFORE = "  for (int i = 0; i < n; ++i) o[i] = __hfma(a[i], s, b[i]);\n}\n"
_AFTER = (
    "  for (int i = 0; i + 1 < n; i += 2) {\n"
    "      const __half2 pair = __hfma2(__halves2half2(a[i], a[(i + 1)]), __half2half2(s),"
    " __halves2half2(b[i], b[(i + 1)]));\n"
    "      o[i] = __low2half(pair);\n      o[(i + 1)] = __high2half(pair);\n  }\n"
    "  for (int i = (n) / 2 * 2; i < n; ++i) o[i] = __hfma(a[i], s, b[i]);\n}\n"
)
RULES = (
    Rule(
        name="half2",
        family="intrinsics",
        sentence="Does 16-bit arithmetic on two neighbouring elements in one instruction; each is rounded as before.",
        find=_find,
        examples=(Example(_LAUNCH + _HEAD + _BEFORE, _LAUNCH + _HEAD + _AFTER),),
        reason="an instruction on one 16-bit number takes the place of one on two",
        expected="half as many arithmetic instructions, and loads and stores that may become 32 bits wide",
        risk="two elements are put together and taken apart again where they do not lie side by side",
        next_if_kept="wider loads of all operands",
        next_if_reverted="wider loads first",
    ),
)
