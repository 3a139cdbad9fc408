"""How far a variant may be from the original's float64 run: measured by the original's own errors there."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from evo.device import Array, Arrays
from evo.errors import TaskInvalid
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.task_texts import Figures
from evo.spec.element_types import DTYPES, ROUNDOFF, is_float
from evo.spec.tensor_arrays import typical_size

_ROOM = 4.0  # the tolerance over the largest error of the original
_FACTOR = 4.0
_MOST_RTOL = 1e-2
_FEW = 32  # elements of an output: the original may be exact there by chance, and that is no measure
_BY = 2.0**-6  # of each input: more than a rounding of any type
_MOST = 4.0  # times what terms of any sign can be for such a total: an output that jumps moves by more


def _sum_magnitudes(trial: DraftTrial, axes: Mapping[str, int], exact: Arrays) -> dict[str, float]:
    """By output, the sum of the sizes of its terms, for a typical element; of the element itself if that is larger.

    Terms that each move by a share of their size, up or down, move their sum by the root of the sum of squares.
    """
    drawn, rng = trial.inputs(axes), np.random.default_rng(3)
    floats = {t.name for t in trial.draft.given if t.role != "out" and is_float(t.dtype)}
    moved: Arrays = {
        n: drawn[n].astype(np.float64) * (1 + _BY * rng.choice([-1.0, 1.0], drawn[n].shape)) for n in floats
    }
    near = trial.run_wide(axes, others=moved)
    inputs = max((a.size for a in moved.values()), default=0)
    found: dict[str, float] = {}
    for name, values in exact.items():
        found[name] = own = typical_size(values.astype(np.float64))
        if near is not None:
            with np.errstate(all="ignore"):
                by = typical_size(near[name].astype(np.float64) - values.astype(np.float64))
            found[name] = max(own, min(by / _BY, _MOST * own) * math.sqrt(max(1.0, inputs / values.size)))
    return found


def measure_tolerance(trial: DraftTrial, figures: Figures) -> str | None:
    """Set the tolerance from the error of the original against its own float64 run; return that text."""
    draft = trial.draft
    outputs = [tensor for tensor in draft.given if tensor.role in ("out", "inout")]
    floats = [tensor for tensor in outputs if is_float(tensor.dtype)]
    has_float_inputs = any(is_float(t.dtype) for t in draft.given if t.role != "out")
    if any(not is_float(t.dtype) and DTYPES[t.dtype] < 4 for t in outputs) and has_float_inputs:
        figures.integers = 1
    # Counts, places of the largest: a float that is rounded decides, so that float64 has others by chance.
    figures.as_is = tuple(t.name for t in outputs if has_float_inputs and t.is_whole and DTYPES[t.dtype] >= 4)
    figures.nondeterministic = _adds_floats(draft, floats)
    if not floats:
        figures.because = "whole numbers, compared exactly."
        if figures.integers:
            figures.because = "whole numbers; a rounding may fall to the other side in one of a hundred."
        return None
    most = 0
    errors, sizes, roundoff = [0.0], list[float](), max(ROUNDOFF[t.dtype] for t in floats)
    each: dict[str, list[float]] = {}
    wide_text = None
    for axes in figures.check.values():
        exact = trial.run_wide(axes)
        plain = trial.run(axes, races=False)
        if exact is not None:
            _, wide = trial.runners
            wide_text = wide.text if wide is not None else None
            for name, found in _sum_magnitudes(trial, axes, {t.name: exact[t.name] for t in floats}).items():
                each.setdefault(name, []).append(found)
        for tensor in floats:
            values = plain[tensor.name].astype(np.float64)
            most = max(most, values.size)
            finite = values[np.isfinite(values)]
            sizes.append(float(np.sqrt((finite**2).mean())) if finite.size else 1.0)
            if exact is not None:
                errors.append(_largest(values, exact[tensor.name]))
    size = float(np.median(sizes)) or 1.0
    narrow = all(t.dtype != "float32" for t in floats)
    figures.rtol = 1e-9 if roundoff < 1e-12 else 1e-2 if narrow else 1e-4
    relative = max(16 * roundoff, _ROOM * max(errors) / size)
    figures.atol = float(f"{min(relative, 0.05) * size:.1e}")
    figures.factor = _FACTOR
    figures.sizes = {name: float(f"{np.median(found):.2g}") for name, found in each.items()}
    figures.few = most < _FEW
    if figures.few:
        figures.because = "few float outputs, so that the original's own error is chance; rtol and atol decide."
    if wide_text is None:
        figures.because = "float outputs; the original as it is, since it does not run in float64."
    return wide_text


def widen_tolerance(trial: DraftTrial, figures: Figures) -> None:
    """Let the original pass where it is timed: a sum of a million terms errs more than those of the check cases."""
    if not any(is_float(t.dtype) for t in trial.draft.given if t.role != "in") or figures.rtol >= _MOST_RTOL:
        return
    for axes in figures.bench.values():
        try:
            outputs = _float_outputs(trial, axes)
        except (Failing, TaskInvalid):
            continue  # a size that the simulator does not run whole
        while figures.rtol < _MOST_RTOL and not _are_close(outputs, figures, room=_ROOM / 2):
            figures.rtol *= 2


def is_within_tolerance(trial: DraftTrial, axes: Mapping[str, int], figures: Figures) -> bool:
    """Whether the original is within the tolerance of its float64 run at these sizes. Raises Failing."""
    return _are_close(_float_outputs(trial, axes), figures)


def _float_outputs(trial: DraftTrial, axes: Mapping[str, int]) -> list[tuple[Array, Array]]:
    """Those of the original, each beside that of its float64 run; none if there is no such run. Raises Failing."""
    exact = trial.run_wide(axes)
    if exact is None:
        return []
    plain = trial.run(axes, races=False)
    names = [t.name for t in trial.draft.given if t.role != "in" and is_float(t.dtype)]
    return [(plain[name].astype(np.float64), exact[name]) for name in names]


def _are_close(outputs: Sequence[tuple[Array, Array]], figures: Figures, room: float = 1.0) -> bool:
    """Whether the original is within the tolerance of its float64 run, or a part of it: a longer sum errs more."""
    rtol, atol = figures.rtol / room, figures.atol / room
    return all(np.allclose(plain, exact, rtol, atol, equal_nan=True) for plain, exact in outputs)


def _adds_floats(draft: Draft, floats: Sequence[TensorDraft]) -> bool:
    """Whether atomics may add to floats, of an output or in shared memory: their order is no law."""
    if not floats or re.search(r"\batomicAdd\w*\s*\(", draft.code) is None:
        return False
    shared = re.search(r"\b__shared__\b[^;]{0,80}\b(?:float|double|__half)", draft.code)
    return shared is not None or any(t.init == "zero" or t.role == "inout" for t in floats)


def _largest(values: np.ndarray, exact: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        off = np.abs(values - exact.astype(np.float64))
    off = off[np.isfinite(off)]
    return float(off.max(initial=0.0))
