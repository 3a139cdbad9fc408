"""Several proposals under way at once, and their verdicts in the order in which they were proposed.

A candidate may have been held against a champion that another one, proposed before it, has replaced since. Where it was
not to be kept, its verdict stands: it is a true word on the parent that its record names. Where it was, it is judged
again: its change is made to the new champion, and that is held against the new champion. A change that does not fit
there is stale: inconclusive, and free to be proposed anew. So what is kept has always beaten the champion it replaces.
On one device a candidate whose turn comes after the keep is not held against the old champion at all: its change is
made to the new one, or it is dropped (`InFlight.follow`).
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from evo.errors import EvoError
from evo.evaluate.pipeline import EvaluationSession, Job
from evo.evaluate.prepare import prepare
from evo.operators import carried
from evo.results import Decision, Evaluation, Json, Verdict
from evo.search.ahead import LookAhead, Overtaken
from evo.search.candidate import Candidate, candidate_of
from evo.search.cluster import KnownCode, WorkerPool, open_site
from evo.search.events import Event, Observer
from evo.search.observers import InTime
from evo.search.settings import Settings
from evo.search.single_trial import TrialJobs
from evo.spec.chips import chip
from evo.spec.process_settings import give_back_freed_arrays
from evo.spec.task import Task
from evo.spec.variant import Variant, read_variant

_ANY_CHIP = "l4"  # binaries follow from the architecture alone

Waiting = Future[Evaluation | KnownCode] | Future[Evaluation | KnownCode | Overtaken]


@contextmanager
def open_ahead(settings: Settings, bench: EvaluationSession, pool: WorkerPool | None) -> Iterator[Evaluator | None]:
    """Where several candidates may be under way: the pool, else this process's GPU; None for one after the other.

    Texts that a person or a model writes wait for the verdict before them, since they are written with it in view.
    """
    if pool is not None or bench.modelled or not settings.is_closed:
        yield pool
        return
    with LookAhead(bench, settings.jobs) as ahead:
        yield ahead


@contextmanager
def open_bench(
    settings: Settings, task: Task, watch: Observer
) -> Iterator[tuple[EvaluationSession, WorkerPool | None]]:
    """The session of this run; with a cluster one that has no device of its own, and the pool that has them."""

    def on_stage(stage: str) -> None:
        watch(Event(stage=stage))

    give_back_freed_arrays()  # a run compares large arrays in many threads
    if settings.cluster is None:
        device, jobs = settings.device, settings.jobs
        compiling = threading.Thread(target=_compile_start, args=(settings, task), name="evo-start", daemon=True)
        compiling.start()
        with EvaluationSession(device, arch=settings.arch, on_stage=on_stage, jobs=jobs, task=task) as bench:
            bench.prepare_looks()
            compiling.join()
            yield bench, None
        return
    on_stage(f"opening {settings.cluster}")
    site = open_site(settings.cluster, settings.device)
    with (
        WorkerPool(site, arch=settings.arch, note=lambda text: watch(Event(note=text))) as pool,
        EvaluationSession(settings.device, arch=settings.arch, on_stage=on_stage, about=pool.about) as bench,
    ):
        yield bench, pool


def _compile_start(settings: Settings, task: Task) -> None:
    """Have the compiler's cache keep what a run that begins from a file asks for, while its device is opened."""
    is_champion = settings.start is None and (task.folder / "champions").is_dir()
    source = settings.start or next(iter(task.ladder()), None)
    if source is None or is_champion or settings.arch == "native":
        return
    with contextlib.suppress(EvoError, OSError, RuntimeError):  # told where it is asked for; the exit ends the pools
        prepare(task, read_variant(source).text, chip=chip(_ANY_CHIP), arch=settings.arch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A candidate in flight. rival: the champion it is compared with. judged: None if it is refused unevaluated.

    marks: arguments that its record gets, where its change was made to another parent than it was proposed for.
    """

    candidate: Candidate
    rival: Variant
    judged: Waiting | None
    marks: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A candidate whose turn has come: perhaps carried over to the new champion, which is then its parent."""

    candidate: Candidate
    evaluation: Evaluation | None


class Evaluator(Protocol):
    """Where candidates are evaluated: a pool of workers, or this process's own device (`LookAhead`).

    width: half of how many it is to have under way. overtakes: nothing is held against a rival that was replaced before
    its turn.
    """

    width: int
    overtakes: bool

    def submit_new(self, job: Job, known: set[str]) -> Waiting:
        """Have a job evaluated, unless its machine code is known; others add theirs, in the order of submission."""
        ...

    def evaluate(self, job: Job) -> Evaluation:
        """One job, before all others. Raises EvoError for harness failures only."""
        ...


class InFlight:
    """Candidates that are being evaluated, in the order in which they were proposed.

    jobs: what a trial of a candidate against a rival asks of the pipeline. in_time: how long one may be waited for.
    """

    def __init__(self, task: Task, evaluator: Evaluator, jobs: TrialJobs, in_time: InTime) -> None:
        self._task, self._evaluator, self._jobs, self._in_time = task, evaluator, jobs, in_time
        self._queue: deque[Submitted] = deque()
        self._codes: set[str] = set()  # machine code that has been evaluated or is under way

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def room(self) -> int:
        """How many more may be submitted: one at each device, and one for each that waits compiled."""
        return max(0, 2 * self._evaluator.width - len(self._queue))

    def submit(self, candidate: Candidate, rival: Variant, *, known: Iterable[str] = ()) -> None:
        """Have it evaluated, unless it is refused, or its machine code is known or has been sent before."""
        self._codes.update(known)
        refused = candidate.refusal is not None
        judged = None if refused else self._evaluator.submit_new(self._jobs.of(candidate, rival), self._codes)
        self._queue.append(Submitted(candidate=candidate, rival=rival, judged=judged))

    def follow(self, champion: Variant, tried: set[str]) -> int:
        """Make what a new champion overtook from that one, side by side; how many do not fit, and are dropped."""
        if not self._evaluator.overtakes:
            return 0
        before, self._queue = self._queue, deque()
        for submitted in before:
            if submitted.judged is None or submitted.rival.text == champion.text:
                self._queue.append(submitted)
            elif (candidate := self._carried(submitted, champion, tried)) is not None:
                judged = self._evaluator.submit_new(self._jobs.of(candidate, champion), self._codes)
                marks: dict[str, Json] = {"carried_from": submitted.rival.id}
                self._queue.append(Submitted(candidate=candidate, rival=champion, judged=judged, marks=marks))
        return len(before) - len(self._queue)

    def next(self, champion: Variant, tried: set[str]) -> Judged | None:
        """The earliest of them, once it is judged; None if its machine code was known, or it was overtaken for good.

        Raises EvoError for harness failures only.
        """
        submitted = self._queue.popleft()
        if submitted.judged is not None:
            self._in_time.wait_for(submitted.judged)
        evaluation = submitted.judged.result() if submitted.judged is not None else None
        if isinstance(evaluation, KnownCode):
            return None
        if isinstance(evaluation, Overtaken):
            return self._again(submitted, None, champion, tried)
        judged = Judged(candidate=submitted.candidate.with_arguments(submitted.marks), evaluation=evaluation)
        is_stale = submitted.rival.text != champion.text
        if evaluation is None or evaluation.decision is None or not is_stale:
            return judged
        if not evaluation.kept:
            return judged
        again = self._again(submitted, evaluation.decision, champion, tried)
        return again or replace(judged, evaluation=_stale(evaluation, evaluation.decision, submitted.rival, champion))

    def _again(
        self, submitted: Submitted, decision: Decision | None, champion: Variant, tried: set[str]
    ) -> Judged | None:
        """Judged against the new champion; None if the change does not fit there, or is known there."""
        if (candidate := self._carried(submitted, champion, tried)) is None:
            return None
        before = round(decision.ratio, 5) if decision is not None and decision.ratio is not None else None
        marks: dict[str, Json] = {
            **({"carried_from": submitted.rival.id} if submitted.rival.text != champion.text else {}),
            **({"gain_before": before} if before is not None else {}),
        }
        evaluation = self._evaluator.evaluate(self._jobs.of(candidate, champion))
        return Judged(candidate=candidate.with_arguments(marks), evaluation=evaluation)

    def _carried(self, submitted: Submitted, champion: Variant, tried: set[str]) -> Candidate | None:
        """The change made to the new champion; None if it does not fit there, or is known there."""
        candidate, parent = submitted.candidate, submitted.candidate.parent
        assert parent is not None
        if not parent.text == submitted.rival.text != champion.text:
            return candidate  # it was not made from the champion, and stays as it is
        proposal = carried(candidate.proposal, parent, champion)
        if proposal is None or (proposal.text != candidate.proposal.text and proposal.variant.id in tried):
            return None
        candidate = candidate_of(self._task, proposal, champion)
        return candidate if candidate.refusal is None else None


def _stale(evaluation: Evaluation, decision: Decision, rival: Variant, champion: Variant) -> Evaluation:
    reason = (
        f"stale: held against {rival.id}, which {champion.id} has replaced since, and its change does not fit onto that"
    )
    return replace(evaluation, decision=replace(decision, verdict=Verdict.INCONCLUSIVE, reason=reason))
