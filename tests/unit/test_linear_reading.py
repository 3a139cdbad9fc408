"""Texts of candidates and models are read in time that grows with their length, and no faster."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from long_cases import long
from pattern_growth import Pattern, grows, patterns

from evo.analysis.access.preprocess import ExpansionTooLong, expand
from evo.analysis.tiles.check_layouts import check_layouts
from evo.cuda.compile.include_policy import refusal
from evo.cuda.source import classify, parse, tree_difference
from evo.errors import SyntaxInvalid
from evo.evaluate.gate.ptx_rules import ptx_problem
from evo.evaluate.gate.source_rules import static_problem
from evo.operators.llm.reply_edits import Unusable, read_reply
from evo.operators.rules import rule_operators
from evo.spec.comments import replace_comments
from evo.spec.variant import parse_variant, variant_id

EVO = Path(__file__).parents[2] / "evo"
# Not here: evo/operators/rules, which reads only what `is_written_by_hand`; sanitize.py, which reads a tool's report.
READERS = [
    *sorted((EVO / "spec").glob("*.py")), *sorted((EVO / "cuda").rglob("*.py")),
    *sorted((EVO / "evaluate/gate").glob("*.py")),
    *sorted((EVO / "operators/llm").glob("*.py")), *sorted((EVO / "operators").glob("*.py")),
    EVO / "analysis/tiles/check_layouts.py",
]  # fmt: skip
PATTERNS = [pattern for file in READERS if file.name not in ("sanitize.py", "cost.py") for pattern in patterns(file)]

HEAD = "// evo: knob N in 1, 2\n// evo: launch k grid (1) block (32) shared 0\n#define N 1\n"
KERNEL = HEAD + 'extern "C" __global__ void k(float* x, int n) {\n    x[0] = N;\n}\n'
PIECES = [
    "'\\", '"\\', "/*", "/* ", "// evo:" + " " * 50, "//\\\n", "__device__ ", "__device__\n", "static\n", "static ",
    "extern volatile ",
    "\n", " ", "a ", "a", "1", "1'", "'", '"', '"a" ', ";", "x=1;", "(", "{", "[", "<", "#", "#define N 2\n",
    "#define M(\n", "printf(",
    "// evo: knob K in 1\n", "// layout: a ", "// layout: a x x x at at at\n", " x ", " at ", "const int a=",
    "const ", "operator ", "__half ",
    "\\\n", "constexpr int N = ", "for (int i = ", "* ", "template <int a> ", "*/ ", "! <", "#if 1\n", "_Pragma(",
    "int k(int a) ", "~ const ",
]  # fmt: skip
SHORT_S, FACTOR = 0.25, 3.2


def _seconds(read: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    read(text)
    return time.thread_time() - started


def _readings(text: str) -> None:
    """Everything that reads a candidate before a compiler or a device does, and what reads it to compare it."""
    variant_id(text)
    static_problem(text)
    refusal(text, name="k.cu", headers={}, flags=())
    replace_comments(text, lambda _: " ")
    with contextlib.suppress(SyntaxInvalid):
        parse_variant(text)


def _layouts(text: str) -> None:
    """Only lines of comment: the parser's own limit is another test's."""
    with contextlib.suppress(SyntaxInvalid):
        check_layouts(f"// layout: {text.replace(chr(10), ' ')}\n", path="k.cu", axes={}, knobs={})


def _difference(text: str) -> None:
    classify(tree_difference(KERNEL, text))


def _reply(text: str) -> None:
    with contextlib.suppress(Unusable):
        read_reply(f"SUMMARY: {text[: len(text) // 2]}\n<<<<<<< SEARCH\n{text[len(text) // 2 :]}")


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{pattern.path.stem}:{pattern.line}")
def test_no_pattern_grows_faster_than_its_text(pattern: Pattern) -> None:
    assert grows(pattern) is None


@pytest.mark.long
def test_the_search_for_growth_finds_some(tmp_path: Path) -> None:
    slow = [r"^(\w+)\s+in\s+(.+)x$", r"/\*.*?\*/", r"(\d+) bytes", r'"(?:\\.|[^"\\\n])*"', r"(a|aa)+b", r"\s*,\s*"]
    fast = [r"x\w+\b", r"(?<!\d)\d++ bytes", r"/\*.*?(?:\*/|\Z)", r"(?<!\s)\s++,", r"[a-z]{1,5}="]
    (tmp_path / "p.py").write_text(
        "import re\n" + "".join(f"re.search({text!r}, '', re.DOTALL)\n" for text in slow + fast)
    )
    found = [pattern.text for pattern in patterns(tmp_path / "p.py") if grows(pattern) is not None]
    assert found == slow


@pytest.mark.long
@pytest.mark.parametrize("read", [_readings, _layouts, _reply])
def test_reading_grows_with_the_text(read: Callable[[str], None]) -> None:
    slow = []
    for piece in PIECES:
        for before, after in (
            (HEAD, ""),
            (KERNEL, ""),
            ("// evo: knob N", "in 1\n" + KERNEL),
            ("// evo: launch k grid", KERNEL),
        ):
            texts = [before + piece * (size // len(piece)) + after for size in (20_000, 40_000)]
            once, twice = (_seconds(read, text) for text in texts)
            if twice > SHORT_S and twice > FACTOR * min(once, _seconds(read, texts[0])):
                slow.append((piece, before[-20:], once, twice))
    assert not slow


@pytest.mark.timeout(600)
@pytest.mark.long
def test_no_text_takes_the_comparison_with_its_parent_long() -> None:
    """The syntax tree and the matching have limits of their own, whatever the size."""
    slow = []
    for piece in PIECES:
        for size in (3_000, 30_000):
            took = _seconds(_difference, KERNEL + piece * (size // len(piece)))
            if took > 12:
                slow.append((piece, size, took))
    assert not slow


def test_what_cannot_be_told_apart_is_not_one_change() -> None:
    change = tree_difference(KERNEL.replace("x[0] = N;", ";" * 3000), KERNEL.replace("x[0] = N;", ";," * 1500))
    assert change.too_many
    assert not classify(change).is_single
    assert classify(tree_difference(KERNEL, KERNEL.replace("= N", "= N + 1"))).is_single


@pytest.mark.long
def test_a_text_that_the_parser_cannot_follow_in_time_is_not_read() -> None:
    started = time.monotonic()
    source = parse(KERNEL + "! <" * 20_000)
    assert not source.is_read
    assert source.functions == ()
    assert len(source.problems) == 1
    assert time.monotonic() - started < 30
    assert parse(KERNEL).is_read


def test_rules_leave_texts_alone_that_nobody_wrote() -> None:
    rules = [rule for operator in rule_operators() for rule in operator.rules]
    own = parse_variant(KERNEL)
    for piece in (" " * 5000, "a" * 5000, "\n" * 500, "a " * 5000):
        wide = parse_variant(KERNEL.replace("x[0] = N;", f"x[0] = N; //{piece}\n"))
        assert [found for rule in rules for found in rule.applications(wide)] == []
    assert [found for rule in rules for found in rule.applications(own)] != []


def test_ptx_is_read_in_time() -> None:
    body = (
        ".visible .entry k(.param .u64 p)\n{\n" + "mov.u64 %rd2, %rd1;\nadd.s64 %rd1, %rd2, 8;\n" * 20_000 + "ret;\n}\n"
    )
    for text in (
        body + ".global .u8 v[4];",
        ".global .u8 v[4];" + body + '"\\' * 40_000,
        body + "/* " * 40_000,
        "_ZA" + "1" * 9000,
    ):
        assert _seconds(ptx_problem, text) < 10
    chain = "".join(f"mov.u64 %rd{n}, %rd{n + 1};\n" for n in range(3000))  # written last to first
    ptx = f".global .u8 v[4];\n.entry k()\n{{\n{chain}mov.u64 %rd3000, v;\nst.global.u8 [%rd0], %r1;\n}}\n"
    assert _seconds(ptx_problem, ptx) < 2
    found = ptx_problem(ptx)
    assert found is not None
    assert "`v`" in found.what


OLD = re.compile(r'//(?:\\\r?\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def test_comments_are_where_they_were() -> None:
    """Ids of old records hang on it: the same places as by the pattern that backtracks, whatever the text."""
    rng = random.Random(3)
    for _ in range(20_000):
        text = "".join(
            rng.choice(['"', "'", "\\", "\n", "\r\n", "/", "*", "//", "/*", "*/", "a", " "])
            for _ in range(rng.randrange(24))
        )
        assert replace_comments(text, lambda _: "#") == OLD.sub(
            lambda m: "#" if m[0].startswith("/") else m[0], text
        ), repr(text)


def _nested(levels: int, body: str) -> str:
    return f"#define M0 {body}\n" + "".join(f"#define M{i} {f' M{i - 1}' * 4}\n" for i in range(1, levels + 1))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_nested(13, "+ 1") + "int x = 0 M13;\n", id="tokens"),
        long(_nested(13, "") + "M13\n", id="nothing"),
        long(_nested(13, "+ 1") + "#if 0 M13\n#endif\n", id="if"),
        long("#define D(x) x x x x\nint x = " + "D(" * 13 + "1" + ")" * 13 + ";\n", id="arguments"),
        pytest.param("#define D(x) x\n" + "D(" * 20_000, id="unclosed"),
    ],
)
def test_macros_that_stand_for_millions_of_tokens_are_not_expanded(text: str) -> None:
    started = time.thread_time()
    with pytest.raises(ExpansionTooLong):
        expand(text.encode(), {})
    assert time.thread_time() - started < 10


def test_macros_that_nobody_uses_cost_nothing() -> None:
    assert b"int x;" in expand((_nested(13, "+ 1") + "int x;\n").encode(), {}).data
