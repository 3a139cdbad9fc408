"""`leaderboard.json`: the champion of each (task, chip, arch, loaded), byte-equal for equal records.

Measured and modelled times are different fields of different entries; no ranking holds both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from evo.errors import RecordCorrupt
from evo.files import write_atomic
from evo.records.since_start import SinceStart, line_since_start, since_start
from evo.records.trials import Record
from evo.results import Baseline, CaseBench, Environment, Gain, Json, Loaded
from evo.results.codec import ALWAYS, Decimals, Serializable, Us, copied, parse, unknown_field

VERSION = 1
HINT = "evo leaderboard --rebuild"
_MODELLED = {"modelled_us", "model_version", "calibration"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdTimes(Serializable):
    """Measured with the L2 cache flushed before each launch."""

    p50_us: Us  # the median
    p90_us: Us | None = None  # the 90th percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardCase(Serializable):
    """A champion's time at one case: measured (warm) or modelled, never both."""

    p50_us: Us | None = None  # the measured median
    p90_us: Us | None = None  # the 90th percentile
    p99_us: Us | None = None  # the 99th percentile
    samples: int | None = None  # how many
    cold: ColdTimes | None = None  # with the L2 cache flushed
    tflop_per_s: Annotated[float | None, Decimals(4)] = None  # the task's floating-point operations over the median
    roofline_fraction: Annotated[float | None, Decimals(4)] = None  # the case's floor on the chip over the median
    baseline: Baseline | None = None  # the fastest library call, timed in the same run
    modelled_us: Us | None = None  # the modelled time
    model_version: str | None = None  # the version of the simulator's timing model
    calibration: str | None = None  # whether the model was fitted to measurements of that chip

    def __post_init__(self) -> None:
        if self.modelled_us is None:
            if None in (self.p50_us, self.p90_us, self.p99_us, self.samples):
                raise ValueError("neither a modelled time, nor p50_us, p90_us, p99_us and samples of a measured one")
        elif self.model_version is None or set(self.to_json()) - _MODELLED:
            raise ValueError("a modelled time has a model_version, and nothing of it is measured")

    @property
    def time_us(self) -> float:
        """The measured median, or the modelled time."""
        us = self.modelled_us if self.p50_us is None else self.p50_us
        assert us is not None
        return us


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardEntry(Serializable):
    """One champion."""

    task: str  # the task
    chip: str  # the chip, `sim-l4` for the model of an L4
    arch: str  # what was compiled for
    loaded: Loaded  # `cubin`, `ptx_jit` or `sim`
    timing: Literal["measured", "modelled"]  # of every time in it, as `loaded` says
    variant: str  # the champion
    parent: str | None = None  # what it was made from; absent for a start
    name: str  # the change that made it, in a line
    cases: Annotated[Mapping[str, BoardCase], ALWAYS]  # its times by case
    gain: Gain | None = None  # over its parent; absent if none was claimed
    since_start: SinceStart | None = None  # over the start of its line of descent; absent if that is not known
    rewrites: int | None = None  # steps from its start to it that were rewrites, not single changes; absent if none
    commit: str | None = None  # the commit that keeps it; absent if git does not know it
    date: str  # when its trial ended, ISO 8601 in UTC
    environment: Environment  # where its times come from

    def __post_init__(self) -> None:
        if (self.timing == "modelled") != (self.loaded == "sim"):
            raise ValueError(f"field `timing`: {self.timing!r} with loaded {self.loaded!r}")
        for name, case in self.cases.items():
            if (case.modelled_us is None) != (self.timing == "measured"):
                raise ValueError(f"field `cases.{name}`: not a {self.timing} time")

    @property
    def built_for(self) -> str:
        """`sm_89`, or `sm_89 (ptx)` if the driver compiled it again."""
        return f"{self.arch} (ptx)" if self.loaded == "ptx_jit" else self.arch

    @property
    def place(self) -> tuple[str, str, str, str]:
        """(task, chip, arch, loaded): there is one champion of each."""
        return (self.task, self.chip, self.arch, self.loaded)

    def to_json(self) -> dict[str, Json]:
        shape = Serializable.to_json(self)
        shape["environment"] = _sorted(shape["environment"])
        return shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard(Serializable):
    """The champions."""

    version: Literal[1] = 1  # of this format
    entries: Annotated[tuple[LeaderboardEntry, ...], ALWAYS]  # one per task, chip, arch and way of loading

    def __post_init__(self) -> None:
        seen: set[tuple[str, ...]] = set()
        for number, entry in enumerate(self.entries):
            if entry.place in seen:
                raise ValueError(f"field `entries[{number}]`: a second champion of {' '.join(entry.place)}")
            seen.add(entry.place)


def build(records: Iterable[Record], commits: Mapping[str, str]) -> Leaderboard:
    """The leaderboard of these records. commits: trial -> the commit that kept it, left out if git does not know it."""
    champions: dict[tuple[str, ...], list[Record]] = {}  # by place
    rewrites: dict[tuple[str, ...], int] = {}  # by place and variant: of its line of descent
    for record in sorted(records, key=lambda record: record.moment):
        if record.kept:
            place = (record.task, *record.place)
            champions.setdefault(place, []).append(record)
            before = rewrites.get((*place, record.parent), 0) if record.parent is not None else 0
            rewrites[(*place, record.variant)] = before + (record.kind == "rewrite")
    ordered = [(champions[key], rewrites[(*key, champions[key][-1].variant)]) for key in sorted(champions)]
    return Leaderboard(entries=tuple(_entry(kept, commits, count) for kept, count in ordered))


def dump(board: Leaderboard) -> str:
    """The text of the file: one field a line, so that a change reads well in git."""
    return json.dumps(board.to_json(), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def render(records: Iterable[Record], commits: Mapping[str, str]) -> str:
    """The text of the leaderboard of these records."""
    return dump(build(records, commits))


def leaderboard_path(root: Path) -> Path:
    return root / "leaderboard.json"


def write(root: Path, board: Leaderboard) -> None:
    """Replace the file atomically. Raises HarnessFault if it cannot be written."""
    write_atomic(leaderboard_path(root), dump(board).encode("ascii"))


def load(root: Path) -> Leaderboard:
    """Read and check the file; no file is an empty leaderboard. Raises RecordCorrupt naming file and field."""
    path = leaderboard_path(root)
    try:
        data = parse(path.read_bytes())
    except FileNotFoundError:
        return Leaderboard(entries=())
    except OSError as error:
        raise RecordCorrupt(f"{path}: cannot be read: {error.strerror or error}", hint=HINT) from None
    except (ValueError, RecursionError) as error:
        raise RecordCorrupt(f"{path}: not JSON: {error}", hint=HINT) from None
    if not isinstance(data, dict):
        held = {list: "a list", str: "a text", type(None): "null"}.get(type(data), f"a {type(data).__name__}")
        words = f"{held}, not a leaderboard: an object with `version` and `entries`"
        raise RecordCorrupt(f"{path}: holds {words}", hint=HINT)
    try:
        board = Leaderboard.from_json(data)
    except ValueError as error:
        raise RecordCorrupt(f"{path}: {error}", hint=HINT) from None
    if "version" not in data:
        raise RecordCorrupt(f"{path}: field `version`: missing", hint=HINT)
    for number, entry in enumerate(data["entries"]):
        if found := _unknown(entry):
            raise RecordCorrupt(f"{path}: field `entries[{number}].{found}`: unknown field", hint=HINT)
    return board


def entries(board: Leaderboard, *, task: str | None = None, timing: str | None = None) -> list[LeaderboardEntry]:
    """The entries to show, by task, then measured before modelled, then chip, arch and how it was loaded."""
    chosen = [entry for entry in board.entries if task in (None, entry.task) and timing in (None, entry.timing)]
    return sorted(chosen, key=lambda entry: (entry.task, entry.timing, *entry.place[1:]))


def _unknown(entry: dict[str, dict[str, object]]) -> str | None:
    """The first field of an entry, or of a case of it, that there is not."""
    cases = ((name, unknown_field(BoardCase, case)) for name, case in entry["cases"].items())
    return unknown_field(LeaderboardEntry, entry) or next(
        (f"cases.{name}.{field}" for name, field in cases if field), None
    )


# --- building -------------------------------------------------------------------------------------------------------


def _entry(kept: Sequence[Record], commits: Mapping[str, str], rewrites: int) -> LeaderboardEntry:
    record, since = kept[-1], since_start(line_since_start(kept))
    name = " ".join(record.summary.split())
    cases = {row.name: _case(row) for row in record.bench}
    given = {"name": name, "timing": record.timing, "cases": cases, "commit": commits.get(record.trial)}
    return copied(LeaderboardEntry, record.environment, record, **given, rewrites=rewrites or None, since_start=since)


def _case(row: CaseBench) -> BoardCase:
    if row.warm is None:
        return copied(BoardCase, row)
    return copied(BoardCase, row.warm, row, cold=copied(ColdTimes, row.cold) if row.cold is not None else None)


def _sorted(value: Json) -> Json:
    """Equal records may have been written with their free-form fields in another order."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return value
