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

SIM = DeviceName("sim", "l4")


class FakeSimulator:
    asked: list[tuple[str, str]]

    def __init__(self, device: DeviceName) -> None:
        self.device = device

    def translate(self, program: Any) -> None:
        self.asked.append(("translate", program.binary.key))
        if program.binary.key == "broken":
            raise Crashed("gone")

    def close(self) -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def assemble(ptx: str, arch: str) -> None:
        found.append((arch, ptx))
        if ptx == "broken":
            raise WorkerLost("gone", hint="")

    monkeypatch.setattr(code_ahead, "RemoteSimulator", FakeSimulator)
    monkeypatch.setattr(code_ahead, "assemble_ahead", assemble)
    monkeypatch.setattr(code_ahead.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(FakeSimulator, "asked", found, raising=False)
    return found


def prepared(*keys: str) -> Prepared:
    programs = {str(place): SimpleNamespace(binary=SimpleNamespace(key=key, ptx=key)) for place, key in enumerate(keys)}
    return Prepared(
        variant=cast(Any, None), programs=cast(Any, programs), report=cast(CompileReport, None), code_hash=""
    )


def test_each_binary_is_assembled_once(asked: list[tuple[str, str]]) -> None:
    code = CodeAhead(SIM, "sm_90")
    for keys in (("a", "a", "broken"), ("b", "a"), ("broken",)):
        code.assembled(prepared(*keys))
    assert sorted(asked) == [("sm_90", "a"), ("sm_90", "b"), ("sm_90", "broken")]


def test_all_binaries_but_the_first_are_translated(asked: list[tuple[str, str]]) -> None:
    code = CodeAhead(SIM, None)
    code.begin(prepared("first", "broken", "first", "other").programs)
    code.begin(prepared("alone").programs)
    code._translation._threads.shutdown(wait=True)  # type: ignore[union-attr]
    assert sorted(asked) == [("translate", "broken"), ("translate", "other")]


def test_binaries_of_one_variant_are_assembled_side_by_side(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(3, timeout=20)
    monkeypatch.setattr(code_ahead, "assemble_ahead", lambda ptx, arch: both.wait())
    code = CodeAhead(SIM, "sm_90")
    code.begin(prepared("a", "b").programs)
    both.wait()  # not before both are under way
    code.assembled(prepared("a", "b"))


def test_on_few_cores_nothing_is_translated_ahead(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_ahead.os, "cpu_count", lambda: 2)
    code = CodeAhead(SIM, None)
    code.begin(prepared("first", "other").programs)
    assert code._translators is None


def test_after_the_end_nothing_is_begun(asked: list[tuple[str, str]]) -> None:
    code = CodeAhead(SIM, "sm_90")
    code.close()
    code.begin(prepared("first", "other").programs)
    code.assembled(prepared("first"))
    assert not asked
