"""Nsight Compute: which of its metrics stand for what, how it is run, and how its answer is read.

Metric names differ between chips and versions, so each quantity lists alternatives and the chip's own list decides.
Its durations are not used: it serialises, replays and flushes. Whatever keeps it from working is an `Unavailable`.
"""

from __future__ import annotations

import csv
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from evo.results.codec import ALWAYS, Serializable

_QUERY_LIMIT_S = 120.0
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
_PERMISSION = "ERR_NVGPUCTRPERM"
_BASE_NAME = re.compile(r"^([a-z0-9]+__\w+)\b", re.MULTILINE)
_COMPLAINT = re.compile(r"==(?:ERROR|WARNING)==\s*(.+)")
_LSU = "_pipe_lsu_mem_"

# name -> groups to be added up -> alternatives, best first -> metrics to be added up
Group = tuple[tuple[str, ...], ...]


def _one(*alternatives: str) -> tuple[Group, ...]:
    return (tuple((name,) for name in alternatives),)


def _global(what: str) -> tuple[Group, ...]:
    """Requests or sectors of loads, stores and asynchronous copies; atomics are extra.

    Where no metric of the copies alone is listed beside these, loads include them: on a GH100 `op_ld` has 16 sectors a
    request for kernels that load by cp.async only. `copy_sectors` shows the part.
    """
    stem = f"l1tex__t_{what}{_LSU}global_op_"
    copies = ((f"{stem}ldgsts.sum",), (f"{stem}ldgsts_cache_access.sum", f"{stem}ldgsts_cache_bypass.sum"), ())
    return (((f"{stem}ld.sum",),), ((f"{stem}st.sum",),), copies)


def _copies(what: str) -> tuple[Group, ...]:
    """Requests or sectors of asynchronous copies alone, as the instrumented code counts them."""
    stems = [f"{unit}__sass_l1tex_t_{what}{_LSU}global_op_ldgsts" for unit in ("sm", "smsp")]
    return (tuple((f"{stem}_cache_access.sum", f"{stem}_cache_bypass.sum") for stem in stems),)


QUANTITIES: dict[str, tuple[Group, ...]] = {
    "hmma": _one(
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
        "smsp__inst_executed_pipe_tensor_op_hmma.sum",
        "sm__inst_executed_pipe_tensor.sum",
    ),
    "tensor_active_pct": _one(
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "global_requests": _global("requests"),
    "global_sectors": _global("sectors"),
    "copy_requests": _copies("requests"),
    "copy_sectors": _copies("sectors"),
    "sectors_per_load": _one(f"l1tex__average_t_sectors_per_request{_LSU}global_op_ld.ratio"),
    "shared_wavefronts": _one("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    "shared_loads": _one("smsp__inst_executed_op_shared_ld.sum"),
    "ldmatrix": _one("smsp__inst_executed_op_ldsm.sum"),
    "bank_conflicts": _one(f"l1tex__data_bank_conflicts{_LSU}shared.sum"),
    "bank_conflicts_ld": _one(f"l1tex__data_bank_conflicts{_LSU}shared_op_ld.sum"),
    "bank_conflicts_st": _one(f"l1tex__data_bank_conflicts{_LSU}shared_op_st.sum"),
    "bank_conflicts_ldmatrix": _one(f"sm__sass_l1tex_data_bank_conflicts{_LSU}shared_op_ldsm.sum"),
    "local_sectors": (((f"l1tex__t_sectors{_LSU}local_op_ld.sum",),), ((f"l1tex__t_sectors{_LSU}local_op_st.sum",),)),
    "l1_hit_pct": _one("l1tex__t_sector_hit_rate.pct"),
    "l2_hit_pct": _one("lts__t_sector_hit_rate.pct"),
    "l2_read_hit_pct": _one("lts__t_sector_op_read_hit_rate.pct"),
    "dram_bytes": ((("dram__bytes_read.sum",),), (("dram__bytes_write.sum",),)),
    "dram_pct": _one(
        "dram__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    ),
    "sm_pct": _one("sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    "warps_active_pct": _one("sm__warps_active.avg.pct_of_peak_sustained_active"),
    "clocks": _one("sm__cycles_elapsed.avg"),
    "registers": _one("launch__registers_per_thread"),
    "blocks_by_registers": _one("launch__occupancy_limit_registers"),
    "blocks_by_shared": _one("launch__occupancy_limit_shared_mem"),
    "blocks_by_warps": _one("launch__occupancy_limit_warps"),
} | {
    f"stall_{reason}": _one(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio")
    for reason in (
        "long_scoreboard",
        "short_scoreboard",
        "mio_throttle",
        "lg_throttle",
        "barrier",
        "math_pipe_throttle",
    )
}
SUMS = ("hmma", "global_requests", "global_sectors", "shared_wavefronts", "bank_conflicts", "dram_bytes")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why nothing was measured, in words."""

    reason: str


@dataclass(frozen=True, slots=True)
class Value(Serializable):
    """One quantity of one launch."""

    metric: str  # the metrics it was read from, joined by `+`
    value: float  # their sum
    unit: str  # their unit


@dataclass(frozen=True, slots=True)
class LaunchMetrics(Serializable):
    """What one launch did."""

    kernel: str  # the kernel
    metrics: Annotated[dict[str, Value], ALWAYS]  # by quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class NcuCounters(Serializable):
    """Counters of every launch of one sequence."""

    tool: str = "ncu"  # Nsight Compute
    cache: str = "cold"  # caches are flushed before each launch
    launches: Annotated[tuple[LaunchMetrics, ...], ALWAYS]  # in order
    missing: Annotated[tuple[str, ...], ALWAYS] = ()  # quantities that this chip does not count
    copy_metrics: tuple[str, ...] = ()  # the metrics of asynchronous copies that ncu lists, which differ between chips

    def sums(self) -> dict[str, float]:
        """Quantities that add up over launches, if every launch has them."""
        rows = [launch.metrics for launch in self.launches]
        return {name: sum(r[name].value for r in rows) for name in SUMS if rows and all(name in r for r in rows)}


def measure(target: Sequence[str], env: Mapping[str, str], *, time_limit_s: float) -> NcuCounters | Unavailable:
    """Profile what `target` launches between its start and stop of the profiler. Clocks are left as they are.

    ncu is the one on the PATH of `env`.
    """
    tool = find_ncu(env)
    if tool is None:
        return Unavailable("ncu is not installed: it is neither on PATH nor where CUDA puts it")
    known = _known_metrics(tool, env)
    chosen, missing = resolve(known)
    metrics = sorted({name for groups in chosen.values() for group in groups for name in group})
    with tempfile.TemporaryDirectory(prefix="evo-ncu-") as folder:
        log = Path(folder) / "ncu.csv"
        command = [tool, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
        command += ["--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"]
        command += ["--target-processes", "all", "--log-file", str(log), *target]
        try:
            done = subprocess.run(
                command, env=dict(env), capture_output=True, text=True, errors="replace", check=False,
                stdin=subprocess.DEVNULL, timeout=time_limit_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Unavailable(f"ncu had not ended after {time_limit_s:g} s")
        except OSError as error:
            return Unavailable(f"ncu does not start: {error}")
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    rows = parse_csv(said)
    if not rows or done.returncode:
        return Unavailable(_why(f"{said}\n{done.stdout}\n{done.stderr}", done.returncode))
    launches = tuple(LaunchMetrics(kernel, _values(chosen, row)) for kernel, row in rows)
    empty = [name for name in chosen if not any(name in launch.metrics for launch in launches)]
    copies = tuple(sorted(name for name in known if "ldgsts" in name))
    return NcuCounters(launches=launches, missing=tuple(sorted({*missing, *empty})), copy_metrics=copies)


def find_ncu(env: Mapping[str, str]) -> str | None:
    found = shutil.which("ncu", path=env.get("PATH", ""))
    return found or next((place for place in _PLACES if os.access(place, os.X_OK)), None)


def _known_metrics(tool: str, env: Mapping[str, str]) -> frozenset[str]:
    """Base names of the chip at hand; empty if ncu does not say."""
    try:
        done = subprocess.run(
            [tool, "--query-metrics"], env=dict(env), capture_output=True, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, timeout=_QUERY_LIMIT_S,
        )  # fmt: skip
    except (subprocess.TimeoutExpired, OSError):
        return frozenset()
    return frozenset(_BASE_NAME.findall(done.stdout))


def resolve(known: frozenset[str]) -> tuple[dict[str, tuple[tuple[str, ...], ...]], list[str]]:
    """Per quantity the metrics of each group that the chip has, and the quantities it has none for.

    Metrics of the launch itself are not listed by ncu and taken to be there. Nothing known: the first alternatives.
    """
    chosen: dict[str, tuple[tuple[str, ...], ...]] = {}
    missing = []
    for quantity, groups in QUANTITIES.items():
        picked = [next((names for names in group if _all_known(names, known)), None) for group in groups]
        if any(names is None for names in picked):
            missing.append(quantity)
        else:
            chosen[quantity] = tuple(names for names in picked if names is not None)
    return chosen, missing


def _all_known(names: tuple[str, ...], known: frozenset[str]) -> bool:
    return not known or all(name.startswith("launch__") or name.partition(".")[0] in known for name in names)


def parse_csv(text: str) -> list[tuple[str, dict[str, tuple[float, str]]]]:
    """`ncu --csv --page raw`: per launch its kernel and {metric: (value, unit)}.

    Lines of ncu itself come before the header; a row of units follows it. Numbers may carry thousands separators.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    table = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    header, *rest = table
    if "Kernel Name" not in header or not rest:
        return []
    at = header.index("Kernel Name")
    units = dict(zip(header, rest[0], strict=False))
    found = []
    for cells in rest[1:]:
        row = dict(zip(header, cells, strict=False))
        values = {}
        for name, cell in row.items():
            value = _number(cell)
            if "__" in name and value is not None:
                values[name] = (value, units.get(name, ""))
        found.append((cells[at].partition("(")[0].split(" ")[-1], values))
    return found


def _number(cell: str) -> float | None:
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _values(
    chosen: Mapping[str, tuple[tuple[str, ...], ...]], row: Mapping[str, tuple[float, str]]
) -> dict[str, Value]:
    found = {}
    for quantity, groups in chosen.items():
        names = [name for group in groups for name in group]
        if all(name in row for name in names):
            value = sum(row[name][0] for name in names)
            found[quantity] = Value("+".join(names), value, row[names[0]][1])
    return found


def _why(said: str, code: int) -> str:
    """One line from what ncu and its target said."""
    if _PERMISSION in said:
        return (
            f"the driver keeps GPU counters to administrators ({_PERMISSION}): run as root, or set the module option "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    complaints = [line.strip() for line in _COMPLAINT.findall(said)]
    others = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("==", '"'))]
    words = " ".join((complaints or others[-1:] or ["it wrote no counters"])[0].split())
    own = f"; {others[-1]}" if complaints and others else ""
    return f"ncu ended with exit code {code}: {words}{own}"[:400]
