"""Warps whose lanes are apart: `activemask` names the lane that asks, and no other.

The ISA says which lanes execute together nowhere but behind a barrier of the warp. A kernel that takes the lanes that
happen to be active for all that came is right on one chip, or with one compiler. One that serves whatever lanes there
are is right with one at a time, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from evo.device import Program
from evo.spec.comments import without_comments

_ACTIVE = re.compile(r"(?<![\w.%$])activemask\.b32(?P<result>\s++%?[\w$]++\s*+);")


def all_apart(programs: Mapping[str, Program]) -> dict[str, Program]:
    """Of those that ask which lanes are active."""
    found: dict[str, Program] = {}
    for name, program in programs.items():
        if (ptx := _apart(program.binary.ptx)) is not None:
            found[name] = replace(program, binary=replace(program.binary, key=f"{program.binary.key}-apart", ptx=ptx))
    return found


@lru_cache(maxsize=8)  # a binary serves many cases
def _apart(ptx: str) -> str | None:
    if "activemask" not in ptx:
        return None
    apart, count = _ACTIVE.subn(r"mov.u32\g<result>, %lanemask_eq;", without_comments(ptx, keep_lines=True))
    return apart if count else None
