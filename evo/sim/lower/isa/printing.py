"""The device run-time system's vprintf and __assertfail: what they would print is kept for the host.

The inliner turns such calls into the pseudo instructions registered here; `@` keeps them out of reach of PTX text.
"""

from __future__ import annotations

from evo.sim.abi import WARP_SCRATCH
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import opcode
from evo.sim.ptx.ast import Instr
from evo.sim.runtime.printing import assert_record, print_record


@opcode("@vprintf", "", "mem", uniform="never", operands=(3, 3))
def print_formatted(e: Emitter, ins: Instr) -> None:
    """result, format, arguments. The result is the number of arguments, as CUDA defines it."""
    place, arguments = (e.vector(e.src(arg, "u64")) for arg in ins.args[1:])
    e.c.call(print_record(), e.ctx, e.warp, place, arguments, e.active())
    e.dst(ins.args[0], e.c.load("<32 x i32>", e.warp, WARP_SCRATCH, 64))


@opcode("@__assertfail", "", "mem", results=0, operands=(5, 5))
def assertion(e: Emitter, ins: Instr) -> None:
    """message, file, line, function, character size. A trap follows."""
    c = e.c
    values = [e.vector(e.src(arg, kind)) for arg, kind in zip(ins.args, ("u64", "u64", "u32", "u64"), strict=False)]
    lanes = e.active()
    values[2] = c.zext(values[2], "i64")
    c.call(assert_record(), e.ctx, e.warp, *values, lanes)
