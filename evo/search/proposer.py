"""Source of the next proposal: a run's operators, the search over them, and the tabu list."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evo.evaluate.counted_stage import Tell
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.evaluate.screening import compile_ahead, screened_gains
from evo.evaluate.session import EvaluationSession
from evo.operators import Context, Proposal, operators
from evo.operators.llm import Llm
from evo.records.insights import outcomes
from evo.records.trials import FirstLook, Record, load_records
from evo.results import Evaluation
from evo.search.bandit import OperatorBandit, Prior
from evo.search.candidate import Candidate, candidate_of
from evo.search.cluster import WorkerPool
from evo.search.events import Event, FirstLooks, Observer, Skipped
from evo.search.resume import codes_of
from evo.search.settings import Settings
from evo.search.tabu import TabuList
from evo.spec.task import Task
from evo.spec.variant import Variant

# What a first look has to show before a small edit is tried. A modelled look agrees with the estimate to a percent, so
# one far inside the margin would be reverted; on a GPU it is a short timing, in which a gain of a percent may not show.
OF_MARGIN, WORTH_MEASURED = 0.8, 1.0
DUPLICATES = 50  # proposals whose machine code is already known, in a row, before the search is called exhausted


@dataclass(slots=True, kw_only=True)
class Screening:
    """Where a first look at edits is taken: on this process's device or, if times are measured, by the workers.

    taken: the looks so far; None before the first. ahead: looks at edits of a parent that had no verdict yet, which are
    written down and counted when looks are next asked for. record: writes looks down.
    """

    task: Task
    bench: EvaluationSession
    pool: WorkerPool | None
    seed: int
    watch: Observer
    record: Callable[[Iterable[FirstLook]], None]
    taken: FirstLooks | None = None
    ahead: dict[str, FirstLook] = field(default_factory=dict)
    untold: list[FirstLook] = field(default_factory=list)

    def gains(self, parent: Variant, offers: Sequence[Proposal]) -> Sequence[float | None]:
        """Gains over the parent by a first look; None for an edit that came to no time."""
        known = {look.variant: look for look in self.ahead.values() if look.parent == parent.id}
        new = [offer for offer in offers if offer.variant.id not in known]
        if new:
            self.watch(Event(stage="screen"))
        found = known | self._taken(parent, new)
        self._told([*self.untold, *(found[offer.variant.id] for offer in new)])
        self.untold = []
        return [found[offer.variant.id].ratio for offer in offers]

    def look_ahead(self, parent: Variant, offers: Sequence[Proposal], tell: Tell) -> None:
        """Take these looks for the case that the parent is kept. tell: hears how far they are, and may end them."""
        self.ahead = self._taken(parent, offers, tell)
        self.untold += self.ahead.values()

    def _told(self, looks: Sequence[FirstLook]) -> None:
        """Count looks and write them down, in the thread that records trials."""
        if not looks:
            return
        before = self.taken or FirstLooks(edits=0, without_time=0, faster=0, elapsed_s=0.0)
        self.taken = FirstLooks(
            edits=before.edits + len(looks),
            without_time=before.without_time + sum(look.ratio is None for look in looks),
            faster=before.faster + sum(look.ratio is not None and look.ratio > 1 for look in looks),
            elapsed_s=before.elapsed_s + sum(look.elapsed_s for look in looks),
        )
        self.record(looks)

    def _taken(self, parent: Variant, offers: Sequence[Proposal], tell: Tell | None = None) -> dict[str, FirstLook]:
        if not offers:
            return {}
        began = time.monotonic()
        found = self._looked(parent.text, [offer.text for offer in offers], tell)
        took = time.monotonic() - began
        return {
            offer.variant.id: FirstLook(
                parent=parent.id,
                variant=offer.variant.id,
                operator=offer.operator,
                summary=offer.summary,
                ratio=gain,
                elapsed_s=took / len(found),
            )
            for offer, gain in zip(offers, found, strict=True)
        }

    def _looked(self, parent: str, texts: Sequence[str], tell: Tell | None) -> Sequence[float | None]:
        if self.pool is None or self.bench.modelled:
            return screened_gains(self.bench, self.task, parent, texts, self.seed, tell)
        return self.pool.gains(self.task, parent, texts, self.seed)

    def compile_ahead(self, texts: Sequence[str]) -> None:
        """Have compiled what a first look at texts compiles."""
        compile_ahead(self.bench, self.task, texts)


class Proposer:
    """Gives candidates of new machine code that are not known to lose.

    screening: where texts are compared with the parent before one becomes a trial. tried: ids of variants.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        bench: EvaluationSession,
        root: Path,
        llm: Llm | None,
        screening: Screening,
    ) -> None:
        self._task, self._settings, self._bench, self._root, self._llm = task, settings, bench, root, llm
        self._screening = screening
        self.search = self._searcher()
        self.memory = TabuList()
        self.rung: str | None = None
        self.rungs_tried: set[str] = set()
        self.tried: set[str] = set()
        self.rewrites = 0  # tried in this run
        self.code_seen: set[str] = set()
        self._told: set[str] = set()  # rungs that were passed over
        self._asking = threading.Lock()
        self.soon: Callable[[Sequence[str]], object] = len  # hears what will be looked at next

    def _searcher(self, without: str | None = None) -> OperatorBandit:
        """A search that knows what earlier runs say, but for one."""
        settings, bench = self._settings, self._bench
        records = [record for record in load_records(self._root, self._task.name) if record.run != without]
        margin = settings.margin if settings.margin is not None else bench.default_margin
        worth = 1 + OF_MARGIN * margin if bench.modelled else WORTH_MEASURED
        return OperatorBandit(
            operators(settings.operators, patch=settings.patch, llm=self._llm, hypothesis=settings.hypothesis),
            random.Random(settings.seed),
            margin=margin,
            search=settings.search,
            eager=bench.modelled,
            worth=0.0 if settings.neutral else worth,
            priors={name: Prior(*found) for name, found in outcomes(records, chip=bench.chip_slug).items()},
        )

    @property
    def looks(self) -> FirstLooks | None:
        return self._screening.taken

    @property
    def skipped(self) -> Skipped:
        return Skipped(known_code=self.memory.duplicates, known_losers=self.memory.again)

    def ask(
        self,
        parent: Variant,
        *,
        number: int,
        stalled: bool,
        compiled_here: bool,
        under_way: int = 0,
        brief: bool = False,
    ) -> Candidate | None:
        """The candidate for trial `number`, None if no proposal is left.

        compiled_here: its machine code is compared before it is sent anywhere. brief: no more than a first look.
        """
        if not self._asking.acquire(blocking=False):  # looks ahead go on, at what is going to be looked at
            self._screening.watch(Event(stage="screen"))
            self._asking.acquire()
        try:
            return self._ask(parent, number, stalled, compiled_here, under_way, brief)
        finally:
            self._asking.release()

    def preview(self, parent: Variant, number: int) -> None:
        """Draw and compile the edits that trial `number` will look at if `parent` is its parent.

        Nothing is remembered but what operators and the compiler keep: what is asked afterwards is the same, sooner.
        """
        with self._asking:
            self.search.reseed(random.Random(f"{self._settings.seed}/{number}"))
            offers = self.search.preview(parent, self._context(number, stalled=False, under_way=0))
        self.compile_ahead([offer.text for offer in offers])

    def look_ahead(self, parent: Variant, number: int, tell: Tell) -> None:
        """Take the first looks that `preview` prepares, between two candidates. tell: its exception ends the looks."""
        if number >= self._settings.iterations:
            return
        with self._asking:
            tell("screen")
            self.search.reseed(random.Random(f"{self._settings.seed}/{number}"))
            offers = self.search.preview(parent, self._context(number, stalled=False, under_way=0))
            if offers:
                self._screening.look_ahead(parent, offers, tell)

    def compile_ahead(self, texts: Sequence[str]) -> None:
        """Have compiled what a first look at these texts will ask for."""
        self._screening.compile_ahead(texts)

    def _ask(
        self, parent: Variant, number: int, stalled: bool, compiled_here: bool, under_way: int, brief: bool
    ) -> Candidate | None:
        self.search.reseed(random.Random(f"{self._settings.seed}/{number}"))
        gains = functools.partial(self._screening.gains, parent)
        for _ in range(DUPLICATES):
            proposal = self.search.ask(parent, self._context(number, stalled, under_way), gains, self.soon, brief=brief)
            self._tell_passed_over()
            if proposal is None:
                return None
            self.tried.add(proposal.variant.id)
            candidate = candidate_of(self._task, proposal, parent)
            if candidate.refusal is None and proposal.kind == "rewrite" and not self._rewrites_left:
                refusal = f"not one change: a rewrite, and the run's {self._settings.rewrites} are used (--rewrites)"
                candidate = replace(candidate, refusal=refusal)
            if candidate.refusal is not None:
                return candidate  # refused on the record, with its parts
            proposal, is_known = self.memory.recognise(proposal, parent)
            if is_known:
                continue
            candidate = replace(candidate, proposal=proposal)
            if not compiled_here:
                return candidate
            prepared = self._bench.prepare(self._task, proposal.text)
            if self._is_new(prepared):
                return replace(candidate, prepared=prepared)
            self.memory.duplicates += 1
        return None

    def _tell_passed_over(self) -> None:
        """Say once which rungs a first look has shown to be far slower."""
        for summary, look in self.search.passed_over.items():
            if summary not in self._told:
                self._told.add(summary)
                self._screening.watch(Event(note=f"{summary} is passed over: {look:.2f}x by a first look"))

    @property
    def _rewrites_left(self) -> int:
        return max(0, self._settings.rewrites - self.rewrites)

    def _context(self, number: int, stalled: bool, under_way: int) -> Context:
        return Context(
            task=self._task,
            chip=self._bench.chip,
            tried=self.tried,
            rung=self.rung,
            rungs_tried=self.rungs_tried,
            codes=self.code_seen,
            trials_left=self._settings.iterations - number,
            losers=self.memory.losers,
            stalled=stalled,
            under_way=under_way,
            rewrites_left=self._rewrites_left,
        )

    def _is_new(self, prepared: Prepared | PrepareFailure) -> bool:
        if isinstance(prepared, PrepareFailure):
            return True
        if prepared.code_hash in self.code_seen:
            return False
        self.code_seen.add(prepared.code_hash)
        return True

    def know(self, variant: str, code_hash: str) -> None:
        """The champion that a run takes up."""
        self.tried.add(variant)
        self.code_seen.add(code_hash)

    def recall(self, records: Sequence[Record]) -> None:
        """What earlier trials have tried and shown."""
        self.tried.update(record.variant for record in records)
        self.code_seen |= codes_of(records)
        self.memory.recall(records)

    def forget(self, run: str) -> None:
        """Ask as before that run, which is to be drawn again."""
        self.search = self._searcher(without=run)

    def mark(self) -> tuple[frozenset[str], frozenset[str]]:
        """What has been tried so far, for `back_to`."""
        return frozenset(self.tried), frozenset(self.code_seen)

    def back_to(self, mark: tuple[frozenset[str], frozenset[str]]) -> None:
        """Forget what was asked since."""
        self.tried, self.code_seen = set(mark[0]), set(mark[1])

    def learn(self, trial: str, candidate: Candidate, evaluation: Evaluation, *, kept: bool) -> None:
        """What one trial has shown."""
        proposal = candidate.proposal
        self.tried.add(candidate.variant.id)
        self.rewrites += proposal.kind == "rewrite" and candidate.refusal is None
        if evaluation.code_hash:
            self.code_seen.add(evaluation.code_hash)
        rung = proposal.arguments.get("rung")
        if isinstance(rung, str):
            self.rungs_tried.add(rung)
            if kept:
                self.rung = rung
        self.memory.learn(trial, proposal, candidate.parent, evaluation, kept=kept)
