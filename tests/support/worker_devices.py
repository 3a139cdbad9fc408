"""Devices that misbehave on request, opened in the child process by test_remote_device.py."""

import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np

from evo.device import DeviceName
from evo.errors import Crashed, DeviceMissing, TaskInvalid
from evo.spec.shared_arrays import shared_empty


@dataclass
class Program:
    variant: str


@dataclass
class Request:
    """Stands in for a RunRequest: the variant, and what its kernel does."""

    program: Program
    action: str
    value: object = None


class Device:
    notify = None
    spent = False

    def __init__(self, name: DeviceName) -> None:
        self.name = name

    def describe(self) -> dict[str, str]:
        return {"pid": str(os.getpid()), **{k: v for k, v in os.environ.items() if k.startswith("EVO_TEST")}}

    def health(self) -> None:
        pass

    def run(self, request: Request) -> object:
        return getattr(self, request.action)(request.value)

    def echo(self, value: object) -> object:
        return value

    def pid(self, _: object) -> int:
        return os.getpid()

    def double(self, array: np.ndarray) -> np.ndarray:
        return array * 2

    def shared(self, size: int) -> list[np.ndarray]:
        array = shared_empty((size,), np.dtype(np.float32))
        array[...] = np.arange(size)
        return [array, array[: size // 2]]

    def hang(self, _: object) -> None:
        while True:
            time.sleep(1)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def segfault(self, _: object) -> None:
        ctypes.string_at(0)

    def killed(self, _: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def killed_once(self, path: str) -> str:
        if not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return "second try"

    def sticky(self, _: object) -> str:
        self.spent = True
        return "fault in the result"

    def crash(self, _: object) -> None:
        raise Crashed("illegal memory access")

    def task_error(self, _: object) -> None:
        raise TaskInvalid("reference.py: broken", hint="fix it")

    def defect(self, _: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    def chatter(self, _: object) -> str:
        os.write(1, b"device printf\n")
        print("python print", flush=True)
        sys.stderr.write("a warning\n")
        return "quiet"

    def wait_for_gpu(self, seconds: float) -> str:
        assert self.notify is not None
        self.notify("waiting")
        time.sleep(seconds)
        self.notify("running")
        return "waited"


def missing(name: DeviceName) -> Device:
    raise DeviceMissing(f"no {name}", hint="use the simulator")


def unhealthy(name: DeviceName) -> Device:
    device = Device(name)

    def health() -> None:
        raise RuntimeError("no kernel runs any more")

    device.health = health  # type: ignore[method-assign]
    return device
