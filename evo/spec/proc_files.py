"""What the system reports of memory and processes: `/proc`, and the control group of a container."""

from __future__ import annotations

import os
import time


def memory_limit() -> int:
    """What this process may grow to: four fifths of the machine, or of its container."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(min(whole, _number("/sys/fs/cgroup/memory.max") or whole) * 0.8)


def memory_left() -> int | None:
    """Bytes that the machine, or its container, can still give away; None if the system does not say."""
    kilobytes = _fields("/proc/meminfo").get("MemAvailable:")
    left = None if kilobytes is None else 1024 * kilobytes
    most, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    if most is not None and used is not None:
        held = _fields("/sys/fs/cgroup/memory.stat")  # files that were read count as used, and can be dropped
        free = most - used + held.get("inactive_file", 0) + held.get("active_file", 0)
        left = free if left is None else min(free, left)
    return left


def process_age_s() -> float:
    """How long ago this process began; 0 if the system does not say."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):  # another system
        return 0.0


def _fields(path: str) -> dict[str, int]:
    """Lines of a name, a number, and perhaps a unit; {} if there is no such file."""
    try:
        with open(path, encoding="ascii") as file:
            return {name: int(number) for name, number, *_ in (line.split() for line in file)}
    except (OSError, ValueError):
        return {}


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):  # another system, or `max`
        return None


def processes_below(process: int, most: int) -> list[int]:
    """Processes that a process has started, and those that these have; not many more than `most` of them are counted.

    Empty if the system does not say.
    """
    found: list[int] = []
    waiting = [process]
    while waiting and len(found) <= most:
        folder = f"/proc/{waiting.pop()}/task"
        for thread in _names(folder):
            try:
                with open(f"{folder}/{thread}/children", "rb") as file:
                    below = [int(number) for number in file.read().split()]
            except (OSError, ValueError):  # it has ended
                continue
            found += below
            waiting += below
    return found


def is_stopped(process: int) -> bool:
    """Whether a signal has stopped it; False if the system does not say."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"T"]
    except OSError:
        return False


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def resident_bytes(process: int | str = "self") -> int:
    """Of memory, that a process has; 0 if the system does not say."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
