"""`kill -9` of a real `evo iterate` on the simulator: nothing lost or recorded twice (see tests/run_killer.py)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from run_killer import kill_runs
from tiny import new_repository

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


def test_two_hundred_kills_of_a_real_run(tmp_path: Path) -> None:
    assert kill_runs(new_repository(tmp_path / "mine"), random.Random(200), kills=200) >= 20
