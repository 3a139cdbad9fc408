"""A cap on registers, for more resident blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels

_CAPS = (32, 40, 48, 64, 80, 96, 128, 168)  # registers a thread


def _find_cap(ctx: RuleContext) -> Iterator[Application]:
    for function, _ in kernels(ctx):
        head = ctx.source.slice(Span(function.span.start, function.name_span.start))
        cap = re.search(r"__maxnreg__\((\d+)\)", head)
        if function.bounds is not None or any("maxrregcount" in flag for flag in ctx.variant.flags):
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
        name="register_cap",
        sentence="Caps a kernel's registers with `__maxnreg__`.",
        find=_find_cap,
        examples=(Example(_KERNEL.format(""), _KERNEL.format("__maxnreg__(64) ")),),
        reason="registers per thread decide how many warps hide each other's latency",
        expected="more resident warps, if the kernel can do with fewer registers",
        risk="values spill to local memory",
        next_if_kept="the next smaller cap",
        next_if_reverted="a larger cap",
    ),
)
