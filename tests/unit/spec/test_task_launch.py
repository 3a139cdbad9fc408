"""task.yaml and launch plans: what they mean, and that what is wrong is named with file, line and field."""

import os
from pathlib import Path

import pytest
from refusals import refused

from evo.errors import SyntaxInvalid, TaskInvalid, UsageError
from evo.spec.chips import CHIPS
from evo.spec.launch import Launch, Plan, Refusal, over_resources, plan
from evo.spec.task import find_root, load_task, read_task
from evo.spec.variant import parse_variant

YAML = """\
name: addone
axes: {N: int, FLIP: bool}
tensors:
  - {name: x, role: in, dtype: float16, shape: [N, 2]}
  - {name: y, role: out, dtype: float16, shape: [N, 2]}
scalars: [{name: scale, dtype: float32, value: 1 / sqrt(N)}]
tolerance: {rtol: 1e-2, atol: 1e-3, rival_error_factor: 2, because: half precision}
check:
  - {N: 7}
  - {N: 64, FLIP: true}
bench:
  big: {N: 4096}
work: {flop: 2 * N, bytes: 8 * N if FLIP else 4 * N}
flags: [--use_fast_math]
"""


def folder(tmp_path: Path, text: str = YAML) -> Path:
    root = tmp_path / "kernels" / "addone"
    (root / "ladder").mkdir(parents=True)
    (root / "reference.py").write_text("")
    (root / "task.yaml").write_text(text)
    return root


def test_a_task_is_read_whole(tmp_path):
    task = read_task(folder(tmp_path))
    assert [case.name for case in task.check] == ["n7", "n64_flip1"]
    assert task.case("big").axes == {"N": 4096, "FLIP": 0}
    assert task.tolerance.rtol == 0.01
    assert task.scalar_values(task.case("n64_flip1")) == {"scale": 0.125}
    assert task.work_of(task.case("n64_flip1")) == {"flop": 128, "bytes": 512}
    assert task.tensors[0].dims(task.check[0]) == (7, 2)
    assert (task.headline, task.score) == ("big", {"big": 1.0})


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("axes: {N: int, FLIP: bool}", "axes: {N: int, FLIP: maybe}", 2, "axes.FLIP"),
        ("role: out", "role: output", 5, "tensors.1.role"),
        ("role: out", "role: inout, init: zero", 5, "tensors.1.init"),
        ("rtol: 1e-2", "integers: 0.5, rtol: 1e-2", 7, "tolerance.integers"),
        ("dtype: float16, shape: [N, 2]}\n  - {name: y", "dtype: half, shape: [N, 2]}\n  - {name: y", 4, "dtype"),
        ("shape: [N, 2]}\nscalars", "shape: [M, 2]}\nscalars", 5, "tensors.1.shape.0"),
        ("1 / sqrt(N)", "1 / root(N)", 6, "root"),
        ("rtol: 1e-2", "rtol: 1200", 7, "tolerance.rtol"),
        ("atol: 1e-3", "atol: .inf", 7, "tolerance.atol"),
        ("rtol: 1e-2", "rtol: small", 7, "tolerance.rtol"),
        (", because: half precision", "", 7, "tolerance.because"),
        ("{N: 7}", "{N: 0}", 9, "check.0.N"),
        ("{N: 7}", "{FLIP: true}", 9, "check.0"),
        ("big: {N: 4096}", "big: {N: 4096, M: 3}", 12, "bench.big.M"),
        ("flags:", "flogs:", 14, "flogs"),
        ("flags:", "nondeterministic: luck\nflags:", 14, "nondeterministic"),
        ("shape: [N, 2]}\n  - {name: y", "shape: [N, 2], domain: odd}\n  - {name: y", 4, "tensors.0.domain"),
        ("shape: [N, 2]}\nscalars", "shape: [N, 2], domain: real}\nscalars", 5, "tensors.1.domain"),
        ("shape: [N, 2]}\n  - {name: y", "shape: [N, 2], specials: some}\n  - {name: y", 4, "tensors.0.specials"),
        ("work: {flop", "headline: small\nwork: {flop", 13, "headline"),
        ("bench:\n  big: {N: 4096}\n", "", 1, "bench"),
        ("axes: {N: int", "axes: {N: int,,", 2, ""),
        ("name: addone", "name: other", 1, "name"),
        ("flags:", "specials: {x: {nan: undefined}}\nflags:", 4, "tensors.0.dtype"),  # not of a field that needs it
        ("scalars:", "\tscalars:", 6, ""),
        ("flags:", "1: 2\nflags:", 14, "`1`"),  # what YAML reads as something else than text, where it stands
        ("flags:", "~: 2\nflags:", 14, "`None`"),
    ],
)
def test_a_bad_field_is_named_with_file_line_and_field(tmp_path, old, new, line, field):
    text = YAML.replace("dtype: float16", "dtype: float61", 1) if field == "tensors.0.dtype" else YAML
    root = folder(tmp_path, text.replace(old, new, 1))
    with pytest.raises(SyntaxInvalid) as caught:
        read_task(root)
    assert caught.value.message.startswith(f"{root / 'task.yaml'}:{line}: ")
    assert field in caught.value.message
    assert caught.value.exit_code == 3
    assert caught.value.hint


@pytest.mark.parametrize(("old", "new", "meant"), [("tensors:", "tensor:", "tensors"), ("role: in", "rol: in", "role")])
def test_a_word_that_is_nearly_a_field_is_asked_about(tmp_path, old, new, meant):
    with pytest.raises(SyntaxInvalid) as caught:
        read_task(folder(tmp_path, YAML.replace(old, new, 1)))
    assert f"did you mean {meant}?" in caught.value.hint


def test_atol_is_of_the_size_of_the_outputs(tmp_path):
    task = read_task(folder(tmp_path, YAML.replace("atol: 1e-3", "atol: 5.2e+6")))
    assert task.tolerance.atol == 5.2e6


def test_missing_parts_and_unknown_names(tmp_path):
    root = folder(tmp_path)
    with refused(UsageError, "unknown-name"):
        load_task(tmp_path, "addtwo")
    with refused(UsageError, "unknown-name") as caught:
        read_task(root).case("huge")
    assert "big" in caught.value.hint
    assert find_root(root) == tmp_path
    (root / "reference.py").unlink()
    with pytest.raises(TaskInvalid, match=r"reference\.py"):
        read_task(root)
    os.mkfifo(root / "reference.py")  # to read it would be to wait for ever
    with pytest.raises(TaskInvalid, match=r"reference\.py"):
        read_task(root)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to itself"])
def test_a_task_yaml_that_is_no_file_is_no_unknown_task(tmp_path, kind):
    path = folder(tmp_path) / "task.yaml"
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    with refused(SyntaxInvalid, "no-file") as caught:
        load_task(tmp_path, "addone")
    assert str(path) in caught.value.message


PLAN = """\
// evo: knob BLOCK in 64, 128, 2048
// evo: require BLOCK % 64 == 0
// evo: launch addone grid (ceil_div(N, BLOCK)) block (BLOCK) shared (BLOCK * 64)
#define BLOCK 128
"""


def test_a_plan_is_evaluated_at_a_case(tmp_path):
    task = read_task(folder(tmp_path))
    planned = plan(parse_variant(PLAN), task, task.case("big"), CHIPS["l4"])
    assert isinstance(planned, Plan)
    assert planned.launches == (Launch(kernel="addone", grid=(32, 1, 1), block=(128, 1, 1), shared_bytes=8192),)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("#define BLOCK 128", "#define BLOCK 2048", "block.x = 2048"),
        ("% 64 == 0", "% 64 == 1", "require"),
        ("shared (BLOCK * 64)", "shared (BLOCK * 1024)", "dynamic shared memory"),
        ("ceil_div(N, BLOCK)", "N - 4096", "grid.x = 0"),
        ("ceil_div(N, BLOCK)", "M", "unknown name 'M'"),
        ("// evo: require BLOCK % 64 == 0", "// evo: flags --ptxas", "--ptxas"),
        ("// evo: require BLOCK % 64 == 0", "// evo: macro M", "macro M"),
    ],
)
def test_a_plan_beyond_the_chip_is_a_refusal_in_words(tmp_path, old, new, words):
    task = read_task(folder(tmp_path))
    planned = plan(parse_variant(PLAN.replace(old, new)), task, task.case("big"), CHIPS["l4"])
    assert isinstance(planned, Refusal)
    assert words in planned.reason


def test_registers_and_shared_memory_bound_occupancy():
    l4 = CHIPS["l4"]
    scalar = Launch(kernel="k", grid=(1, 1, 1), block=(512, 1, 1), shared_bytes=0)
    assert "167 registers" in (over_resources(scalar, l4, registers=167, static_shared=0) or "")
    assert over_resources(scalar, l4, registers=128, static_shared=0) is None
    assert min(l4.resident_limits(128, 128, 40_960).values()) == 2
    assert min(l4.resident_limits(512, 32, 0).values()) == 3


def test_a_tensor_changed_in_place_is_input_and_output_and_an_output_may_start_at_zero(tmp_path):
    given = "  - {name: x, role: inout, dtype: uint32, shape: [N, 2]}\n"
    text = YAML.replace("  - {name: x, role: in, dtype: float16, shape: [N, 2]}\n", given)
    task = read_task(
        folder(
            tmp_path, text.replace("dtype: float16, shape: [N, 2]}\nsc", "dtype: int64, shape: [N], init: zero}\nsc")
        )
    )
    assert [tensor.name for tensor in task.inputs] == ["x"]
    assert [(tensor.name, tensor.init) for tensor in task.outputs] == [("x", "poison"), ("y", "zero")]
    assert task.tensors[0].size_bytes(task.check[0]) == 7 * 2 * 4
