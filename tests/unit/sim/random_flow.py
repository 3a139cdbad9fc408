"""Random correct kernels in CUDA C++, and what they compute: structured control flow with barriers, votes and shuffles.

A kernel is a tree of statements. Each knows its text and how NumPy runs it for all threads of a block under a mask, so
the expected values share nothing with the simulator. Barriers are made only where every thread of the block arrives,
votes and shuffles only where every lane of the warp does; a `continue` that some lanes take ends that for the rest of
the loop's body, but not for its head.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

U32 = np.uint32
NAMES = "abcd"
SLOTS = 8  # words of the output that belong to a thread
APART, WARP, BLOCK = range(3)  # which threads are sure to be here together

Array = np.ndarray[Any, Any]


@dataclass
class State:
    """All threads of one block while NumPy runs the kernel."""

    values: dict[str, Array]
    n: int
    y: Array
    skipped: list[Array] = field(default_factory=list)  # of each loop around: lanes that took `continue`
    left: list[Array] = field(default_factory=list)  # ... and `break`

    def put(self, name: str, value: Array, mask: Array) -> None:
        self.values[name] = np.where(mask, value, self.values[name]).astype(U32)

    def here(self, mask: Array) -> Array:
        """The lanes of a mask that have neither skipped the rest of this turn nor left the loop."""
        return mask & ~self.skipped[-1] & ~self.left[-1] if self.skipped else mask


Value = Callable[[State], Array]


@dataclass
class Statement:
    text: str
    run: Callable[[State, Array], None]


def run_all(statements: list[Statement], state: State, mask: Array) -> None:
    for one in statements:
        now = state.here(mask)
        if now.any():
            one.run(state, now)


def text_of(statements: list[Statement]) -> str:
    inner = "\n".join(one.text for one in statements)
    return "{\n" + "\n".join("  " + line for line in inner.splitlines()) + "\n}"


def by_warp(values: Array, how: Callable[[Array], Any]) -> Array:
    return np.concatenate([np.full(32, how(part)) for part in values.reshape(-1, 32)])


class Maker:
    """Makes one kernel from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.threads = self.dice.choice((32, 64, 96))
        self.counters: list[str] = []  # of the loops around whose turns are the same for all threads
        self.made = 0

    def fresh(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    # Values ---------------------------------------------------------------------------------------------------

    def value(self, depth: int = 2) -> tuple[str, Value]:
        kind = self.dice.randrange(6 if depth else 3)
        if kind == 0:
            number = self.dice.randrange(1, 1 << 16)
            return f"{number}u", lambda s: np.full(s.y.shape[0], number, U32)
        if kind == 1 and self.counters:
            name = self.dice.choice(self.counters)
            return name, lambda s: s.values[name]
        if kind <= 2:
            name = self.dice.choice(NAMES)
            return name, lambda s: s.values[name]
        (left, p), (right, q) = self.value(depth - 1), self.value(depth - 1)
        sign = self.dice.choice("+-*^&|")
        table: dict[str, Callable[[Array, Array], Array]] = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "^": np.bitwise_xor,
            "&": np.bitwise_and, "|": np.bitwise_or,
        }  # fmt: skip
        return f"({left} {sign} {right})", lambda s: table[sign](p(s), q(s)).astype(U32)

    def condition(self) -> tuple[str, Value]:
        """One that lanes answer apart."""
        text, value = self.value()
        modulus, wanted = self.dice.choice(((2, 1), (3, 0), (4, 1), (5, 4)))
        return f"{text} % {modulus}u == {wanted}u", lambda s: value(s) % U32(modulus) == wanted

    def common(self) -> tuple[str, Value]:
        """One that all threads answer alike."""
        add, modulus = self.dice.randrange(5), self.dice.choice((2, 3))
        if not self.counters:
            return f"(n + {add}u) % {modulus}u == 0u", lambda s: np.full(s.y.shape[0], (s.n + add) % modulus == 0)
        name = self.dice.choice(self.counters)
        return (
            f"({name} + n + {add}u) % {modulus}u == 0u",
            lambda s: (s.values[name] + U32(s.n + add)) % U32(modulus) == 0,
        )

    # Statements -----------------------------------------------------------------------------------------------

    def assign(self) -> Statement:
        name, (text, value) = self.dice.choice(NAMES), self.value(3)
        return Statement(f"{name} = {text};", lambda s, m: s.put(name, value(s), m))

    def store(self) -> Statement:
        slot, (text, value) = self.dice.randrange(SLOTS), self.value()

        def run(s: State, m: Array) -> None:
            s.y[m, slot] = value(s)[m]

        return Statement(f"y[{slot}] = {text};", run)

    def meet_warp(self) -> Statement:
        name, (text, value) = self.dice.choice(NAMES), self.value()
        ask, answer = self.condition()
        kind, step = self.dice.randrange(5), self.dice.choice((1, 2, 4, 8, 16))
        if kind == 0:
            return Statement("__syncwarp();", lambda s, m: None)
        if kind == 1:
            at = np.arange(self.threads) ^ step
            code = f"{name} += __shfl_xor_sync(0xffffffffu, {text}, {step});"
            return Statement(code, lambda s, m: s.put(name, s.values[name] + value(s)[at], m))
        if kind == 2:
            code = f"{name} ^= __ballot_sync(0xffffffffu, {ask});"

            def bits(part: Array) -> Any:
                return U32(sum(1 << int(i) for i in np.flatnonzero(part)))

            return Statement(code, lambda s, m: s.put(name, s.values[name] ^ by_warp(answer(s), bits), m))
        if kind == 3:
            code = f"{name} += __reduce_add_sync(0xffffffffu, {text});"

            def total(part: Array) -> Any:
                return U32(int(part.astype(np.uint64).sum()) & 0xFFFFFFFF)

            return Statement(code, lambda s, m: s.put(name, s.values[name] + by_warp(value(s), total), m))
        code = f"if (__any_sync(0xffffffffu, {ask})) {name} += 1u;"
        return Statement(code, lambda s, m: s.put(name, s.values[name] + by_warp(answer(s), np.any).astype(U32), m))

    def meet_block(self) -> Statement:
        name, (text, value) = self.dice.choice(NAMES), self.value()
        ask, answer = self.condition()
        kind = self.dice.randrange(4)
        if kind == 0:
            return Statement("__syncthreads();", lambda s, m: None)
        if kind == 1:
            code = f"{name} += __syncthreads_count({ask});"
            return Statement(code, lambda s, m: s.put(name, s.values[name] + U32(answer(s).sum()), m))
        if kind == 2:
            # Whoever polls waits for all others of the block, which may be lanes of its own warp.
            poller = self.dice.randrange(self.threads)
            polls = f"if (t == {poller}) while (*(volatile unsigned*)&arrived < seen * {self.threads}u);"
            return Statement(f"atomicAdd(&arrived, 1u); ++seen; {polls}", lambda s, m: None)
        shift = self.dice.randrange(1, self.threads)
        at = (np.arange(self.threads) + shift) % self.threads
        code = f"sh[t] = {text}; __syncthreads(); {name} ^= sh[(t + {shift}) % {self.threads}]; __syncthreads();"
        return Statement(code, lambda s, m: s.put(name, s.values[name] ^ value(s)[at], m))

    def meet(self, level: int) -> Statement:
        return self.meet_block() if level == BLOCK and self.dice.random() < 0.5 else self.meet_warp()

    def choice(self, level: int, depth: int, loops: int) -> tuple[Statement, bool]:
        """An `if`; second: lanes may be missing after it, until the loop turns."""
        alike = self.dice.random() < 0.3
        ask, answer = self.common() if alike else self.condition()
        inner = level if alike else APART
        yes, gone = self.body(inner, depth - 1, loops)
        no, also = self.body(inner, depth - 1, loops) if self.dice.random() < 0.4 else ([], False)
        text = f"if ({ask}) {text_of(yes)}" + (f" else {text_of(no)}" if no else "")

        def run(s: State, m: Array) -> None:
            decided = answer(s)
            run_all(yes, s, m & decided)
            run_all(no, s, m & ~decided)

        return Statement(text, run), gone or also

    def skip(self) -> Statement:
        ask, answer = self.condition()

        def run(s: State, m: Array) -> None:
            s.skipped[-1] |= m & answer(s)

        return Statement(f"if ({ask}) continue;", run)

    def leave(self, *, alike: bool) -> Statement:
        ask, answer = self.common() if alike else self.condition()

        def run(s: State, m: Array) -> None:
            s.left[-1] |= m & answer(s)

        return Statement(f"if ({ask}) break;", run)

    def body(self, level: int, depth: int, loops: int, *, whole: bool = False) -> tuple[list[Statement], bool]:
        """Statements; second: after them lanes may be missing until the loop turns.

        loops: 0 outside of loops, 1 in one that all threads leave together, 2 in one that lanes leave one by one.
        whole: this is the body of a loop itself.
        """
        out: list[Statement] = []
        apart = False
        for _ in range(self.dice.randrange(1, 5)):
            now = APART if apart else level
            roll = self.dice.random()
            if roll < 0.25 and now:
                out.append(self.meet(now))
            elif roll < 0.45 and depth:
                one, gone = self.choice(now, depth, loops)
                out.append(one)
                apart |= gone
            elif roll < 0.6 and depth:
                out.append(self.loop(now, depth))
            elif roll < 0.75 and loops:
                out.append(self.skip())
                apart = True
            elif roll < 0.8 and loops == 2:
                out.append(self.leave(alike=False))
            elif roll < 0.85 and loops == 1 and whole and not apart:
                out.append(self.leave(alike=True))
            else:
                out.append(self.dice.choice((self.assign, self.store))())
        return out, apart

    def loop(self, level: int, depth: int) -> Statement:
        kinds = [self.apart_loop]
        if level:
            kinds += [self.counted_loop, self.counted_loop, self.endless_loop, self.vote_loop, self.vote_loop]
        pragma = "#pragma unroll 1\n" if self.dice.random() < 0.7 else ""
        one = self.dice.choice(kinds)(level, depth)
        return Statement(pragma + one.text, one.run) if one.text.startswith(("for", "while", "do")) else one

    def turns(self, s: State, m: Array, again: Callable[[Array], Array], body: list[Statement]) -> None:
        """again: which of the lanes begin another turn; it also steps what counts them."""
        s.skipped.append(np.zeros_like(m))
        s.left.append(np.zeros_like(m))
        while True:
            s.skipped[-1][:] = False
            stay = m & ~s.left[-1]
            go = again(stay) & stay
            s.left[-1] |= m & ~go
            if not go.any():
                break
            run_all(body, s, go)
        s.skipped.pop()
        s.left.pop()

    def apart_loop(self, level: int, depth: int) -> Statement:
        name, (text, value) = self.fresh("r"), self.value()
        body, _ = self.body(APART, depth - 1, 2, whole=True)

        def run(s: State, m: Array) -> None:
            s.values[name] = (value(s) & U32(7)).astype(U32)
            first = [True]

            def again(stay: Array) -> Array:
                if not first[0]:
                    s.put(name, s.values[name] - U32(1), stay)
                first[0] = False
                return s.values[name] > 0

            self.turns(s, m, again, body)

        return Statement(f"for (unsigned {name} = {text} & 7u; {name}; --{name}) {text_of(body)}", run)

    def counted_loop(self, level: int, depth: int) -> Statement:
        name, bound, extra = self.fresh("i"), self.dice.randrange(2, 5), self.dice.random() < 0.5
        self.counters.append(name)
        head = [self.meet(level)] if self.dice.random() < 0.6 else []
        body, _ = self.body(level, depth - 1, 1, whole=True)
        self.counters.pop()
        limit = f"{bound}u + n % 2u" if extra else f"{bound}u"

        def run(s: State, m: Array) -> None:
            s.values[name] = np.zeros(self.threads, U32) - U32(1)

            def again(stay: Array) -> Array:
                s.values[name] = s.values[name] + U32(1)
                return s.values[name] < bound + (s.n % 2 if extra else 0)

            self.turns(s, m, again, head + body)

        return Statement(f"for (unsigned {name} = 0; {name} < {limit}; ++{name}) {text_of(head + body)}", run)

    def endless_loop(self, level: int, depth: int) -> Statement:
        """`for (;;)` with its exit behind a barrier or vote at the head."""
        name, bound = self.fresh("i"), self.dice.randrange(2, 5)
        self.counters.append(name)
        head = self.meet(level)
        body, _ = self.body(level, depth - 1, 1, whole=True)
        self.counters.pop()

        def leave(s: State, m: Array) -> None:
            s.values[name] = s.values[name] + U32(1)
            s.left[-1] |= m & (s.values[name] > bound)

        ends = Statement(f"if (++{name} > {bound}u) break;", leave)

        def run(s: State, m: Array) -> None:
            s.values[name] = np.zeros(self.threads, U32)
            self.turns(s, m, np.ones_like, [head, ends, *body])

        return Statement(f"unsigned {name} = 0;\nfor (;;) {text_of([head, ends, *body])}", run)

    def vote_loop(self, level: int, depth: int) -> Statement:
        """Turns for as long as any thread of the block (or lane of the warp) has work."""
        name, (text, value) = self.fresh("v"), self.value()
        wide = level == BLOCK and self.dice.random() < 0.6
        work, _ = self.body(APART, depth - 1, 0)
        skips = self.dice.random() < 0.5
        rest, _ = self.body(BLOCK if wide else WARP, depth - 1, 1)
        if self.dice.random() < 0.3:
            rest = []
        inner = [*work, Statement("continue;", lambda s, m: s.skipped.__setitem__(-1, s.skipped[-1] | m))]
        inner = inner if skips else work
        if skips:  # whoever had work is missing from the rest
            rest, _ = self.body(APART, depth - 1, 1)

        def step(s: State, m: Array) -> None:
            busy = m & (s.values[name] > 0)
            s.put(name, s.values[name] - U32(1), busy)
            run_all(inner, s, busy)

        first = Statement(f"if ({name} > 0u) {{\n  --{name};\n{text_of(inner)}\n}}", step)

        def run(s: State, m: Array) -> None:
            s.values[name] = (value(s) & U32(3)).astype(U32)

            def again(stay: Array) -> Array:
                busy = stay & (s.values[name] > 0)
                return np.full_like(busy, busy.any()) if wide else by_warp(busy, np.any)

            self.turns(s, m, again, [first, *rest])

        ask = f"__syncthreads_or({name} > 0u)" if wide else f"__any_sync(0xffffffffu, {name} > 0u)"
        return Statement(f"unsigned {name} = {text} & 3u;\nwhile ({ask}) {text_of([first, *rest])}", run)

    # The kernel -----------------------------------------------------------------------------------------------

    def kernel(self) -> tuple[str, list[Statement]]:
        body: list[Statement] = []
        for _ in range(self.dice.randrange(2, 5)):
            body.append(self.loop(BLOCK, 3) if self.dice.random() < 0.7 else self.choice(BLOCK, 2, 0)[0])
        head = (
            'extern "C" __global__ void k(const unsigned* x, unsigned* out, unsigned n) {\n'
            f"  __shared__ unsigned sh[{self.threads}], arrived;\n"
            "  unsigned t = threadIdx.x, g = blockIdx.x * blockDim.x + t, seen = 0;\n"
            f"  unsigned* y = out + g * {SLOTS + 4};\n"
            "  unsigned a = x[g], b = a * 2654435761u, c = t, d = n;\n"
            "  if (t == 0) arrived = 0;\n  __syncthreads();\n"
        )
        tail = "".join(f"  y[{SLOTS + i}] = {name};\n" for i, name in enumerate(NAMES))
        return head + text_of(body) + "\n" + tail + "}\n", body


def make(seed: int) -> tuple[str, Callable[[Array, int], Array], int]:
    """CUDA C++ of kernel `k(x, out, n)`, what it computes from x and n, and its threads per block.

    x: uint32, one per thread; out: SLOTS + 4 words per thread, zero before the launch.
    """
    maker = Maker(seed)
    text, body = maker.kernel()

    def expected(x: Array, n: int) -> Array:
        rows = []
        for part in x.reshape(-1, maker.threads):
            count = np.arange(maker.threads, dtype=U32)
            values = {"a": part, "b": part * U32(2654435761), "c": count, "d": np.full_like(part, n)}
            state = State(values, n, np.zeros((maker.threads, SLOTS), U32))
            with np.errstate(over="ignore"):
                run_all(body, state, np.ones(maker.threads, bool))
            rows.append(np.concatenate([state.y, np.stack([state.values[v] for v in NAMES], 1)], 1))
        return np.concatenate(rows).reshape(-1)

    return text, expected, maker.threads
