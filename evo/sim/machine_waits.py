"""What a warp waits for in the machine code that ptxas made: its instructions in order, with their control words.

A warp issues in order. Each instruction says after how many clocks the next one may follow, which scoreboards it waits
for and which one its result counts down; so what of a latency is hidden behind other work is known, and the rest is a
wait of that kind. Waits are counted by kind, in units of that kind's whole latency: nothing here is a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evo.sim.machine_runs import Executions, Run, runs_of
from evo.spec.machine_instruction import NO_SCOREBOARD, MachineInstruction
from evo.spec.metrics import SECTOR_BYTES

Waits = Mapping[str, float]

# The pipe that each opcode occupies; every other one is of the `alu`.
_PIPES = {
    "fma": "FFMA FADD FMUL FSWZADD HFMA2 HADD2 HMUL2",
    "imad": "IMAD IDP",
    "xu": "MUFU POPC FLO BREV FCHK F2F",
    "convert": "I2F F2I FRND",
    "fp64": "DFMA DADD DMUL DSETP",
    "mma": "HMMA IMMA DMMA",
    "local": "LDL STL",
    "memory": "LD LDG LDS LDSM LDC LDGSTS ST STG STS STSM ATOM ATOMG ATOMS RED REDG SHFL"
    " CCTL LDGDEPBAR DEPBAR MATCH REDUX",
    "control": "BRA CALL RET EXIT BSSY BSYNC BAR WARPSYNC NOP YIELD BREAK MEMBAR ERRBAR NANOSLEEP",
}
PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes.split()}
_RESULTS = {
    "special": "MUFU",
    "convert": "I2F F2I F2F FRND POPC FLO BREV I2FP",
    "double": "DFMA DADD DMUL DSETP",
    "shuffle": "SHFL",
    "vote": "MATCH REDUX R2UR VOTEU UFLO UPOPC",
    "register": "S2R S2UR CS2R B2R",
    "param": "LDC ULDC",
    "shared": "LDS LDSM",
    "l1": "LDL",
    "atomic_shared": "ATOMS",
    "atomic": "ATOM ATOMG",
}
RESULT_OF = {opcode: kind for kind, opcodes in _RESULTS.items() for opcode in opcodes.split()}
# Clocks by kind, to find what a warp waits for; the model has its own.
CLOCKS: Mapping[str, float] = {
    "special": 20, "convert": 20, "double": 16, "shuffle": 24, "vote": 12, "register": 30, "param": 30, "shared": 29,
    "l1": 33, "l2": 227, "atomic": 260, "atomic_shared": 60, "copy": 227, "barrier": 30, "release": 12,
    "conflict": 1, "lines": 1, "queue": 1, "issue": 1,
}  # fmt: skip
# What takes the load and store unit for as long as its access has passes.
_BY_THE_UNIT = frozenset({
    "LD", "LDG", "LDS", "LDSM", "LDGSTS", "ST", "STG", "STS", "STSM", "ATOM", "ATOMG", "ATOMS", "RED", "REDG",
})  # fmt: skip
_JOINED = 8  # clocks between stores of a warp that L1 joins to whole sectors
# Clocks of the load and store unit for which a warp's stores stay beside one another: what takes longer is mixed with
# the stores of so many more warps. Stores of 8 passes, 8 a thread, by warps out of step, H200.
_UNDISTURBED = 32.0
# Of the accesses of the other warps of its block, which a barrier keeps in step: those ahead of a warp in the middle.
_OTHERS = 0.5


class StoreShape(NamedTuple):
    """A store to global memory, of a warp: sectors, the fewest that could hold what it writes, and its passes if none
    is written in parts. base, offset: of its address in PTX; stores at bases of their own need not be neighbours."""

    sectors: float
    fewest: float
    passes: float
    base: str
    offset: int


@dataclass(frozen=True, slots=True)
class Accesses:
    """What the simulator counted of memory accesses, by PTX line.

    loads: the parts of a load's latency beyond L1 or shared memory, each by its kind. stores: to global memory.
    passes: clocks that the load and store unit takes for a request. shared: lines that access shared memory. pending:
    of waits for copies, the groups that may stay under way.
    """

    loads: Mapping[int, Waits]
    stores: Mapping[int, StoreShape]
    passes: Mapping[int, float]
    shared: frozenset[int]
    pending: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MachineWork:
    """waits: of all warps, by kind. issued: instructions of all warps, by pipe. joined: sectors that stores wrote in
    parts one right after the other, less the whole sectors that L1 makes of them. shared: requests to shared memory and
    their wavefronts: ptxas joins accesses side by side, and such a one has the wavefronts of one of its parts."""

    waits: dict[str, float]
    issued: dict[str, float]
    joined: Joined
    shared: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Joined:
    """Stores in parts that follow one another: sectors that L1 saves by joining them, of all warps.

    open: these times the sectors that are under way in one store of a warp. together: these times those of all warps
    that store at the same time.
    """

    sectors: float
    open: float
    together: float


def machine_work(
    code: Sequence[MachineInstruction], executed: Executions, accesses: Accesses, warps: int
) -> MachineWork:
    """The work of one launch in machine code, whose blocks have so many warps."""
    runs = runs_of(code, executed)
    waits: dict[str, float] = {}
    issued: dict[str, float] = {}
    states = [_State() for _ in runs]
    in_step = _in_step(runs)
    for counted in (False, True):  # first for what is under way when a run begins
        for number, run in enumerate(runs):
            if run.times <= 0:
                continue
            before = states[run.before] if run.before >= 0 else _State()
            warp = _Warp(before, accesses, warps, in_step=in_step[number])
            warp.execute(run.code)
            states[number] = warp.state()
            for kind, count in warp.waits.items() if counted else ():
                waits[kind] = waits.get(kind, 0.0) + count * run.times
    for run in runs:
        for ins in run.code if run.times > 0 else ():
            pipe = PIPE_OF.get(ins.opcode, "uniform" if ins.opcode.startswith("U") else "alu")
            issued[pipe] = issued.get(pipe, 0.0) + run.times
    return MachineWork(waits, issued, _joined(runs, in_step, accesses, warps), _shared(runs, accesses))


def _in_step(runs: Sequence[Run]) -> list[bool]:
    """Of each run, whether the warps of a block come to it in step.

    In a loop they do if it has a barrier; elsewhere, if they come from a barrier or such a loop. In another loop each
    soon has its own pace.
    """
    meets = [run.times > 0 and any(ins.opcode == "BAR" for ins in run.code) for run in runs]
    at = {run.code[0].address: number for number, run in enumerate(runs)}
    backwards = [(run.code[-1].target, tail) for tail, run in enumerate(runs) if run.code[-1].opcode == "BRA"]
    loops = [(at[to], tail) for to, tail in backwards if to in at and at[to] <= tail]
    found: list[bool] = []
    for number, run in enumerate(runs):
        around = [(tail - head, head, tail) for head, tail in loops if head <= number <= tail]
        if around:
            _, head, tail = min(around)
            found.append(any(meets[head : tail + 1]))
        else:
            before = run.before if run.before < number else -1
            found.append(before >= 0 and (meets[before] or found[before]))
    return found


def _shared(runs: Sequence[Run], accesses: Accesses) -> tuple[float, float]:
    found = [
        (run.times, run.times * accesses.passes[ins.line])
        for run in runs
        for ins in run.code
        if run.times > 0 and ins.opcode in _BY_THE_UNIT and ins.line in accesses.shared
    ]
    return sum(requests for requests, _ in found), sum(wavefronts for _, wavefronts in found)


def _joined(runs: Sequence[Run], in_step: Sequence[bool], accesses: Accesses, warps: int) -> Joined:
    """Sectors of stores that follow one another closely, beyond those that they fill together."""
    saved = alone = together = 0.0
    for number, run in enumerate(runs):
        if run.times <= 0:
            continue
        for group, begin in _stores_together(run, accesses.stores):
            if len(group) < 2:
                continue
            sectors, fewest = sum(one.sectors for one in group), sum(one.fewest for one in group)
            under_way = max(one.sectors for one in group)
            sectors_saved = (sectors - max(under_way, fewest)) * run.times
            passes = sum(one.passes for one in group)
            together_there = in_step[number] or any(ins.opcode == "BAR" for ins in run.code[:begin])
            beside = max(warps if together_there else 1, passes / _UNDISTURBED)
            saved += sectors_saved
            alone += sectors_saved * under_way
            together += sectors_saved * under_way * beside
    return Joined(saved, alone, together)


def _stores_together(run: Run, stores: Mapping[int, StoreShape]) -> Iterator[tuple[list[StoreShape], int]]:
    """Stores of neighbouring words that follow one another closely, and where in the run they begin."""
    groups: dict[tuple[str, int], tuple[list[StoreShape], int]] = {}
    clock = last = 0
    for at, ins in enumerate(run.code):
        if ins.opcode == "STG" and (shape := stores.get(ins.line)) is not None:
            if clock - last > _JOINED:
                yield from groups.values()
                groups = {}
            groups.setdefault((shape.base, shape.offset // SECTOR_BYTES), ([], at))[0].append(shape)
            last = clock
        clock += max(1, ins.stall)
    yield from groups.values()


@dataclass(slots=True)
class _State:
    """What is under way when a run begins: clocks until a scoreboard is ready, with its parts; until copies arrive.

    unit: clocks until the load and store unit is through with what the warp has given it.
    """

    ready: dict[int, tuple[float, Waits]] = field(default_factory=dict)
    copies: list[float] = field(default_factory=list)
    unit: float = 0.0


class _Warp:
    """One warp on its way through a run, one of so many of its block. in_step: the others are about as far."""

    def __init__(self, before: _State, accesses: Accesses, warps: int, *, in_step: bool) -> None:
        self.in_step = _OTHERS * (warps - 1)
        self.others = self.in_step if in_step else 0.0
        self.ready, self.copies, self.accesses = dict(before.ready), list(before.copies), accesses
        self.now, self.unit = 0.0, before.unit
        self.waits: dict[str, float] = {}

    def state(self) -> _State:
        ready = {board: (until - self.now, parts) for board, (until, parts) in self.ready.items() if until > self.now}
        return _State(ready, [until - self.now for until in self.copies], max(0.0, self.unit - self.now))

    def execute(self, code: Sequence[MachineInstruction]) -> None:
        """Issue one instruction after the other."""
        issue = 0.0
        for ins in code:
            if ins.waits:
                for board in [board for board in self.ready if ins.waits >> board & 1]:
                    self._wait(*self.ready.pop(board))
            if ins.opcode in ("DEPBAR", "LDGDEPBAR", "BAR"):
                self._meet(ins)
            ahead = self._queued(ins) if ins.opcode in _BY_THE_UNIT else 0.0
            if ins.sets != NO_SCOREBOARD:
                self._start(ins.sets, {**_parts(ins, self.accesses.loads), "queue": ahead})
            if ins.frees not in (NO_SCOREBOARD, ins.sets):
                self._start(ins.frees, {"release": 1.0, "queue": ahead})
            clocks = max(1, ins.stall)
            issue += clocks
            self.now += clocks
        self.waits["issue"] = self.waits.get("issue", 0.0) + issue

    def _queued(self, ins: MachineInstruction) -> float:
        """Clocks until the unit has taken what it was given before; then it takes this access."""
        passes = self.accesses.passes.get(ins.line, 1.0)
        ahead = max(0.0, self.unit - self.now) + self.others * passes
        self.unit = self.now + ahead + passes
        return ahead

    def _meet(self, ins: MachineInstruction) -> None:
        if ins.opcode == "BAR":
            self.others = self.in_step
            self.waits["barrier"] = self.waits.get("barrier", 0.0) + 1
        elif ins.opcode == "LDGDEPBAR":
            self.copies = [*self.copies[-7:], self.now + CLOCKS["copy"]]
        elif len(self.copies) > (left := self.accesses.pending.get(ins.line, 0)):
            self._wait(self.copies[len(self.copies) - left - 1], {"copy": 1.0})
            self.copies = self.copies[len(self.copies) - left :]

    def _start(self, board: int, parts: Waits) -> None:
        until = self.now + sum(CLOCKS[kind] * count for kind, count in parts.items())
        if board not in self.ready or self.ready[board][0] < until:
            self.ready[board] = (until, parts)

    def _wait(self, until: float, parts: Waits) -> None:
        """Wait for what has these parts; the clocks that are left of it are shared among them."""
        if until <= self.now:
            return
        whole = sum(CLOCKS[kind] * count for kind, count in parts.items())
        for kind, count in parts.items():
            if not count:
                continue
            self.waits[kind] = self.waits.get(kind, 0.0) + (until - self.now) * count / whole
        self.now = until


def _parts(ins: MachineInstruction, sites: Mapping[int, Waits]) -> Waits:
    kind = RESULT_OF.get(ins.opcode)
    if kind is None:
        kind = "l1" if ins.opcode in ("LD", "LDG", "LDGSTS") else "vote"
    if kind in ("l1", "shared") and (found := sites.get(ins.line)):
        return {kind: 1.0, **found}
    return {kind: 1.0}
