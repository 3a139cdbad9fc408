"""Functions that call themselves: one body per function in the kernel, entered and left through a stack.

A call saves what its own activation still needs, in local memory; where to return is a number, and `ret` branches on
it. All other functions are inlined (inline.py), into these bodies too.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evo.sim.abi import STACK_BYTES
from evo.sim.lower.cfg import liveness, split_blocks
from evo.sim.lower.indirect_calls import taken
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Label, Mem, Operand, PtxFunction, PtxModule, Reg, Sym, Variable

_POINTER, _FLAG, _STACK = "@sp", "@overflow", "@stack"
_ALIGN = 16
_LARGE = 10_000  # instructions of a kernel with every call inlined, from which on bodies are shared
_FEW, _CALL = 64, 32  # instructions of a body that is not worth sharing; of a call to a shared one
_HUGE = 1 << 40


def recursive_functions(program: PtxModule) -> set[str]:
    """Functions that can reach themselves, by name or through a pointer."""
    pointed = taken(program)
    calls: dict[str, set[str]] = {}
    for name, function in program.functions.items():
        targets: set[str] = set()
        for item in function.body:
            if isinstance(item, Instr) and item.name == "call":
                to = item.args[1]
                targets |= {to.name} if isinstance(to, Sym) else pointed
        calls[name] = targets & set(program.functions)
    return {name for name in calls if name in _reached(calls, name)}


def called_too_often(program: PtxModule, kernel: PtxFunction, recursive: set[str]) -> set[str]:
    """Functions whose copies would make the kernel too large; each gets one body for all its calls.

    From the innermost outwards: one with several calls and more than a few instructions.
    """
    calls = {name: list(_targets(program, function)) for name, function in program.functions.items()}
    counts = Counter(name for names in calls.values() for name in names)
    sizes: dict[str, int] = {}

    def size(name: str, shared: set[str]) -> int:
        """Instructions with all calls inlined but those of shared bodies."""
        if name not in sizes:
            inner = [_CALL if one in shared else min(size(one, shared), _HUGE) for one in calls[name]]
            sizes[name] = len(program.functions[name].body) + sum(inner)
            if shared is not recursive and counts[name] > 1 and sizes[name] > _FEW:
                shared.add(name)
                sizes[name] = _CALL
        return sizes[name]

    if size(kernel.name, recursive) <= _LARGE:
        return set()
    sizes.clear()
    shared = set(recursive)
    size(kernel.name, shared)
    return shared


def _targets(program: PtxModule, function: PtxFunction) -> Iterator[str]:
    """The functions that it calls, once for each call."""
    pointed = taken(program)
    for item in function.body:
        if isinstance(item, Instr) and item.name == "call":
            to = item.args[1]
            for name in (to.name,) if isinstance(to, Sym) else sorted(pointed):
                if name in program.functions:
                    yield name


def _reached(calls: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    work = [*calls[start]]
    while work:
        name = work.pop()
        if name not in seen:
            seen.add(name)
            work += calls[name]
    return seen


@dataclass
class Body:
    """One recursive function within a kernel."""

    function: PtxFunction
    prefix: str
    sites: list[str] = field(default_factory=list)  # labels to return to
    locals_: dict[str, int] = field(default_factory=dict)  # its variables -> offset in a frame
    frame: int = 0  # bytes of its variables

    @property
    def entry(self) -> str:
        return f"{self.prefix}entry"

    @property
    def leave(self) -> str:
        return f"{self.prefix}leave"

    @property
    def back(self) -> Reg:
        return Reg(f"{self.prefix}return")

    def place(self, variable: Variable) -> None:
        align = max(1, variable.align)
        at = (self.frame + align - 1) // align * align
        self.locals_[variable.name] = at
        self.frame = at + variable.size


class Recursion:
    """The recursive bodies of one kernel and the calls to them."""

    def __init__(self, program: PtxModule, kernel: PtxFunction) -> None:
        self.names = recursive_functions(program)
        self.names |= called_too_often(program, kernel, self.names)
        self.bodies: dict[str, Body] = {}
        self.unwritten: list[Body] = []
        self.callers: dict[int, tuple[Body | None, Body]] = {}  # by the line number of a pair of marks

    def body_of(self, function: PtxFunction) -> Body:
        if function.name not in self.bodies:
            body = Body(function, f"@@{function.name}.")
            self.bodies[function.name] = body
            self.unwritten.append(body)
        return self.bodies[function.name]

    def enter(self, call: Instr, caller: Body | None, body: Body) -> tuple[list[Instr | Label], list[Instr | Label]]:
        """What comes after the arguments are in place, and what comes where the call returns."""
        number = len(self.callers)
        self.callers[number] = (caller, body)
        body.sites.append(f"{body.prefix}site{len(body.sites)}")
        index = Imm(len(body.sites) - 1)
        before: list[Instr | Label] = [
            _like(call, "@save", (), (Imm(number),)),
            _like(call, "mov", ("u32",), (body.back, index)),
            _like(call, "bra", (), (Sym(body.entry),)),
        ]
        return before, [Label(body.sites[-1], call.line), _like(call, "@restore", (), (Imm(number),))]

    def finish(self, kernel: PtxFunction, registers: dict[str, str], variables: dict[str, Variable]) -> None:
        """Write out saves and restores in the finished kernel, now that it is known what is alive there."""
        if not self.bodies:
            return
        registers |= {_POINTER: "b64", _FLAG: "pred", "@bit": "b32"}
        registers |= {body.back.name: "b32" for body in self.bodies.values()}
        variables[_STACK] = Variable(_STACK, "local", _ALIGN, STACK_BYTES)
        kernel.tables = kernel.tables | {body.leave: body.sites for body in self.bodies.values()}
        alive = self._alive(kernel)
        out: list[Instr | Label] = [Instr("mov", ("u64",), (Reg(_POINTER), Sym(_STACK)), kernel.line)]
        for item in kernel.body:
            if isinstance(item, Instr) and item.name in ("@save", "@restore"):
                number = _number(item)
                out += _frame(item, self.callers[number], sorted(alive[number]), registers)
            else:
                out.append(item)
        kernel.body = out

    def _alive(self, kernel: PtxFunction) -> dict[int, set[str]]:
        """Per call: the registers of the calling activation that are read after it.

        What one call restores must have reached its save, past the calls before it: sets grow until they agree.
        """
        alive: dict[int, set[str]] = {number: set() for number in self.callers}
        while True:
            found = self._read_after(kernel)
            if found == alive:
                return alive
            alive = found
            for item in kernel.body:
                if isinstance(item, Instr) and item.name == "@save":
                    item.become((item.args[0], *map(Reg, sorted(alive[_number(item)]))))

    def _read_after(self, kernel: PtxFunction) -> dict[int, set[str]]:
        blocks = split_blocks(copy.copy(kernel))
        liveness(blocks, defs, uses)
        found: dict[int, set[str]] = {number: set() for number in self.callers}
        for block in blocks:
            first = block.code[0] if block.code else None
            if first is None or first.name != "@restore":
                continue
            caller, body = self.callers[_number(first)]
            results = tuple(f"{body.prefix}{p.name}" for p in body.function.results)
            mine = {n for n in block.live_in if caller is not None and n.startswith(caller.prefix)}
            answers = {n for n in mine if n in results or n.startswith(tuple(f"{r}+" for r in results))}
            found[_number(first)] = mine - answers
        return found


def _number(mark: Instr) -> int:
    assert isinstance(mark.args[0], Imm)
    return mark.args[0].value


def placed(body: Body, items: Sequence[Instr | Label]) -> list[Instr | Label]:
    """The code of a body with its variables found through the stack pointer."""
    out: list[Instr | Label] = []
    for item in items:
        if isinstance(item, Instr):
            _place_operands(body, item)
        out.append(item)
    return out


def _place_operands(body: Body, item: Instr) -> None:
    for index, arg in enumerate(item.args):
        if isinstance(arg, Mem) and isinstance(arg.base, Sym) and arg.base.name in body.locals_:
            moved: Operand = Mem(Reg(_POINTER), arg.offset + body.locals_[arg.base.name])
        elif isinstance(arg, Sym) and arg.name in body.locals_ and item.name == "mov":
            item.become((item.args[0], Reg(_POINTER), Imm(arg.offset + body.locals_[arg.name])), "add", ("s64",))
            return
        else:
            continue
        item.become((*item.args[:index], moved, *item.args[index + 1 :]))


def _frame(
    mark: Instr, call: tuple[Body | None, Body], names: list[str], registers: dict[str, str]
) -> list[Instr | Label]:
    """Push or pop what an activation keeps: its variables stay where they are, below the saved registers."""
    caller, callee = call
    at = (caller.frame + _ALIGN - 1) // _ALIGN * _ALIGN if caller is not None else 0
    places: list[tuple[str, int]] = []
    for name in names:
        places.append((name, at))
        at += 8
    step = Imm((at + _ALIGN - 1) // _ALIGN * _ALIGN)
    pointer, flag = Reg(_POINTER), Reg(_FLAG)
    out: list[Instr | Label] = []
    if mark.name == "@restore":
        out.append(_like(mark, "sub", ("s64",), (pointer, pointer, step)))
        for name, offset in places:
            out += _load(mark, name, registers[name], Mem(pointer, offset))
        return out
    # The base of the stack is not known here: an address beyond it is one beyond all local memory of the thread.
    room = STACK_BYTES - step.value - callee.frame - 64
    beyond = (flag, pointer, Sym(_STACK, max(room, 0)))
    out.append(_like(mark, "setp", ("gt" if room >= 0 else "ge", "u64"), beyond))
    trap = _like(mark, "trap", ("@stack",), ())
    trap.guard = flag
    out.append(trap)
    for name, offset in places:
        out += _store(mark, name, registers[name], Mem(pointer, offset))
    out.append(_like(mark, "add", ("s64",), (pointer, pointer, step)))
    return out


def _store(mark: Instr, name: str, kind: str, place: Mem) -> list[Instr | Label]:
    if kind != "pred":
        return [_like(mark, "st", ("local", f"b{WIDTH[kind]}"), (place, Reg(name)))]
    pick = _like(mark, "selp", ("b32",), (Reg("@bit"), Imm(1), Imm(0), Reg(name)))
    return [pick, _like(mark, "st", ("local", "b32"), (place, Reg("@bit")))]


def _load(mark: Instr, name: str, kind: str, place: Mem) -> list[Instr | Label]:
    if kind != "pred":
        return [_like(mark, "ld", ("local", f"b{WIDTH[kind]}"), (Reg(name), place))]
    load = _like(mark, "ld", ("local", "b32"), (Reg("@bit"), place))
    return [load, _like(mark, "setp", ("ne", "u32"), (Reg(name), Reg("@bit"), Imm(0)))]


def _like(call: Instr, name: str, mods: tuple[str, ...], args: tuple[Operand, ...]) -> Instr:
    return Instr(name, mods, args, call.line, call.loc, call.text)
