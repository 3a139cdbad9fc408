"""Pieces of HTML that every section uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from evo.cli.pages.highlight import clean
from evo.cli.pages.tables import ReportSection


def _asset(name: str) -> str:
    return files("evo.cli.pages").joinpath("static", name).read_text(encoding="utf-8").strip()


SVG_STYLE = _asset("drawing.css")  # enough for a drawing that stands alone
CSS = f"{_asset('page.css')}\n{SVG_STYLE}"
SCRIPT = _asset("page.js")
LIVE_SCRIPT = f"{SCRIPT}\n{_asset('live.js')}"  # of a page whose server tells it what is new


LONGEST = 500  # characters of a reason that is shown


@dataclass(slots=True)
class TextBudget:
    """How many characters of diffs and source the page may still hold, so that it stays readable by a browser."""

    left: int
    ids: int = field(default=0)

    def take(self, html: str) -> bool:
        if len(html) > self.left:
            return False
        self.left -= len(html)
        return True

    def new_id(self, word: str) -> str:
        self.ids += 1
        return f"{word}-{self.ids}"


def coded(text: str) -> str:
    """A sentence; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", clean(text))


def section_html(section: ReportSection) -> str:
    """Paragraphs, then tables, each under its title."""
    parts = [f"<p>{coded(sentence)}</p>" for sentence in section.sentences]
    for one in section.tables:
        title = f"<h3>{clean(one.title)}</h3>" if one.title else ""
        parts.append(title + table(one.head, one.rows, one.caption))
    return "".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """A table with a caption. A heading's `>`: numbers; its `*`: long text.

    What is None or an empty text is an empty cell. More than two columns stand below one another on a narrow screen.
    """
    kinds = [{">": "num", "*": "long"}.get(title[:1], "") for title in head]
    titles = [title.lstrip(">*") for title in head]
    cells = "".join(
        f'<th scope="col"{_class(kind)}>{clean(title)}</th>' for title, kind in zip(titles, kinds, strict=True)
    )
    body = []
    for row in rows:
        out = "".join(
            f'<td{_class(kind)} data-l="{clean(title)}">{clean(str(cell))}</td>'
            if cell not in ("", None)
            else "<td></td>"
            for cell, kind, title in zip(row, kinds, titles, strict=True)
        )
        body.append(f"<tr>{out}</tr>")
    return region(
        f"<table{_class('stack' if len(head) > 2 else '')}><caption>{clean(caption)}</caption>"
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(body)}</tbody></table>",
        caption,
    )


def region(html: str, label: str) -> str:
    """What may be wider than the screen scrolls by itself, with the keyboard too."""
    return f'<div class="wide" role="region" aria-label="{clean(label)}" tabindex="0">{html}</div>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def identifier(text: str) -> str:
    return f"<code>{clean(text)}</code>"
