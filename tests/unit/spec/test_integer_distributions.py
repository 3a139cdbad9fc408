"""Values for integers, indices and booleans: in their range, with its ends, and each as its name says."""

import numpy as np
import pytest

from evo.errors import SyntaxInvalid, TaskInvalid
from evo.spec import integer_distributions
from evo.spec.dtypes import NUMPY
from evo.spec.integer_distributions import (
    BOOLEANS,
    INTEGERS,
    IntegerRange,
    derive_integers,
    integer_domain,
    landmarks,
    range_of_dtype,
)
from evo.spec.reference import load_reference
from evo.spec.task import read_task

RANGES = [
    ("int8", range_of_dtype("int8")),
    ("uint8", range_of_dtype("uint8")),
    ("int16", range_of_dtype("int16")),
    ("int32", range_of_dtype("int32")),
    ("int64", range_of_dtype("int64")),
    ("int32", IntegerRange(0, 776)),
    ("int32", IntegerRange(5, 6)),
    ("int32", IntegerRange(-9, -9)),
]


def derived(name: str, dtype: str, within: IntegerRange, domain: str = "any", shape: tuple[int, ...] = (12, 40)):
    drawn = np.full(shape, within.low, NUMPY[dtype])
    return derive_integers(name, drawn, within, domain, np.random.default_rng(3))


@pytest.mark.parametrize("name", [*INTEGERS, "mixed"])
@pytest.mark.parametrize(("dtype", "within"), RANGES)
def test_values_stay_in_their_range_and_both_ends_are_among_them(name, dtype, within):
    values, part = derived(name, dtype, within), within.half(name)
    assert values.dtype == NUMPY[dtype]
    assert int(values.min()) == part.low
    assert int(values.max()) == part.high


def test_some_values_are_all_below_zero_and_some_are_all_above():
    """A maximum that begins at zero is right wherever the largest value is among them."""
    assert (
        derived("repeated", "int32", range_of_dtype("int32")).max()
        < 0
        < derived("sorted", "int8", range_of_dtype("int8")).min() + 1
    )
    assert derived("repeated", "uint8", range_of_dtype("uint8")).max() < 128
    assert set(derived("repeated", "int32", IntegerRange(0, 1)).reshape(-1)) == {0, 1}


def test_each_distribution_is_what_its_name_says():
    within = range_of_dtype("int32")
    assert (np.diff(derived("sorted", "int32", within).reshape(-1)) >= 0).all()
    assert len(np.unique(derived("equal", "int32", within))) == 1
    saturated = derived("saturated", "int32", within, shape=(32, 40))
    assert len(np.unique(saturated, axis=0)) == 2  # rows of one end, few of the other
    assert [len(np.unique(saturated[:30])), len(np.unique(saturated[30:]))] == [1, 1]
    assert len(np.unique(derived("repeated", "int32", within))) <= 8
    permuted = derived("permuted", "int32", IntegerRange(0, 479)).reshape(-1)
    assert sorted(permuted)[1:-1] != list(permuted)[1:-1]
    sizes = np.abs(derived("whole", "int32", within).astype(float))
    assert [bool(((sizes >= low) & (sizes < 256 * low)).any()) for low in (1, 2**8, 2**16, 2**23)] == [True] * 4


def test_landmarks_are_the_values_beside_which_narrower_types_go_wrong():
    assert {-128, -1, 0, 1, 7, 8, 9, 63, 64, 65, 127} <= set(landmarks(range_of_dtype("int8")).tolist())
    assert {255, 256, 32767, 32768, 2**24 + 1} <= set(landmarks(IntegerRange(0, 2**31 - 1)).tolist())


def test_a_domain_keeps_its_promise_under_every_distribution():
    for name in INTEGERS:
        rising = derived(name, "int32", IntegerRange(0, 99), "sorted").reshape(-1)
        assert (np.diff(rising) >= 0).all()
        distinct = derived(name, "int32", IntegerRange(0, 999), "distinct")
        assert len(np.unique(distinct)) == distinct.size


def test_booleans_are_all_none_alternating_and_one():
    drawn = np.zeros(33, np.bool_)
    counts = {
        name: int(derive_integers(name, drawn, IntegerRange(0, 1), "any", np.random.default_rng(1)).sum())
        for name in BOOLEANS
    }
    assert counts["all"], counts["none"] == (33, 0)
    assert counts["alternating"] in (16, 17)
    assert counts["one"] == 1


@pytest.mark.parametrize(
    ("values", "domain"),
    [
        (np.random.default_rng(1).integers(0, 8, 100), "any"),
        (np.random.default_rng(1).random((9, 9)) < 0.5, "any"),
        (np.sort(np.random.default_rng(1).integers(0, 8, 100)), "fixed"),  # offsets
        (np.random.default_rng(1).permutation(100), "fixed"),
        (np.random.default_rng(1).permutation(390)[:100], "fixed"),
        (np.random.default_rng(1).permutation(4000)[:100], "any"),  # all different by chance, as far apart as they are
        (np.repeat(np.random.default_rng(1).permutation(60), 2), "any"),
        (np.tri(16, dtype=np.bool_), "fixed"),  # a causal mask
        (np.zeros(40, np.int32), "fixed"),
        (np.array([3, 1, 2]), "fixed"),
    ],
)
def test_an_undeclared_integer_is_fixed_if_its_order_may_mean_something(values, domain):
    assert integer_domain(values) == domain


def write(folder, tensor: str, draw: str = "rng.integers(0, 8, case['N'])", formula: str = "x", dtype: str = "int32"):
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(
        f"name: {folder.name}\naxes: {{N: int}}\n"
        f"tensors:\n  - {{name: x, role: in, {tensor}, shape: [N]}}\n"
        f"  - {{name: y, role: out, dtype: {dtype}, shape: [N]}}\n"
        "tolerance: {rtol: 0, atol: 0, rival_error_factor: 2, because: a test}\n"
        "check: [{N: 300}, {N: 77}]\nbench: {b: {N: 512}}\n"
    )
    (folder / "reference.py").write_text(
        f"import numpy as np\n\n\ndef inputs(case, rng):\n    return {{'x': {draw}}}\n\n\n"
        f"def expected(inputs, case):\n    x = inputs['x'].astype(np.int64)\n    return {{'y': {formula}}}\n"
    )
    task = read_task(folder)
    return task, load_reference(task)


@pytest.mark.parametrize(
    ("tensor", "low", "high"),
    [
        ("dtype: int8", 0, 7),  # as drawn
        ("dtype: int8, domain: any, low: -128", -128, 127),
        ("dtype: int32, index: N", 0, 299),
        ("dtype: int32, low: 0 - N, high: 2 * N", -300, 600),
    ],
)
def test_a_declared_range_is_what_the_gate_puts_in(tmp_path, tensor, low, high):
    task, reference = write(tmp_path / "t", tensor)
    found = reference.derived(task.check[0], 3, "extreme")
    assert (int(found.inputs["x"].min()), int(found.inputs["x"].max())) == (low, high)


def test_where_results_would_not_fit_their_type_the_range_is_as_large_as_they_allow(tmp_path):
    task, reference = write(tmp_path / "t", "dtype: int32, low: -2147483648", formula="x * 200")
    found = reference.derived(task.check[0], 3, "extreme")
    assert np.abs(found.expected["y"]).max() <= 2**31
    assert found.inputs["x"].max() >= 2**23 - 1


@pytest.mark.parametrize(
    "tensor",
    [
        "dtype: int32, low: 9, high: 1",
        "dtype: int8, high: 128",
        "dtype: float32, low: 0",
        "dtype: int32, low: 0, index: N",
        "dtype: int32, domain: positive",
        "dtype: int32, index: M",
    ],
)
def test_a_range_that_makes_no_sense_is_refused(tmp_path, tensor):
    with pytest.raises(SyntaxInvalid) as refused:
        write(tmp_path / "t", tensor)
    assert "tensors.0" in refused.value.message


def test_a_reference_that_draws_outside_its_own_range_is_refused(tmp_path):
    task, reference = write(tmp_path / "t", "dtype: int32, low: 0, high: 6")
    with pytest.raises(TaskInvalid, match="outside 0 to 6"):
        reference.inputs(task.check[0], 1)


def test_of_very_many_short_rows_some_have_one_distribution_together(monkeypatch):
    """Pixels of an image: a distribution for each of a million rows took half a minute."""
    parts = []
    values = integer_distributions._values
    monkeypatch.setattr(
        integer_distributions, "_values", lambda name, shape, *given: parts.append(shape) or values(name, shape, *given)
    )
    found = derived("mixed", "uint8", range_of_dtype("uint8"), shape=(30_000, 3))
    assert found.shape == (30_000, 3)
    assert len([shape for shape in parts if len(shape) == 1]) == 3750  # of eight rows each
