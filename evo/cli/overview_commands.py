"""`evo operators`, `evo insights`, `evo leaderboard`: tables over all operators and records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Argument, Context, Option

from evo.cli.command_context import choose_task, session_of
from evo.cli.evaluation_view import gain_text
from evo.cli.options import AsJson, OnlyTask
from evo.cli.record_view import commits_of, headline_of, say_what_is_torn
from evo.cli.terminal import columns, microseconds, out, out_json, out_table, paint, plain, ratio, say
from evo.errors import UsageError, known_words

if TYPE_CHECKING:
    from evo.operators import OperatorDoc
    from evo.records.insights import Insight, RewriteStatistics, RuleEvidence, Unsuccessful
    from evo.records.leaderboard import LeaderboardEntry
    from evo.results.codec import Serializable

Row = TypeVar("Row", bound="Serializable")
_NO_TRIALS = "no trials yet: `evo iterate` makes some"


def operators(
    name: Annotated[
        str | None, Argument(metavar="NAME", show_default=False, help="A family or a rule, shown in full.")
    ] = None,
    json: AsJson = False,
) -> int:
    """List the operators that propose changes. Each has a description and an example; NAME shows one in full."""
    from evo.operators import operator_docs

    docs = [doc for doc in operator_docs() if name is None or name in (doc.name, doc.family, doc.name.split("/")[-1])]
    docs = docs or [doc for doc in operator_docs() if doc.name.startswith(f"{name}/")]
    if not docs:
        raise UsageError(
            f"no operator or rule {name!r}",
            hint=known_words("operators", f"{name}", dict.fromkeys(doc.family for doc in operator_docs())),
        )
    if json:
        out_json([doc.to_json() for doc in docs])
        return 0
    for doc in docs:
        out(paint(doc.name, "bold"))
        _wrapped(doc.sentence)
        if name is None:
            _example(doc.before, doc.after)
        else:
            _in_full(doc)
    return 0


def _in_full(doc: OperatorDoc) -> None:
    """The hypothesis of a rule and all its examples."""
    from evo.operators import all_rules

    rule = next((rule for rule in all_rules() if f"rules.{rule.family}/{rule.name}" == doc.name), None)
    if rule is None:
        return
    for word in ("reason", "expected", "risk", "next_if_kept", "next_if_reverted"):
        _wrapped(f"{word.replace('_', ' ')}: {getattr(rule, word)}")
    for example in rule.examples:
        out()
        _example(example.before, example.after)


def _wrapped(sentence: str) -> None:
    import textwrap

    out(textwrap.fill(sentence, width=columns(sys.stdout) or 100, initial_indent="  ", subsequent_indent="  "))


def _example(before: str, after: str) -> None:
    """The lines that an edit removes and adds, with the unchanged lines between them."""
    import difflib

    colours = {"-": ("red",), "+": ("green",), " ": ("dim",)}
    for line in difflib.ndiff(before.strip("\n").splitlines(), after.strip("\n").splitlines()):
        if line[0] in colours:
            out(paint(f"    {line.rstrip()}", *colours[line[0]]))


def leaderboard(
    context: Context,
    task: OnlyTask = None,
    rebuild: Annotated[bool, Option("--rebuild", help="First write leaderboard.json again from the records.")] = False,
    json: AsJson = False,
) -> int:
    """Show the champion of each task, chip and arch. Measured and modelled ones are listed separately."""
    from evo.records.leaderboard import build, entries, load, write
    from evo.records.trials import load_records

    root = session_of(context).root()
    name = choose_task(root, task).name if task is not None else None
    if rebuild:
        write(root, build(load_records(root, settled=True), commits_of(root)))
        say("leaderboard.json is rebuilt from the records; commit it if it changed")
    board = load(root)
    shown = entries(board, task=name)
    if json:
        out_json((board if name is None else replace(board, entries=tuple(shown))).to_json())
        return 0
    if not shown:
        lost = any(record.kept for record in load_records(root, name)) and not rebuild
        say(
            f"no champions {'in leaderboard.json, but records of some: `evo leaderboard --rebuild`' if lost else _NONE}"
        )
    ordered = sorted(shown, key=lambda entry: entry.timing)
    for index, (timing, group) in enumerate(groupby(ordered, key=lambda entry: entry.timing)):
        if index:
            out()
        head = ["task", "chip", "arch", "variant", "case", f">{timing} µs", ">since start", ">last gain", "commit"]
        head += ["date", "change"]
        out_table(head, [_board_row(root, entry) for entry in group], flexible=10)
    return 0


_NONE = "yet: `evo iterate` makes some"


def _board_row(root: Path, entry: LeaderboardEntry) -> list[str]:
    from evo.records.since_start import speedup_text

    headline, since = headline_of(root, entry.task), entry.since_start
    case = headline if headline is not None and headline in entry.cases else next(iter(entry.cases), "")
    speedup = since.speedup.get(case) if since is not None else None
    return [
        entry.task,
        entry.chip,
        entry.built_for,
        paint(entry.variant, "cyan"),
        case,
        microseconds(entry.cases[case].time_us) if case else "",
        paint(speedup_text(speedup), "bold") if speedup is not None else "",
        gain_text(entry.gain, interval=False) if entry.gain is not None else "",
        (entry.commit or "")[:7],
        entry.date[:10],
        plain(entry.name) + (f" ({entry.rewrites} rewrites on the way)" if entry.rewrites else ""),
    ]


def insights(
    context: Context,
    task: OnlyTask = None,
    failed: Annotated[
        bool, Option("--failed", help="List the changes that were not kept, with the reason, latest first.")
    ] = False,
    rules: Annotated[bool, Option("--rules", help="Show the evidence for each rewrite rule.")] = False,
    rewrites: Annotated[
        bool, Option("--rewrites", help="Show what whole rewrites have brought, apart from single changes.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Show the effect of each kind of change, from all records. --failed lists what was not kept, and why."""
    from evo.records.insights import rewrite_statistics, rule_evidence, summarise, unsuccessful
    from evo.records.trials import load_records

    root = session_of(context).root()
    name = choose_task(root, task).name if task is not None else None
    records = load_records(root, name)
    say_what_is_torn(root, name, shown=bool(records))
    if failed + rules + rewrites > 1:
        raise UsageError("--failed, --rules and --rewrites exclude each other", hint="give one of them")
    if failed:
        _show(unsuccessful(records), _show_unsuccessful, json)
    elif rules:
        _show(rule_evidence(records), _show_evidence, json)
    elif rewrites:
        _show(rewrite_statistics(records), _show_rewrites, json, none="no rewrites yet: see `evo iterate --rewrites N`")
    else:
        _show(summarise(records), _show_insights, json)
    return 0


def _show(rows: list[Row], table: Callable[[list[Row]], None], json: bool, none: str = _NO_TRIALS) -> None:
    if json:
        out_json([row.to_json() for row in rows])
    elif rows:
        table(rows)
    else:
        say(none)


def _show_insights(rows: list[Insight]) -> None:
    places: dict[str, set[str]] = {}
    for row in rows:
        places.setdefault(row.chip, set()).add(row.environment)
    for chip, environments in places.items():
        if len(environments) > 1:
            say(f"effects on {chip} come from {len(environments)} environments, which are not mixed:")
            for environment in sorted(environments):
                say(f"  {environment}")
    for index, ((task, timing), group) in enumerate(groupby(rows, key=lambda row: (row.task, row.timing))):
        if index:
            out()
        out(f"{paint(task, 'bold')}  {timing} effects")
        table = [
            [
                row.operator,
                plain(row.change),
                row.chip,
                ratio(row.median),
                f"{ratio(row.low)} to {ratio(row.high)}" if row.low is not None and row.high is not None else "",
                f"{row.kept} of {row.count}",
            ]
            for row in group
        ]
        out_table(["operator", "change", "chip", ">median", "range", ">kept"], table, flexible=1)


def _show_evidence(rows: list[RuleEvidence]) -> None:
    for index, (timing, group) in enumerate(groupby(rows, key=lambda row: row.timing)):
        if index:
            out()
        out(f"{paint(timing, 'bold')} trials")
        table = [
            [row.operator, row.rule, *map(str, (row.trials, row.new_code, row.correct, row.kept)), ratio(row.best)]
            for row in group
        ]
        out_table(["operator", "rule", ">trials", ">new code", ">correct", ">kept", ">best"], table)


def _show_rewrites(rows: list[RewriteStatistics]) -> None:
    from evo.cli.pages.report_model import REWRITE_HEAD, rewrite_rows

    out_table(REWRITE_HEAD, rewrite_rows(rows))


def _show_unsuccessful(rows: list[Unsuccessful]) -> None:
    table = [
        [paint(row.variant, "cyan"), row.operator, plain(row.summary), row.status, plain(row.reason).split("\n")[0]]
        for row in rows
    ]
    out_table(["variant", "operator", "change", "status", "why"], table)
