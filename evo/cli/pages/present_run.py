"""The state of the run in progress, and links to the tasks: the part of a page that only a server can give."""

from __future__ import annotations

from urllib.parse import quote

from evo.cli.pages.highlight import clean
from evo.cli.pages.html_parts import coded
from evo.records.ledger import RunStatus
from evo.results.wording import clipped, duration, plural

# What a stage waits for, in words. Other stages say it themselves.
_WAITS = {
    "compile": "compiling with NVRTC",
    "gate": "checking correctness against the reference",
    "estimate": "modelling its time on the simulator",
    "bench": "timing it against its parent on the GPU",
    "confirm": "confirming the gain in a fresh process",
    "verify": "looking for inputs and sizes at which it is wrong",
    "sanitize": "waiting for compute-sanitizer",
    "baseline": "timing the library",
    "screen": "screening proposals",
}


def present_run(status: RunStatus | None, task: str, problem: str) -> str:
    """The run and its trial, if one is under way for this task; how the last one ended otherwise."""
    warned = f'<div class="now over"><p class="bad">{clean(problem)}</p></div>' if problem else ""
    if status is None:
        return f'{warned}<div class="now over"><p>No run is under way. <code>evo iterate</code> begins one.</p></div>'
    if not status.alive:
        return warned + _over(status)
    other = "" if status.task == task else f" on <b>{clean(status.task)}</b>"
    place = " ".join(word for word in (status.device, status.arch) if word)
    counted = f"{status.trials} of at most {plural(status.iterations, 'trial')}" if status.iterations else "beginning"
    head = f"A run is under way{other}{f', {clean(place)}' if place else ''}: {counted}, {status.kept} kept"
    bar = f'<progress max="{status.iterations}" value="{status.trials}"></progress>' if status.iterations else ""
    note = _note(status.note)
    return f'{warned}<div class="now"><p><i class="pulse"></i>{head}</p>{bar}{_trial(status)}{note}</div>'


def _trial(status: RunStatus) -> str:
    stage, _, step = status.stage.partition(": ")
    words = _WAITS.get(stage, stage) or ("preparing it" if status.trial is not None else "choosing the next change")
    left = f", about {duration(status.left_s)} left" if status.left_s is not None and status.left_s >= 1 else ""
    waits = f"{words}{f', {step}' if step else ''}"
    doing = f'<p>{clean(waits)}, <span data-since="{status.stage_s:.3f}"></span>{left}</p>'
    if status.trial is None:
        return doing
    trial = status.trial
    return (
        f"<p><b>Trial {trial.number}</b> {clean(clipped(trial.summary, 160))} "
        f'<span class="soft">{clean(trial.operator)}</span></p>'
        f"{doing}"
    )


def _note(text: str) -> str:
    return f'<p class="soft">{coded(clipped(text, 300))}</p>' if text else ""


def _over(status: RunStatus) -> str:
    what = f"{clean(status.task)}, {clean(status.device)}: {plural(status.trials, 'trial')}, {status.kept} kept"
    if status.ended_s is None:
        how = f"The last run ({what}) was ended from outside."
    elif status.problem:
        how = f"The last run ({what}) ended early: {clean(clipped(status.problem, 300))}"
    else:
        how = f"The last run ({what}) has ended."
    note = _note(status.note)
    return f'<div class="now over"><p>{how}</p>{note}</div>'


def task_links(tasks: list[str], current: str) -> str:
    """A link to each task with records; nothing if there is only one."""
    if len(tasks) < 2:
        return ""
    current_mark = ' aria-current="page"'
    items = "".join(
        f'<li><a href="/?task={quote(name)}"{current_mark if name == current else ""}>{clean(name)}</a></li>'
        for name in tasks
    )
    return f'<nav class="tasks" aria-label="Tasks"><ul>{items}</ul></nav>'
