"""Which code a launch reaches: dead kernels, helpers, types, macros and statements are told by place."""

from __future__ import annotations

import pytest

from evo.cuda.source import dead_code, launched, moved_launches, new_dead_code

TEXT = """\
// evo: task   scale
// evo: knob   HOW in fast, slow
// evo: launch scale grid (ceil_div(N, 32)) block (32) shared 0
#define HOW fast
#define TWICE(v) twice(v)

struct Pair { float a, b; };

__device__ float twice(float v) { return 2.0f * v; }

__device__ float fast(float v) {
    Pair pair = {v, 0.0f};
    return TWICE(pair.a);
}

__device__ float slow(float v) { return v + v; }

extern "C" __global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n) return;
    y[i] = HOW(x[i]);
}
"""
KERNEL = TEXT[TEXT.index('extern "C"') :]


def test_helpers_are_reached_through_macros_types_and_knobs() -> None:
    assert launched(TEXT) == ("scale",)
    assert dead_code(TEXT) == ()
    assert dead_code(TEXT.replace("// evo: launch", "// launch")) == ()  # nothing is known to be launched


@pytest.mark.parametrize(
    ("before", "after", "what", "name"),
    [
        ('extern "C"', '__device__ float idle(float v) { return v; }\n\nextern "C"', "function", "idle"),
        ('extern "C"', '#define IDLE(v) twice(v)\n\nextern "C"', "macro", "IDLE"),
        ('extern "C"', 'struct Idle { int i; };\n\nextern "C"', "declaration", "Idle"),
        ('extern "C"', '__device__ float idle[4];\n\nextern "C"', "declaration", "idle"),
        ('extern "C"', KERNEL.replace("void scale", "void other") + '\nextern "C"', "kernel", "other"),
        ('extern "C"', '#if 0\nint idle;\n#endif\nextern "C"', "statements", ""),
        ("    y[i] =", "    if (0) { y[i] = 1.0f; }\n    y[i] =", "statements", ""),
        (
            "    y[i] =",
            "    while (false) { y[i] = 1.0f; }\n    y[i] =",
            "statements",
            "",
        ),
        ("    y[i] =", "    if (true) { y[i] = 1.0f; } else { y[i] = 3.0f; }\n    y[i] =", "statements", ""),
        ("    y[i] =", "#if 0\n    y[i] = 1.0f;\n#endif\n    y[i] =", "statements", ""),
        ("HOW(x[i]);", "HOW(x[i]);\n    return;\n    y[0] = 1.0f;", "statements", ""),
        ("    y[i] =", "#define NEVER 0\n    if (NEVER) { y[i] = 1.0f; }\n    y[i] =", "statements", ""),
    ],
)
def test_what_no_launch_reaches_is_told_with_its_place(before: str, after: str, what: str, name: str) -> None:
    assert before in TEXT
    child = TEXT.replace(before, after, 1)
    (dead,) = new_dead_code(TEXT, child)
    assert (dead.what, dead.name) == (what, name)
    added = [number for number, line in enumerate(child.splitlines(), 1) if line not in TEXT.splitlines()]
    assert dead.line in range(added[0] - 1, added[-1] + 1)


def test_a_condition_on_a_knob_and_a_case_label_are_no_dead_code() -> None:
    knob = TEXT.replace("// evo: knob", "// evo: knob   MODE in 0, 1\n// evo: knob", 1).replace(
        "#define HOW", "#define MODE 0\n#define HOW"
    )
    child = knob.replace("    y[i] =", "    if (MODE) { y[0] = 1.0f; }\n    y[i] =")
    assert new_dead_code(knob, child) == ()
    switch = "    switch (n) { case 0: return; case 1: y[i] = 0.0f; break; default: break; }\n    y[i] ="
    assert new_dead_code(TEXT, TEXT.replace("    y[i] =", switch)) == ()


def test_what_was_dead_before_is_no_news() -> None:
    parent = TEXT + "\n__device__ float idle(float v) { return v; }\n"
    assert len(dead_code(parent)) == 1
    assert new_dead_code(parent, parent.replace("2.0f * v", "v + v")) == ()
    assert new_dead_code(parent, TEXT) == ()


def test_a_launch_that_moves_to_other_code_is_told_from_a_new_name() -> None:
    other = KERNEL.replace("void scale", "void other")
    renamed = TEXT.replace("void scale", "void other").replace("launch scale", "launch other")
    assert moved_launches(TEXT, renamed) is None
    faster = renamed.replace("HOW(x[i])", "HOW(__ldg(x + i))")
    assert moved_launches(TEXT, faster) == ("scale", "other")
    beside = TEXT + "\n" + other
    assert moved_launches(beside, beside.replace("launch scale", "launch other")) == ("scale", "other")
    second = "// evo: launch other grid (1) block (32)\n// evo: launch scale"
    both = TEXT.replace("// evo: launch scale", second) + other
    assert moved_launches(TEXT, both) is None  # one more kernel, which the syntax tree judges
