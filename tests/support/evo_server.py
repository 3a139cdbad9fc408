"""`evo` in copies of a process that has imported it: a fresh one takes most of a second of processor time to do that.

Run as a program it reads a request on each line (arguments, folder, environment, files for what is printed), forks, and
answers with the exit code. The copy ends as any other process does.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

LIMIT_S = 240.0
_IMPORTED = ("evo.cli.app", "evo.search.loop", "evo.evaluate.pipeline")


class Server:
    """The other end: asks for one command at a time."""

    def __init__(self) -> None:
        self._free = threading.Lock()
        child_copies().socket_place()
        command = [sys.executable, "-P", __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._process.kill)

    def run(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Exit code, stdout and stderr; None if another thread's command is under way."""
        if not self._free.acquire(blocking=False):
            return None
        try:
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err)]
                code = self._asked({"arguments": arguments, "cwd": str(cwd), "env": dict(env), "files": files})
                for file in (out, err):
                    file.seek(0)
                return code, out.read().decode(), err.read().decode()
        finally:
            self._free.release()

    def _asked(self, request: Mapping[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], LIMIT_S)[0]:
            self._process.kill()
            server.cache_clear()
            raise subprocess.TimeoutExpired("evo", LIMIT_S)
        return int(self._process.stdout.readline())


@functools.cache
def server() -> Server | None:
    """One for this process; None where copies do not do: elsewhere than on Linux, and where lines are counted."""
    return None if sys.platform != "linux" or any(name.startswith("COV") for name in os.environ) else Server()


def child_copies() -> ModuleType:
    """Run as a program this has no folder to import its neighbour from."""
    sys.path.append(str(Path(__file__).parent))
    try:
        return importlib.import_module("child_copies")
    finally:
        sys.path.pop()


def _serve() -> None:
    for name in _IMPORTED:
        __import__(name)
    child_copies().install()
    parser = sys.modules["evo.cli.app"].parser
    for name in parser().commands:
        parser(name)
    gc.freeze()  # what is imported is no copy's garbage
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(request: Mapping[str, list[str]]) -> None:
    """In the copy: be the command that was asked for, and leave."""
    from evo.cli import main
    from evo.spec import fork_server

    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])
    fork_server.add_paths(request["env"])
    for number, path in enumerate([os.devnull, *request["files"]]):
        os.dup2(os.open(path, os.O_RDONLY if not number else os.O_WRONLY | os.O_APPEND), number)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    code = main(request["arguments"])
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Python would free all that was imported, page by page of memory that is shared until it is written


if __name__ == "__main__":
    _serve()
