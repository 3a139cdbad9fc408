"""What a variant hides from the rules on its text, the rules on its PTX find: real compiles of evasive spellings."""

import pytest

from evo.cuda.compile import Binary, Diagnostics, compile_source
from evo.evaluate import gate
from evo.results import StaticRule

BODY = """\
#define JOIN(a, b) a##b
{before}
extern "C" __global__ void k(const float* x, float* y, int n) {{
    const int i = blockIdx.x * 32 + threadIdx.x;
    {line}
    y[i] = i < n ? x[i] : 0.0f;
}}
"""


def ptx_of(line: str, before: str = "") -> str:
    built = compile_source(BODY.format(before=before, line=line), name="evasive.cu", macros={})
    assert isinstance(built, Binary), built
    return built.ptx


TABLE = "__device__ const float T[8] = {1};"
EVASIVE = {
    "a pasted clock": ("y[i] = JOIN(clo, ck64)();", "", StaticRule.CLOCK),
    "a spliced clock": ("y[i] = clo\\\nck64();", "", StaticRule.CLOCK),
    "a register named in pieces": (
        'long long t; asm volatile("mov.u64 %0, %%global" "timer;" : "=l"(t)); y[i] = t;',
        "",
        StaticRule.CLOCK,
    ),
    "a number of launches": (
        'long long t; asm volatile("mov.u64 %0, %%gridid;" : "=l"(t)); y[i] = t;',
        "",
        StaticRule.LAUNCH_NUMBER,
    ),
    "a place on the chip": (
        'unsigned t; asm volatile("mov.u32 %0, %%sm" "id;" : "=r"(t)); y[i] = t;',
        "",
        StaticRule.LAUNCH_NUMBER,
    ),
    "memory that the chip reserves": (
        'unsigned t; asm volatile("mov.u32 %0, %%total_" "smem_size;" : "=r"(t)); y[i] = t;',
        "",
        StaticRule.LAUNCH_NUMBER,
    ),
    "a policy in pieces": (
        'long long p; asm volatile("create" "policy.fractional.L2::evict_" "last.b64 %0, 1.0;" : "=l"(p)); y[i] = p;',
        "",
        StaticRule.CACHE_POLICY,
    ),
    "a prefetch that stays": (
        'asm volatile("prefetch.global.L2::evict" "_last [%0];" :: "l"(x));',
        "",
        StaticRule.CACHE_POLICY,
    ),
    "pasted memory": ("void* p = JOIN(mal, loc)(8); y[i] = p != nullptr;", "", StaticRule.ALLOCATION),
    "a pasted printf": ('JOIN(pri, ntf)("%d", i);', "", StaticRule.PRINT),
    "a static variable of a kernel": ("static int calls; if (i == 0) calls++; y[i] = calls;", "", StaticRule.STATE),
    "a constant table, written": ("const_cast<float*>(T)[n] = 1; y[i] = T[i & 3];", TABLE, StaticRule.STATE),
    "a variable behind a pointer": ("(*p)++; y[i] = *p;", "__device__ int c, *p = &c;", StaticRule.STATE),
    "a variable of assembly text": (
        'asm volatile("{ .global .u32 h; .reg .u64 a; mov.u64 a, h; red.global.add.u32 [a], 1; }");',
        "",
        StaticRule.STATE,
    ),
    "a variable handed to a function": (
        "bump(&calls);",
        "__device__ int calls; __noinline__ __device__ void bump(int* at) { atomicAdd(at, 1); }",
        StaticRule.STATE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVASIVE)
def test_an_evasive_spelling_is_found(name):
    line, before, rule = EVASIVE[name]
    problem = gate.ptx_problem(ptx_of(line, before))
    assert problem is not None
    assert problem.rule is rule


VIRTUAL = (
    "struct One { __device__ virtual float of(float v) const { return v; } };"
    "struct Two : One { __device__ float of(float v) const override { return v * 2; } };"
)


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("", ""),
        ("One one; Two two; const One* some = n & 1 ? &one : &two; y[i] = some->of(x[i]);", VIRTUAL),
        (
            "One one; Two two; const One* some = n & 1 ? &one : &two; y[i] = some->of(x[i]);",
            VIRTUAL.replace("struct One {", "struct One { __device__ virtual ~One() {}"),
        ),
        ("y[i] = T[i & 3] * C[i & 1];", "__device__ const float T[4] = {1}; __constant__ float C[2] = {1};"),
        ("float4 v = ((const float4*)T)[i & 1]; y[i] = v.x + v.w;", TABLE),
        (
            "__shared__ float s[8]; unsigned a = __cvta_generic_to_shared(s);"
            'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(a), "l"(T));'
            "__syncthreads(); y[i] = s[1];",
            TABLE,
        ),
        ("__shared__ int count; if (i == 0) count = 0; __syncthreads(); atomicAdd(&count, 1);", ""),
    ],
)
def test_tables_that_are_only_read_are_let_through(line, before):
    assert gate.ptx_problem(ptx_of(line, before)) is None


def test_the_source_line_is_named():
    problem = gate.ptx_problem(ptx_of("y[i] = JOIN(clo, ck64)();"))
    assert problem.line == 5


@pytest.mark.parametrize(
    "text",
    [
        "#line 7\n",
        '#define F "/etc/passwd"\n#include F\n',
        '#include "/etc/passwd"\n',
        '#include "../secret.h"\n',
        '#if __has_include("/etc/passwd")\n#endif\n',
        "%:include <cuda_fp16.h>\n",
        "??=include <cuda_fp16.h>\n",
        'asm(".inc" "bin \\"/etc/passwd\\"");\n',
        "#define J(a, b) a##b\nint x = J(__has_, include)(<a>);\n",
        '_Pragma("GCC poison x")\n',
    ],
)
def test_a_text_that_looks_at_files_is_not_compiled(text):
    built = compile_source(text, name="hostile.cu", macros={})
    assert isinstance(built, Diagnostics)
    assert built.status == "refused"


BARRIER = "#include <cuda/barrier>"
TIME = """#include <cuda/std/chrono>
__device__ long long now() { return cuda::std::chrono::high_resolution_clock::now().time_since_epoch().count(); }"""
WAITED = (
    "__shared__ cuda::barrier<cuda::thread_scope_block> ready; if (threadIdx.x == 0) init(&ready, 32); "
    "__syncthreads(); ready.arrive_and_wait();"
)
UNTIL = "const volatile float* flag = x; long long from = now(); while (flag[i] == 0.0f) {{ {turn} }} {after}"


@pytest.mark.parametrize(
    ("line", "before"),
    [
        (WAITED, BARRIER),
        (UNTIL.format(turn="if (now() - from > 4000) __nanosleep(20); else __nanosleep(5);", after=""), TIME),
        (UNTIL.format(turn="__nanosleep(unsigned(now() - from) / 4);", after=""), TIME),
    ],
)
def test_time_may_say_how_long_a_wait_sleeps(line, before):
    assert "%globaltimer" in ptx_of(line, before)
    assert gate.ptx_problem(ptx_of(line, before)) is None


@pytest.mark.parametrize(
    ("line", "before"),
    [
        (UNTIL.format(turn="if (now() - from > 4000) break;", after="if (now() - from > 4000) return;"), TIME),
        (UNTIL.format(turn="if (now() - from > 4000) { y[i] = 1.0f; return; }", after=""), TIME),
        (UNTIL.format(turn="", after="y[n + i] = now() - from > 4000 ? 1.0f : 0.0f;"), TIME),
        ("int late = 0; " + UNTIL.format(turn="if (now() - from > 4000) late += 1;", after="y[n + i] = late;"), TIME),
        ("long long from = now(); if (now() - from > 300) n -= 1;", TIME),
        ("long long from = now(); y[(now() - from) & 31] = 1.0f;", TIME),
        ("if (__shfl_sync(~0u, unsigned(now()), 0) & 1) n -= 1;", TIME),
    ],
)
def test_time_that_decides_anything_else_is_a_clock(line, before):
    problem = gate.ptx_problem(ptx_of(line, before))
    assert problem is not None
    assert problem.rule is StaticRule.CLOCK
