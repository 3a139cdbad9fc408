"""Compile flags from the set that the task allows: add or remove one."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import Edit, Span
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.rule_context import RuleContext

_DIRECTIVE = b"// evo:"


def _find(ctx: RuleContext) -> Iterator[Application]:
    has = ctx.variant.flags
    for flag in ctx.flags:
        if flag not in has and not any(_stem(flag) == _stem(other) for other in has):
            yield Application(
                edits=(_added(ctx, flag),),
                summary=f"add flag {flag}",
                arguments={"flag": flag, "to": "on"},
            )
    for flag in has:
        if has.count(flag) == 1 and (edit := _removed(ctx, flag)) is not None:
            yield Application(
                edits=(edit,), summary=f"remove flag {flag}", arguments={"flag": flag, "to": "off"}, rank=1
            )


def _stem(flag: str) -> str:
    return flag.partition("=")[0].lstrip("-")


def _lines(ctx: RuleContext) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in ctx.source.data.splitlines(keepends=True):
        yield at, line
        at += len(line)


def _added(ctx: RuleContext, flag: str) -> Edit:
    """At the end of the flags line, else on a line of its own after the other directives."""
    after = 0
    for at, line in _lines(ctx):
        if line.lstrip().startswith(_DIRECTIVE):
            after = at + len(line)
            if line.split()[2:3] == [b"flags"]:
                end = at + len(line.rstrip())
                return Edit(Span(end, end), f" {flag}")
    return Edit(Span(after, after), f"// evo: flags {flag}\n")


def _removed(ctx: RuleContext, flag: str) -> Edit | None:
    """The flag with the blank before it, or the whole line when nothing else stands there."""
    for at, line in _lines(ctx):
        words = line.split()
        if line.lstrip().startswith(_DIRECTIVE) and words[2:3] == [b"flags"] and flag.encode() in words[3:]:
            if len(words) == 4:
                return Edit(Span(at, at + len(line)), "")
            start = line.index(b" " + flag.encode())
            return Edit(Span(at + start, at + start + 1 + len(flag.encode())), "")
    return None


RULES = (
    Rule(
        name="flag",
        sentence="Adds or removes one compile flag out of those the task allows.",
        find=_find,
        examples=(
            Example(
                "// evo: launch k grid (1) block (32) shared 0\n__device__ float f(float x) { return x; }\n",
                "// evo: launch k grid (1) block (32) shared 0\n// evo: flags --use_fast_math\n"
                "__device__ float f(float x) { return x; }\n",
                flags=("--use_fast_math",),
            ),
            Example(
                "// evo: flags --use_fast_math -ftz=true\n__device__ float f(float x) { return x; }\n",
                "// evo: flags --use_fast_math\n__device__ float f(float x) { return x; }\n",
            ),
        ),
        reason="denormals, accurate division and accurate functions cost instructions that the tolerance may not need",
        expected="shorter division, square root and exponential sequences everywhere",
        risk="a few ulp more error everywhere; the error budget decides",
        next_if_kept="drop the intrinsics that the flag makes redundant",
        next_if_reverted="single intrinsics where they pay",
    ),
)
