"""Metamorphic checks: known changes of the inputs must make known changes of the outputs (the laws of a task).

A task states its laws (`evo/spec/laws.py`), and is refused if its reference breaks one. Of a task that states none,
those that its reference keeps at every check case are taken. On check cases the reference says what is right after a
change; at timed sizes the law itself does, so that no reference has to be worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from evo.device.remote_device import RemoteDevice
from evo.errors import TaskInvalid
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Bind, Step, check_case, failed
from evo.evaluate.gate.threshold_cases import AxisSpace, cost_of
from evo.results import Check, Stage, Status
from evo.spec.changed_inputs import ChangedCase, changed_case, possible_laws
from evo.spec.laws import PERMUTE, SAME_SIZE, Law
from evo.spec.reference import Reference
from evo.spec.task import Case, Task
from evo.spec.tensor_arrays import Arrays

_SEED = 1  # of the inputs on which a reference shows that it keeps a law
_TRIED = 4  # check cases on which it shows that of a stated one; one that is looked for has to hold at all of them
_ENOUGH = 2  # of them, for a law that nobody has stated
_CASES = 3  # check cases that a variant meets each law at
_ATTEMPTS = 4  # parts of an axis that are tried until the task allows the size
_CLOSE = 1e-6  # of float64 sums in another order, relative to the largest output


class LookedAt(Protocol):
    """laws: those that were kept where they were tried."""

    laws: set[str]


def laws_of(task: Task, reference: Reference) -> tuple[Law, ...]:
    """The laws that the task states, or else those that its reference keeps. Worked out once for a reference."""
    if reference.laws is None:
        reference.laws = task.laws if task.laws is not None else tuple(_found(task, reference))
    return reference.laws


def check_laws(task: Task, reference: Reference) -> None:
    """Raises TaskInvalid, with the line, if the reference breaks a law that the task states, or none shows it."""
    for number, law in enumerate(task.laws or ()):
        kept, broken = _shown(task, reference, law, _TRIED, {})
        if broken or not kept:
            where = f"{task.folder / 'task.yaml'}:{law.line}: field `laws.{number}`"
            what = f"does not hold at case {broken[0]}" if broken else "holds at no check case: none has room for it"
            hint = "a law is a fact about reference.py; state when it holds (`when:`), or leave it out"
            raise TaskInvalid(f"{where}: `{law.words}` {what}", hint=hint)


def law_at(task: Task, reference: Reference, case: Case, axis: str | None, seed: int, number: int) -> Law | None:
    """The law that a timed size is held to: another one at each, of those that change no size.

    axis: the one that the reference is cut along, whose places are in another order anyway.
    """
    laws = [law for law in laws_of(task, reference) if law.kind in SAME_SIZE and law.applies(case.axes)]
    laws = [law for law in laws if law.kind != PERMUTE or (law.axis != axis and case.axes[law.axis] > 1)]
    return laws[(seed + number) % len(laws)] if laws else None


def lawful(
    task: Task, bind: Bind, reference: Reference, device: RemoteDevice, seed: int, looked: LookedAt | None
) -> Check | None:
    """The first law that the variant breaks at a check case; None if it breaks none."""
    rng = np.random.default_rng([seed, 83])
    made = list(_changed(task, reference, seed, rng))
    programs = bind([changed.case for _, changed in made])
    for law, changed in made:
        if changed.case.name not in programs:
            continue
        expectation = reference.sound(changed.case, changed.inputs, law.words, rng)
        if expectation is None:
            continue
        step = Step(changed.case, device, distribution=law.words, budget=CHECK_BUDGET)
        row, _, faults = check_case(task, programs, expectation, step, {})
        if row.status is not Status.CORRECT:
            return failed(row, step, Stage.GATE, f"case {row.name}", faults, seed)
        if looked is not None:
            looked.laws.add(law.words)
    return None


def _changed(
    task: Task, reference: Reference, seed: int, rng: np.random.Generator
) -> Iterator[tuple[Law, ChangedCase]]:
    """Each law at a few check cases."""
    space = AxisSpace.of(task)
    for law in laws_of(task, reference):
        count = 0
        for at in rng.permutation(len(task.check)):
            case = task.check[at]
            changed = _allowed(task, space, law, case, reference, seed, rng) if law.applies(case.axes) else None
            if changed is not None:
                yield law, replace(changed, case=replace(changed.case, name=f"{case.name}, {law.words}"))
                count += 1
            if count == _CASES:
                break


def _allowed(
    task: Task, space: AxisSpace, law: Law, case: Case, reference: Reference, seed: int, rng: np.random.Generator
) -> ChangedCase | None:
    """The case under the law at a size that the task allows; None if there is none."""
    for _ in range(_ATTEMPTS):
        changed = changed_case(law, task, case, reference.inputs(case, seed), rng)
        if changed is None or space.allows(task, changed.case.axes):
            return changed
    return None


def _found(task: Task, reference: Reference) -> Iterator[Law]:
    """The laws that the reference keeps, of a task that states none."""
    plain: dict[str, Arrays] = {}
    for law in possible_laws(task, reference.inputs(task.check[0], _SEED)):
        kept, broken = _shown(task, reference, law, len(task.check), plain)
        if not broken and len(kept) >= _ENOUGH:
            yield law


def _shown(
    task: Task, reference: Reference, law: Law, most: int, plain: dict[str, Arrays]
) -> tuple[list[str], list[str]]:
    """Check cases at which the reference keeps a law, and the first one at which it breaks it.

    plain: outputs of cases without a change, kept for the next law: a reference that is simulated takes a while.
    """
    space, rng = AxisSpace.of(task), np.random.default_rng(_SEED)
    kept: list[str] = []
    for case in sorted(task.check, key=lambda case: cost_of(task, case)):
        changed = _allowed(task, space, law, case, reference, _SEED, rng) if law.applies(case.axes) else None
        if changed is None:
            continue
        if not _keeps(reference, case, changed, plain):
            return kept, [case.name]
        kept.append(case.name)
        if len(kept) == most:
            break
    return kept, []


def _keeps(reference: Reference, case: Case, changed: ChangedCase, plain: dict[str, Arrays]) -> bool:
    try:
        with np.errstate(all="ignore"):
            if case.name not in plain:
                plain[case.name] = reference.expected(reference.inputs(case, _SEED), case)
            before = changed.outputs(plain[case.name])
            after = reference.expected(changed.inputs, changed.case)
    except TaskInvalid:  # it holds inputs to a condition that the change breaks
        return False
    for name, values in before.items():
        size = float(np.abs(values.astype(np.float64)).max(initial=0.0))
        if values.shape != after[name].shape:
            return False
        if not np.allclose(after[name], values, rtol=_CLOSE, atol=_CLOSE * size, equal_nan=True):
            return False
    return True
