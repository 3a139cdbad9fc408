"""What the launches of a program ask of a chip, counted as an estimate counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

from evo.device import Arrays, BenchCase, Program
from evo.device.sim_device import SimDevice
from evo.results import Fault
from evo.sim import timing_model
from evo.sim.launch_work import LaunchWork
from evo.spec.chips import Chip


class Uncountable(Exception):
    """The simulator refuses or faults; the message says why."""


@dataclass(frozen=True, slots=True)
class Counted:
    """works: of each launch. footprint_bytes: all buffers."""

    works: tuple[LaunchWork, ...]
    footprint_bytes: int
    modelled_us: float

    def fields(self) -> dict[str, Any]:
        """As a line of the data set has them."""
        return {"work": [asdict(work) for work in self.works], "footprint": self.footprint_bytes}


def counted(device: SimDevice, program: Program, inputs: Arrays) -> Counted:
    """The counts of one case; raises Uncountable."""
    found: list[Counted] = []
    model = timing_model.modelled_us

    def kept(works: Sequence[LaunchWork], chip: Chip, **rest: Any) -> tuple[float, dict[str, float]]:
        total, terms = model(works, chip, **rest)
        found.append(Counted(tuple(works), rest["footprint_bytes"], total))
        return total, terms

    with patch.object(timing_model, "modelled_us", kept):
        rows = device.estimate([BenchCase(program=program, inputs=inputs)])
    if isinstance(rows, Fault):
        raise Uncountable(rows.message)
    return found[-1]
