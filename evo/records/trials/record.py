"""The record of one trial: what was proposed, what became of it, and the diff it can be replayed from.

Format history of one JSON line:
1  first

The commit of a kept trial is not in its record, because the commit contains the record; git knows it by the trailer
`Evo-Trial: <trial>`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn, cast

from evo.errors import RecordCorrupt
from evo.records.trials.schema import evaluation_problem
from evo.results import Json, Status, Verdict, drop_absent

VERSION = 1
KINDS = ("mutation", "transplant", "rung", "start", "review")

_RUN = re.compile(r"^\d{8}T\d{6}-[0-9a-z]{4,16}$")
_TASK = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")
_HINT = "restore the file from git (`git log -- FILE`), or remove the line if you know that its trial is not needed"
_WORDS = ("reason", "expected", "success", "risk", "next_if_kept", "next_if_reverted")
_IDS = ("trial", "run", "number", "task", "variant")
_NEEDED = ("version", *_IDS, "operator", "kind", "summary", "evaluation", "diff", "date")
_FIELDS = {*_NEEDED, "parent", *_WORDS, "arguments", "elapsed_s"}


def trial_id(run: str, number: int) -> str:
    """`20260101T093000-ab12-0007`: unique, and sorted by run, then number."""
    return f"{run}-{number:04d}"


def run_id(moment: datetime, token: str) -> str:
    """`20260101T093000-ab12` from a UTC time and a few letters or digits that keep two runs of one second apart."""
    run = f"{moment:%Y%m%dT%H%M%S}-{token}"
    if not _RUN.match(run):
        raise ValueError(f"{token!r} is not 4 to 16 digits and lower case letters")
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The immutable result of one trial.

    parent: the variant that was changed; None for a start. evaluation: the shape of `Evaluation.to_json()`.
    diff: against the parent's text (`make_diff`); for a start, which has no parent, the whole text.
    date: when the trial ended, ISO 8601 in UTC.
    """

    trial: str
    run: str
    number: int
    task: str
    variant: str
    parent: str | None
    operator: str
    kind: str
    summary: str
    evaluation: dict[str, Json]
    diff: str
    date: str
    reason: str = ""
    expected: str = ""
    success: str = ""
    risk: str = ""
    next_if_kept: str = ""
    next_if_reverted: str = ""
    arguments: dict[str, Json] = field(default_factory=dict)
    elapsed_s: float | None = None

    def __post_init__(self) -> None:
        if problem := self._problem():
            raise ValueError(f"record {self.trial}: {problem}")

    def _problem(self) -> str | None:
        if not _RUN.match(self.run):
            return f"field `run`: {self.run!r} is not like 20260101T093000-ab12"
        if self.number < 1 or self.trial != trial_id(self.run, self.number):
            return f"field `trial`: {self.trial!r} is not run {self.run} and number {self.number}"
        if not _TASK.match(self.task):
            return f"field `task`: {self.task!r} is not a task name"
        if self.kind not in KINDS:
            return f"field `kind`: {self.kind!r} is not one of {', '.join(KINDS)}"
        if (self.kind == "start") != (self.parent is None):
            return f"field `parent`: a {self.kind} {'has none' if self.kind == 'start' else 'needs one'}"
        if not _is_utc(self.date):
            return f"field `date`: {self.date!r} is not an ISO 8601 time in UTC"
        if problem := evaluation_problem(self.evaluation):
            return f"field `evaluation{problem}"
        return None

    @property
    def status(self) -> Status:
        return Status(str(self.evaluation["status"]))

    @property
    def verdict(self) -> Verdict | None:
        decision = self.evaluation.get("decision")
        return Verdict(str(decision["verdict"])) if isinstance(decision, dict) else None

    @property
    def begins(self) -> bool:
        """Whether a line of descent begins here: a start that passed, which takes no decision."""
        return self.kind == "start" and self.verdict is None and self.status.passed

    @property
    def kept(self) -> bool:
        """Whether this trial's text became the champion."""
        if self.verdict is None:
            return self.begins
        return self.verdict in (Verdict.KEEP, Verdict.KEEP_NEUTRAL)

    @property
    def proposed(self) -> bool:
        """Whether an operator proposed it: not a first champion, nor one that a nightly review has put there."""
        return self.kind not in ("start", "review")

    @property
    def gain(self) -> dict[str, Json] | None:
        decision = self.evaluation.get("decision")
        gain = decision.get("gain") if isinstance(decision, dict) else None
        return gain if isinstance(gain, dict) else None

    @property
    def environment(self) -> dict[str, Json]:
        return cast(dict[str, Json], self.evaluation["environment"])

    @property
    def place(self) -> tuple[str, str, str]:
        """(chip, arch, loaded): results of different places are never ranked together."""
        where = self.environment
        return (str(where["chip"]), str(where["arch"]), str(where["loaded"]))

    @property
    def timing(self) -> str:
        """`measured` or `modelled`."""
        return "modelled" if self.environment["loaded"] == "sim" else "measured"

    @property
    def bench(self) -> list[dict[str, Json]]:
        return cast(list[dict[str, Json]], self.evaluation.get("bench") or [])

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "version": VERSION,
            "trial": self.trial,
            "run": self.run,
            "number": self.number,
            "task": self.task,
            "variant": self.variant,
            "parent": self.parent,
            "operator": self.operator,
            "kind": self.kind,
            "summary": self.summary,
            **{word: str(getattr(self, word)) for word in _WORDS},
            "arguments": dict(self.arguments),
            "evaluation": dict(self.evaluation),
            "diff": self.diff,
            "date": self.date,
            "elapsed_s": round(self.elapsed_s, 3) if self.elapsed_s is not None else None,
        }
        return drop_absent(fields)

    def to_line(self) -> str:
        """The record as one line of its run's file, newline included. Raises ValueError for inf or NaN."""
        fields = self.to_json()
        line = json.dumps(fields, ensure_ascii=False, allow_nan=False)
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:  # half a surrogate pair, as a careless LLM reply may hold, has no UTF-8 form
            line = json.dumps(fields, allow_nan=False)
        return line + "\n"

    @classmethod
    def from_json(cls, data: object, *, where: str) -> Record:
        """Read one record. Raises RecordCorrupt, its message beginning with `where` (file:line)."""

        def corrupt(problem: str) -> NoReturn:
            raise RecordCorrupt(f"{where}: {problem}", hint=_HINT)

        if not isinstance(data, dict):
            corrupt("not a JSON object")
        if data.get("version") != VERSION or data.get("version") is True:
            hint = "upgrade evo: another version of it wrote this record"
            raise RecordCorrupt(f"{where}: field `version`: {data.get('version')!r}, expected {VERSION}", hint=hint)
        for name in _NEEDED:
            if name not in data:
                corrupt(f"field `{name}`: missing")
        for name, value in data.items():
            if problem := _field_problem(name, value):
                corrupt(f"field `{name}`: {problem}")
        try:
            return cls(**{"parent": None, **{name: value for name, value in data.items() if name != "version"}})
        except (ValueError, TypeError) as error:
            corrupt(str(error))

    @classmethod
    def from_line(cls, line: bytes | str, *, where: str) -> Record:
        """Read one line of a run's file. Raises RecordCorrupt, its message beginning with `where` (file:line)."""
        try:
            text = line.decode("utf-8") if isinstance(line, bytes) else line
            data = json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            raise RecordCorrupt(f"{where}: not a JSON record: {error}", hint=_HINT) from None
        return cls.from_json(data, where=where)


def _field_problem(name: str, value: object) -> str | None:
    if name not in _FIELDS:
        return "unknown field"
    if name in ("number", "version"):
        good = isinstance(value, int) and not isinstance(value, bool)
    elif name == "elapsed_s":
        good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    elif name in ("arguments", "evaluation"):
        good = isinstance(value, dict)
    else:
        good = isinstance(value, str)
    return None if good else f"ill-typed: {str(value)[:40]!r}"


def _is_utc(date: str) -> bool:
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        return False
    offset = moment.utcoffset()
    return offset is not None and not offset


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number; what was not measured is left out")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is out of range")
    return value


def _distinct(pairs: list[tuple[str, Json]]) -> Mapping[str, Json]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a field is given twice")
    return data
