"""What was measured on the GPUs of this machine, kept in the user's cache by chip and driver: rates and baselines.

Beside the datasheet's row, never instead of it. A file that is absent or damaged means: not measured here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

from evo.errors import HarnessFault
from evo.files import cache_folder, write_atomic
from evo.results import Json

VERSION = 1
_RATES = "rates"
_FOLDER = "measured"  # of the user's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One file: what was measured (`values`), on which chip, with which driver, when (ISO 8601, UTC)."""

    kind: str
    chip: str
    driver: str
    date: str
    about: dict[str, str]
    values: dict[str, Json]

    def rates(self) -> dict[str, float]:
        """The figures of a calibration by name, in SI units."""
        found: dict[str, float] = {}
        for name, figure in self.values.items():
            value = figure.get("value") if isinstance(figure, dict) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                found[name] = float(value)
        return found

    def to_json(self) -> dict[str, Json]:
        return {
            "version": VERSION,
            "kind": self.kind,
            "chip": self.chip,
            "driver": self.driver,
            "date": self.date,
            "about": dict[str, Json](self.about),
            "values": self.values,
        }


def keep_rates(chip: str, about: Mapping[str, str], values: Mapping[str, Json], now: datetime) -> Path:
    """Keep a calibration. Raises HarnessFault where the cache cannot be written."""
    return _keep(_RATES, chip, about, values, now)


def keep_baseline(task: str, chip: str, about: Mapping[str, str], values: Mapping[str, Json], now: datetime) -> Path:
    """Keep a task's rivals as measured. Raises HarnessFault where the cache cannot be written."""
    return _keep(f"baseline-{task}", chip, about, values, now)


def latest_rates(chip: str) -> Measured | None:
    """The latest calibration of a chip on this machine, of whichever driver."""
    return _latest(_RATES, chip)


def latest_baseline(task: str, chip: str) -> Measured | None:
    return _latest(f"baseline-{task}", chip)


def _keep(kind: str, chip: str, about: Mapping[str, str], values: Mapping[str, Json], now: datetime) -> Path:
    where = cache_folder(_FOLDER)
    if where is None:
        raise HarnessFault("no folder to keep measurements in", hint="set EVO_CACHE to a folder")
    driver = about.get("driver", "unknown")
    path = where / chip / f"{kind}-{_word(driver)}.json"
    measured = Measured(
        kind=kind,
        chip=chip,
        driver=driver,
        date=now.isoformat(timespec="seconds"),
        about=dict(about),
        values=dict(values),
    )
    text = json.dumps(measured.to_json(), indent=1, allow_nan=False)
    try:
        write_atomic(path, f"{text}\n".encode())
    except HarnessFault as fault:
        raise HarnessFault(fault.message, hint="set EVO_CACHE to a folder that can be written") from fault
    return path


def _latest(kind: str, chip: str) -> Measured | None:
    where = cache_folder(_FOLDER)
    if where is None or _word(chip) != chip:
        return None
    found = [_read(path, kind, chip) for path in sorted((where / chip).glob(f"{kind}-*.json"))]
    return max((measured for measured in found if measured is not None), key=lambda m: m.date, default=None)


def _read(path: Path, kind: str, chip: str) -> Measured | None:
    try:
        data = json.loads(path.read_bytes())
        if data["version"] != VERSION or data["kind"] != kind or data["chip"] != chip:
            return None
        about = {str(name): str(value) for name, value in data["about"].items()}
        values = cast("dict[str, Json]", dict(data["values"]))
        return Measured(
            kind=kind, chip=chip, driver=str(data["driver"]), date=str(data["date"]), about=about, values=values
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)
