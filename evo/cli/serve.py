"""`evo serve`: the page that follows runs, on this machine only."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from evo.cli.command_context import choose_task, session_of
from evo.cli.options import OnlyTaskOption
from evo.cli.terminal import out, say
from evo.errors import HarnessFault, UsageError

DEFAULT_PORT = 8377
_BEGIN_S = 30.0
_END_S = 5.0


def serve(
    context: Context,
    port: Annotated[
        int | None,
        Option("--port", metavar="N", min=0, max=65535, help=f"The port; 0 for a free one (default: {DEFAULT_PORT})."),
    ] = None,
    task: OnlyTaskOption = None,
    with_run: Annotated[bool, Option("--with-run", hidden=True)] = False,
) -> int:
    """Show runs as they go, on a page at 127.0.0.1: the climb, the trial under way, every change and its verdict.

    The page follows the records of all runs in this repository, of other processes too. Nobody else can reach it, and
    nothing can be changed through it. Ctrl-C ends it; `evo iterate --serve` ends it with the run.
    """
    try:
        from evo.cli.serving import server
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn", "anyio", "h11", "click"):
            raise
        raise UsageError(f"evo serve needs the package {missing}", hint=f"pip install {missing}") from None
    from evo.cli.serving.content import Content
    from evo.records.ledger import StatusFile

    root = session_of(context).root()
    if task is not None:
        task = choose_task(root, task).name
    status_file = StatusFile.of(root)
    try:
        listener = server.listen(port if port is not None else DEFAULT_PORT)
    except UsageError:
        if not with_run or port is not None:
            raise
        listener = server.listen(0)
    content = Content(root, status_file, task)
    out(server.address_of(listener))
    if not with_run:
        say("the page follows the runs of this repository; Ctrl-C ends it")
    server.run(content, listener, with_stdin=with_run)
    return 0


@contextmanager
def served(root: Path, task: str) -> Iterator[str]:
    """The page's address while the block runs: of a process beside a run, so that rendering takes nothing from it.

    It ends with the block, however that ends. Raises UsageError without the packages, HarnessFault if none begins.
    """
    for needed in ("starlette", "uvicorn"):
        if find_spec(needed) is None:
            raise UsageError(f"--serve needs the package {needed}", hint=f"pip install {needed}")
    # -P: the installed evo, not one that lies in the current folder.
    command = [sys.executable, "-P", "-m", "evo", "--root", str(root), "serve", "--task", task, "--with-run"]
    # In a session of its own it hears no Ctrl-C that is meant for the run; its stdin ends with this process.
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        ready, _, _ = select.select([server.stdout], [], [], _BEGIN_S)
        address = server.stdout.readline().decode().strip() if ready else ""
        if not address:
            raise HarnessFault("the page's server did not begin", hint="try `evo serve` alone to see why")
        yield address
    finally:
        server.stdin.close()
        try:
            server.wait(_END_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()
