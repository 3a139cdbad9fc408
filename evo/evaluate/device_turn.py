"""Whose turn it is at the device of a session, and what has it while simulators look at what is about to be kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from evo.results import CaseBench


class DeviceTurn:
    """Held over calls that belong together, by one thread, which may take it again. Use it as a context manager."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held = threading.local()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._held.times = self._times + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._give_back(min(self._times, 1))

    def leave(self) -> None:
        """Let others have it for the rest of what this thread has taken it for."""
        self._give_back(self._times)

    @property
    def _times(self) -> int:
        return getattr(self._held, "times", 0)

    def _give_back(self, times: int) -> None:
        self._held.times = self._times - times
        for _ in range(times):
            self._lock.release()


class WorkBeside:
    """Work for a device while simulators look at what it has timed, in a thread of its own that takes its turns.

    control: at a start, once, given its times. ahead: at whatever is about to be kept, given its text.
    """

    def __init__(self, turn: DeviceTurn) -> None:
        self.control: Callable[[Sequence[CaseBench]], object] | None = None
        self.ahead: Callable[[str], object] | None = None
        self._is_taken = threading.Event()  # the control, or none is under way
        self._is_taken.set()
        self._turn = turn
        self._threads: ThreadPoolExecutor | None = None

    def await_control(self) -> None:
        """Before anything is decided: until a control that is under way has been taken."""
        self._is_taken.wait()

    def take_control(self, times: Sequence[CaseBench]) -> None:
        """Take the control in this thread, if one is due."""
        control, self.control = self.control, None
        if control is not None:
            control(times)

    def begin(self, text: str, times: Sequence[CaseBench]) -> None:
        """Leave the device to what is due: what comes next waits for the looks ahead, its verdict for the control."""
        control, self.control = self.control, None
        ahead = self.ahead
        if control is None and ahead is None:
            return

        def work() -> None:
            try:
                if ahead is not None:
                    ahead(text)
            finally:
                try:
                    if control is not None:
                        control(times)
                finally:
                    self._is_taken.set()

        if control is not None:
            self._is_taken.clear()
        self._turn.leave()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="evo-beside")
        self._threads.submit(work)

    def end(self, *, waits: bool = False) -> None:
        """Begin nothing more. waits: for what is under way, which may be waiting for its turn."""
        if self._threads is not None:
            self._threads.shutdown(wait=waits, cancel_futures=True)
        self._threads = None
        self._is_taken.set()
