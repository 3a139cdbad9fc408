"""The record of one trial: what was proposed, what became of it, and the diff it can be replayed from.

Format history of one JSON line:
1  first

The commit of a kept trial is not in its record, because the commit contains the record; git knows it by the trailer
`Evo-Trial: <trial>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, NoReturn

from evo.errors import RecordCorrupt
from evo.results import CaseBench, Decision, Environment, Evaluation, Evidence, Gain, Json, Status, Verdict
from evo.results.codec import ALWAYS, Seconds, Serializable, parse, unknown_field

VERSION: Final = 1
Kind = Literal["mutation", "schedule", "plan", "transplant", "rung", "rewrite", "start", "review"]

_MOMENT = "%Y%m%dT%H%M%S"
_RUN = re.compile(r"^\d{8}T\d{6}-[0-9a-z]{4,16}$")
_TASK = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")
_HINT = "restore the file from git (`git log -- FILE`), or remove the line if you know that its trial is not needed"


def arm_of(operator: str, kind: str) -> str:
    """What a gain is counted for: an operator, or the rewrites of one, which say nothing of its single changes."""
    return operator if kind != "rewrite" else f"{operator} (rewrite)"


def trial_id(run: str, number: int) -> str:
    """`20260101T093000-ab12-0007`: unique, and sorted by run, then number."""
    return f"{run}-{number:04d}"


def run_id(moment: datetime, token: str) -> str:
    """`20260101T093000-ab12` from a UTC time and a few letters or digits that keep two runs of one second apart."""
    run = f"{moment:{_MOMENT}}-{token}"
    if not _RUN.match(run):
        raise ValueError(f"{token!r} is not 4 to 16 digits and lower case letters")
    return run


def moment_of(run: str) -> datetime:
    """The UTC time in a run's id. Raises ValueError for what is no id."""
    if not _RUN.match(run):
        raise ValueError(f"{run!r} is no run id")
    return datetime.strptime(run[:15], _MOMENT).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Serializable):
    """The immutable result of one trial."""

    version: Literal[1] = VERSION  # of this format
    trial: str  # the run and the number in it, `20260101T093000-ab12-0007`
    run: str  # the run
    number: int  # of the trial in its run, from 1
    task: str  # the task
    variant: str  # the id of the text that was tried
    parent: str | None = None  # the variant that was changed; absent for a start
    operator: str  # what proposed it, such as `ladder` or `rules.unroll`
    kind: Kind  # of the change
    summary: str  # what was changed, in a line
    reason: str = ""  # why it was proposed
    expected: str = ""  # what it should bring
    success: str = ""  # what counts as success
    risk: str = ""  # what may go wrong
    next_if_kept: str = ""  # what follows if it is kept
    next_if_reverted: str = ""  # what follows if it is not
    # what the operator says of it, by name
    arguments: Annotated[Mapping[str, Json], ALWAYS] = field(default_factory=dict)
    evaluation: Evaluation  # what became of it
    diff: str  # against the parent's text (`make_diff`); for a start, which has no parent, the whole text
    date: str  # when the trial ended, ISO 8601 in UTC
    elapsed_s: Seconds | None = None  # how long the trial took

    def __post_init__(self) -> None:
        if problem := self._problem():
            raise ValueError(problem)

    def _problem(self) -> str | None:
        if not _RUN.match(self.run):
            return f"field `run`: {self.run!r} is not like 20260101T093000-ab12"
        if self.number < 1 or self.trial != trial_id(self.run, self.number):
            return f"field `trial`: {self.trial!r} is not run {self.run} and number {self.number}"
        if not _TASK.match(self.task):
            return f"field `task`: {self.task!r} is not a task name"
        if (self.kind == "start") != (self.parent is None):
            return f"field `parent`: a {self.kind} {'has none' if self.kind == 'start' else 'needs one'}"
        if not _is_utc(self.date):
            return f"field `date`: {self.date!r} is not an ISO 8601 time in UTC"
        if self.elapsed_s is not None and self.elapsed_s < 0:
            return f"field `elapsed_s`: {self.elapsed_s} is not a duration"
        for row in self.bench:
            if (row.warm is None) != (self.timing == "modelled"):
                return f"field `evaluation.bench`: case {row.name} is not {self.timing}, as `environment.loaded` says"
        return None

    @property
    def status(self) -> Status:
        return self.evaluation.status

    @property
    def decision(self) -> Decision | None:
        return self.evaluation.decision

    @property
    def evidence(self) -> Evidence | None:
        return self.decision.evidence if self.decision is not None else None

    @property
    def verdict(self) -> Verdict | None:
        return self.decision.verdict if self.decision is not None else None

    @property
    def begins(self) -> bool:
        """Whether a line of descent begins here: a start that passed, which takes no decision."""
        return self.kind == "start" and self.verdict is None and self.status.passed

    @property
    def kept(self) -> bool:
        """Whether this trial's text became the champion."""
        return self.decision.kept if self.decision is not None else self.begins

    @property
    def outcome(self) -> str:
        """The verdict; `start` for a first champion, and `revert` if nothing was decided."""
        if self.decision is not None:
            return self.decision.verdict.value
        return "start" if self.kept else "revert"

    @property
    def proposed(self) -> bool:
        """Whether an operator proposed it: not a first champion, nor one that a nightly review has put there."""
        return self.kind not in ("start", "review")

    @property
    def gain(self) -> Gain | None:
        return self.decision.gain if self.decision is not None else None

    @property
    def own_ratio(self) -> float | None:
        """How much faster the change is than its parent; None if not timed, or if compared with another variant."""
        return self.gain.ratio if self.gain is not None and "rival" not in self.arguments else None

    @property
    def environment(self) -> Environment:
        return self.evaluation.environment

    @property
    def place(self) -> tuple[str, str, str]:
        """(chip, arch, loaded): results of different places are never ranked together."""
        return (self.environment.chip, self.environment.arch, self.environment.loaded)

    @property
    def moment(self) -> tuple[str, int]:
        """What trials are ordered by: runs are named after the time of their start."""
        return (self.run, self.number)

    @property
    def timing(self) -> Literal["measured", "modelled"]:
        """`measured` or `modelled`."""
        return self.environment.timing

    @property
    def bench(self) -> tuple[CaseBench, ...]:
        return self.evaluation.bench

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
    def from_line(cls, line: bytes | str, *, where: str) -> Record:
        """Read one line of a run's file. Raises RecordCorrupt, its message beginning with `where` (file:line)."""

        def corrupt(problem: str, hint: str = _HINT) -> NoReturn:
            raise RecordCorrupt(f"{where}: {problem}", hint=hint)

        try:
            data = parse(line)
        except (ValueError, RecursionError) as error:
            corrupt(f"not a JSON record: {error}")
        if not isinstance(data, dict):
            corrupt("not a JSON object")
        if data.get("version") != VERSION or data.get("version") is True:
            hint = "upgrade evo: another version of it wrote this record"
            corrupt(f"field `version`: {data.get('version')!r}, expected {VERSION}", hint)
        if name := unknown_field(cls, data):
            corrupt(f"field `{name}`: unknown field", f"upgrade evo if a later one wrote this; else {_HINT}")
        if name := unknown_field(Evaluation, data.get("evaluation")):
            corrupt(f"field `evaluation.{name}`: unknown field", f"upgrade evo if a later one wrote this; else {_HINT}")
        try:
            return cls.from_json(data)
        except ValueError as error:
            corrupt(str(error))


def _is_utc(date: str) -> bool:
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        return False
    offset = moment.utcoffset()
    return offset is not None and not offset
