"""The checks of `evo doctor`. Each examines one thing and never raises; a missing thing is a finding."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from evo.cli.command_context import GlobalOptions
from evo.errors import CandidateFailed, EvoError, HarnessFault
from evo.results.codec import Serializable

if TYPE_CHECKING:
    from evo.cuda.compile import Binary

_CUDA12 = "the driver is older than CUDA 13: pip uninstall -y cupy-cuda13x, then pip install 'evo-kernels[cu12]'"
_DISASSEMBLER = "nvidia-cuda-nvdisasm"
_OLDEST_GIT = (2, 31)  # the oldest git with the ledger's commands
_ENOUGH_DISK_BYTES = 2 * 2**30  # for the compiled variants and records of a long run
_CPU_FEATURES = ("sse4_2", "avx2", "fma", "f16c", "avx512f", "avx512fp16", "asimd", "fphp", "sve")
_ARCH = "sm_89"
_LIMIT_S = 120.0
_SMOKE = """\
// evo: launch doctor grid (1) block (32) shared 0
extern "C" __global__ void doctor(float* out) { out[threadIdx.x] = 2.0f * threadIdx.x; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Serializable):
    """One thing that was looked for."""

    name: str  # what was looked for
    state: str  # `ok`, `warn` (evo works, with less) or `missing`
    found: str  # what was found
    needed: bool = False  # whether the simulator does not work without it
    to_do: str | None = None  # what to do about it


def _finding(
    name: str, is_good: object, found: str, to_do: str, *, needed: bool = False, otherwise: str = "missing"
) -> Finding:
    """to_do: if it is not good."""
    state, to_do_now = ("ok", None) if is_good else (otherwise, to_do)
    return Finding(name=name, state=state, found=found, to_do=to_do_now, needed=needed)


def examine(session: GlobalOptions) -> list[Finding]:
    """All findings, in a sensible order for reading."""
    looks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _git,
        _compiler,
        _simulator,
        _torch,
        _gpu,
        _extras,
        _cache,
        lambda: _repository(session),
    ]
    return [finding for look in looks for finding in look()]


def _extras() -> Iterator[Finding]:
    """Packages that only `--operators llm`, `evo mcp` and Ray clusters need."""
    extras = (
        ("llm", "openai", "--operators llm"),
        ("mcp", "mcp", "evo mcp"),
        ("cluster", "ray", "--cluster ray://HOST:PORT"),
    )
    for extra, package, what in extras:
        version = _version(package)
        found = f"{package} {version}" if version else f"{package} is not installed; only {what} needs it"
        to_do = None if version else f"pip install 'evo-kernels[{extra}]'"
        yield Finding(name=extra, state="ok", found=found, to_do=to_do)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Iterator[Finding]:
    fits = sys.version_info >= (3, 11)
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    yield _finding("python", fits, found, "evo needs Python 3.11 or newer", needed=True)


def _git() -> Iterator[Finding]:
    if shutil.which("git") is None:
        yield Finding(
            name="git", state="missing", found="not on PATH", to_do="install git; iterate commits champions to it"
        )
        return
    version = _output("git", "--version").removeprefix("git version ")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_GIT:
        yield Finding(name="git", state="warn", found=version, to_do="install git 2.31 or later")
        return
    name, email = _output("git", "config", "user.name"), _output("git", "config", "user.email")
    if name and email:
        yield Finding(name="git", state="ok", found=f"{version}, commits as {name} <{email}>")
    else:
        to_do = "git config --global user.name NAME; git config --global user.email ADDRESS"
        yield Finding(name="git", state="warn", found=f"{version}, no identity for commits", to_do=to_do)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout.strip()


def _compiler() -> Iterator[Finding]:
    from evo.cuda.compile import toolkit_major, toolkit_wheels

    major = toolkit_major()
    versions = {wheel: _version(wheel) for wheel in toolkit_wheels(major or 13)}
    to_do = f"pip install 'evo-kernels[{_wanted_extra(major)}]'"
    disassembler = versions.pop(_DISASSEMBLER)
    short = {wheel: wheel.removeprefix("nvidia-cuda-").removesuffix("-cu12") for wheel in versions}
    found = ", ".join(f"{short[wheel]} {version}" for wheel, version in versions.items() if version)
    whole = major is not None and None not in versions.values()
    yield _finding("cuda wheels", whole, found or "none", to_do, needed=True)
    yield _finding("nvdisasm", disassembler, disassembler or "not installed", to_do, needed=True)
    yield _compiles()


def _wanted_extra(installed: int | None) -> str:
    """The extra with the matching toolkit: the installed one, or one that the driver runs."""
    driver = _driver()
    if isinstance(driver, str):
        return "sim" if installed != 12 else "cu12"
    return f"cu{installed}" if installed in (12, 13) else "cu12" if driver.cuda < (13, 0) else "cu13"


def _compiles() -> Finding:
    from evo.cuda.compile import toolkit_version

    started_s = time.perf_counter()
    try:
        _smoke_binary()
    except EvoError as error:
        return _faulty("compiler", error)
    elapsed_s = time.perf_counter() - started_s
    found = f"{toolkit_version()} compiled a kernel for {_ARCH} in {elapsed_s:.2f} s, no GPU used"
    return Finding(name="compiler", state="ok", found=found, needed=True)


def _faulty(name: str, error: EvoError) -> Finding:
    """A package that is installed and does not work; a hint to run `evo doctor` is replaced."""
    hint = "reinstall the packages named above, all of one version" if "evo doctor" in error.hint else error.hint
    return Finding(name=name, state="missing", found=" ".join(error.message.split()), to_do=hint, needed=True)


def _smoke_binary() -> Binary:
    from evo.cuda.compile import Cache, Diagnostics, compile_source

    built = compile_source(_SMOKE, name="doctor.cu", macros={}, arch=_ARCH, cache=Cache(None))
    if isinstance(built, Diagnostics):
        raise HarnessFault(built.reason, hint="reinstall the CUDA wheels named above")
    return built


def _simulator() -> Iterator[Finding]:
    llvmlite = _version("llvmlite")
    if llvmlite is None:
        yield Finding(name="simulator", state="missing", found="no llvmlite", to_do="pip install llvmlite", needed=True)
        return
    try:
        shown = _launched("sim", "l4")
    except EvoError as error:
        yield _faulty("simulator", error)
        return
    yield Finding(name="simulator", state="ok", found=f"{shown}; llvmlite {llvmlite}; {_cpu()}", needed=True)


def _cpu() -> str:
    """The CPU's vector features that make the simulator fast, if the system reports them."""
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return platform.processor() or "CPU features unknown"
    found = [feature for feature in _CPU_FEATURES if feature in words]
    return f"CPU has {' '.join(found)}" if found else "CPU without vector features"


def _launched(kind: str, which: str) -> str:
    """Run a kernel of one warp on a device and compare its output. Raises EvoError if that fails."""
    import numpy as np

    from evo.device import Argument, BoundLaunch, Buffer, DeviceName, Program, RunRequest
    from evo.device.remote_device import open_remote
    from evo.spec.launch import Launch

    name = DeviceName(kind, which)
    launch = Launch(kernel="doctor", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0)
    program = Program(
        variant="doctor",
        case="doctor",
        binary=_smoke_binary(),
        launches=(BoundLaunch(launch=launch, arguments=(Argument(name="out", dtype="float32"),)),),
        outputs=(Buffer(name="out", dtype="float32", dims=(32,)),),
        scratch=(),
    )
    with open_remote(name) as device:
        about = device.describe(time_limit_s=_LIMIT_S)
        try:
            result = device.run(RunRequest(program=program, inputs={}), time_limit_s=_LIMIT_S)
        except CandidateFailed as failure:
            raise HarnessFault(f"{name}: a trivial kernel failed: {failure}", hint="reinstall evo-kernels") from None
    if result.faults or not np.array_equal(result.outputs[0]["out"], 2.0 * np.arange(32)):
        said = result.faults[0].message if result.faults else "its output is wrong"
        raise HarnessFault(f"{name}: a trivial kernel failed: {said}", hint="reinstall evo-kernels")
    return ", ".join([f"{name} ran a kernel", *(f"{key} {value}" for key, value in sorted(about.items()))])


def _torch() -> Iterator[Finding]:
    version = _version("torch")
    found = f"{version}, for references and rivals" if version else "not installed"
    yield _finding("torch", version, found, "pip install 'torch>=2.6,<2.14'", needed=True)


def _gpu() -> Iterator[Finding]:
    driver = _driver()
    if isinstance(driver, str):
        yield Finding(
            name="gpu", state="warn", found=driver, to_do="nothing to do for --device sim:l4; times are modelled"
        )
        return
    from evo.cuda.compile import toolkit_major

    old, major = driver.cuda < (13, 0), toolkit_major()
    cuda = ".".join(map(str, driver.cuda))
    yield Finding(name="gpu", state="ok", found=", ".join(driver.gpus))
    found = f"{driver.version}, runs CUDA up to {cuda}; NVRTC here is of CUDA {major or 'no version'}"
    yield _finding("driver", not old or major == 12, found, _CUDA12, otherwise="warn")
    extra = _wanted_extra(major)
    wanted = f"cupy-cuda{extra.removeprefix('cu')}x"
    version = _version(wanted)
    found = f"{wanted} {version}" if version else f"{wanted} is not installed"
    yield _finding("cupy", version, found, f"pip install 'evo-kernels[{extra}]'")
    if version:
        yield _launches()


@dataclass(frozen=True, slots=True)
class _Driver:
    version: str
    cuda: tuple[int, int]
    gpus: tuple[str, ...]


def _driver() -> _Driver | str:
    """The NVIDIA driver and its GPUs, or why there are none."""
    try:
        import pynvml
    except ImportError:
        return "nvidia-ml-py is not installed, so no GPU can be seen"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"none: {error}"
    try:
        number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        gpus = tuple(f"gpu:{i} {pynvml.nvmlDeviceGetName(handle)}" for i, handle in enumerate(handles))
        version = str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"the driver answers with: {error}"
    finally:
        pynvml.nvmlShutdown()
    return _Driver(version, (number // 1000, number % 1000 // 10), gpus) if gpus else "a driver, but no GPU"


def _launches() -> Finding:
    try:
        return Finding(name="gpu launch", state="ok", found=_launched("gpu", "0"))
    except EvoError as error:
        return Finding(name="gpu launch", state="warn", found=error.message, to_do=error.hint)


def _cache() -> Iterator[Finding]:
    from evo.cuda.compile import default_cache

    folder = default_cache().folder
    if folder is None:
        yield Finding(name="cache", state="warn", found="off: every variant is compiled anew")
        return
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path(tempfile.gettempdir()))
    free = shutil.disk_usage(there).free
    writable = os.access(there, os.W_OK)
    found = f"{folder}, {free / 2**30:.1f} GiB free" + ("" if writable else ", not writable")
    to_do = "free some space, or choose another folder with EVO_CACHE"
    yield _finding("cache", writable and free >= _ENOUGH_DISK_BYTES, found, to_do, otherwise="warn")


def _repository(session: GlobalOptions) -> Iterator[Finding]:
    from evo.spec.task import load_task, task_names

    try:
        root = session.root()
    except EvoError as error:
        yield Finding(name="repository", state="warn", found=error.message, to_do=error.hint)
        return
    names = task_names(root)
    problems = []
    for name in names:
        try:
            load_task(root, name)
        except EvoError as error:
            problems.append(error.message)
    found = f"{root}: {', '.join(names) or 'no tasks'}" + "".join(f"; {problem}" for problem in problems)
    to_do = "fix the task files named here" if problems else "run `evo init`"
    yield _finding("repository", names and not problems, found, to_do, otherwise="warn")
