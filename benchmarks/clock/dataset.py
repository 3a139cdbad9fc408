"""The clock's data set: rows of variants with their measured time and what their launches ask of the chip."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from evo.sim.launch_work import LaunchWork
from evo.sim.timing_model import limiter_of, modelled_us
from evo.sim.timing_parameters import FITTED
from evo.spec.chips import Chip, chip

_KNOWN = {field.name for field in fields(LaunchWork)}
EARLIER = ("sim-2", "sim-3", "sim-4", "sim-5", "sim-6", "sim-7", "sim-8", "sim-9", "sim-10")
FILE = Path(__file__).resolve().parents[1] / "data" / "clock_h200.jsonl.xz"
SECOND = FILE.with_name("clock_h200_second.jsonl.xz")  # of the kernels in `second/`
THIRD = FILE.with_name("clock_h200_causes.jsonl.xz")  # of those in `causes.py`


@dataclass(frozen=True)
class Row:
    """One variant at one case. us: measured warm p50; again_us: of a second capture, of some.

    side: of the second set, whether the family is set aside; else empty.
    """

    id: str
    family: str  # the kernel that was varied, with its case if it has several
    held_out: bool
    knobs: dict[str, Any]
    note: str
    us: float
    again_us: float | None
    cleared: tuple[int, ...]
    footprint_bytes: int
    works: tuple[LaunchWork, ...]
    before: dict[str, float]  # what earlier versions of the model said
    side: str = ""

    def modelled(self, of: Chip, constants: dict[str, float] | None = None) -> tuple[float, str]:
        """The model's time, and the term that bounds it."""
        found, terms = modelled_us(
            self.works,
            of,
            footprint_bytes=self.footprint_bytes,
            cleared=self.cleared,
            constants=constants or FITTED,
        )
        return found, limiter_of(terms)


def read(path: Path = FILE) -> list[Row]:
    """All rows of the file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [_row(json.loads(line)) for line in file]


def _row(line: dict[str, Any]) -> Row:
    return Row(
        id=line["id"],
        family=f"{line['family']}@{line['case']}" if "/" in line["family"] else line["family"],
        held_out=line["held_out"],
        knobs=line["knobs"],
        note=line["note"],
        us=line["us"],
        again_us=line["again_us"],
        cleared=tuple(line["memsets"]),
        footprint_bytes=line["footprint"],
        works=works_of(line),
        before={version: line[name] for version in EARLIER if (name := version.replace("-", "")) in line},
        side=line.get("side", ""),
    )


def works_of(line: dict[str, Any]) -> tuple[LaunchWork, ...]:
    """What the launches of a line ask of a chip; fields that the model has given up since are left out."""
    return tuple(LaunchWork(**{name: value for name, value in work.items() if name in _KNOWN}) for work in line["work"])


def write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write rows, one JSON object a line."""
    text = "".join(json.dumps(line, separators=(",", ":"), sort_keys=True) + "\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def by_family(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by family and case, in the order of names."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.family):
        found.setdefault(row.family, []).append(row)
    return found


H200 = chip("h200")
