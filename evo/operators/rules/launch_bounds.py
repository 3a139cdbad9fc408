"""`__launch_bounds__`: tell ptxas the block size, and how many blocks an SM should hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evo.cuda.source import Edit, Function, Span
from evo.errors import SyntaxInvalid
from evo.operators.rules.rule import Application, Example, Rule, Scene
from evo.spec.variant import LaunchLine

_PLAIN = re.compile(r"[\w\s+*()-]+")  # what means the same in a plan and in C++
_MAX_THREADS_PER_SM = 2048
_MAX_MIN_BLOCKS = 8


def _find_add(scene: Scene) -> Iterator[Application]:
    for function, launch in _launched(scene):
        if function.bounds is None and (text := _block_text(scene, launch)) is not None:
            bounds = f"__launch_bounds__({text})"
            yield Application(
                edits=(Edit(Span(function.name_span.start, function.name_span.start), f"{bounds} "),),
                summary=f"add {bounds} to {function.name}",
                arguments={"kernel": function.name, "threads": text},
            )


def _find_min_blocks(scene: Scene) -> Iterator[Application]:
    for function, launch in _launched(scene):
        arguments = function.bounds_arguments
        threads = _threads(scene, launch) or 32
        if function.bounds is None or not arguments:
            continue
        now = scene.source.integer(scene.source.slice(arguments[1])) if len(arguments) > 1 else 1
        if now is None or len(arguments) > 2:
            continue
        for wanted in range(1, _MAX_MIN_BLOCKS + 1):
            if wanted == now or wanted * threads > _MAX_THREADS_PER_SM:
                continue
            if len(arguments) > 1:
                edit = Edit(arguments[1], str(wanted))
            else:
                edit = Edit(Span(arguments[0].end, arguments[0].end), f", {wanted}")
            yield Application(
                edits=(edit,),
                summary=f"{function.name}: at least {now} -> {wanted} blocks per SM",
                arguments={"kernel": function.name, "from": now, "to": wanted},
                rank=abs(wanted - now) - 1,
            )


def _launched(scene: Scene) -> Iterator[tuple[Function, LaunchLine]]:
    """Kernels that one launch line starts; with several lines the block size is not one number."""
    for function in scene.source.functions:
        lines = [line for line in scene.variant.launches if line.kernel == function.name]
        if function.is_kernel and len(lines) == 1:
            yield function, lines[0]


def _block_text(scene: Scene, launch: LaunchLine) -> str | None:
    """The block's thread count as C++: knobs are macros, so it stays right when a knob moves."""
    known = {*scene.variant.integer_knobs, *scene.variant.macros}
    parts = [part.text.strip() for part in launch.block if part.text.strip() != "1"] or ["1"]
    for part in parts:
        words = re.findall(r"[A-Za-z_]\w*", part)
        if not _PLAIN.fullmatch(part) or not all(word in known for word in words):
            return None
    return parts[0] if len(parts) == 1 else " * ".join(part if part.isalnum() else f"({part})" for part in parts)


def _threads(scene: Scene, launch: LaunchLine) -> int | None:
    total = 1
    for part in launch.block:
        try:
            total *= int(part.value(scene.variant.integer_knobs))
        except (SyntaxInvalid, KeyError):
            return None
    return total


_KERNEL = 'extern "C" __global__ void {}k(float* o) {{ o[threadIdx.x] = 1.0f; }}\n'
RULES = (
    Rule(
        name="add_bounds",
        family="bounds",
        sentence="Adds `__launch_bounds__` with the block size of the kernel's launch line.",
        find=_find_add,
        examples=(
            Example(
                "// evo: launch k grid (1) block (128) shared 0\n" + _KERNEL.format(""),
                "// evo: launch k grid (1) block (128) shared 0\n" + _KERNEL.format("__launch_bounds__(128) "),
            ),
        ),
        reason="without bounds ptxas must leave room for 1024 threads per block",
        expected="no register cap below what the block can have; fewer spills",
        risk="more registers per thread can mean fewer resident warps",
        next_if_kept="ask for a minimum number of blocks per SM",
        next_if_reverted="leave the register choice to ptxas",
    ),
    Rule(
        name="min_blocks",
        family="bounds",
        sentence="Changes how many blocks per SM `__launch_bounds__` asks ptxas to make room for.",
        find=_find_min_blocks,
        examples=(
            Example(_KERNEL.format("__launch_bounds__(128, 2) "), _KERNEL.format("__launch_bounds__(128, 3) ")),
            Example(_KERNEL.format("__launch_bounds__(128) "), _KERNEL.format("__launch_bounds__(128, 2) ")),
        ),
        reason="registers per thread decide how many warps hide each other's latency",
        expected="more resident warps, or fewer spills, whichever the kernel lacks",
        risk="a tighter register budget can spill to local memory",
        next_if_kept="one more in the same direction",
        next_if_reverted="one less",
    ),
)
