"""The processes of a session, begun while a command still imports what it works with: those imports take seconds.

Cheap to import itself. What is begun here is taken over by the session's device, reference and judge.
"""

from __future__ import annotations

import os
from importlib import import_module

from evo.cuda.compile.process_pool import ENTRY as COMPILER
from evo.device import DeviceName
from evo.device.judge import ENTRY as JUDGE
from evo.device.remote_calls import ENTRY as DEVICE
from evo.device.remote_calls import OPENER
from evo.spec.child_process import begin, begin_forks
from evo.spec.reference_process import ENTRY as REFERENCE
from evo.spec.reference_process import imports_first
from evo.spec.task import Task

# What the children of a session serve, and what most of them import.
FORKED = (DEVICE, REFERENCE, JUDGE, COMPILER)
_SIMULATED = ("evo.spec.reference_child", "evo.device.child", "evo.device.sim_device")
IMPORTED = (*_SIMULATED, "cuda.bindings.nvrtc")
_ON_GPU = (*IMPORTED, "evo.evaluate.look_process")  # a simulator has few compilers, or none where all is known


def begin_processes(device: DeviceName, task: Task) -> None:
    """Start the processes that a session on the device will ask first about the task."""
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
