"""Lower bounds on the time of a case on a chip: work, compulsory and tiled traffic, and a floor for each resource.

Floors follow from a chip's row (datasheet) and, where the GPU was measured, from its calibration. A floor that rests on
an estimate is marked and binds nothing. Pure functions; microseconds, bytes and counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from evo.errors import SyntaxInvalid
from evo.results.codec import ALWAYS, NONEMPTY, Digits, Serializable, Whole
from evo.spec.chips import Chip
from evo.spec.expr import ceil_div
from evo.spec.task import Case, Task

Short = Annotated[float, Digits(6)]
Count = Annotated[float, Whole()]

_NARROW = {"float8_e4m3", "float8_e5m2"}
_HALF = {"float16", "bfloat16"}
# What calibration measures, by the floor it gives.
_MEASURED = {
    "tensor": "mma_f16_flop_per_s",
    "fp32": "fp32_flop_per_s",
    "sfu": "exp_per_s",
    "dram_cold": "dram_copy_bytes_per_s",
    "dram_warm": "dram_copy_bytes_per_s",
    "l2": "l2_read_bytes_per_s",
    "shared": "shared_read_bytes_per_s",
}


# The resources in words.
RESOURCES = {
    "tensor": "tensor cores", "mma_sync": "mma.sync", "fp64": "fp64", "fp32": "fp32", "sfu": "exp", "dram_cold": "DRAM",
    "dram_warm": "DRAM", "l2": "L2", "shared": "shared memory", "launch": "the launch",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What the chip does per second, by floor; `estimated` names those that no source states. launch_s in seconds."""

    per_second: Mapping[str, float]
    launch_s: float | None = None
    estimated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLimits(Serializable):
    """One tile configuration: its traffic, its floors, and how busy it keeps the chip."""

    tile: Annotated[dict[str, int], ALWAYS]  # the tile's sizes by name
    blocks: int | None = None  # of the launch
    busy: Short | None = None  # blocks / (SMs x blocks of the busiest SM)
    bytes_l2: int | None = None  # read from L2
    bytes_shared: int | None = None  # read from shared memory
    floors_us: Annotated[dict[str, Short], ALWAYS] = field(default_factory=dict)  # by resource


@dataclass(frozen=True, slots=True)
class BestFloor:
    """The floor of a case by the best rates known, and what a launch takes. estimated: no source states the rate."""

    limiter: str
    us: float
    launch_us: float | None = None
    estimated: bool = False

    @property
    def words(self) -> str:
        """`L2, estimate`."""
        return RESOURCES.get(self.limiter, self.limiter) + (", estimate" if self.estimated else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLimits(Serializable):
    """The limits of one case on one chip."""

    name: str  # the case
    flop: Count | None = None  # absent if the task does not state it: then bytes alone bind
    mac: Count | None = None  # multiply-adds
    exp: Count | None = None  # exponentials
    bytes_compulsory: int  # every tensor once
    bytes_materialised: int | None = None  # with the intermediate results that a sequence of library calls would store
    intensity_flop_per_byte: Short | None = None  # FLOP per compulsory byte
    ridge_flop_per_byte: Short | None = None  # FLOP per byte at which both bind
    # of the whole chip by resource, and of the first tile configuration (l2, shared, wave_quantum)
    floors_us: Annotated[dict[str, Short], ALWAYS]
    estimated: Annotated[tuple[str, ...], ALWAYS]  # the floors that rest on a rate that no source states
    limiter: str  # the resource that binds with inputs in L2; empty if no floor is above 0
    limiter_cold: str  # the resource that binds with inputs in DRAM
    floor_us: Short  # the largest floor that holds for every implementation with inputs in L2
    floor_cold_us: Short  # the same with inputs in DRAM
    # the same as floor_us by the best rate known of each resource, an estimate if there is no other, and through L2 too
    best_floor_us: Short = 0.0
    best_limiter: Annotated[str, NONEMPTY] = ""  # the resource that binds there
    tiles: Annotated[tuple[TileLimits, ...], ALWAYS] = ()  # the task's tile configurations
    target_us: Short | None = None  # the time that the case is to reach
    target_cold_us: Short | None = None  # the same with inputs in DRAM
    target: Annotated[str, NONEMPTY] = ""  # where the target comes from
    calibrated_floors_us: dict[str, Short] = field(default_factory=dict)  # by rates measured on this machine
    calibrated_limiter: Annotated[str, NONEMPTY] = ""  # the resource that binds by those rates


def limits(
    task: Task, case: Case, chip: Chip, *, measured: Mapping[str, float] | None = None, efficiency: float | None = None
) -> CaseLimits:
    """The limits of one case. measured: calibrated rates by name; efficiency: of a target if the task states none.

    A task that states no FLOP has the floors of its bytes alone. Raises SyntaxInvalid naming the line where a value of
    `work` is no count, or a target is below the floor.
    """
    work = _stated(task, case)
    rates = datasheet_rates(chip, task)
    tiles = tile_limits(task, case, chip, rates, work)
    floors = _floors(task, case, chip, rates, work) | (tiles[0].floors_us if tiles else {})
    pipe = compute_pipe(task, floors)
    warm = {name: floors[name] for name in (pipe, "sfu", "dram_warm") if name in floors}
    cold = {name: floors[name] for name in (pipe, "sfu", "dram_cold") if name in floors}
    limiter, limiter_cold = (max(some, key=lambda name: some[name], default="") for some in (warm, cold))
    floor = warm.get(limiter, 0.0)
    best = _best_floors(task, case, chip, best_rates(chip, task, measured), work)
    calibrated = _calibrated(task, case, chip, measured, work) if measured else {}
    # Measured rates bind at the reference tile too: L2 and shared memory then rest on no estimate.
    by_rates = {name: calibrated[name] for name in (pipe, "sfu", "dram_warm", "l2", "shared") if name in calibrated}
    target, says = _target(task, case, chip, floor, efficiency)
    share = efficiency if efficiency is not None else task.targets.efficiency
    floor_cold = cold.get(limiter_cold, 0.0)
    bytes_compulsory, flop = compulsory_bytes(task, case), work.get("flop")
    peak, dram = rates.per_second.get(pipe), rates.per_second.get("dram_cold")
    return CaseLimits(
        name=case.name,
        flop=flop,
        mac=work.get("mac", flop / 2 if flop is not None and _is_mma(task) else None),
        exp=work.get("exp"),
        bytes_compulsory=bytes_compulsory,
        bytes_materialised=_materialised(task, case),
        intensity_flop_per_byte=flop / bytes_compulsory if flop is not None and bytes_compulsory else None,
        ridge_flop_per_byte=peak / dram if flop is not None and peak and dram else None,
        floors_us=floors,
        estimated=tuple(sorted(rates.estimated & floors.keys())),
        limiter=limiter if floor else "",
        limiter_cold=limiter_cold,
        floor_us=floor,
        floor_cold_us=floor_cold,
        best_floor_us=max(best.values(), default=0.0),
        best_limiter=max(best, key=lambda name: best[name], default="") if any(best.values()) else "",
        tiles=tiles,
        target_us=target,
        # Inputs that come from DRAM cannot make a kernel faster than inputs that are in L2.
        target_cold_us=max(floor_cold / share, target or 0.0) if share and floor_cold else None,
        target=says,
        calibrated_floors_us=calibrated,
        calibrated_limiter=max(by_rates, key=lambda name: by_rates[name], default=""),
    )


def work_of(task: Task, case: Case) -> dict[str, float]:
    """The work formulas at one case. Raises SyntaxInvalid if `flop` is missing or a value is no count."""
    path = task.folder / "task.yaml"
    if "flop" not in task.work:
        hint = "add `work: {flop: ...}`, a formula over the axes; 0 for a task that only moves data"
        raise SyntaxInvalid(path, None, "field `work.flop`: missing, so nothing can be derived", hint=hint)
    return _stated(task, case)


def _stated(task: Task, case: Case) -> dict[str, float]:
    path, work = task.folder / "task.yaml", task.work_of(case)
    for name, value in work.items():
        if not (math.isfinite(value) and value >= 0):
            line = task.work[name].line
            hint = "a count is 0 or more for every case"
            raise SyntaxInvalid(path, line, f"field `work.{name}`: {value:g} at case {case.name}", hint=hint)
    return work


def compulsory_bytes(task: Task, case: Case) -> int:
    """Every input read once and every output written once; fewer if `work.bytes` says that not all must be read."""
    every = sum(tensor.size_bytes(case) for tensor in task.tensors)
    return min(every, int(_stated(task, case).get("bytes", every)))


def datasheet_rates(chip: Chip, task: Task) -> Rates:
    """Peaks by floor, from the chip's row. SM rates hold at the clock that the tensor peak is stated at."""
    clock = chip.rates.get("tensor_clock_hz", chip.clock_hz)
    dtypes = {tensor.dtype for tensor in task.inputs}
    wide = {"tensor": ("tensor_f16_fma", 2.0), "mma_sync": ("mma_f16_fma", 2.0)} if dtypes & _HALF else {}
    if dtypes & _NARROW:
        wide = {"tensor": ("tensor_f8_fma", 2.0)}
    per_sm = {
        **wide,
        "fp32": ("fp32_lanes", 2.0),
        "fp64": ("fp64_lanes", 2.0),
        "sfu": ("sfu_lanes", 1.0),
        "shared": ("shared_bytes_per_clock", 1.0),
    }
    if "float64" not in dtypes:
        del per_sm["fp64"]
    found = {
        floor: rate * factor * chip.sms * clock
        for floor, (name, factor) in per_sm.items()
        if (rate := chip.rate(name)) is not None
    }
    if found.get("mma_sync") == found.get("tensor"):
        found.pop("mma_sync", None)
    for name, rate in (("l2", chip.l2_bytes_per_s), ("dram_cold", chip.rate("dram_bytes_per_s"))):
        if rate is not None:
            found[name] = rate
    if "dram_cold" in found:
        found["dram_warm"] = found["dram_cold"]
    behind = {
        "l2": "l2_bytes_per_clock",
        "wave_quantum": "",
        "launch": "launch_s",
        **{f: n for f, (n, _) in per_sm.items()},
    }
    estimated = frozenset(floor for floor, name in behind.items() if name in chip.estimates)
    return Rates(per_second=found, launch_s=chip.rate("launch_s"), estimated=estimated)


def best_rates(chip: Chip, task: Task, measured: Mapping[str, float] | None) -> Rates:
    """Measured rates if there are any, else the datasheet's. A measured tensor rate is that of mma.sync."""
    sheet = datasheet_rates(chip, task)
    if not measured:
        return sheet
    known = {"mma_sync" if floor == "tensor" else floor: rate for floor, rate in _known(sheet, measured).items()}
    return Rates(
        per_second={**sheet.per_second, **known},
        launch_s=measured.get("launch_graph_s", sheet.launch_s),
        estimated=sheet.estimated - known.keys(),
    )


def _known(sheet: Rates, measured: Mapping[str, float]) -> dict[str, float]:
    """Measured rates by floor, for floors that mean something for the task."""
    every = {*sheet.per_second, "l2"}  # no datasheet states the L2 bandwidth of most chips
    return {floor: measured[name] for floor, name in _MEASURED.items() if name in measured and floor in every}


def tile_limits(task: Task, case: Case, chip: Chip, rates: Rates, work: Mapping[str, float]) -> tuple[TileLimits, ...]:
    """Traffic and floors of each tile configuration that the task shows."""
    traffic = task.traffic
    if not any((traffic.blocks, traffic.l2, traffic.shared)):
        return ()
    return tuple(one_tile(task, case, chip, rates, work, tile) for tile in traffic.tiles or ({},))


def one_tile(
    task: Task, case: Case, chip: Chip, rates: Rates, work: Mapping[str, float], tile: Mapping[str, int]
) -> TileLimits:
    """One tile configuration, by the formulas of `traffic`. Raises SyntaxInvalid if they have no value."""
    traffic = task.traffic
    names = traffic.names(case.axes, tile)
    blocks = int(traffic.blocks.value(names)) if traffic.blocks else None
    moved = {
        name: int(formula.value(names))
        for name, formula in (("l2", traffic.l2), ("shared", traffic.shared))
        if formula is not None
    }
    floors = {name: count / rates.per_second[name] * 1e6 for name, count in moved.items() if name in rates.per_second}
    busy = None
    if blocks:
        busy = blocks / (ceil_div(blocks, chip.sms) * chip.sms)
        pipe = compute_pipe(task, rates.per_second)
        if pipe in rates.per_second and "flop" in work:
            floors["wave_quantum"] = work["flop"] / rates.per_second[pipe] / busy * 1e6
    return TileLimits(
        tile=dict(tile),
        blocks=blocks,
        busy=busy,
        bytes_l2=moved.get("l2"),
        bytes_shared=moved.get("shared"),
        floors_us=floors,
    )


def compute_pipe(task: Task, floors: Mapping[str, float]) -> str:
    """The pipe that executes the FLOP of this task: tensor cores if its products can use them."""
    if "fp64" in floors:
        return "fp64"
    # Without a `derive` section the FLOP may be products; the tensor floor then holds in any case.
    return "tensor" if "tensor" in floors and (task.choices is None or _is_mma(task)) else "fp32"


def _is_mma(task: Task) -> bool:
    return task.choices is not None and task.choices.mma is not None


def _floors(task: Task, case: Case, chip: Chip, rates: Rates, work: Mapping[str, float]) -> dict[str, float]:
    """Floors that depend on no tile, in microseconds."""
    moved = compulsory_bytes(task, case)
    amounts: dict[str, float] = {"dram_cold": moved, "dram_warm": max(0, moved - chip.l2_bytes)}
    if "flop" in work:
        amounts |= dict.fromkeys(("tensor", "mma_sync", "fp32", "fp64"), work["flop"])
    if "exp" in work:
        amounts["sfu"] = work["exp"]
    floors = {
        name: amount / rates.per_second[name] * 1e6 for name, amount in amounts.items() if name in rates.per_second
    }
    if rates.launch_s is not None:
        floors["launch"] = rates.launch_s * 1e6
    return floors


def _best_floors(task: Task, case: Case, chip: Chip, rates: Rates, work: Mapping[str, float]) -> dict[str, float]:
    """What every implementation needs, by the best rates known: its arithmetic, and its bytes from L2 and from DRAM."""
    floors = _floors(task, case, chip, rates, work)
    pipe = compute_pipe(task, floors)
    pipe = "mma_sync" if pipe == "tensor" and "mma_sync" in floors else pipe  # what sm_89 code has
    best = {name: floors[name] for name in (pipe, "sfu", "dram_warm") if name in floors}
    if (l2 := rates.per_second.get("l2") or chip.l2_bytes_per_s) is not None:
        best["l2"] = compulsory_bytes(task, case) / l2 * 1e6
    return best


def _materialised(task: Task, case: Case) -> int | None:
    traffic = task.traffic
    if traffic.materialised is None:
        return None
    tile = traffic.tiles[0] if traffic.tiles else {}
    return int(traffic.materialised.value(traffic.names(case.axes, tile)))


def _calibrated(
    task: Task, case: Case, chip: Chip, measured: Mapping[str, float], work: Mapping[str, float]
) -> dict[str, float]:
    """The same floors from rates that were measured on a GPU of this chip."""
    known = _known(datasheet_rates(chip, task), measured)
    rates = Rates(per_second=known, launch_s=measured.get("launch_graph_s"))
    tiles = tile_limits(task, case, chip, rates, work)
    return _floors(task, case, chip, rates, work) | (tiles[0].floors_us if tiles else {})


def _target(task: Task, case: Case, chip: Chip, floor_us: float, efficiency: float | None) -> tuple[float | None, str]:
    """The target in microseconds, and its source. Raises SyntaxInvalid for one below the floor."""
    stated = task.targets.stated.get(chip.slug, {}).get(case.name)
    if stated is not None and efficiency is None:
        if stated < floor_us:
            raise SyntaxInvalid(
                task.folder / "task.yaml",
                task.targets.line(chip.slug, case.name),
                f"field `targets.{chip.slug}.{case.name}`: {stated:g} µs is below the floor of {floor_us:.2f} µs",
                hint=f"no implementation can reach it; state {floor_us:.4g} µs or more",
            )
        return stated, f"stated: {floor_us / stated:.0%} of the floor's speed"
    share = efficiency if efficiency is not None else task.targets.efficiency
    if share is None or floor_us <= 0:
        return None, ""
    return floor_us / share, f"floor / {share:g}"
