"""One batch of mutated PTX texts or mutated launches, run in this process; the parent watches how it ends.

usage: fuzz_child.py ptx|launch first-seed count texts.json. Writes the seed in work to stdout before each attempt.
"""

from __future__ import annotations

import json
import random
import re
import resource
import sys
from pathlib import Path
from typing import Any

import fenced
import numpy as np
from clean_cases import CASES

from evo import sim
from evo.sim import jit
from evo.sim.memory import SLACK

CANARY = 0xC5
WORDS = """
u32 s32 b32 f32 f64 u64 b16 f16 f16x2 bf16 pred u8 s8 v2 v4 global shared local param const sync volatile relaxed
wide lo hi rn rz ftz sat approx add sub mul mad fma div rem shl shr and or xor min max ld st mov cvt cvta setp selp bra
ret bar atom red shfl vote match popc bfe prmt cp async commit_group wait_group ldmatrix mma m16n8k16 row col ex2 sqrt
exit trap call
""".split()  # noqa: SIM905 a list of words reads best as words
NUMBERS = (
    "0",
    "1",
    "-1",
    "31",
    "32",
    "33",
    "255",
    "65535",
    "2147483647",
    "4294967295",
    "-2147483648",
    "0f7F800000",
    "-9223372036854775807",
    "9223372036854775808",
    "123145302310912",
)


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        kind = rng.randrange(9)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines[at] = re.sub(r"(?<=[\s,+])-?\d+\b", rng.choice(NUMBERS), lines[at])
        elif kind == 4:
            found = sorted(set(re.findall(r"%\w+", text)))
            words = re.split(r"(%\w+)", lines[at])
            lines[at] = "".join(rng.choice(found) if w[:1] == "%" and rng.random() < 0.5 else w for w in words)
        elif kind == 5:
            words = re.findall(r"(?<=\.)\w+", lines[at])
            if words:
                lines[at] = lines[at].replace("." + rng.choice(words), "." + rng.choice(WORDS), 1)
        elif kind == 6:
            lines[at] = re.sub(r"^(\s*)\w+", lambda m: m[1] + rng.choice(WORDS), lines[at])
        elif kind == 7 and lines[at]:
            where = rng.randrange(len(lines[at]))
            lines[at] = lines[at][:where] + chr(rng.randrange(1, 256)) + lines[at][where + 1 :]
        else:
            del lines[max(at, len(lines) - 5) :]
        text = "\n".join(lines)
    return text


def setup(name: str, offset: int = 0) -> tuple[sim.Memory, list[Any]]:
    """Buffers with the inputs of a case, each so many bytes beyond an aligned address."""
    memory = sim.Memory()
    args: list[Any] = []
    for value in CASES[name].args:
        if isinstance(value, np.ndarray):
            buffer = memory.allocate(value.nbytes, f"arg{len(args)}", fill=b"\0", offset=offset)
            memory.write(buffer, value)
            buffer.data[:SLACK] = buffer.data[-SLACK:] = CANARY
            args.append(buffer)
        else:
            args.append(value)
    return memory, args


def launch(module: sim.Module, memory: sim.Memory, **how: Any) -> None:
    module.launch(module.kernel_names[0], memory=memory, **how)
    for buffer in memory.buffers:
        assert (buffer.data[:SLACK] == CANARY).all(), "bytes before a buffer were written"
        assert (buffer.data[-SLACK:] == CANARY).all(), "bytes after a buffer were written"
        # No input has a run of this byte, so none may show up in a buffer unless it was read from beside one.
        assert bytes([CANARY] * 16) not in buffer.bytes.tobytes(), "bytes beside a buffer were read"


def mutated_text(name: str, text: str, rng: random.Random) -> None:
    module = sim.load(mutate(text, rng))
    memory, args = setup(name)
    case = CASES[name]
    try:
        launch(module, memory, grid=case.grid, block=case.block, args=args, budget=20_000, threads=rng.choice((1, 2)))
    finally:
        jit._CACHE.clear()


def odd(rng: random.Random) -> int:
    return rng.choice((0, -1, 1, 2, 7, 31, 33, 64, 255, 1024, 1025, 65535, 65536, 2**31 - 1, 2**31, 2**40, -(2**31)))


def mutated_launch(name: str, module: sim.Module, rng: random.Random) -> None:
    memory, args = setup(name, rng.choice((0, 0, 0, 4, 8, 16, 36)))
    case = CASES[name]
    how: dict[str, Any] = {
        "grid": case.grid,
        "block": case.block,
        "args": args,
        "budget": 5_000,
        "race": rng.random() < 0.5,
    }
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.randrange(8)
        at = rng.randrange(len(args))
        if kind in (0, 1):
            how["grid" if kind else "block"] = tuple(odd(rng) for _ in range(rng.randrange(1, 4)))
        elif kind == 2:
            how["shared_bytes"] = odd(rng)
        elif kind == 3:
            how["blocks"] = [odd(rng) for _ in range(rng.randrange(0, 4))]
        elif kind == 4:
            args[at] = rng.choice((np.int32(odd(rng) & 0x7FFFFFFF), np.int64(odd(rng)), odd(rng), 1.5, np.float64(2)))
        elif kind == 5:
            other = rng.randrange(len(args))
            args[at], args[other] = args[other], args[at]
        elif kind == 6:
            args[at:] = []
        else:
            how["threads"] = odd(rng)
    launch(module, memory, **how)


def main() -> None:
    mode, first, count, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fenced.install()
    texts: dict[str, str] = json.loads(Path(path).read_text())
    names = sorted(texts)
    modules = {name: sim.load(text) for name, text in texts.items()} if mode == "launch" else {}
    outcomes: dict[str, int] = {}
    for seed in range(first, first + count):
        print(seed, flush=True)
        rng = random.Random(seed)
        name = names[seed % len(names)]
        try:
            if mode == "ptx":
                mutated_text(name, texts[name], rng)
            else:
                mutated_launch(name, modules[name], rng)
            how = "ran"
        except (sim.PtxError, ValueError, OverflowError) as error:
            how = type(error).__name__
        outcomes[how] = outcomes.get(how, 0) + 1
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
