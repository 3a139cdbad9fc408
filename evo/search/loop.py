"""The loop: ask an operator, evaluate, decide, record, commit or revert. It only calls; each step has its own room.

What happens is told through events (`Event`), so that a terminal, a JSON stream and a test can all watch one loop.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from evo.errors import TaskInvalid
from evo.evaluate.pipeline import EvaluationSession, champion_figures, evaluate
from evo.evaluate.prepare import PrepareFailure
from evo.operators import STALLED_AFTER, first_rung, other_start, start_proposal
from evo.operators.llm import Llm
from evo.records.trials import Record, arm_of, rebuild_text
from evo.results import CaseBench, Evaluation, Stage, Status
from evo.results.codec import copied
from evo.search.candidate import Candidate, candidate_of
from evo.search.champion import RunChampion, conclude
from evo.search.cluster import WorkerPool
from evo.search.events import Event, Observer, RunBegun, RunSummary, TrialBegun
from evo.search.noise_control import AaControl
from evo.search.observers import InTime, StatusWriter, Waits
from evo.search.pipelined import Evaluator, InFlight, open_ahead, open_bench
from evo.search.previews import Previews
from evo.search.progress import EXHAUSTED, advice, by_case, satisfied, stalls, trial_result
from evo.search.proposer import DUPLICATES, Proposer, Screening
from evo.search.restarts import AFTER, Restarts
from evo.search.resume import LastRun, gain_of, last_run
from evo.search.settings import Settings, language_model
from evo.search.single_trial import TrialJobs
from evo.search.trial_log import Trial, TrialLog, open_notebook
from evo.spec.task import Task, load_task
from evo.spec.variant import Variant, parse_variant, read_variant

__all__ = ["Event", "Observer", "Settings", "evolve"]


def evolve(
    settings: Settings,
    root: Path,
    watch: Observer,
    *,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    began_s: float | None = None,
) -> RunSummary:
    """Run the loop and return its summary; its time counts from `began_s` on. Raises EvoError for harness failures."""
    task = load_task(root, settings.task)
    status = StatusWriter(root, task.name, watch)
    waits = Waits(status, clock)
    watch = in_time = InTime(waits, settings.budget_s, clock, began_s)
    with (
        in_time.interrupting(),
        open_notebook(root, task, branch=settings.branch) as trial_log,
        status,
        open_bench(settings, task, watch) as (bench, pool),
        ExitStack() as under_way,
    ):
        ahead = under_way.enter_context(open_ahead(settings, bench, pool))
        for sentence in trial_log.recovered:
            watch(Event(note=sentence))
        bench.reference(task)  # a task that is no gate is refused before anything is tried
        bench.watch_calls(in_time.look)
        llm = language_model(task, settings, bench, trial_log, watch, lambda: stop() or in_time.left_s() == 0)
        try:
            loop = _Loop(task, settings, bench, trial_log, in_time, llm, pool, ahead)
            under_way.callback(loop.previews.close)
            loop.begin()
            with in_time.bounded():
                loop.control(waits=False)
                while loop.trials < settings.iterations and not stop():
                    reason = in_time.spent(loop.trials) or loop.satisfied()
                    if reason is None and not loop.step():
                        reason = in_time.spent(loop.trials) or EXHAUSTED
                        loop.is_exhausted = reason == EXHAUSTED
                    if reason is not None:
                        watch(Event(note=reason))
                        break
            under_way.close()
            loop.conclude()
            watch(Event(note=loop.advice()))
        finally:
            if llm is not None:
                llm.close()
            bench.promising = bench.beside.ahead = None
            with in_time.held():
                trial_log.finish()
        summary = loop.summary(waits.seconds())
        watch(Event(about=summary))
        return summary


class _Loop:
    """The state of one run: the champion, how many trials it took, and where proposals come from."""

    def __init__(
        self,
        task: Task,
        settings: Settings,
        bench: EvaluationSession,
        trial_log: TrialLog,
        in_time: InTime,
        llm: Llm | None = None,
        pool: WorkerPool | None = None,
        ahead: Evaluator | None = None,
    ) -> None:
        watch: Observer = in_time
        self.llm, self.pool, self.held = llm, pool, in_time.held
        self.task, self.settings, self.bench, self.trial_log, self.watch = task, settings, bench, trial_log, watch
        self.trials = self.kept = self.since_kept = 0
        self.path = task.champion_path(bench.chip_slug, bench.arch)
        self.jobs = TrialJobs(
            task=task,
            path=self.path,
            seed=trial_log.seed,
            margin=settings.margin,
            neutral=settings.neutral,
            full=pool is not None or bench.modelled,
        )
        self.in_flight = InFlight(task, ahead, self.jobs, in_time) if ahead is not None else None
        screening = Screening(
            task=task, bench=bench, pool=pool, seed=settings.seed, watch=watch, record=trial_log.looked
        )
        self.proposer = Proposer(task, settings, bench, trial_log.root, llm, screening)
        self.is_exhausted = False  # whether no operator has a proposal left
        self.is_new = False  # whether this run began from a start of its own
        from_elites = settings.is_closed or (settings.llm is not None and settings.llm.from_elites)
        restarts = settings.search == "bandit" and from_elites and pool is None
        self.lines = self._lines() if restarts else None
        self.root: Variant | None = None  # what best-of-n proposes from
        self.champion: Variant
        self.start: dict[str, CaseBench] = {}  # bench figures by case, of the first and of the last champion
        self.end: dict[str, CaseBench] = {}
        self.asked_s: dict[str, float] = {}  # how long it took to propose each candidate, screening included
        self.champions: list[RunChampion] = []  # the champions of this run, and the one that it took up
        self.previews = Previews(self.proposer, is_wanted=self.in_flight is not None and pool is None)
        bench.promising, bench.beside.ahead = self.previews.of_promising, self.previews.look_ahead
        self.aa_control = AaControl(task, settings, bench, trial_log.seed, watch, pool)

    def begin(self) -> None:
        """Take up the champion, or make a first one from `--from` or the first rung."""
        begun = RunBegun(
            task=self.task.name,
            device=str(self.bench.device),
            arch=self.bench.arch,
            chip=self.bench.chip_slug,
            run=self.trial_log.run,
            branch=self.settings.branch,
            iterations=self.settings.iterations,
        )
        if self.path.is_file() and self.settings.start is None:
            self._take_up(begun)
            return
        source = self.settings.start or first_rung(self.task)
        variant = read_variant(source)
        self.aa_control.take_beside_looks(variant.text)
        self.previews.of_next(variant.text, 0)
        self.watch(Event(about=begun))
        self._first(variant, source, rung=source.name if source.parent == self.task.folder / "ladder" else None)

    def _take_up(self, begun: RunBegun) -> None:
        self.champion = read_variant(self.path)
        descent = self.trial_log.descent(self.path, self.champion)
        if not descent.known:  # edited by hand, or from elsewhere: without a start, no later diff could be rebuilt
            self.watch(Event(about=begun))
            self.watch(Event(note=f"{self.path.name} is not what evo last kept: starting from it as it is"))
            self._first(self.champion, self.path, rung=descent.rung)
            return
        self.proposer.rung, self.proposer.rungs_tried = descent.rung, set(descent.rungs_tried)
        prepared = self.bench.prepare(self.task, self.champion.text, path=str(self.path))
        if isinstance(prepared, PrepareFailure):
            raise TaskInvalid(
                f"{self.path}: the champion does not run here: {prepared.reason}", hint=other_start(self.task)
            )
        last = last_run(descent.records) if self.settings.resume else None
        draws = self.settings.is_closed and self.bench.modelled and self.pool is None
        again = last.since if last is not None and draws else ()
        known = [record for record in descent.records if record not in again]
        if descent.records:
            own = [record for record in descent.records if record.kept and record.variant == self.champion.id]
            self.champions += [RunChampion(variant=self.champion, evaluation=record.evaluation) for record in own[-1:]]
        self.proposer.know(self.champion.id, prepared.code_hash)
        self.proposer.recall(known)
        watch, later = self.watch, list[Event]()
        self.watch = later.append  # the run is said to begin before anything of it
        if last is not None:
            self._resume(last, again)
        self.watch = watch
        different = self.bench.environment(self.task).differences(descent.environment) if descent.environment else []
        if not different:
            self.end = self.start = by_case(descent.bench)
        begun = replace(
            begun, run=self.trial_log.run, champion=self.champion.id, cases=self.start, speedup=self.trial_log.speedup()
        )
        begun = replace(begun, iterations=max(begun.iterations - self.trials, 0))  # those of a resumed run count
        for event in (Event(about=begun), *later):
            self.watch(event)
        if different:
            said = f"the champion's recorded times are not compared with this run's: {', '.join(different)}"
            self.watch(Event(note=said))

    def _resume(self, last: LastRun, again: Sequence[Record]) -> None:
        """Go on where the last run stopped: its trials count, the bandit knows them; `again` are drawn, not tried."""
        if self.llm is None:
            self.trial_log.go_on(last.run)
        else:
            self.llm.go_on(last.run)
        self.proposer.forget(last.run)
        for place, record in enumerate(last.trials):
            if record in again:
                before = self.proposer.mark()
                drawn = self._next(functools.partial(self._past, record))
                if drawn is not None and drawn.variant.id == record.variant:
                    self._tell_lines(record)
                else:  # other operators, another evo
                    self.proposer.back_to(before)
                    again = ()
            if place >= len(last.settled):
                self.proposer.recall([record])
            self.proposer.rewrites += record.kind == "rewrite" and record.status is not Status.REFUSED
            self.proposer.search.tell(arm_of(record.operator, record.kind), gain_of(record), status=record.status)
            self.trials += 1
        self.since_kept = len(last.since)

    def _past(self, before: Record) -> list[Record]:
        return [record for record in self.trial_log.past() if record.moment < before.moment]

    def _tell_lines(self, record: Record) -> None:
        if self.lines is not None:
            variant = parse_variant(rebuild_text(self.trial_log.past(), record.trial))
            self.lines.tell(variant, record.evaluation.ratio, passed=record.status.passed, kept=record.kept)

    def _first(self, variant: Variant, source: Path, *, rung: str | None) -> None:
        self.champion = variant
        evaluation = self._try(candidate_of(self.task, start_proposal(variant, source.name, rung), None))
        if not evaluation.status.passed:
            said = f"{source}: cannot be started from, it is {evaluation.status}: {evaluation.reason}"
            hint = f"see `evo check {source}`; {other_start(self.task)}"
            raise TaskInvalid(said, hint=hint, problem="bad-start")

    def control(self, *, waits: bool = True) -> None:
        """On a GPU, the champion against itself before anything else is: what differences mean something here."""
        self.aa_control.take(self.champion.text, tuple(self.end.values()), waits=waits)

    def step(self) -> bool:
        """One trial; False when no operator has a proposal left."""
        if self.in_flight is not None:
            if (evaluated := self._next_in_flight(self.in_flight)) is None:
                return False
            candidate, evaluation = evaluated
        else:
            if (asked := self._next(self.trial_log.past)) is None:
                return False
            self.control()
            candidate, evaluation = asked, self._try(asked)
            self.trials += 1
        kept, ratio = evaluation.kept, evaluation.ratio
        self.proposer.search.tell(candidate.proposal.operator, ratio if kept else None, status=evaluation.status)
        self.since_kept = 0 if kept else self.since_kept + 1
        # What was under way from another parent when a line began or moved on says nothing of this one.
        of_this = self.in_flight is None or (candidate.parent is not None and candidate.parent.id == self._parent().id)
        if self.lines is not None and (kept or of_this):
            self.lines.tell(candidate.variant, ratio, passed=evaluation.status.passed, kept=kept)
        return True

    def _next(self, past: Callable[[], Sequence[Record]], ahead: int = 0) -> Candidate | None:
        """The next candidate, from another line where one is due or none is left here; `ahead` have no verdict yet."""
        if self.lines is None:
            return self._ask(ahead)
        if self.lines.is_due():
            self.lines.begin(self.champion, past())
        while (asked := self._ask(ahead)) is None:
            self.lines.end()
            if not self.lines.begin(self.champion, past()):
                return None
        return replace(asked, parent=self.champion) if asked.proposal.kind == "rung" else asked  # no edit of its parent

    def _next_in_flight(self, in_flight: InFlight) -> tuple[Candidate, Evaluation] | None:
        """Submit what there is room for, then take the verdict whose turn it is."""
        self.proposer.memory.duplicates += in_flight.follow(self.champion, self.proposer.tried)
        for _ in range(DUPLICATES):
            while in_flight.room and self.trials + len(in_flight) < self.settings.iterations:
                if (candidate := self._next(self.trial_log.past, len(in_flight))) is None:
                    break
                in_flight.submit(candidate, self.champion, known=self.proposer.code_seen)
            if not in_flight:
                return None
            self.previews.of_next(self._parent().text, self.trials + len(in_flight))
            self.watch(Event(stage=f"{len(in_flight)} under way"))
            if (judged := in_flight.next(self.champion, self.proposer.tried)) is not None:
                self.trials += 1
                self.control()  # which its verdict has waited for
                return judged.candidate, self._try(judged.candidate, judged.evaluation)
            self.proposer.memory.duplicates += 1
        return None

    def _parent(self) -> Variant:
        """The parent of the next proposal: the champion, or for best-of-n the start of the run."""
        if self.root is None:
            self.root = self.champion
        if self.lines is not None:
            return self.lines.parent(self.champion)
        return self.root if self.settings.search == "best-of-n" else self.champion

    def _lines(self) -> Restarts:
        margin = self.settings.margin if self.settings.margin is not None else self.bench.default_margin
        places = (self.bench.chip_slug, self.bench.arch)
        after = AFTER if self.settings.llm is None else STALLED_AFTER
        return Restarts(self.task, places, margin, lambda text: self.watch(Event(note=text)), after=after)

    def satisfied(self) -> str | None:
        """Why the run may end before its trials are spent."""
        return satisfied(self.task, self.bench, self.end, self.since_kept, self.settings.patience, self.settings.target)

    def advice(self) -> str:
        """How far the headline is from its floor and from the library, and what follows from it."""
        return advice(self.task, self.bench, self.end, since_kept=self.since_kept, is_exhausted=self.is_exhausted)

    def _ask(self, ahead: int = 0) -> Candidate | None:
        began, found = time.monotonic(), None
        for stalled in stalls(self.task, self.bench, self.end, self.since_kept, self.settings.operators):
            found = found or self.proposer.ask(
                self._parent(),
                number=self.trials + ahead,
                stalled=stalled,
                compiled_here=self.in_flight is None,
                under_way=ahead,
                brief=self.lines is not None and self.lines.is_open,  # a restart has less to hope for
            )
        if found is not None:
            self.asked_s[found.variant.id] = time.monotonic() - began
        return found

    def _try(self, candidate: Candidate, judged: Evaluation | None = None) -> Evaluation:
        """One trial: write the champion file, evaluate unless that was done, then commit it or put the old one back."""
        parent = candidate.parent
        if parent is not None and parent.id != self.champion.id:
            candidate = candidate.with_arguments({"rival": self.champion.id})
        proposal = candidate.proposal
        try:
            with self.held():
                trial = self.trial_log.begin(self.path, proposal, parent)
            begun = copied(TrialBegun, proposal, trial=trial.number, id=trial.id)
            self.watch(Event(about=begun))
            if candidate.refusal is not None:
                evaluation = self._refused(candidate.variant, candidate.refusal)
            else:
                job = self.jobs.of(candidate, self.champion if parent else None)
                evaluation = judged or (evaluate(job, self.bench) if self.pool is None else self.pool.evaluate(job))
        except BaseException:
            with self.held():
                self.trial_log.abandon()  # a harness failure is no verdict: the champion comes back, no record is made
            raise
        with self.held():
            return self._recorded(trial, candidate, evaluation)

    def _recorded(self, trial: Trial, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        proposal, parent = candidate.proposal, candidate.parent
        evaluation = evaluation.with_stage("propose", self.asked_s.pop(candidate.variant.id, None))
        kept = evaluation.kept if parent is not None else evaluation.status.passed
        commit = self.trial_log.keep(trial, evaluation) if kept else None
        if kept:
            self._crown(candidate, evaluation)
        else:
            self.trial_log.revert(trial, evaluation)
            self.previews.drop(candidate.variant.text)
        self.proposer.learn(trial.id, candidate, evaluation, kept=kept)
        told = trial_result(trial, proposal, parent, evaluation, commit)
        self.watch(Event(about=replace(told, speedup=self.trial_log.speedup()) if kept else told))
        return evaluation

    def _refused(self, variant: Variant, reason: str) -> Evaluation:
        at = self.bench.environment(self.task)
        return Evaluation(variant=variant.id, status=Status.REFUSED, stage=Stage.CHANGE, reason=reason, environment=at)

    def conclude(self) -> None:
        """On a GPU, the figures of a champion that this run has made, which no trial has taken."""
        if self.bench.modelled or self.pool is not None or not self.champions or not (self.kept or self.is_new):
            return
        self.control()
        self.bench.rest()

        def figures(one: RunChampion) -> Evaluation:
            jobs = TrialJobs(task=self.task, path=self.path, seed=self.trial_log.seed)
            return champion_figures(jobs.of_text(one.variant.text), self.bench, one.evaluation)

        found = conclude(self.champions, self.trial_log, self.path, figures, lambda text: self.watch(Event(note=text)))
        if found is not None:
            self.champion, self.end = found.variant, by_case(found.evaluation.bench)

    def _crown(self, candidate: Candidate, evaluation: Evaluation) -> None:
        self.champions.append(RunChampion(variant=candidate.variant, evaluation=evaluation))
        self.champion, self.end = candidate.variant, by_case(evaluation.bench)
        if candidate.proposal.kind == "start":
            self.start, self.is_new = self.end, True
        else:
            self.kept += 1

    def summary(self, waits_s: Mapping[str, float]) -> RunSummary:
        return RunSummary(
            control=self.aa_control.shown,
            llm=self.llm.summary() if self.llm is not None else None,
            trials=self.trials,
            kept=self.kept,
            search=self.settings.search,
            skipped=self.proposer.skipped,
            looks=self.proposer.looks,
            champion=self.champion.id,
            start=self.start,
            end=self.end,
            speedup=self.trial_log.speedup(),
            elapsed_s=sum(waits_s.values()),
            waits_s=waits_s,
        )
