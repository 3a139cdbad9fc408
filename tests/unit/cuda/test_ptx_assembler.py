"""PTX is assembled for another architecture without a GPU, once; what cannot be assembled is left to the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.cuda.compile import Binary, assemble_ahead, assembled, compile_source, ptx_assembler
from evo.cuda.compile.toolkit import assembler_version

KERNEL = 'extern "C" __global__ void twice(float* y) { y[threadIdx.x] *= 2.0f; }'
ELF = b"\x7fELF"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))


@pytest.fixture
def ptx() -> str:
    if assembler_version() is None:
        pytest.skip("nvJitLink comes with the extras cu12 and cu13 alone")
    binary = compile_source(KERNEL, name="twice.cu", macros={})
    assert isinstance(binary, Binary)
    return binary.ptx


def test_what_is_assembled_ahead_is_not_assembled_again(ptx: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assemble_ahead(ptx, "sm_90")
    monkeypatch.delattr(ptx_assembler, "link")
    found = assembled(ptx, "sm_90")
    assert found is not None
    assert found[:4] == ELF


def test_ahead_or_not_the_code_is_the_same(ptx: str) -> None:
    first = assembled(ptx, "sm_90")
    assemble_ahead(ptx, "sm_90")
    assert assembled(ptx, "sm_90") == first


@pytest.mark.parametrize("arch", ["sm_12", "sm_90"])
def test_what_cannot_be_assembled_is_left_to_the_driver(ptx: str, arch: str) -> None:
    text = ptx if arch == "sm_12" else ptx.replace("ret;", "return;")
    assemble_ahead(text, arch)
    assert assembled(text, arch) is None


def test_without_nvjitlink_it_is_left_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx_assembler, "assembler_version", lambda: None)
    assemble_ahead("any", "sm_90")
    assert assembled("any", "sm_90") is None
