"""`evo nightly`: one night on a runner. Exit code 0 without losses, 1 for a loss, else the code of the first fault."""

from __future__ import annotations

import json as json_module
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from evo.cli import completion
from evo.cli.command_context import GlobalOptions, session_of
from evo.cli.iterate import Branch, Operators, operator_names, stoppable
from evo.cli.loop_view import PlainView
from evo.cli.options import (
    DEFAULT_ARCH,
    ArchWord,
    AsJson,
    DeviceWord,
    ProposalSeed,
    choose_device,
    margin_of,
    seconds_of,
)
from evo.cli.record_view import headline_of
from evo.cli.stage_line import stage
from evo.cli.terminal import duration, is_live, out_json, say
from evo.errors import EvoError, TaskInvalid, UsageError

if TYPE_CHECKING:
    from evo.audit.nightly import Night, NightCheck, NightPlan
    from evo.device import DeviceName
    from evo.search.events import Event

_SUMMARY, _JUNIT, _JSON, _PAGE = "summary.md", "junit.xml", "nightly.json", "report.html"
_JOB_SUMMARY = "GITHUB_STEP_SUMMARY"


Tasks = Annotated[
    list[str] | None,
    Argument(
        metavar="TASK", show_default=False, help="Only these tasks (default: all).", autocompletion=completion.tasks
    ),
]
LoopTime = Annotated[
    str, Option("--budget", metavar="TIME", help="Time limit of the loop, over all tasks: 90s, 30m, 1h30m.")
]
Trials = Annotated[
    int, Option("--iterations", metavar="N", min=0, help="Maximum number of trials per task; 0 skips the loop.")
]
Out = Annotated[Path, Option("--out", metavar="DIR", help=f"The folder for {_PAGE}, {_SUMMARY}, {_JUNIT} and {_JSON}.")]
Only = Annotated[
    list[str] | None,
    Option("--only", metavar="NAME", help="Only this attack, row or task of the red team; repeatable."),
]
Attacks = Annotated[bool, Option("--redteam/--no-redteam", help="Whether to run the attacks.")]
Share = Annotated[
    str | None, Option("--margin", metavar="SHARE", help="The time that a faster variant must save (3%; modelled 10%).")
]


def nightly(
    context: Context,
    tasks: Tasks = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    budget: LoopTime = "30m",
    iterations: Trials = 12,
    operators: Operators = "ladder,rules",
    branch: Branch = None,
    out: Out = Path("nightly"),
    only: Only = None,
    redteam: Attacks = True,
    margin: Share = None,
    seed: ProposalSeed = 0,
    json: AsJson = False,
) -> int:
    """Review every champion, then iterate. Runs doctor, A/A control and red team first.

    If a champion fails its gate, or loses to an earlier one in interleaved pairs, the best that holds replaces it, and
    a bisection names the commit or the change of environment that caused it. Exit code 0 without losses, 1 if a
    champion was lost or an attack won, else the code of the first fault.
    """
    root = (session := session_of(context)).root()
    budget_s, names, share = seconds_of(budget), operator_names(operators, None), margin_of(margin)
    if only and not redteam:
        raise UsageError("--only chooses attacks, --no-redteam leaves them out", hint="give one of them")
    if "llm" in names or "patch" in names:
        raise UsageError("a night accepts ladder, derive and rules", hint="the others work with `evo iterate`")
    chosen = choose_device(device)
    _prepare(out)
    from evo.audit.nightly import NightPlan

    plan = NightPlan(
        device=chosen,
        arch=arch,
        tasks=tuple(dict.fromkeys(tasks or ())),
        budget_s=budget_s,
        iterations=iterations,
        operators=names,
        branch=branch,
        margin=share,
        seed=seed,
        attacks=tuple(only or ()) if redteam else None,
    )
    night = _watched(plan, session)
    _leave(night, root, out)
    if json:
        out_json(night.to_json())
    else:
        from evo.audit.nightly import markdown

        sys.stdout.write(markdown(night))
    say(f"{night.verdict}; {duration(night.elapsed_s)}; {out}/{_PAGE}, {_SUMMARY}, {_JUNIT}, {_JSON}")
    return night.exit_code


def _watched(plan: NightPlan, session: GlobalOptions) -> Night:
    from evo.audit.nightly import Hooks, NightlyRun
    from evo.cli.shipped_tasks import attacked_folder

    views = _Views(root := session.root())
    with stoppable(views.view) as stop:
        hooks = Hooks(
            machine=lambda: _machine(session, plan.device),
            shipped=attacked_folder(session.given_root),
            tell=_tell,
            watch=views.see,
            stop=stop,
        )
        night = NightlyRun(plan, root, hooks).run()
    stage("")
    return night


class _Views:
    """The loop's plain view, one for each task, because each has its own headline case."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.view = PlainView("", quiet=True)

    def see(self, event: Event) -> None:
        from evo.search.events import RunBegun

        if isinstance(event.about, RunBegun):
            self.view = PlainView(headline_of(self._root, event.about.task) or "", quiet=True)
        self.view.see(event)


def _prepare(out: Path) -> None:
    """The output folder, checked before the work starts. If evo makes it, git ignores it."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is not a folder", hint="name a folder; it is made if it does not exist")
    try:
        if not out.exists():
            out.mkdir(parents=True)
            (out / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}", hint="name a writable folder") from None


def _tell(text: str) -> None:
    if is_live(sys.stderr) and text.startswith("red team:"):
        stage(text)
    else:
        say(text)


def _machine(session: GlobalOptions, device: DeviceName) -> list[NightCheck]:
    """The doctor's findings; those that this night needs are faults."""
    from evo.audit.nightly import NightCheck
    from evo.cli.doctor_checks import examine

    checks: list[NightCheck] = []
    for finding in examine(session):
        wanted = finding.needed or (device.kind == "gpu" and finding.name == "gpu launch")
        lacking = finding.state == "missing" or (finding.state != "ok" and finding.name == "gpu launch")
        checks.append(
            NightCheck(
                step="doctor",
                name=finding.name,
                state="fault" if wanted and lacking else "passed",
                text=finding.found,
                detail=finding.to_do or "",
                code=4 if finding.name == "gpu launch" else 5,
            )
        )
    return checks


def _leave(night: Night, root: Path, out: Path) -> None:
    """The report and what CI reads. The page comes first, so that the others can say what became of it."""
    from evo.audit.nightly import NightCheck, markdown
    from evo.cli.report import write_page

    _write_all(night, out)  # a fault of the page must not prevent the files that CI reads
    began = time.monotonic()
    state, code = "passed", 5
    try:
        text = f"{write_page(root, out / _PAGE)} trials shown in {_PAGE}"
    except TaskInvalid as error:
        state, text = "skipped", error.message
    except EvoError as error:
        state, text, code = "fault", error.message, error.exit_code
    elapsed_s = time.monotonic() - began
    night.checks.append(
        NightCheck(step="report", name="report", state=state, text=text, elapsed_s=elapsed_s, code=code)
    )
    _write_all(night, out)
    if job := os.environ.get(_JOB_SUMMARY):
        try:
            with Path(job).open("a", encoding="utf-8", errors="replace") as file:
                file.write(markdown(night))
        except OSError as error:
            say(f"the job summary {job} cannot be written: {error.strerror}")


def _write_all(night: Night, out: Path) -> None:
    """The summary, the JUnit file and all of it as JSON."""
    from evo.audit.nightly import junit, markdown
    from evo.files import write_atomic

    summary = markdown(night)
    write_atomic(out / _SUMMARY, summary.encode("utf-8", "replace"))
    write_atomic(out / _JUNIT, junit(night).encode("utf-8", "replace"))
    data = json_module.dumps(night.to_json(), indent=2, allow_nan=False) + "\n"
    write_atomic(out / _JSON, data.encode("utf-8", "replace"))
