from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "sim"))


@pytest.fixture(autouse=True, scope="session")
def _fences() -> None:
    """With EVO_TEST_FENCED=1 every array of a launch lies alone, so that a stray access ends the process."""
    if os.environ.get("EVO_TEST_FENCED"):
        import fenced

        fenced.install()
