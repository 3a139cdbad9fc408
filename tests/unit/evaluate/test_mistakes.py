"""Mistakes of a first hour are refused with what is wrong by name and type, and with what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from task_folders import written_task

from evo.cuda.source import kernel_signatures
from evo.evaluate.bind import signature_problem
from evo.evaluate.gate.source_rules import static_problem
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.results import Stage, StaticRule, Status
from evo.spec.chips import chip
from evo.spec.task import Task
from evo.spec.variant import parse_variant

TASK = """\
name: mix
axes: {N: int}
tensors:
  - {name: x, role: in, dtype: float16, shape: [N]}
  - {name: w, role: in, dtype: float32, shape: [N]}
  - {name: b, role: in, dtype: float32, shape: [N]}
  - {name: at, role: in, dtype: int64, shape: [N], index: N}
  - {name: y, role: out, dtype: float32, shape: [N]}
tolerance: {rtol: 1e-6, atol: 1e-6, rival_error_factor: 2, because: one rounding}
check: [{N: 256}]
bench: {small: {N: 1024}}
"""
HEAD = "// evo: task mix\n// evo: launch mix grid (N) block (32) shared 0\n"
HONEST = "const half* x, const float* w, const float* b, const long long* at, float* y, int n"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("root"), TASK, "")


def kernel(parameters: str = HONEST, body: str = "") -> str:
    return f'{HEAD}extern "C" __global__ void mix({parameters}) {{{body}}}\n'


def problem(task: Task, text: str) -> str | None:
    return signature_problem(parse_variant(text, path="mix.cu"), task, kernel_signatures(text))


def test_parameters_are_held_to_what_their_types_stand_for(task: Task) -> None:
    given = HONEST.replace("int n", "count_t n").replace("float* b", "real* b")
    names = "typedef unsigned int u32;\nusing count_t = u32;\n"
    assert problem(task, f"{names}typedef float real;\n{kernel(given)}") is None
    assert problem(task, f"{names}typedef double real;\n{kernel(given)}") is not None
    assert problem(task, f"typedef float count_t;\n{kernel(given)}") is not None


@pytest.mark.parametrize(
    "parameters",
    [
        HONEST,
        HONEST.replace("half* x", "half2* input"),
        HONEST.replace("const half* x", "const unsigned short* bits"),
        HONEST.replace("const float* w", "const float4* w").replace("float* y", "float4* y"),
        HONEST.replace("const long long* at", "const unsigned char* bytes"),
        HONEST.replace("const float* b", "const void* b"),
        HONEST.replace("const half* x", "const __half* __restrict__ w_").replace("float* y", "float* x"),
        HONEST.replace("const long long* at", "const longlong2* at"),
    ],
)
def test_honest_pointers_are_left_alone(task, parameters):
    assert problem(task, kernel(parameters)) is None


@pytest.mark.parametrize(
    ("old", "new", "number", "names"),
    [
        ("const half* x, const float* w", "const float* w, const half* x", 1, ("`const float*`", "`w`", "x float16")),
        ("const half* x", "const float* x", 1, ("`const float*`", "`x`", "x float16", "`__half*`")),
        ("const half* x", "const nv_bfloat16* x", 1, ("x float16",)),
        ("const float* w, const float* b", "const float* b, const float* w", 2, ("`b`", "w float32", "args (...)")),
        ("const long long* at", "const int* at", 4, ("`const int*`", "at int64")),
        ("const long long* at", "const float* at", 4, ("`const float*`", "at int64")),
        ("float* y", "const float* y", 5, ("`const float*`", "y float32")),
        ("float* y", "double* y", 5, ("`double*`", "y float32", "fifth")),
    ],
)
def test_a_wrong_pointer_is_named_with_its_type_and_its_tensor(task, old, new, number, names):
    said = problem(task, kernel(HONEST.replace(old, new)))
    assert f"parameter {number} " in said
    for name in names:
        assert name in said


def test_numbers_in_another_order_are_told_by_name(task):
    swapped = replace(task, axes={"M": "int", "N": "int"})
    said = problem(swapped, kernel(HONEST.replace("int n", "int N, int M")))
    assert "passes M" in said
    for honest in ("int M, int N", "int rows, int cols"):
        parameters = HONEST.replace("int n", honest)
        assert problem(swapped, kernel(parameters)) is None


@pytest.mark.parametrize(
    ("constant", "words"), [("#define BLK 32\n", "is a knob"), ("", "known are N")], ids=["a define", "nothing"]
)
def test_a_name_without_a_value_in_a_launch_line_is_told_what_to_add(task, constant, words):
    text = kernel().replace("block (32)", "block (BLK)") + constant
    found = prepare(task, text, chip=chip("l4"), arch="sm_89", path="mine.cu")
    assert (found.status, found.stage) == (Status.REFUSED, Stage.LIMITS)
    assert "`// evo: knob BLK in VALUE`" in found.reason
    assert words in found.reason


def test_a_pointer_is_held_to_the_tensor_that_args_names(task):
    named = kernel("float* y, const half* x").replace(" shared 0", " shared 0 args (y, x)")
    assert problem(task, named) is None
    assert "parameter 2" in problem(task, named.replace("args (y, x)", "args (y, w)"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (kernel().replace('extern "C" ', ""), 'lacks `extern "C"`'),
        (kernel().replace('extern "C" ', "template <int B>\n"), "is a template"),
        (kernel().replace("void mix", "void mixed"), "found: mixed"),
        (kernel().replace("__global__", "__device__"), "is no kernel"),
    ],
)
def test_a_kernel_that_cannot_be_launched_is_told_why(task, text, words):
    assert words in problem(task, text)


@pytest.mark.parametrize(
    "host",
    [
        "void run(float* y) { mix<<<8, 32>>>(y); }",
        "int main() {\n    float* y;\n    cudaMalloc(&y, 64);\n}",
        'int main() { printf("done"); }',
    ],
)
def test_host_code_is_told_where_to_go(host):
    found = static_problem(kernel() + host)
    assert found.rule in (StaticRule.LAUNCH, StaticRule.ALLOCATION, StaticRule.PRINT)
    assert found.line >= 4
    assert "`evo adopt FILE.cu`" in found.what


def test_a_kernel_that_prints_is_not_taken_for_host_code():
    assert "adopt" not in static_problem(kernel(body='printf("%d", n);')).what


def failed(task: Task, text: str, path: str) -> PrepareFailure:
    found = prepare(task, text, chip=chip("l4"), arch="sm_89", path=path)
    assert isinstance(found, PrepareFailure)
    assert found.status is Status.UNCOMPILED
    return found


def test_a_compiler_message_has_the_files_name_the_line_and_a_caret(task, tmp_path: Path):
    text = "#include <cuda_fp16.h>\n" + kernel(body="\n    y[0] = nothere;\n")
    found = failed(task, text, str(tmp_path / "mine.cu"))
    assert found.reason.startswith(f"{tmp_path / 'mine.cu'}:5: error")
    assert found.report.warnings[0] == found.reason
    line, caret = found.report.warnings[1:]
    assert line.strip() == "y[0] = nothere;"
    assert line[caret.index("^") :].startswith("nothere")


def test_a_text_without_a_file_keeps_the_name_of_its_task(task):
    text = "#include <cuda_fp16.h>\n" + kernel(body="y[0] = nothere;")
    assert failed(task, text, "<variant>").reason.startswith("mix.cu:4: error")


def test_a_macro_that_a_command_line_should_define_is_told_so(task):
    text = "#include <cuda_fp16.h>\n" + kernel(body="y[0] = TILE;")
    assert "`#define TILE VALUE`" in failed(task, text, "mine.cu").reason
