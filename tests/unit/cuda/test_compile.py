"""compile: one real compiler run per behaviour, everything else on text."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from long_cases import long
from process_ends import is_gone

from evo.audit.redteam import load_attacks
from evo.cuda.compile import Binary, Cache, Diagnostics, compile_source, default_cache, toolkit_version
from evo.cuda.compile.binary import code_hash
from evo.cuda.compile.include_policy import STANDARD_HEADERS, flag_allowed, refusal
from evo.errors import UsageError
from evo.results import StaticRule, Status

NO_CACHE = Cache(None)
HALF = """\
#include <cuda_fp16.h>
extern "C" __global__ void add(const half* a, half* o, int n) {
  __shared__ float scale[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  scale[threadIdx.x % 32] = -INFINITY;
  __syncthreads();
  if (i < n) o[i] = __hadd(a[i], __float2half(scale[i % 32]));
}
"""
TINY = 'extern "C" __global__ void k(float* o) { o[0] = 1.0f; }\n'
SPILLS = """\
extern "C" __global__ void k(float* o, const float* a) {
  float x[48];
#pragma unroll
  for (int i = 0; i < 48; i++) x[i] = a[i * 32 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; i++) o[i] = x[i] * x[47 - i];
}
"""
BOMB = """\
template <int N, int M> struct Bomb { static constexpr int value = Bomb<N - 1, M>::value + Bomb<N - 1, M + 1>::value; };
template <int M> struct Bomb<0, M> { static constexpr int value = M; };
extern "C" __global__ void k(int* o) { o[0] = Bomb<190, 0>::value; }
"""


def build(text: str, **options: object) -> Binary | Diagnostics:
    settings: dict[str, object] = {"name": "k.cu", "macros": {}, "cache": NO_CACHE, **options}
    return compile_source(text, **settings)  # type: ignore[arg-type]


def binary(text: str, **options: object) -> Binary:
    built = build(text, **options)
    assert isinstance(built, Binary), built
    return built


def failure(text: str, **options: object) -> Diagnostics:
    built = build(text, **options)
    assert isinstance(built, Diagnostics)
    return built


def test_half_kernel_has_ptx_cubin_and_report() -> None:
    built = binary(HALF, macros={"D": 64})
    assert ".target sm_89" in built.ptx
    assert built.cubin.startswith(b"\x7fELF")
    report = built.kernel("add")
    assert 8 <= report.registers <= 32
    assert (report.shared_bytes, report.spill_store_bytes, report.stack_bytes) == (128, 0, 0)
    assert report.sass["HADD2"] == 1
    assert report.sass["LDG"] == 1
    assert "NOP" not in report.sass
    assert (built.macros, built.arch, built.cached) == ({"D": 64}, "sm_89", False)


def test_line_numbers_are_the_texts_own() -> None:
    lines = {int(line.split()[2]) for line in binary(HALF).ptx.splitlines() if line.strip().startswith(".loc\t1 ")}
    assert 7 in lines
    assert max(lines) <= 8


def test_virtual_arch_gives_ptx_only() -> None:
    built = binary(TINY, arch="compute_89")
    assert built.cubin == b""
    assert built.kernels == ()
    assert ".target sm_89" in built.ptx


def test_debug_build_has_no_warning() -> None:
    assert binary(TINY, debug=True).cubin


def test_spills_are_noted_not_refused() -> None:
    built = binary(SPILLS, flags=["--maxrregcount=24"])
    assert built.kernels[0].spill_store_bytes > 0
    assert built.kernels[0].spill_load_bytes > 0
    assert any("spills" in warning for warning in built.warnings)


def test_warning_is_a_failure_with_its_line() -> None:
    failed = failure('extern "C" __global__ void k(float* o) {\n  int unused = 3;\n  o[0] = 1;\n}\n', name="a/b.cu")
    assert failed.status is Status.UNCOMPILED
    assert failed.reason.startswith("a/b.cu:2: warning #177-D")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('extern "C" __global__ void k(float* o) {\n  o[0] = x;\n}\n', 'k.cu:2: error: identifier "x" is undefined'),
        (
            'extern "C" __global__ void k(float* o) {\n  __shared__ float s[20000];\n  s[threadIdx.x] = 1;\n'
            "  __syncthreads();\n  o[0] = s[1];\n}\n",
            "k.cu: ptxas error: Entry function 'k' uses too much shared data",
        ),
        ("__device__ float f(float);\n" + TINY.replace("1.0f", "f(2)"), "k.cu: ptxas fatal: Unresolved extern"),
    ],
)
def test_errors_say_where(text: str, reason: str) -> None:
    failed = failure(text)
    assert failed.status is Status.UNCOMPILED
    assert failed.reason.startswith(reason)
    assert failed.log


def test_two_kernels_two_reports() -> None:
    built = binary(TINY + TINY.replace(" k(", " second("))
    assert [report.name for report in built.kernels] == ["k", "second"]


@pytest.mark.parametrize("header", ["mma.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_pipeline.h", "stdint.h", "cfloat"])
def test_allowed_headers_compile_cleanly(header: str) -> None:
    assert binary(f"#include <{header}>\n{TINY}").cubin


@pytest.mark.long
@pytest.mark.parametrize(
    "header", [*STANDARD_HEADERS, "cooperative_groups.h", "cuda/pipeline", "cuda/cmath", "cuda/std/limits", "cuda/ptx"]
)
def test_slow_allowed_headers_compile_cleanly(header: str) -> None:
    assert binary(f"#include <{header}>\n{TINY.replace('1.0f', 'INFINITY + NAN')}").cubin


def test_wmma_kernel_uses_tensor_cores() -> None:
    text = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
"""
    assert binary(text).kernels[0].sass["HMMA"] > 0


@pytest.mark.parametrize("pragma", ["", "#pragma nv_diag_suppress static_var_with_dynamic_init\n"])
def test_a_barrier_in_shared_memory_is_declared_as_in_the_programming_guide(pragma: str) -> None:
    text = """#include <cuda/barrier>
extern "C" __global__ void k(float* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> ready[2];
  if (threadIdx.x == 0) { init(&ready[0], 32); init(&ready[1], 32); }
  __syncthreads();
  ready[0].arrive_and_wait();
  y[threadIdx.x] = 1.0f;
}
"""
    assert binary(pragma + text).cubin


def test_local_headers_are_virtual_and_screened() -> None:
    text = '#include "row.cuh"\n' + TINY.replace("1.0f", "row(3)")
    header = "#pragma once\n__device__ inline float row(int i) { return 2.0f * i; }\n"
    assert binary(text, headers={"row.cuh": header}).cubin
    hostile = failure(text, headers={"row.cuh": '#include "/etc/passwd"\n' + header})
    assert hostile.status is Status.REFUSED
    assert hostile.reason.startswith("row.cuh:1: ")


HOSTILE_TEXTS = {
    "absolute": (1, '#include "/etc/passwd"\n'),
    "parent": (1, '#include "../secret.h"\n'),
    "angle": (1, "#include </etc/passwd>\n"),
    "dots": (1, "#include <cuda/../../../etc/passwd>\n"),
    "computed": (2, '#define F "/etc/passwd"\n#include F\n'),
    "host header": (1, "#include <stdio.h>\n"),
    "spliced word": (1, '#inc\\\nlude "/etc/passwd"\n'),
    "comment split": (1, '#/* x */include/**/"/etc/passwd"\n'),
    "comment first": (2, '/* a\n*/ # include "/etc/passwd"\n'),
    "digraph": (1, '%:include "/etc/passwd"\n'),
    "trigraph": (1, '??=include "/etc/passwd"\n'),
    "turned text": (2, "int a;\n// \u202e b\n"),
    "trigraph splice": (1, '// a ??/\n#include "/etc/passwd"\n'),
    "comment ends": (2, '// a \\\n#include </etc/passwd>\n/* */ #include "/etc/passwd"\n'),
    "blank after backslash": (1, '// a \\ \n#include "/etc/passwd"\n'),
    "open quote hides comment": (2, '#if 0\n \' /*\n#endif\n#include "/etc/passwd"\n#if 0\n*/\n#endif\n'),
    "open double quote": (2, '#if 0\n " /*\n#endif\n#include "/etc/passwd"\n#if 0\n*/\n#endif\n'),
    "raw string": (1, 'const char* s = R"x(/*)x";\n#include "/etc/passwd"\n//*/\n'),
    "include_next": (1, "#include_next <cuda_fp16.h>\n"),
    "import": (1, '#import "x"\n'),
    "embed": (1, '#embed "/etc/hostname"\n'),
    "has_include": (1, '#if __has_include("/etc/passwd")\n#endif\n'),
    "pasted": (1, "#define J(a, b) a##b\n__device__ int J(__has_, include);\n".replace("\n__d", " \n__d")),
    "pragma": (1, "#pragma nv_diag_suppress 177\n"),
    "pragma operator": (1, '_Pragma("nv_diag_suppress 177")\n'),
    "pragma macro": (1, "#pragma X\n"),
    "line": (1, '#line 1 "other.cu"\n'),
    "line marker": (1, '# 1 "other.cu"\n'),
    "incbin": (1, 'asm(".inc" "bin \\"/etc/passwd\\";");\n'),
    "clock": (1, "const char* t = __TIME__;\n"),
    "carriage return": (1, '// a\r#include "/etc/passwd"\n'),
    "null": (1, 'int a;\0#include "/etc/passwd"\n'),
    "form feed": (1, '\f#include "/etc/passwd"\n'),
    "open comment": (1, "/* never closed\n"),
}


@pytest.mark.parametrize("case", HOSTILE_TEXTS)
def test_hostile_text_is_refused_with_its_line(case: str) -> None:
    line, text = HOSTILE_TEXTS[case]
    found = refusal(text + TINY, name="k.cu", headers={}, flags=[])
    assert found is not None
    if case not in ("pasted", "comment ends"):
        assert (found.file, found.line) == ("k.cu", line), found.problem
        assert found.reason == f"k.cu:{line}: {found.problem}"


@pytest.mark.parametrize(
    "text",
    [
        "// it's a comment with \"one quote and /* an opener\n",
        '/* #include "/etc/passwd"\n don\'t */\n',
        "__device__ int big = 1'000'000;\n",
        "#define MANY(a) \\\n  do { a; } while (0)\n",
        "#pragma unroll 4\n",
        '_Pragma("unroll 2")\n',
        '#include <cuda_fp16.h> // half\n#include "mma.h"\n#include <cuda/std/limits>\n',
        "#define CAT(a, b) a##b\n",
        'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0}, [%1];" ::"r"(1), "l"(2));\n',
        "char c = '\"';\r\nint x;\r\n",
        "#\n#if defined(X) && X > 1 // don't\n#endif\n",
        "// größer ≥ 3\n",
    ],
)
def test_ordinary_text_is_not_refused(text: str) -> None:
    assert refusal(text + TINY, name="k.cu", headers={}, flags=[]) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "#ifdef __linux__\n#endif\n"),
        (1, "#if defined(linux) || 1\n#endif\n"),
        (1, "#ifndef __CHAR_BIT__\n#define __CHAR_BIT__\n#endif\n"),  # its own definition makes it no guard
        (2, "#define A __SSE2__\n#if A\n#endif\n"),
        (3, "#define A __ELF__\n#define B A\n#if B\n#endif\n"),
        (2, "#define HAS(x) defined(x)\n#if HAS(__OPTIMIZE__)\n#endif\n"),
        (2, "#define JOIN(a, b) a##b\n#if JOIN(__EL, F__)\n#endif\n"),
        (3, "#define Q(x) #x\n#define R(x) Q(x)\n__device__ int n = sizeof(R(__FLT_RADIX__));\n"),
        (2, "#include <cuda/std/cstdint>\n#ifdef _CCCL_COMPILER_NVRTC\n#endif\n"),
        (1, "#ifdef __DRIVER_TYPES_H__\n#endif\n"),  # a header that nvcc includes by itself
        (1, "#if __has_builtin(__builtin_ia32_pause)\n#endif\n"),
        (1, "#ifdef __NEVER_HEARD_OF__\n#endif\n"),
    ],
)
def test_a_choice_that_other_compilers_may_make_otherwise_is_refused(line: int, text: str) -> None:
    found = refusal(text + TINY, name="k.cu", headers={}, flags=[])
    assert found is not None
    assert (found.rule, found.line) == (StaticRule.COMPILER, line)


@pytest.mark.parametrize(
    "text",
    [
        "#if __CUDA_ARCH__ >= 800\n#endif\n",
        "#ifdef __CUDACC__\n#endif\n",
        "#ifndef __MY_KERNEL_CUH__\n#define __MY_KERNEL_CUH__\n#endif\n",
        "#ifndef _KERNEL_H_\n#define _KERNEL_H_\n#endif\n",
        "#ifdef __INTELLISENSE__\n#define __launch_bounds__(x)\n#endif\n",
        "#ifndef M_PI\n#define M_PI 3.14159f\n#endif\n",
        "#if defined(_WIN32) || defined(__HIPCC__) || defined(USE_ROCM)\n#endif\n",
        "#if __cplusplus >= 201703L\n#endif\n",
        "__device__ float largest = __FLT_MAX__;\n",
    ],
)
def test_a_choice_that_all_compilers_make_alike_is_allowed(text: str) -> None:
    assert refusal(text + TINY, name="k.cu", headers={}, flags=[]) is None


@pytest.mark.parametrize(
    ("flag", "allowed"),
    [
        ("--use_fast_math", True),
        ("-ftz=true", True),
        ("--fmad=false", True),
        ("--maxrregcount=64", True),
        ("-DTILE=8", True),
        ("-DTILE", True),
        ("--maxrregcount=0", False),
        ("-I/etc", False),
        ("--pre-include=/etc/passwd", False),
        ("-include", False),
        ("--std=c++11", False),
        ("-arch=sm_90", False),
        ("-w", False),
        ("-diag-suppress=177", False),
        ('-DX="a"', False),
        ("-DX=__has_include", False),
        ("-DX=1\n#include", False),
        ("--use_fast_math ", False),
    ],
)
def test_flags(flag: str, allowed: bool) -> None:
    assert flag_allowed(flag) is allowed
    if not allowed:
        assert failure(TINY, flags=[flag]).status is Status.REFUSED


def test_bomb_times_out_and_the_next_compile_works() -> None:
    started_s = time.monotonic()
    failed = failure(BOMB, time_limit_s=0.4)
    assert failed.status is Status.TIMED_OUT
    assert time.monotonic() - started_s < 10
    assert binary(TINY).cubin


@pytest.mark.parametrize("array", ["big[1u << 30]", long("big[1u << 26] = {1}")])
def test_monstrous_globals_are_the_texts_fault(array: str) -> None:
    failed = failure(f"__device__ int {array};\n" + TINY.replace("1.0f", "big[threadIdx.x]"))
    assert failed.status is Status.UNCOMPILED
    assert failed.reason.startswith("k.cu: ")


def test_compiler_crash_is_the_texts_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    from evo.cuda.compile import process_pool as pool

    def crash(self: pool._Compiler, job: object, time_limit_s: float) -> None:
        os.kill(self.child.pid, 11)
        self.child.ask(job, time_limit_s)

    monkeypatch.setattr(pool._Compiler, "run", crash)
    failed = failure(TINY)
    assert (failed.status, failed.reason) == (Status.UNCOMPILED, "k.cu: the compiler crashed (signal SIGSEGV)")
    monkeypatch.undo()
    assert binary(TINY).cubin


def test_forked_child_compiles_too() -> None:
    binary(TINY)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if isinstance(build(TINY), Binary) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert binary(TINY).cubin


def test_dead_worker_is_replaced() -> None:
    from evo.cuda.compile.process_pool import shared_pool

    binary(TINY)
    compiler = shared_pool()._idle[-1]
    os.kill(compiler.child.pid, 9)
    compiler.child.reap()
    assert binary(TINY).cubin


def test_worker_ends_with_a_killed_parent() -> None:
    script = (
        "from evo.cuda.compile import *; from evo.cuda.compile.process_pool import shared_pool\n"
        f"compile_source({TINY!r}, name='k', macros={{}}, cache=Cache(None))\n"
        "print(shared_pool()._idle[0].child.pid, flush=True)\n"
        "import os; os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert is_gone(int(done.stdout))


def test_threads_share_the_pool(tmp_path: Path) -> None:
    texts = [TINY.replace("1.0f", f"{i}.0f") for i in range(6)]
    with ThreadPoolExecutor(6) as threads:
        built = list(threads.map(binary, texts))
    assert len({b.code_hash for b in built}) == 6


def test_cache_hit_is_fast_and_equal(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    first = binary(HALF, cache=cache)
    started_s = time.perf_counter()
    second = binary(HALF, cache=cache, name="another/name.cu")
    assert time.perf_counter() - started_s < 0.05
    assert second.cached
    assert (second.key, second.ptx, second.cubin, second.kernels) == (
        first.key,
        first.ptx,
        first.cubin,
        first.kernels,
    )


@pytest.mark.long
def test_want_of_memory_is_no_complaint_about_the_text(tmp_path: Path) -> None:
    """Whether time or memory ends it depends on the machine, so it is not remembered either."""
    bomb = next(attack.text for attack in load_attacks() if attack.name == "compile_bomb")
    found = compile_source(bomb, name="k.cu", macros={}, cache=Cache(tmp_path), time_limit_s=20)
    assert isinstance(found, Diagnostics)
    assert found.reason in ("k.cu: the compiler ran out of memory", "k.cu: not compiled within 20 s")
    assert not [entry for entry in tmp_path.rglob("*") if entry.is_file()]


def test_key_covers_every_input(tmp_path: Path) -> None:
    from evo.cuda.compile import _key

    base = ("text", {"D": 1}, ["-ftz=true"], {"a.h": "x"}, "sm_89", False)
    others = [
        ("text ", *base[1:]),
        (base[0], {"D": 2}, *base[2:]),
        (*base[:2], [], *base[3:]),
        (*base[:3], {"a.h": "y"}, *base[4:]),
        (*base[:4], "sm_90", False),
        (*base[:5], True),
    ]
    assert len({_key(*inputs) for inputs in [base, *others]}) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_damaged_entry_is_a_miss_and_is_mended(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    key = binary(TINY, cache=cache).key
    (entry,) = tmp_path.iterdir()
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    changed = {"cut": bytes(data[:-5]), "flip": bytes(data), "empty": b"", "other": b"x" * 100}[damage]
    entry.write_bytes(changed)
    assert cache.load(key) is None
    assert not binary(TINY, cache=cache).cached
    assert binary(TINY, cache=cache).cached


def test_parallel_writers_leave_one_whole_entry(tmp_path: Path) -> None:
    cache, built = Cache(tmp_path), binary(TINY)
    seen: list[bool] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            if (tmp_path / f"{built.key}.evobin").exists():
                seen.append(cache.load(built.key) is not None)

    reader = threading.Thread(target=read)
    reader.start()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: cache.store(built), range(200)))
    stop.set()
    reader.join()
    assert all(seen)
    assert [path.name for path in tmp_path.iterdir()] == [f"{built.key}.evobin"]


def test_unwritable_cache_does_not_fail_the_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "file"))
    assert isinstance(compile_source(TINY, name="k.cu", macros={}), Binary)
    monkeypatch.setenv("EVO_CACHE", "/proc/nowhere")
    assert isinstance(compile_source(TINY, name="k.cu", macros={}), Binary)


def test_default_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    assert default_cache().folder == tmp_path / "compile"


def test_code_hash_ignores_names_comments_and_lines() -> None:
    plain = binary(HALF)
    renamed = binary("// a comment\n\n" + HALF.replace(" add(", " sum(").replace("scale", "factor"))
    other = binary(HALF.replace("i % 32", "i % 16"))
    assert plain.code_hash == renamed.code_hash
    assert plain.code_hash != other.code_hash


@pytest.mark.parametrize("arch", ["sm_89", "compute_89"])
def test_lines_that_moved_leave_the_code_hash(arch: str) -> None:
    moved = "\n\n// a comment\n" + HALF.replace(";", ";\n\n")
    assert binary(HALF, arch=arch).code_hash == binary(moved, arch=arch).code_hash
    other = binary(HALF.replace("i % 32", "i % 16"), arch=arch)
    assert binary(HALF, arch=arch).code_hash != other.code_hash


def test_a_refused_text_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import evo.cuda.compile

    cache = Cache(tmp_path)
    broken = TINY.replace("1.0f", "nowhere")
    first = failure(broken, cache=cache)
    asked: list[object] = []
    monkeypatch.setattr(evo.cuda.compile, "shared_pool", lambda: asked.append(1))
    again = failure(broken, cache=cache, name="another.cu")
    assert asked == []
    assert again.reason == first.reason.replace("k.cu", "another.cu")
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-3])
    monkeypatch.undo()
    assert failure(broken, cache=cache) == first  # a damaged entry is a miss


def test_only_complaints_that_the_compiler_would_repeat_are_kept(tmp_path: Path) -> None:
    assert failure(BOMB, cache=Cache(tmp_path), time_limit_s=0.3).status is Status.TIMED_OUT
    assert list(tmp_path.iterdir()) == []


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    built = binary(TINY)
    size = 0
    for number in range(10):
        Cache(tmp_path).store(replace(built, key=f"{number:064x}"))
        path = tmp_path / f"{number:064x}.evobin"
        size = path.stat().st_size
        os.utime(path, (number, number))
    (tmp_path / ".writing-left").write_bytes(b"x")
    os.utime(tmp_path / ".writing-left", (0, 0))
    cache = Cache(tmp_path, limit_bytes=6 * size)
    assert cache.load(f"{0:064x}") is not None  # used now, so it is the newest
    assert cache.trim() <= 6 * size
    left = sorted(int(path.stem, 16) for path in tmp_path.iterdir())
    assert left == [0, 7, 8, 9]
    assert cache.trim() == 4 * size
    assert Cache(None).trim() == 0


def test_the_limit_of_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    assert default_cache().limit_bytes == 2 * 2**30
    monkeypatch.setenv("EVO_CACHE_LIMIT_MB", "300")
    assert default_cache().limit_bytes == 300 * 2**20


def test_code_hash_covers_constant_tables() -> None:
    text = "__constant__ float table[2] = {1.0f, 2.0f};\n" + TINY.replace("1.0f", "table[threadIdx.x]")
    assert binary(text).code_hash != binary(text.replace("2.0f}", "3.0f}")).code_hash


def test_code_hash_wants_a_cubin() -> None:
    with pytest.raises(ValueError, match="ELF"):
        code_hash(b"not an image at all")


def test_an_architecture_or_macro_that_nvrtc_cannot_take_is_refused() -> None:
    with pytest.raises(UsageError):
        build(TINY, arch="rtx")
    with pytest.raises(UsageError):
        build(TINY, arch="sm_10")
    with pytest.raises(UsageError):
        build(TINY, macros={"D": '"x"'})


def test_version_names_the_compiler() -> None:
    assert toolkit_version().startswith("nvrtc 1")


def test_import_loads_no_cuda() -> None:
    script = (
        "import sys, evo.cuda.compile; heavy = ('cuda', 'numpy', 'torch')\n"
        "print([m for m in sys.modules if m.split('.')[0] in heavy])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_busy_machine_is_not_on_the_compilers_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from evo.spec import processor_wait

    class Starved:
        """A process that had no processor for a minute."""

        def __init__(self, _: int) -> None:
            pass

        def seconds(self) -> float:
            return 60.0

    asked = {"cache": Cache(tmp_path), "time_limit_s": 0.001}  # NVRTC takes longer over any text
    monkeypatch.setattr(processor_wait, "ProcessorWait", Starved)
    assert binary(TINY, **asked).cubin
    monkeypatch.undo()
    assert failure(f"{TINY}\n", **asked).status is Status.TIMED_OUT
