"""Sustained rates and baselines that were measured on this machine's GPUs, in the user's cache by chip and driver.

Beside the datasheet's row, never instead of it. A file that is absent or damaged means: not measured here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from evo.errors import HarnessFault
from evo.files import cache_folder, write_atomic
from evo.results import Rate, Timing
from evo.results.codec import ALWAYS, Serializable, parse

_RATES = "rates"
_FOLDER = "measured"  # of the user's cache

M = TypeVar("M", "Calibration", "MeasuredBaseline")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimes(Serializable):
    """The times of one library call."""

    warm: Timing  # with inputs and code in the caches
    cold: Annotated[Timing | None, ALWAYS] = None  # with the L2 cache flushed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured(Serializable):
    version: Literal[1] = 1  # of the file's format
    kind: str  # what was measured
    chip: str  # on which chip
    driver: str  # with which driver
    date: str  # when, ISO 8601 in UTC
    about: Annotated[Mapping[str, str], ALWAYS] = field(default_factory=dict)  # what the device said of itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(_Measured):
    """The rates of a GPU."""

    values: Annotated[Mapping[str, Rate], ALWAYS]  # by name

    def rates(self) -> dict[str, float]:
        """The figures by name, in SI units."""
        return {name: rate.value for name, rate in self.values.items() if rate.value > 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBaseline(_Measured):
    """The times of a task's library calls."""

    values: Annotated[Mapping[str, Mapping[str, CallTimes]], ALWAYS]  # by case, then by library call


def keep_rates(chip: str, about: Mapping[str, str], values: Mapping[str, Rate], now: datetime) -> Path:
    """Keep a calibration. Raises HarnessFault if the cache cannot be written."""
    driver, date = about.get("driver", "unknown"), now.isoformat(timespec="seconds")
    return _keep(Calibration(kind=_RATES, chip=chip, driver=driver, date=date, about=about, values=values))


def keep_baseline(
    task: str, chip: str, about: Mapping[str, str], values: Mapping[str, Mapping[str, CallTimes]], now: datetime
) -> Path:
    """Keep the times of a task's library calls. Raises HarnessFault if the cache cannot be written."""
    driver, date = about.get("driver", "unknown"), now.isoformat(timespec="seconds")
    kind = f"baseline-{task}"
    return _keep(MeasuredBaseline(kind=kind, chip=chip, driver=driver, date=date, about=about, values=values))


def latest_rates(chip: str) -> Calibration | None:
    """The latest calibration of a chip on this machine, of whichever driver."""
    return _latest(Calibration, _RATES, chip)


def latest_baseline(task: str, chip: str) -> MeasuredBaseline | None:
    return _latest(MeasuredBaseline, f"baseline-{task}", chip)


def _keep(measured: Calibration | MeasuredBaseline) -> Path:
    where = cache_folder(_FOLDER)
    if where is None:
        raise HarnessFault("no folder to keep measurements in", hint="set EVO_CACHE to a folder")
    path = where / measured.chip / f"{measured.kind}-{_word(measured.driver)}.json"
    text = json.dumps(measured.to_json(), indent=1, allow_nan=False)
    try:
        write_atomic(path, f"{text}\n".encode())
    except HarnessFault as fault:
        raise HarnessFault(fault.message, hint="set EVO_CACHE to a folder that can be written") from fault
    return path


def _latest(what: type[M], kind: str, chip: str) -> M | None:
    where = cache_folder(_FOLDER)
    if where is None or _word(chip) != chip:
        return None
    found = [_read(what, path, kind, chip) for path in sorted((where / chip).glob(f"{kind}-*.json"))]
    return max((measured for measured in found if measured is not None), key=lambda m: m.date, default=None)


def _read(what: type[M], path: Path, kind: str, chip: str) -> M | None:
    try:
        measured = what.from_json(parse(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None
    return measured if (measured.kind, measured.chip) == (kind, chip) else None


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)
