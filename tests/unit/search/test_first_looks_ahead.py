"""First looks taken ahead: asked for once, written down once, and waited for by nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from evo.operators import Proposal
from evo.records.trials import FirstLook
from evo.search import previews, proposer
from evo.search.events import Event
from evo.search.previews import Previews
from evo.search.proposer import Screening
from evo.spec.variant import Variant, parse_variant

TEXT = """\
// evo: knob A in 1, 2, 4, 8
// evo: launch k grid (1) block (32) shared 0
#define A {}
extern "C" __global__ void k(float* o) {{ o[threadIdx.x] = A; }}
"""
PARENT = parse_variant(TEXT.format(1))


def offers(*values: int) -> list[Proposal]:
    return [
        Proposal(
            operator="rules.knob",
            kind="mutation",
            variant=parse_variant(TEXT.format(value)),
            summary=f"A 1 -> {value}",
            reason="",
            expected="",
            risk="",
        )
        for value in values
    ]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []

    def gains(
        bench: object, task: object, parent: str, new: Sequence[str], seed: int, tell: Callable[[str], None] | None
    ) -> list[float | None]:
        (tell or bench)("screen: candidate 1 of 1")  # type: ignore[operator]
        texts.extend(new)
        return [1.5 for _ in new]

    monkeypatch.setattr(proposer, "screened_gains", gains)
    return texts


def test_looks_ahead_are_not_taken_again(asked: list[str]) -> None:
    seen: list[str] = []
    written: list[FirstLook] = []

    def watch(event: Event) -> None:
        seen.append(event.stage)

    bench: Any = seen.append
    screening = Screening(task=bench, bench=bench, pool=None, seed=0, watch=watch, record=written.extend)
    told: list[str] = []
    screening.look_ahead(PARENT, offers(2, 4), told.append)
    assert (seen, told, written) == ([], ["screen: candidate 1 of 1"], [])
    assert screening.gains(PARENT, offers(2, 4, 8)) == [1.5, 1.5, 1.5]
    assert asked == [offer.text for offer in offers(2, 4, 8)]
    assert seen == ["screen", "screen: candidate 1 of 1"]
    assert [look.variant for look in written] == [offer.variant.id for offer in offers(2, 4, 8)]
    assert screening.taken is not None
    assert (screening.taken.edits, screening.taken.faster) == (3, 3)


def test_looks_at_edits_of_another_parent_count_for_nothing(asked: list[str]) -> None:
    bench: Any = lambda _: None  # noqa: E731
    screening = Screening(task=bench, bench=bench, pool=None, seed=0, watch=bench, record=lambda _: None)
    screening.look_ahead(parse_variant(TEXT.format(2)), offers(4), bench)
    screening.gains(PARENT, offers(4))
    assert len(asked) == 2


def test_looks_ahead_end_with_the_run(asked: list[str]) -> None:
    bench: Any = lambda _: None  # noqa: E731
    written: list[FirstLook] = []
    screening = Screening(task=bench, bench=bench, pool=None, seed=0, watch=bench, record=written.extend)

    def ended(_: str) -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        screening.look_ahead(PARENT, offers(2), ended)
    assert screening.gains(PARENT, offers(2)) == [1.5]
    assert (len(asked), len(written)) == (1, 1)


@pytest.mark.parametrize("end", ["drop", "close"])
def test_looks_ahead_end_once_nobody_wants_them(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(previews, "CORES_TO_SPARE", 1)
    looked: list[str] = []

    class Looking:
        soon: Any = None

        def look_ahead(self, parent: Variant, number: int, tell: Callable[[str], None]) -> None:
            for step in ("1 of 2", "2 of 2"):
                tell(step)
                looked.append(f"{parent.id} {step}")
                if end == "drop":
                    ahead.drop(TEXT.format(1))
                else:
                    ahead.close()

    proposing: Any = Looking()
    ahead = Previews(proposing, is_wanted=True)
    ahead.look_ahead(TEXT.format(1))
    assert looked == [f"{PARENT.id} 1 of 2"]
