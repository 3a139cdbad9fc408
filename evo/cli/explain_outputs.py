"""The JSON of `evo explain`, as types. Loaded when the command needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from evo.analysis.access import (
    Access,
    ArrayTraffic,
    Contraction,
    LaunchAnalysis,
    Loop,
    Opportunity,
    Reduction,
    opportunities_of,
)
from evo.results import Json
from evo.results.codec import ALWAYS, NONEMPTY, Decimals, Serializable, copied

Ratio = Annotated[float, Decimals(3)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionOutput(Serializable):
    """Whether something may be reordered."""

    holds: bool | None = None  # whether it may; absent if that is not known
    why: Annotated[str, NONEMPTY] = ""  # what forbids it


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOutput(Serializable):
    """One loop of a kernel."""

    name: str  # its variable
    line: int  # where it stands
    start: str  # the first value, as a formula
    step: str  # what is added in each turn
    values: tuple[int, ...] | None = None  # the values, if they are no such row
    condition: str  # while it holds
    trip: str | None = None  # the number of turns, if it has a formula
    is_parallel: bool | None = None  # whether the turns may run at once; absent if that is not known
    why: Annotated[str, NONEMPTY] = ""  # what forbids it
    calls: Annotated[tuple[str, ...], NONEMPTY] = ()  # the inlined functions that it stands in

    @classmethod
    def of(cls, analysis: LaunchAnalysis, loop: Loop) -> LoopOutput:
        verdict = analysis.legality.parallel(loop)
        return copied(
            cls,
            loop,
            name=loop.symbol.name,
            start=loop.start.text,
            step=loop.step.text,
            condition=loop.condition.text,
            trip=loop.trip.text if loop.trip is not None else None,
            is_parallel=verdict.holds,
            why=verdict.why,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOutput(Serializable):
    """One place that reads or writes memory."""

    number: int  # as the other parts refer to it
    line: int  # where it stands
    text: str  # as it is written
    mode: str  # read, write or atomic
    bytes: int  # touched by one thread
    array: str | None = None  # the array, if it is known
    route: str  # plain, ldg, cp.async, ldmatrix ...
    offset: str  # of the first byte, as a formula
    subscripts: Annotated[tuple[str, ...], NONEMPTY] = ()  # by dimension
    loops: Annotated[tuple[str, ...], ALWAYS] = ()  # around it, the outer ones first
    guards: Annotated[tuple[str, ...], ALWAYS] = ()  # conditions around it
    executions: float | None = None  # by threads, over the launch
    requests: float | None = None  # by warps, over the launch
    sectors_per_request: Ratio | None = None  # of 32 bytes, in global memory
    stride_bytes: int | None = None  # between neighbouring lanes
    wavefronts: Ratio | None = None  # per request, in shared memory
    blocked: str | None = None  # why the place is not known

    @classmethod
    def of(cls, analysis: LaunchAnalysis, access: Access) -> AccessOutput:
        traffic = analysis.traffic.accesses.get(access.number)
        return copied(
            cls,
            access,
            array=access.array.name if access.array is not None else None,
            offset=access.offset.text,
            subscripts=tuple(term.text for term in access.subscripts),
            loops=tuple(symbol.name for symbol in access.loops),
            guards=tuple(condition.text for condition in access.conditions),
            executions=traffic.executions if traffic is not None else None,
            requests=traffic.requests if traffic is not None else None,
            sectors_per_request=traffic.sectors if traffic is not None else None,
            stride_bytes=traffic.stride if traffic is not None else None,
            wavefronts=traffic.wavefronts if traffic is not None else None,
            blocked=access.blocked.reason if access.blocked is not None else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayOutput(Serializable):
    """What a launch moves of one array."""

    name: str  # the array
    space: str  # global, shared, local or constant
    role: Annotated[str, NONEMPTY] = ""  # of a tensor: in or out; scratch
    element: str  # the type of an element
    shape: Annotated[tuple[str, ...], ALWAYS] = ()  # the outer dimension first
    compulsory_bytes: float | None = None  # that any kernel has to move
    read_bytes: float | None = None  # by all threads
    written_bytes: float | None = None  # by all threads
    sector_bytes: float | None = None  # moved in sectors
    reuse: Ratio | None = None  # how often an element is read
    block_elements: int | None = None  # that one block touches
    block_box: tuple[int, ...] | None = None  # the box around them
    block_reads: float | None = None  # by one block
    is_exact: bool | None = None  # whether nothing was sampled

    @classmethod
    def of(cls, traffic: ArrayTraffic) -> ArrayOutput:
        array, block = traffic.array, traffic.block
        return copied(
            cls,
            array,
            traffic,
            shape=tuple(term.text for term in array.shape),
            compulsory_bytes=traffic.compulsory,
            read_bytes=traffic.reads,
            written_bytes=traffic.writes,
            block_elements=block.elements if block is not None else None,
            block_box=block.box if block is not None else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedOutput(Serializable):
    """A shared array that is filled from a tensor."""

    shared: str  # the shared array
    tensor: str  # the tensor
    is_copy: bool  # whether each element is one of the tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOutput(Serializable):
    """A value that loops accumulate."""

    kind: str  # sum, maximum, online_softmax ...
    place: str  # where it is kept
    line: int  # where it stands
    names: Annotated[tuple[str, ...], ALWAYS] = ()  # of the accumulators
    loops: Annotated[tuple[str, ...], ALWAYS] = ()  # that it runs over

    @classmethod
    def of(cls, found: Reduction) -> ReductionOutput:
        return copied(cls, found, names=tuple(found.names), loops=tuple(symbol.name for symbol in found.loops))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractionOutput(Serializable):
    """A sum of products of elements of two tensors."""

    kind: str  # matmul, matvec, dot, convolution or pairs
    line: int  # where it stands
    right: str  # a factor
    roles: Annotated[Mapping[str, str], ALWAYS]  # by side, a letter for each dimension: m, n, b, k, w or 1
    left: Annotated[str | None, ALWAYS] = None  # the other factor; null if it is computed on the way
    epilogue: Annotated[tuple[str, ...], ALWAYS] = ()  # what is done to the sum before it is stored

    @classmethod
    def of(cls, made: Contraction) -> ContractionOutput:
        left = made.left.array.name if made.left is not None else None
        return copied(cls, made, right=made.right.array.name, left=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedOutput(Serializable):
    """What the analysis could not follow."""

    line: int  # where it stands
    what: str  # as it is written
    reason: str  # why


@dataclass(frozen=True, slots=True, kw_only=True)
class OpportunityOutput(Serializable):
    """A rewrite that may pay."""

    name: str  # the rewrite
    why: str  # what it would save
    lines: Annotated[tuple[int, ...], ALWAYS] = ()  # that it is about
    facts: Annotated[Mapping[str, Json], ALWAYS]  # the figures behind it
    refused: Annotated[str, NONEMPTY] = ""  # why it does not apply

    @classmethod
    def of(cls, found: Opportunity) -> OpportunityOutput:
        return copied(cls, found, lines=tuple(found.lines), facts=dict(found.facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOutput(Serializable):
    """The loop-and-access form of one launch."""

    kernel: str  # its kernel
    grid: tuple[int, ...]  # blocks
    block: tuple[int, ...]  # threads of a block
    loops: Annotated[tuple[LoopOutput, ...], ALWAYS] = ()  # its loops
    accesses: Annotated[tuple[AccessOutput, ...], ALWAYS] = ()  # its reads and writes, but for a thread's own arrays
    arrays: Annotated[tuple[ArrayOutput, ...], ALWAYS] = ()  # what it moves, by array
    staged: Annotated[tuple[StagedOutput, ...], ALWAYS] = ()  # shared arrays that are filled from tensors
    reductions: Annotated[tuple[ReductionOutput, ...], ALWAYS] = ()  # values that loops accumulate
    contractions: Annotated[tuple[ContractionOutput, ...], ALWAYS] = ()  # sums of products
    threads_permute: PermissionOutput  # whether the threads of a block may change places
    blocks_permute: PermissionOutput  # whether the blocks may
    rereads_output: Annotated[tuple[str, ...], ALWAYS] = ()  # outputs that the kernel reads again
    blocked: Annotated[tuple[BlockedOutput, ...], ALWAYS] = ()  # what the analysis could not follow
    opportunities: Annotated[tuple[OpportunityOutput, ...], ALWAYS] = ()  # rewrites that may pay

    @classmethod
    def of(cls, analysis: LaunchAnalysis) -> LaunchOutput:
        form, legality = analysis.form, analysis.legality
        shown = [a for a in form.accesses if a.array is None or a.array.space != "local"]
        return cls(
            kernel=form.kernel,
            grid=tuple(analysis.sizes.grid),
            block=tuple(analysis.sizes.block),
            loops=tuple(LoopOutput.of(analysis, loop) for loop in form.loops.values()),
            accesses=tuple(AccessOutput.of(analysis, access) for access in shown),
            arrays=tuple(ArrayOutput.of(traffic) for traffic in analysis.traffic.arrays.values()),
            staged=tuple(
                StagedOutput(shared=known.shared.name, tensor=known.tensor.name, is_copy=known.is_copy)
                for known in analysis.staged
            ),
            reductions=tuple(ReductionOutput.of(found) for found in analysis.reductions),
            contractions=tuple(ContractionOutput.of(made) for made in analysis.contractions),
            threads_permute=copied(PermissionOutput, legality.threads_permute),
            blocks_permute=copied(PermissionOutput, legality.blocks_permute),
            rereads_output=tuple(array.name for array in legality.rereads_output),
            blocked=tuple(copied(BlockedOutput, blocked) for blocked in form.blocked),
            opportunities=tuple(OpportunityOutput.of(found) for found in opportunities_of(analysis)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOutput(Serializable):
    """`evo explain --json`: what each launch of a variant reads, writes and repeats."""

    variant: str  # the variant's id
    task: str  # its task
    case: str  # the case whose sizes the figures are of
    chip: str  # the chip's short name
    launches: Annotated[tuple[LaunchOutput, ...], ALWAYS] = ()  # in the order of the launch lines
