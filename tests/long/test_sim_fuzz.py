"""10,000 mutated PTX texts, instructions and launches each: no crash, no hang, no defect, no byte outside a buffer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sim"))
from fuzzing import batch

pytestmark = pytest.mark.long
BATCH = 250


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["ptx", "instruction", "launch"])
@pytest.mark.parametrize("part", range(40))
def test_mutants(mode: str, part: int, tmp_path: Path) -> None:
    outcomes = batch(mode, 1_000_000 + part * BATCH, BATCH, tmp_path, 600)
    assert sum(outcomes.values()) == BATCH
