"""Code is made once for each binary, side by side, and what fails there is left to the device that runs it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evo.device import DeviceName
from evo.errors import Crashed, WorkerLost
from evo.evaluate import code_ahead
from evo.evaluate.code_ahead import CodeAhead
from evo.evaluate.prepare import Prepared
from evo.results import CompileReport

SIM, GPU = DeviceName("sim", "l4"), DeviceName("gpu", "0")


class FakeProcess:
    asked: list[tuple[str, str]]

    def __init__(self, device: DeviceName) -> None:
        self.device, self.closed = device, False

    def prepare_spare(self) -> None: ...

    def assemble(self, binary: Any) -> None:
        self.asked.append(("assemble", binary.key))
        if binary.key == "broken":
            raise WorkerLost("gone", hint="")

    def translate(self, program: Any) -> None:
        self.asked.append(("translate", program.binary.key))
        if program.binary.key == "broken":
            raise Crashed("gone")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    for name in ("RemoteGpu", "RemoteSimulator"):
        monkeypatch.setattr(code_ahead, name, FakeProcess)
    monkeypatch.setattr(code_ahead.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(FakeProcess, "asked", [], raising=False)
    return FakeProcess.asked


def prepared(*keys: str) -> Prepared:
    programs = {str(place): SimpleNamespace(binary=SimpleNamespace(key=key)) for place, key in enumerate(keys)}
    return Prepared(
        variant=cast(Any, None), programs=cast(Any, programs), report=cast(CompileReport, None), code_hash=""
    )


def test_each_binary_is_assembled_once(asked: list[tuple[str, str]]) -> None:
    code = CodeAhead(SIM, GPU)
    for keys in (("a", "a", "broken"), ("b", "a"), ("broken",)):
        code.assembled(prepared(*keys))
    assert sorted(asked) == [("assemble", "a"), ("assemble", "b"), ("assemble", "broken")]


def test_all_binaries_but_the_first_are_translated(asked: list[tuple[str, str]]) -> None:
    code = CodeAhead(SIM, None)
    code.begin(prepared("first", "broken", "first", "other").programs)
    code.begin(prepared("alone").programs)
    code._translation._threads.shutdown(wait=True)  # type: ignore[union-attr]
    assert sorted(asked) == [("translate", "broken"), ("translate", "other")]


def test_binaries_of_one_variant_are_assembled_side_by_side(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=20)
    used: list[object] = []

    def assemble(self: FakeProcess, binary: Any) -> None:
        used.append(self)
        both.wait()

    monkeypatch.setattr(FakeProcess, "assemble", assemble)
    CodeAhead(SIM, GPU).assembled(prepared("a", "b"))
    first, second = used
    assert first is not second


def test_on_few_cores_nothing_is_translated_ahead(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_ahead.os, "cpu_count", lambda: 2)
    code = CodeAhead(SIM, None)
    code.begin(prepared("first", "other").programs)
    assert code._translation is None


def test_after_the_end_nothing_is_begun(asked: list[tuple[str, str]]) -> None:
    code = CodeAhead(SIM, GPU)
    code.close()
    code.begin(prepared("first", "other").programs)
    code.assembled(prepared("first"))
    assert not asked
