"""What is held, what goes first, and that the latest always stays."""

from __future__ import annotations

from evo.spec.recent_cache import RecentCache


def test_what_was_not_used_for_longest_goes_first() -> None:
    held: RecentCache[str] = RecentCache(10)
    held.put("a", "A", 4)
    held.put("b", "B", 4)
    assert held.get("a") == "A"
    held.put("c", "C", 4)
    assert [held.get(key) for key in "abc"] == ["A", None, "C"]
    assert held.held_bytes == 8


def test_the_latest_stays_however_large_it_is() -> None:
    held: RecentCache[str] = RecentCache(10)
    held.put("a", "A", 4)
    assert held.put("b", "B", 40) == "B"
    assert [held.get(key) for key in "ab"] == [None, "B"]


def test_what_another_thread_has_put_first_is_the_one_that_counts() -> None:
    held: RecentCache[str] = RecentCache(10)
    held.put("a", "first", 4)
    assert held.put("a", "second", 4) == "first"
    assert held.held_bytes == 4
