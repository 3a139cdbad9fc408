"""Where the simulator's time goes: a sampled profile over the functions of the generated code (Linux on x86-64).

A signal handler, itself compiled by LLVM, notes the program counter; addresses are matched with the linked functions.
"""

from __future__ import annotations

import bisect
import ctypes
import signal
import sys
from collections import Counter

import numpy as np
from llvmlite import binding
from simulator import CASES, binary, launch

from evo import sim
from evo.sim.runtime import Runtime

HANDLER = """
@where = global ptr null
@count = global i64 0
define void @note(i32 %sig, ptr %info, ptr %context) {
  %place = getelementptr i8, ptr %context, i64 168
  %pc = load i64, ptr %place
  %n = load i64, ptr @count
  %base = load ptr, ptr @where
  %slot = getelementptr i64, ptr %base, i64 %n
  store i64 %pc, ptr %slot
  %more = add i64 %n, 1
  %wrapped = and i64 %more, 1048575
  store i64 %wrapped, ptr @count
  ret void
}
"""


class Action(ctypes.Structure):
    """struct sigaction of glibc."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def sampler() -> tuple[object, np.ndarray, int]:
    target = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(HANDLER), target)
    engine.finalize_object()
    samples = np.zeros(1 << 20, np.uint64)
    ctypes.c_void_p.from_address(engine.get_global_value_address("where")).value = samples.ctypes.data
    restart, siginfo = 0x10000000, 4
    action = Action(engine.get_function_address("note"), (ctypes.c_ulong * 16)(), restart | siginfo, None)
    ctypes.CDLL(None).sigaction(signal.SIGPROF, ctypes.byref(action), None)
    return engine, samples, engine.get_global_value_address("count")


def main() -> None:
    race = "--race" in sys.argv
    modules = {name: sim.load(binary(name)) for name in CASES}
    for name, module in modules.items():
        launch(module, name, race=race)
    keep, samples, counter = sampler()
    for name, module in modules.items():
        kernel = next(iter(module.kernels))
        runtime = Runtime()
        runtime.require({"run_grid", *module.kernels[kernel].kernel.code.needs})
        engine = module.compile(kernel).engine
        starts = sorted((engine.get_function_address(n), n) for n in [*runtime.made, "kernel", "launch"])
        ctypes.c_int64.from_address(counter).value = 0
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        total = sum(launch(module, name, race=race)[0] for _ in range(20))
        signal.setitimer(signal.ITIMER_PROF, 0)
        seen = samples[: ctypes.c_int64.from_address(counter).value]
        found = Counter(_owner(int(pc), starts) for pc in seen)
        print(f"{name}: {total / 20:.3f} s a launch, {len(seen)} samples")
        for owner, count in found.most_common(9):
            print(f"  {100 * count / max(1, len(seen)):5.1f} %  {owner}")
    del keep


def _owner(pc: int, starts: list[tuple[int, str]]) -> str:
    index = bisect.bisect_right(starts, (pc, "~")) - 1
    near = index >= 0 and pc - starts[index][0] < 1 << 20
    return starts[index][1] if near else "elsewhere (memory copies, Python, NumPy)"


if __name__ == "__main__":
    main()
