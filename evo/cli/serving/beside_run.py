"""A server of its own process beside a run: it begins before the run and ends with it, however that ends.

Another process, so that rendering a page takes nothing from the thread that times kernels.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from evo.errors import HarnessFault, UsageError

_BEGIN_S = 30.0
_END_S = 5.0


@contextmanager
def served(root: Path, task: str) -> Iterator[str]:
    """The page's address while the block runs. Raises UsageError without the packages, HarnessFault if none begins."""
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
