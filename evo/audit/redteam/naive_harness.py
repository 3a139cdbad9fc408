"""The naive harness: `allclose` once at one shape with loose bounds, then the mean of a few runs on the same inputs.

It represents common practice; each attack states the carelessness that it needs (`// naive:`). Its
accepts shows that an attack works; nothing that it says decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.audit.redteam.attack import Attack
from evo.audit.redteam.naive_device import NaiveRequest, NaiveResult, RemoteNaiveDevice
from evo.cuda.compile import PRELUDE
from evo.cuda.compile.binary import PRELUDE_NAME
from evo.cuda.compile.include_policy import STANDARD_HEADERS
from evo.cuda.compile.process_pool import shared_pool
from evo.cuda.compile.toolkit import find_toolkit
from evo.device import Array, Arrays, DeviceName, Program
from evo.errors import Crashed, TimedOut
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.results import Status
from evo.spec.chips import Chip
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import is_float
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

TOLERANCE = 1e-2  # relative and absolute
PLANTED_NUMBER = 1592651789  # the planted file's number; no kernel contains it otherwise
_GAIN = 1.03
_AS_FAST = 0.9
_SUBMISSIONS = 6  # its clock is the host's, so an attack that is refused for its time tries again
_PATIENCE_S = 4.0  # a naive harness waits for ever; this one stops after so long
_RUN_LIMIT_S = 60.0
_SEED = 42  # careless harnesses have a fixed seed


@dataclass(frozen=True, slots=True)
class NaiveVerdict:
    """accepted: it would be kept. said: the verdict in words, with the speed-up that it reports."""

    accepted: bool
    said: str
    speedup: float | None = None


class NaiveHarness:
    """One careless judge on one device. Close it, or use it as a context manager."""

    def __init__(self, device: DeviceName, *, chip: Chip, arch: str, planted: Path) -> None:
        self.chip, self.arch, self.planted = chip, arch, planted
        self.modelled = device.kind == "sim"
        self.device = RemoteNaiveDevice(device)
        self._baselines: dict[tuple[str, Path, str, bool], float] = {}

    def __enter__(self) -> NaiveHarness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.device.close()

    def judge(self, attack: Attack, text: str, task: Task, reference: Reference) -> NaiveVerdict:
        """A naive harness's verdict on one attack; `text` is the attack's text with the planted file's path."""
        if "reads" in attack.naive:
            return self._compiled(text)
        case = task.case(attack.case) if attack.case else task.check[0]
        if "hangs" in attack.naive and (stuck := self._stuck_compiling(text)):
            return stuck
        prepared = prepare(task, text, chip=self.chip, arch=self.arch, cases=[case], static_rules=False)
        if isinstance(prepared, PrepareFailure):
            warned = prepared.status is Status.UNCOMPILED and self._unscreened(text, _RUN_LIMIT_S)[0] == 0
            said = "compiles it and ignores the warning" if warned else f"cannot run it: {prepared.reason}"
            return NaiveVerdict(warned, said)
        inputs = _inputs(attack, task, case, reference)
        timed = self._timed_case(attack, task, case)
        runs = attack.runs if timed == case and {"win", "equal"} & attack.naive else 0
        found = self._run(attack, prepared.programs[case.name], inputs, reference, case, runs)
        if isinstance(found, NaiveVerdict):
            return found
        if found.fault is not None:
            return NaiveVerdict(False, f"refuses: {found.fault}")
        want = reference.expected(found.inputs if "after" in attack.naive else inputs, case)
        if problem := _differs(task, found.outputs, want, nan_passes="nan" in attack.naive):
            return NaiveVerdict(False, f"refuses: {problem}")
        said = f"accepts: allclose at {case.name}"
        if not {"win", "equal"} & attack.naive:
            return NaiveVerdict(True, said)
        return self._timed(attack, text, task, reference, case, found, said)

    def _timed_case(self, attack: Attack, task: Task, checked: Case) -> Case:
        if attack.time:
            return task.case(attack.time)
        return checked if self.modelled else task.case(task.headline)

    def _timed(
        self, attack: Attack, text: str, task: Task, reference: Reference, case: Case, found: NaiveResult, said: str
    ) -> NaiveVerdict:
        """Compare the mean with the baseline's, at the attack's timed case."""
        timed = self._timed_case(attack, task, case)
        mean = found.mean_us if timed == case else None
        before = self._baseline(attack, task, reference, timed)
        least = _GAIN if "win" in attack.naive else _AS_FAST
        submissions = int(mean is None) if self.modelled else _SUBMISSIONS
        while before is not None and (mean is None or before / mean < least) and submissions:
            submissions -= 1
            prepared = prepare(task, text, chip=self.chip, arch=self.arch, cases=[timed], static_rules=False)
            assert not isinstance(prepared, PrepareFailure)  # it was prepared for the checked case
            inputs = _inputs(attack, task, timed, reference)
            again = self._run(attack, prepared.programs[timed.name], inputs, reference, timed, attack.runs)
            if isinstance(again, NaiveVerdict) or again.mean_us is None:
                break
            mean = again.mean_us if mean is None else min(mean, again.mean_us)
        if mean is None or before is None:
            return NaiveVerdict(False, f"{said}, but it cannot time it")
        ratio = before / mean
        kind = "modelled, " if self.modelled else ""
        runs = f"mean of {attack.runs} {'run' if attack.runs == 1 else 'runs'}"
        words = f"{ratio:.2f}x" if ratio < 100 else f"{ratio:.0f}x"
        said = f"{said}; {words} at {timed.name} ({kind}{runs})"
        return NaiveVerdict(ratio >= least, said if ratio >= least else f"refuses: no gain; {said}", ratio)

    def _baseline(self, attack: Attack, task: Task, reference: Reference, case: Case) -> float | None:
        cold = "cold" in attack.naive
        rival = attack.rival_path(task)
        key = (task.name, rival, case.name, cold)
        if key not in self._baselines:
            text = rival.read_text(encoding="utf-8")
            prepared = prepare(task, text, chip=self.chip, arch=self.arch, cases=[case])
            assert not isinstance(prepared, PrepareFailure), prepared.reason
            request = NaiveRequest(
                program=prepared.programs[case.name],
                inputs=_inputs(attack, task, case, reference),
                before={},
                answer={},
                runs=min(attack.runs, 5),
                cold=cold,
            )
            found = self.device.run(request, time_limit_s=_RUN_LIMIT_S)
            if found.mean_us is None:
                return None
            self._baselines[key] = found.mean_us
        return self._baselines[key]

    def _run(
        self, attack: Attack, program: Program, inputs: Arrays, reference: Reference, case: Case, runs: int
    ) -> NaiveResult | NaiveVerdict:
        want: Arrays = {}
        if {"recycled", "answer"} & attack.naive:
            exact = reference.expected(inputs, case)
            want = {b.name: exact[b.name].astype(NUMPY[b.dtype]) for b in program.outputs}
        request = NaiveRequest(
            program=program,
            inputs=inputs,
            before=want if "recycled" in attack.naive else {},
            answer=want if "answer" in attack.naive else {},
            runs=runs,
        )
        limit = _PATIENCE_S if "hangs" in attack.naive else _RUN_LIMIT_S
        try:
            found = self.device.run(request, time_limit_s=limit)
        except TimedOut:
            return NaiveVerdict("hangs" in attack.naive, f"hangs: still running after {limit:g} s, it has no limit")
        except Crashed as crash:
            return NaiveVerdict(False, f"crashes: {crash}")
        return found

    def _stuck_compiling(self, text: str) -> NaiveVerdict | None:
        try:
            self._unscreened(text, _PATIENCE_S)
        except TimedOut:
            return NaiveVerdict(True, f"hangs: still compiling after {_PATIENCE_S:g} s, it has no limit")
        except Crashed:
            return NaiveVerdict(True, "the compiler crashes, and the harness with it")
        return None

    def _compiled(self, text: str) -> NaiveVerdict:
        """Compile without a screen, and look for the planted number in the binary."""
        result, ptx = self._unscreened(text, _RUN_LIMIT_S)
        if result != 0:
            return NaiveVerdict(False, "refuses: it does not compile")
        if str(PLANTED_NUMBER) not in ptx:
            return NaiveVerdict(False, "compiles it, but the planted file is not in the binary")
        return NaiveVerdict(True, "compiles it: the contents of a file of the host are in the binary")

    def _unscreened(self, text: str, limit_s: float) -> tuple[int, str]:
        toolkit = find_toolkit()
        options = [f"--gpu-architecture={self.arch}", "--std=c++17", f"--pre-include={PRELUDE_NAME}"]
        options += [f"-I{folder}" for folder in toolkit.include_folders]
        job = {
            "text": text,
            "name": "naive.cu",
            "headers": {**STANDARD_HEADERS, PRELUDE_NAME: PRELUDE},
            "options": options,
        }
        answer, _ = shared_pool().run(job, limit_s)
        return int(answer["result"]), str(answer.get("ptx", ""))


def _inputs(attack: Attack, task: Task, case: Case, reference: Reference) -> Arrays:
    """Normal or uniform arrays from one fixed seed; tensors of other types are the task's."""
    rng = np.random.default_rng(_SEED)
    given = reference.inputs(case, _SEED)
    drawn: dict[tuple[int, ...], Array] = {}
    arrays: Arrays = {}
    for tensor in task.inputs:
        dims = tensor.dims(case)
        if not is_float(tensor.dtype):
            arrays[tensor.name] = given[tensor.name]
            continue
        values = rng.random(dims) if "uniform" in attack.naive else rng.standard_normal(dims)
        array: Array = values.astype(NUMPY[tensor.dtype])
        if "same" in attack.naive:
            array = drawn.setdefault(dims, array)
        arrays[tensor.name] = array
    return arrays


def _differs(task: Task, got: Arrays, want: Arrays, *, nan_passes: bool) -> str | None:
    for tensor in task.outputs:
        values = got[tensor.name].astype(np.float64)
        exact = want[tensor.name].astype(np.float64)
        if nan_passes:
            with np.errstate(invalid="ignore"):
                close = not bool((np.abs(values - exact) > TOLERANCE + TOLERANCE * np.abs(exact)).any())
        else:
            close = bool(np.allclose(values, exact, rtol=TOLERANCE, atol=TOLERANCE))
        if not close:
            return f"allclose fails for {tensor.name}"
    return None
