"""Inputs, launch shapes and NumPy answers of the clean kernels beside this file; for the simulator and for a GPU."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from kernel_cases import Array, Case, normal, rng, whole, zeros
from memory_order_cases import memory_orders

CLEAN = Path(__file__).parent / "clean"
F, H, I32, U8 = np.float32, np.float16, np.int32, np.uint8
BF = ml_dtypes.bfloat16


def _reductions() -> dict[str, Case]:
    x = normal("reduce", 1000)
    blocks = np.pad(x, (0, 24)).reshape(8, 128).astype(np.float64).sum(1).astype(F)
    total = np.array([x.astype(np.float64).sum()], F)
    bits = np.array([x.max()], F).view(I32)
    d = normal("double", 500, dtype=np.float64)
    per_block = Case([x, np.zeros(8, F), I32(1000)], (8,), (128,), {1: blocks}, 1e-4)
    return {
        "reduce_shared": per_block, "reduce_volatile": per_block, "reduce_shuffle": per_block,
        "reduce_last_block": Case([x, np.zeros(8, F), np.zeros(1, F), I32(1000)], (8,), (128,), {2: total}, 1e-4),
        "reduce_atomic": Case([x, np.zeros(1, F), I32(1000)], (8,), (128,), {1: total}, 1e-4),
        "reduce_max": Case([x, np.full(1, -(2**31), I32), I32(1000)], (8,), (128,), {1: bits}),
        "double_precision": Case([d, np.zeros(1), I32(500)], (4,), (128,), {1: np.array([(d * d).sum()])}, 1e-9),
    }  # fmt: skip


def _scans() -> dict[str, Case]:
    x = whole("scan", 1024)
    rows = x.reshape(4, 256)
    exclusive = (np.cumsum(rows, 1) - rows).astype(I32).reshape(-1)
    flags = [np.zeros(8, I32), np.zeros(8, I32)]
    return {
        "scan_blelloch": Case([x, zeros(x)], (4,), (128,), {1: exclusive}),
        "scan_shuffle": Case([x, zeros(x)], (4,), (256,), {1: np.cumsum(rows, 1).astype(I32).reshape(-1)}),
        "scan_lookback": Case([x, zeros(x), *flags], (8,), (128,), {1: np.cumsum(x).astype(I32)}),
    }


def _histograms() -> dict[str, Case]:
    x = rng("histogram").integers(0, 256, 3000).astype(U8)
    y = np.bincount(x, minlength=256).astype(np.uint32)
    return {
        "histogram_shared": Case([x, zeros(y), I32(3000)], (3,), (128,), {1: y}),
        "histogram_global": Case([x, zeros(y), I32(3000)], (24,), (128,), {1: y}),
        "histogram_match": Case([x, zeros(y), I32(3000)], (24,), (128,), {1: y}),
    }


def _neighbours() -> dict[str, Case]:
    x = normal("stencil", 500)
    p = np.pad(x, 1)
    q = np.pad(x, 2)
    line = 0.25 * p[:-2] + 0.5 * x + 0.25 * p[2:]
    curve = sum(w * q[j : j + 500] for j, w in enumerate((1, 4, 6, 4, 1))) / 16
    g = normal("grid", 40, 40)
    e = np.pad(g, 1)
    cross = 4 * g - e[:-2, 1:-1] - e[2:, 1:-1] - e[1:-1, :-2] - e[1:-1, 2:]
    return {
        "stencil_global": Case([x, zeros(x), I32(500)], (4,), (128,), {1: line}, 1e-5),
        "stencil_shared": Case([g, zeros(g), I32(40)], (3, 3), (16, 16), {1: cross}, 1e-5),
        "convolution_constant": Case([x, zeros(x), I32(500)], (4,), (128,), {1: curve.astype(F)}, 1e-5),
    }


def _transposes() -> dict[str, Case]:
    x, h, s = normal("t", 50, 70), normal("h", 33, 21, dtype=H), normal("s", 64, 64)
    y, z = np.ascontiguousarray(x.T), np.ascontiguousarray(h.T)
    return {
        "transpose_padded": Case([x, zeros(y), I32(50), I32(70)], (3, 2), (32, 8), {1: y}),
        "transpose_half": Case([h, zeros(z), I32(33), I32(21)], (22,), (32,), {1: z}),
        "transpose_swizzled": Case([s, zeros(s), I32(64)], (2, 2), (32, 8), {1: np.ascontiguousarray(s.T)}),
    }


def _products() -> dict[str, Case]:
    out: dict[str, Case] = {}
    for name, n, grid, block in (
        ("matmul_tiled", 37, (3, 3), (16, 16)),
        ("matmul_double_buffer", 48, (3, 3), (16, 16)),
        ("matmul_vector", 32, (1, 1), (8, 8)),
    ):
        a, b = normal(name, n, n), normal(name + "b", n, n)
        out[name] = Case([a, b, zeros(a), I32(n)], grid, block, {2: a @ b}, 1e-4)
    for name, dtype in (("mma_f16", H), ("mma_bf16", BF), ("mma_tf32", F)):
        a, b = normal(name, 16, 64).astype(dtype), normal(name + "b", 8, 64).astype(dtype)
        y = a.astype(np.float64) @ b.astype(np.float64).T
        out[name] = Case([a, b, np.zeros((16, 8), F)], (1,), (32,), {2: y.astype(F)}, 3e-2 if dtype is F else 1e-4)
    a8, b8 = whole("mma_int8", 16, 64).astype(np.int8), whole("b8", 8, 64).astype(np.int8)
    out["mma_int8"] = Case([a8, b8, np.zeros((16, 8), I32)], (1,), (32,), {2: a8.astype(I32) @ b8.astype(I32).T})
    wa, wb = normal("wa", 32, 32, dtype=H), normal("wb", 32, 32, dtype=H)
    y = wa.astype(F) @ wb.astype(F)
    out["wmma_f16"] = Case([wa, wb, zeros(y), I32(32)], (1,), (128,), {2: y}, 1e-3)
    return out


def _rows() -> dict[str, Case]:
    def softmax(v: Array) -> Array:
        e = np.exp(v.astype(np.float64) - v.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).astype(F)

    a, b = normal("softmax", 10, 128), normal("online", 13, 50)
    x, gain, bias = normal("norm", 3, 200, dtype=H), normal("gain", 200), normal("bias", 200)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    r = normal("rms", 2, 96).astype(BF)
    rw = r.astype(np.float64)
    rms = (rw / np.sqrt((rw * rw).mean(-1, keepdims=True) + 1e-6)).astype(BF)
    return {
        "softmax_shuffle": Case([a, zeros(a), I32(10)], (3,), (128,), {1: softmax(a)}, 1e-5),
        "softmax_online": Case([b, zeros(b), I32(13), I32(50)], (2,), (128,), {1: softmax(b)}, 1e-5),
        "layernorm": Case(
            [x, gain, bias, zeros(x), I32(200)], (3,), (128,), {3: (scaled * gain + bias).astype(H)}, 1e-2
        ),
        "rmsnorm_bf16": Case([r, zeros(r), I32(48)], (2,), (32,), {1: rms}, 3e-2),
    }


def _orders() -> dict[str, Case]:
    x, w, lists8 = whole("sort", 512), whole("warp", 96), whole("local", 64, 8)
    c = whole("compact", 1000)
    kept = c[c > 0]
    full = np.concatenate([kept, np.zeros(c.size - kept.size, I32)])
    count = np.array([kept.size], I32)
    lists, queries = np.sort(whole("list", 100)), whole("query", 150)
    found = np.searchsorted(lists, queries).astype(I32)
    return {
        "sort_bitonic": Case([x, zeros(x)], (2,), (256,), {1: np.sort(x.reshape(2, 256)).reshape(-1)}),
        "sort_warp": Case([w, zeros(w)], (3,), (32,), {1: np.sort(w.reshape(3, 32)).reshape(-1)}),
        "local_array": Case([lists8, zeros(lists8)], (1,), (64,), {1: np.sort(lists8, 1)}),
        "compact_ballot": Case([c, zeros(c), np.zeros(1, I32), I32(1000)], (1,), (256,), {1: full, 2: count}),
        "compact_atomic": Case(
            [c, zeros(c), np.zeros(1, I32), I32(1000)], (8,), (128,), {1: np.sort(full), 2: count}, arrange={1: np.sort}
        ),
        "binary_search": Case([lists, queries, zeros(queries), I32(100), I32(150)], (3,), (64,), {2: found}),
    }


def _sparse_and_others() -> dict[str, Case]:
    dense = normal("csr", 70, 90) * (rng("mask").random((70, 90)) < 0.2)
    rows, cols = np.nonzero(dense)
    start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=70))]).astype(I32)
    x = normal("vector", 90)
    csr = [start, cols.astype(I32), dense[rows, cols].astype(F), x, np.zeros(70, F), I32(70)]
    named = normal("named", 5, 32)
    tiles = normal("tiles", 2, 5, 64, 4)
    own = normal("own", 128)
    gx, gy = normal("gx", 1000), normal("gy", 1000)
    table, index = normal("table", 20, 64, dtype=H), whole("index", 9, low=0, high=20)
    places = np.arange(128) ^ 31
    return {
        "csr_scalar": Case(csr, (3,), (32,), {4: (dense @ x).astype(F)}, 1e-4),
        "csr_vector": Case(csr, (18,), (128,), {4: (dense @ x).astype(F)}, 1e-4),
        "named_barriers": Case([named, zeros(named), I32(5)], (1,), (64,), {1: 2 * named[:, ::-1]}),
        "async_three_stages": Case(
            [tiles, np.zeros((2, 64, 4), F), I32(5)], (2,), (64,), {1: tiles.sum(1)[:, ::-1]}, 1e-5
        ),
        "async_own": Case([own, zeros(own)], (1,), (128,), {1: own[places]}),
        "spin_lock": Case(
            [np.zeros(1, I32), np.zeros(1, I32), np.zeros(6, I32)],
            (6,),
            (32,),
            {1: np.array([6], I32), 2: np.ones(6, I32)},
        ),
        "grid_stride": Case([F(3), gx, gy, I32(1000)], (3,), (64,), {2: 3 * gx + gy}, 1e-5),
        "gather_rows": Case([index, table, np.zeros((9, 64), H), I32(16)], (9,), (32,), {2: table[index]}),
    }  # fmt: skip


def _mirrored(rows: Array) -> Array:
    """Rows folded into one, each of them reversed."""
    total = np.zeros(rows.shape[1], np.int64)
    for row in rows:
        total = total * 3 + row[::-1]
    return total.astype(I32)


def _waiting() -> dict[str, Case]:
    """Threads that wait for one another by other means than a barrier of the block."""
    phases, stages = whole("phases", 6, 128), whole("stages", 8, 32)
    x, lanes, keys = whole("grid barrier", 1024), whole("apart", 32), whole("keys", 128)
    none, one = np.zeros(1, I32), np.ones(1, I32)
    after = np.array([sum(range(b, 48)) for b in range(48)], I32)
    apart = [
        sum(lanes[t - 1] * r if t & 1 else (lanes[t + 1] + r) * 3 for r in range(4)) if t < 20 else 0 for t in range(32)
    ]
    groups = [
        row[(row & 3) == (v & 3)].sum() + 10000 * (row[(row & 3) == (v & 3)] > 90).any()
        for row in keys.reshape(4, 32)
        for v in row
    ]
    numbers = whole("recursive", 32, 40)
    return {
        "mbarrier_phases": Case([phases, np.zeros(128, I32)], (1,), (128,), {1: _mirrored(phases)}),
        "mbarrier_stages": Case([stages, np.zeros(32, I32), I32(8)], (1,), (64,), {1: _mirrored(stages)}),
        "lock_in_warp": Case([none, none], (3,), (64,), {0: none, 1: 192 * one}),
        "grid_barrier": Case(
            [x, zeros(x), zeros(x), none.view(np.uint32)], (8,), (128,), {2: np.roll(2 * x, -3 * 128) + 3}
        ),
        "chain_of_blocks": Case([np.zeros(48, I32), np.zeros(48, I32), np.zeros(48, I32)], (48,), (64,), {2: after}),
        "chain_of_lanes": Case([np.zeros(32, I32)], (1,), (32,), {0: np.arange(33, 1, -1, dtype=I32)}),
        "warp_apart": Case([lanes, zeros(lanes), I32(20)], (1,), (32,), {1: np.array(apart, I32)}),
        "recursive_sort": Case([numbers], (1,), (32,), {0: np.sort(numbers, 1)}),
        "sums_by_key": Case([keys, zeros(keys)], (2,), (64,), {1: np.array(groups, I32)}),
    }


def _signed(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _pointers() -> dict[str, Case]:
    """Lanes of one access in different places, and what is called through pointers."""
    n, t = 96, np.arange(96)
    x, y, z = (whole(name, n).astype(F) for name in ("places", "of", "lanes"))
    local = np.choose(t & 3, [t + 1, t + 2, np.full(n, 3), np.full(n, 4)])
    seen = np.choose(t % 5, [x, y, t // 2, local, z]).astype(F)
    after = seen + 1 + t // 2 + (t % 5 == 2) + local + (t % 5 == 3)
    v, w = whole("vectors", n, 4), whole("in buffers", n, 4)
    rows = np.choose((t % 3)[:, None], [v, w, v + np.array([1, 0, 0, 0])]) * [1, 2, 1, 1]
    sums = [int((t + 1)[t % 3 == k].sum()) for k in range(3)]
    chain = [(3**m - 1) // 2 % 2**32 for m in (48, 24, 24)]
    pairs = [np.array([a, b], np.uint32) for a, b in zip(sums, chain, strict=True)]
    full = np.arange(128)
    a, b = np.where(full % 2, -full, full * 7)[:n], np.where(full % 2, full * 7, -full)[:n]
    chosen = np.choose(t & 3, [a[1 + t // 2], b[2 + t // 2], b[t // 2], a[t // 2]])
    answers = np.choose(t % 3, [chosen + b, chosen * b, chosen - b])
    two = np.zeros(2, np.uint32)
    places = [x, y, z, zeros(x), zeros(x)]
    return {
        "lanes_in_buffers": Case(places, (1,), (n,), {3: seen, 4: after.astype(F)}, scratch=(0, 1, 2)),
        "vectors_in_buffers": Case([v, w, zeros(v)], (1,), (n,), {2: rows.astype(I32)}, scratch=(0, 1)),
        "atomics_in_spaces": Case([two, two, two], (1,), (n,), dict(enumerate(pairs))),
        "pointers_in_constant": Case([np.zeros(n, I32)], (1,), (n,), {0: answers.astype(I32)}),
    }


def _calls() -> dict[str, Case]:
    numbers = whole("narrow", 64, low=-300, high=300)

    def narrow(i: int, v: int) -> int:
        byte, low = _signed(v, 8), v % 256
        total = byte * 3 + low * 5 + _signed(v, 16) * 7 + (v & 1) * 11 + v % 65536 * 13 + v + byte * 17
        total += _signed(i * 1000, 16) + (i % 3 == 0) * 5 + (i + v >> 32) * 19
        return total + _signed(byte - i, 8) + (low + i) % 256 + _signed(_signed(v, 16) * i, 16) + 1 - (v & 1)

    def deep(a: list[int], c: int, n: int) -> int:
        if n == 0:
            return a[c & 3]
        a = [value + n * (j == n % 8) for j, value in enumerate(a)]
        return deep(a, c + 1, n - 1) + a[n % 7]

    def chosen(i: int) -> int:
        total = i
        for v in (int(numbers[(i + j) % 64]) for j in range(4)):
            total = total + v if i % 3 == 0 else (total - v) * (i % 5)
        return total

    tables = [[j * i for j in range(8)] for i in range(64)]
    picked = [7 + i % 8 * i + _signed(i % 5 - i, 8) for i in range(64)]
    deeper = [deep(tables[i], _signed(-i, 8), i % 6) for i in range(64)]
    expected = [narrow(i, int(v)) for i, v in enumerate(numbers)]
    return {
        "calls_narrow": Case([numbers, zeros(numbers)], (1,), (64,), {1: np.array(expected, I32)}),
        "calls_virtual": Case(
            [numbers, zeros(numbers)], (1,), (64,), {1: np.array([chosen(i) for i in range(64)], I32)}
        ),
        "calls_indexed": Case([np.zeros(128, I32)], (1,), (64,), {0: np.array(picked + deeper, I32)}),
    }


def _left_early(i: int, x: int) -> int:
    s = 0
    for j in range(i % 7 + 1):
        if x % (j + 2) == 0:
            if j == 3:
                return -100 - s
            s += j * x
            continue
        m = j
        while True:
            s, m = s + 1, m - 2
            if m <= 0 or s % 5 == 0:
                break
        if s > 40:
            return s
    return s + 1000


def _warps() -> dict[str, Case]:
    a, t = whole("warps", 256), np.arange(256)
    left = [_left_early(i, int(v) + 100) for i, v in enumerate(a)]
    turns = np.repeat(((np.abs(a) % 23 + 2) // 3 + 1).reshape(8, 32).max(1), 32) + 300 + 10000 * (t & 3)
    wide = rng("wide").integers(-(2**60), 2**60, 32)
    double, i = normal("wide doubles", 32, dtype=np.float64), np.arange(32)
    long = wide[i ^ 5] + wide[np.where(i % 8, i - 1, i)]
    moved = double[np.where(i < 29, i + 3, i)] + double[i ^ 1]
    halves = np.stack([(i ^ 16) + 7, -(i ^ 16) - 7], 1).astype(H)
    few = whole("halves", 64)
    lane, base = np.arange(64) & 31, np.arange(64) & 32
    met = np.where(lane < 16, few[base + ((lane + 3 & 15) ^ 1)], 2 * few[base + 31 - (lane + 5 & 15)])
    keys = rng("radix").integers(0, 2**32, 256, dtype=np.uint64).astype(np.uint32)
    x = whole("one word", 1280)
    one_word = [x, zeros(x), np.zeros(20, np.uint64), np.zeros(1, I32)]
    wide_args = [wide, double, zeros(wide), zeros(double), zeros(halves)]
    return {
        "nested_divergence": Case([a, zeros(a)], (1,), (256,), {1: np.array(left, I32)}),
        "vote_loops": Case([a, zeros(a)], (1,), (256,), {1: turns.astype(I32)}),
        "shuffle_wide": Case(wide_args, (1,), (32,), {2: long, 3: moved, 4: halves}),
        "syncwarp_halves": Case([few, zeros(few)], (1,), (64,), {1: met}),
        "sort_radix": Case([keys], (1,), (256,), {0: np.sort(keys)}),
        "scan_one_word": Case(one_word, (20,), (64,), {1: np.cumsum(x).astype(I32)}, scratch=(2, 3)),
    }


def _words() -> dict[str, Case]:
    """Copies, inline PTX, bits."""
    tiles, some = normal("tiles", 6, 128), normal("some", 80)
    padded = np.concatenate([some, np.zeros(48, F)]).reshape(32, 4)[::-1].copy()
    q = rng("scopes").integers(0, 2**32, (32, 4), dtype=np.int64)
    mixed = np.stack(
        [q[:, 0], q[:, 1], q[:, 3] >> 16 | (q[:, 2] & 0xFFFF) << 16, q[:, 2] >> 16 | (q[:, 3] & 0xFFFF) << 16], 1
    )
    low = np.where(q[:, 1] > q[:, 0], q[:, 1] + 5, q[:, 1] - 5) ^ (q[:, 0] + 77)
    signal = normal("signal", 64, 2)
    spectrum = np.fft.fft(signal.astype(np.float64).view(np.complex128), axis=0)
    a, b = rng("mma a").integers(0, 256, (16, 32)).astype(U8), rng("mma b").integers(-128, 128, (32, 8)).astype(np.int8)
    c = rng("mma c").choice([2**31 - 5, 5 - 2**31, 0], (16, 8))
    clamped = np.clip(a.astype(np.int64) @ b + c, -(2**31), 2**31 - 1).astype(I32)
    upper = (a[:8, :16].astype(np.int64) @ b[:16] + c[:8]).astype(np.uint64).astype(np.uint32).view(I32)
    x = normal("bits", 128)
    bits = x.view(np.uint32).astype(np.int64) ^ 1 << 23
    n = np.arange(128)
    parts = (bits >> 8 * (n & 3) & 255) + ((bits ^ 0x11 << 8 * (n + 1 & 3)) >> 3)
    fields = [_signed(i, 5) + i * 7 % 2048 + (_signed(i << 33, 40) >> 30) + (i & 1) - i for i in range(128)]
    v = rng("extremes").integers(-(2**62), 2**62, 128)
    w = v.view(np.uint64)
    ends = [
        v.min(),
        v.max(),
        w.min().view(np.int64),
        w.max().view(np.int64),
        np.bitwise_and.reduce(v),
        v[:64].min(),
        v[64:].min(),
    ]
    start = np.array([2**63 - 1, -(2**63), -1, 0, -1, 0, 0])
    return {
        "copies_by_one_warp": Case([tiles, np.zeros(128, F), I32(6)], (1,), (160,), {1: tiles.sum(0)}, 1e-5),
        "copy_ignored": Case([some, np.ones((32, 4), F), I32(20)], (1,), (32,), {1: padded}),
        "scopes_of_ptx": Case(
            [q.astype(np.uint32), np.zeros((32, 4), np.uint32), np.zeros(32, np.uint32)], (1,), (32,),
            {1: mixed.astype(np.uint32), 2: low.astype(np.uint32)},
        ),
        "transform_fourier": Case([signal, zeros(signal)], (1,), (64,), {1: spectrum.view(np.float64)}, 1e-4),
        "mma_saturated": Case([a, b, c.astype(I32), zeros(clamped), zeros(upper)], (1,), (32,), {3: clamped, 4: upper}),
        "bits_in_unions": Case(
            [x, np.zeros(256, I32), np.zeros(128 * 24, U8)], (1,), (128,),
            {1: np.concatenate([parts, fields]).astype(np.uint64).astype(np.uint32).view(I32)}, scratch=(2,),
        ),
        "extremes_64": Case([v, start], (2,), (64,), {1: np.array(ends)}),
    }  # fmt: skip


CASES: dict[str, Case] = {
    **memory_orders(),
    **_reductions(), **_scans(), **_histograms(), **_neighbours(), **_transposes(), **_products(), **_rows(),
    **_orders(), **_sparse_and_others(), **_waiting(), **_pointers(), **_calls(), **_warps(), **_words(),
}  # fmt: skip


def compare(case: Case, outputs: dict[int, Array]) -> None:
    for index, expected in case.expected.items():
        got = case.arrange.get(index, lambda a: a)(outputs[index])
        difference = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()
        assert difference <= case.tolerance, f"argument {index} differs by {difference}"
