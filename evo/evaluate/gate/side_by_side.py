"""Check cases on several simulators at once, in order, while the reference works on the next ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

from evo.spec.expectation import Expectation
from evo.spec.look_ahead import look_ahead

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")


def checked(
    items: Sequence[T],
    expected: Callable[[T], Expectation | None],
    check: Callable[[T, Expectation, D], R],
    devices: Sequence[D],
) -> Iterator[tuple[T, R]]:
    """Each item for which something is expected, with what `check` says of it on a device that is free.

    In the items' order, whatever ends first. Raises what an item's work raises, at its turn.
    """
    free: SimpleQueue[D] = SimpleQueue()
    for device in devices:
        free.put(device)

    def work(item: T) -> R | None:
        if (expectation := expected(item)) is None:
            return None
        device = free.get()
        try:
            return check(item, expectation, device)
        finally:
            free.put(device)

    most = len(devices) + 1
    with ThreadPoolExecutor(most, thread_name_prefix="evo-checked") as threads:
        for item, found in look_ahead(lambda item: threads.submit(work, item), items, most + 1):
            if found is not None:
                yield item, found
