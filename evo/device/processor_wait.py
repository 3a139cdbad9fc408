"""How long the threads of a process were ready to run and had no processor: a busy machine's doing, not the process's.

From /proc of Linux (Documentation/scheduler/sched-stats.rst: the second figure of `schedstat`, nanoseconds). If that is
missing, nothing is known to have been waited for.
"""

from __future__ import annotations

from pathlib import Path


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
