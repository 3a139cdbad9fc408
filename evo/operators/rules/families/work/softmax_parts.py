"""Online softmaxes as lanes or blocks share them: a maximum with all sums that are scaled anew as it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evo.analysis.access import LaunchAnalysis, Reduction
from evo.analysis.access.data_values import is_old, is_same, mentions, parts_of, plain
from evo.analysis.access.form import Carried, Data, Form
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule_context import RuleContext

_EXPONENTIALS = ("exp", "expf", "__expf")
_SHORT = 8  # elements of a thread's own array, each of which is combined for itself


def by_elements(analysis: LaunchAnalysis, reductions: Sequence[Reduction]) -> tuple[Reduction, ...]:
    """Reductions, an online softmax with those of its sums that a thread keeps in a short array, by elements."""
    softmax = next((r for r in reductions if r.kind == "online_softmax"), None)
    if softmax is None:
        return tuple(reductions)
    whole, others = softmax, list[Reduction]()
    for each in reductions:
        if each.kind == "rescaled_sum" and each.place == "local" and _is_scaled_with(analysis, each, softmax):
            names = _elements(analysis, each)
            if not names or {*names} & {*whole.names}:
                return tuple(reductions)
            whole = replace(whole, names=whole.names + names, accesses=whole.accesses + each.accesses)
        elif each is not softmax:
            others.append(each)
    return (*others, whole)


def _elements(analysis: LaunchAnalysis, found: Reduction) -> tuple[str, ...]:
    """The elements of a short array that are combined, by name; none of another array."""
    access = analysis.form.accesses[found.accesses[0]]
    length = access.array.shape[0].value if access.array is not None and len(access.array.shape) == 1 else None
    if length is None or not 0 < length <= _SHORT or access.array is None:
        return ()
    one = access.subscripts[0].value if access.subscripts else None
    return tuple(f"{access.array.name}[{at}]" for at in (range(length) if one is None else (one,)))


def _is_scaled_with(analysis: LaunchAnalysis, found: Reduction, softmax: Reduction) -> bool:
    """Whether the elements of an array are scaled as the sums of an online softmax are."""
    read, write = found.accesses
    update = plain(analysis.form.accesses[write].value)
    sides = [plain(side) for side in update.args] if update is not None else []
    scaled = [side for side in sides if side is not None and side.op == "mul" and any(map(_reads(read), side.args))]
    factors = [arg for each in scaled for arg in each.args if not _reads(read)(arg)]
    return len(scaled) == 1 and _are_rescalings(analysis.form, factors, softmax.carried[0])


def _reads(number: int) -> Callable[[Data], bool]:
    return lambda data: (found := plain(data)) is not None and (found.op, found.detail) == ("read", number)


def is_natural(form: Form, found: Reduction) -> bool:
    """Whether each sum is scaled by exp(the maximum as it was - what it comes to), and by nothing else."""
    for carried in found.carried[1:]:
        scaled = [part for part in parts_of(carried.update) if part.op == "mul" and mentions(part, carried)]
        factors = [arg for part in scaled for arg in part.args if not is_old(plain(arg), carried)]
        if not _are_rescalings(form, factors, found.carried[0]):
            return False
    return True


def _are_rescalings(form: Form, factors: Sequence[Data], largest: Carried) -> bool:
    """Whether there are some, each exp(a maximum as it was - what it comes to, whether or not that is a new one)."""
    update = plain(largest.update)
    tops = [update, *(plain(side) for side in update.args if update.op == "select")] if update is not None else []
    for factor in map(plain, factors):
        apart = plain(factor.args[0]) if factor is not None and factor.detail in _EXPONENTIALS else None
        if apart is None or apart.op != "sub" or not is_old(plain(apart.args[0]), largest):
            return False
        if not any(is_same(form, plain(apart.args[1]), top) for top in tops):
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
