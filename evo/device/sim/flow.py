"""Emission of a whole kernel: block bodies, branches, pending lanes, barriers, and the proof of uniform registers."""

from __future__ import annotations

from dataclasses import dataclass

from evo.device.sim import sync
from evo.device.sim.cfg import (
    EXIT,
    Block,
    divergent_region,
    liveness,
    post_dominators,
    reads_of,
    renumber,
    split_blocks,
)
from evo.device.sim.emit import Emitter, element, special_uniform, storage
from evo.device.sim.errors import PtxError, UnsupportedInstruction
from evo.device.sim.ir import Code, V, const
from evo.device.sim.isa.table import CARRY, TABLE, check, defs, results, uses
from evo.device.sim.layout import CTX, REC_SIZE, WARP, WARP_PEND
from evo.device.sim.program import WIDTH, Function, Instr, Mem, Not, Operand, Pair, Reg, Special, Vec
from evo.device.sim.traits import (
    blocks_can_part,
    flush_mode,
    global_granule,
    race_granule,
    registers_read,
    spin_loops,
)

DONE, BARRIER, STOPPED, YIELDED = 0, 1, 2, 3
SPINS = 64  # turns of a waiting loop before another warp runs
BLOCK_COUNTER = 16  # executions, lanes
_EXIT_RESUME = 0x7FFF_FFFF


@dataclass(slots=True)
class Kernel:
    """What emission leaves behind for the launch and the counters."""

    name: str
    blocks: list[Block]
    sites: list[Instr]
    warp_stride: int
    code: Code
    uniform_sites: dict[int, int]
    granule: int  # bytes: the narrowest access that may be to shared memory
    global_granule: int  # and to global memory; 0 if no race between blocks is possible
    parallel: bool  # the order of blocks changes no result
    polls: set[int]  # sites of loops that wait for others


def uniform_registers(function: Function, blocks: list[Block]) -> set[str]:
    """Registers equal in all lanes; marks `partial` blocks on the way. Grows the varying set to a fixed point."""
    ipdom = post_dominators(blocks)
    varying: set[str] = set()
    partial: set[int] = set()
    split: set[int] = set()
    changed = True
    while changed:
        changed = False
        for block in blocks:
            for ins in block.code if block.end is None else (*block.code, block.end):
                if _varies(ins, varying, block.number in partial):
                    fresh = set(defs(ins)) - varying
                    varying |= fresh
                    changed |= bool(fresh)
            if block.number not in split and _diverges(block, varying):
                split.add(block.number)
                if len(block.successors()) > 1:
                    partial |= divergent_region(blocks, block.number, ipdom)
                changed = True
    for number in partial:
        blocks[number].partial = True
    return set(function.registers) - varying


def _diverges(block: Block, varying: set[str]) -> bool:
    end = block.end
    if end is None:
        return False
    if end.guard is not None and end.guard.name in varying:
        return True
    return end.name == "brx" and any(name in varying for name in reads_of(end.args[0]))


def _varies(ins: Instr, varying: set[str], partial: bool) -> bool:
    spec = TABLE.get(ins.name)
    if spec is None:
        return False
    if partial:
        return True
    if spec.uniform == "always" and ins.guard is None:
        return False
    if spec.uniform == "never":
        return True
    if ins.name == "ld" and not {"global", "shared", "const", "param"} & {m.split("::")[0] for m in ins.mods}:
        return True
    if any(name in varying for name in uses(ins)):
        return True
    return any(_special_varies(arg) for arg in ins.args[results(ins) :])


def _special_varies(arg: Operand) -> bool:
    if isinstance(arg, Vec):
        return any(_special_varies(item) for item in arg.items)
    return isinstance(arg, Special) and not special_uniform(arg.name)


class Flow:
    """Emits one kernel function `kernel(ctx, warp) -> i32`."""

    def __init__(self, function: Function, symbols: dict[str, tuple[str, int]]) -> None:
        self.function = function
        self.blocks = renumber(split_blocks(function))
        if any("cc" in ins.mods for block in self.blocks for ins in block.code):
            function.registers[CARRY] = "pred"
        for block in self.blocks:
            for ins in block.code if block.end is None else (*block.code, block.end):
                check(ins)
        uniform = uniform_registers(function, self.blocks)
        liveness(self.blocks, defs, uses)
        self.dense = self._pending_targets()
        self.bits = f"i{max(64, (len(self.dense) + 63) // 64 * 64)}"
        self.parked = WARP_PEND + (4 * len(self.dense) + 63) // 64 * 64  # pending blocks of a warp that yields
        slots, self.stride = self._layout(uniform)
        self.spins, self.waits = spin_loops(self.blocks)
        self.polls: set[int] = set()
        self.read = registers_read(self.blocks)
        self.shared = any(space == "shared" for space, _ in symbols.values())
        self.code = Code("i32", "kernel", [("ptr noalias", "ctx"), ("ptr", "warp")], "")
        self.e = Emitter(
            self.code, function.registers, uniform, slots, symbols, flush_by_hardware=flush_mode(self.blocks)
        )
        self.pending = self.code.var(self.bits)

    def _pending_targets(self) -> dict[int, int]:
        """Blocks that lanes may have to wait for, with a dense number in execution order."""
        wanted: set[int] = set()
        for block in self.blocks:
            if block.partial or any(self.blocks[s].partial for s in block.successors()):
                wanted |= set(block.successors())
        return {number: index for index, number in enumerate(sorted(wanted))}

    def _layout(self, uniform: set[str]) -> tuple[dict[str, int], int]:
        at = self.parked + (int(self.bits[1:]) // 8 + 63) // 64 * 64
        crossing = set().union(*(b.live_in | b.live_out for b in self.blocks)) if self.blocks else set()
        slots: dict[str, int] = {}
        for name in sorted(crossing):
            if name not in self.function.registers:
                raise PtxError(f"register {name} is not declared")
            kind = self.function.registers[name]
            size = 8 if name in uniform or kind == "pred" else 4 * WIDTH[kind]
            align = 8 if size <= 8 else 64
            at = (at + align - 1) // align * align
            slots[name] = at
            at += size
        return slots, (at + 255) // 128 * 128

    # The function -------------------------------------------------------------------------------------------

    def emit(self) -> Kernel:
        c, e = self.code, self.e
        c.raw(f"%records = load ptr, ptr {c.at(e.ctx, CTX['counters']).s}, align 8")
        self.counter_at = "%block_counters"
        slot = len(c.lines)
        e.live.set(c.load("i32", e.warp, WARP["live"], 8))
        e.mask.set(e.live.get())
        self.pending.set(0)
        resume = c.load("i32", e.warp, WARP["resume"], 8)
        resumes = len(c.lines)
        self.resume_points: list[int] = []
        for block in self.blocks:
            self._block(block)
        if self.dense:
            self._dispatch()
        c.label("stopped")
        c.ret_(const("i32", STOPPED))
        c.label("finished")
        c.ret_(const("i32", DONE))
        cases = " ".join(f"i32 {n}, label %b{n}" for n in sorted(set(self.resume_points)) if n >= 0)
        exits = f" i32 {_EXIT_RESUME}, label %finished" if EXIT in self.resume_points else ""
        c.lines.insert(resumes, f"switch i32 {resume.s}, label %b0 [ {cases}{exits} ]")
        c.lines.insert(slot, f"{self.counter_at} = getelementptr i8, ptr %records, i64 {len(e.sites) * REC_SIZE}")
        return Kernel(
            self.function.name, self.blocks, e.sites, self.stride, c, e.uniform_sites,
            race_granule(self.blocks), global_granule(self.blocks),
            blocks_can_part(self.blocks) and not c.needs & {"print_record", "assert_record"},
            self.polls,
        )  # fmt: skip

    def _block(self, block: Block) -> None:
        c, e = self.code, self.e
        c.label(f"b{block.number}")
        if block.number in self.spins:
            self._yield_at_times()
        e.start(block)
        counters = V("ptr", self.counter_at)
        at = block.number * BLOCK_COUNTER
        c.bump(counters, at)
        c.bump(counters, at + 8, c.zext(c.intrinsic("ctpop", e.bits()), "i64"))
        budget = c.sub(c.load("i64", e.ctx, CTX["budget"], 8), len(block.code) + 1)
        c.store(budget, e.ctx, CTX["budget"], 8)
        over, on = c.new_label("over"), c.new_label("go")
        c.cbr(c.icmp("slt", budget, 0), over, on, likely=False)
        c.label(over)
        first = (block.code or [block.end or Instr("ret", (), ())])[0]
        c.call("void", "out_of_budget", e.ctx, e.warp, e.site(first), e.bits())
        c.br("stopped")
        c.label(on)
        for ins in block.code:
            self._instruction(ins)
        self._end(block)

    def _yield_at_times(self) -> None:
        """At the head of a loop that waits for others: now and then let the other warps of the block run."""
        c, e = self.code, self.e
        self.resume_points.append(0)
        point = self.resume_points[-1] = len(self.blocks) + len(self.resume_points)
        turn = c.add(c.load("i64", e.ctx, CTX["spin"], 8), 1)
        c.store(turn, e.ctx, CTX["spin"], 8)
        away, on = c.new_label("away"), c.new_label("on")
        c.cbr(c.icmp("eq", c.and_(turn, SPINS - 1), 0), away, on, likely=False)
        c.label(away)
        c.store(c.zext(e.mask.get(), "i64"), e.warp, WARP["pending"], 8)
        c.store(c.zext(e.live.get(), "i64"), e.warp, WARP["live"], 8)
        c.store(self.pending.get(), e.warp, self.parked, 8)
        c.store(const("i64", point), e.warp, WARP["resume"], 8)
        c.ret_(const("i32", YIELDED))
        c.label(f"b{point}")
        e.mask.set(c.load("i32", e.warp, WARP["pending"], 8))
        self.pending.set(c.load(self.bits, e.warp, self.parked, 8))
        c.br(on)
        c.label(on)

    def _instruction(self, ins: Instr) -> None:
        e = self.e
        e.ins = ins
        e.guard = self._guard(ins)
        first = len(e.sites)
        try:
            sync.before(e, ins)
            TABLE[ins.name].emit(e, ins)
            sync.after(e, ins, shared=self.shared, read=self.read)
        except (KeyError, IndexError, AssertionError) as error:
            raise UnsupportedInstruction(
                ins.spelling, line=ins.line, text=ins.text, why=f"operands ({error})"
            ) from error
        if e.block is not None and e.block.number in self.waits:
            self.polls |= set(range(first, len(e.sites)))
        e.guard = None

    def _guard(self, ins: Instr) -> V | None:
        if ins.guard is None:
            return None
        return self.e.src(Not(ins.guard) if ins.negated else ins.guard, "pred")

    # Ends of blocks -----------------------------------------------------------------------------------------

    def _end(self, block: Block) -> None:
        e, end = self.e, block.end
        e.ins = end
        if end is None:
            e.flush()
            self._goto(block, block.next)
            return
        if end.name in ("bar", "barrier"):
            from evo.device.sim.barrier import emit_barrier

            emit_barrier(self, block, end)
            return
        guard = self._guard(end)
        if end.name == "brx":
            self._table_branch(block, end)
            return
        e.flush()
        if end.name == "trap":
            self._trap(block, end, guard)
        elif guard is None:
            target = block.targets[0] if end.name == "bra" else EXIT
            self._goto(block, target)
        else:
            self._branch(block, guard, block.targets[0] if end.name == "bra" else EXIT, block.next)

    def _branch(self, block: Block, guard: V, taken: int, other: int) -> None:
        c, e = self.code, self.e
        if guard.t == "i1":
            yes, no = c.new_label("yes"), c.new_label("no")
            c.cbr(guard, yes, no)
            c.label(yes)
            self._goto(block, taken)
            c.label(no)
            self._goto(block, other)
            return
        mask = e.bits()
        inside = c.and_(mask, c.mask_bits(guard))
        outside = c.and_(mask, c.not_(inside))
        all_yes, some, all_no, both = (c.new_label(h) for h in ("yes", "some", "no", "both"))
        c.cbr(c.icmp("eq", outside, 0), all_yes, some)
        c.label(all_yes)
        self._goto(block, taken)
        c.label(some)
        c.cbr(c.icmp("eq", inside, 0), all_no, both)
        c.label(all_no)
        self._goto(block, other)
        c.label(both)
        if taken == other:
            self._goto(block, taken)
        elif EXIT in (taken, other):
            leaving, staying = (inside, outside) if taken == EXIT else (outside, inside)
            e.live.set(c.and_(e.live.get(), c.not_(leaving)))
            e.mask.set(staying)
            self._goto(block, other if taken == EXIT else taken)
        else:
            self._pend(taken, inside)
            self._pend(other, outside)
            c.br("dispatch")

    def _pend(self, target: int, mask: V) -> None:
        c = self.code
        index = self.dense[target]
        at = WARP_PEND + 4 * index
        c.store(c.or_(c.load("i32", self.e.warp, at, 4), mask), self.e.warp, at, 4)
        self.pending.set(c.or_(self.pending.get(), const(self.bits, 1 << index)))

    def _goto(self, block: Block, target: int) -> None:
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
            self._pend(target, e.mask.get())
            c.br("dispatch")

    def _leave(self, block: Block) -> None:
        c, e = self.code, self.e
        if not block.partial or not self.dense:
            c.br("finished")
            return
        e.live.set(c.and_(e.live.get(), c.not_(e.mask.get())))
        c.cbr(c.icmp("eq", self.pending.get(), 0), "finished", "dispatch")

    def _dispatch(self) -> None:
        """Run the pending block of lowest number."""
        c, e = self.code, self.e
        c.label("dispatch")
        now = self.pending.get()
        index = c.op(self.bits, f"call {self.bits} @llvm.cttz.{self.bits}({self.bits} {now.s}, i1 true)")
        c.needs.add(f"llvm.cttz.{self.bits}")
        cases = " ".join(f"{self.bits} {i}, label %p{n}" for n, i in self.dense.items())
        c.raw(f"switch {self.bits} {index.s}, label %stopped [ {cases} ]")
        for number, position in self.dense.items():
            c.label(f"p{number}")
            at = WARP_PEND + 4 * position
            e.mask.set(c.load("i32", e.warp, at, 4))
            c.store(const("i32", 0), e.warp, at, 4)
            keep = const(self.bits, ~(1 << position))
            self.pending.set(c.and_(now, keep))
            c.br(f"b{number}")

    def _trap(self, block: Block, end: Instr, guard: V | None) -> None:
        c, e = self.code, self.e
        e.guard = guard
        active = e.active()
        e.guard = None
        hit, on = c.new_label("trap"), c.new_label("go")
        c.cbr(c.icmp("ne", active, 0), hit, on, likely=False)
        c.label(hit)
        lead = c.intrinsic("cttz", active, True)
        from evo.device.sim.run.base import report

        report(c, "trap", e.site(end), e.warp, lead, const("i64", 0))
        c.br("stopped")
        c.label(on)
        self._goto(block, block.next)

    def _table_branch(self, block: Block, end: Instr) -> None:
        c, e = self.code, self.e
        index = e.src(end.args[0], "u32")
        e.flush()
        if index.t == "i32":
            labels = [c.new_label("case") for _ in block.targets]
            cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            c.raw(f"switch i32 {index.s}, label %stopped [ {cases} ]")
            for label, target in zip(labels, block.targets, strict=True):
                c.label(label)
                self._goto(block, target)
            return
        for position, target in enumerate(block.targets):
            lanes = c.and_(e.bits(), c.mask_bits(c.icmp("eq", index, position)))
            if target == EXIT:
                e.live.set(c.and_(e.live.get(), c.not_(lanes)))
                continue
            go, on = c.new_label("case"), c.new_label("next")
            c.cbr(c.icmp("ne", lanes, 0), go, on)
            c.label(go)
            self._pend(target, lanes)
            c.br(on)
            c.label(on)
        c.cbr(c.icmp("eq", self.pending.get(), 0), "finished", "dispatch")


__all__ = ["Flow", "Kernel", "Mem", "Operand", "Pair", "Reg", "element", "storage"]
