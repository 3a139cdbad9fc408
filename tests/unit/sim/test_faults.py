"""Every class of fault: a seeded kernel that must be reported, and its clean twin that must not."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import module, run

F = np.float32


def kernel(body: str, params: str = "float* a, const float* b, int n") -> str:
    return f'#include <cuda_fp16.h>\nextern "C" __global__ void k({params}) {{\n  int t = threadIdx.x;\n{body}\n}}\n'


def launch(source: str, *, block: int | tuple[int, ...] = 64, shared: int = 0, n: int = 64, **more: Any) -> Any:
    a, b = np.zeros(64, F), np.arange(64, dtype=F)
    block = (block,) if isinstance(block, int) else block
    _, result = run(source, "k", [a, b, np.int32(n)], block=block, shared_bytes=shared, **more)
    return result


# (name, kind, seeded body, clean body, launch options). The fault must be on source line 5.
SHARED = "  __shared__ float s[64];\n"
VOLATILE = "volatile __shared__ float s[64];"
CASES: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("load past end", "out_of_bounds", "\n  a[t] = b[t + 1];", "\n  a[t] = b[t];", {}),
    ("store past end", "out_of_bounds", "\n  a[t + 1] = 1;", "\n  a[t] = 1;", {}),
    ("load before start", "out_of_bounds", "\n  a[t] = b[t - 1];", "\n  a[t] = b[t ? t - 1 : 0];", {}),
    ("far away", "out_of_bounds", "\n  a[t] = b[t * 100000];", "\n  a[t] = b[t];", {}),
    ("null", "out_of_bounds", "\n  a[t] = *(volatile float*)(size_t)(n - 64);", "\n  a[t] = 0;", {}),
    ("missing guard", "out_of_bounds", "\n  a[t] = b[t];", "\n  if (t < n) a[t] = b[t];", {"block": 96}),
    ("vector past end", "out_of_bounds", "\n  ((float4*)a)[t] = make_float4(1,2,3,4);", "\n  if (t < 16) ((float4*)a)[t] = make_float4(1,2,3,4);", {}),
    ("misaligned vector", "misaligned", "\n  *(float4*)(a + 4 * (t / 8) + 1) = make_float4(1,2,3,4);", "\n  if (t < 16) *(float4*)(a + 4 * t) = make_float4(1,2,3,4);", {}),
    ("read only", "read_only", "\n  ((float*)b)[t] = 1;", "\n  a[t] = 1;", {"readonly": (1,)}),
    ("undefined output read", "uninitialised", "\n  a[t] += 1;", "\n  a[t] = 1; a[t] += 1;", {"undefined": (0,)}),
    ("shared past end", "out_of_bounds", VOLATILE + "\n  s[t + 1] = 1; a[t] = 0;", VOLATILE + "\n  s[t] = 1; a[t] = 0;", {}),
    ("shared dynamic too small", "out_of_bounds", "extern __shared__ float d[];\n  d[t] = b[t];", "extern __shared__ float d[];\n  d[t & 31] = 1;", {"shared": 128}),
    ("shared never written", "uninitialised", SHARED.strip() + "if (t < 32) s[t] = 1; __syncthreads();\n  a[t] = s[t];", SHARED.strip() + "s[t] = 1; __syncthreads();\n  a[t] = s[t];", {}),
    ("shared half written", "uninitialised", "__shared__ float s[64]; ((__half*)s)[2 * t] = b[t]; __syncthreads();\n  a[t] = s[t];", "__shared__ float s[64]; ((__half*)s)[2 * t] = b[t]; ((__half*)s)[2 * t + 1] = b[t];\n  a[t] = s[t];", {}),
    ("misaligned shared", "misaligned", "__shared__ __align__(16) char s[2048];\n  *(int4*)(s + t * 24) = make_int4(1,2,3,4); a[t] = 0;", "__shared__ __align__(16) char s[2048];\n  *(int4*)(s + t * 32) = make_int4(1,2,3,4); a[t] = 0;", {}),
    ("missing barrier", "race", SHARED.strip() + "s[t] = b[t];\n  a[t] = s[63 - t];", SHARED.strip() + "s[t] = b[t]; __syncthreads();\n  a[t] = s[63 - t];", {}),
    ("write after read", "race", SHARED.strip() + "s[t] = b[t]; __syncthreads(); float x = s[63 - t];\n  s[t] = x; a[t] = x;", SHARED.strip() + "s[t] = b[t]; __syncthreads(); float x = s[63 - t]; __syncthreads();\n  s[t] = x; a[t] = x;", {}),
    ("two writers", "race", "volatile __shared__ float s;\n  if (t % 32 == 0) s = t; a[t] = 0;", "volatile __shared__ float s;\n  if (t == 0) s = t; a[t] = 0;", {}),
    ("lanes disagree", "race", "\n  a[t / 2] = t;", "\n  a[t / 2] = t / 2;", {}),
    ("barrier in a branch", "barrier", "if (t % 2)\n  __syncthreads(); a[t] = 0;", "if (n > 1)\n  __syncthreads(); a[t] = 0;", {}),
    ("warps at different barriers", "deadlock", "if (t < 32)\n  asm volatile(\"bar.sync 1;\"); else asm volatile(\"bar.sync 2, 64;\"); a[t] = 0;", "if (t < 32)\n  asm volatile(\"bar.sync 1, 32;\"); else asm volatile(\"bar.sync 2, 32;\"); a[t] = 0;", {}),
    ("endless loop", "budget", "volatile float* v = a;\n  while (v[t] == 0); a[t] = 0;", "volatile float* v = a;\n  while (v[t] != 0); a[t] = 0;", {"budget": 100_000}),
    ("trap", "trap", "\n  if (t == 5) __trap(); a[t] = 0;", "\n  if (t == 500) __trap(); a[t] = 0;", {}),
    ("local past end", "out_of_bounds", "float x[8]; for (int i = 0; i < 8; i++) x[i] = b[i];\n  a[t] = x[(int)b[t]];", "float x[8]; for (int i = 0; i < 8; i++) x[i] = b[i];\n  a[t] = x[(int)b[t] & 7];", {}),
    ("local never written", "uninitialised", "float x[8]; for (int i = 0; i < n - 60; i++) x[i] = b[i];\n  a[t] = x[(int)b[t] & 7];", "float x[8]; for (int i = 0; i < 8; i++) x[i] = b[i];\n  a[t] = x[(int)b[t] & 7];", {}),
    ("undefined register of a scope", "uninitialised", "float s;\n  asm volatile(\"{ .reg .f32 nothing; mov.f32 %0, nothing; }\" : \"=f\"(s)); for (int i = 0; i < n; i++) s += b[i]; a[t] = s;", "float s;\n  asm volatile(\"{ .reg .f32 some; mov.f32 some, 0f00000000; mov.f32 %0, some; }\" : \"=f\"(s)); for (int i = 0; i < n; i++) s += b[i]; a[t] = s;", {}),
    ("undefined register", "uninitialised", "float s; asm volatile(\"\" : \"=f\"(s));\n  a[t] = s + b[t];", "float s; asm volatile(\"mov.f32 %0, 0f00000000;\" : \"=f\"(s));\n  a[t] = s + b[t];", {}),
    ("undefined guard", "uninitialised", "int q = 0;\n  asm volatile(\"{ .reg .pred p; @p add.s32 %0, %0, 1; }\" : \"+r\"(q)); a[t] = q;", "int q = 0;\n  asm volatile(\"{ .reg .pred p; setp.eq.s32 p, %0, 0; @p add.s32 %0, %0, 1; }\" : \"+r\"(q)); a[t] = q;", {}),
    ("discarded and read", "uninitialised", "a[t] = 1; __syncthreads(); if (t == 0) asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(a) : \"memory\"); __syncthreads();\n  float x = a[t ^ 32]; __syncthreads(); a[t] = x + 1;", "if (t == 0) asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(a) : \"memory\"); __syncthreads(); a[t] = 1; __syncthreads();\n  float x = a[t ^ 32]; __syncthreads(); a[t] = x + 1;", {"undefined": (0,)}),
    ("discarded while written", "race", "a[t] = 1; if (t == 32)\n  asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(a) : \"memory\");", "if (t < 32) a[t] = 1; if (t == 32)\n  asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(a + 32) : \"memory\");", {}),
    ("misaligned discard", "misaligned", "\n  if (t == 0) asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(a + 1) : \"memory\");", "\n  if (t == 0) asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(a) : \"memory\");", {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "bad", "good", "options"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_seeded_and_clean(kind: str, bad: str, good: str, options: dict[str, Any]) -> None:
    found = launch(kernel(bad), **options).faults
    assert found, "nothing was reported"
    assert found[0].kind == kind, found[0]
    assert found[0].block == (0, 0, 0)
    assert found[0].thread is not None
    if kind not in ("budget", "barrier"):
        # A race has two ends, and either may be the one that is seen to happen second.
        assert found[0].source_line in ((4, 5) if kind == "race" else (5,)), found[0]
    assert launch(kernel(good), **options).faults == ()


ASYNC = """  __shared__ __align__(16) float s[256];
  unsigned p = (unsigned)__cvta_generic_to_shared(s + 4 * t);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(p), "l"(b + 4 * (t & 15)));
  asm volatile("cp.async.commit_group;");
"""
WAIT = '  asm volatile("cp.async.wait_group 0;");\n'


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        ("  a[t] = s[4 * t];", "uninitialised"),
        ('  asm volatile("cp.async.wait_group 1;"); __syncthreads();\n  a[t] = s[4 * t];', "uninitialised"),
        (WAIT + "  a[t] = s[255 - 4 * t];", "race"),
        ("  __syncthreads();\n" + WAIT + "  a[t] = s[255 - 4 * t];", "uninitialised"),
        (WAIT + "  __syncthreads();\n  a[t] = s[255 - 4 * t];", None),
        (WAIT + "  a[t] = s[4 * t];", None),
    ],
)
def test_async_copies(tail: str, kind: str | None) -> None:
    found = launch(kernel(ASYNC + tail)).faults
    assert [f.kind for f in found[:1]] == ([kind] if kind else [])


def test_misaligned_rows_report_their_addresses() -> None:
    """Rows of 130 bytes: every 16-byte access after row 0 is crooked, and the first is named."""
    source = kernel(
        "  __shared__ __align__(16) char s[64 * 130];\n  *(int4*)(s + t * 130) = make_int4(1, 2, 3, 4); a[t] = 0;"
    )
    fault = launch(source).faults[0]
    assert (fault.kind, fault.address, fault.thread) == ("misaligned", 0x82, (1, 0, 0))
    assert "0x82" in fault.message
    assert "16-byte store" in fault.message


THREE = """extern "C" __global__ void k(const float4* x, float* y, int last) {
    const float4 v = x[threadIdx.x];
    y[threadIdx.x] = v.x + v.y + v.z + (last ? v.w : 0.0f); }"""


@pytest.mark.parametrize(
    ("text", "elements", "is_right"),
    [(THREE.replace("(last ? v.w : 0.0f)", "0.0f"), 255, True), (THREE, 255, False), (THREE, 256, True)]
    + [(THREE.replace("(last ? v.w : 0.0f)", "0.0f"), elements, False) for elements in (253, 254)],
)
def test_of_a_vector_the_last_element_that_is_used_has_to_exist(text: str, elements: int, *, is_right: bool) -> None:
    x = np.arange(elements, dtype=F)
    (_, y, _), result = run(text, "k", [x, np.zeros(64, F), np.int32(0)], block=(64,))
    assert [fault.kind for fault in result.faults[:1]] == ([] if is_right else ["out_of_bounds"])
    if is_right:
        assert (y == np.resize(x, 256).reshape(64, 4)[:, :3].sum(axis=1)).all()


IN_SHARED = """extern "C" __global__ void k(const float* x, float* y, int from) {
    __shared__ __align__(16) float s[ELEMENTS];
    for (int i = threadIdx.x; i < ELEMENTS; i += 64) s[i] = x[i];
    __syncthreads();
    const float4 v = *(const float4*)(s + 4 * (PLACE) + from);
    y[threadIdx.x] = v.x + v.y + v.z LAST; }"""


@pytest.mark.parametrize("place", ["8", "threadIdx.x % 9"])
@pytest.mark.parametrize(
    ("elements", "start", "last", "kind"),
    [
        (35, 0, "", None),
        (36, 0, "+ v.w", None),
        (35, 0, "+ v.w", "out_of_bounds"),
        (34, 0, "", "out_of_bounds"),
        (40, 1, "", "misaligned"),
    ],
)
def test_so_it_has_to_in_shared_memory(place: str, elements: int, start: int, last: str, kind: str | None) -> None:
    """Compilers join the last three elements of an array that is aligned for four, too."""
    text = IN_SHARED.replace("ELEMENTS", f"{elements}").replace("PLACE", place).replace("LAST", last)
    x = np.arange(elements, dtype=F)
    (_, y, _), result = run(text, "k", [x, np.zeros(64, F), np.int32(start)], block=(64,))
    assert [fault.kind for fault in result.faults[:1]] == ([] if kind is None else [kind])
    if kind is None:
        first = 4 * (np.full(64, 8) if place == "8" else np.arange(64) % 9)
        assert (y == sum(x[first + at] for at in range(4 if last else 3))).all()


@pytest.mark.parametrize(("written", "kind"), [(7, None), (6, "uninitialised")])
def test_nor_need_the_last_of_a_thread_s_own_be_written(written: int, kind: str | None) -> None:
    text = f"""extern "C" __global__ void k(const float* x, const int* at, float* y) {{
    __align__(16) float s[7];
    for (int i = 0; i < {written}; ++i) s[at[i]] = x[i] + threadIdx.x;
    float total = 0.0f;
    #pragma unroll
    for (int i = 0; i < 7; ++i) total += s[i] * (i + 1);
    y[threadIdx.x] = total; }}"""
    x = np.arange(7, dtype=F)
    (_, _, y), result = run(text, "k", [x, np.arange(7, dtype=np.int32), np.zeros(32, F)], block=(32,))
    assert [fault.kind for fault in result.faults[:1]] == ([] if kind is None else [kind])
    if kind is None:
        assert (y == [sum((x[i] + t) * (i + 1) for i in range(7)) for t in range(32)]).all()


def test_a_vector_waits_for_what_is_used_of_it() -> None:
    text = IN_SHARED.replace("ELEMENTS", "35").replace("PLACE", "threadIdx.x % 9").replace("LAST", "")
    x = np.arange(35, dtype=F)
    _, raced = run(text.replace("__syncthreads();", ""), "k", [x, np.zeros(64, F), np.int32(0)], block=(64,))
    assert {fault.kind for fault in raced.faults} & {"race", "uninitialised"}
    _, unwritten = run(text.replace("i < 35", "i < 34"), "k", [x, np.zeros(64, F), np.int32(0)], block=(64,))
    assert {fault.kind for fault in unwritten.faults} == {"uninitialised"}


def test_bounds_message_names_buffer_offset_and_size() -> None:
    fault = launch(kernel("  a[t] = b[t + 1];")).faults[0]
    assert "arg1" in fault.message
    assert "byte 256" in fault.message
    assert "256 bytes" in fault.message
    assert fault.thread == (63, 0, 0)


def test_race_names_both_threads() -> None:
    fault = launch(kernel("  __shared__ float s[64]; s[t] = b[t];\n  a[t] = s[63 - t];")).faults[0]
    assert fault.kind == "race"
    assert "thread" in fault.message
    assert fault.thread is not None
    assert fault.thread[0] // 32 != int(fault.message.split("thread (")[1].split(",")[0]) // 32


def test_race_checker_can_be_switched_off() -> None:
    source = kernel("  __shared__ float s[64]; s[t] = b[t];\n  a[t] = s[63 - t];")
    result = launch(source, race=False)
    assert all(f.kind != "race" for f in result.faults)


CLEAN = {
    "odd halves": """  __shared__ __half s[130]; s[65 * (t / 32) + t % 32] = b[t]; s[65 * (t / 32) + 32 + t % 32] = b[t]; if (t % 32 == 0) s[65 * (t / 32) + 64] = 0;
      __syncthreads(); a[t] = __half2float(s[129 - t]);""",
    "same flag": "  __shared__ int s; if (t % 32 == 0) s = 1; __syncthreads(); a[t] = s;",
    "warp synchronous": "  __shared__ float s[64]; s[t] = b[t]; __syncwarp(); a[t] = s[t ^ 1];",
    "named barriers": '  __shared__ float s[64]; s[t] = b[t]; asm volatile("bar.sync 3, 64;"); a[t] = s[63 - t];',
    "producer consumer": """  __shared__ float s[64];
      if (t < 32) { s[t] = b[t]; s[t + 32] = b[t + 32]; asm volatile("bar.arrive 1, 64;"); a[t] = 0; }
      else { asm volatile("bar.sync 1, 64;"); a[t] = s[63 - t]; }""",
    "atomics": "  __shared__ int s; if (t == 0) s = 0; __syncthreads(); atomicAdd(&s, 1); __syncthreads(); a[t] = s;",
    "flag": """  __shared__ float s; __shared__ int f; if (t == 0) f = 0; __syncthreads();
      if (t == 0) { s = 7; __threadfence_block(); atomicExch(&f, 1); a[0] = 1; }
      if (t == 32) { for (int i = 0; i < 4; i++) { if (atomicAdd(&f, 0)) { __threadfence_block(); a[t] = s; } } }""",
    "same value": "  __shared__ int s; if (t < 32) s = 5; __syncthreads(); a[t] = s;",
    "double buffer": """  __shared__ float s[2][64]; float x = 0;
      for (int i = 0; i < 4; i++) { s[i & 1][t] = b[t] + i; __syncthreads(); x += s[i & 1][63 - t]; } a[t] = x;""",
    "reduction": """  __shared__ float s[64]; s[t] = b[t]; __syncthreads();
      for (int k = 32; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); } a[t] = s[0];""",
    "exit before barrier": "  if (t >= 32) return; __syncthreads(); a[t] = 0;",
    "barrier vote": "  int c = __syncthreads_count(t & 1); int o = __syncthreads_or(t == 3); int e = __syncthreads_and(t < 64); a[t] = c + o + e;",
    "local copy": "  float x[4]; for (int i = 0; i < 4; i++) x[i] = b[(t + i) & 63]; a[t] = x[t & 3];",
    "generic": "  __shared__ float s[64]; s[t] = 2; float* p = n > 5 ? s + t : a + t; __syncthreads(); a[t] = *p;",
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_false_alarm(name: str) -> None:
    result = launch(kernel(CLEAN[name]))
    assert result.faults == ()


def test_barrier_vote_values() -> None:
    out, _ = run(kernel(CLEAN["barrier vote"]), "k", [np.zeros(64, F), np.zeros(64, F), np.int32(1)], block=(64,))
    assert (out[0] == 34).all()


def test_launch_limits_and_arguments() -> None:
    loaded = module(kernel("  a[t] = b[t];"))
    arrays = [np.zeros(64, F), np.zeros(64, F), np.int32(1)]
    for options in ({"block": (1025,)}, {"shared_bytes": 102_400}, {"grid": (1, 70_000)}, {"grid": (0,)}):
        _, result = run(loaded, "k", arrays, **options)
        assert [f.kind for f in result.faults] == ["launch"]
    with pytest.raises(ValueError, match="takes 3 arguments"):
        run(loaded, "k", arrays[:2])
    with pytest.raises(ValueError, match="bytes"):
        run(loaded, "k", [*arrays[:2], np.int64(1)])
    with pytest.raises(ValueError, match="no kernel"):
        run(loaded, "nope", arrays)


def test_fault_stops_the_launch() -> None:
    result = launch(kernel("  a[t + 1] = 1;"), grid=(50,))
    assert result.blocks_run == 0
    assert result.blocks_total == 50


def test_what_is_discarded_holds_nothing() -> None:
    body = (
        'a[t] = b[t]; __syncthreads(); if (t == 0) asm volatile("discard.global.L2 [%0], 128;" :: "l"(a) : "memory");'
    )
    arrays = [np.zeros(64, F), np.arange(64, dtype=F), np.int32(64)]
    for race in (True, False):
        (a, *_), result = run(kernel(body), "k", arrays, block=(64,), race=race)
        assert result.faults == ()
        np.testing.assert_array_equal(a[:32], np.full(32, np.nan, F) if race else arrays[1][:32])
        np.testing.assert_array_equal(a[32:], arrays[1][32:])


def test_a_sum_that_begins_at_nothing_is_no_sum_of_zero() -> None:
    """Not certain from the text: the loop sets the register itself. What it begins at is odd, of either sign."""
    body = 'float s; asm volatile("" : "=f"(s)); for (int i = 0; i < n; i++) s += b[i]; a[t] = s;'
    arrays = [np.zeros(64, F), np.arange(64, dtype=F), np.int32(64)]
    (a, *_), result = run(kernel(body), "k", arrays, block=(64,))
    assert result.faults == ()
    assert (a[:32] > 1e30).all()
    assert (a[32:] < -1e30).all()
