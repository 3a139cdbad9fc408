"""`kill -9` at every instant: nothing lost, nothing recorded twice, a clean tree (see tests/unit/kill_driver.py)."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from kill_driver import kill_and_recover, run_until
from ledger_samples import DATE, problems, repository, start_ledger

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("group", [False, True], ids=["evo alone", "evo and its group"])
def test_fifty_kills_at_random_instants(tmp_path: Path, group: bool) -> None:
    kill_and_recover(repository(tmp_path), random.Random(group), kills=25, longest_s=4.0, group=group)


@pytest.mark.parametrize("again", [False, True], ids=["once", "and again while recovering"])
def test_killed_before_every_single_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    fatal, killed, rng = 0, True, random.Random(5)
    while killed:
        fatal += 1 if not again else rng.randrange(1, 6)
        root = repository(tmp_path / str(fatal))
        killed = run_until(root, monkeypatch, fatal)
        if again:
            for number in range(1, 4):
                run_until(root, monkeypatch, rng.randrange(1, 40), run=f"20260102T{number:06d}-cd34", recovering=True)
        ledger, _, said = start_ledger(root, "20260109T000000-cd34")
        with ledger:
            ledger.finish(date=DATE)
        assert problems(root) == [], f"killed at {fatal}: {said}"
    assert fatal > 100
