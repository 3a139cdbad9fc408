"""Cases on several simulators at once: in order, each simulator alone with its case, and errors at their turn."""

from __future__ import annotations

import threading

import pytest

from evo.evaluate.gate.side_by_side import checked
from evo.spec.expectation import Expectation


def expected(item: int) -> Expectation | None:
    return None if item % 5 == 4 else Expectation({}, {}, None)


def test_results_come_in_order_from_all_devices_and_what_has_no_expectation_is_left_out() -> None:
    both = threading.Barrier(2, timeout=10)
    busy: set[str] = set()

    def check(item: int, _: Expectation, device: str) -> str:
        assert device not in busy
        busy.add(device)
        if item < 2:
            both.wait()  # passes only if two are under way at once
        busy.remove(device)
        return f"{item} on {device}"

    found = list(checked(range(12), expected, check, ["a", "b"]))
    assert [item for item, _ in found] == [item for item in range(12) if item % 5 != 4]
    assert {words.split()[-1] for _, words in found} == {"a", "b"}
    assert all(words.startswith(f"{item} ") for item, words in found)


def test_an_error_is_raised_at_its_turn_and_what_follows_is_not_begun() -> None:
    begun: list[int] = []

    def check(item: int, _: Expectation, device: str) -> int:
        begun.append(item)
        if item == 2:
            raise RuntimeError(f"no {item}")
        return item

    found = checked(range(100), expected, check, ["a"])
    assert [next(found)[0], next(found)[0]] == [0, 1]
    with pytest.raises(RuntimeError, match="no 2"):
        next(found)
    assert len(begun) < 10
