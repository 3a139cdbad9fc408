"""The processes of a session, begun while a command still imports what it works with: those imports take seconds.

Cheap to import itself. What is begun here is taken over by the session's device, reference and judge.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from evo.spec.child_entries import DEVICE, FORKED, JUDGE, OPENER, REFERENCE
from evo.spec.child_process import begin, begin_forks

if TYPE_CHECKING:
    from evo.device import DeviceName
    from evo.spec.task import Task

# What most of a session's children import.
_SIMULATED = ("evo.spec.reference_child", "evo.device.child", "evo.device.sim_device")
IMPORTED = (*_SIMULATED, "cuda.bindings.nvrtc")
_ON_GPU = (*IMPORTED, "evo.evaluate.look_process")  # a simulator has few compilers, or none where all is known
_WITHOUT = ("--cluster", "--help", "-h")  # then a command opens no device of this machine


def begin_for(words: Sequence[str]) -> None:
    """Start the process that forks, and the GPU's, if a command with these options will ask for them here."""
    which = _gpu_named(words)
    if which is not None and any(Path("/dev").glob("nvidia[0-9]*")):
        with contextlib.suppress(OSError):  # told where they are asked for
            begin_forks(_ON_GPU, FORKED)
            begin(DEVICE, "gpu", which, OPENER, soon=True)


def _gpu_named(words: Sequence[str]) -> str | None:
    """The number of the GPU that the options name, or mean if there is one; None if another device, or none."""
    device = "auto"
    for word, following in zip(words, [*words, ""][1:], strict=True):
        option, given, value = word.partition("=")
        if option in _WITHOUT:
            return None
        if option == "--device":
            device = value if given else following
    kind, _, which = device.partition(":")
    return (which or "0") if kind == "gpu" or device == "auto" else None


def begin_processes(device: DeviceName, task: Task) -> None:
    """Start the processes that a session on the device will ask first about the task."""
    from evo.spec.reference_process import imports_first

    reference = str(task.folder / "reference.py")
    on_gpu = device.kind == "gpu"
    if not on_gpu:  # what the children of a simulator import is half of what this process does
        import_module("evo.evaluate.pipeline")
    begin_forks(_ON_GPU if on_gpu else _SIMULATED, FORKED, copied=not on_gpu)
    begin(DEVICE, device.kind, device.which, OPENER, soon=on_gpu)  # CuPy is imported there alone
    modules = imports_first(task.folder / "reference.py")
    begin(REFERENCE, reference, plain=True, soon=True, modules=modules)  # its own module is the first of all
    if judged_on(device):
        begin(JUDGE, device.which, reference, plain=True, soon=True, modules=modules)


def judged_on(device: DeviceName) -> bool:
    """Whether a process on the device itself judges large outputs there."""
    return device.kind == "gpu" and os.environ.get("EVO_JUDGE") != "cpu"
