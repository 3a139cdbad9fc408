"""LLVM IR text -> machine code in this process, cached by content in memory and on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_void_p
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding

from evo.files import CacheFolder, cache_folder, cache_limit
from evo.sim.errors import defect
from evo.spec.recent_cache import RecentCache

LIMIT_BYTES = 4 * 2**30  # of the cache: code of some 20,000 kernels
# Characters of IR from which registers are allocated the quick way: a kernel of this size is compiled for seconds and
# run for less, so a third of the first is worth twice the second. Not without end, since its stack frame is larger too.
_QUICK = range(500_000, 30_000_000)
_LOCK = threading.RLock()
_READY = False
# A run looks at hundreds of kernels, and comes back to few of them. What is not held any more is linked anew.
_LINKED: RecentCache[CompiledKernel] = RecentCache(64 << 20)  # by their objects, whose code is some of what they take
_OBJECTS: RecentCache[bytes] = RecentCache(64 << 20)

_PROFILE = """!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{!"branch_weights", i32 1, i32 2000}
"""


class CompiledKernel:
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


@functools.cache
def host_features() -> str:
    """The processor's features, with full-width vectors where it has AVX-512."""
    return str(binding.get_host_cpu_features().flatten())


def cache_of(folder: Path | None) -> CacheFolder:
    """Where machine code and translated modules are kept between processes; by default in the user's cache."""
    return CacheFolder(folder or cache_folder("sim"), cache_limit(LIMIT_BYTES))


@functools.cache
def host_key() -> str:
    parts = (llvmlite.__version__, str(binding.llvm_version_info), binding.get_host_cpu_name(), host_features())
    return "\0".join(parts)


def _key(text: str, opt_level: int) -> str:
    return hashlib.sha256("\0".join((host_key(), str(opt_level), text)).encode()).hexdigest()


def object_keys(texts: Sequence[str], opt_level: int) -> list[str]:
    """What the objects of these IR modules are stored under."""
    return [_key(text, level) for text, level in zip(texts, _levels(len(texts), opt_level), strict=True)]


def _levels(count: int, opt_level: int) -> list[int]:
    """The level of each module: routines, which kernels share, have level 1 even if the kernel, the last, has 0."""
    return [*[max(opt_level, 1)] * (count - 1), opt_level]


def link(keys: Sequence[str], texts: Callable[[], Sequence[str]], opt_level: int, cache: CacheFolder) -> CompiledKernel:
    """Machine code of the modules with these keys, the last of which defines `launch`; texts only if any is missing."""
    with _LOCK:
        _initialise()
        name = keys[-1]
        if (linked := _LINKED.get(name)) is None:
            engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(opt_level))
            objects = {key: found for key in keys if (found := _known(key, cache)) is not None}
            if len(objects) < len(set(keys)):
                for key, text, level in zip(keys, texts(), _levels(len(keys), opt_level), strict=True):
                    if key not in objects:
                        objects[key] = _OBJECTS.put(key, made := _translate(text, level), len(made))
                        cache.keep(_name(key), made)
            for key in keys:
                engine.add_object_file(binding.ObjectFileRef.from_data(objects[key]))
            engine.finalize_object()
            linked = CompiledKernel(engine, engine.get_function_address("launch"))
            _LINKED.put(name, linked, sum(map(len, objects.values())))
        return linked


def forget() -> None:
    """Hold nothing in memory any more; the disk keeps what it has."""
    _LINKED.clear()
    _OBJECTS.clear()


def _name(key: str) -> str:
    return f"{key[:2]}/{key}.o"


def _known(key: str, cache: CacheFolder) -> bytes | None:
    """An object from memory or from disk."""
    found = _OBJECTS.get(key)
    if found is None and (data := cache.read(_name(key))) is not None:
        found = _OBJECTS.put(key, data, len(data))
    return found


def _translate(text: str, opt_level: int) -> bytes:
    try:
        module = binding.parse_assembly(text + _PROFILE)
        module.verify()  # what is not well typed would end the process in a pass
    except RuntimeError as error:  # what was generated is not well formed
        raise defect(error) from error
    machine, quick = _emitter(opt_level), opt_level == 1 and len(text) in _QUICK
    optimise(module, machine, opt_level, combine=opt_level > 0 and not quick)
    return bytes((_emitter(0) if quick else machine).emit_object(module))


@functools.cache
def _emitter(opt_level: int) -> Any:
    """One for all modules: to read the features of the processor takes as long as a small routine."""
    return _machine(opt_level)


def _machine(opt_level: int) -> Any:
    target = binding.Target.from_default_triple()
    name, features = binding.get_host_cpu_name(), host_features()
    return target.create_target_machine(
        cpu=name, features=features, opt=min(opt_level, 2), jit=True, codemodel="jitdefault"
    )


def optimise(module: Any, machine: Any, opt_level: int, *, combine: bool = True) -> None:
    """A short pipeline: promotion, local clean-up, dead code. The long ones cost more than they gain here.

    combine: what takes the square of the number of blocks: 12.7 s of 4,000 branches, for 1 % less code.
    """
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
    if combine:
        passes.add_instruction_combine_pass()
    if opt_level:
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
    passes.run(module, builder)
