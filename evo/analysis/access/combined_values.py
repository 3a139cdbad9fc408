"""Values that threads have combined, by loops, trees in shared memory or shuffles, followed back to their parts."""

from __future__ import annotations

from abc import ABC, abstractmethod

from evo.analysis.access.form import Carried, Data, Form, is_neutral

_DEEPEST = 60


class Unfit(Exception):
    """The value is combined in another way. Internal."""


class Follower(ABC):
    """operation: `add`, `max` or `min`, once one was met. What a class takes is not followed further."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.operation: str | None = None
        self.seen: set[object] = set()

    @abstractmethod
    def takes(self, data: Data) -> bool:
        """Whether a value is one that others are combined from; notes it."""

    def follow(self, data: Data, depth: int = 0) -> None:
        """Raises Unfit."""
        if depth > _DEEPEST:
            raise Unfit
        match data.op:
            case "same" | "convert" | "shuffle":
                self.follow(data.args[0], depth + 1)
            case "constant" | "index" if is_neutral(data):
                return
            case _ if self.takes(data):
                return
            case "add" | "max" | "min" | "select":
                if data.op != "select" and self.operation not in (None, data.op):
                    raise Unfit
                self.operation = data.op if data.op != "select" else self.operation
                for arg in data.args:
                    self.follow(arg, depth + 1)
            case "carried" | "result" if isinstance(data.detail, Carried):
                self._carried(data.detail, depth)
            case "read":
                self._read(data, depth)
            case _:
                raise Unfit

    def _carried(self, carried: Carried, depth: int) -> None:
        if id(carried) in self.seen:
            return
        self.seen.add(id(carried))
        if carried.update is None:
            raise Unfit
        self.follow(carried.initial, depth + 1)
        self.follow(carried.update, depth + 1)

    def _read(self, data: Data, depth: int) -> None:
        """All that was written to the shared array that a value was read from."""
        assert isinstance(data.detail, int)
        array = self.form.accesses[data.detail].array
        if array is None or array.space != "shared":
            raise Unfit
        if array.name in self.seen:
            return
        self.seen.add(array.name)
        for each in self.form.of(array):
            if each.is_write:
                if each.value is None or each.mode != "write":
                    raise Unfit
                self.follow(each.value, depth + 1)
