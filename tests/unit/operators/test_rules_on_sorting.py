"""Loops that sort a thread's array become a network of comparisons, however they are written, and only if they sort."""

from __future__ import annotations

import pytest
from rule_children import built, changed, example

SELECTION = """\
    for (int i = 0; i <= TAPS / 2; i++) {
        int least = i;
        for (int j = i + 1; j < TAPS; j++)
            if (near[j] < near[least]) least = j;
        exchange(near[i], near[least]);
    }
"""
BUBBLE = """\
    for (int i = 0; i <= TAPS / 2; ++i)
        for (int j = TAPS - 1; j > i; --j)
            if (near[j] < near[j - 1]) exchange(near[j], near[j - 1]);
"""
INSERTION = """\
    for (int i = 1; i < TAPS; i++) {
        unsigned short key = near[i];
        int j = i - 1;
        while (j >= 0 && near[j] > key) {
            near[j + 1] = near[j];
            j--;
        }
        near[j + 1] = key;
    }
"""
FALLING = """\
    for (int i = 0; i < TAPS; i++)
        for (int j = 0; j < TAPS - 1; j++) {
            const unsigned short low = min(near[j], near[j + 1]);
            near[j] = max(near[j], near[j + 1]), near[j + 1] = low;
        }
"""
POINTER = "    put_in_order(near);\n"
OF_POINTER = """\
__device__ void put_in_order(unsigned short* v) {
    for (int n = TAPS; n > 1; n--) {
        bool moved = false;
        for (int i = 1; i < n; i++) {
            if (v[i - 1] <= v[i]) continue;
            exchange(v[i - 1], v[i]);
            moved = true;
        }
        if (!moved) break;
    }
}
extern "C" """


def children(sort: str, *changes: tuple[str, str]) -> list[str]:
    """The texts that come of the rule's example with another way to sort."""
    text = changed(example("sort_network"), (SELECTION, sort), *changes)
    return [child.text for child in built("sort_network", text)]


@pytest.mark.parametrize(
    ("sort", "changes"),
    [
        pytest.param(INSERTION, (), id="by insertion"),
        pytest.param(BUBBLE, (), id="by exchanging neighbours"),
        pytest.param(FALLING, (), id="falling"),
        pytest.param(POINTER, (('extern "C" ', OF_POINTER),), id="in a function that ends early"),
        pytest.param(BUBBLE, (("near[TAPS / 2];", "near[1];"),), id="only as far as is read"),
    ],
)
def test_loops_that_sort_become_a_network(sort: str, changes: tuple[tuple[str, str], ...]) -> None:
    (child,) = children(sort, *changes)
    assert sort.splitlines()[0] not in child
    assert child.count("#pragma unroll") == 4


@pytest.mark.parametrize(
    ("sort", "changes"),
    [
        pytest.param(BUBBLE, (("near[TAPS / 2];", "near[TAPS - 2];"),), id="what is read is not yet in its place"),
        pytest.param(BUBBLE, (("near[TAPS / 2];", "near[col % TAPS];"),), id="nobody knows what is read"),
        pytest.param(BUBBLE.replace("near[j] < near[j - 1]", "near[j] < 4"), (), id="compared with something else"),
        pytest.param(BUBBLE.replace("near[j] < near[j - 1]", "near[j] < x[j]"), (), id="compared with memory"),
        pytest.param(INSERTION.replace("j >= 0", "j > 0"), (), id="the first one stays"),
    ],
)
def test_loops_that_do_not_sort_stay(sort: str, changes: tuple[tuple[str, str], ...]) -> None:
    assert children(sort, *changes) == []
