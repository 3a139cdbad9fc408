"""A kernel without its data: what is left decides by sizes alone, and can be run for thousands of sizes in one launch.

Loads from buffers give zeros, stores to buffers are gone, and what only they need is gone too. Conditions on data are
drawn. What remains runs on the simulator as it is, so shuffles, shared memory, loops and rare instructions mean there
what they always mean. Each block of the new kernel stands for a block of the old one at some size: it reads its
parameters from a row of a table, and says in another one which outcomes its conditions had.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evo.sim.lower.inline import inline_calls
from evo.sim.lower.isa.opcode_table import TABLE, defs, uses
from evo.sim.ptx.ast import (
    WIDTH,
    Imm,
    Instr,
    Label,
    Mem,
    Operand,
    Pair,
    PtxModule,
    PtxParam,
    Reg,
    Special,
    Sym,
    Vec,
)  # fmt: skip
from evo.sim.ptx.parser import parse
from evo.sim.size_flow import SizeFlow, symbol_of

# Of a row, in bytes: the seed of what is drawn, the block's place, the grid, and then the parameters.
HEAD = {"seed": 0, **{f"ctaid.{axis}": 4 + 4 * at for at, axis in enumerate("xyz")},
        **{f"nctaid.{axis}": 16 + 4 * at for at, axis in enumerate("xyz")}}  # fmt: skip
PARAMETERS_AT = 32
RUN = 4  # in what is written down for a condition: a bit beside its outcomes, once it has run
_TURNS = 6000  # of all loops of a thread together; then it ends
_DROPPED = frozenset(("red", "cp", "mbarrier", "membar", "fence", "prefetch", "prefetchu", "nanosleep", "stmatrix",
                      "discard", "applypriority", "trap", "brkpt", "call", "sust", "griddepcontrol"))  # fmt: skip
_FLOW = frozenset(("bra", "brx", "ret", "exit"))
_SYNCS = frozenset(("bar", "barrier"))
_OWN = "%rehearsal_"
_ROW, _OUT, _STATE, _TURN, _ONE = (Reg(_OWN + name) for name in ("row", "out", "state", "turn", "one"))
_TEST, _WIDE = Reg(_OWN + "test"), Reg(_OWN + "wide")
_NEW = {_ROW: "u64", _OUT: "u64", _WIDE: "u64", _STATE: "u32", _TURN: "u32", _ONE: "u32", _TEST: "pred"}


@dataclass(frozen=True, slots=True)
class RehearsedPoint:
    """A condition whose outcomes are told, or a number that is zero or not. source_line: None if not known.

    of_threads: it may come out otherwise in another thread or block of the same launch.
    """

    instruction: str
    source_line: int | None
    of_threads: bool


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The new kernel alone in a module, under its old name.

    offsets: of the parameters in a row of the table, which has `row_bytes`. keeps_memory: of what it declares itself.
    """

    kernel: str
    module: PtxModule
    points: tuple[RehearsedPoint, ...]
    params: tuple[PtxParam, ...]
    offsets: dict[str, int]
    row_bytes: int
    keeps_memory: bool


def rehearsal_of(ptx: str, kernel: str, pointers: frozenset[int]) -> Rehearsal | None:
    """None if every condition on sizes is computed without it. Raises PtxError for what is not PTX.

    pointers: the numbers of the parameters that are addresses of buffers.
    """
    module = parse(ptx, TABLE)
    function = inline_calls(module, module.functions[kernel])
    flow = SizeFlow(module, function, pointers)
    return _Rewriting(module, flow).rehearsal() if flow.points else None


class _Rewriting:
    def __init__(self, module: PtxModule, flow: SizeFlow) -> None:
        self.module, self.function, self.flow = module, flow.function, flow
        size = self.function.param_offsets()[1]
        self.row_bytes = -(-(PARAMETERS_AT + size) // 16) * 16
        self.needed = self._needed()

    # What is kept ------------------------------------------------------------------------------------------------

    def _needed(self) -> set[str]:
        needed: set[str] = set()
        for ins in self.flow.code:
            if ins.name in _FLOW or ins.name in _SYNCS:
                needed |= set(uses(ins))
        for ins in self.flow.points:
            needed |= {*defs(ins), *uses(ins)}
        self.stores = False
        while True:
            self._follow(needed)
            read = any(self._reads_own(ins) and not needed.isdisjoint(defs(ins)) for ins in self.flow.code)
            if not read or self.stores:
                return needed
            self.stores = True
            for ins in self.flow.code:
                if self._keeps_store(ins):
                    needed |= set(uses(ins))

    def _follow(self, needed: set[str]) -> None:
        pending = list(needed)
        while pending:
            for ins in self.flow.setters.get(pending.pop(), ()):
                if self.flow.defs[id(ins)].isdisjoint(self.flow.data):
                    fresh = self.flow.uses[id(ins)] - needed
                    needed |= fresh
                    pending += fresh

    def _reads_own(self, ins: Instr) -> bool:
        return ins.name in ("ld", "atom") and "param" not in ins.mods and self.flow.is_own(ins, ins.args[1])

    def _keeps_store(self, ins: Instr) -> bool:
        """Stores to memory of the kernel itself; at places that data decide, nothing is known."""
        at = 1 if ins.name == "atom" else 0
        if ins.name not in ("st", "red", "atom") or not self.flow.is_own(ins, ins.args[at]):
            return False
        base = ins.args[at].base if isinstance(ins.args[at], Mem) else None  # type: ignore[union-attr]
        return not (isinstance(base, Reg) and base.name in self.flow.data)

    # The new code ------------------------------------------------------------------------------------------------

    def rehearsal(self) -> Rehearsal:
        registers = {**self.function.registers, **{reg.name: kind for reg, kind in _NEW.items()}}
        registers |= {_OWN + name: "u32" for name in HEAD if "." in name}
        rows, out = (PtxParam(f"rehearsal_{name}", "u64", 8, 8) for name in ("rows", "out"))
        function = dataclasses.replace(
            self.function, params=[rows, out], registers=registers, body=[*self._prologue(), *self._body()]
        )
        variables = dict(self.module.variables)
        called = {name: other for name, other in self.module.functions.items() if not other.entry}  # by address, too
        module = dataclasses.replace(self.module, functions={**called, function.name: function}, variables=variables)
        points = tuple(
            RehearsedPoint(
                " ".join(ins.text.split()), ins.loc or None, not self.flow.varying.isdisjoint(self.flow.defs[id(ins)])
            )
            for ins in self.flow.points
        )
        offsets = {name: PARAMETERS_AT + at for name, at in self.flow.offsets.items()}
        params = tuple(self.function.params)
        return Rehearsal(function.name, module, points, params, offsets, self.row_bytes, self.stores)

    def _prologue(self) -> Iterator[Instr]:
        block, wide = Special("ctaid.x"), _WIDE
        yield _made("ld", "param.u64", _ROW, Mem(Sym("rehearsal_rows")))
        yield _made("ld", "param.u64", _OUT, Mem(Sym("rehearsal_out")))
        yield _made("mov", "u32", _TURN, block)
        for base, step in ((_ROW, self.row_bytes), (_OUT, 2 * len(self.flow.points))):
            yield _made("mul", "wide.u32", wide, _TURN, Imm(step))
            yield _made("add", "u64", base, base, wide)
        yield _made("mov", "u32", _TURN, Imm(0))
        yield _made("mov", "u32", _ONE, Imm(1))
        for name, at in HEAD.items():
            into = _STATE if name == "seed" else Reg(_OWN + name)
            yield _made("ld", "global.u32", into, Mem(_ROW, at))

    def _body(self) -> Iterator[Instr | Label]:
        heads = self._loop_heads()
        numbers = {id(ins): number for number, ins in enumerate(self.flow.points)}
        for item in self.function.body:
            if isinstance(item, Label):
                yield item
                if item.name in heads:
                    yield _made("add", "u32", _TURN, _TURN, Imm(1))
                    yield _made("setp", "gt.u32", _TEST, _TURN, Imm(_TURNS))
                    yield Instr("exit", (), (), text="exit", guard=_TEST)
                continue
            yield from self._rewritten(item)
            if id(item) in numbers:
                yield from self._told(item, numbers[id(item)])

    def _loop_heads(self) -> set[str | None]:
        tables = (label for labels in self.function.tables.values() for label in labels)
        return {*(symbol_of(ins.args[0]) for ins in self.flow.code if id(ins) in self.flow.backward), *tables}

    def _rewritten(self, ins: Instr) -> Iterator[Instr]:
        made = set(defs(ins))
        if ins.name in _FLOW or ins.name in _SYNCS:
            if ins.name in _FLOW or self.stores:
                yield self._placed(ins)
        elif not made.isdisjoint(self.flow.data):
            yield from self._filled(made & self.needed)
        elif ins.name in ("st", "red") or (ins.name == "atom" and self.stores and self._keeps_store(ins)):
            if self.stores and self._keeps_store(ins):
                yield self._placed(dataclasses.replace(ins, args=tuple(self._without_data(arg) for arg in ins.args)))
        elif ins.name == "cp":
            yield from self._cleared(ins)
        elif ins.name in _DROPPED:
            return
        elif not made or not made.isdisjoint(self.needed):
            yield self._placed(ins)

    def _filled(self, made: Iterable[str]) -> Iterator[Instr]:
        """Instead of data: zeros, and conditions that are drawn."""
        for name in sorted(made):
            kind = self.function.registers.get(name, "b32")
            if kind == "pred":
                yield _made("mad", "lo.u32", _STATE, _STATE, Imm(1664525), Imm(1013904223))
                yield _made("setp", "lt.s32", Reg(name), _STATE, Imm(0))
            else:
                yield _made("mov", f"b{WIDTH[kind]}", Reg(name), Imm(0))

    def _without_data(self, arg: Operand) -> Operand:
        if isinstance(arg, Reg) and arg.name in self.flow.data:
            return Imm(0)
        if isinstance(arg, Vec):
            return Vec(tuple(self._without_data(item) for item in arg.items))
        return arg

    def _cleared(self, ins: Instr) -> Iterator[Instr]:
        """What an asynchronous copy would bring: zeros."""
        size = ins.args[2] if len(ins.args) > 2 else None
        if not self.stores or "async" not in ins.mods or not isinstance(size, Imm) or "bulk" in ins.mods:
            return
        target = ins.args[0]
        if isinstance(target, Mem) and not (isinstance(target.base, Reg) and target.base.name in self.flow.data):
            words = size.value // 4
            for at in range(words):
                yield _made("st", "shared.b32", Mem(target.base, target.offset + 4 * at), Imm(0))

    def _placed(self, ins: Instr) -> Instr:
        """With the row in place of parameters, and the place of a block and the grid from there."""
        if ins.name == "mov" and (name := symbol_of(ins.args[1])) in self.flow.offsets:
            assert isinstance(ins.args[1], Sym)
            at = PARAMETERS_AT + self.flow.offsets[name or ""] + ins.args[1].offset
            return _made("add", "u64", ins.args[0], _ROW, Imm(at))
        mods, args = ins.mods, tuple(self._given(arg) for arg in ins.args)
        if ins.name == "ld" and "param" in mods:
            mods = tuple("global" if mod == "param" else mod for mod in mods)
            address = args[1]
            if isinstance(address, Mem) and isinstance(address.base, Sym):
                at = PARAMETERS_AT + self.flow.offsets[address.base.name] + address.base.offset + address.offset
                args = (args[0], Mem(_ROW, at))
        return dataclasses.replace(ins, mods=mods, args=args)

    def _given(self, arg: Operand) -> Operand:
        if isinstance(arg, Special) and arg.name in HEAD:
            return Reg(_OWN + arg.name)
        return arg

    def _told(self, ins: Instr, number: int) -> Iterator[Instr]:
        target = ins.args[0].first if isinstance(ins.args[0], Pair) else ins.args[0]
        names = [name for name in defs(ins) if self.function.registers.get(name) == "pred"]
        test = Reg(names[0]) if names else _TEST
        if not names:
            kind = ins.mods[-1]
            if ins.name in ("min", "max"):
                yield _made("setp", f"eq.{kind}", test, target, self._given(ins.args[1]))
            else:
                width = self.function.registers.get(target.name, kind) if isinstance(target, Reg) else kind
                yield _made("setp", f"ne.b{max(16, WIDTH[width])}", test, target, Imm(0))
        for at, negated in ((2 * number, False), (2 * number + 1, True)):
            mods = ("global", "u8")
            yield Instr("st", mods, (Mem(_OUT, at), _ONE), text="st.global.u8", guard=test, negated=negated)


def _made(name: str, mods: str, *args: Operand) -> Instr:
    return Instr(name, tuple(mods.split(".")), args, text=f"{name}.{mods}")
