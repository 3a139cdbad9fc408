"""A limit counts what a process does, not what a busy machine keeps from it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
from refusals import refused

from evo.device import DeviceName
from evo.device.remote_device import RemoteSimulator
from evo.errors import TimedOut, WorkerLost
from evo.spec import processor_wait
from evo.spec.processor_wait import ProcessorWait

SUPPORT = Path(__file__).resolve().parents[2] / "support"
from worker_devices import Program, Request  # noqa: E402


class Waits:
    """What a child has waited for a processor, as given, in place of /proc."""

    given: tuple[float, ...] = ()

    def __init__(self, _: int) -> None:
        self._values = chain(self.given, repeat(self.given[-1]))

    def seconds(self) -> float:
        return next(self._values)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteSimulator]:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    with RemoteSimulator(DeviceName("sim", "l4"), opener="worker_devices:Device") as device:
        yield device


def late(device: RemoteSimulator, monkeypatch, given: tuple[float, ...], seconds: float, limit: float) -> object:
    device.run(Request(Program("v"), "pid"), time_limit_s=20)  # it has started
    monkeypatch.setattr(Waits, "given", given)
    monkeypatch.setattr(processor_wait, "ProcessorWait", Waits)
    return device.run(Request(Program("v"), "sleep", seconds), time_limit_s=limit)


def test_time_without_a_processor_is_not_on_the_clock(device, monkeypatch):
    assert late(device, monkeypatch, (0.3, 0.9), 0.6, 0.3) is None


def test_a_quick_answer_costs_no_look_at_what_was_waited_for(device, monkeypatch):
    device.run(Request(Program("v"), "pid"), time_limit_s=20)  # it has started
    asked: list[int] = []
    monkeypatch.setattr(processor_wait, "ProcessorWait", asked.append)
    monkeypatch.setattr(processor_wait, "_QUICK_S", 20.0)
    device.run(Request(Program("v"), "pid"), time_limit_s=20)
    assert not asked


def test_a_short_limit_is_waited_for_many_times_over_on_a_busy_machine(device, monkeypatch):
    assert late(device, monkeypatch, (3.0,), 1.0, 0.1) is None


def test_a_process_that_had_its_time_is_timed_out(device, monkeypatch):
    with pytest.raises(TimedOut):
        late(device, monkeypatch, (0.0,), 5.0, 0.3)


def test_a_machine_without_time_for_it_is_nobodys_mistake(device, monkeypatch):
    monkeypatch.setattr(processor_wait, "_LEAST_PATIENCE_S", 0.2)
    with refused(WorkerLost, "slow"):
        late(device, monkeypatch, (1e9,), 5.0, 0.1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_a_process_that_sleeps_waits_for_no_processor():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
    try:
        time.sleep(0.2)
        wait = ProcessorWait(child.pid)
        time.sleep(0.3)
        assert wait.seconds() < 0.3
    finally:
        child.kill()
        child.wait()
    assert wait.seconds() < 0.3  # it has gone
