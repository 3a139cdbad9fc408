"""The session on the simulator that all files share, and the tiny task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from evo.evaluate.session import EvaluationSession
    from evo.spec.task import Task


@pytest.fixture(scope="module")
def bench() -> Iterator[EvaluationSession]:
    from simulator_session import simulator  # seconds to import, for the files that ask for it

    with simulator() as session:
        yield session


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Task:
    from tiny import write_task

    from evo.spec.task import load_task

    root = tmp_path_factory.mktemp("root")
    write_task(root)
    return load_task(root, "scale")
