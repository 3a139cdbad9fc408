"""Random kernels and an independent oracle: the same small program as PTX text and as NumPy over all threads.

Programs are straight-line code, divergent branches and loops with a trip count per thread, over u32, u64 and f32
registers. The oracle evaluates the program tree with a mask of running threads; it shares nothing with the simulator.
"""

# ruff: noqa: E501 one operation of both languages per line
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from harness import HEAD

INTS, WIDES, FLOATS = 6, 3, 5
U32, S32, U64 = np.uint32, np.int32, np.uint64


def _shift(x: Any, n: Any, how: str) -> Any:
    big = n > 31
    amount = np.minimum(n, 31).astype(U32)
    if how == "sar":
        return (x.view(S32) >> amount.view(S32)).view(U32)
    return np.where(big, 0, x << amount if how == "shl" else x >> amount).astype(U32)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Rounded once: the wide sum is rounded to odd, so that a tie of the narrow format is not made on the way."""
    product, c = a.astype(np.longdouble) * b.astype(np.longdouble), c.astype(np.longdouble)  # 48 bits: exact
    wide = np.atleast_1d(product + c)
    rest = wide - product
    error = (product - (wide - rest)) + (c - rest)  # what the sum lost, exactly
    even = wide.view(np.uint8).reshape(*wide.shape, wide.itemsize)[..., 0] % 2 == 0
    lost = np.isfinite(error) & (error != 0) & even
    return np.where(lost, np.nextafter(wide, np.copysign(np.longdouble(np.inf), error)), wide).astype(np.float32)


def _extreme(a: Any, b: Any, how: Callable[..., Any]) -> Any:
    out = how(a, b)
    zero = (a == 0) & (b == 0)
    negative = np.signbit(a) | np.signbit(b) if how is np.fmin else np.signbit(a) & np.signbit(b)
    return np.where(zero, np.where(negative, np.float32(-0.0), np.float32(0.0)), out).astype(np.float32)


def _flush(x: Any) -> Any:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).astype(np.float32)


def _to_int(x: Any) -> Any:
    clipped = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30), -(2.0**31), 2.0**31 - 1)
    return np.trunc(clipped).astype(np.int64).astype(S32).view(U32)


# kinds of result and operands (i: u32, w: u64, f: f32), PTX with {0}.. for the registers, oracle
OPS: list[tuple[str, str, Callable[..., Any]]] = [
    ("iii", "add.u32 {0}, {1}, {2};", lambda a, b: a + b),
    ("iii", "sub.s32 {0}, {1}, {2};", lambda a, b: a - b),
    ("iii", "mul.lo.u32 {0}, {1}, {2};", lambda a, b: a * b),
    ("iii", "mul.hi.u32 {0}, {1}, {2};", lambda a, b: ((a.astype(U64) * b.astype(U64)) >> U64(32)).astype(U32)),
    ("iiii", "mad.lo.s32 {0}, {1}, {2}, {3};", lambda a, b, c: a * b + c),
    ("iii", "and.b32 {0}, {1}, {2};", lambda a, b: a & b),
    ("iii", "or.b32 {0}, {1}, {2};", lambda a, b: a | b),
    ("iii", "xor.b32 {0}, {1}, {2};", lambda a, b: a ^ b),
    ("iiii", "lop3.b32 {0}, {1}, {2}, {3}, 0x96;", lambda a, b, c: a ^ b ^ c),
    ("iii", "shl.b32 {0}, {1}, {2};", lambda a, b: _shift(a, b, "shl")),
    ("iii", "shr.u32 {0}, {1}, {2};", lambda a, b: _shift(a, b, "shr")),
    ("iii", "shr.s32 {0}, {1}, {2};", lambda a, b: _shift(a, b, "sar")),
    ("iii", "min.s32 {0}, {1}, {2};", lambda a, b: np.minimum(a.view(S32), b.view(S32)).view(U32)),
    ("iii", "max.u32 {0}, {1}, {2};", np.maximum),
    ("iii", "{{ .reg .b32 z; or.b32 z, {2}, 1; div.u32 {0}, {1}, z; }}", lambda a, b: a // (b | U32(1))),
    ("iii", "{{ .reg .b32 z; or.b32 z, {2}, 1; rem.u32 {0}, {1}, z; }}", lambda a, b: a % (b | U32(1))),
    ("ii", "popc.b32 {0}, {1};", lambda a: np.bitwise_count(a).astype(U32)),
    ("ii", "not.b32 {0}, {1};", lambda a: ~a),
    ("ii", "neg.s32 {0}, {1};", lambda a: (0 - a.view(S32)).view(U32)),
    ("iii", "{{ .reg .pred q; setp.lt.s32 q, {1}, {2}; selp.b32 {0}, {1}, 77, q; }}", lambda a, b: np.where(a.view(S32) < b.view(S32), a, U32(77))),
    ("wii", "mul.wide.u32 {0}, {1}, {2};", lambda a, b: a.astype(U64) * b.astype(U64)),
    ("www", "add.u64 {0}, {1}, {2};", lambda a, b: a + b),
    ("www", "xor.b64 {0}, {1}, {2};", lambda a, b: a ^ b),
    ("www", "mul.lo.u64 {0}, {1}, {2};", lambda a, b: a * b),
    ("iw", "cvt.u32.u64 {0}, {1};", lambda a: a.astype(U32)),
    ("iw", "{{ .reg .b32 z; mov.b64 {{z, {0}}}, {1}; }}", lambda a: (a >> U64(32)).astype(U32)),
    ("fff", "add.rn.f32 {0}, {1}, {2};", lambda a, b: a + b),
    ("fff", "sub.rn.f32 {0}, {1}, {2};", lambda a, b: a - b),
    ("fff", "mul.rn.f32 {0}, {1}, {2};", lambda a, b: a * b),
    ("fff", "mul.rn.ftz.f32 {0}, {1}, {2};", lambda a, b: _flush(_flush(a) * _flush(b))),
    ("fff", "div.rn.f32 {0}, {1}, {2};", lambda a, b: a / b),
    ("ffff", "fma.rn.f32 {0}, {1}, {2}, {3};", _fma),
    ("fff", "min.f32 {0}, {1}, {2};", lambda a, b: _extreme(a, b, np.fmin)),
    ("fff", "max.f32 {0}, {1}, {2};", lambda a, b: _extreme(a, b, np.fmax)),
    ("ff", "abs.f32 {0}, {1};", np.abs),
    ("ff", "neg.f32 {0}, {1};", np.negative),
    ("ff", "{{ .reg .f32 z; abs.f32 z, {1}; sqrt.rn.f32 {0}, z; }}", lambda a: np.sqrt(np.abs(a))),
    ("fi", "cvt.rn.f32.s32 {0}, {1};", lambda a: a.view(S32).astype(np.float32)),
    ("if", "cvt.rzi.s32.f32 {0}, {1};", _to_int),
    ("iff", "{{ .reg .pred q; setp.leu.f32 q, {1}, {2}; selp.b32 {0}, 5, 9, q; }}", lambda a, b: np.where(~(a > b), U32(5), U32(9))),
]  # fmt: skip


@dataclass
class Program:
    """A random kernel: its statements as a tree, the text made of them, and how many labels it has used."""

    rng: random.Random
    labels: int = 0
    tree: list[Any] = field(default_factory=list)

    def block(self, depth: int, size: int) -> list[Any]:
        out: list[Any] = []
        for _ in range(size):
            kind = self.rng.random()
            if depth < 2 and kind < 0.08:
                cond = (self.rng.randrange(INTS), self.rng.randrange(1, 8))
                out.append(("if", cond, self.block(depth + 1, size // 3), self.block(depth + 1, size // 4)))
            elif depth < 2 and kind < 0.14:
                out.append(("loop", self.rng.randrange(INTS), self.block(depth + 1, size // 4)))
            else:
                kinds, text, oracle = self.rng.choice(OPS)
                count = {"i": INTS, "w": WIDES, "f": FLOATS}
                out.append(("op", kinds, text, oracle, [self.rng.randrange(count[k]) for k in kinds]))
        return out

    def text(self, block: list[Any]) -> list[str]:
        lines: list[str] = []
        for item in block:
            if item[0] == "op":
                _, kinds, text, _, registers = item
                lines.append(text.format(*(f"%{k}{n}" for k, n in zip(kinds, registers, strict=True))))
                continue
            self.labels += 1
            label = f"$L{self.labels}"
            if item[0] == "if":
                (register, mask), yes, no = item[1:]
                lines += [f"and.b32 %t, %i{register}, {mask}; setp.eq.u32 %p, %t, 0; @%p bra {label}_no;"]
                lines += [*self.text(yes), f"bra {label}_end;", f"{label}_no:", *self.text(no), f"{label}_end:"]
            else:
                # The trip count, at most 3, is fixed before the loop in a register of its own.
                register, body = item[1:]
                counter = f"%n{self.labels}"
                lines += [f".reg .b32 {counter}; and.b32 {counter}, %i{register}, 3;", f"{label}:"]
                lines += [f"setp.eq.u32 %p, {counter}, 0; @%p bra {label}_end;", *self.text(body)]
                lines += [f"sub.u32 {counter}, {counter}, 1; bra {label};", f"{label}_end:"]
        return lines


def make(seed: int, size: int = 24) -> tuple[str, Program]:
    """PTX of a random kernel `k(u32* i, u64* w, f32* f)`; every thread reads and writes its own registers."""
    program = Program(random.Random(seed))
    program.tree = program.block(0, size)
    body = program.text(program.tree)
    head = [
        ".visible .entry k(.param .u64 i, .param .u64 w, .param .u64 f)",
        "{",
        ".reg .b64 %a, %x; .reg .b32 %t, %j; .reg .pred %p;",
    ]
    head += [
        f".reg .b32 %i<{INTS}>; .reg .b64 %w<{WIDES}>; .reg .f32 %f<{FLOATS}>;",
        "mov.u32 %j, %tid.x; mov.u32 %t, %ctaid.x; mad.lo.u32 %j, %t, 64, %j;",
    ]
    moves: dict[str, list[str]] = {"ld": [], "st": []}
    for name, count, width, kind in (("i", INTS, 4, "b32"), ("w", WIDES, 8, "b64"), ("f", FLOATS, 4, "f32")):
        place = f"ld.param.u64 %a, [{name}]; mad.wide.u32 %x, %j, {count * width}, %a;"
        moves["ld"] += [place, *(f"ld.global.{kind} %{name}{n}, [%x+{n * width}];" for n in range(count))]
        moves["st"] += [place, *(f"st.global.{kind} [%x+{n * width}], %{name}{n};" for n in range(count))]
    return HEAD + "\n".join([*head, *moves["ld"], *body, *moves["st"], "ret;", "}"]), program


def inputs(seed: int, threads: int = 128) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    ints = (
        rng.integers(0, 1 << 32, (threads, INTS), dtype=U64) >> rng.integers(0, 32, (threads, INTS), dtype=U64)
    ).astype(U32)
    floats = (rng.standard_normal((threads, FLOATS)) * 10.0 ** rng.integers(-4, 5, (threads, FLOATS))).astype(
        np.float32
    )
    floats[rng.random(floats.shape) < 0.05] = np.nan
    floats[rng.random(floats.shape) < 0.05] = np.inf
    floats[rng.random(floats.shape) < 0.05] = 1e-41
    return [ints, rng.integers(0, 1 << 64, (threads, WIDES), dtype=U64), floats]


def oracle(program: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    state = {k: [column.copy() for column in array.T] for k, array in zip("iwf", arrays, strict=True)}
    with np.errstate(all="ignore"):
        _evaluate(program.tree, state, np.ones(len(arrays[0]), bool))
    return [np.stack(state[k], 1) for k in "iwf"]


def _evaluate(block: list[Any], state: dict[str, list[Any]], running: Any) -> None:
    for item in block:
        if item[0] == "op":
            _, kinds, _, function, registers = item
            sources = [state[k][n] for k, n in zip(kinds[1:], registers[1:], strict=True)]
            old = state[kinds[0]][registers[0]]
            state[kinds[0]][registers[0]] = np.where(running, function(*sources), old).astype(old.dtype)
        elif item[0] == "if":
            (register, mask), yes, no = item[1:]
            taken = (state["i"][register] & U32(mask)) != 0
            _evaluate(yes, state, running & taken)
            _evaluate(no, state, running & ~taken)
        else:
            register, body = item[1:]
            left = state["i"][register] & U32(3)
            for step in range(3):
                _evaluate(body, state, running & (left > step))
