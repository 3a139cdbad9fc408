"""LLVM IR text -> machine code in this process, cached by content in memory and on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from ctypes import CFUNCTYPE, c_void_p
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding

from evo.device.sim.errors import PtxError

_LOCK = threading.RLock()
_READY = False
_CACHE: dict[str, Compiled] = {}
_OBJECTS: dict[str, bytes] = {}

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
        with contextlib.suppress(RuntimeError, AttributeError):
            # Newer llvmlite initialises itself and refuses to be asked.
            binding.initialize()
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


@functools.cache
def _host() -> str:
    parts = (llvmlite.__version__, str(binding.llvm_version_info), binding.get_host_cpu_name(), host_features())
    return "\0".join(parts)


def _key(text: str, opt_level: int) -> str:
    return hashlib.sha256("\0".join((_host(), str(opt_level), text)).encode()).hexdigest()


def compile_ir(text: str, support: list[str], opt_level: int, directory: Path | None) -> Compiled:
    """Machine code of a module that defines `launch`, linked with the support modules that it calls."""
    with _LOCK:
        _initialise()
        key = _key(text, opt_level)
        if key not in _CACHE:
            machine = _machine(opt_level)
            engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
            for each in (*support, text):
                data = _object(each, opt_level, machine, directory)
                engine.add_object_file(binding.ObjectFileRef.from_data(data))
            engine.finalize_object()
            _CACHE[key] = Compiled(engine, engine.get_function_address("launch"))
        return _CACHE[key]


def _object(text: str, opt_level: int, machine: Any, directory: Path | None) -> bytes:
    """The object file of one module: from memory, from disk, or compiled now."""
    key = _key(text, opt_level)
    if key in _OBJECTS:
        return _OBJECTS[key]
    path = directory / key[:2] / f"{key}.o" if directory else None
    data = _stored(path)
    if data is None:
        try:
            module = binding.parse_assembly(text + _PROFILE)
        except RuntimeError as error:
            raise PtxError(f"the generated code was rejected: {error}") from error
        optimise(module, machine, opt_level)
        data = bytes(machine.emit_object(module))
        _keep(path, data)
    _OBJECTS[key] = data
    return data


def _machine(opt_level: int) -> Any:
    target = binding.Target.from_default_triple()
    name, features = binding.get_host_cpu_name(), host_features()
    return target.create_target_machine(
        cpu=name, features=features, opt=min(opt_level, 2), jit=True, codemodel="jitdefault"
    )


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


def _keep(path: Path | None, data: bytes) -> None:
    """Write beside and rename, so that a reader never sees half an object."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        return
