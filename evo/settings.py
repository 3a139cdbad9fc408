"""What one run of the loop is asked to do, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evo.cluster import Cluster
from evo.device import DeviceName
from evo.llm import LlmSettings
from evo.result import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one run of the loop is asked to do."""

    task: str
    device: DeviceName
    arch: str = "sm_89"
    iterations: int = 12
    budget_s: float | None = None
    operators: tuple[str, ...] = ("ladder", "rules")
    start: Path | None = None  # `--from FILE`: begin anew from this file
    branch: str | None = None
    seed: int = 0
    margin: float | None = None
    neutral: bool = False
    patch: Path | None = None
    search: str = "bandit"  # or a control: random, best-of-n
    patience: int | None = None  # trials without a keep, after which the run ends
    target: float | None = None  # share of the headline's floor, at which the run ends
    resume: bool = False  # the iterations count from the start of the last run
    llm: LlmSettings | None = None
    cluster: Cluster | None = None  # where candidates are evaluated; None: here, one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. kind: note, begin, trial, stage, usage, result, done; `fields` is JSON-ready."""

    kind: str
    text: str = ""
    fields: dict[str, Json] = field(default_factory=dict)


Observer = Callable[[Event], None]
