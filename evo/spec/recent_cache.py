"""A cache of the most recently used values, by key, up to a number of bytes, or of values. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class RecentCache(Generic[V]):
    """Values with their sizes; beyond limit_bytes those go that were not used for longest, never the latest."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._held: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value; None if it is not held any more."""
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def put(self, key: Hashable, value: V, size_bytes: int) -> V:
        """Hold a value. If another thread has put one meanwhile, that one is held and returned."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
            self._held[key] = value, size_bytes
            self.held_bytes += size_bytes
            while self.held_bytes > self.limit_bytes and len(self._held) > 1:
                _, (_, size) = self._held.popitem(last=False)
                self.held_bytes -= size
            return value

    def made(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value, made first if it is not held; of a cache whose limit is a number of values."""
        known = self.get(key)
        return known if known is not None else self.put(key, make(), 1)

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._held.clear()
            self.held_bytes = 0
