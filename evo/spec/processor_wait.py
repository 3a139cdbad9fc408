"""Time limits that leave out the time for which a busy machine gives a process no processor.

How long its threads were ready to run and had no processor comes from /proc of Linux (Documentation/scheduler/
sched-stats.rst: the second figure of `schedstat`, nanoseconds). If that is missing, nothing is known to have been
waited for.
"""

from __future__ import annotations

import select
import time
from pathlib import Path

from evo.errors import WorkerLost
from evo.spec.child_process import ChildProcess

_QUICK_S = 0.2  # what is answered within it costs no look at /proc
_PATIENCE = 5  # times the limit, on a machine that is busy with other work
_LEAST_PATIENCE_S = 60.0  # and so long at least: of a short limit five times is soon gone


class ProcessorWait:
    """The wait since this object was made, in seconds: of the thread that waited longest; never less than before."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}/task")
        self._before = self._waits()
        self._longest = 0.0

    def seconds(self) -> float:
        found = (wait - self._before.get(thread, 0) for thread, wait in self._waits().items())
        self._longest = max(self._longest, max(found, default=0) / 1e9)
        return self._longest

    def _waits(self) -> dict[str, int]:
        """Nanoseconds by thread. Threads and the process may end while they are read."""
        waits: dict[str, int] = {}
        try:
            threads = list(self._folder.iterdir())
        except OSError:
            return waits
        for thread in threads:
            try:
                waits[thread.name] = int((thread / "schedstat").read_text().split()[1])
            except (OSError, IndexError, ValueError):
                continue
        return waits


def await_answer(child: ChildProcess, deadline: float, limit_s: float) -> None:
    """Wait until the child says something, or ends; the limit is over at the monotonic time `deadline`.

    The time for which a busy machine gives it no processor is not on its clock, up to _PATIENCE times the limit or
    _LEAST_PATIENCE_S, whichever is longer. Raises TimeoutError if it had its time, WorkerLost on a machine that is too
    busy: then nothing is known of what was asked.
    """
    began = time.monotonic()
    if arrives(child, min(deadline, began + _QUICK_S)):
        return
    deadline += time.monotonic() - began  # nobody counted what it waited for so far: that is not on the clock
    waited = ProcessorWait(child.pid)
    last = deadline + max((_PATIENCE - 1) * limit_s, _LEAST_PATIENCE_S)
    until = deadline
    while not arrives(child, until):
        until = min(deadline + waited.seconds(), last)
        if time.monotonic() < until:
            continue
        if until < last:
            raise TimeoutError
        raise WorkerLost(
            f"not finished: in {limit_s + last - deadline:g} s the machine had too little processor time for it",
            problem="slow",
            hint="nothing was counted against the variant; run it again when the machine is less busy",
        )


def arrives(child: ChildProcess, until: float) -> bool:
    """Whether the child says something, or ends, before the monotonic time `until`."""
    left = None if until == float("inf") else 1000 * max(0.0, until - time.monotonic())
    poll = select.poll()
    poll.register(child.connection.fileno(), select.POLLIN)
    return bool(poll.poll(left))
