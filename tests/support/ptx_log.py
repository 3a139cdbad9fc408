"""What a kernel really touches: its PTX with a log record before each access, run by the simulator.

An oracle for the analysis that shares nothing with it: NVRTC reads the text, the simulator runs the instructions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo import sim
from evo.cuda.compile import Binary, compile_source
from evo.spec.chips import Chip
from evo.spec.dtypes import NUMPY
from evo.spec.expr import Number
from evo.spec.launch import Launch, Plan, Refusal, macros_of, plan
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

MOST = 1 << 21  # records
RECORD = 4  # words of 64 bits: address, site, block and thread, bytes
_ACCESS = re.compile(
    r"^(?P<indent>\s*)(?P<guard>@!?%p\d+\s+)?(?P<op>(?:ld|st|atom|red)(?:\.\w+)*|cp\.async\.c[ag]\S*"
    r"|ldmatrix\S*|stmatrix\S*)"
    r"\s+(?P<rest>[^;]*);",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\d+))?\s*\]")
_SHARED = re.compile(r"^\s*(?:\.extern\s+)?\.shared\s+\.align\s+\d+\s+\.\w+\s+([\w$]+)\[?", re.MULTILINE)
_LANES = {"x1": 8, "x2": 16, "x4": 32}


@dataclass
class Touched:
    """blocks: those that ran. rows: per array and mode (`read`, `write`, `atomic`): block, thread, byte, bytes."""

    blocks: list[int]
    rows: dict[tuple[str, str], NDArray[np.int64]] = field(default_factory=dict)


def touched(
    variant: Variant, task: Task, case: Case, chip: Chip, inputs: dict[str, NDArray[Any]], most: int = 3
) -> list[Touched]:
    """What blocks of each launch touch at a case, by the address of every access that was carried out."""
    macros = macros_of(variant, case)
    binary = compile_source(
        variant.text, name="kernel.cu", macros=macros, flags=variant.flags, headers=task.headers, arch="compute_89"
    )
    assert isinstance(binary, Binary), binary
    planned = plan(variant, task, case, chip)
    assert isinstance(planned, Plan), planned
    memory = sim.Memory()
    buffers: dict[str, sim.SimBuffer] = {}
    for tensor in task.tensors:
        array = inputs.get(tensor.name)
        buffers[tensor.name] = memory.allocate(
            tensor.size_bytes(case), name=tensor.name, fill=b"\0" if array is None else None
        )
        if array is not None:
            memory.write(buffers[tensor.name], array)
    for space in planned.scratch:
        buffers[space.name] = memory.allocate(space.size_bytes, name=space.name, fill=b"\0")
    values: dict[str, Number] = {**task.scalar_values(case), **case.axes}
    return [
        _launch(binary.ptx, variant, task, launch, chip, memory, buffers, values, chosen(launch.blocks, most))
        for launch in planned.launches
    ]


def chosen(blocks: int, most: int) -> list[int]:
    """So many blocks of a grid: the first, the last, and some between."""
    return sorted({round(at) for at in np.linspace(0, blocks - 1, most)})


def _launch(
    ptx: str, variant: Variant, task: Task, launch: Launch, chip: Chip, memory: sim.Memory,
    buffers: dict[str, sim.SimBuffer], values: dict[str, Number], blocks: list[int],
) -> Touched:  # fmt: skip
    text, sites, shared = _instrumented(ptx, launch.kernel)
    log = memory.allocate(8 * (1 + RECORD * MOST), name="log", fill=b"\0")
    module = sim.load(text.replace("LOGADDRESS", str(log.address)), chip=chip)
    names = [*(t.name for t in task.tensors), *(s.name for s in variant.scratch)]
    scalars = [(s.name, s.dtype) for s in task.scalars] + [(axis, "int32") for axis in task.axes]
    arguments = [buffers[name] for name in names]
    arguments += [NUMPY[dtype].type(values[name]) for name, dtype in scalars]
    count = len(module.kernels[launch.kernel].function.params)
    result = module.launch(
        launch.kernel, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes,
        args=arguments[:count], memory=memory, race=False, blocks=blocks,
    )  # fmt: skip
    assert not result.faults, result.faults
    words = log.bytes[: 8 * (1 + RECORD * MOST)].view(np.int64)
    number = int(words[0])
    assert number < MOST, "the log is full"
    memory.buffers.remove(log)
    rows = _sorted_out(words[1 : 1 + RECORD * number].reshape(number, RECORD).copy(), sites, shared, buffers)
    return Touched(blocks, rows)


def _instrumented(ptx: str, kernel: str) -> tuple[str, list[tuple[str, str, int, int]], list[str]]:
    """The text with log records; sites as (mode, space, bytes, lanes); shared variables, logged at the entry."""
    sites: list[tuple[str, str, int, int]] = []
    shared = [match[1] for match in _SHARED.finditer(ptx) if _kernel_at(ptx, match.start()) in ("", kernel)]

    def replaced(match: re.Match[str]) -> str:
        made = _records(match, sites)
        return (made + match[0]) if made else match[0]

    text = _ACCESS.sub(replaced, ptx)
    entry = re.compile(rf"(\.entry\s+{re.escape(kernel)}\b.*?\n\{{)", re.DOTALL)
    known = "".join(_record("", name, len(sites) + at, "-1") for at, name in enumerate(shared))
    found = entry.search(text)
    assert found is not None
    end = _after_declarations(text, found.end())
    return text[:end] + known + text[end:], sites, shared


def _kernel_at(ptx: str, at: int) -> str:
    """The kernel whose body a place is in; empty in front of all."""
    before = re.findall(r"\.entry\s+([\w$]+)", ptx[:at])
    return before[-1] if before else ""


def _after_declarations(text: str, at: int) -> int:
    """Behind the `.reg` and `.shared` lines of a body."""
    while True:
        line = text[at : text.index("\n", at) + 1]
        if line.strip() and not line.strip().startswith((".reg", ".shared", ".local", ".loc", "//", ".pragma")):
            return at
        at += len(line)


def _records(match: re.Match[str], sites: list[tuple[str, str, int, int]]) -> str:
    op, guard, rest = match["op"], match["guard"] or "", match["rest"]
    parts = op.split(".")
    addresses = _ADDRESS.findall(rest)
    if op.startswith("cp.async"):
        words = [word.strip() for word in rest.split(",")]
        size = int(words[2])
        sites += [("write", "shared", size, 32), ("read", "global", size, 32)]
        source = words[3] if len(words) > 3 and words[3].startswith("%r") else "-1"
        first = _record(guard, "+".join(filter(None, addresses[0])), len(sites) - 2, "-1")
        return first + _record(guard, "+".join(filter(None, addresses[1])), len(sites) - 1, source)
    if op.startswith(("ldmatrix", "stmatrix")):
        lanes = _LANES[next(part for part in parts if part in _LANES)]
        sites.append(("read" if op.startswith("ld") else "write", "shared", 16, lanes))
        return _record(guard, "+".join(filter(None, addresses[0])), len(sites) - 1, "-1")
    space = next((part for part in parts if part in ("global", "shared", "local", "param", "const")), "generic")
    if space in ("local", "param", "const"):
        return ""
    mode = {"ld": "read", "st": "write"}.get(parts[0], "atomic")
    width = next(int(part[1:]) // 8 for part in reversed(parts) if re.fullmatch(r"[bsuf]\d+", part))
    if parts[-1] in ("f16x2", "bf16x2"):
        width = 4
    count = next((int(part[1]) for part in parts if part in ("v2", "v4")), 1)
    sites.append((mode, space, width * count, 32))
    return _record(guard, "+".join(filter(None, addresses[0])), len(sites) - 1, "-1")


def _record(guard: str, address: str, site: int, size: str) -> str:
    base, _, shift = address.partition("+")
    wide = "mov.u64" if not base.startswith("%r") or base.startswith("%rd") else "cvt.u64.u32"
    number = f"{guard}cvt.s64.s32 zsize, {size};" if size.startswith("%r") else f"{guard}mov.u64 zsize, {size};"
    return f"""
{{ .reg .b64 zlog, zat, zword, zsize; .reg .b32 zblock, za, zb, zthread;
{guard}mov.u64 zlog, LOGADDRESS; {guard}atom.global.add.u64 zat, [zlog], 1; {guard}mul.lo.u64 zat, zat, {8 * RECORD};
{guard}add.u64 zlog, zlog, 8; {guard}add.u64 zlog, zlog, zat; {guard}{wide} zword, {base};
{guard}add.s64 zword, zword, {shift or 0}; {guard}st.global.u64 [zlog], zword;
{guard}mov.u64 zword, {site}; {guard}st.global.u64 [zlog+8], zword;
{guard}mov.u32 zblock, %ctaid.z; {guard}mov.u32 za, %nctaid.y; {guard}mov.u32 zb, %ctaid.y;
{guard}mad.lo.u32 zblock, zblock, za, zb; {guard}mov.u32 za, %nctaid.x; {guard}mov.u32 zb, %ctaid.x;
{guard}mad.lo.u32 zblock, zblock, za, zb;
{guard}mov.u32 zthread, %tid.z; {guard}mov.u32 za, %ntid.y; {guard}mov.u32 zb, %tid.y;
{guard}mad.lo.u32 zthread, zthread, za, zb; {guard}mov.u32 za, %ntid.x; {guard}mov.u32 zb, %tid.x;
{guard}mad.lo.u32 zthread, zthread, za, zb;
{guard}st.global.u32 [zlog+16], zthread; {guard}st.global.u32 [zlog+20], zblock;
{number} {guard}st.global.u64 [zlog+24], zsize; }}
"""


def _sorted_out(
    rows: NDArray[np.int64],
    sites: list[tuple[str, str, int, int]],
    shared: list[str],
    buffers: dict[str, sim.SimBuffer],
) -> dict[tuple[str, str], NDArray[np.int64]]:
    address, site, who, size = rows.T
    thread, block = who & 0xFFFFFFFF, who >> 32
    bases = {name: int(address[site == len(sites) + at][0]) for at, name in enumerate(shared)}
    found: dict[tuple[str, str], list[NDArray[np.int64]]] = {}
    for number, (mode, space, width, lanes) in enumerate(sites):
        mask = (site == number) & (thread % 32 < lanes)
        mask &= size != 0  # an asynchronous copy of no bytes reads nothing
        if not mask.any():
            continue
        at, count = address[mask], np.full(mask.sum(), width)
        count = np.where(size[mask] > 0, size[mask], count)
        parts = np.stack([block[mask], thread[mask], at, count], axis=1)
        for name, low, high in _ranges(space, bases, buffers):
            inside = (at >= low) & (at < high)
            if inside.any():
                moved = parts[inside].copy()
                moved[:, 2] -= low
                found.setdefault((name, mode), []).append(moved)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _ranges(space: str, bases: dict[str, int], buffers: dict[str, sim.SimBuffer]) -> list[tuple[str, int, int]]:
    if space == "shared":
        ordered = sorted(bases.items(), key=lambda item: item[1])
        ends = [low for _, low in ordered[1:]] + [1 << 40]
        return [(_plain(name), low, max(end, low + 1)) for (name, low), end in zip(ordered, ends, strict=True)]
    return [(name, b.address, b.address + b.size_bytes) for name, b in buffers.items()]


def _plain(name: str) -> str:
    """`_ZZ6matmulE6a_tile` -> a_tile."""
    if not name.startswith("_ZZ"):
        return name
    lengths = list(re.finditer(r"(\d+)", name))
    for match in reversed(lengths):
        size = int(match[1])
        rest = name[match.end() :]
        if len(rest) >= size and (len(rest) == size or rest[size:].startswith("_")):
            return rest[:size]
    return name


__all__ = ["Refusal", "Touched", "touched"]
