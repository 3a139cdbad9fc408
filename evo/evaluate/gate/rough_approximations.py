"""Approximate instructions with other bits than the simulator gives them, within what their accuracy allows.

The ISA bounds the error of `rcp.approx` and the like, and says no more: each chip has its own bits, and so has the
simulator. A kernel that is right with one choice of bits alone is wrong, or looks for its judge. So before a keep it
runs with results that are moved by one unit in the last place, up or down as their bits decide; results that may be
meant to be exact (zeros, powers of two, infinities, NaN) stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from evo.device import Program
from evo.results import MismatchKind
from evo.spec.comments import without_comments

_APPROXIMATE = re.compile(
    r"(?<![\w.%@!$])(?P<guard>@!?%?[\w$]++\s++)?"
    r"(?:(?:rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)\.approx(?:\.ftz)?|div\.(?:approx|full)(?:\.ftz)?)\.f32"
    r"\s++(?P<result>%?[\w$]++)\s*+,[^;{}]*+;"
)
_HASH = 0x9E3779B1  # odd: its products spread the low bits over the high ones
_MOVED = """
{{
.reg .b32 evo_bits, evo_part;
.reg .pred evo_normal, evo_odd;
mov.b32 evo_bits, {result};
and.b32 evo_part, evo_bits, 8388607;
setp.ne.u32 evo_odd, evo_part, 0;
and.b32 evo_part, evo_bits, 2139095040;
setp.ne.and.u32 evo_normal, evo_part, 0, evo_odd;
setp.ne.and.u32 evo_normal, evo_part, 2139095040, evo_normal;
mul.lo.u32 evo_part, evo_bits, {hash};
shr.u32 evo_part, evo_part, 31;
shl.b32 evo_part, evo_part, 1;
sub.s32 evo_part, evo_part, 1;
add.s32 evo_part, evo_bits, evo_part;
selp.b32 evo_bits, evo_part, evo_bits, evo_normal;
{guard}mov.b32 {result}, evo_bits;
}}
"""
# A unit in the last place may well be beyond a budget that a kernel only just keeps, and says nothing of a cheat.
GROSS = frozenset((MismatchKind.TOLERANCE, MismatchKind.NOT_FINITE, MismatchKind.UNWRITTEN, MismatchKind.DIFFERENT))


def roughened(program: Program) -> Program | None:
    """The program with other bits of approximate instructions; None if it has none."""
    ptx = _moved(program.binary.ptx)
    if ptx is None:
        return None
    return replace(program, binary=replace(program.binary, key=f"{program.binary.key}-rough", ptx=ptx))


def all_roughened(programs: Mapping[str, Program]) -> dict[str, Program]:
    """Of those that have approximate instructions."""
    found = ((name, roughened(program)) for name, program in programs.items())
    return {name: program for name, program in found if program is not None}


@lru_cache(maxsize=8)  # a binary serves many cases
def _moved(ptx: str) -> str | None:
    def behind(match: re.Match[str]) -> str:
        more = _MOVED.format(result=match["result"], hash=_HASH, guard=match["guard"] or "")
        return match[0] + more.replace("\n", " ")  # lines keep their numbers

    moved, count = _APPROXIMATE.subn(behind, without_comments(ptx, keep_lines=True))
    return moved if count else None
