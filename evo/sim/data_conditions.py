"""Conditions on data as functions of the registers that they are computed from, so that others can be tried of these.

The way back ends at a register that is loaded, that several instructions set, or whose computation is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from evo.sim.bit_arithmetic import Bits, typed
from evo.sim.hidden_choices import with_hidden_choices
from evo.sim.launch_branches import Join
from evo.sim.launch_conditions import Slices
from evo.sim.lower.isa.opcode_table import TABLE, defs
from evo.sim.ptx.ast import Imm, Instr, PtxFunction, Reg, Special
from evo.sim.ptx.parser import parse
from evo.sim.register_values import Launches, ValuesOfRegisters, computable, sources_of

_MOST = 24  # registers that a condition is computed from
_STEPS = 160  # instructions on the way
_NO_LAUNCH = Launches(parameters={}, grid=np.ones((3, 1), np.int64), block=np.ones((3, 1), np.int64))


def kernels_of(ptx: str) -> dict[str, PtxFunction]:
    """By name, as they run where outcomes are counted. Raises PtxError."""
    functions = parse(ptx, TABLE).functions
    return {name: with_hidden_choices(function) for name, function in functions.items() if function.entry}


class DataConditions:
    """Of one kernel."""

    def __init__(self, function: PtxFunction) -> None:
        self.slices = Slices(function)
        self.types = function.registers
        self.carried = _carried(function)
        self._joins: dict[str, Join | None] = {}

    def leaves(self, condition: Instr | str) -> tuple[str, ...]:
        """The registers that it follows from; none if they are too many, or if one is a predicate of many places."""
        found: dict[str, None] = {}
        pending = [condition] if isinstance(condition, str) else [*sources_of(condition)]
        seen = {*pending}
        while pending:
            top = pending.pop()
            ins = self.setter(top)
            if ins is None:
                if self.types.get(top, "pred") == "pred":
                    return ()
                found[top] = None
            for source in sources_of(ins) if ins is not None else ():
                if source not in seen:
                    seen.add(source)
                    pending.append(source)
            if len(found) > _MOST or len(seen) > _STEPS:
                return ()
        return tuple(found)

    def setter(self, name: str) -> Instr | Join | None:
        """The instruction whose result it always is, if that can be computed; or which of several, as branches go."""
        ins = self.slices.setters.get(name)
        if isinstance(ins, Join):
            if name not in self._joins:
                is_known = name not in self.carried and self._is_computed(name, ins)
                self._joins[name] = ins if is_known else None
            return self._joins[name]
        if not isinstance(ins, Instr) or not computable(ins) or ins.name in ("ld", "cvta"):
            return None
        return None if any(isinstance(arg, Special) for arg in ins.args) else ins

    def _is_computed(self, name: str, join: Join) -> bool:
        """Whether all parts can be computed, and none from the join itself, as in a loop."""
        pending = [*join.sources()]
        seen = {*pending}
        if any(self.setter(part.register) is None for part in join.parts):
            return False
        while pending and len(seen) <= _STEPS:
            ins = self.slices.setters.get(pending.pop())
            new = [source for source in sources_of(ins) if source not in seen] if ins is not None else []
            seen.update(new)
            pending += new
        return not pending and name not in seen

    def values(self, leaves: Mapping[str, Bits]) -> ValuesOfRegisters:
        """What all else is where the leaves hold these, each register computed once."""
        return ValuesOfRegisters(self.slices, _NO_LAUNCH, dict(leaves))

    def of(self, condition: Instr | str, values: ValuesOfRegisters) -> Bits:
        """The bits of a register, or of what an instruction gives."""
        if isinstance(condition, str):
            return values.of(condition)
        for source in sources_of(condition):
            if source not in values.known:
                values.of(source)
        return values.computed(condition)

    def parts(self, condition: Instr | str, value: bool) -> Iterator[tuple[Instr | str, bool]]:
        """What has to hold for it to have a value: of a conjunction, each of its parts."""
        if isinstance(condition, str):
            yield from self.slices.parts(condition, value)
        else:
            yield condition, value

    def distance(self, condition: Instr | str, values: ValuesOfRegisters) -> NDArray[np.float64] | None:
        """How far apart two numbers are that a comparison compares; None for another instruction."""
        ins = self.setter(condition) if isinstance(condition, str) else condition
        if not isinstance(ins, Instr) or ins.name != "setp" or len(ins.args) != 3 or ins.mods[-1] == "pred":
            return None
        kind = ins.mods[-1]
        left, right = (typed(values.of_operand(arg, kind), kind).astype(np.float64) for arg in ins.args[1:3])
        return np.abs(left - right)

    def constants(self, condition: Instr | str) -> frozenset[int]:
        """The bits of the numbers on the way."""
        found, seen = set[int](), set[str]()
        pending: list[Instr | Join | None] = [self.setter(condition) if isinstance(condition, str) else condition]
        while pending:
            ins = pending.pop()
            if isinstance(ins, Join):
                pending += [part.setter for part in ins.parts]
            for arg in ins.args[1:] if isinstance(ins, Instr) else ():
                if isinstance(arg, Imm):
                    found.add(arg.value)
                elif isinstance(arg, Reg) and arg.name not in seen:
                    seen.add(arg.name)
                    pending.append(self.setter(arg.name))
        return frozenset(found)


def _carried(function: PtxFunction) -> frozenset[str]:
    """Registers that are read before they are set for the last time, as what a loop hands from one turn to the next."""
    read, found, known = set[str](), set[str](), set[str]()
    for ins in (ins for ins in function.body if isinstance(ins, Instr)):
        read.update(sources_of(ins))
        found.update(name for name in defs(ins) if name in known and name in read)
        known.update(defs(ins))
    return frozenset(found)
