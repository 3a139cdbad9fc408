"""The programs that a device runs, and their results. Two kinds stand behind it: `gpu` (CuPy), `sim` (PTX on the CPU).

A Program is one variant at one case: binaries, bound launches, buffers. Everything here is picklable, because programs
run in a child process that can be killed (`evo.device.remote_device`). `evo.device.protocol` says what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evo.cuda.compile import Binary
from evo.device.output_extremes import Extreme, Extremes
from evo.errors import DeviceMissing, UsageError, known_words
from evo.results import CaseBench, Fault
from evo.results.coverage import Coverage
from evo.spec.chips import CHIPS, chip
from evo.spec.element_types import DTYPES
from evo.spec.launch import Launch, Workspace
from evo.spec.plugins import plugins

Array = NDArray[np.generic]
Arrays = dict[str, Array]

POISON_NAN = 0xFF  # every float16, bfloat16, float32 and float64 of these bytes is NaN
POISON_LARGE = 0x7B  # a large finite number in each of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One kernel argument: a buffer by name, or a scalar by dtype and value."""

    name: str
    dtype: str
    value: int | float | None = None  # None: the buffer called `name`

    @property
    def is_buffer(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLaunch:
    launch: Launch
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """An output tensor at one case. dims in elements, row-major.

    init: what it holds before the first launch: `poison`, `zero`, or `input`, the values of the input of its name.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    init: str = "poison"

    @property
    def size_bytes(self) -> int:
        return math.prod(self.dims) * DTYPES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One variant at one case: what to load, and the launches that are one timed sequence."""

    variant: str
    case: str
    binary: Binary
    launches: tuple[BoundLaunch, ...]
    outputs: tuple[Buffer, ...]
    scratch: tuple[Workspace, ...]
    flop: float | None = None
    bytes: float | None = None

    @property
    def blocks(self) -> int:
        """Of its largest launch."""
        return max(bound.launch.blocks for bound in self.launches)


def place_of(program: Program, name: str) -> str:
    """The buffer that an input's values go to: of a tensor that is changed in place, beside the one that kernels get.

    Each sequence of launches starts with a copy from there.
    """
    return f"{name} at the start" if any(b.name == name and b.init == "input" for b in program.outputs) else name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Run a program `repeats` times on the same inputs, outputs poisoned anew each time.

    offset_bytes shifts every buffer off its 256-byte alignment (a multiple of 16). For the simulator: blocks limits a
    run to a sample of that many blocks per launch, check_races switches the race checker, and budget is the number of
    warp instructions that a launch may execute. draw: seeds the sample.
    first_whole: all launches but the last run in full, so that the sampled last one reads complete inputs. backwards:
    the simulator starts blocks in falling order, or those of a sample in an order by `draw`, and the last warp of each
    first, which changes results that depend on the order of atomics. coverage: the simulator also reports the outcomes
    of conditions. lines: and counts launches by source line. filled: bytes of the buffers that their inputs fill again
    and again; only what is touched of them takes memory. shifted: of the simulator's buffers, how many bytes some begin
    behind where they else would.
    """

    program: Program
    inputs: Arrays
    poison: int = POISON_NAN
    offset_bytes: int = 0
    shifted: Mapping[str, int] = field(default_factory=dict)
    repeats: int = 1
    check_races: bool = True
    blocks: int | None = None
    budget: int | None = None
    draw: int | None = None
    first_whole: bool = True
    backwards: bool = False
    coverage: bool = False
    lines: bool = False
    filled: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounters:
    """What one launch of a program counted on the simulator, in all and, if asked for, by source line (0: unknown)."""

    kernel: str
    totals: dict[str, int]
    by_line: dict[int, dict[str, int]]
    blocks_run: int
    blocks_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What one RunRequest left behind. A fault ends the run: outputs are then those of the repeats before it."""

    outputs: tuple[Arrays, ...]
    faults: tuple[Fault, ...] = ()
    overwritten: tuple[str, ...] = ()  # inputs that changed
    broken_guards: tuple[str, ...] = ()  # buffers written past their ends
    counters: dict[str, int] = field(default_factory=dict)
    launches: tuple[LaunchCounters, ...] = ()  # of the last repeat, in order
    held_s: float | None = None  # how long the GPU's lock was held for it
    coverage: Coverage | None = None  # of all repeats and launches, if it was asked for
    # Of each launch, on a simulator: what its sums of floats by atomics came to, as a number.
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCase:
    """One bench case of one variant, with the inputs to time it on."""

    program: Program
    inputs: Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """Run `blocks` blocks of a bench case, drawn by the seed `draw`, or all of them (None).

    budget: warp instructions that a launch may execute; None: the usual number. filled and check_races: as in
    RunRequest. only_changed: of an output that is changed in place, only what holds another value than before counts as
    written; otherwise all of it. first_whole: as in RunRequest.
    """

    case: BenchCase
    draw: int
    blocks: int | None = None
    budget: int | None = None
    filled: Mapping[str, int] = field(default_factory=dict)
    check_races: bool = True
    only_changed: bool = False
    first_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """The result of a SampleRequest: a fault, or a modelled time (`row`) and what the blocks wrote.

    whole: all blocks ran, or others would not change the fault.
    places: per output, the flat indices of the elements that were written, in rising order; values: theirs.
    share: of the output that got least, over what the blocks that ran were due.
    doubtful: these blocks may not stand for the others, or all of them take little time.
    work: warp instructions that all blocks of all launches would execute.
    blocks: how many the last launch has. atomics: by threads, of the blocks that ran.
    """

    whole: bool
    fault: Fault | None = None
    row: CaseBench | None = None
    places: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    values: Arrays = field(default_factory=dict)
    share: float = 0.0
    doubtful: bool = False
    work: float = 0.0
    blocks: int = 0
    atomics: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRequest:
    """Which outcomes the conditions of a program's launch of that number have at some sizes, run without its data.

    parameters: by number, one value a size or one for all. grid, block: three rows. seconds: when to stop.
    wanted: a point, an outcome, and how many sizes that have it are enough to stop before; None for all sizes.
    """

    program: Program
    launch: int
    parameters: Mapping[int, NDArray[np.generic]]
    grid: NDArray[np.int64]
    block: NDArray[np.int64]
    seconds: float
    wanted: tuple[int, bool, int] | None = None

    @property
    def pointers(self) -> frozenset[int]:
        """The parameters that are addresses of buffers."""
        arguments = self.program.launches[self.launch].arguments
        return frozenset(number for number, argument in enumerate(arguments) if argument.is_buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremesRequest:
    """Run a bench case for its numbers alone: `blocks` blocks, drawn by the seed `draw`, or all (None).

    A GPU runs all blocks in any case, without a budget.
    groups: of each place along the outputs' first axis, which have the same inputs, from 0; -1 leaves a place out;
    None: all differ. find: a value of an earlier answer, whose place in the output is asked for instead.
    """

    case: BenchCase
    draw: int
    blocks: int | None = None
    budget: int | None = None
    groups: NDArray[np.int64] | None = None
    find: Extreme | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputExtremes:
    """What an ExtremesRequest left behind: a fault, or the extremes of each output.

    whole: all blocks ran. unwritten: an output of which a whole grid left elements out: its name, the flat index of the
    first one, how many. short: in words, that blocks write less of an output than they are due, though all of them
    write alike. share: of the output that got least, over what the blocks that ran were due. place: flat index of the
    value that was to be found. atomics: by threads, as all blocks would execute if those that ran stand for them.
    """

    whole: bool
    fault: Fault | None = None
    extremes: dict[str, Extremes] = field(default_factory=dict)
    unwritten: tuple[str, int, int] | None = None
    short: str | None = None
    share: float = 1.0
    place: int | None = None
    atomics: int = 0


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A parsed device: `gpu:0`, `sim:l4`, or the name of a plug-in's device and what follows it."""

    kind: str
    which: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.which}" if self.which else self.kind


def parse_device(text: str) -> DeviceName:
    """Parse `gpu`, `gpu:1`, `sim`, `sim:h200`, `auto`. Raises UsageError for others."""
    kind, _, which = text.partition(":")
    if kind == "auto" and not which:
        return DeviceName("gpu", "0") if gpu_present() else DeviceName("sim", "l4")
    if kind == "gpu" and (which or "0").isdigit():
        return DeviceName("gpu", which or "0")
    if kind == "sim":
        modelled = sorted(row.slug for row in CHIPS.values() if not row.missing_for_model)
        if which and which not in CHIPS:
            raise UsageError(f"no chip {which!r} in the table", hint=known_words("simulated chips", which, modelled))
        if which and (absent := CHIPS[which].missing_for_model):
            what = f"times of {which} cannot be modelled: no source states its {', '.join(absent)}"
            raise UsageError(what, problem="rate-unknown", hint=f"simulated chips: {', '.join(modelled)}")
        return DeviceName("sim", chip(which or "l4").slug)
    if kind in (added := plugins("evo.devices")):
        return DeviceName(kind, which)
    known = ["auto", "gpu", "gpu:N", "sim:CHIP such as sim:l4", *added]
    meant = "gpu" if kind in ("cuda", "nvidia") else text
    raise UsageError(f"unknown device {text!r}", hint=known_words("devices", meant, known))


def plugin_device(name: DeviceName) -> Callable[[DeviceName], object]:
    """The function that makes a plug-in's device. Raises UsageError if there is none of that kind."""
    found = plugins("evo.devices").get(name.kind)
    if not callable(found):
        raise UsageError(
            f"no device of kind {name.kind!r}",
            problem="no-device",
            hint="gpu, sim, or that of a plug-in; see docs/plugins.md",
        )
    return found


def gpu_present() -> bool:
    """True if the NVIDIA driver reports at least one GPU. Loads no CUDA library into this process."""
    return gpu_count() > 0


def gpu_count() -> int:
    """How many GPUs the NVIDIA driver reports. Loads no CUDA library into this process."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            return int(pynvml.nvmlDeviceGetCount())
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # noqa: BLE001 - no driver, no library and no permission all mean: no GPU to use
        return 0


def no_gpu(index: str) -> DeviceMissing:
    return DeviceMissing(
        f"no GPU {index} on this machine", hint="use --device sim:l4, or run `evo doctor` to see what is missing"
    )
