"""A task folder: `task.yaml`, `reference.py`, `ladder/`, `champions/`, `wrong/`.

Reads one `kernels/<task>/` and nothing else. A malformed file is a SyntaxInvalid with file, line and field.
"""

from __future__ import annotations

from evo.task.fields import read_task
from evo.task.find import find_root, load_task, task_names
from evo.task.model import DOMAINS, Case, MetricGate, Scalar, Task, Tensor, Tolerance

__all__ = [
    "DOMAINS",
    "Case",
    "MetricGate",
    "Scalar",
    "Task",
    "Tensor",
    "Tolerance",
    "find_root",
    "load_task",
    "read_task",
    "task_names",
]
