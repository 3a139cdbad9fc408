"""A task is refused where its own gate would let a lazy kernel pass, and not where it would not."""

from pathlib import Path

import pytest
from task_folders import task_folder

from evo.errors import TaskInvalid
from evo.evaluate import gate
from evo.spec.task import load_task, task_names

ROOT = Path(__file__).parents[4]
FP32 = {"dtype": "float32", "tolerance": "rtol: 1e-4, atol: 1e-4, rival_error_factor: 2"}
NARROW = {"tolerance": "rtol: 1e-2, atol: 1e-5, rival_error_factor: 2"}


@pytest.fixture(autouse=True)
def _no_memory_of_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", task_names(ROOT))
def test_every_shipped_task_passes(name):
    from evo.spec.reference import load_reference

    task = load_task(ROOT, name)
    gate.check_task(task, load_reference(task))


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))", {}),
        ("np.maximum(x, 0)", {}),
        ("x", {"tolerance": "rtol: 0, atol: 0, rival_error_factor: 2"}),
        ("(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)", {}),
        ("(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)", FP32),
        ("np.exp(x) / np.exp(x).sum(1, keepdims=True)", NARROW),
        ("np.cumsum(x, axis=1)", FP32),
        ("np.log(x)", {**FP32, "draw": "rng.random((case['N'], case['M'])) + 0.1"}),
        ("x / (1 + np.exp(-x))", {"dtype": "bfloat16", "tolerance": "rtol: 1.6e-2, atol: 1e-3, rival_error_factor: 2"}),
        ("np.tanh(x)", {"dtype": "float8_e4m3", "tolerance": "rtol: 0.07, atol: 0.01, rival_error_factor: 2"}),
        ("np.where(x > 1, -np.inf, x)", {}),
        ("x * x", {"dtype": "float64", "tolerance": "rtol: 1e-12, atol: 1e-14, rival_error_factor: 2"}),
        ("np.sort(inputs['x'], axis=1)", {"dtype": "int32", "draw": "rng.integers(-99, 99, (case['N'], case['M']))"}),
    ],
)
def test_an_honest_task_passes(tmp_path, formula, options):
    gate.check_task(*task_folder(tmp_path / "honest", formula, **options))


def loose(rtol: float, atol: float, factor: float = 2) -> str:
    return f"rtol: {rtol}, atol: {atol}, rival_error_factor: {factor}"


TRUSTED = "def trusted(inputs, case):\n    return {{'y': inputs['x'] * np.float16({})}}"
SMALL = "1e-3 * rng.standard_normal((case['N'], case['M']))"
NO_SEED = "np.random.default_rng(0).standard_normal((case['N'], case['M']))"
OWN_DRAW = "np.random.standard_normal((case['N'], case['M']))"
SOFTMAX = "np.exp(x) / np.exp(x).sum(1, keepdims=True)"
BY_PLACE = "np.tile(np.arange(case['M']) * 0.01, (case['N'], 1)) + 1e-5 * x"
LAST_COLUMN = "np.concatenate([x[:, :-1], 1.0001 * x[:, -2:-1]], axis=1)"
LAST_TILE = "np.concatenate([x[:-16], 1.0001 * x[-32:-16]])"


@pytest.mark.parametrize(
    ("formula", "options", "words"),
    [
        ("2 * x", {"draw": SMALL, "tolerance": loose(1e-2, 1e-2)}, "writes zeros"),
        ("2 * x", {"tolerance": loose(0.1, 20)}, "writes zeros"),
        (SOFTMAX, {"check": "[{N: 2, M: 4096}]", "tolerance": loose(1e-2, 1e-2)}, "writes zeros"),
        ("0 * x", {}, "writes zeros"),
        ("100 + 0.001 * x", {}, "one constant, the mean"),
        (BY_PLACE, {}, "results of other inputs"),
        ("1.004 * x", {"tolerance": loose(0.1, 0.1)}, "copies x"),
        ("np.nan * x", {}, "NaN everywhere"),
        ("2 * x", {"draw": NO_SEED}, "the same tensors for every seed"),
        ("x + 0.01 * np.random.standard_normal(x.shape)", {}, "expected() gives another y when it is called again"),
        ("2 * x", {"draw": OWN_DRAW}, "inputs() gives another x when it is called again with the same generator"),
        (LAST_COLUMN, {"dtype": "float32", "tolerance": loose(1e-3, 1e-3)}, "drops the last column"),
        (LAST_TILE, {"dtype": "float32", "tolerance": loose(1e-3, 1e-3), "check": "[{N: 64, M: 96}]"}, "last 16 rows"),
        ("x * 1.2345", {"tolerance": loose(0.1, 0.1, 600), "python": TRUSTED.format(1.2345)}, "lower precision"),
        ("x * 1.2345", {"python": TRUSTED.format(3)}, "no budget"),
    ],
)
def test_a_task_with_a_hole_is_refused_by_file_with_the_kernel_that_would_pass(tmp_path, formula, options, words):
    with pytest.raises(TaskInvalid) as refused:
        gate.check_task(*task_folder(tmp_path / "hole", formula, **options))
    assert words in refused.value.message
    assert refused.value.message.startswith(str(tmp_path / "hole"))
    assert refused.value.hint
    assert refused.value.exit_code == 3


def test_a_verdict_is_remembered_by_content(tmp_path):
    task, reference = task_folder(tmp_path / "honest", "2 * x + 1")
    gate.check_task(task, reference)
    assert len(list((tmp_path / "cache" / "tasks").iterdir())) == 1
    reference.process.functions.clear()  # would be an error if it were asked again
    gate.check_task(task, type(reference)(task, reference.process))
    (task.folder / "task.yaml").write_text((task.folder / "task.yaml").read_text().replace("1e-3", "20"))
    from evo.spec.reference import load_reference
    from evo.spec.task import read_task

    changed = read_task(task.folder)
    with pytest.raises(TaskInvalid) as caught:
        gate.check_task(changed, load_reference(changed))
    assert caught.value.problem == "accepts-too-much"
