"""One measurement at a time per GPU: the lock that processes share, and NVML's side of a block, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refused

from evo.device.gpu_lock import held, lock_path
from evo.device.nvml import Monitor, clock_between
from evo.errors import HarnessFault

HOLDER = """
import sys, time
from pathlib import Path
from evo.device.gpu_lock import held
with held(Path(sys.argv[1]), exclusive=sys.argv[2] == "alone", name="gpu:0"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@dataclass
class Holder:
    """Another process that has the lock until it is told to let go, or dies."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, path: Path, how: str) -> Holder:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return cls(process)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def test_one_times_alone_and_the_other_waits_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    other = Holder.start(path, "alone")
    heard: list[str] = []
    with (
        refused(HarnessFault, "busy"),
        held(path, exclusive=True, name="gpu:0", notify=heard.append, limit_s=0.2),
    ):
        pass
    assert heard == ["waiting"]

    def let_go(word: str) -> None:
        heard.append(word)
        if word == "waiting":
            other.end()  # a lock ends with its process, however that ends

    heard.clear()
    with held(path, exclusive=True, name="gpu:0", notify=let_go, limit_s=10):
        assert heard == ["waiting", "running"]


def test_many_check_at_once_and_nobody_times_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    other = Holder.start(path, "shared")
    try:
        heard: list[str] = []
        with held(path, exclusive=False, name="gpu:0", notify=heard.append):
            assert heard == []
        with pytest.raises(HarnessFault), held(path, exclusive=True, name="gpu:0", limit_s=0.1):
            pass
    finally:
        other.end()


def test_who_checks_without_a_pause_does_not_keep_who_times_waiting(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    is_over, entered = threading.Event(), [0, 0, 0]

    def check(which: int) -> None:
        while not is_over.is_set():
            with held(path, exclusive=False, name="gpu:0"):
                entered[which] += 1
                is_over.wait(0.15)  # the others enter before this one leaves

    checks = [threading.Thread(target=check, args=(which,)) for which in range(3)]
    try:
        for thread in checks:
            thread.start()
            time.sleep(0.05)
        with held(path, exclusive=True, name="gpu:0", limit_s=20):
            within = list(entered)
            time.sleep(0.3)
            assert entered == within
    finally:
        is_over.set()
        for thread in checks:
            thread.join()


def test_another_users_lock_file_is_usable_and_tmpdir_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    path.chmod(0o444)
    with held(path, exclusive=True, name="gpu:0"):
        pass
    before = lock_path("GPU-1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lock_path("GPU-1") == before
    assert lock_path("GPU-2") != before
    with (
        refused(HarnessFault, "not-writable"),
        held(tmp_path / "nowhere" / "gpu.lock", exclusive=True, name="gpu:0"),
    ):
        pass


def monitor(**answers: object) -> Monitor:
    """A Monitor whose driver gives these answers and none else."""

    def answer(value: object):
        return lambda *_: value

    found = Monitor("no such bus")
    found._nvml = SimpleNamespace(**{name: answer(value) for name, value in answers.items()})
    return found


def test_each_block_has_clock_power_temperature_and_throttle_reasons() -> None:
    reading = monitor(
        nvmlDeviceGetClockInfo=1980,
        nvmlDeviceGetCurrentClocksEventReasons=0x1 | 0x4,
        nvmlDeviceGetPowerUsage=312_500,
        nvmlDeviceGetTemperature=41,
    ).read()
    assert (reading.sm_mhz, reading.throttle, reading.power_w, reading.temperature_c) == (1980, 0x4, 312.5, 41)
    nothing = monitor().read()
    assert (nothing.sm_mhz, nothing.throttle, nothing.power_w, nothing.clock_mhz) == (None, None, None, None)


def test_other_processes_on_the_gpu_are_counted() -> None:
    def others(*pids: int) -> int | None:
        return monitor(nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=pid) for pid in pids]).others()

    me = os.getpid()
    assert others(me) == 0
    assert others(me, 2**30, 2**30 + 1) == 2
    with subprocess.Popen(["sleep", "9"]) as mine:  # of this run, as the judge is
        assert others(me, mine.pid, 2**30) == 1
        mine.kill()
    assert others(71, 72) is None  # a container, where our own number is another
    assert others() == 0
    assert monitor().others() is None


def test_the_clock_policy_is_read() -> None:
    clocks = {"nvmlDeviceGetApplicationsClock": 1200, "nvmlDeviceGetDefaultApplicationsClock": 1980}
    assert monitor(**clocks).describe()["clock_policy"] == "application clock 1200 MHz"
    assert monitor(**dict.fromkeys(clocks, 1980)).describe()["clock_policy"] == "default"
    assert "clock_policy" not in monitor().describe()


def test_the_clock_between_two_stamps_is_that_of_the_middle_sm() -> None:
    first, second = np.zeros((4, 2), np.uint64), np.zeros((4, 2), np.uint64)
    first[:3] = [[1000, 10**9], [5, 10**9 + 3], [70, 10**9]]
    second[:3] = first[:3] + np.array([[1_980_000, 10**6], [1_980_000, 10**6], [990_000, 10**6]], np.uint64)
    assert clock_between(first, second) == pytest.approx(1980)
    short = first.copy()
    short[:3] += np.array([198, 100], np.uint64)
    assert clock_between(first, short) is None
    assert clock_between(np.zeros((4, 2), np.uint64), second) is None


def test_time_passes_while_nobody_holds_it(tmp_path: Path) -> None:
    started = time.monotonic()
    for _ in range(50):
        with held(tmp_path / "gpu.lock", exclusive=True, name="gpu:0"):
            pass
    assert time.monotonic() - started < 1.0
