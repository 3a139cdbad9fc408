"""What an expert would look at next: rewrites that the form suggests, each with its reason, its facts, or a refusal.

Rules may take these as they are: `name` is what to do, `facts` says where and with which numbers. Nothing here promises
a gain; only a measurement does.
"""

from __future__ import annotations

from collections.abc import Iterator

from evo.analysis.access.arrivals import lone_branches
from evo.analysis.access.contraction import Contraction
from evo.analysis.access.form import Access, Nest
from evo.analysis.access.launches import LaunchAnalysis
from evo.analysis.access.opportunity import LONE, REUSED, WIDE, WORTH, Opportunity, mode_word, moved_bytes
from evo.analysis.access.passes import RepeatedReads, passes_of
from evo.analysis.access.scatter import coalesce, stage
from evo.analysis.access.traffic import SECTOR

_TENSOR_TYPES = {"half": "float16", "bfloat16": "bfloat16", "float": "tf32", "signed char": "int8", "fp8": "fp8"}


def opportunities_of(analysis: LaunchAnalysis) -> tuple[Opportunity, ...]:
    """All opportunities of a launch, in the order in which an expert would name them."""
    found: list[Opportunity] = []
    for look in (
        coalesce, stage, _tensor_cores, _register_tile, _passes, _parallelism, _trees, _lone_walks, _atomics, _banks,
        _wide, _pipeline, _guards, _doubles, _invariant,
    ):  # fmt: skip
        found += look(analysis)
    return tuple(found)


def _tensor_cores(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    if analysis.form.multiplies:
        return
    for made in analysis.contractions:
        kind = _TENSOR_TYPES.get(made.right.array.element)
        if made.kind not in ("matmul", "convolution") or kind is None:
            continue
        yield Opportunity(
            name="tensor_cores",
            why=f"{contraction_words(made)} is a {_KINDS[made.kind]} in {made.right.array.element}: mma.sync multiplies"
            f" {kind} tiles",
            lines=(made.line,),
            facts={
                "left": made.left.array.name if made.left is not None else None, "right": made.right.array.name,
                "roles": dict(made.roles), "dtype": kind, "epilogue": list(made.epilogue),
            },
        )  # fmt: skip


_KINDS = {
    "matmul": "matrix product",
    "convolution": "convolution",
    "matvec": "matrix-vector product",
    "dot": "dot product",
}


def contraction_words(made: Contraction) -> str:
    """`c[m, n] += a[m, k] * b[k, n]`."""
    left = f"{made.left.array.name}[{', '.join(made.roles['left'])}]" if made.left is not None else "weight[m, k]"
    right = f"{made.right.array.name}[{', '.join(made.roles['right'])}]"
    target = "sum"
    if made.output is not None and made.output.array is not None:
        target = f"{made.output.array.name}[{', '.join(made.roles.get('output', ''))}]"
    return f"`{target} += {left} * {right}`"


def _register_tile(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Contractions in which a thread computes one result: two loads feed one multiplication."""
    if analysis.form.multiplies:
        return
    for made in analysis.contractions:
        if made.kind not in ("matmul", "convolution") or made.output is None:
            continue
        inner = set(made.output.loops)
        if inner:
            continue
        refused, output = "", made.output.array
        if output is not None and output in analysis.legality.rereads_output:
            refused = f"the kernel reads elements of `{output.name}` that it writes"
        yield Opportunity(
            name="register_tile",
            why=f"each thread computes one element of {contraction_words(made)}: two loads for each multiply-add",
            lines=(made.line,), refused=refused,
            facts={"output": made.output.number, "summed": [symbol.name for symbol in made.summed]},
        )  # fmt: skip


def _passes(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Tensors that a thread walks over more than once."""
    for found in passes_of(analysis.form, analysis.reductions):
        yield Opportunity(
            name=found.remedy,
            why=_passes_words(found),
            lines=found.lines,
            facts={"array": found.array.name, "passes": len(found.loops), "reductions": list(found.kinds)},
        )


def _passes_words(found: RepeatedReads) -> str:
    said = f"a thread reads the same elements of `{found.array.name}` in {len(found.loops)} loops"
    if found.remedy == "online_softmax":
        return f"{said}: the maximum and the sum of exponentials can be taken in one"
    if found.remedy == "one_pass_statistics":
        return f"{said}: the mean and the squares about it can be taken in one (Welford, or about a first value)"
    if found.remedy == "recompute_instead_of_store":
        return f"`{found.array.name}` is written, then read again by the same thread: a round trip through memory"
    return f"{said}: kept in registers or shared memory they are read once"


def _parallelism(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    sizes, chip = analysis.sizes, analysis.chip
    outer = {loop.symbol for loop in analysis.form.loops.values() if loop.parent is None}
    serial = [r for r in analysis.reductions if r.place == "register" and outer & set(r.loops)]
    if sizes.blocks >= 2 * chip.sms:
        return
    idle = f"{sizes.blocks} blocks on {chip.sms} SMs"
    threads = f"{sizes.blocks * sizes.threads:,} threads"
    if serial and sizes.blocks * sizes.threads < chip.sms * chip.threads_per_sm // 2:
        lines = tuple(sorted({r.line for r in serial}))
        words = (
            f"a block of {sizes.threads} shares each result: larger blocks, or several for each result, have"
            if analysis.legality.communicates
            else "each thread reduces on its own: a warp or block for each result has"
        )
        yield Opportunity(
            name="split_reduction", why=f"{idle} ({threads}), and {words} more in flight", lines=lines,
            facts={"blocks": sizes.blocks, "sms": chip.sms, "threads": sizes.threads},
        )  # fmt: skip
    elif sizes.blocks < chip.sms:
        yield Opportunity(
            name="more_blocks", why=f"{idle}: {chip.sms - sizes.blocks} of them have nothing to do",
            lines=(), facts={"blocks": sizes.blocks, "sms": chip.sms, "threads": sizes.threads},
        )  # fmt: skip


def _trees(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Reductions in shared memory with a barrier for each halving."""
    met = {loop.symbol for _, loop in analysis.legality.barriers_in_loops}
    for found in analysis.reductions:
        if found.place == "shared" and set(found.loops) & met:
            yield Opportunity(
                name="warp_reduction",
                why=f"the {found.kind} over `{found.names[0]}` halves in shared memory with a barrier for each step:"
                " shuffles within warps need one or two",
                lines=(found.line,), facts={"array": found.names[0], "kind": found.kind},
            )  # fmt: skip


def _lone_walks(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Loops that the first thread of a block takes alone while the others wait."""
    for branch in lone_branches(analysis.form.body):
        for loop in (node.loop for node in branch.then if isinstance(node, Nest)):
            kinds = [reduction.kind for reduction in analysis.legality.is_reduction(loop)]
            turns = analysis.turns(loop)
            if kinds and turns is not None and turns >= LONE:
                yield Opportunity(
                    name="warp_reduction",
                    why=f"one thread takes the {' and the '.join(kinds)} over {turns:,} turns while its block waits: a"
                    " warp shares them",
                    lines=(loop.line,), facts={"loop": loop.symbol.name, "turns": turns},
                )  # fmt: skip


def _atomics(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    for access in analysis.form.accesses:
        if access.mode != "atomic" or not access.is_global:
            continue
        traffic = analysis.traffic.accesses.get(access.number)
        size = analysis.traffic.arrays[access.memory.name].compulsory
        if traffic is None or not size:
            continue
        often = traffic.executions * access.memory.element_bytes / size
        if often < REUSED:
            continue
        yield Opportunity(
            name="privatise",
            why=f"{traffic.executions:,} atomics meet on {size // access.memory.element_bytes:,} elements of"
            f" `{access.memory.name}`: a copy per block in shared memory ({size:,} bytes) takes most of them",
            lines=(access.line,),
            facts={"array": access.memory.name, "atomics_per_element": round(often, 1), "bytes": size},
        )  # fmt: skip


def _banks(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    for array in analysis.form.shared:
        worst: list[tuple[float, Access]] = []
        for access in analysis.form.of(array):
            traffic = analysis.traffic.accesses.get(access.number)
            if traffic is None or traffic.wavefronts is None:
                continue
            fair = max(1, min(access.bytes, 16) // 4)
            if traffic.wavefronts >= 1.5 * fair:
                worst.append((traffic.wavefronts / fair, access))
        if worst:
            ways, access = max(worst, key=lambda pair: pair[0])
            yield Opportunity(
                name="pad_or_swizzle",
                why=f"{mode_word(access)} `{array.name}` meet in {ways:.3g}-way bank conflicts",
                lines=tuple(sorted({a.line for _, a in worst})),
                facts={"array": array.name, "ways": round(ways, 2)},
            )


def _wide(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Lanes side by side that each move less than 16 bytes."""
    moved = moved_bytes(analysis)
    narrow: list[Access] = []
    for access in analysis.form.accesses:
        traffic = analysis.traffic.accesses.get(access.number)
        if traffic is None or not access.is_global or access.mode == "atomic":
            continue
        is_side_by_side = access.bytes < WIDE and traffic.stride == access.bytes and traffic.is_even
        if is_side_by_side and (traffic.sectors or 0) * traffic.requests * SECTOR >= WORTH * moved:
            narrow.append(access)
    if narrow:
        arrays = {access.array.name: access.array for access in narrow if access.array is not None}
        pieces = " and ".join(dict.fromkeys(f"{a.bytes} byte{'s' if a.bytes > 1 else ''}" for a in narrow))
        yield Opportunity(
            name="wide_loads",
            why=f"each lane moves {pieces} of {' and '.join(f'`{name}`' for name in arrays)} at a time, beside its"
            f" neighbour's: loads and stores of {WIDE} bytes need fewer instructions",
            lines=tuple(sorted({access.line for access in narrow})),
            facts={
                "arrays": [
                    {
                        "array": name, "bytes": array.element_bytes,
                        "inner_size": array.shape[-1].text if array.shape else None,
                    }
                    for name, array in arrays.items()
                ],
                "accesses": [access.number for access in narrow],
            },
        )  # fmt: skip


def _pipeline(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Tiles that are loaded, waited for and used, one after the other."""
    in_loops = {loop.symbol for _, loop in analysis.legality.barriers_in_loops}
    for known in analysis.staged:
        writes = [analysis.form.accesses[number] for number in known.writes]
        if any(write.route == "cp.async" for write in writes):
            continue
        loops = [loop for loop in writes[0].loops if loop in in_loops]
        if loops:
            lines = tuple(sorted({write.line for write in writes}))
            copies = "cp.async" if known.is_copy and writes[0].bytes in (4, 8, 16) else "loads into registers ahead"
            yield Opportunity(
                name="double_buffer",
                why=f"`{known.shared.name}` is filled from `{known.tensor.name}` and used between two barriers in each"
                f" turn over `{loops[-1].name}`: a second buffer and {copies} hide the wait",
                lines=lines,
                facts={"shared": known.shared.name, "tensor": known.tensor.name, "loop": loops[-1].name},
            )


def _guards(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Tests in loops that only the last blocks need."""
    for guard in analysis.legality.guards:
        inside = [analysis.form.accesses[n] for n in guard.accesses if analysis.form.accesses[n].loops]
        tested = [a for a in inside if guard.condition in a.context[a.context.index(a.loops[-1]) :]]
        if tested and (guard.is_ragged or guard.is_always):
            when = "never fails at this case" if guard.is_always else "fails in the last blocks only"
            yield Opportunity(
                name="split_guard",
                why=f"`{guard.condition.text}` is tested in a loop and {when}: full blocks need no test",
                lines=tuple(sorted({access.line for access in tested})),
                facts={"condition": guard.condition.text, "is_always": guard.is_always},
            )


def _doubles(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    if not analysis.form.doubles:
        return
    text = analysis.form.text.encode()
    lines = tuple(sorted({text.count(b"\n", 0, span.start) + 1 for span in analysis.form.doubles}))
    yield Opportunity(
        name="float_pairs",
        why=f"arithmetic in double{_double_rate(analysis)}: a compensated pair of floats keeps most of the precision",
        lines=lines, facts={"places": len(lines)},
    )  # fmt: skip


def _double_rate(analysis: LaunchAnalysis) -> str:
    double, single = analysis.chip.stated("fp64_lanes"), analysis.chip.stated("fp32_lanes")
    return f" runs at 1/{single / double:.0f} of the float rate of this chip" if double and single else ""


def _invariant(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Loads in a loop whose address does not change from turn to turn."""
    for access in analysis.form.accesses:
        if access.array is None or access.mode != "read" or not access.loops or access.array.space == "local":
            continue
        if not analysis.legality.is_read_only(access.array) or access.array.space != "global":
            continue
        inner = access.loops[-1]
        if inner not in access.offset.symbols() and access.blocked is None:
            yield Opportunity(
                name="hoist_load",
                why=f"`{access.text}` is the same in every turn over `{inner.name}`",
                lines=(access.line,), facts={"array": access.array.name, "loop": inner.name},
            )  # fmt: skip
