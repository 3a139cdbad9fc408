"""Which constants of the device code are no knobs, since what is computed depends on them: the length of a section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evo.errors import TaskInvalid
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.host_numbers import substituted
from evo.interop.adopt.oracle import Failing

_CLOSE = 1e-2  # of the largest output: far above the rounding of another order


def settle_knobs(trial: DraftTrial, cases: Mapping[str, Mapping[str, int]]) -> None:
    """Leave out knobs at whose other value the original computes something else at some check case."""
    fixed = [knob for knob in trial.draft.knobs if _decides(trial, knob, cases)]
    for knob in fixed:
        _fix(trial.draft, knob)
    if fixed:
        trial.changed()


def _decides(trial: DraftTrial, knob: str, cases: Mapping[str, Mapping[str, int]]) -> bool:
    draft, value = trial.draft, trial.draft.knobs[knob]
    other = value // 2 if value > 1 else 2
    code = re.sub(rf"(\b{knob}\b(?: *=)?[ \t]+){value}\b", rf"\g<1>{other}", draft.code)
    changed = DraftTrial(replace(draft, code=code, knobs=draft.knobs | {knob: other}), trial.name)
    for axes in cases.values():
        try:
            pair = trial.run(axes, races=False), changed.run(axes, races=False)
        except (Failing, TaskInvalid):
            continue  # a value that the kernel does not take says nothing about those that it takes
        for name, values in pair[0].items():
            ours, theirs = (np.nan_to_num(each.astype(np.float64)) for each in (values, pair[1][name]))
            if np.abs(ours - theirs).max(initial=0) > _CLOSE * np.abs(ours).max(initial=0):
                return True
    return False


def _fix(draft: Draft, knob: str) -> None:
    value = draft.knobs.pop(knob)
    draft.constants[knob] = value
    for launch in draft.launches:
        for part in ("grid", "block", "args"):
            setattr(launch, part, tuple(_with(text, knob, value) for text in getattr(launch, part)))
        launch.shared = _with(launch.shared, knob, value)
    for tensor in draft.tensors:
        tensor.dims = None if tensor.dims is None else [substituted(dim, {knob: value}) for dim in tensor.dims]


def _with(text: str, knob: str, value: int) -> str:
    return re.sub(rf"\b{knob}\b", str(value), text)
