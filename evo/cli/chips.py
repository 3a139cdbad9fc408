"""The chip of a command: `--gpu l4`, `--gpu sim:l4`, `--gpu gpu:0`, or this machine's GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from evo.cli import completion
from evo.cli.terminal import say
from evo.errors import DeviceMissing, UsageError

if TYPE_CHECKING:
    from evo.spec.chips import Chip
    from evo.spec.task import Case, Task

GpuWord = Annotated[
    str | None,
    Option(
        "--gpu",
        metavar="CHIP",
        help="A chip such as l4 or h200, or gpu:N (default: this machine's GPU, else l4).",
        autocompletion=completion.chips,
    ),
]
CaseWord = Annotated[
    str | None, Option("--case", metavar="NAME", help="Only this case.", autocompletion=completion.cases)
]
HeadlineCase = Annotated[
    str | None,
    Option(
        "--case", metavar="NAME", help="At this case (default: the headline case).", autocompletion=completion.cases
    ),
]


def choose_chip(word: str | None) -> Chip:
    """The chip of `--gpu`. Raises UsageError if it is unknown, DeviceMissing if this machine lacks the GPU."""
    from evo.device import gpu_present, no_gpu
    from evo.spec.chips import CHIPS, chip

    if word is None:
        if gpu_present():
            return chip_of_gpu("0")
        say("no GPU here: limits of the L4; --gpu names another chip")
        return chip("l4")
    kind, _, which = word.strip().lower().partition(":")
    if kind == "gpu" and (which or "0").isdigit():
        if not gpu_present():
            raise no_gpu(which or "0")
        return chip_of_gpu(which or "0")
    try:
        return chip(which if kind == "sim" else word.strip().lower())
    except DeviceMissing:
        known = ", ".join(sorted(CHIPS))
        raise UsageError(
            f"no chip {word!r} in the table", hint=f"one of {known}; gpu:N for a GPU of this machine"
        ) from None


def chip_of_gpu(index: str) -> Chip:
    """The row of a GPU of this machine, queried in a worker process."""
    from evo.device import DeviceName
    from evo.device.remote_device import RemoteGpu
    from evo.spec.chips import chip

    with RemoteGpu(DeviceName("gpu", index)) as gpu:
        about = gpu.describe()
    return chip(about["chip"])


def choose_cases(task: Task, name: str | None) -> tuple[Case, ...]:
    """The named case, or all bench cases. Raises UsageError naming the known ones."""
    return (task.case(name),) if name is not None else task.bench
