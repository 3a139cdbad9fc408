"""A model's reply as text edits, in any of the forms that models use. A reply is text and nothing else.

SEARCH/REPLACE blocks are asked for. A unified diff, JSON edits and a whole file in a fence are understood too; all but
the whole file become blocks. Words stand around them: SUMMARY, REASON, EXPECTED and RISK are kept, thoughts are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

LONGEST_REPLY = 200_000  # characters; what is longer is no kernel
MOST_BLOCKS = 6
MOST_LINES = 120  # lines that one change may bring in
REWRITE_BLOCKS = 60
REWRITE_LINES = 1500  # and a rewrite
LONGEST_LINE = 400
_LONGEST_WORDS = 240

_OPEN = re.compile(r"^\s*<{5,9}\s*SEARCH\s*$")
_MIDDLE = re.compile(r"^\s*={5,9}\s*$")
_CLOSE = re.compile(r"^\s*>{5,9}\s*REPLACE\s*$")
_FIELD = re.compile(r"^[\s*_#>-]*(SUMMARY|REASON|EXPECTED|RISK)[*_]*\s*:[*_]*\s*(.+)$")
_THOUGHT = re.compile(r"<(/?)(?:think(?:ing)?|thought|reasoning)>")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*([\w+-]*)[^`]*$")
_HUNK = re.compile(r"^@@(?: -\d+(?:,\d+)? \+\d+(?:,\d+)?)? ?@@")
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufeff]")
_PAIRS = (("search", "replace"), ("old", "new"), ("old_string", "new_string"), ("before", "after"), ("find", "replace"))
_FORMS = "answer with SEARCH/REPLACE blocks"


class Unusable(Exception):
    """A reply that is no usable edit; `problem` is told to the model. Never leaves this package."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class EditBlock:
    """Lines to find, and the lines that take their place."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply that was understood: blocks, or a whole file. words: SUMMARY, REASON ... if given, each one line."""

    blocks: tuple[EditBlock, ...] = ()
    whole: str | None = None
    words: dict[str, str] = field(default_factory=dict)


def one_line(text: str, limit: int = _LONGEST_WORDS) -> str:
    """Foreign words as one line without control characters, cut to `limit`."""
    plain = " ".join(_NO_TEXT.sub(" ", text).split())
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def read_reply(text: str, *, rewrite: bool = False) -> Reply:
    """Find the edits of a reply. Raises Unusable."""
    if len(text) > LONGEST_REPLY:
        raise Unusable(f"the reply has {len(text):,} characters; one edit was asked for")
    text = _said(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if not text.strip():
        raise Unusable("the reply is empty")
    lines = text.split("\n")
    words = _words(lines)
    blocks = _marked(lines) or _from_diff(lines) or _from_json(text)
    if not blocks:
        return Reply(whole=_whole_file(lines), words=words)
    most_blocks, most_lines = (REWRITE_BLOCKS, REWRITE_LINES) if rewrite else (MOST_BLOCKS, MOST_LINES)
    if len(blocks) > most_blocks:
        raise Unusable(f"{len(blocks)} SEARCH/REPLACE blocks; at most {most_blocks}, all for one change")
    if sum(len(block.replace) for block in blocks) > most_lines:
        raise Unusable(f"the edits bring in more than {most_lines} lines; make one small change")
    return Reply(blocks=tuple(_held(block) for block in dict.fromkeys(blocks)), words=words)  # said twice, meant once


def _said(text: str) -> str:
    """A reply without what was thought aloud: between two marks, or before the last one where a prompt opened it."""
    said, last, opened = "", 0, -1
    for mark in _THOUGHT.finditer(text):
        if not mark[1] and opened < 0:
            opened = mark.start()
        elif mark[1]:
            said = said + text[last:opened] if opened >= 0 else ""
            last, opened = mark.end(), -1
    return said + text[last:]


def _words(lines: Sequence[str]) -> dict[str, str]:
    words: dict[str, str] = {}
    inside = False
    for line in lines:
        inside = (inside or bool(_OPEN.match(line))) and not _CLOSE.match(line)
        if not inside and (found := _FIELD.match(line)):
            words.setdefault(found[1], one_line(found[2].strip(" *_")))
    return words


def _marked(lines: Sequence[str]) -> list[EditBlock]:
    """SEARCH/REPLACE blocks."""
    blocks: list[EditBlock] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    indent = ""
    for number, line in enumerate(lines, start=1):
        if _OPEN.match(line):
            if search is not None:
                raise Unusable(f"line {number} of the reply opens a SEARCH block inside another one")
            search, replace, indent = [], None, line[: len(line) - len(line.lstrip())]
        elif search is not None and replace is None and _MIDDLE.match(line):
            replace = []
        elif search is not None and replace is not None and _CLOSE.match(line):
            blocks.append(EditBlock(_outdented(search, indent), _outdented(replace, indent)))
            search = replace = None
        elif search is not None:
            (search if replace is None else replace).append(line)
    if search is not None:
        raise Unusable("the last SEARCH/REPLACE block is not closed; the reply may have been cut off")
    return blocks


def _outdented(lines: Sequence[str], indent: str) -> tuple[str, ...]:
    """Lines of a block whose marks are indented, in a list for example."""
    if indent and all(line.startswith(indent) or not line.strip() for line in lines):
        lines = [line[len(indent) :] for line in lines]
    return tuple(lines)


def _held(block: EditBlock) -> EditBlock:
    """A block without fences, which no kernel has, and without characters that no kernel may have."""
    search, replace = _unfenced(block.search), _unfenced(block.replace)
    for line in replace:
        _require_text(line)
    if not any(line.strip() for line in search):
        raise Unusable("a SEARCH part is empty; quote the lines beside the place, and repeat them in REPLACE")
    return EditBlock(tuple(search), tuple(replace))


def _require_text(line: str) -> None:
    if bad := _NO_TEXT.search(line.replace("\t", " ")):
        raise Unusable(f"the replacement holds the character {bad[0]!a}, which is no text of a kernel")
    if len(line) > LONGEST_LINE:
        raise Unusable(f"the replacement has a line of {len(line)} characters, at most {LONGEST_LINE}")


def _unfenced(lines: Sequence[str]) -> Sequence[str]:
    first = 1 if lines and lines[0].lstrip().startswith("```") else 0
    last = len(lines) - (1 if len(lines) > first and lines[-1].strip() == "```" else 0)
    return lines[first:last]


def _from_diff(lines: Sequence[str]) -> list[EditBlock]:
    """The hunks of a unified diff. Their line numbers are not used: models count badly, lines tell the place."""
    blocks: list[EditBlock] = []
    hunk: list[str] | None = None
    for line in [*lines, "```"]:
        is_hunk = bool(_HUNK.match(line))
        ends = line.startswith(("```", "~~~", "diff --git ", "--- a/", "--- ", "index ", "\\ No newline"))
        if hunk is not None and (is_hunk or ends):
            blocks += _hunk(hunk)
            hunk = None
        if is_hunk:
            hunk = []
        elif hunk is not None:
            hunk.append(line)
    return blocks


def _hunk(lines: list[str]) -> list[EditBlock]:
    while lines and not lines[-1].strip():
        lines.pop()
    search = tuple(line[1:] if line else "" for line in lines if not line.startswith("+"))
    replace = tuple(line[1:] if line else "" for line in lines if not line.startswith("-"))
    if search == replace:
        return []
    if any(line and line[0] not in " +-" for line in lines):
        odd = next(line for line in lines if line and line[0] not in " +-")
        raise Unusable(f"a line of the unified diff begins with none of ` `, `+`, `-`: `{one_line(odd, 80)}`")
    return [EditBlock(search, replace)]


def _from_json(text: str) -> list[EditBlock]:
    """`{"edits": [{"search": ..., "replace": ...}]}` and its usual spellings."""
    for candidate in [*(body for _, body in _fences(text.split("\n"))), text]:
        body = candidate.strip()
        if body[:1] not in "{[" or not body:
            continue
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            continue
        if blocks := _json_blocks(found):
            return blocks
    return []


def _json_blocks(found: object) -> list[EditBlock]:
    if isinstance(found, dict):
        lists = [found[name] for name in ("edits", "changes", "replacements") if isinstance(found.get(name), list)]
        found = lists[0] if lists else [found]
    blocks = []
    for edit in found if isinstance(found, list) else []:
        for old, new in _PAIRS if isinstance(edit, dict) else ():
            if isinstance(edit.get(old), str) and isinstance(edit.get(new), str):
                blocks.append(EditBlock(_json_lines(edit[old]), _json_lines(edit[new])))
                break
    return blocks


def _json_lines(text: str) -> tuple[str, ...]:
    text = text.replace("\r\n", "\n").strip("\n")
    return tuple(text.split("\n")) if text else ()


def _fences(lines: Sequence[str]) -> list[tuple[bool, str]]:
    """Fenced parts of a reply: whether each is closed, and its text."""
    found: list[tuple[bool, str]] = []
    mark = ""
    body: list[str] = []
    for line in lines:
        fence = _FENCE.match(line)
        if not mark and fence:
            mark, body = fence[1][:3], []
        elif mark and fence and fence[1].startswith(mark) and not fence[2]:
            found.append((True, "\n".join(body)))
            mark = ""
        elif mark:
            body.append(line)
    return [*found, (False, "\n".join(body))] if mark else found


def _whole_file(lines: Sequence[str]) -> str:
    """The file that a reply holds in a fence, or is. Raises Unusable if it holds none."""
    fences = [each for each in _fences(lines) if "__global__" in each[1] or "// evo:" in each[1]]
    if not fences and any(line.startswith("// evo:") for line in lines) and "__global__" in "\n".join(lines):
        start = next(at for at, line in enumerate(lines) if line.startswith("//"))
        fences = [(True, "\n".join(lines[start:]))]
    if not fences:
        raise Unusable(f"there is no SEARCH/REPLACE block in the reply, no diff and no file; {_FORMS}")
    is_closed, text = max(fences, key=lambda each: len(each[1]))
    if not is_closed:
        raise Unusable("the fence around the file is not closed; the reply may have been cut off")
    if "// evo: launch" not in text:
        raise Unusable(f"the fenced code has no `// evo:` lines, so it is no whole file; {_FORMS}, or the whole file")
    for line in text.split("\n"):
        _require_text(line)
    return text.strip("\n") + "\n"
