"""The version that caused a loss: binary search over a line of versions, the first good and the last bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evo.audit.nightly.champion_history import Version
from evo.results import Environment
from evo.results.codec import Serializable


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedVersion(Serializable):
    """A version that was judged."""

    version: str  # which
    found: str  # its result in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(Serializable):
    """The cause of a champion's loss."""

    kind: str  # `commit`, `environment`, or `range` if it could not be narrowed down
    text: str  # the cause in words
    commit: str | None = None  # the commit that brought the loss
    good: str  # the last version before it that holds: its commit, or its variant's id
    bad: str  # the first version that does not hold: its commit, or its variant's id
    subject: str | None = None  # that version's subject in git
    date: str | None = None  # when that version came in
    trial: str | None = None  # the trial that kept that version
    differences: tuple[str, ...] = ()  # what this machine does not share with that version's record
    looks: tuple[JudgedVersion, ...] = ()  # versions that were tried
    task_commits: tuple[str, ...] = ()  # commits that have changed the task since

    @classmethod
    def between(
        cls,
        good: Version,
        bad: Version,
        kind: str,
        text: str,
        *,
        looks: Sequence[tuple[str, str]] = (),
        differences: Sequence[str] = (),
        task_commits: Sequence[str] = (),
    ) -> Cause:
        """The cause is between two versions, or is the second one."""
        return cls(
            kind=kind,
            text=text,
            commit=bad.commit if kind == "commit" else None,
            good=good.commit or good.variant.id,
            bad=bad.commit or bad.variant.id,
            subject=bad.subject,
            date=bad.date,
            trial=bad.record.trial if bad.record else None,
            differences=tuple(differences),
            looks=tuple(JudgedVersion(version=where, found=found) for where, found in looks),
            task_commits=tuple(task_commits),
        )


@dataclass(slots=True, kw_only=True)
class BisectResult:
    """good and bad are neighbours, or the versions between could not be judged. looks: the judged versions."""

    good: int
    bad: int
    looks: list[tuple[str, str]] = field(default_factory=list)


Judge = Callable[[Version], tuple[bool | None, str]]
"""Whether a version is bad (None: unknown), and its result in words."""


def bisect(versions: Sequence[Version], is_bad: Judge) -> BisectResult:
    """The first bad one after the last good one. The first version is known good and the last known bad.

    Versions of one variant id, which differ in comments only, are judged once. One that cannot be judged is passed over
    for its neighbours; if none between can, the search ends with a range.
    """
    found = BisectResult(good=0, bad=len(versions) - 1)
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


def cause_of(versions: Sequence[Version], found: BisectResult, here: Environment, *, lost: str) -> Cause:
    """The cause that a bisection shows. lost: the loss of the bad version, in words.

    A version that evo kept was good when it was kept: the cause is then the change of environment, if that
    differs at all. A version that evo did not keep, or that loses if it was kept, is itself the cause.
    """
    good, bad = versions[found.good], versions[found.bad]

    def cause(kind: str, text: str, differences: Sequence[str] = ()) -> Cause:
        return Cause.between(good, bad, kind, f"{lost} since {text}", looks=found.looks, differences=differences)

    if found.bad - found.good > 1:
        return cause("range", f"somewhere after {good.words()}, {bad.words()} at the latest")
    if bad.record is None:
        return cause("commit", f"{bad.words()}, which evo did not keep: no trial has this text")
    if bad.record.kind == "start":
        return cause("commit", f"{bad.words()}, a start, which claims no gain")
    if not bad.by_evo and good.record is not None and bad.record.moment < good.record.moment:
        return cause("commit", f"{bad.words()}, which restores a text that evo had replaced")
    differences = here.differences(bad.record.environment)
    if not differences:
        return cause("commit", f"{bad.words()}, kept as trial {bad.record.trial} in today's environment")
    said = f"the environment changed; {bad.words()} was kept with {', '.join(differences)} (now first)"
    return cause("environment", said, differences)
