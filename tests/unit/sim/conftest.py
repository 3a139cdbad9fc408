from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Machine code is not shared with the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
