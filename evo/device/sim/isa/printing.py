"""The device run-time system's vprintf and __assertfail: what they would print is kept for the host.

The inliner turns such calls into the pseudo instructions registered here; `@` keeps them out of reach of PTX text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.device.sim.ir import const
from evo.device.sim.isa.table import opcode
from evo.device.sim.program import Instr

if TYPE_CHECKING:
    from evo.device.sim.emit import Emitter


@opcode("@vprintf", "", "mem", operands=(3, 3))
def print_formatted(e: Emitter, ins: Instr) -> None:
    """result, format, arguments. CUDA returns the number of arguments; nobody reads it, and 0 is returned here."""
    place, arguments = (e.vector(e.src(arg, "u64")) for arg in ins.args[1:])
    e.c.call("void", "print_record", e.ctx, e.warp, place, arguments, e.active())
    e.dst(ins.args[0], const("i32", 0))


@opcode("@__assertfail", "", "mem", results=0, operands=(5, 5))
def assertion(e: Emitter, ins: Instr) -> None:
    """message, file, line, function, character size. A trap follows."""
    c = e.c
    values = [e.vector(e.src(arg, kind)) for arg, kind in zip(ins.args, ("u64", "u64", "u32", "u64"), strict=False)]
    lanes = e.active()
    values[2] = c.zext(values[2], "i64")
    c.call("void", "assert_record", e.ctx, e.warp, *values, lanes)
