"""Expectations that are worked out before they are asked for, in further reference processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from evo.spec.task import Case

E_co = TypeVar("E_co", covariant=True)
E = TypeVar("E")


class Working(Protocol[E_co]):
    """A reference that works out expectations."""

    def expectation(self, case: Case, seed: int) -> E_co: ...

    def close(self) -> None: ...


class Ahead(Generic[E]):
    """Threads, each with a reference process of its own while it works."""

    def __init__(self, most: int, make: Callable[[], Working[E]]) -> None:
        self._make = make
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="reference")
        self._begun: dict[tuple[str, int], Future[E]] = {}

    def begin(self, case: Case, seed: int) -> None:
        if (case.name, seed) not in self._begun:
            self._begun[case.name, seed] = self._threads.submit(self._work_out, case, seed)

    def result(self, key: tuple[str, int]) -> E | None:
        """None if it was not begun, or if it was taken before. Raises TaskInvalid."""
        future = self._begun.pop(key, None)
        return future.result() if future is not None else None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _work_out(self, case: Case, seed: int) -> E:
        reference = self._make()
        try:
            return reference.expectation(case, seed)
        finally:
            reference.close()
