"""One kernel -> LLVM IR: registers, masks and operands. Control flow between blocks is in `branching`.

A register whose value is provably the same in all lanes of a warp is a scalar; every other is a <32 x T> vector.
Registers that live across blocks have a slot in the warp structure; within a block they are SSA values.
"""

from __future__ import annotations

import struct

from evo.sim.abi import CTX, REC_SIZE, WARP, WARP_TID
from evo.sim.errors import PtxError, UnsupportedInstruction, refuse
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import IOTA32, V, bits_of, const, elem, is_vec, vec
from evo.sim.lower.cfg import Block
from evo.sim.ptx.ast import WIDTH, Imm, Instr, Not, Operand, Reg, Sink, Special, Sym

TIMER_START = 1 << 60
_FLOATS = {"f16": "half", "f32": "float", "f64": "double"}


def element(kind: str) -> str:
    """The IR element type that holds a PTX type in a register operation."""
    if kind == "pred":
        return "i1"
    return _FLOATS.get(kind) or f"i{WIDTH[kind]}"


def storage(kind: str) -> str:
    """The IR type of a register declared with this type: 16-bit floats are kept as bits."""
    if kind in ("f32", "f64"):
        return _FLOATS[kind]
    return "i1" if kind == "pred" else f"i{WIDTH[kind]}"


class Emitter:
    """State while one kernel is emitted; the instruction emitters in isa/ call its methods."""

    def __init__(
        self,
        code: Code,
        registers: dict[str, str],
        uniform: set[str],
        slots: dict[str, int],
        symbols: dict[str, tuple[str, int]],
        *,
        param_bytes: int,
        flush_by_hardware: bool,
        read: set[str],
        floats: tuple[set[str], set[str], set[str]],
    ) -> None:
        self.read_somewhere = read
        self.sums, self.results, self.stored = floats  # registers that may hold a sum, a result in f32, what is stored
        self.c = code
        self.registers = registers
        self.uniform = uniform
        self.slots = slots
        self.symbols = symbols  # name -> (space, address in that space)
        self.param_bytes = param_bytes
        self.hardware_ftz = flush_by_hardware
        self.ctx = code.arg(0)
        self.warp = code.arg(1)
        self.sites: list[Instr] = []
        self.uniform_sites: dict[int, int] = {}  # loads with one address per warp -> block, -1 if counted as they run
        self.records = V("ptr", "%records")
        self.live = code.var("i32")
        self.mask = code.var("i32")
        self.cur: dict[str, V] = {}
        self.dirty: set[str] = set()
        self.cache: dict[object, V] = {}
        self.scratch: dict[int, V] = {}  # what lies at places of the scratch since the line `scratch_end`
        self.scratch_end = 0
        self.block = Block(-1)  # in work
        self.ins: Instr | None = None
        self.guard: V | None = None  # predicate of the instruction being emitted, None if unguarded

    # Blocks and sites ---------------------------------------------------------------------------------------

    def start(self, block: Block) -> None:
        self.block = block
        self.cur = {}
        self.dirty = set()
        self.cache = {}
        self.scratch = {}

    def keep_scratch(self) -> None:
        """Forget what lies in the scratch if anything may have been written since."""
        since = self.c.lines[self.scratch_end :]
        if any("store " in line or ("call " in line and "@llvm." not in line) for line in since):
            self.scratch = {}

    def site(self, ins: Instr) -> V:
        """The counter record of an instruction (also names it in faults)."""
        self.sites.append(ins)
        return self.c.at(self.records, (len(self.sites) - 1) * REC_SIZE)

    def flush(self) -> None:
        """Write what later blocks read to the warp structure; lanes that are elsewhere keep their values."""
        for name in sorted(self.dirty & self.block.live_out):
            value = self.cur[name]
            if self.block.partial:
                value = self.c.select(self.lanes(), value, self._load_slot(name))
            if value.t == "<32 x i1>":
                value = self.c.mask_bits(value)
            elif value.t == "i1":
                value = self.c.zext(value, "i8")
            self.c.store(value, self.warp, self.slots[name], 64 if is_vec(value.t) else 4)
        self.dirty = set()

    def lanes(self) -> V:
        """The mask of running lanes as <32 x i1>."""
        if "lanes" not in self.cache:
            self.cache["lanes"] = self.c.mask_vec(self.bits())
        return self.cache["lanes"]

    def bits(self) -> V:
        """The mask of running lanes as i32."""
        if "bits" not in self.cache:
            self.cache["bits"] = self.mask.get()
        return self.cache["bits"]

    def active(self) -> V:
        """i32 mask of the lanes that execute the current instruction, its guard included."""
        if self.guard is None:
            return self.bits()
        if is_vec(self.guard.t):
            return self.c.and_(self.bits(), self.c.mask_bits(self.guard))
        return self.c.select(self.guard, self.bits(), 0)

    # Registers ----------------------------------------------------------------------------------------------

    def type_of(self, name: str) -> str:
        t = storage(self.registers[name])
        return t if name in self.uniform else vec(t)

    def _load_slot(self, name: str) -> V:
        t = self.type_of(name)
        if name not in self.slots:
            return V(t, "zeroinitializer") if is_vec(t) else const(t, 0)
        if t == "<32 x i1>":
            return self.c.mask_vec(self.c.load("i32", self.warp, self.slots[name], 4))
        if t == "i1":
            return self.c.trunc(self.c.load("i8", self.warp, self.slots[name]), "i1")
        return self.c.load(t, self.warp, self.slots[name], 64 if is_vec(t) else 4)

    def read(self, name: str) -> V:
        """The current value of a register in its storage type."""
        if name not in self.cur:
            self.cur[name] = self._load_slot(name)
        return self.cur[name]

    def write(self, name: str, value: V) -> None:
        """Set a register; a guarded instruction keeps the old value where the guard is false."""
        t = self.type_of(name)
        if is_vec(t) and not is_vec(value.t):
            value = self.splat(value)
        if value.t != t:
            value = self.c.bitcast(value, t)
        if self.guard is not None:
            value = self.c.select(self.guard, value, self.read(name))
        self.cur[name] = value
        self.dirty.add(name)

    def splat(self, value: V) -> V:
        """Broadcast a scalar, once per block."""
        key = ("splat", value)
        if key not in self.cache:
            self.cache[key] = self.c.splat(value)
        return self.cache[key]

    # Operands -----------------------------------------------------------------------------------------------

    def refuse(self, why: str) -> UnsupportedInstruction:
        assert self.ins is not None
        return refuse(self.ins, why)

    def wrong(self, problem: str) -> PtxError:
        return PtxError(problem, line=self.ins.line if self.ins else 0, text=self.ins.text if self.ins else "")

    def src(self, arg: Operand, kind: str) -> V:
        """A source operand as the element type of the PTX type `kind` (scalar if uniform)."""
        e = element(kind)
        width = WIDTH[kind]
        if isinstance(arg, Imm):
            return self._immediate(arg, kind, e)
        if isinstance(arg, Reg):
            value = self.read(arg.name)
            if e[0] == "i" and arg.name in self.results and elem(value.t) == "float":
                value = self._canonical(value)
        elif isinstance(arg, Not) and self.registers[arg.reg.name] == "pred":
            value = self.c.not_(self.read(arg.reg.name))
        elif isinstance(arg, Special) and kind != "pred":
            value = self.special(arg.name)
            have = int(elem(value.t)[1:])
            if have < width:
                value = self.c.zext(value, f"i{width}")
            elif have > width:
                value = self.c.trunc(value, f"i{width}")
        elif isinstance(arg, Sym):
            value = const(f"i{max(width, 32)}", self.address_of(arg))
        else:
            raise self.refuse("operand form")
        return self._as(value, e, width)

    def _canonical(self, value: V) -> V:
        """The bits of a result: hardware has but one NaN, whatever this processor gives."""
        bits = self.c.bits(value, "i32")
        return self.c.select(self.c.fcmp("uno", value, value), const(bits.t, 0x7FFFFFFF), bits)

    def _as(self, value: V, e: str, width: int) -> V:
        have = elem(value.t)
        if have == e:
            return value
        if have == "i1" or e == "i1":
            raise self.wrong("a predicate and a value are mixed")
        have_width = bits_of(have)
        if have_width == width:
            return self.c.bits(value, e)
        if have_width < width:
            raise self.wrong(f"a {have_width}-bit register is used as {width} bits")
        whole = self.c.bits(value, f"i{have_width}")
        low = self.c.trunc(whole, f"i{width}")
        return low if elem(low.t) == e else self.c.bits(low, e)

    def _immediate(self, arg: Imm, kind: str, e: str) -> V:
        if kind == "pred":
            return const("i1", int(arg.value != 0))
        width = WIDTH[kind]
        if arg.kind == "int":
            if e in ("float", "double", "half"):
                # An integer literal where a float is expected stands for its bit pattern only in .b types.
                raise self.refuse("integer literal as a float operand")
            return const(e, arg.value)
        bits, number = 64 if arg.kind == "f64" else 32, arg.value
        if bits != width:
            if e not in ("float", "double"):
                raise self.refuse("float literal of another width")
            number = rounded(number, bits)
        value = const(f"i{width}", number)
        if e == f"i{width}":
            return value
        return self.c.op(e, f"bitcast {value.t} {value.s} to {e}")

    def address_of(self, arg: Sym) -> int:
        if arg.name not in self.symbols:
            raise self.wrong(f"{arg.name} is not declared")
        return self.symbols[arg.name][1] + arg.offset

    def vector(self, value: V) -> V:
        return value if is_vec(value.t) else self.splat(value)

    def dst(self, arg: Operand, value: V, *, signed: bool = False) -> None:
        """Write a result operand. A wider register is filled by sign or zero extension."""
        if isinstance(arg, Sink):
            return
        if not isinstance(arg, Reg):
            raise self.refuse("result form")
        kind = self.registers[arg.name]
        e = elem(value.t)
        if (e == "i1") != (kind == "pred"):
            raise self.wrong("a predicate and a value are mixed")
        if e != "i1":
            have = bits_of(e)
            want = WIDTH[kind]
            if have < want:
                value = self.c.bits(value, f"i{have}")
                value = self.c.sext(value, f"i{want}") if signed else self.c.zext(value, f"i{want}")
            elif have > want:
                raise self.wrong(f"a {want}-bit register cannot hold {have} bits")
            value = self.c.bits(value, storage(kind))
        self.write(arg.name, value)

    # Special registers --------------------------------------------------------------------------------------

    def special(self, name: str) -> V:
        key = ("special", name)
        if key not in self.cache:
            self.cache[key] = self._special(name)
        return self.cache[key]

    def _special(self, name: str) -> V:
        c = self.c
        axis = {"x": 0, "y": 1, "z": 2}
        base, _, dim = name.partition(".")
        if base == "tid" and dim in axis:
            return c.load("<32 x i32>", self.warp, WARP_TID + 128 * axis[dim], 64)
        if base in ("ctaid", "ntid", "nctaid") and dim in axis:
            return c.load("i32", self.ctx, CTX[f"{base}_{dim}"], 8)
        if name == "laneid":
            return IOTA32
        if name == "warpid":
            return c.load("i32", self.warp, WARP["index"], 8)
        if name == "nwarpid":
            return c.load("i32", self.ctx, CTX["warp_count"], 8)
        if name.startswith("lanemask_"):
            one = c.shl(const("<32 x i32>", 1), IOTA32)
            below = c.sub(one, 1)
            return {
                "lanemask_eq": one,
                "lanemask_lt": below,
                "lanemask_le": c.or_(one, below),
                "lanemask_gt": c.not_(c.or_(one, below)),
                "lanemask_ge": c.not_(below),
            }[name]
        if name == "globaltimer":
            # Time for loops that sleep longer and longer: one nanosecond for each instruction of a warp.
            return c.sub(const("i64", TIMER_START), c.load("i64", self.ctx, CTX["budget"], 8))
        if name == "dynamic_smem_size":
            return c.load("i32", self.ctx, CTX["dynamic_shared"], 8)
        if name == "total_smem_size":
            return c.load("i32", self.ctx, CTX["shared_size"], 8)
        if base.startswith("envreg"):
            raise self.refuse(f"grid.sync() of a cooperative launch is not simulated (it reads %{name})")
        raise self.refuse(f"%{name}")


def rounded(pattern: int, bits: int) -> int:
    """The bits of a float literal in the other width: a double rounds to the nearest single, a single is exact."""
    own, other = ("<d", "<f") if bits == 64 else ("<f", "<d")
    (value,) = struct.unpack(own, pattern.to_bytes(bits // 8, "little"))
    try:
        return int.from_bytes(struct.pack(other, value), "little")
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def special_uniform(name: str) -> bool:
    """Is a special register the same in all lanes of a warp?"""
    return not name.startswith(("tid", "laneid", "lanemask"))
