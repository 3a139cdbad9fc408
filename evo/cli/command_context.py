"""The repository, the task and the `.cu` file of a command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evo.errors import SyntaxInvalid, UsageError

if TYPE_CHECKING:
    from evo.spec.task import Task
    from evo.spec.variant import Variant

_LONGEST_NAME = 255  # bytes, the limit of common file systems


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The global options of one command line."""

    given_root: Path | None = None

    def root(self, near: Path | None = None) -> Path:
        """The repository's root: --root, else the nearest parent with kernels/ of this folder, else of `near`."""
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
class FileSubject:
    """A FILE argument after reading: the variant and its task."""

    task: Task
    variant: Variant
    path: Path


def session_of(context: typer.Context) -> GlobalOptions:
    found = context.find_root().obj
    return found if isinstance(found, GlobalOptions) else GlobalOptions()


def new_task_root(context: typer.Context) -> Path:
    """The root for a new task: the present repository, or this folder, which becomes one."""
    session = session_of(context)
    if session.given_root is not None:
        return session.given_root.resolve()
    try:
        return session.root()
    except UsageError:
        return Path.cwd().resolve()


def read_subject(session: GlobalOptions, file: Path, task_word: str | None) -> FileSubject:
    """Read FILE and its task. Raises UsageError if there is no such file or no task is named."""
    from evo.spec.task import load_task
    from evo.spec.variant import read_variant

    path = find_file(session, file, task_word)
    variant = read_variant(path)
    name = task_word or variant.task
    if name is None:
        raise UsageError(f"{path} names no task", hint="add a line `// evo: task NAME` to it, or pass --task NAME")
    if variant.task not in (name, None):
        hint = f"use --task {variant.task}, or change the line"
        raise UsageError(f"{path}: `// evo: task {variant.task}`, but the task is {name}", hint=hint)
    return FileSubject(load_task(session.root(path), name), variant, path)


def find_file(session: GlobalOptions, file: Path, task_word: str | None) -> Path:
    """FILE as given, else inside the task's folder, so that `ladder/00_scalar.cu` is enough with --task."""
    from evo.spec.source_text import read_source

    if "\0" in str(file) or any(len(os.fsencode(part)) > _LONGEST_NAME for part in file.parts):
        raise UsageError(f"{str(file)[:40]}... is not a file name", hint="give the path of one .cu file")
    if file.is_file():
        return file
    if task_word is not None and not file.is_absolute():
        inside = session.root() / "kernels" / task_word / file
        if inside.is_file():
            return inside
    if file.is_dir() or file.parts[0] in ("http:", "https:"):
        read_source(file)  # raises, with what the folder holds, or what to do about an address
    raise SyntaxInvalid(file, None, "no such file", hint=_hint_of(session, file))


def _hint_of(session: GlobalOptions, word: Path) -> str:
    """A kernel of the task, if the word is the name of one, or the file that was meant."""
    from evo.spec.source_text import near_file

    folder = session.root() / "kernels" / word
    kernels = sorted((*folder.glob("champions/*.cu"), *folder.glob("ladder/*.cu"))) if len(word.parts) == 1 else []
    if not kernels and (meant := near_file(word)) is not None:
        return f"did you mean {meant}?"
    return f"give the path of a .cu file, such as {kernels[0]}" if kernels else "give the path of a .cu file"


def choose_task(root: Path, word: str | None) -> Task:
    """The named task, or the only one."""
    from evo.spec.task import load_task, task_names

    names = task_names(root)
    if word is None and len(names) != 1:
        listed = ", ".join(names)
        hint = f"name one of {listed}" if names else "run `evo init` to copy the shipped tasks here"
        raise UsageError("which task?" if names else f"no task in {root / 'kernels'}", hint=hint)
    return load_task(root, word or names[0])
