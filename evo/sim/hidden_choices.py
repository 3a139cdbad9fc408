"""Decisions that no predicate names: a mask that a comparison leaves, a sum that is cut off at one, a bit of a number.

A comparison that nobody reads is put beside each, so that what counts, logs and solves comparisons sees them too.
"""

from __future__ import annotations

from collections.abc import Iterator

from evo.sim.lower.isa.opcode_table import defs, reached, uses
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Label, Operand, PtxFunction, Reg

_ONE = {"f32": 0x3F800000, "f64": 0x3FF0000000000000}
_CLAMPED = ("add", "sub", "mul", "mad", "fma", "cvt")
_PREDICATE = "%hidden"

_Test = tuple[str, str, Operand, Operand]  # how two operands of a type are compared


def with_hidden_choices(function: PtxFunction) -> PtxFunction:
    """The function, changed in place: comparisons stand before and behind instructions that decide by data."""
    code = [ins for ins in function.body if isinstance(ins, Instr)]
    loaded = [name for ins in code if ins.name in ("ld", "atom") and "param" not in ins.mods for name in defs(ins)]
    of_data = reached(loaded, ((tuple(uses(ins)), tuple(defs(ins))) for ins in code))
    # `expf` cuts its argument off before it adds what rounds down to whole numbers.
    of_exponents = {name for ins in code if ins.name == "fma" and "rm" in ins.mods for name in uses(ins)}
    body: list[Instr | Label] = []
    for item in function.body:
        if not isinstance(item, Instr) or of_data.isdisjoint(uses(item)):
            body.append(item)
            continue
        body += [_told(function, item, test) for test in _before(item)]
        body.append(item)
        if of_exponents.isdisjoint(defs(item)):
            body += [_told(function, item, test) for test in _after(item)]
    function.body = body
    return function


def _told(function: PtxFunction, beside: Instr, test: _Test) -> Instr:
    how, kind, left, right = test
    name = f"{_PREDICATE}{len(function.registers)}"
    function.registers[name] = "pred"
    text = f"setp.{how}.{kind} of {' '.join(beside.text.split())}"
    args = (Reg(name), left, right)
    return Instr("setp", (how, kind), args, beside.line, beside.loc, text, beside.guard, beside.negated, implied=True)


def _before(ins: Instr) -> Iterator[_Test]:
    """By operands, which the result may overwrite."""
    kind = ins.mods[-1] if ins.mods else ""
    if ins.name == "slct" and kind in ("s32", "f32"):
        yield "ge", kind, ins.args[3], Imm(0, "f32" if kind == "f32" else "int")
    elif ins.name == "shr" and isinstance(ins.args[2], Imm) and ins.args[2].value >= WIDTH[kind] - 1:
        yield "lt", f"s{WIDTH[kind]}", ins.args[1], Imm(0)
    elif ins.name == "set" and not kind.endswith("x2"):
        yield ins.mods[0], kind, ins.args[1], ins.args[2]


def _after(ins: Instr) -> Iterator[_Test]:
    """By the result."""
    kind = ins.mods[-2] if ins.name == "cvt" else ins.mods[-1] if ins.mods else ""
    if "sat" in ins.mods and ins.name in _CLAMPED and kind in _ONE:
        yield "gt", kind, ins.args[0], Imm(0, kind)
        yield "lt", kind, ins.args[0], Imm(_ONE[kind], kind)
    elif (
        ins.name == "and" and kind in ("b32", "b64") and isinstance(ins.args[2], Imm) and _is_one_bit(ins.args[2].value)
    ):
        yield "ne", kind, ins.args[0], Imm(0)
    elif ins.name == "set" and kind == "f16x2":  # of neither half, of both
        full = 0x3C003C00 if "f16x2" in ins.mods[:-1] else 0xFFFFFFFF
        yield "ne", "b32", ins.args[0], Imm(0)
        yield "eq", "b32", ins.args[0], Imm(full)


def _is_one_bit(value: int) -> bool:
    return value > 0 and not value & (value - 1)
