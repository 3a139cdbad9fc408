"""Running means and squares about them (Welford), where lanes share the turns: each counts its own, and pairs merge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evo.analysis.access import Carried, Data, Loop, Reduction, Term
from evo.analysis.access.data_values import is_number, is_old, plain
from evo.cuda.source import Edit, Span
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import fresh, indent_of
from evo.operators.rules.rule_context import RuleContext

_COUNTS = r"(?:\+\+\s*{0}\b|\b{0}\s*(?:\+\+|\+=\s*1\b(?!\.)|=\s*{0}\s*\+\s*1\b(?!\.)))\s*;"
_NAMES = re.compile(r"(?:\+\+\s*)?(?<![\w.])([A-Za-z_]\w*(?:\.\w+)?)\s*(?:\+\+|\+=|=(?!=)|;)")


def is_moments(found: Reduction) -> bool:
    """Whether a mean and the squares about it start at nothing, and are what Welford's update makes of them."""
    if found.kind != "welford" or len(found.carried) not in (2, 3):
        return False
    mean, squares, *count = found.carried
    update = plain(squares.update)
    if any(not is_number(each.initial, 0) for each in found.carried) or update is None or update.op != "add":
        return False
    moved = _apart(mean.update, mean)
    added = [side for side in map(plain, update.args) if not is_old(side, squares)]
    if moved is None or len(added) != 1 or added[0] is None or added[0].op != "mul":
        return False
    sides = [plain(side) for side in added[0].args]
    if any(side is None or side.op != "sub" for side in sides):
        return False
    centres = [plain(side.args[1]) for side in sides if side is not None]
    if not any(is_old(each, mean) for each in centres) or not any(each is plain(mean.update) for each in centres):
        return False
    return not count or _counts(count[0], moved)


def _apart(update: Data | None, mean: Carried) -> Data | None:
    """What `mean += (x - mean) / n` divides by."""
    whole = plain(update)
    moved = [side for side in map(plain, whole.args) if not is_old(side, mean)] if whole is not None else []
    if len(moved) != 1 or moved[0] is None or moved[0].op not in ("div", "mul"):
        return None
    left, right = map(plain, moved[0].args)
    if moved[0].op == "mul":  # by 1 / n
        if left is not None and left.op == "div":
            left, right = right, left
        if right is None or right.op != "div" or not is_number(right.args[0], 1):
            return None
        right = plain(right.args[1])
    is_difference = left is not None and left.op == "sub" and is_old(plain(left.args[1]), mean)
    return right if is_difference else None


def _counts(count: Carried, divisor: Data) -> bool:
    """Whether the divisor is a number of turns that a variable of its own counts."""
    update = plain(count.update)
    if update is None or update.op != "add" or plain(divisor) is not update:
        return False
    others = [side for side in map(plain, update.args) if not is_old(side, count)]
    return len(others) == 1 and is_number(others[0], 1)


def with_count(ctx: RuleContext, loop: Loop, found: Reduction) -> tuple[Reduction, Sequence[Edit]]:
    """The reduction with the name of what counts its turns, and the edits that make one. Raises NotPrinted."""
    if len(found.names) == 3:
        return found, ()
    divisor = plain(_apart(found.carried[0].update, found.carried[0]))
    turn = Term.of(loop.symbol) - loop.start + 1
    if divisor is None or divisor.op != "index" or divisor.detail != turn or loop.step.value != 1:
        raise NotPrinted("what a mean is divided by")
    source, index = ctx.source, loop.symbol.name
    body = Span(loop.header.end, loop.span.end)
    text = source.slice(body)
    counts = [name for name in dict.fromkeys(_NAMES.findall(text)) if name != index]
    counts = [name for name in counts if re.search(_COUNTS.format(re.escape(name)), text)]
    if len(counts) == 1:
        return replace(found, names=(*found.names, counts[0])), ()
    divided = re.compile(rf"/\s*(?:\(float\)\s*)?(\(\s*{index}\s*\+\s*1(?:\.0?)?[fF]?\s*\))")
    places = [match.span(1) for match in divided.finditer(text)]
    above = source.above(loop.span)
    if counts or not places or not text.startswith("{") or not text.isascii() or above is None:
        raise NotPrinted("what counts the turns of a mean")
    inside = [each.span for each in source.subscripts(body)] + [Span(body.start + a, body.start + b) for a, b in places]
    if not all(any(span.holds(at) for span in inside) for name, at in source.names(body) if name == index):
        raise NotPrinted(f"another use of {index}")
    name, indent = fresh(ctx, "count"), indent_of(source, loop.span.start)
    edits = [Edit(Span(above, above), f"{indent}float {name} = 0.0f;\n")]
    edits.append(Edit(Span(body.start + 1, body.start + 1), f"\n{indent}    {name} += 1.0f;"))
    edits += [Edit(Span(body.start + a, body.start + b), name) for a, b in places]
    return replace(found, names=(*found.names, name)), edits


def merging(names: Sequence[str], theirs: Sequence[str], both: Sequence[str], total: str, apart: str) -> list[str]:
    """The lines of a loop that merge another lane's mean, squares and number with this one's."""
    mean, squares, count = names
    their_mean, their_squares, their_count = theirs
    return [
        *both,
        f"    const auto {total} = {count} + {their_count};",
        f"    const auto {apart} = {their_mean} - {mean};",
        f"    if ({their_count} > 0) {{",
        f"        {mean} += {apart} * {their_count} / {total};",
        f"        {squares} += {their_squares} + {apart} * {apart} * {count} * {their_count} / {total};",
        f"        {count} = {total};",
        "    }",
    ]
