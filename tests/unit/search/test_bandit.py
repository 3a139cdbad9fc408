"""The search: what it asks first, what it learns, its controls, and what it remembers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_samples import environment
from task_folders import bare_task

from evo.operators import Context, Proposal, not_one_change, parts
from evo.results import Decision, Evaluation, Gain, Status, Verdict
from evo.search.bandit import OperatorBandit, Prior, Screen, cost_of
from evo.search.tabu import TabuList
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant

TEXT = """\
// evo: knob A in 1, 2, 4
// evo: knob B in 1, 2, 4
// evo: launch k grid (1) block (32) shared 0
#define A 1
#define B 1
extern "C" __global__ void k(const float* a, float* o, int n) {
  float sum = 0.0f;
#pragma unroll A
  for (int i = 0; i < n; ++i) sum += a[i] / 3.0f;
  o[threadIdx.x] = expf(sum);
}
"""
PARENT = parse_variant(TEXT)


def moved(**knobs: int) -> str:
    return PARENT.with_knobs(knobs).text


def proposal(text: str, *, operator: str = "rules.knob", kind: str = "mutation", **arguments: str) -> Proposal:
    return Proposal(
        operator=operator,
        kind=kind,
        variant=parse_variant(text),
        summary="a change",
        reason="",
        expected="",
        risk="",
        arguments=dict(arguments),
    )


class Always:
    """An operator with one list of texts, offered in order."""

    def __init__(self, name: str, texts: Sequence[str]) -> None:
        self.name, self.texts = name, texts

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        left = [text for text in self.texts if parse_variant(text).id not in context.tried]
        return proposal(left[0], operator=self.name) if left else None


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(task=a_task(tmp_path))


def a_task(folder: Path) -> Task:
    return bare_task(name="k", folder=folder, axes={"N": "int"})


def by_text(screen: Callable[[Sequence[str]], Sequence[float | None]]) -> Screen:
    """The first look that says this of the texts of proposals."""
    return lambda offers: screen([offer.text for offer in offers])


def chosen(search: OperatorBandit, context: Context) -> str:
    found = search.ask(PARENT, context)
    assert found is not None
    return found.operator


def test_what_brought_gains_is_asked_again(context: Context) -> None:
    arms = [Always("rules.a", [moved(A=2), moved(A=4)]), Always("rules.b", [moved(B=2), moved(B=4)])]
    search = OperatorBandit(arms, random.Random(0), margin=0.03)
    for _ in range(4):
        search.tell("rules.a", 1.5)
        search.tell("rules.b", None)
    assert chosen(search, context) == "rules.a"
    for _ in range(40):
        search.tell("rules.a", None)
    assert chosen(search, context) == "rules.b"


def test_cheap_failures_count_less_than_whole_trials(context: Context) -> None:
    arms = [Always("rules.a", [moved(A=2)]), Always("rules.b", [moved(B=2)])]
    search = OperatorBandit(arms, random.Random(0), margin=0.03)
    for name, status in (("rules.a", Status.UNCOMPILED), ("rules.b", Status.CORRECT)):
        search.tell(name, 1.2)
        for _ in range(5):
            search.tell(name, None, status=status)
    assert chosen(search, context) == "rules.a"
    assert cost_of(Status.REFUSED) < cost_of(Status.UNCOMPILED) < cost_of(Status.WRONG) < cost_of(Status.MEASURED)


def test_earlier_runs_are_where_it_starts(context: Context) -> None:
    arms = [Always("rules.a", [moved(A=2)]), Always("rules.b", [moved(B=2)])]
    priors = {"rules.a": Prior(trials=40, reward=0.0), "rules.b": Prior(trials=10, reward=2.0)}
    assert chosen(OperatorBandit(arms, random.Random(0), margin=0.03, priors=priors), context) == "rules.b"


def test_the_best_estimate_becomes_the_trial(context: Context) -> None:
    gains = {moved(A=2): 1.1, moved(A=4): 1.9, moved(B=2): 1.4}

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        return [gains[text] for text in texts]

    arms = [Always("rules.knob", [moved(A=2), moved(A=4)]), Always("rules.b", [moved(B=2)])]
    found = OperatorBandit(arms, random.Random(0), margin=0.1).ask(PARENT, context, by_text(screen))
    assert found is not None
    assert found.text == moved(A=4)


MANY = [TEXT.replace("sum += a[i]", f"sum += {number}.0f * a[i]") for number in range(24)]


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(("gaining", "rounds"), [(0, 1), (7, 2), (12, 3), (19, 4)])
def test_a_first_look_ends_with_the_round_that_shows_a_gain(
    gaining: int, rounds: int, eager: bool, context: Context
) -> None:
    """Where looks are modelled, with the next one, if that shows no better gain."""
    looks: list[int] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(len(texts))
        return [1.5 if text == MANY[gaining] else 0.9 for text in texts]

    search = OperatorBandit([Always("rules.knob", MANY)], random.Random(0), margin=0.1, eager=eager)
    found = search.ask(PARENT, context, by_text(screen))
    assert found is not None
    assert found.text == MANY[gaining]
    assert looks == [5] * min(rounds + eager, 4)


def test_what_pays_most_comes_before_what_is_seen_first(context: Context) -> None:
    gains = {MANY[1]: 1.2, MANY[8]: 3.0, MANY[13]: 3.1}

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        return [gains.get(text, 0.9) for text in texts]

    search = OperatorBandit([Always("rules.knob", MANY)], random.Random(0), margin=0.1)
    found = search.ask(PARENT, context, by_text(screen))
    assert found is not None
    assert found.text == MANY[13]


def test_where_the_first_look_shows_no_gain_further_ones_are_short(context: Context) -> None:
    looks: list[int] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(len(texts))
        return [0.9 for _ in texts]

    search = OperatorBandit([Always("rules.knob", MANY)], random.Random(0), margin=0.1)
    found = search.ask(PARENT, context, by_text(screen))
    search.ask(PARENT, replace(context, tried={found.variant.id} if found else set()), by_text(screen))
    assert looks == [5, 5, 5, 5, 1]


@pytest.mark.parametrize("worth", [0.0, 1.02])
def test_a_brief_look_is_one_round(worth: float, context: Context) -> None:
    """For a parent with less to hope for: the best of the round, if it is worth a trial."""
    looks: list[int] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(len(texts))
        return [0.9 for _ in texts]

    search = OperatorBandit([Always("rules.knob", MANY)], random.Random(0), margin=0.1, worth=worth)
    found = search.ask(PARENT, context, by_text(screen), brief=True)
    assert (found is not None) == (worth == 0.0)
    assert looks == [5]


def test_where_looks_are_dear_the_next_round_is_told_while_one_is_looked_at(context: Context) -> None:
    told: list[list[str]] = []
    looks: list[list[str]] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(list(texts))
        return [0.9 for _ in texts]

    arms = [Always("rules.knob", MANY[:12]), Always("rules.b", MANY[12:])]
    search = OperatorBandit(arms, random.Random(0), margin=0.1, eager=False, worth=1.0)
    assert search.ask(PARENT, context, by_text(screen), lambda texts: told.append(list(texts))) is None
    assert len(looks) > 4
    assert looks[2:] == [texts for texts in told if texts][: len(looks) - 2]


def test_the_last_round_of_a_first_look_may_be_empty(context: Context) -> None:
    """Of operators that are asked for one edit there, more are left."""
    edits = [Always("rules.a", MANY[:3]), Always("rules.b", MANY[3:6])]
    search = OperatorBandit(edits, random.Random(0), margin=0.1, worth=1.02)
    found = search.ask(PARENT, context, by_text(lambda texts: [1.05 if text == MANY[5] else 0.9 for text in texts]))
    assert found is not None
    assert found.text == MANY[5]


def test_what_a_look_shows_to_change_nothing_becomes_no_trial(context: Context) -> None:
    looks: list[int] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(len(texts))
        return [1.03 if text == MANY[21] else 1.01 for text in texts]

    search = OperatorBandit([Always("rules.knob", MANY)], random.Random(0), margin=0.1, worth=1.02)
    found = search.ask(PARENT, context, by_text(screen))
    assert found is not None
    assert found.text == MANY[21]
    assert sum(looks) == 22
    assert search.ask(PARENT, replace(context, tried={found.variant.id}), by_text(screen)) is None
    assert sum(looks) == len(MANY)


def test_where_nothing_can_be_looked_at_trials_are_made_as_ever(context: Context) -> None:
    search = OperatorBandit([Always("rules.knob", MANY)], random.Random(0), margin=0.1, worth=1.02)
    assert search.ask(PARENT, context, by_text(lambda texts: [None for _ in texts])) is not None


def test_a_parent_that_is_gone_back_to_is_not_looked_at_anew(context: Context) -> None:
    looks: list[Sequence[str]] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(texts)
        return [1.5 + len(looks) + place for place, _ in enumerate(texts)]

    search = OperatorBandit([Always("rules.knob", [moved(A=2), moved(A=4), moved(B=2)])], random.Random(0), margin=0.03)
    first = search.ask(PARENT, context, by_text(screen))
    search.ask(parse_variant(moved(B=4)), context, by_text(screen))
    assert search.ask(PARENT, context, by_text(screen)) == first
    assert len(looks) == 2
    search.tell("rules.knob", 1.2)  # another champion: what was seen of this one is old
    search.ask(PARENT, context, by_text(screen))
    assert len(looks) == 3


@pytest.mark.parametrize("eager", [True, False])
def test_where_looks_are_dear_the_bandit_chooses_first(eager: bool, context: Context) -> None:
    looks: list[Sequence[str]] = []

    def screen(texts: Sequence[str]) -> Sequence[float | None]:
        looks.append(texts)
        return [1.5 for _ in texts]

    arms = [Always("ladder", [moved(A=2)]), Always("rules.b", [moved(B=2)])]
    search = OperatorBandit(arms, random.Random(0), margin=0.03, eager=eager)
    found = search.ask(PARENT, context, by_text(screen))
    assert found is not None
    assert (found.operator, len(looks)) == (("rules.b", 1) if eager else ("ladder", 0))
    for _ in range(40):
        search.tell("ladder", None)
    found = search.ask(PARENT, context, by_text(screen))
    assert found is not None
    assert (found.operator, len(looks)) == ("rules.b", 1)


@pytest.mark.parametrize("kind", ["random", "best-of-n"])
def test_controls_learn_nothing(kind: str, context: Context) -> None:
    arms = [Always(f"rules.{name}", [moved(A=2)]) for name in "abcd"]
    search = OperatorBandit(arms, random.Random(1), margin=0.03, search=kind)
    for _ in range(50):
        search.tell("rules.a", 9.0)
    drawn = [chosen(search, context) for _ in range(200)]
    assert all(30 <= drawn.count(f"rules.{name}") <= 70 for name in "abcd")


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ((("#define A 1", "#define A 2"), ("#define B 1", "#define B 4")), 2),
        ((("#define A 1", "#define A 2"), ("expf(sum)", "__expf(sum)")), 2),
        ((("unroll A", "unroll 8"), ("expf(sum)", "__expf(sum)")), 2),
        ((("unroll A", "unroll 8"), ("const float* a", "const float* __restrict__ a"), ("expf(", "exp2f(")), 3),
    ],
)
def test_several_changes_are_refused_with_their_parts(
    change: tuple[tuple[str, str], ...], count: int, tmp_path: Path
) -> None:
    text = TEXT
    for before, after in change:
        text = text.replace(before, after)
    refusal = not_one_change(a_task(tmp_path), proposal(text), PARENT)
    assert refusal is not None
    assert f"{count} changes: (1) line" in refusal
    alone = parts(PARENT, text)
    assert len(alone) == count
    for words, part in alone:
        assert words.startswith("line ")
        assert not_one_change(a_task(tmp_path), proposal(part), PARENT) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "// evo: launch k grid (1) block (32) shared 0\n#define A 1",
            "// evo: launch k grid (A) block (32) shared 0\n#define A 2",
        ),
        ("float sum = 0.0f;", "float total = 0.0f;"),
        ("sum += a[i] / 3.0f;\n  o[threadIdx.x] = expf(sum);", "sum += a[i];\n  o[threadIdx.x] = expf(sum / 3.0f);"),
    ],
)
def test_what_must_move_together_is_one_change(before: str, after: str, tmp_path: Path) -> None:
    text = TEXT.replace(before, after)
    if "total" in after:
        text = text.replace("sum", "total")
    assert text != TEXT
    assert not_one_change(a_task(tmp_path), proposal(text), PARENT) is None


def test_comments_are_no_change(tmp_path: Path) -> None:
    refusal = not_one_change(a_task(tmp_path), proposal("// Hello.\n" + TEXT.replace("  float", "    float")), PARENT)
    assert refusal is not None
    assert refusal.startswith("no change")


def test_a_rung_is_its_own_text_but_for_knobs(tmp_path: Path) -> None:
    (tmp_path / "ladder").mkdir()
    (tmp_path / "ladder" / "00_k.cu").write_text(TEXT)
    task = a_task(tmp_path)
    assert not_one_change(task, proposal(moved(A=4), kind="rung", rung="00_k.cu"), PARENT) is None
    other = proposal(TEXT.replace("expf", "__expf"), kind="rung", rung="00_k.cu")
    assert not_one_change(task, other, PARENT) is not None


def evaluation(ratio: float) -> Evaluation:
    gain = Gain(ratio=ratio, low=ratio, high=ratio, confirmed=False)
    decision = Decision(verdict=Verdict.REVERT, reason="slower", gain=gain)
    where = environment()
    return Evaluation(variant="x", status=Status.CORRECT, reason=None, decision=decision, environment=where)


def test_a_loser_is_known_again_beside_other_changes() -> None:
    memory = TabuList()
    slower = proposal(TEXT.replace("expf(sum)", "__expf(sum)"), operator="rules.intrinsics", change_key="fast")
    marked, is_known = memory.recognise(slower, PARENT)
    assert not is_known
    memory.learn("run-0001", marked, PARENT, evaluation(0.9), kept=False)
    later = parse_variant(moved(A=4))
    again = proposal(later.text.replace("expf(sum)", "__expf(sum)"), operator="rules.intrinsics")
    assert memory.recognise(again, later)[1]
    assert memory.losers == {"fast"}
    by_hand, is_known = memory.recognise(proposal(again.text, operator="patch"), later)
    assert (is_known, by_hand.arguments["again"]) == (False, "run-0001")


def test_a_near_miss_may_come_back() -> None:
    memory = TabuList()
    near, _ = memory.recognise(proposal(TEXT.replace("expf(sum)", "__expf(sum)")), PARENT)
    memory.learn("run-0001", near, PARENT, evaluation(1.02), kept=False)
    marked, is_known = memory.recognise(proposal(near.text), PARENT)
    assert (is_known, marked.arguments["again"]) == (False, "run-0001")


def test_no_edit_is_left_behind_because_others_have_none(context: Context) -> None:
    """Eight operators that promise more and have one edit each do not hide the second edit of a ninth."""
    texts = [TEXT.replace("/ 3.0f", f"/ {number}.0f") for number in range(4, 17)]
    many = [Always(f"rules.work{number}", [texts[number]]) for number in range(8)]
    priors = {arm.name: Prior(1, 1.0) for arm in many}
    search = OperatorBandit([*many, Always("rules.unroll", texts[8:])], random.Random(0), margin=0.1, priors=priors)
    tried: set[str] = set()
    while (found := search.ask(PARENT, replace(context, tried=tried), lambda asked: [1.0 for _ in asked])) is not None:
        tried.add(parse_variant(found.text).id)
    assert tried == {parse_variant(text).id for text in texts}


def test_a_preview_is_of_what_the_first_look_is_taken_at_and_changes_nothing(context: Context) -> None:
    arms = [Always("rules.a", [moved(A=2), moved(A=4)]), Always("rules.b", [moved(B=2), moved(B=4)])]
    looked_at: list[list[str]] = []

    def screen(texts: Sequence[str]) -> list[float | None]:
        looked_at.append(list(texts))
        return [2.0 for _ in texts]

    search = OperatorBandit(arms, random.Random(0), margin=0.03)
    search.reseed(random.Random("0/0"))
    texts = [offer.text for offer in search.preview(PARENT, context)]
    search.reseed(random.Random("0/0"))
    assert search.ask(PARENT, context, by_text(screen)) is not None
    assert looked_at[0] == texts
    assert len(texts) >= 2


RUNGS = {"00.cu": moved(A=2), "10.cu": moved(A=2, B=2), "20.cu": moved(A=4, B=4)}


class Rungs:
    """The ladder of these."""

    name = "ladder"

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        left = [(name, text) for name, text in RUNGS.items() if name not in context.rungs_tried]
        return proposal(left[0][1], operator=self.name, kind="rung", rung=left[0][0]) if left else None


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([0.1, 0.9, 1.2], "10.cu"),
        ([1.2, 0.9, 0.1], "00.cu"),
        ([0.1, None, 1.2], "10.cu"),  # what cannot be looked at is tried
        ([0.1, 0.1, 0.1], None),
    ],
)
def test_rungs_that_are_far_slower_are_passed_over(
    looks: list[float | None], expected: str | None, context: Context
) -> None:
    search = OperatorBandit([Rungs()], random.Random(1), margin=0.1)
    offer = search.ask(PARENT, context, by_text(lambda texts: looks))
    assert (offer.arguments["rung"] if offer else None) == expected


def test_a_rung_is_looked_at_once_however_the_champion_changes(context: Context) -> None:
    search = OperatorBandit([Rungs()], random.Random(1), margin=0.1)
    asked: list[int] = []

    def screen(texts: Sequence[str]) -> list[float | None]:
        asked.append(len(texts))
        return [0.9, 1.2, 2.4]

    assert (first := search.ask(PARENT, context, by_text(screen))) is not None
    search.tell("ladder", 2.0)
    assert (second := search.ask(first.variant, context, by_text(screen))) is not None
    assert [first.arguments["rung"], second.arguments["rung"]] == ["00.cu", "20.cu"]
    assert asked == [3]
