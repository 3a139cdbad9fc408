"""Random kernels whose blocks hand values to one another by flags, counters, locks and barriers; and the same, broken.

`k(const int* x, int* y, int* work, int* flag)`. Who hands on is a whole block, each warp, each half of a warp, or each
thread: the group writes, meets, and one of it fences and sets a flag; one of the other group looks, and that group
meets and reads. A broken kernel lacks one of these, or has something weaker in its place; `wrong` says which.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HEAD = """__device__ __forceinline__ void st_release(int* p, int v) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ int ld_acquire(int* p) {
  int v; asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ int add_acq_rel(int* p, int v) {
  int o; asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;" : "=r"(o) : "l"(p), "r"(v) : "memory");
  return o; }
"""
FENCES = ["__threadfence();", "__threadfence_system();", 'asm volatile("fence.acq_rel.gpu;" ::: "memory");']
SETS = ["*(volatile int*)({0}) = 1;", "atomicExch({0}, 1);", "atomicAdd({0}, 1);", "atomicOr({0}, 1);"]
LOOKS = ["*(volatile int*)({0})", "atomicAdd({0}, 0)", "ld_acquire({0})", "atomicCAS({0}, -1, -1)"]
STORES = ["{0} = {1};", "*(volatile int*)&{0} = {1};", "__stcg(&{0}, {1});"]
LOADS = ["{0}", "*(volatile int*)&{0}", "__ldcg(&{0})"]
# group -> what it meets by, whether this thread leads it, its number in the block, what is too weak a meeting
GROUPS = {
    "block": ("__syncthreads();", "t == 0", "0", ["", "__syncwarp();", "__threadfence();"]),
    "warp": ("__syncwarp();", "t % 32 == 0", "(t / 32)",
             ["", "__shfl_sync(~0u, t, 0);", "__syncwarp(t & 1 ? 0xaaaaaaaau : 0x55555555u);"]),
    "half": ("__syncwarp(t & 16 ? 0xffff0000u : 0xffffu);", "t % 16 == 0", "(t / 16)", ["", "__threadfence_block();"]),
    "thread": ("", "true", "t", [""]),
}  # fmt: skip
SIZES = {"warp": 32, "half": 16, "thread": 1}
WRONG = [
    "fence", "narrow fence", "fence late", "other fences", "other flag", "narrow flag", "meet before", "meet after",
]  # fmt: skip


@dataclass
class Handover:
    """text: the correct kernel. broken: one with a race, of kind `wrong`. expected: what the correct one puts in y."""

    shape: str
    wrong: str
    text: str
    broken: str
    expected: NDArray[np.int32]
    blocks: int
    threads: int


def _moved(rng: random.Random, group: str, threads: int) -> tuple[str, NDArray[np.int64]]:
    """The thread whose value is read: another one of the same group; a thread alone reads its own."""
    t = np.arange(threads)
    if group == "thread":
        return "t", t
    if group == "block":
        turn = 32 + rng.randrange(1, 31) if threads > 32 else rng.randrange(1, 31)
        return f"((t + {turn}) % {threads})", (t + turn) % threads
    flip = rng.randrange(SIZES[group]) | 1
    return f"(t ^ {flip})", t ^ flip


def _accesses(rng: random.Random, wrong: str) -> tuple[str, str]:
    """How values are stored and loaded. Volatile on both sides is no data race, whatever the order."""
    store, load = rng.choice(STORES), rng.choice(LOADS)
    return store, "{0}" if wrong and "volatile" in store and "volatile" in load else load


def _publish(rng: random.Random, group: str, flag: str, wrong: str) -> str:
    """Meet, fence, set: with the mistake, if it is one of these."""
    meet, leads, _, weaker = GROUPS[group]
    fence, set_ = rng.choice(FENCES), rng.choice(SETS).format(flag)
    released, all_fence = rng.random() < 0.25, rng.random() < 0.3
    weak = rng.choice(weaker)
    if wrong == "meet before":
        meet = weak
    if wrong == "narrow flag":
        set_, released = f"atomicExch_block({flag}, 1);", False
    if wrong in ("fence", "narrow fence", "fence late", "other fences"):
        released = False
    kept = {"fence": "", "narrow fence": "__threadfence_block();", "fence late": ""}.get(wrong, fence)
    late = fence if wrong == "fence late" else ""
    if released:
        return f"{meet} if ({leads}) {rng.choice(['st_release(%s, 1);', 'add_acq_rel(%s, 1);']) % flag}"
    if wrong == "other fences":  # another thread of the group than the one who sets
        return f"{meet} if (t % 32 == 1) {{ {kept} }} if ({leads}) {{ {set_} }}"
    if all_fence and wrong != "meet before":
        return f"{kept} {meet} if ({leads}) {{ {set_} {late} }}"
    return f"{meet} if ({leads}) {{ {kept} {set_} {late} }}"


def _look(rng: random.Random, group: str, flag: str, wrong: str) -> str:
    meet, leads, _, weaker = GROUPS[group]
    look, fence = rng.choice(LOOKS).format(flag), rng.choice([*FENCES, ""])
    weak = rng.choice(weaker)
    all_look = rng.random() < 0.2 and wrong != "meet after"
    if wrong == "meet after":
        meet = weak
    if all_look:
        return f"while ({look} == 0) {{ }} {fence}"
    return f"if ({leads}) {{ while ({look} == 0) {{ }} {fence} }} {meet}"


def _chain(rng: random.Random, wrong: str, group: str, blocks: int, threads: int) -> tuple[str, NDArray[np.int64]]:
    """Each block adds to what the one before it has handed on."""
    number = GROUPS[group][2]
    groups = 1 if group == "block" else threads // SIZES[group]
    at, moved = _moved(rng, group, threads)
    flag = f"(flag + {{}} * {groups} + {number})"
    other = f"(flag + {blocks * groups} + {{}})" if wrong == "other flag" else flag
    store, load = _accesses(rng, wrong)
    hand = store.format(f"work[b * {threads} + t]", "v")
    take = load.format(f"work[(b - 1) * {threads} + {at}]")
    lines = ["int v = x[b * blockDim.x + t];", "if (b > 0) {"]
    if wrong == "other flag":  # set by everyone, and looked at in place of the right one
        spare = f"(flag + {blocks * groups})"
        lines = [lines[0], f"if (b == 0 && t == 0) atomicExch({spare}, 1);", lines[1]]
        lines += [f"while (atomicAdd({spare}, 0) == 0) {{ }} __threadfence(); __syncthreads();"]
        _look(rng, group, other.format("0"), "")
    else:
        lines += [_look(rng, group, flag.format("(b - 1)"), wrong)]
    lines += [f"v += {take};", "}", hand, _publish(rng, group, flag.format("b"), wrong), f"y[b * {threads} + t] = v;"]
    x = _inputs(blocks, threads)
    values = x.copy()
    for block in range(1, blocks):
        values[block] += values[block - 1][moved]
    return "\n  ".join(lines), values


def _last(rng: random.Random, wrong: str, group: str, blocks: int, threads: int) -> tuple[str, NDArray[np.int64]]:
    """Partial values, a counter, and the group that comes last sums them."""
    del group
    store, load = _accesses(rng, wrong)
    meet = "__syncthreads();"
    before = rng.choice(["", "__syncwarp();"]) if wrong == "meet before" else meet
    fence = {"fence": "", "narrow fence": "__threadfence_block();", "fence late": ""}.get(wrong, rng.choice(FENCES))
    add = "atomicAdd_block" if wrong == "narrow flag" else rng.choice(["atomicAdd", "atomicAdd", "add_acq_rel"])
    if add == "add_acq_rel" and wrong in ("fence", "narrow fence", "fence late", "other fences"):
        add = "atomicAdd"
    late = rng.choice(FENCES) if wrong == "fence late" else ""
    lines = ["__shared__ int last;", "int v = x[b * blockDim.x + t] * 2;"]
    lines += [store.format(f"work[b * {threads} + t]", "v")]
    if rng.random() < 0.5 and wrong not in ("meet before", "other fences"):
        lines += [fence, before, f"if (t == 0) {{ last = {add}(flag, 1) == {blocks - 1}; {late} }}"]
    elif wrong == "other fences":
        lines += [before, f"if (t == {rng.choice([1, threads - 1])}) {{ {fence} }}"]
        lines += [f"if (t == 0) {{ last = {add}(flag, 1) == {blocks - 1}; }}"]
    else:
        lines += [before, f"if (t == 0) {{ {fence} last = {add}(flag, 1) == {blocks - 1}; {late} }}"]
    after = rng.choice(["", "__threadfence();"])
    total = f"int s = 0; for (int i = 0; i < {blocks}; i++) s += {load.format(f'work[i * {threads} + t]')};"
    lines += [meet, f"if (last) {{ {after} {total} y[t] = s; }}"]
    values = np.zeros((blocks, threads), np.int64)
    values[0] = _inputs(blocks, threads).sum(axis=0) * 2
    return "\n  ".join(lines), values


def _lock(rng: random.Random, wrong: str, group: str, blocks: int, threads: int) -> tuple[str, NDArray[np.int64]]:
    """A lock (compare-and-swap, or a ticket) around plain additions of a whole block."""
    del group
    ticket = rng.random() < 0.5
    meet = "__syncthreads();"
    before = rng.choice(["", "__syncwarp();"]) if wrong == "meet before" else meet
    after = rng.choice(["", "__syncwarp();"]) if wrong == "meet after" else meet
    fence = {"fence": "", "narrow fence": "__threadfence_block();", "fence late": ""}.get(wrong, rng.choice(FENCES))
    late = rng.choice(FENCES) if wrong == "fence late" else ""
    if ticket:
        take = f"int me = atomicAdd(flag, 1); while ({rng.choice(LOOKS).format('flag + 1')} != me) {{ }}"
        free = "atomicAdd_block(flag + 1, 1);" if wrong == "narrow flag" else "atomicAdd(flag + 1, 1);"
        if wrong == "other flag":  # the fence stands before another one
            free, fence = f"atomicAdd(flag + 1, 1); {fence} atomicAdd(flag + 2, 1);", ""
    else:
        take = "while (atomicCAS(flag, 0, 1) != 0) { }"
        free = rng.choice(["atomicExch(flag, 0);", "*(volatile int*)flag = 0;"])
        if wrong == "narrow flag":
            free = "atomicExch_block(flag, 0);"
        if wrong == "other flag":
            free, fence = f"{free} {fence} atomicExch(flag + 1, 0);", ""
    if wrong == "other fences":
        leave = f"{before} if (t == 1) {{ {fence} }} if (t == 0) {{ {free} }}"
    else:
        leave = f"{before} if (t == 0) {{ {fence} {free} {late} }}"
    turn = rng.randrange(1, 40)
    # Each thread adds to the word of another one, so that what it reads was written by another warp or lane.
    lines = [f"int at = (t + b * {turn}) % {threads}, v = x[b * blockDim.x + t];"]
    # The blocks before have read these words: whoever takes the lock must give up what its SM holds of them.
    lines += [f"if (t == 0) {{ {take} {rng.choice([*FENCES, FENCES[0]])} }} {after}", "work[at] += v;", leave]
    lines += ["y[b * blockDim.x + t] = v;"]
    return "\n  ".join(lines), _inputs(blocks, threads)


def _barrier(rng: random.Random, wrong: str, group: str, blocks: int, threads: int) -> tuple[str, NDArray[np.int64]]:
    """Rounds with a barrier of the grid between them, written by hand."""
    del group
    rounds = rng.randrange(1, 4)
    broken = rng.randrange(rounds)
    store, load = _accesses(rng, wrong)
    x = _inputs(blocks, threads)
    values, lines = x.copy(), ["int v = x[b * blockDim.x + t];"]
    for step in range(rounds):
        bad = wrong if step == broken else ""
        turn, over = rng.randrange(1, blocks), rng.randrange(1, threads)
        place = f"work[{step * blocks * threads} + {{}}]"
        fence = {"fence": "", "narrow fence": "__threadfence_block();", "fence late": ""}.get(bad, rng.choice(FENCES))
        before = rng.choice(["", "__syncwarp();"]) if bad == "meet before" else "__syncthreads();"
        after = rng.choice(["", "__syncwarp();"]) if bad == "meet after" else "__syncthreads();"
        add = "atomicAdd_block" if bad == "narrow flag" else "atomicAdd"
        counter = "flag + 9" if bad == "other flag" else f"flag + {step}"
        arrive = f"{add}(flag + {step}, 1);" if bad != "other flag" else f"atomicAdd(flag + {step}, 1);"
        if bad == "other flag":
            fence, arrive = "", f"atomicAdd({counter}, 0); {arrive}"
        look = rng.choice(LOOKS)
        if bad:  # an atomic that looks sets the flag once more, after the late fence
            look = "ld_acquire({0})"
        wait = f"while ({look.format(f'flag + {step}')} < {blocks}) {{ }}"
        wait += f" {rng.choice([*FENCES, ''])}"
        late = rng.choice(FENCES) if bad == "fence late" else ""
        lines += [store.format(place.format(f"b * {threads} + t"), "v")]
        if bad == "other fences":
            lines += [f"{before} if (t == 1) {{ {fence} }} if (t == 0) {{ {arrive} {wait} }} {after}"]
        elif rng.random() < 0.3 and bad != "meet before":
            lines += [f"{fence} {before} if (t == 0) {{ {arrive} {late} {wait} }} {after}"]
        else:
            lines += [f"{before} if (t == 0) {{ {fence} {arrive} {late} {wait} }} {after}"]
        at = f"(b + {turn}) % {blocks} * {threads} + (t + {over}) % {threads}"
        lines += [f"v += {load.format(place.format(at))};"]
        values = values + np.roll(np.roll(values, -turn, axis=0), -over, axis=1)
    lines += [f"y[b * {threads} + t] = v;"]
    return "\n  ".join(lines), values


def _inputs(blocks: int, threads: int) -> NDArray[np.int64]:
    return (np.arange(blocks * threads, dtype=np.int64) * 7 + 3).reshape(blocks, threads)


SHAPES = {"chain": _chain, "chain ": _chain, "last": _last, "lock": _lock, "barrier": _barrier}


def make(seed: int) -> Handover:
    """The kernels of a seed."""
    rng = random.Random(seed)
    shape = rng.choice(sorted(SHAPES))
    chain = shape.startswith("chain")
    group = rng.choice(sorted(GROUPS)) if chain else "block"
    blocks, threads = rng.randrange(2, 6), rng.choice([64, 128])
    kinds = [kind for kind in WRONG if _applies(kind, shape, group)]
    wrong = rng.choice(kinds)
    draw = rng.randrange(1 << 30)
    text, values = SHAPES[shape](random.Random(draw), "", group, blocks, threads)
    broken, _ = SHAPES[shape](random.Random(draw), wrong, group, blocks, threads)
    head = HEAD + 'extern "C" __global__ void k(const int* x, int* y, int* work, int* flag) {\n'
    head += "  int t = threadIdx.x, b = blockIdx.x;\n  "
    tail = "\n}\n"
    name = f"{shape.strip()} of {group}s" if chain else shape
    return Handover(name, wrong, head + text + tail, head + broken + tail, values.astype(np.int32), blocks, threads)


def _applies(kind: str, shape: str, group: str) -> bool:
    if kind in ("meet before", "meet after") and group == "thread":
        return False
    if kind == "other fences":  # an accident of the order is no race: the fence must be by another thread, unmet
        return not shape.startswith("chain") or group != "thread"
    return not (shape == "last" and kind in ("meet after", "other flag"))
