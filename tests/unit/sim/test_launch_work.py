"""What launches ask of a chip: L1 among resident blocks, stores of parts, atomics by address, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from harness import nvrtc

from evo import sim
from evo.sim.launch_work import PER_PART, LaunchWork, work_of
from evo.sim.timing_model import modelled_us
from evo.spec.chips import CHIPS
from evo.spec.machine_instruction import NO_SCOREBOARD, MachineInstruction

H200 = CHIPS["h200"]
HEAD = 'extern "C" __global__ void k(float* a, float* b) { const int t = threadIdx.x; '


def counts_of(
    body: str, grid: int, block: int, machine: Sequence[MachineInstruction] | None = None, *, race: bool = True
) -> sim.LaunchCounts:
    """The counts of up to four blocks of a launch over zeros."""
    memory = sim.Memory()
    args = [memory.allocate(1 << 22, name, fill=b"\0") for name in "ab"]
    loaded = sim.load(nvrtc(f"{HEAD}{body} }}"), chip=H200)
    some = range(min(4, grid))
    ran = loaded.launch("k", grid=(grid,), block=(block,), args=args, memory=memory, blocks=some, race=race)
    assert ran.faults == ()
    return sim.LaunchCounts(
        counters=ran.counters, grid=(grid,), block=(block,), shared_bytes=0, registers=32,
        blocks_run=ran.blocks_run, blocks_total=grid, machine=machine,
    )  # fmt: skip


def work(body: str, grid: int, block: int) -> LaunchWork:
    return work_of(counts_of(body, grid, block))


def atomic_us(body: str, machine: Sequence[MachineInstruction] | None = None) -> float:
    return sim.estimate([counts_of(body, 1024, 128, machine)], H200).terms_us["atomic"]


def test_resident_blocks_share_l1_so_only_a_few_find_again_what_they_have_read() -> None:
    body = """const float* mine = a + blockIdx.x % 4 * 2048; float s = 0;
      for (int again = 0; again < 2; ++again) for (int i = t; i < 2048; i += blockDim.x) s += mine[i];
      b[blockIdx.x * blockDim.x + t] = s;"""
    one, half, full = (work(body, 132 * each, 32).extra["load_misses"] for each in (1, 16, 32))
    assert one == half == 4 * 256  # 8 KiB of 255 and of 15
    assert full == 2 * half  # ... and of 7: the second time nothing is left of it


def test_a_block_that_is_alone_on_its_multiprocessor_has_the_whole_of_l1() -> None:
    body = """float s = 0;
      #pragma unroll 1
      for (int c = 0; c < 8; ++c) { s += a[t * 1024 + c]; __syncthreads(); }
      b[blockIdx.x * blockDim.x + t] = s;"""
    alone, crowded = (work(body, 132 * each, 256).extra["load_misses"] for each in (1, 8))
    assert alone == 4 * 256
    assert crowded > 4 * alone


def test_random_places_of_many_blocks_are_no_more_bytes_than_the_buffer_has() -> None:
    body = "unsigned x = (blockIdx.x * 128 + t) * 2654435761u; x ^= x >> 15; b[t] = a[x * 2246822519u >> 12];"
    few, many = (work(body, grid, 128).extra["reached_read_bytes"] for grid in (4, 1 << 20))
    assert 0 < few <= 4 * 128 * 32
    assert many == 1 << 22


def test_blocks_of_unlike_work_leave_one_multiprocessor_with_more_than_the_others() -> None:
    loop = "float s = t; for (int i = 0; i < {}; ++i) s = s * s + 1.5f; b[blockIdx.x * 128 + t] = s;"
    alike, unlike = (counts_of(loop.format(trips), 132 * 8, 128) for trips in ("400", "blockIdx.x % 4 * 266"))
    assert work_of(alike).block_scatter == pytest.approx(0, abs=1e-6)
    assert work_of(unlike).block_scatter == pytest.approx(0.74, abs=0.05)
    even, uneven = (sim.estimate([counts], H200).terms_us["fp"] for counts in (alike, unlike))
    assert 1.3 * even < uneven < 2.4 * even


def test_a_sector_written_in_parts_takes_the_load_unit_longer() -> None:
    whole, parts = (work(f"a[t * {stride}] = 1;", 1, 32).extra["unit_passes"] for stride in (1, 8))
    assert whole == 1
    assert parts == pytest.approx(8 + PER_PART * (32 - 4))


@pytest.mark.parametrize(
    "body",
    ["if (a[(blockIdx.x * 128 + t) * {}] == 3) b[t] = 1;", "b[(blockIdx.x * 128 + t) * {}] = t;"],
    ids=["loads", "stores"],
)
def test_l2_takes_as_long_for_a_sector_alone_in_its_line_as_for_two(body: str) -> None:
    alone, two, four = (
        sim.estimate([counts_of(body.format(step), 256, 128)], H200).terms_us["l2"] for step in (32, 16, 8)
    )
    assert two == pytest.approx(four, rel=0.05)
    assert alone == pytest.approx(2 * two, rel=0.1)


RANDOM = """unsigned x = (blockIdx.x * 512 + t) * 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
      b[(x & {}) * 8] = 1;"""


def test_random_stores_in_few_places_fill_one_slice_of_l2() -> None:
    """And that they are few is seen in four blocks of many."""
    few, many = (counts_of(RANDOM.format(places - 1), 4096, 512, race=False) for places in (1 << 9, 1 << 17))
    assert work_of(few).extra["reached_write_bytes"] == pytest.approx(32 << 9, rel=0.02)
    assert work_of(many).extra["reached_write_bytes"] > 0.9 * (4 << 20)
    assert sim.estimate([few], H200).terms_us["l2"] > 3 * sim.estimate([many], H200).terms_us["l2"]


def test_blocks_that_write_side_by_side_are_no_more_alike_for_that() -> None:
    """Of sectors that neighbours share; a third of each block's 96 bytes is in one."""
    found = work("if (t < 24) b[blockIdx.x * 24 + t] = t;", 4096, 32)
    assert found.extra["reached_write_bytes"] > 0.9 * 4096 * 96


def test_a_conversion_takes_the_unit_of_special_functions() -> None:
    of = work("b[t] = a[t];", 1, 128)
    times = [modelled_us([replace(of, issued={pipe: 1e5})], H200)[1] for pipe in ("convert", "xu")]
    assert times[0]["sfu"] == times[1]["sfu"] > 100 * times[0]["int"]


def test_atomics_at_one_address_wait_for_one_another_longest_if_they_add_floats() -> None:
    floats, whole = "atomicAdd(a + {}, 1.5f);", "atomicAdd((int*)a + {}, t);"
    apart = "(blockIdx.x * 128 + t) % 65536"
    assert atomic_us(floats.format("0")) > 2 * atomic_us(whole.format("0"))
    assert atomic_us(whole.format("0")) > 20 * atomic_us(whole.format(apart))
    assert atomic_us(floats.format(apart)) == atomic_us(whole.format(apart))


def test_what_is_stored_elsewhere_spreads_no_atomics() -> None:
    counter = "atomicAdd((int*)a, t);"
    beside = f"{counter} b[blockIdx.x * 128 + t] = 1;"
    assert atomic_us(beside) == pytest.approx(atomic_us(counter))


def at_line_of(body: str, *names: str) -> list[int]:
    """Of each instruction the line of the PTX text that has the first of them."""
    text = nvrtc(f"{HEAD}{body} }}").splitlines()
    return [next(n for n, line in enumerate(text, 1) if name in line) for name in names]


def instruction(address: int, opcode: str, line: int, **more: int) -> MachineInstruction:
    blank = MachineInstruction(
        address=address, opcode=opcode, guarded=False, stall=1, sets=NO_SCOREBOARD, frees=NO_SCOREBOARD, waits=0,
        target=None, line=line, helper=False,
    )  # fmt: skip
    return blank._replace(**more)


def test_lanes_that_a_warp_adds_up_first_are_one_atomic() -> None:
    body = "atomicAdd((int*)a, t);"
    (line,) = at_line_of(body, ".global.add")
    code = [instruction(16 * at, opcode, line) for at, opcode in enumerate(("REDUX", "REDG", "EXIT"))]
    assert atomic_us(body) == pytest.approx(32 * atomic_us(body, code))


@pytest.mark.parametrize("size", [16, 0])
def test_a_copy_that_fills_with_zeros_is_no_longer_under_way_than_another(size: int) -> None:
    body = f"""__shared__ float4 s[32];
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
        "r"((unsigned)__cvta_generic_to_shared(s + t)), "l"((float4*)b + t), "r"({size}) : "memory");
      a[t] = b[t];"""
    copy, load = at_line_of(body, "cp.async", "ld.global")
    code = [
        instruction(0, "LDGSTS", copy),
        instruction(16, "LDG", load, sets=0),
        instruction(32, "STG", load, waits=1),
        instruction(48, "EXIT", load),
    ]
    assert work_of(counts_of(body, 64, 32, code)).waits.get("queue", 0.0) < 8
