"""Machines that the ISA allows as well: other bits of approximate instructions, other sums, lanes and tensors apart.

- The ISA bounds the error of `rcp.approx` and the like, and says no more: each chip has its own bits, and so has the
  simulator. A kernel that is right with one choice of bits alone is wrong, or looks for its judge. So before a keep it
  runs with results that are moved by one unit in the last place, up or down as their bits decide; results that may be
  meant to be exact (zeros, powers of two, infinities, NaN) stay. Of `tanh.approx`, which may err by one in 2^11, half
  is used, on more inputs: the simulator's has nearly all digits, and a kernel may count on them.
- In which order a tensor core adds up, and whether it keeps what is far below the sum, the ISA leaves open: what it was
  given is added last, in another instruction. Sums that are exact are the same.
- It says which lanes execute together nowhere but behind a barrier of the warp. A kernel that takes the lanes that
  happen to be active for all that came is right on one chip, or with one compiler: `activemask` names the lane that
  asks, and no other. One that serves whatever lanes there are is right with one at a time, too.
- Tensors begin off the addresses that allocators give, as views do, for kernels that ask how they are aligned. What is
  done otherwise there is never run with usual addresses. A kernel that does not ask may take them for granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from evo.device import Program
from evo.device.remote_device import RemoteDevice
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Step
from evo.results import MismatchKind
from evo.sim import PtxError
from evo.sim.address_flow import address_misuses
from evo.spec.comments import without_comments
from evo.spec.element_types import DTYPES
from evo.spec.task import Task

_ACTIVE = re.compile(r"(?<![\w.%$])activemask\.b32(?P<result>\s++%?[\w$]++\s*+);")
_APPROXIMATE = re.compile(
    r"(?<![\w.%@!$])(?P<guard>@!?%?[\w$]++\s++)?"
    r"(?:(?:rcp|sqrt|rsqrt|ex2|lg2|sin|cos|(?P<coarse>tanh))\.approx(?:\.ftz)?|div\.(?:approx|full)(?:\.ftz)?)\.f32"
    r"\s++(?P<result>%?[\w$]++)\s*+,[^;{}]*+;"
)
_PRODUCTS = re.compile(  # of a tensor core, added to numbers
    r"(?<![\w.%@!$])(?P<guard>@!?%?[\w$]++\s++)?(?P<opcode>(?:wmma\.)?mma\.[\w.]++)\s*+\{(?P<results>[^{};]*+)\}\s*+,"
    r"(?P<factors>\s*+\{[^{};]*+\}\s*+,\s*+\{[^{};]*+\}\s*+,)\s*+\{(?P<addends>[^{};]*+)\}\s*+;"
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
{other}
selp.b32 evo_bits, evo_part, evo_bits, evo_normal;
{guard}mov.b32 {result}, evo_bits;
}}
"""
_BY_ONE = f"""mul.lo.u32 evo_part, evo_bits, {_HASH};
shr.u32 evo_part, evo_part, 31;
shl.b32 evo_part, evo_part, 1;
sub.s32 evo_part, evo_part, 1;
add.s32 evo_part, evo_bits, evo_part;"""
_TWELVE_BITS = "add.s32 evo_part, evo_bits, 2048; and.b32 evo_part, evo_part, -4096;"
# A unit in the last place may well be beyond a budget that a kernel only just keeps, and says nothing of a cheat.
GROSS = frozenset((MismatchKind.TOLERANCE, MismatchKind.NOT_FINITE, MismatchKind.UNWRITTEN, MismatchKind.DIFFERENT))


def is_coarse(programs: Mapping[str, Program]) -> bool:
    """Whether there are approximate instructions of few digits."""
    texts = {program.binary.ptx for program in programs.values()}
    return any(match["coarse"] for text in texts if "tanh" in text for match in _APPROXIMATE.finditer(text))


Altered = Callable[[str], str | None]  # PTX as another machine would run it; None if that is the same


def altered(program: Program, how: Altered) -> Program | None:
    """The program on another machine; None if it is the same there."""
    ptx = how(program.binary.ptx)
    key = f"{program.binary.key}-{how.__name__}"
    return None if ptx is None else replace(program, binary=replace(program.binary, key=key, ptx=ptx))


def all_altered(programs: Mapping[str, Program], how: Altered) -> dict[str, Program]:
    """Those that are others there."""
    found = ((name, altered(program, how)) for name, program in programs.items())
    return {name: program for name, program in found if program is not None}


@lru_cache(maxsize=8)  # a binary serves many cases
def apart(ptx: str) -> str | None:
    """No two lanes are active together."""
    found, count = _ACTIVE.subn(r"mov.u32\g<result>, %lanemask_eq;", without_comments(ptx, keep_lines=True))
    return found if count else None


@lru_cache(maxsize=8)
def rough(ptx: str) -> str | None:
    """Approximate instructions have other bits."""

    def behind(match: re.Match[str]) -> str:
        other = _TWELVE_BITS if match["coarse"] else _BY_ONE
        more = _MOVED.format(result=match["result"], other=other, guard=match["guard"] or "")
        return match[0] + more.replace("\n", " ")  # lines keep their numbers

    found, count = _APPROXIMATE.subn(behind, without_comments(ptx, keep_lines=True))
    return found if count else None


@lru_cache(maxsize=8)
def given_last(ptx: str) -> str | None:
    """Tensor cores add what they were given to a sum of the products."""
    count = 0

    def other(match: re.Match[str]) -> str:
        nonlocal count
        opcode, given = match["opcode"], match["addends"].split(",")
        if match["guard"] or not (opcode.endswith(".f32") and ".f32." in opcode):
            return match[0]
        count += 1
        sums = [f"evo_sum{at}" for at in range(len(given))]
        added = (f"add.f32 {own}, {one}, {own};" for own, one in zip(sums, given, strict=True))
        moved = (f"mov.f32 {to}, {own};" for own, to in zip(sums, match["results"].split(","), strict=True))
        nothing = ", ".join(["evo_none"] * len(given))
        return (
            f"{{ .reg .f32 evo_sum<{len(given)}>, evo_none; mov.f32 evo_none, 0f80000000; {opcode} "
            f"{{{', '.join(sums)}}}, {match['factors']} {{{nothing}}}; {' '.join(added)} {' '.join(moved)} }}"
        )

    found = _PRODUCTS.sub(other, without_comments(ptx, keep_lines=True))
    return found if count else None


def shifted_steps(task: Task, programs: Mapping[str, Program], device: RemoteDevice) -> Iterator[Step]:
    """Each check case with one tensor an element off, whose alignment its kernels ask for."""
    asked: dict[str, frozenset[str]] = {}
    for case in task.check:
        program = programs[case.name]
        if program.binary.key not in asked:
            asked[program.binary.key] = frozenset(_asked(task, program))
        for tensor in task.tensors:
            if tensor.name in asked[program.binary.key]:
                by = {tensor.name: DTYPES[tensor.dtype]}
                yield Step(case, device, budget=CHECK_BUDGET, shifted=by)


def _asked(task: Task, program: Program) -> Iterator[str]:
    sizes = {tensor.name: DTYPES[tensor.dtype] for tensor in task.tensors}
    for bound in program.launches:
        for at, argument in enumerate(bound.arguments):
            size = sizes.get(argument.name) if argument.is_buffer else None
            if size is not None and _asks(program, bound.launch.kernel, at, size):
                yield argument.name


def _asks(program: Program, kernel: str, pointer: int, aligned: int) -> bool:
    try:
        return next(address_misuses(program.binary.ptx, {kernel: frozenset((pointer,))}, aligned), None) is not None
    except PtxError:  # said elsewhere
        return False
