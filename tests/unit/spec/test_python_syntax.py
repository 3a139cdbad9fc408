"""Threads may read expressions at once, though CPython 3.11 counts the depth of its trees for all of them together."""

from __future__ import annotations

import gc
import sys
import threading

from evo.spec.expr import parse


class Finalised:
    """In a cycle of its own, so that the collector runs Python code, and with that other threads, while one reads."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        pass


def test_threads_read_expressions_side_by_side() -> None:
    failed: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(300):
                Finalised()
                parse("(((M + N) * 3 + min(K, 4)) // 2) % 7", line=1)
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5, 2, 2)
    try:
        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
    assert not failed
