"""The A/A control of an hour ago, for a run in the same environment: kept in the user's cache, one file a task.

What a control shows belongs to a machine, its driver and its task, and drifts slowly. If the file is absent, damaged,
of another environment or older than an hour, a control is taken. A disk that is full costs the next run its time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from evo.decide.capture_noise import CaptureScatter
from evo.decide.sequential import NoiseFloor
from evo.errors import EvoError
from evo.files import cache_folder, write_atomic
from evo.results import Environment
from evo.results.codec import Serializable, copied, parse

KEPT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptControl(Serializable):
    """A noise floor with all its digits, and where and when it was measured."""

    version: Literal[1] = 1  # of the file's format
    date: str  # when, ISO 8601 in UTC
    environment: Environment  # where
    sd: float  # the standard deviation of ln ratios of a pair
    pairs: int  # how many pairs were taken
    between: CaptureScatter | None = None  # the scatter between captures


def keep(environment: Environment, floor: NoiseFloor, now: datetime) -> None:
    """Keep it for the next hour; without a word if that cannot be done."""
    if (path := _path(environment)) is None:
        return
    kept = copied(KeptControl, floor, date=now.astimezone(UTC).isoformat(), environment=environment)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(kept.to_json(), indent=1).encode(), durable=False)
    except (OSError, EvoError):
        return


def latest(environment: Environment, now: datetime) -> tuple[NoiseFloor, float] | None:
    """The noise floor of the last hour in exactly this environment, and its age in seconds."""
    path = _path(environment)
    try:
        kept = KeptControl.from_json(parse(path.read_bytes())) if path is not None else None
        age_s = (now - datetime.fromisoformat(kept.date)).total_seconds() if kept is not None else KEPT_S
    except (OSError, ValueError, TypeError, EvoError):
        return None
    if kept is None or kept.environment != environment or not 0 <= age_s < KEPT_S:
        return None
    return copied(NoiseFloor, kept), age_s


def _path(environment: Environment) -> Path | None:
    folder = cache_folder("measured")
    return folder / environment.chip / f"control-{environment.task_hash}.json" if folder is not None else None
