"""`leaderboard.json`: the champion of each (task, chip, arch, loaded), byte-equal for equal records.

Measured and modelled times are different fields of different entries; no ranking holds both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn, cast

from evo.errors import RecordCorrupt
from evo.files import write_atomic
from evo.records.trials import Record
from evo.records.trials.schema import is_number
from evo.results import Json, drop_absent

VERSION = 1
HINT = "evo leaderboard --rebuild"

Board = dict[str, Json]
Entry = dict[str, Json]

_TEXTS = ("task", "chip", "arch", "loaded", "timing", "variant", "name", "date")
_OPTIONAL_TEXTS = ("parent", "commit")
_FIELDS = {*_TEXTS, *_OPTIONAL_TEXTS, "cases", "gain", "environment"}
_MEASURED = ("p50_us", "p90_us", "p99_us", "samples")
_MEASURED_MORE = ("cold", "tflop_per_s", "roofline_fraction", "baseline")
_MODELLED = ("modelled_us", "model_version", "calibration")
_TIMING = {"cubin": "measured", "ptx_jit": "measured", "sim": "modelled"}


def build(records: Iterable[Record], commits: Mapping[str, str]) -> Board:
    """The leaderboard of these records. commits: trial -> the commit that kept it, left out where git does not know."""
    champions: dict[tuple[str, ...], Record] = {}
    for record in sorted(records, key=lambda record: (record.run, record.number)):
        if record.kept:
            champions[(record.task, *record.place)] = record
    entries: list[Json] = [_entry(champions[key], commits) for key in sorted(champions)]
    return {"version": VERSION, "entries": entries}


def dump(board: Board) -> str:
    """The text of the file: one field a line, so that a change reads well in git."""
    return json.dumps(board, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def render(records: Iterable[Record], commits: Mapping[str, str]) -> str:
    """The text of the leaderboard of these records."""
    return dump(build(records, commits))


def leaderboard_path(root: Path) -> Path:
    return root / "leaderboard.json"


def write(root: Path, board: Board) -> None:
    """Replace the file atomically. Raises HarnessFault where it cannot be written."""
    write_atomic(leaderboard_path(root), dump(board).encode("ascii"))


def load(root: Path) -> Board:
    """Read and check the file; no file is an empty leaderboard. Raises RecordCorrupt naming file and field."""
    path = leaderboard_path(root)
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {"version": VERSION, "entries": []}
    except (OSError, ValueError, RecursionError) as error:
        raise RecordCorrupt(f"{path}: cannot be read: {error}", hint=HINT) from None
    _check(path, data)
    return cast(Board, data)


def entries(board: Board, *, task: str | None = None, timing: str | None = None) -> list[Entry]:
    """The entries to show, by task, then measured before modelled, then chip, arch and how it was loaded."""
    every = cast(list[Entry], board["entries"])
    chosen = [entry for entry in every if task in (None, entry["task"]) and timing in (None, entry["timing"])]
    return sorted(chosen, key=lambda entry: [str(entry[name]) for name in ("task", "timing", "chip", "arch", "loaded")])


# --- building -------------------------------------------------------------------------------------------------------


def _entry(record: Record, commits: Mapping[str, str]) -> Entry:
    chip, arch, loaded = record.place
    return drop_absent(
        {
            "task": record.task,
            "chip": chip,
            "arch": arch,
            "loaded": loaded,
            "timing": record.timing,
            "variant": record.variant,
            "parent": record.parent,
            "name": " ".join(record.summary.split()),
            "cases": {str(case["name"]): _case(case) for case in record.bench},
            "gain": record.gain,
            "commit": commits.get(record.trial),
            "date": record.date,
            "environment": _sorted(record.environment),
        }
    )


def _case(case: Mapping[str, Json]) -> Json:
    if "modelled_us" in case:
        return {name: case[name] for name in _MODELLED if name in case}
    warm = cast(dict[str, Json], case["warm"])
    fields: dict[str, Json] = {name: warm[name] for name in _MEASURED}
    if isinstance(cold := case.get("cold"), dict):
        fields["cold"] = {name: cold[name] for name in ("p50_us", "p90_us") if name in cold}
    fields |= {name: case[name] for name in _MEASURED_MORE[1:] if name in case}
    return fields


def _sorted(value: Json) -> Json:
    """Equal records may have been written with their free-form fields in another order."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return value


# --- checking -------------------------------------------------------------------------------------------------------


def _check(path: Path, data: object) -> None:
    def corrupt(problem: str) -> NoReturn:
        raise RecordCorrupt(f"{path}: {problem}", hint=HINT)

    if not isinstance(data, dict) or data.keys() != {"version", "entries"}:
        corrupt("expected `version` and `entries`")
    if data["version"] != VERSION or isinstance(data["version"], bool):
        corrupt(f"field `version`: {data['version']!r}, expected {VERSION}")
    if not isinstance(data["entries"], list):
        corrupt("field `entries`: not a list")
    seen: set[tuple[str, ...]] = set()
    for number, entry in enumerate(data["entries"]):
        if problem := _entry_problem(entry):
            corrupt(f"field `entries[{number}]{problem}")
        key = tuple(str(entry[name]) for name in ("task", "chip", "arch", "loaded"))
        if key in seen:
            corrupt(f"field `entries[{number}]`: a second champion of {' '.join(key)}")
        seen.add(key)


def _entry_problem(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return "`: not an object"
    if unknown := sorted(entry.keys() - _FIELDS):
        return f".{unknown[0]}`: unknown field"
    for name in (*_TEXTS, *(name for name in _OPTIONAL_TEXTS if name in entry)):
        if not isinstance(entry.get(name), str):
            return f".{name}`: {'not a text' if name in entry else 'missing'}"
    if _TIMING.get(entry["loaded"]) != entry["timing"]:
        return f".timing`: {entry['timing']!r} with loaded {entry['loaded']!r}"
    for name in ("cases", "environment"):
        if not isinstance(entry.get(name), dict):
            return f".{name}`: not an object"
    gain = entry.get("gain")
    if "gain" in entry and not (isinstance(gain, dict) and is_number(gain.get("ratio"))):
        return ".gain`: no ratio"
    for name, case in entry["cases"].items():
        if problem := _case_problem(case, entry["timing"]):
            return f".cases.{name}{problem}"
    return None


def _case_problem(case: object, timing: str) -> str | None:
    if not isinstance(case, dict):
        return "`: not an object"
    known = _MODELLED if timing == "modelled" else (*_MEASURED, *_MEASURED_MORE)
    if unknown := sorted(case.keys() - set(known)):
        return f".{unknown[0]}`: not a field of a {timing} case"
    if timing == "modelled":
        if not is_number(case.get("modelled_us")) or not isinstance(case.get("model_version"), str):
            return "`: no modelled_us and model_version"
        return None
    for name in (*_MEASURED, *(name for name in ("tflop_per_s", "roofline_fraction") if name in case)):
        if not is_number(case.get(name)):
            return f".{name}`: not a number"
    for name in ("cold", "baseline"):
        if name in case and not (isinstance(case[name], dict) and is_number(case[name].get("p50_us"))):
            return f".{name}`: no p50_us"
    return None
