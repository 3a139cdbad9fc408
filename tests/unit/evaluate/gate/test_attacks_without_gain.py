"""Kernels that are wrong on few inputs or sizes and no faster than the task's own: the looks before a keep see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from simulator_session import simulator

from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Status
from evo.spec.task import load_task

ROOT = Path(__file__).resolve().parents[4]
ATTACKS = sorted((ROOT / "tests" / "data" / "attacks_without_gain").glob("*/*.cu"))


@pytest.fixture(scope="module")
def session() -> Iterator[EvaluationSession]:
    with simulator() as session:
        yield session


@pytest.mark.long
@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_a_start_that_is_wrong_somewhere_is_refused(session: EvaluationSession, path: Path) -> None:
    """Inputs are drawn, so what few of them show may pass once; not three times."""
    task = load_task(ROOT, path.parent.name)
    jobs = (Job(task=task, text=path.read_text(), path=path.name, seed=seed, rival=None) for seed in (11, 12, 13))
    assert any(evaluate(job, session).status is Status.WRONG for job in jobs)
