"""One session on the simulator for all files of a process of tests: to open one takes a second of processor time."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator

from evo.device import DeviceName
from evo.evaluate.session import EvaluationSession

_TASKS = 6


@contextlib.contextmanager
def simulator() -> Iterator[EvaluationSession]:
    """The open session with its processes, and the references of the tasks that were asked for last."""
    session = _opened()
    try:
        yield session
    finally:
        session.rest()
        while len(session._references) > _TASKS:  # a process each; blocks of one file often ask for the same task
            session._references.pop(next(iter(session._references))).close()


@functools.cache
def _opened() -> EvaluationSession:
    session = EvaluationSession(DeviceName("sim", "l4"))
    atexit.register(session.close)
    return session
