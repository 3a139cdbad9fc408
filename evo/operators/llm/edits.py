"""What of a reply may become a proposal: applied to its parent, parsed, and held to one change or to a rewrite."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from evo.cuda.source import Change, Classification, classify, syntax_errors, tree_difference
from evo.errors import SyntaxInvalid
from evo.operators.llm.reply_edits import MOST_LINES, REWRITE_LINES, EditBlock, Reply, Unusable, one_line
from evo.operators.one_change import clutter, relaunched
from evo.spec.variant import Variant, parse_variant

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")
_SHOWN = 80  # characters of a line in a complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A parent after a reply's edits: parsed, and of a known kind."""

    variant: Variant
    change: Change
    verdict: Classification
    kind: Literal["mutation", "transplant", "rewrite"] = "mutation"


def apply_reply(text: str, reply: Reply) -> str:
    """The text after a reply: its blocks applied, or the file that it holds. Raises Unusable."""
    if reply.whole is None:
        return apply_edits(text, reply.blocks)
    windows = 0 < text.count("\n") == text.count("\r\n")
    return reply.whole.replace("\n", "\r\n") if windows else reply.whole


def apply_edits(text: str, blocks: Sequence[EditBlock]) -> str:
    """The text with each block's SEARCH part replaced; every other byte is the same. Raises Unusable.

    Each SEARCH part must stand in the text exactly once: as whole lines, or else as a piece of text, or else as lines
    that differ in blank space alone.
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


def _place(text: str, block: EditBlock) -> tuple[int, int, str]:
    """Where the only occurrence begins and ends, and what takes its place."""
    lines, wanted = text.split("\n"), list(block.search)
    found = [at for at in range(len(lines) - len(wanted) + 1) if lines[at : at + len(wanted)] == wanted]
    if len(found) == 1:
        return _lines_at(text, lines, found[0], len(wanted), block.replace)
    shown = one_line(next(line for line in wanted if line.strip()), _SHOWN)
    if found:
        where = ", ".join(str(at + 1) for at in found[:5])
        raise Unusable(f"SEARCH `{shown}` stands in the kernel {len(found)} times (lines {where}); quote more lines")
    piece = "\n".join(wanted)
    pieces = text.count(piece)
    if pieces == 1:
        start = text.index(piece)
        return start, start + len(piece), "\n".join(block.replace)
    if pieces:
        raise Unusable(f"SEARCH `{shown}` stands in the kernel {pieces} times; quote whole lines")
    return _place_by_words(text, lines, block)


def _lines_at(text: str, lines: Sequence[str], at: int, count: int, replace: Sequence[str]) -> tuple[int, int, str]:
    start = sum(len(line) + 1 for line in lines[:at])
    end = start + len("\n".join(lines[at : at + count]))
    return (start, end, "\n".join(replace)) if replace else (start, min(end + 1, len(text)), "")


def _place_by_words(text: str, lines: Sequence[str], block: EditBlock) -> tuple[int, int, str]:
    """The place of a SEARCH part that differs from it in blank space alone."""
    numbered = [(at, words) for at, line in enumerate(lines) if (words := _squeezed(line))]
    wanted = [words for line in block.search if (words := _squeezed(line))]
    texts = [words for _, words in numbered]
    found = [at for at in range(len(texts) - len(wanted) + 1) if texts[at : at + len(wanted)] == wanted]
    if not found:
        raise Unusable(_mismatch(lines, [line for line in block.search if _squeezed(line)]))
    if len(found) > 1:
        where = ", ".join(str(numbered[at][0] + 1) for at in found[:5])
        raise Unusable(f"SEARCH `{wanted[0][:_SHOWN]}` stands in the kernel {len(found)} times (lines {where})")
    first, last = numbered[found[0]][0], numbered[found[0] + len(wanted) - 1][0]
    quoted = next(line for line in block.search if line.strip())
    replace = _reindented(block.replace, _indent(quoted), _indent(lines[first]))
    return _lines_at(text, lines, first, last - first + 1, replace)


def _squeezed(line: str) -> str:
    """A line's words: blanks count where they part two of them, and nowhere else."""
    return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(line.split()))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _reindented(lines: Sequence[str], quoted: str, real: str) -> list[str]:
    """Lines as far to the right as the text is, where the reply quoted it further to the left or right."""
    if quoted == real:
        return list(lines)
    return [real + line[len(quoted) :] if line.strip() and line.startswith(quoted) else line for line in lines]


def _mismatch(lines: Sequence[str], quoted: Sequence[str]) -> str:
    """Which line of a SEARCH part is the first that the kernel does not have there, and what it has instead."""
    places = [at for at, line in enumerate(lines) if _squeezed(line)]
    texts, wanted = [_squeezed(lines[at]) for at in places], [_squeezed(line) for line in quoted]
    best, most = -1, 0
    for at in range(len(texts)):
        same = 0
        while same < len(wanted) and at + same < len(texts) and texts[at + same] == wanted[same]:
            same += 1
        if same > most:
            best, most = at, same
    shown = one_line(quoted[most], _SHOWN)
    if best < 0:
        close = difflib.get_close_matches(wanted[0], texts, n=1, cutoff=0.6)
        line = places[texts.index(close[0])] if close else 0
        nearest = f"; the closest line is {line + 1}: `{one_line(lines[line], _SHOWN)}`" if close else ""
        return f"SEARCH `{shown}` does not stand in the kernel{nearest}; copy lines of it exactly"
    before = places[best + most - 1] + 1
    behind = f"`{one_line(lines[places[best + most]], _SHOWN)}`" if best + most < len(texts) else "its end"
    return (
        f"line {most + 1} of a SEARCH part, `{shown}`, does not stand in the kernel behind line {before}, where it has"
        f" {behind}; copy lines of it exactly"
    )


def edit(parent: Variant, reply: Reply, task: str, donor: str | None = None, *, rewrite: bool = False) -> Edited:
    """Apply a reply to a parent and hold the result to what was asked for. Raises Unusable.

    It has to parse, stay with its task, bring no new syntax error and no code that no launch reaches, and be one change
    by the syntax tree; or, with a donor's text, be a transplant: within one function, and all that it brings in stands
    in the donor; or, if a rewrite was asked for, anything else.
    """
    return judge(parent, apply_reply(parent.text, reply), task, donor, rewrite=rewrite)


def judge(parent: Variant, text: str, task: str, donor: str | None = None, *, rewrite: bool = False) -> Edited:
    """A child's text held to what one mutation, a transplant or a rewrite of its parent is. Raises Unusable."""
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
        raise Unusable("only comments and blank space differ from the parent")
    most = REWRITE_LINES if rewrite else MOST_LINES
    if change.lines_added > most:
        raise Unusable(f"the edits bring in more than {most} lines; make one small change")
    moved = relaunched(parent.text, text)
    crossed = (
        donor is not None and not moved and not change.too_many and len(change.scopes) <= 1 and stands_in(change, donor)
    )
    is_single = verdict.is_single and moved is None
    if not is_single and not crossed and not rewrite:
        why = moved or f"it {verdict.why}"
        raise Unusable(f"this is more than one change: {why}; send the most promising part of it alone")
    if (dead := clutter(parent.text, text)) is not None:
        raise Unusable(f"{dead} (code that no launch reaches does not count as a change)")
    kind: Literal["mutation", "transplant", "rewrite"] = "transplant" if crossed else "mutation"
    return Edited(variant=child, change=change, verdict=verdict, kind=kind if is_single or crossed else "rewrite")


def stands_in(change: Change, donor: str) -> bool:
    """Whether all that a change brings in, and it brings in something, stands in the donor, token for token."""
    held = " ".join(_TOKEN.findall(donor))
    brought = [" ".join(_TOKEN.findall(region.after)) for region in change.regions]
    return any(brought) and all(part in held for part in brought)
