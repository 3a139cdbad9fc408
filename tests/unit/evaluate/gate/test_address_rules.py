"""Decisions by where buffers lie are refused, also where a thread works out the address; alignment may be asked for."""

from __future__ import annotations

import pytest

from evo.cuda.compile import Binary, compile_source
from evo.evaluate.gate.address_rules import address_problem
from evo.results import StaticRule

BODY = """
extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {{
    const float* in = x + (long long)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {{
        sum += in[i];
        {line}
    }}
    y[blockIdx.x] = sum;
}}
"""
BITS = "(unsigned long long)"


def ptx_of(line: str) -> str:
    built = compile_source(BODY.format(line=line), name="address.cu", macros={})
    assert isinstance(built, Binary), built
    return built.ptx


@pytest.mark.parametrize(
    "line",
    [
        f"if ({BITS}x > 0x7f0000000000ull) sum *= 2;",
        f"if ((unsigned){BITS}in > 0x80000000u) sum *= 2;",
        f"if (({BITS}(in + i) >> 40 & 1) == 0) sum *= 2;",
        f"if (({BITS}(y + blockIdx.x) >> 32) % 3 == 1) sum *= 2;",
        f"if ({BITS}(in + (int)in[i]) < 0x7f0000000000ull) sum *= 2;",
    ],
)
def test_a_decision_by_an_address_is_refused(line: str) -> None:
    problem = address_problem(ptx_of(line))
    assert problem is not None
    assert problem.rule is StaticRule.ADDRESS


@pytest.mark.parametrize(
    "line",
    [
        "",
        f"if ({BITS}in % 16 == 0) sum *= 2;",
        "if (in + i < x + cols) sum *= 2;",
        f"if ({BITS}y - {BITS}y == rows) sum *= 2;",
        "if (in + i == x + rows) sum *= 2;",
    ],
)
def test_alignment_and_differences_are_no_such_decision(line: str) -> None:
    assert address_problem(ptx_of(line)) is None
