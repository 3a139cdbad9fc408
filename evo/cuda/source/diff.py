"""Differences between two texts, without comments and blank space, and whether they are one change.

`// evo:` lines are code here: they decide flags, knobs and launches.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evo.cuda.source.diff_groups import grouped
from evo.cuda.source.query import Source, parse
from evo.cuda.source.spans import Edit, Region, Span

_FLAG = re.compile(r"(?<=\s)-\S+")
_SHOWN = 60  # characters of a text in a description
_LISTED = 6
_BESIDE = 2  # tokens
_MOST_PAIRS = 10_000_000  # equal tokens, looked at in seconds
_MOST_REGIONS = 250
_QUALIFIERS = frozenset(("const", "constexpr", "volatile", "static", "unsigned", "signed", "long", "short"))
_EVO = re.compile(r"//\s*+evo:\s*+(\w*+)\s*+")
_REMARK = re.compile(r"\s{3}")  # three blanks open one
# A comment goes on behind a backslash at the end of its line; a macro has parameters if no blank precedes a bracket.
# A comment or a literal that is never closed goes on to the end, of the text or of the line: it is read once.
_TOKEN = re.compile(
    r"""(?P<evo>//[ \t]*+evo:[^\n]*+)|(?P<comment>//(?:\\\r?\n|[^\n])*+|/\*.*?(?:\*/|\Z))
      |(?P<macro>\#[ \t]*+define[ \t]++\w++\()|"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?|[A-Za-z_]\w*+
      |\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*+|<<=|>>=|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|::|\#\#|[^\s]""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """All differences between a parent and a child. Lines count code lines, not comments or blank ones.

    groups: the regions that belong together; each group is one change that could be made without the others.
    too_many: they differ in more places than can be told apart in time; then one region spans them all.
    """

    regions: tuple[Region, ...]
    lines_added: int
    lines_removed: int
    groups: tuple[tuple[Region, ...], ...] = ()
    too_many: bool = False

    @property
    def scopes(self) -> tuple[str, ...]:
        """Functions touched, each once."""
        return tuple(dict.fromkeys(region.scope for region in self.regions if region.scope))

    @property
    def statements(self) -> int:
        """How many statements, declarations or directives are touched."""
        return len({region.statement for region in self.regions})


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """kind: none, knob, flags, launch, define, include, pragma, bounds, signature, body, file or mixed.

    is_single: all regions belong together, within one function (with what it needs at file level).
    """

    kind: str
    is_single: bool
    why: str


_Code = tuple[str, int, int, int, int]  # of a matcher: what is done, and the ranges


class _Token(NamedTuple):
    text: str
    start: int  # characters
    end: int


@functools.lru_cache(maxsize=64)  # an operator that proposes a change and the loop that checks it ask for the same
def tree_difference(parent: str, child: str) -> Change:
    """The smallest differing regions of two texts."""
    old, new = _tokens(parent), _tokens(child)
    head = 0
    while head < min(len(old), len(new)) and old[head].text == new[head].text:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail].text == new[-1 - tail].text:
        tail += 1
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    codes = _matched([t.text for t in middle_old], [t.text for t in middle_new])
    places = _joined(codes, [t.text for t in middle_old], [t.text for t in middle_new]) if codes is not None else None
    too_many = places is None or len(places) > _MOST_REGIONS
    sources = parse(parent), parse(child)
    regions = [
        _region(sources, (old, i1 + head, i2 + head), (new, j1 + head, j2 + head))
        for i1, i2, j1, j2 in (places if places and not too_many else [(0, len(middle_old), 0, len(middle_new))])
        if i1 < i2 or j1 < j2
    ]
    added, removed = _line_counts(parent, child)
    groups = grouped(*sources, regions)
    return Change(regions=tuple(regions), lines_added=added, lines_removed=removed, groups=groups, too_many=too_many)


class _TooMuch(Exception):
    """The matcher has spent its budget."""


class _Matcher(difflib.SequenceMatcher[str]):
    """A matcher with a limit on its steps: texts of few different tokens, thousands of times, would take hours."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new, autojunk=False)
        counts = Counter(new)
        self._pairs = [0, *itertools.accumulate(counts[text] for text in old)]  # that the tokens before a place have
        self._spent = 0

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        self._spent += self._pairs[len(self._pairs) - 1 if ahi is None else ahi] - self._pairs[alo]
        if self._spent > _MOST_PAIRS:
            raise _TooMuch
        return super().find_longest_match(alo, ahi, blo, bhi)


def _matched(old: Sequence[str], new: Sequence[str]) -> list[_Code] | None:
    """The edits from one to the other; None if the search would take too long."""
    try:
        return [*_Matcher(old, new).get_opcodes()]
    except _TooMuch:
        return None


def _joined(codes: Sequence[_Code], old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """The places that differ. Two of one kind around a token are one if the token fits beside them equally well.

    `int a` after `const int b; int a` is all of `const int b;` more, however the matcher cut it.
    """
    found: list[tuple[int, int, int, int]] = []
    kinds: list[str] = []
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            continue
        if found and kinds[-1] == tag and tag != "replace":
            a1, a2, b1, b2 = found[-1]
            text, first, last, middle = (new, b1, j2, (b2, j1)) if tag == "insert" else (old, a1, i2, (a2, i1))
            kept = text[slice(*middle)]
            if 0 < len(kept) <= _BESIDE and kept == text[last - len(kept) : last]:
                shift = len(kept)  # the text between them follows both now
                found[-1] = (a1, a2, b1, j2 - shift) if tag == "insert" else (a1, i2 - shift, b1, b2)
                continue
            if 0 < len(kept) <= _BESIDE and kept == text[first : first + len(kept)]:
                shift = len(kept)
                found[-1] = (i1, i2, b1 + shift, j2) if tag == "insert" else (a1 + shift, i2, j1, j2)
                continue
        found.append((i1, i2, j1, j2))
        kinds.append(tag)
    return found


def split(parent: str, change: Change) -> list[tuple[str, str]]:
    """Each group of a change by itself: a description, and the parent with this group alone changed."""
    source = parse(parent)
    found = []
    for group in change.groups:
        for words, edits in _flag_edits(group) or [(describe(group), [_spaced(source.data, r) for r in group])]:
            found.append((words, source.replace(edits)))
    return found


def _flag_edits(group: Sequence[Region]) -> list[tuple[str, list[Edit]]]:
    """Each flag of a `flags` line that moves, by itself; none if one moves or other text is in the group."""
    if len(group) != 1 or group[0].part != "evo flags" or _flags_moved(group) < 2:
        return []
    region = group[0]
    before, after = (_FLAG.findall(text) for text in (region.before, region.after))
    found = []
    for stem in dict.fromkeys(flag.split("=")[0] for flag in [*before, *after] if (flag in before) != (flag in after)):
        now = [flag for flag in before if flag.split("=")[0] != stem]
        now += [flag for flag in after if flag.split("=")[0] == stem]
        line = " ".join(["// evo: flags", *now]) if now else ""
        words = f"line {region.parent_line}: {'move' if stem in ' '.join(before) else 'add'} {stem}"
        found.append((words, [Edit(region.span, line if region.before else f"\n{line}")]))
    return found


def _spaced(data: bytes, region: Region) -> Edit:
    """A region's edit with the blank space that it needs where it stands without the other regions."""
    before, after = data[: region.span.start].decode(), data[region.span.end :].decode()
    text = region.after
    is_new = region.span.start == region.span.end
    if is_new or (_is_line(text) and before.rpartition("\n")[2].strip()):
        text = region.lead + text
    gap = after[: len(after) - len(after.lstrip())]
    if ("\n" in region.trail and _is_line(text) and "\n" not in gap) or (is_new and not gap):
        text += region.trail
    start = " " if _merge(before[-1:], text[:1] or after[:1]) else ""
    end = " " if text and _merge(text[-1:], after[:1]) else ""
    return Edit(region.span, f"{start}{text}{end}")


def _is_line(text: str) -> bool:
    """Whether it ends with a directive or comment, which needs its own line."""
    return text.rpartition("\n")[2].lstrip().startswith(("#", "//"))


def _merge(left: str, right: str) -> bool:
    """Whether two characters side by side would be read as one token."""
    both = left + right
    return bool(re.fullmatch(r"\w\w|\+\+|--|&&|\|\||<<|>>|==|::|//|/\*|->", both))


def describe(group: Sequence[Region]) -> str:
    """`line 12 in softmax: expf -> __expf`, and how many more places."""
    first = group[0]
    where = f"line {first.parent_line}" + (f" in {first.scope}" if first.scope else "")
    before, after = (" ".join(text.split()) for text in (first.before, first.after))
    cut = [text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..." for text in (before, after)]
    what = f"{cut[0]} -> {cut[1]}" if before and after else (f"add {cut[1]}" if after else f"remove {cut[0]}")
    more = f" and {len(group) - 1} more places" if len(group) > 1 else ""
    return f"{where}: {what}{more}"


def classify(change: Change) -> Classification:
    """What kind of change it is, and whether a reader would call it one change."""
    if not change.regions:
        return Classification(kind="none", is_single=False, why="nothing differs but comments and blank space")
    if change.too_many:
        why = "differs in too many places"
        return Classification(kind="mixed", is_single=False, why=why)
    parts = {region.part for region in change.regions}
    kinds = {part.removeprefix("evo ") for part in parts}
    kind = kinds.pop() if len(kinds) == 1 else ("body" if kinds <= {"body", "pragma", "define"} else "mixed")
    flags = _flags_moved(change.regions)
    if flags > 1:
        return Classification(kind=kind, is_single=False, why=f"adds or removes {flags} flags; move one")
    if len(change.groups) > 1:
        parts_of = "; ".join(f"({n}) {describe(group)}" for n, group in enumerate(change.groups[:_LISTED], start=1))
        more = f"; and {len(change.groups) - _LISTED} more" if len(change.groups) > _LISTED else ""
        why = f"holds {len(change.groups)} changes: {parts_of}{more}"
        return Classification(kind=kind, is_single=False, why=why)
    where = f"in {' and '.join(change.scopes)}" if change.scopes else "at file level"
    return Classification(kind=kind, is_single=True, why=f"{change.statements} statement(s) {where}")


def _flags_moved(regions: Sequence[Region]) -> int:
    moved = 0
    for region in regions:
        if region.part == "evo flags":
            before, after = (set(_FLAG.findall(text)) for text in (region.before, region.after))
            stems = {flag.split("=")[0] for flag in before ^ after}
            moved += len(stems)
    return moved


@functools.lru_cache(maxsize=8)
def _tokens(text: str) -> tuple[_Token, ...]:
    found = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "comment":
            continue
        token = match[0]
        if match.lastgroup == "evo" and (line := _EVO.match(token)):
            field, rest = line[1], token[line.end() :].rstrip()
            if field not in ("launch", "scratch") and (remark := _REMARK.search(rest)):
                rest = rest[: remark.start()]
            words = " ".join(["// evo:", *f"{field} {rest}".split()])
            token = ",".join(part.strip() for part in words.split(","))
        elif match.lastgroup is not None:
            token = " ".join(token.split())
        found.append(_Token(token, match.start(), match.end()))
    return tuple(found)


_Run = tuple[Sequence[_Token], int, int]


def _region(sources: tuple[Source, Source], old: _Run, new: _Run) -> Region:
    parent, child = sources
    spans = [_byte_span(source, run) for source, run in zip(sources, (old, new), strict=True)]
    # An insertion has no tokens in the parent; the child gives its place.
    source, span = (parent, spans[0]) if old[1] < old[2] else (child, spans[1])
    function = source.function_at(span.start)
    return Region(
        scope=function.name if function is not None else "",
        part=_part(source, span),
        parent_line=parent.line(spans[0].start),
        before=parent.slice(spans[0]),
        after=child.slice(spans[1]),
        statement=parent.enclosing_statement(_held(parent, old, new) or spans[0]),
        span=spans[0],
        lead=_gap(child, new[0], new[1] - 1),
        trail=_gap(child, new[0], new[2] - 1),
    )


def _held(parent: Source, old: _Run, new: _Run) -> Span | None:
    """Of a new word such as `const`: the token behind it, to whose statement it belongs."""
    tokens, first, last = old
    words = {token.text for token in new[0][new[1] : new[2]]}
    if first != last or first == len(tokens) or not words or not words <= _QUALIFIERS:
        return None
    return _byte_span(parent, (tokens, first, first + 1))


def _gap(source: Source, tokens: Sequence[_Token], place: int) -> str:
    """The blank space behind a token, comments left out."""
    start = tokens[place].end if place >= 0 else 0
    end = tokens[place + 1].start if place + 1 < len(tokens) else len(source.text)
    gap = source.text[start:end]
    _, newline, indent = gap.rpartition("\n")
    return newline + (indent if not indent.strip() else "") if newline else " " if gap else ""


def _byte_span(source: Source, run: _Run) -> Span:
    tokens, first, last = run
    if first < last:
        start, end = tokens[first].start, tokens[last - 1].end
    else:  # empty: right after the token before it
        start = end = tokens[first - 1].end if first else 0
    return Span(len(source.text[:start].encode()), len(source.text[:end].encode()))


def _part(source: Source, span: Span) -> str:
    start = source.line_start(span.start)
    end = source.data.find(b"\n", start)
    line = source.data[start : end if end >= 0 else len(source.data)].decode().strip()
    if match := re.match(r"//\s*evo:\s*(\w+)", line):
        return f"evo {match[1]}"
    if match := re.match(r"#\s*(define|include|pragma)\b", line):
        name = re.match(r"#\s*define\s+(\w+)", line)
        is_knob = name is not None and re.search(rf"^//\s*evo:\s*knob\s+{name[1]}\b", source.text, re.MULTILINE)
        return "knob" if is_knob else match[1]
    function = source.function_at(span.start)
    if function is None:
        return "file"
    if function.body.holds(span):
        return "body"
    if source.data[span.start : span.end].lstrip().startswith(b"__launch_bounds__"):
        return "bounds"
    return "bounds" if function.bounds is not None and function.bounds.holds(span) else "signature"


def _line_counts(parent: str, child: str) -> tuple[int, int]:
    old, new = ([" ".join(t.text for t in line) for line in _token_lines(text)] for text in (parent, child))
    added = removed = 0
    whole: list[_Code] = [("replace", 0, len(old), 0, len(new))]
    for tag, i1, i2, j1, j2 in _matched(old, new) or whole:
        if tag != "equal":
            removed, added = removed + i2 - i1, added + j2 - j1
    return added, removed


def _token_lines(text: str) -> list[list[_Token]]:
    lines: dict[int, list[_Token]] = {}
    at = line = 0
    for token in _tokens(text):
        line += text.count("\n", at, token.start)
        at = token.start
        lines.setdefault(line, []).append(token)
    return list(lines.values())
