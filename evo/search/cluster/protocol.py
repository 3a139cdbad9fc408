"""What a fleet knows of the world: a site that opens stations, and a link to each. Behind it: Ray, or processes."""

from __future__ import annotations

from typing import Any, Protocol


class StationLost(Exception):
    """A station gave no answer: its process, node or network is gone, or it took too long. One line says how."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Link(Protocol):
    """The near end of one station."""

    def call(self, method: str, *args: object, limit_s: float) -> Any:
        """Run one of the station's methods. Raises StationLost, or the EvoError that the method raised."""
        ...

    def close(self) -> None:
        """End the station. A call in flight in another thread ends with StationLost."""
        ...


class Site(Protocol):
    """Where stations are opened. measuring, compiling: how many of each there are to be."""

    @property
    def measuring(self) -> int: ...

    @property
    def compiling(self) -> int: ...

    def open(self, role: str, index: int) -> Link:
        """Open a station to `measure` (with a device of its own) or to `compile`. Raises StationLost or EvoError."""
        ...

    def close(self) -> None: ...
