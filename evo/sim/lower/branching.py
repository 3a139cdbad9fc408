"""Branches of a warp: its lanes go from block to block together, or wait for their turn (pending) while others run."""

from __future__ import annotations

from dataclasses import dataclass

from evo.sim.abi import WARP_PEND
from evo.sim.llvm_values import V, const
from evo.sim.lower.cfg import BARRIERS, EXIT, Block, is_warp_sync
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.kernel_traits import only_ever
from evo.sim.lower.spin_loops import SpinLoops
from evo.sim.ptx.ast import Imm, Instr, Not, Operand, Reg

DONE, BARRIER, STOPPED, YIELDED = 0, 1, 2, 3  # what a kernel function returns to the block scheduler
_MOST_AT_ONCE = 256  # bits of a set of blocks
EXIT_RESUME = 0x7FFF_FFFF  # in a warp's `resume`: it leaves the kernel


@dataclass(frozen=True, slots=True)
class PendingBlocks:
    """The blocks that lanes may have to wait for, and where the warp structure keeps which lanes do."""

    dense: dict[int, int]  # block number -> its place in execution order among these
    bits: str  # the IR type of a set of them, or of its summary; the bit beyond the last says that lanes are held
    in_memory: bool  # the set itself is in memory, where `parked` is; a register holds a bit for each word that has any
    parked: int  # where the set of a warp that yields is kept
    held: int  # where held lanes go
    end: int  # where the registers of the warp begin

    @classmethod
    def of(cls, blocks: list[Block], *, at_once: bool) -> PendingBlocks:
        """at_once: the set must be in one value. Of hundreds of blocks, its bits would be copied at every branch."""
        wanted: set[int] = set()
        for block in blocks:
            if block.partial or any(blocks[s].partial for s in block.successors()):
                wanted |= set(block.successors())
        count = len(wanted)
        bits = (count + 64) // 64 * 64
        parked = WARP_PEND + (4 * count + 63) // 64 * 64
        held = parked + (bits // 8 + 63) // 64 * 64
        dense = {number: index for index, number in enumerate(sorted(wanted))}
        in_memory = bits > _MOST_AT_ONCE and not at_once
        held_bits = (bits // 64 + 63) // 64 * 64 if in_memory else bits
        return cls(dense, f"i{held_bits}", in_memory, parked, held, held + (4 * count + 63) // 64 * 64)


class Branching:
    """The branches of one kernel while it is emitted."""

    def __init__(
        self, e: Emitter, blocks: list[Block], spins: SpinLoops, waiting: PendingBlocks, *, shared: bool
    ) -> None:
        self.e, self.code = e, e.c
        self.blocks, self.spins = blocks, spins
        self.dense, self.bits, self.parked, self.held = waiting.dense, waiting.bits, waiting.parked, waiting.held
        self.in_memory = waiting.in_memory
        self.shared = shared  # the kernel has shared memory
        self.for_all = blocks_for_all(blocks)
        self.resume_points: list[int] = []
        self.pending = self.code.var(self.bits)
        self.chosen = self.code.var("i64" if self.in_memory else self.bits)  # the pending block to run next

    def guard_of(self, ins: Instr) -> V | None:
        if ins.guard is None:
            return None
        return self.e.src(Not(ins.guard) if ins.negated else ins.guard, "pred")

    def goto(self, block: Block, target: int) -> None:
        """All lanes of the current mask go to one place."""
        c, e = self.code, self.e
        if target in (EXIT, -1):
            self._leave(block)
        elif not block.partial or not self.dense:
            c.br(f"b{target}")
        else:
            alone, wait = c.new_label("alone"), c.new_label("wait")
            c.cbr(c.icmp("eq", self.pending.get(), 0), alone, wait)
            c.label(alone)
            c.br(f"b{target}")
            c.label(wait)
            self.pend(target, e.mask.get())
            c.br("dispatch")

    def _leave(self, block: Block) -> None:
        c, e = self.code, self.e
        if not block.partial or not self.dense:
            c.br("finished")
            return
        e.live.set(c.and_(e.live.get(), c.not_(e.mask.get())))
        c.cbr(c.icmp("eq", self.pending.get(), 0), "finished", "dispatch")

    def pend(self, target: int, mask: V) -> None:
        """Lanes wait for their turn in a block."""
        c = self.code
        index = self.dense[target]
        at = WARP_PEND + 4 * index
        c.store(c.or_(c.load("i32", self.e.warp, at, 4), mask), self.e.warp, at, 4)
        if self.in_memory:
            word = self.parked + 8 * (index // 64)
            c.store(c.or_(c.load("i64", self.e.warp, word, 8), 1 << index % 64), self.e.warp, word, 8)
            index //= 64
        self.pending.set(c.or_(self.pending.get(), const(self.bits, 1 << index)))

    def choose_first(self) -> None:
        """Choose the pending block of lowest number; if the set is in memory, take it out there."""
        c = self.code
        summary = self.pending.get()
        first = self.first_of(summary)
        if not self.in_memory:
            self.chosen.set(first)
            return
        number = first if self.bits == "i64" else c.trunc(first, "i64")
        place = c.at(self.e.warp, c.add(c.shl(number, 3), self.parked))
        word = c.load("i64", place, 0, 8)
        self.chosen.set(c.add(c.shl(number, 6), c.intrinsic("cttz", word, True)))
        left = c.and_(word, c.sub(word, 1))
        c.store(left, place, 0, 8)
        others = c.and_(summary, c.sub(summary, const(self.bits, 1)))
        self.pending.set(c.select(c.icmp("eq", left, 0), others, summary))

    def first_of(self, bits: V) -> V:
        """The number of the lowest bit set."""
        return self.code.extern(self.bits, f"llvm.cttz.{self.bits}", bits, V("i1", "true"))


_MASKED = ("shfl", "vote", "match", "redux", "elect")  # their last operand names the lanes
_ALIGNED = ("mma", "wmma.mma", "wmma.load", "wmma.store", "ldmatrix", "stmatrix", "movmatrix")
_ALL = 0xFFFFFFFF


def blocks_for_all(blocks: list[Block]) -> set[int]:
    """Numbers of the blocks with a barrier, a matrix instruction, or a vote or shuffle whose mask names all lanes."""
    names = only_ever(blocks, _is_full)  # hold the mask of all lanes

    def full(arg: Operand) -> bool:
        return _is_full(arg) or (isinstance(arg, Reg) and arg.name in names)

    def for_all(ins: Instr) -> bool:
        if ins.name in BARRIERS:
            return not is_warp_sync(ins) and "arrive" not in ins.mods
        return ins.name in _ALIGNED or (ins.name in _MASKED and full(ins.args[-1]))

    return {block.number for block in blocks if any(map(for_all, block.instructions()))}


def _is_full(arg: Operand) -> bool:
    return isinstance(arg, Imm) and arg.value & _ALL == _ALL
