"""`evo explain`: what a kernel does to memory, without running it: loops, traffic, reductions, possible rewrites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from evo.cli.chips import GpuWord, HeadlineCase, choose_chip
from evo.cli.command_context import read_subject, session_of
from evo.cli.options import AsJson, KernelFile, TaskWord
from evo.cli.terminal import microseconds, out, out_json, out_table, out_words, paint
from evo.errors import EvoError, UsageError
from evo.results.wording import plural

if TYPE_CHECKING:
    from evo.analysis.access import Access, LaunchAnalysis, Loop, Node, Reduction, Wording
    from evo.analysis.roofline import CaseLimits
    from evo.cli.command_context import FileSubject
    from evo.spec.chips import Chip
    from evo.spec.task import Case

_LINES = 70  # of a nest
_KINDS = {"welford": "mean and squares (Welford)"}
_PLACES = {
    "register": "in a register", "local": "in the thread's own array", "shared": "as a tree in shared memory",
    "global": "in global memory", "shuffle": "by shuffles", "atomic": "by atomics",
}  # fmt: skip


def explain(
    context: typer.Context,
    file: KernelFile,
    task: TaskWord = None,
    case: HeadlineCase = None,
    gpu: GpuWord = None,
    json: AsJson = False,
) -> int:
    """Say what a kernel does to memory: its loops, who reads what how often, what may be rewritten. Nothing runs."""
    from evo.analysis.access import analyse

    subject = read_subject(session_of(context), file, task)
    one = subject.task.case(case or subject.task.headline)
    chip = choose_chip(gpu)
    found = analyse(subject.variant, subject.task, one, chip)
    if not found:
        hint = "each `// evo: launch` line names a kernel of the file"
        raise UsageError(f"{subject.path}: no kernel of a launch line was found in the text", hint=hint)
    limits = _limits_of(subject, one, chip)
    if json:
        from evo.cli.explain_outputs import ExplainOutput, LaunchOutput

        launches = tuple(LaunchOutput.of(analysis) for analysis in found)
        said = ExplainOutput(
            variant=subject.variant.id, task=subject.task.name, case=one.name, chip=chip.slug, launches=launches
        )
        out_json(said.to_json())
        return 0
    for number, analysis in enumerate(found, start=1):
        if number > 1:
            out()
        position = f", launch {number} of {len(found)}," if len(found) > 1 else ""
        _show(analysis, limits, position=position)
    return 0


def _limits_of(subject: FileSubject, case: Case, chip: Chip) -> CaseLimits | None:
    """The floor of the case; None if the task states too little for one."""
    from evo.analysis.roofline import limits

    try:
        return limits(subject.task, case, chip)
    except EvoError:
        return None


def _show(analysis: LaunchAnalysis, limits: CaseLimits | None, *, position: str) -> None:
    """One launch, as an expert would describe it at first look."""
    from evo.analysis.access import Wording

    wording = Wording(analysis.form)
    _show_launch(analysis, position)
    out()
    _show_nest(analysis, wording)
    out()
    _show_tensors(analysis)
    _show_shared(analysis)
    _section("reductions", list(_reductions(analysis)))
    _section("limits", list(_limits(analysis, limits)))
    _section("may be rewritten", list(_legality(analysis, wording)))
    _section("not followed", [f"line {b.line}: `{b.what}`: {b.reason}" for b in analysis.form.blocked])
    _section("to look at", list(_opportunities(analysis)))


def _section(title: str, lines: Sequence[str]) -> None:
    if lines:
        out()
        out(paint(title, "bold"))
        for line in lines:
            out_words(f"  {line}")


def _show_launch(analysis: LaunchAnalysis, position: str) -> None:
    sizes, form = analysis.sizes, analysis.form
    axes = ", ".join(f"{name} {value:,}" for name, value in analysis.case.axes.items())
    out_words(f"{paint(form.kernel, 'bold')}{position} at {analysis.case.name} ({axes}) on {analysis.chip.name}")
    grid = " x ".join(f"{n:,}" for n in sizes.grid if n > 1) or "1"
    block = " x ".join(f"{n:,}" for n in sizes.block if n > 1) or "1"
    terms = ", ".join(term.text for term in form.grid if term.value != 1)
    said = f"grid {grid}" + (f" ({terms})" if terms else "")
    out_words(f"{said}, block {block} ({-(-sizes.threads // 32)} warps): {sizes.blocks * sizes.threads:,} threads")


# The nest.


def _show_nest(analysis: LaunchAnalysis, wording: Wording) -> None:
    rows = list(_nest(analysis, analysis.form.body, wording, 0))
    shown = rows[:_LINES]
    legend = wording.legend()
    for name in legend[:12]:
        out_words(paint(f"  {name}", "dim"))
    if legend:
        out()
    out_table([">line", "what a thread does", ">turns", "a warp's request"], shown)
    if len(rows) > _LINES:
        out(paint(f"... {len(rows) - _LINES} more lines; --json has all accesses", "dim"))


def _nest(
    analysis: LaunchAnalysis, nodes: tuple[Node, ...], wording: Wording, depth: int
) -> Iterator[tuple[str, str, str, str]]:
    from evo.analysis.access import Access, Barrier, Branch, Exchange, Multiply, Nest

    indent = "  " * depth
    said: set[tuple[object, ...]] = set()
    for node in nodes:
        if isinstance(node, Nest):
            body = list(_nest(analysis, node.body, wording, depth + 1))
            notes = _loop_notes(analysis, node.loop)
            if body or notes:
                yield str(node.loop.line), indent + wording.loop(node.loop) + notes, _turns(analysis, node.loop), ""
                yield from body
        elif isinstance(node, Branch):
            yield from _branch(analysis, node, wording, depth)
        elif isinstance(node, Access):
            key = node.line, node.mode, node.offset, node.array
            if (node.array is not None and node.array.space == "local") or key in said:
                continue
            said.add(key)
            word = f"atomic {node.operation}" if node.mode == "atomic" else node.mode
            route = f" ({node.route})" if node.route not in ("plain", "atomic") else ""
            yield str(node.line), f"{indent}{word} {wording.place(node)}{route}", "", _request(analysis, node)
        elif isinstance(node, Barrier):
            yield str(node.line), f"{indent}barrier of the {node.scope}", "", ""
        elif isinstance(node, Exchange):
            apart = f" {node.distance.text}" if node.distance is not None else ""
            yield str(node.line), f"{indent}{node.name.replace('_', ' ')}{apart}", "", ""
        elif isinstance(node, Multiply) and ("mma", node.line) not in said:
            said.add(("mma", node.line))
            yield str(node.line), f"{indent}{'.'.join(node.name.split('.')[:4])}", "", ""


def _branch(analysis: LaunchAnalysis, node: Node, wording: Wording, depth: int) -> Iterator[tuple[str, str, str, str]]:
    from evo.analysis.access import Branch, EarlyExit

    assert isinstance(node, Branch)
    indent, condition = "  " * depth, wording.condition(node.condition)
    leaves = [inner for inner in node.then if isinstance(inner, EarlyExit)]
    if leaves and len(node.then) == 1:
        yield str(node.line), f"{indent}if {condition}: {leaves[0].word}", "", ""
        yield from _nest(analysis, node.otherwise, wording, depth)
        return
    then = list(_nest(analysis, node.then, wording, depth + 1))
    otherwise = list(_nest(analysis, node.otherwise, wording, depth + 1))
    if then:
        yield str(node.line), f"{indent}if {condition}", "", ""
        yield from then
    if otherwise:
        word = "otherwise" if then else f"if {wording.condition(node.condition.negated())}"
        yield "", f"{indent}{word}", "", ""
        yield from otherwise


def _loop_notes(analysis: LaunchAnalysis, loop: Loop) -> str:
    kinds = [
        f"{_kind(r)} -> {'+'.join(r.names)}" for r in analysis.reductions if r.loops[:1] == (loop.symbol,) and r.names
    ]
    return f"   [{', '.join(dict.fromkeys(kinds))}]" if kinds else ""


def _kind(reduction: Reduction) -> str:
    return _KINDS.get(reduction.kind, reduction.kind.replace("_", " "))


def _turns(analysis: LaunchAnalysis, loop: Loop) -> str:
    if loop.values is not None:
        return f"{len(loop.values)}"
    if loop.trip is None:
        return "?"
    number = analysis.turns(loop)
    return f"{number:,}" if number is not None else "varies"


def _request(analysis: LaunchAnalysis, access: Access) -> str:
    traffic = analysis.traffic.accesses.get(access.number)
    if traffic is None or not traffic.requests:
        return "not carried out at this case" if traffic is not None else "depends on data"
    lanes = "" if traffic.lanes > 31.5 else f", {traffic.lanes:.3g} lanes"
    if traffic.wavefronts is not None:
        fair = max(1, min(access.bytes, 16) // 4)
        ways = traffic.wavefronts / fair
        return ("no bank conflict" if ways < 1.05 else f"{ways:.3g}-way bank conflict") + lanes
    if traffic.sectors is None:
        return "place depends on data" + lanes
    if traffic.stride == 0 and traffic.is_even:
        return f"one address for all lanes{lanes}"
    ideal = max(traffic.ideal or 1, 1)
    ours = f"{traffic.sectors:.3g} sector{'' if traffic.sectors < 1.001 else 's'}"
    return (ours if traffic.sectors < 1.1 * ideal else f"{ours}, {ideal:.3g} would do") + lanes


# Who moves what.


def _show_tensors(analysis: LaunchAnalysis) -> None:
    rows = []
    staged = {known.tensor.name: known.shared.name for known in analysis.staged}
    for array in analysis.form.tensors:
        traffic = analysis.traffic.arrays[array.name]
        accesses = analysis.form.of(array)
        if not accesses:
            continue
        block = traffic.block
        again = (
            traffic.block_reads / block.elements
            if block is not None and block.elements and traffic.block_reads
            else None
        )
        rows.append([
            array.name, _shape(array.shape, array.element), array.role, _bytes(traffic.compulsory),
            _bytes(traffic.reads + traffic.writes), _times(traffic.reuse),
            _bytes(traffic.sector_bytes), f"{block.elements:,}" if block is not None else "?",
            _times(again), _times(traffic.sharing).rstrip("x"),
            staged.get(array.name, "in " + "no tile" if again and again > 1.5 else ""),
        ])  # fmt: skip
    head = ["tensor", "shape", "role", ">compulsory", ">asked for", ">reuse", ">L1 requests move"]
    out_table([*head, ">a block's elements", ">asked for there", ">blocks per element", "staged"], rows)


def _times(number: float | None) -> str:
    if not number:
        return ""
    return f"{number:,.0f}x" if number >= 100 else f"{number:.3g}x"


def _shape(shape: Sequence[object], element: str) -> str:
    return f"{element}[{', '.join(getattr(dim, 'text', '?') for dim in shape)}]"


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"


def _show_shared(analysis: LaunchAnalysis) -> None:
    rows = []
    for array in analysis.form.shared:
        traffic = analysis.traffic.arrays[array.name]
        sources = sorted({known.tensor.name for known in analysis.staged if known.shared == array})
        writes = sum(1 for access in analysis.form.of(array) if access.is_write)
        held = (
            f"pieces of {' and '.join(sources)}"
            if sources
            else "values of the threads"
            if writes
            else "nothing written"
        )
        size = f"{traffic.block.elements * array.element_bytes:,}" if traffic.block is not None else "?"
        rows.append(
            [
                array.name,
                _shape(array.shape, array.element) if not array.is_dynamic else f"{array.element}[launch]",
                size,
                held,
            ]
        )
    if rows:
        out()
        out_table(["shared", "declared", ">bytes touched", "holds"], rows)


# Words.


def _reductions(analysis: LaunchAnalysis) -> Iterator[str]:
    from evo.analysis.access import contraction_words

    said: set[str] = set()
    for found in analysis.reductions:
        over = f" over {', '.join(f'`{symbol.name}`' for symbol in found.loops)}" if found.loops else ""
        names = f" `{'`, `'.join(found.names)}`" if found.names else ""
        line = f"line {found.line}: {_kind(found)}{names}{over}, {_PLACES.get(found.place, found.place)}"
        if line not in said:
            said.add(line)
            yield line
    for made in analysis.contractions:
        after = f", then {', '.join(made.epilogue)}" if made.epilogue else ""
        word = {"matmul": "a matrix product", "convolution": "a convolution", "matvec": "a matrix-vector product"}
        left, right = made.left, made.right
        is_square = left is not None and (left.array, left.subscripts) == (right.array, right.subscripts)
        what = "a sum of squares" if is_square else word.get(made.kind, "a dot product")
        yield f"line {made.line}: {contraction_words(made)} is {what}{after}"


def _limits(analysis: LaunchAnalysis, limits: CaseLimits | None) -> Iterator[str]:
    chip = analysis.chip
    yield from _parallelism(analysis)
    moved = sum(t.sector_bytes for name, t in analysis.traffic.arrays.items() if t.array.is_tensor)
    rate = chip.rate("l2_bytes_per_clock")
    if rate and moved:
        time = moved / (rate * chip.clock_hz) * 1e6
        taken = f"{microseconds(time)} µs"
        yield f"requests to L1 move {_bytes(moved)}; without hits there, L2 would take {taken} for them (modelled)"
    if limits is not None and limits.floor_cold_us:
        word = {"dram_cold": "DRAM", "dram_warm": "DRAM", "sfu": "exponentials"}.get(
            limits.limiter_cold, limits.limiter_cold
        )
        floor = f"{microseconds(limits.floor_cold_us)} µs ({word} binds)"
        yield f"with cold caches every kernel takes at least {floor} here; `evo limits` has the warm limit"


def _parallelism(analysis: LaunchAnalysis) -> Iterator[str]:
    sizes, chip = analysis.sizes, analysis.chip
    resident = analysis.resident_blocks
    warps = -(-sizes.threads // 32)
    full = chip.warps_per_sm
    if sizes.blocks < chip.sms:
        yield f"{sizes.blocks:,} blocks on {chip.sms} SMs: {chip.sms - sizes.blocks} SMs have no block"
    per_sm = min(resident, -(-sizes.blocks // chip.sms))
    share = per_sm * warps / full
    why = (
        f"at most {plural(resident, 'block')} of {warps} warps fit on an SM"
        if resident < -(-sizes.blocks // chip.sms)
        else (f"{sizes.blocks:,} blocks of {warps} warps on {chip.sms} SMs")
    )
    if share < 0.999:
        yield f"{per_sm * warps} of {full} warps per SM at most ({share:.0%}), registers left aside: {why}"
    waves = sizes.blocks / (chip.sms * max(resident, 1))
    if 1 < waves < 4:
        yield f"{waves:.3g} waves of blocks: the last one leaves {1 - waves % 1:.0%} of the places empty"


def _legality(analysis: LaunchAnalysis, wording: Wording) -> Iterator[str]:
    legality = analysis.legality
    verdict = legality.threads_permute
    if verdict.holds:
        yield "threads are independent: (block, thread) may be mapped to the work in any other one-to-one way"
    else:
        blocks = legality.blocks_permute
        word = "blocks are independent and may be renumbered" if blocks.holds else f"blocks: {blocks.why}"
        yield f"{verdict.why}; {word}"
    for array in legality.rereads_output:
        yield f"`{array.name}` is read where it is written: work must not be moved across those reads"
    parallel, others = [], []
    for loop in analysis.form.loops.values():
        found = legality.parallel(loop)
        if found.holds:
            combined = [_kind(r) for r in legality.is_reduction(loop)]
            parallel.append(
                f"`{loop.symbol.name}` ({loop.line}{', ' + '+'.join(dict.fromkeys(combined)) if combined else ''})"
            )
        elif tree := [r for r in legality.reductions if r.place == "shared" and loop.symbol in r.loops]:
            others.append(f"loop `{loop.symbol.name}` (line {loop.line}) is the tree of a {_kind(tree[0])}: in order")
        else:
            must = "is in order while its tiles have one buffer" if found.buffers else "must stay in order"
            others.append(f"loop `{loop.symbol.name}` (line {loop.line}) {must}: {found.why}")
    if parallel:
        yield f"turns in any order: {', '.join(parallel[:14])}" + (" ..." if len(parallel) > 14 else "")
    yield from others[:8]
    said: dict[str, list[str]] = {}
    for guard in legality.guards:
        how = (
            "never fail at this case" if guard.is_always
            else "fail in the last blocks only" if guard.is_ragged
            else "fail at the border: interior blocks need no test" if guard.reaches_border
            else ""
        )  # fmt: skip
        if how:
            said.setdefault(how, []).append(f"`{wording.condition(guard.condition)}`")
    for how, conditions in said.items():
        yield f"{', '.join(dict.fromkeys(conditions))}: {how}"


def _opportunities(analysis: LaunchAnalysis) -> Iterator[str]:
    from evo.analysis.access import opportunities_of

    for number, found in enumerate(opportunities_of(analysis), start=1):
        lines = (
            f" (line{'s' if len(found.lines) > 1 else ''} {', '.join(map(str, found.lines))})" if found.lines else ""
        )
        yield f"{number:2}. {paint(found.name.replace('_', ' '), 'bold')}{lines}: {found.why}"
        if found.refused:
            yield f"    not as it stands: {found.refused}"
