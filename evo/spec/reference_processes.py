"""A reference.py in several processes, so that small calls of several threads need not wait for one another."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from evo.errors import TaskInvalid
from evo.spec.reference_process import ReferenceProcess, ReferenceValue

_CORES_EACH = 4
_MOST = 4
_SMALL_BYTES = 4 << 20  # of arguments: one process at a time has the arrays of a large case


class ReferenceProcesses(ReferenceProcess):
    """A process, and others beside it that begin when it is first found busy, where the machine has cores for them.

    Only calls with small arguments and without a generator go there: such a call gives the same wherever it runs.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        """most: processes in all (default: by the cores)."""
        self._most = most or max(1, min(_MOST, (os.cpu_count() or 1) // _CORES_EACH))
        self._others: list[ReferenceProcess] = []
        self._begun, self._is_closed = 1, False
        self._adding = threading.Lock()
        super().__init__(path)

    def call(
        self, function: str, args: Sequence[object], *, limit_s: float, seed: Sequence[int] | None = None
    ) -> ReferenceValue:
        if self._most == 1 or seed is not None or _bytes_of(args) > _SMALL_BYTES:
            return super().call(function, args, limit_s=limit_s, seed=seed)
        for process in (self, *self._others):
            if (found := process.call_if_free(function, args, limit_s=limit_s)) is not None:
                return found
        with self._adding:
            is_more = self._begun < self._most and not self._is_closed
            self._begun += is_more
        if is_more:
            threading.Thread(target=self._add, name="evo-reference", daemon=True).start()
        return super().call(function, args, limit_s=limit_s, seed=seed)

    def _add(self) -> None:
        with contextlib.suppress(TaskInvalid):  # the first process does it all, and says what is wrong
            other = ReferenceProcess(self.path)
            with self._adding:
                if self._is_closed:
                    other.close()
                else:
                    self._others.append(other)

    def close(self) -> None:
        with self._adding:
            self._is_closed = True
            others, self._others = self._others, []
        for process in others:
            process.close()
        super().close()
        with self._adding:  # a later call begins anew
            self._begun, self._is_closed = 1, False


def _bytes_of(values: Iterable[object]) -> int:
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, dict):
            total += _bytes_of(value.values())
    return total
