"""Kernel files as a careless or hostile author would send them: a shipped one with something done to it.

Each mutation is a function from a generator and a text to a text. They change the `// evo:` lines, the parameters, the
macros, the body or the bytes. What comes of it may compile, fail or be refused; it may not end, hang or slow a run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

Mutation = Callable[[random.Random, str], str]

NUMBERS = (
    "0", "-1", "1", "3", "33", "1025", "65536", "2147483647", "2147483648", "4294967296", "99999999999",
    "9223372036854775807", "9223372036854775808", "1" * 40, "9" * 400, "0x10", "1e9", "1.5", "-0", "007", "1 // 0",
    "1 % 0",
    "B", "chip.sms", "chip.nothing", "__import__", "2 << 63", "2 << 64", "max(1, 2)", "min()", "ceil_div(1, 0)",
    "'a'", "",
)  # fmt: skip
WORDS = (
    "const",
    "int",
    "float",
    "double",
    "half",
    "__global__",
    "extern",
    "if",
    "for",
    "return",
    "char",
    "void",
    "long",
)
STRANGE = (
    "\0",
    "\r",
    "\x0c",
    "\x0b",
    "\x1b[2J",
    "\u2028",
    "\u202e",
    "\ufeff",
    "é",
    "\U0001f600",
    "٣",
    "\x7f",
    "\x85",
    "\\",
)
HEADERS = (
    '"/etc/passwd"', "</etc/passwd>", '"../../../etc/passwd"', "<cuda/../../etc/passwd>", "__FILE__", "<stdio.h>",
    '"evo.cu"',
    "<cuda_fp16.h>", '"cuda_fp16.h" junk', "<>", '""', "<" + "a" * 5000 + ">", "MACRO", '<math.h> // "x"',
    "<math.h> /* */ /*",
)  # fmt: skip


def _lines(text: str, prefix: str = "") -> list[int]:
    return [n for n, line in enumerate(text.split("\n")) if line.startswith(prefix)]


def _with_line(text: str, at: int, new: str | None) -> str:
    lines = text.split("\n")
    lines[at : at + 1] = [] if new is None else [new]
    return "\n".join(lines)


def _above(text: str, added: str) -> str:
    """The text with something between the `// evo:` lines and the code."""
    at = max(_lines(text, "// evo:"), default=-1) + 1
    lines = text.split("\n")
    return "\n".join([*lines[:at], added, *lines[at:]])


def _in_body(rng: random.Random, text: str, added: str) -> str:
    """The text with a statement at the beginning of a function."""
    places = [match.end() for match in re.finditer(r"\)\s*\{\n", text)]
    if not places:
        return text + added
    at = rng.choice(places)
    return f"{text[:at]}{added}\n{text[at:]}"


def _signature(rng: random.Random, text: str, change: Callable[[list[str]], list[str]]) -> str:
    """The text with the parameters of one kernel changed."""
    found = list(re.finditer(r"__global__[^;{]*?\(([^()]*)\)\s*\{", text))
    if not found:
        return text
    match = rng.choice(found)
    parts = change([part.strip() for part in match[1].split(",")])
    return text[: match.start(1)] + ", ".join(parts) + text[match.end(1) :]


# --- the header -----------------------------------------------------------------------------------------------------


def directive_gone(rng: random.Random, text: str) -> str:
    return _with_line(text, rng.choice(_lines(text, "// evo:")), None)


def directive_twice(rng: random.Random, text: str) -> str:
    at = rng.choice(_lines(text, "// evo:"))
    line = text.split("\n")[at]
    return _with_line(text, at, f"{line}\n{line}")


def directives_swapped(rng: random.Random, text: str) -> str:
    lines, places = text.split("\n"), _lines(text, "// evo:")
    one, other = rng.choice(places), rng.choice(places)
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def directive_number(rng: random.Random, text: str) -> str:
    at = rng.choice(_lines(text, "// evo:"))
    line = text.split("\n")[at]
    words = list(re.finditer(r"\b\w+\b", line))[2:]
    if not words:
        return text
    word = rng.choice(words)
    return _with_line(text, at, line[: word.start()] + rng.choice(NUMBERS) + line[word.end() :])


def directive_junk(rng: random.Random, text: str) -> str:
    return _above(
        text,
        rng.choice(
            [
                "// evo:", "// evo", "// evo: ", "// evo : launch", "// evo: shell rm -rf /", "// evo: task other",
                "//evo:launch",
                "// evo: macro NOTHING", "// evo: macro", "// evo: require", "// evo: require 0",
                "// evo: require 1 // 0 == 1",
                "// evo: flags -DX=1", "// evo: flags --maxrregcount=1", "// evo: flags -o /tmp/x", "// evo: flags -I/",
                "// evo: flags " + "-DX=1 " * 2000, "// evo: scratch", "// evo: knob", "// evo: knob X in",
                "// evo: knob 3 in 4",
                "// evo: knob X in 1, 1\n#define X 1", "// evo: knob X in 1, 2\n#define X 3",
                "// evo: knob X in a, b\n#define X a",
                "// evo: launch x grid (1) block (1)", "// evo: launch x grid (1, 1, 1, 1) block (1)", "// evo: launch",
                "// evo: launch main grid (((1) block (1) shared 0", "// evo: require " + "(" * 200 + "1" + ")" * 200,
                "// evo: require " + "-" * 450 + "1", "// evo: require " + " and ".join(["1"] * 60),
                "// evo: require 1 if 0 else 2",
            ]
        ),
    )  # fmt: skip


def scratch(rng: random.Random, text: str) -> str:
    size = rng.choice([*NUMBERS, "2147483648, 2", "4294967296", "17179869184", "536870912", "100, -1", "1, 2, 3"])
    kind = rng.choice(["float32", "float64", "int8", "bool", "float8_e4m3", "float12"])
    how = rng.choice(["", "init=zero", "init=poison", "init=none", "init="])
    return _above(text, f"// evo: scratch room {kind} [{size}] {how}")


def scratch_taken(rng: random.Random, text: str) -> str:
    """A workspace that the kernels take as their parameter, so that nothing else is wrong with it."""
    size = rng.choice(["1", "4096", "1 << 28", "1 << 30", "3 << 30", "1 << 32", "17179869184"])
    tensors = len(re.findall(r"\*", re.search(r"__global__[^;{]*?\(([^()]*)\)", text)[1]))  # type: ignore[index]
    kind = rng.choice(["float32", "int8", "float64"])
    return _signature(
        rng,
        _above(text, f"// evo: scratch room {kind} [{size}]"),
        lambda parts: [*parts[:tensors], "char* room", *parts[tensors:]],
    )


def blanks(rng: random.Random, text: str) -> str:
    """Thousands of blanks where one would do."""
    filler = rng.choice([" ", "\t", " \t", "\n"]) * rng.choice([3, 200, 20_000])
    places = [match.start() for match in re.finditer(" ", text)]
    at = rng.choice(places)
    return text[:at] + filler + text[at:]


def many(rng: random.Random, text: str) -> str:
    """One thing, very often."""
    piece, count = rng.choice(
        [
            ("// evo: knob K{n} in 1, 2\n#define K{n} 1\n", 100_000 // 8),
            ("// evo: require 1\n", 2000), ("// evo: launch k{n} grid (1) block (1) shared 0\n", 2000),
            ("__device__ ", 20_000), ("__device__\n", 20_000), ("static\n", 20_000), ("'\\", 20_000), ('"\\', 20_000),
            ("/*", 20_000),
            ("/* ", 20_000), ("//\\\n", 10_000), ("#define M{n} M{m}\n", 5000), ("int v{n};\n", 5000), (";", 20_000),
            ("printf(", 9000),
            ("(", 20_000), ("{", 20_000), ("[", 20_000), ("<", 20_000), ("#if 1\n", 3000), ("1'", 20_000),
            ("\\\n", 20_000), ('"a" ', 9000),
            ("template <int N> ", 3000), ("operator ", 9000), ("const ", 20_000), ("a", 100_000), ("1", 50_000),
            ("#", 9000), ("=", 9000),
            ("extern \"C\" ", 5000), ("__global__ void k{n}(int* x) {{}}\n", 500), ("x = x + 1;\n", 9000),
            ("namespace a { ", 3000),
        ]
    )  # fmt: skip
    made = "".join(
        piece.replace("{n}", str(n)).replace("{m}", str(n + 1)).replace("{{", "{").replace("}}", "}")
        for n in range(count)
    )
    return _above(text, made) if rng.random() < 0.7 else text + made


# --- parameters and macros ------------------------------------------------------------------------------------------


def parameter_gone(rng: random.Random, text: str) -> str:
    return _signature(rng, text, lambda parts: [p for n, p in enumerate(parts) if n != rng.randrange(len(parts))])


def parameter_twice(rng: random.Random, text: str) -> str:
    def twice(parts: list[str]) -> list[str]:
        at = rng.randrange(len(parts))
        return [*parts[: at + 1], parts[at] + rng.choice(["", "_again"]), *parts[at + 1 :]]

    return _signature(rng, text, twice)


def parameters_swapped(rng: random.Random, text: str) -> str:
    return _signature(rng, text, lambda parts: rng.sample(parts, len(parts)))


def parameter_type(rng: random.Random, text: str) -> str:
    kinds = [
        "double",
        "int",
        "float4",
        "const char* const*",
        "int (*f)(int)",
        "int (&r)[4]",
        "auto",
        "void",
        "...",
        "T",
        "dim3",
    ]

    def other(parts: list[str]) -> list[str]:
        at = rng.randrange(len(parts))
        return [*parts[:at], f"{rng.choice(kinds)} {parts[at].split()[-1].strip('*&')}", *parts[at + 1 :]]

    return _signature(rng, text, other)


def macro(rng: random.Random, text: str) -> str:
    """A macro that gives a keyword, a parameter or a name another meaning."""
    names = sorted(set(re.findall(r"\b[a-zA-Z_]\w*\b", text)))
    name = rng.choice([*WORDS, rng.choice(names), rng.choice(names)])
    values = [
        "",
        name,
        f"{name} {name}",
        f"{name}, int extra",
        f"{name}, const float* extra",
        "0",
        "(",
        "}",
        "double",
        "if",
    ]
    values += [f"{name}(x)", f"{name}##{name}", "__LINE__", "\\\n", f"const {name}", "asm volatile", rng.choice(names)]
    form = rng.choice(
        ["#define {n} {v}", "#define {n}(x) {v}", "#undef {n}", "#define {n}(...) {v}", "#define {n} {v} //"]
    )
    return _above(text, form.format(n=name, v=rng.choice(values)))


def exploding(rng: random.Random, text: str) -> str:
    depth = rng.choice([12, 24, 40])
    macros = "\n".join(f"#define E{n} E{n - 1} E{n - 1}" for n in range(1, depth))
    return rng.choice(
        [
            f"#define E0 +1\n{macros}\n__constant__ const int boom = 0 E{depth - 1};",
            "template <int N> struct Boom { static constexpr int v = Boom<N - 1>::v + Boom<N - 2>::v; };\n"
            "template <> struct Boom<0> { static constexpr int v = 0; };\n"
            "template <> struct Boom<1> { static constexpr int v = 1; };\n"
            "__constant__ const int boom = Boom<800>::v;",
            "template <class A, class B> struct Pair {};\n"
            "template <int N> struct Deep { using T = Pair<typename Deep<N - 1>::T, "
            "typename Deep<N - 1>::T>; };\n"
            "template <> struct Deep<0> { using T = int; };\nusing D = Deep<30>::T;\n__device__ D f(D d) { return d; }",
            "constexpr int loop(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i % 7; return s; }\n"
            "__constant__ const int boom = loop(2000000000);",
            "template <int N> __device__ __forceinline__ int deep(int x) { return deep<N - 1>(x * x + N); }",
        ]
    ) + "\n" + text  # fmt: skip


# --- the body -------------------------------------------------------------------------------------------------------


def statement(rng: random.Random, text: str) -> str:
    return _in_body(
        rng,
        text,
        rng.choice(
            [
                "while (1);", "for (;;) __syncthreads();", "__trap();", "asm(\"trap;\");", "asm volatile(\"exit;\");",
                "return;",
                "asm(\"brkpt;\");", "asm volatile(\"/*\");", "asm volatile(\"{\");",
                "asm volatile(\"bra me; me: bra me;\");",
                "asm(\".entry other() { ret; }\");", "asm(\"nonsense.u32 r;\");", "asm volatile(\"ret;\");",
                "asm(\"\");",
                "asm volatile(\"bar.sync 99;\");", "asm volatile(\"st.global.u32 [0], 1;\");", "assert(0);",
                "__syncthreads();",
                "int big[1 << 20]; big[threadIdx.x] = 1; if (big[5] == 3) return;",
                "__shared__ int wide[1 << 14]; wide[0] = 1;",
                "__shared__ int huge[1 << 28];", "static int counter; counter++;", "int z = 0; if (1 / z) return;",
                "goto nowhere;",
                "*(volatile int*)0 = 1;", "((void (*)())0)();", "char* p = new char[4];", "printf(\"x\");",
                "throw 1;", "int n = n;",
                "asm volatile(\"ld.param.u64 %0, [nothing];\");", "float f = 1.0e999f;",
                "int i = 99999999999999999999;", "__nanosleep(9);",
                "for (long long i = 0; i < 1LL << 40; ++i) asm volatile(\"\");", "dim3 d(1, 2, 3, 4);",
                "if (threadIdx.x) __syncthreads();",
                "int i = " + "(" * 2000 + "1" + ")" * 2000 + ";", "int j = " + "1+" * 4000 + "1;",
                "{" * 1500 + "}" * 1500,
                "int k = " + "-" * 0 + "- " * 3000 + "1;", "if (1) " * 1500 + ";", "[] { " * 200 + "}();" * 200,
                "asm volatile(\"" + "add.u32 %0, %0, 1; " * 50 + "\");", "unsigned long long t = clock64();",
                "__builtin_unreachable();",
                "alignas(1 << 20) int a;", "int v[threadIdx.x];", "switch (0) { case 0: case 0: ; }", "\\u0041;",
                "auto f = [&] { return f; };",
            ]
        ),
    )  # fmt: skip


def declaration(rng: random.Random, text: str) -> str:
    kernel = re.search(r"__global__[^;{]*?(\w+)\s*\(", text)
    name = kernel[1] if kernel else "k"
    table = ", ".join(["1"] * 100_000)
    added = rng.choice(
        [
            f"extern \"C\" __global__ void {name}(int* x) {{}}", f"__global__ void {name}(char c) {{}}", f"int {name};",
            f"extern \"C\" __device__ void {name}_0();", "extern \"C\" __device__ int printf(const char*, ...);",
            "extern \"C\" __global__ void main() {}", "extern \"C\" __device__ void __assertfail() {}",
            "extern \"C\" __device__ int vprintf;",
            "extern \"C\" __device__ void* malloc(size_t n) { return 0; }", "__device__ int state;",
            "__managed__ int state;",
            f"__constant__ int table[] = {{{table}}};", "__constant__ int table[1 << 28];",
            "__device__ const int wide[1 << 29] = {1};",
            "__device__ int rec(int n) { return n < 2 ? n : rec(n - 1) + rec(n - 2); }",
            "struct A { virtual void f() = 0; };",
            "namespace {", "}", "static_assert(0, \"no\");", "#error no", "#warning no", "#pragma once",
            "#pragma GCC poison int", "#line 7",
            "using namespace nothing;", "extern \"C\" {",
            "template <class T> struct X { typename T::y z; }; X<int> x;", "%:include <x>",
            "??=include <x>", "R\"(raw)\"", "#include_next <math.h>", "__has_include(\"x\")",
            "#if __has_include(\"x\")\n#endif", "#if 1",
            "extern \"C\" __device__ int _Z" + "9" * 5000 + ";",
            "extern \"C\" __constant__ int _ZA" + "A" * 200 + " = 1;", "_Pragma(\"once\")",
            "struct __align__(4096) Wide { char c[1 << 16]; };\nextern \"C\" __global__ void other(Wide w) {}",
            "/* never closed", "\" never closed",
            "constexpr int zero = 0 / 0;", "int operator\"\" _x(unsigned long long);",
            "__device__ __constant__ float* p;", "#define defined 1",
        ]
    )  # fmt: skip
    return _above(text, added) if rng.random() < 0.8 else text + "\n" + added


def include(rng: random.Random, text: str) -> str:
    return _above(text, f"#include {rng.choice(HEADERS)}")


# --- the bytes ------------------------------------------------------------------------------------------------------


def line_gone(rng: random.Random, text: str) -> str:
    return _with_line(text, rng.choice(_lines(text)), None)


def lines_swapped(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice([*STRANGE, *"(){}[];,<>*&#\"'/\\ 0"]) + text[at + rng.choice([0, 1]) :]


def token(rng: random.Random, text: str) -> str:
    words = list(re.finditer(r"\w+|[^\w\s]", text))
    one, other = rng.choice(words), rng.choice(words)
    return text[: one.start()] + other[0] + text[one.end() :]


def number(rng: random.Random, text: str) -> str:
    found = list(re.finditer(r"\b\d+\b", text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + rng.choice(NUMBERS) + text[match.end() :]


def truncated(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def windows(rng: random.Random, text: str) -> str:
    return rng.choice(["\ufeff", ""]) + text.replace("\n", rng.choice(["\r\n", "\r", "\n\r"]))


def spliced(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(["\\\n", "\\ \n", "\\\r\n"]) + text[at:]


HEADER: tuple[Mutation, ...] = (
    directive_gone, directive_twice, directives_swapped, directive_number, directive_junk, scratch, scratch_taken,
    blanks, many,
)  # fmt: skip
TEXT: tuple[Mutation, ...] = (
    parameter_gone, parameter_twice, parameters_swapped, parameter_type, macro, macro, exploding, statement,
    statement, declaration,
    declaration, include, line_gone, lines_swapped, character, token, token, number, number, truncated, windows,
    spliced,
)  # fmt: skip
MUTATIONS = (*HEADER, *TEXT)


def mutants(texts: list[str], seed: int, count: int) -> Iterator[tuple[str, int, str]]:
    """(name of what was done, which of the texts it was done to, the result); the same for the same seed."""
    for number_ in range(count):
        rng = random.Random(f"{seed}/{number_}")
        place = rng.randrange(len(texts))
        made = MUTATIONS[number_ % len(MUTATIONS)]
        text, name = made(rng, texts[place]), made.__name__
        if rng.random() < 0.15 and text:
            again = rng.choice([macro, token, number, character, line_gone, statement])
            text, name = again(rng, text), f"{name}+{again.__name__}"
        yield name, place, text
