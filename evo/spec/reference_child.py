"""The process in which a task's reference.py runs: it answers calls until the other end is gone.

A reference is somebody's own code and no sandbox holds it, but what it does to its process (leaves it, hangs, closes
its files, replaces builtins) it does to this one alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import io
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from evo.spec.array_message import packed, unpacked
from evo.spec.connection import Connection
from evo.spec.library_threads import LibraryThreads

_OWN_THREADS = "evo-"  # begin the names of those that evo starts where a reference uses it
FUNCTIONS = ("inputs", "expected", "trusted", "rounded", "literal", "rivals")
_NO_PARAMETERS = -1
_MOST_PRINTED = 10_000  # characters of one call


def serve(connection: Connection, path: str) -> None:
    """Import the file at `path`, then answer calls."""
    first: Any = connection.receive()
    sys.path[:] = first["path"]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (int(first["memory"]), resource.RLIM_INFINITY))
    _send(connection, lambda: _opened(Path(path)))
    threads = LibraryThreads()
    while True:
        request: Any = unpacked(connection.receive())
        threads.suit(array_bytes(request["args"]))
        _send(connection, lambda: _answer(request))  # noqa: B023 - called at once


def _send(connection: Connection, work: Callable[[], dict[str, object]]) -> None:
    """Do the work and send its result, with the text that it has printed."""
    own, printed, done = os.getpid(), io.StringIO(), "raised"
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            answer = work()
        done = "returned what is no array:"
        message = packed({**answer, "printed": printed.getvalue()[:_MOST_PRINTED]})
    except (Exception, SystemExit) as error:  # noqa: BLE001 - sys.exit() in a task's file is its author's mistake too
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = packed(
            {
                "line": line,
                "done": done,
                "error": f"{type(error).__name__}: {error}",
                "hint": getattr(error, "hint", ""),
            }
        )
    if os.getpid() != own:  # a fork of the reference's has come out of the call as well
        os._exit(0)
    connection.send(message)


def array_bytes(value: object) -> int:
    """Bytes of the arrays in what a function is called with; `inputs` has none, and draws."""
    if isinstance(value, dict):
        return sum(array_bytes(part) for part in value.values())
    if isinstance(value, list | tuple):
        return sum(array_bytes(part) for part in value)
    return value.nbytes if isinstance(value, np.ndarray) else 0


_modules: list[ModuleType] = []


def _opened(path: Path) -> dict[str, object]:
    module = load_file(path)
    _modules.append(module)
    return {"functions": {name: _parameters(getattr(module, name)) for name in FUNCTIONS if hasattr(module, name)}}


def load_file(path: Path) -> ModuleType:
    """Import one Python file under a name of its own, without leaving a `__pycache__` beside it."""
    name = "evo_reference_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def _parameters(function: object) -> int:
    if not callable(function):
        return _NO_PARAMETERS
    try:
        return len(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return 1


def _answer(request: dict[str, object]) -> dict[str, object]:
    name, args, seed, errors = (request[key] for key in ("name", "args", "seed", "errors"))
    assert isinstance(args, list)
    assert isinstance(errors, dict)
    threads = set(threading.enumerate())
    generator = [np.random.default_rng([int(word) for word in str(seed).split()])] if seed else []
    with np.errstate(**errors):
        result = getattr(_modules[0], str(name))(*args, *generator)
    started = set(threading.enumerate()) - threads
    left = sorted(thread.name for thread in started if not thread.name.startswith(_OWN_THREADS))
    return {"kind": type(result).__name__, "result": result, "threads": left}
