from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "sim"))


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Machine code is not shared with the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _fences() -> None:
    """With EVO_TEST_FENCED=1 every array of a launch lies alone, so that a stray access ends the process."""
    if os.environ.get("EVO_TEST_FENCED"):
        import fenced

        fenced.install()
