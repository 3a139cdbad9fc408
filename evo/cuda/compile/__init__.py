"""CUDA text -> PTX, machine code and a resource report, with no GPU, driver or toolkit.

A text that does not compile is a returned `Diagnostics`; a missing or broken compiler is a raised `HarnessFault`.
Owns NVRTC, nvJitLink and nvdisasm. Takes an arch, never a device. Importing this loads no CUDA library.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence

from evo.cuda.compile.binary import (
    PRELUDE_NAME,
    SOURCE_NAME,
    Binary,
    Diagnostics,
    code_hash,
    front_end_complaint,
    kernel_reports,
    ptx_hash,
    remarks,
    shown_log,
)
from evo.cuda.compile.cache import Cache, default_cache
from evo.cuda.compile.include_policy import STANDARD_HEADERS, flag_allowed, macro_allowed, refusal
from evo.cuda.compile.machine_code import instruction_mix, known_arch
from evo.cuda.compile.process_pool import shared_pool
from evo.cuda.compile.ptx_assembler import assemble_ahead, assembled
from evo.cuda.compile.toolkit import find_toolkit, toolkit_major, toolkit_version, toolkit_wheels
from evo.errors import Crashed, HarnessFault, TimedOut, UsageError
from evo.results import Status

__all__ = [
    "Binary", "Cache", "Diagnostics", "assemble_ahead", "assembled", "compile_source",
    "default_cache", "flag_allowed", "toolkit_major", "toolkit_version", "toolkit_wheels",
]  # fmt: skip

FORMAT_VERSION = 1  # raise when the same inputs would give another Binary
DEFAULT_TIME_LIMIT_S = 20.0

# NVRTC has no <math.h>. It goes in as a header of its own, so the text keeps its own line numbers.
PRELUDE = """\
#pragma once
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000u)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fffffffu)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000u)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef M_LOG2E
#define M_LOG2E 1.4426950408889634074
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#endif
#ifndef FLT_MIN
#define FLT_MIN 1.175494351e-38F
#endif
#ifndef FLT_EPSILON
#define FLT_EPSILON 1.192092896e-07F
#endif
"""

_ARCH = re.compile(r"(?P<kind>sm|compute)_(?P<number>\d{2,3}[af]?)")
_OUT_OF_MEMORY, _INVALID_OPTION, _COMPILATION, _BUILTINS_MISSING = 1, 5, 6, 7  # nvrtcResult
_NO_MEMORY = "catastrophic error: out of memory"  # of the front end


def compile_source(
    text: str,
    *,
    name: str,
    macros: Mapping[str, int | str],
    flags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    arch: str = "sm_89",
    debug: bool = False,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    cache: Cache | None = None,
) -> Binary | Diagnostics:
    """Compile one text for `sm_NN` (PTX and machine code) or `compute_NN` (PTX only).

    `name` appears in diagnostics only. `headers` are the task's local files by include name. `cache` defaults to the
    user's cache folder; `Cache(None)` turns it off. Of failures, those are cached that the compiler
    would repeat: its complaints about the text, not crashes, time-outs or want of memory.

    Raises: UsageError for an arch or macro that is not one; HarnessFault when the compiler is missing or broken.
    """
    started_s = time.perf_counter()
    if not (match := _ARCH.fullmatch(arch)):
        raise UsageError(f"unknown arch {arch!r}", hint="write it like sm_89, or compute_89 for PTX only")
    for macro, value in macros.items():
        if not macro_allowed(macro, value):
            raise UsageError(f"macro {macro}={value} is not a plain constant", hint="use a name and a number")
    headers = headers or {}
    if problem := refusal(text, name=name, headers=headers, flags=flags):
        return Diagnostics(status=Status.REFUSED, reason=problem.reason, rule=problem.rule)
    cache = cache if cache is not None else default_cache()
    key = _key(text, macros, flags, headers, arch, debug)
    if (found := cache.load(key)) is not None:
        return found
    if (refused := cache.load_refusal(key)) is not None:
        failed = _failure(*refused, name, arch)
        if failed is not None:
            return failed
    options = _options(macros, flags, arch, debug, real=match["kind"] == "sm")
    built = _compile(text, name, {**headers}, options, arch, time_limit_s)
    if isinstance(built, _Refused):
        cache.store_refusal(key, built.result, built.log)
        return built.diagnostics
    if isinstance(built, Diagnostics):
        return built
    binary = dataclasses.replace(built, key=key, macros=dict(macros), elapsed_s=time.perf_counter() - started_s)
    cache.store(binary)
    return binary


@dataclasses.dataclass(frozen=True, slots=True)
class _Refused:
    """A complaint about the text that the compiler will repeat, and what it is read from."""

    diagnostics: Diagnostics
    result: int
    log: str


def _compile(
    text: str, name: str, headers: dict[str, str], options: list[str], arch: str, time_limit_s: float
) -> Binary | Diagnostics | _Refused:
    """Run the compiler in its own process and read what it left; key, macros and time are the caller's."""
    job = {
        "text": text,
        "name": SOURCE_NAME,
        "headers": {**STANDARD_HEADERS, PRELUDE_NAME: PRELUDE, **headers},
        "options": options,
    }
    disassembled = {**job, "nvdisasm": find_toolkit().nvdisasm}
    known = known_arch(arch)
    try:
        answer, cubin = shared_pool().run(job if known else disassembled, time_limit_s)
        if known and cubin and (mix := instruction_mix(cubin, arch)) is not None:
            answer["sass"] = mix
        elif known and cubin:
            answer, cubin = shared_pool().run(disassembled, time_limit_s)
    except TimedOut:
        reason = f"{name}: not compiled within {time_limit_s:g} s"
        return Diagnostics(status=Status.TIMED_OUT, reason=reason, exhausted=True)
    except Crashed as crash:
        return Diagnostics(status=Status.UNCOMPILED, reason=f"{name}: the compiler crashed ({crash})")
    log = str(answer["log"])
    result = int(answer["result"])
    if (failure := _failure(result, log, name, arch)) is not None:
        repeats = result in (0, _COMPILATION) and _NO_MEMORY not in log
        return _Refused(failure, result, log) if repeats else failure
    ptx, kernels = str(answer["ptx"]), kernel_reports(log, answer["sass"])
    return Binary(
        key="",
        arch=arch,
        ptx=ptx,
        cubin=bytes(cubin),  # as it comes from the cache too
        kernels=kernels,
        macros={},
        code_hash=code_hash(cubin) if cubin else ptx_hash(ptx),
        warnings=remarks(log, kernels),
        elapsed_s=0.0,
        cached=False,
    )


def _failure(result: int, log: str, name: str, arch: str) -> Diagnostics | None:
    """What the compiler's result code and log say against the text; None when it is clean."""
    if result == _BUILTINS_MISSING:
        hint = "reinstall nvidia-cuda-nvrtc; its builtins library must be of the same version"
        raise HarnessFault(f"NVRTC cannot use its builtins library: {log.strip()}", hint=hint)
    if result == _INVALID_OPTION and "gpu-architecture" in log:
        raise UsageError(f"{toolkit_version()} cannot compile for {arch}", hint="see `evo doctor` for what it can do")
    complaint = front_end_complaint(log, name)
    if result == 0 and complaint is None:
        return None
    exhausted = result == _OUT_OF_MEMORY or (result == _COMPILATION and _NO_MEMORY in log)
    if exhausted:
        complaint = f"{name}: the compiler ran out of memory"
    elif complaint is None:
        lines = [line for line in log.splitlines() if line.strip()]
        complaint = f"{name}: {lines[0].strip() if lines else f'nvrtc result {result}'}"
    return Diagnostics(status=Status.UNCOMPILED, reason=complaint, log=shown_log(log, name), exhausted=exhausted)


def _options(macros: Mapping[str, int | str], flags: Sequence[str], arch: str, debug: bool, *, real: bool) -> list[str]:
    """The one place that says how a text is compiled, for release and debug."""
    options = [f"--gpu-architecture={arch}", "--std=c++17", f"--pre-include={PRELUDE_NAME}"]
    options += [f"-I{folder}" for folder in find_toolkit().include_folders]
    # -G implies line information, and ptxas warns when it is asked for twice.
    options += ["-G"] if debug else ["-lineinfo", "-DNDEBUG"]
    if real:
        options.append("--ptxas-options=-v")
    options += [f"-D{name}={value}" for name, value in macros.items()]
    return [*options, *flags]


def _key(
    text: str, macros: Mapping[str, int | str], flags: Sequence[str], headers: Mapping[str, str], arch: str, debug: bool
) -> str:
    inputs = [
        FORMAT_VERSION,
        find_toolkit().fingerprint,
        arch,
        debug,
        list(flags),
        sorted((name, str(value)) for name, value in macros.items()),
        sorted(headers.items()),
        [PRELUDE, STANDARD_HEADERS],
        text,
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
