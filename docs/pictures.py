"""Draws proof.svg, tasks.svg and nightly.svg from the tables of their pages and from a shipped task."""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path

from evo.spec.task import load_task

DOCS = Path(__file__).parent
WIDTH = 900
_STYLE = """<style>
svg{--paper:#fff;--panel:#f5f7f9;--ink:#1c2430;--soft:#4b5563;--line:#5b6675;--good:#0b5fa5;--bad:#a8480f;--bar:#9dc3e6}
@media(prefers-color-scheme:dark){svg{--paper:#14181e;--panel:#1c222b;--ink:#e8ecf1;--soft:#b4bdc8;--line:#8d99a8;--good:#8cc4ff;--bad:#f2a270;--bar:#2f5d8a}}
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:var(--ink);font-size:14px}
.h{font-weight:600}.s{fill:var(--soft);font-size:13px}.x{fill:var(--bad);font-size:13px}.n{text-anchor:end}.m{text-anchor:middle}
.paper{fill:var(--paper)}.box{fill:var(--panel);stroke:var(--line)}.track{fill:var(--panel)}.bar{fill:var(--bar)}
.a{fill:none;stroke:var(--line);stroke-width:1.6}.rule{stroke:var(--line);stroke-width:1}
</style>"""


# Steps whose row in the table points to the text below it.
_BELOW = {
    "champions": "gate, then against earlier champions, the library and their recorded figures",
    "report": "all records as a page, the night as a summary and as JUnit XML",
}


def table_of(page: str, first: str) -> list[list[str]]:
    """The rows of the page's table whose first heading is this, without Markdown's marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(first)} \|.*\n\|[-|: ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found is not None, f"{page}: no table that begins with {first}"
    rows = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in found[1].splitlines()]
    return [[re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", cell) for cell in row] for row in rows]


def proof() -> str:
    """Kept shares and coverage of planted changes, from the table of proof.md."""
    rows = table_of("proof.md", "planted change")
    left, size, top, step = 300, 330, 84, 44
    parts = [_text(24, 34, "Planted changes of known size on one H200: what was kept", "h")]
    parts.append(_text(24, 56, "A gain past the margin of 3 % must be kept, everything else must not.", "s"))
    for number, (change, trials, kept, covered) in enumerate(rows):
        y = top + number * step
        share, covers = int(kept) / int(trials), int(covered) / int(trials)
        parts += [
            _text(left - 16, y + 19, change, "n"),
            f'<rect class="track" x="{left}" y="{y}" width="{size}" height="28" rx="3"/>',
            f'<rect class="bar" x="{left}" y="{y}" width="{size * share:.0f}" height="28" rx="3"/>' if share else "",
            _text(left + 10, y + 19, f"{kept} of {trials} kept", "h"),
            _text(left + size + 20, y + 19, f"interval covers the truth: {covers:.0%}", "s"),
        ]
    return _svg("proof", top + len(rows) * step + 16, "Planted changes and what was kept", parts)


def tasks() -> str:
    """A task's folder and what each part is for, with the counts of softmax."""
    task = load_task(DOCS.parent, "softmax")
    rungs = sorted(path.name for path in (task.folder / "ladder").glob("*.cu"))
    wrong = sorted((task.folder / "wrong").glob("*.cu"))
    ragged = ", ".join(case.name for case in task.check[:3])
    files = [
        ("task.yaml", f"{len(task.check)} cases to check ({ragged} ...), {len(task.bench)} to time, tolerance, work"),
        ("reference.py", "draws the inputs; computes the outputs in float64"),
        ("ladder/", f"{len(rungs)} rungs, {rungs[0]} to {rungs[-1]}: starts and steps of the loop"),
        ("wrong/", f"{len(wrong)} kernels that the gate must refuse, each with its reason"),
        ("champions/", "one file per chip and arch: the kernel that evolves"),
    ]
    uses = [
        (("The gate", "is a variant correct on every case?"), (0, 1, 3)),
        (("The times", "is it faster than the champion?"), (0, 4)),
        (("The loop", "what is tried next, what is kept?"), (2, 4)),
    ]
    parts = [_text(24, 34, "A task is a folder, here kernels/softmax", "h")]
    middle: list[float] = []
    for number, (name, words) in enumerate(files):
        y = 56 + number * 76
        middle.append(y + 31)
        parts.append(f'<rect class="box" x="24" y="{y}" width="440" height="62" rx="6"/>')
        parts.append(_text(38, y + 22, name, "h"))
        parts += [_text(38, y + 40 + 15 * at, line, "s") for at, line in enumerate(textwrap.wrap(words, 60)[:2])]
    for number, ((name, words), sources) in enumerate(uses):
        y = 76 + number * 124
        parts.append(f'<rect class="box" x="620" y="{y}" width="256" height="70" rx="6"/>')
        parts += [_text(634, y + 28, name, "h"), _text(634, y + 50, words, "s")]
        parts += [
            f'<path class="a" d="M464 {middle[source]:.0f} C540 {middle[source]:.0f} 540 {y + 35} 620 {y + 35}"/>'
            for source in sources
        ]
    return _svg("tasks", 56 + len(files) * 76 + 12, "The folder of a task and what its files are for", parts)


def nightly() -> str:
    """The steps of a night, from the table of nightly.md, and what it leaves."""
    rows = table_of("nightly.md", "step")
    parts = [_text(24, 34, "A night on a runner", "h")]
    for number, (step, does, ends) in enumerate(rows):
        y = 54 + number * 66
        lines = textwrap.wrap(_BELOW.get(step, does), 64)[:2]
        parts.append(f'<rect class="box" x="24" y="{y}" width="590" height="54" rx="6"/>')
        parts.append(_text(38, y + 32, step, "h"))
        parts += [_text(150, y + (24 if len(lines) > 1 else 32) + 16 * at, line, "s") for at, line in enumerate(lines)]
        if ends.startswith("yes"):
            parts.append(_text(634, y + 32, "if it fails, the night ends here", "x"))
        if number:
            parts.append(f'<path class="a" d="M60 {y - 12} V{y}"/>')
    bottom = 54 + len(rows) * 66
    left = ["report.html: all records", "summary.md: of the job", "junit.xml: a suite for each step"]
    left += ["a branch with its commits"]
    parts.append(f'<rect class="box" x="650" y="{bottom - 160}" width="226" height="148" rx="6"/>')
    parts.append(_text(664, bottom - 134, "What it leaves", "h"))
    parts += [_text(664, bottom - 108 + 24 * at, line, "s") for at, line in enumerate(left)]
    parts.append(f'<path class="a" d="M614 {bottom - 39} H650"/>')
    return _svg("nightly", bottom + 4, "The steps of evo nightly and what it leaves", parts)


PICTURES = {"proof.svg": proof, "tasks.svg": tasks, "nightly.svg": nightly}


def _text(x: float, y: float, words: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}"{kind}>{escape(words)}</text>'


def _svg(name: str, height: float, title: str, parts: list[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    body = "\n".join(part for part in parts if part)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="{name}-title">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n{_STYLE}\n'
        f'<rect class="paper" width="{WIDTH}" height="{height:g}"/>\n{body}\n</svg>\n'
    )
