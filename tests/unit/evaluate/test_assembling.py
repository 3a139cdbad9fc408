"""PTX is assembled once for each binary, and what fails there is left to where it is loaded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evo.device import DeviceName
from evo.errors import WorkerLost
from evo.evaluate import assembling
from evo.evaluate.assembling import Assemblers
from evo.evaluate.prepare import Prepared
from evo.results import CompileReport


class FakeGpu:
    asked: list[str]

    def __init__(self, device: DeviceName) -> None:
        self.closed = False

    def prepare_spare(self) -> None: ...

    def assemble(self, binary: Any) -> None:
        self.asked.append(binary.key)
        if binary.key == "broken":
            raise WorkerLost("gone", hint="")

    def close(self) -> None:
        self.closed = True


def prepared(*keys: str) -> Prepared:
    programs = {str(place): SimpleNamespace(binary=SimpleNamespace(key=key)) for place, key in enumerate(keys)}
    return Prepared(
        variant=cast(Any, None), programs=cast(Any, programs), report=cast(CompileReport, None), code_hash=""
    )


def test_each_binary_is_assembled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembling, "RemoteGpu", FakeGpu)
    monkeypatch.setattr(FakeGpu, "asked", [], raising=False)
    assemblers = Assemblers(DeviceName("gpu", "0"))
    for keys in (("a", "a", "broken"), ("b", "a"), ("broken",)):
        assemblers.assemble(prepared(*keys))
    assert FakeGpu.asked == ["a", "broken", "b"]
