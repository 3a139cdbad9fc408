"""Results in order, while the work of the next items is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def look_ahead(begin: Callable[[T], Future[R]], items: Iterable[T], most: int) -> Iterator[tuple[T, R]]:
    """Each item with its result, in the items' order. At most `most` items are begun and not yet delivered.

    Raises what the work of an item raises, at its turn. What is not delivered when the iteration ends is cancelled.
    """
    waiting = iter(items)
    begun: deque[tuple[T, Future[R]]] = deque()
    try:
        begun.extend((item, begin(item)) for item in islice(waiting, most))
        while begun:
            item, future = begun.popleft()
            result = future.result()
            begun.extend((item, begin(item)) for item in islice(waiting, 1))
            yield item, result
    finally:
        for _, future in begun:
            future.cancel()
