"""Results in order while the next are under way, and what happens to them when the reader leaves."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from evo.spec.look_ahead import look_ahead


def test_results_come_in_order_with_no_more_begun_than_asked() -> None:
    begun: list[int] = []

    def begin(item: int) -> Future[int]:
        begun.append(item)
        future: Future[int] = Future()
        future.set_result(item * item)
        return future

    results = look_ahead(begin, range(5), 2)
    assert begun == []
    assert next(results) == (0, 0)
    assert begun == [0, 1, 2]  # two that wait, and the one that was delivered
    assert list(results) == [(1, 1), (2, 4), (3, 9), (4, 16)]


def test_what_is_not_delivered_is_cancelled() -> None:
    futures: list[Future[int]] = [Future() for _ in range(4)]
    futures[0].set_result(0)
    futures[1].set_exception(ValueError("of item 1"))
    results = look_ahead(futures.__getitem__, range(4), 3)
    assert next(results) == (0, 0)
    with pytest.raises(ValueError, match="of item 1"):
        next(results)
    assert all(future.cancelled() for future in futures[2:])
