"""A lane of the red team in a process of its own: one interpreter for eight lanes is what they would all wait for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.audit.redteam.attack import Attack
from evo.audit.redteam.judges import Judge, judges, tried
from evo.audit.redteam.run_attack import Outcome
from evo.device import DeviceName
from evo.errors import ChildDied, ChildGarbled, EvoError, HarnessFault
from evo.spec.child_process import ChildProcess
from evo.spec.connection import Connection

_ENTRY = "evo.audit.redteam.lane_process:serve"
_LIMIT_S = 3600.0  # of one attack; its own parts have limits


@contextmanager
def lane_process(device: DeviceName, tasks: Path, planted: Path, *, arch: str, seed: int) -> Iterator[Judge]:
    """Both judges in a process of their own; `tasks` holds the task folders. Raises EvoError if they do not open."""
    child = ChildProcess(_ENTRY)
    try:
        _asked(child, {"path": list(sys.path), "given": (device, tasks, planted, arch, seed)})
        yield lambda attack: _outcome(child, attack)
    finally:
        child.close()


def _outcome(child: ChildProcess, attack: Attack) -> Outcome:
    found = _asked(child, attack)
    assert isinstance(found, Outcome)
    return found


def _asked(child: ChildProcess, message: object) -> object:
    try:
        found = child.ask(message, _LIMIT_S)
    except (ChildDied, ChildGarbled, TimeoutError) as error:
        raise HarnessFault(
            f"a lane of the red team is lost: {error}", hint="run it again; --only NAME takes one"
        ) from None
    if isinstance(found, EvoError):
        raise found
    return found


def serve(connection: Connection) -> None:
    """Answer for one attack after the other, until the driver is gone."""
    first = connection.receive()
    assert isinstance(first, dict)
    sys.path[:] = first["path"]
    device, tasks, planted, arch, seed = first["given"]
    try:
        with judges(device, tasks, planted, arch=arch, seed=seed) as judge:
            connection.send("open")
            while True:
                attack = connection.receive()
                assert isinstance(attack, Attack)
                connection.send(tried(attack, judge))
    except EvoError as error:
        connection.send(error)
