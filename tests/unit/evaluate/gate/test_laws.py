"""Laws of a task: what task.yaml may state, which ones a reference keeps, and a variant that breaks one."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import FAST, write_task

from evo.errors import SyntaxInvalid, TaskInvalid
from evo.evaluate.gate import Looked, lawful, laws_of
from evo.evaluate.gate.kept_laws import check_laws, law_at
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Status
from evo.spec.changed_inputs import changed_case
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Case, Task, load_task, read_task
from evo.spec.tensor_arrays import Arrays

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("root")
    write_task(found)
    return found


def stated(root: Path, tmp_path: Path, laws: str) -> Task:
    """The tiny task with a field `laws`."""
    folder = tmp_path / "scale"
    folder.mkdir(parents=True)
    for name in ("task.yaml", "reference.py"):
        text = (root / "kernels" / "scale" / name).read_text()
        (folder / name).write_text(text + (f"\nlaws:\n{laws}\n" if name == "task.yaml" else ""))
    (folder / "ladder").mkdir()
    return read_task(folder)


@pytest.mark.parametrize(
    ("law", "field"),
    [
        ("{permute: Z}", "laws.0.permute"),
        ("{turn: N}", "laws.0"),
        ("{permute: N, split: N}", "laws.0"),
        ("{permute: N, power: 2}", "laws.0.power"),
        ("{scale: y}", "laws.0.scale"),
        ("{scale: x, power: 9}", "laws.0.power"),
        ("{append: N, fill: {x: 0}}", "laws.0.gives"),
        ("{append: N, fill: {x: none}, gives: {y: 0}}", "laws.0.fill.x"),
        ("{permute: N, when: M > 1}", "laws.0.when"),
    ],
)
def test_a_law_that_says_nothing_is_refused_with_its_line(root: Path, tmp_path: Path, law: str, field: str) -> None:
    line = (root / "kernels" / "scale" / "task.yaml").read_text().count("\n") + 3
    with pytest.raises(SyntaxInvalid) as found:
        stated(root, tmp_path, f"  - {law}")
    assert f"field `{field}`" in str(found.value)
    assert f":{line}" in str(found.value)


def test_a_law_that_the_reference_breaks_is_refused_with_its_line(root: Path, tmp_path: Path) -> None:
    task = stated(root, tmp_path, "  - {permute: N}\n  - {scale: x, power: 2}")
    assert task.laws is not None
    with closing(load_reference(task)) as reference, pytest.raises(TaskInvalid) as found:
        check_laws(task, reference)
    assert f"task.yaml:{task.laws[1].line}" in str(found.value)


def test_of_a_task_that_states_none_those_are_taken_that_its_reference_keeps(root: Path) -> None:
    task = load_task(root, "scale")
    with closing(load_reference(task)) as reference:
        found = {law.words for law in laws_of(task, reference)}
        powers = {law.power for law in laws_of(task, reference) if law.kind == "scale"}
    assert {"permute N", "append N", "repeat N", "scale x"} <= found
    assert powers == {1}


def test_what_no_law_changes_is_asked_of_the_reference_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that is simulated takes a while: outputs without a change serve all laws, an answer all who ask."""
    task, asked, looked = load_task(root, "scale"), Counter[bytes](), Counter[str]()
    plain, find = Reference.expected, Reference._find_dependent

    def expected(self: Reference, inputs: Arrays, case: Case) -> Arrays:
        asked[case.name.encode() + b"".join(inputs[name].tobytes() for name in sorted(inputs))] += 1
        return plain(self, inputs, case)

    def found(self: Reference) -> bool:
        looked["dependent"] += 1
        return find(self)

    monkeypatch.setattr(Reference, "expected", expected)
    monkeypatch.setattr(Reference, "_find_dependent", found)
    with closing(load_reference(task)) as reference, ThreadPoolExecutor(4) as threads:
        assert len(laws_of(task, reference)) > 2
        drawn = {case.name: reference.inputs(case, 1) for case in task.check}
        assert len({*threads.map(lambda _: reference.has_dependent_inputs(), range(4))}) == 1
    keys = [name.encode() + b"".join(a[key].tobytes() for key in sorted(a)) for name, a in drawn.items()]
    assert max(asked[key] for key in keys) == 1
    assert looked["dependent"] == 1


def test_a_timed_size_gets_another_law_than_its_cut_and_none_that_does_not_hold_there() -> None:
    task = load_task(ROOT, "attention")
    reference = load_reference(task)
    reference.laws = task.laws
    try:
        names = {found.words for n in range(9) if (found := law_at(task, reference, task.bench[0], "B", 0, n))}
        causal = replace(task.bench[0], axes={**task.bench[0].axes, "CAUSAL": 1})
        less = {found.words for n in range(9) if (found := law_at(task, reference, causal, "B", 0, n))}
    finally:
        reference.close()
    assert names == {"permute SQ", "permute SK", "permute D", "scale v"}
    assert less == {"permute D", "scale v"}


def test_appended_places_hold_what_the_law_says() -> None:
    task = load_task(ROOT, "softmax")
    assert task.laws is not None
    case, law = task.check[0], next(law for law in task.laws if law.kind == "append")
    rng = np.random.default_rng(3)
    x = rng.standard_normal(task.inputs[0].dims(case)).astype(np.float16)
    changed = changed_case(law, task, case, {"x": x}, rng)
    assert changed is not None
    more = changed.case.axes["COLS"] - case.axes["COLS"]
    assert more > 0
    assert np.isneginf(changed.inputs["x"][:, -more:].astype(np.float64)).all()
    y = changed.outputs({"y": np.ones(x.shape)})["y"]
    assert (y[:, :-more] == 1).all()
    assert (y[:, -more:] == 0).all()


@pytest.mark.parametrize(
    ("also", "status"),
    [("", None), (" && !(n >= 128 && n % 2 == 0 && i >= n / 2 && x[i] == x[i - n / 2])", Status.WRONG)],
)
def test_a_variant_that_breaks_a_law_is_found(
    bench: EvaluationSession, root: Path, also: str, status: Status | None
) -> None:
    task = load_task(root, "scale")
    prepared = bench.prepare(task, FAST.replace("if (i < n)", f"if (i < n{also})"))
    assert isinstance(prepared, Prepared)
    reference, looked = bench.reference(task), Looked()
    found = lawful(task, lambda cases: bench.bound(task, prepared, cases), reference, bench.checker, 1, looked)
    assert (found.status if found else None) == status
    assert found is not None or {"repeat N", "permute N"} <= looked.laws
    assert found is None or found.cases[0].inputs == ("repeat N",)
