"""Online softmaxes as lanes or blocks share them: a maximum with all sums that are scaled anew as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from evo.analysis.access import LaunchAnalysis, Reduction
from evo.analysis.access.data_values import is_old, mentions, parts_of, plain
from evo.analysis.access.form import Carried, Data
from evo.operators.rules.families.work.few import SUFFIX
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule_context import RuleContext

_EXPONENTIALS = ("exp", "expf", "__expf")
_SHORT = 8  # elements of a thread's own array, each of which is combined for itself
_SINGLE = ("sum", "product", "max", "min")


def by_elements(analysis: LaunchAnalysis, reductions: Sequence[Reduction]) -> Iterator[Reduction]:
    """Reductions, those of a thread's own short arrays as those of their elements; with a softmax's sums as one."""
    softmax = [r for r in reductions if r.kind == "online_softmax"]
    for each in reductions:
        array = analysis.form.accesses[each.accesses[0]].array if each.place == "local" and each.accesses else None
        length = array.shape[0].value or 0 if array is not None and len(array.shape) == 1 else 0
        names = tuple(f"{array.name}[{at}]" for at in range(length)) if array is not None else ()
        if not 0 < length <= _SHORT or each.kind.endswith(SUFFIX):
            if each not in softmax:
                yield each
        elif each.kind in _SINGLE:
            yield from (replace(each, place="register", names=(name,)) for name in names)
        elif each.kind == "rescaled_sum" and len(softmax) == 1 and _is_scaled_with(analysis, each, softmax[0]):
            made = softmax[0]
            softmax = [replace(made, names=made.names + names, accesses=made.accesses + each.accesses)]
        else:
            yield each
    yield from softmax


def _is_scaled_with(analysis: LaunchAnalysis, found: Reduction, softmax: Reduction) -> bool:
    """Whether the elements of an array are scaled as the sums of an online softmax are."""
    read, write = found.accesses
    update = plain(analysis.form.accesses[write].value)
    sides = [plain(side) for side in update.args] if update is not None else []
    scaled = [side for side in sides if side is not None and side.op == "mul" and any(map(_reads(read), side.args))]
    return len(scaled) == 1 and _are_rescalings([a for a in scaled[0].args if not _reads(read)(a)], softmax.carried[0])


def _reads(number: int) -> Callable[[Data], bool]:
    return lambda data: (found := plain(data)) is not None and (found.op, found.detail) == ("read", number)


def is_natural(found: Reduction) -> bool:
    """Whether each sum is scaled by exp(the maximum as it was - what it comes to), and by nothing else."""
    for carried in found.carried[1:]:
        scaled = [part for part in parts_of(carried.update) if part.op == "mul" and mentions(part, carried)]
        factors = [arg for part in scaled for arg in part.args if not is_old(plain(arg), carried)]
        if not _are_rescalings(factors, found.carried[0]):
            return False
    return True


def _are_rescalings(factors: Sequence[Data], largest: Carried) -> bool:
    """Whether there are some, each exp(a maximum as it was - what it comes to, whether or not that is a new one)."""
    update = plain(largest.update)
    tops = [update, *(plain(side) for side in update.args if update.op == "select")] if update is not None else []
    for factor in map(plain, factors):
        apart = plain(factor.args[0]) if factor is not None and factor.detail in _EXPONENTIALS else None
        if apart is None or apart.op != "sub" or not is_old(plain(apart.args[0]), largest):
            return False
        if not any(plain(apart.args[1]) is top for top in tops):
            return False
    return bool(factors)


def softmax_of_both(ctx: RuleContext, found: Reduction, head: str, other: Callable[[str], str]) -> list[str]:
    """Lines that add another lane's sums to a thread's own, both by the larger maximum."""
    largest, *sums = found.names
    theirs, top, mine, its = (fresh(ctx, name) for name in ("theirs", "top", "my_part", "their_part"))
    lines = [f"const auto {theirs} = {other(largest)};"]
    lines.append(f"const auto {top} = {theirs} > {largest} ? {theirs} : {largest};")
    # Of two that are alike nothing is subtracted: both may be infinite.
    for part, own in ((mine, largest), (its, theirs)):
        lines.append(f"const auto {part} = {own} == {top} ? 1 : expf({own} - {top});")
    lines += [f"{name} = {name} * {mine} + {other(name)} * {its};" for name in sums]
    return [f"{head} {{", *(f"    {line}" for line in lines), f"    {largest} = {top};", "}"]
