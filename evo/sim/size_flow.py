"""Which registers of a kernel follow from data, from sizes, and from a thread's own place; and the decisions by sizes.

By what instructions read and write alone, wherever they stand. A loop's registers count as of sizes, since sizes may
decide how often it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from evo.sim.launch_branches import joins_of
from evo.sim.launch_conditions import SPLITS
from evo.sim.lower.isa.opcode_table import TABLE, defs, reached, uses
from evo.sim.ptx.ast import WIDTH, Instr, Label, Mem, Operand, PtxFunction, PtxModule, Reg, Special, Sym
from evo.sim.register_values import computable, sources_of

_FROM_DATA = frozenset(("ldmatrix", "mma", "wmma", "tex", "tld4", "mbarrier", "cp", "call", "ldu", "suld", "fns"))
_OF_LAUNCH = ("nctaid", "ntid")


class SizeFlow:
    """Of one kernel, what its registers follow from. points: the decisions by sizes that have to be run."""

    def __init__(self, module: PtxModule, function: PtxFunction, pointers: frozenset[int]) -> None:
        self.function = function
        self.code = [item for item in function.body if isinstance(item, Instr)]
        self.defs = {id(ins): frozenset(defs(ins)) for ins in self.code}
        self.uses = {id(ins): frozenset(uses(ins)) for ins in self.code}
        self.users: dict[str, list[Instr]] = {}
        self.setters: dict[str, list[Instr]] = {}
        for ins in self.code:
            for name in self.uses[id(ins)]:
                self.users.setdefault(name, []).append(ins)
            for name in self.defs[id(ins)]:
                self.setters.setdefault(name, []).append(ins)
        self.joins, self.backward = joins_of(function), self._backward()
        self.offsets = function.param_offsets()[0]
        self.pointers = {param.name for number, param in enumerate(function.params) if number in pointers}
        named = {**module.variables, **function.variables}
        self.variables = {name for name, variable in named.items() if variable.space != "param"}
        self.placed = self._closure(lambda ins: any(symbol_of(arg) in self.variables for arg in ins.args[1:]))
        self.of_params = self._closure(lambda ins: ins.name == "mov" and symbol_of(ins.args[1]) in self.offsets)
        self.data = self._closure(self._brings_data)
        self.plain, self.of_sizes = self._plain(), self._of_sizes()
        self.varying = self._closure(_is_of_a_thread, _is_one_for_all)
        self.points = [ins for ins in self.code if self._is_point(ins)]

    def _closure(self, begins: Callable[[Instr], bool], ends: Callable[[Instr], bool] = lambda _: False) -> set[str]:
        """Registers that follow from these instructions, by way of others. ends: instructions that it does not pass."""
        steps = (
            (
                (name for name in self.uses[id(ins)] if not ends(ins) or self._is_its_place(ins, name)),
                self.defs[id(ins)],
            )
            for ins in self.code
        )
        return reached((name for ins in self.code if begins(ins) for name in self.defs[id(ins)]), steps)

    def _is_its_place(self, ins: Instr, name: str) -> bool:
        """Whether a register says where an instruction reads: of its memory, or which lane."""
        where = ins.args[1] if ins.name == "ld" else ins.args[2] if ins.name == "shfl" else None
        base = where.base if isinstance(where, Mem) else where
        return isinstance(base, Reg) and base.name == name

    def _brings_data(self, ins: Instr) -> bool:
        if ins.name in _FROM_DATA:
            return True
        if ins.name == "ld" and "param" in ins.mods:
            return symbol_of(ins.args[1]) in self.pointers
        if ins.name in ("ld", "atom"):
            return not self.is_own(ins, ins.args[1])
        return False

    def is_own(self, ins: Instr, address: Operand) -> bool:
        """Whether an access stays within what the kernel itself declares."""
        spaces = {mod.split("::")[0] for mod in ins.mods}
        if spaces & {"shared", "local", "const"}:
            return True
        base = address.base if isinstance(address, Mem) else None
        if isinstance(base, Sym):
            return base.name in self.variables
        return isinstance(base, Reg) and (base.name in self.placed or base.name in self.of_params)

    def _is_point(self, ins: Instr) -> bool:
        """A decision that follows from no data, and that is not computed without running anything."""
        if ins.guard is not None or ins.name not in TABLE or not ins.args:
            return False
        made = list(defs(ins))
        if (
            not made
            or made[0] in self.plain
            or made[0] not in self.of_sizes
            or not self.data.isdisjoint((*made, *uses(ins)))
        ):
            return False
        kinds = {self.function.registers.get(name) for name in made}
        if "pred" in kinds:
            return not self._turns_a_loop(made[0])
        kind = ins.mods[-1] if ins.mods else ""
        whole = kind[:1] in ("u", "s", "b") and kind in WIDTH and len(made) == 1
        return whole and (ins.name in ("min", "max") or ins.name in SPLITS)

    def _plain(self) -> set[str]:
        """Registers that follow from parameters and places by arithmetic alone, which is computed elsewhere."""
        needs: dict[str, set[str]] = {}
        followers: dict[str, list[str]] = {}  # of joins, whose guards are no operands
        for name, setters in self.setters.items():
            join = self.joins.get(name)
            made = setters if join is None else [part.setter for part in join.parts]
            if (len(made) > 1 and join is None) or not all(_is_arithmetic(ins) for ins in made):
                continue
            guards = () if join is None else (guard.register for part in join.parts for guard in part.guards)
            needs[name] = {*(source for ins in made for source in sources_of(ins)), *guards}
            for source in needs[name] if join is not None else ():
                followers.setdefault(source, []).append(name)
        found: set[str] = set()
        pending = list(needs)
        while pending:
            name = pending.pop()
            if name not in found and needs[name] <= found:
                found.add(name)
                pending += [after for ins in self.users.get(name, ()) for after in self.defs[id(ins)] if after in needs]
                pending += followers.get(name, ())
        return found

    def _of_sizes(self) -> set[str]:
        """Registers that sizes may decide: by what they follow from, or by how often a loop runs."""
        several = {name for name, made in self.setters.items() if len(made) > 1} - self.data
        turning = {name for name in several if name not in self.joins or self._follows_itself(name)}

        def begins(ins: Instr) -> bool:
            if ins.name in ("ld", "atom"):
                return "param" in ins.mods or self.is_own(ins, ins.args[1])
            grid = any(isinstance(arg, Special) and arg.name.startswith(_OF_LAUNCH) for arg in ins.args)
            return grid or not turning.isdisjoint(defs(ins))

        return self._closure(begins)

    def _follows_itself(self, register: str) -> bool:
        """Whether it is what a loop counts: set from what follows from it, in another turn."""
        seen: set[str] = set()
        pending = [register]
        while pending:
            for ins in self.users.get(pending.pop(), ()):
                made = self.defs[id(ins)]
                if register in made:
                    return True
                pending += made - seen
                seen |= made
        return False

    def _turns_a_loop(self, predicate: str) -> bool:
        """Whether it does nothing but send a branch back: both of its outcomes are had wherever the loop runs."""
        users = self.users.get(predicate, ())
        return bool(users) and all(id(ins) in self.backward for ins in users)

    def _backward(self) -> set[int]:
        """The branches to what stands before them."""
        seen: set[str] = set()
        found: set[int] = set()
        for item in self.function.body:
            if isinstance(item, Label):
                seen.add(item.name)
            elif item.name == "bra" and symbol_of(item.args[0]) in seen:
                found.add(id(item))
        return found


def _is_arithmetic(ins: Instr) -> bool:
    """Whether it is computed without running anything."""
    if not computable(ins) or ins.guard is not None or (ins.name == "ld" and "param" not in ins.mods):
        return False
    return all(arg.name.startswith(_OF_LAUNCH) for arg in ins.args if isinstance(arg, Special))


def _is_of_a_thread(ins: Instr) -> bool:
    if ins.name == "atom" or (ins.name == "match" and "any" in ins.mods):
        return True
    return any(isinstance(arg, Special) and not arg.name.startswith(_OF_LAUNCH) for arg in ins.args)


def _is_one_for_all(ins: Instr) -> bool:
    """Whether a result is the same in all threads that take part, if what says where it reads is."""
    return (
        ins.name in ("vote", "redux", "ld")
        or (ins.name == "match" and "all" in ins.mods)
        or (ins.name == "shfl" and "idx" in ins.mods)
    )


def symbol_of(arg: Operand) -> str | None:
    """The variable or parameter that an operand names."""
    base = arg.base if isinstance(arg, Mem) else arg
    return base.name if isinstance(base, Sym) else None
