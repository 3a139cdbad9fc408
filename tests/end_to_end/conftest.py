"""What the tests on a GPU that is faked share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import SUPPORT, own_cache


@pytest.fixture
def faked_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `fake_gpu`'s settings, for this process and for its children."""
    folder = tmp_path / "gpu"
    folder.mkdir()
    monkeypatch.setenv("FAKE_GPU", str(folder))
    monkeypatch.setenv("EVO_CACHE", own_cache(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    return folder
