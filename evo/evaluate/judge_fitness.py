"""Compares a judge with NumPy on the check cases when a task is loaded. What differs stays on the CPU."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from evo.device.judge import RemoteJudge
from evo.errors import EvoError
from evo.evaluate.code_ahead import CORES_TO_SPARE
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.expectation import Judge
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor

_SEED = 20261123
_CASES = 3
_SAME = 1e-9  # of the largest value: float64 sums in another order
_LOOSER = 1.25  # errors of a trusted implementation that sums in another order, over NumPy's
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_APART = 8.0  # standard errors between the quantiles of two draws
_DRAWS = 4  # of NumPy, which show how far draws are apart
_FEW = 64  # numbers, whose quantiles say nothing


def begin_judge(reference: Reference, judge: RemoteJudge) -> Callable[[], Judge | None]:
    """Find out whether the judge is of use to the reference; what is returned waits until that is known."""
    own = Reference(reference.task, reference.process, limit_s=reference.limit_s)  # which asks no judge
    coming: Future[Judge | None] = Future()
    beside = (os.cpu_count() or 1) >= CORES_TO_SPARE
    threading.Thread(target=_compared, args=(own, judge, beside, coming), name="evo-judge", daemon=True).start()
    return coming.result


def judge_where_asked(reference: Reference, opened: Callable[[], RemoteJudge]) -> None:
    """The same with a judge that is opened for the first large case: most variants of a red team end before one."""
    own = Reference(reference.task, reference.process, limit_s=reference.limit_s)
    coming: Future[Judge | None] = Future()
    first = threading.Lock()

    def result() -> Judge | None:
        if first.acquire(blocking=False):  # never released: one is opened
            judge: RemoteJudge | None = None
            try:
                judge = opened()
            finally:
                if judge is None:
                    coming.set_result(None)  # whoever waits as well works without one
            _compared(own, judge, False, coming)
        return coming.result()

    reference.coming = result


def _compared(own: Reference, judge: RemoteJudge, beside: bool, coming: Future[Judge | None]) -> None:
    """beside: whether there are cores for processes that compile for it."""
    others: list[RemoteJudge] = []
    useful = False
    try:
        # What is wrong with the task is told where it is checked; an interpreter that ends starts no process.
        with contextlib.suppress(EvoError, RuntimeError):
            if beside:
                _compile_ahead(own, judge, others)
            useful = is_of_use(own, judge)
    finally:
        coming.set_result(judge if useful else None)
        for other in others:  # the end of a process that has a GPU takes a second
            other.close()


def _compile_ahead(reference: Reference, judge: RemoteJudge, others: list[RemoteJudge]) -> None:
    """Have each function called in a process of its own meanwhile; these are added to `others`.

    CuPy compiles a kernel for each operation where it is first needed, seconds for a reference, and keeps it on disk:
    the judge finds there what another process was quicker with.
    """
    case = _by_size(reference.task)[0]
    inputs = reference.inputs(case, _SEED)
    for function in filter(reference.has, ("expected", "trusted")):
        others.append(other := judge.another())
        arguments = reference.arguments(function, inputs, case)
        threading.Thread(target=other.outputs, args=(function, arguments), daemon=True).start()


def _by_size(task: Task) -> list[Case]:
    return sorted(task.check, key=lambda case: sum(t.size_bytes(case) for t in task.tensors))


def is_of_use(reference: Reference, judge: RemoteJudge) -> bool:
    """Compare the judge with NumPy; it is asked for what differs no more. Raises TaskInvalid."""
    task = reference.task
    cases = _by_size(task)
    chosen = [*cases[-_CASES + 1 :], cases[0]] if len(cases) > _CASES else cases
    for case in chosen:
        _compare_inputs(reference, judge, case)
    for on_device in (False, True):
        judge.unfit.pop("expected", None)
        judge.unfit.pop("trusted", None)
        judge.put_whole_numbers(on_device)
        for case in chosen:
            _compare_outputs(reference, judge, case)
        if "expected" not in judge.unfit:
            break
    if "judge" in judge.unfit or {"inputs", "expected"} <= set(judge.unfit):
        judge.close()
        return False
    return True


def _compare_outputs(reference: Reference, judge: RemoteJudge, case: Case) -> None:
    inputs = reference.inputs(case, _SEED)
    wanted = reference.expectation(case, _SEED)
    arguments = reference.arguments("expected", inputs, case)
    found = judge.outputs("expected", arguments)
    if found is None:
        judge.give_up("expected", "it does not run there")
        return
    for tensor in reference.task.outputs:
        if not _same(found[tensor.name], wanted.expected[tensor.name]):
            judge.give_up("expected", f"{tensor.name} differs at case {case.name}")
    if wanted.trusted is None:
        return
    trusted = judge.outputs("trusted", arguments)
    for tensor in reference.task.outputs if trusted is not None else ():
        assert trusted is not None
        name, truth = tensor.name, wanted.expected[tensor.name]
        if not _as_good(tensor, trusted[name], wanted.trusted[name], truth):
            judge.give_up("trusted", f"{name} has other errors at case {case.name}")
    if trusted is None:
        judge.give_up("trusted", "it does not run there")


def _same(got: NDArray[np.generic], want: NDArray[np.generic]) -> bool:
    if got.shape != want.shape:
        return False
    if want.dtype.kind not in "fV":
        return bool((got == want).all())
    ours, theirs = got.astype(np.float64), want.astype(np.float64)
    scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0))
    return bool(np.allclose(ours, theirs, rtol=_SAME, atol=_SAME * scale, equal_nan=True))


def _as_good(tensor: Tensor, got: NDArray[np.generic], want: NDArray[np.generic], truth: NDArray[np.generic]) -> bool:
    """Whether errors are no larger than NumPy's, so that no budget grows by them."""
    if got.shape != want.shape:
        return False
    if not is_float(tensor.dtype):
        return bool((got == want).all())
    exact = truth.astype(np.float64)
    ours, theirs = (np.abs(values.astype(np.float64) - exact) for values in (got, want))
    if not (np.isfinite(ours) == np.isfinite(theirs)).all():
        return False
    counted = np.isfinite(theirs)
    unit = ROUNDOFF[tensor.dtype] * float(np.abs(exact[counted]).max(initial=0.0))
    mine, known = (float(np.sqrt(np.mean(np.square(e[counted])))) if counted.any() else 0.0 for e in (ours, theirs))
    return mine <= _LOOSER * known + unit / 16


def _compare_inputs(reference: Reference, judge: RemoteJudge, case: Case) -> None:
    drawn = reference.inputs(case, _SEED)
    found = judge.inputs(case.axes, [_SEED], least=max((array.size for array in drawn.values()), default=1))
    if found is None or set(found) < set(drawn):
        judge.give_up("inputs", "they are not drawn there")
        return
    others = [reference.inputs(case, _SEED + number) for number in range(1, _DRAWS)]
    for tensor in reference.task.inputs:
        name = tensor.name
        steady = all(
            _alike(other[name], drawn[name], _APART / 4) for other in others
        )  # else a draw says nothing of another
        same = found[name].shape == drawn[name].shape and found[name].dtype == drawn[name].dtype
        if not same or (steady and not _alike(found[name], drawn[name])):
            judge.give_up("inputs", f"{name} is drawn otherwise at case {case.name}")


def _alike(got: NDArray[np.generic], want: NDArray[np.generic], apart: float = _APART) -> bool:
    """Whether two draws may be of one distribution: what is not finite, and quantiles."""
    if want.dtype.kind not in "fV" or want.size < _FEW:
        return True
    ours, theirs = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    if abs(np.isfinite(ours).mean() - np.isfinite(theirs).mean()) > apart / math.sqrt(want.size):
        return False
    ours, theirs = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
    step = apart / math.sqrt(max(1, min(ours.size, theirs.size)))
    for quantile in _QUANTILES:
        low, high = np.quantile(theirs, [max(0.0, quantile - step), min(1.0, quantile + step)])
        slack = 1e-6 + 1e-3 * max(abs(float(low)), abs(float(high)))
        if not low - slack <= np.quantile(ours, quantile) <= high + slack:
            return False
    return True
