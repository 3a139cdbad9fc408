"""Emission of a whole kernel: block bodies, branches, pending lanes, barriers, and the proof of uniform registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evo.sim.abi import CTX, REC_SIZE, WARP, WARP_PEND
from evo.sim.counters_static import BlockCounts, spent_by
from evo.sim.errors import PtxError
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.lower import barrier, divergence, sync_checks
from evo.sim.lower.branching import DONE, EXIT_RESUME, STOPPED, Branching, PendingBlocks
from evo.sim.lower.cfg import EXIT, Block, is_warp_sync, liveness, renumber, split_blocks
from evo.sim.lower.deciding import Deciding
from evo.sim.lower.declared_arrays import DeclaredArray, arrays_of_sites
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import CARRY, TABLE, check, defs, uses
from evo.sim.lower.kernel_traits import (
    beyond_block,
    blocks_can_part,
    float_registers,
    flush_mode,
    global_granule,
    mentions,
    only_ever,
    points_at_params,
    race_granule,
    registers_read,
    strikes_shared,
)
from evo.sim.lower.looks import Look, looks
from evo.sim.lower.probes import Probe, Probes
from evo.sim.lower.spin_loops import SpinLoops, changes_memory, demand_timer_steers, spin_loops, takes_turn
from evo.sim.lower.uniformity import uniform_registers
from evo.sim.lower.unwritten_registers import OWN, demand_written, fill, unwritten_reads
from evo.sim.ptx.ast import WIDTH, Imm, Instr, PtxFunction
from evo.sim.runtime.fault_report import report
from evo.sim.runtime.schedule import out_of_budget

BLOCK_COUNTER = 16  # executions, lanes


def comparisons_at(start: int, counts: int) -> int:
    """Where the logs of comparisons begin, behind so many counts of probes."""
    return (start + 8 * counts + 63) // 64 * 64


@dataclass(slots=True)
class Kernel:
    """What emission leaves behind for the launch and the counters."""

    name: str
    blocks: list[Block]
    sites: list[Instr]
    warp_stride: int
    uniform_sites: dict[int, int]
    granule: int  # bytes: the narrowest access that may be to shared memory
    global_granule: int  # and to global memory; 0 if no race between blocks is possible
    parallel: bool  # the order of blocks changes no result
    polls: set[int]  # sites of loops that wait for others
    looks: dict[int, Look]  # site -> what such a load is for
    waits: bool  # a block may wait for another one, so that several must be under way
    points_at_params: bool  # generic addresses may lie among the parameters
    prints: bool  # printf or a failed assertion may have something to say
    copies: bool  # by cp.async
    fences: bool  # or releases: flags may order what it does
    mbarriers: bool
    strikes: bool  # atomics may be on shared memory
    arrays: dict[int, DeclaredArray]  # site -> the shared or local array that it accesses, if that is known
    probes: tuple[Probe, ...] = ()  # its conditions, if coverage was asked for
    probe_counts: int = 0
    comparison_logs: int = 0
    tally: BlockCounts | None = None  # what its instructions count for, once that was asked
    marked: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # shared bytes -> how records of sites begin


def _arranged(function: PtxFunction) -> tuple[list[Block], SpinLoops, set[str]]:
    """Blocks in execution order, the loops that wait, and the uniform registers.

    Where lanes of a warp may wait for one another, every point at which they meet begins or ends a block.
    """
    read = registers_read([Block(0, [ins for ins in function.body if isinstance(ins, Instr)])])
    for apart in (False, True):
        blocks = renumber(split_blocks(function, apart=apart, ends=partial(takes_turn, read=read)))
        for block in blocks:
            for ins in block.instructions():
                check(ins)
        spins = spin_loops(blocks)
        uniform = uniform_registers(function, blocks, spins.held)
        meets = any(b.partial and any(map(is_warp_sync, b.code)) for b in blocks) or any(
            is_warp_sync(i) and i.guard is not None for b in blocks for i in b.code
        )
        if not meets and not any(blocks[head].partial for head in spins.heads):
            break
    return blocks, spins, uniform


def _layout(
    blocks: list[Block], registers: dict[str, str], uniform: set[str], start: int
) -> tuple[dict[str, int], int]:
    """Where registers that live across blocks are in the warp structure, and its size."""
    at = start
    slots: dict[str, int] = {}
    for name in sorted(set().union(*(b.live_in | b.live_out for b in blocks))):
        if name not in registers:
            raise PtxError(f"register {name} is not declared")
        kind = registers[name]
        size = 8 if name in uniform or kind == "pred" else 4 * WIDTH[kind]
        align = 8 if size <= 8 else 64
        at = (at + align - 1) // align * align
        slots[name] = at
        at += size
    return slots, (at + 255) // 128 * 128


class Flow(Branching):
    """Emits one kernel function `kernel(ctx, warp) -> i32`."""

    def __init__(
        self,
        function: PtxFunction,
        symbols: dict[str, tuple[str, int]],
        arrays: Mapping[str, DeclaredArray],
        *,
        coverage: bool = False,
        counts_only: bool = False,
    ) -> None:
        self.function, self.arrays = function, arrays
        blocks, spins, uniform = _arranged(function)
        demand_timer_steers(blocks)
        if any("cc" in ins.mods for block in blocks for ins in block.code):
            function.registers[CARRY] = "pred"
        liveness(blocks, defs, uses)
        self.unwritten = {} if counts_only else unwritten_reads(blocks)  # no faults there
        self.deciding = Deciding(blocks) if counts_only else None
        at_once = bool(spins.turns) or any(is_warp_sync(block.end) for block in blocks)
        waiting = PendingBlocks.of(blocks, at_once=at_once)
        slots, self.stride = _layout(blocks, function.registers, uniform, waiting.end)
        self.polls: set[int] = set()
        self.looks, self.look_sites = looks(blocks, debug=function.debug), dict[int, Look]()
        self.zeros = only_ever(blocks, Imm(0).__eq__) if spins.turns else set()
        code = Code("i32", "kernel", (("ptr noalias", "ctx"), ("ptr", "warp")))
        e = Emitter(
            code, function.registers, uniform, slots, symbols, param_bytes=function.param_offsets()[1],
            flush_by_hardware=flush_mode(blocks), read=registers_read(blocks), floats=float_registers(blocks),
        )  # fmt: skip
        names = {param.name: number for number, param in enumerate(function.params)}
        self.probes = Probes(e, function, blocks, names) if coverage else None
        watched = any(space == "shared" for space, _ in symbols.values()) or global_granule(blocks) > 0
        super().__init__(e, blocks, spins, waiting, shared=watched)

    def emit(self) -> Kernel:
        c, e = self.code, self.e
        c.raw(f"%records = load ptr, ptr {c.at(e.ctx, CTX['counters']).s}, align 8")
        slot = len(c.lines)
        e.live.set(c.load("i32", e.warp, WARP["live"], 8))
        e.mask.set(e.live.get())
        self.pending.set(0)
        resume = c.load("i32", e.warp, WARP["resume"], 8)
        resumes = len(c.lines)
        self.idle = self.deciding.idle() if self.deciding is not None else set()
        for block in self.blocks:
            self._block(block)
        if self.dense:
            self._dispatch()
        c.label("stopped")
        c.ret_(const("i32", STOPPED))
        c.label("finished")
        c.ret_(const("i32", DONE))
        cases = " ".join(f"i32 {n}, label %b{n}" for n in sorted(set(self.resume_points)) if n >= 0)
        exits = f" i32 {EXIT_RESUME}, label %finished" if EXIT in self.resume_points else ""
        c.lines.insert(resumes, f"switch i32 {resume.s}, label %{self._begin()} [ {cases}{exits} ]")
        at = len(e.sites) * REC_SIZE
        offsets = {"block_counters": at, "probe_counters": (at := at + len(self.blocks) * BLOCK_COUNTER)}
        if self.probes:
            offsets["comparisons"] = comparisons_at(at, self.probes.counts)
        c.lines[slot:slot] = [f"%{name} = getelementptr i8, ptr %records, i64 {at}" for name, at in offsets.items()]
        prints = mentions(self.blocks, "@")
        return Kernel(
            name=self.function.name,
            blocks=self.blocks,
            sites=e.sites,
            warp_stride=self.stride,
            uniform_sites=e.uniform_sites,
            granule=race_granule(self.blocks),
            global_granule=global_granule(self.blocks),
            parallel=blocks_can_part(self.blocks) and not prints,
            polls=self.polls,
            looks=self.look_sites,
            waits=any(map(beyond_block, self.spins.heads.values())),
            points_at_params=points_at_params(self.blocks),
            prints=prints,
            copies=mentions(self.blocks, "cp.async"),
            fences=any(mentions(self.blocks, word) for word in ("membar", "fence", "release", "acq_rel")),
            mbarriers=mentions(self.blocks, "mbarrier"),
            strikes=strikes_shared(self.blocks),
            arrays=arrays_of_sites(self.blocks, e.sites, self.arrays),
            probes=tuple(self.probes.found) if self.probes else (),
            probe_counts=self.probes.counts if self.probes else 0,
            comparison_logs=self.probes.logs if self.probes else 0,
        )

    def _begin(self) -> str:
        """The label at which a warp begins."""
        names = sorted(self.blocks[0].live_in - OWN)
        if not names or 0 in self.resume_points:
            return "b0"
        c, e = self.code, self.e
        c.label("begin")
        with c.if_(c.icmp("ne", c.load("i64", e.ctx, CTX["race"], 8), 0)):
            fill(c, e.warp, e.slots, {name: e.type_of(name) for name in names})
        c.br("b0")
        return "begin"

    def _block(self, block: Block) -> None:
        c, e = self.code, self.e
        c.label(f"b{block.number}")
        if block.number in self.spins.turns:
            divergence.yield_at_times(self, block)
        e.start(block)
        if self.probes:
            self.probes.start()
        counters = V("ptr", "%block_counters")
        at = block.number * BLOCK_COUNTER
        c.bump(counters, at)
        lanes = c.zext(c.intrinsic("ctpop", e.bits()), "i64")
        c.bump(counters, at + 8, lanes)
        by_warp, by_lane = spent_by(block)
        budget = c.sub(c.load("i64", e.ctx, CTX["budget"], 8), by_warp)
        if by_lane:
            budget = c.sub(budget, c.mul(lanes, by_lane))
        c.store(budget, e.ctx, CTX["budget"], 8)
        with c.if_ends(c.icmp("slt", budget, 0), likely=False):
            first = (block.code or [block.end or Instr("ret", (), ())])[0]
            c.call(out_of_budget(), e.ctx, e.warp, e.site(first), e.bits())
            c.br("stopped")
        for ins in block.code:
            if id(ins) not in self.idle:
                self._instruction(ins)
        self._end(block)

    def _instruction(self, ins: Instr) -> None:
        e = self.e
        e.ins = ins
        e.guard = self.guard_of(ins)
        first = len(e.sites)
        if id(ins) in self.unwritten:
            demand_written(e, ins)
        sync_checks.before(e, ins)
        if self.probes:
            self.probes.before(ins)
        TABLE[ins.name].emit(e, ins)
        if self.probes:
            self.probes.after(ins)
        sync_checks.after(e, ins, shared=self.shared, read=e.read_somewhere)
        waits = e.block.number in self.spins.small
        if waits or ins.name.startswith("mbarrier"):
            self.polls |= set(range(first, len(e.sites)))
        if id(ins) in self.looks:
            self.look_sites |= dict.fromkeys(range(first, len(e.sites)), self.looks[id(ins)])
        if self.spins.turns and changes_memory(ins, self.zeros, waits=waits):
            e.c.bump(e.ctx, CTX["changes"])
        e.guard = None

    def _end(self, block: Block) -> None:
        e, end = self.e, block.end
        e.ins = end
        if id(end) in self.unwritten and end is not None:
            demand_written(e, end)
        if end is None:
            e.flush()
            self.goto(block, block.next)
            return
        if self.probes:
            self.probes.end(end)
        if is_warp_sync(end):
            divergence.emit_warp_sync(self, block, end)
            return
        if end.name in ("bar", "barrier"):
            barrier.emit_barrier(self, block, end)
            return
        guard = self.guard_of(end)
        if end.name == "brx":
            self._table_branch(block, end)
            return
        e.flush()
        if end.name == "trap":
            self._trap(block, end, guard)
        elif guard is None:
            target = block.targets[0] if end.name == "bra" else EXIT
            self.goto(block, target)
        else:
            self._branch(block, guard, block.targets[0] if end.name == "bra" else EXIT, block.next)

    def _branch(self, block: Block, guard: V, taken: int, other: int) -> None:
        c, e = self.code, self.e
        if guard.t == "i1":
            with c.if_ends(guard):
                self.goto(block, taken)
            self.goto(block, other)
            return
        mask = e.bits()
        inside = c.and_(mask, c.mask_bits(guard))
        outside = c.and_(mask, c.not_(inside))
        with c.if_ends(c.icmp("eq", outside, 0)):
            self.goto(block, taken)
        with c.if_ends(c.icmp("eq", inside, 0)):
            self.goto(block, other)
        if taken == other:
            self.goto(block, taken)
        elif EXIT in (taken, other):
            leaving, staying = (inside, outside) if taken == EXIT else (outside, inside)
            e.live.set(c.and_(e.live.get(), c.not_(leaving)))
            e.mask.set(staying)
            self.goto(block, other if taken == EXIT else taken)
        else:
            self.pend(taken, inside)
            self.pend(other, outside)
            c.br("dispatch")

    def _dispatch(self) -> None:
        """Run the pending block of lowest number."""
        c, e = self.code, self.e
        c.label("dispatch")
        self.choose_first()
        c.br("choose")
        c.label("choose")
        now = self.pending.get()
        kind = self.chosen.get().t
        cases = " ".join(f"{kind} {i}, label %p{n}" for n, i in self.dense.items())
        torn = "torn" if divergence.holds(self) else ""
        c.raw(f"switch {kind} {self.chosen.get().s}, label %{torn or 'stopped'} [ {cases} ]")
        for number, position in self.dense.items():
            c.label(f"p{number}")
            if torn and not self.blocks[number].partial:
                whole = c.new_label("whole")
                c.cbr(c.icmp("uge", now, 1 << len(self.dense)), torn, whole, likely=False)
                c.label(whole)
            divergence.wait_for_all(self, number, now)
            at = WARP_PEND + 4 * position
            e.mask.set(c.load("i32", e.warp, at, 4))
            c.store(const("i32", 0), e.warp, at, 4)
            if not self.in_memory:
                self.pending.set(c.and_(now, const(self.bits, ~(1 << position))))
            c.br(f"b{number}")
        if torn:
            divergence.emit_held(self)

    def _trap(self, block: Block, end: Instr, guard: V | None) -> None:
        c, e = self.code, self.e
        e.guard = guard
        active = e.active()
        e.guard = None
        with c.if_ends(c.icmp("ne", active, 0), likely=False):
            lead = c.intrinsic("cttz", active, True)
            fault = SimFault.STACK_OVERFLOW if "@stack" in end.mods else SimFault.TRAP
            report(c, fault, e.site(end), e.warp, lead, const("i64", 0))
            c.br("stopped")
        self.goto(block, block.next)

    def _demand_index(self, end: Instr, index: V, count: int) -> None:
        """A jump beyond its table would go anywhere."""
        c, e = self.code, self.e
        beyond = c.mask_bits(c.icmp("uge", e.vector(index), count))
        wild = c.and_(beyond, e.active())
        with c.if_ends(c.icmp("ne", wild, 0), likely=False):
            report(c, SimFault.TRAP, e.site(end), e.warp, c.intrinsic("cttz", wild, True), const("i64", 0), extra=count)
            c.br("stopped")

    def _table_branch(self, block: Block, end: Instr) -> None:
        c, e = self.code, self.e
        index = e.src(end.args[0], "u32")
        e.flush()
        self._demand_index(end, index, len(block.targets))
        first = self.probes.switch(end, len(block.targets)) if self.probes else 0
        if index.t == "i32":
            labels = [c.new_label("case") for _ in block.targets]
            cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            c.raw(f"switch i32 {index.s}, label %stopped [ {cases} ]")
            for position, (label, target) in enumerate(zip(labels, block.targets, strict=True)):
                c.label(label)
                if self.probes:
                    self.probes.case(first + position, e.bits())
                self.goto(block, target)
            return
        for position, target in enumerate(block.targets):
            lanes = c.and_(e.bits(), c.mask_bits(c.icmp("eq", index, position)))
            if self.probes:
                self.probes.case(first + position, lanes)
            if target == EXIT:
                e.live.set(c.and_(e.live.get(), c.not_(lanes)))
                continue
            with c.if_(c.icmp("ne", lanes, 0)):
                self.pend(target, lanes)
        c.cbr(c.icmp("eq", self.pending.get(), 0), "finished", "dispatch")
