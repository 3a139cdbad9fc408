"""What zeros, infinities, NaN and denormals in inputs mean: stated in task.yaml, or as the reference gives them."""

from __future__ import annotations

import numpy as np
import pytest
from task_folders import task_folder

from evo.errors import SyntaxInvalid
from evo.spec.declared_values import Specials
from evo.spec.input_distributions import SPECIAL
from evo.spec.task import read_task

TRUSTED = "def trusted(inputs, case):\n    x = inputs['x'].astype(np.float32)\n    return {{'y': {}}}\n"


def special(task, reference, seed=3):
    return reference.derived(task.check[0], seed, SPECIAL)


def test_each_kind_has_its_own_meaning(tmp_path):
    more = "specials: {x: {nan: undefined, denormals: flush}}"
    task, reference = task_folder(tmp_path / "t", "2 * x + 1", more=more)
    assert task.inputs[0].specials == Specials(nan="undefined", denormals="flush")
    values = special(task, reference).inputs["x"].astype(float)
    assert np.isinf(values).sum() == 2
    assert not np.isnan(values).any()
    assert np.signbit(values[values == 0]).sum() == 2


def test_what_is_undefined_is_never_put_in(tmp_path):
    task, reference = task_folder(tmp_path / "t", "2 * x + 1", more="specials: {x: undefined}")
    assert special(task, reference) is None
    least = float(np.finfo(np.float16).smallest_normal)
    drawn = reference.inputs(task.check[0], 3)["x"]
    for name in ("outliers", "tiny"):
        values = reference.derived(task.check[0], 3, name).inputs["x"]
        assert (np.abs(values[values != drawn].astype(float)) >= least).all()


def test_denormals_of_wide_types_may_be_flushed_if_nothing_is_stated(tmp_path):
    tolerance = "rtol: 1e-5, atol: 1e-6, rival_error_factor: 2"
    more = "specials: {x: reference}"
    task, _ = task_folder(tmp_path / "t", "2 * x + 1", dtype="float32", tolerance=tolerance, more=more)
    assert task.inputs[0].specials == Specials(denormals="flush")


@pytest.mark.parametrize(
    ("trusted", "asked"),
    [("2 * x + 1", True), ("np.fmax(2 * x, -9) + 1", False), (None, False)],  # fmax drops a NaN
)
def test_a_task_that_states_nothing_is_held_to_its_reference_where_a_trusted_implementation_agrees(
    tmp_path, trusted, asked
):
    python = "" if trusted is None else TRUSTED.format(trusted)
    task, reference = task_folder(tmp_path / "t", "2 * x + 1", python=python)
    assert task.inputs[0].specials is None
    assert (special(task, reference) is not None) == asked


@pytest.mark.parametrize(
    ("more", "line", "field"),
    [
        ("specials: {z: reference}", 9, "specials.z"),
        ("specials:\n  x: maybe", 10, "specials.x"),
        ("specials:\n  x: {subnormals: reference}", 10, "specials.x.subnormals"),
        ("specials:\n  x: {nan: flush}", 10, "specials.x.nan"),
        ("specials: reference", 9, "specials"),
    ],
)
def test_what_is_no_meaning_is_refused_with_file_line_and_field(tmp_path, more, line, field):
    with pytest.raises(SyntaxInvalid) as refused:
        task_folder(tmp_path / "t", "2 * x + 1", more=more)
    assert f"task.yaml:{line}: " in refused.value.message
    assert f"field `{field}`" in str(refused.value)


def test_one_tensor_has_one_meaning(tmp_path):
    with pytest.raises(SyntaxInvalid) as refused:
        task_folder(tmp_path / "t", "2 * x + 1", tensor=", specials: true", more="specials: {x: undefined}")
    assert "stated twice" in str(refused.value)


def test_stating_it_leaves_the_hash_as_it_was(tmp_path):
    task, _ = task_folder(tmp_path / "t", "2 * x + 1")
    text = (task.folder / "task.yaml").read_text()
    (task.folder / "task.yaml").write_text(text + "specials:\n  x: {nan: undefined}\n")
    assert read_task(task.folder).hash == task.hash
