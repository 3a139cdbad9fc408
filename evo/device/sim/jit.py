"""LLVM IR text -> machine code in this process, cached by content in memory and on disk."""

from __future__ import annotations

import hashlib
import os
import threading
from ctypes import CFUNCTYPE, c_void_p
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding

_LOCK = threading.RLock()
_READY = False
_CACHE: dict[str, Compiled] = {}

_PROFILE = """!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{!"branch_weights", i32 1, i32 2000}
"""


class Compiled:
    """Machine code of one kernel; `launch(context address)` runs it and releases the GIL meanwhile."""

    def __init__(self, engine: Any, address: int) -> None:
        self.engine = engine
        self.launch = CFUNCTYPE(None, c_void_p)(address)


def _initialise() -> None:
    global _READY  # noqa: PLW0603 LLVM is initialised once per process
    if not _READY:
        # Newer llvmlite initialises itself and refuses to be asked.
        for name in ("initialize",):
            try:
                getattr(binding, name)()
            except (RuntimeError, AttributeError):
                pass
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        _READY = True


def host_features() -> str:
    """The processor's features, with full-width vectors where it has AVX-512."""
    return str(binding.get_host_cpu_features().flatten())


def cache_directory() -> Path | None:
    """Where machine code is kept between processes: $EVO_CACHE, else ~/.cache/evo. Empty $EVO_CACHE: nowhere."""
    chosen = os.environ.get("EVO_CACHE")
    if chosen == "":
        return None
    return (Path(chosen) if chosen else Path.home() / ".cache" / "evo") / "sim"


def key_of(text: str, opt_level: int) -> str:
    parts = (llvmlite.__version__, str(binding.llvm_version_info), binding.get_host_cpu_name(), host_features(), str(opt_level), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def compile_ir(text: str, opt_level: int, directory: Path | None, *, salt: str = "") -> Compiled:
    """Compile a module that defines `launch`. `salt` stands for the text in the cache key when given."""
    with _LOCK:
        _initialise()
        key = key_of(salt or text, opt_level)
        if key not in _CACHE:
            _CACHE[key] = _build(text, opt_level, directory / f"{key}.o" if directory else None)
        return _CACHE[key]


def _machine(opt_level: int) -> Any:
    target = binding.Target.from_default_triple()
    name, features = binding.get_host_cpu_name(), host_features()
    return target.create_target_machine(cpu=name, features=features, opt=min(opt_level, 2), jit=True, codemodel="jitdefault")


def _build(text: str, opt_level: int, path: Path | None) -> Compiled:
    machine = _machine(opt_level)
    stored = _stored(path)
    module = binding.parse_assembly("define void @launch(ptr %c) { ret void }" if stored else text + _PROFILE)
    if not stored:
        optimise(module, machine, opt_level)
    engine = binding.create_mcjit_compiler(module, machine)
    if path is not None:
        engine.set_object_cache(lambda _m, data: _keep(path, data), lambda _m: stored)
    engine.finalize_object()
    return Compiled(engine, engine.get_function_address("launch"))


def optimise(module: Any, machine: Any, opt_level: int) -> None:
    """A short pipeline: promotion, local clean-up, dead code. The long ones cost more than they gain here."""
    options = binding.create_pipeline_tuning_options(speed_level=min(opt_level, 3))
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    if opt_level >= 2:
        builder.getModulePassManager().run(module, builder)
        return
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    if opt_level:
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
    passes.run(module, builder)


def _stored(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError:
        return None


def _keep(path: Path, data: bytes) -> None:
    """Write beside and rename, so that a reader never sees half an object."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        return
