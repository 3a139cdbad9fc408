"""evo's child processes as copies of one that has imported what most of them serve.

A suite starts many hundreds, and half a second of processor time goes into the imports of each. Run as a program this
is that process: whoever connects to its socket sends what a child is started with, its end of the child's socket, and a
file for what it prints on stderr; the answers are that it has begun and, once it has ended, its exit code.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from evo.spec import child_main, child_process

_SOCKET = "EVO_TESTS_COPIES"  # a setting, so that the processes which tests start ask the same one
_IMPORTED = ("evo.spec.reference_child", "evo.device.child", "evo.device.sim_device", "cuda.bindings.nvrtc")
_OF_FILE = ("nvrtc_process.py",)  # entries that are loaded as files, whose imports are among these
_DIGITS = 10  # of a process's number, which is sent once the process leads a group of its own
_GIVEN = 1 << 20
_THREADS = {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")}  # read at an import
_plainly = child_process._begun


def install() -> None:
    """From now on this process's children are copies, where a copy is what a start would give."""
    if sys.platform == "linux" and not any(name.startswith("COV") for name in os.environ):
        child_process._begun = _begun


class Copy:
    """A child that another process started, asked as a `subprocess.Popen` is."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = int(answers.recv(_DIGITS, socket.MSG_WAITALL))
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and select.select([self._answers], [], [], 0)[0]:
            self._code = int(self._answers.recv(64) or -signal.SIGKILL)
            self._answers.close()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None and not select.select([self._answers], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("copy", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code


def _begun(entry: str, arguments: tuple[str, ...], *, plain: bool) -> child_process._Begun:
    environment = child_process.child_environment()
    place = entry.rpartition(":")[0]
    if not (place in _IMPORTED or Path(place).name in _OF_FILE) or differs(environment):
        return _plainly(entry, arguments, plain=plain)
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
    words = ["plain" if plain else "pickled", entry, *arguments]
    given = {"words": words, "environment": environment, "folder": os.getcwd()}
    answers = socket.socket(socket.AF_UNIX)
    answers.connect(socket_place())
    with theirs:
        socket.send_fds(answers, [json.dumps(given).encode()], [theirs.fileno(), errors.fileno()])
    answers.shutdown(socket.SHUT_WR)
    return child_process._Begun(ours, errors, Copy(answers))  # type: ignore[arg-type]


def differs(environment: dict[str, str]) -> bool:
    """Whether a fresh Python would begin otherwise than the one that is copied did."""
    own = {name for name in environment if name.startswith("PYTHON")} - {"PYTHONPATH", *os.environ}
    own |= {name for name, value in _THREADS.items() if environment.get(name) != value}
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    return bool(own) or any(Path(path, "sitecustomize.py").exists() for path in paths)


def add_paths(environment: dict[str, str]) -> None:
    """Let a copy import from the folders that a fresh Python would have."""
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]


def socket_place() -> str:
    """The socket of the process that is copied, which ends with the one that asked for it first."""
    with _ONE:
        if _SOCKET not in os.environ:
            folder = tempfile.TemporaryDirectory(prefix="evo-copies-")
            found = str(Path(folder.name) / "socket")
            environment, pipe = child_process.child_environment(), subprocess.PIPE
            process = subprocess.Popen(
                [sys.executable, "-P", __file__, found], stdin=pipe, stdout=pipe, env=environment
            )
            _KEPT.append((process, folder))
            assert process.stdout is not None
            process.stdout.readline()
            os.environ[_SOCKET] = found
    return os.environ[_SOCKET]


_ONE = threading.Lock()
_KEPT: list[tuple[subprocess.Popen[bytes], tempfile.TemporaryDirectory[str]]] = []


# --- the process that is copied --------------------------------------------------------------------------------------


def _serve(place: str) -> None:
    for name in _IMPORTED:
        import_module(name)
    sys.modules["cuda.bindings.nvrtc"].nvrtcVersion()  # loads the library
    gc.freeze()  # what is imported is no copy's garbage
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    listening.listen(64)
    print(flush=True)
    copies: dict[int, socket.socket] = {}
    while True:
        ready = select.select([0, listening, woken], [], [])[0]
        if 0 in ready:
            return  # whoever started this is gone
        if woken in ready:
            os.read(woken, 4096)
            _say_ends(copies)
        if listening in ready:
            answers, _ = listening.accept()
            text, files = _received(answers)
            pid = os.fork()
            if not pid:
                _become(json.loads(text), answers, files, [listening.fileno(), woken, wake])
            for file in files:
                os.close(file)
            copies[pid] = answers


def _received(answers: socket.socket) -> tuple[bytes, list[int]]:
    text, files = b"", []
    while True:
        part, more, _, _ = socket.recv_fds(answers, _GIVEN, 2)
        if not part:
            return text, files
        text, files = text + part, files + more


def _say_ends(copies: dict[int, socket.socket]) -> None:
    while copies:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with copies.pop(pid) as answers, contextlib.suppress(OSError):  # nobody may wait for it any more
            answers.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(given: dict[str, Any], answers: socket.socket, files: list[int], others: list[int]) -> None:
    """In the copy: be the child that was asked for, and leave."""
    parent, code = os.getppid(), 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        answers.send(b"%0*d" % (_DIGITS, os.getpid()))
        answers.close()
        connection, errors = files
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, file in enumerate((nothing, nothing, errors)):
            os.dup2(file, number)
        for file in (*others, nothing, errors):
            os.close(file)
        os.chdir(given["folder"])
        os.environ.clear()
        os.environ.update(given["environment"])
        add_paths(given["environment"])
        sys.argv[1:] = [str(connection), str(parent), *given["words"]]
        child_main.main(sys.argv[1:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python ends
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
