"""A text that asks which chip it is compiled for is judged as compiled for others too."""

from __future__ import annotations

import pytest
from tiny import FAST

from evo.evaluate.gate.looked import Looked
from evo.evaluate.gate.other_architectures import architectures
from evo.evaluate.gate.run_cases import GateDevices, run_gate
from evo.evaluate.looking_bench import LookSubject, unlike_hunted
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Check, Status
from evo.spec.task import Task

USUAL = ("compute_80", "compute_90", "compute_120")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float x = 1.0f; // __CUDA_ARCH__ == 890", ()),
        ("int search = binary_search(900);", ()),
        ("#if __CUDA_ARCH__ >= 800\n#endif", (*USUAL, "compute_75", "compute_86")),
        ("#if __CUDA_ARCH__ == 1030\n#endif", (*USUAL, "compute_100", "compute_103")),
        ("#define AT(a, b) a##b", USUAL),
        ("NV_IF_TARGET(NV_IS_EXACTLY_SM_86, (x = 1;))", USUAL),
    ],
)
def test_what_a_text_asks_about(text: str, expected: tuple[str, ...]) -> None:
    assert architectures(text, "sm_89") == expected


def compiled_elsewhere(bench: EvaluationSession, task: Task, factor: str, before: str = "") -> Check | None:
    """A kernel that passes the gate as it is compiled here."""
    text = FAST.replace("2.0f", factor).replace('extern "C"', f'{before}\nextern "C"', 1)
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared), prepared
    places = GateDevices(checker=bench.checker, target=None)
    assert run_gate(task, prepared.programs, bench.reference(task), places, 5).status is Status.CORRECT
    return unlike_hunted(LookSubject(bench, task, prepared, 5, [bench.checker], Looked()))


BY_HEADER = """#include <nv/target>
__device__ float factor() {
    float f = 2.0f;
    NV_IF_TARGET(NV_IS_EXACTLY_SM_80, (f = 3.0f;))
    return f;
}"""


@pytest.mark.parametrize(
    ("factor", "before"),
    [
        ("(__CUDA_ARCH__ == 890 ? 2.0f : 3.0f)", ""),
        ("FACTOR", "#if __CUDA_ARCH__ >= 900\n#define FACTOR 3.0f\n#else\n#define FACTOR 2.0f\n#endif"),
        ("factor()", BY_HEADER),
        ("float(JOIN(__CUDA_AR, CH__) / 445)", "#define JOIN(a, b) a##b"),
    ],
)
def test_a_kernel_that_is_right_for_the_judged_chip_alone_is_wrong(
    bench: EvaluationSession, scale: Task, factor: str, before: str
) -> None:
    found = compiled_elsewhere(bench, scale, factor, before)
    assert found is not None
    assert found.status is Status.WRONG


WITH_OTHER_INSTRUCTIONS = """__device__ float factor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;");
#endif
    return 2.0f;
}"""


@pytest.mark.parametrize(
    ("factor", "before"),
    [
        ("(__CUDA_ARCH__ >= 900 ? 1.0f + 1.0f : 2.0f)", ""),
        ("FACTOR", '#if __CUDA_ARCH__ < 800\n#error "too old"\n#endif\n#define FACTOR 2.0f'),
        ("factor()", WITH_OTHER_INSTRUCTIONS),
    ],
)
def test_other_code_that_is_right_or_cannot_be_run_here_is_none(
    bench: EvaluationSession, scale: Task, factor: str, before: str
) -> None:
    assert compiled_elsewhere(bench, scale, factor, before) is None
