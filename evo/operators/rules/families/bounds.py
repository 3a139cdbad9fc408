"""Registers and resident blocks: `__launch_bounds__`, and a cap on registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.errors import SyntaxInvalid
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import kernels
from evo.spec.variant import LaunchLine

_PLAIN = re.compile(r"[\w\s+*()-]+")  # what means the same in a plan and in C++
_MAX_THREADS_PER_SM = 2048
_MAX_MIN_BLOCKS = 8
_CAPS = (32, 40, 48, 64, 80, 96, 128, 168)  # registers a thread


def _find_add(ctx: RuleContext) -> Iterator[Application]:
    for function, launch in kernels(ctx):
        if function.bounds is None and (text := _block_text(ctx, launch)) is not None:
            bounds = f"__launch_bounds__({text})"
            yield Application(
                edits=(Edit(Span(function.name_span.start, function.name_span.start), f"{bounds} "),),
                summary=f"add {bounds} to {function.name}",
                arguments={"kernel": function.name, "threads": text},
            )


def _find_min_blocks(ctx: RuleContext) -> Iterator[Application]:
    for function, launch in kernels(ctx):
        arguments = function.bounds_arguments
        threads = _threads(ctx, launch) or 32
        if function.bounds is None or not arguments:
            continue
        now = ctx.source.integer(ctx.source.slice(arguments[1])) if len(arguments) > 1 else 1
        if now is None or len(arguments) > 2:
            continue
        for wanted in range(1, _MAX_MIN_BLOCKS + 1):
            if wanted == now or wanted * threads > _MAX_THREADS_PER_SM:
                continue
            if len(arguments) > 1:
                edit = Edit(arguments[1], str(wanted))
            else:
                edit = Edit(Span(arguments[0].end, arguments[0].end), f", {wanted}")
            yield Application(
                edits=(edit,),
                summary=f"{function.name}: at least {now} -> {wanted} blocks per SM",
                arguments={"kernel": function.name, "from": now, "to": wanted},
                rank=abs(wanted - now) - 1,
            )


def _block_text(ctx: RuleContext, launch: LaunchLine) -> str | None:
    """The block's thread count as C++: knobs are macros, so it stays right when a knob moves."""
    known = {*ctx.variant.integer_knobs, *ctx.variant.macros}
    parts = [part.text.strip() for part in launch.block if part.text.strip() != "1"] or ["1"]
    for part in parts:
        words = re.findall(r"[A-Za-z_]\w*", part)
        if not _PLAIN.fullmatch(part) or not all(word in known for word in words):
            return None
    return parts[0] if len(parts) == 1 else " * ".join(part if part.isalnum() else f"({part})" for part in parts)


def _threads(ctx: RuleContext, launch: LaunchLine) -> int | None:
    total = 1
    for part in launch.block:
        try:
            total *= int(part.value(ctx.variant.integer_knobs))
        except (SyntaxInvalid, KeyError):
            return None
    return total


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
        name="add_bounds",
        family="bounds",
        sentence="Adds `__launch_bounds__` with the block size of the kernel's launch line.",
        find=_find_add,
        examples=(
            Example(
                "// evo: launch k grid (1) block (128) shared 0\n" + _KERNEL.format(""),
                "// evo: launch k grid (1) block (128) shared 0\n" + _KERNEL.format("__launch_bounds__(128) "),
            ),
        ),
        reason="without bounds ptxas must leave room for 1024 threads per block",
        expected="no register cap below what the block can have; fewer spills",
        risk="more registers per thread can mean fewer resident warps",
        next_if_kept="ask for a minimum number of blocks per SM",
        next_if_reverted="leave the register choice to ptxas",
    ),
    Rule(
        name="min_blocks",
        family="bounds",
        sentence="Changes how many blocks per SM `__launch_bounds__` asks ptxas to make room for.",
        find=_find_min_blocks,
        examples=(
            Example(_KERNEL.format("__launch_bounds__(128, 2) "), _KERNEL.format("__launch_bounds__(128, 3) ")),
            Example(_KERNEL.format("__launch_bounds__(128) "), _KERNEL.format("__launch_bounds__(128, 2) ")),
        ),
        reason="registers per thread decide how many warps hide each other's latency",
        expected="more resident warps, or fewer spills, whichever the kernel lacks",
        risk="a tighter register budget can spill to local memory",
        next_if_kept="one more in the same direction",
        next_if_reverted="one less",
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
