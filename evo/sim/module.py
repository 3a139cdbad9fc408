"""Modules and launches: PTX text to machine code, argument checks, running a grid, collecting faults and counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evo.files import CacheFolder
from evo.results import Fault, FaultKind
from evo.results.coverage import Coverage
from evo.sim import jit, module_cache
from evo.sim.abi import PARAM_WINDOW
from evo.sim.counters import Counters
from evo.sim.coverage import coverage_of
from evo.sim.errors import NamedDefects, PtxError
from evo.sim.fault_records import decode_faults, notes_of
from evo.sim.faults import Triple
from evo.sim.launch_context import LaunchContext
from evo.sim.lower.isa import TABLE
from evo.sim.memory import Memory, SimBuffer
from evo.sim.parallel import run_alone, run_parts, worth
from evo.sim.ptx.ast import PtxFunction, PtxParam
from evo.sim.ptx.parser import parse
from evo.sim.translate import Translation, align, translate
from evo.spec.chips import CHIPS, Chip

MAX_LOCAL = 512 * 1024  # bytes of local memory of one thread, on every chip so far
MAX_BLOCKS = 1 << 24  # of one launch: beyond, the list of blocks alone fills the memory
_LARGEST = 1 << 24  # bytes of module variables worth keeping on disk
DEFAULT_BUDGET = 4_000_000_000  # warp instructions of a launch
# ... and of a block: so many, some for each word of memory that it may work through, and for each of its warps.
_BLOCK_BUDGET, _PER_WORD, _PER_WARP = 50_000_000, 8, 100_000
_PER_WAITING_WARP = 400_000  # blocks that wait for one another are not bounded one by one, but together
Arg = SimBuffer | np.generic | int | float


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What a launch did. With faults, the outputs are whatever was written before the first one."""

    faults: tuple[Fault, ...]
    counters: Counters
    blocks_run: int
    blocks_total: int
    text: str = ""  # what printf and failed assertions wrote
    cpu_s: tuple[float, ...] = ()  # processor time of the blocks, by thread
    coverage: Coverage | None = None  # if the module was loaded with it
    notes: tuple[str, ...] = ()  # what is no fault, but worth a look


class Module:
    """Loaded PTX. Kernels are translated when the module is loaded, compiled when first launched."""

    def __init__(
        self,
        translation: Translation,
        ptx: str,
        chip: Chip,
        opt_level: int,
        cache: CacheFolder,
        *,
        coverage: bool = False,
        counts_only: bool = False,
    ) -> None:
        self.ptx, self.chip, self.opt_level, self.cache = ptx, chip, opt_level, cache
        self.coverage, self.counts_only = coverage, counts_only
        self.kernels = translation.kernels
        self.memory, self.constants = translation.memory, translation.constants
        self._block_s: dict[tuple[str, Triple], float] = {}  # processor time of a block, as of the last launch

    def static_shared_bytes(self, kernel: str) -> int:
        return self.kernels[kernel].shared

    def depends_on_order(self, kernel: str) -> bool:
        """May what a block does depend on which blocks ran before it?"""
        return not self.kernels[kernel].kernel.parallel

    def waits(self, kernel: str) -> bool:
        """May a block of it wait for another one?"""
        return self.kernels[kernel].kernel.waits

    def compile(self, kernel: str) -> jit.CompiledKernel:
        """Machine code of a kernel; the first call takes the time."""
        loaded = self.kernels[kernel]

        def texts() -> list[str]:
            # Without texts the module came from disk but its machine code is gone.
            if loaded.texts:
                return loaded.texts
            again = _translated(self.ptx, coverage=self.coverage, counts_only=self.counts_only)
            return again.kernels[kernel].texts

        loaded.keys = loaded.keys or jit.object_keys(loaded.texts, self.opt_level)
        return jit.link(loaded.keys, texts, self.opt_level, self.cache)

    def state(self) -> Translation:
        """What a launch needs, for the disk; the code is left out, its objects are kept by their own keys."""
        kernels = {
            name: replace(one, texts=[], keys=one.keys or jit.object_keys(one.texts, self.opt_level))
            for name, one in self.kernels.items()
        }
        return Translation(kernels, self.memory, self.constants)

    def launch(
        self,
        kernel: str,
        *,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Arg],
        memory: Memory,
        shared_bytes: int = 0,
        blocks: Sequence[int] | None = None,
        race: bool = True,
        budget: int | None = None,
        threads: int = 1,
        backwards: bool = False,
        fair: bool = False,
        registers: int = 32,
    ) -> LaunchResult:
        """Run a kernel over a grid, or over the listed linear block ids of it.

        A launch that the chip could not start is a fault of kind `launch`; wrong arguments are a ValueError.
        budget: warp instructions of the launch. Without one those of each block are bounded too, by what it may touch.
        threads: blocks run in so many threads where that cannot change anything (else in one).
        backwards: the warps of a block, and the lanes of an atomic, take turns from the last to the first.
        fair: blocks that may wait for one another take short turns, so that the counters tell how many work at a time;
        backwards as well, all blocks that may meet, so that what they take from a counter is not all for the first.
        registers: of a thread, which decide how many such blocks the chip holds.
        """
        if kernel not in self.kernels:
            raise ValueError(f"no kernel {kernel!r} (the module has {', '.join(self.kernels) or 'none'})")
        loaded, grid3, block3 = self.kernels[kernel], _three(grid), _three(block)
        params = pack_arguments(loaded.function.params, args, kernel)
        total = int(np.prod(grid3, dtype=object))
        static, local, counters = loaded.shared, loaded.local, Counters(loaded.kernel)
        if unfit := self._unfit(loaded.function, grid3, block3, static + shared_bytes, total if blocks is None else 0):
            return LaunchResult((unfit,), counters, 0, total)
        ids = _listed(blocks, total)
        buffers = [*memory.buffers, *self.memory.buffers, *self.constants.buffers]
        buffers += [_readable(params)] if loaded.kernel.points_at_params else []
        limits = _budgets(buffers, block3, ids.size, waits=loaded.kernel.waits)
        each, allowed = limits if budget is None else (0, budget)

        def make(ticket: NDArray[np.uint8] | None = None) -> LaunchContext:
            return LaunchContext(
                loaded.kernel, self.chip, buffers, grid3, block3, ids, params, local=local, race=race, ticket=ticket,
                shared=static + shared_bytes, dynamic=shared_bytes, budgets=(allowed, each), registers=registers,
                backwards=backwards, fair=fair,
            )  # fmt: skip

        compiled = self.compile(kernel)
        parts = worth(threads, ids.size, self._block_s.get((kernel, block3))) if loaded.kernel.parallel else 1
        if parts == 1 or (context := run_parts(compiled, make, parts, buffers)) is None:
            run_alone(compiled, context := make())
        self._block_s[kernel, block3] = sum(context.cpu_s) / max(1, ids.size)
        context.collect(counters)
        faults = decode_faults(context, loaded.kernel, block3)
        seen = coverage_of(loaded.kernel, context) if self.coverage else None
        done = int(context.field("blocks_done"))
        result = LaunchResult(faults, counters, done, total, context.text(), context.cpu_s, seen, notes_of(context))
        context.release()
        return result

    def _unfit(self, function: PtxFunction, grid: Triple, block: Triple, shared: int, blocks: int) -> Fault | None:
        """Why this launch cannot be run here."""
        kind, local = FaultKind.LAUNCH, self.kernels[function.name].local
        problem = self._refused(function, grid, block, shared)
        if local > MAX_LOCAL:
            kind = FaultKind.STACK_OVERFLOW
            problem = f"{local} bytes of local memory per thread are more than the hardware has ({MAX_LOCAL})"
        elif not problem and blocks > MAX_BLOCKS:
            kind, problem = FaultKind.BUDGET, f"{blocks} blocks are more than any budget allows; list the blocks to run"
        return Fault(kind=kind, kernel=function.name, message=problem) if problem else None

    def _refused(self, function: PtxFunction, grid: Triple, block: Triple, shared: int) -> str:
        chip = self.chip
        threads = block[0] * block[1] * block[2]
        if shared < self.static_shared_bytes(function.name):
            return f"{shared - self.static_shared_bytes(function.name)} bytes of dynamic shared memory"
        if min(*grid, *block) < 1:
            return f"empty launch: grid {grid}, block {block}"
        if threads > chip.threads_per_block or block[0] > 1024 or block[1] > 1024 or block[2] > 64:
            return f"a block of {block} threads is more than {chip.name} allows ({chip.threads_per_block})"
        if grid[0] > 2**31 - 1 or grid[1] > 65535 or grid[2] > 65535:
            return f"a grid of {grid} blocks is larger than the hardware allows"
        if shared > chip.shared_per_block_optin:
            most = chip.shared_per_block_optin
            return f"{shared} bytes of shared memory per block are more than {chip.name} has ({most})"
        limit = function.max_threads
        most = limit[0] * limit[1] * limit[2] if limit else threads
        if threads > most:
            return f"{threads} threads per block are more than the kernel's launch bounds ({most})"
        if limit and function.exact_threads and block != limit:
            return f"the kernel requires blocks of {limit} threads, not {block}"
        return ""


def _listed(blocks: Sequence[int] | None, total: int) -> NDArray[np.int64]:
    ids = np.arange(total, dtype=np.int64) if blocks is None else np.asarray(blocks, np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= total):
        raise ValueError(f"block ids must lie in 0..{total - 1}")
    return ids


def _budgets(buffers: Sequence[SimBuffer], block: Triple, blocks: int, *, waits: bool) -> tuple[int, int]:
    """Warp instructions that a block, and the launch, may execute before a loop counts as endless."""
    words, warps = sum(buffer.size_bytes for buffer in buffers) // 4, -(-block[0] * block[1] * block[2] // 32)
    least = _BLOCK_BUDGET + _PER_WORD * words
    together = least + _PER_WAITING_WARP * warps * blocks if waits else DEFAULT_BUDGET
    return least + _PER_WARP * warps, min(together, DEFAULT_BUDGET)


def _readable(params: NDArray[np.uint8]) -> SimBuffer:
    """The parameters of a launch as memory that generic addresses reach."""
    memory = Memory(PARAM_WINDOW)
    buffer = memory.allocate(max(1, params.size), "of the parameters", writable=False)
    memory.write(buffer, params)
    return buffer


def _three(size: tuple[int, ...]) -> Triple:
    x, y, z = (*[int(v) for v in size], 1, 1)[:3]
    return x, y, z


_KINDS = {"f32": np.float32, "f64": np.float64}


def pack_arguments(params: Sequence[PtxParam], args: Sequence[Arg], kernel: str) -> NDArray[np.uint8]:
    """The parameter block of a launch. Raises ValueError when count or sizes differ from the kernel's."""
    if len(args) != len(params):
        names = ", ".join(f"{p.name}: {p.type}" for p in params)
        raise ValueError(f"{kernel} takes {len(params)} arguments ({names}), got {len(args)}")
    out = bytearray()
    for index, (param, arg) in enumerate(zip(params, args, strict=True)):
        raw = _raw(param, arg)
        if len(raw) != param.size:
            raise ValueError(
                f"{kernel}: argument {index} ({param.name}) has {param.size} bytes, got {len(raw)}: {arg!r}"
            )
        out += bytes(align(len(out), param.align) - len(out)) + raw
    return np.frombuffer(bytes(out), np.uint8)


def _raw(param: PtxParam, arg: Arg) -> bytes:
    if isinstance(arg, SimBuffer):
        return arg.address.to_bytes(8, "little")
    if isinstance(arg, np.generic | np.ndarray):
        if param.type in ("f32", "f64") and arg.dtype.kind in "iub":
            raise ValueError(f"parameter {param.name} is {param.type}, got {arg.dtype}")
        return bytes(np.asarray(arg).tobytes())
    if isinstance(arg, int | float) and param.type != "bytes":
        if param.type in _KINDS:
            return bytes(np.asarray(arg, _KINDS[param.type]).tobytes())
        if isinstance(arg, int):
            return (arg & ((1 << 8 * param.size) - 1)).to_bytes(param.size, "little")
    raise ValueError(f"parameter {param.name} ({param.type}) cannot take {arg!r}")


def load(
    ptx: str,
    chip: Chip | None = None,
    opt_level: int = 1,
    cache: Path | None = None,
    *,
    coverage: bool = False,
    counts_only: bool = False,
) -> Module:
    """Parse and translate PTX. Raises UnsupportedInstruction or PtxError before anything runs.

    A HarnessFault is a defect of the simulator and says at which instruction it shows.

    cache: folder for machine code; by default `sim` in the user's cache (docs/design.md). coverage: every launch says
    which outcomes of conditions it has seen; the code is compiled apart from the one without. counts_only: what it
    computes only to store it is left out, so that it is compiled in a fraction of the time and counts the same.
    """
    if opt_level not in (0, 1, 2, 3):
        raise ValueError(f"opt_level is 0 to 3, got {opt_level}")
    chip = chip or CHIPS["l4"]
    kind = {"coverage": coverage, "counts_only": counts_only}
    folder, name = jit.cache_of(cache), module_cache.name_of(ptx, chip, opt_level, **kind)
    kept = module_cache.fetch(folder, name)
    if isinstance(kept, Translation):
        return Module(kept, ptx, chip, opt_level, folder, **kind)
    module = Module(_translated(ptx, **kind), ptx, chip, opt_level, folder, **kind)
    if sum(b.size_bytes for b in (*module.memory.buffers, *module.constants.buffers)) <= _LARGEST:
        module_cache.keep(folder, name, module.state())
    return module


def _translated(ptx: str, *, coverage: bool, counts_only: bool) -> Translation:
    if not ptx.strip("\0 \t\r\n"):
        raise PtxError("the text is empty: there is no PTX to load")
    with NamedDefects():
        program = parse(ptx, TABLE)
        if not program.target:
            raise PtxError("the text has no .target: it is no PTX")
        return translate(program, coverage=coverage, counts_only=counts_only)
