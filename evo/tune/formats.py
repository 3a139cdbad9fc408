"""Reading and writing knob spaces: T1 (knobs and conditions) and T4 (results) of the autotuning community's formats.

Files may be gzipped. Results are decoded one at a time, so a file of some gigabytes takes the memory of its values.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from evo.disk import write_atomic
from evo.errors import SyntaxInvalid
from evo.tune.conditions import Condition, condition, listed
from evo.tune.space import Knob, KnobValue, Measured, Points, Space, distinct

_CHUNK = 1 << 20
_RESULTS = re.compile(r'"results"\s*:\s*\[')
_RATE = re.compile(r"(flops?|gb|bytes|ops|items)\s*(/|_?per_?)\s*s|throughput|bandwidth|performance", re.IGNORECASE)
_MOST_LEGAL = 20_000_000
_T4_HINT = 'a T4 file is {"results": [{"configuration": {...}, "invalidity": ..., "measurements": [...]}, ...]}'
_T1_HINT = "a T1 file holds ConfigurationSpace with TuningParameters, each with Name and Values"


@dataclass(frozen=True)
class Declared:
    """What a T1 file says: the knobs and the conditions that a legal combination meets."""

    name: str
    knobs: tuple[Knob, ...]
    conditions: tuple[Condition, ...]

    def space(self) -> Space:
        """The space with its legal points listed. Raises SyntaxInvalid where there are too many to list."""
        return Space(self.name, self.knobs, legal_points(self))


# --- T4


def read_results(path: Path, *, objective: str | None = None, maximise: bool | None = None) -> Measured:
    """Read a T4 file. Points that were refused by the space's conditions are no part of it; other failures are.

    Raises SyntaxInvalid naming the file and the result.
    """
    names: list[str] | None = None
    tables: list[dict[tuple[str, Any], int]] = []
    values: list[list[KnobValue]] = []
    rows: dict[tuple[int, ...], float] = {}
    unit = ""
    for number, result in enumerate(_results(path), start=1):
        where = f"result {number}"
        configuration = _field(path, where, result, "configuration", dict)
        if names is None:
            names = list(configuration)
            tables, values = [{} for _ in names], [[] for _ in names]
            objective = objective or _objective(result)
        if len(configuration) != len(names) or any(name not in configuration for name in names):
            raise SyntaxInvalid(path, None, f"{where}: other knobs than result 1 ({', '.join(names)})", hint=_T4_HINT)
        if str(result.get("invalidity", "correct")) == "constraints":
            continue
        point = []
        for name, table, known in zip(names, tables, values, strict=True):
            value = configuration[name]
            if not isinstance(value, int | float | str):
                raise SyntaxInvalid(path, None, f"{where}: {name} = {value!r} is no knob value", hint=_T4_HINT)
            index = table.setdefault((type(value).__name__, value), len(known))
            if index == len(known):
                known.append(value)
            point.append(index)
        value_, unit_ = _measured(result, str(objective))
        unit = unit or unit_
        before = rows.get(tuple(point), math.nan)
        rows[tuple(point)] = value_ if math.isnan(before) else before
    if names is None or not rows:
        raise SyntaxInvalid(path, None, "no results in it", hint=_T4_HINT)
    if all(math.isnan(value) for value in rows.values()):
        hint = "--objective NAME picks another measurement"
        raise SyntaxInvalid(path, None, f"no result has a measurement `{objective}`", hint=hint)
    return _assembled(
        path,
        names,
        values,
        rows,
        unit,
        not (bool(_RATE.search(f"{objective} {unit}")) if maximise is None else maximise),
    )


def _assembled(
    path: Path,
    names: Sequence[str],
    values: Sequence[Sequence[KnobValue]],
    rows: Mapping[tuple[int, ...], float],
    unit: str,
    minimise: bool,
) -> Measured:
    """Knob values in ascending order where they are numbers, and the points accordingly."""
    points = np.array(list(rows), dtype=np.int64).reshape(len(rows), len(names))
    knobs = []
    for column, (name, known) in enumerate(zip(names, values, strict=True)):
        order = list(range(len(known)))
        if not any(isinstance(value, str) for value in known):
            order.sort(key=lambda index: float(known[index]))
        rank = np.empty(len(known), np.int64)
        rank[order] = np.arange(len(known))
        points[:, column] = rank[points[:, column]]
        knobs.append(Knob(name, tuple(known[index] for index in order)))
    name = path.name.removesuffix(".gz").removesuffix(".json").removesuffix("_T4")
    space = Space(name, tuple(knobs), points.astype(np.int16))
    return Measured(space, np.array(list(rows.values())), minimise=minimise, unit=unit)


def _objective(result: Mapping[str, Any]) -> str:
    named = result.get("objectives")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return "time"


def _measured(result: Mapping[str, Any], objective: str) -> tuple[float, str]:
    """The objective's value, NaN where the result failed or has none."""
    if str(result.get("invalidity", "correct")) != "correct":
        return math.nan, ""
    for row in result.get("measurements") or ():
        if isinstance(row, dict) and row.get("name") == objective:
            value = row.get("value")
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                return math.nan, ""  # tuners write words or infinities for failures
            return float(value), str(row.get("unit", ""))
    return math.nan, ""


def _field(path: Path, where: str, result: object, name: str, kind: type) -> Any:
    found = result.get(name) if isinstance(result, dict) else None
    if not isinstance(found, kind) or (kind is dict and not found):
        raise SyntaxInvalid(path, None, f"{where}: `{name}` is missing or no {kind.__name__}", hint=_T4_HINT)
    return found


def _results(path: Path) -> Iterator[Any]:
    """The members of the list `results`, decoded one by one."""
    decoder = json.JSONDecoder()
    with _opened(path) as file:
        text, start = _upto_results(path, file)
        while True:
            start = _skipped(text, start, " \t\r\n,")
            if start < len(text) and text[start] == "]":
                return
            try:
                member, start = decoder.raw_decode(text, start)
                if start > len(text) - 2 and (more := file.read(_CHUNK)):  # a number may go on
                    text, start = text[start:] + more, 0
                yield member
                continue
            except json.JSONDecodeError as error:
                more = _read(path, file)
                if not more:
                    problem = f"ends in the middle of a result: {error.msg}"
                    raise SyntaxInvalid(path, None, problem, hint=_T4_HINT) from None
                text, start = text[start:] + more, 0
                if len(text) > 64 * _CHUNK:
                    raise SyntaxInvalid(path, None, f"not JSON: {error.msg}", hint=_T4_HINT) from None


def _upto_results(path: Path, file: TextIO) -> tuple[str, int]:
    text = ""
    while more := _read(path, file):
        text += more
        if match := _RESULTS.search(text):
            return text[match.end() :], 0
        if len(text) > 16 * _CHUNK:
            break
    raise SyntaxInvalid(path, None, "no list `results` in it", hint=_T4_HINT)


def _skipped(text: str, start: int, blanks: str) -> int:
    while start < len(text) and text[start] in blanks:
        start += 1
    return start


def _read(path: Path, file: TextIO) -> str:
    try:
        return file.read(_CHUNK)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SyntaxInvalid(path, None, f"cannot be read: {error}", hint=_T4_HINT) from None


def _opened(path: Path) -> TextIO:
    """The text of a file, gzipped or not: its first bytes say which."""
    try:
        raw = path.open("rb")
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SyntaxInvalid(
            path, None, f"cannot be read: {reason}", hint="give a T4 or T1 file, .json or .json.gz"
        ) from None
    return io.TextIOWrapper(gzip.GzipFile(fileobj=raw) if packed else raw, encoding="utf-8-sig")


@dataclass(frozen=True)
class Raw:
    """A results file as it stands."""

    metadata: dict[str, Any]
    results: list[dict[str, Any]]


def read_raw(path: Path) -> Raw:
    """Read a results file that `write_results` wrote. Raises SyntaxInvalid where it is another kind of file."""
    with _opened(path) as file:
        try:
            data = json.loads(file.read())
        except (OSError, EOFError, UnicodeDecodeError, ValueError, RecursionError) as error:
            raise SyntaxInvalid(path, None, f"not JSON: {error}", hint=_T4_HINT) from None
    metadata, results = (data.get("metadata"), data.get("results")) if isinstance(data, dict) else (None, None)
    if not isinstance(metadata, dict) or not isinstance(results, list):
        raise SyntaxInvalid(path, None, "no metadata and results in it", hint=_T4_HINT)
    for number, row in enumerate(results, start=1):
        _field(path, f"result {number}", row, "configuration", dict)
    return Raw(metadata, results)


def write_results(
    path: Path,
    results: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, Any],
) -> None:
    """Write a T4 file, gzipped where its name ends in .gz; the same results make the same bytes.

    Raises HarnessFault where the disk refuses.
    """
    head = json.dumps(dict(metadata), ensure_ascii=False)
    lines = ",\n".join(json.dumps(dict(result), ensure_ascii=False, allow_nan=False) for result in results)
    text = f'{{"schema_version": "1.0.0", "metadata": {head}, "results": [\n{lines}\n]}}\n'
    data = text.encode()
    write_atomic(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


# --- T1


def is_declaration(path: Path) -> bool:
    """True for a T1 file, false for one of results."""
    with _opened(path) as file:
        head = _read(path, file)
    return '"ConfigurationSpace"' in head and not _RESULTS.search(head)


def read_declaration(path: Path) -> Declared:
    """Read a T1 file. Raises SyntaxInvalid naming the file and the knob or condition."""
    with _opened(path) as file:
        try:
            data = json.loads(file.read())
        except (OSError, EOFError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise SyntaxInvalid(path, getattr(error, "lineno", None), f"not JSON: {error}", hint=_T1_HINT) from None
    body = data.get("ConfigurationSpace") if isinstance(data, dict) else None
    given = body.get("TuningParameters") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(given, list) or not given:
        raise SyntaxInvalid(path, None, "no ConfigurationSpace with TuningParameters", hint=_T1_HINT)
    knobs = tuple(_declared_knob(path, row) for row in given)
    known = {knob.name for knob in knobs}
    conditions = []
    for row in body.get("Conditions") or []:
        text = row.get("Expression") if isinstance(row, dict) else row
        if not isinstance(text, str):
            raise SyntaxInvalid(path, None, f"condition without Expression: {row!r}", hint=_T1_HINT)
        made = condition(text, where=str(path))
        if unknown := sorted(made.names - known):
            problem = f"condition `{text}`: no knob {', '.join(unknown)}"
            raise SyntaxInvalid(path, None, problem, hint=f"knobs: {', '.join(sorted(known))}")
        conditions.append(made)
    general = data.get("General")
    name = general.get("BenchmarkName") if isinstance(general, dict) else None
    return Declared(str(name or path.stem), knobs, tuple(conditions))


def _declared_knob(path: Path, row: object) -> Knob:
    name = row.get("Name") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str):
        raise SyntaxInvalid(path, None, f"a knob without Name: {row!r}", hint=_T1_HINT)
    values = row.get("Values")
    if isinstance(values, str):
        values = listed(values, where=str(path))
    if not isinstance(values, list | tuple) or not values:
        raise SyntaxInvalid(path, None, f"knob {name}: no Values", hint=_T1_HINT)
    if bad := [value for value in values if not isinstance(value, int | float | str)]:
        raise SyntaxInvalid(path, None, f"knob {name}: {bad[0]!r} is no value", hint=_T1_HINT)
    return Knob(name, distinct(values))


def legal_points(declared: Declared) -> Points:
    """All combinations that meet the conditions, knob by knob, each condition as soon as its names are bound."""
    bound: list[str] = []
    points = np.zeros((1, 0), np.int16)
    waiting = list(declared.conditions)
    for knob in declared.knobs:
        count = len(knob.values)
        if len(points) * count > _MOST_LEGAL:
            problem = f"more than {_MOST_LEGAL:,} combinations to look at"
            raise SyntaxInvalid(declared.name, None, problem, hint="add conditions on the knobs that come first")
        fresh = np.tile(np.arange(count, dtype=np.int16), len(points))
        points = np.concatenate([np.repeat(points, count, axis=0), fresh[:, None]], axis=1)
        bound.append(knob.name)
        for made in [made for made in waiting if made.names <= set(bound)]:
            waiting.remove(made)
            columns = {
                other.name: _column(other)[points[:, index]]
                for index, other in enumerate(declared.knobs[: len(bound)])
                if other.name in made.names
            }
            points = points[made.holds(columns)] if columns else points
    return points


def _column(knob: Knob) -> NDArray[Any]:
    words = any(isinstance(value, str) for value in knob.values)
    return np.array(knob.values, dtype=object if words else None)
