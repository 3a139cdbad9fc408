"""Modelled latency from counters: a sum of bounds, never a measurement. Version `sim-11`.

The bounds of a launch (the pipes of an SM, the chain of waits of its warps, L2, DRAM, atomics, the rate at which blocks
start) are computed apart and combined by a p-norm, because they overlap. Rates are the chip row's. What no row states
are the constants of `timing_parameters`, fitted to times of an H200; chips other than that one take them over in
clocks. Instructions and waits are those of the machine code, if there is some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.results import Estimate
from evo.sim.launch_work import PER_PART, LaunchCounts, LaunchWork, work_of
from evo.sim.timing_parameters import CALIBRATED, CALIBRATION, FITTED
from evo.spec.chips import Chip
from evo.spec.metrics import SECTOR_BYTES, pipe_clocks

__all__ = ["MODEL_VERSION", "LaunchCounts", "calibration_of", "estimate", "limiter_of", "modelled_us", "occupancy"]

MODEL_VERSION = "sim-11"
_SCHEDULERS = 4
_PIPE_NORM = 6.0  # pipes of one SM overlap nearly wholly
# A warm launch in turns with others: `evo bench` rotates over so many sets of inputs and of outputs.
_INPUT_SETS, _OUTPUT_SETS = 3, 2
_SLICE_BYTES_PER_CLOCK = 64  # NVIDIA A100 whitepaper: 80 slices of 64 bytes
_OPEN_SECTORS = 64  # that L1 holds while they are put together, and of twice as many none: rows of 8 floats, H200
_SPILLED_EARLY, _SPILLED_LATE = 0.7, 1.3  # of a cache's size: below all of a footprint is kept, above nothing
_SECTORS_OF_A_SPILL = 4  # 32 lanes of a word each, side by side
_NOT_SUMMED = ("latency", "l2", "dram", "block", "atomic", "start")


@dataclass(frozen=True, slots=True)
class _Memory:
    """footprint: bytes of all buffers. cleared: of those that are cleared before the launches."""

    footprint: int
    cleared: int
    cold: bool


def occupancy(chip: Chip, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of this shape that fit one SM together; at least 1."""
    return max(1, min(chip.resident_limits(threads, max(16, registers), shared_bytes).values()))


def calibration_of(chip: Chip) -> str:
    """What the model's constants were fitted to, and whether that was this chip."""
    return CALIBRATION if chip.slug in CALIBRATED else f"{CALIBRATION}; not validated on {chip.slug}"


def estimate(
    parts: Sequence[LaunchCounts],
    chip: Chip,
    *,
    footprint_bytes: int = 0,
    cold: bool = False,
    cleared: Sequence[int] = (),
) -> Estimate:
    """Model the time of launches that run one after the other. Deterministic; the same counts give the same number.

    footprint_bytes: all memory the sequence touches; what fits L2 is taken to be there unless `cold`.
    cleared: bytes of each buffer that is cleared before the launches.
    """
    if not parts:
        raise ValueError("an estimate needs at least one launch")
    works = [work_of(part) for part in parts]
    total, terms = modelled_us(works, chip, footprint_bytes=footprint_bytes, cold=cold, cleared=cleared)
    return Estimate(
        modelled_us=total,
        model_version=MODEL_VERSION,
        chip=chip.slug,
        calibration=calibration_of(chip),
        limiter=limiter_of(terms),
        terms_us=terms,
        blocks_run=sum(p.blocks_run for p in parts),
        blocks_total=sum(p.blocks_total for p in parts),
    )


def limiter_of(terms: Mapping[str, float]) -> str:
    """The largest term; `block` only if it is alone, since it repeats another where they tie.

    Never `clear`: it is beside all that a kernel does.
    """
    own = {name: us * (0.99 if name == "block" else 1) for name, us in terms.items() if name != "clear"}
    return max(own, key=lambda name: own[name])


def modelled_us(
    works: Sequence[LaunchWork],
    chip: Chip,
    *,
    footprint_bytes: int = 0,
    cold: bool = False,
    cleared: Sequence[int] = (),
    constants: Mapping[str, float] = FITTED,
) -> tuple[float, dict[str, float]]:
    """The time of launches one after the other, and each bound's part, in us."""
    terms: dict[str, float] = {}
    total = 0.0
    memory = _Memory(footprint_bytes, sum(cleared), cold)
    for work in works:
        clocks = _bounds(work, chip, memory, constants)
        pipes = max(value for name, value in clocks.items() if name not in _NOT_SUMMED)
        bounds = (pipes, *(clocks[name] for name in ("latency", "l2", "dram", "atomic", "start") if name in clocks))
        combined = max(_norm(bounds, constants["p"]), clocks["block"]) + constants["start"]
        total += combined / chip.clock_hz * 1e6
        for name, value in clocks.items():
            terms[name] = terms.get(name, 0.0) + value / chip.clock_hz * 1e6
    launch_us = constants["launch_share"] * chip.launch_s * 1e6
    terms["launch"] = launch_us * len(works) + constants["memset"] * len(cleared)
    terms["clear"] = sum((_clear_us(size, works, memory, chip, constants) for size in cleared), 0.0)
    return total + terms["launch"] + terms["clear"], terms


def _norm(values: Sequence[float], p: float) -> float:
    top = max(values) or 1.0
    return float(top * sum((value / top) ** p for value in values) ** (1 / p))


def _clear_us(size: int, works: Sequence[LaunchWork], memory: _Memory, chip: Chip, of: Mapping[str, float]) -> float:
    """The time of clearing a buffer of so many bytes, beside its launch: stores alone."""
    share = max(_dram_bytes(work, memory, chip, of["l2_kept"])[1] for work in works)
    clocks = of["store"] * size / (chip.l2_bytes_per_clock * of["l2_share"])
    dram_s = share * size / (chip.dram_bytes_per_s * of["dram_share"])
    return max(clocks / chip.clock_hz, dram_s) * 1e6


def _bounds(work: LaunchWork, chip: Chip, memory: _Memory, of: Mapping[str, float]) -> dict[str, float]:
    """Clocks of one launch by bound, at the chip's boost clock."""
    per_block = {name: value / work.blocks_run for name, value in work.counts.items()}
    extra = {name: value / work.blocks_run for name, value in work.extra.items()}
    resident_most = occupancy(chip, work.threads, work.registers, work.shared_bytes)
    blocks = work.blocks_total / chip.sms
    busiest = _waves(blocks, of["tail"])
    resident = max(1, min(math.ceil(blocks), resident_most))

    warps = math.ceil(work.threads / 32)
    misses, kept = _load_misses(work, extra.get("load_misses", 0.0), memory.footprint, chip, resident_most)
    dram_bytes, far = _dram_bytes(work, memory, chip, of["l2_kept"])
    alone = sum(of[kind] * count * (kept if kind == "l2" else 1) for kind, count in work.waits.items())
    alone += of["dram"] * far * kept * work.waits.get("l2", 0.0)
    again = extra.get("shared_float_turns", 0.0) - extra.get("shared_float_atomics", 0.0)
    alone += of["float_turn"] * max(0.0, again)  # whichever warp they are of
    alone += of["barrier_warp"] * warps * work.waits.get("barrier", 0.0)
    joined = _joined_sectors(extra, resident * warps)
    extra["unit_passes"] = extra.get("unit_passes", 0.0) - PER_PART * min(joined, extra.get("split_sectors", 0.0))
    pipes = _pipes(work, per_block, extra, chip, of)
    together = _norm(tuple(pipes.values()), _PIPE_NORM)
    busiest = max(busiest, _fullest(work, blocks, resident, chip.sms))
    clocks = {name: busiest * value for name, value in pipes.items()}
    largest = max(clocks, key=lambda name: clocks[name])
    clocks[largest] = busiest * together  # the others delay the busiest pipe
    clocks["latency"] = _waves(blocks / resident, of["tail"]) * (alone + of["round"])
    # Nothing ends before the block that has most to do, and no block before its longest warp.
    heaviest = work.block_share * max(together, alone)
    clocks["block"] = max(heaviest, max(1.0, work.warp_share / work.block_share) * clocks["latency"])
    if work.side_by_side is not None:  # blocks in a chain: each one's waits come after those of the one before
        clocks["block"] = max(clocks["block"], work.blocks_total / work.side_by_side * alone)
    stored = _stored_sectors(work, per_block, extra, joined, chip, of)
    sectors = max(0.0, stored + _spilled_sectors(work, resident, chip, of)) * work.blocks_total
    sectors += misses * _stretched(extra.get("load_misses", 0.0), extra.get("missed_alone", 0.0))
    clocks["l2"] = SECTOR_BYTES * sectors / (chip.l2_bytes_per_clock * of["l2_share"])
    clocks["dram"] = dram_bytes / (chip.dram_bytes_per_s * of["dram_share"]) * chip.clock_hz
    clocks["start"] = work.blocks_total / of["blocks_per_clock"] * 132 / chip.sms
    if extra.get("atomics", 0.0):
        clocks["atomic"] = _atomics(work, chip, of)
    return clocks


def _stored_sectors(
    work: LaunchWork, per_block: Mapping[str, float], extra: Mapping[str, float], joined: float, chip: Chip,
    of: Mapping[str, float],
) -> float:  # fmt: skip
    """What the stores and atomics of a block ask of L2, in sectors read.

    A hash of the address spreads them over the slices, and what is written in few places fills one more than another.
    """
    written = per_block.get("l2_sectors", 0.0) - extra.get("load_misses", 0.0)
    plain = max(0.0, written - extra.get("atomic_sectors", 0.0) - joined)
    slices = chip.l2_bytes_per_clock * of["l2_share"] / _SLICE_BYTES_PER_CLOCK
    chunks = max(1.0, work.extra.get("write_chunks", _reached(work)[1] / of["slice"]))
    uneven = 1 + of["uneven"] * slices / chunks
    apart = _stretched(plain + joined, extra.get("stored_alone", 0.0))
    whole = written - joined + per_block.get("local_sectors", 0.0)
    return of["store"] * (whole + plain * (uneven * apart - 1))


def _stretched(sectors: float, alone: float) -> float:
    """How much longer L2 takes for sectors, if so many are alone in their line: a slice moves 64 bytes in a clock, or
    looks up one line."""
    return 1 + min(1.0, alone / sectors) if sectors > 0 else 1.0


def _atomics(work: LaunchWork, chip: Chip, of: Mapping[str, float]) -> float:
    """Clocks of the atomics on global memory: a slice of L2 takes them sector by sector, lanes at one address in turn.

    What is written in a few hundred bytes is in one slice. Sums of floats at one address wait for one another.
    """
    scale = work.blocks_total / work.blocks_run
    sectors, turns, addresses, floats = (
        work.extra[name] for name in ("atomic_sectors", "atomic_turns", "atomics", "float_lanes")
    )
    stored = work.counts.get("l2_sectors", 0.0) - work.extra.get("load_misses", 0.0) - sectors  # by plain stores
    written = max(1.0, work.counts.get("unique_write_bytes", 0.0) / SECTOR_BYTES - max(0.0, stored))
    slices = min(chip.l2_bytes_per_clock / _SLICE_BYTES_PER_CLOCK, max(1.0, written * SECTOR_BYTES / of["slice"]))
    of_floats = floats * sectors / (addresses * written) * of["float_atomic"]
    return scale * max(turns * of["atomic_turn"] / slices, of_floats)


def _joined_sectors(extra: Mapping[str, float], warps: int) -> float:
    """Sectors that L1 saves by joining stores in parts: it has room for a few, so not if many warps store at once."""
    if (joined := extra.get("joined_sectors", 0.0)) <= 0:
        return 0.0
    under_way = min(extra.get("open_together", 0.0), extra.get("open_sectors", 0.0) * warps) / joined
    return joined * min(1.0, max(0.0, 2 - under_way / _OPEN_SECTORS))


def _spilled_sectors(work: LaunchWork, resident: int, chip: Chip, of: Mapping[str, float]) -> float:
    """What a block's spills ask of L2, in sectors read: local memory of all resident threads beyond L1."""
    spills = max(0.0, (work.issued.get("local", 0.0) - work.counts.get("local_requests", 0.0)) / work.blocks_run)
    beyond = 1 - _fits_l1(resident * work.threads * work.local_bytes, resident * work.shared_bytes, chip)
    return spills * beyond * _SECTORS_OF_A_SPILL * (1 + of["store"]) / 2  # half of them are stores


def _fits_l1(size: float, shared_bytes: int, chip: Chip) -> float:
    """The share of so many bytes of an SM that stay in its L1 beside shared memory."""
    room = max(8192.0, chip.l1_bytes - shared_bytes)
    return min(1.0, max(0.0, (_SPILLED_LATE * room - size) / ((_SPILLED_LATE - _SPILLED_EARLY) * room)))


def _waves(blocks: float, tail: float) -> float:
    """Rounds of the busiest SM: a last round that is not full takes a part of one, as blocks do not end together."""
    return 1.0 if blocks <= 1 else blocks + tail * (math.ceil(blocks) - blocks)


def _fullest(work: LaunchWork, blocks: float, resident: int, sms: int) -> float:
    """The work of the SM that has most, in average blocks, where blocks differ; `blocks` fall to each SM on average.

    An SM has the heaviest block beside average ones. Later blocks go where there is room; if all start together, one
    SM is the fullest by chance: the largest of so many sums drawn from a normal distribution.
    """
    blocks = max(1.0, blocks)
    if blocks > resident:
        return work.block_share + blocks - blocks / resident
    drawn = blocks + work.block_scatter * _largest_of(sms) * math.sqrt(blocks)
    return max(work.block_share + blocks - 1, min(drawn, work.block_share * blocks))


def _largest_of(count: int) -> float:
    """The expected largest of so many standard normal numbers, asymptotically."""
    root = math.sqrt(2 * math.log(max(2, count)))
    return root - (math.log(math.log(max(3, count))) + math.log(4 * math.pi)) / (2 * root)


def _pipes(
    work: LaunchWork, per_block: Mapping[str, float], extra: Mapping[str, float], chip: Chip, of: Mapping[str, float]
) -> dict[str, float]:
    """Clocks of one block by pipe."""
    issued = {pipe: count / work.blocks_run for pipe, count in work.issued.items()}
    memory = pipe_clocks(per_block, chip)
    passes = 32 / chip.lsu_lanes  # clocks in which a warp gives its addresses
    # ptxas joins accesses to shared memory that PTX has apart, and adds none.
    wavefronts, accesses = (
        min(of_ptx, extra.get(name, of_ptx))
        for name in ("shared_wavefronts", "shared_requests")
        for of_ptx in (per_block.get(name, 0.0),)
    )
    shared = max(wavefronts, passes * accesses)
    shared += passes * per_block.get("shuffle_instructions", 0.0)
    requests = sum(per_block.get(name, 0.0) for name in ("global_requests", "local_requests"))
    met = work.waits.get("barrier", 0.0) * per_block.get("warps", 0.0)
    spills = max(0.0, issued.get("local", 0.0) - per_block.get("local_requests", 0.0))
    lines = of["line"] * (extra.get("unit_passes", 0.0) + spills) + of["request"] * requests
    return {
        "issue": of["issue_share"] * sum(issued.values()) / _SCHEDULERS,
        "fp": of["fp_share"] * 32 * issued.get("fma", 0.0) / chip.fp32_lanes,
        "multiply": of["multiply_share"] * 32 * issued.get("imad", 0.0) / chip.int_lanes,
        "int": of["int_share"] * 32 * issued.get("alu", 0.0) / chip.int_lanes,
        "sfu": of["special_share"] * 32 * (issued.get("xu", 0.0) + issued.get("convert", 0.0)) / chip.sfu_lanes,
        "fp64": 32 * issued.get("fp64", 0.0) / chip.fp64_lanes,
        "uniform": of["uniform_share"] * issued.get("uniform", 0.0) * 2 / _SCHEDULERS,
        "mma": of["mma_share"] * memory["mma"],
        "lsu": of["wavefront"] * shared
        + max(lines, passes * requests)
        + of["shared_atomic"] * extra.get("shared_atomics", 0.0)
        + of["float_pipe"] * extra.get("shared_float_turns", 0.0),
        "l1": memory["l1"],
        "barrier": of["barrier_warp"] * met,
    }


def _load_misses(
    work: LaunchWork, misses_per_block: float, footprint: int, chip: Chip, resident: int
) -> tuple[float, float]:
    """Sectors that loads ask of L2 in the whole launch, and the share of those that a block alone would ask.

    The counts are of blocks by themselves. What all of them read stays in the L1 of an SM if it fits there.
    """
    alone = misses_per_block * work.blocks_total
    if alone <= 0:
        return 0.0, 1.0
    unique, _ = _reached(work)
    unique = min(unique, footprint) if footprint else unique
    fits = _fits_l1(unique, resident * work.shared_bytes, chip)
    once = min(alone, chip.sms * unique / SECTOR_BYTES)
    found = fits * once + (1 - fits) * alone
    return found, min(1.0, found / alone)


def _reached(work: LaunchWork) -> tuple[float, float]:
    """Distinct bytes that the whole launch reads and writes."""
    scale = work.blocks_total / work.blocks_run
    read, written = (work.counts.get(f"unique_{name}_bytes", 0.0) * scale for name in ("read", "write"))
    return work.extra.get("reached_read_bytes", read), work.extra.get("reached_write_bytes", written)


def _dram_bytes(work: LaunchWork, memory: _Memory, chip: Chip, kept: float) -> tuple[float, float]:
    """Bytes that DRAM moves, and the share of what is touched that comes from there."""
    read, written = _reached(work)
    footprint = memory.footprint
    unique = min(read + written, footprint) if footprint else read + written
    if memory.cold:
        return unique, 1.0
    turned = _INPUT_SETS * read + _OUTPUT_SETS * max(written, memory.cleared)
    turned = min(turned, _INPUT_SETS * footprint) if footprint else turned
    share = (turned / (kept * chip.l2_bytes) - _SPILLED_EARLY) / (_SPILLED_LATE - _SPILLED_EARLY)
    share = min(1.0, max(0.0, share))
    return unique * share, share
