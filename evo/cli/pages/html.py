"""Pieces of HTML that every section uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evo.cli.pages.highlight import clean

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


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], caption: str, *, stack: bool = True, raw: Sequence[int] = ()
) -> str:
    """A table with a caption. A heading's `>`: numbers; its `*`: long text. raw: columns that are HTML already.

    What is None or an empty text is an empty cell.
    """
    kinds = [{">": "num", "*": "long"}.get(title[:1], "") for title in head]
    titles = [title.lstrip(">*") for title in head]
    cells = "".join(
        f'<th scope="col"{_class(kind)}>{clean(title)}</th>' for title, kind in zip(titles, kinds, strict=True)
    )
    body = []
    for row in rows:
        out = "".join(
            f'<td{_class(kind)} data-l="{clean(title)}">{cell if at in raw else clean(str(cell))}</td>'
            if cell not in ("", None)
            else "<td></td>"
            for at, (cell, kind, title) in enumerate(zip(row, kinds, titles, strict=True))
        )
        body.append(f"<tr>{out}</tr>")
    kind = ' class="stack"' if stack else ""
    return region(
        f"<table{kind}><caption>{clean(caption)}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>",
        caption,
    )


def region(html: str, label: str) -> str:
    """What may be wider than the screen scrolls by itself, with the keyboard too."""
    return f'<div class="wide" role="region" aria-label="{clean(label)}" tabindex="0">{html}</div>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def identifier(text: str) -> str:
    return f"<code>{clean(text)}</code>"
