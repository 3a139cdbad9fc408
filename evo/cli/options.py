"""The common options of the commands, their repository and their file."""

from __future__ import annotations

import math
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from evo.cli import completion
from evo.cli.terminal import say
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.device import DeviceName
    from evo.search.cluster import Cluster

DEFAULT_ARCH = "sm_89"

AsJson = Annotated[bool, Option("--json", help="Print JSON on stdout.")]
DeviceWord = Annotated[
    str,
    Option(
        "--device", metavar="NAME", help="auto, gpu:N, or sim:CHIP such as sim:l4.", autocompletion=completion.devices
    ),
]
ArchWord = Annotated[
    str,
    Option("--arch", metavar="ARCH", help="sm_NN, or native for the device's own.", autocompletion=completion.archs),
]
ClusterWord = Annotated[
    str | None, Option("--cluster", metavar="SPEC", help="Use several devices: processes:N or ray://HOST:PORT.")
]
TaskWord = Annotated[
    str | None,
    Option(
        "--task",
        metavar="TASK",
        help="The task, instead of the file's `// evo: task`.",
        autocompletion=completion.tasks,
    ),
]
TaskName = Annotated[
    str | None,
    Argument(
        metavar="TASK",
        show_default=False,
        help="A task's name; needed if there are several.",
        autocompletion=completion.tasks,
    ),
]
OnlyTask = Annotated[
    str | None, Argument(metavar="TASK", show_default=False, help="Only this task.", autocompletion=completion.tasks)
]
OnlyTaskOption = Annotated[
    str | None, Option("--task", metavar="TASK", help="Only this task.", autocompletion=completion.tasks)
]
Seed = Annotated[int, Option("--seed", metavar="N", min=0, help="Seed of the inputs.")]
ProposalSeed = Annotated[
    int, Option("--seed", metavar="N", min=0, help="Seed of the order of proposals. Inputs are always secret.")
]
SecretSeed = Annotated[
    int | None, Option("--seed", metavar="N", min=0, help="Seed of the inputs (default: a new, secret one).")
]
KernelFile = Annotated[Path, Argument(metavar="FILE", show_default=False, help="A .cu variant.")]

_SEEDS = 2**31
_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seed_or_secret(given: int | None) -> int:
    """The requested seed, or a random one that no kernel can anticipate."""
    return given if given is not None else secrets.randbelow(_SEEDS)


def choose_device(word: str) -> DeviceName:
    """The device of `--device`; if `auto` falls back to the simulator, one line says so."""
    from evo.device import gpu_present, no_gpu, parse_device

    device = parse_device(word)
    if word == "auto" and device.kind == "sim":
        say(f"no GPU here: running on the simulator {device}, where times are modelled, not measured")
    if device.kind == "gpu" and not gpu_present():
        raise no_gpu(device.which)
    return device


def cluster_and_device(spec: str | None, word: str) -> tuple[DeviceName, Cluster | None]:
    """The device of `--device`, and the cluster that has it; this machine itself may have no GPU."""
    if spec is None:
        return choose_device(word), None
    from evo.device import parse_device
    from evo.search.cluster import parse_cluster

    cluster = parse_cluster(spec)
    if cluster.kind != "ray":
        return choose_device(word), cluster
    if word == "auto":
        raise UsageError(f"--cluster {spec} needs --device", hint="--device gpu, or --device sim:l4")
    return parse_device(word), cluster


def margin_of(share: str | None, option: str = "--margin") -> float | None:
    """`3%` or `0.03` as a fraction."""
    if share is None:
        return None
    text = share.strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < (0.9 if option == "--margin" else 1.0):
        raise UsageError(f"{option} {share}: not a share", hint="write it like 3% or 0.03")
    return value


def seconds_of(budget: str | None) -> float | None:
    """`90s`, `30m`, `1h30m` in seconds."""
    if budget is None:
        return None
    match = _BUDGET.fullmatch(budget.strip().lower())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if total == 0:
        raise UsageError(f"--budget {budget}: not a duration", hint="write it like 90s, 30m or 1h30m")
    return float(total)
