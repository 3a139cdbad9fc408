"""One suite for every device: results of right programs, faults as data, and what a child process may do.

The real GPU's rows carry the marker `gpu`. In this process only devices are run that a fault does not break.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance_devices import (
    DEEDS,
    ENDLESS,
    IN_PROCESS,
    REAL_GPU,
    REMOTE,
    STAND_IN,
    Implementation,
    N,
    deed_request,
    inputs,
    opened,
    program,
    right,
    unruly,
)
from process_ends import is_gone
from refusals import refused

from evo.device import BenchCase, ExtremesRequest, RunRequest, gpu_present
from evo.device.output_extremes import Extreme
from evo.device.protocol import Device, ModellingDevice, TimingDevice
from evo.device.remote_device import PROGRAMS_PER_CHILD
from evo.errors import ChildGarbled, Crashed, HarnessFault, TimedOut, WorkerLost

GPU_ROW = pytest.param(REAL_GPU, marks=pytest.mark.gpu, id="GPU")
ALL = [*(pytest.param(one, id=str(one)) for one in (*IN_PROCESS, *REMOTE)), GPU_ROW]
# The stand-in combines the ends of the two others.
CHILDREN = [
    *(pytest.param(one, id=str(one), marks=pytest.mark.long if one is STAND_IN else ()) for one in REMOTE),
    GPU_ROW,
]
# For what the child and its pipe do, whatever device is behind them.
ANY_CHILD = [
    *(pytest.param(one, id=str(one), marks=() if one is REMOTE[0] else pytest.mark.long) for one in REMOTE),
    GPU_ROW,
]


@pytest.fixture
def implementation(request: pytest.FixtureRequest) -> Implementation:
    found: Implementation = request.param
    return found


@pytest.fixture
def device(implementation: Implementation) -> Iterator[Any]:
    if implementation is REAL_GPU and not gpu_present():
        pytest.skip("no GPU")
    with opened(implementation) as made:
        yield made


def is_right(device: Any, **options: Any) -> bool:
    ran = device.run(RunRequest(program=right(), inputs=inputs(), **options))
    return not ran.faults and all(np.array_equal(outputs["y"], 2 * inputs()["x"]) for outputs in ran.outputs)


# --- every device


@pytest.mark.parametrize("implementation", ALL, indirect=True)
def test_it_does_what_the_protocol_says(device: Any) -> None:
    assert isinstance(device, Device)
    about = device.describe()
    assert all(isinstance(word, str) for pair in about.items() for word in pair)
    device.health()


@pytest.mark.parametrize("implementation", ALL, indirect=True)
def test_a_right_program_gives_its_outputs_once_for_each_repeat(device: Any) -> None:
    ran = device.run(RunRequest(program=right(), inputs=inputs(), repeats=3))
    assert ran.faults == ran.overwritten == ran.broken_guards == ()
    assert len(ran.outputs) == 3
    for outputs in ran.outputs:
        assert outputs["y"].dtype == np.float32
        np.testing.assert_array_equal(outputs["y"], 2 * inputs()["x"])


def fault_marks(one: Any, deed: str) -> list[pytest.MarkDecorator]:
    """All faults in this process; in a child two, since a fault travels like any other result."""
    is_long = one.values[0] in REMOTE and deed not in ("trap_1", "stray_1")
    return [*one.marks, *([pytest.mark.long] if is_long else [])]


FAULTS = [
    pytest.param(*one.values, deed, marks=fault_marks(one, deed), id=f"{one.id}: {deed}")
    for one in ALL
    for deed in DEEDS
    if one.values[0].family in DEEDS[deed].kinds
]


@pytest.mark.parametrize(("implementation", "deed"), FAULTS, indirect=["implementation"])
def test_a_fault_is_data_and_the_next_program_is_right(device: Any, implementation: Implementation, deed: str) -> None:
    expected = DEEDS[deed].kinds[implementation.family]
    ran = device.run(deed_request(deed))
    assert ran.faults
    fault = ran.faults[0]
    assert fault.kind in expected
    assert fault.kernel == deed
    assert fault.message
    assert ran.outputs == ()
    assert is_right(device)


@pytest.mark.parametrize("implementation", ALL, indirect=True)
def test_extremes_are_those_of_places_with_the_same_inputs(device: Any) -> None:
    x = np.tile(np.arange(4, dtype=np.float32), N // 4)
    x[9] = 50.0  # among those of group 1
    case = BenchCase(program=right(), inputs={"x": x})
    asked = ExtremesRequest(case=case, draw=1, groups=np.arange(N) % 4)
    found = device.output_extremes(asked)
    assert (found.whole, found.fault, found.unwritten, found.place) == (True, None, None, None)
    extremes = found.extremes["y"]
    assert extremes.seen.all()
    np.testing.assert_array_equal(extremes.low, [0, 2, 4, 6])
    np.testing.assert_array_equal(extremes.high, [0, 100, 4, 6])
    sought = Extreme(output="y", at=1, lowest=False)
    assert device.output_extremes(replace(asked, find=sought)).place == 9


@pytest.mark.parametrize("implementation", ALL, indirect=True)
def test_extremes_of_a_program_that_faults_are_its_fault(device: Any, implementation: Implementation) -> None:
    request = deed_request("stray_1")
    found = device.output_extremes(ExtremesRequest(case=BenchCase(program=request.program, inputs=inputs()), draw=1))
    assert found.fault is not None
    assert found.fault.kind in DEEDS["stray_1"].kinds[implementation.family]
    assert is_right(device)


# --- children


@pytest.mark.parametrize("implementation", CHILDREN, indirect=True)
def test_a_program_that_never_ends_is_timed_out_and_the_next_one_is_right(
    device: Any, implementation: Implementation
) -> None:
    assert is_right(device)
    before = device.pid
    endless = RunRequest(program=program("hang_1", ENDLESS), inputs=inputs(), budget=10**15)
    with pytest.raises(TimedOut) as caught:
        device.run(endless, time_limit_s=0.4)
    assert caught.value.seconds == 0.4
    assert is_right(device)
    assert device.pid != before
    assert is_gone(before)


@pytest.mark.parametrize("implementation", CHILDREN, indirect=True)
def test_a_segmentation_fault_in_the_child_is_the_candidates(device: Any) -> None:
    with pytest.raises(Crashed, match="segmentation fault"):
        device.run(unruly("segfault"))
    assert is_right(device)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_a_segmentation_fault_without_a_candidate_is_the_harness(device: Any) -> None:
    device.describe()
    os.kill(device.pid, signal.SIGSEGV)
    with pytest.raises(WorkerLost, match="SIGSEGV"):
        device.describe()
    assert is_right(device)


@pytest.mark.parametrize("implementation", CHILDREN, indirect=True)
def test_a_child_that_is_killed_from_outside_is_replaced_without_a_word(device: Any) -> None:
    assert is_right(device)
    os.kill(device.pid, signal.SIGKILL)
    assert is_right(device)
    assert device.starts == 2


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
@pytest.mark.parametrize("what", ["killed", "hang up"])
def test_a_child_that_is_lost_twice_is_the_harness_and_never_the_candidate(device: Any, what: str) -> None:
    with pytest.raises(WorkerLost, match="SIGKILL"):
        device.run(unruly(what))
    assert device.starts == 2
    assert is_right(device)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_a_child_that_exits_is_the_harness_with_its_last_words(device: Any) -> None:
    with pytest.raises(WorkerLost, match="exit code 3: out of patience"):
        device.run(unruly("exit"))
    assert is_right(device)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
@pytest.mark.parametrize("what", ["garbage", "wrong message"])
def test_garbage_on_the_pipe_is_the_harness(device: Any, what: str) -> None:
    with pytest.raises(ChildGarbled):
        device.run(unruly(what))
    assert is_right(device)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_a_message_that_breaks_off_is_the_harness(device: Any) -> None:
    with pytest.raises(WorkerLost, match="exit code 4"):
        device.run(unruly("half a message"))
    assert is_right(device)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_a_defect_of_the_device_is_the_harness_with_its_place(device: Any) -> None:
    with pytest.raises(HarnessFault, match=r"ZeroDivisionError: a bug of ours \(conformance_devices.py:\d+\)"):
        device.run(unruly("defect"))
    assert is_right(device)


@pytest.mark.long
@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_a_device_that_is_not_well_after_a_fault_is_not_used(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick = tmp_path / "sick"
    monkeypatch.setenv("EVO_TEST_SICK", str(sick))
    assert is_right(device)
    sick.touch()
    assert is_right(device)  # nothing happened that would give a reason to look
    with pytest.raises(Crashed):
        device.run(unruly("segfault"))
    sick.unlink()
    assert is_right(device)  # looked at, and well
    with pytest.raises(TimedOut):
        device.run(unruly("hang"), time_limit_s=0.5)
    sick.touch()
    with refused(WorkerLost, "health-check"):
        is_right(device)
    sick.unlink()
    assert is_right(device)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_secrets_do_not_reach_the_child(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_TEST_API_KEY", "hush")
    monkeypatch.setenv("EVO_TEST_PROXY", "http://me:hush@proxy")
    monkeypatch.setenv("EVO_TEST_PLAIN", "fine")
    about = device.describe()
    assert about["EVO_TEST_PLAIN"] == "fine"
    assert "hush" not in str(about)


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_the_child_is_replaced_after_fifty_variants(device: Any) -> None:
    one = RunRequest(program=right(), inputs=inputs())
    for number in range(PROGRAMS_PER_CHILD):
        device.run(replace(one, program=replace(one.program, variant=f"v{number}")))
    first = device.pid
    device.run(replace(one, program=replace(one.program, variant="v0")))
    assert device.pid == first  # seen before
    device.run(replace(one, program=replace(one.program, variant="one more")))
    assert device.pid != first
    assert device.starts == 2


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_recycling_gives_a_fresh_process(device: Any) -> None:
    assert is_right(device)
    first = device.pid
    device.recycle()
    assert is_right(device)
    assert device.pid != first


@pytest.mark.parametrize("implementation", ANY_CHILD, indirect=True)
def test_closing_ends_a_call_in_flight_and_all_later_ones(device: Any) -> None:
    assert is_right(device)
    pid = device.pid
    threading.Timer(0.3, device.close).start()
    with pytest.raises(WorkerLost, match="closed"):
        device.run(unruly("hang"), time_limit_s=30.0)
    with pytest.raises(WorkerLost, match="closed"):
        is_right(device)
    assert is_gone(pid)


# --- devices that model, devices that measure


@pytest.mark.parametrize("implementation", [one for one in ALL if "simulator" in str(one.id)], indirect=True)
def test_a_modelling_device_estimates_screens_and_samples(device: Any) -> None:
    from evo.device import SampleRequest

    assert isinstance(device, ModellingDevice)
    assert not isinstance(device, TimingDevice)
    large = 64 * 400
    case = BenchCase(program=right(large), inputs=inputs(large))
    (row,) = device.estimate([case])
    assert row.estimate is not None
    assert row.estimate.modelled_us > 0
    (quick,) = device.screen([case])
    assert quick.time_us == pytest.approx(row.time_us, rel=0.5)
    sampled = device.run_sample(SampleRequest(case=case, draw=5, blocks=32))
    assert not sampled.whole
    assert sampled.fault is None
    assert sampled.blocks == 400
    assert 0 < len(sampled.places["y"]) < large
    np.testing.assert_array_equal(sampled.values["y"], 2 * inputs(large)["x"][sampled.places["y"]])
    whole = device.run_sample(SampleRequest(case=case, draw=5))
    assert whole.whole
    assert len(whole.places["y"]) == large
    stray = BenchCase(program=deed_request("stray_1").program, inputs=inputs())
    assert device.estimate([case, stray]).kind == "out_of_bounds"
    assert device.run_sample(SampleRequest(case=stray, draw=5)).fault.kind == "out_of_bounds"


@pytest.mark.parametrize("implementation", [one for one in ALL if "simulator" in str(one.id)], indirect=True)
def test_what_a_modelling_device_translates_ahead_is_what_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: Any
) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    device.translate(right())
    translated = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert translated
    assert is_right(device)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == translated


@pytest.mark.parametrize("implementation", [one for one in ALL if "simulator" not in str(one.id)], indirect=True)
def test_a_timing_device_times_candidates_in_pairs_with_their_parents(device: Any) -> None:
    from evo.device.timing_types import BenchOptions, BenchRequest

    large = 64 * 400
    candidate = BenchCase(program=right(large), inputs=inputs(large))
    options = BenchOptions(samples=16, cold_samples=0, warm_up_s=0.1, budget_s=20.0)
    alone = device.bench(BenchRequest(child=(candidate,), options=options))
    assert alone.divergence is None
    assert alone.pairs == alone.parent == ()
    assert alone.child[0].warm.p50_us > 0
    twice = device.bench(BenchRequest(child=(candidate,), parent=(candidate,), options=options))
    assert len(twice.parent) == 1
    assert len(twice.pairs) >= 4
    assert all(set(pair) == {"size"} for pair in twice.pairs)
    assert abs(float(np.median([pair["size"] for pair in twice.pairs]))) < 0.2


LIBRARY = """\
def rivals():
    def broken(tensors, case): raise RuntimeError('not on this chip')
    return {'library': lambda tensors, case: case['K'] * tensors['x'], 'broken': broken}
"""


@pytest.mark.parametrize(
    "implementation", [one for one in ALL if str(one.id) in ("fake GPU", "fake GPU in a child", "GPU")], indirect=True
)
def test_a_timing_device_times_the_library_and_knows_its_rates(device: Any, tmp_path: Path) -> None:
    from evo.device.calibrate import rate_kernels
    from evo.device.timing_types import BenchOptions, BenchRequest, LibraryCase

    assert isinstance(device, TimingDevice)
    assert not isinstance(device, ModellingDevice)
    (tmp_path / "reference.py").write_text(LIBRARY)
    large = 64 * 400
    library = LibraryCase(folder=str(tmp_path), axes={"K": 2}, inputs=inputs(large))
    options = BenchOptions(samples=16, cold_samples=4, warm_up_s=0.1, budget_s=20.0)
    times = device.time_library(library, options)
    assert times["library"].warm.p50_us > 0
    assert "not on this chip" in times["broken"]
    candidate = BenchCase(program=right(large), inputs=library.inputs)
    request = BenchRequest(child=(candidate,), options=options)
    pairs = device.compare_with_library(request, library, 5)
    assert len(pairs["library"].ratios) + pairs["library"].dropped >= 5
    assert pairs["library"].variant_us > 0
    assert "not on this chip" in pairs["broken"]
    rates = device.calibrate(rate_kernels("sm_80"), True)
    assert rates["sm_clock_hz"].value > 1e8
