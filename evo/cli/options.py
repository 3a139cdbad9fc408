"""What commands share: their common options, the repository they work in, and the file they are given."""

from __future__ import annotations

import math
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli import completion
from evo.cli.terminal import say
from evo.errors import SyntaxInvalid, UsageError

if TYPE_CHECKING:
    from evo.device import DeviceName
    from evo.search.cluster import Cluster
    from evo.spec.task import Task
    from evo.spec.variant import Variant

DEFAULT_ARCH = "sm_89"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
DeviceWord = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="auto, gpu:N, or sim:CHIP such as sim:l4.",
        autocompletion=completion.devices,
    ),
]
ArchWord = Annotated[
    str,
    typer.Option(
        "--arch", metavar="ARCH", help="sm_NN, or native for the chip at hand.", autocompletion=completion.archs
    ),
]
ClusterWord = Annotated[
    str | None,
    typer.Option("--cluster", metavar="SPEC", help="Several devices: local:N, processes:N or ray://HOST:PORT."),
]
TaskWord = Annotated[
    str | None,
    typer.Option(
        "--task", metavar="TASK", help="Instead of the file's `// evo: task`.", autocompletion=completion.tasks
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of inputs and of the order of proposals.")]
SecretSeed = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="Draw these inputs again (default: new, secret ones).")
]
KernelFile = Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="A .cu variant.")]

_SEEDS = 2**31
_LONGEST_NAME = 255  # bytes, on every file system that matters
_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seed_or_secret(given: int | None) -> int:
    """The seed asked for, or one that no kernel can have been written for."""
    return given if given is not None else secrets.randbelow(_SEEDS)


@dataclass(frozen=True, slots=True)
class Session:
    """The global options of one command line."""

    given_root: Path | None = None

    def root(self, near: Path | None = None) -> Path:
        """The repository's root: --root, else the nearest parent with kernels/ of here, else of `near`."""
        from evo.spec.task import find_root

        if self.given_root is None:
            try:
                return find_root()
            except UsageError:
                if near is None or not near.exists():
                    raise
                return find_root(near.resolve().parent)
        if not (self.given_root / "kernels").is_dir():
            hint = "give the folder that holds kernels/, or run `evo init` there"
            raise UsageError(f"--root {self.given_root}: no kernels/ folder in it", hint=hint)
        return self.given_root.resolve()


@dataclass(frozen=True, slots=True)
class Subject:
    """A FILE argument, read: the variant and the task that it is for."""

    task: Task
    variant: Variant
    path: Path


def session_of(context: typer.Context) -> Session:
    found = context.find_root().obj
    return found if isinstance(found, Session) else Session()


def read_subject(session: Session, file: Path, task_word: str | None) -> Subject:
    """Read FILE and its task. Raises UsageError where there is no such file or no task is named."""
    from evo.spec.task import load_task
    from evo.spec.variant import read_variant

    path = find_file(session, file, task_word)
    variant = read_variant(path)
    name = task_word or variant.task
    if name is None:
        raise UsageError(f"{path} names no task", hint="add a line `// evo: task NAME` to it, or pass --task NAME")
    return Subject(load_task(session.root(path), name), variant, path)


def find_file(session: Session, file: Path, task_word: str | None) -> Path:
    """FILE as given, else inside the task's folder, so that `ladder/00_scalar.cu` is enough with --task."""
    if "\0" in str(file) or any(len(os.fsencode(part)) > _LONGEST_NAME for part in file.parts):
        raise UsageError(f"{str(file)[:40]}... is not a file name", hint="give the path of one .cu file")
    if file.is_file():
        return file
    if task_word is not None and not file.is_absolute():
        inside = session.root() / "kernels" / task_word / file
        if inside.is_file():
            return inside
    if file.is_dir():
        raise UsageError(f"{file} is a folder", hint="give the path of one .cu file")
    raise SyntaxInvalid(file, None, "no such file", hint="give the path of a .cu file")


def choose_task(root: Path, word: str | None) -> Task:
    """The task that is meant: by name, or the only one there is."""
    from evo.spec.task import load_task, task_names

    names = task_names(root)
    if word is None and len(names) != 1:
        listed = ", ".join(names)
        hint = f"name one of {listed}" if names else "run `evo init` to lay down the shipped tasks"
        raise UsageError("which task?" if names else f"no task in {root / 'kernels'}", hint=hint)
    return load_task(root, word or names[0])


def choose_device(word: str) -> DeviceName:
    """The device that is meant; says so in one line where `auto` falls back to the simulator."""
    from evo.device import gpu_present, no_gpu, parse_device

    device = parse_device(word)
    if word == "auto" and device.kind == "sim":
        say(f"no GPU here: running on the simulator {device}, where times are modelled, not measured")
    if device.kind == "gpu" and not gpu_present():
        raise no_gpu(device.which)
    return device


def cluster_and_device(spec: str | None, word: str) -> tuple[DeviceName, Cluster | None]:
    """The device that is meant, and the cluster that has it, which may have GPUs where this machine has none."""
    if spec is None:
        return choose_device(word), None
    from evo.device import parse_device
    from evo.search.cluster import parse_cluster

    cluster = parse_cluster(spec)
    if cluster.kind != "ray":
        return choose_device(word), cluster
    if word == "auto":
        raise UsageError(f"--cluster {spec}: on which devices?", hint="--device gpu, or --device sim:l4")
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
        raise UsageError(f"{option} {share}: not a share of the time", hint="write it like 3% or 0.03")
    return value


def seconds_of(budget: str | None) -> float | None:
    """`90s`, `30m`, `1h30m` in seconds."""
    if budget is None:
        return None
    match = _BUDGET.fullmatch(budget.strip().lower())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if total == 0:
        raise UsageError(f"--budget {budget}: not a length of time", hint="write it like 90s, 30m or 1h30m")
    return float(total)
