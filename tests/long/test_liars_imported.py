"""Tasks of integers, indices and masks as strangers make them, and kernels that fit only what such a task draws.

Each honest kernel passes; each lie is wrong on values that the imported module, or the formula, also takes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.cli.app import run as evo
from evo.device import parse_device
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation, Status
from evo.spec.task import load_task

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

DATA = Path(__file__).parents[1] / "data" / "liars_imported"
HONEST, LIES = (sorted((DATA / kind).glob("*.cu")) for kind in ("honest", "lies"))
FORMULAS = {
    "all_column": (["m:bool[M,N]"], "y:bool[N]", "y = m.all(axis=0)"),
    "any_row": (["m:bool[M,N]"], "y:bool[M]", "y = m.any(axis=1)"),
    "mod3": (["x:int32[N]"], "y:int32[N]", "y = x % 3"),
    "row_argmax": (["x:int32[M,N]"], "y:int32[M]", "y = x.argmax(axis=1)"),
    "row_max": (["x:int32[M,N]"], "y:int32[M]", "y = x.max(axis=1)"),
    "zeros_in": (["x:int8[M,N]"], "y:int32[M]", "y = (x == 0).sum(axis=1)"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with all the tasks, each made by the command that a stranger would use."""
    made = tmp_path_factory.mktemp("strangers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        problems = [str(path) for path in sorted((DATA / "problems").glob("*.py"))]
        run("import", "kernelbench", *problems)
        for name, (inputs, output, formula) in FORMULAS.items():
            sizes = "M=512,N=512" if "M" in inputs[0] else "N=65536"
            given = [word for one in inputs for word in ("--in", one)]
            run("new", name, "--axis", sizes, *given, "--out", output, "--compute", formula)
    return made


def run(*words: str) -> None:
    assert evo(list(words)) == 0


@pytest.fixture(scope="module")
def bench():
    with EvaluationSession(parse_device("sim:l4")) as bench:
        yield bench


def check(bench: EvaluationSession, root: Path, path: Path) -> Evaluation:
    name = path.read_text().splitlines()[0].split()[-1]
    job = Job(task=load_task(root, name), text=path.read_text(), path=str(path), seed=11, upto="check")
    return evaluate(job, bench)


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_an_honest_kernel_passes(bench, root, path):
    evaluation = check(bench, root, path)
    assert evaluation.status.passed, evaluation.reason


@pytest.mark.parametrize("path", LIES, ids=lambda path: path.stem)
def test_a_kernel_that_fits_the_drawn_values_alone_is_wrong(bench, root, path):
    assert check(bench, root, path).status is Status.WRONG


def test_every_task_has_an_honest_kernel_and_a_liar():
    tasks = {path.stem for path in HONEST}
    assert tasks == {*FORMULAS, *(path.stem for path in (DATA / "problems").glob("*.py"))}
    assert {path.read_text().splitlines()[0].split()[-1] for path in LIES} == tasks
