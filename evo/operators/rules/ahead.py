"""Loads issued before their values are needed, functions in line, and a cap on registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.element import BYTES
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.operators.rules.threads import fresh, kernels

_CAPS = (32, 40, 48, 64, 80, 96, 128, 168)


def _find_prefetch(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        constant = {p.name for p in function.params if p.is_pointer and not scene.source.is_written(function, p.name)}
        known = {s.span: s for top in scene.source.statements(function) for s in top.all()}
        for loop in scene.source.loops:
            statement = known.get(loop.span)
            if loop.function != function.name or statement is None or not statement.is_counted or loop.factor == "":
                continue
            assert statement.body_span is not None
            assert statement.start is not None
            assert statement.limit is not None
            if re.search(r"\b(break|continue|goto)\b", scene.source.slice(statement.body_span)):
                continue
            written = scene.source.changed_in(statement.body_span)
            reads: dict[str, list[Span]] = {}
            for use in scene.source.subscripts(statement.body_span):
                names = {name for name, _ in scene.source.names(use.span)}
                if use.name in constant and loop.variable in names and not names & written and use.is_read:
                    reads.setdefault(scene.source.slice(use.span), []).append(use.span)
            for text, spans in reads.items():
                if all(scene.source.is_conditional(span, statement.body_span) for span in spans):
                    continue  # it may be that no step reads it
                kind = scene.source.element_type(function.name, text.split("[")[0])
                if kind not in BYTES or kind.endswith("2") or any(a != b and a.holds(b) for a in spans for b in spans):
                    continue
                start, limit = scene.source.slice(statement.start), scene.source.slice(statement.limit)
                first = scene.source.renamed(spans[0], {loop.variable: f"({start})"})
                after = scene.source.renamed(spans[0], {loop.variable: f"({loop.variable} + {statement.step})"})
                coming, now = fresh(scene, "coming"), fresh(scene, "current")
                above = scene.source.above(loop.span)
                if above is None:
                    continue
                test = f"{loop.variable} + {statement.step} {statement.relation} {limit}"
                inner = f"const {kind} {now} = {coming};\n{loop.indent}    if ({test}) {coming} = {after};\n"
                inner += f"{loop.indent}    "
                has_first = f"{start} {statement.relation} {limit} ? {first} : ({kind})0"
                yield Application(
                    edits=(
                        Edit(
                            Span(above, above),
                            f"{loop.indent}{kind} {coming} = {has_first};\n",
                        ),
                        Edit(Span(statement.body_span.start, statement.body_span.start), "{ " + inner),
                        *(Edit(span, now) for span in spans),
                        Edit(Span(statement.body_span.end, statement.body_span.end), " }"),
                    ),
                    summary=f"line {scene.source.line(loop.span.start)}: {text} one step of {loop.variable} ahead",
                    arguments={"function": function.name, "parameter": text.split("[")[0]},
                )


def _find_inline(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        head = scene.source.slice(Span(function.span.start, function.name_span.start))
        if function.is_kernel or "__device__" not in head or "inline" in head or "template" in head:
            continue
        at = function.span.start + len(head[: head.index("__device__") + len("__device__")].encode())
        for word in ("__forceinline__", "__noinline__"):
            yield Application(
                edits=(Edit(Span(at, at), f" {word}"),),
                summary=f"{function.name}: {word}",
                arguments={"function": function.name, "to": word},
                rank=0 if word == "__forceinline__" else 1,
            )


def _find_cap(scene: Scene) -> Iterator[Application]:
    for function, _ in kernels(scene):
        head = scene.source.slice(Span(function.span.start, function.name_span.start))
        cap = re.search(r"__maxnreg__\((\d+)\)", head)
        if function.bounds is not None or any("maxrregcount" in flag for flag in scene.variant.flags):
            continue  # one or the other
        now = int(cap[1]) if cap else None
        for place, wanted in enumerate(_CAPS):
            if wanted == now:
                continue
            if cap is not None:
                start = function.span.start + len(head[: cap.start()].encode())
                edit = Edit(Span(start, start + len(cap[0])), f"__maxnreg__({wanted})")
            else:
                edit = Edit(Span(function.name_span.start, function.name_span.start), f"__maxnreg__({wanted}) ")
            yield Application(
                edits=(edit,),
                summary=f"{function.name}: at most {wanted} registers a thread",
                arguments={"kernel": function.name, "to": wanted},
                rank=abs(place - (_CAPS.index(now) if now in _CAPS else 3)),
            )


_KERNEL = 'extern "C" __global__ void {}k(float* o) {{ o[threadIdx.x] = 1.0f; }}\n'
RULES = (
    Rule(
        name="prefetch",
        family="prefetch",
        sentence="Loads what a loop needs in its next step before the current step computes.",
        find=_find_prefetch,
        examples=(
            Example(
                "  for (int i = 0; i < n; ++i) { o[i] = a[i * 2] * x; }\n",
                "  float coming = 0 < n ? a[(0) * 2] : (float)0;\n"
                "  for (int i = 0; i < n; ++i) { const float current = coming;\n"
                "      if (i + 1 < n) coming = a[(i + 1) * 2];\n      { o[i] = current * x; } }\n",
            ),
        ),
        reason="a load takes hundreds of cycles, and a step that waits for its own loads pays them all",
        expected="the latency of one load hidden behind one step's work",
        risk="a test per step and registers for the values on their way",
        next_if_kept="the other operand",
        next_if_reverted="unroll instead, so that the compiler can batch the loads",
    ),
    Rule(
        name="inline",
        family="calls",
        sentence="Marks a device function `__forceinline__` or `__noinline__`.",
        find=_find_inline,
        examples=(
            Example(
                "__device__ float f(float x) { return x; }\n",
                "__device__ __forceinline__ float f(float x) { return x; }\n",
            ),
        ),
        reason="a call saves registers around itself; a copy in line grows the code",
        expected="no call, or a loop that fits the instruction cache again",
        risk="the compiler had decided well",
        next_if_kept="the next function",
        next_if_reverted="leave it to the compiler",
    ),
    Rule(
        name="register_cap",
        family="bounds",
        sentence="Caps a kernel's registers with `__maxnreg__`.",
        find=_find_cap,
        examples=(Example(_KERNEL.format(""), _KERNEL.format("__maxnreg__(64) ")),),
        reason="registers per thread decide how many warps hide each other's latency",
        expected="more resident warps, if the kernel can do with fewer registers",
        risk="values spill to local memory",
        next_if_kept="the next smaller cap",
        next_if_reverted="a larger cap, or launch bounds",
    ),
)
