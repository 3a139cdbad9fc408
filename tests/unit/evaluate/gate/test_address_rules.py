"""Decisions by where buffers lie are refused, also where a thread works out the address; alignment may be asked for."""

from __future__ import annotations

import pytest

from evo.cuda.compile import Binary, compile_source
from evo.evaluate.gate.ptx_rules import address_problem
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
BUFFERS = {"k": frozenset((0, 1))}


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
        "if (x + (1 << 28) == y) sum *= 2;",
        "const float* p = i % 2 ? x : y; if (p < x + (1 << 28)) sum *= 2;",
    ],
)
def test_a_decision_by_an_address_is_refused(line: str) -> None:
    problem = address_problem(ptx_of(line), BUFFERS)
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
    assert address_problem(ptx_of(line), BUFFERS) is None


BITS_THAT_COUNT = [
    f"sum += ({BITS}x ^ {BITS}y) >> 30 & 1;",
    f"sum += (float)({BITS}y >> 12);",
    f"sum += in[({BITS}x - {BITS}y) >> 33 & 1];",
    f"if ((({BITS}x ^ {BITS}y) >> 8 & 4095) == 77) sum *= 2;",
    f"if ((unsigned){BITS}x == 0) sum *= 2;",
    f"for (long long at = 0; at < (long long)({BITS}in >> 45); ++at) sum *= 2;",
    f"sum += __popcll({BITS}x) & 1;",
    f"sum += __shfl_sync(0xffffffffu, (int)({BITS}in >> 20), 3);",
    "if (x < y) sum *= 2;",
    "sum += __float_as_int(sum) % 7 == (int)(y - x) % 7;",
    f"y[rows + ({BITS}x * 3 >> 36 & 1)] = 0;",
    f"sum += __uint_as_float((unsigned){BITS}(in + i));",
    f"if (({BITS}(x + (int)in[i]) >> 8 & 255) == 3) sum *= 2;",
    f"if ((({BITS}(y + (int)in[i]) | {BITS}x) & 4095) == 0) sum *= 2;",
]


@pytest.mark.parametrize("line", BITS_THAT_COUNT)
def test_a_number_made_of_an_address_is_refused(line: str) -> None:
    problem = address_problem(ptx_of(line), BUFFERS)
    assert problem is not None
    assert problem.rule is StaticRule.ADDRESS


def test_a_buffer_that_nothing_is_read_from_has_an_address_too() -> None:
    assert address_problem(ptx_of(f"sum += {BITS}rows >> 7 & 1;"), BUFFERS) is None
    body = BODY.replace("int rows", "const float* rows").format(line=f"sum += {BITS}rows >> 40 & 1;")
    built = compile_source(body, name="address.cu", macros={})
    assert isinstance(built, Binary), built
    assert address_problem(built.ptx, {"k": frozenset((0, 1, 2))}) is not None


@pytest.mark.parametrize(
    "line",
    [
        f"if ((({BITS}x | {BITS}y) & 15) == 0) sum *= 2;",
        f"if (((int)({BITS}(y + (int)in[i]) | {BITS}(x + i)) & 15) == 0) sum *= 2;",
        f"sum += in[(16 - ({BITS}in & 15)) / 4 & 3];",
        f"const float* p = in; while (p < x + rows) {{ sum += *p; p += i; if ({BITS}p % 16 == 4) sum *= 2; }}",
        "const float* p = i % 2 ? x : y; sum += p[i];",
        "const float* some[2] = {x, y}; sum += some[rows & 1][i];",
        "sum += x[(y - x) + i];",
        "sum += (in + i - x) % 3;",
        "if (x == y) sum *= 2;",
        "if (x != nullptr) sum *= 2;",
        "__shared__ float part[64]; part[i & 63] = sum; "
        "sum += (unsigned)__cvta_generic_to_shared(part + (i & 63)) >> 3 & 1;",
        "sum += *(const float*)__shfl_sync(0xffffffffu, (unsigned long long)(in + i), 3);",
        "atomicAdd(y + i, sum);",
    ],
)
def test_what_honest_kernels_do_with_addresses_is_allowed(line: str) -> None:
    assert address_problem(ptx_of(line), BUFFERS) is None


SHARED = "__shared__ __align__(16) float part[64]; part[i & 63] = sum; __syncthreads(); "
LOCAL = "float own[4]; for (int e = 0; e < 4; ++e) own[e] = in[e]; own[rows & 3] = sum; "
WHERE = "(unsigned)__cvta_generic_to_shared(part + (i & 63))"


@pytest.mark.parametrize(
    "line",
    [
        f"{SHARED}if (({BITS}part >> 32) == 0x7000) sum *= 2;",
        f"{SHARED}if ({WHERE} >= 1024) sum *= 2;",
        f"{SHARED}sum += {WHERE} >> 10 & 1;",
        f"{SHARED}sum += in[{WHERE} >> 9 & 3];",
        f"{SHARED}for (unsigned at = 0; at < 256u << ({WHERE} >> 10 & 1); ++at) sum += part[at & 63];",
        f"{LOCAL}if (({BITS}(own + (cols & 3)) >> 32) == 0x7100) sum *= own[cols & 3];",
    ],
)
def test_where_shared_and_local_memory_lie_decides_nothing(line: str) -> None:
    problem = address_problem(ptx_of(line), BUFFERS)
    assert problem is not None
    assert problem.rule is StaticRule.ADDRESS


@pytest.mark.parametrize(
    "line",
    [
        f"{SHARED}sum += *(part + ((i ^ i >> 3) & 63));",
        f"{SHARED}unsigned at = {WHERE}; at ^= at >> 3 & 0x70; "
        'asm volatile("ld.shared.f32 %0, [%1];" : "=f"(sum) : "r"(at));',
        f"{SHARED}for (const float* p = part; p != part + 64; ++p) sum += *p;",
        f"{SHARED}__shared__ float more[64]; more[i & 63] = sum; const float* p = rows & 1 ? part : more; "
        "for (int e = 0; e < cols; ++e) { sum += p[e & 63]; p = p == part ? more : part; }",
        f"{SHARED}if (({WHERE} & 15) == 0) sum += part[i & 63];",
        f"{SHARED}sum += __match_any_sync(__activemask(), {BITS}(part + (i & 7))) >> 5 & 1;",
        f"{SHARED}const float* p = rows & 1 ? in : part; sum += p[i & 63];",
        f"{LOCAL}const float* p = rows & 1 ? in : own; sum += p[i & 3];",
    ],
)
def test_what_honest_kernels_do_in_shared_and_local_memory_is_allowed(line: str) -> None:
    assert address_problem(ptx_of(line), BUFFERS) is None
