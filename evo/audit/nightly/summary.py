"""A night as Markdown for the job's summary page, and as JUnit XML for CI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from evo.audit.nightly.results import STEPS, ChampionReview, Figure, Night, NightCheck, NightRun, ReviewState
from evo.results.wording import duration, markdown_table

_TITLES = {
    "doctor": "machine",
    "ledger": "ledger",
    "control": "A/A control",
    "redteam": "red team",
    "champions": "champions",
    "iterate": "the loop",
    "night": "the night",
    "report": "report",
}
_MARKS = {"passed": "ok", "failed": "**failed**", "fault": "**fault**", "skipped": "skipped"}
_SHOWN = 40
# Characters that XML 1.0 forbids, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown(night: Night) -> str:
    """The summary: the verdict, a row for each step, the champions, the losses with causes, the keeps."""
    lines = [
        f"# Nightly run on {night.chip}: {'passed' if night.exit_code == 0 else 'failed'}",
        "",
        f"{_cell(night.verdict)}. Exit code {night.exit_code}.",
        "",
        f"`{night.device}`, {night.arch}, evo {night.version}, began {night.began}, took {duration(night.elapsed_s)}"
        + (f", branch `{night.branch}`" if night.branch else "")
        + (f", from commit `{night.commit[:12]}`" if night.commit else "")
        + f". All times here are **{night.timing}**.",
        "",
        *markdown_table(("step", "result", "found"), (_step(night, step) for step in STEPS if night.of(step))),
    ]
    lines += _champions(night)
    lines += _losses(night.champions)
    lines += _changes(night.champions)
    lines += _library(night.champions)
    lines += _problems(night)
    lines += _runs(night)
    return "\n".join(lines).rstrip() + "\n"


def _step(night: Night, step: str) -> tuple[str, ...]:
    checks = night.of(step)
    worst = next((s for s in ("failed", "fault") if any(c.state == s for c in checks)), None)
    state = worst or ("passed" if any(c.state == "passed" for c in checks) else "skipped")
    if len(checks) == 1:
        found = checks[0].text
    else:
        counts = [(s, sum(c.state == s for c in checks)) for s in _MARKS]
        found = ", ".join(f"{count} {s}" for s, count in counts if count)
    return (_TITLES[step], _MARKS[state], _cell(found))


def _champions(night: Night) -> list[str]:
    if not night.champions:
        return []
    head = (
        "champion",
        "variant",
        "case",
        f">recorded µs {night.timing}",
        f">now µs {night.timing}",
        ">change",
        "state",
    )
    rows = [row for one in night.champions for row in _champion_rows(one)]
    return ["", "## Champions", "", *markdown_table(head, rows)]


def _champion_rows(one: ChampionReview) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    first = (one.name, f"`{one.variant}`" if one.variant else "")
    if not one.cases:
        return [(*first, "", "", "", "", f"{one.state}: {_cell(one.note)}")]
    for number, figure in enumerate(one.cases):
        lead = first if number == 0 else ("", "")
        state = one.state.value if number == 0 else ""
        rows.append((*lead, figure.name, _us(figure.recorded_us), _us(figure.now_us), _change(figure), state))
    return rows


def _change(figure: Figure) -> str:
    return f"{figure.now_us / figure.recorded_us - 1:+.1%}" if figure.recorded_us else ""


def _losses(reviews: Sequence[ChampionReview]) -> list[str]:
    lost = [one for one in reviews if one.state.is_loss]
    if not lost:
        return []
    lines = ["", "## What did not hold"]
    for one in lost:
        lines += ["", f"### {one.name}: `{one.variant}` {one.state}", "", _cell(one.note) + "."]
        if one.restored:
            commit = f", commit `{one.commit[:12]}`" if one.commit else ""
            lines += ["", f"Champion again: `{one.restored}`{commit}."]
        if one.cause is not None:
            lines += ["", f"Cause ({one.cause.kind}): {_cell(one.cause.text)}."]
            lines += [f"- the task changed with {_cell(words)}" for words in one.cause.task_commits]
            if one.cause.looks:
                rows = [(_cell(look.version), _cell(look.found)) for look in one.cause.looks]
                lines += ["", "Versions judged by the bisection:", "", *markdown_table(("version", "found"), rows)]
        earlier = [held for held in one.pairs if held.case is None]
        if earlier:
            pairs = [(f"`{held.against}`", held.verdict, _cell(held.reason)) for held in earlier]
            lines += [
                "",
                "In pairs against earlier champions:",
                "",
                *markdown_table(("against", "verdict", "because"), pairs),
            ]
    return lines


def _changes(reviews: Sequence[ChampionReview]) -> list[str]:
    rows = [
        (one.name, _cell(", ".join(one.differences) or one.note), f"`{one.renewed[:12]}`" if one.renewed else "")
        for one in reviews
        if one.differences or one.state is ReviewState.CHANGED
    ]
    if not rows:
        return []
    said = "Figures of different environments are not compared. These champions have new records (ours first):"
    return ["", "## Changed environments", "", said, "", *markdown_table(("champion", "what", "commit"), rows)]


def _library(reviews: Sequence[ChampionReview]) -> list[str]:
    rows = [
        (one.name, held.case, held.against, held.verdict, _cell(held.reason))
        for one in reviews
        for held in one.pairs
        if held.case is not None
    ]
    if not rows:
        return []
    head = ("champion", "case", "library", "the champion is", "in interleaved pairs, measured")
    return ["", "## Against the library", "", *markdown_table(head, rows)]


def _problems(night: Night) -> list[str]:
    bad = [check for check in night.checks if check.state in ("failed", "fault") and check.step != "champions"]
    bad += [check for check in night.of("champions") if check.state == "fault"]
    if not bad:
        return []
    rows = [(_TITLES[check.step], _cell(check.name), check.state, _cell(check.text)) for check in bad[:_SHOWN]]
    more = [f"and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
    return ["", "## Failures and faults", "", *markdown_table(("step", "what", "state", "because"), rows), *more]


def _runs(night: Night) -> list[str]:
    if not night.runs:
        return []
    head = ("task", ">trials", ">kept", "champion", "case", f">before µs {night.timing}", f">after µs {night.timing}")
    return ["", "## The loop", "", *markdown_table(head, map(_run, night.runs))]


def _run(run: NightRun) -> tuple[str, ...]:
    counts = (str(run.trials), f"{run.kept}{' and the start' if run.started else ''}")
    return (run.task, *counts, f"`{run.champion}`", run.case, _us(run.start_us), _us(run.end_us))


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:,.1f}"


def _cell(text: str) -> str:
    """Foreign text in a line of Markdown, escaped: it cannot break the table or become markup."""
    line = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return line.replace("@", "@\u200b")  # an @name in a kernel's text must not notify anyone


# --- JUnit ----------------------------------------------------------------------------------------------------------


def junit(night: Night) -> str:
    """A suite for each step, a case for each check: `failed` is a failure, `fault` an error."""
    root = ElementTree.Element("testsuites", _counts(night.checks), name=f"evo nightly {night.chip}")
    root.set("time", f"{night.elapsed_s:.3f}")
    for step in STEPS:
        checks = night.of(step)
        if not checks:
            continue
        suite = ElementTree.SubElement(root, "testsuite", _counts(checks), name=_TITLES[step])
        suite.set("timestamp", night.began.removesuffix("Z"))
        suite.set("time", f"{sum(check.elapsed_s or 0.0 for check in checks):.3f}")
        for check in checks:
            _case(suite, check)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _case(suite: ElementTree.Element, check: NightCheck) -> None:
    case = ElementTree.SubElement(suite, "testcase", name=_xml(check.name), classname=f"evo.audit.nightly.{check.step}")
    case.set("time", f"{check.elapsed_s or 0.0:.3f}")
    tag = {"failed": "failure", "fault": "error", "skipped": "skipped"}.get(check.state)
    if tag is not None:
        ElementTree.SubElement(case, tag, message=_xml(check.text)).text = _xml(check.detail or check.text)
    elif check.text:
        ElementTree.SubElement(case, "system-out").text = _xml(check.text)


def _counts(checks: Sequence[NightCheck]) -> dict[str, str]:
    def count(state: str) -> str:
        return str(sum(check.state == state for check in checks))

    return {
        "tests": str(len(checks)),
        "failures": count("failed"),
        "errors": count("fault"),
        "skipped": count("skipped"),
    }


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
