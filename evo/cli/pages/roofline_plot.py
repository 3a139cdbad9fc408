"""The roofline of a task on a chip: the limit of each case, and the champion and rivals below it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from evo.analysis.roofline import CaseLimits
from evo.results.codec import ALWAYS, NEVER, NONEMPTY, Serializable, Us
from evo.results.wording import microseconds
from evo.spec.chips import Chip


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineDot(Serializable):
    """One time of one case: in `p50_us` if it was measured, in `modelled_us` if not."""

    RENAMED: ClassVar = {"what": "name"}

    case: str  # the case
    what: str  # the champion or the library call
    role: str  # `champion` or `rival`
    p50_us: Us | None = None  # the measured median
    modelled_us: Us | None = None  # the modelled time

    @property
    def us(self) -> float:
        us = self.modelled_us if self.p50_us is None else self.p50_us
        assert us is not None
        return us


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline(Serializable):
    """One task on one chip with times of one kind."""

    task: str  # the task
    chip: str  # the chip's short name
    timing: str  # `measured` or `modelled`
    cases: Annotated[tuple[CaseLimits, ...], ALWAYS] = ()  # their limits
    taken: Annotated[tuple[RooflineDot, ...], ALWAYS] = ()  # times of champions and library calls
    problem: Annotated[str, NONEMPTY] = ""  # why there are no limits
    chip_name: Annotated[str, NEVER]
    roofs: Annotated[tuple[tuple[str, float], ...], NEVER] = ()  # name, FLOP/s
    slopes: Annotated[tuple[tuple[str, float, bool], ...], NEVER] = ()  # name, bytes/s, whether it is an estimate

    @property
    def title(self) -> str:
        """With the kind of the times, if there are any."""
        return f"{self.task} on {self.chip_name}{f', {self.timing} times' if self.taken else ', limits'}"

    def of_case(self, name: str) -> list[RooflineDot]:
        return [one for one in self.taken if one.case == name]


def floor_cells(case: CaseLimits) -> tuple[str, str]:
    """The floor and its limiter. If nothing limits inputs in L2: `none`, and the time of DRAM with cold caches."""
    if case.floor_us:
        return microseconds(case.floor_us), case.limiter
    cold = f"; from cold caches {microseconds(case.floor_cold_us)} µs" if case.floor_cold_us else ""
    return "none", f"nothing with inputs in L2{cold}"


def roofline(
    task: str, chip: Chip, timing: str, cases: Sequence[CaseLimits], taken: Sequence[RooflineDot], *, problem: str = ""
) -> Roofline:
    """The roofs of a chip around the plotted points."""
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
