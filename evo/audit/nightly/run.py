"""The nightly run: machine, ledger, A/A control, red team, champions, loop. A failed step is a result, not an error.

What would make later steps meaningless ends the night early: a machine that does not work, a ledger that is not clean.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from evo.audit.nightly.aa_control import ControlOutcome, control
from evo.audit.nightly.results import ChampionReview, Night, NightCheck, NightRun, ReviewState
from evo.audit.nightly.review import ReviewSubject, fault, review
from evo.audit.redteam import (
    Outcome,
    chosen,
    default_lanes,
    judges,
    load_attacks,
    planted_file,
    run_all,
    run_procedures,
)
from evo.device import DeviceName
from evo.errors import EvoError, LedgerUnclean, TaskInvalid
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import EvaluationSession
from evo.operators import operators
from evo.records import leaderboard
from evo.records.ledger import History, Ledger
from evo.records.trials import load_records
from evo.results.codec import copied
from evo.search.loop import Observer, Settings, evolve
from evo.search.trial_log import open_notebook, utc_now
from evo.spec.task import Task, load_task, task_names

_ARCH = re.compile(r"sm_\d+[a-z]?")
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
_LEAST_S = 5.0  # of the budget, below which a task is not begun


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlan:
    """The plan of a night. tasks: empty means all. attacks: None skips the red team.

    budget_s: for the loop, over all tasks. iterations: trials at most, of each task.
    """

    device: DeviceName
    arch: str = "sm_89"
    tasks: tuple[str, ...] = ()
    budget_s: float | None = None
    iterations: int = 12
    operators: tuple[str, ...] = ("ladder", "rules")
    branch: str | None = None
    margin: float | None = None
    seed: int = 0
    attacks: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The caller's part. machine: the doctor's checks. shipped: the tasks of the attacks.

    tell: a line of progress. watch: hears the loop. stop: whether the user has asked to end.
    """

    machine: Callable[[], list[NightCheck]]
    shipped: Path
    tell: Callable[[str], None] = lambda _: None
    watch: Observer = lambda _: None
    stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic


class NightlyRun:
    """One night. Raises UsageError for a task, an operator or an attack that is not there."""

    def __init__(self, plan: NightPlan, root: Path, hooks: Hooks) -> None:
        self.plan, self.root, self.hooks = plan, root, hooks
        names = task_names(root)
        for name in plan.tasks:
            load_task(root, name)  # an unknown name is a mistake of the command line
        operators(plan.operators)
        if plan.attacks:
            chosen(load_attacks(), list(plan.attacks))
        self.names = plan.tasks or names
        self.night = Night(
            device=str(plan.device),
            chip=f"sim-{plan.device.which}" if plan.device.kind == "sim" else str(plan.device),  # until it is opened
            arch=plan.arch,
            timing="modelled" if plan.device.kind == "sim" else "measured",
            began=utc_now(),
            version=harness_version(),
            branch=plan.branch,
        )
        self.seed = secrets.randbelow(2**31)

    def run(self) -> Night:
        night, began = self.night, self.hooks.clock()
        try:
            self.hooks.tell("the machine")
            night.checks += self.hooks.machine()
            broken = any(check.state == "fault" for check in night.of("doctor"))
            if not broken and self._ledger():
                self._reviews()
                self._iterate()
        except EvoError as error:
            self._fault("night", "the night", error, began)
        except _DEFECTS as error:  # the results so far are still reported
            said = f"a defect of evo: {type(error).__name__}: {error}"
            self._check("night", "the night", "fault", said, since=began, detail=traceback.format_exc())
        night.elapsed_s = self.hooks.clock() - began
        return night

    def _reviews(self) -> None:
        with ExitStack() as stack:
            benches = _Benches(self.plan.device, stack)
            first = benches.of(self.plan.arch)
            self.night.chip, self.night.arch = first.chip_slug, first.arch
            found = self._champions(first)
            controls = self._control(benches, found)
            self._redteam()
            self._review(benches, found, controls)

    def _check(self, step: str, name: str, state: str, text: str = "", *, since: float, **more: str | int) -> None:
        elapsed_s = self.hooks.clock() - since
        detail, code = str(more.get("detail", "")), int(more.get("code", 5))
        self.night.checks.append(
            NightCheck(step=step, name=name, state=state, text=text, elapsed_s=elapsed_s, detail=detail, code=code)
        )

    def _fault(self, step: str, name: str, error: EvoError, since: float) -> None:
        said = f"{error.message} ({error.hint})"
        self.hooks.tell(f"{step}: {said}")
        self._check(step, name, "fault", said, since=since, code=error.exit_code)

    # --- the ledger -------------------------------------------------------------------------------------------------

    def _ledger(self) -> bool:
        """Repair the state after a killed evo, and check out the branch, before anything is read."""
        since = self.hooks.clock()
        try:
            with Ledger.open(self.root, lambda commits: leaderboard.render(load_records(self.root), commits)) as ledger:
                said = ledger.recover(date=utc_now())
                ledger.prepare(self.plan.branch)
                leaderboard.load(self.root)
                load_records(self.root, settled=True)
            with closing(History.open(self.root)) as history:
                self.night.commit = history.head()
        except EvoError as error:
            self._fault("ledger", "ledger", error, since)
            return False
        where = f"on branch {self.plan.branch}" if self.plan.branch else "clean"
        self._check("ledger", "ledger", "passed", "; ".join([where, *said]), since=since)
        return True

    # --- champions and the A/A control ------------------------------------------------------------------------------

    def _champions(self, bench: EvaluationSession) -> list[tuple[str, Path, str]]:
        """(task, file, arch) of every champion of this chip."""
        found = []
        for name in self.names:
            folder = self.root / "kernels" / name / "champions"
            for path in sorted(folder.glob(f"{bench.chip_slug}-*.cu")):
                arch = path.stem.removeprefix(f"{bench.chip_slug}-")
                if _ARCH.fullmatch(arch):
                    found.append((name, path, arch))
        return found

    def _control(self, benches: _Benches, found: Sequence[tuple[str, Path, str]]) -> dict[Path, ControlOutcome]:
        """A control for each champion. Without one, a ladder's first rung tests the machine."""
        controls: dict[Path, ControlOutcome] = {}
        subjects = list(found) or [(name, path, self.plan.arch) for name, path in self._first_rung()]
        for name, path, arch in subjects:
            since = self.hooks.clock()
            self.hooks.tell(f"A/A control: {name} {path.stem}")
            try:
                task, bench = load_task(self.root, name), benches.of(arch)
                text = path.read_text(encoding="utf-8", errors="replace")
                seen = control(bench, task, text, self.seed, margin=self.plan.margin)
            except EvoError as error:
                seen = ControlOutcome(text=error.message, problem=error.message)
            controls[path] = seen
            state = "skipped" if seen.broken else "fault" if seen.problem else "passed"
            self._check("control", f"{name} {path.stem}", state, seen.text, since=since)
        if not subjects:
            self._check("control", "A/A control", "skipped", "no task here", since=self.hooks.clock())
        return controls

    def _first_rung(self) -> Iterator[tuple[str, Path]]:
        for name in self.names:
            try:
                rungs = load_task(self.root, name).ladder()
            except TaskInvalid:
                continue
            if rungs:
                yield name, rungs[0]
                return

    # --- the red team -----------------------------------------------------------------------------------------------

    def _redteam(self) -> None:
        since = self.hooks.clock()
        if self.plan.attacks is None or self.hooks.stop():
            self._check("redteam", "red team", "skipped", "not requested", since=since)
            return
        try:
            attacks, procedures = chosen(load_attacks(), list(self.plan.attacks))
            attacks = tuple(attack for attack in attacks if attack.is_for(self.plan.device.kind))
            total = len(attacks) + len(procedures)
            with planted_file() as planted:
                opened = partial(
                    judges, self.plan.device, self.hooks.shipped, planted, arch=self.plan.arch, seed=self.seed
                )
                runs = chain(run_all(attacks, opened, default_lanes()), run_procedures(procedures, self.hooks.shipped))
                for number, outcome in enumerate(runs, start=1):
                    self.hooks.tell(f"red team: {number} of {total}, {outcome.attack} {outcome.verdict}")
                    self.night.checks.append(_attacked(outcome))
                    if self.hooks.stop():
                        break
        except EvoError as error:
            self._fault("redteam", "red team", error, since)

    # --- the champions ----------------------------------------------------------------------------------------------

    def _review(
        self, benches: _Benches, found: Sequence[tuple[str, Path, str]], controls: Mapping[Path, ControlOutcome]
    ) -> None:
        if not found:
            said = f"no champion of {self.night.chip} yet"
            self._check("champions", "champions", "skipped", said, since=self.hooks.clock())
        for name, path, arch in found:
            since = self.hooks.clock()
            if self.hooks.stop():
                self._check("champions", f"{name} {path.stem}", "skipped", "stopped before it", since=since)
                continue
            self.hooks.tell(f"{name} {path.stem}: gate and times")
            try:
                reviewed = self._reviewed(benches.of(arch), load_task(self.root, name), path, controls[path])
            except EvoError as error:
                reviewed = fault(name, path.relative_to(self.root), self.night.timing, error)
            reviewed.elapsed_s = self.hooks.clock() - since
            self.night.champions.append(reviewed)
            self.night.checks.append(_stood(reviewed))
            self.hooks.tell(f"{reviewed.name}: {reviewed.state}{f', {reviewed.note}' if reviewed.note else ''}")

    def _reviewed(self, bench: EvaluationSession, task: Task, path: Path, seen: ControlOutcome) -> ChampionReview:
        with open_notebook(self.root, task) as trial_log:
            try:
                subject = ReviewSubject(
                    task=task,
                    path=path,
                    bench=bench,
                    trial_log=trial_log,
                    margin=self.plan.margin if self.plan.margin is not None else bench.margin(task),
                    control=f"A/A control: {seen.problem}" if seen.problem else None,
                )
                return review(subject, self.hooks.tell)
            except BaseException:
                trial_log.abandon()
                raise
            finally:
                trial_log.finish()

    # --- the loop ---------------------------------------------------------------------------------------------------

    def _iterate(self) -> None:
        since = self.hooks.clock()
        if self.plan.iterations == 0:
            self._check("iterate", "the loop", "skipped", "not requested", since=since)
            return
        end = since + self.plan.budget_s if self.plan.budget_s is not None else None
        waiting = self._in_turn()
        while waiting:
            name = waiting.pop(0)
            began = self.hooks.clock()
            share = (end - began) / (len(waiting) + 1) if end is not None else None
            if self.hooks.stop() or (end is not None and end - began < _LEAST_S):
                why = "stopped" if self.hooks.stop() else "the budget is spent"
                self._check("iterate", name, "skipped", why, since=began)
                continue
            try:
                self._evolve(name, share)
            except LedgerUnclean as error:
                self._fault("iterate", name, error, began)
                return
            except EvoError as error:
                if error.problem == "budget-spent":
                    self._check("iterate", name, "skipped", error.message, since=began)
                else:
                    self._fault("iterate", name, error, began)

    def _in_turn(self) -> list[str]:
        """The tasks, the one with the oldest run first."""
        failing = {one.task for one in self.night.champions if one.state in (ReviewState.FAILING, ReviewState.FAULT)}
        for name in failing:
            self._check("iterate", name, "skipped", "its champion does not hold", since=self.hooks.clock())
        empty = {name for name in self.names if name not in failing and not self._has_kernel(name)}
        for name in sorted(empty):
            why = "it has no kernel to start from: no champion on this chip and no rung"
            self._check("iterate", name, "skipped", why, since=self.hooks.clock())
        latest = {
            name: max((p.stem for p in (self.root / "population" / name / "runs").glob("*.jsonl")), default="")
            for name in self.names
            if name not in failing | empty
        }
        return sorted(latest, key=lambda name: latest[name])

    def _has_kernel(self, name: str) -> bool:
        try:
            task = load_task(self.root, name)
        except EvoError:
            return True  # a defect of it is reported by its user
        return bool(task.ladder()) or task.champion_path(self.night.chip, self.night.arch).is_file()

    def _evolve(self, name: str, budget_s: float | None) -> None:
        began = self.hooks.clock()
        settings = copied(Settings, self.plan, task=name, budget_s=budget_s, branch=None)
        first = not load_task(self.root, name).champion_path(self.night.chip, self.night.arch).is_file()
        done = evolve(settings, self.root, self.hooks.watch, stop=self.hooks.stop)
        headline = load_task(self.root, name).headline
        run = NightRun(
            task=name,
            trials=done.trials,
            kept=done.kept,
            champion=done.champion,
            case=headline,
            start_us=done.start[headline].time_us if headline in done.start else None,
            end_us=done.end[headline].time_us if headline in done.end else None,
            started=first,
        )
        self.night.runs.append(run)
        self._check(
            "iterate",
            name,
            "passed",
            f"{run.kept} kept in {run.trials} trials" + (", a first champion" if first else ""),
            since=began,
        )


class _Benches:
    """An evaluation session for each arch, opened on first use and closed with the stack."""

    def __init__(self, device: DeviceName, stack: ExitStack) -> None:
        self._device, self._stack = device, stack
        self._open: dict[str, EvaluationSession] = {}

    def of(self, arch: str) -> EvaluationSession:
        if arch not in self._open:
            bench = self._stack.enter_context(EvaluationSession(self._device, arch=arch))
            self._open[arch] = self._open[bench.arch] = bench  # `native` and its value
        return self._open[arch]


def _attacked(outcome: Outcome) -> NightCheck:
    said = f"{outcome.defence}: {outcome.status}, {outcome.reason}"
    state = {"lost": "passed", "harness fault": "fault"}.get(outcome.verdict, "failed")
    text = said if outcome.verdict == "lost" else f"{outcome.verdict}: {said}"
    return NightCheck(step="redteam", name=outcome.attack, state=state, text=text, elapsed_s=outcome.elapsed_s)


def _stood(one: ChampionReview) -> NightCheck:
    state = "failed" if one.state.is_loss else "fault" if one.state is ReviewState.FAULT else "passed"
    text = f"{one.state}: {one.note}" if one.note else one.state.value
    if one.cause is not None:
        text += f"; {one.cause.text}"
    detail = json.dumps(one.to_json(), indent=1) if state != "passed" else ""
    return NightCheck(step="champions", name=one.name, state=state, text=text, detail=detail, elapsed_s=one.elapsed_s)
