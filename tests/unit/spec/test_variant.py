"""The `// evo:` language: what it says, where it is wrong, and what the id depends on."""

import pytest

from evo.errors import SyntaxInvalid
from evo.spec.variant import parse_variant, read_variant

TEXT = """\
// Adds one.
// evo: task    addone
// evo: macro   D                                   case axes compiled in
// evo: knob    BLOCK in 32, 64, 128          each knob is one line below
// evo: knob    MODE in fast, exact
// evo: require BLOCK % 32 == 0 and shared <= chip.shared_per_block_optin
// evo: flags   --use_fast_math                     from the task's allowed set
// evo: scratch partial float32 [N, 2] init=zero      workspaces
// evo: launch  addone   grid (ceil_div(N, BLOCK), 2) block (BLOCK) shared (BLOCK * 4)
// evo: launch  second grid (1) block (32)
#define BLOCK 64
constexpr int MODE = fast;
extern "C" __global__ void addone(const float* x, float* y, float* partial, int n) {}
"""


def test_every_field_is_read():
    variant = parse_variant(TEXT)
    assert (variant.task, variant.macros, variant.flags) == ("addone", ("D",), ("--use_fast_math",))
    assert variant.knob_values == {"BLOCK": 64, "MODE": "fast"}
    assert variant.headline == "Adds one."
    scratch = variant.scratch[0]
    assert (scratch.name, scratch.dtype, scratch.init, len(scratch.shape)) == ("partial", "float32", "zero", 2)
    first, second = variant.launches
    assert (first.kernel, len(first.grid), first.shared.value({"BLOCK": 64})) == ("addone", 2, 256)
    assert (second.kernel, second.shared.value({})) == ("second", 0)


def test_moving_a_knob_changes_one_line_only():
    moved = parse_variant(TEXT).with_knobs({"BLOCK": 128})
    before, after = TEXT.splitlines(), moved.text.splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [("#define BLOCK 64", "#define BLOCK 128")]


def test_the_id_ignores_comments_and_blanks_and_sees_all_else():
    base = parse_variant(TEXT).id
    assert parse_variant(TEXT.replace("// Adds one.", "// Adds 1.  ")).id == base
    assert parse_variant(TEXT.replace("int n) {}", "int  n) {} // empty")).id == base
    assert parse_variant(TEXT.replace("#define BLOCK 64", "#define BLOCK 32")).id != base
    assert parse_variant(TEXT.replace("init=zero", "init=poison")).id != base
    assert parse_variant(TEXT.replace("(BLOCK * 4)", "(BLOCK * 8)")).id != base


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("// evo: knob    MODE in fast, exact", "// evo: knob MODE fast", 5, "knob"),
        ("// evo: knob    MODE in fast, exact", "// evo: knob MOOD in fast, exact", 5, "knob"),
        ("#define BLOCK 64", "#define BLOCK 65", 11, "knob"),
        ("init=zero", "init=junk", 8, "scratch"),
        ("float32 [N, 2]", "float33 [N, 2]", 8, "scratch"),
        ("grid (1) block (32)", "grid 1 block 32", 10, "launch"),
        ("grid (1) block (32)", "grid (1 +) block (32)", 10, "1 +"),
        ("// evo: macro   D", "// evo: macroo  D", 3, "macroo"),
        ("// evo: require BLOCK", "// evo: require BLOCK ** 2 +", 6, "BLOCK"),
        ("// evo: task    addone", "// evo:", 2, "evo"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(tmp_path, old, new, line, field):
    path = tmp_path / "kernel.cu"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(SyntaxInvalid) as caught:
        read_variant(path)
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert field in caught.value.message
    assert caught.value.hint


def test_a_text_without_a_launch_is_refused_with_the_line_to_add():
    with pytest.raises(SyntaxInvalid) as caught:
        parse_variant("__global__ void f() {}", path="f.cu")
    assert "evo: launch" in caught.value.hint


def test_a_launch_line_may_name_the_arguments():
    (line,) = parse_variant(
        "// evo: launch k grid (N) block (32) shared 4 * N args (y, x, N // 2, 1e-5)   why\n"
    ).launches
    assert [arg.text for arg in line.args or ()] == ["y", "x", "N // 2", "1e-5"]
    assert (line.shared.text, line.args_text) == ("4 * N", " args (y, x, N // 2, 1e-5)")
    (bare,) = parse_variant("// evo: launch k grid (N) block (32) args ()\n").launches
    assert (bare.args, bare.shared.text) == ((), "0")
    assert parse_variant("// evo: launch k grid (N) block (32)\n").launches[0].args is None
    with pytest.raises(SyntaxInvalid):
        parse_variant("// evo: launch k grid (N) block (32) args (x, y\n")
