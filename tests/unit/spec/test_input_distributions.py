"""Inputs of other distributions: which tensors they may change, and when a task has no use for them."""

import numpy as np
import pytest
from task_folders import task_folder

from evo.spec import input_distributions as distributions
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF
from evo.spec.input_distributions import FLOATS, SPECIAL
from evo.spec.reference import load_reference
from evo.spec.task import read_task

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("values", "domain"),
    [
        (RNG.standard_normal((32, 8)), "real"),
        (RNG.random((32, 8)) + 1, "positive"),
        (RNG.random((32, 8)), "unit"),
        (RNG.integers(0, 2, (32, 8)), "fixed"),  # a mask
        (RNG.integers(0, 99, (32, 8)), "fixed"),  # counts or indices kept as floats
        (np.sort(RNG.standard_normal((32, 8)), axis=1), "fixed"),
        (RNG.dirichlet(np.ones(8), 32), "fixed"),  # rows that sum to one
        (np.where(RNG.random((32, 8)) < 0.5, 0.0, -np.inf), "fixed"),
    ],
)
def test_what_a_drawn_tensor_may_become_is_judged_from_its_values(values, domain):
    assert distributions.domain_of("float32", values.astype(np.float32)) == domain


def test_integers_that_are_sorted_are_left_alone():
    assert distributions.domain_of("int32", np.arange(64)) == "fixed"


@pytest.mark.parametrize("dtype", list(ROUNDOFF))
@pytest.mark.parametrize("domain", ["real", "positive", "unit"])
@pytest.mark.parametrize("name", [name for name in FLOATS if name != SPECIAL])
def test_derived_values_are_finite_and_inside_their_domain(name, domain, dtype):
    drawn = RNG.random((16, 24)).astype(NUMPY[dtype])
    values = distributions.derive(name, dtype, drawn, domain, np.random.default_rng(1), factor=8.0)
    reals = values.astype(np.float64)
    assert values.dtype == NUMPY[dtype]
    assert np.isfinite(reals).all()
    assert reals.any()
    if domain != "real":
        assert (reals >= 0).all()
    if domain == "unit":
        assert (reals <= 1).all()


def test_index_coded_values_are_all_different():
    drawn = RNG.standard_normal((40, 50))
    values = distributions.derive("indexed", "float64", drawn, "real", np.random.default_rng(1))
    assert len(np.unique(values)) == drawn.size


def test_tiny_halves_are_subnormal():
    values = distributions.derive("tiny", "float16", RNG.standard_normal((64, 64)), "real", np.random.default_rng(1))
    assert (np.abs(values.astype(float)) < 2.0**-13).all()


def used(reference, task):
    return {name for name in FLOATS if reference.derived(task.check[0], 3, name) is not None}


def test_a_formula_of_reals_takes_all_but_special_values(tmp_path):
    task, reference = task_folder(tmp_path / "t", "2 * x + 1")
    assert used(reference, task) == set(FLOATS) - {SPECIAL}


def test_declared_tensors_take_nan_and_infinities(tmp_path):
    task, reference = task_folder(tmp_path / "t", "2 * x + 1", tensor=", specials: true")
    found = reference.derived(task.check[0], 3, SPECIAL)
    for values in (found.inputs["x"], found.expected["y"]):
        assert np.isnan(values).sum() == 1
        assert np.isposinf(values).sum() == np.isneginf(values).sum() == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"])
def test_nan_has_either_sign_and_other_bits(dtype):
    drawn = RNG.standard_normal((8, 8)).astype(NUMPY[dtype])
    found = set()
    for seed in range(40):
        values = distributions.with_specials(drawn, dtype, ("nan",), "real", np.random.default_rng(seed))
        is_nan = np.isnan(values.astype(float))
        assert is_nan.sum() == 1
        assert (values[~is_nan] == drawn[~is_nan]).all()
        found.add(int(values.view(f"u{values.dtype.itemsize}")[is_nan][0]))
    sign = 1 << 8 * values.dtype.itemsize - 1
    assert {bool(bits & sign) for bits in found} == {False, True}
    assert len({bits & (sign - 1) for bits in found}) > (dtype != "float8_e4m3")  # whose NaN is one


def test_a_fixed_domain_is_never_changed(tmp_path):
    task, reference = task_folder(tmp_path / "t", "2 * x + 1", tensor=", domain: fixed")
    assert used(reference, task) == set()


def test_where_the_reference_is_not_finite_a_distribution_is_left_out(tmp_path):
    options = {"dtype": "float32", "tolerance": "rtol: 1e-3, atol: 1e-3, rival_error_factor: 2"}
    task, reference = task_folder(tmp_path / "t", "np.exp(x) / np.exp(x).sum(1, keepdims=True)", **options)
    large = reference.derived(task.check[0], 3, "large")
    assert np.abs(large.inputs["x"]).max() < 700  # a thousand times the draw overflows exp, a smaller factor does not


def test_inputs_that_follow_from_one_another_are_left_alone(tmp_path):
    """A saved row sum that the reference computes again, but a kernel reads."""
    task, _ = task_folder(tmp_path / "t", "x / np.abs(x).sum(1, keepdims=True)")
    text = (task.folder / "task.yaml").read_text()
    s = "  - {name: s, role: in, dtype: float16, shape: [N]}\n"
    (task.folder / "task.yaml").write_text(text.replace("  - {name: y", s + "  - {name: y"))
    code = (task.folder / "reference.py").read_text()
    draw = "    x = rng.standard_normal((case['N'], case['M']))\n    return {'x': x, 's': np.abs(x).sum(1)}\n"
    (task.folder / "reference.py").write_text(
        code.replace(code[code.index("    return") : code.index("\n\n\ndef e")], draw)
    )
    from evo.spec.reference import load_reference
    from evo.spec.task import read_task

    changed = read_task(task.folder)
    assert used(load_reference(changed), changed) == set()


def test_the_seed_decides_the_values(tmp_path):
    task, reference = task_folder(tmp_path / "t", "2 * x + 1")
    case = task.check[0]
    first, other = (reference.derived(case, seed, "normal").inputs["x"] for seed in (1, 2))
    again = type(reference)(task, reference.process).derived(case, 1, "normal").inputs["x"]
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_inputs_that_make_an_integer_of_nan_are_not_drawn(tmp_path):
    """A row of zeros divided by its largest: what a cast makes of 0 / 0 is nobody's right answer."""
    task, reference = task_folder(
        tmp_path / "quotients",
        "np.rint(9 * x / np.abs(x).max(axis=1, keepdims=True)).astype(np.int8)",
        check="[{N: 64, M: 12}, {N: 33, M: 9}]",
    )
    text = (task.folder / "task.yaml").read_text()
    lines = [line.replace("float16", "int8") if "name: y" in line else line for line in text.splitlines()]
    more = "\n  - {name: z, role: out, dtype: float16, shape: [N, M]}"
    lines = [line + more if "name: y" in line else line for line in lines]
    (task.folder / "task.yaml").write_text("\n".join(lines))
    module = (task.folder / "reference.py").read_text()
    (task.folder / "reference.py").write_text(module.replace("'y': ", "'z': 2 * x, 'y': "))
    task = read_task(task.folder)
    reference = load_reference(task)
    case = max(task.check, key=lambda case: case.axes["N"])
    for seed in range(4):
        for distribution in ("outliers", "positive"):
            found = reference.derived(case, seed, distribution)
            zeros = found is not None and bool((found.inputs["x"] == 0).all(axis=1).any())
            assert not zeros
    assert reference.derived(case, 0, "positive") is not None


@pytest.mark.parametrize("formula", ["x + w", "1 / (x - w)"])
def test_tensors_of_one_shape_agree_and_cancel_at_some_places(tmp_path, formula):
    """A kernel that skips what adds up to 0 is told; where the reference cannot take it, they are independent."""
    task, _ = task_folder(tmp_path / "t", formula, dtype="float32")
    (task.folder / "task.yaml").write_text(
        (task.folder / "task.yaml")
        .read_text()
        .replace("  - {name: y", "  - {name: w, role: in, dtype: float32, shape: [N, M]}\n  - {name: y")
    )
    code = (task.folder / "reference.py").read_text()
    draw = "rng.standard_normal((case['N'], case['M']))"
    code = code.replace(f"'x': {draw}", f"'x': {draw}, 'w': {draw}")
    code = code.replace("    return {'y'", "    w = inputs['w'].astype(np.float64)\n    return {'y'")
    (task.folder / "reference.py").write_text(code)
    task = read_task(task.folder)
    given = load_reference(task).derived(task.check[0], 3, "normal").inputs
    size = given["x"].size
    agree, cancel = (int((given["x"] == sign * given["w"]).sum()) for sign in (1, -1))
    if formula == "x + w":
        assert size / 8 < agree < size / 2
        assert size / 8 < cancel < size / 2
    else:
        assert agree == cancel == 0
