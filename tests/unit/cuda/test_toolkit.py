"""cuda-bindings decides which CUDA toolkit is used; a compiler never gets the headers of another toolkit."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from refusals import refused

from evo.cuda.compile.toolkit import find_toolkit, toolkit_major, toolkit_wheels
from evo.errors import HarnessFault

CU12 = {
    "nvidia-cuda-nvrtc-cu12": "nvidia/cuda_nvrtc",
    "nvidia-cuda-runtime-cu12": "nvidia/cuda_runtime/include",
    "nvidia-cuda-nvcc-cu12": "nvidia/cuda_nvcc/include",
    "nvidia-cuda-cccl-cu12": "nvidia/cuda_cccl/include",
}


def wheel(site: Path, name: str, version: str, folder: str | None = None) -> None:
    """What pip leaves of a wheel, as far as its metadata and one folder of its files."""
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if folder is not None:
        (site / folder).mkdir(parents=True)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A site-packages before the real one, which has the toolkit of CUDA 13."""
    monkeypatch.syspath_prepend(tmp_path)
    find_toolkit.cache_clear()
    yield tmp_path
    find_toolkit.cache_clear()


def test_with_the_bindings_of_cuda_12_compiler_and_headers_are_of_12_though_13_is_installed_too(site: Path) -> None:
    assert importlib.metadata.version("nvidia-cuda-nvrtc").startswith("13.")
    wheel(site, "cuda-bindings", "12.9.1")
    for name, folder in CU12.items():
        wheel(site, name, "12.8.90", folder)
    found = find_toolkit()
    assert found.version == "nvrtc 12.8.90"
    assert found.include_folders == tuple(str(site / folder) for folder in list(CU12.values())[1:])
    assert "nvidia-cuda-nvcc-cu12=12.8.90" in found.fingerprint
    assert set(toolkit_wheels(12)) >= set(CU12)


def test_with_the_bindings_of_cuda_13_the_headers_are_of_13(site: Path) -> None:
    for name, folder in CU12.items():
        wheel(site, name, "12.8.90", folder)
    found = find_toolkit()
    assert (toolkit_major(), found.version.partition(".")[0]) == (13, "nvrtc 13")
    assert not [folder for folder in found.include_folders if folder.startswith(str(site))]


def test_a_toolkit_that_lacks_a_wheel_names_it_and_the_extra_that_brings_it(site: Path) -> None:
    wheel(site, "cuda-bindings", "12.9.1")
    wheel(site, "nvidia-cuda-nvrtc-cu12", "12.8.93", "nvidia/cuda_nvrtc")
    with pytest.raises(HarnessFault, match="nvidia-cuda-runtime-cu12") as caught:
        find_toolkit()
    assert "evo-kernels[cu12]" in caught.value.hint


def test_a_damaged_wheel_is_to_be_reinstalled(site: Path) -> None:
    wheel(site, "nvidia-cuda-nvrtc", "13.0.1")
    with refused(HarnessFault, "toolkit-incomplete") as caught:
        find_toolkit()
    assert "--force-reinstall nvidia-cuda-nvrtc" in caught.value.hint


def test_bindings_of_an_unknown_toolkit_are_refused(site: Path) -> None:
    wheel(site, "cuda-bindings", "14.0.0")
    with pytest.raises(HarnessFault, match="cuda-bindings 14"):
        find_toolkit()


@pytest.mark.parametrize(("platform", "helps"), [("linux", True), ("darwin", False)])
def test_without_a_compiler_the_hint_is_one_that_helps_here(
    site: Path, monkeypatch: pytest.MonkeyPatch, platform: str, helps: bool
) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "cuda-bindings":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(HarnessFault) as caught:
        find_toolkit()
    assert ("evo-kernels[sim]" in caught.value.hint) is helps
