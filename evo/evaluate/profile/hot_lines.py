"""Source lines, hottest first: each one's part of the pipe that limits its kernel, and what is lost there, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from evo.device import LaunchCounters
from evo.evaluate.profile.kernels import KernelProfile
from evo.results.codec import ALWAYS, Decimals, Serializable
from evo.spec.chips import Chip
from evo.spec.metrics import added, counted_metrics, lost_ways, pipe_clocks, short

_IDLE = 0.05  # of the lanes, from which a line is worth a remark
_SHARE = 0.01  # of its kernel's limiting pipe, likewise

Share = Annotated[float, Decimals(5)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyPipe(Serializable):
    """The pipe that a line keeps busy longest."""

    pipe: str  # its name
    share: Share  # the line's clocks on it, over those of the kernel's limiting pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class HotLine(Serializable):
    """One source line of one kernel."""

    COMPUTED: ClassVar = ("metrics",)

    kernel: str  # the kernel
    line: int  # of the source; 0: code without a place in it
    source: str  # the line
    pipe: str  # the pipe that limits the kernel
    share: Share  # modelled: the line's part of the clocks of that pipe, 0 to 1
    busiest: BusyPipe  # the pipe that this line keeps busy longest
    counters: Annotated[dict[str, int], ALWAYS]  # counted events by name
    remarks: Annotated[tuple[str, ...], ALWAYS]  # what is lost at the line, in words

    @property
    def metrics(self) -> dict[str, Annotated[float, Decimals(6)]]:
        """What follows from the counters, by name; zeros are left out."""
        return {name: value for name, value in counted_metrics(self.counters).items() if value}


def hot_lines(
    kernels: Sequence[KernelProfile], counted: Sequence[LaunchCounters], text: str, chip: Chip
) -> tuple[HotLine, ...]:
    """All lines that ran. Order: modelled clocks on the limiting pipe of their kernel, then on any pipe."""
    source = text.splitlines()
    ranked: list[tuple[float, float, int, HotLine]] = []
    for kernel in kernels:
        rows: dict[int, dict[str, int]] = {}
        for part in counted:
            if part.kernel == kernel.name:
                for number, row in part.by_line.items():
                    rows[number] = added((rows.get(number, {}), row))
        pipe = kernel.limiter or "issue"
        whole = (kernel.clocks or {}).get(pipe) or 1.0
        for number, row in rows.items():
            if not row.get("warp_instructions"):
                continue  # parameters alone
            clocks = pipe_clocks(row, chip, stated_only=True)
            share = clocks[pipe] / whole
            busiest = max(clocks, key=lambda name: clocks[name])
            line = HotLine(
                kernel=kernel.name,
                line=number,
                source=source[number - 1].strip() if 0 < number <= len(source) else "",
                pipe=pipe,
                share=share,
                busiest=BusyPipe(pipe=busiest, share=clocks[busiest] / whole),
                counters=row,
                remarks=tuple(remarks(number, row, share)),
            )
            ranked.append((clocks[pipe], max(clocks.values()), -number, line))
    return tuple(entry[3] for entry in sorted(ranked, key=lambda entry: entry[:3], reverse=True))


def remarks(line: int, counts: Mapping[str, int], share: float = 1.0) -> list[str]:
    """What is lost at a line, one plain sentence each; the counts are exact."""

    def of(name: str) -> int:
        return counts.get(name, 0)

    found = []
    metrics = counted_metrics(counts)
    if ways := lost_ways(counts):
        waves, least = of("shared_wavefronts"), of("shared_wavefronts_ideal")
        found.append(f"{ways} lost at line {line}: bank conflicts, {waves:,} wavefronts where {least:,} would do")
    if metrics["excess_sectors"]:
        requests, ideal = of("global_requests"), of("global_sectors_ideal")
        found.append(
            f"{short(metrics['sectors_per_request'])} sectors per request at line {line}, "
            f"{short(ideal / requests)} would do: {of('global_sectors'):,} sectors for {requests:,} requests"
        )
    if metrics.get("atomic_ways", 1.0) > 1:
        ways_ = short(metrics["atomic_ways"])
        lanes, addresses = of("atomic_lanes"), of("atomic_addresses")
        found.append(
            f"{ways_} lanes of a warp on one address at line {line}: {lanes:,} atomics on {addresses:,} addresses, "
            "one after the other"
        )
    if of("local_requests"):
        found.append(f"{of('local_requests'):,} accesses of local memory at line {line}: an array that is no register")
    idle = 1 - metrics.get("lane_use", 1.0)
    if line and idle >= _IDLE and share >= _SHARE:
        found.append(f"{short(round(32 * idle, 1))} of 32 lanes idle at line {line}: divergence or a partial warp")
    return found
