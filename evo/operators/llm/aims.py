"""What several samples of one question are asked to aim at, so that they differ on purpose."""

from __future__ import annotations

from evo.analysis.roofline import limits
from evo.errors import SyntaxInvalid
from evo.spec.chips import Chip
from evo.spec.task import Task

TENSOR = "tensor cores"
AIMS = {
    "memory": "move fewer bytes, or move them better: neighbouring lanes at neighbouring addresses, vector loads and"
    " stores, data kept in registers or shared memory instead of read again.",
    "latency": "hide latency: more independent loads in flight, cp.async with several stages, loads of the next step"
    " before the work of this one, fewer barriers, shorter chains of dependent instructions.",
    "occupancy": "keep the SMs busy: block size, registers and shared memory of a block, a grid that fills the chip"
    " without a short last wave, work shared out evenly.",
    "instructions": "execute fewer instructions: what does not change taken out of loops, cheaper index arithmetic,"
    " loops unrolled, cheaper but exact enough mathematics, wider types.",
    TENSOR: "the tensor cores: put products on mma instructions, or feed those that are there better (ldmatrix, larger"
    " fragments of a warp, operands reused in registers, no bank conflicts).",
    "launches": "another split of the work: what a block and a thread own, tiles of another shape, persistent blocks, a"
    " reduction split over blocks, several launches made one or one made several.",
}


def aims_of(task: Task, chip: Chip) -> tuple[str, ...]:
    """The aims that fit a task: tensor cores only if it has products of matrices."""
    return tuple(name for name in AIMS if name != TENSOR or _multiplies(task, chip))


def sentence(aim: str) -> str:
    """What a question with this aim says last."""
    return f"Others are asked the same with other aims. Yours is {aim}: {AIMS[aim]}"


def _multiplies(task: Task, chip: Chip) -> bool:
    try:
        return bool(limits(task, task.case(task.headline), chip).mac)
    except SyntaxInvalid:
        return False
