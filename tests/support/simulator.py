"""One session on the simulator for all files of a process of tests: to open one takes a second of processor time."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator

from evo.device import DeviceName
from evo.evaluate.session import EvaluationSession


@contextlib.contextmanager
def simulator() -> Iterator[EvaluationSession]:
    """The open session, with the simulator's process and compilers; what tasks brought along ends with the block."""
    session = _opened()
    try:
        yield session
    finally:
        session.rest()
        while session._references:  # a process each
            session._references.popitem()[1].close()


@functools.cache
def _opened() -> EvaluationSession:
    session = EvaluationSession(DeviceName("sim", "l4"))
    atexit.register(session.close)
    return session
