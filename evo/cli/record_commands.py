"""Commands on the records: log, show, diff, replay. They read the population; only replay runs a kernel."""

from __future__ import annotations

import difflib
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from evo.cli import completion, evaluation_view
from evo.cli.command_context import GlobalOptions, choose_task, session_of
from evo.cli.options import AsJson, OnlyTask, choose_device
from evo.cli.record_view import commits_of, headline_of, headline_text, padded, say_what_is_torn, show_record
from evo.cli.stage_line import stage
from evo.cli.terminal import clip, columns, microseconds, out, out_json, out_table, paint, plain, say, verdict_colour
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.records.trials import FirstLook, Record
    from evo.results import Evaluation

DIFFERS = 1
_STAGES_SHOWN = 5
_ROOMY = 96  # columns of a terminal on which the log has one for the status

Id = Annotated[
    str,
    Argument(
        metavar="ID",
        show_default=False,
        help="The beginning of a trial's or variant's id.",
        autocompletion=completion.variants,
    ),
]
Side = Annotated[
    str, Argument(show_default=False, help="A file, or the beginning of an id.", autocompletion=completion.variants)
]


def log(
    context: Context,
    task: OnlyTask = None,
    kept: Annotated[bool, Option("--kept", help="List only kept trials.")] = False,
    timing: Annotated[bool, Option("--timing", help="Show where the time of each run went.")] = False,
    looks: Annotated[bool, Option("--looks", help="List the first looks, by which trials were chosen.")] = False,
    json: AsJson = False,
) -> int:
    """List the trials of all runs with their outcome, oldest first."""
    from evo.records.trials import load_records

    root = session_of(context).root()
    name = choose_task(root, task).name if task is not None else None
    found = load_records(root, name)
    say_what_is_torn(root, name, shown=bool(found))
    records = [record for record in found if record.kept or not kept]
    if json and looks:
        out_json([look.to_json() for run in _runs(records) for look in _looks_of(root, run)])
        return 0
    if json:
        from evo.cli.outputs import LoggedTrial

        commits = commits_of(root)
        out_json([LoggedTrial.of(record, commits.get(record.trial)).to_json() for record in records])
        return 0
    if not records:
        say("no kept trial yet: `evo log` shows all" if found else "no trials yet: `evo iterate` makes some")
    for index, group in enumerate(_runs(records)):
        task, run = group[0].task, group[0].run
        if index:
            out()
        if timing:
            out(f"{paint(run, 'bold')}  {task}")
            out_table(["trials", ">number", ">median s", ">total s", "where the time went"], stage_times(group))
        elif looks:
            _log_looks(root, group)
        else:
            _log_run(run, group, headline_of(root, task))
    return 0


def _runs(records: Sequence[Record]) -> Iterator[list[Record]]:
    for _, group in groupby(records, key=lambda record: (record.task, record.run)):
        yield list(group)


def _looks_of(root: Path, records: Sequence[Record]) -> list[FirstLook]:
    """The first looks of a run."""
    from evo.records.trials import looks_file, read_looks

    return read_looks(looks_file(root, records[0].task, records[0].run))


def stage_times(records: Sequence[Record]) -> list[list[str]]:
    """A row for each outcome, then one for all; the longest stages of each. Trials without a time are left out."""
    groups: dict[str, list[Record]] = {name: [] for name in ("start", "kept", "rejected", "review", "all")}
    for record in records:
        if record.elapsed_s:
            outcome = record.kind if not record.proposed else "kept" if record.kept else "rejected"
            groups[outcome].append(record)
            groups["all"].append(record)
    rows = []
    for became, group in groups.items():
        stages: dict[str, float] = {}
        for name, taken in (row for record in group for row in record.evaluation.stages_s.items()):
            stages[name] = stages.get(name, 0.0) + taken
        seconds = [record.elapsed_s or 0.0 for record in group]
        total = sum(seconds)
        longest = sorted(stages.items(), key=lambda item: -item[1])[:_STAGES_SHOWN]
        parts = [f"{name} {taken / total:.0%}" for name, taken in longest]
        if group:
            cells = [became, str(len(group)), f"{statistics.median(seconds):.2f}", f"{total:.1f}", ", ".join(parts)]
            rows.append(cells)
    return rows


def _log_run(run: str, records: list[Record], headline: str | None) -> None:
    first = records[0]
    chip, arch, _ = first.place
    out(f"{paint(run, 'bold')}  {first.task}  {chip} {arch}  {first.timing} times")
    narrow = (columns(sys.stdout) or _ROOMY) < _ROOMY
    rows = [_log_row(record, headline, narrow=narrow) for record in records]
    head = [">#", "variant", "operator", "status", f">{headline or ''} µs", ">gain", "verdict", "change"]
    if narrow:
        head.remove("status")
    out_table(head, rows)


def _log_looks(root: Path, records: list[Record]) -> None:
    """The first looks of a run, by the variant whose edits they were at, the fastest first."""
    first, looks = records[0], _looks_of(root, records)
    lost, seconds = sum(look.lost for look in looks), sum(look.elapsed_s for look in looks)
    said = f"{len(looks)} first looks in {seconds:.1f} s; {lost} edits lost there" if looks else "no first looks"
    out(f"{paint(first.run, 'bold')}  {first.task}  {said}")
    parents = list(dict.fromkeys(look.parent for look in looks))
    numbers = {record.variant: record.number for record in records}
    rows = []
    for look in sorted(looks, key=lambda look: (parents.index(look.parent), -(look.ratio or 0.0))):
        became = "lost" if look.lost else ""
        if look.variant in numbers:
            became = f"trial {numbers[look.variant]}"
        gain = f"{look.ratio:.2f}x" if look.ratio is not None else "no time"
        ids = [paint(look.parent, "cyan"), paint(look.variant, "cyan")]
        rows.append([*ids, look.operator, gain, became, plain(look.summary)])
    if rows:
        out_table(["of", "variant", "operator", ">gain", "became", "change"], rows)


def _log_row(record: Record, headline: str | None, *, narrow: bool) -> list[str]:
    """narrow: without a column for the status; what did not pass has it as its verdict."""
    status = record.status.value
    outcome = status if narrow and not record.status.passed else record.outcome
    return [
        str(record.number),
        paint(record.variant, "cyan"),
        record.operator,
        *([] if narrow else [paint(status, verdict_colour(status))]),
        headline_text(record.evaluation, headline),
        evaluation_view.gain_text(record.gain, interval=False) if record.gain else "",
        paint(outcome, verdict_colour(outcome)),
        plain(record.summary),
    ]


def show(context: Context, id: Id, json: AsJson = False) -> int:
    """Show one trial: the proposal, its reason, the outcome and the diff."""
    from evo.records.trials import find

    root = session_of(context).root()
    record = find(root, id)
    commit = commits_of(root).get(record.trial)
    if json:
        from evo.cli.outputs import ShownRecord
        from evo.results.codec import copied

        out_json(copied(ShownRecord, record, commit=commit).to_json())
    else:
        show_record(record, commit)
        out()
        _print_diff(record.diff.splitlines() if record.parent is not None else [])
    return 0


def diff(context: Context, a: Side, b: Side) -> int:
    """Compare the texts of two variants. Each is a file, or the beginning of a trial's or variant's id."""
    session = session_of(context)
    (old_name, old), (new_name, new) = _text_of(session, a), _text_of(session, b)
    _print_diff(difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm=""))
    return 0


def _text_of(session: GlobalOptions, side: str) -> tuple[str, str]:
    """A name to show and the text: of the file if it exists, else of a trial or variant."""
    path = Path(side)
    if path.is_file():
        return side, path.read_text(encoding="utf-8", errors="replace")
    from evo.records.trials import find_among, load_records, rebuild_text

    records = load_records(session.root())
    record = find_among(records, side)
    return f"{record.variant} ({record.trial})", rebuild_text(records, record.trial)


def _print_diff(lines: Iterator[str] | list[str]) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        style = styles.get(line[:1])
        bold = ("bold",) if line.startswith(("+++ ", "--- ")) else ()
        shown = plain(line)
        out(paint(shown, *(bold or ((style,) if style else ()))))


def replay(
    context: Context,
    id: Id,
    device: Annotated[
        str | None, Option("--device", metavar="NAME", help="Run on this device instead of the record's.")
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", metavar="N", min=0, help="Seed of other inputs than the record's.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Run a recorded trial again. Rebuilds its text from the chain of diffs; exit code 1 if the outcome differs."""
    from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
    from evo.records.trials import find_among, load_records, rebuild_rival_text, rebuild_text

    if Path(id).suffix == ".jsonl":
        hint = f"evo iterate TASK --operators llm --llm-replay {id}"
        raise UsageError(f"{id} is a transcript or a run, not one trial", hint=hint)
    root = session_of(context).root()
    records = load_records(root)
    record = find_among(records, id)
    task = choose_task(root, record.task)
    text = rebuild_text(records, record.trial)
    rival = rebuild_rival_text(records, record.trial)
    if seed is None:
        check = record.evaluation.check
        seed = check.seed if check is not None and check.seed is not None else 0
    if record.environment.task_hash != task.hash:
        say(f"the task {task.name} has changed since: its reference, cases or tolerance are not those of the record")
    where = choose_device(device or record.environment.device)
    with EvaluationSession(where, arch=record.environment.arch, on_stage=stage) as bench_session:
        say(f"replaying trial {record.trial} on {bench_session.device}")
        job = Job(task=task, text=text, path=record.trial, seed=seed, rival=rival, sanitize=True)
        evaluation = evaluate(job, bench_session)
    stage("")
    return _compare(record, evaluation, json)


def _compare(record: Record, evaluation: Evaluation, json: bool) -> int:
    verdict = evaluation.decision.verdict if evaluation.decision else None
    same = (evaluation.status, verdict) == (record.status, record.verdict)
    different = evaluation.environment.differences(record.environment)
    if json:
        from evo.cli.outputs import ReplayOutput

        shown = ReplayOutput(
            trial=record.trial,
            variant=record.variant,
            same=same,
            differences=tuple(different),
            recorded=record.evaluation,
            now=evaluation,
        )
        out_json(shown.to_json())
        return 0 if same else DIFFERS
    rows = [
        [
            "recorded",
            evaluation_view.coloured(record.status.value),
            evaluation_view.coloured(record.outcome),
            *([] if different else _times(record.evaluation)),
        ],
        [
            "now",
            evaluation_view.coloured(evaluation.status.value),
            evaluation_view.coloured(verdict.value if verdict else ""),
            *_times(evaluation),
        ],
    ]
    names = [clip(row.name, 12) for row in record.bench]
    out_table(["", "status", "verdict", *(f">{name} µs" for name in names)], padded(rows))
    out()
    if different:
        out(f"the recorded times are not compared with these: {plain(', '.join(different))}")
    out(paint("the same outcome", "green") if same else paint("another outcome", "red"))
    if not same and evaluation.reason:
        out(plain(evaluation.reason))
    return 0 if same else DIFFERS


def _times(evaluation: Evaluation) -> list[str]:
    return [microseconds(row.time_us) for row in evaluation.bench]
