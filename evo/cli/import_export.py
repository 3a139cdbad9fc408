"""`evo import` and `evo export`: import tasks, export champions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Option

from evo.cli import completion
from evo.cli.command_context import new_task_root, session_of
from evo.cli.options import DEFAULT_ARCH, ArchWord, AsJson
from evo.cli.terminal import complain, out, out_json_line, paint, say

FORMATS = ("kernelbench", "gpumode", "kernel-tuner")
_SIMULATED_BYTES = 2**30  # of a case's tensors; a simulation needs several times this memory
NewName = Annotated[str | None, Option("--name", metavar="NAME", help="The task's name (default: from the file's).")]


def import_(
    context: Context,
    form: Annotated[
        str, Argument(metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.", autocompletion=lambda: list(FORMATS))
    ],
    files: Annotated[list[Path], Argument(metavar="FILE", help="A file to import; for kernelbench also a folder.")],
    name: NewName = None,
    limit: Annotated[float, Option("--limit", metavar="S", min=1, help="Time limit of each file in seconds.")] = 120.0,
    compiled: Annotated[bool, Option("--compiled", help="Add the module under torch.compile as a rival.")] = False,
    only_small: Annotated[
        bool, Option("--small", help="Omit the file's own sizes if smaller ones can be timed.")
    ] = False,
    whole: Annotated[
        bool, Option("--whole", help="Keep the file's own sizes, even if only a GPU can run them.")
    ] = False,
    source: Annotated[
        Path | None, Option("--source", metavar="FILE.cu", help="The CUDA source, for kernel-tuner.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Import a problem of another benchmark as a task. Its code is foreign and runs in a process of its own."""
    from evo.device import gpu_present
    from evo.errors import UsageError
    from evo.interop.gpumode import problem_text
    from evo.spec.plugins import plugins

    if form == "kernel-tuner":
        return _kernel_tuner(files, name, source, limit)
    if only_small and whole:
        raise UsageError("--small and --whole exclude each other", hint="give one of them")
    most = 0 if only_small else None if whole or gpu_present() else _SIMULATED_BYTES
    options = {"limit_s": limit, "compiled": compiled, "most_bytes": most}
    root = new_task_root(context)
    if form == "gpumode":
        return _converted(root, files, name, options, json, problem_text)
    if form == "kernelbench":
        return import_kernelbench(root, list(_problems(files)), name, options, json)
    added = plugins("evo.importers")
    if callable(convert := added.get(form)):
        return _converted(root, files, name, options, json, convert)
    raise UsageError(f"unknown format {form!r}", hint=f"one of {', '.join([*FORMATS, *added])}")


def _problems(given: Sequence[Path]) -> Iterator[Path]:
    """The files, and of a folder its Python files by number. Raises UsageError if it has none."""
    import re

    from evo.errors import UsageError

    for path in given:
        if not path.is_dir():
            yield path
            continue
        found = [file for file in path.glob("*.py") if file.name != "__init__.py"]
        if not found:
            raise UsageError(f"{path}: no Python file in this folder", hint="name the folder that holds the problems")
        yield from sorted(found, key=lambda file: (int(n[0]) if (n := re.match(r"\d+", file.name)) else -1, file.name))


def import_kernelbench(
    root: Path,
    files: list[Path],
    name: str | None,
    options: dict[str, Any],
    json: bool,
    said: Mapping[Path, str] | None = None,
) -> int:
    """said: descriptions by file, if there are any."""
    from evo.errors import TaskInvalid
    from evo.interop.kernelbench import import_problems, requests_of

    requests = requests_of(root, files, name, said or {})
    limit_s = options.get("limit_s", 120.0)
    say(f"running foreign code: {len(requests)} file(s), each in a process of its own with {limit_s:g} s to end")
    refused = 0
    last = ""
    for answer in import_problems(root, requests, **options):
        refused += answer.folder is None
        last = answer.name if answer.folder is not None else last
        if json:
            out_json_line(answer.to_json())
            continue
        if answer.folder is None:
            out(f"{paint('refused', 'red')}   {answer.file.name}: {answer.refused}")
            out(f"          {paint('hint:', 'cyan')} {answer.hint}")
            continue
        cases = ", ".join(answer.cases or ())
        out(f"{paint('imported', 'green')}  {answer.file.name} -> kernels/{answer.name}: {cases}")
        for note in answer.notes or ():
            out(f"          {note}")
    if last and not json:
        next_steps(root, last)
    if refused and not json:
        complain(
            f"{refused} of {len(requests)} refused",
            "fix the refused files as the reasons above say, and import them again",
        )
    return TaskInvalid.exit_code if refused else 0


def _converted(
    root: Path,
    given: list[Path],
    name: str | None,
    options: dict[str, Any],
    json: bool,
    convert: Callable[[Path], tuple[str, str]],
) -> int:
    """convert: gives the text of a KernelBench problem and a description of what was given."""
    import tempfile

    from evo.interop.kernelbench import task_name

    with tempfile.TemporaryDirectory(prefix="evo-import-") as scratch:
        said = {}
        for number, path in enumerate(given):
            text, description = convert(path)
            file = Path(scratch) / str(number) / f"{task_name(path.resolve().name if path.is_dir() else path.stem)}.py"
            file.parent.mkdir()
            file.write_text(text, encoding="utf-8")
            said[file] = description
        return import_kernelbench(root, list(said), name, options, json, said)


def _kernel_tuner(files: list[Path], name: str | None, source: Path | None, limit_s: float) -> int:
    import itertools

    from evo.errors import UsageError
    from evo.interop.kernel_tuner import variants_of

    if scripts := sum(spec.suffix == ".py" for spec in files):
        say(f"running foreign code: {scripts} script(s), each in a process of its own with {limit_s:g} s to end")
    for spec in files:
        found = variants_of(spec, source, name, limit_s=limit_s)
        targets: list[Path] = []
        for tuned in found:
            stem = (name or spec.stem) + (f"_{tuned.kernel}" if len(found) > 1 else "")
            names = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
            targets.append(next(target for word in names if (target := Path(f"{word}.cu")) not in targets))
        if taken := next((target for target in targets if target.exists()), None):
            raise UsageError(f"{taken} exists already", hint="pass --name NAME, or move that file away")
        for tuned, target in zip(found, targets, strict=True):
            target.write_text(tuned.text, encoding="utf-8")
            out(f"{paint('imported', 'green')}  {spec.name} -> {target}")
            for note in tuned.notes:
                out(f"          {note}")
            if name is not None:
                out(f"next: evo check {target}    # of task {name}: `evo new {name}` writes it")
            else:
                out(f"next: evo check {target} --task TASK    # `evo new` writes a task that has none yet")
    return 0


def next_steps(root: Path, name: str) -> None:
    """If a task has no rung, print how to write its first kernel; a file of that name is not written over."""
    if (root / f"{name}.cu").exists():
        out(f"next: if {name}.cu has the kernel, with the `// evo:` lines of kernels/{name}/skeleton.cu, start from it")
    else:
        out("next: the task has no kernel yet; fill in the skeleton, and start from it")
        out(f"  cp kernels/{name}/skeleton.cu {name}.cu    # then write its body")
    out(f"  evo check {name}.cu")
    out(f"  evo iterate {name} --from {name}.cu")


def export(
    context: Context,
    task: Annotated[str, Argument(metavar="TASK", autocompletion=completion.tasks)],
    into: Annotated[Path, Option("--out", metavar="DIR", help="A new folder.")],
    form: Annotated[
        str,
        Option(
            "--format",
            metavar="FORMAT",
            help="torch, kernelbench, cu, ptx or cubin.",
            autocompletion=completion.export_formats,
        ),
    ] = "torch",
    given: Annotated[
        Path | None, Option("--from", metavar="FILE", help="Export this kernel instead of the champions.")
    ] = None,
    arch: ArchWord = DEFAULT_ARCH,
    chip: Annotated[
        str, Option("--chip", metavar="CHIP", help="With --from: the chip whose limits the launch plan uses.")
    ] = "l4",
) -> int:
    """Export champions as a PyTorch operator in a package, or as source, PTX or machine code."""
    from evo.interop.export import champions_of
    from evo.interop.export import export as write
    from evo.spec.task import load_task

    found = load_task(session_of(context).root(), task)
    champions = champions_of(found, given, arch, chip)
    written = write(found, champions, form, into)
    for path in written:
        out(str(path))
    if form == "torch":
        folder = into if into.is_absolute() else f"./{into}"  # pip would look for a bare name in a registry
        say(f"next: pip install {folder}; then `import evo_{found.name}` registers torch.ops.evo.{found.name}")
    return 0
