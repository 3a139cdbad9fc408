"""Which version brought a loss: binary search over a line of versions, the first good and the last bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evo.audit.nightly.champion_history import Version
from evo.records.trials import Record
from evo.results import Environment, Json, drop_absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What made a champion lose. kind: `commit`, `environment`, or `range` where it could not be narrowed down.

    good, bad: the versions on either side. differences: what this machine does not share with the record of the bad
    one. looks: versions that were tried, with what was found. also: commits that touched the task since.
    """

    kind: str
    text: str
    good: Version
    bad: Version
    differences: tuple[str, ...] = ()
    looks: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "kind": self.kind,
            "text": self.text,
            "commit": self.bad.commit if self.kind == "commit" else None,
            "good": self.good.commit or self.good.variant.id,
            "bad": self.bad.commit or self.bad.variant.id,
            "subject": self.bad.subject,
            "date": self.bad.date,
            "trial": self.bad.record.trial if self.bad.record else None,
            "differences": list(self.differences) or None,
            "looks": [{"version": where, "found": found} for where, found in self.looks] or None,
            "task_commits": list(self.also) or None,
        }
        return drop_absent(fields)


@dataclass(slots=True, kw_only=True)
class Found:
    """good and bad are neighbours, or what lies between them could not be judged. looks: what was tried."""

    good: int
    bad: int
    looks: list[tuple[str, str]] = field(default_factory=list)


Judge = Callable[[Version], tuple[bool | None, str]]
"""Whether a version is bad (None: it cannot be said), and what was found in words."""


def bisect(versions: Sequence[Version], is_bad: Judge) -> Found:
    """The first bad one after the last good one. The first version is known good and the last known bad.

    Versions of one variant id, which differ in comments only, are judged once. One that cannot be judged is passed over
    for its neighbours; where none between can, the search ends with a range.
    """
    found = Found(good=0, bad=len(versions) - 1)
    known: dict[str, bool | None] = {versions[0].variant.id: False, versions[-1].variant.id: True}

    def judged(index: int) -> bool | None:
        version = versions[index]
        if version.variant.id not in known:
            known[version.variant.id], words = is_bad(version)
            found.looks.append((version.words(), words))
        return known[version.variant.id]

    while found.bad - found.good > 1:
        middle = (found.good + found.bad) // 2
        between = sorted(range(found.good + 1, found.bad), key=lambda index: abs(index - middle))
        for index in between:
            if (bad := judged(index)) is not None:
                found.good, found.bad = (found.good, index) if bad else (index, found.bad)
                break
        else:
            return found
    return found


def _order(record: Record) -> tuple[str, int]:
    return (record.run, record.number)


def cause_of(
    versions: Sequence[Version], found: Found, here: Environment, *, lost: str, also: Sequence[str] = ()
) -> Cause:
    """What a bisection means. lost: what the bad one does, in words. also: commits to the task since its record.

    A version that evo itself kept was right when it was kept: what has changed since is then the environment, if that
    differs at all. A version that evo did not keep, or that loses where it was kept, is itself the cause.
    """
    good, bad = versions[found.good], versions[found.bad]
    looks = tuple(found.looks)
    if found.bad - found.good > 1:
        text = f"{lost} since somewhere after {good.words()}, {bad.words()} at the latest"
        return Cause(kind="range", text=text, good=good, bad=bad, looks=looks)
    if bad.record is None or bad.record.kind == "start":
        why = (
            "which evo did not keep: no trial has this text" if bad.record is None else "a start, which claims no gain"
        )
        text = f"{lost} since {bad.words()}, {why}"
        return Cause(kind="commit", text=text, good=good, bad=bad, looks=looks)
    if not bad.by_evo and good.record is not None and _order(bad.record) < _order(good.record):
        text = f"{lost} since {bad.words()}, which puts back a text that evo had replaced"
        return Cause(kind="commit", text=text, good=good, bad=bad, looks=looks)
    differences = tuple(here.differences(Environment.from_json(bad.record.environment)))
    if not differences:
        text = f"{lost} since {bad.words()}, kept as trial {bad.record.trial} in the environment of today"
        return Cause(kind="commit", text=text, good=good, bad=bad, looks=looks)
    text = f"{lost} since the environment changed; {bad.words()} was kept with {', '.join(differences)} (now first)"
    return Cause(
        kind="environment", text=text, good=good, bad=bad, differences=differences, looks=looks, also=tuple(also)
    )
