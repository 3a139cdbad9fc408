"""Attention becomes tiles for tensor cores: both products by mma.sync, the softmax between them in registers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from evo.analysis.access import (
    KEY,
    PLANES,
    ROW,
    Attention,
    Data,
    LaunchAnalysis,
    Symbol,
    Term,
    analyse,
    attention_of,
    axis_values,
    number_of,
)
from evo.analysis.access.data_values import plain
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.directives import directive_place, relaunched, require, shape_knobs, without_bounds
from evo.operators.rules.families.tile.attention_pieces import attention_body
from evo.operators.rules.families.tile.mma_pieces import MMA_TYPES, has_tensor_cores
from evo.operators.rules.lifting import NotPrinted, Printer, named, names_of, taken
from evo.operators.rules.rewriting import WORD, bracketed, fresh, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.spelling import spelled
from evo.spec.element_types import OF_C_TYPE, ROUNDOFF
from evo.spec.launch import macros_of
from evo.spec.task import Case, Task, Tensor

# Query rows of a block (16 for each warp), keys of a stage, stages; the first ones are proposed first.
_SHAPES = ((32, 64, 2), (64, 64, 2), (128, 64, 2), (64, 32, 3), (16, 32, 3))
_DOMAINS = {"BM": (16, 32, 64, 128), "BN": (16, 32, 64, 128), "STAGES": (2, 3, 4)}
_OF_HEADERS = re.compile(r"T|[a-z]\w*")  # names that the toolkit's own headers use: as a macro one breaks them


@dataclass(frozen=True, slots=True)
class _Found:
    """An attention in every binary of the file. by_macro: how many keys a row sees, for each value of one macro."""

    function: Function
    analysis: LaunchAnalysis
    made: Attention
    limits: tuple[tuple[str, Term], ...]  # condition on a macro, limit; the last one has no condition
    grows: bool
    tensors: dict[str, Tensor]
    names: dict[str, str]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = _attention(ctx, analysis, function) if has_tensor_cores(ctx) else None
    if found is None:
        return
    position = analysis.form.position
    for rank, shape in enumerate(_SHAPES):
        block = "x".join(map(str, shape[:2]))
        yield Application(
            edits=tuple(_edits(ctx, found, position, shape)),
            summary=f"{function.name}: tensor cores, {shape[0]} queries for a block, {shape[1]} keys a stage",
            arguments={"kernel": function.name, "launch": position, "block": block, "stages": shape[2]},
            rank=rank,
            is_schedule=True,
        )


def _attention(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Found | None:
    made = attention_of(analysis)
    if made is None or made.query.element not in MMA_TYPES or made.key.element != made.query.element:
        return None
    if made.value.element != made.query.element or made.store.array is None:
        return None
    if made.store.array.element not in (made.query.element, "float"):
        return None
    tensors = {tensor.name: tensor for tensor in analysis.task.tensors}
    specials = tensors[made.value.name].specials
    if specials is not None and specials.not_finite:  # a key that does not count has weight 0, and 0 * NaN is NaN
        return None
    limits = _limits(ctx, analysis)
    if limits is None:
        return None
    made, said, grows = limits
    return _Found(function, analysis, made, said, grows, tensors, names_of(ctx, function))


def _limits(ctx: RuleContext, analysis: LaunchAnalysis) -> tuple[Attention, tuple[tuple[str, Term], ...], bool] | None:
    """The attention as it is said for most cases, and how many keys a row sees in each binary.

    None if one binary computes anything else. What is known of the sizes in one binary may shorten what is said there,
    so that two are one if they agree on their cases.
    """
    task, position = analysis.task, analysis.form.position
    cases: dict[tuple[tuple[str, int], ...], list[Case]] = {}
    for case in (*task.check, *task.bench):
        cases.setdefault(tuple(sorted(macros_of(ctx.variant, case).items())), []).append(case)
    groups: list[tuple[dict[str, int], Attention, list[Case]]] = []
    for values, own in cases.items():
        launches = analyse(ctx.variant, task, own[0], analysis.chip)
        made = next((attention_of(each) for each in launches if each.form.position == position), None)
        if made is None:
            return None
        groups.append((dict(values), made, own))
    groups.sort(key=lambda group: -len(group[2]))
    main = groups[0][1]
    limits: dict[Term, list[dict[str, int]]] = {}
    for macros, made, own in groups:
        if not _is_same(main, made, task, own):
            return None
        said = next((known for known in limits if _agree(known, made.limit, made, task, own)), made.limit)
        limits.setdefault(said, []).append(macros)
    grows = all(made.grows for _, made, _ in groups)
    if len(limits) == 1:
        return main, (("", next(iter(limits))),), grows
    told = _by_macro(limits)
    return (main, told, grows) if told is not None else None


def _is_same(one: Attention, other: Attention, task: Task, cases: list[Case]) -> bool:
    spelled = [
        (a.query.name, a.key.name, a.value.name, a.row, a.is_base_2, len(a.scale), a.query_at) for a in (one, other)
    ]
    places = zip((*one.key_at, *one.value_at), (*other.key_at, *other.value_at), strict=True)
    return spelled[0] == spelled[1] and all(_agree(a, b, other, task, cases) for a, b in places)


def _agree(one: Term, other: Term, made: Attention, task: Task, cases: list[Case]) -> bool:
    """Whether two terms are one number for the first, second and last index of each dimension, in all cases."""
    if one == other:
        return True
    for case in cases:
        sizes = axis_values(task, case)
        extents = [number_of(dim, sizes) or 1 for dim in made.query.shape[: len(made.query_at)]]
        spots = [sorted({0, min(1, size - 1), size - 1}) for size in extents]
        for at in itertools.product(*spots):
            known = {term.atom: n for term, n in zip(made.query_at, at, strict=True) if isinstance(term.atom, Symbol)}
            values = {**sizes, **known, KEY: 0}
            left, right = number_of(one, values), number_of(other, values)
            if left is None or left != right:
                return False
    return True


def _by_macro(found: dict[Term, list[dict[str, int]]]) -> tuple[tuple[str, Term], ...] | None:
    """Two limits, told apart by whether one macro is 0."""
    if len(found) != 2:
        return None
    (first, ones), (second, others) = found.items()
    for name in ones[0]:
        are_zero = {values[name] == 0 for values in ones}, {values[name] == 0 for values in others}
        if are_zero == ({True}, {False}):
            return (f"{name} != 0", second), ("", first)
        if are_zero == ({False}, {True}):
            return (f"{name} != 0", first), ("", second)
    return None


def _edits(ctx: RuleContext, found: _Found, position: int, shape: tuple[int, ...]) -> list[Edit]:
    """Raises NotPrinted."""
    edits, names = _with_width(ctx, found)
    knobs = {word: fresh(ctx, word) for word in _DOMAINS}
    words = taken(ctx, names) | {param.name for param in found.function.params}
    body = named(_body(replace(found, names=names)), words, knobs)
    line = ctx.variant.launches[position]
    output = found.tensors[found.made.store.array.name] if found.made.store.array is not None else None
    assert output is not None
    planes = [bracketed(dim.text) for at, dim in enumerate(output.shape[:-1]) if at != found.made.row]
    if len(planes) > 2:
        raise NotPrinted("more dimensions than a grid has")
    rows, width = output.shape[found.made.row].text, output.shape[-1].text
    grid = ", ".join([f"ceil_div({rows}, {knobs['BM']})", *reversed(planes)])
    pitch = f"(ceil_div({width}, 16) * 16 + 8)"
    shared = f"(({knobs['BM']} + {knobs['STAGES']} * 2 * {knobs['BN']}) * {pitch} * 2)"
    edits.append(relaunched(ctx, line, grid=grid, block=f"{knobs['BM']} * 2", shared=shared))
    edits.append(Edit(found.function.body, body))
    edits += shape_knobs(ctx, knobs, _DOMAINS, shape)
    edits += require(ctx, "shared <= chip.shared_per_block_optin")
    return merged([*edits, *without_bounds(found.function)])


def _with_width(ctx: RuleContext, found: _Found) -> tuple[list[Edit], dict[str, str]]:
    """What makes the length of a row known to the compiler, and the names with it. Raises NotPrinted."""
    width = found.tensors[found.made.query.name].shape[-1].text
    edits: list[Edit] = []
    names = dict(found.names)
    for axis in dict.fromkeys(WORD.findall(width)):
        names[axis] = axis
        if axis in ctx.variant.macros:
            continue
        whole = Span(0, len(ctx.source.data))
        outside = [name for name, at in ctx.source.names(whole) if name == axis and not found.function.span.holds(at)]
        if _OF_HEADERS.fullmatch(axis) or outside:
            raise NotPrinted(f"{axis} cannot be compiled in under its name")
        edits.append(Edit(directive_place(ctx, ("macro", "task")), f"// evo: macro {axis}\n"))
        edits += [Edit(p.name_span, fresh(ctx, f"{axis}_given")) for p in found.function.params if p.name == axis]
    return edits, names


def _body(found: _Found) -> str:
    """Raises NotPrinted."""
    made, task = found.made, found.analysis.task
    say = Printer(found.analysis, found.names, {}, {})
    symbols = {Symbol(name, "axis"): said for name, said in found.names.items()}
    planes = [symbol for at, symbol in enumerate(_planes(made))]
    symbols |= {ROW: "$row", **{symbol: f"$at{place}" for place, symbol in enumerate(planes)}}
    limit = ""
    for condition, term in reversed(found.limits):
        limit = f"{condition} ? {spelled(term, symbols)} : {limit}" if condition else spelled(term, symbols)
    output = found.tensors[made.store.memory.name]
    rows = say.extent(output.shape[made.row])
    bases, strides = [], []
    for tensor, at, moving in (
        (made.query, made.query_at, ROW), (made.key, made.key_at, KEY), (made.value, made.value_at, KEY),
        (made.store.memory, made.query_at, ROW),
    ):  # fmt: skip
        base, stride = _row_of(say, found.tensors[tensor.name], at, moving, symbols)
        bases.append(base)
        strides.append(stride)
    factors = [f"(1.0f / {say.value(f.data)})" if f.is_over else say.value(f.data) for f in made.scale]
    return attention_body(
        tensors=tuple(found.names[t.name] for t in (made.query, made.key, made.value, made.store.memory)),
        bases=tuple(bases), strides=tuple(strides), planes=len(planes), rows=rows,
        width=say.extent(output.shape[-1]), scale=" * ".join(factors) or "1.0f",
        is_positive=all(_is_positive(task, factor.data) for factor in made.scale),
        is_base_2=made.is_base_2, limit=limit, grows=found.grows,
        keys=say.extent(found.tensors[made.key.name].shape[made.key_at.index(Term.of(KEY))]),
        kind=MMA_TYPES[made.query.element], is_float_out=made.store.memory.element == "float",
        is_split=task.tolerance.atol < 2 * ROUNDOFF[OF_C_TYPE.get(made.query.element, made.query.element)],
    )  # fmt: skip


def _is_positive(task: Task, data: Data) -> bool:
    """Whether a factor of the scale is above 0 in every case."""
    data = plain(data) or data
    if data.op == "call":
        return data.detail in ("rsqrtf", "sqrtf", "sqrt", "rsqrt")
    if data.op == "constant":
        return isinstance(data.detail, int | float) and data.detail > 0
    scalar = next((s for s in task.scalars if data.op == "scalar" and s.name == data.detail), None)
    return scalar is not None and all(scalar.value.value(case.axes) > 0 for case in (*task.check, *task.bench))


def _planes(made: Attention) -> list[Symbol]:
    return list(PLANES[: len(made.query_at) - 1])


def _row_of(
    say: Printer, tensor: Tensor, at: tuple[Term, ...], moving: Symbol, symbols: dict[Symbol, str]
) -> tuple[str, str]:
    """Where row 0 of a matrix begins in a tensor, and how far apart its rows are. Raises NotPrinted."""
    said, stride = "", ""
    for term, dim in zip(at, tensor.shape, strict=False):
        size = say.extent(dim)
        index = "0" if term == Term.of(moving) else spelled(term, symbols)
        stride = f"{stride} * {size}" if stride else "1" if term == Term.of(moving) else ""
        if not said or said == "0":
            said = "0" if index == "0" else f"(long long){_factor(index)}"
        else:
            said = f"{_factor(said)} * {size}" + (f" + {index}" if index != "0" else "")
    width = say.extent(tensor.shape[-1])
    stride = f"{stride} * {width}".removeprefix("1 * ")
    return (f"{_factor(said)} * {width}" if said and said != "0" else "0"), stride


def _factor(text: str) -> str:
    is_simple = bool(re.fullmatch(r"(?:\(long long\))?[\w$]+", text)) or (text.startswith("((") and text.endswith("))"))
    return text if is_simple else f"({text})"


RULES = (
    Rule(
        name="attention_mma",
        sentence="Computes attention of 16-bit floats on tensor cores: scores, an online softmax and the output of a"
        " warp's rows stay in registers, tiles of keys and values come by cp.async.",
        find=by_launch(_find, once=True),
        reason="scores and output are matrix products, and each thread multiplies and loads on its own",
        expected="bound by tensor cores or exponentials instead of by multiply-adds and loads",
        risk="weights are rounded to 16 bits before the second product; few rows leave SMs idle",
        next_if_kept="the knobs of the tiles: queries of a block, keys of a stage, stages",
        next_if_reverted="another shape of tiles",
    ),
)
