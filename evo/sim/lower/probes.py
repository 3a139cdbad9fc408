"""Counts beside the conditions of a kernel: how often each was true, and what was last compared.

A predicate is counted once per block; branches, selections and guarded instructions share that count. How often a
condition was false follows from how many lanes ran the block, which is counted anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from evo.results.coverage import BRANCHES, MEMORY, PointKind
from evo.sim.abi import CTX
from evo.sim.data_conditions import DataConditions
from evo.sim.llvm_values import V, is_vec
from evo.sim.lower.cfg import Block
from evo.sim.lower.emitter import Emitter, rounded
from evo.sim.lower.isa.opcode_table import defs, reached, results, uses
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Mem, Operand, Pair, PtxFunction, Reg, Special, Sym

# Of one comparison: which lanes ran it, the number of their block among those listed, from 1; their operands.
LOG_LANES, LOG_BLOCK, LOG_LEFT, LOG_RIGHT, LOG_SIZE = 0, 4, 64, 320, 576
_ORDERED = {"f": "olt", "s": "slt", "u": "ult"}
_EXTREMA = ("u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64")
_LOGGED = frozenset((*_EXTREMA, "b16", "b32", "b64", "f16", "bf16"))


@dataclass(frozen=True, slots=True)
class Count:
    """How many lanes met a condition; negated: how many of those that ran the block did not."""

    index: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class ProbeSide:
    """A logged operand: a constant, or one value per lane, or one for all lanes."""

    constant: int | None  # the bits
    by_lane: bool
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """Where the operands of the last execution are, and their PTX type."""

    index: int
    type: str
    left: ProbeSide
    right: ProbeSide


@dataclass(frozen=True, slots=True)
class Leaf:
    """A register that a condition is computed from, and the log of what it was last set to."""

    register: str
    type: str
    index: int
    by_lane: bool
    is_data: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """A condition of the kernel and where its counts are. cases: of a switch, the indices of its counts."""

    kind: PointKind
    ins: Instr
    block: int
    count: Count
    total: Count | None = None  # lanes that ran the instruction; None: all that ran the block
    cases: tuple[int, ...] = ()
    log: Log | None = None
    origins: tuple[str, ...] = ()  # of the predicate; of a comparison only whether branches decide an operand
    leaves: tuple[Leaf, ...] = ()  # what it is computed from on the way


class Probes:
    """The probes of one kernel while it is emitted."""

    def __init__(self, e: Emitter, function: PtxFunction, blocks: list[Block], params: Mapping[str, int]) -> None:
        self.e, self.c = e, e.c
        self.found: list[Probe] = []
        self.counts = self.logs = 0
        self.counters, self.comparisons = V("ptr", "%probe_counters"), V("ptr", "%comparisons")
        self._origins: dict[str, Origins] = origins_of(blocks, params)
        self._joined = joined(blocks)
        self._blocks = blocks
        self._known: dict[str, int] = {}  # predicates that were counted in this block
        self._conditions = DataConditions(function)
        decided = {_key(one): one for block in blocks for one in _decisive(block)}
        self._leaves = {key: leaves for key, one in decided.items() if (leaves := self._leaves_of(one))}
        found = dict.fromkeys(leaf for leaves in self._leaves.values() for leaf in leaves)
        self._rows = {name: number for number, name in enumerate(found)}
        self.logs = len(self._rows)

    def start(self) -> None:
        """A block begins."""
        self._known = {}

    def before(self, ins: Instr) -> None:
        """What is decided by values that the instruction may overwrite."""
        total = self._guard(ins)
        if ins.name == "selp" and isinstance(ins.args[3], Reg):
            name = ins.args[3].name
            index = self._predicate(name) if ins.guard is None else self._counted(self.e.read(name))
            self._note(PointKind.SELECT, ins, name, Count(index), total)
        elif ins.name in ("min", "max") and ins.mods[-1] in _EXTREMA and "relu" not in ins.mods:
            self._extremum(ins, total)
        elif ins.name == "setp" and isinstance(_first(ins.args[0]), Reg):
            log = self._logged(ins) if ins.mods[-1] in _LOGGED else None
            # The count itself follows in `after`.
            sides = [arg.name for arg in ins.args[1:3] if isinstance(arg, Reg)]
            origins = () if self._joined.isdisjoint(sides) else (BRANCHES,)
            leaves = self._logs_of(ins)
            for leaf in leaves:
                if leaf.register in self._conditions.carried:  # it may be another when the turn of the loop ends
                    self._log_leaf(leaf.register)
            self.found.append(
                Probe(PointKind.COMPARISON, ins, self._block, Count(-1), total, log=log, origins=origins, leaves=leaves)
            )

    def after(self, ins: Instr) -> None:
        for name in defs(ins):
            self._known.pop(name, None)
            if name in self._rows and name not in self._conditions.carried:
                self._log_leaf(name)
        if ins.name == "setp" and isinstance(target := _first(ins.args[0]), Reg):
            index = self._counted(self.e.read(target.name))
            if ins.guard is None:
                self._known[target.name] = index
            self.found[-1] = replace(self.found[-1], count=Count(index))

    def end(self, ins: Instr) -> None:
        """The control instruction of a block."""
        if ins.guard is None or ins.name == "brx":
            return
        kind = PointKind.BRANCH if ins.name in ("bra", "ret", "exit", "trap") else PointKind.PREDICATED
        if kind is PointKind.BRANCH and self._leaves_loop():
            kind = PointKind.LOOP
        self._note(kind, ins, ins.guard.name, Count(self._predicate(ins.guard.name), ins.negated), None)

    def switch(self, ins: Instr, ways: int) -> int:
        """A branch through a table; the index of its first count."""
        first = self.counts
        self.counts += ways
        cases = tuple(range(first, first + ways))
        self.found.append(Probe(PointKind.SWITCH, ins, self._block, Count(first), None, cases))
        return first

    def case(self, index: int, lanes: V) -> None:
        self.c.bump(self.counters, 8 * index, self._number(lanes))

    # Parts ------------------------------------------------------------------------------------------------------

    @property
    def _block(self) -> int:
        return self.e.block.number

    def _leaves_loop(self) -> bool:
        """Does one way of the block's branch stay in a loop that the other one leaves?"""
        here, ways = self._block, self._blocks[self._block].successors()
        for last in self._blocks:
            for first in last.successors():
                if first <= here <= last.number and len(ways) == 2:
                    inside = [first <= way <= last.number for way in ways]
                    if inside[0] != inside[1]:
                        return True
        return False

    def _guard(self, ins: Instr) -> Count | None:
        if ins.guard is None:
            return None
        count = Count(self._predicate(ins.guard.name), ins.negated)
        self._note(PointKind.PREDICATED, ins, ins.guard.name, count, None)
        return count

    def _note(self, kind: PointKind, ins: Instr, predicate: str, count: Count, total: Count | None) -> None:
        more = (BRANCHES,) if predicate in self._joined else ()
        origins = tuple(sorted({*self._origins.get(predicate, ()), *more}))
        leaves = self._logs_of(predicate)
        self.found.append(Probe(kind, ins, self._block, count, total, origins=origins, leaves=leaves))

    def _leaves_of(self, condition: Instr | str) -> tuple[str, ...]:
        """What a condition on data is computed from; nothing if it follows from no data, or nobody knows how."""
        leaves = self._conditions.leaves(condition)
        return leaves if any(MEMORY in self._origins.get(leaf, ()) for leaf in leaves) else ()

    def _logs_of(self, condition: Instr | str) -> tuple[Leaf, ...]:
        e = self.e
        return tuple(
            Leaf(
                name, e.registers[name], self._rows[name], name not in e.uniform, MEMORY in self._origins.get(name, ())
            )
            for name in self._leaves.get(_key(condition), ())
        )

    def _predicate(self, name: str) -> int:
        """The count of a predicate in this block."""
        if name not in self._known:
            guard, self.e.guard = self.e.guard, None
            self._known[name] = self._counted(self.e.read(name))
            self.e.guard = guard
        return self._known[name]

    def _counted(self, condition: V) -> int:
        """Emits the count of the running lanes that meet a condition."""
        c, index = self.c, self.counts
        self.counts += 1
        bits = self.e.active()
        if is_vec(condition.t):
            amount = self._number(c.and_(bits, c.mask_bits(condition)))
        else:
            amount = c.select(condition, self._number(bits), 0)
        c.bump(self.counters, 8 * index, amount)
        return index

    def _number(self, lanes: V) -> V:
        return self.c.zext(self.c.intrinsic("ctpop", lanes), "i64")

    def _extremum(self, ins: Instr, total: Count | None) -> None:
        type_ = ins.mods[-1]
        log = self._logged(ins)
        x, y = self.c.same(*(self.e.src(arg, type_) for arg in ins.args[1:3]))
        if ins.name == "max":
            x, y = y, x
        compare = self.c.fcmp if type_[0] == "f" else self.c.icmp
        count = Count(self._counted(compare(_ORDERED[type_[0]], x, y)))
        kind = PointKind.MINIMUM if ins.name == "min" else PointKind.MAXIMUM
        self.found.append(Probe(kind, ins, self._block, count, total, log=log))

    def _logged(self, ins: Instr) -> Log:
        """Emits the log of both operands."""
        c, index, type_ = self.c, self.logs, ins.mods[-1]
        self.logs += 1
        place = index * LOG_SIZE
        sides = []
        for arg, offset in zip(ins.args[1:3], (LOG_LEFT, LOG_RIGHT), strict=True):
            if isinstance(arg, Imm):
                sides.append(ProbeSide(_constant(arg, type_), by_lane=False, origins=()))
                continue
            value = self.e.src(arg, f"b{WIDTH[type_]}")
            c.store(value, self.comparisons, place + offset, 8)
            origins = origins_of_operand(arg, self._origins)
            sides.append(ProbeSide(None, by_lane=is_vec(value.t), origins=origins))
        self._ran(place)
        return Log(index, type_, *sides)

    def _log_leaf(self, name: str) -> None:
        place = self._rows[name] * LOG_SIZE
        self.c.store(self.e.read(name), self.comparisons, place + LOG_LEFT, 8)
        self._ran(place)

    def _ran(self, place: int) -> None:
        """Emits which lanes wrote a log, and in which block: of the parts of a launch the last block's log counts."""
        c = self.c
        c.store(self.e.active(), self.comparisons, place + LOG_LANES, 8)
        block = c.load("i64", self.e.ctx, CTX["slot"], 8)
        c.store(c.add(c.trunc(block, "i32"), 1), self.comparisons, place + LOG_BLOCK, 4)


def _decisive(block: Block) -> Iterator[Instr | str]:
    """The comparisons of a block, and the predicates that it selects by or branches on."""
    for ins in block.instructions():
        if ins.guard is not None:
            yield ins.guard.name
        if ins.name == "setp" and ins.mods[-1] in _LOGGED:
            yield ins
        elif ins.name == "selp" and isinstance(ins.args[3], Reg):
            yield ins.args[3].name


def _key(condition: Instr | str) -> int | str:
    return condition if isinstance(condition, str) else id(condition)


def _first(target: Operand) -> Operand:
    return target.first if isinstance(target, Pair) else target


def _constant(arg: Imm, type_: str) -> int:
    """The bits of a constant in the type of the comparison."""
    value = arg.value
    if arg.kind == "f64" and type_ == "f32":
        value = rounded(value, 64)
    return value & ((1 << WIDTH[type_]) - 1)


Origins = frozenset[str]


def origins_of(blocks: list[Block], params: Mapping[str, int]) -> dict[str, Origins]:
    """Of each register, over all places that set it. Only data flows count, not the branches on the way.

    params: names of the kernel's parameters -> their numbers.
    """
    code = [ins for block in blocks for ins in block.instructions()]
    found: dict[str, Origins] = {}
    steps = [(tuple(defs(ins)), tuple(uses(ins)), _own(ins, params)) for ins in code]
    changed = True
    while changed:
        changed = False
        for targets, sources, own in steps:
            if not targets:
                continue
            # What an address is made of does not say what lies there.
            comes = own if MEMORY in own else own.union(*(found.get(name, frozenset()) for name in sources))
            for name in targets:
                before = found.get(name)
                if before is None or not comes <= before:
                    found[name] = comes | (before or frozenset())
                    changed = True
    return found


def joined(blocks: list[Block]) -> frozenset[str]:
    """Registers that several blocks set, and what is computed from them: branches decide their values too."""
    code = [(block.number, ins) for block in blocks for ins in block.code]
    setters: dict[str, set[int]] = {}
    for number, ins in code:
        for name in defs(ins):
            setters.setdefault(name, set()).add(number)
    several = [name for name, numbers in setters.items() if len(numbers) > 1]
    found = reached(several, ((uses(ins), defs(ins)) for _, ins in code if MEMORY not in _own(ins, {})))
    return frozenset(found)


def origins_of_operand(arg: Operand, found: Mapping[str, Origins]) -> tuple[str, ...]:
    if isinstance(arg, Reg):
        return tuple(sorted(found.get(arg.name, ())))
    return (arg.name,) if isinstance(arg, Special) else ()


def _own(ins: Instr, params: Mapping[str, int]) -> Origins:
    """What the instruction itself brings in."""
    if ins.name in ("ld", "atom"):
        (address,) = [arg for arg in ins.args[results(ins) :] if isinstance(arg, Mem)][:1] or [Mem(None)]
        if "param" in ins.mods and isinstance(address.base, Sym) and address.base.name in params:
            return frozenset((f"param {params[address.base.name]}",))
        return frozenset((MEMORY,))
    if ins.name in ("ldmatrix", "wmma.load"):
        return frozenset((MEMORY,))
    return frozenset(arg.name for arg in ins.args[results(ins) :] if isinstance(arg, Special))
