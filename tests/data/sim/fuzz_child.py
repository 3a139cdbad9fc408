"""One batch of mutants, run in this process; the parent watches how it ends. A mutated text is refused or runs.

usage: fuzz_child.py MODE first-seed count texts.json. Writes the seed in work to stdout before each attempt.
MODE: ptx (the text of kernels), instruction (operands and modifiers of one instruction in golden cases), or launch.
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


MODIFIERS = """
u8 s8 u16 s16 u32 s32 u64 s64 b8 b16 b32 b64 b128 f16 bf16 f32 f64 f16x2 bf16x2 tf32 pred e4m3x2 v2 v4 v8 lo hi wide
rn rz ftz sat approx full relu NaN xorsign abs global shared local const param sync up down bfly idx all any uni ballot
add min max and or xor exch cas inc dec eq ne lt nan num cc row col m8n8k4 m16n8k16 m16n16k16 a b c d aligned satfinite
pack trans x1 x2 x4 parity noComplete red arrive popc warp clamp wrap l r f4e ecl volatile acquire release async ca cg
commit_group wait_group shiftamt
""".split()  # noqa: SIM905 a list of words reads best as words
OPERANDS = (
    "%a", "%b", "%p", "%q", "%t", "%w", "%x", "%i", "0", "1", "-1", "31", "0f3F800000", "0d3FF0000000000000", "_",
    "!%p", "%t|%p", "%p|%q", "{%t, %u}", "{%t, %u, %t, %u}", "{%w, %x}", "[%x]", "[%x+4]", "[%t]", "[%p]", "[p0]",
    "[p0+2]", "p0", "%tid.x", "%laneid", "%clock", "%envreg2", "k", "[4]", "{0, 1}", "{_, %t}",
)  # fmt: skip
INSTRUCTION = re.compile(r"(\s*(?:@!?%\w+\s+)?)([a-z]\w*)((?:\.[\w:]+)*)(?:\s+([^;:]*))?;\s*$")
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")


def mutate_instruction(text: str, rng: random.Random) -> str:
    """Drop, add, change or mix modifiers or operands of an instruction or two."""
    lines = []
    for line in text.split("\n"):
        apart = line.count(";") > 1 and not {"{", "/"} & set(line)
        lines += [f"{part};" for part in line.split(";") if part.strip()] if apart else [line]
    places = [number for number, line in enumerate(lines) if INSTRUCTION.match(line)]
    for number in rng.sample(places, min(len(places), rng.choice((1, 1, 1, 2)))):
        found = INSTRUCTION.match(lines[number])
        assert found is not None
        mods, operands = found[3].split(".")[1:], OPERAND.findall(found[4] or "")
        kind = rng.randrange(8)
        if kind == 0:
            mods.insert(rng.randrange(len(mods) + 1), rng.choice(MODIFIERS))
        elif kind == 1:
            operands.insert(rng.randrange(len(operands) + 1), rng.choice(OPERANDS))
        elif kind in (2, 3):
            words = mods if kind == 2 else operands
            if words:
                words[rng.randrange(len(words))] = rng.choice(MODIFIERS if kind == 2 else OPERANDS)
        elif kind in (4, 5):
            rng.shuffle(mods if kind == 4 else operands)
        elif kind == 6:
            del operands[rng.randrange(len(operands) + 1) :]
        else:
            del mods[rng.randrange(len(mods) + 1) :]
        lines[number] = f"{found[1]}{'.'.join((found[2], *mods))} {', '.join(operands)};"
    return "\n".join(lines)


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
    module.launch(next(iter(module.kernels)), memory=memory, **how)
    for buffer in memory.buffers:
        assert (buffer.data[:SLACK] == CANARY).all(), "bytes before a buffer were written"
        assert (buffer.data[-SLACK:] == CANARY).all(), "bytes after a buffer were written"
        # No input has a run of this byte, so none may show up in a buffer unless it was read from beside one.
        assert bytes([CANARY] * 16) not in buffer.bytes.tobytes(), "bytes beside a buffer were read"


def mutated_text(name: str, text: str, rng: random.Random) -> str:
    try:
        module = sim.load(mutate(text, rng))
    except sim.PtxError as error:
        return type(error).__name__
    memory, args = setup(name)
    case = CASES[name]
    return attempt(
        module, memory, grid=case.grid, block=case.block, args=args, budget=20_000, threads=rng.choice((1, 2))
    )


def mutated_instruction(text: str, rng: random.Random) -> str:
    try:
        module = sim.load(mutate_instruction(text, rng), opt_level=0)
    except sim.PtxError as error:
        return type(error).__name__
    memory = sim.Memory()
    (kernel,) = module.kernels.values()
    args = [memory.allocate(1 << 16, f"arg{number}", fill=b"\0") for number in range(len(kernel.function.params))]
    for buffer in memory.buffers:
        buffer.data[:SLACK] = buffer.data[-SLACK:] = CANARY
    return attempt(module, memory, grid=(1,), block=(128,), args=args, budget=20_000)


def attempt(module: sim.Module, memory: sim.Memory, **how: Any) -> str:
    try:
        launch(module, memory, **how)
    except (ValueError, OverflowError) as error:  # arguments that no launch may have
        return type(error).__name__
    finally:
        jit.forget()
    return "ran"


def odd(rng: random.Random) -> int:
    return rng.choice((0, -1, 1, 2, 7, 31, 33, 64, 255, 1024, 1025, 65535, 65536, 2**31 - 1, 2**31, 2**40, -(2**31)))


def mutated_launch(name: str, module: sim.Module, rng: random.Random) -> str:
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
        kind, at = rng.randrange(8), rng.randrange(max(1, len(args)))
        if not args and kind in (4, 5):
            continue
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
    try:
        launch(module, memory, **how)
    except (ValueError, OverflowError) as error:
        return type(error).__name__
    return "ran"


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
        if mode == "ptx":
            how = mutated_text(name, texts[name], rng)
        elif mode == "instruction":
            how = mutated_instruction(texts[name], rng)
        else:
            how = mutated_launch(name, modules[name], rng)
        outcomes[how] = outcomes.get(how, 0) + 1
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
