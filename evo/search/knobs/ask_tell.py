"""The ask-tell protocol: JSON lines, so that any program can drive the search. One process is one search.

in   {"op": "init", "knobs": [{"name", "values"}], "legal": [[...], ...], "budget", "seed"}     legal may be left out
out  {"ask": [values]}
in   {"tell": 3.87, "status": "ok", "left": n}      or null with status failed, or outside: the point is not legal
in   {"op": "end"}      or out {"done": true}, with "reason" if point after point was outside
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from evo.errors import TaskInvalid
from evo.search.knobs.draws import SearchStrategy
from evo.search.knobs.replay import BUDGET
from evo.search.knobs.space import (
    KnobValue,
    Point,
    Points,
    Space,
    SpaceKnob,
    distinct,
    index_of,
    is_value,
    look_up,
    shown,
)

_HINT = 'the protocol: init, then one tell after each ask, then {"op": "end"}; see docs/tune.md'
_STATUSES = ("ok", "failed", "outside")
_SHOWN = 60
_OUTSIDE, _OF_BUDGET = 1000, 20  # points outside one after the other, at least, after which nobody finds a legal one
_LARGEST = 1e300  # larger values, and values that are not numbers, count as failures


class AskTellSession:
    """One conversation: lines in, replies out. Raises TaskInvalid naming the line that is malformed."""

    def __init__(self, make: Callable[[Space, int], SearchStrategy], *, budget: int = BUDGET, seed: int = 0) -> None:
        """`budget` and `seed` are for an init that names none."""
        self._make, self._budget, self._seed = make, budget, seed
        self._line = 0

    def replies(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        """What is said in return, one reply per line in. Ends with the input, at `end`, or when done."""
        first = self._next(lines)
        if first is None or first.get("op") == "end":
            return
        space, left, seed = self._init(first)
        searcher = self._make(space, seed)
        outside, most = 0, max(_OUTSIDE, _OF_BUDGET * left)
        while left > 0:
            if outside >= most:
                yield {"done": True, "reason": f"{outside} points one after the other were outside: give `legal`"}
                return
            point = searcher.ask()
            if point is None:
                break
            yield {"ask": list(space.values(point))}
            told = self._next(lines)
            if told is None or told.get("op") == "end":
                return
            left = self._tell(searcher, point, told, left)
            outside = outside + 1 if told.get("status") == "outside" else 0
        yield {"done": True}

    def _next(self, lines: Iterator[str]) -> dict[str, Any] | None:
        """The next line's object; None at the end of the input. Blank lines are skipped."""
        for line in lines:
            self._line += 1
            if not line.strip():
                continue
            try:
                found = json.loads(line.removeprefix("\ufeff") if self._line == 1 else line)
            except (ValueError, RecursionError) as error:
                raise self._invalid(f"not JSON: {error}") from None
            if not isinstance(found, dict):
                raise self._invalid(f"not an object: {line.strip()[:_SHOWN]}")
            return found
        return None

    def _invalid(self, problem: str) -> TaskInvalid:
        return TaskInvalid(f"<stdin>:{self._line}: {problem}", hint=_HINT)

    # --- init

    def _init(self, message: dict[str, Any]) -> tuple[Space, int, int]:
        if message.get("op") != "init":
            raise self._invalid('the first line is {"op": "init", ...}')
        budget, seed = self._whole(message, "budget", self._budget), self._whole(message, "seed", self._seed)
        given = message.get("knobs")
        if not isinstance(given, list) or not given:
            raise self._invalid("`knobs` is a list of {name, values}")
        knobs = tuple(self._knob(row) for row in given)
        legal = self._legal(message.get("legal"), knobs)
        return Space("<stdin>", knobs, legal), budget, seed

    def _whole(self, message: dict[str, Any], name: str, default: int) -> int:
        value = message.get(name, default)
        value = default if value is None else value
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._invalid(f"`{name}` is {str(value)[:_SHOWN]}, not a whole number from 0")
        return value

    def _knob(self, row: object) -> SpaceKnob:
        name = row.get("name") if isinstance(row, dict) else None
        values = row.get("values") if isinstance(row, dict) else None
        if not isinstance(name, str) or not isinstance(values, list) or not values:
            raise self._invalid(f"a knob is {{name, values}}: {str(row)[:_SHOWN]}")
        if bad := [value for value in values if not is_value(value)]:
            raise self._invalid(f"knob {name}: {shown(bad[0])} is not a finite number, word or truth value")
        return SpaceKnob(name, distinct(values))

    def _legal(self, given: object, knobs: tuple[SpaceKnob, ...]) -> Points | None:
        if given is None or given == []:
            return None
        if not isinstance(given, list) or not all(isinstance(row, list) for row in given):
            raise self._invalid("`legal` is a list of lists of values")
        if any(len(row) != len(knobs) for row in given):
            raise self._invalid(f"`legal` has a row of other than {len(knobs)} values")
        columns = []
        for knob, column in zip(knobs, zip(*given, strict=True), strict=True):
            columns.append(self._indices(knob, column))
        points: Points = np.stack(columns, axis=1)
        return np.unique(points, axis=0)

    def _indices(self, knob: SpaceKnob, column: tuple[KnobValue, ...]) -> Points:
        table = index_of(knob.values)
        known: dict[tuple[str, Any], int | None] = {}
        found = np.empty(len(column), np.int16)
        for row, value in enumerate(column):
            try:
                key = (type(value).__name__, value)
                index = known[key] if key in known else known.setdefault(key, look_up(table, value))
            except TypeError:
                index = None
            if index is None:
                raise self._invalid(f"`legal` row {row + 1}: {str(value)[:_SHOWN]} is not a value of {knob.name}")
            found[row] = index
        return found

    # --- tell

    def _tell(self, searcher: SearchStrategy, point: Point, told: dict[str, Any], left: int) -> int:
        if "tell" not in told:
            raise self._invalid('expected {"tell": ...} or {"op": "end"}')
        status, value = told.get("status"), told["tell"]
        status = "ok" if status is None else status
        if status not in _STATUSES:
            raise self._invalid(f"status {str(status)[:_SHOWN]!r}, one of {', '.join(_STATUSES)}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self._invalid(f"`tell` is {str(value)[:_SHOWN]}, a number or null")
        cost = float(value) if status == "ok" and value is not None and abs(value) < _LARGEST else None
        searcher.tell(point, cost, legal=status != "outside")
        return self._whole(told, "left", left - (status != "outside"))
