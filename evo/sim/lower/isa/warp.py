"""Instructions across the lanes of a warp: shuffles, votes, matches, reductions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evo.sim.abi import WARP_SCRATCH
from evo.sim.errors import refuse
from evo.sim.llvm_values import IOTA32, V, const, iconsts, known_integer, vec
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import one_of, opcode, type_of
from evo.sim.ptx.ast import Instr, Operand, Pair
from evo.sim.runtime.fault_report import each_group as lane_groups
from evo.sim.runtime.local_memory import permute_lanes


def permute(e: Emitter, values: V, index: V) -> V:
    """values[index[lane]] for every lane, by way of memory: any pattern costs the same."""
    c = e.c
    c.store(values, e.warp, WARP_SCRATCH, 64)
    c.store(index, e.warp, WARP_SCRATCH + 128, 64)
    c.call(permute_lanes(), e.warp)
    return c.load("<32 x i32>", e.warp, WARP_SCRATCH + 256, 64)


def _source_lanes(mode: str, b: int, control: int) -> tuple[list[int], list[bool]]:
    """Source lane and validity per lane when distance and control are known, as PTX defines them."""
    clamp, segment, b = control & 31, control >> 8 & 31, b & 31
    sources, valid = [], []
    for lane in range(32):
        top = lane & segment | clamp & ~segment & 31
        bottom = lane & segment
        at = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": bottom | b & ~segment & 31}[mode]
        inside = at >= top if mode == "up" else at <= top
        sources.append(at if inside else lane)
        valid.append(inside)
    return sources, valid


def _fixed(e: Emitter, ins: Instr, mode: str, value: V) -> tuple[V, V] | None:
    c = e.c
    b, control = (known_integer(e.src(arg, "u32")) for arg in ins.args[2:4])
    if b is None or control is None:
        return None
    sources, valid = _source_lanes(mode, b, control)
    result = c.shuffle(value, None, sources)
    if e.block.partial or e.guard is not None:
        key = ("running at", e.guard, *sources)
        if key not in e.cache:  # steps of a reduction are alike
            e.cache[key] = c.shuffle(c.mask_vec(e.active()), None, sources)
        result = c.select(e.cache[key], result, value)
    return result, iconsts("<32 x i1>", [int(v) for v in valid])


@opcode("shfl", "sync up down bfly idx b32", "shuffle", uniform="never", operands=(4, 5))
def shuffle(e: Emitter, ins: Instr) -> None:
    """Reading a lane that does not run is undefined in PTX; here it gives the lane's own value (see `sync_checks`)."""
    c = e.c
    if "sync" not in ins.mods or len(ins.args) != 5:
        raise refuse(ins, "only .sync")
    mode = one_of(ins, "up", "down", "bfly", "idx")
    value = e.vector(e.src(ins.args[1], "b32"))
    fixed = _fixed(e, ins, mode, value)
    if fixed is not None:
        _write(e, ins, *fixed)
        return
    b, control = (e.vector(e.src(arg, "u32")) for arg in ins.args[2:4])
    clamp = c.and_(control, 31)
    segment = c.and_(c.lshr(control, 8), 31)
    b = c.and_(b, 31)
    top = c.or_(c.and_(IOTA32, segment), c.and_(clamp, c.not_(segment)))
    bottom = c.and_(IOTA32, segment)
    if mode == "up":
        lane = c.sub(IOTA32, b)
        inside = c.icmp("sge", lane, top)
    elif mode == "down":
        lane = c.add(IOTA32, b)
        inside = c.icmp("sle", lane, top)
    elif mode == "bfly":
        lane = c.xor(IOTA32, b)
        inside = c.icmp("sle", lane, top)
    else:
        lane = c.or_(bottom, c.and_(b, c.not_(segment)))
        inside = c.icmp("sle", lane, top)
    lane = c.select(inside, lane, IOTA32)
    running = c.lshr(c.splat(e.active()), c.and_(lane, 31))
    lane = c.select(c.icmp("ne", c.and_(running, 1), 0), lane, IOTA32)
    _write(e, ins, permute(e, value, c.and_(lane, 31)), inside)


def _write(e: Emitter, ins: Instr, result: V, inside: V) -> None:
    if isinstance(ins.args[0], Pair):
        e.dst(ins.args[0].first, result)
        e.dst(ins.args[0].second, inside)
    else:
        e.dst(ins.args[0], result)


@contextmanager
def each_group(e: Emitter, arg: Operand) -> Iterator[tuple[V, V]]:
    """Once per distinct membership mask of the running lanes: the lanes it names that run, and the lanes that gave it.

    A mask that is the same for the warp makes one group and no loop. Operands must be read before.
    """
    c = e.c
    mask, running = e.src(arg, "u32"), e.active()
    if mask.t == "i32":
        yield c.and_(mask, running), running
        return
    known = dict(e.cache)
    with lane_groups(c, mask, running) as (mine, same):
        yield c.and_(mine, same), same
    e.cache = known


class _Answer:
    """What each group of lanes is told: one value for the warp, or a vector filled group by group."""

    def __init__(self, e: Emitter, arg: Operand, t: str) -> None:
        self.e, self.one = e, e.src(arg, "u32").t == "i32"
        self.value = V(t, "0")
        self.all = e.c.var(vec(t), V(vec(t), "zeroinitializer"))

    def set(self, lanes: V, value: V) -> None:
        c = self.e.c
        if self.one:
            self.value = value
        else:
            self.all.set(c.select(c.mask_vec(lanes), c.splat(value), self.all.get()))

    def get(self) -> V:
        return self.value if self.one else self.all.get()


def _predicate_bits(e: Emitter, arg: Operand) -> V:
    return e.c.mask_bits(e.vector(e.src(arg, "pred")))


@opcode("vote", "sync all any uni ballot pred b32", "shuffle", uniform="always", operands=(2, 3))
def vote(e: Emitter, ins: Instr) -> None:
    c, mode = e.c, one_of(ins, "all", "any", "uni", "ballot")
    if "sync" not in ins.mods or len(ins.args) != 3:
        raise refuse(ins, "only .sync")
    given = _predicate_bits(e, ins.args[1])
    answer = _Answer(e, ins.args[2], "i32" if mode == "ballot" else "i1")
    with each_group(e, ins.args[2]) as (who, lanes):
        bits = c.and_(given, who)
        every, some = c.icmp("eq", bits, who), c.icmp("ne", bits, 0)
        if mode == "ballot":
            answer.set(lanes, bits)
        elif mode == "all":
            answer.set(lanes, every)
        elif mode == "any":
            answer.set(lanes, some)
        else:
            answer.set(lanes, c.or_(every, c.not_(some)))
    e.dst(ins.args[0], answer.get())


@opcode("activemask", "b32", "int", uniform="always", operands=(1, 1))
def active_mask(e: Emitter, ins: Instr) -> None:
    e.dst(ins.args[0], e.bits())


@opcode("elect", "sync", "int", uniform="never", operands=(2, 2))
def elect(e: Emitter, ins: Instr) -> None:
    """The lowest member is elected."""
    c = e.c
    if not isinstance(ins.args[0], Pair):
        raise refuse(ins)
    answer = _Answer(e, ins.args[1], "i32")
    with each_group(e, ins.args[1]) as (who, lanes):
        answer.set(lanes, c.intrinsic("cttz", who, False))
    leader = e.vector(answer.get())
    e.dst(ins.args[0].first, leader)
    e.dst(ins.args[0].second, c.icmp("eq", IOTA32, leader))


@opcode("redux", "sync add min max and or xor u32 s32 b32", "shuffle", uniform="always", operands=(3, 3))
def reduce(e: Emitter, ins: Instr) -> None:
    c = e.c
    op = one_of(ins, "add", "min", "max", "and", "or", "xor")
    is_signed = type_of(ins) == "s32"
    value = e.vector(e.src(ins.args[1], "b32"))
    name = {"min": "smin" if is_signed else "umin", "max": "smax" if is_signed else "umax"}.get(op, op)
    neutral = {"smin": 2**31 - 1, "umin": -1, "smax": -(2**31), "and": -1}.get(name, 0)
    answer = _Answer(e, ins.args[2], "i32")
    with each_group(e, ins.args[2]) as (who, lanes):
        chosen = c.select(c.mask_vec(who), value, neutral)
        answer.set(lanes, c.extern("i32", f"llvm.vector.reduce.{name}.v32i32", chosen))
    e.dst(ins.args[0], answer.get())


@opcode("match", "any all sync b32 b64", "shuffle", uniform="never", operands=(3, 3))
def match(e: Emitter, ins: Instr) -> None:
    c = e.c
    kind, mode = type_of(ins), one_of(ins, "any", "all")
    value = e.vector(e.src(ins.args[1], kind))
    place = c.var(value.t, value)
    t = "i64" if kind == "b64" else "i32"
    width = 8 if kind == "b64" else 4
    result = c.var("<32 x i32>", const("<32 x i32>", 0))
    base, equal = V("ptr", place.name), c.var("i32", 0)
    full = _Answer(e, ins.args[2], "i1")
    both = _Answer(e, ins.args[2], "i32")
    with each_group(e, ins.args[2]) as (who, lanes):
        equal.set(who)
        with c.each_lane(who) as lane:
            mine = c.load(t, base, c.mul(c.zext(lane, "i64"), width), width)
            same = c.and_(c.mask_bits(c.icmp("eq", value, c.splat(mine))), who)
            equal.set(c.and_(equal.get(), same))
            result.set(c.insert(result.get(), same, lane))
        whole = c.icmp("eq", equal.get(), who)
        full.set(lanes, whole)
        both.set(lanes, c.select(whole, who, 0))
    e.cache = {k: v for k, v in e.cache.items() if k in ("bits", "lanes")}
    if mode == "any":
        e.dst(ins.args[0], result.get())
        return
    target = ins.args[0].first if isinstance(ins.args[0], Pair) else ins.args[0]
    e.dst(target, e.vector(both.get()))
    if isinstance(ins.args[0], Pair):
        e.dst(ins.args[0].second, e.vector(full.get()))
