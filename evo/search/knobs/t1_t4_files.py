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

from evo.errors import SyntaxInvalid
from evo.files import write_atomic
from evo.search.knobs.conditions import Condition, condition, listed
from evo.search.knobs.space import KnobValue, MeasuredSpace, Points, Space, SpaceKnob, distinct, is_value, shown

_CHUNK = 1 << 20
_RESULTS = re.compile(r'"results"\s*:\s*\[')
_RATE = re.compile(r"(flops?|gb|bytes|ops|items)\s*(/|_?per_?)\s*s|throughput|bandwidth|performance", re.IGNORECASE)
_MOST_LEGAL = 20_000_000
_PLAIN = 2**31  # integers beyond it are Python's own, whose products do not overflow
_LONGEST_VALUE = 64 * _CHUNK
_LARGEST = 1e300  # a larger time counts as a failure
_T4_HINT = 'a T4 file is {"results": [{"configuration": {...}, "invalidity": ..., "measurements": [...]}, ...]}'
_T1_HINT = "a T1 file holds ConfigurationSpace with TuningParameters, each with Name and Values"


@dataclass(frozen=True)
class DeclaredSpace:
    """What a T1 file says: the knobs and the conditions that a legal combination meets."""

    name: str
    knobs: tuple[SpaceKnob, ...]
    conditions: tuple[Condition, ...]

    def space(self) -> Space:
        """The space with its legal points listed. Raises SyntaxInvalid if there are too many to list."""
        return Space(self.name, self.knobs, legal_points(self))


# --- T4


def read_results(path: Path, *, objective: str | None = None, maximise: bool | None = None) -> MeasuredSpace:
    """Read a T4 file. Points that were refused by the space's conditions are no part of it; other failures are.

    Raises SyntaxInvalid naming the file and the result.
    """
    names: list[str] | None = None
    tables: list[dict[tuple[str, Any], int]] = []
    values: list[list[KnobValue]] = []
    rows: dict[tuple[int, ...], float] = {}
    unit, others = "", set[str]()
    for number, result in enumerate(_results(path), start=1):
        where = f"result {number}"
        configuration = _field(path, where, result, "configuration", dict)
        if names is None:
            names = list(configuration)
            tables, values = [{} for _ in names], [[] for _ in names]
        if len(configuration) != len(names) or any(name not in configuration for name in names):
            raise SyntaxInvalid(path, None, f"{where}: other knobs than result 1 ({', '.join(names)})", hint=_T4_HINT)
        validity = _validity(result)
        if validity == "constraints":
            continue
        point = []
        for name, table, known in zip(names, tables, values, strict=True):
            value = configuration[name]
            if not is_value(value):
                raise SyntaxInvalid(path, None, f"{where}: {name} = {shown(value)} is no knob value", hint=_T4_HINT)
            index = table.setdefault((type(value).__name__, value), len(known))
            if index == len(known):
                known.append(value)
            point.append(index)
        value_ = math.nan
        if validity == "correct":
            objective = objective or _objective(result)
            value_, unit_ = _measured(result, objective)
            unit = unit or unit_
            others |= _measurements(result).keys()
        before = rows.get(tuple(point), math.nan)
        rows[tuple(point)] = value_ if math.isnan(before) else before
    if names is None or not rows:
        raise SyntaxInvalid(path, None, "no results in it", hint=_T4_HINT)
    if all(math.isnan(value) for value in rows.values()):
        problem = f"no result has a measurement `{objective}`" if objective else "every result failed"
        if objective in others:
            problem = f"no result has a number above 0 as `{objective}`"
        hint, rest = "--objective NAME picks another measurement", sorted(others - {str(objective)})
        raise SyntaxInvalid(path, None, problem, hint=f"{hint}: {', '.join(rest)}" if rest else hint)
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
) -> MeasuredSpace:
    """Knob values, in ascending order if they are numbers, and the points accordingly."""
    points = np.array(list(rows), dtype=np.int64).reshape(len(rows), len(names))
    knobs = []
    for column, (name, known) in enumerate(zip(names, values, strict=True)):
        order = list(range(len(known)))
        if not any(isinstance(value, str) for value in known):
            order.sort(key=lambda index: float(known[index]))
        rank = np.empty(len(known), np.int64)
        rank[order] = np.arange(len(known))
        points[:, column] = rank[points[:, column]]
        knobs.append(SpaceKnob(name, tuple(known[index] for index in order)))
    name = path.name.removesuffix(".gz").removesuffix(".json").removesuffix("_T4")
    space = Space(name, tuple(knobs), points.astype(np.int16))
    return MeasuredSpace(space, np.array(list(rows.values())), minimise=minimise, unit=unit)


def _validity(result: Mapping[str, Any]) -> str:
    found = result.get("invalidity")
    return "correct" if found is None else str(found).lower()


def _measurements(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By name, those that have one."""
    rows = result.get("measurements")
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {row["name"]: row for row in named if isinstance(row.get("name"), str)}


def _objective(result: Mapping[str, Any]) -> str:
    """What a result says is its objective; else its time, or the one measurement it has."""
    named, found = result.get("objectives"), list(_measurements(result))
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return found[0] if len(found) == 1 else "time"


def _measured(result: Mapping[str, Any], objective: str) -> tuple[float, str]:
    """The objective's value and unit, NaN if the result has none."""
    row = _measurements(result).get(objective, {})
    value = row.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST:
        return math.nan, ""  # tuners write words, zeros or infinities for failures
    return float(value), str(row.get("unit") or "")


def _field(path: Path, where: str, result: object, name: str, kind: type) -> Any:
    found = result.get(name) if isinstance(result, dict) else None
    if not isinstance(found, kind) or (kind is dict and not found):
        raise SyntaxInvalid(path, None, f"{where}: `{name}` is missing or no {kind.__name__}", hint=_T4_HINT)
    return found


class _Stream:
    """A JSON text that is decoded value by value and read only as far as that takes."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._decoder = json.JSONDecoder()
        self._text, self._at = "", 0

    def next(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self, character: str) -> bool:
        """Go past this character if it is the next."""
        found = self.next() == character
        self._at += found
        return found

    def value(self) -> Any:
        self.next()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._at)
                if end < len(self._text):
                    self._at = end
                    return found
                if not self._more():  # otherwise a number may go on
                    self._at = len(self._text)
                    return found
            except (ValueError, RecursionError) as error:
                whole = not isinstance(error, RecursionError) and len(self._text) <= _LONGEST_VALUE
                if whole and self._more():
                    continue
                problem = "ends in the middle of a value" if whole else "not JSON"
                raise SyntaxInvalid(self._path, None, f"{problem}: {error}", hint=_T4_HINT) from None

    def _more(self) -> bool:
        more = _read(self._path, self._file, max(_CHUNK, len(self._text) - self._at))
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)


def _results(path: Path) -> Iterator[Any]:
    """The members of the list `results` at the top of the file, decoded one by one."""
    with _opened(path) as file:
        stream = _Stream(path, file)
        if stream.skip("{"):
            while stream.next() == '"':
                name = stream.value()
                stream.skip(":")
                if name == "results" and stream.skip("["):
                    while not stream.skip("]"):
                        yield stream.value()
                        stream.skip(",")
                    return
                stream.value()
                stream.skip(",")
    raise SyntaxInvalid(path, None, "no list `results` in it", hint=_T4_HINT)


def _read(path: Path, file: TextIO, count: int = _CHUNK) -> str:
    try:
        return file.read(count)
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
class RawResults:
    """A results file as it stands."""

    metadata: dict[str, Any]
    results: list[dict[str, Any]]


def read_raw(path: Path) -> RawResults:
    """Read a results file that `write_results` wrote. Raises SyntaxInvalid if it is another kind of file."""
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
    return RawResults(metadata, results)


def write_results(path: Path, results: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> None:
    """Write a T4 file, gzipped if its name ends in .gz; the same results make the same bytes.

    Raises HarnessFault if the disk refuses.
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


def read_declaration(path: Path) -> DeclaredSpace:
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
    rows = body.get("Conditions") or []
    if not isinstance(rows, list):
        raise SyntaxInvalid(path, None, f"Conditions is not a list: {str(rows)[:60]}", hint=_T1_HINT)
    for row in rows:
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
    return DeclaredSpace(str(name or path.stem), knobs, tuple(conditions))


def _declared_knob(path: Path, row: object) -> SpaceKnob:
    name = row.get("Name") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str):
        raise SyntaxInvalid(path, None, f"a knob without Name: {row!r}", hint=_T1_HINT)
    values = row.get("Values")
    if isinstance(values, str):
        values = listed(values, where=str(path))
    if not isinstance(values, list | tuple) or not values:
        raise SyntaxInvalid(path, None, f"knob {name}: no Values", hint=_T1_HINT)
    if bad := [value for value in values if not is_value(value)]:
        raise SyntaxInvalid(path, None, f"knob {name}: {shown(bad[0])} is not a value", hint=_T1_HINT)
    return SpaceKnob(name, distinct(values))


def legal_points(declared: DeclaredSpace) -> Points:
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
            points = points[np.broadcast_to(made.holds(columns), len(points))]
    return points


def _column(knob: SpaceKnob) -> NDArray[Any]:
    exact = any(isinstance(value, str) or (isinstance(value, int) and abs(value) > _PLAIN) for value in knob.values)
    return np.array(knob.values, dtype=object if exact else None)
