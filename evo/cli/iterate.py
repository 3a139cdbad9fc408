"""`evo iterate`: the loop, watched. The view is chosen here; the loop itself knows no terminal."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli import completion
from evo.cli.command_context import GlobalOptions, choose_task, session_of
from evo.cli.llm_endpoint import gathered
from evo.cli.llm_options import LlmOptions, llm_settings
from evo.cli.options import (
    DEFAULT_ARCH,
    ArchWord,
    AsJson,
    ClusterWord,
    DeviceWord,
    ProposalSeed,
    TaskName,
    cluster_and_device,
    margin_of,
    seconds_of,
)
from evo.cli.terminal import is_live, out_json_line, say
from evo.errors import UsageError, known_words
from evo.spec.proc_files import process_age_s

if TYPE_CHECKING:
    from evo.cli.loop_view import LoopView
    from evo.device import DeviceName
    from evo.search.cluster import Cluster
    from evo.search.events import Event
    from evo.spec.task import Task

Share = Annotated[
    str | None,
    Option("--margin", metavar="SHARE", help="Keep a change only if it saves this much time (3%; modelled 10%)."),
]
_TIME = "Time limit of the command: 90s, 30m, 1h30m. A trial under way has 30s or a quarter more, 60s at most."
Time = Annotated[str | None, Option("--budget", metavar="TIME", help=_TIME)]
Neutral = Annotated[
    bool, Option("--keep-neutral", help="Also keep an equally fast variant with fewer registers, bytes or lines.")
]

Iterations = Annotated[int, Option("--iterations", metavar="N", min=0, help="Maximum number of trials.")]
Operators = Annotated[
    str,
    Option(
        "--operators",
        metavar="NAMES",
        help="Operators that propose changes; see `evo operators`.",
        autocompletion=completion.operators,
    ),
]
Start = Annotated[
    Path | None,
    Option("--from", metavar="FILE", help="Start from this file, not the champion, e.g. ladder/00_scalar.cu."),
]
PatchFile = Annotated[Path | None, Option("--patch", metavar="FILE", help="Propose this file first.")]
Branch = Annotated[str | None, Option("--branch", metavar="NAME", help="Commit on this git branch.")]
SearchName = Annotated[
    str, Option("--search", metavar="NAME", help="bandit, or one of the controls random and best-of-n.")
]
Patience = Annotated[int | None, Option("--patience", metavar="N", min=1, help="Stop after N trials without a keep.")]
Target = Annotated[
    str | None, Option("--target", metavar="SHARE", help="Stop at this share of the floor's speed: 80%.")
]
Jobs = Annotated[
    int | None,
    Option(
        "--jobs",
        metavar="N",
        min=1,
        max=64,
        help="Processes that compile and check side by side. They change no result.",
    ),
]
Rewrites = Annotated[
    int | None,
    Option("--rewrites", metavar="N", min=0, help="Maximum number of rewrites (3 if the strategy uses them)."),
]
Serve = Annotated[bool, Option("--serve", help="Also show the run on a page, as `evo serve` does.")]
Resume = Annotated[bool, Option("--resume", help="Continue the last run; --iterations counts its trials too.")]


@gathered("llm", LlmOptions)
def iterate(
    context: Context,
    task: TaskName = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    iterations: Iterations = 12,
    budget: Time = None,
    operators: Operators = "ladder,rules",
    start: Start = None,
    patch: PatchFile = None,
    rewrites: Rewrites = None,
    branch: Branch = None,
    search: SearchName = "bandit",
    patience: Patience = None,
    target: Target = None,
    resume: Resume = False,
    cluster: ClusterWord = None,
    jobs: Jobs = None,
    margin: Share = None,
    keep_neutral: Neutral = False,
    seed: ProposalSeed = 0,
    serve: Serve = False,
    json: AsJson = False,
    *,
    llm: LlmOptions,
) -> int:
    """Evolve a task's champion. Propose one change, check, time, decide, commit or revert; again. Ctrl-C stops."""
    began_s = time.monotonic() - process_age_s()
    session, root, chosen, (on, several) = _subject(context, task, jobs, cluster, device)
    budget_s, share, wanted = seconds_of(budget), margin_of(margin), margin_of(target, "--target")
    model, names = llm_settings(llm, operator_names(operators, patch), root)
    start, patch = (_inside(session, chosen, file) for file in (start, patch))
    _known_search(search, resume=resume, start=start)
    from evo.search.loop import Settings, evolve  # after the checks that need no compiler, numpy or git

    settings = Settings(
        task=chosen.name,
        device=on,
        arch=arch,
        iterations=iterations,
        budget_s=budget_s,
        operators=names,
        start=start,
        branch=branch,
        seed=seed,
        margin=share,
        neutral=keep_neutral,
        patch=patch,
        search=search,
        patience=patience,
        target=wanted,
        resume=resume,
        rewrites=rewrites if rewrites is not None else model.default_rewrites if model is not None else 0,
        llm=model,
        cluster=several,
        jobs=jobs,
    )
    with _page(root, chosen, wanted=serve), _view(chosen, budget_s, json) as view, stoppable(view) as stop:
        evolve(settings, root, _watch(view, json), stop=stop, began_s=began_s)
    return 0


def _subject(
    context: Context, task: str | None, jobs: int | None, cluster: str | None, device: str
) -> tuple[GlobalOptions, Path, Task, tuple[DeviceName, Cluster | None]]:
    session = session_of(context)
    root = session.root()
    where = _one_or_several(jobs, cluster, device, chosen := choose_task(root, task))
    _warn_of_uncommitted(root, chosen)
    return session, root, chosen, where


def _one_or_several(
    jobs: int | None, cluster: str | None, device: str, task: Task
) -> tuple[DeviceName, Cluster | None]:
    """The device, whose processes start while the loop is imported; or the cluster."""
    if jobs is not None and cluster is not None:
        hint = "--cluster processes:N keeps N devices busy by itself"
        raise UsageError("--jobs is for one device, --cluster for several", hint=hint)
    on, several = cluster_and_device(cluster, device)
    if several is None:
        from evo.evaluate.begun import begin_processes

        begin_processes(on, task)
    return on, several


@contextmanager
def _page(root: Path, task: Task, *, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    from evo.cli.serve import served

    with served(root, task.name) as address:
        say(f"the run is shown at {address}")
        yield


def _watch(view: LoopView, json: bool) -> Callable[[Event], None]:
    from evo.search.events import RunSummary, TrialResult

    def watch(event: Event) -> None:
        if json and isinstance(event.about, TrialResult | RunSummary):
            out_json_line(event.about.to_json())
        view.see(event)

    return watch


def _known_search(search: str, *, resume: bool, start: Path | None) -> None:
    known = ("bandit", "random", "best-of-n")
    if search not in known:
        raise UsageError(f"unknown search {search!r}", hint=known_words("searches", search, known))
    if resume and start is not None:
        raise UsageError(
            "--resume continues from the champion, --from starts from a file", hint="give only one of them"
        )


def operator_names(listed: str, patch: Path | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    if not names:
        raise UsageError("--operators is empty", hint="e.g. --operators ladder,rules; see `evo operators`")
    return ("patch", *names) if patch is not None and "patch" not in names else names


def _inside(session: GlobalOptions, task: Task, file: Path | None) -> Path | None:
    from evo.cli.command_context import find_file

    return find_file(session, file, task.name).resolve() if file is not None else None


def _warn_of_uncommitted(root: Path, task: Task) -> None:
    """One line if the task is not in git as it is here: the commits of this run would not have what they rest on."""
    from evo.errors import EvoError
    from evo.records.ledger import History

    try:
        history = History.open(root)
    except EvoError:  # the run itself says so, with a hint
        return
    with closing(history):
        files = [name for name in history.not_committed(task.folder) if "/champions/" not in name]
    if files:
        folder = os.path.relpath(task.folder)
        few = ", ".join(name.rpartition("/")[2] for name in files[:3]) + (" ..." if len(files) > 3 else "")
        command = f"git add {folder} && git commit -m 'Task {task.name}'"
        say(f"{task.name} is not committed as it is here ({few}), and evo commits champions only: `{command}`")


def _view(task: Task, budget_s: float | None, json: bool) -> LoopView:
    """The live table on a terminal; plain lines otherwise, and if JSON lines go to the same terminal."""
    if is_live(sys.stderr) and not (json and sys.stdout.isatty()):
        from evo.cli.live_view import LiveView

        return LiveView(task.headline, budget_s, quiet=json)
    from evo.cli.loop_view import PlainView

    return PlainView(task.headline, quiet=json)


@contextmanager
def stoppable(view: LoopView) -> Iterator[StopRequest]:
    """The first SIGINT or SIGTERM asks the loop to stop after this step; the second ends the process at once."""
    stop = StopRequest(view)
    before = {number: signal.signal(number, stop.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StopRequest:
    """Whether the user has asked to stop."""

    def __init__(self, view: LoopView) -> None:
        self._view = view
        self._asked = False

    def __call__(self) -> bool:
        return self._asked

    def hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._asked:
            # Workers end with their parent and the next run repairs the ledger, so exiting here is safe.
            signal.signal(number, signal.SIG_DFL)
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the live view hides the cursor
            os.kill(os.getpid(), number)
        self._asked = True
        self._view.stopping("stopping after this step; press again to stop now")
