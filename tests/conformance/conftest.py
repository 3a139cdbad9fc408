"""What the conformance suites share: a place for the fake GPU's settings, and support on the path of children."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance_devices import SUPPORT


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpu").mkdir()
    monkeypatch.setenv("FAKE_GPU", str(tmp_path / "gpu"))
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
