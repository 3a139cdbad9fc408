"""L2 set aside for a measurement: what the driver is asked for, in which order, and that nothing of it is left."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refused

pytest.importorskip("cupy")

from evo.device import gpu_l2
from evo.device.gpu_l2 import PersistingL2, Window, window_of
from evo.errors import HarnessFault, UsageError


class Driver:
    """Enough of libcuda and of CuPy's runtime; `said` is what it was told."""

    def __init__(self, set_aside: int = 1000, longest: int = 8000, code: int = 0) -> None:
        self.said: list[Any] = []
        self.code = code
        self.attributes = {108: set_aside, 109: longest}

    def deviceGetAttribute(self, number: int, index: int) -> int:
        return self.attributes[number]

    def deviceSetLimit(self, limit: int, size: int) -> None:
        self.said.append((limit, size))

    def cuCtxResetPersistingL2Cache(self) -> int:
        self.said.append("reset")
        return 0

    def cuStreamSetAttribute(self, stream: Any, attribute: Any, value: Any) -> int:
        window = ctypes.cast(value, ctypes.POINTER(Window)).contents
        self.said.append((stream.value, attribute.value, window.base, window.bytes, window.hit_ratio, window.hit))
        return self.code


def aside(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> PersistingL2:
    monkeypatch.setattr(gpu_l2, "runtime", driver)
    return PersistingL2(0, driver)


def test_a_window_is_laid_out_as_the_driver_reads_it() -> None:
    assert ctypes.sizeof(Window) == 64
    offsets = [getattr(Window, name).offset for name in ("base", "bytes", "hit_ratio", "hit", "miss")]
    assert offsets == [0, 8, 16, 20, 24]
    small, large, larger = (window_of(4096, size, set_aside=1000, longest=8000) for size in (500, 4000, 9000))
    assert (small.base, small.bytes, small.hit_ratio) == (4096, 500, 1.0)
    assert (large.bytes, large.hit_ratio) == (4000, 0.25)
    assert (larger.bytes, larger.hit_ratio) == (8000, 0.125)


def test_what_is_captured_in_the_window_carries_it_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    with aside(monkeypatch, driver) as l2, l2.window(77, 4096, 2000):
        driver.said.append("captured")
    assert driver.said == [
        (6, 1000), (77, 1, 4096, 2000, 0.5, 2), "captured", (77, 1, None, 0, 0.0, 0), "reset", (6, 0),
    ]  # fmt: skip


def test_a_failure_leaves_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    with pytest.raises(ZeroDivisionError), aside(monkeypatch, driver) as l2, l2.window(77, 4096, 2000):
        raise ZeroDivisionError
    assert driver.said[-3:] == [(77, 1, None, 0, 0.0, 0), "reset", (6, 0)]


def test_a_gpu_without_it_and_a_driver_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(UsageError, "unsupported"):
        aside(monkeypatch, Driver(set_aside=0))
    driver = Driver(code=801)
    with (
        pytest.raises(HarnessFault, match="801"),
        aside(monkeypatch, driver) as l2,
        l2.window(1, 2, 3),
    ):
        pass
    assert driver.said[-1] == (6, 0)


def test_the_timers_get_what_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    from evo.device import gpu_timing
    from evo.device.timing_types import BenchOptions, BenchRequest

    driver = Driver()
    seen: list[Any] = []

    def timer(*_: Any, aside: Any) -> Any:
        seen.append(aside)
        raise ZeroDivisionError  # far enough

    monkeypatch.setattr(gpu_l2, "runtime", driver)
    monkeypatch.setattr(gpu_timing, "CaseTimer", timer)
    monkeypatch.setattr(gpu_timing, "PersistingL2", lambda index: PersistingL2(index, driver))
    device: Any = SimpleNamespace(name=SimpleNamespace(which="0"))
    case: Any = SimpleNamespace()
    for persist in (True, False):
        with pytest.raises(ZeroDivisionError):
            gpu_timing.TimingRun(
                device, BenchRequest(child=(case,), options=BenchOptions(l2_persist=persist))
            ).measure()
    assert isinstance(seen[0], PersistingL2)
    assert seen[1] is None
    assert driver.said == [(6, 1000), "reset", (6, 0)]
