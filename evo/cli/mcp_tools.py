"""What the tools of `evo mcp` do: tasks, limits, champions, insights, leaderboard, profiles, and trials.

The agent acts as an operator. It sends the text of a variant, or edits to the champion; everything else (device, arch,
repository, whether anything may be committed) was chosen by whoever started the server.
"""

from __future__ import annotations

import re
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from evo.analysis.roofline import limits
from evo.cli.mcp_jobs import Cancelled, McpJob
from evo.cuda.compile import toolkit_version
from evo.cuda.source import classify, tree_difference
from evo.device import DeviceName
from evo.errors import SyntaxInvalid, UsageError
from evo.evaluate.prepare import PrepareFailure
from evo.evaluate.profile.counting import counted
from evo.evaluate.session import EvaluationSession
from evo.operators import Hypothesis, kind_of_edit
from evo.operators.llm.case_table import case_table
from evo.operators.llm.edits import apply_reply
from evo.operators.llm.endpoint import data
from evo.operators.llm.hardware_context import COUNT_LIMIT_S
from evo.operators.llm.prompt_context import insights, task_context, timed_record
from evo.operators.llm.prompts import PromptParts, prompt
from evo.operators.llm.reply_edits import Unusable, one_line, read_reply
from evo.records.insights import summarise, unsuccessful
from evo.records.leaderboard import entries, load
from evo.records.trials import Record, load_records
from evo.results import Evaluation
from evo.search.events import Event, TrialResult
from evo.search.loop import Settings, evolve
from evo.search.single_trial import judge_text, refusal
from evo.spec.chips import Chip
from evo.spec.task import Task, load_task, task_names
from evo.spec.variant import Variant, parse_variant, read_variant

_ANSWER = """\
You have the tools of this server: send the blocks as `edits` to `try`, and the lines SUMMARY, REASON, EXPECTED and RISK
as `summary`, `reason`, `expected` and `risk`. Its answer is the verdict; `profile` shows where the time goes. Nothing
is kept without `commit`."""


def improve_prompt(
    task: Task,
    parent: Variant,
    records: Sequence[Record],
    chip: Chip,
    places: tuple[str, str],
    toolkit: str,
    margin: float,
) -> str:
    """The task, the kernel with its times and limiters, what was tried, and the grammar of launch lines."""
    own = timed_record(records, parent.id, places)
    table = case_table(task, own.evaluation if own is not None else None, chip, margin)
    shown = PromptParts(
        task=task_context(task, chip, places[1], toolkit, parent),
        times=f"Its times by case:\n{data('times', chr(10).join(table))}" if table else "",
        insights=insights(records, task.name, places, parent),
    )
    return "\n\n".join([*(message.content for message in prompt(shown)), _ANSWER])


_SEEDS = 2**31
_FAILED_SHOWN = 10
_LINES = 24  # of a profile
_POLL_S = 0.2
_LONGEST = 200_000  # bytes; differences of longer texts take too long
Shape = dict[str, Any]
TaskName = Annotated[str, Field(description="A task, as `tasks` lists them.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The server's command line.

    may_commit: `try` with commit makes a trial of the loop, with its commits. rewrites: how many may be rewrites.
    """

    root: Path
    device: DeviceName
    arch: str
    may_commit: bool = False
    rewrites: int = 3


class McpTools:
    """The tools; the docstrings of those that read are what a client is shown. One call at a time uses the device."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._device = threading.Lock()  # held while something runs
        self._opening = threading.Lock()
        self._bench: EvaluationSession | None = None
        self._where: tuple[Chip, str, str] | None = None
        self._stage: Callable[[str], None] = lambda _: None
        self._rewrites = 0
        self._margin = 0.0  # known once the device was opened

    def close(self) -> None:
        with self._opening:
            if self._bench is not None:
                self._bench.close()
                self._bench = None

    def tasks(self) -> Shape:
        """List the tasks of this repository, and the device on which variants run."""
        options = self._options
        return {
            "tasks": list(task_names(options.root)),
            "device": str(options.device),
            "arch": options.arch,
            "may_commit": options.may_commit,
        }

    def task(self, task: TaskName) -> Shape:
        """Read a task: task.yaml (tensors, cases, tolerance, allowed flags), its reference and its ladder."""
        found = self._task(task)
        return {
            "task": found.name,
            "task_yaml": (found.folder / "task.yaml").read_text(encoding="utf-8"),
            "reference": (found.folder / "reference.py").read_text(encoding="utf-8"),
            "ladder": [{"file": path.name, "idea": read_variant(path).headline} for path in found.ladder()],
        }

    def limits(self, task: TaskName) -> Shape:
        """The lower bound on the time of each timed case on this chip, and the resource that binds."""
        found = self._task(task)
        chip, _, _ = self._place()
        return {
            "task": found.name,
            "chip": chip.slug,
            "cases": [limits(found, case, chip).to_json() for case in found.bench],
        }

    def champion(self, task: TaskName) -> Shape:
        """The source to improve: the champion of this chip, or the ladder's first rung if there is none yet."""
        found = self._task(task)
        parent, is_champion = self._parent(found)
        kept = [r for r in load_records(self._options.root, found.name) if r.variant == parent.id and r.kept]
        shape: Shape = {
            "task": found.name,
            "variant": parent.id,
            "is_champion": is_champion,
            "file": Path(parent.path).name,
            "source": parent.text,
        }
        return shape | ({"timing": kept[-1].timing, "cases": [row.to_json() for row in kept[-1].bench]} if kept else {})

    def insights(self, task: TaskName) -> Shape:
        """The measured or modelled effect of each kind of change, and the latest failures with their reasons."""
        found = self._task(task)
        records = load_records(self._options.root, found.name)
        return {
            "task": found.name,
            "insights": [insight.to_json() | {"says": insight.sentence()} for insight in summarise(records)],
            "failed": [change.to_json() for change in unsuccessful(records)[:_FAILED_SHOWN]],
        }

    def improve(self, task: str) -> str:
        """The prompt with which a model would be asked to improve the champion."""
        found = self._task(task)
        chip, slug, arch = self._place()
        parent, _ = self._parent(found)
        records = load_records(self._options.root, found.name)
        return improve_prompt(found, parent, records, chip, (slug, arch), toolkit_version(), self._margin)

    def leaderboard(self, task: Annotated[str | None, Field(description="A task; all if absent.")] = None) -> Shape:
        """The champions of one task or of all; measured and modelled times are never compared."""
        name = self._task(task).name if task is not None else None
        board = load(self._options.root)
        return replace(board, entries=tuple(entries(board, task=name))).to_json()

    def profile(self, task: str, text: str | None = None, case: str | None = None, job: McpJob | None = None) -> Shape:
        """Count what a text (the champion, if none is given) does at one case, by kernel and by source line."""
        found = self._task(task)
        try:
            at = found.case(case) if case is not None else found.check[0]
        except KeyError:
            raise UsageError(f"no case {case!r}", hint="the tool `task` shows the cases") from None
        subject = text if text is not None else self._parent(found)[0].text
        _require_short(subject)
        with self._using(job) as bench:
            counts = counted(found, subject, bench, at, limit_s=COUNT_LIMIT_S)
        if counts.problem:
            raise UsageError(f"nothing to count: {counts.problem}", hint="`try` says what is wrong with a text")
        return {
            "task": found.name,
            "case": at.name,
            "kernels": [kernel.to_json() for kernel in counts.kernels],
            "lines": [line.to_json() for line in counts.lines[:_LINES] if line.source.strip()],
        }

    def try_change(
        self,
        task: str,
        edits: str | None = None,
        text: str | None = None,
        *,
        hypothesis: Hypothesis | None = None,
        commit: bool = False,
        rewrite: bool = False,
        job: McpJob | None = None,
    ) -> Shape:
        """Judge one change as the loop would; with `commit` make it a trial of the loop."""
        found, options = self._task(task), self._options
        if commit and not options.may_commit:
            raise UsageError(
                "this server commits nothing", problem="server-without-commit", hint="start it with `evo mcp --commit`"
            )
        if commit and rewrite and self._rewrites >= options.rewrites:
            raise UsageError(f"this server has committed its {options.rewrites} rewrites", hint="evo mcp --rewrites N")
        with self._using(job) as bench:
            parent, is_champion = self._parent(found)
            child = _child(parent, edits, text)
            verdict = classify(tree_difference(parent.text, child))
            is_single = verdict.is_single and kind_of_edit(parent.text, child) == "mutation"
            about: Shape = {
                "task": found.name,
                "parent": parent.id,
                "change": {"kind": verdict.kind, "is_single": is_single, "why": verdict.why},
                "has_champion": is_champion,
                "committed": False,
            }
            answered = self._without_trial(found, parent, child, bench, rewrite) if is_champion else None
            if answered is not None:
                return answered | about
            if not commit:
                seed = secrets.randbelow(_SEEDS)
                judged = judge_text(found, child, bench, path="<try>", seed=seed, rewrite=rewrite)
                return _judged(judged.evaluation) | about
            shape = self._trial(found, child, hypothesis or Hypothesis(), rewrite, job)
            self._rewrites += shape.get("kind") == "rewrite"
            return {**about, **shape}

    def _without_trial(
        self, task: Task, parent: Variant, child: str, bench: EvaluationSession, rewrite: bool
    ) -> Shape | None:
        """A text that is refused, or whose machine code was held against this champion before."""
        variant = _id_of(child)
        if variant == parent.id:
            return {"status": "unchanged", "reason": f"this is the champion, variant {parent.id}"}
        if (refused := refusal(task, child, parent, bench, rewrite)) is not None:
            return _judged(refused)
        prepared, own = bench.prepare(task, child), bench.prepare(task, parent.text)
        if isinstance(prepared, PrepareFailure):
            return None
        if not isinstance(own, PrepareFailure) and own.code_hash == prepared.code_hash:
            return {"status": "unchanged", "reason": "it compiles to the machine code of the champion"}
        here = bench.environment(task)
        for record in reversed(load_records(self._options.root, task.name)):
            same = record.variant == variant or record.evaluation.code_hash == prepared.code_hash
            if (
                same
                and record.parent == parent.id
                and "rival" not in record.arguments
                and not here.differences(record.environment)
            ):
                return {**_judged(record.evaluation), "trial": record.trial, "from_record": True}
        return None

    def _trial(self, task: Task, text: str, hypothesis: Hypothesis, rewrite: bool, job: McpJob | None) -> Shape:
        """One trial of the loop with this text as its patch."""
        options = self._options
        self.close()  # the loop brings its own
        name = re.sub(r"[^a-z0-9]+", "_", one_line(hypothesis.summary, 48).lower()).strip("_") or "agent"
        notes: list[str] = []
        results: list[TrialResult] = []

        def watch(event: Event) -> None:
            if event.note:
                notes.append(event.note)
            if isinstance(event.about, TrialResult):
                results.append(event.about)
            if event.stage and job is not None:
                job.see(event.stage)

        with tempfile.TemporaryDirectory(prefix="evo-mcp-") as folder:
            file = Path(folder) / f"{name}.cu"
            file.write_text(text, encoding="utf-8")
            settings = Settings(
                task=task.name,
                device=options.device,
                arch=options.arch,
                iterations=1,
                operators=("patch",),
                patch=file,
                hypothesis=hypothesis,
                rewrites=1 if rewrite else 0,
            )
            done = evolve(settings, options.root, watch)
        tried = [result for result in results if result.operator == "patch"]
        shape: Shape = {"committed": done.kept > 0, "champion": done.champion, "notes": notes}
        if not tried:
            return shape | {"status": "not tried", "reason": self._before(task, text)}
        return shape | tried[-1].to_json()

    def _before(self, task: Task, text: str) -> str:
        """Which trial had this text, and how it ended."""
        variant = parse_variant(text).id
        for record in reversed(load_records(self._options.root, task.name)):
            if record.variant == variant:
                return f"trial {record.trial} was this text: {record.status.value}, {record.outcome}"
        return "this text or its machine code was tried before"

    @contextmanager
    def _using(self, job: McpJob | None) -> Iterator[EvaluationSession]:
        """The device, for one call at a time. Raises Cancelled at a stage of a cancelled job."""
        while not self._device.acquire(timeout=_POLL_S):
            if job is not None:
                job.see("waiting for the device")
        try:
            self._stage = job.see if job is not None else lambda _: None
            self._stage("")
            yield self._bench_session()
        except Cancelled:
            self.close()  # a worker may still be busy with what nobody waits for
            raise
        finally:
            self._stage = lambda _: None
            self._device.release()

    def _task(self, name: str) -> Task:
        if not re.fullmatch(r"\w+", name):
            raise UsageError(f"{one_line(name, 60)!r} is not a task", hint="the tool `tasks` lists them")
        return load_task(self._options.root, name)

    def _bench_session(self) -> EvaluationSession:
        with self._opening:
            if self._bench is None:
                options = self._options
                self._bench = EvaluationSession(options.device, arch=options.arch, on_stage=self._see)
                self._where = (self._bench.chip, self._bench.chip_slug, self._bench.arch)
                self._margin = self._bench.default_margin
            return self._bench

    def _see(self, stage: str) -> None:
        self._stage(stage)

    def _place(self) -> tuple[Chip, str, str]:
        """The chip, its slug and the arch; known once the device was opened, whoever uses it."""
        if self._where is None:
            self._bench_session()
        assert self._where is not None
        return self._where

    def _parent(self, task: Task) -> tuple[Variant, bool]:
        _, slug, arch = self._place()
        path = task.champion_path(slug, arch)
        if path.is_file():
            return read_variant(path), True
        rungs = task.ladder()
        if not rungs:
            raise UsageError(f"task {task.name} has no champion and no rung", hint="add a .cu file to its ladder/")
        return read_variant(rungs[0]), False


def _child(parent: Variant, edits: str | None, text: str | None) -> str:
    if (edits is None) == (text is None):
        raise UsageError("give either edits or text", hint="edits: SEARCH/REPLACE blocks; text: the whole .cu file")
    given = text if text is not None else edits or ""
    _require_short(given)
    if text is not None:
        return text
    try:
        return apply_reply(parent.text, read_reply(edits or "", rewrite=True))
    except Unusable as problem:
        raise UsageError(problem.problem, hint="read the tool `champion` again, and copy its lines") from None


def _id_of(text: str) -> str | None:
    try:
        return parse_variant(text).id
    except SyntaxInvalid:
        return None  # the pipeline says what is wrong with it


def _require_short(given: str) -> None:
    try:
        size = len(given.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError("the text holds half a surrogate pair", hint="send UTF-8 text") from None
    if size > _LONGEST:
        raise UsageError(f"{size:,} bytes, at most {_LONGEST:,} are read", hint="a variant is one kernel file")


def _judged(evaluation: Evaluation) -> Shape:
    """An evaluation as JSON for an agent."""
    decision, check = evaluation.decision, evaluation.check
    shape: Shape = {"variant": evaluation.variant, "status": evaluation.status.value, "reason": evaluation.reason}
    if evaluation.stage is not None:
        shape["stage"] = evaluation.stage.value
    if decision is not None:
        shape["decision"] = decision.to_json()
    return shape | {
        "faults": [fault.to_json() for fault in check.faults] if check is not None else [],
        "timing": evaluation.environment.timing,
        "cases": [case.to_json() for case in evaluation.bench],
    }
