"""`evo adopt`: from a `.cu` file as people have it to a task folder and a first variant, with what was assumed."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evo.errors import TaskInvalid, UsageError, known_words
from evo.evaluate.gate import check_task
from evo.evaluate.gate.task_selftest import ERRS
from evo.files import copy_folder, write_atomic
from evo.interop.adopt.compare_original import Shortfall, compare_original
from evo.interop.adopt.draft import Draft, draft_of
from evo.interop.adopt.draft_parts import LaunchDraft, require_numbers
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.extents import guess_extents, order_extents
from evo.interop.adopt.far_cases import FAR, far_cases
from evo.interop.adopt.fills import UNTOLD
from evo.interop.adopt.fixed_constants import settle_knobs
from evo.interop.adopt.given_reference import given_reference, require_readable
from evo.interop.adopt.guessed_shapes import settle_guesses
from evo.interop.adopt.headline_sizes import growth_of_work, headline_sizes, with_fewer
from evo.interop.adopt.integer_ranges import settle_integers
from evo.interop.adopt.measured_tolerance import is_within_tolerance, measure_tolerance, widen_tolerance
from evo.interop.adopt.oracle import digest_of
from evo.interop.adopt.own_reference import own_reference
from evo.interop.adopt.program import read_program
from evo.interop.adopt.special_values import undefined_specials
from evo.interop.adopt.task_texts import (
    Figures,
    ReferenceText,
    oracle_reference,
    reference_py,
    task_yaml,
    variant_text,
    with_own_rounding,
)
from evo.spec.element_types import DTYPES, is_float
from evo.spec.expr import parse
from evo.spec.reference import load_reference
from evo.spec.task import ROLES, TASK_NAME, read_task

_TENSOR = re.compile(r"(\w+)(?::(in|out|inout|scratch))?(?::(\w+))?(?:\[([^\]]*)\])?(?::(zero))?")
_MOST_SIMULATED = 1e12  # of a timed case that was given, and that no simulator runs whole
_SPECIALS = ("infinities", "nan", "zeros", "denormals")


@dataclass(frozen=True)
class Options:
    """What the user has set. tensors: `y:out:float32[N,M]`, each part optional. axes, scalars: by name."""

    name: str | None = None
    kernel: str | None = None
    tensors: tuple[str, ...] = ()
    axes: Mapping[str, int] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    reference: str | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class Assumption:
    """One row of the table. option: what changes it."""

    what: str
    value: str
    why: str
    option: str = ""


@dataclass(frozen=True)
class Adopted:
    """What was written. variant: the first kernel, ready for `evo check`. unproven: what the reference cannot know."""

    name: str
    folder: Path
    variant: Path
    rows: tuple[Assumption, ...]
    notes: tuple[str, ...]
    reference: str
    unproven: str


def adopt(root: Path, path: Path, options: Options, say: Callable[[str], None] = lambda _: None) -> Adopted:
    """Write `kernels/<name>/` and `<name>.cu`. Raises SyntaxInvalid with file and line, UsageError, TaskInvalid."""
    name = options.name or task_name(path)
    if not TASK_NAME.match(name):
        hint = f"lower case letters, digits and _, with a letter first: --name {task_name(Path(name))}"
        raise UsageError(f"--name {name}: not a task name", hint=hint)
    target, variant = root / "kernels" / name, root / f"{name}.cu"
    if os.path.realpath(variant) == os.path.realpath(path):  # which a loop of links does not stop
        variant = root / f"{name}_adopted.cu"
    say("reading the host code")
    draft = draft_of(read_program(path, options.kernel, options.axes), _read_options(options))
    for taken in (target, variant):
        if taken.exists() and not options.overwrite:
            hint = "take another name with --name, pass --overwrite, or move it away"
            raise UsageError(f"{taken.relative_to(root)} exists already", hint=hint)
    _set_axes(draft, options.axes)
    _set_tensors(draft, options.tensors)
    require_numbers(draft.launches, options.scalars)
    if options.reference is not None:
        require_readable(options.reference, draft)
    trial = DraftTrial(draft, name, say)
    say("running the original at a small size")
    guess_extents(trial)
    base = with_fewer(trial, settle_guesses(trial, trial.settle()))
    order_extents(trial)
    _make_finite(trial, base)
    settle_integers(trial, base)
    say("finding the sizes that it takes")
    check, asked = trial.cases(base)
    settle_knobs(trial, check)
    timed = headline_sizes(trial, options.axes)
    while True:
        figures, wide = _measured(trial, Figures(dict(check), {"main": timed}, requires=asked), options, say)
        try:
            reference = _write(name, trial, figures, options.reference, wide, target, say)
            break
        except TaskInvalid as error:
            if error.problem != ERRS or not _drawn_positive(trial, "with others it errs too much, as in quotients"):
                raise
    write_atomic(variant, variant_text(draft, name).encode())
    notes = [*draft.notes, *trial.notes]
    if untold := [t.name for t in draft.given if t.fill == UNTOLD and (t.high is not None or t.ends is not None)]:
        notes.append(f"what the host code puts into {', '.join(untold)} could not be told: its values are assumed")
    if timed != draft.axes:
        moved = [axis for axis, value in draft.axes.items() if timed[axis] != value]
        ours, own = (", ".join(f"{axis}={axes[axis]}" for axis in moved) for axes in (timed, draft.axes))
        smaller = any(timed[axis] < draft.axes[axis] for axis in moved)
        why = "so that the simulator runs it in seconds" if smaller else "at which the launch is most of the time"
        notes.append(f"the timed case has {ours}, {'smaller' if smaller else 'larger'} than the file's {own}, {why}")
    if draft.program.others:
        notes.append(f"not adopted: {', '.join(draft.program.others)} (--kernel NAME takes another one)")
    rows = tuple(_rows(draft, figures, reference, given=options.reference is not None))
    return Adopted(name, target, variant, rows, tuple(notes), reference.said, _unproven(options, wide))


def _measured(
    trial: DraftTrial, figures: Figures, options: Options, say: Callable[[str], None]
) -> tuple[Figures, str | None]:
    """The figures with what the original's own runs tell, and its text in float64."""
    check, timed = dict(figures.check), figures.bench["main"]
    say("measuring how accurate it is")
    wide = measure_tolerance(trial, figures)
    widen_tolerance(trial, figures)
    far = far_cases(trial, check, timed).items()
    figures.check |= {name: axes for name, axes in far if is_within_tolerance(trial, axes, figures)}
    if options.reference is not None:
        figures.sizes = {}  # the original's errors are held to the reference's own
    else:
        figures.simulated = min(trial.work(timed), _MOST_SIMULATED)
        figures.growth = growth_of_work(trial, timed, figures.simulated)
    if wide is not None and not figures.few and options.reference is None:  # else no task asks for special values
        figures.undefined = undefined_specials(trial, list(check.values()), say)
    return figures, wide


def task_name(path: Path) -> str:
    plain = unicodedata.normalize("NFKD", path.stem.lower()).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", plain).strip("_")
    return name if re.match(r"[a-z]", name) else f"k_{name}"


def _read_options(options: Options) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"role": {}, "dtype": {}, "init": {}, "scalar": {}}
    for text in options.tensors:
        match = _TENSOR.fullmatch(text.replace(" ", ""))
        if match is None or (match[3] and match[3] not in DTYPES) or (match[2] and match[2] not in (*ROLES, "scratch")):
            roles = ", ".join((*ROLES, "scratch"))
            hint = f"NAME:ROLE:TYPE[SHAPE], each part but the name optional; roles: {roles}; types: {', '.join(DTYPES)}"
            raise UsageError(f"--tensor {text!r} cannot be parsed", hint=hint)
        for kind, value in (("role", match[2]), ("dtype", match[3]), ("init", match[5])):
            if value:
                found[kind][match[1]] = value
    found["scalar"] = {name: f"{value!r}" for name, value in options.scalars.items()}
    return found


def _set_tensors(draft: Draft, texts: Sequence[str]) -> None:
    by_name = {tensor.name: tensor for tensor in draft.tensors}
    for text in texts:
        match = _TENSOR.fullmatch(text.replace(" ", ""))
        assert match is not None
        if match[1] not in by_name:
            raise UsageError(f"--tensor {match[1]}: no such tensor", hint=known_words("tensors", match[1], by_name))
        tensor = by_name[match[1]]
        if match[4]:
            dims = [dim for dim in match[4].split(",") if dim]
            for dim in dims:
                unknown = parse(dim, path="--tensor").names - set(draft.axes)
                if unknown:
                    hint = f"axes: {', '.join(draft.axes)}"
                    raise UsageError(f"--tensor {match[1]}: unknown axis {', '.join(sorted(unknown))}", hint=hint)
            tensor.dims = list(dims)
            tensor.why = "given"


def _set_axes(draft: Draft, given: Mapping[str, int]) -> None:
    for axis, value in given.items():
        is_macro = axis in draft.program.command_line and axis not in draft.axes
        if axis in draft.program.host.kept or axis in draft.constants or is_macro:
            continue
        if axis not in draft.axes:
            known = [*draft.axes, *draft.constants, *draft.program.command_line]
            raise UsageError(
                f"--axis {axis}: no launch has this size", hint=known_words("axes", axis, dict.fromkeys(known))
            )
        draft.axes[axis] = value


def _make_finite(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Positive inputs for a kernel that gives NaN on others: roots, logarithms, quotients."""
    for _ in range(2):
        outputs = trial.run(base, races=False)
        if all(np.isfinite(v.astype(np.float64)).all() for v in outputs.values() if v.dtype.kind not in "iub"):
            return
        if not _drawn_positive(trial, "other values give NaN"):
            break


def _drawn_positive(trial: DraftTrial, why: str) -> bool:
    """Draw all floats positive from here on; whether there are some that were not."""
    floats = [t for t in trial.draft.given if t.role != "out" and is_float(t.dtype)]
    if not floats or floats[0].positive:
        return False
    for tensor in floats:
        tensor.positive = True
        tensor.why += f", drawn positive: {why}"
    trial.changed()
    return True


def _write(
    name: str,
    trial: DraftTrial,
    figures: Figures,
    given: str | None,
    wide: str | None,
    target: Path,
    say: Callable[[str], None],
) -> ReferenceText:
    """Write the folder elsewhere, hold it to its self-test, and move it into place."""
    draft = trial.draft
    with tempfile.TemporaryDirectory(prefix="evo-adopt-") as scratch:
        folder = Path(scratch) / name
        for part in ("ladder", "champions"):
            (folder / part).mkdir(parents=True)
            (folder / part / ".gitkeep").touch()
        if given is not None:
            reference = given_reference(given, draft, folder)
            figures.because = "the given reference in float32, which may add in another order."
        else:
            (folder / "original.cu").write_text(variant_text(draft, name), encoding="utf-8")
            if wide is not None:
                (folder / "original_float64.cu").write_text(wide, encoding="utf-8")
            whole = not any(is_float(t.dtype) for t in draft.given if t.role != "in")
            reference = oracle_reference(
                digest_of(folder), wide=wide is not None, whole=whole, few=figures.few, as_is=figures.as_is
            )
        (folder / "reference.py").write_text(reference_py(draft, name, reference), encoding="utf-8")
        say("holding the task to its self-test")
        try:
            while _lack(folder, trial, figures, given, say) is not None:
                pass
        except TaskInvalid as error:
            hint = f"{error.hint}; assumed: {trial.assumed}" if error.hint else f"assumed: {trial.assumed}"
            raise TaskInvalid(error.message.replace(f"{scratch}/", ""), hint=hint, problem=error.problem) from None
        copy_folder(folder, target)
    return reference


def _lack(
    folder: Path, trial: DraftTrial, figures: Figures, given: str | None, say: Callable[[str], None]
) -> Shortfall | None:
    """Write the task and hold it to its self-test. What the original lacks, if anything, it asks no more next time."""
    (folder / "task.yaml").write_text(task_yaml(trial.draft, folder.name, figures), encoding="utf-8")
    task = read_task(folder)
    with closing(load_reference(task) if given is not None else own_reference(task, *trial.runners)) as found:
        check_task(task, found)
        if given is None:
            return None
        say("holding the original to the given reference")
        compared = compare_original(given, task, found, trial)
    shortfall = compared.shortfall
    if shortfall is Shortfall.ROUNDING and compared.case.startswith(FAR):
        del figures.check[compared.case]  # so long a sum would set the budget of all others
    elif shortfall is Shortfall.ROUNDING and not (folder / "original.cu").exists():
        (folder / "original.cu").write_text(variant_text(trial.draft, folder.name), encoding="utf-8")
        path = folder / "reference.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(with_own_rounding(text, digest_of(folder)), encoding="utf-8")
        figures.because = "four times the error of the original, which errs more than the given reference in float32."
    elif shortfall is Shortfall.SPECIALS and _SPECIALS not in figures.undefined.values():
        asked = _SPECIALS[:2] if not figures.undefined else _SPECIALS
        figures.undefined = {t.name: asked for t in trial.draft.given if t.role != "out" and is_float(t.dtype)}
    else:
        trial.notes += [compared.differs] if compared.differs else []
        return None
    return shortfall


def _rows(draft: Draft, figures: Figures, reference: ReferenceText, *, given: bool) -> list[Assumption]:
    rows = []
    for text, same in itertools.groupby(_launch_text(launch) for launch in draft.launches):
        times = len(list(same))
        several = f", {times} times" if times > 1 else ""
        rows.append(Assumption("launch", text + several, "host code", "--kernel"))
    for axis, value in draft.axes.items():
        why = "compiled in" if axis in draft.compiled else "host code"
        if axis in draft.program.host.unknown_sizes:
            why = "a guess: nothing in the file sets it"
        rows.append(Assumption("axis", f"{axis} = {value}", why, f"--axis {axis}={value}"))
    for name, value in draft.constants.items():
        rows.append(Assumption("constant", f"{name} = {value}", "compiled in, stays", f"--axis {name}={value + 1}"))
    for tensor in draft.tensors:
        shape = ", ".join(tensor.shape)
        zero = ", starts at zero" if tensor.init == "zero" else ""
        text = f"{tensor.name}: {tensor.role} {tensor.dtype}[{shape}]{zero}"
        rows.append(Assumption("tensor", text, tensor.why, f"--tensor {tensor.name}:{tensor.role}"))
    for scalar in draft.scalars:
        why = "host code" if scalar.given else "a guess"
        text = f"{scalar.name}={scalar.value:g}"
        rows.append(Assumption("scalar", text, why, f"--scalar {text}"))
    for tensor_name, kinds in figures.undefined.items():
        why = "what it makes of them is chance" if not given else "it differs from the reference"
        text = f"{tensor_name}: {' and '.join(kinds)} undefined"
        rows.append(Assumption("specials", text, why, "`specials:` in task.yaml"))
    if figures.requires:
        rows.append(Assumption("sizes", " and ".join(figures.requires), "found by running it", "task.yaml"))
    rows.append(Assumption("reference", reference.said, "given" if given else "no other is given", "--reference"))
    return rows


def _launch_text(launch: LaunchDraft) -> str:
    shared = f" shared {launch.shared}" if launch.shared != "0" else ""
    return f"{launch.instance.name} grid ({', '.join(launch.grid)}) block ({', '.join(launch.block)}){shared}"


def _unproven(options: Options, wide: str | None) -> str:
    if options.reference is not None:
        return "variants are held to the given reference"
    what = "computes what the original does"
    rounding = ", with no more rounding error than it" if wide is not None else ", to the last rounding"
    return f"a kept variant {what}{rounding}; whether the original is right, nobody has checked"
