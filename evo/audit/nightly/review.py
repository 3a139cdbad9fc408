"""The review of one champion: its gate, its figures, interleaved pairs against earlier champions, and the result.

The loop's judge decides: an earlier champion returns only if the loop would keep it as a change.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from evo.audit.nightly.bisect import BisectResult, Cause, bisect, cause_of
from evo.audit.nightly.champion_history import Version, candidates, lineage
from evo.audit.nightly.demote import renew, restore
from evo.audit.nightly.results import ChampionComparison, ChampionReview, Figure, ReviewState
from evo.audit.nightly.versus_library import compare_with_library
from evo.errors import EvoError
from evo.evaluate.pipeline import EvaluationSession, evaluate
from evo.records.ledger import History
from evo.records.trials import load_records
from evo.results import Environment, Evaluation, Gain, Json, Verdict, geometric_mean
from evo.search.single_trial import TrialJobs
from evo.search.trial_log import TrialLog
from evo.spec.task import Task
from evo.spec.variant import read_variant

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSubject:
    """A champion to review, and its device. control: why the A/A control forbids comparing times; else None."""

    task: Task
    path: Path
    bench: EvaluationSession
    trial_log: TrialLog
    margin: float
    control: str | None = None


def review(subject: ReviewSubject, tell: Tell) -> ChampionReview:
    """Judge one champion; if it no longer holds, change the ledger. Raises EvoError for harness faults."""
    with closing(History.open(subject.trial_log.root)) as history:
        return _Review(subject, history, tell).run()


class _Review:
    def __init__(self, subject: ReviewSubject, history: History, tell: Tell) -> None:
        self.subject, self.history, self.tell = subject, history, tell
        self.task, self.bench, self.trial_log = subject.task, subject.bench, subject.trial_log
        self.here: Environment = self.bench.environment(self.task)
        head = read_variant(subject.path)
        self.records = load_records(self.trial_log.root, self.task.name)
        self.versions = lineage(history, subject.path, self.records)
        if not self.versions or self.versions[-1].text != head.text:
            self.versions.append(Version(variant=head))
        self.head = self.versions[-1]
        record = self.head.record
        self.reviewed = ChampionReview(
            task=self.task.name,
            place=subject.path.stem,
            path=subject.path.relative_to(self.trial_log.root).as_posix(),
            timing=self.here.timing,
            variant=head.id,
            trial=record.trial if record else None,
            differences=tuple(self.here.differences(record.environment)) if record else (),
        )
        self.seen: list[tuple[Version, Evaluation]] = []  # earlier versions, compared with the champion

    def run(self) -> ChampionReview:
        found = self._evaluate(self.head)
        self.reviewed.evaluation = found
        if not found.status.passed:
            return self._failing(found)
        self._figures(found)
        if self.subject.control is not None:
            self.reviewed.state = ReviewState.FAULT
            self.reviewed.note = f"not compared with anything: {self.subject.control}"
            return self.reviewed
        winner = self._compare_with_earlier()
        if winner is not None:
            return self._demote(*winner)
        if not self.bench.modelled:
            self.tell(f"{self.reviewed.name}: against the library")
            self.reviewed.pairs += compare_with_library(self.bench, self.task, self.head.text, self.trial_log.seed)
        self._judge_figures()
        if self.head.record is None:
            self.reviewed.note = (
                self.reviewed.note or "not a text that evo kept; the next run of the loop starts from it"
            )
        elif self.reviewed.differences or self.reviewed.state is ReviewState.SLOWER:
            assert self.reviewed.evaluation is not None
            self.reviewed.renewed = renew(
                self.trial_log,
                self.subject.path,
                self.head,
                self.reviewed.evaluation,
                self._renewal(),
                self._rung(self.head),
            )
        return self.reviewed

    # --- figures ----------------------------------------------------------------------------------------------------

    def _evaluate(self, version: Version, *, seed: int = 0) -> Evaluation:
        return self._trial(version, None, seed=seed)

    def _figures(self, found: Evaluation) -> None:
        recorded = self.head.record.evaluation.times_us if self.head.record else {}
        self.reviewed.cases = tuple(
            Figure(
                name=row.name,
                now_us=row.time_us,
                recorded_us=recorded.get(row.name),
                library=row.baseline.name if row.baseline else None,
                library_us=row.baseline.p50_us if row.baseline else None,
            )
            for row in found.bench
        )

    def _slowdown(self) -> float | None:
        """Time now over time recorded, over the scored cases; None if one of them was not recorded."""
        now = geometric_mean({f.name: f.now_us for f in self.reviewed.cases}, self.task.score)
        then = {f.name: f.recorded_us for f in self.reviewed.cases if f.recorded_us is not None}
        before = geometric_mean(then, self.task.score)
        return now / before if now is not None and before is not None else None

    def _judge_figures(self) -> None:
        limit = 1 / (1 - self.subject.margin)
        slowdown = self._slowdown()
        if slowdown is None or slowdown <= limit:
            return
        if self.reviewed.differences:
            self.reviewed.state = ReviewState.CHANGED
            self.reviewed.note = f"{slowdown:.2f}x its recorded time, in another environment: " + ", ".join(
                self.reviewed.differences
            )
            return
        if not self.bench.modelled:
            slowdown = self._measure_again(slowdown)
        machine, witness = self._machine()
        if slowdown <= limit:
            return
        if machine is not None and slowdown / machine <= limit:
            self.reviewed.state = ReviewState.CHANGED
            self.reviewed.note = f"{slowdown:.2f}x its recorded time, and so is {witness} ({machine:.2f}x): the machine"
            return
        self.reviewed.state = ReviewState.SLOWER
        self.reviewed.note = f"{slowdown:.2f}x its recorded time; no earlier version is faster"
        assert self.head.record is not None
        text = (
            f"trial {self.head.record.trial} recorded a time that its text does not reproduce in the same environment: "
            f"{slowdown:.2f}x as long now" + (f", while {witness} is at {machine:.2f}x" if machine is not None else "")
        )
        self.reviewed.cause = Cause.between(self.head, self.head, "commit", text)

    def _measure_again(self, slowdown: float) -> float:
        """Measure again in a fresh process: a slow moment of the machine is no loss of the champion."""
        self.bench.remote.recycle()
        again = self._evaluate(self.head, seed=1)
        if not again.status.passed:
            return slowdown
        before, earlier = self.reviewed.cases, self.reviewed.evaluation
        self._figures(again)
        second = self._slowdown()
        if second is None or second >= slowdown:
            self.reviewed.cases = before
            return slowdown
        assert earlier is not None
        self.reviewed.evaluation = again
        return second

    def _machine(self) -> tuple[float | None, str]:
        """The slowdown of everything else that was timed in the same environment, and its name."""
        ratios: list[float] = []
        what: list[str] = []
        if self.head.record is not None:
            for row in self.head.record.bench:
                if (then := row.baseline) is None:
                    continue
                same = (f for f in self.reviewed.cases if (f.name, f.library) == (row.name, then.name))
                if (now := next(same, None)) is not None and now.library_us is not None:
                    ratios.append(now.library_us / then.p50_us)
            what += ["the library"] if ratios else []
        for version, found in self.seen:
            assert version.record is not None
            if not self.here.differences(version.record.environment):
                then_us = version.record.evaluation.score_us(self.task.score)
                now_us = found.score_us(self.task.score)
                if then_us and now_us:
                    ratios.append(now_us / then_us)
                    what.append(version.variant.id)
        if not ratios:
            return None, ""
        return statistics.geometric_mean(ratios), " and ".join(dict.fromkeys(what))

    def _renewal(self) -> str:
        if self.reviewed.state is ReviewState.SLOWER:
            return f"its recorded figures are not reproduced: {self.reviewed.note}"
        return f"its figures are from another environment: {', '.join(self.reviewed.differences)}"

    # --- against earlier champions ----------------------------------------------------------------------------------

    def _compare_with_earlier(self) -> tuple[Version, Evaluation] | None:
        """The earlier champion that the loop would keep over this one, the fastest if several; None if it holds."""
        winners: list[tuple[float, Version, Evaluation]] = []
        for version in candidates(self.versions, self.task.score):
            self.tell(f"{self.reviewed.name}: against {version.variant.id}")
            found = self._trial(version, self.head)
            self.reviewed.pairs.append(_comparison(version, found))
            if found.status.passed:
                self.seen.append((version, found))
            if found.status.passed and found.decision is not None and found.decision.verdict is Verdict.KEEP:
                assert found.decision.gain is not None
                winners.append((found.decision.gain.ratio, version, found))
        if not winners:
            return None
        _, version, found = max(winners, key=lambda winner: winner[0])
        return version, found

    def _trial(self, version: Version, parent: Version | None, *, seed: int = 0) -> Evaluation:
        seed, margin = self.trial_log.seed + seed, self.subject.margin
        jobs = TrialJobs(task=self.task, path=self.subject.path, seed=seed, margin=margin)
        return evaluate(jobs.of_text(version.text, parent.variant if parent else None), self.bench)

    def _demote(self, winner: Version, found: Evaluation) -> ChampionReview:
        assert found.decision is not None
        assert found.decision.gain is not None
        gain = found.decision.gain
        start = max(index for index, version in enumerate(self.versions) if version.text == winner.text)
        line = self.versions[start:]
        self.tell(f"{self.reviewed.name}: {winner.variant.id} is faster; bisecting {len(line)} versions")
        near = 1 / math.sqrt(gain.ratio)  # nearer to the champion's time than to the earlier one's

        def is_bad(version: Version) -> tuple[bool | None, str]:
            tried = self._trial(version, winner)
            if not tried.status.passed:
                return True, f"{tried.status}: {tried.reason}"
            if tried.decision is None or tried.decision.gain is None:
                return None, "no time: the clock moved within every pair"
            ratio = tried.decision.gain.ratio
            return ratio < near, f"takes {1 / ratio:.2f}x as long as {winner.variant.id}"

        lost = f"takes {gain.ratio:.2f}x as long as {winner.variant.id}"
        cause = self._cause(line, bisect(line, is_bad), lost)
        self.reviewed.note = f"{winner.variant.id} is {found.decision.reason}"
        return self._replace(winner, found, cause, rung=self._rung(winner))

    # --- a champion that does not pass its gate -----------------------------------------------------------------------

    def _failing(self, found: Evaluation) -> ChampionReview:
        reviewed = self.reviewed
        reviewed.state = ReviewState.FAILING
        reviewed.note = f"{found.status}: {found.reason}"
        looks: list[tuple[str, str]] = []
        for index, version in self._earlier_distinct():
            self.tell(f"{reviewed.name}: {reviewed.note}; trying {version.variant.id}")
            tried = self._evaluate(version)
            if not tried.status.passed:
                looks.append((version.words(), f"{tried.status}: {tried.reason}"))
                continue
            line = self.versions[index:]
            bad = next(n for n, other in enumerate(line) if n and other.variant.id != version.variant.id)
            outcome = bisect(line[: bad + 1], lambda _: (None, ""))
            outcome.looks[:0] = looks
            cause = self._cause(line[: bad + 1], outcome, f"{found.status}")
            return self._replace(version, tried, cause, rung=self._rung(version))
        cause = self._cause_of_all(found, looks)
        for rung in reversed(self.task.ladder()):
            version = Version(variant=read_variant(rung))
            self.tell(f"{reviewed.name}: {reviewed.note}; trying ladder/{rung.name}")
            tried = self._evaluate(version)
            if tried.status.passed:
                return self._replace(version, tried, cause, rung={"rung": rung.name})
        reviewed.cause = cause
        reviewed.note += "; no earlier champion and no rung passes either"
        return reviewed

    def _earlier_distinct(self) -> list[tuple[int, Version]]:
        """Earlier versions newest first, each variant once at its latest place."""
        found: dict[str, tuple[int, Version]] = {}
        for index in range(len(self.versions) - 2, -1, -1):
            version = self.versions[index]
            if version.variant.id != self.head.variant.id:
                found.setdefault(version.variant.id, (index, version))
        return list(found.values())

    def _cause_of_all(self, found: Evaluation, looks: Sequence[tuple[str, str]]) -> Cause:
        """Every version fails. The first passed once, so the difference of environment since then is the cause."""
        first = self.versions[0]
        differences: tuple[str, ...] = ()
        if first.record is not None:
            differences = tuple(self.here.differences(first.record.environment))
        kind = "environment" if differences else "range"
        text = f"{found.status} today, and so is every earlier champion" + (
            f"; since they were kept, this has changed: {', '.join(differences)}" if differences else ""
        )
        return Cause.between(
            first,
            self.head,
            kind,
            text,
            looks=looks,
            differences=differences,
            task_commits=self._task_commits(first, differences),
        )

    def _replace(self, version: Version, tried: Evaluation, cause: Cause, *, rung: dict[str, Json]) -> ChampionReview:
        reviewed = self.reviewed
        reviewed.state, reviewed.cause, reviewed.restored = ReviewState.DEMOTED, cause, version.variant.id
        reviewed.commit = restore(
            self.trial_log,
            self.subject.path,
            lost=self.head,
            winner=version,
            evaluation=tried,
            lost_evaluation=reviewed.evaluation,
            why=f"{self.head.variant.id} no longer holds: {reviewed.note}. {cause.text}.",
            arguments={"demoted": self.head.variant.id, "cause": cause.to_json(), **rung},
        )
        return reviewed

    # --- causes -----------------------------------------------------------------------------------------------------

    def _cause(self, line: Sequence[Version], outcome: BisectResult, lost: str) -> Cause:
        cause = cause_of(line, outcome, self.here, lost=lost)
        return replace(cause, task_commits=self._task_commits(line[outcome.bad], cause.differences))

    def _task_commits(self, since: Version, differences: Sequence[str]) -> tuple[str, ...]:
        """The commits that changed the task itself after a record was made, if the task is what differs."""
        if since.record is None or not any(word.startswith("task ") for word in differences):
            return ()
        found: dict[str, str] = {}
        for name in ("task.yaml", "reference.py"):
            for commit in self.history.versions(self.task.folder / name):
                if commit.date > since.record.date.replace("Z", "+00:00"):
                    found[commit.commit] = f"commit {commit.commit[:12]} ({commit.subject})"
        return tuple(found.values())

    def _rung(self, version: Version) -> dict[str, Json]:
        """The rung from which a version descends; the ladder continues after it."""
        if version.record is None:
            return {}
        rung: dict[str, Json] = {}
        for record in self.records:
            if record.kept and record.place == version.record.place and "rung" in record.arguments:
                rung = {"rung": record.arguments["rung"]}
            if record.trial == version.record.trial:
                break
        return rung


def _comparison(version: Version, found: Evaluation) -> ChampionComparison:
    """An earlier version's trial against the champion, from the champion's side."""
    decision = found.decision
    if not found.status.passed or decision is None:
        reason = found.reason or ""
        return ChampionComparison(against=version.variant.id, verdict=found.status.value, reason=reason)
    gain = decision.gain
    mirrored = None
    if gain is not None:
        low, high = (1 / gain.high if gain.high else None), (1 / gain.low if gain.low else None)
        mirrored = Gain(ratio=1 / gain.ratio, low=low, high=high, confirmed=gain.confirmed)
    verdict = "loses" if decision.verdict is Verdict.KEEP else "holds"
    return ChampionComparison(
        against=version.variant.id, verdict=verdict, reason=decision.reason, champion_faster_by=mirrored
    )


def fault(task: str, path: Path, timing: str, error: EvoError) -> ChampionReview:
    """A champion whose state is unknown, because the harness failed."""
    return ChampionReview(
        task=task,
        place=path.stem,
        path=path.as_posix(),
        timing=timing,
        variant="",
        state=ReviewState.FAULT,
        note=error.message,
    )
