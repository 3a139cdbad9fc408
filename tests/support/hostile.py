"""Real kernels of the task of `tiny` that misbehave at its bench case only: no check of a small case sees them."""

from __future__ import annotations

from dataclasses import dataclass

from tiny import FAST

from evo.results import Status


@dataclass(frozen=True)
class Misdeed:
    """What thread 70,000 does beside its work, the status it has on the simulator, and those it may have on a GPU."""

    body: str
    simulated: Status
    on_gpu: frozenset[Status]


def _misdeed(body: str, simulated: Status, *on_gpu: Status) -> Misdeed:
    return Misdeed(body, simulated, frozenset(on_gpu or (simulated,)))


HOSTILE = {
    "hang": _misdeed(
        "volatile const float* p = x; while (p[0] == p[0]) {}", Status.UNSAFE, Status.UNSAFE, Status.TIMED_OUT
    ),
    "trap": _misdeed("__trap();", Status.CRASHED),
    "stray write": _misdeed("y[i + (1LL << 40)] = 1.0f;", Status.UNSAFE),
    "misaligned": _misdeed("*(double*)((char*)(y + i) + 4) = 1.0;", Status.UNSAFE),
    "past the end": _misdeed("y[n] = 1.0f;", Status.UNSAFE),
    "input": _misdeed("((float*)x)[3] = 1.0f;", Status.UNSAFE),
    "wrong": _misdeed("y[i - 1] = 77.0f;", Status.WRONG, Status.WRONG, Status.UNSTABLE),
    "unwritten": _misdeed("return;", Status.WRONG, Status.WRONG, Status.UNSTABLE),
}


def hostile(what: str) -> str:
    """The text of a kernel that is right but for one misdeed."""
    deed = f"if (n > 100000 && i == 70000) {{ {HOSTILE[what].body} }}"
    if what == "unwritten":
        return FAST.replace("if (i < n)", f"{deed}\n    if (i < n)")
    return FAST.replace("\n}\n", f"\n    {deed}\n}}\n")
