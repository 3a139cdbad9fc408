"""The JSON of the commands that look at tasks, kernels and machines, as types. Loaded when a command needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from evo.analysis.calibration import Calibration
from evo.analysis.roofline import CaseLimits
from evo.analysis.tiles import Rejected, TileCandidate
from evo.audit.redteam import Outcome
from evo.cli.doctor_checks import Finding
from evo.evaluate.library_baselines import CaseBaseline
from evo.interop.adopt import Adopted
from evo.operators.llm.probe import EndpointReport
from evo.results import Rate, Status
from evo.results.codec import ALWAYS, NONEMPTY, Decimals, Serializable, Us, copied
from evo.spec.variant import KnobValue

Share = Annotated[float, Decimals(4)]


# --- limits and baseline --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime(Serializable):
    """A measured time of one case, beside its floor."""

    name: str  # the champion or the library call
    p50_us: Us  # the warm median
    cold_p50_us: Us | None = None  # the median with the L2 cache flushed
    tflop_per_s: Share | None = None  # the task's floating-point operations over the warm median
    floor_fraction: Share | None = None  # the floor over the warm median
    sm_clock_mhz: float | None = None  # the median SM clock while it was measured
    scaled_floor_us: Us | None = None  # the floor at that clock, if it depends on the clock
    scaled_floor_fraction: Share | None = None  # that floor over the warm median


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedCase(CaseLimits):
    """The limits of one case, and what was measured of it."""

    measured: Annotated[tuple[MeasuredTime, ...], ALWAYS] = ()  # champions and library calls


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsOutput(Serializable):
    """`evo limits --json`: lower bounds on the time, and the measured times as a share of them."""

    task: str  # the task
    chip: str  # the chip's short name
    name: str  # the chip's name
    cases: Annotated[tuple[LimitedCase, ...], ALWAYS]  # one row per case
    clock_hz: float  # the clock that the floors of the SMs rest on
    peak_tensor_flop_per_s: float | None = None  # of the tensor cores
    peak_fp32_flop_per_s: float | None = None  # of the fp32 lanes
    sources: Annotated[Mapping[str, str], ALWAYS]  # where the chip's figures come from
    calibration: Calibration | None = None  # rates measured on this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOutput(Serializable):
    """`evo baseline --json`: the library's backends, one by one."""

    task: str  # the task
    device: str  # the GPU, such as `gpu:0`
    chip: str  # the chip's short name
    about: Annotated[Mapping[str, str], ALWAYS]  # what the device says of itself
    cases: Annotated[tuple[CaseBaseline, ...], ALWAYS]  # one row per case


# --- derive ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedKnobs(Serializable):
    """Knob values that a rung cannot take."""

    knobs: Annotated[Mapping[str, int], ALWAYS]  # the values by name
    reason: str  # why it cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRung(Serializable):
    """What the compiler says of a rung with the derived knobs."""

    registers: int  # per thread
    spill_bytes: int  # stored


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRung(Serializable):
    """A rung of the ladder, and the knob values that set it to a candidate."""

    rung: str  # the rung's file
    knobs: Annotated[Mapping[str, int], ALWAYS]  # the values by name
    compiled: CompiledRung | None = None  # with those values
    refused: Annotated[tuple[RefusedKnobs, ...], ALWAYS] = ()  # better candidates that it cannot take


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedRung(Serializable):
    """A rung that no candidate fits."""

    rung: str  # the rung's file
    reason: str  # why none fits


@dataclass(frozen=True, slots=True, kw_only=True)
class DeriveOutput(Serializable):
    """`evo derive --json`: tiles, warps, stages and layouts that follow from the chip."""

    task: str  # the task
    chip: str  # the chip's short name
    case: str  # the case that it was derived for
    chosen: TileCandidate  # the best candidate
    predicted: Annotated[Mapping[str, float], ALWAYS]  # what profilers should show of it, by name
    knobs: Annotated[Mapping[str, Mapping[str, int]], ALWAYS]  # knob values by rung
    rungs: Annotated[tuple[DerivedRung, ...], ALWAYS]  # rungs that take a candidate
    unmatched: Annotated[tuple[UnmatchedRung, ...], ALWAYS]  # rungs that take none
    candidates: Annotated[tuple[TileCandidate, ...], ALWAYS]  # legal ones, best first
    rejected: Annotated[tuple[Rejected, ...], ALWAYS]  # the others
    estimated: Annotated[tuple[str, ...], ALWAYS]  # figures of the chip that no source states
    limits: CaseLimits  # of the case


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLayout(Serializable):
    """One layout that a file declares, and what was found over all of its addresses."""

    name: str  # the array
    line: int  # of the file
    layout: str  # the layout in words
    rows: int  # of the tile
    cols: int  # of the tile
    elements: int  # of the tile
    distinct: int  # addresses
    lost: int  # elements that share an address with another
    out_of_bounds: int  # elements
    largest_offset: int  # in elements
    allocated: int  # elements that there is room for
    chunks: int  # 16-byte pieces of rows
    misaligned: int  # of them
    first_misaligned: Annotated[tuple[str, ...], ALWAYS]  # their addresses, hexadecimal
    conflict_ways: Annotated[Mapping[str, int], ALWAYS]  # the worst bank conflict, by access
    faults: Annotated[tuple[str, ...], ALWAYS]  # why results would be wrong, or the kernel would trap
    slow: Annotated[tuple[str, ...], ALWAYS]  # conflicts that cost time only


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutsOutput(Serializable):
    """`evo derive --check FILE --json`: the layouts of a file."""

    file: str  # the file
    chip: str  # the chip's short name
    case: str  # the case
    sound: bool  # whether no layout is wrong and the launch fits
    layouts: Annotated[tuple[CheckedLayout, ...], ALWAYS]  # those that it declares
    refused: str | None = None  # why the launch does not fit the chip


# --- tune -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedTime(Serializable):
    """One measurement, as T4 files have it."""

    name: str  # `time`
    value: float  # the time
    unit: str  # `microseconds`


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedTrial(Serializable):
    """One configuration and what became of it, as T4 files have it."""

    configuration: Annotated[Mapping[str, KnobValue], ALWAYS]  # knob values by name
    invalidity: str  # `correct`, or how it failed
    measurements: Annotated[tuple[TunedTime, ...], ALWAYS]  # its time
    objectives: Annotated[tuple[str, ...], ALWAYS]  # `time`
    status: Status  # how far it got
    reason: str | None = None  # why it got no further


@dataclass(frozen=True, slots=True, kw_only=True)
class BestConfiguration(Serializable):
    """The fastest configuration."""

    configuration: Annotated[Mapping[str, KnobValue], ALWAYS]  # knob values by name
    time_us: float | None = None  # its time


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOutput(Serializable):
    """`evo tune FILE --json`: the knob space of a kernel file on a device."""

    task: str  # the task
    kernel: str  # the file
    source: str  # the file's variant, its knobs at their first values
    case: Annotated[Mapping[str, Mapping[str, int]], ALWAYS]  # the case's axes, by its name
    device: str  # the chip
    arch: str  # what was compiled for
    loaded: str  # `cubin`, `ptx_jit` or `sim`
    toolkit: str  # the compiler and its version
    harness: str  # evo's version and the hash of the code that makes a result
    timing: Literal["measured", "modelled"]  # of all times in it
    timeunit: str  # `microseconds`
    legal: int  # configurations that can be launched
    trials: Annotated[tuple[TunedTrial, ...], ALWAYS]  # in the order in which they were tried
    best: BestConfiguration | None = None  # absent if none ran


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedSpaceOutput(Serializable):
    """`evo tune --space FILE --json`: a search strategy on recorded results."""

    space: str  # the space
    legal: int  # configurations in it
    failed: int  # of them
    optimum: float  # the best value
    strategy: str  # the search strategy
    budget: int  # evaluations of a run
    seeds: Annotated[tuple[int, ...], ALWAYS]  # one per run
    loss: float  # 1 - mean over the evaluations of optimum / best so far
    losses: Annotated[tuple[float, ...], ALWAYS]  # by run
    curve: Annotated[tuple[float, ...], ALWAYS]  # optimum / best so far, by evaluation
    unit: Annotated[str, NONEMPTY] = ""  # of the optimum
    loss_interval: tuple[float, float] | None = None  # 95 % over the seeds
    within_5_percent: Annotated[tuple[int | None, ...], ALWAYS]  # evaluations to within 5 % of the optimum, by run
    within_1_percent: Annotated[tuple[int | None, ...], ALWAYS]  # evaluations to within 1 %, by run


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSpaceOutput(Serializable):
    """`evo tune --space FILE --json` of a declaration without results."""

    name: str  # the space
    knobs: Annotated[Mapping[str, tuple[bool | int | float | str, ...]], ALWAYS]  # values by knob
    conditions: Annotated[tuple[str, ...], ALWAYS]  # what makes a combination legal
    product: int  # all combinations
    legal: int  # those that the conditions allow


# --- machines and the red team --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOutput(Serializable):
    """`evo doctor --json`: what is here and what is missing."""

    simulator_works: bool  # whether `--device sim:CHIP` can be used
    gpu_works: bool  # whether `--device gpu:0` can be used
    findings: Annotated[tuple[Finding, ...], ALWAYS]  # in the order in which a person would look


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsOutput(Serializable):
    """`evo doctor --llm --json`: what was understood of the endpoint, for each model."""

    endpoints: Annotated[tuple[EndpointReport, ...], ALWAYS]  # in the order in which the models were named


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOutput(Serializable):
    """`evo doctor --calibrate --json`: the rates of a GPU."""

    chip: str  # the chip's short name
    about: Annotated[Mapping[str, str], ALWAYS]  # what the device says of itself
    rates: Annotated[Mapping[str, Rate], ALWAYS]  # what was measured, by name
    datasheet: Annotated[Mapping[str, float], ALWAYS]  # what the chip's row states, by the same names
    file: str  # where it is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class RedteamOutput(Serializable):
    """`evo redteam --json`: the attacks and what became of them."""

    COMPUTED: ClassVar = ("lost",)

    device: str  # where they ran
    attacks: Annotated[tuple[Outcome, ...], ALWAYS]  # one row per attack
    elapsed_s: Annotated[float, Decimals(1)]  # how long it took

    @property
    def lost(self) -> int:
        """How many attacks lost."""
        return sum(outcome.verdict == "lost" for outcome in self.attacks)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionOutput(Serializable):
    """One thing that was read from the file or assumed."""

    what: str  # a tensor, an axis, a scalar ...
    value: str  # what it was taken to be
    why: str  # where that comes from
    option: str  # the option that says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOutput(Serializable):
    """`evo adopt --json`: the task and the variant that were made of a file."""

    task: str  # the task's name
    variant: str  # the variant's file, from the root of the repository
    assumed: Annotated[tuple[AssumptionOutput, ...], ALWAYS] = ()  # in the order of the table
    notes: Annotated[tuple[str, ...], ALWAYS] = ()  # what else a reader should know
    reference: str  # what the outputs are compared with
    unproven: str  # what that reference cannot know

    @classmethod
    def of(cls, found: Adopted, root: Path) -> AdoptOutput:
        return copied(
            cls,
            found,
            task=found.name,
            variant=str(found.variant.relative_to(root)),
            assumed=tuple(copied(AssumptionOutput, row) for row in found.rows),
        )
