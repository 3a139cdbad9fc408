"""ld, st, atom and red in every state space, with vectors."""

from __future__ import annotations

from collections.abc import Callable

from evo.sim.abi import CTX, REC, SHARED_WINDOW, WARP_SCRATCH
from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const, is_vec
from evo.sim.lower.cfg import reads_of
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import defs, items_of, one_of, opcode, type_of
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Mem, Operand, Sym
from evo.sim.runtime.atomics import OPERAND2, atom
from evo.sim.runtime.global_memory import (
    DISCARD_BYTES,
    discard_global,
    ld_global,
    ld_global_part,
    st_global,
    uniform_ld_global,
)
from evo.sim.runtime.local_memory import ld_generic, ld_local, ld_local_part, ld_param, st_generic, st_local
from evo.sim.runtime.routine import Routine
from evo.sim.runtime.shared_memory import ld_shared, ld_shared_part, st_shared, uniform_ld_shared
from evo.sim.runtime.spin_flags import flag

_TYPES = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_CACHE = """ca cg cs cv lu wb wt nc volatile relaxed acquire release weak cta gpu sys mmio
L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B"""
SPACES = ("global", "shared", "local", "const", "param")
_Access = dict[str, Callable[[int], Routine]]  # state space -> the routine for so many bytes per lane
LOADS: _Access = {
    "global": ld_global, "const": ld_global, "shared": ld_shared, "local": ld_local, "generic": ld_generic,
}  # fmt: skip
_PARTS = {"global": ld_global_part, "shared": ld_shared_part, "local": ld_local_part}
STORES: _Access = {"global": st_global, "shared": st_shared, "local": st_local, "generic": st_generic}
_ATOMIC_MODS = """
global shared shared::cta relaxed acquire release acq_rel cta gpu sys noftz
add min max and or xor exch cas inc dec
b16 b32 b64 u32 u64 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2
"""
_LEGAL = {
    "add": {"u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"},
    "min": {"u32", "s32", "u64", "s64"}, "max": {"u32", "s32", "u64", "s64"},
    "and": {"b32", "b64"}, "or": {"b32", "b64"}, "xor": {"b32", "b64"},
    "exch": {"b32", "b64"}, "cas": {"b16", "b32", "b64"}, "inc": {"u32"}, "dec": {"u32"},
}  # fmt: skip


def space_of(ins: Instr) -> str:
    found = [m.split("::")[0] for m in ins.mods if m.split("::")[0] in SPACES]
    if len(found) > 1:
        raise refuse(ins)
    return found[0] if found else "generic"


def ordered(ins: Instr) -> bool:
    """Accesses that synchronise: they are exempt from the race check and learn from fences."""
    return any(m in ins.mods for m in ("volatile", "relaxed", "acquire", "release", "mmio"))


def touch_flag(e: Emitter, ins: Instr, how: str, space: str, addr: V) -> None:
    """A strong access or an atomic may be a flag (see `runtime.spin_flags`)."""
    c = e.c
    if space not in ("global", "shared", "generic"):
        return
    wide = c.zext(addr, "i64") if addr.t.removesuffix(">").endswith("i32") else addr
    if space == "shared":
        wide = c.add(wide, SHARED_WINDOW)
    c.call(flag(how, wide="cta" not in ins.mods), e.ctx, e.warp, e.vector(wide), e.active())


def address(e: Emitter, mem: Operand, kind: str = "u64") -> V:
    """The address of a memory operand as u32 or u64, scalar if uniform."""
    if not isinstance(mem, Mem):
        raise e.refuse("address form")
    if mem.base is None:
        return const(f"i{WIDTH[kind]}", mem.offset)
    if isinstance(mem.base, Sym):
        return const(f"i{WIDTH[kind]}", e.address_of(mem.base) + mem.offset)
    width = WIDTH[e.registers[mem.base.name]]
    if width not in (32, 64):
        raise e.refuse(f"an address of {width} bits")
    base = e.src(mem.base, f"u{width}")
    if width < WIDTH[kind]:
        base = e.c.zext(base, f"i{WIDTH[kind]}")
    if mem.offset:
        base = e.c.add(base, mem.offset)
    return base


def shared_address(e: Emitter, mem: Operand, *, generic: bool = False) -> V:
    """A shared address as i32; a 64-bit one beyond 4 GiB stays out of bounds. Keeps the low bits for alignment."""
    c = e.c
    value = c.sub(address(e, mem), SHARED_WINDOW) if generic else address(e, mem, "u32")
    if value.t.endswith("i64") or value.t.endswith("i64>"):
        low = c.and_(value, 0xFFFFFFFF)
        far = c.or_(c.and_(value, 15), 0xFFFFFF00)
        value = c.trunc(c.select(c.icmp("ult", value, 1 << 32), low, far), "i32")
    return value


@opcode("ld", f"{_CACHE} global shared shared::cta const param local v2 v4 v8 {_TYPES}", "mem", operands=(2, 2))
def load(e: Emitter, ins: Instr) -> None:
    space, kind, count = space_of(ins), type_of(ins), vector_length(ins)
    width = WIDTH[kind] // 8 * count
    if width > 16:
        raise refuse(ins, "wider than 16 bytes")
    targets = items_of(ins, 0, count)
    if space == "param":
        base, scalar = _param_place(e, ins, width)
        _spread(e, base, targets, kind, scalar=scalar)
        return
    if ordered(ins):
        near = shared_address(e, ins.args[1]) if space == "shared" else address(e, ins.args[1])
        touch_flag(e, ins, "learn", space, near)
    place, scalar = load_bytes(e, ins, space, width, _used(e, targets) * (WIDTH[kind] // 8))
    _spread(e, place, targets, kind, scalar=scalar)


def _param_place(e: Emitter, ins: Instr, width: int) -> tuple[V, bool]:
    """Where a parameter's bytes are: one place for all lanes (then True), or 32 packed lanes."""
    c = e.c
    mem = ins.args[1]
    if not isinstance(mem, Mem):
        raise refuse(ins, "address form")
    if isinstance(mem.base, Sym) or mem.base is None:
        at = mem.offset + (e.address_of(mem.base) if mem.base else 0)
        if not 0 <= at <= e.param_bytes - width:
            raise e.wrong(f"reads beyond the kernel's {e.param_bytes} bytes of parameters")
        return c.at(c.load("ptr", e.ctx, CTX["params"], 8), at), True
    offset = address(e, mem)
    active = e.active()
    place = c.call(ld_param(width), e.ctx, e.warp, e.site(ins), e.vector(offset), active)
    return (place, False) if is_vec(offset.t) else (_of_first(e, place, active, width), True)


def _of_first(e: Emitter, place: V, active: V, width: int) -> V:
    """Where the bytes of the first active lane are, of 32 packed ones."""
    lead = e.c.and_(e.c.intrinsic("cttz", active, False), 31)
    return e.c.at(place, e.c.mul(e.c.zext(lead, "i64"), width))


def _used(e: Emitter, targets: tuple[Operand, ...]) -> int:
    """How many of them count: those up to the last that any instruction reads."""
    return max((at for at, item in enumerate(targets, 1) if not e.read_somewhere.isdisjoint(reads_of(item))), default=1)


def load_bytes(e: Emitter, ins: Instr, space: str, width: int, used: int) -> tuple[V, bool]:
    """Where the loaded bytes are: 32 packed lanes, or one value for all (then True).

    used: bytes of the lane that any instruction reads.
    """
    c = e.c
    rec = e.site(ins)
    addr = shared_address(e, ins.args[1]) if space == "shared" else address(e, ins.args[1])
    if space in _PARTS and vector_length(ins) > 1 and used < width:
        active = e.active()
        place = c.call(_PARTS[space](width, used), e.ctx, e.warp, rec, e.vector(addr), active)
        is_own = space == "local"  # at one address each lane has its own
        return (place, False) if is_own or is_vec(addr.t) else (_of_first(e, place, active, width), True)
    if space == "shared" and not is_vec(addr.t):
        return c.call(uniform_ld_shared(width), e.ctx, e.warp, rec, addr, e.active()), True
    if space in ("global", "const") and not is_vec(addr.t):
        _note_uniform(e, rec)
        return _uniform(e, rec, addr, width), True
    place = c.call(LOADS[space](width), e.ctx, e.warp, rec, e.vector(addr), e.active())
    return place, False


def _note_uniform(e: Emitter, rec: V) -> None:
    """Unguarded, such a load is counted by its block's executions; guarded, by what it does."""
    c = e.c
    if e.guard is None:
        e.uniform_sites[len(e.sites) - 1] = e.block.number
        return
    e.uniform_sites[len(e.sites) - 1] = -1
    active = e.active()
    c.bump(rec, REC["requests"], c.zext(c.icmp("ne", active, 0), "i64"))
    c.bump(rec, REC["lanes"], c.zext(c.intrinsic("ctpop", active), "i64"))


def _uniform(e: Emitter, rec: V, addr: V, width: int) -> V:
    """One address for the warp: inline when it hits the remembered buffer and the sector read last."""
    c = e.c
    offset = c.sub(addr, c.load("i64", rec, REC["low"], 8))
    good = c.icmp("ult", offset, c.load("i64", rec, REC["limit"], 8))
    if width > 1:
        good = c.and_(good, c.icmp("eq", c.and_(addr, width - 1), 0))
    sector = c.load("i64", e.ctx, CTX["last_sector"], 8)
    good = c.and_(good, c.icmp("eq", c.lshr(addr, 5), sector))
    fast, slow, join = (c.new_label(h) for h in ("fast", "slow", "join"))
    if e.guard is not None:
        idle = c.icmp("eq", e.active(), 0)
        good = c.and_(good, c.not_(idle))
    c.cbr(good, fast, slow, likely=True)
    c.label(fast)
    near = c.to_ptr(c.add(addr, c.load("i64", rec, REC["delta"], 8)))
    c.br(join)
    c.label(slow)
    far = c.call(uniform_ld_global(width), e.ctx, e.warp, rec, addr, e.active())
    c.br(join)
    c.label(join)
    return c.op("ptr", f"phi ptr [ {near.s}, %{fast} ], [ {far.s}, %{slow} ]")


def _spread(e: Emitter, place: V, targets: tuple[Operand, ...], kind: str, *, scalar: bool) -> None:
    """Write the loaded values to the result registers."""
    c = e.c
    bits = WIDTH[kind]
    t, count = f"i{bits}", len(targets)
    signed = kind[0] == "s"
    if scalar:
        for index, target in enumerate(targets):
            e.dst(target, c.load(t, place, index * bits // 8), signed=signed)
        return
    packed = c.load(f"<{32 * count} x {t}>", place)
    for index, target in enumerate(targets):
        value = packed if count == 1 else c.shuffle(packed, None, range(index, 32 * count, count))
        e.dst(target, value, signed=signed)


def interleave(e: Emitter, values: list[V]) -> V:
    """Pack v2/v4 operands lane by lane."""
    c = e.c
    if len(values) == 1:
        return values[0]
    if len(values) == 2:
        return c.shuffle(values[0], values[1], [i // 2 + 32 * (i % 2) for i in range(64)])
    low = c.shuffle(values[0], values[1], range(64))
    high = c.shuffle(values[2], values[3], range(64))
    return c.shuffle(low, high, [i // 4 + 32 * (i % 4) for i in range(128)])


def vector_length(ins: Instr) -> int:
    return next((int(mod[1]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1)


@opcode("st", f"{_CACHE} global shared shared::cta local v2 v4 {_TYPES}", "mem", results=0, operands=(2, 2))
def store(e: Emitter, ins: Instr) -> None:
    c = e.c
    space, kind = space_of(ins), type_of(ins)
    items = items_of(ins, 1, vector_length(ins))
    values, width = [e.vector(e.src(item, f"b{WIDTH[kind]}")) for item in items], WIDTH[kind] // 8 * len(items)
    if width > 16:
        raise refuse(ins, "wider than 16 bytes")
    addr = shared_address(e, ins.args[0]) if space == "shared" else address(e, ins.args[0])
    c.store(interleave(e, values), e.warp, WARP_SCRATCH, 64)
    rec = e.site(ins)
    c.call(STORES[space](width), e.ctx, e.warp, rec, e.vector(addr), e.active())
    if ordered(ins):
        touch_flag(e, ins, "tell", space, addr)


@opcode("discard", "global L2", "mem", results=0, operands=(2, 2))
def discard(e: Emitter, ins: Instr) -> None:
    if ins.args[1] != Imm(DISCARD_BYTES):
        raise refuse(ins, f"it takes {DISCARD_BYTES} bytes")
    e.c.call(discard_global(), e.ctx, e.warp, e.site(ins), e.vector(address(e, ins.args[0])), e.active())


@opcode("atom", _ATOMIC_MODS, "mem", uniform="never", operands=(3, 4))
@opcode("red", _ATOMIC_MODS, "mem", results=0, operands=(2, 2))
def atomic(e: Emitter, ins: Instr) -> None:
    c = e.c
    op, space = one_of(ins, *_LEGAL), space_of(ins)
    kind = type_of(ins, _LEGAL[op])
    if space not in ("global", "shared", "generic"):
        raise refuse(ins)
    shift = 1 if ins.name == "atom" else 0
    if (op == "cas") != (len(ins.args) == 3 + shift):
        raise refuse(ins, "operands")
    mem = ins.args[shift]
    addr = shared_address(e, mem) if space == "shared" else address(e, mem)
    if space == "shared":
        addr = c.zext(addr, "i64")
    bits = f"b{WIDTH[kind]}"
    first = e.vector(e.src(ins.args[shift + 1], bits))
    c.store(first, e.warp, WARP_SCRATCH, 64)
    if op == "cas":
        c.store(e.vector(e.src(ins.args[shift + 2], bits)), e.warp, OPERAND2, 64)
    wide = addr if is_vec(addr.t) else e.splat(addr)
    if op == "cas" and set(reads_of(ins.args[-1])) & e.sums:
        kind = f"f{WIDTH[kind]}"
    c.call(atom(space, op, kind), e.ctx, e.warp, e.site(ins), wide, e.active())
    touch_flag(e, ins, "both" if set(defs(ins)) & e.read_somewhere else "tell", space, wide)
    if ins.name == "atom":
        e.dst(ins.args[0], c.load(first.t, e.warp, WARP_SCRATCH, 64))
