"""`import evo`: its exported members, that they load late, their reprs, and the programs of docs/python.md."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import new_repository

import evo
from evo import sim

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MEMBERS = {
    "EvoError", "Evaluation", "Event", "RunSummary", "Session", "Status", "Task", "TrialResult", "Variant", "Verdict",
    "load_task", "load_variant", "parse_variant", "run_search",
}  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_repository(tmp_path_factory.mktemp("api") / "repository")


def program(label: str) -> str:
    """The program of the page, on the tiny task."""
    (text,) = re.findall(rf"<!-- run: {label} -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return text.replace("rmsnorm", "scale").replace("ladder/10_block.cu", "ladder/00_slow.cu")


def run(label: str) -> list[str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(program(label), "python.md", "exec"), {"__name__": "__main__"})
    return said.getvalue().splitlines()


def test_the_public_names_are_these_and_all_are_documented() -> None:
    assert set(evo.__all__) == MEMBERS
    assert set(evo.__all__) <= set(dir(evo))
    page = PAGE.read_text(encoding="utf-8")
    for name in MEMBERS:
        assert getattr(evo, name).__doc__
        assert f"`{name}" in page
    with pytest.raises(AttributeError, match="nonsense"):
        evo.nonsense  # noqa: B018


def test_importing_evo_loads_nothing_else_of_it() -> None:
    shown = "import sys, evo; print(sorted(n for n in sys.modules if n.startswith('evo.') or n == 'numpy'))"
    assert subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_kernel_is_judged_from_a_program(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    first, *cases = run("python")
    assert first.split()[1] == evo.Status.CORRECT
    assert [line.split(":")[0] for line in cases] == [case.name for case in evo.load_task("scale").bench]


def test_the_loop_runs_from_a_program_that_watches_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    *trials, last = run("search")
    assert trials
    assert last.split()[-1] == evo.load_variant(next(repository.glob("kernels/scale/champions/*.cu"))).id


def test_a_session_tries_a_variant_as_the_loop_would(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    task = evo.load_task("scale", repository)
    slow, wrong = evo.load_variant("kernels/scale/ladder/00_slow.cu"), evo.load_variant("wrong.cu")
    with evo.Session("sim:l4") as session:
        assert (session.device, session.chip.slug) == ("sim:l4", "l4")
        assert session.evaluate(task, wrong).status is evo.Status.WRONG
        same = session.evaluate(task, slow, against=slow)
        assert same.decision is not None
        assert not same.kept
        tried = session.try_variant(task, wrong)
        assert not tried.evaluation.status.passed
    shown = [repr(each) for each in (task, slow, session, same)]
    assert all(len(text) < 160 for text in shown)
    assert ["scale" in shown[0], slow.id in shown[1], "sim:l4" in shown[2], slow.id in shown[3]] == [True] * 4


def test_a_device_or_a_task_that_is_not_there_is_an_error_with_a_hint(repository: Path) -> None:
    for failing in (lambda: evo.Session("tpu:0"), lambda: evo.load_task("none", repository)):
        with pytest.raises(evo.EvoError) as problem:
            failing()
        assert problem.value.hint


def test_the_simulator_lists_what_it_has_not_imported_yet() -> None:
    lines = "import sys, evo.sim; print(set(evo.sim.__all__) <= set(dir(evo.sim)), 'llvmlite' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["True", "False"]
    assert all(getattr(sim, name) is not None for name in sim.__all__)
