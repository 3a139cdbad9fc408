"""A model's reply as SEARCH/REPLACE edits, and what of it may become a proposal. A reply is text and nothing else.

The form, any number of words around it:

    SUMMARY: what changes, in a few words
    REASON: why it should be faster
    EXPECTED: the effect
    RISK: what may go wrong
    <<<<<<< SEARCH
    whole lines of the parent, exactly as they stand there, found once
    =======
    the lines that take their place
    >>>>>>> REPLACE
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from evo.cuda.source import Change, Classification, classify, syntax_errors, tree_difference
from evo.errors import SyntaxInvalid
from evo.spec.variant import Variant, parse_variant

LONGEST_REPLY = 200_000  # characters; what is longer is not a small edit
MOST_BLOCKS = 6
MOST_LINES = 120  # lines that the edits of one reply may bring in
LONGEST_LINE = 400
_LONGEST_WORDS = 240

_OPEN = re.compile(r"^<{5,9} ?SEARCH\s*$")
_MIDDLE = re.compile(r"^={5,9}\s*$")
_CLOSE = re.compile(r"^>{5,9} ?REPLACE\s*$")
_FIELD = re.compile(r"^[\s*_#>-]*(SUMMARY|REASON|EXPECTED|RISK)[*_]*\s*:[*_]*\s*(.+)$")
_THOUGHT = re.compile(r"<(/?)think(?:ing)?>")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufeff]")


class Unusable(Exception):
    """A reply that is no usable edit; `problem` is told to the model. Never leaves this package."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Block:
    """One SEARCH/REPLACE pair, as lines."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply that was understood. words: SUMMARY, REASON, EXPECTED, RISK, where given, each one plain line."""

    blocks: tuple[Block, ...]
    words: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A parent after a reply's edits: parsed, one change of a known kind. crossed: carried over from a donor."""

    variant: Variant
    change: Change
    verdict: Classification
    crossed: bool = False


def one_line(text: str, limit: int = _LONGEST_WORDS) -> str:
    """Foreign words as one line without control characters, cut to `limit`."""
    plain = " ".join(_NO_TEXT.sub(" ", text).split())
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def read_reply(text: str) -> Reply:
    """Find the edits of a reply. Raises Unusable."""
    if len(text) > LONGEST_REPLY:
        raise Unusable(f"the reply has {len(text):,} characters; one small edit was asked for")
    text = _said(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if not text.strip():
        raise Unusable("the reply is empty")
    blocks: list[Block] = []
    words: dict[str, str] = {}
    search: list[str] | None = None
    replace: list[str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if _OPEN.match(line):
            if search is not None:
                raise Unusable(f"line {number} of the reply opens a SEARCH block inside another one")
            search, replace = [], None
        elif search is not None and replace is None and _MIDDLE.match(line):
            replace = []
        elif search is not None and replace is not None and _CLOSE.match(line):
            blocks.append(_block(search, replace))
            search = replace = None
        elif search is not None:
            (search if replace is None else replace).append(line)
        elif found := _FIELD.match(line):
            words.setdefault(found[1], one_line(found[2].strip(" *_")))
    if search is not None:
        raise Unusable("the last SEARCH/REPLACE block is not closed; the reply may have been cut off")
    if not blocks:
        raise Unusable("there is no SEARCH/REPLACE block in the reply")
    if len(blocks) > MOST_BLOCKS:
        raise Unusable(f"{len(blocks)} SEARCH/REPLACE blocks; at most {MOST_BLOCKS}, all for one change")
    if sum(len(block.replace) for block in blocks) > MOST_LINES:
        raise Unusable(f"the edits bring in more than {MOST_LINES} lines; make one small change")
    return Reply(blocks=tuple(dict.fromkeys(blocks)), words=words)  # said twice, meant once


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


def _block(search: Sequence[str], replace: Sequence[str]) -> Block:
    search, replace = _unfenced(search), _unfenced(replace)
    for line in replace:
        if bad := _NO_TEXT.search(line.replace("\t", " ")):
            raise Unusable(f"the replacement holds the character {bad[0]!a}, which is no text of a kernel")
        if len(line) > LONGEST_LINE:
            raise Unusable(f"the replacement has a line of {len(line)} characters, at most {LONGEST_LINE}")
    if not any(line.strip() for line in search):
        raise Unusable("a SEARCH part is empty; quote the lines beside the place, and repeat them in REPLACE")
    return Block(tuple(search), tuple(replace))


def _unfenced(lines: Sequence[str]) -> Sequence[str]:
    """The lines without a code fence around them, which no kernel has."""
    first = 1 if lines and lines[0].lstrip().startswith("```") else 0
    last = len(lines) - (1 if len(lines) > first and lines[-1].strip() == "```" else 0)
    return lines[first:last]


def apply_edits(text: str, blocks: Sequence[Block]) -> str:
    """The text with each block's SEARCH part replaced; every other byte is the same. Raises Unusable.

    Each SEARCH part must stand in the text exactly once: as whole lines, or else as a piece of text.
    """
    windows = 0 < text.count("\n") == text.count("\r\n")  # where both kinds of line end occur, nothing is converted
    plain = text.replace("\r\n", "\n") if windows else text
    places = sorted(_place(plain, block) for block in blocks)
    for (_, end, _), (start, _, _) in pairwise(places):
        if end > start:
            raise Unusable(f"two SEARCH parts overlap at line {plain.count(chr(10), 0, start) + 1} of the kernel")
    for start, end, replacement in reversed(places):
        plain = plain[:start] + replacement + plain[end:]
    return plain.replace("\n", "\r\n") if windows else plain


def _place(text: str, block: Block) -> tuple[int, int, str]:
    """Where the only occurrence begins and ends, and what takes its place."""
    lines, wanted = text.split("\n"), list(block.search)
    shown = one_line(next(line for line in wanted if line.strip()), 80)
    replacement = "\n".join(block.replace)
    found = [at for at in range(len(lines) - len(wanted) + 1) if lines[at : at + len(wanted)] == wanted]
    if len(found) == 1:
        start = sum(len(line) + 1 for line in lines[: found[0]])
        end = start + len("\n".join(wanted))
        return (start, end, replacement) if block.replace else (start, min(end + 1, len(text)), "")
    if found:
        where = ", ".join(str(at + 1) for at in found[:5])
        raise Unusable(f"SEARCH `{shown}` stands in the kernel {len(found)} times (lines {where}); quote more lines")
    piece = "\n".join(wanted)
    pieces = text.count(piece)
    if pieces == 1:
        start = text.index(piece)
        return start, start + len(piece), replacement
    if pieces:
        raise Unusable(f"SEARCH `{shown}` stands in the kernel {pieces} times; quote whole lines")
    squeezed = [" ".join(line.split()) for line in wanted]
    for at in range(len(lines) - len(wanted) + 1):
        if [" ".join(line.split()) for line in lines[at : at + len(wanted)]] == squeezed:
            raise Unusable(f"SEARCH `{shown}` differs from line {at + 1} of the kernel in blank space; copy it exactly")
    raise Unusable(f"SEARCH `{shown}` does not stand in the kernel; copy lines of it exactly")


def edit(parent: Variant, reply: Reply, task: str, donor: str | None = None) -> Edited:
    """Apply a reply to a parent and hold the result to what a mutation is. Raises Unusable.

    It has to parse, stay with its task, bring no new syntax error, and be one change by the syntax tree; or, with a
    donor's text, be a transplant: within one function, and all that it brings in stands in the donor.
    """
    return judge(parent, apply_edits(parent.text, reply.blocks), task, donor)


def judge(parent: Variant, text: str, task: str, donor: str | None = None) -> Edited:
    """A child's text held to what one mutation of its parent, or a transplant from a donor, is. Raises Unusable."""
    try:
        child = parse_variant(text)
    except (SyntaxInvalid, RecursionError) as error:
        said = error.message if isinstance(error, SyntaxInvalid) else "an expression is nested too deeply"
        raise Unusable(f"the `// evo:` lines of the result cannot be read: {said}") from None
    if child.task not in (parent.task, None) or (child.task or task) != task:
        raise Unusable("the edit changes the `// evo: task` line; leave it alone")
    before = {problem.text for problem in syntax_errors(parent.text)}
    fresh = [problem for problem in syntax_errors(text) if problem.text not in before]
    if fresh:
        raise Unusable(f"line {fresh[0].line} of the result is no CUDA C++: {one_line(fresh[0].text, 80)}")
    change = tree_difference(parent.text, text)
    verdict = classify(change)
    if not change.regions:
        raise Unusable("nothing differs from the parent but comments and blank space")
    crossed = donor is not None and len(change.scopes) <= 1 and stands_in(change, donor)
    if not verdict.is_single and not crossed:
        raise Unusable(f"this is more than one change: it {verdict.why}; send the most promising part of it alone")
    return Edited(variant=child, change=change, verdict=verdict, crossed=crossed)


def stands_in(change: Change, donor: str) -> bool:
    """Whether all that a change brings in, and it brings in something, stands in the donor, token for token."""
    held = " ".join(_TOKEN.findall(donor))
    brought = [" ".join(_TOKEN.findall(region.after)) for region in change.regions]
    return any(brought) and all(part in held for part in brought)
