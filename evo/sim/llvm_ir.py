"""A small writer of LLVM IR text: methods append one instruction and name its result.

Integer arithmetic is plain (no nsw, nuw), so nothing that a kernel does is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from evo.sim.llvm_values import V, const, elem, is_vec, splat_text


class Var:
    """A mutable variable of a function under construction (an alloca that the optimiser promotes)."""

    def __init__(self, code: Code, t: str, name: str) -> None:
        self.code, self.t, self.name = code, t, name

    @property
    def place(self) -> V:
        return V("ptr", self.name)

    def get(self) -> V:
        return self.code.op(self.t, f"load {self.t}, ptr {self.name}")

    def set(self, value: V | int) -> None:
        v = value if isinstance(value, V) else const(self.t, value)
        self.code.raw(f"store {self.t} {v.s}, ptr {self.name}")


class Callee(Protocol):
    """A function of the run-time support (`evo.sim.runtime.routine`): what it is called with, and its body."""

    name: str
    ret: str
    types: tuple[str, ...]  # of its parameters

    @property
    def code(self) -> Code: ...


def _binary(opcode: str) -> Callable[[Code, V, V | int], V]:
    def method(code: Code, x: V, y: V | int) -> V:
        return code.bin(opcode, x, y)

    return method


def _cast(opcode: str) -> Callable[[Code, V, str], V]:
    def method(code: Code, x: V, e: str) -> V:
        return code.cast(opcode, x, e)

    return method


class Code:
    """One function being written. `callees` are the routines it calls, `externs` declare what else it calls."""

    def __init__(self, ret: str, name: str, params: tuple[tuple[str, str], ...], attributes: str = "") -> None:
        self.ret, self.name, self.attributes = ret, name, attributes
        self.params = params
        self.head: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.callees: dict[str, Callee] = {}
        self.externs: dict[str, str] = {}

    def text(self) -> str:
        args = ", ".join(f"{t} %{n}" for t, n in self.params)
        # Without `nounwind` each object is known to the unwinder, whose every answer then takes longer.
        head = [f"define {self.ret} @{self.name}({args}) nounwind {self.attributes} {{", "entry:"]
        return "\n".join([*head, *self.head, *self.lines, "}"])

    def declarations(self) -> list[str]:
        """Of everything it calls, by name."""
        callees = {
            name: f"declare {callee.ret} @{name}({', '.join(callee.types)})"
            for name, callee in self.callees.items()
            if name != self.name
        }
        return [text for _, text in sorted((callees | self.externs).items())]

    def args(self, count: int) -> tuple[V, ...]:
        """The first so many parameters."""
        return tuple(map(self.arg, range(count)))

    def arg(self, index: int) -> V:
        t, n = self.params[index]
        return V(t.split(" ")[0] if not is_vec(t) else t, "%" + n)

    def raw(self, line: str) -> None:
        self.lines.append(line)

    def op(self, t: str, text: str) -> V:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name} = {text}")
        return V(t, name)

    def var(self, t: str, init: V | int | None = None) -> Var:
        self.count += 1
        name = f"%a{self.count}"
        self.head.append(f"{name} = alloca {t}, align 64" if is_vec(t) else f"{name} = alloca {t}")
        out = Var(self, t, name)
        if init is not None:
            out.set(init)
        return out

    def buffer(self, size: int) -> V:
        self.count += 1
        name = f"%a{self.count}"
        self.head.append(f"{name} = alloca [{size} x i8], align 64")
        return V("ptr", name)

    # Arithmetic ---------------------------------------------------------------------------------------------

    def same(self, x: V, y: V | int) -> tuple[V, V]:
        """Both operands with one shape; an int becomes a constant, a scalar is broadcast."""
        if not isinstance(y, V):
            return x, const(x.t, y)
        if is_vec(x.t) == is_vec(y.t):
            return x, y
        return (x, self.splat(y)) if is_vec(x.t) else (self.splat(x), y)

    def bin(self, opcode: str, x: V, y: V | int) -> V:
        x, y = self.same(x, y)
        return self.op(x.t, f"{opcode} {x.t} {x.s}, {y.s}")

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    shl, lshr, ashr = _binary("shl"), _binary("lshr"), _binary("ashr")

    def not_(self, x: V) -> V:
        return self.bin("xor", x, -1)

    def neg(self, x: V) -> V:
        return self.sub(const(x.t, 0), x)

    def fneg(self, x: V) -> V:
        return self.op(x.t, f"fneg {x.t} {x.s}")

    def icmp(self, how: str, x: V, y: V | int) -> V:
        x, y = self.same(x, y)
        return self.op(_like(x.t, "i1"), f"icmp {how} {x.t} {x.s}, {y.s}")

    def fcmp(self, how: str, x: V, y: V) -> V:
        x, y = self.same(x, y)
        return self.op(_like(x.t, "i1"), f"fcmp {how} {x.t} {x.s}, {y.s}")

    def select(self, c: V, x: V, y: V | int) -> V:
        x, y = self.same(x, y)
        if is_vec(c.t) and not is_vec(x.t):
            x, y = self.splat(x), self.splat(y)
        return self.op(x.t, f"select {c.t} {c.s}, {x.t} {x.s}, {y.t} {y.s}")

    def cast(self, opcode: str, x: V, e: str) -> V:
        t = _like(x.t, e)
        return x if t == x.t else self.op(t, f"{opcode} {x.t} {x.s} to {t}")

    zext, sext, trunc = _cast("zext"), _cast("sext"), _cast("trunc")

    def bitcast(self, x: V, t: str) -> V:
        return x if t == x.t else self.op(t, f"bitcast {x.t} {x.s} to {t}")

    def bits(self, x: V, e: str) -> V:
        """Bitcast element-wise to element type e of the same width."""
        return self.bitcast(x, _like(x.t, e))

    def call(self, callee: Callee, *args: V) -> V:
        """Call a function of the run-time support."""
        if tuple([a.t for a in args]) != callee.types:
            raise TypeError(f"{callee.name} takes {callee.types}, got {args}")
        self.callees[callee.name] = callee
        return self._call(callee.ret, callee.name, args)

    def extern(self, t: str, name: str, *args: V) -> V:
        """Call what LLVM or the kernel provides."""
        if name not in self.externs:
            self.externs[name] = f"declare {t} @{name}({', '.join([a.t for a in args])})"
        return self._call(t, name, args)

    def copy(self, to: V, source: V, size: V) -> None:
        self.extern("void", "llvm.memcpy.p0.p0.i64", to, source, size, V("i1", "false"))

    def fill(self, place: V, byte: V, size: V) -> None:
        self.extern("void", "llvm.memset.p0.i64", place, byte, size, V("i1", "false"))

    def _call(self, t: str, name: str, args: Sequence[V]) -> V:
        text = ", ".join([f"{a.t} {a.s}" for a in args])
        if t == "void":
            self.raw(f"call void @{name}({text})")
            return V("void", "")
        return self.op(t, f"call {t} @{name}({text})")

    def intrinsic(self, name: str, x: V, *more: V | int) -> V:
        """An overloaded intrinsic whose result and operands share x's type; ints become i1 flags."""
        suffix = f"v32{_suffix(elem(x.t))}" if is_vec(x.t) else _suffix(x.t)
        args = [x, *(m if isinstance(m, V) else V("i1", "true" if m else "false") for m in more)]
        args = [
            self.splat(a) if isinstance(a, V) and is_vec(x.t) and not is_vec(a.t) and a.t != "i1" else a for a in args
        ]
        return self.extern(x.t, f"llvm.{name}.{suffix}", *args)

    # Vectors ------------------------------------------------------------------------------------------------

    def splat(self, x: V, count: int = 32) -> V:
        t = f"<{count} x {x.t}>"
        if not x.s.startswith("%"):
            return V(t, splat_text(t, x.t, x.s))
        one = self.op(t, f"insertelement {t} poison, {x.t} {x.s}, i64 0")
        return self.op(t, f"shufflevector {t} {one.s}, {t} poison, <{count} x i32> zeroinitializer")

    def extract(self, x: V, index: V | int) -> V:
        i = index if isinstance(index, V) else const("i32", index)
        return self.op(elem(x.t), f"extractelement {x.t} {x.s}, {i.t} {i.s}")

    def insert(self, x: V, value: V, index: V | int) -> V:
        i = index if isinstance(index, V) else const("i32", index)
        return self.op(x.t, f"insertelement {x.t} {x.s}, {value.t} {value.s}, {i.t} {i.s}")

    def shuffle(self, x: V, y: V | None, picks: Sequence[int]) -> V:
        t = f"<{len(picks)} x {elem(x.t)}>"
        other = y.s if y is not None else "poison"
        mask = ", ".join(f"i32 {p}" for p in picks)
        return self.op(t, f"shufflevector {x.t} {x.s}, {x.t} {other}, <{len(picks)} x i32> <{mask}>")

    def mask_bits(self, x: V) -> V:
        """<32 x i1> -> i32."""
        return self.op("i32", f"bitcast <32 x i1> {x.s} to i32")

    def mask_vec(self, x: V) -> V:
        """i32 -> <32 x i1>."""
        return self.op("<32 x i1>", f"bitcast i32 {x.s} to <32 x i1>")

    # Memory -------------------------------------------------------------------------------------------------

    def at(self, base: V, offset: V | int) -> V:
        o = offset if isinstance(offset, V) else const("i64", offset)
        if o.s == "0":
            return base
        return self.op("ptr", f"getelementptr i8, ptr {base.s}, {o.t} {o.s}")

    def load(self, t: str, base: V, offset: V | int = 0, align: int = 1) -> V:
        p = self.at(base, offset)
        return self.op(t, f"load {t}, ptr {p.s}, align {align}")

    def store(self, value: V, base: V, offset: V | int = 0, align: int = 1) -> None:
        p = self.at(base, offset)
        self.raw(f"store {value.t} {value.s}, ptr {p.s}, align {align}")

    def bump(self, base: V, offset: int, amount: V | int = 1) -> None:
        """Add to a 64-bit counter."""
        old = self.load("i64", base, offset, 8)
        self.store(self.add(old, amount), base, offset, 8)

    def to_ptr(self, x: V) -> V:
        return self.op("ptr", f"inttoptr i64 {x.s} to ptr")

    def to_int(self, x: V) -> V:
        return self.op("i64", f"ptrtoint ptr {x.s} to i64")

    # Control ------------------------------------------------------------------------------------------------

    def new_label(self, hint: str = "L") -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def br(self, target: str) -> None:
        self.lines.append(f"br label %{target}")

    def cbr(self, c: V, yes: str, no: str, likely: bool | None = None) -> None:
        weight = "" if likely is None else f", !prof !{0 if likely else 1}"
        self.lines.append(f"br i1 {c.s}, label %{yes}, label %{no}{weight}")

    def ret_(self, x: V | None = None) -> None:
        self.lines.append(f"ret {x.t} {x.s}" if x is not None else "ret void")

    def leave(self, x: V | None = None) -> None:
        """Return from within; a block that nothing reaches takes what is written behind it."""
        self.ret_(x)
        self.label(self.new_label("dead"))

    @contextmanager
    def if_(self, c: V, likely: bool | None = None) -> Iterator[None]:
        yes, done = self.new_label("then"), self.new_label("fi")
        self.cbr(c, yes, done, likely)
        self.label(yes)
        yield
        self.br(done)
        self.label(done)

    @contextmanager
    def if_ends(self, c: V, likely: bool | None = None) -> Iterator[None]:
        """As `if_`, of a body that goes somewhere else at its end."""
        yes, on = self.new_label("then"), self.new_label("on")
        self.cbr(c, yes, on, likely)
        self.label(yes)
        yield
        self.label(on)

    @contextmanager
    def if_else(self, c: V, likely: bool | None = None) -> Iterator[_Else]:
        yes, no, done = self.new_label("then"), self.new_label("else"), self.new_label("fi")
        self.cbr(c, yes, no, likely)
        self.label(yes)
        yield _Else(self, no, done)
        self.br(done)
        self.label(done)

    @contextmanager
    def while_(self) -> Iterator[_Loop]:
        head, done = self.new_label("loop"), self.new_label("done")
        self.br(head)
        self.label(head)
        yield _Loop(self, head, done)
        self.br(head)
        self.label(done)

    @contextmanager
    def each_lane(self, mask: V) -> Iterator[V]:
        """Loop over the set bits of an i32, lowest first; yields the lane as i32."""
        rest = self.var("i32", mask)
        with self.while_() as loop:
            now = rest.get()
            loop.until(self.icmp("eq", now, 0))
            lane = self.intrinsic("cttz", now, True)
            yield lane
            again = rest.get()
            rest.set(self.and_(again, self.sub(again, 1)))

    @contextmanager
    def times(self, count: V | int) -> Iterator[V]:
        """Loop with an i64 index from 0 to count - 1."""
        limit = count if isinstance(count, V) else const("i64", count)
        index = self.var("i64", 0)
        with self.while_() as loop:
            now = index.get()
            loop.until(self.icmp("uge", now, limit))
            yield now
            index.set(self.add(index.get(), 1))


class _Else:
    def __init__(self, code: Code, no: str, done: str) -> None:
        self.code, self.no, self.done = code, no, done

    def otherwise(self) -> None:
        self.code.br(self.done)
        self.code.label(self.no)


class _Loop:
    def __init__(self, code: Code, head: str, done: str) -> None:
        self.code, self.head, self.done = code, head, done

    def until(self, c: V) -> None:
        on = self.code.new_label("body")
        self.code.cbr(c, self.done, on)
        self.code.label(on)


def _like(t: str, e: str) -> str:
    if t[0] != "<":
        return e
    return f"<{t[1:].split(' ', 1)[0]} x {e}>"


def _suffix(e: str) -> str:
    return {"float": "f32", "double": "f64", "half": "f16"}.get(e, e)
