"""Counters against access patterns worked out by hand, and the shape of the estimate."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import module, run

from evo import sim
from evo.sim.launch_work import work_of
from evo.sim.timing_model import modelled_us
from evo.spec.chips import CHIPS

F = np.float32


def count(
    body: str, *, params: str = "float* a, const float* b", block: int = 32, size: int = 1 << 16, offset: int = 0
) -> dict[str, int]:
    source = f'extern "C" __global__ void k({params}) {{ int t = threadIdx.x; {body} }}'
    memory = sim.Memory()
    args = []
    for name in "ab":
        buffer = memory.allocate(4 * size, name, offset=offset, fill=b"\0")
        args.append(buffer)
    result = module(source).launch("k", grid=(1,), block=(block,), args=args, memory=memory)
    assert result.faults == ()
    return result.counters.totals()


# body, sectors, lines of the loads alone (one store of one lane adds a sector and a line)
GLOBAL = [
    ("adjacent words", "float x = b[t];", 4, 1),
    ("adjacent, shifted by one word", "float x = b[t + 1];", 5, 2),
    ("one word for all", "float x = b[7];", 1, 1),
    ("one word for all, not provably", "float x = b[t / 32 + 7];", 1, 1),
    ("every other word", "float x = b[2 * t];", 8, 2),
    ("stride of a sector", "float x = b[8 * t];", 32, 8),
    ("stride of a line", "float x = b[32 * t];", 32, 32),
    ("reversed", "float x = b[31 - t];", 4, 1),
    ("two halves far apart", "float x = b[(t & 15) + (t / 16) * 1024];", 4, 2),
    ("16 bytes per lane", "float x = ((const float4*)b)[t].x + ((const float4*)b)[t].w;", 16, 4),
    ("8 bytes per lane", "float2 v = ((const float2*)b)[t]; float x = v.x + v.y;", 8, 2),
    ("2 bytes per lane", "float x = ((const unsigned short*)b)[t];", 2, 1),
    ("half the lanes", "float x = t < 16 ? b[t] : 0;", 2, 1),
    ("a column of 64-byte rows", "float x = b[16 * t];", 32, 16),
]


@pytest.mark.parametrize(("body", "sectors", "lines"), [g[1:] for g in GLOBAL], ids=[g[0] for g in GLOBAL])
def test_global_patterns(body: str, sectors: int, lines: int) -> None:
    got = count(f"{body} if (x == 3) a[0] = x;")
    assert (got["global_sectors"], got["global_lines"], got["global_requests"]) == (sectors, lines, 1)


BETWEEN_BUFFERS = """extern "C" __global__ void k(const float* a, const float* b, float* c, float* d, int* e, int* f) {
  int t = threadIdx.x;
  float x = (t & 1 ? a : b)[t];
  (t & 1 ? c : d)[t] = x;
  atomicAdd((t & 1 ? e : f) + t, t);
}"""


def test_lanes_of_one_access_in_several_buffers() -> None:
    """Each buffer has a map of its own of what was touched; a lane must never be counted in that of another lane."""
    t = np.arange(32)
    x, i = t.astype(F), t.astype(np.int32)
    arrays = [x, -x, 0 * x, 0 * x, 0 * i, 0 * i]
    for undefined in ((), (2, 3)):
        out, result = run(BETWEEN_BUFFERS, "k", arrays, undefined=undefined, readonly=(0, 1))
        assert result.faults == ()
        odd = t % 2 == 1
        assert (out[2][odd] == x[odd]).all()
        assert (out[3][~odd] == -x[~odd]).all()
        assert (out[4] == i * odd).all()
        assert (out[5] == i * ~odd).all()
        totals = result.counters.totals()
        assert totals["global_sectors"] == 3 * 8
        assert totals["global_lines"] == 3 * 2
        assert totals["unique_read_bytes"] == 2 * 128
        assert totals["unique_write_bytes"] == 4 * 128


def test_offset_base_costs_a_sector() -> None:
    assert count("float x = b[t]; if (x == 1.25f) a[0] = x;", offset=16)["global_sectors"] == 5


SHARED = [
    ("adjacent", "s[t]", 1, 1),
    ("broadcast", "s[5]", 1, 1),
    ("stride 2", "s[2 * t]", 2, 1),
    ("stride 4", "s[4 * t]", 4, 1),
    ("stride 32", "s[32 * t]", 32, 1),
    ("stride 33", "s[33 * t]", 1, 1),
    ("reversed", "s[31 - t]", 1, 1),
    ("pairs share a word", "s[t / 2]", 1, 1),
    ("two words per bank", "s[(t & 15) + 32 * (t / 16) ]", 2, 1),
    ("8 bytes per lane", "((float2*)s)[t].x + ((float2*)s)[t].y", 2, 2),
    ("16 bytes per lane", "((float4*)s)[t].x + ((float4*)s)[t].w", 4, 4),
    ("16 bytes, stride 128", "((float4*)s)[8 * t].x + ((float4*)s)[8 * t].w", 32, 4),
]


@pytest.mark.parametrize(("read", "waves", "ideal"), [s[1:] for s in SHARED], ids=[s[0] for s in SHARED])
def test_shared_patterns(read: str, waves: int, ideal: int) -> None:
    setup = "__shared__ __align__(16) float s[1088]; for (int i = t; i < 1088; i += 32) s[i] = b[i]; __syncthreads(); "
    got = count(setup + f"a[t] = {read};")
    filling = 1088 // 32
    assert got["shared_wavefronts"] - filling == waves
    assert got["shared_wavefronts_ideal"] - filling == ideal
    assert got["bank_conflicts"] == waves - ideal


# A thread block of 32 lanes; `s` is 32 rows of 16 words, filled row by row; `a` is the output and `b` the input.
# Each entry: body, then the counts that the access alone adds, worked out by hand beside it.
PATTERNS: list[tuple[str, str, dict[str, int]]] = [
    # 8 bytes a lane: 16 lanes fill the 32 banks once, so 2 wavefronts; lanes on the same 8 bytes share them.
    (
        "64-bit, adjacent",
        "float2 v = ((float2*)s)[t]; a[t] = v.x + v.y;",
        {"shared_wavefronts": 2, "bank_conflicts": 0},
    ),
    # 16 bytes apart: 16 lanes take words 4t and 4t+1, 8 lanes go round the banks, so 2 per half, 4 in all.
    (
        "64-bit, stride 16 bytes",
        "float2 v = ((float2*)s)[2 * t]; a[t] = v.x + v.y;",
        {"shared_wavefronts": 4, "bank_conflicts": 2},
    ),
    # 128 bytes apart: all 16 lanes of a half are in banks 0 and 1: 16 per half.
    (
        "64-bit, one column",
        "float2 v = ((float2*)s)[16 * (t & 7)]; a[t] = v.x + v.y;",
        {"shared_wavefronts": 16, "bank_conflicts": 14},
    ),
    # 16 bytes a lane: 8 lanes fill the banks: 4 wavefronts.
    (
        "128-bit, adjacent",
        "float4 v = ((float4*)s)[t]; a[t] = v.x + v.y + v.z + v.w;",
        {"shared_wavefronts": 4, "bank_conflicts": 0},
    ),
    # 8 rows of 64 bytes: lanes 0 and 2 of each 8 are 128 bytes apart: 8 lanes on 2 groups of 4 banks, 4 per 8 lanes.
    (
        "128-bit, rows of 64 bytes",
        "float4 v = ((float4*)s)[4 * t]; a[t] = v.x + v.y + v.z + v.w;",
        {"shared_wavefronts": 16, "bank_conflicts": 12},
    ),
    # All lanes read the same 16 bytes: every 8 lanes a wavefront, as in hardware.
    (
        "128-bit, broadcast",
        "float4 v = ((float4*)s)[t / 32]; a[t] = v.x + v.y + v.z + v.w;",
        {"shared_wavefronts": 4, "bank_conflicts": 0},
    ),
    # Four 8x8 matrices, each 8 rows of 16 bytes side by side: 128 bytes, 1 wavefront each.
    ("ldmatrix, dense rows", "LDM(s + 4 * t)", {"shared_wavefronts": 4, "bank_conflicts": 0}),
    # Rows 64 bytes apart: 8 rows on 2 groups of 4 banks: 4 wavefronts a matrix.
    ("ldmatrix, rows of 64 bytes", "LDM(s + 16 * t)", {"shared_wavefronts": 16, "bank_conflicts": 12}),
    # Rows of 80 bytes (16 words padded by 4): 5 is odd, so 8 rows meet 8 groups of 4 banks: 1 a matrix.
    (
        "ldmatrix, padded rows",
        "LDM(s + 20 * (t & 7) + 160 * (t / 8 & 1))",
        {"shared_wavefronts": 4, "bank_conflicts": 0},
    ),
    # 32 x 16 bytes from one place to another: 16 sectors in 4 lines, 4 shared wavefronts.
    (
        "cp.async, 16 bytes adjacent",
        "COPY(s + 4 * t, b + 4 * t, 16)",
        {"global_sectors": 16, "global_lines": 4, "shared_wavefronts": 4, "bank_conflicts": 0},
    ),
    # 32 x 4 bytes, a line apart: a sector and a line each; the 32 words land side by side.
    (
        "cp.async, 4 bytes a line apart",
        "COPY4(s + t, b + 32 * t)",
        {"global_sectors": 32, "global_lines": 32, "shared_wavefronts": 1, "bank_conflicts": 0},
    ),
    # To rows of 64 bytes: 8 lanes on 2 groups of 4 banks: 4 per 8 lanes.
    (
        "cp.async into rows of 64 bytes",
        "COPY(s + 16 * t, b + 4 * t, 16)",
        {"global_sectors": 16, "global_lines": 4, "shared_wavefronts": 16, "bank_conflicts": 12},
    ),
    (
        "atomics on one word",
        "atomicAdd((int*)a, t);",
        {"atomic_lanes": 32, "atomic_addresses": 1, "global_sectors": 1, "global_lines": 1},
    ),
    (
        "atomics side by side",
        "atomicAdd((int*)a + t, t);",
        {"atomic_lanes": 32, "atomic_addresses": 32, "global_sectors": 4, "global_lines": 1},
    ),
    # Eight bins, four lanes each; bins 4 words apart: two to a sector.
    (
        "atomics on eight bins",
        "atomicAdd((int*)a + 4 * (t & 7), t);",
        {"atomic_lanes": 32, "atomic_addresses": 8, "global_sectors": 4, "global_lines": 1},
    ),
    (
        "atomics by half the lanes",
        "if (t < 16) atomicAdd((int*)a + t / 8, t);",
        {"atomic_lanes": 16, "atomic_addresses": 2, "global_sectors": 1},
    ),
    # 16 bins 64 bytes apart: half of them in bank 0, half in bank 16.
    (
        "shared atomics, 16 bins",
        "atomicAdd((int*)s + 16 * (t & 15), t);",
        {"atomic_lanes": 32, "atomic_addresses": 16, "shared_wavefronts": 8, "bank_conflicts": 7},
    ),
    # A word of 32 lanes is a line of four sectors; the index is not known to the compiler.
    ("local, one word", "int q[8]; LOCAL a[t] = q[b[0] > 1 ? 3 : 0];", {"local_requests": 9, "local_sectors": 36}),
    # Lanes on two different words: two lines, each with the sectors of half the lanes in every group of 8.
    (
        "local, two words",
        "int q[8]; LOCAL a[t] = q[b[0] > 1 ? 3 : t & 1];",
        {"local_requests": 9, "local_sectors": 8 * 4 + 8},
    ),
    (
        "local, by eight lanes",
        "int q[8]; LOCAL if (t < 8) a[t] = q[b[0] > 1 ? 3 : 0];",
        {"local_requests": 9, "local_sectors": 8 * 4 + 1},
    ),
]
MACROS = """
#define LDM(p) unsigned x, y, z, w; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"((unsigned)__cvta_generic_to_shared(p))); a[t] = x + y + z + w;
#define COPY(to, from, n) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)); asm volatile("cp.async.wait_all;");
#define COPY4(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)); asm volatile("cp.async.wait_all;");
#define LOCAL _Pragma("unroll 1") for (int i = 0; i < 8; i++) q[i] = i;
"""
FILL = "for (int i = t; i < 512; i += 32) s[i] = 0;"


def patterns_text(bodies: list[str]) -> str:
    kernels = []
    for number, body in enumerate(bodies):
        head = f'extern "C" __global__ void k{number}(float* a, const float* b) {{ __shared__ __align__(16) float s[512]; int t = threadIdx.x; a += 128 * blockIdx.x;'
        kernels.append(f"{head}\n{FILL} __syncthreads();\n{body}\n}}")
    return MACROS + "\n".join(kernels)


def test_patterns_by_hand() -> None:
    text = patterns_text([body for _, body, _ in PATTERNS])
    loaded = module(text)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(FILL[:8])]
    wrong = []
    for index, (name, _, wanted) in enumerate(PATTERNS):
        found = []
        for threads in (2, 1):  # the first launch is split, since nothing is known of its work
            arrays = [np.zeros(1 << 12, F), np.zeros(1 << 12, F)]
            _, result = run(loaded, f"k{index}", arrays, grid=(4,), threads=threads)
            assert result.faults == (), name
            found.append((result.counters.totals(), result.counters.by_line()))
        assert found[0] == found[1], name
        # The line of the access, in which storing a result costs 4 sectors of its own.
        row = found[0][1][lines[index] + 1]
        got = {key: row.get(key, 0) / 4 for key in wanted}
        if "a[t] =" in text.splitlines()[lines[index]] and "global_sectors" in wanted:
            got["global_sectors"] -= 4
        if got != wanted:
            wrong.append((name, got, wanted))
    assert not wrong


def test_l1_keeps_lines_within_a_block() -> None:
    got = count("float x = 0; for (int i = 0; i < 16; i++) x += b[16 * t + i]; if (x == 1.25f) a[0] = x;")
    assert got["global_requests"] == 16
    assert got["l2_sectors"] == 64
    assert got["l1_hit_sectors"] == got["global_sectors"] - 64
    assert got["unique_read_bytes"] == 2048
    assert got["unique_write_bytes"] == 0


def test_instruction_counts_follow_divergence() -> None:
    source = 'extern "C" __global__ void k(float* a) { int t = threadIdx.x; float x = a[t]; for (int i = 0; i < t; i++) x = sqrtf(x + i); a[t] = x; }'
    _, result = run(source, "k", [np.ones(32, F)])
    totals = result.counters.totals()
    assert totals["sfu_instructions"] == 31
    assert totals["thread_instructions"] < 32 * totals["warp_instructions"]
    lines = result.counters.by_line()
    assert lines[1]["global_requests"] == 2


def test_counts_repeat_exactly() -> None:
    source = 'extern "C" __global__ void k(float* a) { __shared__ float s[256]; int t = threadIdx.x; s[(t * 7) & 255] = t; __syncthreads(); a[t] = s[t]; }'
    loaded = module(source)
    one, two = (run(loaded, "k", [np.zeros(256, F)], block=(256,), grid=(3,))[1] for _ in range(2))
    assert one.counters.totals() == two.counters.totals()
    assert one.counters.by_line() == two.counters.by_line()


def part(result: sim.LaunchResult, **more: Any) -> sim.LaunchCounts:
    options = {"grid": (58,), "block": (128,), "shared_bytes": 0, "registers": 32} | more
    return sim.LaunchCounts(
        counters=result.counters, blocks_run=result.blocks_run, blocks_total=result.blocks_total, **options
    )


def test_estimate_names_its_limiter_and_scales_with_blocks() -> None:
    source = 'extern "C" __global__ void k(const float* a, float* o) { int t = blockIdx.x * blockDim.x + threadIdx.x; float x = a[t]; for (int i = 0; i < 500; i++) x = __cosf(x); o[t] = x; }'
    size = 128 * 58 * 4
    times = []
    for grid in (58, 58 * 4):
        _, result = run(
            source, "k", [np.ones(size, F), np.ones(size, F)], grid=(grid,), block=(128,), options=("--use_fast_math",)
        )
        estimate = sim.estimate([part(result)], CHIPS["l4"])
        assert estimate.model_version == "sim-11"
        assert "H200" in estimate.calibration
        assert "not validated on l4" in estimate.calibration
        assert estimate.limiter in estimate.terms_us
        times.append(estimate.modelled_us)
    assert times[1] > times[0]
    again = sim.estimate([part(result)], CHIPS["l4"])
    assert again.modelled_us == times[1]


def test_estimate_of_a_sample_is_that_of_the_whole() -> None:
    source = 'extern "C" __global__ void k(const float* a, float* o) { int t = blockIdx.x * blockDim.x + threadIdx.x; o[t] = a[t] * 2; }'
    size = 128 * 580
    arrays = [np.ones(size, F), np.ones(size, F)]
    _, whole = run(source, "k", arrays, grid=(580,), block=(128,))
    _, some = run(source, "k", arrays, grid=(580,), block=(128,), blocks=range(0, 580, 20))
    left, right = (sim.estimate([part(r)], CHIPS["l4"]).modelled_us for r in (whole, some))
    assert left == pytest.approx(right, rel=1e-6)


def test_occupancy() -> None:
    chip = CHIPS["l4"]
    assert sim.occupancy(chip, 128, 32, 0) == 12
    assert sim.occupancy(chip, 128, 255, 0) == 2
    assert sim.occupancy(chip, 128, 32, 49_152) == 2
    assert sim.occupancy(chip, 1024, 64, 0) == 1
    assert sim.occupancy(chip, 32, 16, 0) == 24


def test_the_longest_chain_of_a_loop_is_counted_once_a_round() -> None:
    source = 'extern "C" __global__ void k(const int* a, int* o) { int at = threadIdx.x; for (int i = 0; i < ROUNDS; i++) at = a[at] & 31; o[threadIdx.x] = at; }'
    loads = []
    for rounds in (7, 70):
        _, result = run(
            source.replace("ROUNDS", f"{rounds} + (o == 0)"), "k", [np.zeros(64, np.int32)] * 2, block=(32,)
        )
        loads.append(work_of(part(result)).waits["l1"])
    assert loads[1] == pytest.approx(10 * loads[0], rel=0.3)


def test_cleared_buffers_cost_time() -> None:
    source = 'extern "C" __global__ void k(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] * 2; }'
    _, result = run(source, "k", [np.ones(128, F), np.ones(128, F)], block=(128,))
    plain = sim.estimate([part(result)], CHIPS["h200"])
    assert "not validated" not in plain.calibration
    small, large, two = (
        sim.estimate([part(result)], CHIPS["h200"], cleared=sizes).modelled_us
        for sizes in ((1 << 10,), (1 << 24,), (1 << 10, 1 << 10))
    )
    assert plain.modelled_us + 1 < small < two < large


def test_clearing_much_is_a_part_of_its_own_and_binds_nothing() -> None:
    """It stays whatever a kernel does, and a gain is shown by what bound the kernel."""
    source = 'extern "C" __global__ void k(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] * 2; }'
    _, result = run(source, "k", [np.ones(128, F), np.ones(128, F)], block=(128,))
    plain, cleared = (sim.estimate([part(result)], CHIPS["l4"], cleared=sizes) for sizes in ((), (1 << 24,)))
    assert cleared.terms_us["clear"] > 5 * plain.modelled_us
    assert (cleared.limiter, plain.terms_us["clear"]) == (plain.limiter, 0.0)
    launches = cleared.terms_us["launch"] - plain.terms_us["launch"]
    assert cleared.modelled_us == pytest.approx(plain.modelled_us + cleared.terms_us["clear"] + launches, rel=0.01)


def test_what_is_cleared_drives_inputs_out_of_l2() -> None:
    source = 'extern "C" __global__ void k(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] * 2; }'
    _, result = run(source, "k", [np.ones(128, F), np.ones(128, F)], block=(128,))
    far, near = (
        sim.estimate([part(result)], CHIPS["h200"], footprint_bytes=1 << 28, cleared=(size,)).terms_us["dram"]
        for size in (1 << 27, 1 << 20)
    )
    assert far > near == 0


def test_a_barrier_takes_longer_with_more_warps() -> None:
    source = 'extern "C" __global__ void k(float* o) { for (int i = 0; i < 64; ++i) { o[threadIdx.x] = i; __syncthreads(); } }'
    waits = []
    for threads in (32, 1024):
        _, result = run(source, "k", [np.ones(1024, F)], block=(threads,))
        with_barriers = replace(work_of(part(result)), threads=threads)
        without = replace(with_barriers, waits=with_barriers.waits | {"barrier": 0.0})
        terms = [modelled_us([of], CHIPS["h200"])[1]["latency"] for of in (with_barriers, without)]
        waits.append(terms[0] - terms[1])
    assert waits[1] > 3 * waits[0] > 0


def test_spills_beyond_l1_ask_l2() -> None:
    source = 'extern "C" __global__ void k(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] * 2; }'
    _, result = run(source, "k", [np.ones(256, F), np.ones(256, F)], grid=(1,), block=(256,))
    alone = work_of(part(result))
    apart = alone.extra | {"write_chunks": 1056 * alone.extra["write_chunks"]}  # each block writes a place of its own
    spilled = replace(alone, issued={"local": 8 * 200.0}, blocks_total=1056, extra=apart)
    few, many = (modelled_us([replace(spilled, local_bytes=size)], CHIPS["h200"])[1]["l2"] for size in (16, 800))
    assert many > 10 * few


def test_l1_joins_the_parts_of_few_stores_at_a_time() -> None:
    source = 'extern "C" __global__ void k(const float* a, float* o) { o[8 * threadIdx.x] = a[threadIdx.x]; }'
    _, result = run(source, "k", [np.ones(256, F), np.ones(4096, F)], grid=(1,), block=(256,))
    work = replace(work_of(part(result)), blocks_total=1056)
    joined = work.extra["split_sectors"] / 2

    def l2_us(sectors: float, warps: float) -> float:
        of = {"joined_sectors": joined, "open_sectors": joined * sectors, "open_together": joined * sectors * warps}
        return modelled_us([replace(work, extra=work.extra | of)], CHIPS["h200"])[1]["l2"]

    none = modelled_us([work], CHIPS["h200"])[1]["l2"]
    assert l2_us(16, 1) == l2_us(16, 4) < l2_us(16, 6) < l2_us(16, 8) == none


def lsu_us(index: str, chip: str = "h200", before: str = "", array: str = "b") -> float:
    """The load unit's term of a kernel with eight loads at `index`, which depends on the thread `t` and on `i`."""
    loads = " + ".join(f"{array}[{index.replace('i', str(i))}]" for i in range(8))
    source = (
        f'{before} extern "C" __global__ void k(float* a, const float* b) {{ int t = threadIdx.x; a[t] = {loads}; }}'
    )
    _, result = run(source, "k", [np.ones(128, F), np.ones(1 << 16, F)], grid=(1,), block=(128,))
    return sim.estimate([part(result)], CHIPS[chip]).terms_us["lsu"]


def test_unaligned_words_pass_at_once_and_words_a_stride_apart_do_not() -> None:
    aligned = lsu_us("t + 1024 * i")
    assert lsu_us("t + 1 + 1024 * i") == pytest.approx(aligned, rel=0.05)
    assert lsu_us("32 * t + i") > 8 * aligned


def test_half_as_many_load_units_give_addresses_half_as_fast() -> None:
    ratio = lsu_us("t + 1024 * i", "a4000") / lsu_us("t + 1024 * i", "h200")
    assert ratio > 1.2 * CHIPS["h200"].clock_hz / CHIPS["a4000"].clock_hz


def test_loads_of_constants_are_no_global_accesses() -> None:
    constants = lsu_us("i", before="__constant__ float c[8];", array="c")
    assert constants < 0.5 * lsu_us("t + 1024 * i")


# Words that one bank has to give: what an access of global memory takes in the data of L1.
PASSES = [
    ("adjacent words", "float x = b[t];", 1),
    ("adjacent, shifted by one word", "float x = b[t + 1];", 1),
    ("one word for all", "float x = b[7];", 1),
    ("one word for all, not provably", "float x = b[t / 32 + 7];", 1),
    ("every other word", "float x = b[2 * t];", 2),
    ("stride of a sector", "float x = b[8 * t];", 8),
    ("stride of a line", "float x = b[32 * t];", 32),
    ("stride of a line and a word", "float x = b[33 * t];", 1),
    ("reversed", "float x = b[31 - t];", 1),
    ("two halves far apart", "float x = b[(t & 15) + (t / 16) * 1024];", 2),
    ("two halves in other banks", "float x = b[(t & 15) + (t / 16) * 1040];", 1),
    ("16 bytes per lane", "float x = ((const float4*)b)[t].x + ((const float4*)b)[t].w;", 4),
    ("16 bytes, a line apart", "float x = ((const float4*)b)[8 * t].x + ((const float4*)b)[8 * t].w;", 32),
    ("2 bytes per lane", "float x = ((const unsigned short*)b)[t];", 1),
    ("half the lanes", "float x = t < 16 ? b[32 * t] : 0;", 16),
]


@pytest.mark.parametrize(("body", "passes"), [p[1:] for p in PASSES], ids=[p[0] for p in PASSES])
def test_passes_of_global_accesses(body: str, passes: int) -> None:
    assert count(f"{body} if (x == 3) a[0] = x;")["global_passes"] == passes


@pytest.mark.parametrize(
    ("body", "split"),
    [("a[t] = 1;", 0), ("((float4*)a)[t] = float4{};", 0), ("a[t + 1] = 1;", 1), ("a[2 * t] = 1;", 4)],
    ids=["adjacent words", "16 bytes per lane", "shifted by one word", "every other word"],
)
def test_sectors_that_a_store_writes_in_parts(body: str, split: int) -> None:
    source = f'extern "C" __global__ void k(float* a) {{ int t = threadIdx.x; {body} }}'
    memory = sim.Memory()
    args = [memory.allocate(4 << 10, "a")]
    result = module(source).launch("k", grid=(1,), block=(32,), args=args, memory=memory)
    counts = sim.LaunchCounts(
        counters=result.counters, grid=(1,), block=(32,), shared_bytes=0, registers=16, blocks_run=1, blocks_total=1
    )
    assert work_of(counts).extra["split_sectors"] == split


def test_blocks_that_do_the_same_are_as_heavy_whatever_they_do() -> None:
    source = 'extern "C" __global__ void k(int* a) { for (int i = 0; i < 8; ++i) atomicAdd(a + threadIdx.x + i, 1); }'
    memory = sim.Memory()
    args = [memory.allocate(4 << 10, "a", fill=b"\0")]
    result = module(source).launch("k", grid=(4,), block=(64,), args=args, memory=memory)
    assert result.counters.imbalance(4) == (1.0, 1.0, 0.0)
