"""`evo redteam`: every shipped attack against a naive harness and against evo. Exit code 1 unless all of them lost.

A failure of the harness itself costs the attack it came with, not the others; the exit code is then 5.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from evo.cli.command_context import GlobalOptions, session_of
from evo.cli.options import DEFAULT_ARCH, ArchWord, AsJson, DeviceWord, Seed, choose_device
from evo.cli.stage_line import stage
from evo.cli.terminal import duration, is_live, out, out_json, out_table, paint, ratio, say
from evo.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from evo.audit.redteam import Outcome

WON = 1
_COLOURS = {"lost": "green", "won": "red", "does not count": "yellow", "harness fault": "red"}


def redteam(
    context: Context,
    files: Annotated[
        list[Path] | None,
        Argument(metavar="[FILE]...", show_default=False, help="Attacks of your own (default: the shipped ones)."),
    ] = None,
    device: DeviceWord = "auto",
    only: Annotated[
        list[str] | None, Option("--only", metavar="NAME", help="Only this attack, row or task; repeatable.")
    ] = None,
    arch: ArchWord = DEFAULT_ARCH,
    seed: Seed = 0,
    markdown: Annotated[bool, Option("--markdown", help="Print the table as Markdown.")] = False,
    json: AsJson = False,
) -> int:
    """Run attacks on evo, and on a naive harness, which should accept them."""
    if files and only:
        raise UsageError("--only chooses among the shipped attacks", hint="give FILEs, or --only")
    if markdown and json:
        raise UsageError("--markdown and --json exclude each other", hint="give one of them")
    started = time.monotonic()
    outcomes, where = _run(context, device, files or [], only or [], arch, seed)
    elapsed_s = time.monotonic() - started
    if json:
        from evo.cli.analysis_outputs import RedteamOutput

        out_json(RedteamOutput(device=where, attacks=tuple(outcomes), elapsed_s=elapsed_s).to_json())
    elif markdown:
        _show_markdown(outcomes, where, elapsed_s)
    else:
        _show(outcomes, elapsed_s)
    if any(outcome.fault for outcome in outcomes) and not any(outcome.kept for outcome in outcomes):
        return HarnessFault.exit_code
    return 0 if all(outcome.verdict == "lost" for outcome in outcomes) else WON


def _run(
    context: Context, word: str, files: list[Path], only: list[str], arch: str, seed: int
) -> tuple[list[Outcome], str]:
    from evo.audit.redteam import (
        chosen,
        default_lanes,
        judges,
        load_attacks,
        own_attacks,
        planted_file,
        run_all,
        run_procedures,
        task_folder,
    )
    from evo.evaluate.counted_stage import CountedStage
    from evo.spec.task import read_task

    attacks, procedures = (own_attacks(files), ()) if files else chosen(load_attacks(), only)
    names = {attack.task for attack in attacks} | {procedure.task for procedure in procedures}
    tasks = _tasks(session_of(context), files, names)
    for attack in attacks:
        attack.rival_path(read_task(task_folder(attack.task, tasks)))  # raises before anything is run
    device = choose_device(word)
    if left := [attack.name for attack in attacks if not attack.is_for(device.kind)]:
        say(f"{', '.join(left)}: on the simulator alone, so not run on a GPU")
        attacks = tuple(attack for attack in attacks if attack.is_for(device.kind))
    outcomes: list[Outcome] = []
    total = len(attacks) + len(procedures)
    lanes = default_lanes()
    say(f"{total} attacks on {device}" + (f", {lanes} at a time" if lanes > 1 else ""))
    if is_live(sys.stderr):
        stage(CountedStage("red team", "attack", 0, total))
    with planted_file() as planted:
        opened = partial(judges, device, tasks, planted, arch=arch, seed=seed)
        for outcome in chain(run_all(attacks, opened, lanes), run_procedures(procedures, tasks)):
            outcomes.append(outcome)
            _progress(outcomes, total)
    stage("")
    order = [*(attack.name for attack in attacks), *(procedure.name for procedure in procedures)]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.attack)), str(device)


def _tasks(session: GlobalOptions, files: Sequence[Path], names: Collection[str]) -> Path:
    """The folder that has all these tasks: the shipped one, or for the user's files the repository's if it has them."""
    from evo.audit.redteam import task_folder
    from evo.cli.shipped_tasks import shipped_folder

    def missing(tasks: Path) -> list[str]:
        return [name for name in sorted(names) if not (task_folder(name, tasks) / "task.yaml").is_file()]

    tasks = session.root() / "kernels" if session.given_root is not None else shipped_folder()
    with suppress(UsageError):
        if files and not missing(own := session.root(files[0]) / "kernels"):
            return own
    if found := missing(tasks):
        hint = "leave --root out to attack the shipped tasks, or choose with --only"
        hint = "run it in the repository that has the task, or give --root" if files else hint
        raise UsageError(f"no task {', '.join(found)} in {tasks}", hint=hint)
    return tasks


def _progress(outcomes: Sequence[Outcome], total: int) -> None:
    """One line for each attack, if the terminal cannot overwrite a line, as in the log of a CI run."""
    from evo.evaluate.counted_stage import CountedStage

    last = outcomes[-1]
    if is_live(sys.stderr):
        if len(outcomes) < total:
            name = f"the last: {last.attack} ({last.task}) {last.verdict}"
            stage(CountedStage("red team", "attack", len(outcomes), total, name))
    else:
        why = f": {last.reason}" if last.fault else ""
        say(f"{len(outcomes)} of {total}: {last.attack} {last.verdict}, {duration(last.elapsed_s)}{why}")


def _show(outcomes: Sequence[Outcome], elapsed_s: float) -> None:
    rows = [
        [
            paint(outcome.verdict, _COLOURS[outcome.verdict]),
            " ".join(outcome.rows),
            outcome.attack,
            outcome.task,
            _in_short(outcome),
            outcome.status,
            f"{outcome.defence}: {outcome.reason}",
        ]
        for outcome in outcomes
    ]
    out_table(["verdict", ">row", "attack", "task", "naive harness", "evo", "defence"], rows, flexible=6)
    for outcome in outcomes:
        if outcome.without_static_rules is not None:
            found = outcome.without_static_rules
            held = "nothing else stops it" if found.kept else f"{found.defence}: {found.status}, {found.reason}"
            out(f"{outcome.attack} without the static rules: {held}")
    for outcome in outcomes:
        if not outcome.as_expected:
            out(paint(f"{outcome.attack} did not end as its file expects", "yellow"))
    out(_summary(outcomes, elapsed_s))


def _in_short(outcome: Outcome) -> str:
    """`accepts, 12.34x`: the naive harness's verdict and the gain it reports."""
    word = outcome.naive.partition(":")[0].partition(";")[0]
    return f"{word}, {ratio(outcome.naive_speedup)}" if outcome.naive_speedup is not None else word


def _summary(outcomes: Sequence[Outcome], elapsed_s: float) -> str:
    counts = Counter(outcome.verdict for outcome in outcomes)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _COLOURS if counts[verdict])
    return f"{len(outcomes)} attacks: {words}; {duration(elapsed_s)}"


def _show_markdown(outcomes: Sequence[Outcome], where: str, elapsed_s: float) -> None:
    from evo.results.wording import markdown_table

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("\n", " ")

    def row(one: Outcome) -> list[str]:
        said = f"{one.status}: {one.reason}"
        cells = [" ".join(one.rows), f"`{one.attack}`", one.task, one.idea, one.naive, one.defence, said, one.verdict]
        return [cell(text) for text in cells]

    head = ("row", "attack", "task", "what it does", "naive harness", "defence", "evo says", "verdict")
    lines = [*markdown_table(head, map(row, outcomes)), "", f"On {where}: {_summary(outcomes, elapsed_s)}."]
    behind = []
    for outcome in outcomes:
        if (found := outcome.without_static_rules) is not None:
            said = cell(f"{found.status}: {found.reason}")
            behind.append((f"`{outcome.attack}`", "none" if found.kept else found.defence, said))
    if behind:
        lines += ["", "Without the static rules, the next defence is:", ""]
        lines += markdown_table(("attack", "defence", "evo says"), behind)
    for line in lines:
        out(line)
