"""`evo apply`: what evo has found, written back into the user's own file: knob values, or the champion's whole text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli.command_context import FileSubject, find_file, read_subject, session_of
from evo.cli.options import KernelFile, TaskWord
from evo.cli.terminal import out, paint, say
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.spec.variant import KnobValue, Variant


def apply(
    context: Context,
    file: KernelFile,
    champion: Annotated[
        str | None, Option("--champion", metavar="PLACE", help="Chip and arch of the champion, such as h200-sm_89.")
    ] = None,
    source: Annotated[
        Path | None, Option("--from", metavar="FILE", help="Take the values from this .cu file instead.")
    ] = None,
    tuned: Annotated[
        Path | None, Option("--tuned", metavar="FILE", help="Take the fastest of the results of `evo tune --out`.")
    ] = None,
    whole: Annotated[bool, Option("--whole", help="Write the whole text, not only the knob values.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    task: TaskWord = None,
) -> int:
    """Write the champion's knob values into FILE. Other lines stay as they are; --whole takes the champion's text."""
    if sum(given is not None for given in (champion, source, tuned)) > 1 or (whole and tuned is not None):
        hint = "values come from a champion, a file or the results of `evo tune`; results have no text for --whole"
        raise UsageError("--champion, --from and --tuned exclude each other, and --whole needs a text", hint=hint)
    session = session_of(context)
    subject = read_subject(session, file, task)
    if tuned is not None:
        values, name = _fastest(tuned), str(tuned)
        text = _with(subject, values, name)
    else:
        path = find_file(session, source, subject.task.name) if source is not None else _champion(subject, champion)
        found, name = _read(path), path.name
        text = found.text if whole else _with(subject, found.knob_values, name)
    changed = _changed(subject.variant.text, text)
    if not changed:
        out(f"{subject.path} already has what {name} has")
        return 0
    for line in changed:
        out(paint(line, "red" if line.startswith("-") else "green" if line.startswith("+") else "dim"))
    if dry_run:
        say("nothing was written: --dry-run")
        return 0
    from evo.files import write_atomic

    write_atomic(subject.path, text.encode("utf-8"))
    out(f"wrote {subject.path} from {name}; `evo check {subject.path}` checks it")
    return 0


def _read(path: Path) -> Variant:
    from evo.spec.variant import read_variant

    return read_variant(path)


def _champion(subject: FileSubject, place: str | None) -> Path:
    """The named champion's file, or the only one of the task."""
    folder = subject.task.folder / "champions"
    found = sorted(folder.glob("*.cu"))
    names = ", ".join(path.stem for path in found)
    if place is not None:
        chosen = [path for path in found if path.stem == place]
        if not chosen:
            hint = f"its champions: {names}" if found else f"`evo iterate {subject.task.name}` makes one"
            raise UsageError(f"no champion {place} of {subject.task.name}", hint=hint)
        return chosen[0]
    if not found:
        hint = f"`evo iterate {subject.task.name}` makes one, or give --from or --tuned"
        raise UsageError(f"{subject.task.name} has no champion yet", hint=hint)
    if len(found) > 1:
        raise UsageError(f"which champion of {subject.task.name}?", hint=f"--champion with one of {names}")
    return found[0]


def _fastest(results: Path) -> dict[str, KnobValue]:
    """The knob values of the fastest configuration in a T4 file."""
    from evo.search.knobs.t1_t4_files import read_raw

    timed = [
        (float(row["value"]), dict(result["configuration"]))
        for result in read_raw(results).results
        for row in result.get("measurements", [])[:1]
    ]
    if not timed:
        raise UsageError(f"{results}: no configuration has a time", hint="`evo tune FILE --out RESULTS` writes some")
    return min(timed, key=lambda one: one[0])[1]


def _with(subject: FileSubject, values: Mapping[str, KnobValue], name: str) -> str:
    """The file's text with these knob values. Raises UsageError if it has none of the knobs."""
    variant, domains = subject.variant, {knob.name: knob.domain for knob in subject.variant.knobs}
    shared = {knob: value for knob, value in values.items() if knob in domains}
    if not shared:
        hint = "--whole takes the whole text" if not values else f"it has {', '.join(values)}; --whole takes its text"
        raise UsageError(f"{subject.path} has no knob of {name}", hint=hint)
    for knob, value in shared.items():
        if value not in domains[knob]:
            hint = f"{subject.path} allows {', '.join(map(str, domains[knob]))}: add it to the knob line"
            raise UsageError(f"{name} has {knob} {value}", hint=hint)
    if missing := [knob for knob in values if knob not in domains]:
        say(f"{subject.path} has no knob {', '.join(missing)}: left out")
    return variant.with_knobs(shared).text


def _changed(before: str, after: str) -> list[str]:
    """The lines that differ, as a diff without its head."""
    import difflib

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]
