"""The roofline of a task on a chip: what its roofs allow at each case, and the champion and rivals under them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.analysis.roofline import CaseLimits
from evo.results import Json
from evo.spec.chips import Chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One time of one case. role: `champion` or `rival`."""

    case: str
    what: str
    role: str
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """One task on one chip with times of one kind. problem: why there are no limits, where there are none."""

    task: str
    chip: str
    chip_name: str
    timing: str
    roofs: tuple[tuple[str, float], ...] = ()  # name, FLOP/s
    slopes: tuple[tuple[str, float, bool], ...] = ()  # name, bytes/s, whether it is an estimate
    cases: tuple[CaseLimits, ...] = ()
    taken: tuple[Taken, ...] = ()
    problem: str = ""

    @property
    def title(self) -> str:
        return f"{self.task} on {self.chip_name}, {self.timing} times"

    def of_case(self, name: str) -> list[Taken]:
        return [one for one in self.taken if one.case == name]

    def to_json(self) -> dict[str, Json]:
        key = "p50_us" if self.timing == "measured" else "modelled_us"
        shape: dict[str, Json] = {
            "task": self.task,
            "chip": self.chip,
            "timing": self.timing,
            "cases": [one.to_json() for one in self.cases],
            "taken": [{"case": t.case, "name": t.what, "role": t.role, key: round(t.us, 4)} for t in self.taken],
        }
        return {**shape, "problem": self.problem} if self.problem else shape


def roofline(
    task: str, chip: Chip, timing: str, cases: Sequence[CaseLimits], taken: Sequence[Taken], *, problem: str = ""
) -> Roofline:
    """The roofs of a chip around what was taken."""
    peaks = (("tensor", chip.peak_tensor_flop_per_s), ("fp32", chip.peak_fp32_flop_per_s))
    rates: Mapping[str, tuple[float | None, str]] = {
        "DRAM": (chip.rate("dram_bytes_per_s"), "dram_bytes_per_s"),
        "L2": (chip.l2_bytes_per_s, "l2_bytes_per_clock"),
    }
    return Roofline(
        task=task,
        chip=chip.slug,
        chip_name=chip.name,
        timing=timing,
        roofs=tuple((name, peak) for name, peak in peaks if peak),
        slopes=tuple((name, rate, field in chip.estimates) for name, (rate, field) in rates.items() if rate),
        cases=tuple(cases),
        taken=tuple(taken),
        problem=problem,
    )
