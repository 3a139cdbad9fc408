"""A sample of the fuzz suite; tests/long/test_sim_fuzz.py runs all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing import batch
from long_cases import long


@pytest.mark.parametrize("mode", ["ptx", long("instruction"), long("launch")])
def test_mutants_end_in_order(mode: str, tmp_path: Path) -> None:
    outcomes = batch(mode, 0, 20, tmp_path, 40)
    assert sum(outcomes.values()) == 20
    assert outcomes["ran"] > 4, "mutants so wild that none runs test nothing"
