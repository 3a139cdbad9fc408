"""The layout checker's verdict beside what the simulator counts and faults in a small kernel made from the layout."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from long_cases import long

from evo import sim
from evo.analysis.tiles import Proof, by_formula, prove
from evo.cuda.compile import Binary, Cache, compile_source
from evo.spec.element_types import DTYPES
from evo.spec.expr import parse

TYPES = {"uint8": "unsigned char", "float16": "unsigned short", "float32": "unsigned", "float64": "unsigned long long"}
KERNEL = """\
typedef {type} T;
__device__ __forceinline__ int place(int row, int col) {{ return {place}; }}
// Every element its own number, by the layout; then as they are read back, one by one or 16 bytes at a time.
extern "C" __global__ void store(unsigned* seen) {{
  extern __shared__ __align__(16) T tile[];
  for (int i = 0; i < {rows} * {cols}; ++i) tile[place(i / {cols}, i % {cols})] = (T)i;
  for (int i = 0; i < {rows} * {cols}; ++i) seen[i] = (unsigned)tile[place(i / {cols}, i % {cols})];
}}
extern "C" __global__ void chunks(unsigned* seen) {{
  extern __shared__ __align__(16) T tile[];
  for (int i = 0; i < {rows} * {cols}; ++i) tile[place(i / {cols}, i % {cols})] = (T)i;
  for (int row = 0; row < {rows}; ++row)
    for (int col = 0; col + {per} <= {cols}; col += {per}) {{
      const uint4 words = *reinterpret_cast<const uint4*>(&tile[place(row, col)]);
      T parts[{per}];
      memcpy(parts, &words, 16);
      for (int e = 0; e < {per}; ++e) seen[row * {cols} + col + e] = (unsigned)parts[e];
    }}
}}
"""
PHASE = """\
// One phase of an access by each block: as many lanes as take part, each with a piece of its own.
extern "C" __global__ void {access}(const int* rows, const int* cols, const int* lanes, unsigned* out) {{
  extern __shared__ __align__(16) unsigned char bytes[];
  for (int i = threadIdx.x; i < {room}; i += 32) bytes[i] = (unsigned char)i;
  __syncthreads();
  const int at = blockIdx.x * 32 + threadIdx.x;
  if (threadIdx.x >= lanes[blockIdx.x]) return;
  const unsigned char* from = bytes + place(rows[at], cols[at]) * (int)sizeof(T);
  const {read} found = *reinterpret_cast<const {read}*>(from);
  out[at] = (unsigned)found{first};
}}
"""
READS = {"row": "T", "column": "T", "fragment": "unsigned", "vector": "uint4"}


@dataclass(frozen=True)
class Drawn:
    """A layout as its line says it, and the proof of it."""

    rows: int
    cols: int
    dtype: str
    formula: str
    proof: Proof


def drawn(rng: random.Random) -> Drawn:
    """Rows with a pad, XOR with any mask, shift and piece, additive swizzles, columns first; some of them wrong."""
    dtype = rng.choice(["float16", "float16", "float32", "uint8", "float64"])
    rows, cols = rng.choice([8, 16, 32]), rng.choice([8, 16, 32, 40])
    pad, piece, shift, mask = (rng.choice(some) for some in ((0, 0, 1, 2, 4, 8), (1, 2, 4, 8), (0, 1, 2), (1, 3, 5, 7)))
    key = f"(row >> {shift} & {mask})"
    formula = rng.choice(
        [
            f"row * {cols + pad} + col",
            f"row * {cols + pad} + (col // {piece} ^ {key}) * {piece} + col % {piece}",
            f"row * {cols} + (col + {piece} * row) % {cols}",
            f"row * {cols} + col + {piece} * (row % 8)",
            f"col * {rows + pad} + row",
        ]
    )
    reads = tuple(read for read in READS if read != "fragment" or DTYPES[dtype] <= 4)
    layout = by_formula("tile", rows, cols, dtype, parse(formula), rows * (cols + pad))
    return Drawn(rows, cols, dtype, formula, prove(layout, reads))


def module_of(one: Drawn) -> sim.Module:
    size = DTYPES[one.dtype]
    place = one.formula.replace("//", "/")
    text = KERNEL.format(type=TYPES[one.dtype], place=place, rows=one.rows, cols=one.cols, per=16 // size)
    for access, read in READS.items():
        first = ".x" if read == "uint4" else ""
        text += PHASE.format(access=access, read=read, first=first, room=one.proof.allocated * size)
    built = compile_source(text, name="k.cu", macros={}, cache=Cache(None))
    assert isinstance(built, Binary), built
    return sim.load(built.ptx)


def numbers(one: Drawn, module: sim.Module, kernel: str) -> tuple[np.ndarray, set[str]]:
    """What a kernel read back for each element, and the kinds of its faults."""
    memory = sim.Memory()
    count = one.rows * one.cols
    seen = memory.allocate(4 * count, "seen")
    memory.write(seen, np.full(count, 2**31, np.uint32))
    room = one.proof.allocated * DTYPES[one.dtype]
    result = module.launch(kernel, grid=(1,), block=(1,), args=[seen], memory=memory, shared_bytes=room)
    return memory.read(seen, np.uint32, count), {str(fault.kind) for fault in result.faults}


def phases(one: Drawn, read: str) -> list[list[tuple[int, int]]]:
    """The elements at which the lanes of one phase begin, for every phase of an access to the whole tile."""
    size, rows, cols = DTYPES[one.dtype], range(one.rows), range(one.cols)
    if read == "row":
        return [[(row, col) for col in cols[at : at + 32]] for row in rows for at in cols[::32]]
    if read == "column":
        return [[(row, col) for row in rows] for col in cols]
    if read == "vector":
        starts = [(row, col) for row in rows for col in cols[:: 16 // size] if col + 16 // size <= one.cols]
        return [starts[at : at + 8] for at in range(0, len(starts), 8)]
    pair = 4 // size
    return [
        [(row + lane // 4, col + lane % 4 * pair) for lane in range(32)]
        for row in rows[::8]
        for col in cols[:: 4 * pair]
        if col + 4 * pair <= one.cols
    ]


def ways(one: Drawn, module: sim.Module, read: str) -> int:
    """The wavefronts of the slowest phase, by the simulator's counters."""
    slowest = 0
    room = one.proof.allocated * DTYPES[one.dtype]
    fill = None
    for lanes in [[], *phases(one, read)]:
        memory = sim.Memory()
        places = lanes + [(0, 0)] * (32 - len(lanes))
        tables = [np.array(row, np.int32) for row in ([r for r, _ in places], [c for _, c in places], [len(lanes)])]
        args = []
        for name, table in zip(("rows", "cols", "lanes"), tables, strict=True):
            args.append(memory.allocate(table.nbytes, name))
            memory.write(args[-1], table)
        args.append(memory.allocate(128, "out"))
        result = module.launch(read, grid=(1,), block=(32,), args=args, memory=memory, shared_bytes=room)
        assert not result.faults, result.faults[0].message
        waves = int(result.counters.totals()["shared_wavefronts"])
        fill = waves if fill is None else fill
        slowest = max(slowest, waves - fill)
    return slowest


def agree(seed: int) -> None:
    one = drawn(random.Random(seed))
    proof, values, per = one.proof, 256 ** min(DTYPES[one.dtype], 2), 16 // DTYPES[one.dtype]
    where = f"seed {seed}: {one.rows} x {one.cols} {one.dtype} at {one.formula}: {proof.problems}"
    module = module_of(one)
    expected = np.arange(one.rows * one.cols) % values
    seen, faults = numbers(one, module, "store")
    assert bool(faults) == bool(proof.out_of_bounds), where
    if faults:
        return
    lost = int((seen != expected).sum())
    assert lost == proof.lost if expected.size <= values else bool(lost) == bool(proof.lost), where
    seen, faults = numbers(one, module, "chunks")
    wrong = (seen != expected).reshape(one.rows, one.cols)[:, : one.cols // per * per]
    if not proof.lost:
        assert (bool(faults) or bool(wrong.any())) == bool(proof.misaligned), where
    for read, most in proof.ways.items():
        if (read in ("vector", "fragment") and proof.misaligned) or not phases(one, read):
            continue  # such an access may be a fault there, or the tile is too narrow for it
        assert ways(one, module, read) == most, f"{where}: {read}"


@pytest.mark.parametrize("seed", [0, *(long(seed) for seed in (1, 2))])
def test_random_layouts_are_judged_as_the_simulator_counts(seed: int) -> None:
    agree(seed)


@pytest.mark.long
def test_a_hundred_random_layouts() -> None:
    for seed in range(3, 103):
        agree(seed)
