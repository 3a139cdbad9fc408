"""Shapes that were found by trial, at sizes where quotients show: `cols / 64` scales in each row.

At small sizes a quotient is 0, and a tensor that is guessed there is too small at the file's own sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from evo.interop.adopt.draft import SMALL_SIZE
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.draft_trial import DraftTrial

_DIVISOR = re.compile(r"/\s*\(?\s*(\w+)|>>\s*(\d+)")
_LARGEST = 4096


def settle_guesses(trial: DraftTrial, base: dict[str, int]) -> dict[str, int]:
    """Repair guessed shapes at larger sizes, and divide an extent where the kernel does. Returns sizes that work."""
    guessed = [tensor for tensor in trial.draft.tensors if tensor.name in trial.guessed]
    if not guessed:
        return base
    further = _further(trial.draft.axes)
    before = [(tensor, tensor.dims, tensor.init, tensor.why) for tensor in trial.draft.tensors]
    if not trial.repaired_at(further):
        for tensor, dims, init, why in before:
            tensor.dims, tensor.init, tensor.why = dims, init, why
        trial.changed()
        return base
    divided = [_divided(trial, tensor, further) for tensor in guessed]
    if not any(divided):
        return base if trial.runs(base) else further
    for tensor in trial.draft.tensors:  # at sizes that the quotients do not divide, elements were left out
        if tensor.why.endswith("not all of it is written"):
            tensor.init = "poison"
            tensor.why = "written, size by trial"
    trial.changed()
    return further if trial.repaired_at(further) else base


def _further(axes: Mapping[str, int]) -> dict[str, int]:
    """Sizes that differ, and that common group sizes divide."""
    large = [axis for axis, value in axes.items() if value > SMALL_SIZE]
    lengths = (256, 384) if len(large) < 3 else (64, 128, 192) if len(large) == 3 else (8, 16, 64, 128, 24)
    return {**axes, **{axis: lengths[at % len(lengths)] for at, axis in enumerate(large)}}


def _divided(trial: DraftTrial, tensor: TensorDraft, sizes: Mapping[str, int]) -> bool:
    """Whether one extent is a quotient: the smallest that the original takes."""
    whole = list(tensor.dims or [])
    told = " ".join(argument for launch in trial.draft.launches for argument in launch.args)
    for divisor in _divisors(f"{trial.draft.code} {told}"):
        for place, dim in reversed(list(enumerate(whole))):
            if not isinstance(dim, str) or sizes.get(dim, 0) % divisor:
                continue
            tensor.dims = [*whole[:place], ("//", dim, divisor), *whole[place + 1 :]]
            trial.changed()
            if trial.runs(sizes):
                return True
    tensor.dims = whole
    trial.changed()
    return False


def _divisors(code: str) -> Iterator[int]:
    """What the device code, or what it is given, is divided by, the largest first."""
    found = set()
    for word, shift in _DIVISOR.findall(code):
        number = re.search(rf"\b{word}\s*=?\s*(\d+)\b", code) if word and not word.isdigit() else None
        text = number[1] if number is not None else word
        found.add(1 << min(int(shift), 12) if shift else int(text) if text.isdigit() else 1)
    return iter(sorted((n for n in found if 1 < n <= _LARGEST), reverse=True))
